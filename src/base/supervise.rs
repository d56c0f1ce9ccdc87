//! The task tree's rules: nothing is spawned and forgotten, and a panic is an error of its task.

use std::{collections::BTreeSet, panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use vidra_core::mutants::{self, Mutant};

use super::{backoff::Pauses, env::Rng};

/// Runs a task that can be begun again; after a panic it is, later and later.
pub async fn supervised<F: Future<Output = ()>>(name: &str, rng: &dyn Rng, mut task: impl FnMut() -> F) {
    let mut pauses = Pauses::default();
    while AssertUnwindSafe(task()).catch_unwind().await.is_err() {
        tracing::error!(task = name, "a task panicked; the hub starts it again");
        pauses.pause(rng).await;
    }
}

/// Why the hub ends though nobody asked it to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// The first list of one of its kinds failed, and the settings say that this ends the process.
    #[error(
        "the first list of {kind} failed: {error}; the setting informer.onStartupError is Stop: fix what failed, or set it to Continue"
    )]
    FirstList {
        /// The kind.
        kind: String,
        /// What failed.
        error: String,
    },
    /// The hub's own API server was restored from a backup.
    #[error(
        "the hub's API server was restored from a backup: the resourceVersion of its {kind} objects went back, or was raised. The process ends, to be started again and to read everything again"
    )]
    Restored {
        /// The kind whose list showed it.
        kind: String,
    },
    /// Of one of the hub's kinds nothing could be seen for minutes, while the Lease was renewed.
    #[error(
        "nothing of {kind} could be seen on the hub for 150 s: {error}. What this process would decide by is old: it ends, to be started again and to wait until all can be read. Give it its right to list and watch them, or find out why the hub's API server does not serve them"
    )]
    Blind {
        /// The kind.
        kind: String,
        /// The last failure.
        error: String,
    },
    /// What the hub keeps for itself says, while it runs, that it is another hub's.
    #[error(
        "OfAnotherHub: {found} is of the hub {other}, and this is the hub {ours}: somebody restored it here while this hub ran. The process ends and changes nothing of it. Take its finalizers off and delete it, or restore the identity of {other}, or start with --adopt-hub-state"
    )]
    OfAnotherHub {
        /// The object.
        found: String,
        /// Whose it is.
        other: String,
        /// This hub's id.
        ours: String,
    },
    /// A task that holds what nobody else has panicked.
    #[error("the {task} panicked; the process ends, to be started again. Please report it with the log")]
    Panicked {
        /// The task.
        task: &'static str,
    },
}

/// The tasks without which the hub does not work, as far as they do not run: they panicked and are not begun again yet, or
/// ended by themselves. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Fallen(Arc<Mutex<BTreeSet<&'static str>>>);

impl Fallen {
    /// Their names.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.lock().iter().copied().collect()
    }

    /// Nothing is to run any more.
    pub fn forget(&self) {
        self.0.lock().clear();
    }
}

/// Ends everything that the hub runs.
#[derive(Debug, Default)]
pub struct Stop {
    /// Is cancelled then.
    pub token: CancellationToken,
    why: Mutex<Option<Halt>>,
    fallen: Fallen,
}

impl Stop {
    /// Ends everything by this token. What does not run until then is noted in `fallen`.
    pub fn new(token: CancellationToken, fallen: Fallen) -> Self {
        Self { token, why: Mutex::default(), fallen }
    }

    /// Runs a task that is to run until everything ends.
    pub async fn runs(&self, task: &'static str, work: impl Future<Output = ()>) {
        let _noted = Noted { task, stop: self };
        self.fallen.0.lock().remove(task);
        work.await;
    }

    /// Ends everything, for this; of several reasons the first is told.
    pub fn halt(&self, why: Halt) {
        tracing::error!(%why, "the hub ends");
        self.why.lock().get_or_insert(why);
        self.token.cancel();
    }

    /// Why everything was ended, if nobody asked for it.
    pub fn why(&self) -> Option<Halt> {
        self.why.lock().clone()
    }
}

/// Notes, however a task ended, that it does not run.
struct Noted<'a> {
    task: &'static str,
    stop: &'a Stop,
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        if !self.stop.token.is_cancelled() {
            self.stop.fallen.0.lock().insert(self.task);
        }
    }
}

/// Runs a task that holds what nobody else has; after a panic everything ends, to be started again.
pub async fn vital(task: &'static str, stop: &Stop, work: impl Future<Output = ()>) {
    let panicked = AssertUnwindSafe(stop.runs(task, work)).catch_unwind().await.is_err();
    if panicked && !mutants::is(Mutant::VitalGoesOn) {
        stop.halt(Halt::Panicked { task });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::env::SeededRng;
    use std::{
        sync::atomic::{AtomicU32, Ordering},
        time::Duration,
    };

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_begun_again_until_it_ends() {
        let runs = AtomicU32::new(0);
        supervised("test", &SeededRng::new(1), || async {
            assert!(runs.fetch_add(1, Ordering::Relaxed) >= 2, "panics twice");
        })
        .await;
        assert_eq!(runs.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn the_panic_of_a_vital_task_stops_everything_and_is_told() {
        let stop = Stop::default();
        vital("test", &stop, async { panic!("on purpose") }).await;
        assert!(stop.token.is_cancelled());
        assert_eq!(stop.why(), Some(Halt::Panicked { task: "test" }));
        let stop = Stop::default();
        vital("test", &stop, async {}).await;
        assert!(!stop.token.is_cancelled() && stop.why().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_panicked_or_ended_by_itself_does_not_run_until_it_is_begun_again() {
        let (stop, rng, runs) = (Stop::default(), SeededRng::new(1), AtomicU32::new(0));
        let begin = || async {
            assert_eq!(stop.fallen.names(), [""; 0]);
            assert!(runs.fetch_add(1, Ordering::Relaxed) > 0, "on purpose");
            tokio::time::sleep(Duration::from_secs(60)).await;
        };
        let watches = supervised("watches", &rng, || stop.runs("watches", begin()));
        let ask = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(stop.fallen.names(), ["watches"], "it panicked");
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert_eq!(stop.fallen.names(), [""; 0], "it was begun again");
        };
        tokio::join!(watches, ask);
        assert_eq!(stop.fallen.names(), ["watches"], "it ended by itself");
        vital("timer", &stop, async { panic!("on purpose") }).await;
        assert_eq!(stop.fallen.names(), ["timer", "watches"]);

        let ending = Stop::default();
        ending.token.cancel();
        ending.runs("watches", async {}).await;
        assert_eq!(ending.fallen.names(), [""; 0], "all is to end");
    }
}

//! The Lease, kept on a thread of its own: with a thousand members joining, the other threads may have seconds
//! of work before a renewal would have its turn there, and a hub that does not renew must end. So that thread also looks
//! whether the others work at all: it would renew for a hub that hangs for ever.

use std::{
    future::pending,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;
use vidra_core::contact;

use super::lease::{Claim, Tenure};

/// How often the threads that work show that they do.
const BEAT: Duration = Duration::from_secs(1);
/// So many beats that were looked for in time and did not come: they hang.
const MISSED: u32 = 30;

/// Shows that the threads of a runtime work. Clones are of the same one.
#[derive(Clone)]
pub struct Pulse {
    every: Duration,
    beats: Arc<AtomicU64>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self::new(BEAT)
    }
}

impl Pulse {
    /// One that beats so often.
    pub fn new(every: Duration) -> Self {
        Self { every, beats: Arc::default() }
    }

    /// Beats for as long as the runtime on which this is polled works; ends never.
    pub async fn beat(self) {
        loop {
            self.beats.fetch_add(1, Ordering::SeqCst);
            sleep(self.every).await;
        }
    }

    /// Calls `end` when it has missed too many beats. What this thread itself looked for too late counts for nothing.
    pub async fn watch(self, end: impl FnOnce()) {
        let (mut last, mut missed) = (0, 0);
        while missed < MISSED {
            let due = Instant::now() + self.every;
            sleep_until(due).await;
            let beats = self.beats.load(Ordering::SeqCst);
            missed = contact::misses(missed, beats != last, false, due.elapsed());
            last = beats;
        }
        tracing::error!(
            "the threads of this process hang: nothing ran on them for {} s. It ends without giving the Lease back. Please report it with the log",
            (self.every * MISSED).as_secs_f32()
        );
        end();
    }
}

/// Why the Lease is not kept.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError<E> {
    /// The thread could not be started.
    #[error("cannot start the thread that keeps the Lease: {0}")]
    Thread(#[from] io::Error),
    /// It ended by itself: something in it panicked.
    #[error("the thread that keeps the Lease ended by itself; see the log")]
    Died,
    /// The claim could not be made.
    #[error(transparent)]
    Claim(E),
}

/// A Lease that was acquired.
pub struct Keeper {
    /// What those ask who write under it.
    pub tenure: Arc<Tenure>,
    held: oneshot::Receiver<bool>,
    over: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

impl Keeper {
    /// Makes the claim on a thread of its own, where its client has to live, and waits until the Lease is ours;
    /// `None`: until `stop`. `beside` runs on that thread too, for as long as it keeps the Lease or waits for it.
    pub async fn acquire<E: Send + 'static>(
        make: impl Future<Output = Result<Claim, E>> + Send + 'static,
        stop: CancellationToken,
        beside: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Option<Self>, KeeperError<E>> {
        let (say_acquired, acquired) = oneshot::channel();
        let (say_held, held) = oneshot::channel();
        let (over, is_over) = oneshot::channel();
        let (say_ended, ended) = oneshot::channel();
        let keep = async move {
            let claim = match make.await {
                Ok(claim) => claim,
                Err(error) => return drop(say_acquired.send(Err(error))),
            };
            let ours = stop.run_until_cancelled(claim.acquire()).await.is_some();
            if say_acquired.send(Ok(ours.then(|| claim.tenure()))).is_err() || !ours {
                return;
            }
            let held = claim.hold(stop).await;
            let _ = say_held.send(held);
            // The hub writes until it has ended; dropped unsaid, it has ended too.
            let _ = is_over.await;
            if held {
                claim.release().await;
            }
            let _ = say_ended.send(());
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("lease".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = keep => {}
                    () = async { beside.await; pending().await } => {}
                }
            })
        })?;
        match acquired.await {
            Ok(Ok(Some(tenure))) => Ok(Some(Self { tenure, held, over, ended })),
            Ok(Ok(None)) => Ok(None),
            Err(_) => Err(KeeperError::Died),
            Ok(Err(error)) => Err(KeeperError::Claim(error)),
        }
    }

    /// Waits until it is held no longer: true, `stop` came; false, it was lost.
    pub async fn held(&mut self) -> bool {
        (&mut self.held).await.unwrap_or(false)
    }

    /// The hub has ended: the Lease is given back, if it is held.
    pub async fn end(self) {
        let Self { over, ended, .. } = self;
        let _ = over.send(());
        let _ = ended.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_of_the_thread_that_keeps_the_lease_is_an_error_and_no_end_that_was_asked_for() {
        let claim = async { panic!("on purpose") };
        let ended =
            Keeper::acquire::<std::convert::Infallible>(claim, CancellationToken::new(), pending()).await;
        assert!(matches!(ended, Err(KeeperError::Died)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pulse_that_stands_still_for_thirty_beats_is_missed_and_one_that_beats_is_not() {
        let (pulse, mut is_missed) = (Pulse::default(), false);
        let watch = pulse.clone().watch(|| is_missed = true);
        tokio::select! {
            () = watch => panic!("it beats"),
            () = pulse.clone().beat() => {}
            () = sleep(Duration::from_secs(24 * 3600)) => {}
        }
        assert!(!is_missed);
        let stopped = Instant::now();
        pulse.watch(|| is_missed = true).await;
        assert!(is_missed && stopped.elapsed() >= 30 * BEAT, "{:?}", stopped.elapsed());
    }
}

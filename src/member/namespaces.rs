//! Namespaces that a member lacks: whoever finds out that one is missing makes it, and those who find it out beside have that
//! one's answer.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::Mutex as Turn, time::Instant};
use vidra_core::mutants::{self, Mutant};

use crate::base::error::{CallError, Class};

/// Nobody waits longer for the answer to a call that was sent before.
const KEPT: Duration = Duration::from_secs(60);

/// The last attempt to make one.
struct Attempt {
    ended: Instant,
    answer: Result<bool, CallError>,
}

/// Attempts to create missing namespaces, by name.
#[derive(Default)]
pub(super) struct Namespaces(Mutex<BTreeMap<String, Arc<Turn<Option<Attempt>>>>>);

impl Namespaces {
    /// Makes the namespace by `create`, which says whether it did or it was there; unless an attempt ended since `sent`,
    /// when the call was sent that found it missing: then that one's answer counts. At most one attempt for each namespace
    /// is under way.
    ///
    /// # Errors
    /// What `create` says.
    pub(super) async fn make(
        &self,
        name: &str,
        sent: Instant,
        create: impl Future<Output = Result<bool, CallError>>,
    ) -> Result<bool, CallError> {
        let turn = self.turn(name);
        let mut last = turn.lock().await;
        let counts = |last: &&Attempt| last.ended >= sent && !mutants::is(Mutant::NamespaceForEach);
        if let Some(last) = last.as_ref().filter(counts) {
            return last.answer.clone();
        }
        let answer = create.await;
        // What ends one that makes it is no answer for another one.
        let is_withdrawn = answer.as_ref().is_err_and(|error| error.class == Class::Withdrawn);
        if !is_withdrawn {
            *last = Some(Attempt { ended: Instant::now(), answer: answer.clone() });
        }
        answer
    }

    fn turn(&self, name: &str) -> Arc<Turn<Option<Attempt>>> {
        let mut all = self.0.lock();
        let now = Instant::now();
        let is_recent = |last: &Option<Attempt>| last.as_ref().is_some_and(|last| now - last.ended < KEPT);
        all.retain(|_, turn| {
            Arc::strong_count(turn) > 1 || turn.try_lock().map_or(true, |last| is_recent(&last))
        });
        all.entry(name.to_owned()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use futures::{future::join_all, poll};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_attempt_answers_all_that_found_it_missing_before_it_ended() {
        let (namespaces, calls, sent) = (Namespaces::default(), AtomicUsize::new(0), Instant::now());
        let create = async || {
            calls.fetch_add(1, Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(true)
        };
        let answers = join_all((0..100).map(|_| namespaces.make("shop", sent, create()))).await;
        assert!(answers.into_iter().all(|answer| answer.unwrap()));
        // One whose answer was late.
        assert!(namespaces.make("shop", sent, create()).await.unwrap());
        assert_eq!(calls.load(Relaxed), 1);
        // It was deleted meanwhile.
        tokio::time::advance(Duration::from_millis(1)).await;
        namespaces.make("shop", Instant::now(), create()).await.unwrap();
        assert_eq!(calls.load(Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_everybodys_and_the_end_of_one_that_makes_it_is_nobody_elses() {
        let namespaces = Namespaces::default();
        let sent = Instant::now();
        let refused = CallError { class: Class::Forbidden, message: "no".into() };
        let withdrawn = CallError { class: Class::Withdrawn, message: "ended".into() };
        namespaces.make("shop", sent, async { Err(withdrawn) }).await.unwrap_err();
        namespaces.make("shop", sent, async { Err(refused) }).await.unwrap_err();
        let answer = namespaces.make("shop", sent, async { Ok(true) }).await;
        assert_eq!(answer.unwrap_err().class, Class::Forbidden);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_is_asked_for_is_the_same_for_all() {
        let namespaces = Namespaces::default();
        let first = namespaces.turn("shop");
        drop(namespaces.turn("other"));
        assert!(Arc::ptr_eq(&first, &namespaces.turn("shop")));
    }

    #[tokio::test(start_paused = true)]
    async fn namespaces_do_not_wait_for_each_other_and_are_forgotten() {
        let namespaces = Namespaces::default();
        let mut stuck = pin!(namespaces.make("stuck", Instant::now(), std::future::pending()));
        assert!(poll!(stuck.as_mut()).is_pending());
        for index in 0..1000 {
            let name = format!("shop-{index}");
            namespaces.make(&name, Instant::now(), async { Ok(true) }).await.unwrap();
        }
        tokio::time::advance(KEPT).await;
        namespaces.make("last", Instant::now(), async { Ok(true) }).await.unwrap();
        assert_eq!(namespaces.0.lock().len(), 2);
    }
}

//! Doubt about who answers. After a connection broke, another cluster may be behind the address: until the uid of the
//! one that answers was read again, nothing is written.

use std::{
    collections::BTreeSet,
    mem,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use vidra_core::mutants::{self, Mutant};

use crate::workqueue::TargetKey;

/// Whether it is known who answers at a member's address, and who waits for that.
#[derive(Debug, Default)]
pub struct Doubt {
    raised: AtomicU64,
    settled: AtomicU64,
    /// They look again when it is settled.
    waits: Mutex<BTreeSet<TargetKey>>,
    /// Watches that are open.
    open: AtomicUsize,
    news: Notify,
}

/// A watch that is open.
pub struct Open<'a>(&'a Doubt);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Doubt {
    /// A watch was opened, and is until this is dropped.
    pub fn watches(&self) -> Open<'_> {
        self.open.fetch_add(1, Ordering::SeqCst);
        Open(self)
    }

    /// No watch is open, so no connection breaks when another cluster comes to be there.
    pub fn is_blind(&self) -> bool {
        self.open.load(Ordering::SeqCst) == 0 && !mutants::is(Mutant::GapsTrusted)
    }

    /// An informer was answered: who did that is not known where no watch was open.
    pub fn note_answer(&self) {
        if self.is_blind() {
            self.raise();
        }
    }

    /// A connection broke.
    pub fn raise(&self) {
        if mutants::is(Mutant::NoDoubt) {
            return;
        }
        self.raised.fetch_add(1, Ordering::SeqCst);
        self.news.notify_one();
    }

    /// How often it was raised; to be given to [`Doubt::settle`] when what was asked after this is answered.
    pub fn count(&self) -> u64 {
        self.raised.load(Ordering::SeqCst)
    }

    /// It is not known who answers.
    pub fn is_open(&self) -> bool {
        self.settled.load(Ordering::SeqCst) < self.count()
    }

    /// Who answers was asked when it had been raised so often, and is known. Returns those that waited for that: the others
    /// have nothing to look for.
    pub fn settle(&self, count: u64) -> BTreeSet<TargetKey> {
        self.settled.fetch_max(count, Ordering::SeqCst);
        if self.is_open() { BTreeSet::new() } else { mem::take(&mut self.waits.lock()) }
    }

    /// A target is to look again when it is settled.
    pub fn wait(&self, key: &TargetKey) {
        self.waits.lock().insert(key.clone());
    }

    /// Returns when it was raised since the last time.
    pub async fn raised(&self) {
        self.news.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_in_doubt_where_no_watch_was_open() {
        let doubt = Doubt::default();
        doubt.note_answer();
        assert!(doubt.is_open());
        doubt.settle(doubt.count());
        let first = doubt.watches();
        let second = doubt.watches();
        doubt.note_answer();
        drop(first);
        doubt.note_answer();
        assert!(!doubt.is_open(), "a connection would have broken");
        drop(second);
        doubt.note_answer();
        assert!(doubt.is_open());
    }

    #[test]
    fn what_was_asked_before_a_doubt_does_not_settle_it() {
        let doubt = Doubt::default();
        assert!(!doubt.is_open());
        doubt.raise();
        let asked = doubt.count();
        doubt.raise();
        let key = TargetKey::new("team", "app", "berlin");
        doubt.wait(&key);
        assert!(doubt.settle(asked).is_empty() && doubt.is_open());
        assert_eq!(doubt.settle(doubt.count()), BTreeSet::from([key]));
        assert!(!doubt.is_open());
        assert!(doubt.settle(doubt.count()).is_empty(), "nobody waits any more");
    }
}

//! Objects that were applied from a later declaration than the hub knows: a hub that was restored from an older
//! backup, or rebuilt from an older commit, would undo what was delivered since.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use vidra_core::object::ObjectKey;

use crate::workqueue::TargetKey;

/// What a target's live objects say of the declarations that they were applied from.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Generations {
    /// The highest generation of the VidraResource among them.
    pub highest: i64,
    /// Objects that are declared otherwise now, and were applied at a generation above the one that is known.
    pub later: usize,
    /// The first of these, and its generation.
    pub example: Option<(ObjectKey, i64)>,
}

impl Generations {
    /// Of an object the generation at which it was applied; `is_later`: it is declared otherwise now, and was applied at one
    /// above that which is known.
    pub(super) fn note(&mut self, key: &ObjectKey, generation: i64, is_later: bool) {
        self.highest = self.highest.max(generation);
        if is_later {
            self.later += 1;
            self.example.get_or_insert_with(|| (key.clone(), generation));
        }
    }
}

/// How many such objects each target of a member has found: together they tell whether the hub is behind.
#[derive(Debug, Default)]
pub struct LaterGenerations {
    found: Mutex<BTreeMap<TargetKey, usize>>,
    /// All that the hub has there was looked at once.
    complete: AtomicBool,
    /// Who waits for that, and whether it is to deliver something new.
    waiting: Mutex<BTreeMap<TargetKey, bool>>,
}

impl LaterGenerations {
    /// A target tells what it found; returns what all had found before, and now.
    pub fn note(&self, target: &TargetKey, count: usize) -> (usize, usize) {
        let mut all = self.found.lock();
        let before = all.values().sum();
        all.insert(target.clone(), count);
        (before, all.values().sum())
    }

    /// How many all have found.
    pub fn total(&self) -> usize {
        self.found.lock().values().sum()
    }

    /// How many all but this one have found.
    pub fn of_others(&self, target: &TargetKey) -> usize {
        self.found.lock().iter().filter(|(key, _)| *key != target).map(|(_, count)| count).sum()
    }

    /// The target has been looked at, or cannot be. Returns whether that is news.
    pub fn note_looked(&self, target: &TargetKey) -> bool {
        let mut all = self.found.lock();
        !all.contains_key(target) && all.insert(target.clone(), 0).is_none()
    }

    /// Whether the target has been looked at, or cannot be.
    pub fn has_looked(&self, target: &TargetKey) -> bool {
        self.found.lock().contains_key(target)
    }

    /// All that the hub has there was looked at. Returns who waits for that, and whether it is to deliver something new.
    pub fn complete(&self) -> BTreeMap<TargetKey, bool> {
        self.complete.store(true, Ordering::Relaxed);
        std::mem::take(&mut *self.waiting.lock())
    }

    /// Whether all that the hub has there was looked at once.
    pub fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Relaxed)
    }

    /// A target waits until all that the hub has there was looked at.
    pub fn wait(&self, target: &TargetKey, is_new: bool) {
        self.waiting.lock().insert(target.clone(), is_new);
    }

    /// The target is gone.
    pub fn forget(&self, target: &TargetKey) {
        self.waiting.lock().remove(target);
        self.found.lock().remove(target);
    }

    /// All of these have looked, and found nothing.
    pub fn is_over(&self, targets: &[TargetKey]) -> bool {
        let all = self.found.lock();
        targets.iter().all(|target| all.get(target) == Some(&0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_targets_find_adds_up_and_is_over_when_the_last_has_found_nothing() {
        let [one, two, three] = ["one", "two", "three"].map(|name| TargetKey::new("ns", name, "berlin"));
        let later = LaterGenerations::default();
        assert_eq!(later.note(&one, 4), (0, 4));
        assert_eq!(later.note(&two, 2), (4, 6));
        assert_eq!((later.total(), later.of_others(&one)), (6, 2));
        assert_eq!(later.note(&one, 0), (6, 2));
        assert!(!later.is_over(&[one.clone(), two.clone()]));
        assert_eq!(later.note(&two, 0), (2, 0));
        assert!(later.is_over(&[one.clone(), two.clone()]));
        assert!(!later.is_over(&[one, three]), "one that has not looked says nothing");
    }

    #[test]
    fn what_a_target_that_is_gone_had_found_holds_nobody_up() {
        let [one, two] = ["one", "two"].map(|name| TargetKey::new("ns", name, "berlin"));
        let later = LaterGenerations::default();
        later.note(&one, 6);
        later.note(&two, 1);
        later.forget(&one);
        assert_eq!((later.total(), later.of_others(&two)), (1, 0));
        assert!(!later.has_looked(&one), "one of its name that is made later has not been looked at");
    }
}

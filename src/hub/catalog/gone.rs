//! What is gone for good. The answer to a write may come after a watch has told that the object is gone; folded, it would
//! bring it back, and nothing would ever take it away: a uid is used once.

use std::collections::{BTreeSet, VecDeque};

use super::Catalog;

/// The uids that went last.
pub(super) struct Gone {
    /// So many are remembered.
    most: usize,
    uids: BTreeSet<String>,
    order: VecDeque<String>,
}

impl Gone {
    pub(super) fn new(most: usize) -> Self {
        Self { most, uids: BTreeSet::new(), order: VecDeque::new() }
    }

    /// An object without a uid is not known to be gone.
    pub(super) fn has(&self, uid: Option<&str>) -> bool {
        uid.is_some_and(|uid| self.uids.contains(uid))
    }

    fn forget(&mut self, uid: &str) {
        if self.uids.remove(uid) {
            self.order.retain(|one| one != uid);
        }
    }

    fn note(&mut self, uid: String) {
        if self.uids.insert(uid.clone()) {
            self.order.push_back(uid);
        }
        if self.order.len() > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }
}

impl Catalog {
    /// A watch has told that the object with this uid is gone: whatever comes of it from now on is late.
    pub fn note_gone(&self, uid: Option<String>) {
        if let Some(uid) = uid {
            self.inner.write().gone.note(uid);
        }
    }

    /// A watch shows it: a server that was restored from a backup has it again.
    pub fn note_there(&self, uid: Option<&str>) {
        let was_gone = self.inner.read().gone.has(uid);
        if let Some(uid) = uid.filter(|_| was_gone) {
            self.inner.write().gone.forget(uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: usize = 40;

    #[test]
    fn the_last_ones_are_remembered() {
        let mut gone = Gone::new(KEPT);
        assert!(!gone.has(None) && !gone.has(Some("0")));
        for number in 0..=KEPT {
            gone.note(number.to_string());
            gone.note(number.to_string());
        }
        assert!(!gone.has(Some("0")) && gone.has(Some("1")) && gone.has(Some(&KEPT.to_string())));
        assert_eq!((gone.uids.len(), gone.order.len()), (KEPT, KEPT));
        gone.forget("1");
        assert!(!gone.has(Some("1")));
        assert_eq!((gone.uids.len(), gone.order.len()), (KEPT - 1, KEPT - 1));
    }
}

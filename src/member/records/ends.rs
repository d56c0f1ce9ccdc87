//! Objects that were deleted while a list was under way: a later page may have been read before that and must not bring them
//! back, for the watch sends DELETED only once.

use std::collections::BTreeMap;

use vidra_core::{
    mutants::{self, Mutant},
    object::ObjectKey,
    uid::Uid,
};

use super::{Records, Source};

/// Ends since the first of the lists under way began; none is kept while there is no list. At most as many as objects have
/// ended meanwhile.
#[derive(Default)]
pub(super) struct Ends {
    lists: usize,
    /// The version at which the object with this uid was deleted: what a list shows of it up to that is stale.
    at: BTreeMap<(ObjectKey, Uid), u64>,
}

impl Ends {
    /// An object with this uid is not seen any more, as of this version (`u64::MAX`: for good).
    pub(super) fn note(&mut self, key: &ObjectKey, uid: &str, at: u64) {
        if self.lists > 0 && !uid.is_empty() {
            let known = self.at.entry((key.clone(), uid.into())).or_default();
            *known = at.max(*known);
        }
    }

    /// What a list shows of it is of the time before its end.
    pub(super) fn is_stale(&self, key: &ObjectKey, uid: &str, version: u64, source: Source<'_>) -> bool {
        matches!(source, Source::List(_) | Source::Beside(_))
            && !self.at.is_empty()
            && self.at.get(&(key.clone(), uid.into())).is_some_and(|at| version <= *at)
            && !mutants::is(Mutant::ListBringsBack)
    }

    /// No list is under way any more; or the member was put back to what it was, and may have all of it again.
    pub(super) fn clear(&mut self) {
        self.at.clear();
    }
}

/// A list under way, until it is dropped.
pub struct ListGuard<'a>(&'a Records);

impl<'a> ListGuard<'a> {
    /// A list begins. To be taken before its mark.
    pub fn new(records: &'a Records) -> Self {
        records.inner.lock().ends.lists += 1;
        Self(records)
    }
}

impl Drop for ListGuard<'_> {
    fn drop(&mut self) {
        let mut inner = self.0.inner.lock();
        inner.ends.lists -= 1;
        if inner.ends.lists == 0 {
            inner.ends.clear();
        }
    }
}

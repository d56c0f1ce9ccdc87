//! What is news of an object, and what was told before.

use vidra_core::{
    mutants::{self, Mutant},
    object::ObjectKey,
};

use super::{Inner, Record, Records, Source};
use crate::queue::TargetKey;

impl Records {
    /// What a watch tells of this version of an object changes nothing: an answer, or another event, has told it or a
    /// later one.
    pub fn is_known(&self, key: &ObjectKey, uid: &str, version: &str) -> bool {
        let version = version.parse().unwrap_or(0);
        let inner = self.inner.lock();
        let record = inner.objects.get(key).filter(|record| record.uid == *uid);
        record.is_some_and(|record| is_old_news(record, version, Source::Watch))
    }
}

impl Inner {
    /// The answer of an owner's apply came after a later version was folded, as another owner's answer: what the owner's
    /// values were compared with there is of before its apply. Its target is to look once more.
    pub(super) fn overtake(&mut self, key: &ObjectKey, answer: Source<'_>) -> Option<TargetKey> {
        let Source::Answer(own) = answer else { return None };
        if mutants::is(Mutant::OvertakenCounts) {
            return None;
        }
        let record = self.objects.get_mut(key)?;
        record.views.iter_mut().find(|view| view.owner == *own)?.base.doubt();
        self.owners.get(own).map(|owner| owner.target.clone())
    }
}

/// An event that was overtaken by the answer of a call, or by what a list showed since.
///
/// resourceVersions are compared within one watch session only. A list replaces what it shows, unless the
/// record was folded after the list began.
pub(super) fn is_old_news(before: &Record, resource_version: u64, source: Source<'_>) -> bool {
    match source {
        Source::Watch => resource_version != 0 && resource_version <= before.resource_version,
        Source::List(mark) => before.folded > mark && resource_version <= before.resource_version,
        Source::Answer(_) | Source::Read => resource_version < before.resource_version,
    }
}

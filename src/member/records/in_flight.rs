//! Objects with a call under way: what watches and lists tell of them waits for the call's answer.
//!
//! The answer of a write gives the baseline, and it may come after the events of later writes, or of the
//! object's end. Folded in the order of arrival it would be taken for old, and our own change for drift; or it
//! would bring back an object that is gone, for good. The last of what arrived is kept, for each object with a
//! call under way: so at most as many as there are calls.

use std::collections::BTreeMap;

use vidra_core::{
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey},
};

use super::Source;
use crate::member::live::Live;

/// Calls under way by object, each with the newest event that waits for it.
#[derive(Default)]
pub(super) struct InFlight {
    calls: BTreeMap<ObjectKey, Calls>,
}

/// Calls under way for one object.
#[derive(Default)]
struct Calls {
    count: usize,
    deferred: Option<Deferred>,
}

/// What arrived last.
pub(super) enum Deferred {
    /// From a watch or a list.
    Live { gvk: Gvk, live: Box<Live>, source: Source<'static> },
    /// A watch's DELETED.
    Gone { uid: String, resource_version: String },
    /// A list of this version that does not show it.
    Unlisted { at: u64 },
}

impl Deferred {
    /// The resourceVersion of what it tells; 0 where that is no number.
    fn version(&self) -> u64 {
        match self {
            Self::Live { live, .. } => live.resource_version().parse().unwrap_or(0),
            Self::Gone { resource_version, .. } => resource_version.parse().unwrap_or(0),
            Self::Unlisted { at } => *at,
        }
    }
}

impl InFlight {
    /// A call begins.
    pub(super) fn begin(&mut self, key: &ObjectKey) {
        self.calls.entry(key.clone()).or_default().count += 1;
    }

    /// A call has ended; after the last, what waited.
    pub(super) fn end(&mut self, key: &ObjectKey) -> Option<Deferred> {
        let calls = self.calls.get_mut(key)?;
        calls.count -= 1;
        if calls.count > 0 {
            return None;
        }
        self.calls.remove(key).and_then(|calls| calls.deferred)
    }

    /// Keeps what a watch or a list shows of an object with a call under way; gives it back where there is none.
    pub(super) fn defer(
        &mut self,
        key: &ObjectKey,
        gvk: &Gvk,
        live: Live,
        source: Source<'_>,
    ) -> Option<Live> {
        let source = match source {
            Source::Watch => Source::Watch,
            Source::List(mark) => Source::List(mark),
            Source::Beside(mark) => Source::Beside(mark),
            Source::Answer(_) | Source::Read => return Some(live),
        };
        let Some(calls) = self.calls.get_mut(key) else { return Some(live) };
        let is_older = |known: &Deferred| known.version() >= live.resource_version().parse().unwrap_or(0);
        // What a watch has told is never older than a list beside it, and may be newer than any other.
        let yields = calls.deferred.as_ref().is_some_and(|known| match source {
            Source::Beside(_) => true,
            Source::List(_) => is_older(known) && !mutants::is(Mutant::ListBringsBack),
            _ => false,
        });
        if !yields {
            calls.deferred = Some(Deferred::Live { gvk: gvk.clone(), live: Box::new(live), source });
        }
        None
    }

    /// Keeps a DELETED of an object with a call under way; false where there is none. What a call found gone (no
    /// resourceVersion) is certain, and is not kept.
    pub(super) fn defer_gone(&mut self, key: &ObjectKey, uid: &str, resource_version: &str) -> bool {
        match self.calls.get_mut(key) {
            Some(calls) if !resource_version.is_empty() => {
                let (uid, resource_version) = (uid.to_owned(), resource_version.to_owned());
                calls.deferred = Some(Deferred::Gone { uid, resource_version });
                true
            }
            _ => false,
        }
    }

    /// Calls are under way for objects that a list of this version (0: it is no number) does not show: what they are
    /// answered with is gone, unless it is newer; and so is what waits, which another informer may have told.
    pub(super) fn note_unlisted(&mut self, at: u64, is_unlisted: impl Fn(&ObjectKey) -> bool) {
        if at == 0 {
            return;
        }
        for (_, calls) in self.calls.iter_mut().filter(|(key, _)| is_unlisted(key)) {
            let is_newer =
                |deferred: &Deferred| deferred.version() > at && !mutants::is(Mutant::UnlistedCounts);
            if !calls.deferred.as_ref().is_some_and(is_newer) {
                calls.deferred = Some(Deferred::Unlisted { at });
            }
        }
    }

    /// What waits is of the past now, for all or for one kind.
    pub(super) fn forget_deferred(&mut self, of: impl Fn(&ObjectKey) -> bool) {
        self.calls.iter_mut().filter(|(key, _)| of(key)).for_each(|(_, calls)| calls.deferred = None);
    }

    /// For how many objects there are calls.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }
}

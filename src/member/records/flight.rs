//! An object with a call under way: what watches and lists tell of it waits for the call's answer.
//!
//! The answer of a write gives the baseline, and it may come after the events of later writes, or of the
//! object's end. Folded in the order of arrival it would be taken for old, and our own change for drift; or it
//! would bring back an object that is gone, for good. The last of what arrived is kept, for each object with a
//! call under way: so at most as many as there are calls.

use vidra_core::object::{Gvk, ObjectKey};

use super::{Inner, Records, Source};
use crate::{member::live::Live, queue::TargetKey};

/// Calls under way for one object.
#[derive(Default)]
pub(super) struct Calls {
    count: usize,
    news: Option<News>,
}

/// What arrived last.
enum News {
    /// From a watch, or from a list that began at this mark.
    Live { gvk: Gvk, live: Box<Live>, mark: Option<u64> },
    /// A watch's DELETED.
    Gone { uid: String, resource_version: String },
    /// A list of this version that does not show it.
    Unlisted { at: u64 },
}

impl Inner {
    /// Keeps what a watch or a list shows of an object with a call under way; gives it back where there is none.
    pub(super) fn defer(
        &mut self,
        key: &ObjectKey,
        gvk: &Gvk,
        live: Live,
        source: Source<'_>,
    ) -> Option<Live> {
        let mark = match source {
            Source::Watch => None,
            Source::List(mark) => Some(mark),
            Source::Answer(_) | Source::Read => return Some(live),
        };
        let Some(calls) = self.flights.get_mut(key) else { return Some(live) };
        calls.news = Some(News::Live { gvk: gvk.clone(), live: Box::new(live), mark });
        None
    }

    /// The same for a DELETED; a call that found the object gone (no resourceVersion) is certain.
    pub(super) fn defer_gone(&mut self, key: &ObjectKey, uid: &str, resource_version: &str) -> bool {
        match self.flights.get_mut(key) {
            Some(calls) if !resource_version.is_empty() => {
                let (uid, resource_version) = (uid.to_owned(), resource_version.to_owned());
                calls.news = Some(News::Gone { uid, resource_version });
                true
            }
            _ => false,
        }
    }

    /// Calls are under way for objects that a list of this version (0: it is no number) does not show: what they are answered
    /// with is gone, unless it is newer.
    pub(super) fn note_unlisted(&mut self, at: u64, is_unlisted: impl Fn(&ObjectKey) -> bool) {
        if at == 0 {
            return;
        }
        for (_, calls) in self.flights.iter_mut().filter(|(key, _)| is_unlisted(key)) {
            calls.news = Some(News::Unlisted { at });
        }
    }

    /// What waits is of the past now, for all or for one kind.
    pub(super) fn forget_news(&mut self, of: impl Fn(&ObjectKey) -> bool) {
        self.flights.iter_mut().filter(|(key, _)| of(key)).for_each(|(_, calls)| calls.news = None);
    }
}

impl Records {
    /// A call begins.
    pub(in crate::member) fn depart(&self, key: &ObjectKey) {
        self.inner.lock().flights.entry(key.clone()).or_default().count += 1;
    }

    /// A call has ended; after the last, what waited is folded.
    pub(in crate::member) fn land(&self, key: &ObjectKey) -> Vec<TargetKey> {
        let news = {
            let mut inner = self.inner.lock();
            let Some(calls) = inner.flights.get_mut(key) else { return Vec::new() };
            calls.count -= 1;
            if calls.count > 0 {
                return Vec::new();
            }
            inner.flights.remove(key).and_then(|calls| calls.news)
        };
        match news {
            None => Vec::new(),
            Some(News::Live { gvk, live, mark }) => {
                self.fold(&gvk, *live, mark.map_or(Source::Watch, Source::List))
            }
            Some(News::Gone { uid, resource_version }) => self.fold_gone(key, &uid, &resource_version),
            Some(News::Unlisted { at }) => self.fold_unlisted(key, at),
        }
    }
}

//! Resync: comparing what a watch has told with what a list shows: a watch that is live and loses events tells of nothing
//! by itself.
//!
//! A list is ahead of the watch by a moment. So what differs is only remembered, and judged after the watch has had
//! time to tell of it.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::Instant;
use vidra_core::object::ObjectKey;

use super::{
    Informers,
    places::Place,
    reader::{Item, Reader},
};
use crate::{base::error::CallError, member::records::Records, wire::pages::Pages};

/// How long a watch may be behind a list.
const BEHIND: Duration = Duration::from_secs(15);

/// What a list shows otherwise than the records.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Unknown, or known in an older version: which version the list shows.
    newer: Vec<(ObjectKey, u64)>,
    /// Recorded, and not in the list.
    ghosts: Vec<ObjectKey>,
    /// Where the list began in the order of folds.
    mark: u64,
}

/// One comparison under way.
#[derive(Debug, Default)]
pub(super) struct Verification {
    running: bool,
    /// What the watch has told of since.
    touched: BTreeSet<ObjectKey>,
    found: Option<(Found, Instant)>,
}

impl Verification {
    /// From now on what the watch tells is noted.
    pub(super) fn begun() -> Self {
        Self { running: true, ..Self::default() }
    }

    /// The watch has told of this object.
    pub(super) fn touch(&mut self, key: &ObjectKey) {
        if self.running {
            self.touched.insert(key.clone());
        }
    }

    /// Takes what the list shows.
    pub(super) fn found(&mut self, found: Found) {
        self.found = Some((found, Instant::now() + BEHIND));
    }

    /// When to judge.
    pub(super) fn judged_at(&self) -> Option<Instant> {
        self.found.as_ref().map(|(_, at)| *at)
    }

    /// How many objects the watch should have told of and has not.
    pub(super) fn lost(self, records: &Records) -> usize {
        let Some((found, _)) = self.found else { return 0 };
        let is_behind = |(key, version): &&(ObjectKey, u64)| {
            !self.touched.contains(key) && records.version(key).is_none_or(|known| known < *version)
        };
        let is_ghost =
            |key: &&ObjectKey| !self.touched.contains(*key) && records.is_known_since(key, found.mark);
        found.newer.iter().filter(is_behind).count() + found.ghosts.iter().filter(is_ghost).count()
    }
}

/// Lists all and compares, page by page; nothing is folded.
pub(super) async fn verify(
    registry: &Informers,
    reader: &Reader,
    place: &Place,
    mut size: u32,
) -> Result<Found, CallError> {
    let mark = registry.records.mark();
    let mut seen = BTreeSet::new();
    let mut found = Found { mark, ..Found::default() };
    let mut pages = Pages::new(&reader.wire, &mut size, registry.page, Some(&registry.turns));
    let mut take = |text: &str, is_cut| match reader.listed(text, is_cut) {
        // A watch that tells of it is not behind, and neither is one whose records have no room for it.
        Item::Object(key, _) if !registry.records.takes(&key) => {}
        // Another watch tells of it.
        Item::Object(key, live) if registry.records.is_of_other_version(&place.gvk, &key, &live) => {
            seen.insert(key);
        }
        Item::Object(key, live) => {
            let version = live.resource_version().parse().unwrap_or(0);
            if registry.records.version(&key).is_none_or(|known| known < version) {
                found.newer.push((key.clone(), version));
            }
            seen.insert(key);
        }
        Item::Broken(one) => seen.extend(one.key),
    };
    while pages.next(&mut take).await? {}
    found.ghosts = registry.records.unseen(&place.gvk, &place.namespace, &seen, mark);
    Ok(found)
}

//! The objects, the one revision counter, and the bounded history that watches and pages read.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::Offset;
use serde_json::Value;

use super::cache::Ages;
use super::deep;
use super::events;
use super::failure::Failure;
use super::garbage::Task;
use super::kinds::{self, Kind};
use super::lag::Controllers;
use super::rights::{self, Rights};
use super::route;

mod backup;
mod object;
mod trees;
mod view;

pub use backup::Backup;
pub(super) use object::{Object, Stored};
use trees::Trees;
pub(super) use view::View;

/// Changes that are kept; a watch from before them gets 410.
const HISTORY: usize = 10_000;

/// A table of objects: all versions of a kind share it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Resource {
    pub group: String,
    pub plural: String,
}

impl Resource {
    pub fn new(group: &str, plural: &str) -> Self {
        // Both groups show the same Events.
        let group = if (group, plural) == (events::GROUP, "events") { "" } else { group };
        Resource { group: group.into(), plural: plural.into() }
    }
}

impl From<&Kind> for Resource {
    fn from(kind: &Kind) -> Self {
        Resource::new(&kind.group, &kind.plural)
    }
}

/// An object's place in its table; lists are in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub namespace: String,
    pub name: String,
}

impl Place {
    pub fn new(namespace: &str, name: &str) -> Self {
        Place { namespace: namespace.into(), name: name.into() }
    }
}

pub(super) type Table = BTreeMap<Arc<Place>, Stored>;

/// An object's place among all; the history and the table share the parts.
pub(super) type Somewhere = (Arc<Resource>, Arc<Place>);

/// One write: what was there before it and after it.
pub(super) struct Change {
    pub revision: u64,
    pub resource: Arc<Resource>,
    pub place: Arc<Place>,
    pub old: Option<Stored>,
    pub new: Option<Stored>,
}

pub(super) struct Store {
    pub kinds: Vec<Arc<Kind>>,
    /// Warnings of the request that is served, for its answer.
    pub warnings: Vec<String>,
    pub chance: fastrand::Rng,
    /// What the garbage collector has to look at in this step, and whether it is at it.
    pub tasks: VecDeque<(Somewhere, Task)>,
    pub working: bool,
    /// The rules of RBAC, until one of them is written.
    pub rights: Option<Arc<Rights>>,
    /// What the server's own controllers do later.
    pub controllers: Controllers,
    /// How old the history may be.
    pub ages: Ages,
    /// Groups that a test made unavailable.
    pub unavailable: BTreeSet<String>,
    /// Objects and requests may be as large as they like.
    pub any_size: bool,
    /// A deep document is stored, or was.
    pub deep: bool,
    /// Which objects are kept as they read, too.
    trees: Trees,
    tables: BTreeMap<Arc<Resource>, Table>,
    /// What names a uid as its owner, by that uid.
    dependents: BTreeMap<String, BTreeSet<Somewhere>>,
    revision: u64,
    history: VecDeque<Change>,
    /// The newest revision whose change is no longer in `history`.
    compacted: u64,
    /// The newest revision from which watches cannot go on: the server has been started after it.
    watchable: u64,
    /// How often it was restored.
    pub restores: u64,
    /// What `/version` says.
    pub version: &'static str,
}

impl Store {
    pub fn new(seed: u64) -> Self {
        Store {
            kinds: kinds::built_in().to_vec(),
            warnings: Vec::new(),
            chance: fastrand::Rng::with_seed(seed),
            tasks: VecDeque::new(),
            working: false,
            rights: None,
            controllers: Controllers::default(),
            ages: Ages::default(),
            unavailable: BTreeSet::new(),
            any_size: false,
            deep: false,
            trees: Trees::default(),
            tables: BTreeMap::new(),
            dependents: BTreeMap::new(),
            // No object ever has resourceVersion 1, as on the real server: an apply with "1" creates only.
            revision: 1,
            history: VecDeque::new(),
            compacted: 1,
            watchable: 0,
            restores: 0,
            version: route::VERSION,
        }
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn kind(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.kinds.iter().find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
    }

    /// Adds a kind, or replaces the one of the same group, version and plural.
    pub fn register(&mut self, kind: Kind) {
        self.hold_discovery();
        let same = |old: &&mut Arc<Kind>| {
            old.group == kind.group && old.version == kind.version && old.plural == kind.plural
        };
        match self.kinds.iter_mut().find(same) {
            Some(old) => *old = Arc::new(kind),
            None => self.kinds.push(Arc::new(kind)),
        }
        self.publish();
    }

    pub fn get(&self, resource: &Resource, place: &Place) -> Option<Object> {
        Some(self.read(self.tables.get(resource)?.get(place)?))
    }

    /// A stored object. It is kept as it reads, if that is wanted.
    pub fn read(&self, stored: &Stored) -> Object {
        stored.object(|tree| {
            // The end of a deep one takes more stack than there may be when it comes.
            if !(self.deep && deep::is_deep(tree)) {
                self.trees.keep(stored, tree);
            }
        })
    }

    pub fn has(&self, resource: &Resource, place: &Place) -> bool {
        self.tables.get(resource).is_some_and(|table| table.contains_key(place))
    }

    /// The objects that name this uid as an owner.
    pub fn dependents(&self, uid: &str) -> Vec<Somewhere> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// All objects that name an owner.
    pub fn owned(&self) -> BTreeSet<Somewhere> {
        self.dependents.values().flatten().cloned().collect()
    }

    /// Does any object name an owner?
    pub fn has_dependents(&self) -> bool {
        !self.dependents.is_empty()
    }

    pub fn table(&self, resource: &Resource) -> Option<&Table> {
        self.tables.get(resource)
    }

    /// All that is stored in a namespace, in the order of resources.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Somewhere> {
        let tables = self.tables.iter();
        tables
            .flat_map(|(resource, table)| {
                let from = table.range(Place::new(namespace, "")..);
                let here = from.take_while(|(place, _)| place.namespace == namespace);
                here.map(|(place, _)| (resource.clone(), place.clone()))
            })
            .collect()
    }

    /// All places of a resource.
    pub fn places(&self, resource: &Resource) -> Vec<Somewhere> {
        let table = self.tables.get_key_value(resource).into_iter();
        table.flat_map(|(key, table)| table.keys().map(|place| (key.clone(), place.clone()))).collect()
    }

    /// Stores an object under the next revision, or with `None` removes it; gives the object with that
    /// revision as its resourceVersion.
    pub fn write(&mut self, resource: &Resource, place: &Place, new: Option<Value>) -> Option<Object> {
        let resource = match self.tables.get_key_value(resource) {
            Some((known, _)) => known.clone(),
            None => Arc::new(resource.clone()),
        };
        let table = self.tables.entry(resource.clone()).or_default();
        let place = match table.get_key_value(place) {
            Some((known, _)) => known.clone(),
            None => Arc::new(place.clone()),
        };
        let revision = self.revision + 1;
        let new = new.map(|mut object| {
            object["metadata"]["resourceVersion"] = revision.to_string().into();
            Arc::new(object)
        });
        let deep = new.as_deref().is_some_and(deep::is_deep);
        self.deep |= deep;
        let stored = new.as_deref().map(Stored::of);
        if let (Some(stored), Some(new), false) = (&stored, &new, deep) {
            self.trees.keep(stored, new);
        }
        let old = match &stored {
            Some(stored) => table.insert(place.clone(), stored.clone()),
            None => table.remove(&place),
        };
        if old.is_none() && stored.is_none() {
            return None;
        }
        self.revision = revision;
        if resource.group == rights::GROUP {
            self.rights = None;
        }
        self.note_owners(&resource, &place, old.as_ref(), stored.as_ref());
        let written = new.zip(stored.as_ref()).map(|(tree, stored)| stored.with(tree));
        self.history.push_back(Change { revision, resource, place, old, new: stored });
        if self.history.len() > HISTORY
            && let Some(gone) = self.history.pop_front()
        {
            self.compacted = gone.revision;
        }
        written
    }

    /// Keeps the index of owners up to date with a write.
    fn note_owners(
        &mut self,
        resource: &Arc<Resource>,
        place: &Arc<Place>,
        old: Option<&Stored>,
        new: Option<&Stored>,
    ) {
        let here = (resource.clone(), place.clone());
        for uid in old.into_iter().flat_map(Stored::owners) {
            if let Some(all) = self.dependents.get_mut(uid) {
                all.remove(&here);
                if all.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
        for uid in new.into_iter().flat_map(Stored::owners) {
            self.dependents.entry(uid.to_string()).or_default().insert(here.clone());
        }
    }

    /// Forgets the history up to now.
    pub fn compact(&mut self) {
        self.history.clear();
        self.compacted = self.revision;
    }

    /// Forgets the history up to a revision.
    pub fn compact_to(&mut self, revision: u64) {
        while self.history.front().is_some_and(|change| change.revision <= revision) {
            self.history.pop_front();
        }
        self.compacted = self.compacted.max(revision);
    }

    /// Forgets what watches would be sent: a server that starts again has only what is stored.
    pub fn forget_events(&mut self) {
        self.watchable = self.revision;
    }

    /// The changes after a revision, as watches are sent them.
    pub fn events_after(&self, revision: u64) -> Result<impl DoubleEndedIterator<Item = &Change>, Failure> {
        if revision < self.watchable {
            let message = format!("too old resource version: {revision} ({})", self.watchable);
            return Err(Failure::expired(message));
        }
        self.changes_after(revision)
    }

    /// The changes after a revision, oldest first. A revision in the future has none.
    pub fn changes_after(&self, revision: u64) -> Result<impl DoubleEndedIterator<Item = &Change>, Failure> {
        if revision < self.compacted {
            let message = format!("too old resource version: {revision} ({})", self.compacted);
            return Err(Failure::expired(message));
        }
        let first = self.history.partition_point(|change| change.revision <= revision);
        Ok(self.history.range(first..))
    }

    /// A table as it was at a revision: the present one with the changes since then undone.
    pub fn table_at(&self, resource: &Resource, revision: u64) -> Result<Cow<'_, Table>, Failure> {
        let mut table = self.tables.get(resource).map_or_else(Cow::default, Cow::Borrowed);
        for change in self.changes_after(revision)?.rev().filter(|change| *change.resource == *resource) {
            match &change.old {
                Some(old) => table.to_mut().insert(change.place.clone(), old.clone()),
                None => table.to_mut().remove(&change.place),
            };
        }
        Ok(table)
    }

    /// A version 4 UUID from the seed.
    pub fn uid(&mut self) -> String {
        let bits = self.chance.u128(..);
        let hex = format!("{bits:032x}");
        let variant = ["8", "9", "a", "b"][(bits >> 60 & 3) as usize];
        format!("{}-{}-4{}-{variant}{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
    }

    /// Five characters from the seed, as `generateName` appends.
    pub fn suffix(&mut self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..5).map(|_| char::from(ALPHABET[self.chance.usize(..ALPHABET.len())])).collect()
    }
}

/// A time as Kubernetes writes it: UTC, whole seconds. Each write asks for it, and reading a format takes long.
pub(super) fn rfc3339(time: Timestamp) -> String {
    let at = Offset::UTC.to_datetime(time);
    let (year, month, day) = (at.year(), at.month(), at.day());
    let (hour, minute, second) = (at.hour(), at.minute(), at.second());
    if year < 0 {
        return time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    }
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_by_their_format() {
        for second in [
            0,
            1,
            59,
            -1,
            1_767_225_600,
            951_782_399,
            951_782_400,
            4_102_444_799,
            -62_167_219_201,
            253_402_200_000,
        ] {
            for nano in [0, 999_999_999] {
                let Ok(time) = Timestamp::new(second, if second < 0 { -nano } else { nano }) else {
                    continue;
                };
                assert_eq!(rfc3339(time), time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
            }
        }
    }
}

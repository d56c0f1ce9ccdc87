//! Inventories as the hub's process holds them: compact chunks, and the view of a target over its chunks.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use kube::ResourceExt;
use vidra_api::{InventoryEntry, VidraInventory, VidraInventorySpec, labels::FINALIZER, names::HubId};
use vidra_core::{
    mutants::{self, Mutant},
    object::{KeyParts, ObjectKey},
    plan::{Held, Inventory},
    uid::Uid,
};

use super::state_ownership;
use crate::{
    base::{
        interner::{Interned, Interner},
        resource_version::version,
    },
    workqueue::TargetKey,
};

/// One entry: the object, and what is held of it.
pub type Entry = (ObjectKey, Held);

/// One VidraInventory, without what is not needed.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// The object's name.
    pub name: String,
    /// The object's uid.
    pub uid: String,
    /// The object's resourceVersion.
    pub version: u64,
    /// Its place among the chunks.
    pub index: i32,
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// Which cluster its entries are of.
    cluster_uid: Option<Arc<str>>,
    /// The places of all chunks of the target, in the first of several; in the others the place of that one.
    named: Box<[i32]>,
    /// Its entries, by key.
    entries: Arc<[Kept]>,
}

/// An entry as it is kept: hundreds of thousands of them, with most of it alike on every member.
#[derive(Clone, Debug, PartialEq)]
struct Kept {
    key: ObjectKey,
    uid: Uid,
    terms: Arc<Terms>,
}

/// What an inventory says of an object, apart from its uid.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Terms {
    version: Arc<str>,
    adopted: bool,
    wave: i32,
    settled: Option<Box<str>>,
    going: bool,
}

impl Kept {
    fn read(entry: InventoryEntry, interned: &Interned, shared: &Interner<Arc<Terms>>) -> Self {
        let key = KeyParts {
            group: entry.group.into(),
            kind: entry.kind.into(),
            namespace: entry.namespace.into(),
            name: entry.name.into(),
        };
        let settled = (!entry.settled.is_empty()).then(|| entry.settled.into_boxed_str());
        let (version, adopted, wave) = (entry.version.into(), entry.adopted, entry.wave);
        let going = !entry.done && !entry.uid.is_empty();
        Self {
            key: interned.key(key.into()),
            uid: Uid::from(entry.uid.as_str()),
            terms: shared.share(Terms { version, adopted, wave, settled, going }),
        }
    }

    fn held(&self) -> Held {
        Held {
            version: self.terms.version.clone(),
            uid: self.uid.clone(),
            adopted: self.terms.adopted,
            wave: self.terms.wave,
            settled: self.terms.settled.clone(),
            going: self.terms.going,
        }
    }

    /// It says the same as this entry.
    fn is(&self, (key, held): &Entry) -> bool {
        self.key == *key && self.held() == *held
    }
}

/// The chunks of one target, by object name.
pub type Chunks = BTreeMap<String, Arc<Chunk>>;

impl Chunk {
    /// Takes from a VidraInventory what is kept of it.
    pub fn read(inventory: VidraInventory, interned: &Interned, terms: &Interner<Arc<Terms>>) -> Self {
        let version = version(&inventory);
        let (name, uid) = (inventory.name_any(), inventory.uid().unwrap_or_default());
        let deleting = inventory.metadata.deletion_timestamp.is_some();
        let entries = inventory.spec.entries.into_iter();
        let mut entries: Vec<_> = entries.map(|entry| Kept::read(entry, interned, terms)).collect();
        entries.sort_by(in_order);
        let (index, named) = (inventory.spec.chunk, inventory.spec.chunks.into());
        let cluster_uid = inventory.spec.cluster_uid.map(|uid| interned.text(&uid));
        Self { name, uid, version, index, deleting, cluster_uid, named, entries: entries.into() }
    }

    /// It is the first of several, and names itself with all others.
    fn names_all(&self) -> bool {
        self.named.contains(&self.index)
    }

    /// The uid of the cluster that its objects are in, where it has any.
    pub fn cluster(&self) -> Option<&Arc<str>> {
        self.cluster_uid.as_ref().filter(|_| !self.entries.is_empty())
    }

    /// It does not say that its objects are in this cluster, where that is known.
    fn is_elsewhere(&self, cluster: Option<&str>) -> bool {
        cluster.is_some() && !self.entries.is_empty() && self.cluster_uid.as_deref() != cluster
    }

    /// What it has of an object.
    fn entry(&self, key: &ObjectKey) -> Option<&Kept> {
        let at = self.entries.binary_search_by(|kept| kept.key.cmp(key)).ok()?;
        self.entries.get(at)
    }

    /// The write that lets it go as it is.
    pub fn removal(&self) -> ChunkWrite {
        ChunkWrite::Remove { name: self.name.clone(), version: self.version }
    }
}

/// By key. Of two that are one, the one that knows the uid; of two such, the one that stands later: it is collected
/// last.
fn in_order(a: &Kept, b: &Kept) -> Ordering {
    a.key.cmp(&b.key).then_with(|| b.uid.is_empty().cmp(&a.uid.is_empty()))
}

/// Joins chunks. An entry that stands in two (a chunk that is being replaced) is one.
pub fn joined(chunks: &Chunks) -> Inventory {
    part(chunks, |_| true)
}

/// The part of an inventory that is asked for.
pub fn part(chunks: &Chunks, wanted: impl Fn(&ObjectKey) -> bool) -> Inventory {
    let mut all: Vec<&Kept> = chunks.values().flat_map(|chunk| chunk.entries.iter()).collect();
    all.retain(|kept| wanted(&kept.key));
    if chunks.len() > 1 {
        all.sort_by(|a, b| in_order(a, b));
    }
    all.into_iter().map(|kept| (kept.key.clone(), kept.held())).collect()
}

/// The part of a whole inventory that is asked for.
pub fn chosen(inventory: &Inventory, wanted: impl Fn(&ObjectKey) -> bool) -> Inventory {
    let part = inventory.iter().filter(|(key, _)| wanted(key));
    part.map(|(key, held)| (key.clone(), held.clone())).collect()
}

/// How many objects of a whole inventory are known to be there.
pub fn identified(inventory: &Inventory) -> usize {
    inventory.values().filter(|held| !held.uid.is_empty()).count()
}

/// The object stands in it.
pub fn has(chunks: &Chunks, key: &ObjectKey) -> bool {
    chunks.values().any(|chunk| chunk.entry(key).is_some())
}

/// The object stands in it with this uid.
pub fn has_uid(chunks: &Chunks, key: &ObjectKey, uid: &str) -> bool {
    chunks.values().any(|chunk| chunk.entry(key).is_some_and(|kept| kept.uid == *uid))
}

/// Nothing is held.
pub fn is_empty(chunks: &Chunks) -> bool {
    chunks.values().all(|chunk| chunk.entries.is_empty())
}

/// How many objects are known to be there.
pub fn known(chunks: &Chunks) -> usize {
    let of = |chunk: &Arc<Chunk>| chunk.entries.iter().filter(|kept| !kept.uid.is_empty()).count();
    match chunks.values().any(|chunk| chunk.deleting) {
        // What is being copied stands in two chunks.
        true => identified(&joined(chunks)),
        false => chunks.values().map(of).sum(),
    }
}

/// There are chunks, and one is missing: what it held is not known. Where none names another they are of an earlier
/// version, and believed: it named none.
pub fn is_lost(chunks: &Chunks) -> bool {
    let has =
        |index: i32| chunks.values().any(|chunk| chunk.index == index) || mutants::is(Mutant::LossUnnoticed);
    // The newest word counts: another may be about to go.
    let first = chunks.values().filter(|chunk| chunk.names_all()).max_by_key(|chunk| chunk.version);
    match first {
        Some(first) => first.named.iter().any(|index| !has(*index)),
        None => chunks.values().any(|chunk| chunk.named.iter().any(|index| !has(*index))),
    }
}

/// As an earlier version wrote them: of one that goes missing nothing would tell. A chunk 0 that names none beside others
/// that name it is what a crash leaves: those are new, or about to go, and the next write names them or lets them go.
fn are_unnamed(chunks: &Chunks) -> bool {
    chunks.values().any(|chunk| chunk.named.is_empty() && chunk.index != 0)
}

/// What stands in one stands in another too: one became known only when its entries had been written elsewhere, for its making
/// was not answered and came late, or no watch told of it. Nothing else would let it go.
fn are_doubled(chunks: &Chunks) -> bool {
    if chunks.len() < 2 || mutants::is(Mutant::DoublesStay) {
        return false;
    }
    let mut keys: Vec<&ObjectKey> =
        chunks.values().flat_map(|chunk| chunk.entries.iter()).map(|kept| &kept.key).collect();
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0] == pair[1])
}

/// The whole inventory, after a part of it went from `before` to `now`, in the cluster with this uid. `None`: nothing is to
/// be written.
pub fn changed(
    chunks: &Chunks,
    cluster: Option<&str>,
    before: &Inventory,
    now: &Inventory,
) -> Option<Inventory> {
    let is_whole = !is_lost(chunks) && !are_unnamed(chunks) && !are_doubled(chunks);
    let is_old = |chunk: &Arc<Chunk>| chunk.deleting || chunk.is_elsewhere(cluster);
    if before == now && !chunks.values().any(is_old) && is_whole {
        return None;
    }
    let mut all = joined(chunks);
    all.retain(|key, _| now.contains_key(key) || !before.contains_key(key));
    all.extend(now.iter().map(|(key, held)| (key.clone(), held.clone())));
    Some(all)
}

/// One write that brings the chunks to an inventory.
#[derive(Clone, Debug, PartialEq)]
pub enum ChunkWrite {
    /// Make it.
    Create {
        /// Its place.
        index: i32,
        /// The places of all, in the first of several; in the others the first's.
        named: Vec<i32>,
        /// The uid of the cluster that they are in.
        cluster_uid: Option<Arc<str>>,
        /// Its entries.
        entries: Vec<InventoryEntry>,
    },
    /// Replace its entries.
    Update {
        /// Its name.
        name: String,
        /// Its place.
        index: i32,
        /// The version that is replaced.
        version: u64,
        /// As above.
        named: Vec<i32>,
        /// As above.
        cluster_uid: Option<Arc<str>>,
        /// Its entries.
        entries: Vec<InventoryEntry>,
    },
    /// Let it go: its entries are empty, or stand in another chunk.
    Remove {
        /// Its name.
        name: String,
        /// The version that was looked at.
        version: u64,
    },
}

/// The writes, in order, that make `chunks` hold `inventory`, at most so many entries in each; none when they do.
///
/// `cluster` is the uid of the cluster that the objects are in; while that is not known, what was written of it stays.
///
/// An entry stays in the chunk that it is in, so that a change rewrites only the chunks that it touches.
/// What a terminating chunk holds goes into others first, and only then is that chunk removed. While a target
/// leaves, nothing new is made (its namespace may be terminating): the chunk stays until all is gone.
///
/// The first chunk names all of them: after those that are new are made, and before those go that are not needed. So
/// however far the writes come, what it names is there. The others name the first: without it they are what a crash leaves
/// of an inventory that is made, or one that lost it.
pub fn writes(
    chunks: &Chunks,
    cluster: Option<&str>,
    inventory: &Inventory,
    leaving: bool,
    most: usize,
) -> Vec<ChunkWrite> {
    let cluster_uid: Option<Arc<str>> = cluster.map(Arc::from);
    let mut left = inventory.clone();
    let mut places: Vec<(&Chunk, Vec<Entry>)> = Vec::new();
    let stays = |chunk: &Chunk| !chunk.deleting || (leaving && !inventory.is_empty());
    let first = chunks.values().filter(|chunk| stays(chunk)).map(|chunk| chunk.index).min();
    for chunk in chunks.values().filter(|chunk| stays(chunk)) {
        let entries = chunk.entries.iter().filter_map(|kept| left.remove_entry(&kept.key)).collect();
        places.push((chunk, entries));
    }
    let mut rest: Vec<Entry> = left.into_iter().collect();
    for (_, entries) in &mut places {
        let room = most.saturating_sub(entries.len()).min(rest.len());
        entries.extend(rest.drain(..room));
        entries.sort_by(|a, b| a.0.cmp(&b.0));
    }
    let is_spare = |chunk: &Chunk, entries: &[Entry]| {
        entries.is_empty() && !(inventory.is_empty() && Some(chunk.index) == first)
    };
    let (spare, mut places): (Vec<_>, Vec<_>) =
        places.into_iter().partition(|(chunk, entries)| is_spare(chunk, entries));
    places.sort_by_key(|(chunk, _)| chunk.index);
    let next = chunks.values().map(|chunk| chunk.index.saturating_add(1)).max().unwrap_or(0);
    let made: Vec<_> = (next..).zip(rest.chunks(most)).collect();
    let all = places.iter().map(|(chunk, _)| chunk.index).chain(made.iter().map(|(index, _)| *index));
    let named = Named(all.collect());

    let mut writes = Vec::new();
    // The first, which names the others, comes last.
    for (index, entries) in made.into_iter().rev() {
        let (named, cluster_uid, entries) = (named.by(index), cluster_uid.clone(), written(entries));
        writes.push(ChunkWrite::Create { index, named, cluster_uid, entries });
    }
    for (chunk, entries) in places {
        let named = named.by(chunk.index);
        if *chunk.named != *named
            || chunk.is_elsewhere(cluster)
            || entries.len() != chunk.entries.len()
            || chunk.entries.iter().zip(&entries).any(|(kept, entry)| !kept.is(entry))
        {
            let (name, index, version) = (chunk.name.clone(), chunk.index, chunk.version);
            let cluster_uid = cluster_uid.clone().or_else(|| chunk.cluster_uid.clone());
            let entries = written(&entries);
            writes.push(ChunkWrite::Update { name, index, version, named, cluster_uid, entries });
        }
    }
    writes.extend(spare.into_iter().map(|(chunk, _)| chunk.removal()));
    let terminating = chunks.values().filter(|chunk| !stays(chunk));
    writes.extend(terminating.map(|chunk| chunk.removal()));
    writes
}

/// The places of all chunks, in order, as the first of them names them.
struct Named(Vec<i32>);

impl Named {
    /// What the chunk at this place names. That 0 is alone needs no word.
    fn by(&self, index: i32) -> Vec<i32> {
        match &*self.0 {
            [] | [0] => Vec::new(),
            [first, ..] if *first == index => self.0.clone(),
            [first, ..] => vec![*first],
        }
    }
}

/// A VidraInventory to be made, or to replace this version of it.
pub fn chunk(
    (hub, key): (&HubId, &TargetKey),
    name: &str,
    index: i32,
    version: Option<u64>,
    named: &[i32],
    cluster_uid: Option<&str>,
    entries: &[InventoryEntry],
) -> VidraInventory {
    let spec = VidraInventorySpec {
        resource: key.resource.to_string(),
        cluster: key.cluster.to_string(),
        cluster_uid: cluster_uid.map(str::to_owned),
        // What is written is of the first form, which needs no word.
        format: None,
        chunk: index,
        chunks: named.to_vec(),
        entries: entries.to_vec(),
    };
    let mut chunk = VidraInventory::new(name, spec);
    chunk.metadata.namespace = Some(key.namespace.to_string());
    chunk.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    chunk.metadata.labels = Some(state_ownership::hub_labels(hub));
    chunk.metadata.resource_version = version.map(|version| version.to_string());
    chunk
}

fn written(entries: &[Entry]) -> Vec<InventoryEntry> {
    let write = |(key, held): &Entry| InventoryEntry {
        group: key.group.to_string(),
        version: held.version.to_string(),
        kind: key.kind.to_string(),
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        uid: held.uid.to_string(),
        adopted: held.adopted,
        done: !held.uid.is_empty() && !held.going,
        wave: held.wave,
        settled: held.settled.as_deref().unwrap_or_default().to_owned(),
    };
    entries.iter().map(write).collect()
}

#[cfg(test)]
mod tests {
    use vidra_core::object::Gvk;

    use vidra_api::inventory::ENTRIES_MAX;

    use super::*;

    fn inventory(range: std::ops::Range<usize>, uid: &str) -> Inventory {
        let gvk = Gvk::new("", "v1", "ConfigMap");
        range
            .map(|n| {
                let held = Held { version: "v1".into(), uid: uid.into(), ..Held::default() };
                (ObjectKey::new(&gvk, "shop", &format!("c{n:04}")), held)
            })
            .collect()
    }

    /// Brings chunks to an inventory.
    fn bring(chunks: &mut Chunks, inventory: &Inventory) {
        for write in writes(chunks, None, inventory, false, ENTRIES_MAX) {
            perform(chunks, &[write]);
            let newest = chunks.values().filter(|chunk| chunk.names_all()).max_by_key(|chunk| chunk.version);
            for index in newest.iter().flat_map(|chunk| chunk.named.iter()) {
                let is_there = chunks.values().any(|chunk| chunk.index == *index);
                assert!(is_there, "what is named is there, however far the writes come");
            }
        }
        assert!(!is_lost(chunks));
    }

    /// Performs writes on chunks, as the API server would.
    fn perform(chunks: &mut Chunks, writes: &[ChunkWrite]) {
        for write in writes {
            let (name, index, named, cluster_uid, entries) = match write {
                ChunkWrite::Remove { name, .. } => {
                    chunks.remove(name);
                    continue;
                }
                ChunkWrite::Create { index, named, cluster_uid, entries } => {
                    (format!("shop.berlin.{index}"), index, named, cluster_uid, entries)
                }
                ChunkWrite::Update { name, index, named, cluster_uid, entries, .. } => {
                    (name.clone(), index, named, cluster_uid, entries)
                }
            };
            let key = TargetKey::new("team", "shop", "berlin");
            let before = chunks.values().map(|chunk| chunk.version).max().unwrap_or(0);
            let hub = HubId::try_from("main").unwrap();
            let cluster_uid = cluster_uid.as_deref();
            let object = chunk((&hub, &key), &name, *index, Some(before + 1), named, cluster_uid, entries);
            chunks.insert(name, Arc::new(Chunk::read(object, &Interned::default(), &Interner::default())));
        }
    }

    #[test]
    fn chunks_hold_at_most_five_hundred_and_an_unchanged_inventory_writes_nothing() {
        let mut chunks = BTreeMap::new();
        let wanted = inventory(0..1200, "");
        bring(&mut chunks, &wanted);
        assert_eq!(chunks.len(), 3);
        assert_eq!(joined(&chunks), wanted);
        assert_eq!(writes(&chunks, None, &wanted, false, ENTRIES_MAX), []);
    }

    #[test]
    fn what_is_on_its_way_out_stands_there_as_that() {
        let mut chunks = BTreeMap::new();
        let mut wanted = inventory(0..3, "a");
        bring(&mut chunks, &wanted);
        for held in wanted.values_mut().skip(1) {
            held.going = true;
        }
        assert_eq!(writes(&chunks, None, &wanted, false, ENTRIES_MAX).len(), 1);
        bring(&mut chunks, &wanted);
        assert_eq!((&joined(&chunks), known(&chunks)), (&wanted, 3));
        assert_eq!(writes(&chunks, None, &wanted, false, ENTRIES_MAX), []);
    }

    #[test]
    fn a_part_that_changed_is_put_back_into_the_whole() {
        let mut chunks = BTreeMap::new();
        bring(&mut chunks, &inventory(0..1200, "a"));
        assert_eq!(known(&chunks), 1200);
        let before = part(&chunks, |key| *key.name < *"c0002");
        assert_eq!(before.len(), 2);
        assert_eq!(changed(&chunks, None, &before, &before), None);
        let now = inventory(0..1, "b");
        let mut whole = inventory(2..1200, "a");
        whole.extend(now.clone());
        assert_eq!(changed(&chunks, None, &before, &now), Some(whole));
    }

    #[test]
    fn all_chunks_name_the_cluster_that_their_objects_are_in_from_the_next_write_on() {
        let mut chunks = BTreeMap::new();
        let whole = inventory(0..1200, "a");
        bring(&mut chunks, &whole);
        let named = |chunks: &Chunks| -> Vec<Option<String>> {
            chunks.values().map(|chunk| chunk.cluster_uid.as_deref().map(str::to_owned)).collect()
        };
        // Nobody knew it; it is known; another has taken its place; nobody knows it any more.
        for cluster in [None, Some("one"), Some("two"), None] {
            let last = cluster.or(named(&chunks)[0].as_deref().map(|_| "two"));
            if let Some(now) = changed(&chunks, cluster, &whole, &whole) {
                let next = writes(&chunks, cluster, &now, false, ENTRIES_MAX);
                perform(&mut chunks, &next);
            }
            assert_eq!(named(&chunks), vec![last.map(str::to_owned); 3], "{cluster:?}");
            assert_eq!(changed(&chunks, cluster, &whole, &whole), None, "{cluster:?}");
        }
        // What changes while nobody knows it keeps the word.
        let next = writes(&chunks, None, &inventory(0..1100, "a"), false, ENTRIES_MAX);
        perform(&mut chunks, &next);
        assert_eq!(named(&chunks), vec![Some("two".to_owned()); 3]);
    }

    #[test]
    fn one_new_uid_rewrites_one_chunk() {
        let mut chunks = BTreeMap::new();
        bring(&mut chunks, &inventory(0..1200, "a"));
        let mut wanted = inventory(0..1200, "a");
        wanted.extend(inventory(700..701, "b"));
        let writes = writes(&chunks, None, &wanted, false, ENTRIES_MAX);
        assert_eq!(writes.len(), 1);
        bring(&mut chunks, &wanted);
        assert_eq!(joined(&chunks), wanted);
    }

    #[test]
    fn what_a_terminating_chunk_holds_is_copied_before_it_is_let_go() {
        let mut chunks = BTreeMap::new();
        let wanted = inventory(0..10, "a");
        bring(&mut chunks, &wanted);
        let mut dying = (*chunks["shop.berlin.0"]).clone();
        dying.deleting = true;
        chunks.insert(dying.name.clone(), Arc::new(dying));
        let writes = writes(&chunks, None, &wanted, false, ENTRIES_MAX);
        assert!(
            matches!(&writes[0], ChunkWrite::Create { index: 1, named, entries, .. } if entries.len() == 10 && *named == [1]),
            "{writes:?}"
        );
        assert_eq!(writes[1], ChunkWrite::Remove { name: "shop.berlin.0".into(), version: 1 });
        assert_eq!(
            super::writes(&chunks, None, &wanted, true, ENTRIES_MAX),
            [],
            "a target that leaves needs no copy"
        );
        let gone = super::writes(&chunks, None, &Inventory::new(), true, ENTRIES_MAX);
        assert_eq!(gone, [ChunkWrite::Remove { name: "shop.berlin.0".into(), version: 1 }]);
    }

    #[test]
    fn a_chunk_that_is_missing_is_noticed_whichever_it_is() {
        let mut chunks = BTreeMap::new();
        let wanted = inventory(0..1200, "a");
        bring(&mut chunks, &wanted);
        assert!(!is_lost(&chunks) && !is_lost(&Chunks::new()));
        for name in ["shop.berlin.0", "shop.berlin.1", "shop.berlin.2"] {
            let mut fewer = chunks.clone();
            fewer.remove(name);
            assert!(is_lost(&fewer), "{name}");
            let known = joined(&fewer);
            assert_eq!(
                changed(&fewer, None, &known, &known),
                Some(known.clone()),
                "{name}: it is written what is there"
            );
            // What the member has of it was found again, or nothing of it is left.
            for found in [&wanted, &known] {
                let mut fewer = fewer.clone();
                let next = writes(&fewer, None, found, false, ENTRIES_MAX);
                perform(&mut fewer, &next);
                assert!(!is_lost(&fewer), "{name}");
                assert_eq!(&joined(&fewer), found, "{name}");
            }
        }
        // One that nobody named yet is believed.
        let mut more = chunks.clone();
        let first = (*more["shop.berlin.0"]).clone();
        let few: Box<[i32]> = Box::new([0, 1]);
        more.insert(first.name.clone(), Arc::new(Chunk { named: few, ..first }));
        assert!(!is_lost(&more));
        assert_eq!(joined(&more).len(), 1200);
    }

    #[test]
    fn chunks_that_were_written_before_they_were_named_are_believed_and_named() {
        let whole = inventory(0..1200, "a");
        for names in [&[][..], &["shop.berlin.0"], &["shop.berlin.0", "shop.berlin.1"]] {
            let mut chunks = BTreeMap::new();
            bring(&mut chunks, &whole);
            for chunk in chunks.values_mut() {
                *chunk = Arc::new(Chunk { named: Box::new([]), ..(**chunk).clone() });
            }
            chunks.retain(|name, _| !names.contains(&&**name));
            let held = joined(&chunks);
            assert!(!is_lost(&chunks), "without {names:?}");
            assert_eq!(changed(&chunks, None, &held, &held).as_ref(), Some(&held), "without {names:?}");
            // However far the naming comes.
            let left = writes(&chunks, None, &held, false, ENTRIES_MAX);
            assert_eq!(left.len(), chunks.len());
            for write in left {
                perform(&mut chunks, &[write]);
                assert!(!is_lost(&chunks), "without {names:?}");
            }
            assert_eq!(joined(&chunks), held);
            assert_eq!(changed(&chunks, None, &held, &held), None);
            // From then on a loss is noticed, of the first too.
            for name in chunks.keys() {
                let mut fewer = chunks.clone();
                fewer.remove(name);
                assert!(fewer.is_empty() || is_lost(&fewer), "{name}, without {names:?}");
            }
        }
        let mut one = BTreeMap::new();
        bring(&mut one, &inventory(0..3, "a"));
        assert_eq!(changed(&one, None, &inventory(0..3, "a"), &inventory(0..3, "a")), None);
    }

    #[test]
    fn what_stands_in_two_chunks_is_brought_into_one_though_nothing_else_changes() {
        let held = inventory(0..1200, "a");
        for (index, of) in [(3, 0..1), (7, 1199..1200)] {
            let mut chunks = BTreeMap::new();
            bring(&mut chunks, &held);
            // Its making was not answered, and it comes now.
            let entries = written(&inventory(of, "").into_iter().collect::<Vec<_>>());
            perform(&mut chunks, &[ChunkWrite::Create { index, named: vec![0], cluster_uid: None, entries }]);
            assert_eq!(joined(&chunks), held);
            // Each life of the hub writes once.
            for life in 0.. {
                let Some(whole) = changed(&chunks, None, &held, &held) else { break };
                let next = writes(&chunks, None, &whole, false, ENTRIES_MAX);
                perform(&mut chunks, &next[..1]);
                assert!(!is_lost(&chunks) && life < 10);
            }
            assert_eq!((chunks.len(), joined(&chunks)), (3, held.clone()));
        }
    }

    #[test]
    fn an_inventory_that_shrinks_comes_to_rest_though_each_life_of_the_hub_writes_once() {
        let mut chunks = BTreeMap::new();
        bring(&mut chunks, &inventory(0..1200, "a"));
        let wanted = inventory(0..3, "a");
        for life in 0.. {
            // A reconcile begins with what it holds; then it finds that most of it is gone.
            let held = joined(&chunks);
            let begun = changed(&chunks, None, &held, &held);
            let first =
                begun.and_then(|whole| writes(&chunks, None, &whole, false, ENTRIES_MAX).into_iter().next());
            let next =
                first.or_else(|| writes(&chunks, None, &wanted, false, ENTRIES_MAX).into_iter().next());
            let Some(write) = next else { break };
            perform(&mut chunks, &[write]);
            assert!(!is_lost(&chunks));
            assert!(life < 10, "each life writes what the one before took back: {:?}", chunks.keys());
        }
        assert_eq!(joined(&chunks), wanted);
    }

    #[test]
    fn an_object_is_known_by_its_uid_in_whichever_chunk_it_stands() {
        let (mut chunks, gvk) = (BTreeMap::new(), Gvk::new("", "v1", "ConfigMap"));
        bring(&mut chunks, &inventory(0..1200, "a"));
        let knows = |name: &str, uid: &str| has_uid(&chunks, &ObjectKey::new(&gvk, "shop", name), uid);
        assert!(chunks.len() > 1 && knows("c0000", "a") && knows("c1199", "a"));
        assert!(!knows("c0000", "b") && !knows("c1200", "a"));
    }

    #[test]
    fn an_emptied_inventory_keeps_one_empty_chunk_as_the_proof_that_it_is_empty() {
        let mut chunks = BTreeMap::new();
        bring(&mut chunks, &inventory(0..1200, "a"));
        bring(&mut chunks, &Inventory::new());
        assert_eq!(chunks.len(), 1);
        assert!(joined(&chunks).is_empty());
    }
}

//! Inventories as the hub's process holds them: compact chunks, and the view of a target over its chunks.

use std::{collections::BTreeMap, sync::Arc};

use kube::ResourceExt;
use vidra_api::{InventoryEntry, VidraInventory, VidraInventorySpec, inventory::ENTRIES_MAX};
use vidra_core::{
    object::{Gvk, ObjectKey},
    plan::Held,
};

use crate::queue::TargetKey;

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
    /// Its entries.
    pub entries: Arc<[InventoryEntry]>,
}

impl From<VidraInventory> for Chunk {
    fn from(inventory: VidraInventory) -> Self {
        let version = inventory.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0);
        Self {
            name: inventory.name_any(),
            uid: inventory.uid().unwrap_or_default(),
            version,
            index: inventory.spec.chunk,
            deleting: inventory.metadata.deletion_timestamp.is_some(),
            entries: inventory.spec.entries.into(),
        }
    }
}

/// What a target's inventory holds, by object key.
pub type Inventory = BTreeMap<ObjectKey, Held>;

/// Joins chunks. An entry that stands in two (a chunk that is being replaced) is one.
pub fn joined(chunks: &BTreeMap<String, Arc<Chunk>>) -> Inventory {
    let mut inventory = Inventory::new();
    for entry in chunks.values().flat_map(|chunk| chunk.entries.iter()) {
        let gvk = Gvk::new(&entry.group, &entry.version, &entry.kind);
        let key = ObjectKey::new(&gvk, &entry.namespace, &entry.name);
        let held = Held { version: entry.version.clone(), uid: entry.uid.clone(), adopted: entry.adopted };
        match inventory.get(&key) {
            Some(known) if !known.uid.is_empty() && held.uid.is_empty() => {}
            _ => {
                inventory.insert(key, held);
            }
        }
    }
    inventory
}

/// One write that brings the chunks to an inventory.
#[derive(Clone, Debug, PartialEq)]
pub enum ChunkWrite {
    /// Make it.
    Create {
        /// Its place.
        index: i32,
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
        /// Its entries.
        entries: Vec<InventoryEntry>,
    },
    /// Let it go: its entries are empty, or stand in another chunk.
    Remove {
        /// Its name.
        name: String,
    },
}

/// The writes, in order, that make `chunks` hold `inventory`; none when they do.
///
/// An entry stays in the chunk that it is in, so that a change rewrites only the chunks that it touches.
/// What a terminating chunk holds goes into others first, and only then is that chunk let go. While a target
/// leaves, nothing new is made (its namespace may be terminating): the chunk stays until all is gone.
pub fn writes(
    chunks: &BTreeMap<String, Arc<Chunk>>,
    inventory: &Inventory,
    leaving: bool,
) -> Vec<ChunkWrite> {
    let mut left = inventory.clone();
    let mut places: Vec<(&Chunk, Vec<InventoryEntry>)> = Vec::new();
    let stays = |chunk: &Chunk| !chunk.deleting || (leaving && !inventory.is_empty());
    let first = chunks.values().filter(|chunk| stays(chunk)).map(|chunk| chunk.index).min();
    for chunk in chunks.values().filter(|chunk| stays(chunk)) {
        let mut entries = Vec::with_capacity(chunk.entries.len());
        for entry in chunk.entries.iter() {
            let key = ObjectKey::new(
                &Gvk::new(&entry.group, &entry.version, &entry.kind),
                &entry.namespace,
                &entry.name,
            );
            if let Some(held) = left.remove(&key) {
                entries.push(entry_of(&key, &held));
            }
        }
        places.push((chunk, entries));
    }
    let mut rest: Vec<InventoryEntry> = left.iter().map(|(key, held)| entry_of(key, held)).collect();
    for (_, entries) in &mut places {
        let room = ENTRIES_MAX.saturating_sub(entries.len()).min(rest.len());
        entries.extend(rest.drain(..room));
    }
    let mut writes = Vec::new();
    let next = chunks.values().map(|chunk| chunk.index + 1).max().unwrap_or(0);
    for (index, entries) in (next..).zip(rest.chunks(ENTRIES_MAX)) {
        writes.push(ChunkWrite::Create { index, entries: entries.to_vec() });
    }
    for (chunk, entries) in places {
        if entries.is_empty() && !(inventory.is_empty() && Some(chunk.index) == first) {
            writes.push(ChunkWrite::Remove { name: chunk.name.clone() });
        } else if *entries != *chunk.entries {
            let (name, index, version) = (chunk.name.clone(), chunk.index, chunk.version);
            writes.push(ChunkWrite::Update { name, index, version, entries });
        }
    }
    let terminating = chunks.values().filter(|chunk| !stays(chunk));
    writes.extend(terminating.map(|chunk| ChunkWrite::Remove { name: chunk.name.clone() }));
    writes
}

/// A VidraInventory's spec.
pub fn spec(key: &TargetKey, index: i32, entries: Vec<InventoryEntry>) -> VidraInventorySpec {
    VidraInventorySpec {
        resource: key.resource.to_string(),
        cluster: key.cluster.to_string(),
        chunk: index,
        entries,
    }
}

fn entry_of(key: &ObjectKey, held: &Held) -> InventoryEntry {
    InventoryEntry {
        group: key.group.to_string(),
        version: held.version.clone(),
        kind: key.kind.to_string(),
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        uid: held.uid.clone(),
        adopted: held.adopted,
        done: !held.uid.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory(range: std::ops::Range<usize>, uid: &str) -> Inventory {
        let gvk = Gvk::new("", "v1", "ConfigMap");
        range
            .map(|n| {
                let held = Held { version: "v1".into(), uid: uid.into(), adopted: false };
                (ObjectKey::new(&gvk, "shop", &format!("c{n:04}")), held)
            })
            .collect()
    }

    /// Performs writes on chunks, as the API server would.
    fn bring(chunks: &mut BTreeMap<String, Arc<Chunk>>, inventory: &Inventory) {
        for write in &writes(chunks, inventory, false) {
            let (name, index, entries) = match write {
                ChunkWrite::Remove { name } => {
                    chunks.remove(name);
                    continue;
                }
                ChunkWrite::Create { index, entries } => (format!("shop.berlin.{index}"), index, entries),
                ChunkWrite::Update { name, index, entries, .. } => (name.clone(), index, entries),
            };
            let entries = entries.clone().into();
            let (uid, version) = (String::new(), 1);
            chunks.insert(
                name.clone(),
                Arc::new(Chunk { name, uid, version, index: *index, deleting: false, entries }),
            );
        }
    }

    #[test]
    fn chunks_hold_at_most_five_hundred_and_an_unchanged_inventory_writes_nothing() {
        let mut chunks = BTreeMap::new();
        let wanted = inventory(0..1200, "");
        bring(&mut chunks, &wanted);
        assert_eq!(chunks.len(), 3);
        assert_eq!(joined(&chunks), wanted);
        assert_eq!(writes(&chunks, &wanted, false), []);
    }

    #[test]
    fn one_new_uid_rewrites_one_chunk() {
        let mut chunks = BTreeMap::new();
        bring(&mut chunks, &inventory(0..1200, "a"));
        let mut wanted = inventory(0..1200, "a");
        wanted.extend(inventory(700..701, "b"));
        let writes = writes(&chunks, &wanted, false);
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
        let writes = writes(&chunks, &wanted, false);
        assert!(
            matches!(&writes[0], ChunkWrite::Create { index: 1, entries } if entries.len() == 10),
            "{writes:?}"
        );
        assert_eq!(writes[1], ChunkWrite::Remove { name: "shop.berlin.0".into() });
        assert_eq!(super::writes(&chunks, &wanted, true), [], "a target that leaves needs no copy");
        let gone = super::writes(&chunks, &Inventory::new(), true);
        assert_eq!(gone, [ChunkWrite::Remove { name: "shop.berlin.0".into() }]);
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

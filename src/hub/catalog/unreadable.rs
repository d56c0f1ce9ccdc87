//! Objects of the hub that are there and cannot be read: those that a newer vidra-hub wrote, mostly. Such a one is not
//! missing, and nobody knows what it asks for: what was known of it before an edit that cannot be read is kept, for it is
//! there, and nobody goes by it, no more than after a start, when nothing is known of it.

use std::{collections::BTreeSet, sync::Arc};

use vidra_core::mutants::{self, Mutant};

use super::{Listed, Place};
use crate::workqueue::{ResourceKey, TargetKey};

/// Why the catalog shows no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// It is not there.
    Missing,
    /// It is there, and cannot be read now.
    Unread,
}

/// What is held of an object, unless it cannot be read now. Looked up under one lock: what is read or becomes unreadable
/// meanwhile is never taken for missing.
pub(super) fn or_lack<K>(held: Option<&Arc<K>>, is_unread: bool) -> Result<Arc<K>, Lack> {
    match held {
        Some(held) if !is_unread || mutants::is(Mutant::KnownGoesOn) => Ok(held.clone()),
        _ if is_unread => Err(Lack::Unread),
        _ => Err(Lack::Missing),
    }
}

/// Objects of the hub that exist and cannot be read.
#[derive(Default)]
pub(super) struct Unread(BTreeSet<Place>);

impl Unread {
    /// Those of a kind, by namespace and name.
    fn of(&self, kind: Listed) -> impl Iterator<Item = (&str, &str)> {
        let are_there = !mutants::is(Mutant::UnreadIsMissing);
        let all = self.0.range((kind, String::new(), String::new())..).take_while(move |one| one.0 == kind);
        all.filter(move |_| are_there).map(|(_, namespace, name)| (namespace.as_str(), name.as_str()))
    }

    pub(super) fn has(&self, kind: Listed, namespace: &str, name: &str) -> bool {
        !self.0.is_empty()
            && !mutants::is(Mutant::UnreadIsMissing)
            && self.0.contains(&(kind, namespace.to_owned(), name.to_owned()))
    }

    /// The VidraTarget is among them.
    pub(super) fn has_target(&self, key: &TargetKey) -> bool {
        !self.0.is_empty() && self.has(Listed::Targets, &key.namespace, &key.target_name())
    }

    /// It is among them, and so nobody goes by what is known of it.
    pub(super) fn hides(&self, kind: Listed, namespace: &str, name: &str) -> bool {
        self.has(kind, namespace, name) && !mutants::is(Mutant::KnownGoesOn)
    }

    /// A VidraTarget is among them.
    pub(super) fn hides_target(&self, key: &TargetKey) -> bool {
        self.has_target(key) && !mutants::is(Mutant::KnownGoesOn)
    }

    /// The targets of which the VidraTarget or a chunk of the inventory is among them.
    fn targets(&self, kind: Listed) -> impl Iterator<Item = TargetKey> {
        self.of(kind).filter_map(move |(namespace, name)| target_of(kind, namespace, name))
    }

    /// The VidraResources of which something is among them that may be on this cluster, by their keys.
    pub(super) fn owners_on(&self, cluster: &str) -> Vec<ResourceKey> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let own = self.of(Listed::Resources).map(|(namespace, name)| ResourceKey::new(namespace, name));
        let targets = self.targets(Listed::Targets).chain(self.targets(Listed::Inventories));
        own.chain(targets.filter(|key| *key.cluster == *cluster).map(|key| key.resource_key())).collect()
    }

    /// The first VidraTarget on a cluster.
    pub(super) fn target_on(&self, cluster: &str) -> Option<TargetKey> {
        self.targets(Listed::Targets).find(|key| *key.cluster == *cluster)
    }

    /// The clusters on which a VidraResource has a VidraTarget among them.
    pub(super) fn clusters_of(&self, resource: &ResourceKey) -> Vec<Arc<str>> {
        let of = self.targets(Listed::Targets).filter(|key| key.resource_key() == *resource);
        of.map(|key| key.cluster).collect()
    }

    /// The first VidraResource of a namespace, other than this one, that is among them, or of which a VidraTarget on this
    /// cluster is.
    pub(super) fn owner_beside(&self, own: &TargetKey) -> Option<Arc<str>> {
        let other = |key: &ResourceKey| key.namespace == own.namespace && key.name != own.resource;
        let of_resources =
            self.of(Listed::Resources).map(|(namespace, name)| ResourceKey::new(namespace, name));
        let of_targets = self.targets(Listed::Targets).filter(|key| key.cluster == own.cluster);
        of_resources.chain(of_targets.map(|key| key.resource_key())).find(other).map(|key| key.name)
    }

    /// How many there are of each kind.
    pub(super) fn counts(&self) -> Vec<(&'static str, i64)> {
        let count = |kind: Listed| i64::try_from(self.of(kind).count()).unwrap_or(i64::MAX);
        Listed::ALL.into_iter().map(|kind| (kind.name(), count(kind))).collect()
    }

    /// The first chunk of a target's inventory.
    pub(super) fn chunk_of(&self, key: &TargetKey) -> Option<String> {
        let first = (Listed::Inventories, key.namespace.to_string(), format!("{}.", key.target_name()));
        let after = self.0.range(first.clone()..);
        let is_chunk = |name: &str| {
            name.strip_prefix(&first.2).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        // Between them stand those of others: `shop.berlin.0.1` behind `shop.berlin.0`.
        let mut named = after.take_while(|(kind, namespace, name)| {
            (*kind, namespace) == (first.0, &first.1) && name.starts_with(&first.2)
        });
        named.find(|(.., name)| is_chunk(name)).map(|(.., name)| name.clone())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it was not among them.
    pub(super) fn insert(&mut self, place: Place) -> bool {
        self.0.insert(place)
    }

    /// Whether it was among them.
    pub(super) fn remove(&mut self, place: &Place) -> bool {
        self.0.remove(place)
    }

    /// Takes out those that do not stay, and returns them.
    pub(super) fn retain(&mut self, stays: impl Fn(&Place) -> bool) -> Vec<Place> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let (stay, gone) = std::mem::take(&mut self.0).into_iter().partition(stays);
        self.0 = stay;
        gone.into_iter().collect()
    }
}

/// The target that a VidraTarget or a chunk of an inventory is of, by its name: a cluster's has no dot.
pub(super) fn target_of(kind: Listed, namespace: &str, name: &str) -> Option<TargetKey> {
    let name = match kind {
        Listed::Inventories => name.rsplit_once('.')?.0,
        _ => name,
    };
    let (resource, cluster) = name.rsplit_once('.')?;
    Some(TargetKey::new(namespace, resource, cluster))
}

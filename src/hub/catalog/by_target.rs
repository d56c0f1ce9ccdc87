//! Something for each of many targets, and for which of them on one cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::workqueue::{ResourceKey, TargetKey};

/// A map by target, with an index by cluster.
pub(super) struct ByTarget<V> {
    all: BTreeMap<TargetKey, V>,
    /// Their keys, by cluster.
    on: BTreeMap<Arc<str>, BTreeSet<TargetKey>>,
}

impl<V> Default for ByTarget<V> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), on: BTreeMap::new() }
    }
}

impl<V> ByTarget<V> {
    pub(super) fn all(&self) -> &BTreeMap<TargetKey, V> {
        &self.all
    }

    pub(super) fn get(&self, key: &TargetKey) -> Option<&V> {
        self.all.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &TargetKey) -> Option<&mut V> {
        self.all.get_mut(key)
    }

    pub(super) fn get_or_insert(&mut self, key: &TargetKey) -> &mut V
    where
        V: Default,
    {
        self.on.entry(key.cluster.clone()).or_default().insert(key.clone());
        self.all.entry(key.clone()).or_default()
    }

    pub(super) fn insert(&mut self, key: TargetKey, value: V) {
        self.on.entry(key.cluster.clone()).or_default().insert(key.clone());
        self.all.insert(key, value);
    }

    pub(super) fn remove(&mut self, key: &TargetKey) {
        self.all.remove(key);
        if let Some(keys) = self.on.get_mut(&key.cluster) {
            keys.remove(key);
            if keys.is_empty() {
                self.on.remove(&key.cluster);
            }
        }
    }

    /// Those on a cluster.
    pub(super) fn on(&self, cluster: &str) -> impl Iterator<Item = (&TargetKey, &V)> {
        let keys = self.on.get(cluster).into_iter().flatten();
        keys.filter_map(|key| self.all.get_key_value(key))
    }

    /// Those of a namespace.
    pub(super) fn within(&self, namespace: &str) -> impl Iterator<Item = (&TargetKey, &V)> {
        let first = TargetKey::new(namespace, "", "");
        self.all.range(first..).take_while(move |(key, _)| *key.namespace == *namespace)
    }

    /// Those of a VidraResource.
    pub(super) fn of(&self, resource: &ResourceKey) -> impl Iterator<Item = (&TargetKey, &V)> {
        let (namespace, resource) = (&resource.namespace, &resource.name);
        let first =
            TargetKey { namespace: namespace.clone(), resource: resource.clone(), cluster: "".into() };
        let is_of = move |key: &TargetKey| key.namespace == *namespace && key.resource == *resource;
        self.all.range(first..).take_while(move |(key, _)| is_of(key))
    }

    /// How many clusters have some.
    pub(super) fn clusters(&self) -> usize {
        self.on.len()
    }
}

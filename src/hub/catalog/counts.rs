//! What of the catalog a member's status and the metrics count.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use vidra_api::{MemberTargets, VidraResource, VidraTarget};
use vidra_core::status::{Standing, member_targets};

use super::{Catalog, Inner};
use crate::queue::{ResourceKey, TargetKey};

impl Catalog {
    /// The VidraResources of a namespace.
    pub fn resources_in(&self, namespace: &str) -> Vec<Arc<VidraResource>> {
        let inner = self.inner.read();
        let first = ResourceKey { namespace: namespace.into(), name: "".into() };
        let of = inner.resources.range(first..).take_while(|(key, _)| *key.namespace == *namespace);
        of.map(|(_, resource)| resource.clone()).collect()
    }

    /// The revisions that the targets of a namespace have.
    pub fn revisions_in(&self, namespace: &str) -> BTreeSet<(ResourceKey, String)> {
        let inner = self.inner.read();
        let first = TargetKey::new(namespace, "", "");
        let of = inner.targets.range(first..).take_while(|(key, _)| *key.namespace == *namespace);
        of.map(|(key, target)| (key.resource_key(), target.spec.revision.clone())).collect()
    }

    /// The same of all namespaces.
    pub fn all_revisions(&self) -> BTreeSet<(ResourceKey, String)> {
        let inner = self.inner.read();
        inner.targets.iter().map(|(key, target)| (key.resource_key(), target.spec.revision.clone())).collect()
    }

    /// The target on a cluster, there or not, of the first VidraResource of which this is true, by namespace and name:
    /// one that is declared, or of which a VidraTarget or an inventory is there, whether or not it can be read.
    pub fn find_on(&self, cluster: &Arc<str>, is: impl Fn(&str, &str) -> bool) -> Option<TargetKey> {
        let inner = self.inner.read();
        let there = inner.by_cluster.get(cluster).into_iter().flatten();
        let held = inner.inventories.keys().filter(|key| key.cluster == *cluster);
        let unread = inner.unread.owners_on(cluster);
        let declared = inner.resources.keys().chain(&unread).map(|key| (&key.namespace, &key.name));
        let mut all = there.chain(held).map(|key| (&key.namespace, &key.resource)).chain(declared);
        let (namespace, resource) = all.find(|(namespace, name)| is(namespace, name))?;
        Some(TargetKey { namespace: namespace.clone(), resource: resource.clone(), cluster: cluster.clone() })
    }

    /// The targets that VidraResources do not have on a cluster, wanted or not.
    pub fn unmade_on(&self, cluster: &Arc<str>) -> Vec<TargetKey> {
        let inner = self.inner.read();
        let alive = inner
            .resources
            .iter()
            .filter(|(_, resource)| !resource.spec.suspend && resource.metadata.deletion_timestamp.is_none());
        let key = |key: &ResourceKey| TargetKey {
            namespace: key.namespace.clone(),
            resource: key.name.clone(),
            cluster: cluster.clone(),
        };
        alive.map(|(resource, _)| key(resource)).filter(|key| !inner.targets.contains_key(key)).collect()
    }

    /// The first target on a cluster that can be read and of which this is true.
    pub fn first_on(
        &self,
        cluster: &str,
        is: impl Fn(&TargetKey, &VidraTarget) -> bool,
    ) -> Option<TargetKey> {
        let inner = self.inner.read();
        let mut keys = inner.by_cluster.get(cluster).into_iter().flatten();
        let is_read = |key: &TargetKey| !inner.unread.hides_target(key);
        keys.find(|key| inner.targets.get(*key).is_some_and(|target| is_read(key) && is(key, target)))
            .cloned()
    }

    /// The VidraTargets on a cluster that can be read.
    pub fn fleet_on(&self, cluster: &str) -> BTreeMap<TargetKey, Arc<VidraTarget>> {
        let inner = self.inner.read();
        let keys = inner.by_cluster.get(cluster).into_iter().flatten();
        let keys = keys.filter(|key| !inner.unread.hides_target(key));
        keys.filter_map(|key| Some((key.clone(), inner.targets.get(key)?.clone()))).collect()
    }

    /// What the VidraTargets on a cluster come to, and how many objects they have there as far as is known.
    pub fn counts_on(&self, cluster: &str) -> (MemberTargets, i64) {
        let inner = self.inner.read();
        let keys = inner.by_cluster.get(cluster).into_iter().flatten();
        let targets = keys.filter_map(|key| Some((inner.targets.get(key)?.as_ref(), inner.wanted(key))));
        member_targets(targets)
    }

    /// How many targets are in each state, for metrics: those that are to stay as they are counted everywhere, those that
    /// are to go by what they say.
    pub fn target_states(&self) -> BTreeMap<String, i64> {
        let (mut counts, inner) = (BTreeMap::new(), self.inner.read());
        for (key, target) in &inner.targets {
            let said = target.status.as_ref().and_then(|status| status.state);
            let state = match (said, Standing::of(target, inner.wanted(key))) {
                (None, _) => "New".to_owned(),
                (Some(state), Standing::Leaving) => format!("{state:?}"),
                (Some(_), standing) => format!("{standing:?}"),
            };
            *counts.entry(state).or_default() += 1;
        }
        counts
    }
}

impl Inner {
    /// The revision that a target's VidraResource asks for.
    fn wanted(&self, key: &TargetKey) -> Option<&str> {
        self.resources.get(&key.resource_key())?.status.as_ref()?.revision.as_deref()
    }
}

//! What is looked for among all targets, and what of them a member's status and the metrics count.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use vidra_api::{MemberTargets, VidraResource, VidraTarget};
use vidra_core::status::{CountedState, member_targets};

use super::{Contents, by_target::ByTarget, unreadable::Unread};
use crate::workqueue::{ResourceKey, TargetKey};

type Resources = BTreeMap<ResourceKey, Arc<VidraResource>>;
type Targets = ByTarget<Arc<VidraTarget>>;

/// The revisions that targets have.
pub(super) fn revisions<'a>(
    targets: impl Iterator<Item = (&'a TargetKey, &'a Arc<VidraTarget>)>,
) -> BTreeSet<(ResourceKey, String)> {
    targets.map(|(key, target)| (key.resource_key(), target.spec.revision.clone())).collect()
}

/// The target on a cluster, there or not, of the first VidraResource of which this is true.
pub(super) fn find_on(
    contents: &Contents,
    cluster: &Arc<str>,
    is: impl Fn(&str, &str) -> bool,
) -> Option<TargetKey> {
    let there = contents.targets.on(cluster).map(|(key, _)| key);
    let held = contents.inventories.on(cluster).map(|(key, _)| key);
    let unread = contents.unread.owners_on(cluster);
    let declared = contents.resources.keys().chain(&unread).map(|key| (&key.namespace, &key.name));
    let mut all = there.chain(held).map(|key| (&key.namespace, &key.resource)).chain(declared);
    let (namespace, resource) = all.find(|(namespace, name)| is(namespace, name))?;
    Some(TargetKey { namespace: namespace.clone(), resource: resource.clone(), cluster: cluster.clone() })
}

/// The targets that VidraResources do not have on a cluster, wanted or not.
pub(super) fn unmade_on(resources: &Resources, targets: &Targets, cluster: &Arc<str>) -> Vec<TargetKey> {
    let alive = resources
        .iter()
        .filter(|(_, resource)| !resource.spec.suspend && resource.metadata.deletion_timestamp.is_none());
    let key = |key: &ResourceKey| TargetKey {
        namespace: key.namespace.clone(),
        resource: key.name.clone(),
        cluster: cluster.clone(),
    };
    alive.map(|(resource, _)| key(resource)).filter(|key| targets.get(key).is_none()).collect()
}

/// The VidraTargets on a cluster that can be read.
pub(super) fn fleet_on<'a>(
    targets: &'a Targets,
    unread: &'a Unread,
    cluster: &str,
) -> impl Iterator<Item = (&'a TargetKey, &'a Arc<VidraTarget>)> {
    targets.on(cluster).filter(|(key, _)| !unread.hides_target(key))
}

/// What the VidraTargets on a cluster come to, and how many objects they have there as far as is known.
pub(super) fn counts_on(resources: &Resources, targets: &Targets, cluster: &str) -> (MemberTargets, i64) {
    member_targets(targets.on(cluster).map(|(key, target)| (target.as_ref(), wanted(resources, key))))
}

/// How many targets are in each state.
pub(super) fn states(resources: &Resources, targets: &Targets) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for (key, target) in targets.all() {
        let said = target.status.as_ref().and_then(|status| status.state);
        let state = match (said, CountedState::of(target, wanted(resources, key))) {
            (None, _) => "New".to_owned(),
            (Some(state), CountedState::Leaving) => format!("{state:?}"),
            (Some(_), standing) => format!("{standing:?}"),
        };
        *counts.entry(state).or_default() += 1;
    }
    counts
}

/// The revision that a target's VidraResource asks for.
fn wanted<'a>(resources: &'a Resources, key: &TargetKey) -> Option<&'a str> {
    resources.get(&key.resource_key())?.status.as_ref()?.revision.as_deref()
}

//! The MemberClusters, in the order in which they came, and what a change of one is to those who go by it.

use std::{collections::BTreeMap, sync::Arc};

use kube::ResourceExt;
use vidra_api::{
    MemberCluster,
    labels::{APPROVE_REMOVAL, CONFIRM, FORGET, TAKE_OVER_FROM},
};

/// The MemberClusters by name, and when each came.
#[derive(Default)]
pub(super) struct Members {
    by_name: BTreeMap<String, Arc<MemberCluster>>,
    /// How many members have come.
    arrivals: u64,
    /// Which one of them each was.
    arrived: BTreeMap<String, u64>,
}

impl Members {
    pub(super) fn by_name(&self) -> &BTreeMap<String, Arc<MemberCluster>> {
        &self.by_name
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<MemberCluster>> {
        self.by_name.get(name)
    }

    pub(super) fn insert(&mut self, member: MemberCluster) -> MemberChange {
        let name = member.name_any();
        let change = MemberChange::between(self.get(&name).map(Arc::as_ref), &member);
        self.by_name.insert(name.clone(), Arc::new(member));
        if change.comes {
            self.arrivals += 1;
            self.arrived.insert(name, self.arrivals);
        }
        change
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.by_name.remove(name);
        self.arrived.remove(name);
    }

    /// How many have come, made again under their names too.
    pub(super) fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// What that was when this one had come.
    pub(super) fn arrival(&self, name: &str) -> u64 {
        self.arrived.get(name).copied().unwrap_or_default()
    }

    /// Those whose spec names this Secret.
    pub(super) fn referring(&self, namespace: &str, name: &str) -> Vec<String> {
        let refers = |member: &MemberCluster| {
            let reference = member.spec.kubeconfig_secret_ref.as_ref();
            reference.is_some_and(|reference| reference.namespace == namespace && reference.name == name)
        };
        self.by_name.iter().filter(|(_, member)| refers(member)).map(|(name, _)| name.clone()).collect()
    }

    /// How many arrivals are known.
    pub(super) fn arrived(&self) -> usize {
        self.arrived.len()
    }
}

/// What of a MemberCluster is otherwise than it was, by who goes by that.
pub(super) struct MemberChange {
    /// There was none of its name, or another one.
    pub(super) comes: bool,
    /// For the cluster loop.
    pub(super) cluster: bool,
    /// For VidraResources: whether they select it, and what they have there.
    pub(super) resources: bool,
    /// For targets that stay as they are: what they may do there.
    pub(super) targets: bool,
}

impl MemberChange {
    fn between(held: Option<&MemberCluster>, now: &MemberCluster) -> Self {
        let Some(held) = held else {
            return Self { comes: true, cluster: true, resources: true, targets: false };
        };
        let differs = |key| held.annotations().get(key) != now.annotations().get(key);
        let comes = held.uid() != now.uid();
        let is_allowed_otherwise = held.spec.allowed_namespaces != now.spec.allowed_namespaces
            || held.spec.on_revoke != now.spec.on_revoke;
        let labels = held.metadata.labels != now.metadata.labels;
        let deletion = held.metadata.deletion_timestamp != now.metadata.deletion_timestamp;
        Self {
            comes,
            cluster: comes
                || labels
                || deletion
                || held.metadata.generation != now.metadata.generation
                || held.metadata.annotations != now.metadata.annotations
                || held.metadata.finalizers != now.metadata.finalizers,
            resources: labels
                || deletion
                || is_allowed_otherwise
                || differs(FORGET)
                || differs(APPROVE_REMOVAL)
                || held.spec.values != now.spec.values,
            targets: is_allowed_otherwise
                || held.spec.suspend != now.spec.suspend
                || differs(CONFIRM)
                || differs(TAKE_OVER_FROM),
        }
    }
}

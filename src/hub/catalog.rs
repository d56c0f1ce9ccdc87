//! What is declared on the hub, in memory: folded from watches and from the answers of our own writes.
//!
//! Mapping a change to keys is a lookup here. It does no I/O, so it cannot fail.

mod counts;
mod gone;
mod urgency;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::ResourceExt;
use parking_lot::RwLock;
use vidra_api::{
    MemberCluster, VidraInventory, VidraResource, VidraTarget,
    labels::{CONFIRM, FORGET, TAKE_OVER_FROM},
};
use vidra_core::status::counted;

use super::{
    inventory::{Chunk, Chunks, version_of},
    sources::index::SourceIndex,
    watch::Registration,
};
use crate::{
    interned::Interned,
    queue::{Key, Priority, Queue, ResourceKey, TargetKey},
};

/// See the module.
pub struct Catalog {
    queue: Arc<Queue>,
    sources: SourceIndex,
    interned: Arc<Interned>,
    urgency: urgency::Urgency,
    inner: RwLock<Inner>,
}

struct Inner {
    resources: BTreeMap<ResourceKey, Arc<VidraResource>>,
    targets: BTreeMap<TargetKey, Arc<VidraTarget>>,
    by_cluster: BTreeMap<Arc<str>, BTreeSet<TargetKey>>,
    inventories: BTreeMap<TargetKey, Chunks>,
    members: BTreeMap<String, Arc<MemberCluster>>,
    registrations: BTreeMap<(String, String), Arc<Registration>>,
    gone: gone::Gone,
    /// What the hub made since the last list of its kind began.
    made: BTreeSet<(Listed, String, String)>,
}

impl Inner {
    fn new(gone: usize) -> Self {
        Self {
            resources: BTreeMap::new(),
            targets: BTreeMap::new(),
            by_cluster: BTreeMap::new(),
            inventories: BTreeMap::new(),
            members: BTreeMap::new(),
            registrations: BTreeMap::new(),
            gone: gone::Gone::new(gone),
            made: BTreeSet::new(),
        }
    }

    /// Is `now` an older view than what is held, or of what is gone? Only own answers and the watch's order are compared.
    fn is_late<K: ResourceExt>(&self, held: Option<&Arc<K>>, now: &K) -> bool {
        let version = |object: &K| object.resource_version().and_then(|version| version.parse::<u64>().ok());
        let is_older = |held: &Arc<K>| held.uid() == now.uid() && version(now) < version(held);
        held.is_some_and(is_older) || self.gone.has(now.uid().as_deref())
    }

    /// MemberClusters whose spec names this Secret.
    fn referring(&self, namespace: &str, name: &str) -> Vec<String> {
        let refers = |member: &MemberCluster| {
            let reference = member.spec.kubeconfig_secret_ref.as_ref();
            reference.is_some_and(|reference| reference.namespace == namespace && reference.name == name)
        };
        self.members.iter().filter(|(_, member)| refers(member)).map(|(name, _)| name.clone()).collect()
    }
}

fn same_version<K: ResourceExt>(held: &K, now: &K) -> bool {
    held.uid() == now.uid() && held.resource_version() == now.resource_version()
}

impl Catalog {
    /// Nothing is declared yet; so many uids of what is gone are remembered.
    pub fn new(queue: Arc<Queue>, gone: usize) -> Self {
        Self {
            sources: SourceIndex::new(queue.clone()),
            queue,
            interned: Arc::default(),
            urgency: urgency::Urgency::default(),
            inner: RwLock::new(Inner::new(gone)),
        }
    }

    /// Which VidraResource reads which ConfigMaps and Secrets.
    pub fn sources(&self) -> &SourceIndex {
        &self.sources
    }

    /// What this hub keeps one copy of.
    pub fn interned(&self) -> &Arc<Interned> {
        &self.interned
    }

    /// One VidraResource.
    pub fn resource(&self, key: &ResourceKey) -> Option<Arc<VidraResource>> {
        self.inner.read().resources.get(key).cloned()
    }

    /// One VidraTarget.
    pub fn target(&self, key: &TargetKey) -> Option<Arc<VidraTarget>> {
        self.inner.read().targets.get(key).cloned()
    }

    /// The VidraTargets of a resource, by cluster name.
    pub fn targets_of(&self, key: &ResourceKey) -> BTreeMap<String, Arc<VidraTarget>> {
        let inner = self.inner.read();
        let first =
            TargetKey { namespace: key.namespace.clone(), resource: key.name.clone(), cluster: "".into() };
        inner
            .targets
            .range(first..)
            .take_while(|(target, _)| target.namespace == key.namespace && target.resource == key.name)
            .map(|(target, object)| (target.cluster.to_string(), object.clone()))
            .collect()
    }

    /// The targets on a cluster.
    pub fn targets_on(&self, cluster: &str) -> Vec<TargetKey> {
        let inner = self.inner.read();
        inner.by_cluster.get(cluster).into_iter().flatten().cloned().collect()
    }

    /// All targets.
    pub fn all_targets(&self) -> Vec<TargetKey> {
        self.inner.read().targets.keys().cloned().collect()
    }

    /// Every VidraTarget.
    pub fn every_target(&self) -> BTreeMap<TargetKey, Arc<VidraTarget>> {
        self.inner.read().targets.clone()
    }

    /// The inventory chunks of a target, by object name.
    pub fn inventory(&self, key: &TargetKey) -> Chunks {
        self.inner.read().inventories.get(key).cloned().unwrap_or_default()
    }

    /// One MemberCluster.
    pub fn member(&self, name: &str) -> Option<Arc<MemberCluster>> {
        self.inner.read().members.get(name).cloned()
    }

    /// All MemberClusters.
    pub fn members(&self) -> Vec<Arc<MemberCluster>> {
        self.inner.read().members.values().cloned().collect()
    }

    /// One registration Secret, by namespace and name.
    pub fn registration(&self, namespace: &str, name: &str) -> Option<Arc<Registration>> {
        self.inner.read().registrations.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// The registration Secrets that name a cluster, oldest first.
    pub fn registrations_for(&self, cluster: &str) -> Vec<Arc<Registration>> {
        let inner = self.inner.read();
        let mut all: Vec<_> =
            inner.registrations.values().filter(|one| one.cluster == cluster).cloned().collect();
        all.sort_by(|a, b| (&a.created, &a.name).cmp(&(&b.created, &b.name)));
        all
    }

    /// Folds a VidraResource.
    pub fn fold_resource(&self, mut resource: VidraResource) {
        resource.metadata.managed_fields = None;
        let key = ResourceKey::new(&resource.namespace().unwrap_or_default(), &resource.name_any());
        let mut inner = self.inner.write();
        let held = inner.resources.get(&key);
        if inner.is_late(held, &resource) {
            return;
        }
        let changed = held.is_none_or(|held| {
            held.uid() != resource.uid()
                || held.metadata.generation != resource.metadata.generation
                || held.metadata.deletion_timestamp != resource.metadata.deletion_timestamp
                || held.metadata.annotations != resource.metadata.annotations
                || held.metadata.finalizers != resource.metadata.finalizers
                // Erased: its own writes leave one.
                || held.status.is_some() && resource.status.is_none()
        });
        self.sources.declare(&key, &resource);
        inner.resources.insert(key.clone(), Arc::new(resource));
        drop(inner);
        if changed {
            self.queue.add(Key::Resource(key), self.urgency.of_change());
        }
    }

    /// Folds a VidraTarget: a change of its spec is for the target loop, of its status for the roll-up.
    pub fn fold_target(&self, mut target: VidraTarget) {
        target.metadata.managed_fields = None;
        let namespace = target.namespace().unwrap_or_default();
        let key = TargetKey::new(&namespace, &target.spec.resource, &target.spec.cluster);
        if key.target_name() != target.name_any() {
            return;
        }
        let mut inner = self.inner.write();
        let held = inner.targets.get(&key);
        if inner.is_late(held, &target) || held.is_some_and(|held| same_version(held.as_ref(), &target)) {
            return;
        }
        let (spec, status, counts) = match held {
            None => (true, true, true),
            Some(held) => (
                held.uid() != target.uid()
                    || held.spec != target.spec
                    || held.metadata.deletion_timestamp != target.metadata.deletion_timestamp
                    // Erased: its own writes leave one.
                    || held.status.is_some() && target.status.is_none(),
                held.status != target.status
                    || held.metadata.deletion_timestamp != target.metadata.deletion_timestamp,
                counted(held.status.as_ref()) != counted(target.status.as_ref()),
            ),
        };
        inner.targets.insert(key.clone(), Arc::new(target));
        inner.by_cluster.entry(key.cluster.clone()).or_default().insert(key.clone());
        drop(inner);
        if status {
            self.queue.add(Key::Resource(key.resource_key()), Priority::Drift);
        }
        if counts {
            self.queue.recount(&key.cluster);
        }
        if spec {
            self.queue.add(Key::Target(key), self.urgency.of_change());
        }
    }

    /// Folds a VidraInventory; the target loop that wrote it itself need not look again.
    pub fn fold_inventory(&self, inventory: VidraInventory, own: bool) {
        let namespace = inventory.namespace().unwrap_or_default();
        let key = TargetKey::new(&namespace, &inventory.spec.resource, &inventory.spec.cluster);
        let (name, uid, version) = (inventory.name_any(), inventory.uid(), version_of(&inventory));
        let is_known = |inner: &Inner| {
            let held = inner.inventories.get(&key).and_then(|chunks| chunks.get(&name));
            inner.gone.has(uid.as_deref())
                || held.is_some_and(|held| Some(&held.uid) == uid.as_ref() && held.version >= version)
        };
        // Not even read: a watch repeats each write.
        if is_known(&self.inner.read()) {
            return;
        }
        let chunk = Arc::new(Chunk::read(inventory, &self.interned));
        let mut inner = self.inner.write();
        if is_known(&inner) {
            return;
        }
        inner.inventories.entry(key.clone()).or_default().insert(name, chunk);
        drop(inner);
        if !own {
            self.queue.add(Key::Target(key), Priority::Resync);
        }
    }

    /// Folds a MemberCluster.
    pub fn fold_member(&self, mut member: MemberCluster) {
        member.metadata.managed_fields = None;
        let name = member.name_any();
        let mut inner = self.inner.write();
        let held = inner.members.get(&name);
        if inner.is_late(held, &member) {
            return;
        }
        let selected = |member: &MemberCluster| {
            (
                member.metadata.labels.clone(),
                member.metadata.deletion_timestamp.clone(),
                member.spec.allowed_namespaces.clone(),
                member.annotations().get(FORGET).cloned(),
                member.spec.values.clone(),
            )
        };
        let differs =
            |held: &MemberCluster, key| held.annotations().get(key) != member.annotations().get(key);
        let rests = held.is_some_and(|held| {
            held.spec.suspend != member.spec.suspend
                || differs(held, CONFIRM)
                || differs(held, TAKE_OVER_FROM)
        });
        let (own, selection) = match held {
            None => (true, true),
            Some(held) => (
                held.uid() != member.uid()
                    || held.metadata.generation != member.metadata.generation
                    || held.metadata.deletion_timestamp != member.metadata.deletion_timestamp
                    || held.metadata.annotations != member.metadata.annotations
                    || held.metadata.finalizers != member.metadata.finalizers
                    || held.metadata.labels != member.metadata.labels,
                selected(held) != selected(&member),
            ),
        };
        inner.members.insert(name.clone(), Arc::new(member));
        drop(inner);
        if own {
            self.queue.add(Key::Cluster(name.as_str().into()), Priority::User);
        }
        if selection {
            self.all_resources();
        }
        if rests {
            for target in self.targets_on(&name) {
                self.queue.add(Key::Target(target), Priority::User);
            }
        }
    }

    /// Folds a registration Secret.
    pub fn fold_registration(&self, registration: Registration) {
        let key = (registration.namespace.clone(), registration.name.clone());
        let mut inner = self.inner.write();
        let before = inner.registrations.insert(key, Arc::new(registration.clone()));
        let referring = inner.referring(&registration.namespace, &registration.name);
        drop(inner);
        if before.as_deref() == Some(&registration) {
            return;
        }
        for cluster in referring.iter().chain([&registration.cluster]) {
            self.queue.add(Key::Cluster(cluster.as_str().into()), Priority::User);
        }
        if let Some(before) = before.filter(|before| before.cluster != registration.cluster) {
            self.queue.add(Key::Cluster(before.cluster.as_str().into()), Priority::User);
        }
    }

    /// A VidraResource is gone.
    pub fn drop_resource(&self, key: &ResourceKey) {
        self.inner.write().resources.remove(key);
        self.sources.forget(key);
        self.queue.add(Key::Resource(key.clone()), Priority::User);
    }

    /// A VidraTarget is gone (the one with this uid, or whichever there is).
    pub fn drop_target(&self, key: &TargetKey, uid: Option<&str>) {
        let mut inner = self.inner.write();
        if inner.targets.get(key).is_none_or(|held| uid.is_some() && held.uid().as_deref() != uid) {
            return;
        }
        inner.targets.remove(key);
        if let Some(keys) = inner.by_cluster.get_mut(&key.cluster) {
            keys.remove(key);
        }
        drop(inner);
        self.queue.add(Key::Target(key.clone()), Priority::User);
        self.queue.add(Key::Resource(key.resource_key()), Priority::User);
        self.queue.add(Key::Cluster(key.cluster.clone()), Priority::Resync);
    }

    /// An inventory chunk is gone.
    pub fn drop_inventory(&self, key: &TargetKey, name: &str) {
        let mut inner = self.inner.write();
        let Some(chunks) = inner.inventories.get_mut(key) else { return };
        if chunks.remove(name).is_none() {
            return;
        }
        if chunks.is_empty() {
            inner.inventories.remove(key);
        }
        drop(inner);
        self.queue.add(Key::Target(key.clone()), Priority::Resync);
    }

    /// A MemberCluster is gone.
    pub fn drop_member(&self, name: &str) {
        self.inner.write().members.remove(name);
        self.queue.add(Key::Cluster(name.into()), Priority::User);
        self.all_resources();
    }

    /// Only these namespaces register members: what others hold counts as gone.
    pub fn register_from(&self, namespaces: &BTreeSet<String>) {
        let inner = self.inner.read();
        let outside = inner.registrations.keys().filter(|(namespace, _)| !namespaces.contains(namespace));
        let outside: Vec<_> = outside.cloned().collect();
        drop(inner);
        outside.iter().for_each(|(namespace, name)| self.drop_registration(namespace, name));
    }

    /// A registration Secret is gone.
    pub fn drop_registration(&self, namespace: &str, name: &str) {
        let mut inner = self.inner.write();
        let Some(gone) = inner.registrations.remove(&(namespace.to_owned(), name.to_owned())) else { return };
        let referring = inner.referring(namespace, name);
        drop(inner);
        for cluster in referring.iter().chain([&gone.cluster]) {
            self.queue.add(Key::Cluster(cluster.as_str().into()), Priority::User);
        }
    }

    /// A list begins: what is made from now on may be missing from it.
    pub fn listing(&self, kind: Listed) {
        self.inner.write().made.retain(|(of, _, _)| *of != kind);
    }

    /// The hub made an object itself.
    pub fn made(&self, kind: Listed, namespace: &str, name: &str) {
        self.inner.write().made.insert((kind, namespace.to_owned(), name.to_owned()));
    }

    /// Ends a list of all namespaces, or of one: what it did not show, and was not made since it began, is gone.
    pub fn listed(&self, kind: Listed, within: Option<&str>, seen: &BTreeSet<(String, String)>) {
        let inner = self.inner.read();
        let made = inner.made.clone();
        let unseen = |namespace: &str, name: &str| {
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            within.is_none_or(|within| within == namespace)
                && !seen.contains(&(namespace.clone(), name.clone()))
                && !made.contains(&(kind, namespace, name))
        };
        match kind {
            Listed::Resources => {
                let gone: Vec<_> =
                    inner.resources.keys().filter(|key| unseen(&key.namespace, &key.name)).cloned().collect();
                drop(inner);
                gone.iter().for_each(|key| self.drop_resource(key));
            }
            Listed::Targets => {
                let gone: Vec<_> = inner
                    .targets
                    .keys()
                    .filter(|key| unseen(&key.namespace, &key.target_name()))
                    .cloned()
                    .collect();
                drop(inner);
                gone.iter().for_each(|key| self.drop_target(key, None));
            }
            Listed::Inventories => {
                let chunks = inner.inventories.iter().flat_map(|(key, chunks)| {
                    chunks
                        .keys()
                        .filter(|name| unseen(&key.namespace, name))
                        .map(|name| (key.clone(), name.clone()))
                });
                let gone: Vec<_> = chunks.collect();
                drop(inner);
                gone.iter().for_each(|(key, name)| self.drop_inventory(key, name));
            }
            Listed::Members => {
                let gone: Vec<_> = inner.members.keys().filter(|name| unseen("", name)).cloned().collect();
                drop(inner);
                gone.iter().for_each(|name| self.drop_member(name));
            }
            Listed::Registrations => {
                let gone: Vec<_> = inner
                    .registrations
                    .keys()
                    .filter(|(namespace, name)| unseen(namespace, name))
                    .cloned()
                    .collect();
                drop(inner);
                gone.iter().for_each(|(namespace, name)| self.drop_registration(namespace, name));
            }
        }
    }
}

/// What was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listed {
    /// VidraResources.
    Resources,
    /// VidraTargets.
    Targets,
    /// VidraInventories.
    Inventories,
    /// MemberClusters.
    Members,
    /// Registration Secrets.
    Registrations,
}

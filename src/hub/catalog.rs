//! What is declared on the hub, in memory: folded from watches and from the answers of our own writes.
//!
//! Mapping a change to keys is a lookup here. It does no I/O, so it cannot fail.

mod counts;
mod entries;
mod floors;
mod unreadable;
mod urgency;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::{Resource, ResourceExt};
use parking_lot::RwLock;
use vidra_api::{
    MemberCluster, VidraInventory, VidraResource, VidraTarget,
    labels::{APPROVE_REMOVAL, CONFIRM, FORGET, TAKE_OVER_FROM},
};
use vidra_core::status::counted;

use floors::Floors;
pub use floors::Via;
pub use unreadable::Lack;

use super::{
    inventory::{Chunk, Chunks, Terms},
    registration::Registration,
    sources::index::SourceIndex,
    version::version,
};
use crate::{
    base::interner::{Interned, Interner},
    queue::{Key, Priority, Queue, ResourceKey, TargetKey},
};

/// See the module.
pub struct Catalog {
    queue: Arc<Queue>,
    sources: SourceIndex,
    interned: Arc<Interned>,
    /// What inventories say of objects.
    terms: Interner<Arc<Terms>>,
    urgency: urgency::Urgency,
    inner: RwLock<Inner>,
}

/// What of a MemberCluster is otherwise than it was, by who goes by that.
struct MemberChange {
    /// There was none of its name, or another one.
    comes: bool,
    /// For the cluster loop.
    cluster: bool,
    /// For VidraResources: whether they select it, and what they have there.
    resources: bool,
    /// For targets that stay as they are: what they may do there.
    targets: bool,
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

struct Inner {
    resources: BTreeMap<ResourceKey, Arc<VidraResource>>,
    targets: BTreeMap<TargetKey, Arc<VidraTarget>>,
    by_cluster: BTreeMap<Arc<str>, BTreeSet<TargetKey>>,
    inventories: BTreeMap<TargetKey, Chunks>,
    /// Those of `inventories`, by cluster.
    inventoried: BTreeMap<Arc<str>, BTreeSet<TargetKey>>,
    members: BTreeMap<String, Arc<MemberCluster>>,
    /// How many members have come.
    arrivals: u64,
    /// Which one of them each was.
    arrived: BTreeMap<String, u64>,
    registrations: BTreeMap<(String, String), Arc<Registration>>,
    floors: Floors,
    unread: unreadable::Unread,
}

impl Inner {
    fn new() -> Self {
        Self {
            resources: BTreeMap::new(),
            targets: BTreeMap::new(),
            by_cluster: BTreeMap::new(),
            inventories: BTreeMap::new(),
            inventoried: BTreeMap::new(),
            members: BTreeMap::new(),
            arrivals: 0,
            arrived: BTreeMap::new(),
            registrations: BTreeMap::new(),
            floors: Floors::default(),
            unread: unreadable::Unread::default(),
        }
    }

    /// Is this news of an object, of which that is held?
    fn is_news<K: Resource>(&self, kind: Listed, held: Option<&Arc<K>>, now: &K, via: Via) -> bool {
        let place = (
            now.meta().namespace.as_deref().unwrap_or_default(),
            now.meta().name.as_deref().unwrap_or_default(),
        );
        let held = held.map_or(0, |held| version(held.as_ref()));
        self.floors.is_news(kind, place, (held, version(now)), via)
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

impl Catalog {
    /// Nothing is declared yet.
    pub fn new(queue: Arc<Queue>) -> Self {
        Self {
            sources: SourceIndex::new(queue.clone()),
            queue,
            interned: Arc::default(),
            terms: Interner::default(),
            urgency: urgency::Urgency::default(),
            inner: RwLock::new(Inner::new()),
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

    /// One VidraResource, unless it cannot be read now.
    pub fn resource(&self, key: &ResourceKey) -> Option<Arc<VidraResource>> {
        self.find_resource(key).ok()
    }

    /// The same, or why not.
    ///
    /// # Errors
    /// It is not there, or cannot be read now.
    pub fn find_resource(&self, key: &ResourceKey) -> Result<Arc<VidraResource>, Lack> {
        let inner = self.inner.read();
        let is_unread = inner.unread.has(Listed::Resources, &key.namespace, &key.name);
        unreadable::or_lack(inner.resources.get(key), is_unread)
    }

    /// One VidraTarget, unless it cannot be read now.
    pub fn target(&self, key: &TargetKey) -> Option<Arc<VidraTarget>> {
        self.find_target(key).ok()
    }

    /// The same, or why not.
    ///
    /// # Errors
    /// It is not there, or cannot be read now.
    pub fn find_target(&self, key: &TargetKey) -> Result<Arc<VidraTarget>, Lack> {
        let inner = self.inner.read();
        unreadable::or_lack(inner.targets.get(key), inner.unread.has_target(key))
    }

    /// The VidraTargets of a resource that can be read, by cluster name.
    pub fn targets_of(&self, key: &ResourceKey) -> BTreeMap<String, Arc<VidraTarget>> {
        let inner = self.inner.read();
        let first =
            TargetKey { namespace: key.namespace.clone(), resource: key.name.clone(), cluster: "".into() };
        inner
            .targets
            .range(first..)
            .take_while(|(target, _)| target.namespace == key.namespace && target.resource == key.name)
            .filter(|(target, _)| !inner.unread.hides_target(target))
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

    /// The uids of the clusters that what a member was delivered is in, as the inventories say.
    pub fn delivered_to(&self, cluster: &str) -> BTreeSet<Arc<str>> {
        let inner = self.inner.read();
        let keys = inner.inventoried.get(cluster).into_iter().flatten();
        let chunks = keys.filter_map(|key| inner.inventories.get(key)).flat_map(Chunks::values);
        chunks.filter_map(|chunk| chunk.cluster().cloned()).collect()
    }

    /// One MemberCluster, unless it cannot be read now.
    pub fn member(&self, name: &str) -> Option<Arc<MemberCluster>> {
        self.find_member(name).ok()
    }

    /// The same, or why not.
    ///
    /// # Errors
    /// It is not there, or cannot be read now.
    pub fn find_member(&self, name: &str) -> Result<Arc<MemberCluster>, Lack> {
        let inner = self.inner.read();
        unreadable::or_lack(inner.members.get(name), inner.unread.has(Listed::Members, "", name))
    }

    /// All MemberClusters that can be read.
    pub fn members(&self) -> Vec<Arc<MemberCluster>> {
        let inner = self.inner.read();
        let read = inner.members.iter().filter(|(name, _)| !inner.unread.hides(Listed::Members, "", name));
        read.map(|(_, member)| member.clone()).collect()
    }

    /// All MemberClusters, those that cannot be read now as they were known: which cluster one has is known for good.
    pub fn known_members(&self) -> Vec<Arc<MemberCluster>> {
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
    pub fn fold_resource(&self, mut resource: VidraResource, via: Via) {
        resource.metadata.managed_fields = None;
        let key = ResourceKey::new(&resource.namespace().unwrap_or_default(), &resource.name_any());
        let mut inner = self.inner.write();
        let held = inner.resources.get(&key);
        if !inner.is_news(Listed::Resources, held, &resource, via) {
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
        // Targets that have another revision are not counted as ready.
        let wanted = |resource: &VidraResource| resource.status.as_ref().map(|one| one.revision.clone());
        let recount = held.map(|held| wanted(held)) != Some(wanted(&resource));
        self.sources.declare(&key, &resource);
        inner.resources.insert(key.clone(), Arc::new(resource));
        drop(inner);
        if recount {
            self.targets_of(&key).keys().for_each(|cluster| self.queue.recount(&cluster.as_str().into()));
        }
        if changed {
            self.queue.add(Key::Resource(key), self.urgency.of_change());
        }
    }

    /// Folds a VidraTarget: a change of its spec is for the target loop, of its status for the roll-up.
    pub fn fold_target(&self, mut target: VidraTarget, via: Via) {
        target.metadata.managed_fields = None;
        let namespace = target.namespace().unwrap_or_default();
        let key = TargetKey::new(&namespace, &target.spec.resource, &target.spec.cluster);
        if key.target_name() != target.name_any() {
            return;
        }
        let mut inner = self.inner.write();
        let held = inner.targets.get(&key);
        if !inner.is_news(Listed::Targets, held, &target, via) {
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
                    || held.metadata.deletion_timestamp != target.metadata.deletion_timestamp
                    || held.annotations().get(APPROVE_REMOVAL) != target.annotations().get(APPROVE_REMOVAL),
                counted(held) != counted(&target),
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
    pub fn fold_inventory(&self, inventory: VidraInventory, via: Via) {
        let namespace = inventory.namespace().unwrap_or_default();
        let key = TargetKey::new(&namespace, &inventory.spec.resource, &inventory.spec.cluster);
        let (name, now) = (inventory.name_any(), version(&inventory));
        let is_news = |inner: &Inner| {
            let held = inner.inventories.get(&key).and_then(|chunks| chunks.get(&name));
            let held = held.map_or(0, |held| held.version);
            inner.floors.is_news(Listed::Inventories, (&namespace, &name), (held, now), via)
        };
        // Not even read: a watch repeats each write.
        if !is_news(&self.inner.read()) {
            return;
        }
        let chunk = Arc::new(Chunk::read(inventory, &self.interned, &self.terms));
        let mut inner = self.inner.write();
        if !is_news(&inner) {
            return;
        }
        inner.inventories.entry(key.clone()).or_default().insert(name, chunk);
        inner.inventoried.entry(key.cluster.clone()).or_default().insert(key.clone());
        drop(inner);
        if via == Via::Watch {
            self.queue.add(Key::Target(key), Priority::Resync);
        }
    }

    /// How many MemberClusters have come, made again under their names too; each time all VidraResources look again.
    pub fn arrivals(&self) -> u64 {
        self.inner.read().arrivals
    }

    /// What [`arrivals`](Self::arrivals) was when this member had come. Its labels count for nothing here: somebody may
    /// change them faster than VidraResources look.
    pub fn arrival(&self, name: &str) -> u64 {
        self.inner.read().arrived.get(name).copied().unwrap_or_default()
    }

    /// Folds a MemberCluster.
    pub fn fold_member(&self, mut member: MemberCluster, via: Via) {
        member.metadata.managed_fields = None;
        let (name, leaves) = (member.name_any(), member.metadata.deletion_timestamp.is_some());
        let mut inner = self.inner.write();
        let held = inner.members.get(&name);
        if !inner.is_news(Listed::Members, held, &member, via) {
            return;
        }
        let change = MemberChange::between(held.map(Arc::as_ref), &member);
        inner.members.insert(name.clone(), Arc::new(member));
        if change.comes {
            inner.arrivals += 1;
            let number = inner.arrivals;
            inner.arrived.insert(name.clone(), number);
        }
        drop(inner);
        if change.cluster {
            self.queue.add(Key::Cluster(name.as_str().into()), Priority::User);
        }
        if change.resources || change.comes {
            self.all_resources();
        }
        if change.resources && leaves {
            // Those too that are not there, and whose targets are.
            for target in self.targets_on(&name) {
                self.queue.add(Key::Resource(target.resource_key()), self.urgency.of_change());
            }
        }
        if change.targets {
            for target in self.targets_on(&name) {
                self.queue.add(Key::Target(target), Priority::User);
            }
        }
    }

    /// Folds a registration Secret.
    pub fn fold_registration(&self, registration: Registration, via: Via) {
        let key = (registration.namespace.clone(), registration.name.clone());
        let mut inner = self.inner.write();
        let held = inner.registrations.get(&key).map_or(0, |held| held.version);
        let versions = (held, registration.version);
        if !inner.floors.is_news(Listed::Registrations, (&key.0, &key.1), versions, via) {
            return;
        }
        let before = inner.registrations.insert(key, Arc::new(registration.clone()));
        let referring = inner.referring(&registration.namespace, &registration.name);
        drop(inner);
        let same = |before: &Registration| before.says_the_same(&registration);
        if before.as_deref().is_some_and(same) {
            return;
        }
        for cluster in referring.iter().chain([&registration.cluster]) {
            self.queue.add(Key::Cluster(cluster.as_str().into()), Priority::User);
        }
        if let Some(before) = before.filter(|before| before.cluster != registration.cluster) {
            self.queue.add(Key::Cluster(before.cluster.as_str().into()), Priority::User);
        }
    }

    /// A VidraResource is gone, in this version or before it.
    pub fn drop_resource(&self, key: &ResourceKey, at: u64) {
        let mut inner = self.inner.write();
        if inner.resources.get(key).is_some_and(|held| version(held.as_ref()) > at) {
            return;
        }
        inner.resources.remove(key);
        drop(inner);
        self.sources.forget(key);
        self.queue.add(Key::Resource(key.clone()), Priority::User);
    }

    /// A VidraTarget is gone, in this version or before it.
    pub fn drop_target(&self, key: &TargetKey, at: u64) {
        let mut inner = self.inner.write();
        if inner.targets.get(key).is_none_or(|held| version(held.as_ref()) > at) {
            return;
        }
        inner.targets.remove(key);
        take_out(&mut inner.by_cluster, key);
        drop(inner);
        self.queue.add(Key::Target(key.clone()), Priority::User);
        self.queue.add(Key::Resource(key.resource_key()), Priority::User);
        self.queue.add(Key::Cluster(key.cluster.clone()), Priority::Resync);
    }

    /// An inventory chunk is gone, in this version or before it.
    pub fn drop_inventory(&self, key: &TargetKey, name: &str, at: u64) {
        let mut inner = self.inner.write();
        let Some(chunks) = inner.inventories.get_mut(key) else { return };
        if chunks.get(name).is_none_or(|held| held.version > at) {
            return;
        }
        chunks.remove(name);
        if chunks.is_empty() {
            inner.inventories.remove(key);
            take_out(&mut inner.inventoried, key);
        }
        drop(inner);
        self.queue.add(Key::Target(key.clone()), Priority::Resync);
    }

    /// A MemberCluster is gone, in this version or before it.
    pub fn drop_member(&self, name: &str, at: u64) {
        let mut inner = self.inner.write();
        if inner.members.get(name).is_some_and(|held| version(held.as_ref()) > at) {
            return;
        }
        inner.members.remove(name);
        inner.arrived.remove(name);
        drop(inner);
        self.queue.add(Key::Cluster(name.into()), Priority::User);
        self.all_resources();
    }

    /// What bears this name is gone, in this version or before it.
    pub fn drop_named(&self, kind: Listed, (namespace, name): &(String, String), at: u64) {
        let within = |key: &TargetKey| *key.namespace == **namespace;
        match kind {
            Listed::Resources => self.drop_resource(&ResourceKey::new(namespace, name), at),
            Listed::Members => self.drop_member(name, at),
            Listed::Registrations => self.drop_registration(namespace, name, at),
            Listed::Targets => {
                let is_it = |key: &&TargetKey| within(key) && key.target_name() == *name;
                let key = self.inner.read().targets.keys().find(is_it).cloned();
                key.iter().for_each(|key| self.drop_target(key, at));
            }
            Listed::Inventories => {
                let inner = self.inner.read();
                let mut all = inner.inventories.iter().filter(|(key, _)| within(key));
                let key = all.find(|(_, chunks)| chunks.contains_key(name)).map(|(key, _)| key.clone());
                drop(inner);
                key.iter().for_each(|key| self.drop_inventory(key, name, at));
            }
        }
    }

    /// Only these namespaces register members: what others hold counts as gone.
    pub fn register_from(&self, namespaces: &BTreeSet<String>) {
        let inner = self.inner.read();
        let outside = inner.registrations.keys().filter(|(namespace, _)| !namespaces.contains(namespace));
        let outside: Vec<_> = outside.cloned().collect();
        drop(inner);
        outside.iter().for_each(|(namespace, name)| self.drop_registration(namespace, name, u64::MAX));
    }

    /// A registration Secret is gone, in this version or before it.
    pub fn drop_registration(&self, namespace: &str, name: &str, at: u64) {
        let key = (namespace.to_owned(), name.to_owned());
        let mut inner = self.inner.write();
        if inner.registrations.get(&key).is_none_or(|held| held.version > at) {
            return;
        }
        let Some(gone) = inner.registrations.remove(&key) else { return };
        let referring = inner.referring(namespace, name);
        drop(inner);
        for cluster in referring.iter().chain([&gone.cluster]) {
            self.queue.add(Key::Cluster(cluster.as_str().into()), Priority::User);
        }
    }

    /// Ends a list of all namespaces, or of one, as of this version: what it did not show is gone.
    pub fn listed(&self, kind: Listed, within: Option<&str>, seen: &BTreeSet<(String, String)>, at: u64) {
        // Before anything is looked at: the answer of a call that is older than the list, and comes while what is gone is
        // dropped, is no news.
        self.told(kind, within, at);
        let inner = self.inner.read();
        let unseen = |namespace: &str, name: &str| {
            within.is_none_or(|within| within == namespace)
                && !seen.contains(&(namespace.to_owned(), name.to_owned()))
        };
        match kind {
            Listed::Resources => {
                let gone: Vec<_> =
                    inner.resources.keys().filter(|key| unseen(&key.namespace, &key.name)).cloned().collect();
                drop(inner);
                gone.iter().for_each(|key| self.drop_resource(key, at));
            }
            Listed::Targets => {
                let gone: Vec<_> = inner
                    .targets
                    .keys()
                    .filter(|key| unseen(&key.namespace, &key.target_name()))
                    .cloned()
                    .collect();
                drop(inner);
                gone.iter().for_each(|key| self.drop_target(key, at));
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
                gone.iter().for_each(|(key, name)| self.drop_inventory(key, name, at));
            }
            Listed::Members => {
                let gone: Vec<_> = inner.members.keys().filter(|name| unseen("", name)).cloned().collect();
                drop(inner);
                gone.iter().for_each(|name| self.drop_member(name, at));
            }
            Listed::Registrations => {
                let gone: Vec<_> = inner
                    .registrations
                    .keys()
                    .filter(|(namespace, name)| unseen(namespace, name))
                    .cloned()
                    .collect();
                drop(inner);
                gone.iter().for_each(|(namespace, name)| self.drop_registration(namespace, name, at));
            }
        }
        self.are_gone(kind, unseen);
    }
}

/// Takes a key out of a cluster's.
fn take_out(by_cluster: &mut BTreeMap<Arc<str>, BTreeSet<TargetKey>>, key: &TargetKey) {
    if let Some(keys) = by_cluster.get_mut(&key.cluster) {
        keys.remove(key);
        if keys.is_empty() {
            by_cluster.remove(&key.cluster);
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

impl Listed {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Resources, Self::Targets, Self::Inventories, Self::Members, Self::Registrations];

    /// The kind's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resources => "VidraResource",
            Self::Targets => "VidraTarget",
            Self::Inventories => "VidraInventory",
            Self::Members => "MemberCluster",
            Self::Registrations => "Secret",
        }
    }
}

#[cfg(test)]
mod tests;

//! What is declared on the hub, in memory: folded from watches and from the answers of our own writes.
//!
//! Mapping a change to keys is a lookup here. It does no I/O, so it cannot fail.

mod by_target;
mod counts;
mod floors;
mod ingest;
mod members;
mod unreadable;
mod urgency;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::RwLock;
use vidra_api::{MemberCluster, MemberTargets, VidraResource, VidraTarget};
use vidra_core::mutants::{self, Mutant};

pub use floors::Via;
pub use unreadable::Lack;

use by_target::ByTarget;
use floors::Floors;
use members::Members;
use unreadable::Unread;

use super::{
    inventory::{Chunks, Terms},
    registration::Registration,
    sources::index::SourceIndex,
};
use crate::{
    base::{
        interner::{Interned, Interner},
        resource_version::version,
    },
    workqueue::{Key, Queue, ResourceKey, TargetKey},
};

/// What is declared on the hub, behind one lock.
pub struct Catalog {
    queue: Arc<Queue>,
    sources: SourceIndex,
    interned: Arc<Interned>,
    /// What inventories say of objects.
    terms: Interner<Arc<Terms>>,
    urgency: urgency::Urgency,
    contents: RwLock<Contents>,
}

/// What of the hub's API is known, under one lock.
#[derive(Default)]
struct Contents {
    resources: BTreeMap<ResourceKey, Arc<VidraResource>>,
    targets: ByTarget<Arc<VidraTarget>>,
    inventories: ByTarget<Chunks>,
    members: Members,
    registrations: BTreeMap<(String, String), Arc<Registration>>,
    floors: Floors,
    unread: Unread,
    /// Objects that a write of this process may have changed to which no answer came.
    unanswered: BTreeSet<Key>,
}

impl Contents {
    fn holds(&self, key: &Key) -> bool {
        match key {
            Key::Resource(key) => self.resources.contains_key(key),
            Key::Target(key) => self.targets.get(key).is_some(),
            Key::Cluster(name) => self.members.get(name).is_some(),
        }
    }

    /// Something newer is known of an object. Whether its writer has to look: it went by what stood before a write that was
    /// not answered and has been done all the same, as a watch shows.
    fn end_doubt(&mut self, key: &Key, via: Via) -> bool {
        self.unanswered.remove(key) && via == Via::Watch && !mutants::is(Mutant::UnansweredUnheard)
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
            contents: RwLock::default(),
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

    /// One VidraResource, or why there is none.
    ///
    /// # Errors
    /// It is not there, or cannot be read now.
    pub fn find_resource(&self, key: &ResourceKey) -> Result<Arc<VidraResource>, Lack> {
        let contents = self.contents.read();
        let is_unread = contents.unread.has(Listed::Resources, &key.namespace, &key.name);
        unreadable::or_lack(contents.resources.get(key), is_unread)
    }

    /// One VidraTarget, unless it cannot be read now.
    pub fn target(&self, key: &TargetKey) -> Option<Arc<VidraTarget>> {
        self.find_target(key).ok()
    }

    /// One VidraTarget, or why there is none.
    ///
    /// # Errors
    /// It is not there, or cannot be read now.
    pub fn find_target(&self, key: &TargetKey) -> Result<Arc<VidraTarget>, Lack> {
        let contents = self.contents.read();
        unreadable::or_lack(contents.targets.get(key), contents.unread.has_target(key))
    }

    /// The VidraTargets of a resource that can be read, by cluster name.
    pub fn targets_of(&self, key: &ResourceKey) -> BTreeMap<String, Arc<VidraTarget>> {
        let contents = self.contents.read();
        let read = contents.targets.of(key).filter(|(target, _)| !contents.unread.hides_target(target));
        read.map(|(target, object)| (target.cluster.to_string(), object.clone())).collect()
    }

    /// The targets on a cluster.
    pub fn targets_on(&self, cluster: &str) -> Vec<TargetKey> {
        self.contents.read().targets.on(cluster).map(|(key, _)| key.clone()).collect()
    }

    /// The newest version of what is known of a kind, in one namespace or in all; 0 where nothing is.
    pub fn newest(&self, kind: Listed, within: Option<&str>) -> u64 {
        let contents = self.contents.read();
        let newest = match kind {
            Listed::Resources => contents.resources.values().map(|one| version(one.as_ref())).max(),
            Listed::Targets => contents.targets.all().values().map(|one| version(one.as_ref())).max(),
            Listed::Inventories => {
                contents.inventories.all().values().flat_map(Chunks::values).map(|one| one.version).max()
            }
            Listed::Members => contents.members.by_name().values().map(|one| version(one.as_ref())).max(),
            Listed::Registrations => {
                let here = |(of, _): &(&(String, String), _)| within.is_none_or(|within| of.0 == within);
                contents.registrations.iter().filter(here).map(|(_, one)| one.version).max()
            }
        };
        newest.unwrap_or_default()
    }

    /// All targets.
    pub fn all_targets(&self) -> Vec<TargetKey> {
        self.contents.read().targets.all().keys().cloned().collect()
    }

    /// Every VidraTarget.
    pub fn every_target(&self) -> BTreeMap<TargetKey, Arc<VidraTarget>> {
        self.contents.read().targets.all().clone()
    }

    /// The inventory chunks of a target, by object name.
    pub fn inventory(&self, key: &TargetKey) -> Chunks {
        self.contents.read().inventories.get(key).cloned().unwrap_or_default()
    }

    /// The uids of the clusters that what a member was delivered is in, as the inventories say.
    pub fn delivered_to(&self, cluster: &str) -> BTreeSet<Arc<str>> {
        let contents = self.contents.read();
        let chunks = contents.inventories.on(cluster).flat_map(|(_, chunks)| chunks.values());
        chunks.filter_map(|chunk| chunk.cluster().cloned()).collect()
    }

    /// One MemberCluster, unless it cannot be read now.
    pub fn member(&self, name: &str) -> Option<Arc<MemberCluster>> {
        self.find_member(name).ok()
    }

    /// One MemberCluster, or why there is none.
    ///
    /// # Errors
    /// It is not there, or cannot be read now.
    pub fn find_member(&self, name: &str) -> Result<Arc<MemberCluster>, Lack> {
        let contents = self.contents.read();
        unreadable::or_lack(contents.members.get(name), contents.unread.has(Listed::Members, "", name))
    }

    /// All MemberClusters that can be read.
    pub fn members(&self) -> Vec<Arc<MemberCluster>> {
        let contents = self.contents.read();
        let all = contents.members.by_name().iter();
        let read = all.filter(|(name, _)| !contents.unread.hides(Listed::Members, "", name));
        read.map(|(_, member)| member.clone()).collect()
    }

    /// All MemberClusters, those that cannot be read now as they were known: which cluster one has is known for good.
    pub fn known_members(&self) -> Vec<Arc<MemberCluster>> {
        self.contents.read().members.by_name().values().cloned().collect()
    }

    /// One registration Secret, by namespace and name.
    pub fn registration(&self, namespace: &str, name: &str) -> Option<Arc<Registration>> {
        self.contents.read().registrations.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// The registration Secrets that name a cluster, oldest first.
    pub fn registrations_for(&self, cluster: &str) -> Vec<Arc<Registration>> {
        let contents = self.contents.read();
        let mut all: Vec<_> =
            contents.registrations.values().filter(|one| one.cluster == cluster).cloned().collect();
        all.sort_by(|a, b| (&a.created, &a.name).cmp(&(&b.created, &b.name)));
        all
    }

    /// How many MemberClusters have come, made again under their names too; each time all VidraResources look again.
    pub fn arrivals(&self) -> u64 {
        self.contents.read().members.arrivals()
    }

    /// What [`arrivals`](Self::arrivals) was when this member had come. Its labels count for nothing here: somebody may
    /// change them faster than VidraResources look.
    pub fn arrival(&self, name: &str) -> u64 {
        self.contents.read().members.arrival(name)
    }

    /// The VidraResources of a namespace.
    pub fn resources_in(&self, namespace: &str) -> Vec<Arc<VidraResource>> {
        let contents = self.contents.read();
        let first = ResourceKey { namespace: namespace.into(), name: "".into() };
        let of = contents.resources.range(first..).take_while(|(key, _)| *key.namespace == *namespace);
        of.map(|(_, resource)| resource.clone()).collect()
    }

    /// The revisions that the targets of a namespace have.
    pub fn revisions_in(&self, namespace: &str) -> BTreeSet<(ResourceKey, String)> {
        counts::revisions(self.contents.read().targets.within(namespace))
    }

    /// The revisions that the targets of all namespaces have.
    pub fn all_revisions(&self) -> BTreeSet<(ResourceKey, String)> {
        counts::revisions(self.contents.read().targets.all().iter())
    }

    /// The target on a cluster, there or not, of the first VidraResource of which this is true, by namespace and name:
    /// one that is declared, or of which a VidraTarget or an inventory is there, whether or not it can be read.
    pub fn find_on(&self, cluster: &Arc<str>, is: impl Fn(&str, &str) -> bool) -> Option<TargetKey> {
        counts::find_on(&self.contents.read(), cluster, is)
    }

    /// The targets that VidraResources do not have on a cluster, wanted or not.
    pub fn unmade_on(&self, cluster: &Arc<str>) -> Vec<TargetKey> {
        let contents = self.contents.read();
        counts::unmade_on(&contents.resources, &contents.targets, cluster)
    }

    /// The first target on a cluster that can be read and of which this is true.
    pub fn first_on(
        &self,
        cluster: &str,
        is: impl Fn(&TargetKey, &VidraTarget) -> bool,
    ) -> Option<TargetKey> {
        let contents = self.contents.read();
        let mut fleet = counts::fleet_on(&contents.targets, &contents.unread, cluster);
        fleet.find(|(key, target)| is(key, target)).map(|(key, _)| key.clone())
    }

    /// The VidraTargets on a cluster that can be read.
    pub fn fleet_on(&self, cluster: &str) -> BTreeMap<TargetKey, Arc<VidraTarget>> {
        let contents = self.contents.read();
        let fleet = counts::fleet_on(&contents.targets, &contents.unread, cluster);
        fleet.map(|(key, target)| (key.clone(), target.clone())).collect()
    }

    /// What the VidraTargets on a cluster come to, and how many objects they have there as far as is known.
    pub fn counts_on(&self, cluster: &str) -> (MemberTargets, i64) {
        let contents = self.contents.read();
        counts::counts_on(&contents.resources, &contents.targets, cluster)
    }

    /// How many targets are in each state, for metrics: those that are to stay as they are counted everywhere, those that
    /// are to go by what they say.
    pub fn target_states(&self) -> BTreeMap<String, i64> {
        let contents = self.contents.read();
        counts::states(&contents.resources, &contents.targets)
    }

    /// An object of this kind, namespace (empty for kinds without) and name is there, and cannot be read.
    pub fn is_unread(&self, kind: Listed, namespace: &str, name: &str) -> bool {
        self.contents.read().unread.has(kind, namespace, name)
    }

    /// The first VidraTarget on a cluster that is there and cannot be read.
    pub fn unread_target_on(&self, cluster: &str) -> Option<TargetKey> {
        self.contents.read().unread.target_on(cluster)
    }

    /// The clusters on which a VidraResource has a VidraTarget that is there and cannot be read.
    pub fn unread_targets_of(&self, resource: &ResourceKey) -> Vec<Arc<str>> {
        self.contents.read().unread.clusters_of(resource)
    }

    /// Something of this target is there and cannot be read: its VidraResource, its VidraTarget, or its inventory.
    pub fn is_any_unread(&self, key: &TargetKey) -> bool {
        let owners = self.contents.read().unread.owners_on(&key.cluster);
        owners.contains(&key.resource_key())
    }

    /// The first VidraResource of a namespace, other than this one, that cannot be read or of which a VidraTarget on this
    /// cluster cannot be: what it declares there is not known.
    pub fn unread_owner(&self, own: &TargetKey) -> Option<Arc<str>> {
        self.contents.read().unread.owner_beside(own)
    }

    /// How many objects of each kind are there and cannot be read.
    pub fn unread_counts(&self) -> Vec<(&'static str, i64)> {
        self.contents.read().unread.counts()
    }

    /// The first chunk of a target's inventory that is there and cannot be read: what the target holds is not known.
    pub fn unread_inventory(&self, key: &TargetKey) -> Option<String> {
        self.contents.read().unread.chunk_of(key)
    }

    /// How many entries there are, by what they are of; for tests, which look that what is gone leaves none.
    pub fn entries(&self) -> [(&'static str, usize); 10] {
        let contents = self.contents.read();
        [
            ("resources", contents.resources.len()),
            ("targets", contents.targets.all().len()),
            ("by cluster", contents.targets.clusters()),
            ("inventories", contents.inventories.all().len()),
            ("inventories by cluster", contents.inventories.clusters()),
            ("members", contents.members.by_name().len()),
            ("arrivals", contents.members.arrived()),
            ("registrations", contents.registrations.len()),
            ("unread", contents.unread.len()),
            ("unanswered", contents.unanswered.len()),
        ]
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

/// A kind, a namespace (empty for kinds without) and a name.
type Place = (Listed, String, String);

#[cfg(test)]
mod tests;

//! How the catalog follows the hub's API: it takes in what is read and what is gone, and adds the keys of who goes by it.

use std::{collections::BTreeSet, sync::Arc};

use kube::ResourceExt;
use vidra_api::{MemberCluster, VidraInventory, VidraResource, VidraTarget, labels::APPROVE_REMOVAL};
use vidra_core::status::{counted, tells_the_same};

use super::{Catalog, Contents, Listed, Place, floors::Via, unreadable::target_of};
use crate::{
    base::resource_version::version,
    hub::{inventory::Chunk, registration::Registration},
    workqueue::{Key, Priority, ResourceKey, TargetKey},
};

impl Catalog {
    /// Folds a VidraResource.
    pub fn fold_resource(&self, mut resource: VidraResource, via: Via) {
        resource.metadata.managed_fields = None;
        let key = ResourceKey::new(&resource.namespace().unwrap_or_default(), &resource.name_any());
        let mut contents = self.contents.write();
        let held = contents.resources.get(&key);
        if !contents.floors.is_news_of(Listed::Resources, held, &resource, via) {
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
        let changed = contents.end_doubt(&Key::Resource(key.clone()), via) || changed;
        self.sources.declare(&key, &resource);
        contents.resources.insert(key.clone(), Arc::new(resource));
        drop(contents);
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
        let key = TargetKey::of(&target);
        if key.target_name() != target.name_any() {
            return;
        }
        let mut contents = self.contents.write();
        let held = contents.targets.get(&key);
        if !contents.floors.is_news_of(Listed::Targets, held, &target, via) {
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
                !tells_the_same(held.status.as_ref(), target.status.as_ref())
                    || held.metadata.deletion_timestamp != target.metadata.deletion_timestamp
                    || held.annotations().get(APPROVE_REMOVAL) != target.annotations().get(APPROVE_REMOVAL),
                counted(held) != counted(&target),
            ),
        };
        let unheard = contents.end_doubt(&Key::Target(key.clone()), via);
        contents.targets.insert(key.clone(), Arc::new(target));
        drop(contents);
        if status || unheard {
            self.queue.add(Key::Resource(key.resource_key()), Priority::Event);
        }
        if counts {
            self.queue.recount(&key.cluster);
        }
        if spec || unheard {
            self.queue.add(Key::Target(key), self.urgency.of_change());
        }
    }

    /// A write of this object was not answered: if it was done all the same, a watch will show it.
    pub fn note_unanswered(&self, key: Key) {
        let mut contents = self.contents.write();
        if contents.holds(&key) {
            contents.unanswered.insert(key);
        }
    }

    /// Folds a VidraInventory; the target loop that wrote it itself need not look again.
    pub fn fold_inventory(&self, inventory: VidraInventory, via: Via) {
        let namespace = inventory.namespace().unwrap_or_default();
        let key = TargetKey::new(&namespace, &inventory.spec.resource, &inventory.spec.cluster);
        let (name, now) = (inventory.name_any(), version(&inventory));
        let is_news = |contents: &Contents| {
            let held = contents.inventories.get(&key).and_then(|chunks| chunks.get(&name));
            let held = held.map_or(0, |held| held.version);
            contents.floors.is_news(Listed::Inventories, (&namespace, &name), (held, now), via)
        };
        // Not even read: a watch repeats each write.
        if !is_news(&self.contents.read()) {
            return;
        }
        let chunk = Arc::new(Chunk::read(inventory, &self.interned, &self.terms));
        let mut contents = self.contents.write();
        if !is_news(&contents) {
            return;
        }
        contents.inventories.get_or_insert(&key).insert(name, chunk);
        drop(contents);
        if via == Via::Watch {
            self.queue.add(Key::Target(key), Priority::Resync);
        }
    }

    /// Folds a MemberCluster.
    pub fn fold_member(&self, mut member: MemberCluster, via: Via) {
        member.metadata.managed_fields = None;
        let (name, leaves) = (member.name_any(), member.metadata.deletion_timestamp.is_some());
        let mut contents = self.contents.write();
        let held = contents.members.get(&name);
        if !contents.floors.is_news_of(Listed::Members, held, &member, via) {
            return;
        }
        let key = Key::Cluster(name.as_str().into());
        let unheard = contents.end_doubt(&key, via);
        let change = contents.members.insert(member);
        drop(contents);
        if change.cluster || unheard {
            self.queue.add(key, Priority::User);
        }
        if change.resources || change.comes {
            self.requeue_all_resources();
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
        let mut contents = self.contents.write();
        let held = contents.registrations.get(&key).map_or(0, |held| held.version);
        let versions = (held, registration.version);
        if !contents.floors.is_news(Listed::Registrations, (&key.0, &key.1), versions, via) {
            return;
        }
        let before = contents.registrations.insert(key, Arc::new(registration.clone()));
        let referring = contents.members.referring(&registration.namespace, &registration.name);
        drop(contents);
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
        let mut contents = self.contents.write();
        if contents.resources.get(key).is_some_and(|held| version(held.as_ref()) > at) {
            return;
        }
        contents.resources.remove(key);
        contents.unanswered.remove(&Key::Resource(key.clone()));
        drop(contents);
        self.sources.forget(key);
        self.queue.add(Key::Resource(key.clone()), Priority::User);
    }

    /// A VidraTarget is gone, in this version or before it.
    pub fn drop_target(&self, key: &TargetKey, at: u64) {
        let mut contents = self.contents.write();
        if contents.targets.get(key).is_none_or(|held| version(held.as_ref()) > at) {
            return;
        }
        contents.targets.remove(key);
        contents.unanswered.remove(&Key::Target(key.clone()));
        drop(contents);
        self.queue.add(Key::Target(key.clone()), Priority::User);
        self.queue.add(Key::Resource(key.resource_key()), Priority::User);
        self.queue.add(Key::Cluster(key.cluster.clone()), Priority::Resync);
    }

    /// An inventory chunk is gone, in this version or before it.
    pub fn drop_inventory(&self, key: &TargetKey, name: &str, at: u64) {
        let mut contents = self.contents.write();
        let Some(chunks) = contents.inventories.get_mut(key) else { return };
        if chunks.get(name).is_none_or(|held| held.version > at) {
            return;
        }
        chunks.remove(name);
        if chunks.is_empty() {
            contents.inventories.remove(key);
        }
        drop(contents);
        self.queue.add(Key::Target(key.clone()), Priority::Resync);
    }

    /// A MemberCluster is gone, in this version or before it.
    pub fn drop_member(&self, name: &str, at: u64) {
        let mut contents = self.contents.write();
        if contents.members.get(name).is_some_and(|held| version(held.as_ref()) > at) {
            return;
        }
        contents.members.remove(name);
        contents.unanswered.remove(&Key::Cluster(name.into()));
        drop(contents);
        self.queue.add(Key::Cluster(name.into()), Priority::User);
        self.requeue_all_resources();
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
                let key = self.contents.read().targets.all().keys().find(is_it).cloned();
                key.iter().for_each(|key| self.drop_target(key, at));
            }
            Listed::Inventories => {
                let contents = self.contents.read();
                let mut all = contents.inventories.all().iter().filter(|(key, _)| within(key));
                let key = all.find(|(_, chunks)| chunks.contains_key(name)).map(|(key, _)| key.clone());
                drop(contents);
                key.iter().for_each(|key| self.drop_inventory(key, name, at));
            }
        }
    }

    /// Only these namespaces register members: what others hold counts as gone.
    pub fn register_from(&self, namespaces: &BTreeSet<String>) {
        let contents = self.contents.read();
        let outside = contents.registrations.keys().filter(|(namespace, _)| !namespaces.contains(namespace));
        let outside: Vec<_> = outside.cloned().collect();
        drop(contents);
        outside.iter().for_each(|(namespace, name)| self.drop_registration(namespace, name, u64::MAX));
    }

    /// A registration Secret is gone, in this version or before it.
    pub fn drop_registration(&self, namespace: &str, name: &str, at: u64) {
        let key = (namespace.to_owned(), name.to_owned());
        let mut contents = self.contents.write();
        if contents.registrations.get(&key).is_none_or(|held| held.version > at) {
            return;
        }
        let Some(gone) = contents.registrations.remove(&key) else { return };
        let referring = contents.members.referring(namespace, name);
        drop(contents);
        for cluster in referring.iter().chain([&gone.cluster]) {
            self.queue.add(Key::Cluster(cluster.as_str().into()), Priority::User);
        }
    }

    /// Ends a list of all namespaces, or of one, as of this version: what it did not show is gone.
    pub fn end_list(&self, kind: Listed, within: Option<&str>, seen: &BTreeSet<(String, String)>, at: u64) {
        // Before anything is looked at: the answer of a call that is older than the list, and comes while what is gone is
        // dropped, is no news.
        self.advance_floor(kind, within, at);
        let contents = self.contents.read();
        let unseen = |namespace: &str, name: &str| {
            within.is_none_or(|within| within == namespace)
                && !seen.contains(&(namespace.to_owned(), name.to_owned()))
        };
        match kind {
            Listed::Resources => {
                let gone: Vec<_> = contents
                    .resources
                    .keys()
                    .filter(|key| unseen(&key.namespace, &key.name))
                    .cloned()
                    .collect();
                drop(contents);
                gone.iter().for_each(|key| self.drop_resource(key, at));
            }
            Listed::Targets => {
                let keys = contents.targets.all().keys();
                let gone = keys.filter(|key| unseen(&key.namespace, &key.target_name()));
                let gone: Vec<_> = gone.cloned().collect();
                drop(contents);
                gone.iter().for_each(|key| self.drop_target(key, at));
            }
            Listed::Inventories => {
                let chunks = contents.inventories.all().iter().flat_map(|(key, chunks)| {
                    chunks
                        .keys()
                        .filter(|name| unseen(&key.namespace, name))
                        .map(|name| (key.clone(), name.clone()))
                });
                let gone: Vec<_> = chunks.collect();
                drop(contents);
                gone.iter().for_each(|(key, name)| self.drop_inventory(key, name, at));
            }
            Listed::Members => {
                let gone: Vec<_> =
                    contents.members.by_name().keys().filter(|name| unseen("", name)).cloned().collect();
                drop(contents);
                gone.iter().for_each(|name| self.drop_member(name, at));
            }
            Listed::Registrations => {
                let keys = contents.registrations.keys();
                let gone: Vec<_> =
                    keys.filter(|(namespace, name)| unseen(namespace, name)).cloned().collect();
                drop(contents);
                gone.iter().for_each(|(namespace, name)| self.drop_registration(namespace, name, at));
            }
        }
        self.forget_unreadable(kind, unseen);
    }

    /// This object is there and cannot be read: who went by it looks again. Returns whether that is news.
    pub fn set_unreadable(&self, kind: Listed, (namespace, name): &(String, String)) -> bool {
        let place = (kind, namespace.clone(), name.clone());
        let is_news = self.contents.write().unread.insert(place.clone());
        if is_news {
            self.wake_for(&place);
        }
        is_news
    }

    /// This object was read, and is folded, or is gone: who waited for that looks again.
    pub fn set_readable(&self, kind: Listed, (namespace, name): &(String, String)) {
        if self.contents.read().unread.is_empty() {
            return;
        }
        let place = (kind, namespace.clone(), name.clone());
        if self.contents.write().unread.remove(&place) {
            self.wake_for(&place);
        }
    }

    /// Those that a list did not show are gone: who waited for that looks again.
    fn forget_unreadable(&self, kind: Listed, is_unseen: impl Fn(&str, &str) -> bool) {
        let stays = |(of, namespace, name): &Place| *of != kind || !is_unseen(namespace, name);
        let gone = self.contents.write().unread.retain(stays);
        gone.iter().for_each(|place| self.wake_for(place));
    }

    /// Who goes by an object, or waits for it because it could not be read.
    fn wake_for(&self, (kind, namespace, name): &Place) {
        let wake = |key| self.queue.add(key, Priority::Resync);
        match kind {
            Listed::Resources => {
                let key = ResourceKey::new(namespace, name);
                self.targets_of(&key)
                    .values()
                    .for_each(|one| wake(Key::Target(TargetKey::new(namespace, name, &one.spec.cluster))));
                wake(Key::Resource(key));
            }
            Listed::Members => {
                self.targets_on(name).into_iter().for_each(|key| wake(Key::Target(key)));
                wake(Key::Cluster(Arc::from(name.as_str())));
                self.requeue_all_resources();
            }
            Listed::Targets | Listed::Inventories => {
                let Some(key) = target_of(*kind, namespace, name) else { return };
                wake(Key::Cluster(key.cluster.clone()));
                wake(Key::Resource(key.resource_key()));
                wake(Key::Target(key));
            }
            Listed::Registrations => {}
        }
    }

    /// The watch of a kind, in one namespace or in all, has told everything up to this version.
    pub fn advance_floor(&self, kind: Listed, within: Option<&str>, version: u64) {
        self.contents.write().floors.tell(kind, within, version);
    }

    /// The hub removed an object itself, which had this version then.
    pub fn note_removal(&self, kind: Listed, namespace: &str, name: &str, version: u64) {
        self.contents.write().floors.remove((kind, namespace.to_owned(), name.to_owned()), version);
    }

    /// All has been listed once: from now on what is new was made by somebody.
    pub fn all_listed(&self) {
        self.urgency.all_listed();
    }

    /// Makes every VidraResource look again.
    pub fn requeue_all_resources(&self) {
        let keys: Vec<_> = self.contents.read().resources.keys().cloned().collect();
        for key in keys {
            self.queue.add(Key::Resource(key), self.urgency.of_change());
        }
    }
}

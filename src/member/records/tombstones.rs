//! Objects that are not seen any more: gone, or hidden by a lost label. What was known of those that somebody still
//! wants is kept, and what a read told of them, so that nobody asks twice.

use std::collections::{BTreeMap, BTreeSet};

use vidra_api::names::OwnerHash;
use vidra_core::{drift::Evidence, object::ObjectKey, plan, uid::Uid};

use super::view::{View, Views};

/// Objects that are not seen any more, by key.
#[derive(Default)]
pub(super) struct Tombstones {
    of: BTreeMap<ObjectKey, Tombstone>,
}

/// What is known of one of them.
pub(super) struct Tombstone {
    uid: Uid,
    views: Views,
    told: Option<Told>,
    /// The resourceVersion under which it was found hidden.
    hidden_at: u64,
}

/// What a read has told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Gone,
    Hidden,
}

impl Tombstone {
    pub(super) fn uid(&self) -> &Uid {
        &self.uid
    }

    pub(super) fn views(&self) -> &[View] {
        &self.views
    }

    pub(super) fn is_told(&self) -> bool {
        self.told.is_some()
    }

    pub(super) fn is_hidden(&self) -> bool {
        self.told == Some(Told::Hidden)
    }

    pub(super) fn evidence(&self, owner: &OwnerHash) -> Option<Evidence> {
        self.views.iter().find(|view| view.owner == *owner)?.evidence()
    }

    /// As a plan of this owner sees it.
    pub(super) fn plan_view(&self, owner: &OwnerHash) -> plan::Vanished {
        let view = self.views.iter().find(|view| view.owner == *owner);
        let applied = view.and_then(View::applied).map(|(hash, _)| hash);
        plan::Vanished { applied, told: self.is_told(), hidden: self.is_hidden() }
    }
}

impl Tombstones {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Tombstone> {
        self.of.get(key)
    }

    /// The object is not shown any more; nobody has read whether it is gone.
    pub(super) fn add(&mut self, key: &ObjectKey, uid: Uid, views: Views) {
        self.of.insert(key.clone(), Tombstone { uid, views, told: None, hidden_at: 0 });
    }

    /// A read found no object with this uid.
    pub(super) fn set_gone(&mut self, key: &ObjectKey, uid: &str) {
        let views = self.of.remove(key).filter(|known| known.uid == *uid);
        let views = views.map_or_else(Views::new, |known| known.views);
        let told = Some(Told::Gone);
        self.of.insert(key.clone(), Tombstone { uid: uid.into(), views, told, hidden_at: 0 });
    }

    /// A read found the object without the label by which it is seen, in this version.
    pub(super) fn set_hidden(&mut self, key: ObjectKey, uid: Uid, views: Views, hidden_at: u64) {
        self.of.insert(key, Tombstone { uid, views, told: Some(Told::Hidden), hidden_at });
    }

    /// A read found this object in its place, in this version.
    pub(super) fn set_present(&mut self, key: &ObjectKey, uid: &str, version: u64) {
        if let Some(known) = self.of.get_mut(key) {
            let told = if known.uid == *uid { Told::Hidden } else { Told::Gone };
            (known.told, known.hidden_at) = (Some(told), version);
        }
    }

    /// A watch shows the end of an object that was found hidden before: who has a view of it asks again.
    pub(super) fn doubt_hidden(&mut self, key: &ObjectKey, uid: &str, at: u64) -> BTreeSet<OwnerHash> {
        let Some(known) = self.of.get_mut(key) else { return BTreeSet::new() };
        if known.uid != *uid || !known.is_hidden() || known.hidden_at >= at {
            return BTreeSet::new();
        }
        known.told = None;
        known.views.iter().map(|view| view.owner.clone()).collect()
    }

    /// What reads told before may not be so any more.
    pub(super) fn doubt_all(&mut self) {
        self.of.values_mut().for_each(|known| known.told = None);
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        self.of.remove(key);
    }

    pub(super) fn retain(&mut self, stays: impl Fn(&ObjectKey) -> bool) {
        self.of.retain(|key, _| stays(key));
    }

    pub(super) fn clear(&mut self) {
        self.of.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.of.len()
    }
}

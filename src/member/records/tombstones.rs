//! Objects that are not seen any more: gone, or hidden by a lost label. What was known of those that somebody still
//! wants is kept, and what a read told of them, so that nobody asks twice.

use std::collections::{BTreeMap, BTreeSet};

use vidra_api::names::OwnerHash;
use vidra_core::{
    drift::Evidence,
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey},
    plan,
    uid::Uid,
};

use super::{Inner, Record, Records, Source, View, Views, complete_type, targets_of};
use crate::{member::live::Live, queue::TargetKey};

/// See the module.
pub(super) struct Vanished {
    pub(super) uid: Uid,
    pub(super) views: Views,
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

impl Vanished {
    pub(super) fn is_hidden(&self) -> bool {
        self.told == Some(Told::Hidden)
    }

    pub(super) fn evidence(&self, owner: &OwnerHash) -> Option<Evidence> {
        let view = self.views.iter().find(|view| view.owner == *owner)?;
        view.trace.as_ref().map(|trace| trace.evidence.clone())
    }
}

impl Inner {
    /// Takes a record away; what is known of an object that somebody wants is kept. Returns whom it concerns.
    pub(super) fn vanish(&mut self, key: &ObjectKey) -> BTreeSet<OwnerHash> {
        let Some(record) = self.objects.remove(key) else { return BTreeSet::new() };
        self.forget_strays(key);
        let mut owners = record.owners();
        if record.keeps_out() {
            // Who was refused it, or waited for its end, has left no mark on it.
            let declaring = self.owners.iter().filter(|(_, owner)| owner.desired.objects.contains_key(key));
            owners.extend(declaring.map(|(owner, _)| owner.clone()));
        }
        if self.is_wanted(key, &record.views) {
            let Record { uid, views, .. } = *record;
            self.vanished.insert(key.clone(), Vanished { uid, views, told: None, hidden_at: 0 });
        }
        owners
    }

    /// A watch shows the end of an object that was found hidden before: who wants it asks again.
    fn doubt_hidden(&mut self, key: &ObjectKey, uid: &str, at: u64) -> Vec<TargetKey> {
        let Some(vanished) = self.vanished.get_mut(key) else { return Vec::new() };
        if vanished.uid != *uid || !vanished.is_hidden() || vanished.hidden_at >= at {
            return Vec::new();
        }
        vanished.told = None;
        let owners = vanished.views.iter().map(|view| view.owner.clone()).collect();
        targets_of(&owners, &self.owners)
    }

    fn is_wanted(&self, key: &ObjectKey, views: &[View]) -> bool {
        let mut owners = views.iter().filter_map(|view| self.owners.get(&view.owner));
        owners.any(|owner| owner.desired.objects.contains_key(key))
    }

    /// What nobody wants any more is not kept.
    pub(super) fn forget_unwanted(&mut self) {
        let mut vanished = std::mem::take(&mut self.vanished);
        let wanted =
            |key: &ObjectKey| self.owners.values().any(|owner| owner.desired.objects.contains_key(key));
        vanished.retain(|key, _| wanted(key));
        self.vanished = vanished;
    }
}

impl Records {
    /// Folds a deletion: a watch's DELETED with its resourceVersion, or a call that found the object gone
    /// (resourceVersion empty: certain).
    ///
    /// On a label selector DELETED may also mean that the object lost the label: the plan finds out.
    pub fn fold_gone(&self, key: &ObjectKey, uid: &str, resource_version: &str) -> Vec<TargetKey> {
        let at = resource_version.parse().unwrap_or(u64::MAX);
        let mut inner = self.inner.lock();
        if inner.defer_gone(key, uid, resource_version) {
            return Vec::new();
        }
        match inner.objects.get(key) {
            Some(record) if record.uid == *uid && record.resource_version <= at => {}
            Some(_) => return Vec::new(),
            // It was seen again since a read found it hidden, and that was overtaken by its end.
            None => return inner.doubt_hidden(key, uid, at),
        }
        inner.folds += 1;
        let owners = inner.vanish(key);
        targets_of(&owners, &inner.owners)
    }

    /// A list of this version did not show it.
    pub(super) fn fold_unlisted(&self, key: &ObjectKey, at: u64) -> Vec<TargetKey> {
        let uid = {
            let inner = self.inner.lock();
            inner
                .objects
                .get(key)
                .filter(|record| record.resource_version != 0)
                .map(|record| record.uid.clone())
        };
        uid.map(|uid| self.fold_gone(key, &uid.to_string(), &at.to_string())).unwrap_or_default()
    }

    /// Forgets every object.
    pub fn clear(&self) {
        let mut inner = self.inner.lock();
        inner.objects.clear();
        inner.vanished.clear();
        inner.strays.clear();
        inner.healed.clear();
        inner.forget_news(|_| true);
    }

    /// What is known of an owner's object with this uid that is not seen.
    pub fn vanished(&self, owner: &OwnerHash, key: &ObjectKey, uid: &Uid) -> plan::Vanished {
        let inner = self.inner.lock();
        let Some(vanished) = inner.vanished.get(key).filter(|vanished| vanished.uid == *uid) else {
            return plan::Vanished::default();
        };
        let view = vanished.views.iter().find(|view| view.owner == *owner);
        let applied = view.and_then(View::applied).map(|(hash, _)| hash);
        plan::Vanished { applied, told: vanished.told.is_some() }
    }

    /// A read found no object with this uid.
    pub fn tell_gone(&self, key: &ObjectKey, uid: &str) -> Vec<TargetKey> {
        let targets = self.fold_gone(key, uid, "");
        let mut inner = self.inner.lock();
        if inner.objects.get(key).is_none_or(|record| record.uid != *uid) {
            let views = inner.vanished.remove(key).filter(|vanished| vanished.uid == *uid);
            let views = views.map_or_else(Views::new, |vanished| vanished.views);
            let told = Some(Told::Gone);
            inner.vanished.insert(key.clone(), Vanished { uid: uid.into(), views, told, hidden_at: 0 });
        }
        targets
    }

    /// A read found the object without the label by which it is seen. Whose it is.
    pub fn tell_hidden(&self, gvk: &Gvk, mut live: Live) -> Vec<TargetKey> {
        complete_type(gvk, &mut live.json);
        let key = ObjectKey::new(gvk, live.meta_text("namespace"), live.meta_text("name"));
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let uid = Uid::from(live.uid());
        let recorded = inner.objects.get(&key).filter(|record| record.uid == uid);
        let kept = inner.vanished.get(&key).filter(|vanished| vanished.uid == uid);
        let before = recorded.map(|record| &record.views[..]).or(kept.map(|vanished| &vanished.views[..]));
        let before = before.unwrap_or_default();
        let views = self.views(&key, &live, Source::Read, (before, false), &inner.owners);
        inner.vanish(&key);
        let owners = views.iter().map(|view| view.owner.clone()).collect();
        let hidden_at = live.resource_version().parse().unwrap_or(u64::MAX);
        inner.vanished.insert(key, Vanished { uid, views, told: Some(Told::Hidden), hidden_at });
        targets_of(&owners, &inner.owners)
    }

    /// Contact was lost: what a read told before may not be so any more.
    pub fn ask_again(&self) {
        self.inner.lock().vanished.values_mut().for_each(|vanished| vanished.told = None);
    }
}

/// Objects that bear an owner's label and are not proved to be its own, each with its version: by owner, and for whom each
/// one is.
#[derive(Default)]
pub(super) struct Strays {
    by_owner: BTreeMap<OwnerHash, BTreeMap<ObjectKey, std::sync::Arc<str>>>,
    of: BTreeMap<ObjectKey, Vec<OwnerHash>>,
}

/// Bound on the objects that are noted: a member's users can make any number of them.
pub(super) const STRAYS_MOST: usize = 1000;

impl Strays {
    fn forget(&mut self, key: &ObjectKey) {
        for owner in self.of.remove(key).unwrap_or_default() {
            if let Some(strays) = self.by_owner.get_mut(&owner) {
                strays.remove(key);
                if strays.is_empty() {
                    self.by_owner.remove(&owner);
                }
            }
        }
    }

    fn note(&mut self, owner: &OwnerHash, key: &ObjectKey, version: &std::sync::Arc<str>) {
        let full = self.of.len() >= STRAYS_MOST && !mutants::is(Mutant::StraysForEver);
        if full && !self.of.contains_key(key) {
            return;
        }
        self.by_owner.entry(owner.clone()).or_default().insert(key.clone(), version.clone());
        self.of.entry(key.clone()).or_default().push(owner.clone());
    }

    /// Forgets those that this names; returns the owners for whom some were noted.
    pub(super) fn retain(&mut self, stays: impl Fn(&ObjectKey) -> bool) -> BTreeSet<OwnerHash> {
        let gone: Vec<_> = self.of.keys().filter(|key| !stays(key)).cloned().collect();
        let owners = gone.iter().flat_map(|key| self.of.get(key).cloned().unwrap_or_default()).collect();
        gone.iter().for_each(|key| self.forget(key));
        owners
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// For how many owners there are some.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_owner.len()
    }
}

impl Inner {
    fn forget_strays(&mut self, key: &ObjectKey) {
        self.strays.forget(key);
    }

    /// Notes for whom an object is a stray now.
    pub(super) fn note_strays(&mut self, gvk: &Gvk, key: &ObjectKey, labelled: &BTreeSet<OwnerHash>) {
        self.strays.forget(key);
        let Some(record) = self.objects.get(key).filter(|record| !record.controlled && !record.terminating)
        else {
            return;
        };
        for view in record.views.iter().filter(|view| !view.proof && labelled.contains(&view.owner)) {
            self.strays.note(&view.owner, key, &gvk.version);
        }
    }
}

impl Records {
    /// Whether an object only bears the label of this target, and is neither declared by it nor proved to be its own.
    pub fn is_stray_of(&self, target: &TargetKey, key: &ObjectKey) -> bool {
        let inner = self.inner.lock();
        let owners = inner.strays.of.get(key).map(Vec::as_slice).unwrap_or_default();
        owners
            .iter()
            .filter_map(|hash| inner.owners.get(hash))
            .any(|owner| owner.target == *target && !owner.desired.objects.contains_key(key))
    }

    /// Objects with this owner's label that nothing proves to be its own, each with its version.
    pub fn strays(&self, owner: &OwnerHash) -> BTreeMap<ObjectKey, std::sync::Arc<str>> {
        self.inner.lock().strays.by_owner.get(owner).cloned().unwrap_or_default()
    }
}

//! Which informers run, and for whom, and what is known of their places: together under one lock.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::ApiResource;
use tokio_util::sync::CancellationToken;
use vidra_core::{
    health::rules::RuleSet,
    object::{Gvk, Scope},
};

use super::{
    State,
    faults::Restore,
    places::{Confined, Need, Place},
    rests::Rests,
    single_list::SingleLists,
    unreadable::Unreadable,
};
use crate::workqueue::TargetKey;

/// Which informers run, and for whom; behind one lock.
#[derive(Default)]
pub(super) struct Registry {
    pub(super) running: BTreeMap<Place, Informer>,
    pub(super) confined: Confined,
    pub(super) unreadable: Unreadable,
    pub(super) restore: Restore,
    pub(super) rests: Rests,
    pub(super) single_lists: SingleLists,
    /// Targets that have said what they need.
    pub(super) looked: BTreeSet<TargetKey>,
}

/// A place, its informer, and what it reads.
pub(super) type Unjudged = (Place, u64, ApiResource);

pub(super) struct Informer {
    pub(super) id: u64,
    pub(super) resource: ApiResource,
    pub(super) scope: Scope,
    pub(super) users: BTreeSet<TargetKey>,
    pub(super) state: State,
    /// What the rule of its kind said when its last list began.
    pub(super) judged_by: Option<u64>,
    pub(super) stop: CancellationToken,
}

impl Registry {
    /// Does an informer see this kind there, in whichever version?
    pub(super) fn sees(&self, gvk: &Gvk, namespace: &str) -> bool {
        self.running.keys().any(|place| {
            (&place.gvk.group, &place.gvk.kind) == (&gvk.group, &gvk.kind)
                && (place.namespace.is_empty() || *place.namespace == *namespace)
        })
    }

    /// Does this target have informers?
    pub(super) fn follows(&self, target: &TargetKey) -> bool {
        self.running.values().any(|informer| informer.users.contains(target))
    }

    /// A target does not need other places than these: ends the informers that nobody needs any more; returns where.
    pub(super) fn release(&mut self, target: &TargetKey, needs: &BTreeMap<Place, &Need>) -> BTreeSet<Place> {
        let mut ended = BTreeSet::new();
        self.running.retain(|place, informer| {
            if !needs.contains_key(place) {
                informer.users.remove(target);
            }
            let needed = !informer.users.is_empty();
            if !needed {
                informer.stop.cancel();
                ended.insert(place.clone());
            }
            needed
        });
        ended
    }

    /// Nobody follows these places any more: what they showed that cannot be read goes, and, with the last place of a kind,
    /// that it may not be listed in all namespaces.
    pub(super) fn forget(&mut self, ended: &BTreeSet<Place>) {
        self.unreadable.forget(ended);
        let running = &self.running;
        let is_followed = |gvk: &Gvk| running.keys().any(|place| place.gvk == *gvk);
        self.confined.retain(|gvk| is_followed(gvk) || !ended.iter().any(|place| place.gvk == *gvk));
    }

    pub(super) fn users_of(&self, gvk: &Gvk) -> BTreeSet<TargetKey> {
        let of_kind = self.running.iter().filter(|(place, _)| place.gvk == *gvk);
        of_kind.flat_map(|(_, informer)| informer.users.iter().cloned()).collect()
    }

    /// How the informer with this id stands; its users and how it stood before, where that is another state and it still runs.
    pub(super) fn set_state(
        &mut self,
        place: &Place,
        id: u64,
        state: State,
    ) -> Option<(BTreeSet<TargetKey>, State)> {
        let informer = self.running.get_mut(place).filter(|one| one.id == id && one.state != state)?;
        let before = std::mem::replace(&mut informer.state, state);
        Some((informer.users.clone(), before))
    }

    /// The informer with this id has listed all while the rule of its kind said this; the kind's users, where it said
    /// something else before.
    pub(super) fn set_judged(&mut self, place: &Place, id: u64, judged_by: u64) -> BTreeSet<TargetKey> {
        let informer = self.running.get_mut(place).filter(|one| one.id == id);
        let before = informer.and_then(|informer| informer.judged_by.replace(judged_by));
        match before.is_some_and(|before| before != judged_by) {
            true => self.users_of(&place.gvk),
            false => BTreeSet::new(),
        }
    }

    /// The first place of those that are not listed here, what of which was listed while another rule than now judged its kind.
    pub(super) fn unjudged(&self, rules: &RuleSet, without: &BTreeSet<Place>) -> Option<Unjudged> {
        let mut running = self.running.iter();
        running.find_map(|(place, Informer { id, resource, state, judged_by, .. })| {
            let says = rules.fingerprint(&place.gvk.group, &place.gvk.kind);
            let is_due = *state == State::Synced && judged_by.is_some_and(|by| by != says);
            (is_due && !without.contains(place)).then(|| (place.clone(), *id, resource.clone()))
        })
    }

    /// The kind may not be listed in all namespaces, as the informer with this id has found; the kind's users, where it still
    /// runs.
    pub(super) fn confine(&mut self, place: &Place, id: u64) -> Option<BTreeSet<TargetKey>> {
        self.running.get(place).filter(|informer| informer.id == id)?;
        self.confined.add(&place.gvk);
        Some(self.users_of(&place.gvk))
    }
}

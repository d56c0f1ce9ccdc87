//! All that is recorded of a member, together under one lock: a record goes and its tombstone comes at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use tokio::time::Instant;
use vidra_api::names::OwnerHash;
use vidra_core::{
    directives::WaitFor,
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey},
    render::Declared,
};

use super::{
    Source,
    baseline::Baseline,
    corrections::Corrections,
    ends::Ends,
    in_flight::InFlight,
    own_health::{OwnHealth, Standing},
    owners::{Owner, Owners},
    record::Record,
    strays::Strays,
    tombstones::Tombstones,
    view::View,
};
use crate::{member::live::Live, workqueue::TargetKey};

/// All that is recorded of one member, behind one lock.
#[derive(Default)]
pub(super) struct Contents {
    /// Boxed: a map's nodes are half empty.
    pub(super) objects: BTreeMap<ObjectKey, Box<Record>>,
    pub(super) owners: Owners,
    pub(super) folds: u64,
    pub(super) in_flight: InFlight,
    pub(super) ends: Ends,
    pub(super) tombstones: Tombstones,
    pub(super) strays: Strays,
    pub(super) corrections: Corrections,
    /// Kinds with objects whose verdicts depend on what their CRD declares, which was not known when they were judged.
    pub(super) unread: BTreeSet<Gvk>,
}

impl Contents {
    /// An object is recorded, or has room: a declared one always.
    pub(super) fn takes(&self, key: &ObjectKey, most: usize) -> bool {
        self.objects.len() < most || self.objects.contains_key(key) || self.owners.is_declared(key)
    }

    /// What is folded now of a live object: nothing of what is shown in another version than it is declared in, and what a
    /// watch or a list shows during a call waits for its end.
    pub(super) fn admit(
        &mut self,
        key: &ObjectKey,
        gvk: &Gvk,
        live: Live,
        source: Source<'_>,
    ) -> Option<Live> {
        let is_asked = matches!(source, Source::Answer(_) | Source::Read);
        let is_foreign = !is_asked && self.owners.are_of_other_version(key, gvk, &live.json["metadata"]);
        if is_foreign && !mutants::is(Mutant::AnyVersionTells) {
            return None;
        }
        self.in_flight.defer(key, gvk, live, source)
    }

    /// Is the object recorded, and its record so?
    pub(super) fn record_is(&self, key: &ObjectKey, says: impl FnOnce(&Record) -> bool) -> bool {
        self.objects.get(key).is_some_and(|record| says(record))
    }

    /// Takes a record away; what is known of an object that somebody wants is kept. Returns whom it concerns.
    pub(super) fn vanish(&mut self, key: &ObjectKey) -> BTreeSet<OwnerHash> {
        let Some(record) = self.objects.remove(key) else { return BTreeSet::new() };
        self.strays.forget(key);
        let mut owners = record.owners();
        self.owners.forget_values_of(key, &owners);
        if record.keeps_out() || self.is_left(key, &record, None) {
            // Who was refused it, or waited for its end, has left no mark on it.
            owners.extend(self.declaring(key));
        }
        if record.views.iter().any(|view| self.owners.declares(&view.owner, key)) {
            let Record { uid, views, .. } = *record;
            self.tombstones.add(key, uid, views);
        }
        owners
    }

    /// For whom it could be news how an object is, which was so `before`.
    pub(super) fn concerned(&self, key: &ObjectKey, before: Option<&Record>) -> BTreeSet<OwnerHash> {
        let Some(record) = self.objects.get(key) else { return BTreeSet::new() };
        let mut owners = record.changed_for(before);
        if before.is_some_and(|before| self.is_left(key, before, Some(record))) {
            owners.extend(self.declaring(key));
        }
        owners
    }

    /// Who declares an object, whether or not that one has left a mark on it.
    fn declaring(&self, key: &ObjectKey) -> BTreeSet<OwnerHash> {
        self.owners.declaring(key).map(|(owner, _)| owner.clone()).collect()
    }

    /// An owner that does not declare the object any more has released it, or it is gone: others may have been refused it
    /// for that one. Only then all are looked through: most of what goes is declared still.
    fn is_left(&self, key: &ObjectKey, before: &Record, now: Option<&Record>) -> bool {
        let was = before.views.iter().filter(|view| view.applies).map(|view| &view.owner);
        let mut left = was.filter(|owner| !now.is_some_and(|now| now.is_applied_by(owner)));
        left.any(|owner| !self.owners.declares(owner, key)) && !mutants::is(Mutant::RefusedUntold)
    }

    /// What nobody wants any more is not kept.
    pub(super) fn forget_unwanted(&mut self) {
        let owners = &self.owners;
        self.tombstones.retain(|key| owners.is_declared(key));
    }

    /// Notes whether the CRD of an object's kind is to be read for it, and for whom it is a stray now.
    pub(super) fn note(&mut self, gvk: &Gvk, key: &ObjectKey, labelled: &BTreeSet<OwnerHash>) {
        self.strays.forget(key);
        let Some(record) = self.objects.get(key) else { return };
        let is_unread = |view: &View| self.owners.health(&view.owner).is_some_and(|own| own.is_unread(key));
        if record.judged.unread || record.views.iter().any(is_unread) {
            self.unread.insert(gvk.clone());
        }
        if record.controlled || record.terminating {
            return;
        }
        for view in record.views.iter().filter(|view| !view.proof && labelled.contains(&view.owner)) {
            self.strays.note(&view.owner, key, &gvk.version);
        }
    }

    /// Takes what a target declares, and what of it is left alone.
    pub(super) fn declare(&mut self, owner: OwnerHash, mut says: Owner) {
        let before = self.owners.get_mut(&owner).map(|known| {
            (says.health, says.feedback) = (known.health.take(), known.feedback.take());
            (says.is_known, says.was_ready) = (true, known.was_ready);
            says.had_failed = mem::take(&mut known.had_failed);
            Arc::clone(&known.exemptions)
        });
        let was = before.clone().unwrap_or_default();
        if !Arc::ptr_eq(&was, &says.exemptions) {
            let (was, now) = (&was.objects, &says.exemptions.objects);
            let changed = was.keys().chain(now.keys()).filter(|key| was.get(*key) != now.get(*key));
            for key in changed {
                let views = self.objects.get_mut(key).map(|record| &mut record.views);
                for view in views.into_iter().flatten().filter(|view| view.owner == owner) {
                    view.yields = None;
                    // What was seen before anything was declared is compared yet.
                    let is_compared = matches!(
                        view.baseline,
                        Baseline::Compared { .. } | Baseline::HeldByOther { .. } | Baseline::Immutable
                    );
                    if before.is_some() || is_compared {
                        view.baseline.invalidate();
                    }
                }
            }
        }
        let desired = says.desired.clone();
        let known = self.owners.set(owner, says);
        if known.is_none_or(|known| !Arc::ptr_eq(&known.desired, &desired)) {
            self.forget_unwanted();
        }
    }

    /// The answer of an owner's apply came after a later version was folded, as another owner's answer: what the owner's
    /// values were compared with there is older than its apply. Its target is to look once more.
    pub(super) fn overtake(&mut self, key: &ObjectKey, answer: Source<'_>) -> Option<TargetKey> {
        let Source::Answer(own) = answer else { return None };
        if mutants::is(Mutant::OvertakenCounts) {
            return None;
        }
        self.objects.get_mut(key)?.view_of_mut(own)?.baseline.invalidate();
        self.owners.get(own).map(|owner| owner.target.clone())
    }

    /// What a list of one kind that began at `mark` did not show, and nothing else has shown since in a version above `at`.
    pub(super) fn unseen(
        &self,
        gvk: &Gvk,
        namespace: &str,
        seen: &BTreeSet<ObjectKey>,
        (mark, at): (u64, u64),
    ) -> Vec<ObjectKey> {
        let is_older = |version: u64| version != 0 && version <= at;
        let unseen = self.objects.iter().filter(|(key, record)| {
            is_within(key, gvk, namespace)
                && !seen.contains(*key)
                && (record.folded <= mark || is_older(record.resource_version))
        });
        unseen.map(|(key, _)| key.clone()).collect()
    }

    /// How an object is for an owner.
    pub(super) fn standing<'a>(&'a self, owner: &'a OwnerHash, key: &ObjectKey) -> Option<Standing<'a>> {
        let declared = self.owners.get(owner).and_then(|known| known.declared(key));
        Some(Asker::new(&self.owners, owner).standing(key, self.objects.get(key)?, declared))
    }
}

/// Who asks how objects are, and when.
pub(super) struct Asker<'a> {
    hash: &'a OwnerHash,
    owner: Option<&'a Owner>,
    now: Instant,
}

impl<'a> Asker<'a> {
    pub(super) fn new(owners: &'a Owners, hash: &'a OwnerHash) -> Self {
        Self { hash, owner: owners.get(hash), now: Instant::now() }
    }

    /// How an object is for the owner, who declares it so: by its own rules, where these are about it.
    pub(super) fn standing<'r>(
        &self,
        key: &ObjectKey,
        record: &'r Record,
        declared: Option<&Declared>,
    ) -> Standing<'r>
    where
        'a: 'r,
    {
        let told = self.owner.map(|owner| owner.told(key)).unwrap_or_default();
        let own = self.owner.and_then(|owner| owner.health.as_deref());
        // Taking off it what proves it the owner's hands it to no other rules.
        let is_judged = |own: &OwnHealth| record.view_of(self.hash).is_some() && own.has_judged(key);
        let own = own.filter(|own| record.is_proved(self.hash) || is_judged(own));
        let own = own.and_then(|own| own.standing(key, self.now, told));
        let standing = own.unwrap_or_else(|| Standing::of(&record.judged, self.now, told));
        standing.awaited(declared.map_or(WaitFor::Health, |declared| declared.directives.wait_for))
    }
}

/// What is shown is older than what is recorded under its name.
pub(super) fn is_overtaken(held: Option<&Record>, uid: &str, version: u64, source: Source<'_>) -> bool {
    match held {
        Some(record) if record.uid == *uid => record.outdates(version, source),
        _ if matches!(source, Source::Beside(_)) && !mutants::is(Mutant::BesideBringsBack) => true,
        // One that bore the name before: what took its place has a later version.
        Some(successor) => successor.succeeds(version, source),
        None => false,
    }
}

/// Is this an object of the kind, in the namespace (empty: in any)?
pub(super) fn is_within(key: &ObjectKey, gvk: &Gvk, namespace: &str) -> bool {
    *key.group == *gvk.group
        && *key.kind == *gvk.kind
        && (namespace.is_empty() || *key.namespace == *namespace)
}

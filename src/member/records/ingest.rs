//! The fold: the one way in which a watch event, a list item, the answer of a call or a read becomes a record, or ends
//! one.
//!
//! It returns the targets that should look again: those for which something changed that a plan or a status depends
//! on. Everything else is dropped here, so that a busy member costs nothing.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
};

use parking_lot::MutexGuard;
use serde_json::Value;
use vidra_api::names::OwnerHash;
use vidra_core::{
    fields::{self, FieldSet},
    health::rules::RuleSet,
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey},
    owner::is_controlled,
    render::Declared,
    uid::Uid,
};

use super::{
    Records, Source,
    assessment::Assessment,
    baseline::{Baseline, hashed_part},
    contents::{Contents, is_overtaken, is_within},
    facts::{self, Circumstances},
    in_flight::Deferred,
    own_values::feed,
    own_verdicts::judge,
    record::Record,
    tombstones::Tombstone,
};
use crate::{member::live::Live, workqueue::TargetKey};

/// A verdict, with what it was made by.
struct Assessed {
    declarations: u64,
    rules: Arc<RuleSet>,
    by: Circumstances,
    judged: Assessment,
}

impl Assessed {
    /// Nothing has changed since of what objects are judged by.
    fn is_of_now(&self, records: &Records) -> bool {
        Arc::ptr_eq(&self.rules, &records.rules.now()) && self.declarations == records.facts.declarations()
    }
}

impl Records {
    /// Folds one live object of a kind; returns the targets that should look again.
    pub fn fold(&self, gvk: &Gvk, mut live: Live, source: Source<'_>) -> Vec<TargetKey> {
        complete_type(gvk, &mut live.json);
        let key = ObjectKey::new(gvk, live.meta_text("namespace"), live.meta_text("name"));
        let (Assessed { rules, mut by, mut judged, .. }, mut inner) = self.assess_locked(gvk, &live.json);
        let inner = &mut *inner;
        let Some(live) = inner.admit(&key, gvk, live, source) else { return Vec::new() };
        let held = inner.objects.get(&key).map(Box::as_ref);
        let is_new = held.is_none();
        if !inner.takes(&key, self.most) {
            return Vec::new();
        }
        let before = held.filter(|record| record.uid == *live.uid());
        let resource_version = live.resource_version().parse().unwrap_or(0);
        let is_old = inner.ends.is_stale(&key, live.uid(), resource_version, source)
            || is_overtaken(held, live.uid(), resource_version, source);
        if is_old {
            return inner.overtake(&key, source).into_iter().collect();
        }
        inner.folds += 1;
        let kept = inner.tombstones.get(&key).filter(|kept| *kept.uid() == *live.uid());
        let known = before.map(|before| &before.views[..]).or(kept.map(Tombstone::views));
        let same_version = before.is_some_and(|before| before.resource_version == resource_version);
        let known = (known.unwrap_or_default(), same_version);
        let views = self.views.build(&key, &live, source, known, &inner.owners);
        if let Source::Answer(own) = source {
            let kept = inner.tombstones.get(&key);
            let corrected = self.views.evidence.corrected(own, live.uid(), before, kept);
            inner.corrections.set(own, &key, corrected);
        }
        inner.tombstones.remove(&key);
        let labelled = inner.owners.labelled(&live.json["metadata"]);
        let was = before.map(|before| before.before_change(&views, source));
        if by.note(self.facts.change(was, &live.json, &by)) {
            judged = Assessment::of(&live.json, &rules, &by);
        }
        let judged_before = (before.map(|before| &before.judged), same_version);
        let judged = self.follow(gvk, judged, judged_before);
        let hide = |key: &ObjectKey, live: &_| self.readable(key, live);
        let turned = judge(&mut inner.owners, &key, &live.json, (&views, hide), (&rules, &by), judged_before);
        let fed = feed(&mut inner.owners, &key, &live, (&views, held));
        self.steps.fetch_add(std::mem::take(&mut inner.owners.steps), Ordering::Relaxed);
        let record = Record {
            uid: live.uid().into(),
            resource_version,
            folded: inner.folds,
            terminating: live.is_terminating(),
            controlled: is_controlled(&live.json),
            generation: facts::generation(&live.json),
            judged,
            change: by.change.map(Box::new),
            views,
        };
        let key = if is_new { self.interned.key(key) } else { key };
        let replaced = inner.objects.insert(key.clone(), Box::new(record));
        inner.note(gvk, &key, &labelled);
        let mut owners = inner.concerned(&key, replaced.as_deref());
        owners.extend(turned.into_iter().chain(fed));
        owners.retain(|owner| !matches!(source, Source::Answer(own) if own == owner));
        inner.owners.targets_of(&owners)
    }

    /// How a live object is, by what is known when the lock is taken: the list that has objects judged by what has changed
    /// passes over what is folded after it began. Mostly nothing has changed, and nobody waits for the evaluation.
    fn assess_locked(&self, gvk: &Gvk, live: &Value) -> (Assessed, MutexGuard<'_, Contents>) {
        let assessed = self.assess(gvk, live);
        let inner = self.inner.lock();
        match assessed.is_of_now(self) {
            true => (assessed, inner),
            false => (self.assess(gvk, live), inner),
        }
    }

    /// What VidraResources' own rules may read of an object; `None`: all of it.
    fn readable(&self, key: &ObjectKey, live: &Value) -> Option<Value> {
        self.views.evidence.secrecy.tuning.now().redact.without_fields(&key.group, &key.kind, live)
    }

    /// How a live object is, by what is known now.
    fn assess(&self, gvk: &Gvk, live: &Value) -> Assessed {
        let (declarations, rules) = (self.facts.declarations(), self.rules.now());
        let by = self.facts.circumstances(gvk, live);
        let judged = Assessment::of(live, &rules, &by);
        Assessed { declarations, rules, by, judged }
    }

    /// The verdict after what was judged of the object before; `same`: of the same version of it.
    fn follow(
        &self,
        gvk: &Gvk,
        judged: Assessment,
        (before, same): (Option<&Assessment>, bool),
    ) -> Assessment {
        let judged = judged.after(before, same);
        if same && judged.is_turned(before) {
            // The object is as it was: the rules are not.
            self.rules.note_turned(&gvk.group, &gvk.kind);
        }
        judged
    }

    /// Folds a deletion: a watch's DELETED with its resourceVersion, or a call that found the object gone
    /// (resourceVersion empty: certain).
    ///
    /// On a label selector DELETED may also mean that the object lost the label: the plan finds out.
    pub fn fold_gone(&self, key: &ObjectKey, uid: &str, resource_version: &str) -> Vec<TargetKey> {
        let at = resource_version.parse().unwrap_or(u64::MAX);
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        if inner.in_flight.defer_gone(key, uid, resource_version) {
            return Vec::new();
        }
        inner.ends.note(key, uid, at);
        let owners = match inner.objects.get(key) {
            Some(record) if record.uid == *uid && record.resource_version <= at => {
                inner.folds += 1;
                inner.vanish(key)
            }
            Some(_) => return Vec::new(),
            // It was seen again since a read found it hidden, and that was overtaken by its end.
            None => inner.tombstones.doubt_hidden(key, uid, at),
        };
        inner.owners.targets_of(&owners)
    }

    /// A list of this version did not show it.
    fn fold_unlisted(&self, key: &ObjectKey, at: u64) -> Vec<TargetKey> {
        let uid = {
            let inner = self.inner.lock();
            let record = inner.objects.get(key).filter(|record| record.resource_version != 0);
            record.map(|record| record.uid.clone())
        };
        uid.map(|uid| self.fold_gone(key, &uid.to_string(), &at.to_string())).unwrap_or_default()
    }

    /// Ends a list of one kind (in one namespace, unless empty) that began at `mark` and has this resourceVersion (0: that
    /// is no number): what was not listed is gone, unless it was folded since in a newer version. That goes for the answers
    /// of calls too, whether they came while it was read or are still to come: no watch tells of what is older than the
    /// list.
    pub fn end_list(
        &self,
        gvk: &Gvk,
        namespace: &str,
        seen: &BTreeSet<ObjectKey>,
        (mark, version): (u64, u64),
    ) -> Vec<TargetKey> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let version = if mutants::is(Mutant::AnswersOutlast) { 0 } else { version };
        let is_unlisted = |key: &ObjectKey| is_within(key, gvk, namespace) && !seen.contains(key);
        inner.in_flight.note_unlisted(version, is_unlisted);
        let gone = inner.unseen(gvk, namespace, seen, (mark, version));
        for key in gone.iter().filter(|_| version > 0) {
            let uid = inner.objects.get(key).map(|record| record.uid.to_string()).unwrap_or_default();
            inner.ends.note(key, &uid, version);
        }
        let owners: BTreeSet<OwnerHash> = gone.iter().flat_map(|key| inner.vanish(key)).collect();
        inner.owners.targets_of(&owners)
    }

    /// A read found no object with this uid.
    pub fn note_gone(&self, key: &ObjectKey, uid: &str) -> Vec<TargetKey> {
        let targets = self.fold_gone(key, uid, "");
        let mut inner = self.inner.lock();
        if inner.objects.get(key).is_none_or(|record| record.uid != *uid) {
            inner.tombstones.set_gone(key, uid);
        }
        targets
    }

    /// A read found the object without the label by which it is seen. Whose it is.
    pub fn note_hidden(&self, gvk: &Gvk, mut live: Live) -> Vec<TargetKey> {
        complete_type(gvk, &mut live.json);
        let key = ObjectKey::new(gvk, live.meta_text("namespace"), live.meta_text("name"));
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let uid = Uid::from(live.uid());
        let recorded = inner.objects.get(&key).filter(|record| record.uid == uid);
        let kept = inner.tombstones.get(&key).filter(|kept| *kept.uid() == uid);
        let before = recorded.map(|record| &record.views[..]).or(kept.map(Tombstone::views));
        let before = before.unwrap_or_default();
        let views = self.views.build(&key, &live, Source::Read, (before, false), &inner.owners);
        inner.vanish(&key);
        let owners = views.iter().map(|view| view.owner.clone()).collect();
        let hidden_at = live.resource_version().parse().unwrap_or(u64::MAX);
        inner.ends.note(&key, live.uid(), hidden_at);
        inner.tombstones.set_hidden(key, uid, views, hidden_at);
        inner.owners.targets_of(&owners)
    }

    /// A read found this object, which is left as it is. What was known of one that is not seen any more: it is hidden
    /// where this is it, else gone.
    pub fn note_present(&self, key: &ObjectKey, live: &Live) {
        let version = live.resource_version().parse().unwrap_or(u64::MAX);
        self.inner.lock().tombstones.set_present(key, live.uid(), version);
    }

    /// Takes a baseline that a dry run has confirmed: `live` is what an apply would leave. `is_lost`: of the set another
    /// VidraResource alone holds something. False: what is recorded is not what was read.
    pub fn rebase(
        &self,
        owner: &OwnerHash,
        key: &ObjectKey,
        live: &Value,
        (set, is_lost): (FieldSet, bool),
        declared: &Value,
    ) -> bool {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let Some(record) = inner.objects.get_mut(key) else { return true };
        if record.has_overtaken(live) {
            return false;
        }
        let Some(view) = record.read_view_mut(owner, live) else { return true };
        let set = self.interned.sets.share(set);
        let exempt = inner.owners.get(owner).and_then(|known| known.exempt(key));
        let values = fields::values_hash(&hashed_part(exempt, live), &set, Some(declared));
        view.baseline = match is_lost {
            true => Baseline::HeldByOther { set, values },
            false => Baseline::Compared { set, values, drifted: false },
        };
        view.trace = None;
        true
    }

    /// A dry run has shown that an apply would change the object: what it would leave is the baseline. False: what is
    /// recorded is not what was read.
    pub fn differs(
        &self,
        owner: &OwnerHash,
        key: &ObjectKey,
        live: &Value,
        would: &Value,
        set: FieldSet,
        declared: &Declared,
    ) -> bool {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let Some(record) = inner.objects.get_mut(key) else { return true };
        if record.has_overtaken(live) {
            return false;
        }
        let Some(view) = record.read_view_mut(owner, live) else { return true };
        let set = self.interned.sets.share(set);
        let known = inner.owners.get(owner);
        let exempt = known.and_then(|known| known.exempt(key));
        let values = fields::values_hash(&hashed_part(exempt, would), &set, Some(&declared.body));
        let compared = |value: &Value| exempt.map_or_else(|| value.clone(), |one| one.compared(value, live));
        let told = fields::differing(&compared(live), &compared(would), &set, Some(&declared.body));
        view.baseline = Baseline::Compared { set, values, drifted: true };
        view.trace = self.views.evidence.trace(key, live, view, known, Some(&told));
        true
    }

    /// A dry run of what is declared was refused, for what differs cannot be changed in this object. Where another version
    /// of it is recorded, that one has not been compared yet.
    pub fn note_immutable(&self, owner: &OwnerHash, key: &ObjectKey, live: &Value) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let record = inner.objects.get_mut(key).filter(|record| !record.has_overtaken(live));
        let Some(view) = record.and_then(|record| record.read_view_mut(owner, live)) else { return };
        view.baseline = Baseline::Immutable;
        view.trace = self.views.evidence.trace(key, live, view, inner.owners.get(owner), None);
    }

    /// A call begins.
    pub(in crate::member) fn begin_call(&self, key: &ObjectKey) {
        self.inner.lock().in_flight.begin(key);
    }

    /// A call has ended; after the last, what waited is folded.
    pub(in crate::member) fn end_call(&self, key: &ObjectKey) -> Vec<TargetKey> {
        let deferred = self.inner.lock().in_flight.end(key);
        match deferred {
            None => Vec::new(),
            Some(Deferred::Live { gvk, live, source }) => self.fold(&gvk, *live, source),
            Some(Deferred::Gone { uid, resource_version }) => self.fold_gone(key, &uid, &resource_version),
            Some(Deferred::Unlisted { at }) => self.fold_unlisted(key, at),
        }
    }
}

/// List items bear no type of their own.
fn complete_type(gvk: &Gvk, json: &mut Value) {
    if let Some(object) = json.as_object_mut() {
        object.entry("apiVersion").or_insert_with(|| gvk.api_version().into());
        object.entry("kind").or_insert_with(|| Value::from(&*gvk.kind));
    }
}

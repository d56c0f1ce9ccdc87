//! What is kept of a member's live objects, and the fold: the one way in which a watch event, a list item
//! or the answer of a call becomes a record. The object itself is dropped.
//!
//! A fold returns the targets that should look again: those for which something changed that a plan or a
//! status depends on. Everything else is dropped here, so that a busy member costs nothing.

mod base;
mod corrections;
mod extent;
mod in_flight;
mod later;
mod news;
mod owners;
mod spare;
mod strays;
mod tombstones;
mod trace;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::AtomicUsize},
};

use parking_lot::Mutex;
use serde_json::Value;
use smallvec::SmallVec;
use vidra_api::{
    labels,
    names::{HubId, OwnerHash},
};
use vidra_core::{
    beside::Beside,
    drift::Evidence,
    fields::{self, FieldSet},
    health::{self, HealthStatus},
    ignore::Spared,
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey},
    plan::{self, Drift},
    render::{Declared, DeclaredHash, Stamp},
    uid::Uid,
};

use base::{Base, Comparison};
use corrections::Corrections;
use in_flight::{Deferred, InFlight};
pub use later::{Generations, Later};
use news::is_old_news;
pub use owners::Other;
use owners::Owners;
use strays::Strays;
use tombstones::{Tombstone, Tombstones};
pub use trace::Secrecy;

use super::live::Live;
use crate::{base::interner::Interned, desired::Desired, queue::TargetKey};

/// Where an object that is folded comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// A watch event.
    Watch,
    /// An item of a list that began at this [`Records::mark`].
    List(u64),
    /// The answer of this owner's own apply: its values are the new baseline.
    Answer(&'a OwnerHash),
    /// A read on somebody's behalf; no baseline.
    Read,
}

/// The records of one member.
pub struct Records {
    hub: HubId,
    manager_prefix: String,
    secrecy: Secrecy,
    interned: Arc<Interned>,
    /// Bytes of evidence that are kept.
    room: Arc<AtomicUsize>,
    /// Bound on the objects that are recorded whether or not a target declares them.
    most: usize,
    inner: Mutex<Inner>,
}

/// See [`Records::most`]. A member's users can make any number of objects with the hub's label; one that is declared
/// later is met by the call that would make it, and recorded then.
const OBJECTS_MAX: usize = 150_000;

#[derive(Default)]
struct Inner {
    /// Boxed: a map's nodes are half empty.
    objects: BTreeMap<ObjectKey, Box<Record>>,
    owners: Owners,
    folds: u64,
    in_flight: InFlight,
    tombstones: Tombstones,
    strays: Strays,
    corrections: Corrections,
}

impl Inner {
    /// An object is recorded, or has room: a declared one always.
    fn takes(&self, key: &ObjectKey, most: usize) -> bool {
        self.objects.len() < most || self.objects.contains_key(key) || self.owners.is_declared(key)
    }

    /// Takes a record away; what is known of an object that somebody wants is kept. Returns whom it concerns.
    fn vanish(&mut self, key: &ObjectKey) -> BTreeSet<OwnerHash> {
        let Some(record) = self.objects.remove(key) else { return BTreeSet::new() };
        self.strays.forget(key);
        let mut owners = record.owners();
        if record.keeps_out() {
            // Who was refused it, or waited for its end, has left no mark on it.
            owners.extend(self.owners.declaring(key).map(|(owner, _)| owner.clone()));
        }
        if record.views.iter().any(|view| self.owners.declares(&view.owner, key)) {
            let Record { uid, views, .. } = *record;
            self.tombstones.add(key, uid, views);
        }
        owners
    }

    /// What nobody wants any more is not kept.
    fn forget_unwanted(&mut self) {
        let owners = &self.owners;
        self.tombstones.retain(|key| owners.is_declared(key));
    }

    /// Notes for whom an object is a stray now.
    fn note_strays(&mut self, gvk: &Gvk, key: &ObjectKey, labelled: &BTreeSet<OwnerHash>) {
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

struct Record {
    uid: Uid,
    resource_version: u64,
    /// When it was folded last, in folds: tells whether a list that misses it began before.
    folded: u64,
    terminating: bool,
    controlled: bool,
    health: HealthStatus,
    /// Why it is not current; for people.
    note: Option<Box<str>>,
    views: Views,
}

/// How an object is.
pub struct Seen<'a> {
    /// Its health.
    pub health: HealthStatus,
    /// Why it is not current; for people.
    pub note: Option<&'a str>,
    /// Its uid.
    pub uid: &'a Uid,
    /// It is proved to be the owner's by its marks.
    pub proof: bool,
}

/// Mostly one.
type Views = SmallVec<[View; 1]>;

/// What was declared at an apply, and the VidraResource's generation then.
pub type Applied = (DeclaredHash, i64);

/// One owner's standing in an object.
struct View {
    owner: OwnerHash,
    proof: bool,
    /// Our last apply.
    applied: Option<Arc<Applied>>,
    /// Somebody holds what is left to such.
    yields: bool,
    /// See [`Stamp::kept`].
    kept: bool,
    base: Base,
    /// While it is not as it was left.
    trace: Option<Box<trace::Trace>>,
}

/// What an object bears of an owner.
struct Marks {
    /// Our own Apply entry owns our label.
    proof: bool,
    /// By its stamp.
    applied: Option<Arc<Applied>>,
    /// See [`Stamp::kept`].
    kept: bool,
}

impl Records {
    /// No records yet.
    pub fn new(hub: HubId, secrecy: Secrecy, interned: Arc<Interned>) -> Self {
        let manager_prefix = format!("vidra/{hub}/");
        let (room, inner) = (Arc::default(), Mutex::default());
        Self { hub, manager_prefix, secrecy, interned, room, most: OBJECTS_MAX, inner }
    }

    /// Forgets a target that is gone.
    pub fn forget(&self, owner: &OwnerHash) {
        let mut inner = self.inner.lock();
        inner.owners.forget(owner);
        inner.corrections.forget(owner);
        inner.forget_unwanted();
    }

    /// The target of an owner.
    pub fn target_of(&self, owner: &OwnerHash) -> Option<TargetKey> {
        self.inner.lock().owners.get(owner).map(|owner| owner.target.clone())
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
        if is_overtaken(inner.objects.get(key).map(Box::as_ref), live) {
            return false;
        }
        let set = self.interned.sets.share(set);
        if let Some(view) = viewed(inner.objects.get_mut(key).map(Box::as_mut), owner, live) {
            let spared = inner.owners.get(owner).and_then(|known| known.spared(key));
            let values = fields::values_hash(&spare::seen(spared, live), &set, Some(declared));
            view.base = match is_lost {
                true => Base::Apart { set, values },
                false => Base::Known { set, values, drifted: false },
            };
            view.trace = None;
        }
        true
    }

    /// The one copy of a key, for those who keep many.
    pub fn shared(&self, key: ObjectKey) -> ObjectKey {
        self.interned.key(key)
    }

    /// An object that a list shows is recorded, or has room; one that has not is never missed.
    pub fn takes(&self, key: &ObjectKey) -> bool {
        self.inner.lock().takes(key, self.most)
    }

    /// A point in the order of folds, to be taken before a list is asked for.
    pub fn mark(&self) -> u64 {
        self.inner.lock().folds
    }

    /// How many objects are recorded.
    pub fn len(&self) -> usize {
        self.inner.lock().objects.len()
    }

    /// No object is recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many entries there are, by what they are of; for tests, which look that what is gone leaves none.
    pub fn entries(&self) -> [(&'static str, usize); 5] {
        let inner = self.inner.lock();
        [
            ("recorded objects", inner.objects.len()),
            ("owners", inner.owners.len()),
            ("objects with a call under way", inner.in_flight.len()),
            ("objects that vanished", inner.tombstones.len()),
            ("objects that were healed", inner.corrections.len()),
        ]
    }

    /// The uid under which an object is recorded.
    pub fn uid(&self, key: &ObjectKey) -> Option<Uid> {
        self.inner.lock().objects.get(key).map(|record| record.uid.clone())
    }

    /// Folds one live object of a kind; returns the targets that should look again.
    pub fn fold(&self, gvk: &Gvk, mut live: Live, source: Source<'_>) -> Vec<TargetKey> {
        complete_type(gvk, &mut live.json);
        let key = ObjectKey::new(gvk, live.meta_text("namespace"), live.meta_text("name"));
        let health = health::assess(&live.json);
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let Some(live) = inner.in_flight.defer(&key, gvk, live, source) else { return Vec::new() };
        let held = inner.objects.get(&key);
        let is_new = held.is_none();
        if !inner.takes(&key, self.most) {
            return Vec::new();
        }
        let before = held.filter(|record| record.uid == *live.uid()).map(Box::as_ref);
        let resource_version = live.resource_version().parse().unwrap_or(0);
        if before.is_some_and(|before| is_old_news(before, resource_version, source)) {
            return inner.overtake(&key, source).into_iter().collect();
        }
        inner.folds += 1;
        let kept = inner.tombstones.get(&key).filter(|kept| *kept.uid() == *live.uid());
        let known = before.map(|before| &before.views[..]).or(kept.map(Tombstone::views));
        let same_version = before.is_some_and(|before| before.resource_version == resource_version);
        let known = (known.unwrap_or_default(), same_version);
        let views = self.views(&key, &live, source, known, &inner.owners);
        if let Source::Answer(own) = source {
            let corrected = trace::corrected(self, own, live.uid(), before, inner.tombstones.get(&key));
            inner.corrections.set(own, &key, corrected);
        }
        inner.tombstones.remove(&key);
        let labelled = inner.owners.labelled(&live.json["metadata"]);
        let record = Record {
            uid: live.uid().into(),
            resource_version,
            folded: inner.folds,
            terminating: live.is_terminating(),
            controlled: is_controlled(&live.json),
            health: health.status,
            note: (health.status != HealthStatus::Current).then(|| health.message.into_boxed_str()),
            views,
        };
        let key = if is_new { self.interned.key(key) } else { key };
        let replaced = inner.objects.insert(key.clone(), Box::new(record));
        inner.note_strays(gvk, &key, &labelled);
        let Some(record) = inner.objects.get(&key) else { return Vec::new() };
        let mut owners = changed_for(replaced.as_deref(), record);
        if let Source::Answer(own) = source {
            owners.remove(own);
        }
        inner.owners.targets_of(&owners)
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
            inner
                .objects
                .get(key)
                .filter(|record| record.resource_version != 0)
                .map(|record| record.uid.clone())
        };
        uid.map(|uid| self.fold_gone(key, &uid.to_string(), &at.to_string())).unwrap_or_default()
    }

    /// A read found no object with this uid.
    pub fn tell_gone(&self, key: &ObjectKey, uid: &str) -> Vec<TargetKey> {
        let targets = self.fold_gone(key, uid, "");
        let mut inner = self.inner.lock();
        if inner.objects.get(key).is_none_or(|record| record.uid != *uid) {
            inner.tombstones.set_gone(key, uid);
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
        let kept = inner.tombstones.get(&key).filter(|kept| *kept.uid() == uid);
        let before = recorded.map(|record| &record.views[..]).or(kept.map(Tombstone::views));
        let before = before.unwrap_or_default();
        let views = self.views(&key, &live, Source::Read, (before, false), &inner.owners);
        inner.vanish(&key);
        let owners = views.iter().map(|view| view.owner.clone()).collect();
        let hidden_at = live.resource_version().parse().unwrap_or(u64::MAX);
        inner.tombstones.set_hidden(key, uid, views, hidden_at);
        inner.owners.targets_of(&owners)
    }

    /// Forgets every object.
    pub fn clear(&self) {
        let mut inner = self.inner.lock();
        inner.objects.clear();
        inner.tombstones.clear();
        inner.strays.clear();
        inner.corrections.clear();
        inner.in_flight.forget_deferred(|_| true);
    }

    /// What is known of an owner's object with this uid that is not seen.
    pub fn vanished(&self, owner: &OwnerHash, key: &ObjectKey, uid: &Uid) -> plan::Vanished {
        let inner = self.inner.lock();
        let known = inner.tombstones.get(key).filter(|known| known.uid() == uid);
        known.map(|known| known.plan_view(owner)).unwrap_or_default()
    }

    /// Contact was lost: what a read told before may not be so any more.
    pub fn ask_again(&self) {
        self.inner.lock().tombstones.doubt_all();
    }

    /// Whether an object only bears the label of this target, and is neither declared by it nor proved to be its own.
    pub fn is_stray_of(&self, target: &TargetKey, key: &ObjectKey) -> bool {
        let inner = self.inner.lock();
        let mut owners = inner.strays.owners_of(key).iter().filter_map(|hash| inner.owners.get(hash));
        owners.any(|owner| owner.target == *target && owner.declared(key).is_none())
    }

    /// Is the object applied for this owner, as far as was seen?
    pub fn is_applied_for(&self, key: &ObjectKey, owner: &OwnerHash) -> bool {
        let inner = self.inner.lock();
        let record = inner.objects.get(key);
        record.is_some_and(|record| record.views.iter().any(|view| view.owner == *owner && view.proof))
    }

    /// Does another VidraResource prove this object its own, as far as was seen?
    pub fn is_shared(&self, key: &ObjectKey, own: &OwnerHash) -> bool {
        let inner = self.inner.lock();
        let record = inner.objects.get(key);
        record.is_some_and(|record| record.views.iter().any(|view| view.owner != *own && view.proof))
    }

    /// What the VidraResource with this field manager declares of the object now.
    pub fn other(&self, key: &ObjectKey, manager: &str, own: &OwnerHash, declared: &Declared) -> Other {
        self.inner.lock().owners.other(key, (&self.hub, manager), own, declared)
    }

    /// Does another VidraResource prove this object its own, and declare it otherwise, as far as is known? One of the same
    /// namespace that has dropped it is going to let go of it.
    pub fn is_disputed(&self, key: &ObjectKey, own: &OwnerHash, declared: &Declared) -> bool {
        let inner = self.inner.lock();
        let agrees = |other: &OwnerHash| inner.owners.agrees(other, key, own, declared);
        inner.objects.get(key).is_some_and(|record| {
            record.views.iter().any(|view| view.owner != *own && view.proof && !agrees(&view.owner))
        })
    }

    /// Does another target declare this object otherwise, whose word does not yield to this one's: one of another
    /// namespace, or an older one?
    pub fn is_outranked(&self, key: &ObjectKey, own: &OwnerHash, declared: &Declared) -> bool {
        self.inner.lock().owners.is_outranked(key, own, declared)
    }

    /// Is our entry gone from this object's managedFields, as far as was seen?
    pub fn has_lost_entry(&self, key: &ObjectKey, own: &OwnerHash) -> bool {
        let inner = self.inner.lock();
        inner.objects.get(key).is_some_and(|record| {
            record.views.iter().any(|view| view.owner == *own && matches!(view.base, Base::Lost { .. }))
        })
    }

    /// Objects with this owner's label that nothing proves to be its own, each with its version.
    pub fn strays(&self, owner: &OwnerHash) -> BTreeMap<ObjectKey, Arc<str>> {
        self.inner.lock().strays.of_owner(owner)
    }

    /// A call begins.
    pub(super) fn begin_call(&self, key: &ObjectKey) {
        self.inner.lock().in_flight.begin(key);
    }

    /// A call has ended; after the last, what waited is folded.
    pub(super) fn end_call(&self, key: &ObjectKey) -> Vec<TargetKey> {
        let deferred = self.inner.lock().in_flight.end(key);
        match deferred {
            None => Vec::new(),
            Some(Deferred::Live { gvk, live, mark }) => {
                self.fold(&gvk, *live, mark.map_or(Source::Watch, Source::List))
            }
            Some(Deferred::Gone { uid, resource_version }) => self.fold_gone(key, &uid, &resource_version),
            Some(Deferred::Unlisted { at }) => self.fold_unlisted(key, at),
        }
    }

    /// What was corrected by the answer that was folded last for this owner's object.
    pub fn take_healed(&self, owner: &OwnerHash, key: &ObjectKey) -> Option<Evidence> {
        self.inner.lock().corrections.take(owner, key)
    }

    /// Objects as a plan of this owner sees them; the keys come in their order. A baseline that can be had without a
    /// call is taken: when every declared leaf is still owned, live is as it was left.
    pub fn views_of<'k>(
        &self,
        owner: &OwnerHash,
        keys: impl Iterator<Item = &'k ObjectKey>,
        desired: &Desired,
    ) -> BTreeMap<ObjectKey, plan::Live> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let mut sparing = inner.owners.get(owner).map(|known| Beside::new(&known.sparing.objects));
        let mut declared = Beside::new(&desired.objects);
        keys.filter_map(|key| {
            let spared = sparing.as_mut().and_then(|sparing| sparing.get(key));
            let record = inner.objects.get_mut(key)?;
            Some((key.clone(), record.view(owner, declared.get(key), spared)))
        })
        .collect()
    }

    /// One of them.
    pub fn view(&self, owner: &OwnerHash, key: &ObjectKey, desired: &Desired) -> Option<plan::Live> {
        self.views_of(owner, std::iter::once(key), desired).remove(key)
    }

    /// How each of these is, where it is recorded, as this owner sees it.
    pub fn healths<'k>(
        &self,
        owner: &OwnerHash,
        keys: impl Iterator<Item = &'k ObjectKey>,
        mut each: impl FnMut(&'k ObjectKey, Option<Seen<'_>>),
    ) {
        let inner = self.inner.lock();
        for key in keys {
            let seen = inner.objects.get(key).map(|record| Seen {
                health: record.health,
                note: record.note.as_deref(),
                uid: &record.uid,
                proof: record.views.iter().any(|view| view.owner == *owner && view.proof),
            });
            each(key, seen);
        }
    }

    /// An object's health, and why it is not current.
    pub fn health(&self, key: &ObjectKey) -> Option<(HealthStatus, Option<String>)> {
        let inner = self.inner.lock();
        let record = inner.objects.get(key)?;
        Some((record.health, record.note.as_deref().map(str::to_owned)))
    }

    fn views(
        &self,
        key: &ObjectKey,
        live: &Live,
        source: Source<'_>,
        (before, same_version): (&[View], bool),
        owners: &Owners,
    ) -> Views {
        let metadata = &live.json["metadata"];
        let entries = self.own_entries(&live.json);
        let mut all: BTreeSet<OwnerHash> = entries.keys().cloned().collect();
        all.extend(owners.labelled(metadata));
        all.extend(before.iter().map(|view| view.owner.clone()));
        all.into_iter()
            .map(|owner| {
                let known = owners.get(&owner);
                let comparison = Comparison::new(&self.hub, key, &live.json, known);
                let entry = entries.get(&owner).cloned();
                let others = || entries.iter().filter(|(other, _)| **other != owner).map(|(_, set)| &**set);
                let Marks { proof, applied, kept } = self.marks(key, metadata, &owner, entry.as_deref());
                let view = before.iter().find(|view| view.owner == owner);
                // Of what was applied otherwise since, values from before say nothing.
                let is_newer = |view: &&View| applied.is_some() && view.applied != applied;
                let was = view.filter(|view| !is_newer(view)).and_then(|view| view.base.known());
                let stale = view.is_some_and(|view| matches!(view.base, Base::Stale));
                let apart = view.is_some_and(|view| matches!(view.base, Base::Apart { .. }));
                let base = match (entry, was) {
                    (Some(set), _) if source == Source::Answer(&owner) => comparison.baseline(set),
                    (None, was) => Base::Lost { was: was.map(|(set, values, _)| (set, values)) },
                    (Some(_), _) if stale => Base::Stale,
                    // A new default, without a write: a new baseline. A restored server gives a version to two writes; one
                    // of somebody else's takes a field from our entry, and one of ours has another stamp.
                    (Some(entry), Some((set, _, false)))
                        if same_version
                            && entry == set
                            && view.is_some_and(|view| view.applied == applied) =>
                    {
                        comparison.baseline(set)
                    }
                    (Some(entry), Some((set, values, _))) => {
                        let drifted = comparison.differs(&entry, &set, values);
                        match !drifted && set.is_lost_to(&entry, others()) {
                            // Of these values a dry run has told so already.
                            true if same_version || apart => Base::Apart { set, values },
                            true => Base::Stale,
                            false => Base::Known { set, values, drifted },
                        }
                    }
                    (Some(set), None) => comparison.first_base(set),
                };
                let yields = comparison.yields();
                let mut view = View { owner, proof, applied, yields, kept, base, trace: None };
                view.trace = self.trace(key, &live.json, &view, known, None);
                view
            })
            .collect()
    }

    fn marks(&self, key: &ObjectKey, metadata: &Value, owner: &OwnerHash, entry: Option<&FieldSet>) -> Marks {
        let label = owner.label_key();
        let is_owned = entry.is_some_and(|set| fields::owns_label(set, &label));
        let stamp = metadata["annotations"][&label].as_str().and_then(Stamp::parse);
        // Of one that others wrote, the generation says nothing.
        let generation = |stamp: &Stamp| {
            let genuine = stamp.is_genuine(&self.secrecy.salt, key) || mutants::is(Mutant::AnyStamp);
            if genuine { stamp.generation } else { 0 }
        };
        Marks {
            proof: is_owned && !metadata["labels"][&label].is_null(),
            kept: stamp.as_ref().is_some_and(|stamp| stamp.kept),
            applied: stamp.map(|stamp| self.interned.applied.share((stamp.hash, generation(&stamp)))),
        }
    }

    /// The Apply entries of this hub's resources, by owner.
    fn own_entries(&self, live: &Value) -> BTreeMap<OwnerHash, Arc<FieldSet>> {
        let entries = live["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
        entries
            .iter()
            .filter(|entry| {
                entry["operation"] == "Apply" && entry["subresource"].as_str().unwrap_or("").is_empty()
            })
            .filter_map(|entry| {
                let rest = entry["manager"].as_str()?.strip_prefix(&self.manager_prefix)?;
                let owner = match rest.split_once('/') {
                    Some((namespace, name)) => OwnerHash::new(&self.hub, namespace, name),
                    None => OwnerHash::from_label_key(&format!("{}{rest}", labels::OWNER_PREFIX))?,
                };
                let set = FieldSet::from_fields_v1(&entry["fieldsV1"]).ok()?;
                Some((owner, self.interned.sets.share(set)))
            })
            .collect()
    }
}

impl View {
    fn applied(&self) -> Option<Applied> {
        self.applied.as_deref().copied()
    }
}

impl Record {
    fn view(
        &mut self,
        owner: &OwnerHash,
        declared: Option<&Declared>,
        spared: Option<&Spared>,
    ) -> plan::Live {
        let shared = self.views.iter().any(|view| view.owner != *owner && view.proof);
        let (mut proof, mut applied, mut drift) = (false, None, Drift::Unsure);
        if let Some(view) = self.views.iter_mut().find(|view| view.owner == *owner) {
            proof = view.proof;
            applied = view.applied().map(|(hash, _)| hash);
            if let Some(declared) = declared
                && view.applied().is_some_and(|(hash, _)| hash == declared.hash)
            {
                view.base.settle(&declared.body, spared, view.yields, view.kept);
            }
            drift = view.base.drift();
        }
        plan::Live {
            uid: self.uid.clone(),
            proof,
            controlled: self.controlled,
            terminating: self.terminating,
            shared,
            applied,
            drift,
            current: self.health == HealthStatus::Current,
        }
    }

    fn owners(&self) -> BTreeSet<OwnerHash> {
        self.views.iter().map(|view| view.owner.clone()).collect()
    }

    /// Whoever declares it too cannot join it: nothing proves whose it is, a controller owns it, or it is on its way out.
    fn keeps_out(&self) -> bool {
        self.terminating || self.controlled || !self.views.iter().any(|view| view.proof)
    }
}

/// List items bear no type of their own.
fn complete_type(gvk: &Gvk, json: &mut Value) {
    if let Some(object) = json.as_object_mut() {
        object.entry("apiVersion").or_insert_with(|| gvk.api_version().into());
        object.entry("kind").or_insert_with(|| Value::from(&*gvk.kind));
    }
}

fn is_controlled(live: &Value) -> bool {
    let references = live["metadata"]["ownerReferences"].as_array();
    references.is_some_and(|references| references.iter().any(|reference| reference["controller"] == true))
}

/// What is recorded of an object is not what was read of it: another owner may have applied meanwhile.
fn is_overtaken(record: Option<&Record>, read: &Value) -> bool {
    let metadata = &read["metadata"];
    let version = metadata["resourceVersion"].as_str().and_then(|version| version.parse().ok()).unwrap_or(0);
    let is_same = |record: &Record| metadata["uid"].as_str().is_some_and(|uid| record.uid == *uid);
    record.is_some_and(|record| is_same(record) && record.resource_version != version)
        && !mutants::is(Mutant::OldReadCompared)
}

/// An owner's view of exactly the object that was read.
fn viewed<'a>(record: Option<&'a mut Record>, owner: &OwnerHash, read: &Value) -> Option<&'a mut View> {
    let uid = read["metadata"]["uid"].as_str()?;
    let record = record.filter(|record| record.uid == *uid)?;
    record.views.iter_mut().find(|view| view.owner == *owner)
}

/// The owners for whom a plan or a status could come out otherwise than before.
fn changed_for(before: Option<&Record>, now: &Record) -> BTreeSet<OwnerHash> {
    let Some(before) = before else { return now.owners() };
    let common = (&before.uid, before.terminating, before.controlled, before.health, before.note.as_deref())
        != (&now.uid, now.terminating, now.controlled, now.health, now.note.as_deref());
    if common || before.views.len() != now.views.len() {
        return &before.owners() | &now.owners();
    }
    fn standing(view: &View) -> (&OwnerHash, bool, Drift, Option<&Evidence>) {
        (&view.owner, view.proof, view.base.drift(), view.trace.as_ref().map(|trace| &trace.evidence))
    }
    let pairs = || before.views.iter().map(standing).zip(now.views.iter().map(standing));
    // One that cannot prove it its own may join it now.
    let is_proved = pairs().any(|((_, was, ..), (_, is, ..))| is && !was);
    let is_changed = |(old, new): &(_, (_, bool, _, _))| *old != *new || (is_proved && !new.1);
    pairs().filter(is_changed).map(|(_, new)| new.0.clone()).collect()
}

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
mod tests;

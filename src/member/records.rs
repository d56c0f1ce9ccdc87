//! What is kept of a member's live objects; the objects themselves are dropped. `ingest.rs` is how they come in, here is
//! what is asked of them, by plans, statuses, lists and effects.
//!
//! One lock is over all of it (`contents.rs`): what one question is answered with is of one moment.

mod assessment;
mod baseline;
mod contents;
mod corrections;
mod ends;
mod evidence;
mod facts;
mod feedback;
mod generations;
mod in_flight;
mod ingest;
mod own_health;
mod own_values;
mod own_verdicts;
mod owners;
mod record;
mod strays;
mod tombstones;
mod trace;
mod value_bytes;
mod view;
mod view_builder;

use std::{
    cell::LazyCell,
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use vidra_api::{
    ChangeKind, Feedback,
    names::{HubId, OwnerHash},
};
use vidra_core::{
    apply::Other,
    drift::Evidence,
    feedback::{Extract, Rules as FeedbackRules, gather},
    health::{HealthStatus, rules::Rules},
    ignore::Exemptions,
    merge_lookup::MergeLookup,
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey},
    plan,
    render::Declared,
    uid::Uid,
};

use baseline::Baseline;
use contents::{Asker, Contents, is_within};
pub use ends::ListGuard;
pub use evidence::Secrecy;
pub use facts::MemberFacts;
pub use generations::{Generations, LaterGenerations};
use own_health::Standing;
pub use own_health::WITHHELD;
use own_values::asked_before;
use own_verdicts::Room;
use owners::Owner;
pub use record::Seen;
pub use value_bytes::ValueBytes;
use view_builder::ViewBuilder;

use super::live::Live;
use crate::{
    base::interner::Interned, config::health_rules::HealthRules, desired::Desired, workqueue::TargetKey,
};

/// Where an object that is folded comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// A watch event.
    Watch,
    /// An item of a list that began at this [`Records::mark`].
    List(u64),
    /// An item of a list beside a watch that tells, or for some of what is there: it has what is recorded judged again, and
    /// tells of nothing that is not.
    Beside(u64),
    /// The answer of this owner's own apply: its values are the new baseline.
    Answer(&'a OwnerHash),
    /// A read on somebody's behalf; no baseline.
    Read,
}

/// The records of one member.
pub struct Records {
    interned: Arc<Interned>,
    views: ViewBuilder,
    rules: Arc<HealthRules>,
    /// What verdicts depend on beside the objects.
    pub facts: MemberFacts,
    /// Bound on the objects that are recorded whether or not a target declares them.
    most: usize,
    inner: Mutex<Contents>,
    /// See [`Records::take_steps`].
    steps: AtomicUsize,
    /// What values of all members take.
    value_bytes: ValueBytes,
}

/// See [`Records::most`]. A member's users can make any number of objects with the hub's label; one that is declared
/// later is met by the call that would make it, and recorded then.
const OBJECTS_MAX: usize = 150_000;

impl Records {
    /// No records yet.
    pub fn new(hub: HubId, secrecy: Secrecy, rules: Arc<HealthRules>, interned: Arc<Interned>) -> Self {
        let facts = MemberFacts::new(secrecy.tuning.clone(), format!("vidra/{hub}/"));
        let views = ViewBuilder::new(hub, secrecy, interned.clone());
        Self {
            interned,
            views,
            rules,
            facts,
            most: OBJECTS_MAX,
            inner: Mutex::default(),
            steps: AtomicUsize::default(),
            value_bytes: ValueBytes::default(),
        }
    }

    /// Values that come back count with those of the other members.
    #[must_use]
    pub fn counting(self, value_bytes: ValueBytes) -> Self {
        Self { value_bytes, ..self }
    }

    /// The steps that VidraResources' own rules have taken since this was asked last, of all that was folded.
    pub fn take_steps(&self) -> usize {
        self.steps.swap(0, Ordering::Relaxed)
    }

    /// Says what a target declares, and what of it is left alone, before its objects are folded.
    /// `since` is when its VidraResource was made, in seconds.
    pub fn declare(
        &self,
        owner: OwnerHash,
        since: i64,
        target: TargetKey,
        desired: Arc<Desired>,
        exemptions: Arc<Exemptions>,
    ) {
        let (health, feedback) = (None, None);
        let (is_known, was_ready, had_failed) = (false, false, BTreeSet::new());
        let says =
            Owner { since, target, desired, exemptions, health, feedback, is_known, was_ready, had_failed };
        self.inner.lock().declare(owner, says);
    }

    /// Says whether an owner's target was Ready as it is declared now: what objects are only waited for takes that from
    /// none. And which of its objects were told as Failed: they may not recover once more.
    pub fn set_previous_health(&self, owner: &OwnerHash, was_ready: bool, had_failed: BTreeSet<ObjectKey>) {
        if let Some(known) = self.inner.lock().owners.get_mut(owner) {
            (known.was_ready, known.had_failed) = (was_ready, had_failed);
        }
    }

    /// Kinds with an object that was judged before it was known what its CRD declares.
    pub fn unread(&self) -> BTreeSet<Gvk> {
        self.inner.lock().unread.clone()
    }

    /// All objects of the kind are judged by what its CRD declares.
    pub fn set_read(&self, gvk: &Gvk) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let are = |key: &ObjectKey| is_within(key, gvk, "");
        inner.unread.remove(gvk);
        inner.objects.iter_mut().filter(|(key, _)| are(key)).for_each(|(_, record)| record.judged.set_read());
        inner.owners.set_read(are);
    }

    /// Has what an owner declares judged by health rules of its own. What is recorded is judged when it is folded again,
    /// see [`Records::unjudged`].
    pub fn set_health_rules(&self, owner: &OwnerHash, rules: Arc<Rules>) {
        let all = self.rules.now();
        if let Some(known) = self.inner.lock().owners.get_mut(owner) {
            known.set_health_rules(rules, &all, &self.views.evidence.secrecy.tuning.now());
        }
    }

    /// The health rules that an owner has of its own, as it said last.
    pub fn own_rules(&self, owner: &OwnerHash) -> Arc<Rules> {
        self.inner.lock().owners.health(owner).map(|own| own.rules().clone()).unwrap_or_default()
    }

    /// Takes an owner's rules of feedback. What is recorded is read when it is folded again, see
    /// [`Records::kinds_without_feedback`].
    pub fn set_feedback_rules(&self, owner: &OwnerHash, rules: Arc<FeedbackRules>) {
        if let Some(known) = self.inner.lock().owners.get_mut(owner) {
            let bounds = self.views.evidence.secrecy.tuning.now().feedback;
            known.set_feedback_rules(rules, (bounds, &self.value_bytes));
        }
    }

    /// The rules of feedback that an owner has, as it said last.
    pub fn feedback_rules(&self, owner: &OwnerHash) -> Arc<FeedbackRules> {
        let inner = self.inner.lock();
        let own = inner.owners.get(owner).and_then(|known| known.feedback.as_ref());
        own.map(|own| own.rules().clone()).unwrap_or_default()
    }

    /// The kinds of recorded objects of an owner of which what it asks back has not been read.
    pub fn kinds_without_feedback(&self, owner: &OwnerHash) -> BTreeSet<Gvk> {
        let inner = self.inner.lock();
        let Some(known) = inner.owners.get(owner) else { return BTreeSet::new() };
        let Some(own) = &known.feedback else { return BTreeSet::new() };
        let is_own = |key: &ObjectKey| inner.record_is(key, |record| record.is_proved(owner));
        let wants = known.desired.wants.iter();
        let older = LazyCell::new(|| inner.owners.older(known));
        let before = |key: &ObjectKey| {
            let asks = older.iter().filter(|(hash, _)| inner.record_is(key, |record| record.is_proved(hash)));
            asked_before(asks.filter_map(|(_, other)| other.asks_of(key)), known.asks_of(key))
        };
        let unread = wants.filter(|(key, _)| own.is_unread(key, || before(key)) && is_own(key));
        unread.map(|(_, want)| want.gvk.clone()).collect()
    }

    /// What came back of an owner's objects, but for those of hidden kinds; `None`: not all of it has been read.
    /// `seen`: all that the owner declares was, so that what is not recorded is not there.
    pub fn feedback(
        &self,
        owner: &OwnerHash,
        is_hidden: impl Fn(&ObjectKey) -> bool,
        seen: bool,
    ) -> Option<Feedback> {
        let mut inner = self.inner.lock();
        let Contents { owners, objects, .. } = &mut *inner;
        let Some(own) = owners.get_mut(owner).and_then(|known| known.feedback.as_mut()) else {
            return Some(Feedback::default());
        };
        // That for which it was read: the setting may have changed since.
        let room = own.room();
        let (all, beyond) = own.take();
        let redacted = Extract::redaction();
        let mut read: Vec<(&ObjectKey, &Extract)> = Vec::new();
        for (key, extract) in all {
            if !objects.get(key).is_some_and(|record| record.is_proved(owner)) {
                if !seen && !mutants::is(Mutant::UnseenGivesNothing) {
                    return None;
                }
                // One that is gone gives nothing.
                continue;
            }
            read.push((key, if is_hidden(key) { &redacted } else { extract? }));
        }
        Some(gather(read.into_iter(), (beyond, room)))
    }

    /// What came back is written later: until then a change of it wakes nobody.
    pub fn hold_feedback(&self, owner: &OwnerHash) {
        let mut inner = self.inner.lock();
        if let Some(own) = inner.owners.get_mut(owner).and_then(|known| known.feedback.as_mut()) {
            own.hold();
        }
    }

    /// The kinds of recorded objects of an owner that its own rules have not judged as they are now.
    pub fn unjudged(&self, owner: &OwnerHash) -> BTreeSet<Gvk> {
        let inner = self.inner.lock();
        let Some(known) = inner.owners.get(owner) else { return BTreeSet::new() };
        let Some(own) = &known.health else { return BTreeSet::new() };
        let (room, mut unjudged) = (LazyCell::new(|| Room::of(&inner.owners, known)), BTreeSet::new());
        for (key, want) in &known.desired.wants {
            if !unjudged.contains(&want.gvk)
                && inner.record_is(key, |record| record.view_of(owner).is_some())
                && own.is_unjudged(key, || room.is_for(key))
            {
                unjudged.insert(want.gvk.clone());
            }
        }
        unjudged
    }

    /// Forgets a target that is gone.
    pub fn forget(&self, owner: &OwnerHash) {
        let mut inner = self.inner.lock();
        inner.owners.forget(owner);
        inner.corrections.forget(owner);
        inner.forget_unwanted();
    }

    /// Forgets every object.
    pub fn clear(&self) {
        let mut inner = self.inner.lock();
        inner.objects.clear();
        inner.tombstones.clear();
        inner.strays.clear();
        inner.corrections.clear();
        inner.in_flight.forget_deferred(|_| true);
        inner.ends.clear();
        inner.unread.clear();
        inner.owners.forget_values(|_| true);
        self.facts.forget();
    }

    /// Drops the records of a kind in the namespaces that nobody follows any more; returns the targets that have told
    /// of a stray among them.
    pub fn drop_kind(&self, gvk: &Gvk, is_followed: impl Fn(&str) -> bool) -> Vec<TargetKey> {
        let goes = |key: &ObjectKey| is_within(key, gvk, "") && !is_followed(&key.namespace);
        let mut inner = self.inner.lock();
        inner.objects.retain(|key, _| !goes(key));
        inner.owners.forget_values(goes);
        if !inner.objects.keys().any(|key| is_within(key, gvk, "")) {
            inner.unread.remove(gvk);
        }
        inner.tombstones.retain(|key| !goes(key));
        let owners = inner.strays.retain(|key| !goes(key));
        inner.in_flight.forget_deferred(goes);
        inner.owners.targets_of(&owners)
    }

    /// Contact was lost: what a read told before may not be so any more.
    pub fn ask_again(&self) {
        self.inner.lock().tombstones.doubt_all();
    }

    /// The one copy of a key, for those who keep many.
    pub fn shared(&self, key: ObjectKey) -> ObjectKey {
        self.interned.key(key)
    }

    /// An object that a list shows is recorded, or has room; one that has not is never missed.
    pub fn takes(&self, key: &ObjectKey) -> bool {
        self.inner.lock().takes(key, self.most)
    }

    /// It is shown in another version than it is declared in, which tells nothing of it.
    pub fn is_of_other_version(&self, gvk: &Gvk, key: &ObjectKey, live: &Live) -> bool {
        self.inner.lock().owners.are_of_other_version(key, gvk, &live.json["metadata"])
    }

    /// A point in the order of folds, to be taken before a list is asked for.
    pub fn mark(&self) -> u64 {
        self.inner.lock().folds
    }

    /// What [`Records::end_list`] would take for gone, had its list no version.
    pub fn unseen(
        &self,
        gvk: &Gvk,
        namespace: &str,
        seen: &BTreeSet<ObjectKey>,
        mark: u64,
    ) -> Vec<ObjectKey> {
        self.inner.lock().unseen(gvk, namespace, seen, (mark, 0))
    }

    /// The resourceVersion under which an object is recorded.
    pub fn version(&self, key: &ObjectKey) -> Option<u64> {
        self.inner.lock().objects.get(key).map(|record| record.resource_version)
    }

    /// It is recorded, and nothing was folded of it since `mark`.
    pub fn is_known_since(&self, key: &ObjectKey, mark: u64) -> bool {
        self.inner.lock().record_is(key, |record| record.folded <= mark)
    }

    /// What a watch tells of this version of an object changes nothing: an answer, or another event, has told it or a
    /// later one.
    pub fn is_known(&self, key: &ObjectKey, uid: &str, version: &str) -> bool {
        let version = version.parse().unwrap_or(0);
        self.inner
            .lock()
            .record_is(key, |record| record.uid == *uid && record.outdates(version, Source::Watch))
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
            ("objects that were corrected", inner.corrections.len()),
        ]
    }

    /// The target of an owner.
    pub fn target_of(&self, owner: &OwnerHash) -> Option<TargetKey> {
        self.inner.lock().owners.get(owner).map(|owner| owner.target.clone())
    }

    /// What of a target's objects is left alone, as it said last.
    pub fn exemptions(&self, owner: &OwnerHash) -> Arc<Exemptions> {
        self.inner.lock().owners.get(owner).map(|known| Arc::clone(&known.exemptions)).unwrap_or_default()
    }

    /// The targets that declare an object.
    pub fn wanting(&self, key: &ObjectKey) -> Vec<TargetKey> {
        self.inner.lock().owners.declaring(key).map(|(_, owner)| owner.target.clone()).collect()
    }

    /// The uid under which an object is recorded.
    pub fn uid(&self, key: &ObjectKey) -> Option<Uid> {
        self.inner.lock().objects.get(key).map(|record| record.uid.clone())
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
        let asker = Asker::new(&inner.owners, owner);
        let mut exemptions = inner.owners.get(owner).map(|known| MergeLookup::new(&known.exemptions.objects));
        let mut declared = MergeLookup::new(&desired.objects);
        keys.filter_map(|key| {
            let exempt = exemptions.as_mut().and_then(|exemptions| exemptions.get(key));
            let declared = declared.get(key);
            let record = inner.objects.get_mut(key)?;
            let Standing { opens, status, .. } = asker.standing(key, record, declared);
            Some((key.clone(), record.plan_view(owner, declared, exempt, (opens, status))))
        })
        .collect()
    }

    /// One of them.
    pub fn view(&self, owner: &OwnerHash, key: &ObjectKey, desired: &Desired) -> Option<plan::Live> {
        self.views_of(owner, std::iter::once(key), desired).remove(key)
    }

    /// What is known of an owner's object with this uid that is not seen.
    pub fn vanished(&self, owner: &OwnerHash, key: &ObjectKey, uid: &Uid) -> plan::Vanished {
        let inner = self.inner.lock();
        let known = inner.tombstones.get(key).filter(|known| known.uid() == uid);
        known.map(|known| known.plan_view(owner)).unwrap_or_default()
    }

    /// An object with this uid was seen and is not any more, and no read has told since what became of it.
    pub fn is_untold(&self, key: &ObjectKey, uid: &Uid) -> bool {
        let inner = self.inner.lock();
        inner.tombstones.get(key).is_some_and(|known| known.uid() == uid && !known.is_told())
    }

    /// How each of these is, where it is recorded, as this owner sees it.
    pub fn healths<'k>(
        &self,
        owner: &OwnerHash,
        keys: impl Iterator<Item = &'k ObjectKey>,
        mut each: impl FnMut(&'k ObjectKey, Option<Seen<'_>>),
    ) {
        let inner = self.inner.lock();
        let asker = Asker::new(&inner.owners, owner);
        let settings = self.views.evidence.secrecy.tuning.now();
        let mut declared = inner.owners.get(owner).map(|known| MergeLookup::new(&known.desired.objects));
        for key in keys {
            let declared = declared.as_mut().and_then(|declared| declared.get(key));
            let seen = inner.objects.get(key).map(|record| {
                record.seen(owner, asker.standing(key, record, declared).covered(key, &settings.redact))
            });
            each(key, seen);
        }
    }

    /// An object's health as this owner sees it, and why it is not current.
    pub fn health(&self, owner: &OwnerHash, key: &ObjectKey) -> Option<(HealthStatus, Option<String>)> {
        let settings = self.views.evidence.secrecy.tuning.now();
        let inner = self.inner.lock();
        let standing = inner.standing(owner, key)?.covered(key, &settings.redact);
        Some((standing.status, standing.note.map(str::to_owned)))
    }

    /// What waits for an object may go on, as this owner sees it.
    pub fn opens(&self, owner: &OwnerHash, key: &ObjectKey) -> bool {
        self.inner.lock().standing(owner, key).is_some_and(|standing| standing.opens)
    }

    /// Looks at the objects that are declared and proved to be this owner's. `known` is the highest generation
    /// that the hub knows of the VidraResource.
    pub fn generations(&self, owner: &OwnerHash, desired: &Desired, known: i64) -> Generations {
        let inner = self.inner.lock();
        let mut found = Generations::default();
        for (key, declared) in &desired.objects {
            let own = inner.objects.get(key).and_then(|record| record.view_of(owner));
            let applied = own.filter(|view| view.proof).and_then(|view| view.applied());
            if let Some((hash, generation)) = applied {
                found.note(key, generation, generation > known && hash != declared.hash);
            }
        }
        found
    }

    /// Is the object applied for this owner, as far as was seen?
    pub fn is_applied_for(&self, key: &ObjectKey, owner: &OwnerHash) -> bool {
        self.inner.lock().record_is(key, |record| record.is_proved(owner))
    }

    /// Does another VidraResource prove this object its own, as far as was seen?
    pub fn is_shared(&self, key: &ObjectKey, own: &OwnerHash) -> bool {
        self.inner.lock().record_is(key, |record| record.is_shared(own))
    }

    /// What the VidraResource with this field manager declares of the object now.
    pub fn other(&self, key: &ObjectKey, manager: &str, own: &OwnerHash, declared: &Declared) -> Other {
        self.inner.lock().owners.other(key, (self.views.hub(), manager), own, declared)
    }

    /// Does another VidraResource apply this object, and declare it otherwise, as far as is known? One of the same
    /// namespace that has dropped it is going to release it.
    pub fn is_disputed(&self, key: &ObjectKey, own: &OwnerHash, declared: &Declared) -> bool {
        let inner = self.inner.lock();
        let agrees = |other: &OwnerHash| inner.owners.agrees(other, key, own, declared);
        inner.record_is(key, |record| {
            record.views.iter().any(|view| view.owner != *own && view.applies && !agrees(&view.owner))
        })
    }

    /// Does another target declare this object otherwise, whose word does not yield to this one's: one of another
    /// namespace, or an older one?
    pub fn is_outranked(&self, key: &ObjectKey, own: &OwnerHash, declared: &Declared) -> bool {
        self.inner.lock().owners.is_outranked(key, own, declared)
    }

    /// Is our entry gone from this object's managedFields, as far as was seen?
    pub fn has_lost_entry(&self, key: &ObjectKey, own: &OwnerHash) -> bool {
        let is_lost = |baseline: &Baseline| matches!(baseline, Baseline::Lost { .. });
        self.inner
            .lock()
            .record_is(key, |record| record.view_of(own).is_some_and(|view| is_lost(&view.baseline)))
    }

    /// The resourceVersion under which nobody held what is left to such, in the object with this uid.
    pub fn unyielded(&self, owner: &OwnerHash, key: &ObjectKey, uid: &str) -> Option<String> {
        let inner = self.inner.lock();
        let record = inner.objects.get(key).filter(|record| record.uid == *uid)?;
        let view = record.view_of(owner)?;
        let is_free = view.yields.map_or(mutants::is(Mutant::UnseenYieldsNothing), |yields| !yields);
        (is_free && record.resource_version > 0).then(|| record.resource_version.to_string())
    }

    /// Whether an object only bears the label of this target, and is neither declared by it nor proved to be its own.
    pub fn is_stray_of(&self, target: &TargetKey, key: &ObjectKey) -> bool {
        let inner = self.inner.lock();
        let mut owners = inner.strays.owners_of(key).iter().filter_map(|hash| inner.owners.get(hash));
        owners.any(|owner| owner.target == *target && owner.declared(key).is_none())
    }

    /// Objects with this owner's label that nothing proves to be its own, each with its version.
    pub fn strays(&self, owner: &OwnerHash) -> BTreeMap<ObjectKey, Arc<str>> {
        self.inner.lock().strays.of_owner(owner)
    }

    /// What is otherwise about an object that this owner has under a uid; `None`: nothing, as far as is known.
    pub fn found(&self, owner: &OwnerHash, key: &ObjectKey, uid: &Uid) -> Option<Evidence> {
        let inner = self.inner.lock();
        if let Some(record) = inner.objects.get(key) {
            let declared = inner.owners.get(owner).and_then(|known| known.declared(key));
            return record.evidence(owner, uid, declared);
        }
        let known = inner.tombstones.get(key).filter(|known| known.uid() == uid && known.is_hidden());
        Some(match known {
            Some(known) => self.hidden(known.evidence(owner)),
            None => trace::bare(ChangeKind::Missing),
        })
    }

    /// An object that is there without the label by which the hub sees it.
    pub fn hidden(&self, known: Option<Evidence>) -> Evidence {
        self.views.evidence.hidden(known)
    }

    /// What was corrected by the answer that was folded last for this owner's object.
    pub fn take_correction(&self, owner: &OwnerHash, key: &ObjectKey) -> Option<Evidence> {
        self.inner.lock().corrections.take(owner, key)
    }
}

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
mod tests;

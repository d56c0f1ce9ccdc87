//! What must hold at all times, judged at each effect of each of the hub's calls.

mod deeds;
mod rest;
mod told;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use memkube::{Call, Changed, Verb};
use serde_json::Value;
use tokio::time::Instant;
use vidra_api::labels::{HUB_LABEL, PRUNE};

use super::{
    doc::Doc,
    index::{Claim, Index, Key, Target},
    observer::HUB_ID,
};

/// The hub acts on, and says, what was so at some instant of this time at least: watches and calls take
/// milliseconds, and a status waits at most a second for the one before it.
const SIGHT: Duration = Duration::from_secs(3);
/// A new life has looked at all members within this.
const LOOKS_WITHIN: Duration = Duration::from_secs(5);
/// Statuses of one object are a second apart; less what a call may take on its way.
const BETWEEN_STATUSES: Duration = Duration::from_millis(900);

/// See the module.
#[derive(Default)]
pub struct Judge {
    /// What is declared and what is there.
    pub index: Index,
    breaches: Vec<String>,
    /// Uids of objects that are none of the hub's business.
    foreign: BTreeSet<String>,
    /// Uids of objects that the hub has let go.
    released: BTreeSet<String>,
    /// Which uid a life of the hub has read at a path of a member.
    read: BTreeMap<(Arc<str>, Arc<str>, String), String>,
    /// When the calls on the hub that write statuses began.
    begun: BTreeMap<u64, Instant>,
    /// When a life last wrote an object's status, by the object's uid.
    statuses: BTreeMap<(Arc<str>, String), (Instant, bool)>,
    /// Writes that land later than their life may answer for: cluster and number.
    landing: BTreeSet<(Arc<str>, u64)>,
    /// Since when a life is at work, if one is.
    at_work: Option<Instant>,
    /// Which life called last, and when.
    last: Option<(Arc<str>, Instant)>,
    /// The hub's sight is clouded by faults: since, and until.
    cloud: Option<(Instant, Instant)>,
    /// Who holds the Lease; `None`: there is none, and nobody asks for it.
    holder: Option<String>,
    /// A person has made the hub forget; until the end nothing is said about it.
    forgetful: bool,
    /// Revisions that targets have named, by resource.
    named: BTreeSet<(String, String)>,
    deliveries: rest::Deliveries,
    /// Which life has made an object, by its uid: it knows it before an inventory does.
    made: BTreeMap<String, Arc<str>>,
    /// Of which generation of a VidraTarget a life has last told.
    seen: BTreeMap<(Arc<str>, String), i64>,
}

impl Judge {
    /// The object with this uid must stay as it is, unless people change it.
    pub fn guard(&mut self, uid: &str) {
        self.foreign.insert(uid.to_owned());
    }

    /// Is it none of the hub's business?
    pub fn is_foreign(&self, uid: &str) -> bool {
        self.foreign.contains(uid)
    }

    /// A person takes an inventory away: that objects are in none is not the hub's fault.
    pub fn excuse_unknown(&mut self) {
        self.forgetful = true;
    }

    /// A life has ended.
    pub fn rests(&mut self) {
        self.at_work = None;
    }

    /// For so long the hub may not know what is so.
    pub fn cloud(&mut self, now: Instant, lasts: Duration) {
        self.cloud_from(now, now, lasts);
    }

    /// For so long it may go by what was so since then.
    pub fn cloud_from(&mut self, since: Instant, now: Instant, lasts: Duration) {
        let until = now + lasts;
        self.cloud = match self.cloud {
            Some((from, before)) if before >= now => Some((from.min(since), before.max(until))),
            _ => Some((since, until)),
        };
    }

    /// What was so at any instant since then may be what the hub goes by.
    fn sight(&self, now: Instant, most: Duration) -> Instant {
        let from = match self.cloud {
            Some((since, until)) if until + most >= now => since,
            _ => now,
        };
        from.checked_sub(most).unwrap_or(from)
    }

    /// What did not hold, in words.
    pub fn breaches(&self) -> Vec<String> {
        let mut breaches = self.breaches.clone();
        breaches.extend(self.unknown());
        breaches
    }

    fn unknown(&self) -> Vec<String> {
        let unknown = self.index.unknown().into_iter();
        let ours =
            unknown.filter(|key| self.index.live(key).is_none_or(|live| !self.foreign.contains(uid(&live))));
        ours.map(|key| format!("no inventory knows {}", key.join("/"))).collect()
    }

    /// This write has its effect when its life may have ended.
    pub fn lands_later(&mut self, call: &Call) {
        self.landing.insert((call.cluster.clone(), call.index));
    }

    /// The hub is about to call.
    pub fn called(&mut self, call: &Call, now: Instant) {
        if call.resource != "leases" {
            // A new life has what the one before wrote, until it has looked itself.
            if let Some((_, last)) = self.last.take().filter(|(life, _)| *life != call.user) {
                self.cloud_from(last, now, LOOKS_WITHIN);
            }
            self.last = Some((call.user.clone(), now));
            self.at_work.get_or_insert(now);
        }
        // A MemberCluster's is not held back.
        if call.subresource == "status" && is_write(call) && call.resource != "memberclusters" {
            self.begun.insert(call.index, now);
        }
    }

    /// A status was written: who else writes it comes between.
    fn judge_writer(&mut self, call: &Call, changed: &Changed) {
        let Some(begun) = self.begun.remove(&call.index) else { return };
        let of = changed.after().unwrap_or_default();
        let key = (call.user.clone(), uid(&of).to_owned());
        let passing = call.resource == "vidraresources" && is_passing(&of);
        if let Some((before, was_passing)) = self.statuses.insert(key, (begun, passing))
            && begun.duration_since(before) < BETWEEN_STATUSES
            && (passing || !was_passing)
        {
            let after = begun.duration_since(before);
            self.breaches.push(format!("{call}: {after:?} after another write of this status: two write it"));
        }
    }

    /// Somebody's call has had its effect; `ours`: the hub's.
    pub fn witness(&mut self, call: &Call, changes: &[Changed], ours: bool, now: Instant) {
        if ours {
            self.note_answer(call);
        }
        let landing = self.landing.contains(&(call.cluster.clone(), call.index));
        for changed in changes {
            if changed.plural == "leases" {
                let holder = changed.after().map(|new| new["spec"]["holderIdentity"].clone());
                self.holder = holder.map(|holder| holder.as_str().unwrap_or_default().to_owned());
            } else if ours && !landing && self.holder.as_deref().is_some_and(|holder| holder != &*call.user) {
                let holder = self.holder.as_deref().unwrap_or_default();
                self.breaches.push(format!("{call}: writes, while {holder:?} holds the Lease"));
            }
            if ours && &*call.cluster != "hub" {
                self.judge_change(call, changed, now);
                self.judge_rest(call, changed, now);
            }
            self.note_lost(changed, now);
            self.index.take(&call.cluster, changed, now);
            if ours && changed.plural == "vidratargets" && call.subresource.is_empty() {
                self.judge_revision(call, changed, now);
            }
            if ours && &*call.cluster == "hub" && call.subresource == "status" {
                self.note_seen(call, changed);
                self.judge_writer(call, changed);
                self.judge_status(call, changed, now);
            }
        }
        let matters = &*call.cluster != "hub" || call.resource == "vidrainventories";
        if ours && !self.forgetful && matters && !changes.is_empty() {
            let unknown = self.unknown().into_iter().map(|what| format!("after {call}: {what}"));
            let unknown: Vec<_> = unknown.collect();
            self.breaches.extend(unknown);
        }
    }

    fn note_answer(&mut self, call: &Call) {
        if &*call.cluster == "hub" || (call.verb, call.status) != (Verb::Get, 200) {
            return;
        }
        let Some(kind) = super::kinds::kind_of(&call.group, &call.resource) else { return };
        let key = [&*call.cluster, &call.group, kind, &call.namespace, &call.name].map(str::to_owned);
        if let Some(live) = self.index.live(&key) {
            let place = (call.user.clone(), call.cluster.clone(), call.path.clone());
            self.read.insert(place, uid(&live).to_owned());
        }
    }

    /// What a target is to have is what people have declared, and not something that they have once declared.
    fn judge_revision(&mut self, call: &Call, changed: &Changed, now: Instant) {
        let Some(Target { resource, revision, generation, .. }) = self.index.targets.get(&changed.name)
        else {
            return;
        };
        if !self.named.insert((resource.clone(), revision.clone())) {
            return;
        }
        if !self.index.declared.is_of(resource, revision, *generation, self.sight(now, SIGHT)) {
            let what =
                format!("{call}: {revision} is not what {resource} declares in generation {generation}");
            self.breaches.push(what);
        }
    }

    /// Ready is said of a revision: each object that it declares was so at the member, at some instant that
    /// the hub may speak of.
    fn judge_status(&mut self, call: &Call, changed: &Changed, now: Instant) {
        let wrong = match changed.plural.as_str() {
            "vidratargets" => {
                self.index.targets.get(&changed.name).map(|target| self.claims(target, SIGHT, now))
            }
            "vidraresources" => {
                changed.after().map(|resource| self.claims_of_all(&changed.name, &resource, now))
            }
            _ => None,
        };
        let wrong = wrong.into_iter().flatten().map(|what| format!("{call} says Ready: {what}"));
        let wrong: Vec<_> = wrong.collect();
        self.breaches.extend(wrong);
    }

    /// What is wrong with a target's claim to be ready.
    fn claims(&self, target: &Target, sight: Duration, now: Instant) -> Vec<String> {
        let Some(Claim { revision, namespace, inputs }) = &target.ready else { return Vec::new() };
        let docs = self.index.declared.revision_with(&target.resource, revision, &target.cluster, inputs);
        let place = (target.resource.as_str(), target.cluster.as_str(), namespace.as_str());
        self.lies(docs.as_deref(), place, self.sight(now, sight))
    }

    /// What is wrong with a VidraResource's claim that all its targets are ready.
    fn claims_of_all(&self, name: &str, resource: &Value, now: Instant) -> Vec<String> {
        let Some(generation) = ready_generation(resource) else { return Vec::new() };
        let (declared, since) = (&self.index.declared, self.sight(now, SIGHT * 2));
        let revision = resource["status"]["revision"].as_str().unwrap_or_default();
        let mut wrong = Vec::new();
        if !declared.is_of(name, revision, generation, since) {
            wrong.push(format!("{revision} is not what it declares in generation {generation}"));
        }
        let targets = self.index.targets.values();
        for target in targets.filter(|target| target.resource == name && target.present) {
            let place = (name, target.cluster.as_str(), target.namespace.as_str());
            // The cluster may have been another one within that time.
            let variants = declared.revision_lately(name, revision, &target.cluster, since);
            let mut lies = variants.iter().map(|docs| self.lies(Some(docs), place, since));
            let first = lies.next().unwrap_or_else(|| self.lies(None, place, since));
            if !first.is_empty() && lies.all(|lies| !lies.is_empty()) {
                wrong.extend(first);
            }
        }
        wrong
    }

    fn lies(
        &self,
        docs: Option<&[Doc]>,
        (resource, cluster, namespace): (&str, &str, &str),
        since: Instant,
    ) -> Vec<String> {
        let Some(docs) = docs else {
            return vec!["nobody knows what this revision declares there".to_owned()];
        };
        let wrong = docs.iter().map(|doc| (doc.key(cluster, namespace), doc));
        let wrong = wrong.filter(|(key, doc)| {
            !self.index.was_as_declared(resource, key, doc, since) && !self.is_left(resource, key, doc, since)
        });
        wrong
            .map(|(key, doc)| {
                let live = self.index.live(&key);
                format!("{} is not as declared: {}, found {live:?}", key.join("/"), doc.body)
            })
            .collect()
    }

    /// Targets that have said Ready for longer than the hub needs to know better, and are not.
    pub fn stale_claims(&self, now: Instant, most: Duration) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.at_work.is_none_or(|since| since + most > now) {
            return wrong;
        }
        let long = |target: &Target| target.present && target.since + most <= now;
        for (name, target) in self.index.targets.iter().filter(|(_, target)| long(target)) {
            let lies = self.claims(target, most, now).into_iter();
            wrong.extend(lies.map(|what| format!("{name} goes on saying Ready: {what}")));
        }
        wrong
    }

    /// What in members is not as declared; empty when all is. What is declared and then not any more goes,
    /// except for Namespaces and CRDs.
    pub fn differs(&self, now: Instant) -> Vec<String> {
        let mut wrong = Vec::new();
        for (key, resource, doc) in self.index.declared.wanted() {
            if !self.index.is_as_declared(resource, key, doc)
                && !self.is_left(resource, key, doc, now)
                && !self.waits_for_marks(resource, key, now)
            {
                wrong.push(format!(
                    "{}: wanted {}, found {:?}",
                    key.join("/"),
                    doc.body,
                    self.index.live(key)
                ));
            }
        }
        for key in self.index.labelled() {
            let foreign = self.index.live(key).is_some_and(|live| self.foreign.contains(uid(&live)));
            // Pruning waits for what is refused.
            let waits = self.index.holders(key).iter().any(|name| {
                self.index.targets.get(name).is_some_and(|one| one.present && one.reason == "NotOurs")
            });
            if self.index.declared.wanted_since(key).next().is_none() && !foreign && !waits {
                wrong.push(format!("{} is there and not wanted", key.join("/")));
            }
        }
        wrong
    }

    /// A resource's target says that the hub cannot prove this to be its own, and nobody can; or that it is another hub's,
    /// whose label it bears.
    pub(super) fn is_unproved(&self, resource: &str, key: &Key) -> bool {
        let says = |reason: &str| {
            let of = |target: &&Target| target.resource == resource && target.cluster == key[0];
            self.index.targets.values().filter(of).any(|target| target.reason == reason)
        };
        self.index.live(key).is_some_and(|live| match labelled(&live) {
            true => !is_applied(&live) && says("NotOurs"),
            false => is_of_another_hub(&live) && says("OwnedByOtherHub"),
        })
    }

    /// It is not brought to what is declared before its marks are back, which another resource is to bring that only
    /// tells that they are lost.
    fn waits_for_marks(&self, resource: &str, key: &Key, now: Instant) -> bool {
        let is_left = |by: &str, doc: &Doc| by != resource && self.is_left(by, key, doc, now);
        self.is_unproved(resource, key)
            && self.index.declared.wanted().any(|(of, by, doc)| of == key && is_left(by, doc))
    }

    /// Wanted places at which something stands that the hub may not touch, or cannot prove its own; after a restore also what came back,
    /// is in no inventory, and is not wanted. `lasts`: what the hub says it cannot prove it is not going to.
    pub fn in_the_way(&self, restored: bool, lasts: bool, now: Instant) -> Vec<Key> {
        let among = |uids: &BTreeSet<String>, key: &Key| {
            self.index.live(key).is_some_and(|live| uids.contains(uid(&live)))
        };
        let wanted = self.index.declared.wanted().filter(|(.., doc)| !doc.yields()).map(|(key, ..)| key);
        let unproved = |key: &Key| {
            self.index.live(key).is_some_and(|live| {
                (!is_applied(&live) || is_of_another_hub(&live)) && !self.index.holds_uid(uid(&live))
            })
        };
        let all = self.index.declared.wanted().filter(|_| lasts);
        let refused = all.filter(|(key, resource, _)| {
            self.is_unproved(resource, key) && !self.waits_for_marks(resource, key, now)
        });
        let wanted = wanted.filter(|key| !self.is_to_be_taken(key));
        let held =
            wanted.filter(|key| among(&self.foreign, key) || among(&self.released, key) || unproved(key));
        let spare = self.index.unknown().into_iter().filter(|key| {
            restored && self.index.declared.wanted_since(key).next().is_none() && !among(&self.foreign, key)
        });
        let targets = self.index.targets.iter().filter(|_| lasts);
        let kept = targets.flat_map(|(name, target)| {
            let keys = self.index.held_by(name).into_iter();
            keys.filter(|key| self.index.live(key).is_some_and(|live| is_for_people(target, &live)))
        });
        held.chain(spare).chain(refused.map(|(key, ..)| key)).chain(kept).cloned().collect()
    }

    /// Notes what somebody has seen.
    pub fn breach(&mut self, what: String) {
        self.breaches.push(what);
    }
}

/// Its status tells of work that goes on; the end of it may follow at once.
fn is_passing(resource: &Value) -> bool {
    let conditions = resource["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.into_iter().find(|one| one["type"] == "Ready");
    ready.is_some_and(|ready| matches!(ready["reason"].as_str(), Some("Progressing" | "TargetsWaiting")))
}

/// The generation for which a VidraResource says Ready.
fn ready_generation(resource: &Value) -> Option<i64> {
    let mut conditions = resource["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.find(|one| one["type"] == "Ready" && one["status"] == "True")?;
    ready["observedGeneration"].as_i64()
}

fn labelled(object: &Value) -> bool {
    object["metadata"]["labels"][HUB_LABEL] == HUB_ID
}

fn is_of_another_hub(object: &Value) -> bool {
    !labelled(object) && !object["metadata"]["labels"][HUB_LABEL].is_null()
}

/// A person has to replace or to delete the object before the target can go on: it cannot be changed and is not to be
/// deleted, or it bears the label of another hub and the target goes.
fn is_for_people(target: &Target, live: &Value) -> bool {
    match &*target.reason {
        "ImmutableField" => live["metadata"]["annotations"][PRUNE] == "disabled",
        "OwnedByOtherHub" => !target.present && is_of_another_hub(live),
        _ => false,
    }
}

/// As what a VidraResource applies.
fn manager(resource: &str) -> String {
    format!("vidra/{HUB_ID}/{}/{resource}", super::world::TEAM)
}

/// The hub's managers that have applied to it.
fn appliers(object: &Value) -> Vec<String> {
    let prefix = format!("vidra/{HUB_ID}/");
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let managers = entries.filter(|entry| entry["operation"] == "Apply");
    let managers = managers.filter_map(|entry| entry["manager"].as_str()).map(str::to_owned);
    managers.filter(|manager| manager.starts_with(&prefix)).collect()
}

/// Has the hub applied to it?
fn is_applied(object: &Value) -> bool {
    !appliers(object).is_empty()
}

/// It may change something.
pub fn is_write(call: &Call) -> bool {
    let writes = [Verb::Create, Verb::Update, Verb::Patch, Verb::Apply, Verb::Delete, Verb::DeleteCollection];
    writes.contains(&call.verb) && !call.dry_run
}

/// An object's uid, or nothing.
pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

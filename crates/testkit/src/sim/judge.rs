//! What must hold at all times, judged at each effect of each of the hub's calls.

pub mod behind;
pub mod clouds;
mod deeds;
pub mod feedback;
mod guard;
mod rest;
mod told;
mod waves;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use memkube::{Call, Changed, Cluster, Verb};
use serde_json::Value;
use tokio::time::Instant;
use vidra_api::{
    labels::{HUB_LABEL, PRUNE},
    names::target_name,
};

use self::clouds::{Clouds, HUB};
use super::{
    doc::Doc,
    index::{Claim, Index, Key, Target, key_of},
    marks,
    observer::{HUB_ID, HUB_USER, OTHER_USER},
    world::{named, place_of},
};

/// The hub acts on, and says, what was so at some instant of this time at least: watches and calls take
/// milliseconds, and a status waits at most a second for the one before it.
const SIGHT: Duration = Duration::from_secs(3);
/// What the hub was made to forget it has looked for by then.
const FINDS_WITHIN: Duration = Duration::from_secs(60);
/// A new life has looked at all members within this.
const LOOKS_WITHIN: Duration = Duration::from_secs(5);
/// Statuses of one object are a second apart; less what a call may take on its way.
const BETWEEN_STATUSES: Duration = Duration::from_millis(900);

/// Which life has read, in which cluster, at which path.
type ReadBy = (Arc<str>, Arc<str>, String);

/// Says of each call whether it was right.
#[derive(Default)]
pub struct Judge {
    /// What is declared and what is there.
    pub index: Index,
    breaches: Vec<String>,
    /// Uids of objects that are none of the hub's business.
    foreign: BTreeSet<String>,
    /// Uids of objects that the hub has let go.
    released: BTreeSet<String>,
    /// Which life has let an object go last, by its uid.
    let_go_by: BTreeMap<String, Arc<str>>,
    /// Uids of objects without the hub's label of which no inventory tells since a person has taken it away.
    untraceable: BTreeSet<String>,
    /// Uids of what lost the hub's entries, and then the inventory that knew it, or before one could be written.
    unprovable: BTreeSet<String>,
    /// Which uid a life of the hub has read last at a path of a member, and when.
    read: BTreeMap<ReadBy, (String, Instant)>,
    /// When the calls began that write statuses on the hub, or anything in a member: by cluster and number.
    begun: BTreeMap<(Arc<str>, u64), Instant>,
    /// When a life last wrote an object's status, by the object's uid.
    statuses: BTreeMap<(Arc<str>, String), (Instant, bool)>,
    /// Writes that land later than their life may answer for: cluster and number.
    landing: BTreeSet<(Arc<str>, u64)>,
    /// Since when a life is at work, if one is.
    at_work: Option<Instant>,
    /// Which life called last, and when.
    last: Option<(Arc<str>, Instant)>,
    /// Where the hub's sight is clouded by faults.
    clouds: Clouds,
    /// Who holds the Lease; `None`: there is none, and nobody asks for it.
    holder: Option<String>,
    /// Members of which a person has made the hub forget, since when: until it has found all again nothing is said about it.
    forgetful: BTreeMap<String, Instant>,
    /// Marks that came back with a member or the hub that was put back: an object, and a VidraResource that has applied it and in
    /// whose inventory it is not.
    returned: BTreeSet<(Key, String)>,
    /// Targets of which somebody has taken an inventory away, and the hub has not written one since.
    losses: BTreeSet<String>,
    /// Revisions that targets have named, by resource.
    named: BTreeSet<(String, String)>,
    deliveries: rest::Deliveries,
    /// Which life has made an object, and when, by its uid: it knows it before an inventory does.
    made: BTreeMap<String, (Arc<str>, Instant)>,
    /// When the hub last wrote an inventory of a target.
    written: BTreeMap<String, Instant>,
    /// Uids of what another hub has made: it takes nothing over, so this is all that it has.
    made_beside: BTreeSet<String>,
    /// What was applied from later declarations than the hub has, since its store was put back: what it was applied as, by place
    /// and VidraResource.
    later: BTreeMap<(Key, String), Vec<Value>>,
    /// When the hub's store was put back.
    put_back: Option<Instant>,
    /// The hub goes by what it knew before that.
    unaware: bool,
    /// Targets that were not there any more, for which it has written inventories then.
    written_behind: BTreeSet<String>,
    /// What people have approved: VidraResource and word.
    words: BTreeSet<(String, String)>,
    /// Members in which a group does not answer, since when.
    silent: BTreeMap<String, Instant>,
    /// When VidraTargets last lost a status by which nothing was delivered whole.
    unsaid: BTreeMap<String, Instant>,
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

    /// A person has made the hub forget what it has in a member: that objects are in no inventory is not its fault.
    pub fn excuse_unknown(&mut self, member: &str, now: Instant) {
        self.forgetful.insert(member.to_owned(), now);
    }

    /// Is it excused for what it has forgotten there?
    fn is_forgetful(&self, member: &str) -> bool {
        self.forgetful.contains_key(member)
    }

    /// What is known again is forgotten no more.
    fn remember(&mut self, now: Instant) {
        let is_due = |since: &Instant| *since + FINDS_WITHIN <= now;
        if !self.forgetful.values().any(is_due) {
            return;
        }
        let unknown: BTreeSet<String> = self.index.unknown().into_iter().map(|key| key[0].clone()).collect();
        self.forgetful.retain(|member, since| unknown.contains(member) || !is_due(since));
    }

    /// A life has ended.
    pub fn rests(&mut self) {
        (self.at_work, self.unaware) = (None, false);
    }

    /// For so long the hub may not know what is so in this cluster.
    pub fn cloud(&mut self, cluster: &str, now: Instant, lasts: Duration) {
        // What it cannot see does not tell it that it is behind.
        self.later.retain(|(key, _), _| cluster != HUB && key[0] != cluster);
        self.clouds.add(cluster, (now, now + lasts), now);
    }

    /// An event of a watch of this cluster is late.
    pub fn hold_up(&mut self, cluster: &str, now: Instant) {
        self.clouds.hold_up(cluster, now);
    }

    /// For so long it may go by what was so anywhere since then.
    pub fn cloud_from(&mut self, since: Instant, now: Instant, lasts: Duration) {
        self.clouds.add(HUB, (since, now + lasts), now);
    }

    /// What was declared at any instant since then may be what the hub goes by.
    fn sight(&self, now: Instant, most: Duration) -> Instant {
        self.sight_of(HUB, now, most)
    }

    /// What was declared at any instant since then may be what this call goes by: where its cluster hangs, it was sent long
    /// before it has its effect.
    fn sight_of_call(&self, call: &Call, now: Instant) -> Instant {
        let sent = self.begun.get(&(call.cluster.clone(), call.index)).copied().unwrap_or(now);
        self.sight(now, SIGHT).min(sent.checked_sub(SIGHT).unwrap_or(sent))
    }

    /// What was so in this cluster at any instant since then may be what the hub goes by, or has told.
    fn sight_of(&self, cluster: &str, now: Instant, most: Duration) -> Instant {
        let at = now.checked_sub(most).unwrap_or(now);
        let since = [HUB, cluster].into_iter().filter_map(|one| self.clouds.since(one, at)).min();
        let lag: Duration = [HUB, cluster].into_iter().map(|one| self.clouds.lag(one, at)).sum();
        let from = since.unwrap_or(now);
        from.checked_sub(most + lag).unwrap_or(from)
    }

    /// Has the hub seen, in its own cluster and in this one, what is so for as long as this?
    pub fn is_clear(&self, cluster: &str, now: Instant, most: Duration) -> bool {
        let at = now.checked_sub(most).unwrap_or(now);
        self.at_work.is_some_and(|since| since <= at)
            && [HUB, cluster].into_iter().all(|one| self.clouds.since(one, at).is_none())
    }

    /// What did not hold, in words.
    pub fn breaches(&self) -> Vec<String> {
        let mut breaches = self.breaches.clone();
        breaches.extend(self.unknown().into_iter().map(unknown));
        breaches
    }

    /// Objects of the hub that no inventory knows.
    fn unknown(&self) -> Vec<&Key> {
        let mut unknown = self.index.unknown();
        unknown.retain(|key| {
            self.index.live(key).is_none_or(|live| {
                !self.foreign.contains(uid(&live))
                    && !self.is_past_proof(key, &live)
                    && !self.is_of_nobody(key, &live)
            })
        });
        unknown
    }

    /// No inventory has to know it: what had been removed since a backup is there again and bears only such marks; or it was made
    /// by a life that ended before it wrote down the uid, or wrote it where a restore of the hub has taken it back, and people
    /// have taken the hub's entries off it; or the inventory was lost after them.
    fn is_of_nobody(&self, key: &Key, live: &Value) -> bool {
        let mut owners = appliers(live).into_iter().filter_map(|manager| owner_of(&manager)).peekable();
        if owners.peek().is_some() {
            return owners.all(|owner| self.returned.contains(&(key.clone(), owner)));
        }
        let works = |life: &Arc<str>| self.last.as_ref().is_some_and(|(last, _)| last == life);
        let ended = self.made.get(uid(live)).is_some_and(|(life, _)| !works(life));
        let is_unrecorded = ended && !self.index.was_recorded(uid(live));
        !is_applied(live) && (is_unrecorded || self.unprovable.contains(uid(live)))
    }

    /// Somebody has taken the hub's entries off what it has made, and could write down nowhere yet: since before it was made
    /// faults are at the hub's cluster, and no inventory of those that applied it was written since. Nothing proves it now.
    fn note_stripped(&mut self, cluster: &str, changed: &Changed, now: Instant) {
        let (Some(old), Some(new)) = (changed.before(), changed.after()) else { return };
        let Some((_, made)) = self.made.get(uid(&new)) else { return };
        let mut owners = appliers(&old).into_iter().filter_map(|manager| owner_of(&manager)).peekable();
        let is_stripped = owners.peek().is_some() && !is_applied(&new);
        let clouded = self.clouds.since(HUB, now).is_some_and(|since| since <= *made);
        let is_written =
            |owner: String| self.written.get(&target_name(&owner, cluster)).is_some_and(|at| at >= made);
        if is_stripped && clouded && !self.index.was_recorded(uid(&new)) && !owners.any(is_written) {
            self.unprovable.insert(uid(&new).to_owned());
        }
    }

    /// A member, or the hub (`None`), was put back: marks of those that do not know the object are what has come back.
    fn note_returned(&mut self, member: Option<&str>) {
        let there = self.index.all_live().filter(|(key, _)| member.is_none_or(|member| key[0] == member));
        let marks = there.flat_map(|(key, live)| {
            let owners = appliers(live).into_iter().filter_map(|manager| owner_of(&manager));
            owners.map(move |owner| (key.clone(), owner))
        });
        let returned: Vec<_> = marks.filter(|(key, owner)| !self.is_held_for(key, owner)).collect();
        self.returned.retain(|(key, _)| member.is_some_and(|member| key[0] != member));
        self.returned.extend(returned);
    }

    /// A call has had its effect late: marks that it has put on an object that their VidraResource had let go by then.
    fn note_late_marks(&mut self, cluster: &str, changed: &Changed) {
        let (Some(key), Some(new)) = (key_of(cluster, changed), changed.after()) else { return };
        let had: Vec<_> = changed.before().iter().flat_map(|old| appliers(old)).collect();
        let came = appliers(&new).into_iter().filter(|manager| !had.contains(manager));
        let owners: Vec<_> = came.filter_map(|manager| owner_of(&manager)).collect();
        let let_go = owners.into_iter().filter(|owner| !self.is_held_for(&key, owner));
        let late: Vec<_> = let_go.map(|owner| (key.clone(), owner)).collect();
        self.returned.extend(late);
    }

    /// Is it in the inventory of a VidraResource's target?
    fn is_held_for(&self, key: &Key, resource: &str) -> bool {
        self.index.holders(key).contains(&target_name(resource, &key[0]))
    }

    /// People have taken the hub's entries off it, and the inventory that knew its uid away: nothing tells it from what
    /// others made. Where it is wanted only if there is none, the hub is content with it, and nobody has to do anything.
    fn is_past_proof(&self, key: &Key, live: &Value) -> bool {
        let mut wanted = self.index.declared.wanted_since(key).map(|(.., doc)| doc.yields()).peekable();
        let is_forgotten =
            self.is_forgetful(&key[0]) && !is_applied(live) && !self.index.holds_uid(uid(live));
        is_forgotten && wanted.peek().is_some() && wanted.all(|yields| yields)
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
            if self.at_work.is_none() {
                (self.at_work, self.index.works_since) = (Some(now), None);
            }
            // Until it has read its own cluster it asks no member, which may take long.
            if &*call.cluster != HUB {
                self.index.works_since.get_or_insert(now);
            }
        }
        // A MemberCluster's is not held back.
        let is_status = call.subresource == "status" && call.resource != "memberclusters";
        if is_write(call) && (is_status || &*call.cluster != HUB) {
            self.begun.insert((call.cluster.clone(), call.index), now);
        }
    }

    /// A status was written: who else writes it comes between.
    fn judge_writer(&mut self, call: &Call, changed: &Changed) {
        let Some(begun) = self.begun.remove(&(call.cluster.clone(), call.index)) else { return };
        marks::note("rule:writer");
        let of = changed.after().unwrap_or_default();
        let key = (call.user.clone(), uid(&of).to_owned());
        let after = self.statuses.get(&key).map(|(before, _)| begun.duration_since(*before));
        self.judge_values(call, changed, after);
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
        let is_other_hubs = call.user.starts_with(OTHER_USER);
        if ours || is_other_hubs {
            self.note_answer(call, now);
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
                self.note_raised(call, changed, now);
                if landing {
                    self.note_late_marks(&call.cluster, changed);
                }
            }
            if is_other_hubs {
                self.judge_other_hub(call, changed, now);
            }
            self.note_lost(changed, now);
            if !ours {
                self.note_unseen(&call.cluster, changed);
                self.note_stripped(&call.cluster, changed, now);
                self.note_words(changed);
                self.note_confirmed(changed);
            }
            self.index.take(&call.cluster, changed, now);
            if changed.plural == "vidrainventories" {
                self.note_inventory(changed, ours, now);
                // What it has found again it is not to forget.
                let mut returned = std::mem::take(&mut self.returned);
                returned.retain(|(key, owner)| !self.is_held_for(key, owner));
                self.returned = returned;
            }
            if ours && changed.plural == "vidratargets" && call.subresource.is_empty() {
                self.judge_revision(call, changed, now);
                self.judge_turn(call, changed, now);
            }
            if ours && &*call.cluster == "hub" && call.subresource == "status" {
                marks::note_reasons(&changed.plural, &changed.after().unwrap_or_default());
                self.note_seen(call, changed);
                self.judge_writer(call, changed);
                self.judge_status(call, changed, now);
            }
        }
        let matters = &*call.cluster != "hub" || call.resource == "vidrainventories";
        self.remember(now);
        if ours && matters && !changes.is_empty() {
            let found = self.unknown().into_iter().filter(|key| !self.is_forgetful(&key[0]));
            let found: Vec<_> = found.map(|key| format!("after {call}: {}", unknown(key))).collect();
            self.breaches.extend(found);
        }
    }

    fn note_answer(&mut self, call: &Call, now: Instant) {
        if &*call.cluster == "hub" || (call.verb, call.status) != (Verb::Get, 200) {
            return;
        }
        let Some(kind) = super::kinds::kind_of(&call.group, &call.resource) else { return };
        let key = [&*call.cluster, &call.group, kind, &call.namespace, &call.name].map(str::to_owned);
        if let Some(live) = self.index.live(&key) {
            let place = (call.user.clone(), call.cluster.clone(), call.path.clone());
            self.read.insert(place, (uid(&live).to_owned(), now));
        }
    }

    /// What a target is to have is what people have declared, and not something that they have once declared.
    fn judge_revision(&mut self, call: &Call, changed: &Changed, now: Instant) {
        let name = named(&changed.namespace, &changed.name);
        let Some(Target { resource, revision, generation, .. }) = self.index.targets.get(&name) else {
            return;
        };
        if !self.named.insert((resource.clone(), revision.clone())) {
            return;
        }
        marks::note("rule:revision");
        if !self.index.declared.is_of(resource, revision, *generation, self.sight(now, SIGHT)) {
            let what =
                format!("{call}: {revision} is not what {resource} declares in generation {generation}");
            self.breaches.push(what);
        }
    }

    /// Ready is said of a revision: each object that it declares was so at the member, at some instant that
    /// the hub may speak of.
    fn judge_status(&mut self, call: &Call, changed: &Changed, now: Instant) {
        let name = named(&changed.namespace, &changed.name);
        let wrong = match changed.plural.as_str() {
            "vidratargets" => self.index.targets.get(&name).map(|target| self.claims(target, SIGHT, now)),
            // What its targets say is what they said before.
            "vidraresources" if self.is_just_put_back(now) => None,
            "vidraresources" => changed.after().map(|resource| self.claims_of_all(&name, &resource, now)),
            _ => None,
        };
        let wrong = wrong.into_iter().flatten().map(|what| format!("{call} says Ready: {what}"));
        let wrong: Vec<_> = wrong.collect();
        self.breaches.extend(wrong);
    }

    /// What is wrong with a target's claim to be ready.
    fn claims(&self, target: &Target, sight: Duration, now: Instant) -> Vec<String> {
        let Some(Claim { revision, namespace, inputs }) = &target.ready else { return Vec::new() };
        marks::note("rule:claim");
        let docs = self.index.declared.revision_with(&target.resource, revision, &target.cluster, inputs);
        let place = (target.resource.as_str(), target.cluster.as_str(), namespace.as_str());
        self.lies(docs.as_deref(), place, self.sight_of(&target.cluster, now, sight))
    }

    /// What is wrong with a VidraResource's claim that all its targets are ready.
    fn claims_of_all(&self, name: &str, resource: &Value, now: Instant) -> Vec<String> {
        let Some(generation) = ready_generation(resource) else { return Vec::new() };
        marks::note("rule:claim of all");
        let (declared, since) = (&self.index.declared, self.sight(now, SIGHT * 2));
        let revision = resource["status"]["revision"].as_str().unwrap_or_default();
        let mut wrong = Vec::new();
        if !declared.is_of(name, revision, generation, since) {
            wrong.push(format!("{revision} is not what it declares in generation {generation}"));
        }
        let targets = self.index.targets.values();
        let targets = targets.filter(|target| target.resource == name && target.present);
        // Nobody waits for those whose members do not allow the namespace.
        for target in targets.filter(|target| !declared.was_revoked(name, &target.cluster, since)) {
            let place = (name, target.cluster.as_str(), target.namespace.as_str());
            // The cluster may have been another one within that time.
            let since = self.sight_of(&target.cluster, now, SIGHT * 2);
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
        let of_now = |name: &str| !self.is_of_a_backup(name, now, most);
        for (name, target) in self.index.targets.iter().filter(|(name, one)| long(one) && of_now(name)) {
            let lies = self.claims(target, most, now).into_iter();
            wrong.extend(lies.map(|what| format!("{name} goes on saying Ready: {what}")));
        }
        wrong
    }

    /// A MemberCluster says that it can be worked with. While nobody but a stranger answers in its place, whatever he says,
    /// that is not so.
    pub fn counts_as_there(&self, member: &str, now: Instant, most: Duration) -> Option<String> {
        let at = now.checked_sub(most).unwrap_or(now);
        let sees = self.at_work.is_some_and(|since| since <= at) && self.clouds.since(HUB, at).is_none();
        let object = self.index.declared.member_named(member)?;
        let rests = object["spec"]["suspend"] == true || !object["metadata"]["deletionTimestamp"].is_null();
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let mut ready = conditions.filter(|one| one["type"] == "Ready");
        let says_so = ready.any(|one| one["status"] == "True");
        marks::note("rule:contact");
        (sees && !rests && says_so)
            .then(|| format!("{member} says that it is Ready, and another one answers"))
    }

    /// What in members is not as declared; empty when all is. What is declared and then not any more goes,
    /// except for Namespaces and CRDs.
    pub fn differs(&self, now: Instant) -> Vec<String> {
        let mut wrong = Vec::new();
        for (key, resource, doc) in self.index.declared.wanted() {
            if !self.index.is_as_declared(resource, key, doc)
                && !self.is_left(resource, key, doc, now)
                && !self.waits_for_marks(resource, key, now)
                && !self.waits_for_a_kind(resource, key, doc, now)
            {
                wrong.push(format!(
                    "{}: wanted {}, found {:?}",
                    key.join("/"),
                    doc.body,
                    self.index.live(key)
                ));
            }
        }
        // Pruning waits for what is refused, and for what cannot be made.
        let waits = |key: &Key| {
            self.index.holders(key).iter().any(|name| {
                self.index.targets.get(name).is_some_and(|one| {
                    one.present && (one.reason == "NotOurs" || self.is_kept_waiting(one, now))
                        || self.unmade_wave(one, now).is_some()
                })
            })
        };
        for (key, live) in self.index.all_live().filter(|(_, live)| !labelled(live) && is_applied(live)) {
            let left = self.foreign.contains(uid(live))
                || self.released.contains(uid(live))
                || self.untraceable.contains(uid(live))
                || is_of_another_hub(live);
            // Of what lost its label an inventory tells.
            let waits = self.index.holds_uid(uid(live)) && waits(key);
            if !left && !waits && self.index.declared.wanted_since(key).next().is_none() {
                wrong.push(format!("{} is there without its label, and not wanted", key.join("/")));
            }
        }
        for key in self.index.labelled() {
            let foreign = self.index.live(key).is_some_and(|live| self.foreign.contains(uid(&live)));
            if self.index.declared.wanted_since(key).next().is_none() && !foreign && !waits(key) {
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

    /// A resource's target says that others made this: no apply of the hub is on it any more, and that it is the hub's only
    /// the inventory of another target knows. Who may take over what is equal says so with the hub's label too.
    fn is_bare(&self, resource: &str, key: &Key) -> bool {
        let name = target_name(resource, &key[0]);
        let reason = self.index.targets.get(&name).map(|target| &*target.reason);
        self.index.live(key).is_some_and(|live| {
            let says = match labelled(&live) {
                true => reason == Some("ExistingDiffers"),
                false => matches!(reason, Some("AlreadyExists" | "ExistingDiffers")),
            };
            says && !is_of_another_hub(&live)
                && !is_applied(&live)
                && self.index.is_held_beside(&name, uid(&live))
        })
    }

    /// It is not brought to what is declared before its marks are back, which another resource is to bring that leaves
    /// it without them.
    fn waits_for_marks(&self, resource: &str, key: &Key, now: Instant) -> bool {
        let is_left = |by: &str, doc: &Doc| by != resource && self.is_left(by, key, doc, now);
        (self.is_unproved(resource, key) || self.is_bare(resource, key))
            && self.index.declared.wanted().any(|(of, by, doc)| of == key && is_left(by, doc))
    }

    /// Something that a resource declares waits so for its marks.
    pub fn waits_for_any_marks(&self, resource: &str, now: Instant) -> bool {
        let mut wanted = self.index.declared.wanted().filter(|(_, by, _)| *by == resource);
        wanted.any(|(key, ..)| self.waits_for_marks(resource, key, now))
    }

    /// The wave of what a target cannot make, for it says that it does not know the kind, whose CRD it declares as well, and
    /// that is gone and left so.
    fn unmade_wave(&self, target: &Target, now: Instant) -> Option<i32> {
        if !target.present || target.reason != "KindUnknown" {
            return None;
        }
        let asked = self.asked(target);
        let is_gone = |(key, doc): (&Key, &Doc)| {
            key[2] == "CustomResourceDefinition"
                && self.index.live(key).is_none()
                && self.is_left(&target.resource, key, doc, now)
        };
        let unmade = asked.iter().filter(|(key, _)| is_of_a_crd(key)).map(|(_, doc)| doc.wave()).min();
        unmade.filter(|_| asked.iter().any(is_gone))
    }

    /// Something that a target declares waits for marks which another VidraResource leaves away.
    fn is_kept_waiting(&self, target: &Target, now: Instant) -> bool {
        let Target { resource, cluster, .. } = target;
        let mut wanted = self.index.declared.wanted();
        wanted.any(|(key, by, _)| {
            by == resource && key[0] == *cluster && self.waits_for_marks(resource, key, now)
        })
    }

    /// It cannot be made, for its kind went with a CRD that is left so; or it comes in a later wave than what cannot be.
    pub(super) fn waits_for_a_kind(&self, resource: &str, key: &Key, doc: &Doc, now: Instant) -> bool {
        let target = self.index.targets.get(&target_name(resource, &key[0]));
        let unmade = target.and_then(|target| self.unmade_wave(target, now));
        unmade.is_some_and(|wave| is_of_a_crd(key) || doc.wave() > wave)
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
        let wanted = wanted.filter(|key| !self.is_to_be_taken(key) || lasts && self.cannot_be_taken(key));
        let held =
            wanted.filter(|key| among(&self.foreign, key) || among(&self.released, key) || unproved(key));
        let spare = self.index.unknown().into_iter().filter(|key| {
            let is_of_nobody = || self.index.live(key).is_some_and(|live| self.is_of_nobody(key, &live));
            (restored || is_of_nobody())
                && self.index.declared.wanted_since(key).next().is_none()
                && !among(&self.foreign, key)
        });
        let stripped = self.index.all_live().filter(|(key, live)| {
            let left = self.foreign.contains(uid(live))
                || self.released.contains(uid(live))
                || is_of_another_hub(live);
            let wanted = self.index.declared.wanted_since(key).next().is_some();
            // Or a member's backup has brought it back, and its label went before anything could be done about it.
            let came_back = self.put_back.is_some() || self.returned.iter().any(|(of, _)| of == *key);
            restored && came_back && is_applied(live) && !labelled(live) && !left && !wanted
        });
        let targets = self.index.targets.iter().filter(|_| lasts);
        let kept = targets.flat_map(|(name, target)| {
            let keys = self.index.held_by(name).into_iter();
            keys.filter(|key| self.index.live(key).is_some_and(|live| is_for_people(target, &live)))
        });
        let stripped = stripped.map(|(key, _)| key);
        let marked = self.returned.iter().filter(|(key, owner)| restored && self.keeps_out(owner, key));
        let marked = marked.map(|(key, _)| key);
        let all = held.chain(spare).chain(stripped).chain(refused.map(|(key, ..)| key)).chain(kept);
        all.chain(marked).cloned().collect()
    }

    /// A restore has brought back the marks of a VidraResource that does not declare the object, and a target that does says
    /// that it is refused.
    fn keeps_out(&self, owner: &str, key: &Key) -> bool {
        let bears = |live: Arc<Value>| {
            appliers(&live).into_iter().filter_map(|manager| owner_of(&manager)).any(|one| one == owner)
        };
        let refuses = |target: &Target| {
            target.present && target.cluster == key[0] && target.reason == "SharedObjectConflict"
        };
        let mut targets = self.index.targets.values();
        self.index.live(key).is_some_and(bears)
            && !self.index.declared.wanted().any(|(of, by, _)| of == key && by == owner)
            && targets.any(|target| refuses(target) && self.asked(target).contains_key(key))
    }

    /// It is to be taken over, and a target that declares it says that a field cannot be changed.
    fn cannot_be_taken(&self, key: &Key) -> bool {
        let refuses =
            |target: &Target| target.present && target.cluster == key[0] && target.reason == "ImmutableField";
        let mut targets = self.index.targets.values();
        targets.any(|target| refuses(target) && self.asked(target).contains_key(key))
    }

    /// Notes what somebody has seen.
    pub fn breach(&mut self, what: String) {
        self.breaches.push(what);
    }
}

fn unknown(key: &Key) -> String {
    format!("no inventory knows {}", key.join("/"))
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
    bears(object, HUB_ID)
}

/// Has it the label of the hub with this id?
fn bears(object: &Value, hub: &str) -> bool {
    object["metadata"]["labels"][HUB_LABEL] == hub
}

fn is_of_another_hub(object: &Value) -> bool {
    !labelled(object) && !object["metadata"]["labels"][HUB_LABEL].is_null()
}

/// A controller of its cluster owns it.
fn is_controlled(object: &Value) -> bool {
    let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.any(|owner| owner["controller"] == true)
}

/// A person has to replace or to delete the object before the target can go on: it cannot be changed and is not to be
/// deleted, or it bears the label of another hub and cannot be changed, or the target goes.
fn is_for_people(target: &Target, live: &Value) -> bool {
    match &*target.reason {
        "ImmutableField" => live["metadata"]["annotations"][PRUNE] == "disabled" || is_of_another_hub(live),
        "OwnedByOtherHub" => !target.present && is_of_another_hub(live),
        _ => false,
    }
}

/// Of the kind that comes with a CRD.
fn is_of_a_crd(key: &Key) -> bool {
    key[1] == "test.io"
}

/// As what a VidraResource applies.
fn manager(resource: &str) -> String {
    let (namespace, name) = place_of(resource);
    format!("vidra/{HUB_ID}/{namespace}/{name}")
}

/// The VidraResource that applies as this, if it is one of the hub's.
fn owner_of(manager: &str) -> Option<String> {
    let (namespace, name) = manager.strip_prefix(&format!("vidra/{HUB_ID}/"))?.split_once('/')?;
    Some(named(namespace, name))
}

/// Are they of one namespace?
fn is_near(resource: &str, other: &str) -> bool {
    place_of(resource).0 == place_of(other).0
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

/// What the hub has changed in a cluster that no observer sees. Questions about rights are sent as objects, and change nothing.
pub fn changes_in(cluster: &Cluster) -> Vec<String> {
    let is_change = |call: &Call| {
        call.user.starts_with(HUB_USER) && is_write(call) && !call.resource.starts_with("selfsubject")
    };
    cluster.requests().iter().filter(|call| is_change(call)).map(ToString::to_string).collect()
}

/// An object's uid, or nothing.
pub fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

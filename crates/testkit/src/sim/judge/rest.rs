//! What the hub leaves as it is: what has drifted where a VidraResource only reports or ignores that, ignored fields,
//! and fields that are held by those to whom they are left. And what it tells of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use memkube::{Call, Changed, Verb};
use serde_json::Value;
use tokio::time::Instant;
use vidra_api::{
    labels::object_labels,
    names::{HubId, OwnerHash, target_name},
};

use super::{Judge, appliers, deeds::content, is_applied, labelled, owner_of, told::is_ending, uid};
use crate::sim::{
    declared::{Past, since},
    doc::Doc,
    index::{Aim, Claim, Key, Target, key_of},
    kinds::plural_of,
    marks,
    observer::HUB_ID,
    sparing::{ignored, leaves, spared, tells, yielded},
    world::{named, place_of},
};

/// What a VidraResource last had applied to an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Delivered {
    /// Nothing, or it is gone by the hub's own hand.
    Nothing,
    /// Nobody knows, for the member was put back to what it was.
    Unknown,
    /// One of these bodies: several were meant at that time.
    These(Vec<Value>),
}

/// What was applied to objects, for which VidraResource, and when.
#[derive(Default)]
pub struct Deliveries(BTreeMap<(Key, String), Past<Delivered>>);

impl Deliveries {
    fn put(&mut self, key: &Key, resource: &str, now: Instant, what: Delivered) {
        self.0.entry((key.clone(), resource.to_owned())).or_default().push((now, what));
    }

    fn last(&self, key: &Key, resource: &str) -> Option<&(Instant, Delivered)> {
        self.0.get(&(key.clone(), resource.to_owned()))?.last()
    }

    /// What was delivered is not known any more; what was let go stays let go.
    fn forget(&mut self, which: impl Fn(&Key, &str) -> bool, now: Instant) {
        for (_, past) in self.0.iter_mut().filter(|((key, resource), _)| which(key, resource)) {
            if past.last().is_some_and(|(_, last)| *last != Delivered::Nothing) {
                past.push((now, Delivered::Unknown));
            }
        }
    }

    fn put_all(&mut self, which: impl Fn(&Key, &str) -> bool, now: Instant, what: &Delivered) {
        for (_, past) in self.0.iter_mut().filter(|((key, resource), _)| which(key, resource)) {
            past.push((now, what.clone()));
        }
    }
}

impl Judge {
    /// A member was put back to what it was.
    pub fn restored(&mut self, member: &str, now: Instant) {
        self.deliveries.put_all(|key, _| key[0] == member, now, &Delivered::Unknown);
        self.note_returned(Some(member));
    }

    /// The hub was put back to what it was.
    pub(super) fn forget_deliveries(&mut self, now: Instant) {
        self.deliveries.put_all(|_, _| true, now, &Delivered::Unknown);
    }

    /// What a VidraResource has last had applied there.
    pub(super) fn applied_last(&self, key: &Key, resource: &str) -> Option<&Delivered> {
        self.deliveries.last(key, resource).map(|(_, last)| last)
    }

    /// As what a VidraResource has last had it applied, if that is known; several bodies may have been meant.
    pub(super) fn applied_as(&self, key: &Key, resource: &str) -> Option<Vec<Value>> {
        match self.deliveries.last(key, resource) {
            Some((_, Delivered::These(bodies))) => Some(bodies.clone()),
            _ => None,
        }
    }

    /// A VidraTarget, or its status, is lost: what it had delivered is not known any more. With one that was to go, and says
    /// that its member is free of it, that is gone too. One that somebody deletes before it says so may be let go, and made
    /// again when it is wanted again: what it had is still there.
    pub(super) fn note_lost(&mut self, changed: &Changed, now: Instant) {
        if changed.plural != "vidratargets" {
            return;
        }
        let name = named(&changed.namespace, &changed.name);
        if changed.after().is_some() {
            self.written_behind.remove(&name);
        } else {
            // The next one of its name counts its generations from the first on.
            self.seen.retain(|(_, target), _| *target != name);
        }
        let revision = |of: Option<Arc<Value>>| of.is_some_and(|of| of["status"]["revision"].is_string());
        let says =
            |of: Option<Arc<Value>>| of.is_some_and(|of| !of["status"]["observedGeneration"].is_null());
        if says(changed.before()) && !revision(changed.before()) && !says(changed.after()) {
            self.unsaid.insert(name.clone(), now);
            self.forget_unshown(&name, now);
        }
        let goes = |of: &Arc<Value>| of["spec"]["desired"] != "Present";
        let went = changed.before().filter(|of| changed.after().is_none() && goes(of));
        if (went.is_some() || revision(changed.before()) && !revision(changed.after()))
            && let Some(Target { resource, cluster, .. }) = self.index.targets.get(&name)
        {
            let is = |key: &Key, of: &str| key[0] == *cluster && of == resource;
            match went.is_some_and(|of| is_torn_down(&of)) {
                true => self.deliveries.put_all(is, now, &Delivered::Nothing),
                false => self.deliveries.forget(is, now),
            }
            self.seen.retain(|(_, target), _| *target != name);
        }
    }

    /// As what a target has applied that shows no stamp now, nobody can tell without its status.
    fn forget_unshown(&mut self, name: &str, now: Instant) {
        let index = &self.index;
        let Some(Target { resource, cluster, .. }) = index.targets.get(name) else { return };
        let shows = |key: &Key| index.live(key).is_some_and(|live| !stamp(&live, resource).is_null());
        self.deliveries.forget(|key, of| key[0] == *cluster && of == resource && !shows(key), now);
    }

    /// Somebody has taken an inventory away, or the hub has written again what it has found. Of what was not seen then nobody
    /// knows any more that it was delivered: it may be made as what never was. Of what is seen its own marks tell.
    pub(super) fn note_inventory(&mut self, changed: &Changed, ours: bool, now: Instant) {
        let inventory = named(&changed.namespace, &changed.name);
        let Some((name, _)) = inventory.rsplit_once('.') else { return };
        let is_gone = changed.after().is_none();
        if ours {
            self.note_written_behind(name, is_gone);
        }
        if ours && !is_gone {
            self.written.insert(name.to_owned(), now);
            // A write may have been under way.
            let index = &self.index;
            self.unprovable.retain(|uid| !index.holds_uid(uid));
        }
        if is_gone && !ours {
            self.losses.insert(name.to_owned());
        }
        if is_gone || !ours || !self.losses.remove(name) {
            return;
        }
        let index = &self.index;
        let Some(Target { resource, cluster, .. }) = index.targets.get(name) else { return };
        let manager = super::manager(resource);
        let is_seen = |key: &Key| {
            index.live(key).is_some_and(|live| labelled(&live) && appliers(&live).contains(&manager))
        };
        // Nobody knows any more who had deleted what is on its way out.
        let is_going = |key: &Key| index.live(key).is_some_and(|live| is_ending(&live));
        let is_lost = |key: &Key, of: &str| {
            let is_unknown = !index.knows_uid_of(name, key) && !is_seen(key);
            key[0] == *cluster && of == resource && (is_unknown || is_going(key))
        };
        self.deliveries.forget(is_lost, now);
        let without = index.all_live().filter(|(key, live)| key[0] == *cluster && !labelled(live));
        let theirs =
            without.filter(|(key, live)| appliers(live).contains(&manager) && !index.knows_uid_of(name, key));
        self.untraceable.extend(theirs.map(|(_, live)| uid(live).to_owned()));
        // Nor does anything tell of what people had taken the hub's entries off before.
        let bare = index.all_live().filter(|(key, live)| {
            let is_bare = labelled(live) && appliers(live).is_empty() && index.was_recorded(uid(live));
            key[0] == *cluster && is_bare && !index.holds_uid(uid(live))
        });
        self.unprovable.extend(bare.map(|(_, live)| uid(live).to_owned()));
    }

    /// Somebody has taken an object away, or what shows as what it was applied: from then on the revision that was applied
    /// whole last tells that. What one that never was whole had applied since nobody has to know.
    pub(super) fn note_unseen(&mut self, cluster: &str, changed: &Changed) {
        let Some(key) = key_of(cluster, changed) else { return };
        let (old, new) = (changed.before(), changed.after());
        let shows = |of: Option<&Value>, resource: &str| {
            of.is_some_and(|of| labelled(of) && !stamp(of, resource).is_null())
        };
        let managers = old.as_deref().map(appliers).unwrap_or_default();
        for resource in managers.iter().filter_map(|manager| owner_of(manager)) {
            if !shows(old.as_deref(), &resource) || shows(new.as_deref(), &resource) {
                continue;
            }
            let Some(body) = self.whole_body(&resource, &key) else { continue };
            let past = self.deliveries.0.get_mut(&(key.clone(), resource));
            if let Some((_, Delivered::These(bodies))) = past.and_then(|past| past.last_mut())
                && !bodies.contains(&body)
            {
                bodies.push(body);
            }
        }
    }

    /// As what the revision that was applied whole last declares it.
    fn whole_body(&self, resource: &str, key: &Key) -> Option<Value> {
        let target = self.index.targets.get(&target_name(resource, &key[0]))?;
        let (cluster, Claim { revision, namespace, inputs }) = (&target.cluster, &target.whole);
        let docs = self.index.declared.revision_with(resource, revision, cluster, inputs)?;
        docs.iter().find(|doc| doc.key(cluster, namespace) == *key).map(|doc| doc.body.clone())
    }

    /// A change that the hub made in a member, before it is taken in.
    pub(super) fn judge_rest(&mut self, call: &Call, changed: &Changed, now: Instant) {
        let Some(key) = key_of(&call.cluster, changed) else { return };
        let (old, new) = (changed.before(), changed.after());
        let stays = new.as_ref().filter(|new| new["metadata"]["deletionTimestamp"].is_null());
        let Some(new) = stays else {
            // Who only ignores that its marks are lost is none that this asks.
            let mut owners = old.as_deref().map(appliers).unwrap_or_default();
            // Of what was on its way out before only who withdraws has nothing there from now on.
            let ends = |of: &Arc<Value>| !of["metadata"]["deletionTimestamp"].is_null();
            if let Some(left) = new.as_deref().filter(|_| old.as_ref().is_some_and(ends)).map(appliers) {
                owners.retain(|owner| !left.contains(owner));
            }
            let is = |of: &Key, resource: &str| *of == key && owners.contains(&super::manager(resource));
            return self.deliveries.put_all(is, now, &Delivered::Nothing);
        };
        let applies = call.verb == Verb::Apply && call.subresource.is_empty() && call.name == key[4];
        let owner = owner_of(&call.manager).filter(|_| applies);
        let Some(resource) = owner.as_deref() else { return };
        self.judge_reach(call, resource, &key, (old.as_deref(), new), now);
        // What this life has told of it has seen.
        let target = target_name(resource, &key[0]);
        let seen = self.seen.get(&(call.user.clone(), target)).copied().unwrap_or_default();
        let then = self.sight_of_call(call, now);
        let aims: Vec<Aim> = self.index.aims_since(resource, &key[0], (then, seen)).cloned().collect();
        if let Some(what) = self.held_back(call, resource, &key, &aims, (old.as_deref(), new), now) {
            self.breaches.push(format!("{call}: {} {what}", key.join("/")));
        }
        let bodies = self.meant(resource, &key, &aims);
        if bodies.is_empty() || !is_marked(new, resource) {
            return self.deliveries.put(&key, resource, now, Delivered::Nothing);
        }
        let said: Vec<&Value> = aims.iter().map(|aim| &aim.spec).collect();
        // One that lands late was sent when that was not so.
        let lands_late = self.lands_late(call);
        let early = self
            .too_early(resource, &key, (old.as_deref(), new), (&aims, &bodies), now)
            .filter(|_| !lands_late);
        let wrong = self.not_left(resource, &key, (old.as_deref(), new), (&bodies, &said), then);
        let wrong = wrong.into_iter().chain(early);
        self.breaches.extend(wrong.map(|what| format!("{call}: {} {what}: {old:?}", key.join("/"))));
        self.deliveries.put(&key, resource, now, Delivered::These(bodies));
    }

    /// What a VidraResource was to have there.
    fn meant(&self, resource: &str, key: &Key, aims: &[Aim]) -> Vec<Value> {
        let mut bodies: Vec<Value> = Vec::new();
        for aim in aims {
            bodies.extend(self.of_aim(resource, key, aim).filter(|body| !bodies.contains(body)));
        }
        bodies
    }

    fn was_always_meant(&self, resource: &str, key: &Key, then: Instant) -> bool {
        let mut aims = self.index.aims_since(resource, &key[0], (then, 0));
        aims.all(|aim| self.of_aim(resource, key, aim).is_some())
    }

    /// A life has written a VidraTarget's status: it has seen the spec of which that speaks.
    pub(super) fn note_seen(&mut self, call: &Call, changed: &Changed) {
        let told = changed.after().and_then(|new| new["status"]["observedGeneration"].as_i64());
        if let Some(told) = told.filter(|_| changed.plural == "vidratargets") {
            let has = changed.after().and_then(|new| new["metadata"]["generation"].as_i64());
            if has.is_some_and(|has| told > has) && !self.unaware {
                self.breaches.push(format!("{call}: tells of generation {told}, which the object never had"));
            }
            self.seen.insert((call.user.clone(), named(&changed.namespace, &changed.name)), told);
        }
    }

    /// What an aim has there; `None`: nothing, as where the target was to go.
    pub(super) fn of_aim(&self, resource: &str, key: &Key, aim: &Aim) -> Option<Value> {
        if aim.spec["desired"] != "Present" {
            return None;
        }
        let declared = &self.index.declared;
        let docs = declared.revision_with(resource, &aim.revision, &key[0], &aim.inputs)?;
        let doc = docs.iter().find(|doc| doc.key(&key[0], &aim.namespace) == *key)?;
        Some(doc.body.clone())
    }

    /// Does a revision declare it that was applied whole there, and as one of these bodies? What one declares that was not is
    /// applied until it is: of what is gone meanwhile nobody may know that it was there, nor as what. What is seen tells as
    /// what it was applied (`None`).
    pub(super) fn was_delivered(&self, resource: &str, key: &Key, bodies: Option<&[Value]>) -> bool {
        let Some(target) = self.index.targets.get(&target_name(resource, &key[0])) else { return true };
        if target.says && target.whole.revision.is_empty() {
            return false;
        }
        let (cluster, Claim { revision, namespace, inputs }) = (&target.cluster, &target.whole);
        let docs = self.index.declared.revision_with(resource, revision, cluster, inputs);
        let is_so = |doc: &Doc| bodies.is_none_or(|bodies| bodies.contains(&doc.body));
        docs.is_none_or(|docs| docs.iter().any(|doc| doc.key(cluster, namespace) == *key && is_so(doc)))
    }

    /// Was it to go since something was delivered whole there? Of what is gone nobody may know then that the hub has not
    /// deleted it; so until it is whole again.
    fn is_recalled(&self, resource: &str, key: &Key) -> bool {
        self.index.targets.get(&target_name(resource, &key[0])).is_some_and(|target| target.recalled)
    }

    /// Did nothing prove it the hub's any more when it went? Of such an object the hub says that people are to delete it.
    fn went_unproved(&self, key: &Key) -> bool {
        let last = self.index.was_last(key);
        last.is_some_and(|live| !is_applied(&live) && self.is_of_nobody(key, &live))
    }

    /// Did the target lose a status since then by which nothing was delivered whole? The hub may still go by it.
    fn went_unsaid(&self, resource: &str, key: &Key, then: Instant) -> bool {
        self.unsaid.get(&target_name(resource, &key[0])).is_some_and(|at| *at >= then)
    }

    /// What of this object was to be left as it was, and is not.
    fn not_left(
        &self,
        resource: &str,
        key: &Key,
        (old, new): (Option<&Value>, &Value),
        (bodies, said): (&[Value], &[&Value]),
        then: Instant,
    ) -> Option<String> {
        let Some((at, Delivered::These(before))) = self.deliveries.last(key, resource) else { return None };
        let changes = old.is_none_or(|old| content(old) != content(new) || !labelled(old));
        let shown = old.is_some_and(|old| labelled(old) && !stamp(old, resource).is_null());
        let again = before.len() == 1
            && before == bodies
            && self.was_always_meant(resource, key, *at)
            && self.was_delivered(resource, key, (!shown).then_some(bodies))
            && (shown || !self.is_recalled(resource, key) && !self.went_unsaid(resource, key, then));
        // An inventory that was lost tells of nothing that is not seen.
        let seen = old.is_some_and(labelled) || !self.is_forgetful(&key[0]);
        let provable = old.is_some() || !self.went_unproved(key);
        if again && !changes {
            marks::note("rule:applied as before");
        }
        if said.iter().all(|spec| leaves(spec)) && changes {
            marks::note("rule:declared otherwise");
        }
        if said.iter().all(|spec| leaves(spec)) && again && changes && seen && provable {
            return Some(format!("was repaired, and {resource} is not to"));
        }
        let old = old.filter(|old| appliers(old).contains(&super::manager(resource)))?;
        let (first, rest) = said.split_first()?;
        let same = |path: &&_| rest.iter().all(|spec| ignored(spec, key).contains(path));
        let held = |path: &&_| rest.iter().all(|spec| yielded(spec, old).contains(path));
        let (ignored, yielded) = (ignored(first, key), yielded(first, old));
        if !ignored.is_empty() {
            marks::note("rule:ignored field");
        }
        if !yielded.is_empty() {
            marks::note("rule:yielded field");
        }
        let mut paths = ignored.iter().filter(same).chain(yielded.iter().filter(held));
        let written = paths.find(|path| path.of(old) != path.of(new))?;
        Some(format!("was changed at {written:?}, which {resource} leaves to others"))
    }

    /// May this differ from what is declared, for it was applied so, at some instant since then, and what came of it
    /// is only reported or ignored?
    pub(super) fn is_left(&self, resource: &str, key: &Key, doc: &Doc, then: Instant) -> bool {
        let past = self.deliveries.0.get(&(key.clone(), resource.to_owned()));
        let mut past = past.into_iter().flat_map(|past| since(past, then));
        self.index.policies_since(resource, &key[0], then).any(leaves)
            && past.any(|delivered| match delivered {
                Delivered::Nothing => false,
                Delivered::Unknown => true,
                Delivered::These(bodies) => bodies.contains(&doc.body),
            })
    }

    /// May it have been applied as this, for all that is known?
    pub(super) fn may_have_been_applied(&self, resource: &str, key: &Key, doc: &Doc) -> bool {
        self.deliveries.last(key, resource).is_some_and(|(_, last)| match last {
            Delivered::Nothing => false,
            Delivered::Unknown => true,
            Delivered::These(bodies) => bodies.contains(&doc.body),
        })
    }

    /// Was it ever applied as this? A restore brings nothing back that was not.
    fn was_ever_applied(&self, resource: &str, key: &Key, doc: &Doc) -> bool {
        let past = self.deliveries.0.get(&(key.clone(), resource.to_owned()));
        past.into_iter().flatten().any(|(_, what)| match what {
            Delivered::These(bodies) => bodies.contains(&doc.body),
            Delivered::Nothing | Delivered::Unknown => false,
        })
    }

    /// What targets tell, when nothing more happens, that is not so, and what is so and not told.
    pub fn misreports(&self, now: Instant) -> Vec<String> {
        let present = self.index.targets.iter().filter(|(_, target)| target.present);
        present
            .filter_map(|(name, target)| Some(format!("{name} {}", self.misreport(target, now)?)))
            .collect()
    }

    pub(super) fn misreport(&self, target: &Target, now: Instant) -> Option<String> {
        let spec = self.index.policies(&target.resource, &target.cluster)?;
        let told: BTreeSet<Key> = target.open.iter().map(|(_, key)| key.clone()).collect();
        if !tells(spec) {
            let silent = target.drift == "Unknown" && told.is_empty();
            return (!silent).then(|| format!("ignores drift, and says {} of {told:?}", target.drift));
        }
        // In sync is said after a whole delivery only.
        let expected = match (told.is_empty(), !target.whole.revision.is_empty()) {
            (false, _) => "Drifted",
            (true, true) => "InSync",
            (true, false) => "Unknown",
        };
        if target.drift != expected {
            return Some(format!("is {}, and tells of {told:?}", target.drift));
        }
        let wanted = self.asked(target);
        let name = target_name(&target.resource, &target.cluster);
        let is_there = |key: &Key| match self.deliveries.last(key, &target.resource) {
            None | Some((_, Delivered::Nothing)) => false,
            // What only a lost inventory knew counts as never delivered until it is applied again; who has not come to
            // that says why.
            // What came of a declaration that a restore of the hub took back may wait to be applied as it is declared now.
            Some((_, Delivered::Unknown)) => {
                let live = self.index.live(key);
                let stamp = live.and_then(|live| stamped(&live, &target.resource));
                let is_later = stamp.is_some_and(|generation| generation > target.agreed);
                target.state == "Ready" || self.index.knows_uid_of(&name, key) && !is_later
            }
            // What was not meant for a while may have been let go. Where the inventory holds no uid of it, it counts as never
            // delivered likewise.
            Some((at, Delivered::These(_))) => {
                target.state == "Ready"
                    || self.index.knows_uid_of(&name, key)
                    || self.was_always_meant(&target.resource, key, *at)
            }
        };
        let is_proved = |key: &Key| !self.is_unproved(&target.resource, key);
        for (key, doc) in wanted.iter().filter(|(key, _)| is_there(key) && is_proved(key)) {
            let differs = self.how_it_differs(&target.resource, spec, key, doc);
            match differs {
                Some(how)
                    if !told.contains(key)
                        && !target.changes_cut
                        && !self.is_left_out(target, key, doc, now) =>
                {
                    return Some(format!("does not tell that {} {how}", key.join("/")));
                }
                None if told.contains(key) && doc.is_kept() => {
                    return Some(format!("tells of {}, which is as declared", key.join("/")));
                }
                _ => {}
            }
        }
        let strays =
            target.open.iter().filter(|(change, key)| change != "Extra" && !wanted.contains_key(key));
        let stray = strays
            .map(|(change, key)| format!("tells that {} is {change}, which nobody wants", key.join("/")));
        stray.into_iter().next()
    }

    /// It is of a kind that is gone, or behind one: it has its marks, was never applied as it is declared now, and comes in a
    /// later wave than what cannot be made. Until it is applied no value of it is drift.
    fn is_left_out(&self, target: &Target, key: &Key, doc: &Doc, now: Instant) -> bool {
        let Target { resource, .. } = target;
        let is_proved = |live: Arc<Value>| is_marked(&live, resource) && owns_its_label(&live, resource);
        self.is_of_lost_kind(target, key)
            || self.waits_for_a_kind(resource, key, doc, now)
                && !(self.may_have_been_applied(resource, key, doc)
                    && self.was_ever_applied(resource, key, doc))
                && self.index.live(key).is_some_and(is_proved)
    }

    /// It is not there, and neither is its kind's CRD, of which that is told: the hub cannot look for objects of a kind
    /// that the member does not serve, and tells the CRD alone.
    fn is_of_lost_kind(&self, target: &Target, key: &Key) -> bool {
        let crd = format!("{}.{}", plural_of(&key[2]), key[1]);
        let is_lost = |(change, of): &(String, Key)| {
            change == "Missing"
                && of[2] == "CustomResourceDefinition"
                && of[4] == crd
                && self.index.live(of).is_none()
        };
        self.index.live(key).is_none() && target.open.iter().any(is_lost)
    }

    /// How what is there differs from what is declared, beside what is left alone.
    fn how_it_differs(&self, resource: &str, spec: &Value, key: &Key, doc: &Doc) -> Option<String> {
        if !doc.is_kept() {
            return None;
        }
        let Some(live) = self.index.live(key) else { return Some("is missing".to_owned()) };
        if !doc.is_held_by(&live, &spared(spec, key, &live)) {
            return Some(format!("has other values: {live}"));
        }
        let marked = is_marked(&live, resource);
        let applied = owns_its_label(&live, resource);
        (!marked || !applied).then(|| format!("has lost its marks (uid {})", uid(&live)))
    }
}

/// Does a VidraTarget say of its newest spec that nothing of it is left in its member?
fn is_torn_down(target: &Value) -> bool {
    let (generation, status) = (&target["metadata"]["generation"], &target["status"]);
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    status["observedGeneration"] == *generation
        && conditions.any(|one| one["type"] == "TornDown" && one["status"] == "True")
}

/// From which generation of a VidraResource an object was applied that nobody doubts to be that one's.
pub(super) fn stamped(object: &Value, resource: &str) -> Option<i64> {
    let is_proved = is_marked(object, resource) && owns_its_label(object, resource);
    let stamp = stamp(object, resource).as_str().filter(|_| is_proved)?;
    // Owner, generation, hash.
    stamp.split(' ').nth(1)?.parse().ok()
}

/// As what a VidraResource has applied it, as the object says.
fn stamp<'a>(object: &'a Value, resource: &str) -> &'a Value {
    let Ok(hub) = HubId::try_from(HUB_ID) else { return &Value::Null };
    let (namespace, name) = place_of(resource);
    &object["metadata"]["annotations"][OwnerHash::new(&hub, namespace, name).label_key()]
}

/// Owns the resource's Apply entry its label? Not so between the two writes that bring lost marks back.
fn owns_its_label(object: &Value, resource: &str) -> bool {
    let Ok(hub) = HubId::try_from(HUB_ID) else { return false };
    let (namespace, name) = place_of(resource);
    let label = format!("f:{}", OwnerHash::new(&hub, namespace, name).label_key());
    let manager = super::manager(resource);
    let mut entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries.any(|entry| {
        entry["operation"] == "Apply"
            && entry["manager"] == manager
            && !entry["fieldsV1"]["f:metadata"]["f:labels"][&label].is_null()
    })
}

/// Has it the labels of a VidraResource's objects?
fn is_marked(object: &Value, resource: &str) -> bool {
    let Ok(hub) = HubId::try_from(HUB_ID) else { return false };
    let (namespace, name) = place_of(resource);
    let marks = object_labels(&hub, &OwnerHash::new(&hub, namespace, name));
    marks.iter().all(|(label, value)| object["metadata"]["labels"][label] == value.as_str())
}

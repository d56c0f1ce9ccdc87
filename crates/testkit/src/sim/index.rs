//! What is declared and what is there, kept up with each change: so that judging a call costs what the call
//! changed, and not what is stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use memkube::{Changed, Cluster};
use serde_json::Value;
use tokio::time::Instant;
use vidra_api::labels::HUB_LABEL;

use super::{
    declared::{Declared, Past, since},
    doc::Doc,
    health::{self, Told},
    kinds::kind_of,
    sparing::spared,
    world::named,
};

/// An object in a member: cluster, group, kind, namespace, name.
pub type Key = [String; 5];

/// What a VidraTarget says.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its VidraResource.
    pub resource: String,
    /// Its member.
    pub cluster: String,
    /// The destination namespace.
    pub namespace: String,
    /// Its objects are to be there.
    pub present: bool,
    /// The revision that they are to be of.
    pub revision: String,
    /// The generation of the VidraResource of which that is.
    pub generation: i64,
    /// What that takes of the cluster for its overrides.
    pub inputs: Value,
    /// Since when all this is so; a generation alone is no change.
    pub since: Instant,
    /// The status says that they are there.
    pub ready: Option<Claim>,
    /// The revision that was delivered whole, as the status says, in which namespace, with which inputs; empty: none was.
    pub whole: Claim,
    /// Since that was delivered it was to go, and is wanted again: to the hub nothing is delivered whole.
    pub recalled: bool,
    /// There is a status.
    pub says: bool,
    /// What the status says of drift.
    pub drift: String,
    /// What it tells of and is still so: the kind of change, and where.
    pub open: Vec<(String, Key)>,
    /// There is more to tell than it holds.
    pub changes_cut: bool,
    /// How many objects it says are still to go.
    pub removing: u64,
    /// The highest generation of the VidraResource from which its objects were applied when all of them agreed.
    pub agreed: i64,
    /// The status speaks of the newest spec.
    pub is_current: bool,
    /// The status' state, its reason, and why.
    pub state: String,
    /// See there.
    pub reason: String,
    /// Since when it has said just this reason, and that it is Failed.
    pub failed_since: Option<Instant>,
    /// What it said last before that, without a success in between, if it was Failed then too: the back-off of that goes on.
    pub failed_before: Option<String>,
    /// See there.
    pub message: String,
    /// What it tells of its objects' values.
    pub feedback: (Value, bool),
}

/// What a VidraTarget is to bring to its member.
#[derive(Clone, Debug, PartialEq)]
pub struct Aim {
    /// The revision.
    pub revision: String,
    /// The destination namespace.
    pub namespace: String,
    /// What the overrides take of the cluster.
    pub inputs: Value,
    /// The VidraTarget's generation with which this came.
    pub generation: i64,
    /// Its spec.
    pub spec: Value,
}

/// What a VidraTarget's status says is there, by the spec that it speaks of: another one may have come since.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The revision.
    pub revision: String,
    /// The destination namespace.
    pub namespace: String,
    /// What the overrides take of the cluster.
    pub inputs: Value,
}

/// What a target keeps of what is not declared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Keeps {
    #[default]
    Nothing,
    /// What it has: a removal is held, it rests, it does not prune, what it declares cannot be applied whole, or it waits to
    /// hand something over.
    Dropped,
    /// What it has: nobody can tell what it declares, for an override fails.
    Unread,
}

/// What is declared and what is there, as the judge has seen it.
#[derive(Default)]
pub struct Index {
    /// What is declared.
    pub declared: Declared,
    /// VidraTargets, called as [`named`] has it; so are VidraResources and inventories everywhere here.
    pub targets: BTreeMap<String, Target>,
    /// Destination namespaces and inputs of VidraTargets by name and generation.
    spoken: BTreeMap<(String, i64), (String, Value)>,
    /// What targets were to bring, by VidraResource and member.
    aims: BTreeMap<(String, String), Past<Aim>>,
    /// Since when the process works that worked last.
    pub works_since: Option<Instant>,
    /// What they keep of what they have and do not declare.
    keeping: BTreeMap<(String, String), Past<Keeps>>,
    /// What was at a place.
    past: BTreeMap<Key, Past<Option<Arc<Value>>>>,
    /// Keys and uids of each inventory, by its name.
    inventories: BTreeMap<String, (Vec<Key>, Vec<String>)>,
    /// How often a key is in one.
    known: BTreeMap<Key, usize>,
    /// Uids that have ever stood in one, since the hub's store was put back if it was.
    recorded: BTreeSet<String>,
    /// Objects with the hub's label.
    labelled: BTreeSet<Key>,
    /// Those of them that are in no inventory: after each call it is asked for them.
    unknown: BTreeSet<Key>,
    /// When the world began.
    began: Option<Instant>,
    /// Targets that have said Ready, with the revision.
    were_ready: BTreeSet<(String, String)>,
    /// The same of the change that was taken last: what it says it had not said before.
    just_ready: Option<(String, String)>,
    /// When the hub has last raised the generation of an object of which health is judged, and the status that it had then.
    raised: BTreeMap<Key, (Instant, Value)>,
}

/// How an object may be, as far as the hub may know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    /// It may work.
    pub well: bool,
    /// It may not, or not yet.
    pub late: bool,
}

impl Index {
    /// Takes a change in.
    pub fn take(&mut self, cluster: &str, changed: &Changed, now: Instant) {
        self.began.get_or_insert(now);
        self.were_ready.extend(self.just_ready.take());
        match (cluster, changed.plural.as_str()) {
            ("hub", "vidratargets") => self.target(changed, now),
            ("hub", "vidrainventories") => self.inventory(changed),
            ("hub", _) => self.declared.take(changed, now),
            _ => self.delivered(cluster, changed, now),
        }
    }

    fn target(&mut self, changed: &Changed, now: Instant) {
        let name = named(&changed.namespace, &changed.name);
        let Some(new) = changed.after() else {
            if let Some(gone) = self.targets.remove(&name) {
                self.note_keeping(&gone, Keeps::Nothing, now);
            }
            return;
        };
        let (spec, status) = (&new["spec"], &new["status"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut target = Target {
            resource: named(&changed.namespace, &text(&spec["resource"])),
            cluster: text(&spec["cluster"]),
            namespace: text(&spec["namespace"]),
            present: spec["desired"] == "Present",
            revision: text(&spec["revision"]),
            generation: spec["generation"].as_i64().unwrap_or_default(),
            inputs: spec["overrides"].clone(),
            since: now,
            ready: None,
            whole: whole(status),
            recalled: is_recalled(spec, status),
            says: !status["observedGeneration"].is_null(),
            drift: text(&status["drift"]),
            open: open(spec["cluster"].as_str().unwrap_or_default(), status),
            changes_cut: !status["changesTotal"].is_null(),
            removing: status["removing"]["objects"].as_u64().unwrap_or_default(),
            agreed: status["appliedGeneration"].as_i64().unwrap_or_default(),
            is_current: status["observedGeneration"] == new["metadata"]["generation"],
            state: text(&status["state"]),
            reason: text(&status["reason"]),
            failed_since: None,
            failed_before: None,
            message: text(&status["message"]),
            feedback: (status["feedback"].clone(), !status["feedbackAt"].is_null()),
        };
        let aim = Aim {
            revision: target.revision.clone(),
            namespace: target.namespace.clone(),
            inputs: target.inputs.clone(),
            generation: new["metadata"]["generation"].as_i64().unwrap_or_default(),
            spec: spec.clone(),
        };
        self.note_aim(&target, aim, now);
        let before = self.targets.get(&name);
        let wish = |of: &Target| (of.present, of.namespace.clone(), of.revision.clone(), of.inputs.clone());
        if let Some(before) = before.filter(|before| wish(before) == wish(&target)) {
            target.since = before.since;
        }
        if target.state == "Failed" {
            let before = before.filter(|before| before.state == "Failed");
            let same = before.filter(|before| before.reason == target.reason);
            target.failed_since = same.map_or(Some(now), |same| same.failed_since);
            target.failed_before = match same {
                Some(same) => same.failed_before.clone(),
                None => before.map(|before| before.reason.clone()),
            };
        }
        let of_spec = |generation: &Value| (name.clone(), generation.as_i64().unwrap_or_default());
        let spoken = (target.namespace.clone(), target.inputs.clone());
        self.spoken.insert(of_spec(&new["metadata"]["generation"]), spoken);
        if status["state"] == "Ready" {
            let spoken = self.spoken.get(&of_spec(&status["observedGeneration"])).cloned();
            let (namespace, inputs) = spoken.unwrap_or_default();
            self.just_ready = Some((name.clone(), text(&status["revision"])));
            target.ready = Some(Claim { revision: text(&status["revision"]), namespace, inputs });
        }
        let keeps = self.keeps(&target, spec);
        self.note_keeping(&target, keeps, now);
        self.targets.insert(name, target);
    }

    fn note_aim(&mut self, target: &Target, aim: Aim, now: Instant) {
        let aims = self.aims.entry((target.resource.clone(), target.cluster.clone())).or_default();
        match aims.last_mut().filter(|(_, last)| last.spec == aim.spec) {
            // A deletion raises the generation too.
            Some((_, last)) => last.generation = aim.generation,
            None => aims.push((now, aim)),
        }
    }

    fn keeps(&self, target: &Target, spec: &Value) -> Keeps {
        let Target { resource, revision, cluster, inputs, .. } = target;
        let is_unread = || self.declared.revision_with(resource, revision, cluster, inputs).is_none();
        // What cannot be applied whole prunes nothing.
        let is_partial = target.state == "Failed"
            && !["ObjectFailed", "HealthCheckTimeout"].contains(&target.reason.as_str());
        let is_restrained = target.reason == "RemovalHeld" || target.state == "Suspended";
        match is_restrained || is_partial || spec["prune"] == false {
            // It keeps it for whom it may be handed to, though it goes.
            _ if target.reason == "HandingOver" => Keeps::Dropped,
            _ if !target.present => Keeps::Nothing,
            _ if is_unread() => Keeps::Unread,
            true => Keeps::Dropped,
            false => Keeps::Nothing,
        }
    }

    fn note_keeping(&mut self, target: &Target, keeps: Keeps, now: Instant) {
        let past = self.keeping.entry((target.resource.clone(), target.cluster.clone())).or_default();
        if past.last().map(|(_, kept)| *kept).unwrap_or_default() != keeps {
            past.push((now, keeps));
        }
    }

    fn inventory(&mut self, changed: &Changed) {
        let name = named(&changed.namespace, &changed.name);
        let Some(new) = changed.after() else { return self.hold(name, None) };
        let cluster = new["spec"]["cluster"].as_str().unwrap_or_default();
        let (mut keys, mut uids) = (Vec::new(), Vec::new());
        for entry in new["spec"]["entries"].as_array().into_iter().flatten() {
            let parts: Vec<_> = entry.as_str().unwrap_or_default().splitn(7, '/').collect();
            let [group, _, kind, namespace, object, _, uid] = parts[..] else { continue };
            keys.push([cluster, group, kind, namespace, object].map(str::to_owned));
            uids.push(uid.to_owned());
        }
        self.recorded.extend(uids.iter().filter(|uid| !uid.is_empty()).cloned());
        self.hold(name, Some((keys, uids)));
    }

    /// Notes what an inventory holds from now on.
    fn hold(&mut self, name: String, held: Option<(Vec<Key>, Vec<String>)>) {
        for key in held.iter().flat_map(|(keys, _)| keys) {
            *self.known.entry(key.clone()).or_default() += 1;
            self.unknown.remove(key);
        }
        let before = match held {
            Some(held) => self.inventories.insert(name, held),
            None => self.inventories.remove(&name),
        };
        for key in before.into_iter().flat_map(|(keys, _)| keys) {
            if let Some(count) = self.known.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.known.remove(&key);
                    if self.labelled.contains(&key) {
                        self.unknown.insert(key);
                    }
                }
            }
        }
    }

    fn delivered(&mut self, cluster: &str, changed: &Changed, now: Instant) {
        let Some(key) = key_of(cluster, changed) else { return };
        self.note(key, changed.after(), now);
    }

    /// Takes in what of a member was changed beside all calls.
    pub fn look_again(&mut self, member: &Cluster, now: Instant) {
        let mut there = BTreeMap::new();
        for (group, plural, kind, _) in super::kinds::DELIVERED {
            for object in member.objects(group, plural) {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                let key = [member.name(), group, kind, text("namespace"), text("name")].map(str::to_owned);
                there.insert(key, object);
            }
        }
        let known = self.past.keys().filter(|key| key[0] == member.name() && self.live(key).is_some());
        let gone: Vec<Key> = known.filter(|key| !there.contains_key(*key)).cloned().collect();
        for key in gone {
            self.note(key, None, now);
        }
        for (key, object) in there {
            if self.live(&key).is_none_or(|known| *known != object) {
                self.note(key, Some(Arc::new(object)), now);
            }
        }
    }

    fn note(&mut self, key: Key, new: Option<Arc<Value>>, now: Instant) {
        match new.as_ref().is_some_and(|new| new["metadata"]["labels"][HUB_LABEL] == super::observer::HUB_ID)
        {
            true => {
                if self.labelled.insert(key.clone()) && !self.known.contains_key(&key) {
                    self.unknown.insert(key.clone());
                }
            }
            false => {
                if self.labelled.remove(&key) {
                    self.unknown.remove(&key);
                }
            }
        }
        self.past.entry(key).or_default().push((now, new));
    }

    /// What bears the hub's label in members.
    pub fn labelled(&self) -> impl Iterator<Item = &Key> {
        self.labelled.iter()
    }

    /// What a VidraResource's target in this member was to bring, at any instant since then, from this generation on.
    pub fn aims_since(
        &self,
        resource: &str,
        member: &str,
        (then, seen): (Instant, i64),
    ) -> impl Iterator<Item = &Aim> {
        let past = self.aims.get(&(resource.to_owned(), member.to_owned()));
        past.into_iter().flat_map(move |past| since(past, then)).filter(move |aim| aim.generation >= seen)
    }

    /// The VidraResources whose target in this member, at some instant since then, let nothing go of what it had and did not
    /// declare; and whether nobody could tell then what it declared.
    pub fn keeping(&self, member: &str, then: Instant) -> impl Iterator<Item = (&String, bool)> {
        let there = self.keeping.iter().filter(move |((_, on), _)| on == member);
        there.filter_map(move |((resource, _), past)| {
            let ever = |which: Keeps| since(past, then).any(|keeps| *keeps == which);
            let is_unread = ever(Keeps::Unread);
            (is_unread || ever(Keeps::Dropped)).then_some((resource, is_unread))
        })
    }

    /// The spec by whose policies a VidraResource's target in this member is kept: while a removal is held its own, and so on
    /// while what was declared behind that cannot be read; for what restrains the hub is in there, and what has it do more waits.
    pub fn policies(&self, resource: &str, member: &str) -> Option<&Value> {
        let said = self.declared.said(resource)?;
        if !self.declared.is_held(resource) {
            return Some(said);
        }
        let aims = self.aims.get(&(resource.to_owned(), member.to_owned()));
        Some(aims.and_then(|aims| aims.last()).map_or(said, |(_, aim)| &aim.spec))
    }

    /// All specs by whose policies it may have been kept at some instant since then: what was said, and while a removal was held
    /// its own. When that ends the hub first has to see it, and may find the same removal again.
    pub fn policies_since(
        &self,
        resource: &str,
        member: &str,
        then: Instant,
    ) -> impl Iterator<Item = &Value> {
        let aims = self.aims.get(&(resource.to_owned(), member.to_owned()));
        let aims = aims.filter(|_| self.declared.was_held_since(resource, then));
        let held = aims.into_iter().flat_map(move |past| since(past, then)).map(|aim| &aim.spec);
        self.declared.said_since(resource, then).chain(held)
    }

    /// Is the object there as the VidraResource declares it but for what that leaves alone, and healthy?
    pub fn is_as_declared(&self, resource: &str, key: &Key, doc: &Doc) -> bool {
        if !doc.is_kept() {
            return self.was_there(key, doc);
        }
        let (Some(spec), Some(live)) = (self.policies(resource, &key[0]), self.live(key)) else {
            return false;
        };
        doc.is_met_by(&live, &spared(spec, key, &live))
            && self.standing(resource, key, &live, Instant::now()).well
    }

    /// How an object may be for a VidraResource by all rules that it may be judged by since then. What the hub knows better than
    /// its kind's conditions and rules tell, it knows for a while: see [`health`].
    pub fn standing(&self, resource: &str, key: &Key, live: &Value, then: Instant) -> Standing {
        if key[1] != health::GROUP {
            return Standing { well: true, late: false };
        }
        let now = Instant::now();
        let [own, fleet] = self.declared.rules_since(resource, then.min(before(health::RULES_LAG)));
        let was_ready = self.was_ready(resource, &key[0]);
        let (mut all, age) = (Standing::default(), self.age(live, now));
        for (own, fleet) in own.iter().flat_map(|own| fleet.iter().map(move |fleet| (own, fleet))) {
            let one = match health::told(live, own, fleet) {
                Told::Late | Told::Failed => Standing { well: false, late: true },
                Told::Well { by_conditions: false } => Standing { well: true, late: false },
                Told::Well { by_conditions: true } => self.caught_up(key, live, was_ready, now),
                Told::Unusable(well) => Standing { well: well || was_ready, late: true },
                // Nothing says that one without a status subresource is to get a status.
                Told::Silent => Standing {
                    well: age >= health::AWAITED.0 || was_ready || key[2] == "Widget",
                    late: age < health::AWAITED.1,
                },
            };
            all = Standing { well: all.well || one.well, late: all.late || one.late };
        }
        all
    }

    /// Whether it was called failed at an instant since then, and its target was Ready before.
    fn may_recover(&self, resource: &str, key: &Key, then: Instant) -> bool {
        if key[1] != health::GROUP || !self.was_ready(resource, &key[0]) {
            return false;
        }
        let [own, fleet] = self.declared.rules_since(resource, before(health::RULES_LAG));
        let all = || own.iter().flat_map(|own| fleet.iter().map(move |fleet| (own, fleet)));
        self.was_ever(key, then, |live| {
            all().any(|(own, fleet)| health::told(live, own, fleet) == Told::Failed)
        })
    }

    /// Whether the status of what works to its conditions is not from before a change of the hub's.
    fn caught_up(&self, key: &Key, live: &Value, was_ready: bool, now: Instant) -> Standing {
        let raised = self.raised.get(key).filter(|(_, status)| *status == live["status"]);
        let reports = key[2] != "Gadget" || !live["status"]["observedGeneration"].is_null();
        let Some((at, _)) = raised.filter(|_| !reports) else { return Standing { well: true, late: false } };
        let ours = |manager: &str| manager.starts_with("vidra/");
        let ago = now.saturating_duration_since(*at);
        let is_over = ago >= health::CATCHES_UP.0 || !health::is_unanswered(live, ours);
        Standing { well: is_over || was_ready, late: ago < health::CATCHES_UP.1 }
    }

    /// Has the target said Ready of the revision that it is to have, or does it say so of another still?
    fn was_ready(&self, resource: &str, member: &str) -> bool {
        let name = vidra_api::names::target_name(resource, member);
        let Some(target) = self.targets.get(&name) else { return false };
        let says = target.ready.as_ref().is_some_and(|claim| claim.revision != target.revision);
        says || self.were_ready.contains(&(name, target.revision.clone()))
    }

    fn age(&self, live: &Value, now: Instant) -> Duration {
        let made =
            live["metadata"]["creationTimestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
        let since = made.and_then(|made| Duration::try_from(made.duration_since(super::world::start())).ok());
        let world = self.began.map_or(Duration::ZERO, |began| now.saturating_duration_since(began));
        world.saturating_sub(since.unwrap_or_default())
    }

    /// The hub has changed an object: its status may be from before that.
    pub fn note_raised(&mut self, key: &Key, (old, new): (&Value, &Value), now: Instant) {
        let generation = |of: &Value| of["metadata"]["generation"].as_i64();
        if key[1] == health::GROUP && generation(old) < generation(new) {
            self.raised.insert(key.clone(), (now, new["status"].clone()));
        }
    }

    /// Did a later wave not have to wait for it at any instant since then: was it as declared, and did it work? One that has not
    /// changed since other rules said so closes nothing: when it came it may have been judged by rules that had just gone.
    pub fn was_open(&self, resource: &str, key: &Key, doc: &Doc, then: Instant) -> bool {
        if key[1] != health::GROUP {
            return self.was_as_declared(resource, key, doc, then);
        }
        let past = self.past.get(key).map(Vec::as_slice).unwrap_or_default();
        let ends = past.iter().skip(1).map(|(from, _)| Some(*from)).chain([None]);
        let lately = past.iter().zip(ends).filter(|(_, end)| end.is_none_or(|end| end >= then));
        let mut lately = lately.filter_map(|((from, live), _)| Some((*from, live.as_deref()?)));
        lately.any(|(from, live)| {
            let judged_by = from.checked_sub(health::RULES_HEARD).unwrap_or(from).min(then);
            let mut said = self.declared.said_since(resource, then);
            said.any(|spec| doc.is_held_by(live, &spared(spec, key, live)))
                && self.standing(resource, key, live, judged_by).well
        })
    }

    /// Was it so at any instant since then?
    pub fn was_as_declared(&self, resource: &str, key: &Key, doc: &Doc, then: Instant) -> bool {
        if !doc.is_kept() {
            return self.was_there(key, doc);
        }
        let then = match self.may_recover(resource, key, then) {
            // With a new process the time begins again.
            true if self.works_since.is_none_or(|since| since > before(health::RECOVERS)) => {
                self.began.unwrap_or(then)
            }
            // At each instant since then it goes by what was so for as long.
            true => then.checked_sub(health::RECOVERS).unwrap_or(then),
            false => then,
        };
        self.was_ever(key, then, |live| {
            // While a removal is held the hub goes by what its target says: that may be older than what is said now.
            let mut said = self.policies_since(resource, &key[0], then);
            said.any(|spec| doc.is_met_by(live, &spared(spec, key, live)))
                && self.standing(resource, key, live, then).well
        })
    }

    /// Was it as declared but for what is left alone, healthy or not, and not on its way out, at any instant since then?
    pub fn was_held(&self, resource: &str, key: &Key, doc: &Doc, then: Instant) -> bool {
        self.was_ever(key, then, |live| {
            if !live["metadata"]["deletionTimestamp"].is_null() {
                return false;
            }
            let mut said = self.policies_since(resource, &key[0], then);
            said.any(|spec| doc.is_held_by(live, &spared(spec, key, live)))
        })
    }

    /// Was it on its way out at each instant since then?
    pub fn was_ending(&self, key: &Key, then: Instant) -> bool {
        let past = self.past.get(key).into_iter().flat_map(|past| since(past, then));
        let ends = |live: &Option<Arc<Value>>| {
            live.as_ref().is_some_and(|live| !live["metadata"]["deletionTimestamp"].is_null())
        };
        let mut past = past.peekable();
        past.peek().is_some() && past.all(ends)
    }

    /// Was this so, at each instant since then at which it was there, of the object with this uid?
    pub fn was_always(&self, key: &Key, uid: &str, then: Instant, is: impl Fn(&Value) -> bool) -> bool {
        let past = self.past.get(key).into_iter().flat_map(|past| since(past, then)).flatten();
        past.filter(|live| live["metadata"]["uid"] == uid).all(|live| is(live))
    }

    /// Was this so of whatever was there, at any instant since then?
    pub fn was_ever(&self, key: &Key, then: Instant, is: impl Fn(&Value) -> bool) -> bool {
        let mut past = self.past.get(key).into_iter().flat_map(|past| since(past, then)).flatten();
        past.any(|live| is(live))
    }

    /// The members in which a VidraResource's inventories hold something.
    pub fn held_in(&self, resource: &str) -> BTreeSet<String> {
        let prefix = format!("{resource}.");
        let own = self.inventories.iter().filter(|(name, _)| name.starts_with(&prefix));
        own.filter_map(|(_, (keys, _))| Some(keys.first()?[0].clone())).collect()
    }

    /// Of what is not kept as declared: was it there at any time, and so, where it is applied for each content?
    fn was_there(&self, key: &Key, doc: &Doc) -> bool {
        let mut past = self.past.get(key).into_iter().flatten().filter_map(|(_, object)| object.as_ref());
        past.any(|live| !doc.is_for_each_content() || super::doc::holds(&doc.body, live))
    }

    /// May it be deleted to be made again?
    pub fn may_be_made_again(&self, key: &Key) -> bool {
        self.declared.wanted_since(key).any(|(.., doc)| doc.may_be_made_again())
    }

    /// Does an inventory hold this uid?
    pub fn holds_uid(&self, uid: &str) -> bool {
        self.inventories.values().any(|(_, uids)| uids.iter().any(|held| held == uid))
    }

    /// The hub's store was put back: what only later inventories held nobody knows any more.
    pub fn forget_recorded(&mut self) {
        let held = self.inventories.values().flat_map(|(_, uids)| uids);
        self.recorded = held.filter(|uid| !uid.is_empty()).cloned().collect();
    }

    /// Has an inventory ever held this uid, that no restore of the hub has taken back since?
    pub fn was_recorded(&self, uid: &str) -> bool {
        self.recorded.contains(uid)
    }

    /// Does an inventory hold this uid that is not this target's?
    pub fn is_held_beside(&self, target: &str, uid: &str) -> bool {
        let is_its = |name: &str| name.rsplit_once('.').is_some_and(|(of, _)| of == target);
        let mut others = self.inventories.iter().filter(|(name, _)| !is_its(name));
        others.any(|(_, (_, uids))| uids.iter().any(|held| held == uid))
    }

    /// The targets in whose inventories an object is.
    pub fn holders(&self, key: &Key) -> Vec<String> {
        let holding = self.inventories.iter().filter(|(_, (keys, _))| keys.contains(key));
        // An inventory is named after its target, and numbered.
        holding.filter_map(|(name, _)| Some(name.rsplit_once('.')?.0.to_owned())).collect()
    }

    /// What stands in the inventories of a target.
    pub fn held_by(&self, target: &str) -> Vec<&Key> {
        let is_its = |name: &str| name.rsplit_once('.').is_some_and(|(of, _)| of == target);
        let held = self.inventories.iter().filter(|(name, _)| is_its(name));
        held.flat_map(|(_, (keys, _))| keys).collect()
    }

    /// Is it in a target's inventories with the uid of an object?
    pub fn knows_uid_of(&self, target: &str, key: &Key) -> bool {
        let is_its = |name: &str| name.rsplit_once('.').is_some_and(|(of, _)| of == target);
        let mut held = self.inventories.iter().filter(|(name, _)| is_its(name));
        held.any(|(_, (keys, uids))| keys.iter().zip(uids).any(|(of, uid)| of == key && !uid.is_empty()))
    }

    /// Objects that bear the hub's label in a member and that no inventory knows.
    pub fn unknown(&self) -> Vec<&Key> {
        self.unknown.iter().collect()
    }

    /// All that is there now.
    pub fn all_live(&self) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.past.iter().filter_map(|(key, past)| Some((key, past.last()?.1.as_ref()?)))
    }

    /// What was there last, also of what is gone.
    pub fn was_last(&self, key: &Key) -> Option<Arc<Value>> {
        self.past.get(key)?.iter().rev().find_map(|(_, object)| object.clone())
    }

    /// What is there now.
    pub fn live(&self, key: &Key) -> Option<Arc<Value>> {
        self.past.get(key)?.last()?.1.clone()
    }

    /// What is there now, and was there then already, in a Namespace or of a CRD's kind.
    pub fn contents(&self, container: &Key, then: Instant) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        let within = move |key: &Key| match container[2].as_str() {
            "Namespace" => key[3] == container[4],
            _ => container[4].ends_with(&format!("s.{}", key[1])) && !key[1].is_empty(),
        };
        let there = self.past.iter().filter(move |(key, _)| key[0] == container[0] && within(key));
        there.filter_map(move |(key, past)| {
            let (_, now) = past.last()?;
            let began = past.iter().rev().take_while(|(_, object)| object.is_some()).last()?.0;
            (began < then).then_some(())?;
            Some((key, now.as_ref()?))
        })
    }
}

/// What a VidraTarget's status tells of that is still so.
fn open(cluster: &str, status: &Value) -> Vec<(String, Key)> {
    let changes = status["changes"].as_array().into_iter().flatten();
    let open = changes.filter(|change| change["corrected"].is_null());
    let each = open.map(|change| {
        let text = |field: &str| change[field].as_str().unwrap_or_default().to_owned();
        let key = [cluster.to_owned(), text("group"), text("kind"), text("namespace"), text("name")];
        (text("change"), key)
    });
    each.collect()
}

/// Where a changed object is, if its kind is one that scenarios deliver.
pub fn key_of(cluster: &str, changed: &Changed) -> Option<Key> {
    let kind = kind_of(&changed.group, &changed.plural)?;
    Some([cluster, &changed.group, kind, &changed.namespace, &changed.name].map(str::to_owned))
}

/// So long ago.
fn before(span: Duration) -> Instant {
    let now = Instant::now();
    now.checked_sub(span).unwrap_or(now)
}

/// What a status says was applied whole last.
fn whole(status: &Value) -> Claim {
    let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
    Claim { revision: text("revision"), namespace: text("namespace"), inputs: status["overrides"].clone() }
}

/// Was it to go since it was applied whole, and is it wanted again?
fn is_recalled(spec: &Value, status: &Value) -> bool {
    let recalls = |of: &Value| of["recalls"].as_i64().unwrap_or_default();
    status["revision"].is_string() && recalls(status) != recalls(spec)
}

//! What the hub does to objects in members: to those of others, to those that it takes over, lets go and deletes.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Changed, Verb};
use serde_json::Value;
use tokio::time::Instant;
use vidra_api::{labels::PRUNE, names::target_name};

use super::{
    Judge, SIGHT, appliers, bears, behind::ended, is_applied, is_controlled, is_near, is_of_another_hub,
    labelled, manager, owner_of, uid,
};
use crate::sim::{
    doc::Doc,
    index::{Aim, Key, Target, key_of},
    marks,
    observer::{HUB_ID, OTHER_ID},
    sparing::leaves,
};

/// A deletion follows a read within this, calls that take long and land late included.
const READ_COUNTS_FOR: Duration = Duration::from_secs(45);
/// What a member's groups have told before one of them fell silent counts for this: calls that take long are answered by then.
const TOLD_COUNTS_FOR: Duration = Duration::from_secs(10);

impl Judge {
    /// A change that the hub made in a member.
    pub(super) fn judge_change(&mut self, call: &Call, changed: &Changed, now: Instant) {
        let Some(key) = key_of(&call.cluster, changed) else { return };
        self.judge_behind(call, &key);
        let (old, new) = (changed.before(), changed.after());
        if let (None, Some(new)) = (&old, &new) {
            self.made.insert(uid(new).to_owned(), (call.user.clone(), now));
        }
        let Some(old) = old else { return };
        self.judge_whose(call, &key, &old, OTHER_ID, now);
        let ends = |object: &Arc<Value>| !object["metadata"]["deletionTimestamp"].is_null();
        let stays = new.as_ref().filter(|new| !ends(new) || ends(&old));
        let made = self.made.get(uid(&old)).is_some_and(|(life, _)| *life == call.user);
        let proof = is_applied(&old) || self.index.holds_uid(uid(&old)) || made;
        let foreign = self.foreign.contains(uid(&old));
        let Some(new) = stays else {
            if foreign {
                self.note_foreign(call, &key, &old);
            }
            return self.judge_deletion(call, &key, &old, proof, now);
        };
        if labelled(&old) && !labelled(new) {
            marks::note("rule:release");
            self.judge_letting_go(call, &key, &old, now);
            self.released.insert(uid(new).to_owned());
            self.let_go_by.insert(uid(new).to_owned(), call.user.clone());
            self.judge_release(call, &key, new, now);
        }
        if foreign || is_applied(new) && !proof && !self.was_let_go_meanwhile(call, &key, (&old, new)) {
            self.judge_taking(call, &key, (&old, new), foreign, now);
        }
    }

    /// An apply that lands late was sent when this very object bore one of the same VidraResource, and the life that sent it
    /// has let it go since: marks come back, and no value changes.
    fn was_let_go_meanwhile(&self, call: &Call, key: &Key, (old, new): (&Value, &Value)) -> bool {
        let sent = self.begun.get(&(call.cluster.clone(), call.index)).filter(|_| self.lands_late(call));
        let Some(sent) = sent else { return false };
        let managers = appliers(new);
        let was_its = |live: &Value| {
            let had = appliers(live);
            uid(live) == uid(old) && managers.iter().all(|manager| had.contains(manager))
        };
        self.let_go_by.get(uid(old)) == Some(&call.user)
            && content(old) == content(new)
            && self.index.was_ever(key, *sent, was_its)
    }

    /// A change that another hub made in a member: of what it has made itself, and what the first one has not taken over since.
    pub(super) fn judge_other_hub(&mut self, call: &Call, changed: &Changed, now: Instant) {
        let Some(key) = key_of(&call.cluster, changed) else { return };
        marks::note("rule:deed of another hub");
        let Some(old) = changed.before() else {
            self.made_beside.extend(changed.after().map(|new| uid(&new).to_owned()));
            return;
        };
        self.judge_whose(call, &key, &old, HUB_ID, now);
        let mut wrong = Vec::new();
        if !self.made_beside.contains(uid(&old)) {
            wrong.push("is not what that hub has made".to_owned());
        }
        if call.verb == Verb::Delete && call.name == key[4] {
            let heedless = self.heedless(call, &old, now).into_iter();
            wrong.extend(heedless.map(|what| format!("was deleted {what}")));
        }
        let name = key.join("/");
        self.breaches.extend(wrong.into_iter().map(|what| format!("{call}: {name} {what}: {old}")));
    }

    /// What has had the label of the hub with this id for longer than the caller, which is another hub, may be in the dark is
    /// that one's, whatever the caller is told to take over.
    fn judge_whose(&mut self, call: &Call, key: &Key, old: &Value, hub: &str, now: Instant) {
        let bears = |live: &Value| bears(live, hub);
        let then = self.sight_of(&key[0], now, SIGHT);
        if bears(old) && !self.lands_late(call) && self.index.was_always(key, uid(old), then, bears) {
            self.breaches.push(format!("{call}: {} belongs to the hub {hub}: {old}", key.join("/")));
        }
    }

    /// Whoever withdraws from an object by an apply of nothing leaves it to another VidraResource that applies it: to one
    /// that there is, and not to whatever name somebody has applied it under.
    fn judge_release(&mut self, call: &Call, key: &Key, new: &Value, now: Instant) {
        if call.verb != Verb::Apply {
            return;
        }
        marks::note("rule:left to another");
        let then = self.sight(now, SIGHT);
        let is_there = |owner: &String| {
            let target = target_name(owner, &key[0]);
            self.index.declared.said_since(owner, then).any(|said| !said.is_null())
                || self.index.targets.contains_key(&target)
                || self.index.holders(key).contains(&target)
        };
        let mut owners = appliers(new).into_iter().filter_map(|manager| owner_of(&manager));
        if !owners.any(|owner| is_there(&owner)) {
            let what = format!("{call}: {} was left to nobody, and not removed: {new}", key.join("/"));
            self.breaches.push(what);
        }
    }

    /// What a VidraResource applies: nothing where its namespace is not allowed, and over no field that one of another
    /// namespace holds, whichever of the two is older.
    pub(super) fn judge_reach(
        &mut self,
        call: &Call,
        resource: &str,
        key: &Key,
        (old, new): (Option<&Value>, &Value),
        now: Instant,
    ) {
        let (name, then) = (key.join("/"), self.sight_of_call(call, now));
        let mut wrong = Vec::new();
        if self.index.declared.has_rested(resource, &key[0], then) {
            wrong.push(format!("{call}: {name} was written for {resource}, which is not allowed there"));
        }
        let stands = |one: &&Target| one.present && one.since < then && one.cluster == key[0];
        let others = self.index.targets.values().filter(stands);
        let mut others = others.filter(|one| !is_near(&one.resource, resource));
        let holder = old.and_then(|old| others.find(|one| self.loses(one, key, (old, new))));
        wrong.extend(holder.map(|one| {
            let holder = &one.resource;
            format!("{call}: {name} was changed where {holder} holds it, of another namespace: {old:?}")
        }));
        self.breaches.extend(wrong);
    }

    /// Has a field that a target declares, and that it has applied, another value now?
    fn loses(&self, target: &Target, key: &Key, (old, new): (&Value, &Value)) -> bool {
        let manager = manager(&target.resource);
        let entries = old["metadata"]["managedFields"].as_array().into_iter().flatten();
        let held = entries.filter(|entry| entry["operation"] == "Apply" && entry["manager"] == manager);
        let held: Vec<_> = held.map(|entry| &entry["fieldsV1"]).collect();
        if held.is_empty() {
            return false;
        }
        marks::note("rule:held by another namespace");
        let asked = self.asked(target);
        asked.get(key).is_some_and(|doc| held.iter().any(|held| is_taken(&doc.body, held, (old, new))))
    }

    /// In this member a group does not answer from now on, or all do again.
    pub fn silence(&mut self, member: &str, silent: bool, now: Instant) {
        if silent {
            self.silent.entry(member.to_owned()).or_insert(now);
        } else {
            self.silent.remove(member);
        }
    }

    /// While a group does not answer nobody knows what is in a Namespace or CRD: one that is to be deleted when it is empty is
    /// neither deleted nor let go.
    fn judge_letting_go(&mut self, call: &Call, key: &Key, old: &Value, now: Instant) {
        let silent = self.silent.get(&key[0]).is_some_and(|since| *since + TOLD_COUNTS_FOR <= now);
        let lands_late = self.landing.contains(&(call.cluster.clone(), call.index));
        if !is_container(key) || !silent || lands_late || old["metadata"]["annotations"][PRUNE] == "disabled"
        {
            return;
        }
        marks::note("rule:release of a container unseen");
        let (owners, then) = (owners_of(old), self.sight(now, SIGHT));
        let is_to_go = |owner: &String| self.goes_when_empty(owner, &key[0], then);
        if !owners.is_empty() && owners.iter().all(is_to_go) {
            let name = key.join("/");
            self.breaches.push(format!("{call}: {name} was let go, while nobody knows what is in it: {old}"));
        }
    }

    /// Has a VidraResource said at each instant since then that its Namespaces and CRDs go when they are empty, and was its
    /// target not to let go what it has?
    fn goes_when_empty(&self, owner: &str, member: &str, then: Instant) -> bool {
        let asks = |spec: &Value| spec["namespaceAndCRDDeletion"] == "WhenEmpty";
        let mut aims = self.index.aims_since(owner, member, (then, 0));
        aims.all(|aim| asks(&aim.spec) && matches!(aim.spec["desired"].as_str(), Some("Present" | "Absent")))
            && self.index.declared.said_since(owner, then).all(asks)
    }

    fn note_foreign(&mut self, call: &Call, key: &Key, old: &Value) {
        let name = key.join("/");
        self.breaches.push(format!("{call}: {name} is none of the hub's business: {old}"));
    }

    /// What the hub cannot prove to be its own it may take where a VidraResource that wants it says so; until it bears
    /// the hub's label it stays what it was.
    fn judge_taking(
        &mut self,
        call: &Call,
        key: &Key,
        (old, new): (&Value, &Value),
        foreign: bool,
        now: Instant,
    ) {
        // What a controller there has made is its own, whoever asks.
        let allowed = self.may_take(key, now).filter(|_| !is_controlled(old));
        marks::note(match allowed {
            None => "rule:taking unasked",
            Some(Taking::AsItIs) => "rule:taking as it is",
            Some(Taking::ToChange) => "rule:taking",
        });
        let changes = content(old) != content(new);
        match allowed {
            None if foreign => self.note_foreign(call, key, old),
            None if self.is_forgetful(&key[0]) => {}
            None => {
                let what = format!("{call}: {} was taken without proof: {old}", key.join("/"));
                self.breaches.push(what);
            }
            Some(Taking::AsItIs) if changes => {
                let what = format!("{call}: {} was changed and not only taken: {old}", key.join("/"));
                self.breaches.push(what);
            }
            Some(_) if changes && !labelled(new) => self.note_foreign(call, key, old),
            Some(_) => {}
        }
        if labelled(new) && allowed.is_some() {
            self.foreign.remove(uid(old));
            self.released.remove(uid(old));
        }
    }

    /// How far those may go that want this.
    fn may_take(&self, key: &Key, now: Instant) -> Option<Taking> {
        let (declared, then) = (&self.index.declared, self.sight(now, SIGHT));
        // A target whose removal is held is kept as it was.
        let names = declared.wanted_lately(key, then).into_iter().chain(self.kept_for(key));
        let names = names.chain(self.brought_lately(key, then));
        let said = names.flat_map(|name| declared.said_since(name, then));
        let said = said.filter_map(|spec| match spec["conflicts"]["existing"].as_str() {
            Some("Adopt") => Some(Taking::ToChange),
            Some("AdoptIfEqual") => Some(Taking::AsItIs),
            _ => None,
        });
        said.max()
    }

    /// The VidraResources with a target that is to bring this, selected or not.
    pub(super) fn kept_for<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = &'a String> {
        let targets = self.index.targets.values().filter(|one| one.present && one.cluster == key[0]);
        let brings = |one: &&Target| self.brings(one, (&one.revision, &one.namespace, &one.inputs), key);
        targets.filter(brings).map(|one| &one.resource)
    }

    /// The VidraResources whose target was to bring this at some instant since then: one that is made, and told something
    /// else at once, may have been heeded in between.
    fn brought_lately<'a>(&'a self, key: &'a Key, then: Instant) -> impl Iterator<Item = &'a String> {
        let targets = self.index.targets.values().filter(|one| one.cluster == key[0]);
        let brought = move |one: &&Target| {
            let mut aims = self.index.aims_since(&one.resource, &one.cluster, (then, 0));
            aims.any(|aim| {
                aim.spec["desired"] == "Present"
                    && self.brings(one, (&aim.revision, &aim.namespace, &aim.inputs), key)
            })
        };
        targets.filter(brought).map(|one| &one.resource)
    }

    /// Whether this revision, in this namespace, with these inputs of the overrides, brings it.
    fn brings(&self, of: &Target, (revision, namespace, inputs): (&str, &str, &Value), key: &Key) -> bool {
        let docs = self.index.declared.revision_with(&of.resource, revision, &of.cluster, inputs);
        docs.is_some_and(|docs| docs.iter().any(|doc| doc.key(&of.cluster, namespace) == *key))
    }

    /// Is it to be taken over as it is declared now, so that nobody has to clear the way?
    pub(super) fn is_to_be_taken(&self, key: &Key) -> bool {
        let declared = &self.index.declared;
        let live = self.index.live(key).unwrap_or_default();
        if is_of_another_hub(&live) || is_controlled(&live) {
            return false;
        }
        declared.wanted_since(key).any(|(name, ..)| {
            // Who only tells of drift takes nothing over that it had delivered.
            declared.said(name).is_some_and(|spec| spec["conflicts"]["existing"] == "Adopt" && !leaves(spec))
        })
    }

    fn judge_deletion(&mut self, call: &Call, key: &Key, old: &Value, proof: bool, now: Instant) {
        // What goes with its namespace is nobody's call.
        if call.verb == Verb::DeleteCollection {
            self.breaches.push(format!("{call}: deletes {} with whatever stands beside it", key.join("/")));
        }
        if call.verb != Verb::Delete || call.name != key[4] {
            return;
        }
        marks::note("rule:deletion");
        let mut wrong = Vec::new();
        if !proof {
            wrong.push("without proof".to_owned());
        }
        wrong.extend(self.heedless(call, old, now));
        let then = self.sight_of_call(call, now);
        let owners = owners_of(old);
        let remakes = self.index.may_be_made_again(key)
            || self.is_made_again_while_held(key)
            || self.was_to_be_made_again(key, &owners, then);
        if remakes {
            marks::note("rule:made again");
        }
        let stays = self.index.declared.stays_since(key);
        let stays = stays.filter(|(resource, since)| *since < then && owners.contains(resource));
        if let Some((resource, _)) = stays.last().filter(|_| !remakes) {
            wrong.push(format!("and is wanted by {resource}"));
        }
        if let Some(heir) = self.heir(key, &owners, then).filter(|_| !remakes) {
            wrong.push(format!("and was to be handed over to {heir}"));
        }
        wrong.extend(
            owners.iter().filter(|_| !remakes).filter_map(|owner| self.keeps_pruned(owner, &key[0], then)),
        );
        wrong.extend(self.judge_removal(call, key, now));
        if is_container(key) {
            marks::note("rule:deletion of a container");
            wrong.extend(self.holds_others(key, &owners, now));
        }
        let name = key.join("/");
        self.breaches
            .extend(wrong.into_iter().map(|what| format!("{call}: {name} was deleted {what}: {old}")));
    }

    /// What makes a deletion wrong whoever has declared the object.
    fn heedless(&self, call: &Call, old: &Value, now: Instant) -> Vec<String> {
        let mut wrong = Vec::new();
        let lately = |(of, at): &&(String, Instant)| of == uid(old) && *at + READ_COUNTS_FOR >= now;
        let is_read = |by: Arc<str>| {
            self.read.get(&(by, call.cluster.clone(), call.path.clone())).is_some_and(|read| lately(&read))
        };
        if !(is_read(call.user.clone()) || self.lands_late(call) && is_read(ended(&call.user))) {
            wrong.push("without a read of it".to_owned());
        }
        if old["metadata"]["annotations"][PRUNE] == "disabled" {
            wrong.push("and was to be kept".to_owned());
        }
        wrong
    }

    /// A target whose removal is held goes on with what it has, though nobody selects its member any more: of that something
    /// may be made again.
    fn is_made_again_while_held(&self, key: &Key) -> bool {
        let is_held = |target: &&Target| {
            let says = self.index.declared.ready_reason(&target.resource);
            target.present && target.cluster == key[0] && says == Some("RemovalHeld")
        };
        let mut held = self.index.targets.values().filter(is_held);
        held.any(|target| self.asked(target).get(key).is_some_and(|doc| doc.may_be_made_again()))
    }

    /// A member has stopped allowing a namespace since then, and until that its target might make this again: the hub may not
    /// know it yet.
    fn was_to_be_made_again(&self, key: &Key, owners: &[String], then: Instant) -> bool {
        let declared = &self.index.declared;
        let asks = |owner: &String, aim: &Aim| {
            let docs = declared.revision_with(owner, &aim.revision, &key[0], &aim.inputs);
            let is_it = |doc: &Doc| doc.may_be_made_again() && doc.key(&key[0], &aim.namespace) == *key;
            aim.spec["desired"] == "Present" && docs.is_some_and(|docs| docs.iter().any(is_it))
        };
        owners
            .iter()
            .filter(|owner| declared.is_just_revoked(owner, &key[0], then))
            .any(|owner| self.index.aims_since(owner, &key[0], (then, 0)).any(|aim| asks(owner, aim)))
    }

    /// Another VidraResource of the namespace, whose target declares this too and has yet to apply it: within a namespace what
    /// moves stays the object that it is. Where the member leaves nobody takes anything over.
    fn heir(&self, key: &Key, owners: &[String], then: Instant) -> Option<&String> {
        let member = self.index.declared.member_named(&key[0])?;
        if !member["metadata"]["deletionTimestamp"].is_null() || owners.is_empty() {
            return None;
        }
        let stands = |one: &&Target| one.present && one.since < then && one.cluster == key[0];
        let heirs = self.index.targets.values().filter(stands);
        let is_other = |owner: &String, one: &Target| *owner != one.resource && is_near(owner, &one.resource);
        let mut heirs = heirs.filter(|one| owners.iter().all(|owner| is_other(owner, one)));
        let heir = heirs.find(|one| self.asked(one).get(key).is_some_and(|doc| !doc.yields()));
        heir.map(|one| &one.resource)
    }

    /// A VidraResource that goes on having this target, and says that nothing is to be pruned.
    fn keeps_pruned(&self, resource: &str, cluster: &str, then: Instant) -> Option<String> {
        let declared = &self.index.declared;
        let stays = |target: &&super::Target| target.resource == resource && target.cluster == cluster;
        let target = self.index.targets.values().find(stays)?;
        let present = target.present && target.since < then && declared.is_alive(resource);
        let keeps = declared.said_since(resource, then).all(|spec| spec["prune"] == false);
        (present && keeps).then(|| format!("and {resource} does not prune"))
    }

    /// A Namespace or CRD goes only where that is asked for, and nothing of others is in it.
    fn holds_others(&self, key: &Key, owners: &[String], now: Instant) -> Option<String> {
        let (declared, then) = (&self.index.declared, self.sight(now, SIGHT));
        let stays = |owner: &String| {
            self.index.targets.get(&target_name(owner, &key[0])).is_some_and(|target| target.present)
        };
        let asks = |owner: &String| {
            // What goes waits for no manifest.
            let written = declared.written_since(owner, then).filter(|_| !stays(owner));
            let mut specs = declared.said_since(owner, then).chain(written);
            specs.any(|spec| spec["namespaceAndCRDDeletion"] == "WhenEmpty")
        };
        if !owners.is_empty() && !owners.iter().any(asks) {
            return Some("and was to be retained".to_owned());
        }
        let then = self.sight_of(&key[0], now, SIGHT);
        let mut foreign = self.index.contents(key, then).filter(|(_, live)| self.foreign.contains(uid(live)));
        foreign.next().map(|(within, _)| format!("with {} in it", within.join("/")))
    }
}

/// Does what others put into it go with it?
pub(super) fn is_container(key: &Key) -> bool {
    matches!(key[2].as_str(), "Namespace" | "CustomResourceDefinition")
}

/// The VidraResources that have applied it.
fn owners_of(object: &Value) -> Vec<String> {
    appliers(object).into_iter().filter_map(|manager| owner_of(&manager)).collect()
}

/// How far taking over may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Taking {
    /// No value may change.
    AsItIs,
    /// It may be made as declared.
    ToChange,
}

/// Is a value that this entry owns another one now, and not what is declared? Lists are passed over: an entry owns items of
/// theirs, and the namespaces share none.
fn is_taken(declared: &Value, owned: &Value, (old, new): (&Value, &Value)) -> bool {
    match (declared, owned) {
        (Value::Object(declared), Value::Object(owned)) if !owned.is_empty() => {
            declared.iter().any(|(field, value)| {
                let within = owned.get(&format!("f:{field}"));
                within.is_some_and(|owned| is_taken(value, owned, (&old[field], &new[field])))
            })
        }
        (Value::Array(_), _) => false,
        _ => !owned.is_null() && old != new && declared != new,
    }
}

/// What an object says beside its metadata and its status.
pub(super) fn content(object: &Value) -> Value {
    let mut content = object.clone();
    if let Some(content) = content.as_object_mut() {
        content.retain(|field, _| field != "metadata" && field != "status");
    }
    content
}

//! What goes with its owner, by the rules of Kubernetes' garbage collector (pkg/controller/garbagecollector),
//! done in the step that calls for it: propagation policies, and objects whose owners are gone.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::failure::Failure;
use super::kinds::Kind;
use super::lag::Deferred;
use super::lifecycle::is_terminating;
use super::managed;
use super::store::{Place, Resource, Store};
use super::write::{Validation, Write, text};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What a deletion means for what the object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// It goes afterwards.
    Background,
    /// It goes first.
    Foreground,
    /// It stays, without this owner.
    Orphan,
}

impl Policy {
    /// What a DELETE asks for, or its kind's default.
    pub fn of(kind: &Kind, live: &Value, options: &Value) -> Result<Self, Failure> {
        let orphan = options["orphanDependents"].as_bool();
        let policy = options["propagationPolicy"].as_str();
        let refused = |why: &str| {
            let field = "propagationPolicy";
            Err(Failure::invalid("DeleteOptions", "meta.k8s.io", "", field, why))
        };
        match (policy, orphan) {
            (Some(_), Some(_)) => {
                refused("Invalid value: orphanDependents and deletionPropagation cannot be both set")
            }
            (Some("Background"), _) | (None, Some(false)) => Ok(Policy::Background),
            (Some("Foreground"), _) => Ok(Policy::Foreground),
            (Some("Orphan"), _) | (None, Some(true)) => Ok(Policy::Orphan),
            (Some(other), _) => refused(&format!(
                "Unsupported value: {other:?}: supported values: \"Background\", \"Foreground\", \"Orphan\", \"nil\""
            )),
            (None, None) if has(live, ORPHAN) => Ok(Policy::Orphan),
            (None, None) if has(live, FOREGROUND) => Ok(Policy::Foreground),
            (None, None) => Ok(match (kind.group.as_str(), kind.plural.as_str()) {
                ("batch", "jobs") | ("", "replicationcontrollers") => Policy::Orphan,
                _ => Policy::Background,
            }),
        }
    }

    /// The object's finalizers once a deletion of this kind has begun.
    pub fn finalizers(self, live: &Value) -> Vec<Value> {
        let all = live["metadata"]["finalizers"].as_array().into_iter().flatten();
        let mut kept: Vec<Value> =
            all.filter(|one| **one != ORPHAN && **one != FOREGROUND).cloned().collect();
        match self {
            Policy::Background => {}
            Policy::Foreground => kept.push(json!(FOREGROUND)),
            Policy::Orphan => kept.push(json!(ORPHAN)),
        }
        kept
    }
}

fn has(object: &Value, finalizer: &str) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|one| one == finalizer))
}

fn owners(object: &Value) -> Vec<Value> {
    object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default()
}

/// What the collector finds of an owner.
enum Owner {
    Absent,
    /// It waits for what it owns to go.
    Waiting,
    /// It is there, or nobody knows.
    Solid,
}

/// What the collector has still to look at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    /// An object whose owners may be gone.
    Collect,
    /// An owner that may have waited long enough.
    Settle,
}

impl Store {
    /// Does for an object that a deletion has just marked what its finalizers ask for, when the collector
    /// comes to it.
    pub(super) fn release(&mut self, resource: &Resource, place: &Place, now: Timestamp) {
        let after = self.controllers.lag.garbage;
        if after.is_zero() {
            self.release_now(resource, place, now);
        } else {
            self.later(after, Deferred::Release((resource.clone().into(), place.clone().into())));
        }
    }

    pub(super) fn release_now(&mut self, resource: &Resource, place: &Place, now: Timestamp) {
        let Some(live) = self.get(resource, place).filter(|live| is_terminating(live)) else { return };
        let uid = text(&live, "uid");
        if has(&live, ORPHAN) {
            for (resource, place) in self.dependents(uid) {
                self.disown(&resource, &place, now, |owner| owner["uid"] == uid);
            }
            self.unfinalize(resource, place, now, ORPHAN);
        }
        if has(&live, FOREGROUND) {
            let tasks = self.dependents(uid).into_iter().map(|one| (one, Task::Collect));
            self.tasks.extend(tasks);
            self.tasks.push_back(((resource.clone().into(), place.clone().into()), Task::Settle));
            self.work(now);
        }
    }

    /// Does what there is to do. Only the outermost call does it: chains of owners of any length are walked
    /// without recursion.
    fn work(&mut self, now: Timestamp) {
        if self.working {
            return;
        }
        let after = self.controllers.lag.garbage;
        if !after.is_zero() {
            for (one, task) in std::mem::take(&mut self.tasks) {
                self.later(after, Deferred::Collect(one, task));
            }
            return;
        }
        self.working = true;
        while let Some(((resource, place), task)) = self.tasks.pop_front() {
            self.look_at(&resource, &place, task, now);
        }
        self.working = false;
    }

    pub(super) fn look_at(&mut self, resource: &Resource, place: &Place, task: Task, now: Timestamp) {
        match task {
            Task::Collect => self.collect(resource, place, now),
            Task::Settle => self.settle(resource, place, now),
        }
    }

    /// Deletes what has lost its last owner, after an object went or came; its owners may be waiting for it.
    pub(super) fn owner_gone(&mut self, gone: &Value, now: Timestamp) {
        let tasks = self.dependents(text(gone, "uid")).into_iter().map(|one| (one, Task::Collect));
        self.tasks.extend(tasks);
        self.freed(gone, now);
    }

    /// Owners of an object that went, or no longer names them, may have waited for that.
    fn freed(&mut self, live: &Value, now: Timestamp) {
        for owner in owners(live) {
            if let Some((resource, place)) = self.locate(&owner, text(live, "namespace")) {
                self.tasks.push_back(((resource.into(), place.into()), Task::Settle));
            }
        }
        self.work(now);
    }

    /// After a write: an object may have come without an owner that is there, or let one go.
    pub(super) fn owners_written(&mut self, write: &Write, live: Option<&Value>, stored: &Value) {
        let before = live.map_or(&Value::Null, |live| &live["metadata"]["ownerReferences"]);
        if *before == stored["metadata"]["ownerReferences"] {
            return;
        }
        let here = (write.resource().into(), write.place.clone().into());
        self.tasks.push_back((here, Task::Collect));
        self.freed(live.unwrap_or(&Value::Null), write.now);
    }

    /// Looks at an object's owners: where all are gone or going it goes too, where some are it loses those.
    fn collect(&mut self, resource: &Resource, place: &Place, now: Timestamp) {
        let Some(live) = self.get(resource, place) else { return };
        let owners = owners(&live);
        if owners.is_empty() || (is_terminating(&live) && !has(&live, FOREGROUND)) {
            return;
        }
        let (mut solid, mut waiting, mut lost) = (false, false, Vec::new());
        for owner in &owners {
            match self.owner(owner, &place.namespace) {
                Owner::Solid => solid = true,
                Owner::Waiting => {
                    waiting = true;
                    lost.push(owner["uid"].clone());
                }
                Owner::Absent => lost.push(owner["uid"].clone()),
            }
        }
        if lost.is_empty() {
            return;
        }
        if solid {
            self.disown(resource, place, now, |owner| lost.contains(&owner["uid"]));
            return;
        }
        let own = !self.dependents(text(&live, "uid")).is_empty();
        let policy = match () {
            () if waiting && own => Policy::Foreground,
            () if has(&live, ORPHAN) => Policy::Orphan,
            () if has(&live, FOREGROUND) => Policy::Foreground,
            () => Policy::Background,
        };
        self.delete_object(resource, place, policy, now);
    }

    /// Ends a foreground deletion that nothing blocks any more.
    fn settle(&mut self, resource: &Resource, place: &Place, now: Timestamp) {
        let Some(live) = self.get(resource, place).filter(|live| is_terminating(live)) else { return };
        if !has(&live, FOREGROUND) {
            return;
        }
        let uid = text(&live, "uid");
        let blocked = self.dependents(uid).iter().any(|(resource, place)| {
            let dependent = self.get(resource, place).unwrap_or_default();
            owners(&dependent).iter().any(|owner| owner["uid"] == uid && owner["blockOwnerDeletion"] == true)
        });
        if !blocked {
            self.unfinalize(resource, place, now, FOREGROUND);
        }
    }

    fn owner(&self, owner: &Value, namespace: &str) -> Owner {
        let Some(kind) = self.kind_named(owner) else { return Owner::Solid };
        if kind.namespaced && namespace.is_empty() {
            // An owner in a namespace cannot be found from outside; the collector leaves such objects alone.
            return Owner::Solid;
        }
        let live = self.locate(owner, namespace).and_then(|(resource, place)| self.get(&resource, &place));
        match live {
            Some(live) if is_terminating(&live) && has(&live, FOREGROUND) => Owner::Waiting,
            Some(_) => Owner::Solid,
            None => Owner::Absent,
        }
    }

    fn kind_named(&self, owner: &Value) -> Option<&Kind> {
        let (version, kind) = (owner["apiVersion"].as_str()?, owner["kind"].as_str()?);
        self.kinds.iter().map(|kind| &**kind).find(|one| one.kind == kind && one.api_version() == version)
    }

    /// Where an owner is, if it is there under its uid.
    fn locate(&self, owner: &Value, namespace: &str) -> Option<(Resource, Place)> {
        let kind = self.kind_named(owner)?;
        let namespace = if kind.namespaced { namespace } else { "" };
        let (resource, place) = (Resource::from(kind), Place::new(namespace, owner["name"].as_str()?));
        let live = self.get(&resource, &place)?;
        (live["metadata"]["uid"] == owner["uid"]).then_some((resource, place))
    }

    /// Takes owners off an object.
    fn disown(&mut self, resource: &Resource, place: &Place, now: Timestamp, lost: impl Fn(&Value) -> bool) {
        self.amend(resource, place, now, "ownerReferences", |owner| !lost(owner));
    }

    fn unfinalize(&mut self, resource: &Resource, place: &Place, now: Timestamp, finalizer: &str) {
        self.amend(resource, place, now, "finalizers", |one| one != finalizer);
    }

    /// The collector's patch: keeps those items of a list of the metadata that it is told to.
    fn amend(
        &mut self,
        resource: &Resource,
        place: &Place,
        now: Timestamp,
        field: &str,
        keep: impl Fn(&Value) -> bool,
    ) {
        let Some(live) = self.get(resource, place) else { return };
        let same =
            |kind: &&std::sync::Arc<Kind>| kind.group == resource.group && kind.plural == resource.plural;
        let Some(kind) = self.kinds.iter().find(same).cloned() else { return };
        let write = Write {
            gate: None,
            kind,
            place: place.clone(),
            subresource: String::new(),
            manager: "kube-controller-manager".to_owned(),
            dry_run: false,
            validation: Validation::Ignore,
            exact: false,
            now,
        };
        let mut new = Value::clone(&live);
        if let Some(list) = new["metadata"][field].as_array_mut() {
            list.retain(keep);
        }
        managed::update(&live, false, &mut new, &self.writer(&write));
        // Nothing but these lists changes: no rule of a kind is broken by it.
        let _ = self.finish(&write, Some(&live), new);
    }
}

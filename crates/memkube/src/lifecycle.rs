//! How objects come, change and go: server-made fields, generation, finalizers, and the kinds that hold
//! others (a Namespace its objects, a CustomResourceDefinition its instances). What goes with its owner is in
//! `garbage`.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::admission::Written;
use super::aggregated;
use super::builtin::{self, NAME_LABEL};
use super::custom;
use super::deep;
use super::failure::Failure;
use super::garbage::Policy;
use super::kinds::{self, CRD_GROUP, CRD_PLURAL};
use super::lag::Deferred;
use super::limits;
use super::managed::{self, same_but_times};
use super::store::{Object, Place, Resource, Somewhere, Store, rfc3339};
use super::write::{Validation, Write, drop_empty_metadata, set, text};

/// Set by the server; what a client sends there is not taken.
const SERVER_FIELDS: [&str; 7] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
];

impl Store {
    /// Does the namespace take new objects, and the CRD?
    pub(super) fn check_namespace(&self, write: &Write) -> Result<(), Failure> {
        let Write { kind, place, .. } = write;
        if kind.custom().is_some() {
            let crd = self.get(&Resource::new(CRD_GROUP, CRD_PLURAL), &Place::new("", &kind.qualified()));
            if crd.is_some_and(|crd| is_terminating(&crd)) {
                return Err(Failure::ending(kind, &place.name));
            }
        }
        if !kind.namespaced {
            return Ok(());
        }
        match self.get(&Resource::new("", "namespaces"), &Place::new("", &place.namespace)) {
            None => Err(Failure::no_namespace(&place.namespace)),
            Some(namespace) if is_terminating(&namespace) => {
                Err(Failure::terminating(kind, &place.name, &place.namespace))
            }
            Some(_) => Ok(()),
        }
    }

    /// Makes an object a new one: server-made fields are set.
    pub(super) fn begin(&mut self, write: &Write, object: &mut Value) {
        let Write { kind, place, .. } = write;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|field, _| !SERVER_FIELDS.contains(&field.as_str()));
            metadata.insert("uid".into(), json!(self.uid()));
            metadata.insert("creationTimestamp".into(), json!(rfc3339(write.now)));
            if kind.has_generation() {
                metadata.insert("generation".into(), json!(1));
            }
        }
        if kind.status_subresource {
            set(object, "status", write.empty()["status"].take());
        }
        if kind.is_builtin() {
            builtin::complete(kind, object);
            builtin::allocate(kind, object, &mut |below| self.chance.u32(..below));
        }
        if kind.is_namespace() {
            object["metadata"]["labels"][NAME_LABEL] = json!(place.name);
        }
        self.begin_service(kind, object, write.now);
        if (kind.group.as_str(), kind.plural.as_str()) == ("", "persistentvolumes") {
            object["status"]["lastPhaseTransitionTime"] = json!(rfc3339(write.now));
        }
        if kind.is_crd() {
            // Not yet established: that is the next write.
            let names = json!({"kind": "", "plural": ""});
            object["status"] = json!({"acceptedNames": names, "conditions": null, "storedVersions": custom::stored_versions(object)});
        }
    }

    /// Stores the new object unless nothing changed or the run is dry; the last finalizer of a terminating
    /// object gone, the object goes instead. Gives the object as answered.
    pub(super) fn finish(
        &mut self,
        write: &Write,
        live: Option<&Object>,
        mut new: Value,
    ) -> Result<Object, Failure> {
        let Write { kind, place, .. } = write;
        drop_empty_metadata(&mut new);
        if let Some(live) = live {
            keep_server_fields(live, &mut new);
            if kind.is_namespace() {
                new["spec"] = live["spec"].clone();
                new["metadata"]["labels"][NAME_LABEL] = json!(place.name);
            }
            if kind.plural == "services" && kind.group.is_empty() {
                let mut draw = |below| self.chance.u32(..below);
                builtin::readdress(&live["spec"], &mut new["spec"], &mut draw);
            }
            let phase = "/status/phase";
            let since = "lastPhaseTransitionTime";
            if kind.plural == "persistentvolumes" && live.pointer(phase) != new.pointer(phase) {
                new["status"][since] = json!(rfc3339(write.now));
            } else if kind.plural == "persistentvolumes" && new["status"][since].is_null() {
                new["status"][since] = live["status"][since].clone();
            }
            if kind.is_crd() {
                new["status"]["storedVersions"] = custom::all_stored(live, &new);
            }
            write.validate(Some(live), &new)?;
            self.admit(write, Written::Update(&new))?;
            let same = if write.exact { new == **live } else { same_but_times(&new, live) };
            if same {
                return Ok(live.clone());
            }
            self.warn(write, live, &new);
            refuse_new_finalizers(write, live, &new)?;
            // Of a Deployment the annotations count too: its ReplicaSets bear them.
            let annotated = kind.plural == "deployments"
                && !write.status()
                && live["metadata"]["annotations"] != new["metadata"]["annotations"];
            // The generation of a PriorityClass stays what it was.
            let counted = kind.plural != "priorityclasses";
            if counted && (content(live) != content(&new) || annotated) {
                bump_generation(&mut new);
            }
        } else {
            write.validate(None, &new)?;
            self.warn(write, &Value::Null, &new);
            self.admit(write, Written::Create(&new))?;
            if self.has(&write.resource(), place) {
                return Err(Failure::already_exists(kind, &place.name));
            }
        }
        if !self.any_size {
            limits::stored(&new)?;
        }
        deep::stored(&new)?;
        if write.dry_run {
            return Ok(new.into());
        }
        let resource = write.resource();
        let clearing = self.clearing(&resource);
        if is_terminating(&new)
            && finalizers(&new).is_empty()
            && clearing.is_zero()
            && self.contents(&resource, &place.name).is_empty()
        {
            self.erase(&resource, place, write.now);
            return Ok(new.into());
        }
        if kind.is_crd() && live.is_some_and(|live| custom::is_established(live)) {
            self.serve(&place.name, &new);
        }
        let stored = self.write(&resource, place, Some(new));
        let stored = stored.unwrap_or_default();
        if kind.is_crd() && live.is_none() {
            match self.controllers.lag.establishing {
                Duration::ZERO => self.write_established(place, &stored, write.now),
                after => self.later(after, Deferred::Establish(place.clone())),
            }
        }
        if is_terminating(&stored) && !clearing.is_zero() {
            self.later(clearing, Deferred::Clear(resource, place.clone()));
        }
        self.owners_written(write, live.map(|live| &**live), &stored);
        Ok(stored)
    }

    /// What is allowed and not advised, once each: finalizers of custom resources that name no domain, and
    /// what a Service without an address ignores.
    pub(super) fn warn(&mut self, write: &Write, live: &Value, new: &Value) {
        let mut warnings = Vec::new();
        if write.kind.custom().is_some() {
            let known = finalizers(live);
            let all = finalizers(new).into_iter();
            let bare = all.filter(|one| !one.contains('/') && !known.contains(one) && !OWN.contains(one));
            warnings.extend(bare.map(|one| {
                format!("metadata.finalizers: {one:?}: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers")
            }));
        }
        let spec = &new["spec"];
        if write.kind.plural == "services"
            && spec["clusterIP"] == "None"
            && spec["sessionAffinity"] == "ClientIP"
        {
            warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
        warnings.retain(|warning| !self.warnings.contains(warning));
        self.warnings.extend(warnings);
    }

    /// DELETE: the object with its deletionTimestamp, or None when it is gone.
    pub fn delete(&mut self, write: &Write, options: &Value) -> Result<Option<Object>, Failure> {
        let live = self.existing(write)?;
        for (field, named) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let found = text(&live, field);
            if let Some(wanted) = options["preconditions"][field].as_str()
                && wanted != found
            {
                return Err(Failure::precondition(&write.kind, &write.place.name, named, wanted, found));
            }
        }
        self.admit(write, Written::Delete(&live))?;
        let resource = write.resource();
        let policy = Policy::of(&write.kind, &live, options)?;
        if write.dry_run {
            return Ok(stays(&resource, &marked(&resource, &live, policy, write.now)).then_some(live));
        }
        let left = self.delete_object(&resource, &write.place, policy, write.now);
        match self.clearing(&resource) {
            Duration::ZERO => self.clear(&resource, &write.place, write.now),
            after => self.later(after, Deferred::Clear(resource, write.place.clone())),
        }
        Ok(left)
    }

    /// Deletes what a Namespace or a CRD holds that is being deleted, and it when it holds nothing.
    pub(super) fn clear(&mut self, resource: &Resource, place: &Place, now: Timestamp) {
        if !self.get(resource, place).is_some_and(|holder| is_terminating(&holder)) {
            return;
        }
        let contents = self.contents(resource, &place.name);
        let empty = contents.is_empty();
        for (resource, place) in contents {
            self.delete_object(&resource, &place, Policy::Background, now);
        }
        // A controller that lags finds it empty the next time.
        if empty || self.clearing(resource).is_zero() {
            self.erase_if_empty(resource, place, now);
        }
    }

    /// Writes that a CRD is established, and serves its kinds.
    pub(super) fn write_established(&mut self, place: &Place, crd: &Value, now: Timestamp) {
        let Some(kind) = self.kind(CRD_GROUP, "v1", CRD_PLURAL).cloned() else { return };
        let controller = Write {
            kind,
            place: place.clone(),
            subresource: "status".to_owned(),
            manager: "kube-apiserver".to_owned(),
            dry_run: false,
            validation: Validation::Ignore,
            exact: false,
            now,
            gate: None,
        };
        self.serve(&place.name, crd);
        let mut established = crd.clone();
        established["status"] = custom::crd_status(crd, now);
        managed::update(crd, false, &mut established, &self.writer(&controller));
        self.write(&controller.resource(), place, Some(established));
    }

    /// Looks at a holder that may be empty now, when its controller comes to it.
    fn emptied(&mut self, resource: &Resource, place: &Place, now: Timestamp) {
        match self.clearing(resource) {
            Duration::ZERO => self.erase_if_empty(resource, place, now),
            after if self.get(resource, place).is_some_and(|holder| is_terminating(&holder)) => {
                self.later(after, Deferred::Clear(resource.clone(), place.clone()));
            }
            _ => {}
        }
    }

    /// Removes an object, or marks it as terminating where something holds it, and does what the policy says
    /// of what it owns. Gives the object as marked.
    pub(super) fn delete_object(
        &mut self,
        resource: &Resource,
        place: &Place,
        policy: Policy,
        now: Timestamp,
    ) -> Option<Object> {
        let live = self.get(resource, place)?;
        let new = marked(resource, &live, policy, now);
        if !stays(resource, &new) {
            self.erase(resource, place, now);
            return None;
        }
        if new == *live {
            return Some(live);
        }
        let new = self.write(resource, place, Some(new));
        self.release(resource, place, now);
        new
    }

    /// Takes an object out; a terminating holder that this empties follows, and so does what it owned.
    fn erase(&mut self, resource: &Resource, place: &Place, now: Timestamp) {
        let gone = if self.has_dependents() { self.get(resource, place) } else { None };
        self.write(resource, place, None);
        if is_crds(resource) {
            self.serve(&place.name, &Value::Null);
        }
        if aggregated::is_api_services(resource) {
            self.end_namespaces(now);
        }
        if let Some(gone) = gone {
            self.owner_gone(&gone, now);
        }
        if !place.namespace.is_empty() {
            self.emptied(&Resource::new("", "namespaces"), &Place::new("", &place.namespace), now);
        }
        let crd = format!("{}.{}", resource.plural, resource.group);
        self.emptied(&Resource::new(CRD_GROUP, CRD_PLURAL), &Place::new("", &crd), now);
    }

    /// Ends the terminating namespaces that nothing holds any more.
    pub(super) fn end_namespaces(&mut self, now: Timestamp) {
        for place in self.terminating_namespaces() {
            self.erase_if_empty(&Resource::new("", "namespaces"), &place, now);
        }
    }

    /// Ends a terminating Namespace or CRD that holds nothing more.
    fn erase_if_empty(&mut self, resource: &Resource, place: &Place, now: Timestamp) {
        let Some(holder) = self.get(resource, place) else { return };
        if is_terminating(&holder)
            && finalizers(&holder).is_empty()
            && self.contents(resource, &place.name).is_empty()
            && !(*resource == Resource::new("", "namespaces") && self.waits_for_discovery(place, now))
        {
            self.erase(resource, place, now);
        }
    }

    /// What goes with a Namespace or a CRD; nothing for other kinds.
    fn contents(&self, resource: &Resource, name: &str) -> Vec<Somewhere> {
        if *resource == Resource::new("", "namespaces") {
            return self.in_namespace(name);
        }
        if is_crds(resource)
            && let Some((plural, group)) = name.split_once('.')
        {
            return self.places(&Resource::new(group, plural));
        }
        Vec::new()
    }

    /// Serves what a CRD declares, and of its kind nothing else.
    fn serve(&mut self, crd_name: &str, crd: &Value) {
        let served = kinds::of_crd(crd);
        self.hold_discovery();
        self.kinds.retain(|kind| {
            kind.qualified() != crd_name || served.iter().any(|new| new.version == kind.version)
        });
        served.into_iter().for_each(|kind| self.register(kind));
        self.publish();
    }
}

fn is_crds(resource: &Resource) -> bool {
    *resource == Resource::new(CRD_GROUP, CRD_PLURAL)
}

/// Finalizers that controllers of a full cluster take off as soon as nothing uses the volume; here there are
/// none, and nothing uses it.
const VOLUMES: [&str; 2] = ["kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"];

/// Finalizers that the server knows itself.
const OWN: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Does a deletion only mark it? Namespaces and CRDs first let go what they hold.
fn stays(resource: &Resource, object: &Value) -> bool {
    *resource == Resource::new("", "namespaces") || is_crds(resource) || !finalizers(object).is_empty()
}

/// An object as a deletion leaves it where something holds it.
fn marked(resource: &Resource, live: &Value, policy: Policy, now: Timestamp) -> Value {
    let mut new = live.clone();
    let finalizers = policy.finalizers(live);
    let finalizers = if finalizers.is_empty() { Value::Null } else { Value::Array(finalizers) };
    set(&mut new["metadata"], "finalizers", finalizers);
    if is_terminating(live) {
        return new;
    }
    new["metadata"]["deletionTimestamp"] = json!(rfc3339(now));
    if *resource == Resource::new("", "namespaces") {
        new["status"] = json!({"phase": "Terminating"});
    } else if !is_crds(resource) {
        new["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    }
    bump_generation(&mut new);
    new
}

pub(super) fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn finalizers(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["finalizers"].as_array();
    list.into_iter().flatten().filter_map(Value::as_str).filter(|one| !VOLUMES.contains(one)).collect()
}

fn refuse_new_finalizers(write: &Write, live: &Value, new: &Value) -> Result<(), Failure> {
    let old = finalizers(live);
    let added: Vec<_> = finalizers(new).into_iter().filter(|one| !old.contains(one)).collect();
    if !is_terminating(live) || added.is_empty() {
        return Ok(());
    }
    let why = format!(
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
    );
    // The real server says it twice.
    let wrong = ("metadata.finalizers".to_owned(), "FieldValueForbidden", why);
    Err(write.invalid_fields(&[wrong.clone(), wrong]))
}

/// What generation counts the changes of.
fn content(object: &Value) -> Vec<(&String, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(|(key, _)| *key != "metadata" && *key != "status").collect()
}

/// Objects that have no generation get none.
fn bump_generation(object: &mut Value) {
    if let Some(generation) = object["metadata"]["generation"].as_u64() {
        object["metadata"]["generation"] = json!(generation + 1);
    }
}

/// Puts back what the server keeps; apiVersion too, which is the stored one.
fn keep_server_fields(live: &Value, new: &mut Value) {
    new["apiVersion"] = live["apiVersion"].clone();
    let Some(metadata) = new["metadata"].as_object_mut() else { return };
    for field in SERVER_FIELDS {
        match &live["metadata"][field] {
            Value::Null => {
                metadata.remove(field);
            }
            kept => {
                metadata.insert(field.into(), kept.clone());
            }
        }
    }
}

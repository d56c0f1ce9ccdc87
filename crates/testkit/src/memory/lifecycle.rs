//! How objects come, change and go: server-made fields, generation, finalizers, and the kinds that hold
//! others (a Namespace its objects, a CustomResourceDefinition its instances).

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::failure::Failure;
use super::kinds::{self, CRD_GROUP, CRD_PLURAL};
use super::store::{Place, Resource, Store, rfc3339};
use super::write::{Write, drop_empty_metadata, text};

/// The label that every Namespace bears.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

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
    /// Makes an object a new one: its namespace must take it; server-made fields are set.
    pub(super) fn begin(&mut self, write: &Write, object: &mut Value) -> Result<(), Failure> {
        let Write { kind, place, .. } = write;
        if kind.namespaced {
            let namespace = self.get(&Resource::new("", "namespaces"), &Place::new("", &place.namespace));
            match namespace {
                None => return Err(Failure::no_namespace(&place.namespace)),
                Some(namespace) if is_terminating(&namespace) => {
                    return Err(Failure::terminating(kind, &place.name, &place.namespace));
                }
                Some(_) => {}
            }
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|field, _| !SERVER_FIELDS.contains(&field.as_str()));
            metadata.insert("uid".into(), json!(self.uid()));
            metadata.insert("creationTimestamp".into(), json!(rfc3339(write.now)));
            if kind.has_generation() {
                metadata.insert("generation".into(), json!(1));
            }
        }
        if kind.status_subresource
            && let Some(map) = object.as_object_mut()
        {
            map.remove("status");
        }
        if kind.is_namespace() {
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
            object["metadata"]["labels"][NAME_LABEL] = json!(place.name);
        }
        if kind.is_crd() {
            object["status"] = crd_status(object, write.now);
        }
        Ok(())
    }

    /// Stores the new object unless nothing changed or the run is dry; the last finalizer of a terminating
    /// object gone, the object goes instead. Gives the object as answered.
    pub(super) fn finish(
        &mut self,
        write: &Write,
        live: Option<&Value>,
        mut new: Value,
    ) -> Result<Value, Failure> {
        let Write { kind, place, .. } = write;
        drop_empty_metadata(&mut new);
        if let Some(live) = live {
            keep_server_fields(live, &mut new);
            if kind.is_namespace() {
                new["spec"] = live["spec"].clone();
                new["metadata"]["labels"][NAME_LABEL] = json!(place.name);
            }
            if new == *live {
                return Ok(new);
            }
            refuse_new_finalizers(write, live, &new)?;
            if content(live) != content(&new) {
                bump_generation(&mut new);
            }
        }
        if write.dry_run {
            return Ok(new);
        }
        let resource = write.resource();
        if is_terminating(&new)
            && finalizers(&new).is_empty()
            && self.contents(&resource, &place.name).is_empty()
        {
            self.erase(&resource, place);
            return Ok(new);
        }
        if kind.is_crd() {
            self.serve(&place.name, &new);
        }
        let stored = self.write(&resource, place, Some(new));
        Ok(stored.map(|object| (*object).clone()).unwrap_or_default())
    }

    /// DELETE: the object with its deletionTimestamp, or None when it is gone.
    pub fn delete(&mut self, write: &Write, options: &Value) -> Result<Option<Value>, Failure> {
        let live = self.existing(write)?;
        for (field, named) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let found = text(&live, field);
            if let Some(wanted) = options["preconditions"][field].as_str()
                && wanted != found
            {
                return Err(Failure::precondition(&write.kind, &write.place.name, named, wanted, found));
            }
        }
        let resource = write.resource();
        if write.dry_run {
            return Ok(stays(&resource, &live).then(|| (*live).clone()));
        }
        let left = self.delete_object(&resource, &write.place, write.now);
        for (resource, place) in self.contents(&resource, &write.place.name) {
            self.delete_object(&resource, &place, write.now);
        }
        self.erase_if_empty(&resource, &write.place);
        Ok(left.map(|object| (*object).clone()))
    }

    /// Removes an object, or marks it as terminating where something holds it.
    fn delete_object(&mut self, resource: &Resource, place: &Place, now: Timestamp) -> Option<Arc<Value>> {
        let live = self.get(resource, place)?;
        if !stays(resource, &live) {
            self.erase(resource, place);
            return None;
        }
        if is_terminating(&live) {
            return Some(live);
        }
        let mut new = (*live).clone();
        new["metadata"]["deletionTimestamp"] = json!(rfc3339(now));
        new["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        if *resource == Resource::new("", "namespaces") {
            new["status"] = json!({"phase": "Terminating"});
        }
        bump_generation(&mut new);
        self.write(resource, place, Some(new))
    }

    /// Takes an object out; a terminating holder that this empties follows.
    fn erase(&mut self, resource: &Resource, place: &Place) {
        self.write(resource, place, None);
        if is_crds(resource) {
            self.serve(&place.name, &Value::Null);
        }
        if !place.namespace.is_empty() {
            self.erase_if_empty(&Resource::new("", "namespaces"), &Place::new("", &place.namespace));
        }
        let crd = format!("{}.{}", resource.plural, resource.group);
        self.erase_if_empty(&Resource::new(CRD_GROUP, CRD_PLURAL), &Place::new("", &crd));
    }

    /// Ends a terminating Namespace or CRD that holds nothing more.
    fn erase_if_empty(&mut self, resource: &Resource, place: &Place) {
        let Some(holder) = self.get(resource, place) else { return };
        if is_terminating(&holder)
            && finalizers(&holder).is_empty()
            && self.contents(resource, &place.name).is_empty()
        {
            self.erase(resource, place);
        }
    }

    /// What goes with a Namespace or a CRD; nothing for other kinds.
    fn contents(&self, resource: &Resource, name: &str) -> Vec<(Resource, Place)> {
        if *resource == Resource::new("", "namespaces") {
            return self.in_namespace(name);
        }
        if is_crds(resource)
            && let Some((plural, group)) = name.split_once('.')
        {
            let instances = Resource::new(group, plural);
            let places = self.table(&instances).into_iter().flat_map(|table| table.keys().cloned());
            return places.map(|place| (instances.clone(), place)).collect();
        }
        Vec::new()
    }

    /// Serves what a CRD declares, and of its kind nothing else.
    fn serve(&mut self, crd_name: &str, crd: &Value) {
        let served = kinds::of_crd(crd);
        self.kinds.retain(|kind| {
            kind.qualified() != crd_name || served.iter().any(|new| new.version == kind.version)
        });
        served.into_iter().for_each(|kind| self.register(kind));
    }
}

fn is_crds(resource: &Resource) -> bool {
    *resource == Resource::new(CRD_GROUP, CRD_PLURAL)
}

/// Does a deletion only mark it? Namespaces and CRDs first let go what they hold.
fn stays(resource: &Resource, object: &Value) -> bool {
    *resource == Resource::new("", "namespaces") || is_crds(resource) || !finalizers(object).is_empty()
}

pub(super) fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn finalizers(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["finalizers"].as_array();
    list.into_iter().flatten().filter_map(Value::as_str).collect()
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
    Err(write.invalid("metadata.finalizers", &why))
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

/// A CRD is established at once; on the real server that takes some milliseconds.
fn crd_status(crd: &Value, now: Timestamp) -> Value {
    let condition = |kind: &str, reason: &str| {
        json!({
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": "",
            "lastTransitionTime": rfc3339(now),
        })
    };
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    let stored: Vec<_> =
        versions.filter(|version| version["storage"] == true).map(|version| &version["name"]).collect();
    json!({
        "acceptedNames": crd["spec"]["names"],
        "conditions": [
            condition("NamesAccepted", "NoConflicts"),
            condition("Established", "InitialNamesAccepted"),
        ],
        "storedVersions": stored,
    })
}

//! The writing verbs: what each checks before the bookkeeping that all share (`lifecycle`).

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::failure::Failure;
use super::fields;
use super::kinds::Kind;
use super::managed::{self, Writer};
use super::store::{Place, Resource, Store, rfc3339};

/// One write: of which object, how, by whom.
pub(super) struct Write {
    pub kind: Kind,
    /// The name is empty for a create.
    pub place: Place,
    /// Through the status subresource.
    pub status: bool,
    pub manager: String,
    pub dry_run: bool,
    pub now: Timestamp,
}

/// How the body of a PATCH is read, where it is not an apply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PatchType {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
}

impl Store {
    pub fn create(&mut self, mut write: Write, mut body: Value) -> Result<Value, Failure> {
        let metadata = &body["metadata"];
        let prefix = metadata["generateName"].as_str().unwrap_or_default();
        write.place.name = match metadata["name"].as_str().filter(|name| !name.is_empty()) {
            Some(name) => name.to_owned(),
            None if !prefix.is_empty() => format!("{prefix}{}", self.suffix()),
            None => {
                let why = "Required value: name or generateName is required";
                return Err(write.invalid("metadata.name", why));
            }
        };
        write.conform(&mut body)?;
        if self.get(&write.resource(), &write.place).is_some() {
            return Err(Failure::already_exists(&write.kind, &write.place.name));
        }
        if !text(&body, "resourceVersion").is_empty() {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Failure::new(500, "InternalError", message));
        }
        drop_empty_metadata(&mut body);
        self.begin(&write, &mut body)?;
        managed::update(None, &mut body, &write.writer());
        self.finish(&write, None, body)
    }

    /// PUT, and the end of every patch but apply.
    pub fn replace(&mut self, write: &Write, mut body: Value) -> Result<Value, Failure> {
        let live = self.existing(write)?;
        write.conform(&mut body)?;
        write.check_identity(&live, &body)?;
        if text(&body, "resourceVersion").is_empty() && write.kind.is_custom() {
            let why = "Invalid value: 0: must be specified for an update";
            return Err(write.invalid("metadata.resourceVersion", why));
        }
        drop_empty_metadata(&mut body);
        let mut new = write.part_of(&live, body);
        managed::update(Some(&live), &mut new, &write.writer());
        self.finish(write, Some(&live), new)
    }

    pub fn patch(&mut self, write: &Write, how: PatchType, patch: &[u8]) -> Result<Value, Failure> {
        let live = self.existing(write)?;
        let mut new = (*live).clone();
        let unreadable =
            |error: serde_json::Error| Failure::bad_request(format!("error decoding patch: {error}"));
        match how {
            PatchType::Merge => {
                json_patch::merge(&mut new, &serde_json::from_slice(patch).map_err(unreadable)?);
            }
            PatchType::Json => {
                let patch: json_patch::Patch = serde_json::from_slice(patch).map_err(unreadable)?;
                json_patch::patch(&mut new, &patch).map_err(|error| {
                    let message = "the server rejected our request due to an error in our request";
                    let details = json!({"causes": [{"message": error.to_string()}]});
                    Failure { details, ..Failure::new(422, "Invalid", message) }
                })?;
            }
        }
        // A merge patch may take the guard away; what it is laid over stays what was read.
        if text(&new, "resourceVersion").is_empty() && new["metadata"].is_object() {
            new["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        }
        self.replace(write, new)
    }

    /// Server-side apply; true when it created the object. A resourceVersion in the body guards an object
    /// that exists and says nothing where there is none: one that no object has, such as "1", creates only.
    pub fn apply(&mut self, write: &Write, declared: Value, force: bool) -> Result<(bool, Value), Failure> {
        if !declared["metadata"]["managedFields"].is_null() {
            return Err(Failure::bad_request("metadata.managedFields must be nil"));
        }
        let mut body = declared.clone();
        write.conform(&mut body)?;
        if let Some(live) = self.get(&write.resource(), &write.place) {
            write.check_identity(&live, &body)?;
            let new = managed::apply(Some(&live), &declared, &write.writer(), force)?;
            return Ok((false, self.finish(write, Some(&live), new)?));
        }
        if write.status {
            return Err(Failure::not_found(&write.kind, &write.place.name));
        }
        let uid = text(&body, "uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Failure::conflict(&write.kind, &write.place.name, &why));
        }
        let mut new = managed::apply(None, &declared, &write.writer(), force)?;
        if let (Value::Object(new), Value::Object(body)) = (&mut new, &body) {
            fields::merge(new, body);
        }
        self.begin(write, &mut new)?;
        Ok((true, self.finish(write, None, new)?))
    }

    pub(super) fn existing(&self, write: &Write) -> Result<Arc<Value>, Failure> {
        let found = self.get(&write.resource(), &write.place);
        found.ok_or_else(|| Failure::not_found(&write.kind, &write.place.name))
    }
}

impl Write {
    pub fn resource(&self) -> Resource {
        Resource::from(&self.kind)
    }

    pub fn invalid(&self, field: &str, why: &str) -> Failure {
        Failure::invalid(&self.kind.kind, &self.kind.group, &self.place.name, field, why)
    }

    fn writer(&self) -> Writer<'_> {
        Writer { manager: &self.manager, kind: &self.kind, status: self.status, time: rfc3339(self.now) }
    }

    /// Checks the body's shape and its identity against the URL's, and completes the identity.
    fn conform(&self, body: &mut Value) -> Result<(), Failure> {
        drop_nulls(body);
        let mismatch = |what: &str, found: &str, wanted: &str| {
            Failure::bad_request(format!(
                "the {what} of the object ({found}) does not match the {what} on the URL ({wanted})"
            ))
        };
        let Some(map) = body.as_object_mut() else {
            return Err(Failure::bad_request("the body of the request is not a JSON object"));
        };
        for (field, wanted) in [("apiVersion", self.kind.api_version()), ("kind", self.kind.kind.clone())] {
            let found = map.entry(field).or_insert_with(|| json!(wanted));
            if *found != json!(wanted) {
                return Err(mismatch(field, found.as_str().unwrap_or_default(), &wanted));
            }
        }
        let metadata = map.entry("metadata").or_insert_with(|| json!({}));
        let Some(metadata) = metadata.as_object_mut() else {
            return Err(Failure::bad_request("metadata is not a JSON object"));
        };
        for field in ["labels", "annotations"] {
            let strings =
                |value: &Value| value.as_object().is_some_and(|map| map.values().all(Value::is_string));
            if metadata.get(field).is_some_and(|value| !strings(value)) {
                return Err(Failure::bad_request(format!("metadata.{field} is not a map of strings")));
            }
        }
        for (field, wanted) in [("name", &self.place.name), ("namespace", &self.place.namespace)] {
            let found = metadata.get(field).and_then(Value::as_str).unwrap_or_default();
            if !found.is_empty() && found != wanted {
                return Err(mismatch(field, found, wanted));
            }
            if !wanted.is_empty() {
                metadata.insert(field.into(), json!(wanted));
            }
        }
        Ok(())
    }

    /// A uid and a resourceVersion in the body, where there are any, must be the live ones; "0" is none.
    fn check_identity(&self, live: &Value, body: &Value) -> Result<(), Failure> {
        let (wanted, found) = (text(body, "uid"), text(live, "uid"));
        if !wanted.is_empty() && wanted != found {
            return Err(Failure::precondition(&self.kind, &self.place.name, "UID", wanted, found));
        }
        let wanted = text(body, "resourceVersion");
        if !["", "0", text(live, "resourceVersion")].contains(&wanted) {
            return Err(Failure::modified(&self.kind, &self.place.name));
        }
        Ok(())
    }

    /// What this write may change of the body, the rest as it is: status only, or all but status.
    fn part_of(&self, live: &Value, mut body: Value) -> Value {
        if !self.status && !self.kind.status_subresource {
            return body;
        }
        let mut live = live.clone();
        let (from, into) = if self.status { (&mut body, &mut live) } else { (&mut live, &mut body) };
        match from["status"].take() {
            Value::Null => {
                into.as_object_mut().map(|map| map.remove("status"));
            }
            status => into["status"] = status,
        }
        if self.status { live } else { body }
    }
}

/// A string of the metadata; an absent one is "".
pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, child| !child.is_null());
            map.iter_mut().for_each(|(_, child)| drop_nulls(child));
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Empty maps and lists of the metadata are not stored, as the real server's types have it.
pub(super) fn drop_empty_metadata(object: &mut Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        if metadata.get(field).is_some_and(|value| *value == json!({}) || *value == json!([])) {
            metadata.remove(field);
        }
    }
}

//! What a write checks of its body, and which part of it counts.

use serde_json::{Value, json};

use super::custom;
use super::failure::Failure;
use super::kinds::Kind;
use super::limits;
use super::scale;
use super::shape;
use super::store::{Place, Resource};
use super::strategy;
use super::validate::{self, Wrong};
use super::write::{Write, set, text};

impl Write {
    pub fn resource(&self) -> Resource {
        Resource::from(&*self.kind)
    }

    pub fn status(&self) -> bool {
        self.subresource == "status"
    }

    pub fn invalid(&self, field: &str, why: &str) -> Failure {
        Failure::invalid(&self.kind.kind, &self.kind.group, &self.place.name, field, why)
    }

    /// What a create is compared with: the kind's structs with nothing in them.
    pub fn empty(&self) -> Value {
        let object = json!({"apiVersion": self.kind.api_version(), "kind": self.kind.kind});
        match self.kind.is_builtin() {
            true => shape::normal(self.kind.typed(), &object, false).0,
            false => object,
        }
    }

    /// An apply whose body does not fit the schema: 500, and no reason.
    pub(super) fn untyped(&self, wrong: &[String]) -> Failure {
        let Kind { group, version, kind, .. } = &*self.kind;
        let Place { namespace, name } = &self.place;
        let all = match wrong {
            [one] => one.clone(),
            all => format!("errors:\n  {}", all.join("\n  ")),
        };
        let gv = if group.is_empty() { format!("/{version}") } else { format!("{group}/{version}") };
        let message =
            format!("failed to create typed patch object ({namespace}/{name}; {gv}, Kind={kind}): {all}");
        Failure::new(500, "", message)
    }

    pub(super) fn unreadable(&self, code: u16, why: &str) -> Failure {
        let Kind { kind, version, .. } = &*self.kind;
        if code == 422 {
            // The real server names no object here.
            return Failure::invalid("", "", "", "patch", &format!("Invalid value: {why}"));
        }
        let message = format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}");
        Failure::new(code, if code == 400 { "BadRequest" } else { "" }, message)
    }

    fn mismatch(what: &str, found: &str, wanted: &str) -> Failure {
        Failure::bad_request(format!(
            "the {what} of the object ({found}) does not match the {what} on the URL ({wanted})"
        ))
    }

    /// Checks the body's identity against the URL's, and completes it.
    pub(super) fn conform(&self, body: &mut Value, code: u16) -> Result<(), Failure> {
        self.identify(body)?.map_or(Ok(()), Err)?;
        for field in ["labels", "annotations"] {
            let strings = |value: &Value| {
                value
                    .as_object()
                    .is_some_and(|map| map.values().all(|value| value.is_string() || value.is_null()))
            };
            if !body["metadata"][field].is_null() && !strings(&body["metadata"][field]) {
                return Err(self.unreadable(code, &format!("metadata.{field} is not a map of strings")));
            }
        }
        Ok(())
    }

    /// The refusal that it gives beside comes only after conflicts, in an apply.
    fn identify(&self, body: &mut Value) -> Result<Option<Failure>, Failure> {
        let Some(map) = body.as_object_mut() else {
            return Err(Failure::bad_request("the body of the request is not a JSON object"));
        };
        for (field, wanted) in [("apiVersion", self.kind.api_version()), ("kind", self.kind.kind.clone())] {
            let found = map.entry(field).or_insert(Value::Null);
            if self.kind.custom().is_some() && found.as_str().is_none_or(str::is_empty) {
                return Err(Failure::bad_request(format!("object {field:?} is missing")));
            }
            // Of a custom resource a wrong kind is only found when all else is right.
            if self.kind.custom().is_some() && field == "kind" {
                continue;
            }
            if found.as_str().is_none_or(str::is_empty) {
                *found = json!(wanted);
            }
            if *found != json!(wanted) {
                return Err(Write::mismatch(field, found.as_str().unwrap_or_default(), &wanted));
            }
        }
        let metadata = map.entry("metadata").or_insert_with(|| json!({}));
        if metadata.is_null() {
            *metadata = json!({});
        }
        let Some(metadata) = metadata.as_object_mut() else {
            return Err(Failure::bad_request("metadata is not a JSON object"));
        };
        if !self.kind.namespaced {
            metadata.remove("namespace");
        }
        let mut misnamed = None;
        for (field, wanted) in [("name", &self.place.name), ("namespace", &self.place.namespace)] {
            let found = metadata.get(field).and_then(Value::as_str).unwrap_or_default();
            if !found.is_empty() && found != wanted {
                misnamed = Some(Write::mismatch(field, found, wanted));
            }
            if found.is_empty() && field == "name" {
                let message = format!(
                    "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
                );
                return Err(Failure::bad_request(message));
            }
            if !wanted.is_empty() {
                metadata.insert(field.into(), json!(wanted));
            }
        }
        Ok(misnamed)
    }

    /// The same for an apply, whose body must say its kind.
    pub(super) fn conform_apply(&self, body: &mut Value) -> Result<Option<Failure>, Failure> {
        for field in ["apiVersion", "kind"] {
            if body[field].as_str().is_none_or(str::is_empty) {
                let message = format!("error decoding the apply's body: {field} must be set");
                return Err(Failure::bad_request(message));
            }
            if field == "kind" && body[field] != json!(self.kind.kind) {
                return Err(Failure::bad_request(format!("invalid object type: {}", body[field])));
            }
        }
        self.identify(body)
    }

    /// A uid and a resourceVersion in the body, where there are any, must be the live ones; "0" is none.
    pub fn check_identity(&self, live: &Value, body: &Value) -> Result<(), Failure> {
        let (wanted, found) = (text(body, "uid"), text(live, "uid"));
        if !wanted.is_empty() && wanted != found {
            return Err(Failure::precondition(&self.kind, &self.place.name, "UID", wanted, found));
        }
        let wanted = text(body, "resourceVersion");
        if !wanted.is_empty() && wanted.parse::<u64>().is_err() {
            let message = format!("strconv.ParseUint: parsing {wanted:?}: invalid syntax");
            return Err(Failure::new(500, "", message));
        }
        if !["", "0", text(live, "resourceVersion")].contains(&wanted) {
            return Err(Failure::modified(&self.kind, &self.place.name));
        }
        Ok(())
    }

    /// What a patch may not change: who the object is. A namespace says nothing where there are none.
    pub fn check_patched(&self, live: &Value, new: &mut Value) -> Result<(), Failure> {
        for field in ["apiVersion", "kind"] {
            let wanted = if field == "kind" { self.kind.kind.clone() } else { self.kind.api_version() };
            if new[field] == "" && self.kind.is_builtin() {
                new[field] = json!(wanted);
            }
            if new[field] != json!(wanted) {
                let why = format!("Invalid value: {}: does not match the {field} on the URL", new[field]);
                let patch = self.kind.is_builtin() || new[field] == "";
                return Err(self.invalid(if patch { "patch" } else { field }, &why));
            }
        }
        if !new["metadata"].is_object() {
            return Ok(());
        }
        if !self.kind.namespaced {
            set(&mut new["metadata"], "namespace", Value::Null);
        }
        let (wanted, found) = (text(new, "uid"), text(live, "uid"));
        if !wanted.is_empty() && wanted != found {
            let why = format!("Invalid value: {wanted:?}: field is immutable");
            return Err(self.invalid("metadata.uid", &why));
        }
        Ok(())
    }

    /// Turns empty lists into null, where they are stored so.
    pub(super) fn settle(&self, object: &mut Value, emptied: bool) {
        if emptied {
            let entries = object["metadata"]["managedFields"].take();
            *object = shape::stored(self.kind.typed(), object);
            set(&mut object["metadata"], "managedFields", entries);
        }
    }

    /// Checks what the kind demands of an object that is to be stored.
    pub fn validate(&self, live: Option<&Value>, object: &Value) -> Result<(), Failure> {
        let mut wrong = validate::metadata(&self.kind, object);
        if object["kind"] != json!(self.kind.kind) {
            let why = format!("Invalid value: {}: must be {}", object["kind"], self.kind.kind);
            wrong.push(("kind".to_owned(), "FieldValueInvalid", why));
        }
        wrong.extend(limits::annotations(object));
        if self.kind.is_crd() && live.is_none_or(|live| live["spec"] != object["spec"]) {
            wrong.extend(custom::faults(object));
        }
        match self.kind.custom() {
            Some(custom) => {
                wrong.extend(custom.validate(live, object));
                wrong.extend(scale::wrong(self, object));
            }
            None => wrong.extend(validate::builtin(&self.kind, live, object)),
        }
        if wrong.is_empty() { Ok(()) } else { Err(self.invalid_fields(&wrong)) }
    }

    pub fn invalid_fields(&self, wrong: &[Wrong]) -> Failure {
        Failure::invalid_fields(&self.kind.kind, &self.kind.group, &self.place.name, wrong)
    }

    /// What this write may change of the body, the rest as it is: status only (of built-in kinds some of the
    /// metadata too), or all but status.
    pub(super) fn part_of(&self, live: &Value, mut new: Value) -> Value {
        if self.status() {
            let mut kept = live.clone();
            set(&mut kept, "status", new["status"].take());
            if self.kind.is_builtin() {
                kept["metadata"] = new["metadata"].take();
                strategy::keep_metadata(&self.kind, live, &mut kept);
            } else {
                let entries = new["metadata"]["managedFields"].take();
                set(&mut kept["metadata"], "managedFields", entries);
            }
            return kept;
        }
        if self.kind.status_subresource {
            set(&mut new, "status", live["status"].clone());
        }
        new
    }
}

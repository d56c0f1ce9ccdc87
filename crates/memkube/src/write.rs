//! The writing verbs: what each checks before the bookkeeping that all share (`lifecycle`).

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::admission::Gate;
use super::builtin;
use super::deep;
use super::failure::Failure;
use super::kinds::{Kind, Shape};
use super::managed::{self, Writer};
use super::operations;
use super::shape::{self, Report};
use super::smd::{self, Typed};
use super::store::{Object, Place, Store, rfc3339};
use super::strategic;
use super::strategy;

/// One write: of which object, how, by whom.
#[derive(Clone)]
pub(super) struct Write {
    pub kind: Arc<Kind>,
    /// The name is empty for a create.
    pub place: Place,
    /// `status`, `scale`, or empty.
    pub subresource: String,
    pub manager: String,
    pub dry_run: bool,
    pub validation: Validation,
    /// A later time in managedFields is a change, even where nothing else changes.
    pub exact: bool,
    pub now: Timestamp,
    /// What the request has to pass; none for the server's own writes.
    pub gate: Option<Arc<Gate>>,
}

/// `fieldValidation`: what happens to fields that are not declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Validation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// How the body of a PATCH is read, where it is not an apply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PatchType {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
    /// Kubernetes' own, for built-in kinds.
    Strategic,
}

impl PatchType {
    /// Changes an object as the patch says.
    pub fn patch(self, typed: Typed<'_>, object: &mut Value, patch: &[u8]) -> Result<(), Failure> {
        let unreadable =
            |error: serde_json::Error| Failure::bad_request(format!("error decoding patch: {error}"));
        match self {
            PatchType::Merge => {
                let patch: serde_json::Map<String, Value> = deep::read(patch).map_err(unreadable)?;
                operations::merge(object, Value::Object(patch));
            }
            PatchType::Strategic => {
                let patch: Option<serde_json::Map<String, Value>> = deep::read(patch).map_err(unreadable)?;
                strategic::patch(typed, object, &json!(patch.unwrap_or_default())).map_err(
                    |why| match why.contains("unknown $patch") {
                        true => Failure::new(500, "", why),
                        false => Failure::bad_request(why),
                    },
                )?;
            }
            PatchType::Json => {
                let operations: Vec<serde_json::Map<String, Value>> =
                    deep::read(patch).map_err(unreadable)?;
                // The real server does not say what is wrong, either.
                operations::apply(object, &operations).map_err(|_| {
                    let message = "the server rejected our request due to an error in our request";
                    Failure::new(422, "Invalid", message)
                })?;
            }
        }
        Ok(())
    }
}

impl Store {
    pub fn create(&mut self, mut write: Write, mut body: Value) -> Result<Object, Failure> {
        if body.is_null() && write.kind.is_builtin() {
            body = json!({});
        }
        if !body.is_object() {
            return Err(Failure::bad_request("the body of the request is not a JSON object"));
        }
        if write.kind.custom().is_some() && body["kind"].as_str().is_none_or(str::is_empty) {
            return Err(Failure::bad_request("object \"kind\" is missing"));
        }
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
        body["metadata"]["name"] = json!(write.place.name);
        write.conform(&mut body, 400)?;
        let (mut object, emptied) = self.decode(&write, body, 400)?;
        self.check_namespace(&write)?;
        if !text(&object, "resourceVersion").is_empty() {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Failure::new(500, "", message));
        }
        managed::update(&write.empty(), true, &mut object, &self.writer(&write));
        write.settle(&mut object, emptied);
        let mut object = self.mutate(&write, object)?;
        self.begin(&write, &mut object);
        let (write, object) = self.as_stored(&write, object);
        self.finish(&write, None, object)
    }

    /// PUT; true when it created the object, as it does of a few kinds.
    pub fn replace(&mut self, write: &Write, body: Value) -> Result<(bool, Object), Failure> {
        let made = write.subresource.is_empty()
            && strategy::is_created_by_put(&write.kind)
            && !self.has(&write.resource(), &write.place);
        if !made {
            return Ok((false, self.update(write, body, 400)?));
        }
        let mut body = body;
        write.conform(&mut body, 400)?;
        if !text(&body, "uid").is_empty() {
            let why = "Precondition failed: UID in precondition, and no existing object was found";
            return Err(Failure::conflict(&write.kind, &write.place.name, why));
        }
        if text(&body, "name").is_empty() {
            return Err(Failure::bad_request("the name of the object must be in the body"));
        }
        set(&mut body["metadata"], "resourceVersion", Value::Null);
        Ok((true, self.create(write.clone(), body)?))
    }

    /// The end of PUT and of every patch but apply; what cannot be read is refused with `code`.
    fn update(&mut self, write: &Write, mut body: Value, code: u16) -> Result<Object, Failure> {
        write.conform(&mut body, code)?;
        if body["metadata"]["managedFields"] == json!([]) && write.kind.custom().is_none() {
            // Said apart from nothing, it means the same as this.
            body["metadata"]["managedFields"] = json!([{}]);
        }
        let (mut new, emptied) = self.decode(write, body, code)?;
        let live = self.existing(write)?;
        write.check_identity(&live, &new)?;
        if text(&new, "resourceVersion").is_empty() && strategy::is_guarded(&write.kind) {
            let why = "Invalid value: 0: must be specified for an update";
            return Err(write.invalid("metadata.resourceVersion", why));
        }
        managed::update(&write.kind.view(&live), false, &mut new, &self.writer(write));
        write.settle(&mut new, emptied);
        let new = self.mutate(write, new)?;
        let new = write.part_of(&live, new);
        let (write, new) = self.as_stored(write, new);
        self.finish(&write, Some(&live), new)
    }

    pub fn patch(&mut self, write: &Write, how: PatchType, patch: &[u8]) -> Result<Object, Failure> {
        let live = self.existing(write)?;
        let mut new = write.kind.view(&live).into_value();
        how.patch(write.kind.typed(), &mut new, patch)?;
        write.check_patched(&live, &mut new)?;
        // A merge patch may take the guard away; what it is laid over stays what was read.
        if text(&new, "resourceVersion").is_empty() && new["metadata"].is_object() {
            new["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        }
        self.update(write, new, 422)
    }

    /// Server-side apply; true when it created the object. A resourceVersion in the body guards an object
    /// that exists and says nothing where there is none: one that no object has, such as "1", creates only.
    pub fn apply(
        &mut self,
        write: &Write,
        mut declared: Value,
        force: bool,
    ) -> Result<(bool, Object), Failure> {
        if !declared["metadata"]["managedFields"].is_null() {
            return Err(Failure::bad_request("metadata.managedFields must be nil"));
        }
        let said = declared.clone();
        let misnamed = write.conform_apply(&mut declared)?;
        let typed = write.kind.typed();
        smd::validate(typed, &declared, false).map_err(|wrong| write.untyped(&wrong))?;
        let empty = write.empty();
        let live = self.get(&write.resource(), &write.place);
        match live {
            Some(live) => {
                let before = write.kind.view(&live);
                let new = managed::apply(&before, &empty, &declared, &self.writer(write), force)?;
                misnamed.map_or(Ok(()), Err)?;
                let (wanted, found) = (text(&declared, "uid"), text(&live, "uid"));
                if !wanted.is_empty() && wanted != found {
                    let why = format!("Invalid value: {wanted:?}: field is immutable");
                    // The real server says it twice.
                    let wrong = ("metadata.uid".to_owned(), "FieldValueInvalid", why);
                    return Err(write.invalid_fields(&[wrong.clone(), wrong]));
                }
                write.check_identity(&live, &declared)?;
                // A null among a Secret's data is stored as "", and each apply is a change again.
                let nulls = new["data"].as_object().is_some_and(|data| data.values().any(Value::is_null));
                let write = &Write { exact: nulls && write.kind.is_builtin(), ..write.clone() };
                let (mut new, emptied) = self.decode(write, new, 500)?;
                write.settle(&mut new, emptied);
                managed::note_applied(&mut new, &said, &write.manager);
                let new = self.mutate(write, new)?;
                let new = write.part_of(&live, new);
                let (write, new) = self.as_stored(write, new);
                Ok((false, self.finish(&write, Some(&live), new)?))
            }
            None if !write.subresource.is_empty() => Err(Failure::not_found(&write.kind, &write.place.name)),
            None => {
                misnamed.map_or(Ok(()), Err)?;
                let uid = text(&declared, "uid");
                if !uid.is_empty() {
                    let why = format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    );
                    return Err(Failure::conflict(&write.kind, &write.place.name, &why));
                }
                let new = managed::apply(&empty, &empty, &declared, &self.writer(write), force)?;
                let (mut new, emptied) = self.decode(write, new, 500)?;
                write.settle(&mut new, emptied);
                self.check_namespace(write)?;
                new = self.mutate(write, new)?;
                self.begin(write, &mut new);
                let (write, new) = self.as_stored(write, new);
                Ok((true, self.finish(&write, None, new)?))
            }
        }
    }

    pub(super) fn existing(&self, write: &Write) -> Result<Object, Failure> {
        let found = self.get(&write.resource(), &write.place);
        found.ok_or_else(|| Failure::not_found(&write.kind, &write.place.name))
    }

    pub(super) fn writer<'a>(&self, write: &'a Write) -> Writer<'a> {
        let same = |kind: &&Arc<Kind>| kind.group == write.kind.group && kind.plural == write.kind.plural;
        Writer {
            manager: &write.manager,
            kind: &write.kind,
            subresource: &write.subresource,
            time: rfc3339(write.now),
            versions: self.kinds.iter().filter(same).cloned().collect(),
        }
    }

    /// Gives a body the form in which its kind is stored, defaults filled in. A value of a wrong type is
    /// refused with `code`: 400 for what a
    /// client sent, 422 for what a patch made, 500 for what an apply made. True beside it: lists are in it
    /// that [`Write::settle`] has yet to turn into null.
    pub(super) fn decode(
        &mut self,
        write: &Write,
        mut body: Value,
        code: u16,
    ) -> Result<(Value, bool), Failure> {
        let kind = &write.kind;
        let (mut object, report) = match &kind.shape {
            Shape::Unknown => {
                drop_nulls(&mut body);
                (body, Report::default())
            }
            Shape::Builtin(_) => {
                builtin::accept(kind, &mut body);
                let (mut object, report) = shape::normal(kind.typed(), &body, true);
                builtin::complete(kind, &mut object);
                (object, report)
            }
            Shape::Custom(custom) => {
                let mut report = Report { unknown: custom.prune(&mut body), ..Report::default() };
                // What an apply made null is looked at as it is.
                custom.default(&mut body, code != 500);
                let (metadata, of_metadata) = shape::normal(custom.metadata(), &body["metadata"], true);
                body["metadata"] = metadata;
                report.unknown.extend(of_metadata.unknown.iter().map(|path| format!("metadata.{path}")));
                report.wrong = of_metadata.wrong.map(|(path, why)| (format!("metadata.{path}"), why));
                (body, report)
            }
        };
        if let Some((path, why)) = report.wrong {
            return Err(write.unreadable(code, &format!("json: {why}: {path}")));
        }
        self.undeclared(write, &report.unknown, code)?;
        drop_empty_metadata(&mut object);
        Ok((object, report.emptied))
    }

    fn undeclared(&mut self, write: &Write, unknown: &[String], code: u16) -> Result<(), Failure> {
        if unknown.is_empty() || write.validation == Validation::Ignore {
            return Ok(());
        }
        let all: Vec<_> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
        if write.validation == Validation::Strict {
            let why = format!("strict decoding error: {}", all.join(", "));
            return Err(write.unreadable(code, &why));
        }
        self.warnings.extend(all);
        Ok(())
    }
}

/// Sets a field, or takes it out with null.
pub(super) fn set(object: &mut Value, field: &str, value: Value) {
    if let Some(map) = object.as_object_mut() {
        match value {
            Value::Null => map.remove(field),
            value => map.insert(field.to_owned(), value),
        };
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

//! The field managers of a kind alone: what an apply or another write makes of an object and its
//! managedFields, with no server around them. No defaults, no validation but that of the type.

use std::sync::Arc;

use serde_json::{Value, json};

use super::kinds::{self, Kind};
use super::managed::{self, Writer};
use super::smd;

/// Field managers of one kind.
#[derive(Clone, Debug)]
pub struct FieldManagers {
    kind: Arc<Kind>,
}

/// Who writes, and through what.
#[derive(Clone, Copy, Debug)]
pub struct By<'a> {
    /// `fieldManager`.
    pub manager: &'a str,
    /// `status`, or empty.
    pub subresource: &'a str,
}

/// Why an apply was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Others own what would change: each field, and what the server says of it.
    Conflicts(Vec<(String, String)>),
    /// The document, or the live object, does not fit the type.
    Untyped(Vec<String>),
}

impl FieldManagers {
    /// Those of a built-in kind.
    pub fn builtin(group: &str, version: &str, kind: &str) -> Option<Self> {
        let all = kinds::built_in();
        let fits = |of: &&Arc<Kind>| of.group == group && of.version == version && of.kind == kind;
        all.iter().find(fits).cloned().map(|kind| FieldManagers { kind })
    }

    /// Those of the first served version of a CustomResourceDefinition.
    pub fn of_crd(crd: &Value) -> Option<Self> {
        kinds::of_crd(crd).into_iter().next().map(|kind| FieldManagers { kind: kind.into() })
    }

    /// The object before it is created.
    pub fn empty(&self) -> Value {
        json!({"apiVersion": self.kind.api_version(), "kind": self.kind.kind})
    }

    /// A create, PUT, or another patch than apply, from `live` to `new`: `new` with its managedFields.
    pub fn update(&self, live: &Value, mut new: Value, by: By<'_>) -> Value {
        let created = live["metadata"]["uid"].is_null();
        managed::update(live, created, &mut new, &self.writer(by));
        new
    }

    /// An apply of `declared` to `live`: the new object with its managedFields.
    pub fn apply(&self, live: &Value, declared: &Value, by: By<'_>, force: bool) -> Result<Value, Refusal> {
        let typed = self.kind.typed();
        smd::validate(typed, declared, false).map_err(Refusal::Untyped)?;
        let new = managed::apply(live, &self.empty(), declared, &self.writer(by), force);
        let mut new = new.map_err(|failure| {
            if failure.code != 409 {
                return Refusal::Untyped(vec![failure.message]);
            }
            let causes = failure.details["causes"].as_array().cloned().unwrap_or_default();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            Refusal::Conflicts(
                causes.iter().map(|one| (text(&one["field"]), text(&one["message"]))).collect(),
            )
        })?;
        managed::note_applied(&mut new, declared, by.manager);
        Ok(new)
    }

    fn writer<'a>(&'a self, by: By<'a>) -> Writer<'a> {
        Writer {
            manager: by.manager,
            kind: &self.kind,
            subresource: by.subresource,
            time: "1970-01-01T00:00:00Z".to_owned(),
            versions: Vec::new(),
        }
    }
}

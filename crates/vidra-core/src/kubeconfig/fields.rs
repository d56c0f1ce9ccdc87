//! Reads fields out of one mapping of a kubeconfig and words what is wrong with them.

use serde_json::{Map, Value};

use super::KubeconfigError;

/// A mapping, and what it is called in messages.
pub(super) struct Fields<'a> {
    fields: &'a Map<String, Value>,
    /// What it is, in words, such as `cluster "berlin"`.
    pub(super) of: String,
}

impl<'a> Fields<'a> {
    pub(super) fn new(value: &'a Value, of: String) -> Result<Self, KubeconfigError> {
        match value.as_object() {
            Some(fields) => Ok(Self { fields, of }),
            None => Err(KubeconfigError::WrongType { field: "the contents", of, expected: "a mapping" }),
        }
    }

    /// The mapping under `what` in the one entry of `list` that has this name; `field` is what named it.
    pub(super) fn named(
        &self,
        list: &'static str,
        what: &'static str,
        name: &str,
        field: &'static str,
    ) -> Result<Fields<'a>, KubeconfigError> {
        let entries = match self.fields.get(list) {
            None | Some(Value::Null) => &[],
            Some(Value::Array(entries)) => entries.as_slice(),
            Some(_) => return Err(self.wrong_type(list, "a list")),
        };
        let mut found =
            entries.iter().filter(|entry| entry.get("name").and_then(Value::as_str) == Some(name));
        let Some(entry) = found.next() else {
            return Err(KubeconfigError::NotFound { field, name: name.to_owned(), list });
        };
        if found.next().is_some() {
            return Err(KubeconfigError::Twice { name: name.to_owned(), list });
        }
        let of = format!("{what} {name:?}");
        match entry.get(what) {
            Some(value @ Value::Object(_)) => Fields::new(value, of),
            None | Some(Value::Null) => Err(KubeconfigError::Missing { field: what, of, fix: "fill it in" }),
            Some(_) => Err(KubeconfigError::WrongType { field: what, of, expected: "a mapping" }),
        }
    }

    /// A text; None when it is absent, null or empty, as most tools write what is not set.
    pub(super) fn text(&self, field: &'static str) -> Result<Option<&'a str>, KubeconfigError> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(_) => Err(self.wrong_type(field, "text: put it in quotes")),
        }
    }

    pub(super) fn required(
        &self,
        field: &'static str,
        fix: &'static str,
    ) -> Result<&'a str, KubeconfigError> {
        self.text(field)?.ok_or_else(|| self.missing(field, fix))
    }

    /// A boolean; false when it is absent.
    pub(super) fn flag(&self, field: &'static str) -> Result<bool, KubeconfigError> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(self.wrong_type(field, "true or false")),
        }
    }

    /// Whether the field is there and not null, empty text or an empty list.
    pub(super) fn says(&self, field: &str) -> bool {
        match self.fields.get(field) {
            None | Some(Value::Null) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(items)) => !items.is_empty(),
            Some(_) => true,
        }
    }

    pub(super) fn refused(&self, field: &'static str, fix: &'static str) -> KubeconfigError {
        KubeconfigError::Refused { field, of: self.of.clone(), fix }
    }

    pub(super) fn missing(&self, field: &'static str, fix: &'static str) -> KubeconfigError {
        KubeconfigError::Missing { field, of: self.of.clone(), fix }
    }

    pub(super) fn wrong_type(&self, field: &'static str, expected: &'static str) -> KubeconfigError {
        KubeconfigError::WrongType { field, of: self.of.clone(), expected }
    }

    pub(super) fn url(&self, field: &'static str, problem: &'static str) -> KubeconfigError {
        KubeconfigError::Url { field, of: self.of.clone(), problem }
    }

    pub(super) fn material(&self, field: &'static str, problem: &'static str) -> KubeconfigError {
        KubeconfigError::Material { field, of: self.of.clone(), problem }
    }
}

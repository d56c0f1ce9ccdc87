//! Events: one object in two groups, with other names for the same fields. It is kept as `v1` has it, and shown
//! in `events.k8s.io/v1` under that group's names. Source: pkg/apis/core/conversion of Kubernetes.

use std::sync::Arc;

use serde_json::{Value, json};

use super::kinds::Kind;
use super::store::Store;
use super::write::Write;

/// The group with the newer names.
pub(super) const GROUP: &str = "events.k8s.io";

/// Names in `v1`, and in `events.k8s.io/v1`.
const FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Is it the kind with the newer names?
pub(super) fn is_newer(kind: &Kind) -> bool {
    kind.group == GROUP && kind.plural == "events"
}

/// A stored Event under the newer names.
pub(super) fn newer(mut event: Value) -> Value {
    let Some(fields) = event.as_object_mut() else { return event };
    for (old, new) in FIELDS {
        if let Some(value) = fields.remove(old) {
            fields.insert(new.to_owned(), value);
        }
    }
    fields.insert("apiVersion".to_owned(), json!("events.k8s.io/v1"));
    event
}

fn stored(mut event: Value) -> Value {
    let Some(fields) = event.as_object_mut() else { return event };
    for (old, new) in FIELDS {
        if let Some(value) = fields.remove(new) {
            fields.insert(old.to_owned(), value);
        }
    }
    // What the older clients look for is there, empty.
    fields.entry("source").or_insert_with(|| json!({}));
    for time in ["firstTimestamp", "lastTimestamp"] {
        fields.entry(time).or_insert(Value::Null);
    }
    fields.insert("apiVersion".to_owned(), json!("v1"));
    event
}

impl Store {
    /// The write and the object as they are kept.
    pub(super) fn as_stored(&self, write: &Write, object: Value) -> (Write, Value) {
        let write = write.clone();
        match self.kind("", "v1", "events").filter(|_| is_newer(&write.kind)) {
            Some(kind) => (Write { kind: Arc::clone(kind), ..write }, stored(object)),
            None => (write, object),
        }
    }
}

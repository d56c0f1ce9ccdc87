//! What expressions see of an object: its top-level fields, without what nobody may learn by a yes or no.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::{FULL_EVALUATIONS, cost::Cost};
use crate::mutants::{self, Mutant};

/// Repeats the whole object, a Secret's data among it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What of metadata is shown to whoever may read VidraTargets.
const SHOWN_METADATA: [&str; 6] =
    ["name", "namespace", "labels", "annotations", "generation", "creationTimestamp"];

/// One object as its rule sees it.
#[derive(Debug)]
pub struct View<'a> {
    fields: Option<&'a Map<String, Value>>,
    is_secret: bool,
    /// A copy without what is not shown, where there is such.
    metadata: Option<Value>,
    /// What is left of the bounds of all evaluations over it.
    left: Cell<Cost>,
}

impl<'a> View<'a> {
    /// Hides data and stringData of a Secret, last-applied annotations and managedFields.
    pub fn new(live: &'a Value) -> View<'a> {
        let is_secret =
            live["kind"] == "Secret" && live["apiVersion"].as_str().is_some_and(|v| !v.contains('/'));
        View {
            fields: live.as_object(),
            is_secret,
            metadata: without_hidden(&live["metadata"]),
            left: Cell::new(Cost::of(FULL_EVALUATIONS)),
        }
    }

    /// Hides what [`View::new`] hides, and leaves of metadata only what nobody minds to see shown.
    pub(crate) fn for_showing(live: &'a Value) -> View<'a> {
        let mut view = View::new(live);
        let mut shown = match view.metadata.take() {
            Some(Value::Object(copy)) => copy,
            _ => live["metadata"].as_object().cloned().unwrap_or_default(),
        };
        shown.retain(|name, _| SHOWN_METADATA.contains(&name.as_str()));
        View { metadata: Some(Value::Object(shown)), ..view }
    }

    /// What the next evaluation may take.
    pub(super) fn left(&self) -> Cost {
        self.left.get()
    }

    /// The steps that all evaluations over it have taken.
    pub(crate) fn steps(&self) -> usize {
        Cost::of(FULL_EVALUATIONS).without(self.left.get()).steps
    }

    /// An evaluation has taken this.
    pub(super) fn take(&self, cost: Cost) {
        self.left.set(self.left.get().without(cost));
    }

    /// A top-level field.
    pub(super) fn root(&self, name: &str) -> Option<&Value> {
        match name {
            "data" | "stringData" if self.is_secret && !mutants::is(Mutant::SecretsSeen) => None,
            "metadata" if self.metadata.is_some() => self.metadata.as_ref(),
            _ => self.fields?.get(name),
        }
    }
}

/// Metadata without what is not shown; None where nothing of it is there.
fn without_hidden(metadata: &Value) -> Option<Value> {
    let annotations = metadata["annotations"].as_object();
    let repeats = annotations.is_some_and(|annotations| annotations.contains_key(LAST_APPLIED));
    let metadata = metadata.as_object().filter(|all| repeats || all.contains_key("managedFields"))?;
    let kept = metadata.iter().filter(|(name, _)| *name != "managedFields" && *name != "annotations");
    let mut copy: Map<_, _> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    if let Some(annotations) = annotations {
        let kept = annotations.iter().filter(|(name, _)| *name != LAST_APPLIED);
        let kept: Map<_, _> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        copy.insert("annotations".to_owned(), Value::Object(kept));
    }
    Some(Value::Object(copy))
}

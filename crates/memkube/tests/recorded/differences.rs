//! What memkube is known to answer otherwise than the real server, each with its reason. What follows in a
//! sequence after one of these is not compared. And what older releases of Kubernetes are known to answer otherwise than
//! the one that was recorded.

use serde_json::{Value, json};

use crate::bed::Bed;
use crate::steps::Step;
use crate::subjects::GROUP;

/// A difference: when it is this one, and why it stays.
struct Known {
    why: &'static str,
    /// Is it this one? The step with the real answer, and memkube's other one.
    is: fn(&Step, &Value) -> bool,
}

static KNOWN: [Known; 6] = [
    Known {
        why: "A Service that is not there is made by a write of its status, as by no other kind's. Nobody does it.",
        is: |step, found| {
            let is_status = step.path.contains("/services/") && step.path.contains("/status?");
            is_status && step.answer["code"] != 404 && found["code"] == 404
        },
    },
    Known {
        why: "A write that changes nothing of a custom resource that was applied with empty annotations, or \
              whose defaults came only through scale, is one: it is stored again in another form.",
        is: |step, found| step.path.contains(GROUP) && unversioned(&step.answer) == unversioned(found),
    },
    Known {
        why: "Rules that are [] are null in the store and differ from it: each such write is one of the writer's, \
              and a new version once a second has passed.",
        is: |step, found| step.body["rules"] == json!([]) && unversioned(&step.answer) == unversioned(found),
    },
    Known {
        why: "Rules for the address families of Services are not looked at.",
        is: |step, found| {
            let tells = |answer: &Value| answer["causes"].to_string().contains("spec.ipFamil");
            let code = found["code"].as_u64().unwrap_or_default();
            step.path.contains("/services")
                && step.answer["code"] == 422
                && tells(&step.answer)
                && matches!(code, 200 | 201 | 422)
                && !tells(found)
        },
    },
    Known {
        why: "Of a PersistentVolume's spec only the access modes are looked at.",
        is: |step, found| {
            step.path.contains("/persistentvolumes")
                && step.answer["code"] == 422
                && step.answer["causes"].to_string().contains("spec.capacity")
                && found["code"] == 422
                && tells_less(&step.answer, found)
        },
    },
    Known {
        why: "A wrong uid is said alone, not along with what else is wrong.",
        is: |step, found| {
            step.sort == "wrong-uid"
                && found["code"] == step.answer["code"]
                && tells_less(&step.answer, found)
        },
    },
];

/// Of the causes in the real answer memkube tells some, and no other.
fn tells_less(real: &Value, found: &Value) -> bool {
    let causes = |answer: &Value| answer["causes"].as_array().cloned().unwrap_or_default();
    let (real, ours) = (causes(real), causes(found));
    !ours.is_empty() && ours.iter().all(|cause| real.contains(cause))
}

/// An answer without the number of its version.
fn unversioned(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(metadata) = answer.pointer_mut("/object/metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    answer
}

/// Why what differs at this step does; `None`: that is not known.
pub fn known(step: &Step, found: &Value) -> Option<&'static str> {
    KNOWN.iter().find(|known| (known.is)(step, found)).map(|known| known.why)
}

/// Why anything differs that is known to.
pub fn all() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|known| known.why)
}

/// A difference of releases.
struct Older {
    why: &'static str,
    /// The first release that answers as recorded: 36 is 1.36.
    since: u32,
    /// The older release's answer as the newer one gives it.
    newer: fn(Value) -> Value,
}

static OLDER: [Older; 1] = [Older {
    why: "A write of a custom resource's status owns the labels and annotations that it has, though they are not taken.",
    since: 36,
    newer: |mut answer| {
        // Indexing would make what is not there.
        if let Some(items) = answer.pointer_mut("/object/items").and_then(Value::as_array_mut) {
            items.iter_mut().for_each(status_owns_no_metadata);
        } else if let Some(object) = answer.get_mut("object") {
            status_owns_no_metadata(object);
        }
        answer
    },
}];

fn status_owns_no_metadata(object: &mut Value) {
    let is_custom = object["apiVersion"].as_str().is_some_and(|version| version.contains(".dev/"));
    let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten().filter(|entry| is_custom && entry["subresource"] == "status") {
        if let Some(fields) = entry["fieldsV1"].as_object_mut() {
            fields.remove("f:metadata");
        }
    }
}

/// Does a real server's answer differ from the recorded one, but for what its release is known to answer otherwise?
pub fn is_other(bed: &Bed, step: &Step, found: &Value) -> bool {
    let older = OLDER.iter().filter(|older| !older.why.is_empty() && !bed.is_since(older.since));
    let found = older.fold(found.clone(), |found, older| (older.newer)(found));
    step.answer != found
}

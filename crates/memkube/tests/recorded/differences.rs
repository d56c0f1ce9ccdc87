//! What memkube is known to answer otherwise than the real server, each with its reason. What follows in a
//! sequence after one of these is not compared.

use serde_json::{Value, json};

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

//! What memkube is known to answer otherwise than the real server, each with its reason. What follows in a
//! sequence after one of these is not compared.

use serde_json::{Value, json};

use crate::steps::Step;
use crate::subjects::GROUP;

/// A difference: when it is this one, and why it stays.
struct Known {
    why: &'static str,
    /// Is it this one? The step with the real answer, and memkube's answer.
    is: fn(&Step, &Value) -> bool,
}

const KNOWN: [Known; 6] = [
    Known {
        why: "A Service that is not there is made by a write of its status, as by no other kind's. Nobody does it.",
        is: |step, found| {
            step.path.contains("/services/") && step.path.contains("/status?") && found["code"] == 404
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
        is: |step, _| {
            let causes = step.answer["causes"].to_string();
            step.path.contains("/services") && causes.contains("spec.ipFamil")
        },
    },
    Known {
        why: "Of a PersistentVolume's spec only the access modes are looked at.",
        is: |step, _| {
            step.path.contains("/persistentvolumes")
                && step.answer["causes"].to_string().contains("spec.capacity")
        },
    },
    Known {
        why: "A wrong uid is said alone, not along with what else is wrong.",
        is: |step, found| {
            let causes = |answer: &Value| answer["causes"].as_array().cloned().unwrap_or_default();
            let (real, ours) = (causes(&step.answer), causes(found));
            step.sort == "wrong-uid" && !ours.is_empty() && ours.iter().all(|cause| real.contains(cause))
        },
    },
];

/// An answer without the number of its version.
fn unversioned(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(metadata) = answer.pointer_mut("/object/metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    answer
}

/// Is what differs at this step known?
pub fn is_known(step: &Step, found: &Value) -> bool {
    KNOWN.iter().any(|known| !known.why.is_empty() && (known.is)(step, found))
}

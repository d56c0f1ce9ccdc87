//! Conditions in the form of workloads' statuses.

use serde_json::{Value, json};

/// Sets a condition. Where status and reason stay, all of it stays; where the status stays, so does the time
/// of its transition. A changed one goes to the end, as the Deployment controller has it. `fields` are
/// written beside.
pub(super) fn set(
    status: &mut Value,
    kind: &str,
    is: &str,
    reason: &str,
    message: &str,
    fields: Value,
    now: &str,
) {
    let mut all = status["conditions"].as_array().cloned().unwrap_or_default();
    let mut since = now.to_owned();
    if let Some(old) = all.iter().find(|one| one["type"] == kind) {
        if old["status"] == is && old["reason"].as_str().unwrap_or_default() == reason {
            return;
        }
        if old["status"] == is {
            since = old["lastTransitionTime"].as_str().unwrap_or(now).to_owned();
        }
    }
    all.retain(|one| one["type"] != kind);
    let mut new = json!({"type": kind, "status": is, "lastTransitionTime": since});
    for (field, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            new[field] = json!(text);
        }
    }
    for (field, value) in fields.as_object().into_iter().flatten() {
        new[field.as_str()] = value.clone();
    }
    all.push(new);
    status["conditions"] = Value::Array(all);
}

/// Makes the next [`set`] of a condition count as a change, though its reason may be the same.
pub(super) fn touch(status: &mut Value, kind: &str) {
    let all = status["conditions"].as_array_mut().into_iter().flatten();
    all.filter(|one| one["type"] == kind).for_each(|one| one["reason"] = Value::Null);
}

pub(super) fn remove(status: &mut Value, kind: &str) {
    if let Some(all) = status["conditions"].as_array_mut() {
        all.retain(|one| one["type"] != kind);
    }
}

pub(super) fn has(status: &Value, kind: &str, is: &str) -> bool {
    let mut all = status["conditions"].as_array().into_iter().flatten();
    all.any(|one| one["type"] == kind && one["status"] == is)
}

/// Is this the reason of the condition?
pub(super) fn is(status: &Value, kind: &str, reason: &str) -> bool {
    let mut all = status["conditions"].as_array().into_iter().flatten();
    all.any(|one| one["type"] == kind && one["reason"] == reason)
}

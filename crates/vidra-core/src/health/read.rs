//! Reading fields and conditions of a live object, leniently: what has another type is taken for absent.

use serde_json::Value;

use super::message;

/// A condition of a status; absent texts are "".
#[derive(Debug, Clone, Copy)]
pub(super) struct Condition<'a> {
    pub(super) kind: &'a str,
    pub(super) status: &'a str,
    pub(super) reason: &'a str,
    pub(super) severity: &'a str,
    pub(super) message: &'a str,
    /// The generation that it was set for, where it says so.
    pub(super) generation: Option<i64>,
}

/// The text at a JSON pointer; an empty one is absent.
pub(super) fn text<'a>(live: &'a Value, pointer: &str) -> Option<&'a str> {
    live.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// An observed generation: a whole number, or a decimal text of one, as Argo's Rollouts write it.
pub(super) fn generation(value: Option<&Value>) -> Option<i64> {
    value.and_then(|value| value.as_i64().or_else(|| value.as_str()?.parse().ok()))
}

/// The whole number at a JSON pointer.
pub(super) fn number(live: &Value, pointer: &str) -> Option<i64> {
    live.pointer(pointer).and_then(Value::as_i64)
}

/// A count in the status: 0 where it is absent, as controllers leave zeros out.
pub(super) fn count(live: &Value, field: &str) -> i64 {
    live.get("status").and_then(|s| s.get(field)).and_then(Value::as_i64).unwrap_or(0)
}

pub(super) fn flag(live: &Value, pointer: &str) -> bool {
    live.pointer(pointer).and_then(Value::as_bool).unwrap_or(false)
}

/// The conditions in the order of the object.
pub(super) fn conditions(live: &Value) -> impl Iterator<Item = Condition<'_>> {
    fn field<'a>(c: &'a Value, name: &str) -> &'a str {
        c.get(name).and_then(Value::as_str).unwrap_or_default()
    }
    live.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten().map(|c| Condition {
        kind: field(c, "type"),
        status: field(c, "status"),
        reason: field(c, "reason"),
        severity: field(c, "severity"),
        message: field(c, "message"),
        generation: generation(c.get("observedGeneration")),
    })
}

/// The latest generation that a condition is of, and the one that is declared, where that is a later one.
pub(super) fn conditions_behind(live: &Value) -> Option<(i64, i64)> {
    let told = conditions(live).filter_map(|condition| condition.generation).max()?;
    let declared = number(live, "/metadata/generation")?;
    (told < declared).then_some((told, declared))
}

impl Condition<'_> {
    /// What is said of it, and its own text where it has one.
    pub(super) fn tell(&self, says: &str) -> String {
        match self.message.trim() {
            "" => says.to_owned(),
            text => format!("{says}: {}", message::stable(text)),
        }
    }
}

/// The condition of this type.
pub(super) fn condition<'a>(live: &'a Value, kind: &str) -> Option<Condition<'a>> {
    conditions(live).find(|c| c.kind == kind)
}

/// Whether the condition of this type has this status.
pub(super) fn has_condition(live: &Value, kind: &str, status: &str) -> bool {
    condition(live, kind).is_some_and(|c| c.status == status)
}

//! Values against a schema, in the words of the real server.

use serde_json::{Map, Value};

use super::node::{ListKind, Node};

/// A field, the reason's name, and the message.
pub(super) type Wrong = (String, &'static str, String);

/// Whatever is wrong with a value. What is as it was before, in a place that can be found again, is let be.
pub(super) fn check(node: &Node, value: &Value, old: Option<&Value>, path: &str, wrong: &mut Vec<Wrong>) {
    if old == Some(value) {
        return;
    }
    let mut refuse = |reason, message: String| wrong.push((path.to_owned(), reason, message));
    if value.is_null() {
        if let Some(kind) = node.kind.as_ref().filter(|_| !node.nullable) {
            let why = format!("Invalid value: \"null\": {path} in body must be of type {kind}: \"null\"");
            refuse("FieldValueTypeInvalid", why);
        }
        return;
    }
    let wanted = match &node.kind {
        _ if node.int_or_string => {
            (!is_a(value, "integer") && !value.is_string()).then_some("integer,string")
        }
        Some(kind) => (!is_a(value, kind)).then_some(kind.as_str()),
        None => None,
    };
    if let Some(wanted) = wanted {
        let found = name_of(value);
        let why = format!("Invalid value: {found:?}: {path} in body must be of type {wanted}: {found:?}");
        refuse("FieldValueTypeInvalid", why);
    }
    if let Some(allowed) = node.allowed.as_ref().filter(|allowed| !allowed.contains(value)) {
        let quoted =
            |value: &Value| if value.is_string() { value.to_string() } else { format!("\"{value}\"") };
        let allowed: Vec<_> = allowed.iter().map(quoted).collect();
        let why = format!("Unsupported value: {value}: supported values: {}", allowed.join(", "));
        refuse("FieldValueNotSupported", why);
    }
    if wanted.is_some() {
        return;
    }
    combined(node, value, path, wrong);
    match value {
        Value::String(text) => string(node, text, path, wrong),
        Value::Number(_) => number(node, value, path, wrong),
        Value::Array(list) => items(node, list, old, path, wrong),
        Value::Object(map) => members(node, map, old, path, wrong),
        Value::Null | Value::Bool(_) => {}
    }
}

/// allOf, anyOf, oneOf and not. Their own refusals name no field; what was wrong before is wrong again.
fn combined(node: &Node, value: &Value, path: &str, wrong: &mut Vec<Wrong>) {
    let what = |node: &Node| {
        let mut wrong = Vec::new();
        check(node, value, None, path, &mut wrong);
        wrong
    };
    let refuse = |wrong: &mut Vec<Wrong>, why: &str| {
        let message = format!("Invalid value: \"\": {path:?} must {why}");
        wrong.push(("<nil>".to_owned(), "FieldValueInvalid", message));
    };
    if !node.any_of.is_empty() {
        let all: Vec<_> = node.any_of.iter().map(what).collect();
        if all.iter().all(|found| !found.is_empty()) {
            refuse(wrong, "validate at least one schema (anyOf)");
            wrong.extend(all.into_iter().next().unwrap_or_default());
        }
    }
    if !node.one_of.is_empty() {
        let all: Vec<_> = node.one_of.iter().map(what).collect();
        match all.iter().filter(|found| found.is_empty()).count() {
            1 => {}
            0 => {
                refuse(wrong, "validate one and only one schema (oneOf). Found none valid");
                wrong.extend(all.into_iter().next().unwrap_or_default());
            }
            several => refuse(
                wrong,
                &format!("validate one and only one schema (oneOf). Found {several} valid alternatives"),
            ),
        }
    }
    if !node.all_of.is_empty() {
        let all: Vec<_> = node.all_of.iter().map(what).collect();
        let valid = all.iter().filter(|found| found.is_empty()).count();
        if valid < all.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            wrong.extend(all.into_iter().flatten());
            refuse(wrong, &format!("validate all the schemas (allOf){none}"));
        }
    }
    if node.not.as_ref().is_some_and(|not| what(not).is_empty()) {
        refuse(wrong, "not validate the schema (not)");
    }
}

fn invalid(wrong: &mut Vec<Wrong>, value: &Value, path: &str, why: &str) {
    let message = format!("Invalid value: {value}: {path} in body {why}");
    wrong.push((path.to_owned(), "FieldValueInvalid", message));
}

/// Only the first of length and pattern that is wrong is said.
fn string(node: &Node, text: &str, path: &str, wrong: &mut Vec<Wrong>) {
    let length = || text.chars().count() as u64;
    let value = || Value::from(text);
    let (least, most) = node.length;
    if let Some(most) = most.filter(|most| length() > *most) {
        let why =
            format!("Too long: may not be more than {most} {}", if most == 1 { "byte" } else { "bytes" });
        wrong.push((path.to_owned(), "FieldValueTooLong", why));
    } else if let Some(least) = least.filter(|least| length() < *least) {
        invalid(wrong, &value(), path, &format!("should be at least {least} chars long"));
    } else if let Some(pattern) = node.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        invalid(wrong, &value(), path, &format!("should match '{pattern}'"));
    }
    if let Some(format) = node.format.as_ref().filter(|format| !format.fits(text)) {
        let name = format.name();
        let why = format!("Invalid value: {text:?}: {path} in body must be of type {name}: {text:?}");
        wrong.push((path.to_owned(), "FieldValueTypeInvalid", why));
    }
}

fn number(node: &Node, value: &Value, path: &str, wrong: &mut Vec<Wrong>) {
    if let Some(format) = node.format.as_ref().filter(|format| !format.holds(value)) {
        let (kind, name) = (node.kind.as_deref().unwrap_or_default(), format.name());
        let message =
            format!("Invalid value: \"\": Checked value must be of type {kind} with format {name} in {path}");
        wrong.push(("<nil>".to_owned(), "FieldValueInvalid", message));
    }
    let Some(number) = value.as_f64() else { return };
    if let Some(factor) = &node.multiple_of
        && factor.as_f64().is_some_and(|factor| factor > 0.0 && (number / factor).fract() != 0.0)
    {
        invalid(wrong, value, path, &format!("should be a multiple of {factor}"));
    }
    // A whole number is written without a fraction, however the CRD writes it.
    let beyond = |bound: &Option<(Value, bool)>, sign: f64| {
        let (limit, excluded) = bound.as_ref()?;
        let over = (number - limit.as_f64()?) * sign;
        (over > 0.0 || (*excluded && over == 0.0)).then_some((limit.as_f64()?, *excluded))
    };
    if let Some((limit, excluded)) = beyond(&node.minimum, -1.0) {
        let why = if excluded { "greater than" } else { "greater than or equal to" };
        invalid(wrong, value, path, &format!("should be {why} {limit}"));
    }
    if let Some((limit, excluded)) = beyond(&node.maximum, 1.0) {
        let why = if excluded { "less than" } else { "less than or equal to" };
        invalid(wrong, value, path, &format!("should be {why} {limit}"));
    }
}

/// Too few or too many of something.
fn amount(
    size: usize,
    (least, most): (Option<u64>, Option<u64>),
    what: &str,
    value: impl Fn() -> Value,
    path: &str,
    wrong: &mut Vec<Wrong>,
) {
    let size = size as u64;
    if let Some(least) = least.filter(|least| size < *least) {
        invalid(wrong, &value(), path, &format!("should have at least {least} {what}"));
    }
    if let Some(most) = most.filter(|most| size > *most) {
        let items = if most == 1 { "item" } else { "items" };
        let why = format!("Too many: {size}: must have at most {most} {items}");
        wrong.push((path.to_owned(), "FieldValueTooMany", why));
    }
}

fn items(node: &Node, list: &[Value], old: Option<&Value>, path: &str, wrong: &mut Vec<Wrong>) {
    amount(list.len(), node.items_bounds, "items", || list.to_vec().into(), path, wrong);
    let keyed = |one: &Value, other: &Value| match &node.list {
        ListKind::Plain => false,
        ListKind::Set => one == other,
        ListKind::Map(keys) => keys.iter().all(|key| one[key] == other[key]),
    };
    for (index, item) in list.iter().enumerate() {
        let at = || format!("{path}[{index}]");
        if let Some(items) = &node.items {
            check(items, item, node.same_item(item, old), &at(), wrong);
        }
        if node.list != ListKind::Plain && list[..index].iter().any(|other| keyed(other, item)) {
            wrong.push((at(), "FieldValueDuplicate", format!("Duplicate value: {item}")));
        }
    }
}

fn members(node: &Node, map: &Map<String, Value>, old: Option<&Value>, path: &str, wrong: &mut Vec<Wrong>) {
    amount(map.len(), node.properties_bounds, "properties", || map.clone().into(), path, wrong);
    for key in node.required.iter().filter(|key| !map.contains_key(*key)) {
        wrong.push((below(path, key), "FieldValueRequired", "Required value".to_owned()));
    }
    for (key, value) in map {
        let old = old.and_then(|old| old.get(key));
        // Before a path is made for what is as it was.
        if old == Some(value) || (node.resource && key == "metadata") {
            continue;
        }
        if let Some(inner) = node.entry(key) {
            check(inner, value, old, &below(path, key), wrong);
        }
    }
}

/// The path of an entry.
pub(super) fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        "number" => value.is_number(),
        _ => true,
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

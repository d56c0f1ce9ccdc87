//! JSON patches as the real server does them: RFC 6902 with the liberties of the library that it uses. A field
//! that is not there counts as null: it can be replaced, copied from, and tested for null. An index may count
//! from the end.

use serde_json::{Map, Value};

/// Does the operations of a patch on a document. Fails with what is wrong with the first that cannot be done.
pub(super) fn apply(document: &mut Value, operations: &[Map<String, Value>]) -> Result<(), String> {
    for operation in operations {
        let text = |field: &str| operation.get(field).and_then(Value::as_str);
        let kind = text("op").unwrap_or_default();
        let path = text("path").ok_or_else(|| format!("{kind} operation failed to decode path"))?;
        let value = operation.get("value").cloned().unwrap_or_default();
        let from = || text("from").ok_or_else(|| format!("{kind} operation failed to decode from"));
        match kind {
            "add" => add(document, path, value)?,
            "remove" => drop(remove(document, path)?),
            "replace" if path.is_empty() => *document = value,
            "replace" => replace(document, path, value)?,
            "move" => {
                let moved = remove(document, from()?)?;
                add(document, path, moved)?;
            }
            "copy" => {
                let copied = get(document, from()?)?;
                add(document, path, copied)?;
            }
            "test" => {
                let found = if path.is_empty() { document.clone() } else { get(document, path)? };
                if found != value {
                    return Err(format!("testing value {path} failed"));
                }
            }
            other => return Err(format!("unexpected kind: {other}")),
        }
    }
    Ok(())
}

/// Lays a merge patch over a document: RFC 7386, but of what is put in again nulls go everywhere.
pub(super) fn merge(document: &mut Value, patch: Value) {
    match (document, patch) {
        (Value::Object(map), Value::Object(patch)) => {
            for (key, value) in patch {
                match map.get_mut(&key) {
                    _ if value.is_null() => {
                        map.remove(&key);
                    }
                    Some(inner) if !inner.is_null() => merge(inner, value),
                    _ => {
                        map.insert(key, without_nulls(value));
                    }
                }
            }
        }
        (document, patch) => *document = without_nulls(patch),
    }
}

/// Items of lists that are null stay.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// What holds the last step of a path, and that step.
fn holder<'d>(document: &'d mut Value, path: &str) -> Result<(&'d mut Value, String), String> {
    let missing = || format!("doc is missing path: {path:?}");
    let mut steps = path.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
    let mut last = steps.next().ok_or_else(missing)?;
    let mut at = document;
    for step in steps {
        at = match at {
            Value::Object(map) => map.get_mut(&last).ok_or_else(missing)?,
            Value::Array(list) => {
                let index = index(&last, list.len())?;
                list.get_mut(index).ok_or_else(missing)?
            }
            _ => return Err(missing()),
        };
        last = step;
    }
    if at.is_object() || at.is_array() { Ok((at, last)) } else { Err(missing()) }
}

/// An index below `end`; a negative one counts from there.
fn index(text: &str, end: usize) -> Result<usize, String> {
    let wrong = || format!("unable to access invalid index: {text}");
    let number: i64 = text.parse().map_err(|_| wrong())?;
    let length = i64::try_from(end).unwrap_or(i64::MAX);
    let at = if number < 0 { number + length } else { number };
    usize::try_from(at).ok().filter(|at| *at < end).ok_or_else(wrong)
}

fn get(document: &mut Value, path: &str) -> Result<Value, String> {
    match holder(document, path)? {
        (Value::Array(list), step) => Ok(list[index(&step, list.len())?].clone()),
        (holder, step) => Ok(holder[step.as_str()].clone()),
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), String> {
    match holder(document, path)? {
        (Value::Object(map), step) => {
            map.insert(step, value);
        }
        (Value::Array(list), step) if step == "-" => list.push(value),
        (Value::Array(list), step) => list.insert(index(&step, list.len() + 1)?, value),
        _ => {}
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Result<Value, String> {
    match holder(document, path)? {
        (Value::Object(map), step) => {
            map.remove(&step).ok_or_else(|| format!("unable to remove nonexistent key: {step}"))
        }
        (Value::Array(list), step) => Ok(list.remove(index(&step, list.len())?)),
        _ => Ok(Value::Null),
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), String> {
    match holder(document, path)? {
        (Value::Array(list), step) => {
            let index = index(&step, list.len())?;
            list[index] = value;
        }
        (Value::Object(map), step) => {
            map.insert(step, value);
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_merge_patch_leaves_no_null_in_what_it_puts_in() {
        let table = [
            (
                json!({"a": {"b": 1}}),
                json!({"a": {"b": null, "c": [{"d": null}, null]}}),
                json!({"a": {"c": [{}, null]}}),
            ),
            (json!({"a": [1]}), json!({"a": [{"b": null}]}), json!({"a": [{}]})),
            (json!({}), json!({"a": {"b": null}}), json!({"a": {}})),
        ];
        for (mut document, patch, wanted) in table {
            merge(&mut document, patch);
            assert_eq!(document, wanted);
        }
    }

    #[test]
    fn operations_are_done_as_the_real_server_does_them() {
        let start = json!({"a": {"b": 1}, "l": [1, 2]});
        let table = [
            (
                json!([{"op": "add", "path": "/a/c", "value": 2}]),
                Some(json!({"a": {"b": 1, "c": 2}, "l": [1, 2]})),
            ),
            (
                json!([{"op": "add", "path": "/l/-", "value": 3}]),
                Some(json!({"a": {"b": 1}, "l": [1, 2, 3]})),
            ),
            (
                json!([{"op": "add", "path": "/l/-1", "value": 3}]),
                Some(json!({"a": {"b": 1}, "l": [1, 2, 3]})),
            ),
            (json!([{"op": "remove", "path": "/l/0"}]), Some(json!({"a": {"b": 1}, "l": [2]}))),
            (
                json!([{"op": "replace", "path": "/a/x", "value": 1}]),
                Some(json!({"a": {"b": 1, "x": 1}, "l": [1, 2]})),
            ),
            (
                json!([{"op": "copy", "from": "/x", "path": "/y"}]),
                Some(json!({"a": {"b": 1}, "l": [1, 2], "y": null})),
            ),
            (
                json!([{"op": "move", "from": "/a/b", "path": "/m"}]),
                Some(json!({"a": {}, "l": [1, 2], "m": 1})),
            ),
            (json!([{"op": "test", "path": "/none", "value": null}]), Some(start.clone())),
            (json!([{"op": "test", "path": "/a/b", "value": 2}]), None),
            (json!([{"op": "remove", "path": "/a/x"}]), None),
            (json!([{"op": "add", "path": "/x/y", "value": 1}]), None),
            (json!([{"op": "add", "path": "/l/9", "value": 1}]), None),
            (json!([{"op": "nothing", "path": "/a"}]), None),
            (json!([{"op": "add"}]), None),
        ];
        for (patch, wanted) in table {
            let operations: Vec<Map<String, Value>> =
                serde_json::from_value(patch.clone()).expect("a list of objects");
            let mut document = start.clone();
            let done = apply(&mut document, &operations);
            assert_eq!(done.ok().map(|()| document), wanted, "{patch}");
        }
    }
}

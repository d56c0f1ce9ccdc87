//! Answers without what each server makes up by itself.

use serde_json::{Map, Value, json};

use crate::subjects::Subject;

/// Replaces what each server makes up by itself.
pub fn plain(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(prefix) = map.get("generateName").and_then(Value::as_str).map(str::to_owned)
                && map.get("name").and_then(Value::as_str).is_some_and(|name| name.starts_with(&prefix))
            {
                map.insert("name".to_owned(), json!(format!("{prefix}*")));
            }
            for (key, value) in map.iter_mut() {
                match key.as_str() {
                    "managedFields" => entries(value),
                    "uid"
                    | "creationTimestamp"
                    | "deletionTimestamp"
                    | "lastTransitionTime"
                    | "lastPhaseTransitionTime"
                    | "clusterIP"
                        if value.is_string() && *value != "None" && *value != "" =>
                    {
                        *value = json!("X");
                    }
                    "time" if value.is_string() => *value = json!("T"),
                    // Of lists and their items.
                    "resourceVersion" if value.as_str().is_some_and(|text| !text.starts_with('#')) => {
                        *value = json!("R");
                    }
                    "continue" if value.as_str().is_some_and(|token| !token.is_empty()) => {
                        *value = json!("C");
                    }
                    "clusterIPs" if value[0] != "None" => *value = json!(["X"]),
                    "nodePort" => *value = json!(0),
                    "message" => *value = json!(""),
                    key if key.ends_with("controller-uid") && value.is_string() => *value = json!("X"),
                    _ => plain(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(plain),
        _ => {}
    }
}

/// Whether an entry has a time is compared, and whether the entries are in the order that comes of the times
/// (tests/facts/order.rs), not that order: another run has other times.
fn entries(value: &mut Value) {
    let Some(entries) = value.as_array_mut() else { return };
    let key = |entry: &Value, fields: &[&str]| -> Vec<Value> {
        fields.iter().map(|field| entry[*field].clone()).collect()
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let full = |entry: &Value| -> Vec<String> {
        key(entry, &["operation", "time", "manager", "apiVersion", "subresource"]).iter().map(text).collect()
    };
    let ordered = entries.is_sorted_by_key(full);
    entries.iter_mut().for_each(plain);
    entries.sort_by_key(|entry| {
        json!(key(entry, &["operation", "manager", "apiVersion", "subresource"])).to_string()
    });
    if !ordered {
        entries.push(json!("not in order"));
    }
}

/// Names that the server made, in events.
pub fn generated(mut value: Value) -> Value {
    for event in value["events"].as_array_mut().into_iter().flatten() {
        if let Some(at) = event[1].as_str().and_then(|name| name.find("-gen-")) {
            let name = event[1].as_str().map(|name| format!("{}*", &name[..at + 5])).unwrap_or_default();
            event[1] = json!(name);
        }
    }
    value
}

/// An object, or a list of them, whose kind is not compared whole: who owns what, the owned fields, and what
/// the server makes of the metadata.
pub fn slim(object: &Value) -> Value {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if kind == "Scale" || Subject::is_whole(api_version, kind.trim_end_matches("List")) {
        return object.clone();
    }
    if let Some(items) = object["items"].as_array() {
        let mut list = object.clone();
        list["items"] = items.iter().map(part).collect();
        return list;
    }
    let mut part = part(object);
    part["apiVersion"] = object["apiVersion"].clone();
    part["kind"] = object["kind"].clone();
    part
}

fn part(object: &Value) -> Value {
    let mut part = json!({"metadata": object["metadata"]});
    let mut owned = Value::Null;
    for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
        owned = project(&entry["fieldsV1"], object, owned);
    }
    part["owned"] = owned;
    part
}

/// The fields of the object that are in a set, beside those that are there already.
fn project(fields: &Value, value: &Value, mut out: Value) -> Value {
    let Some(fields) = fields.as_object().filter(|fields| fields.keys().any(|key| key != ".")) else {
        return value.clone();
    };
    for (step, inner) in fields {
        let Some((kind, rest)) = step.split_once(':') else { continue };
        let found = match kind {
            "f" => value.get(rest),
            "k" => {
                let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
                let fits = |item: &&Value| keys.iter().all(|(key, wanted)| item[key] == *wanted);
                value.as_array().and_then(|items| items.iter().find(fits))
            }
            "v" => {
                let wanted: Value = serde_json::from_str(rest).unwrap_or_default();
                value.as_array().and_then(|items| items.iter().find(|item| **item == wanted))
            }
            _ => None,
        };
        let before = out.get(step).cloned().unwrap_or_default();
        let made = found.map_or(json!("missing"), |found| project(inner, found, before));
        if !out.is_object() {
            out = json!({});
        }
        out[step] = made;
    }
    out
}

//! What built-in kinds demand of their values, as far as it is implemented: well-formed metadata, required
//! fields, and a few rules of single kinds. The real server has more.

use serde_json::{Map, Value};

use super::kinds::Kind;
use super::limits;
use super::schema::{Form, Scalar};
use super::smd::Typed;

/// A field, the reason's name, and the message.
pub(super) type Wrong = (String, &'static str, String);

fn wrong(field: impl Into<String>, reason: &'static str, why: impl Into<String>) -> Wrong {
    (field.into(), reason, why.into())
}

/// What a name must be, in the words of apimachinery's validation.
const LABEL: &str = "label must consist of lower case alphanumeric characters or '-', and must start and end with \
    an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
    and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Names, labels and annotations' keys.
pub(super) fn metadata(kind: &Kind, object: &Value) -> Vec<Wrong> {
    let mut all = Vec::new();
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let fits = |name: &str| match (kind.group.as_str(), kind.plural.as_str()) {
        ("rbac.authorization.k8s.io", _) => !name.contains(['/', '%']) && name != "." && name != "..",
        ("", "namespaces" | "services") => is_label(name),
        _ => name.len() <= 253 && name.split('.').all(is_label),
    };
    let prefix = metadata["generateName"].as_str().unwrap_or_default();
    // What is drawn comes after it.
    let names =
        [("metadata.generateName", prefix, format!("{prefix}a")), ("metadata.name", name, name.to_owned())];
    for (field, name, full) in names {
        if fits(&full) {
            continue;
        }
        let label = kind.group.is_empty() && matches!(kind.plural.as_str(), "namespaces" | "services");
        let rule = if label { LABEL } else { SUBDOMAIN };
        let why = format!("Invalid value: {name:?}: a lowercase RFC 1123 {rule}");
        all.push(wrong(field, "FieldValueInvalid", why));
    }
    all.extend(references(kind, metadata));
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        if !is_qualified(key) || !(text.is_empty() || is_word(text)) {
            let why = format!(
                "Invalid value: {key:?}: a valid label consists of alphanumeric characters, '-', '_' or '.'"
            );
            all.push(wrong("metadata.labels", "FieldValueInvalid", why));
        }
    }
    for key in metadata["annotations"].as_object().into_iter().flatten().map(|(key, _)| key) {
        if !is_qualified(&key.to_lowercase()) {
            let why = format!(
                "Invalid value: {key:?}: a qualified name must consist of alphanumeric characters, '-', '_' or '.'"
            );
            all.push(wrong("metadata.annotations", "FieldValueInvalid", why));
        }
    }
    all
}

/// Finalizers and owners.
fn references(kind: &Kind, metadata: &Value) -> Vec<Wrong> {
    const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];
    let mut all = Vec::new();
    let texts = |list: &'static str| metadata[list].as_array().into_iter().flatten();
    for (index, finalizer) in texts("finalizers").filter_map(Value::as_str).enumerate() {
        if !is_qualified(finalizer) {
            let why =
                format!("Invalid value: {finalizer:?}: name part must consist of alphanumeric characters");
            all.push(wrong("metadata.finalizers", "FieldValueInvalid", why));
        }
        if kind.is_builtin() && !finalizer.contains('/') && !STANDARD.contains(&finalizer) {
            let why = format!(
                "Invalid value: {finalizer:?}: name is neither a standard finalizer name nor is it fully qualified"
            );
            all.push(wrong(format!("metadata.finalizers[{index}]"), "FieldValueInvalid", why));
        }
    }
    for owner in texts("ownerReferences") {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                let field = format!("metadata.ownerReferences.{field}");
                all.push(wrong(field, "FieldValueInvalid", "Invalid value: \"\": must not be empty"));
            }
        }
    }
    all
}

/// Keys of ConfigMaps and Secrets.
fn keys(object: &Value) -> Vec<Wrong> {
    let mut all = Vec::new();
    for field in ["data", "binaryData"] {
        for (key, _) in object[field].as_object().into_iter().flatten() {
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if key.is_empty()
                || key.len() > 253
                || !key.chars().all(fits)
                || key == "."
                || key.starts_with("..")
            {
                let why = format!(
                    "Invalid value: {key:?}: a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
                );
                all.push(wrong(format!("{field}[{key}]"), "FieldValueInvalid", why));
            }
        }
    }
    all
}

/// At most 63 lower-case letters, digits and dashes, none of these at an end.
fn is_label(text: &str) -> bool {
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=63).contains(&text.len())
        && text.chars().all(|c| ends(c) || c == '-')
        && text.starts_with(ends)
        && text.ends_with(ends)
}

/// A label's value, and the last part of its key.
pub(super) fn is_word(text: &str) -> bool {
    let ends = |c: char| c.is_ascii_alphanumeric();
    (1..=63).contains(&text.len())
        && text.chars().all(|c| ends(c) || matches!(c, '-' | '_' | '.'))
        && text.starts_with(ends)
        && text.ends_with(ends)
}

pub(super) fn is_qualified(key: &str) -> bool {
    match key.split_once('/') {
        None => is_word(key),
        Some((prefix, name)) => prefix.len() <= 253 && prefix.split('.').all(is_label) && is_word(name),
    }
}

/// What a built-in kind demands beyond metadata.
pub(super) fn builtin(kind: &Kind, live: Option<&Value>, object: &Value) -> Vec<Wrong> {
    let mut all = Vec::new();
    if !kind.is_builtin() {
        return all;
    }
    required(kind.typed(), object, "", &mut all);
    if matches!((kind.group.as_str(), kind.kind.as_str()), ("", "ConfigMap" | "Secret")) {
        all.extend(limits::values(kind, object));
        all.extend(keys(object));
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            selected(live, &object["spec"], &mut all);
        }
        ("", "Service") => {
            let ports = object["spec"]["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
            for (index, port) in ports.iter().enumerate().filter(|_| ports.len() > 1) {
                if port["name"].is_null() {
                    all.push(wrong(
                        format!("spec.ports[{index}].name"),
                        "FieldValueRequired",
                        "Required value",
                    ));
                }
            }
        }
        ("", "ConfigMap" | "Secret") if live.is_some_and(|live| live["immutable"] == true) => {
            let live = live.unwrap_or(&Value::Null);
            for field in ["data", "binaryData", "immutable"] {
                if live[field] != object[field] {
                    let why = "Forbidden: field is immutable when `immutable` is set";
                    all.push(wrong(field, "FieldValueForbidden", why));
                }
            }
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding")
            if live.is_some_and(|live| live["roleRef"] != object["roleRef"]) =>
        {
            all.push(wrong("roleRef", "FieldValueInvalid", "Invalid value: cannot change roleRef"));
        }
        _ => {}
    }
    all
}

/// The selector of a workload must be there, fit the template's labels, and stay.
fn selected(live: Option<&Value>, spec: &Value, all: &mut Vec<Wrong>) {
    let empty = Map::new();
    let labels = spec["template"]["metadata"]["labels"].as_object().unwrap_or(&empty);
    let selector = spec["selector"]["matchLabels"].as_object().unwrap_or(&empty);
    let nothing = selector.is_empty() && spec["selector"]["matchExpressions"].is_null();
    if nothing && !spec["selector"].is_null() {
        all.push(wrong("spec.selector", "FieldValueInvalid", "Invalid value: empty selector is invalid"));
    }
    if nothing || selector.iter().any(|(key, value)| labels.get(key) != Some(value)) {
        let labels = Value::Object(labels.clone());
        let why = format!("Invalid value: {labels}: `selector` does not match template `labels`");
        all.push(wrong("spec.template.metadata.labels", "FieldValueInvalid", why));
    }
    if live.is_some_and(|live| live["spec"]["selector"] != spec["selector"]) {
        all.push(wrong("spec.selector", "FieldValueInvalid", "Invalid value: field is immutable"));
    }
}

/// Texts and lists that must be there and are empty. Status is not looked at: controllers write it.
fn required(typed: Typed<'_>, value: &Value, path: &str, all: &mut Vec<Wrong>) {
    match (typed.types.atom(typed.of).fitting(value), value) {
        (Form::Map(map), Value::Object(entries)) => {
            for name in &map.required {
                let Some(field) = map.fields.get(name) else { continue };
                let value = entries.get(&**name).unwrap_or(&Value::Null);
                let atom = typed.types.atom(field.of);
                let text =
                    atom.scalar == Some(Scalar::String) && value.as_str().unwrap_or_default().is_empty();
                let list = atom.list.is_some() && value.as_array().is_none_or(Vec::is_empty);
                let selector = &**name == "selector" && value.is_null();
                // Endpoints may have none.
                if (text || list || selector) && !MAY_BE_EMPTY.contains(&&**name) {
                    all.push(wrong(join(path, name), "FieldValueRequired", "Required value"));
                }
            }
            for (key, value) in entries {
                let root = path.is_empty();
                if root && matches!(key.as_str(), "status" | "metadata") {
                    continue;
                }
                let of = map.fields.get(key.as_str()).map(|field| field.of).or(map.values);
                if let Some(of) = of {
                    required(Typed { of, ..typed }, value, &join(path, key), all);
                }
            }
        }
        (Form::List(list), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                required(Typed { of: list.items, ..typed }, item, &format!("{path}[{index}]"), all);
            }
        }
        _ => {}
    }
}

const MAY_BE_EMPTY: [&str; 3] = ["endpoints", "ports", "serviceName"];

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

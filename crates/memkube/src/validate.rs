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
        ("rbac.authorization.k8s.io", _) | ("policy", "poddisruptionbudgets") => {
            !name.contains(['/', '%']) && name != "." && name != ".."
        }
        ("", "namespaces" | "services") => is_label(name),
        // Its parts may be longer than a label.
        _ => name.len() <= 253 && name.split('.').all(is_part),
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
    finalizers(kind, metadata, &mut all);
    owners(metadata, &mut all);
    all
}

/// A number is one that a port can have; what is no number is somebody else's to judge.
fn is_port(value: &Value) -> bool {
    value.as_i64().is_none_or(|number| (1..=65535).contains(&number))
}

/// Finalizers are qualified names; those of built-in kinds without a domain are the server's own.
fn finalizers(kind: &Kind, metadata: &Value, all: &mut Vec<Wrong>) {
    let list = metadata["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for (index, name) in list.enumerate() {
        if !is_qualified(name) {
            let why = format!("Invalid value: {name:?}: a qualified name is wanted");
            all.push(wrong("metadata.finalizers", "FieldValueInvalid", why));
        }
        let own = ["kubernetes", "orphan", "foregroundDeletion"].contains(&name);
        let strict = kind.is_builtin() && kind.plural != "poddisruptionbudgets";
        if strict && !name.contains('/') && !own {
            let why = format!(
                "Invalid value: {name:?}: name is neither a standard finalizer name nor is it fully qualified"
            );
            all.push(wrong(format!("metadata.finalizers[{index}]"), "FieldValueInvalid", why));
        }
    }
}

/// Owners say who they are, and at most one of them controls.
fn owners(metadata: &Value, all: &mut Vec<Wrong>) {
    let owners = metadata["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    for field in ["apiVersion", "kind", "name", "uid"] {
        if owners.iter().any(|owner| owner[field].as_str().unwrap_or_default().is_empty()) {
            let why = format!("Invalid value: \"\": {field} must not be empty");
            all.push(wrong(format!("metadata.ownerReferences.{field}"), "FieldValueInvalid", why));
        }
    }
    if owners.iter().filter(|owner| owner["controller"] == true).count() > 1 {
        let why = "Invalid value: Only one reference can have Controller set to true";
        all.push(wrong("metadata.ownerReferences", "FieldValueInvalid", why));
    }
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

/// A part of at most 63.
fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_part(text)
}

/// Lower-case letters, digits and dashes, none of these at an end.
fn is_part(text: &str) -> bool {
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.chars().all(|c| ends(c) || c == '-') && text.starts_with(ends) && text.ends_with(ends)
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
    if let Some(live) = live {
        fixed(kind, live, object, &mut all);
    }
    let ingress = |object: &Value| object["status"]["loadBalancer"]["ingress"].clone();
    if kind.group.is_empty()
        && kind.kind == "Service"
        && object["spec"]["type"] != "LoadBalancer"
        && ingress(object).as_array().is_some_and(|all| !all.is_empty())
        && live.is_none_or(|live| ingress(live) != ingress(object))
    {
        let why = "Forbidden: may only be used when `spec.type` is \"LoadBalancer\"";
        all.push(wrong("status.loadBalancer.ingress", "FieldValueForbidden", why));
    }
    if matches!((kind.group.as_str(), kind.kind.as_str()), ("", "ConfigMap" | "Secret")) {
        all.extend(limits::values(kind, object));
        all.extend(keys(object));
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            if kind.kind == "StatefulSet"
                && live.is_some_and(|live| is_recast(&live["spec"], &object["spec"]))
            {
                let why = "Forbidden: updates to statefulset spec for fields other than these are forbidden";
                all.push(wrong("spec", "FieldValueForbidden", why));
            }
            selected(kind, live, &object["spec"], &mut all);
            let containers = object["spec"]["template"]["spec"]["containers"].as_array();
            for (index, container) in containers.into_iter().flatten().enumerate() {
                if container["image"].as_str().is_none_or(str::is_empty) {
                    let field = format!("spec.template.spec.containers[{index}].image");
                    all.push(wrong(field, "FieldValueRequired", "Required value"));
                }
            }
            if object["spec"]["replicas"].as_i64().is_some_and(|count| count < 0) {
                let why = "Invalid value: must be greater than or equal to 0";
                all.push(wrong("spec.replicas", "FieldValueInvalid", why));
            }
        }
        ("batch", "Job") => {
            let policy = &object["spec"]["template"]["spec"]["restartPolicy"];
            let field = "spec.template.spec.restartPolicy";
            match policy.as_str() {
                Some("OnFailure" | "Never") => {}
                None | Some("Always") => all.push(wrong(field, "FieldValueRequired", "Required value")),
                Some(_) => {
                    let why = format!("Unsupported value: {policy}: supported values: OnFailure, Never");
                    all.push(wrong(field, "FieldValueNotSupported", why));
                }
            }
        }
        ("", "Service") => {
            let spec = &object["spec"];
            let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
            if spec["type"].as_str().is_some_and(|of| !types.contains(&of)) {
                let why = format!("Unsupported value: {}: supported values: {types:?}", spec["type"]);
                all.push(wrong("spec.type", "FieldValueNotSupported", why));
            }
            let addressed = |spec: &Value| spec["clusterIP"].as_str().is_some_and(|ip| !ip.is_empty());
            if let Some(live) = live
                && spec["type"] != "ExternalName"
                && addressed(&live["spec"])
                && live["spec"]["clusterIP"] != spec["clusterIP"]
            {
                all.push(wrong(
                    "spec.clusterIPs[0]",
                    "FieldValueInvalid",
                    "Invalid value: may not change once set",
                ));
            }
            if spec["ports"].as_array().is_none_or(Vec::is_empty)
                && spec["type"] != "ExternalName"
                && spec["clusterIP"] != "None"
            {
                all.push(wrong("spec.ports", "FieldValueRequired", "Required value"));
            }
            let ports = object["spec"]["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
            for (index, port) in ports.iter().enumerate() {
                let at = |field: &str| format!("spec.ports[{index}].{field}");
                if port["name"].is_null() && ports.len() > 1 {
                    all.push(wrong(at("name"), "FieldValueRequired", "Required value"));
                }
                for field in ["port", "targetPort"].into_iter().filter(|field| !is_port(&port[*field])) {
                    let why =
                        format!("Invalid value: {}: must be between 1 and 65535, inclusive", port[field]);
                    all.push(wrong(at(field), "FieldValueInvalid", why));
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
        ("networking.k8s.io", "Ingress") => {
            let spec = &object["spec"];
            if spec["defaultBackend"].is_null() && spec["rules"].as_array().is_none_or(Vec::is_empty) {
                let why = "Invalid value: either `defaultBackend` or `rules` must be specified";
                all.push(wrong("spec", "FieldValueInvalid", why));
            }
        }
        ("networking.k8s.io", "NetworkPolicy") => {
            let types = object["spec"]["policyTypes"].as_array().into_iter().flatten();
            for (index, of) in types.enumerate().filter(|(_, of)| **of != "Ingress" && **of != "Egress") {
                let field = format!("spec.policyTypes[{index}]");
                all.push(wrong(field, "FieldValueNotSupported", format!("Unsupported value: {of}")));
            }
        }
        ("policy", "PodDisruptionBudget")
            if !object["spec"]["minAvailable"].is_null() && !object["spec"]["maxUnavailable"].is_null() =>
        {
            let why = "Invalid value: minAvailable and maxUnavailable cannot be both set";
            all.push(wrong("spec", "FieldValueInvalid", why));
        }
        ("", "PersistentVolume") if object["spec"]["accessModes"].as_array().is_none_or(Vec::is_empty) => {
            all.push(wrong("spec.accessModes", "FieldValueRequired", "Required value"));
        }
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => {
            let subjects = object["subjects"].as_array().into_iter().flatten();
            for (index, subject) in subjects.enumerate() {
                if subject["kind"] == "ServiceAccount"
                    && subject["namespace"].as_str().is_none_or(str::is_empty)
                {
                    let field = format!("subjects[{index}].namespace");
                    all.push(wrong(field, "FieldValueRequired", "Required value"));
                }
            }
        }
        _ => {}
    }
    all
}

/// Fields that stay as they were made: group, kind, field, and as what a change is refused.
const FIXED: [(&str, &str, &str, &str); 13] = [
    ("", "Secret", "type", "FieldValueInvalid"),
    ("", "PersistentVolumeClaim", "spec.accessModes", "FieldValueForbidden"),
    ("batch", "Job", "spec.template", "FieldValueInvalid"),
    ("rbac.authorization.k8s.io", "RoleBinding", "roleRef", "FieldValueInvalid"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", "roleRef", "FieldValueInvalid"),
    ("scheduling.k8s.io", "PriorityClass", "value", "FieldValueForbidden"),
    ("scheduling.k8s.io", "PriorityClass", "preemptionPolicy", "FieldValueInvalid"),
    ("storage.k8s.io", "StorageClass", "parameters", "FieldValueInvalid"),
    ("storage.k8s.io", "StorageClass", "provisioner", "FieldValueInvalid"),
    ("storage.k8s.io", "StorageClass", "reclaimPolicy", "FieldValueInvalid"),
    ("storage.k8s.io", "StorageClass", "volumeBindingMode", "FieldValueInvalid"),
    ("storage.k8s.io", "CSIDriver", "spec.attachRequired", "FieldValueInvalid"),
    ("storage.k8s.io", "VolumeAttachment", "spec", "FieldValueInvalid"),
];

fn fixed(kind: &Kind, live: &Value, object: &Value, all: &mut Vec<Wrong>) {
    for (group, of, field, reason) in FIXED {
        let pointer = format!("/{}", field.replace('.', "/"));
        if (group, of) == (kind.group.as_str(), kind.kind.as_str())
            && live.pointer(&pointer) != object.pointer(&pointer)
        {
            let opening = if reason == "FieldValueForbidden" { "Forbidden" } else { "Invalid value" };
            all.push(wrong(field, reason, format!("{opening}: field is immutable")));
        }
    }
}

/// Does what a StatefulSet may not change differ?
fn is_recast(live: &Value, spec: &Value) -> bool {
    const FREE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |spec: &Value| {
        let mut fixed = spec.clone();
        if let Some(map) = fixed.as_object_mut() {
            map.retain(|field, _| !FREE.contains(&field.as_str()));
        }
        fixed
    };
    fixed(live) != fixed(spec)
}

/// The selector of a workload must be there, fit the template's labels, and stay.
fn selected(kind: &Kind, live: Option<&Value>, spec: &Value, all: &mut Vec<Wrong>) {
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
    if kind.kind != "StatefulSet" && live.is_some_and(|live| live["spec"]["selector"] != spec["selector"]) {
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

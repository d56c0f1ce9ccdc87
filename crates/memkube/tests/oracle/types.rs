//! The kinds of the sequences: their OpenAPI components, as memkube packs them and as a CRD declares them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use memkube::managers::FieldManagers;
use memkube::schema::{META, documents};
use serde_json::{Value, json};

/// One kind.
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    /// Its component.
    pub component: String,
    pub managers: FieldManagers,
    /// What its strategies reset, by subresource, as read in the sources of Kubernetes.
    pub reset: Value,
    pub custom: bool,
}

/// All kinds and the components that they are made of.
pub struct Types {
    pub kinds: Vec<Kind>,
    pub components: BTreeMap<String, Value>,
}

/// Group, version, kind, and what is reset.
fn built_in() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let plain = || json!({"": []});
    let status = || json!({"": [["status"]], "status": [["spec"]]});
    let rbac = "rbac.authorization.k8s.io";
    vec![
        ("", "v1", "ConfigMap", plain()),
        ("", "v1", "Secret", plain()),
        ("", "v1", "ServiceAccount", plain()),
        ("", "v1", "Service", status()),
        (
            "",
            "v1",
            "Pod",
            json!({"": [["status"]], "status":
                [["spec"], ["metadata", "deletionTimestamp"], ["metadata", "ownerReferences"]]}),
        ),
        ("apps", "v1", "Deployment", json!({"": [["status"]], "status": [["spec"], ["metadata", "labels"]]})),
        ("apps", "v1", "StatefulSet", status()),
        ("batch", "v1", "CronJob", status()),
        (rbac, "v1", "Role", plain()),
        (rbac, "v1", "ClusterRole", plain()),
        (rbac, "v1", "RoleBinding", plain()),
        ("networking.k8s.io", "v1", "NetworkPolicy", plain()),
        ("networking.k8s.io", "v1", "Ingress", status()),
        (
            "storage.k8s.io",
            "v1",
            "VolumeAttachment",
            json!({"": [["status"]], "status": [["metadata"], ["spec"]]}),
        ),
    ]
}

/// Reads them all.
pub fn types() -> Result<Types> {
    let mut all = BTreeMap::new();
    for document in documents().into_values() {
        let document: Value = serde_json::from_str(document.get())?;
        let schemas = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
        all.extend(schemas);
    }
    let mut components = BTreeMap::new();
    let mut kinds = Vec::new();
    for (group, version, kind, reset) in built_in() {
        let gvk = json!([{"group": group, "version": version, "kind": kind}]);
        let found = all.iter().find(|(_, schema)| schema["x-kubernetes-group-version-kind"] == gvk);
        let component = found.context(kind)?.0.clone();
        let managers = FieldManagers::builtin(group, version, kind).context(kind)?;
        kinds.push(Kind { group, version, kind, component, managers, reset, custom: false });
    }
    for (kind, schema, reset) in declared() {
        let component = format!("test.example.v1.{kind}");
        let managers = FieldManagers::of_crd(&crd(kind, &schema, reset["status"].is_array()));
        let managers = managers.context(kind)?;
        all.insert(component.clone(), described(kind, schema));
        let (group, version) = ("example.test", "v1");
        kinds.push(Kind { group, version, kind, component, managers, reset, custom: true });
    }
    for kind in &kinds {
        gather(&kind.component, &all, &mut components);
    }
    Ok(Types { kinds, components })
}

/// Takes over a component and all that it refers to.
fn gather(name: &str, all: &BTreeMap<String, Value>, into: &mut BTreeMap<String, Value>) {
    let Some(schema) = all.get(name).filter(|_| !into.contains_key(name)) else { return };
    into.insert(name.to_owned(), schema.clone());
    let mut names = Vec::new();
    references(schema, &mut names);
    names.iter().for_each(|name| gather(name, all, into));
}

fn references(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            names.extend(map.get("$ref").and_then(Value::as_str).and_then(component).map(str::to_owned));
            map.values().for_each(|inner| references(inner, names));
        }
        Value::Array(list) => list.iter().for_each(|inner| references(inner, names)),
        _ => {}
    }
}

/// The name of the component that a reference names.
pub fn component(reference: &str) -> Option<&str> {
    reference.rsplit('/').next()
}

/// The kinds of CRDs: one with every type of list and map, one without status that keeps what it does not
/// declare, one that declares nothing.
fn declared() -> Vec<(&'static str, Value, Value)> {
    let text = || json!({"type": "string"});
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": text(), "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"},
        "sub": {"type": "object", "properties": {"a": text(), "b": {"type": "boolean"}}},
        "tags": {"type": "array", "items": text(), "x-kubernetes-list-type": "set"},
    }});
    let list =
        |items: &Value, of: &str| json!({"type": "array", "items": items, "x-kubernetes-list-type": of});
    let keyed = |keys: &[&str]| json!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys});
    let pair = json!({"type": "object", "properties": {"a": text(), "b": text()}});
    let mut whole = pair.clone();
    whole["x-kubernetes-map-type"] = json!("atomic");
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut half = pair.clone();
    half["x-kubernetes-preserve-unknown-fields"] = json!(true);
    let spec = json!({"type": "object", "properties": {
        "count": {"type": "integer"}, "on": {"type": "boolean"}, "ratio": {"type": "number"},
        "either": {"x-kubernetes-int-or-string": true},
        "maybe": {"type": "string", "nullable": true},
        "names": list(&text(), "set"), "numbers": list(&json!({"type": "integer"}), "set"),
        "plain": list(&item, "atomic"), "unmarked": {"type": "array", "items": item},
        "items": keyed(&["name"]), "ports": keyed(&["port", "protocol"]),
        "struct": pair, "whole": whole, "open": open, "half": half,
        "labels": {"type": "object", "additionalProperties": text()},
        "structs": {"type": "object", "additionalProperties": pair},
        "lists": {"type": "object", "additionalProperties": list(&text(), "set")},
        "all": {"type": "object", "additionalProperties": whole},
    }});
    let status = json!({"type": "object", "properties": {
        "phase": text(), "items": keyed(&["name"]), "open": open,
    }});
    let all = json!({"type": "object", "properties": {"spec": spec, "status": status, "data": pair}});
    let bare =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"spec": spec}});
    vec![
        ("Thing", all, json!({"": [["status"]], "status": [["metadata"], ["spec"]]})),
        ("Loose", bare, json!({"": []})),
    ]
}

fn crd(kind: &str, schema: &Value, status: bool) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let subresources = if status { json!({"status": {}}) } else { json!({}) };
    json!({"spec": {"group": "example.test", "scope": "Namespaced",
        "names": {"kind": kind, "plural": plural},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": subresources,
            "schema": {"openAPIV3Schema": schema}}]}})
}

/// The component that the real server serves for a CRD's schema.
fn described(kind: &str, mut schema: Value) -> Value {
    schema["properties"]["apiVersion"] = json!({"type": "string"});
    schema["properties"]["kind"] = json!({"type": "string"});
    schema["properties"]["metadata"] =
        json!({"allOf": [{"$ref": format!("#/components/schemas/{META}.ObjectMeta")}]});
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": "example.test", "version": "v1", "kind": kind}]);
    schema
}

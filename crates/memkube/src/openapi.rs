//! `/openapi/v3`: the documents of the real server for built-in groups, and one for each group of CRDs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::schema;

fn path(kind: &Kind) -> String {
    match kind.group.as_str() {
        "" => format!("api/{}", kind.version),
        group => format!("apis/{group}/{}", kind.version),
    }
}

/// `/openapi/v2` says nothing of any kind: kubectl falls back to it where v3 does not know a kind, and is
/// content with that. In JSON, and as gnostic's protobuf (`swagger` is field 1, `info` field 2).
pub(super) const OLD_DOCUMENT: &str =
    r#"{"swagger":"2.0","info":{"title":"Kubernetes","version":"v1.36.3"},"paths":{},"definitions":{}}"#;
pub(super) const OLD_DOCUMENT_PROTOBUF: &str = "\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.36.3";

/// The list of documents.
pub(super) fn index(kinds: &[Arc<Kind>]) -> Value {
    static PACKED: LazyLock<Vec<String>> = LazyLock::new(|| schema::documents().into_keys().collect());
    let custom = kinds.iter().filter(|kind| kind.custom().is_some()).map(|kind| path(kind));
    let all: BTreeSet<String> = PACKED.iter().cloned().chain(custom).collect();
    let entry = |path: String| {
        let address = json!({"serverRelativeURL": format!("/openapi/v3/{path}")});
        (path, address)
    };
    json!({"paths": all.into_iter().map(entry).collect::<Map<_, _>>()})
}

/// The components that metadata is made of, and a kind's own with what it says of the fields that all have.
static METADATA: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let core = schema::documents().remove("api/v1");
    let core: Value = core.and_then(|core| serde_json::from_str(core.get()).ok()).unwrap_or_default();
    let schemas = core["components"]["schemas"].as_object().into_iter().flatten();
    let wanted = |name: &str| name == ANY_KIND || schema::builtin().metadata.contains_key(name);
    schemas.filter(|(name, _)| wanted(name)).map(|(name, schema)| (name.clone(), schema.clone())).collect()
});
const ANY_KIND: &str = "io.k8s.api.core.v1.ConfigMap";

/// Says of the fields that all kinds have what the real server says.
fn describe(schema: &mut Value) {
    for field in ["apiVersion", "kind", "metadata"] {
        if let Some(known) = METADATA.get(ANY_KIND) {
            schema["properties"][field]["description"] = known["properties"][field]["description"].clone();
        }
    }
}

/// One document.
pub(super) fn document(kinds: &[Arc<Kind>], wanted: &str) -> Option<String> {
    let custom: Vec<_> =
        kinds.iter().filter(|kind| kind.custom().is_some() && path(kind) == wanted).collect();
    if custom.is_empty() {
        return schema::documents().remove(wanted).map(|document| document.get().to_owned());
    }
    let mut schemas = METADATA.clone();
    schemas.remove(ANY_KIND);
    let mut paths = Map::new();
    for kind in custom {
        let Some(custom) = kind.custom() else { continue };
        let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let mut schema = custom.described();
        describe(&mut schema);
        schema["x-kubernetes-group-version-kind"] = json!([gvk]);
        let mut reversed: Vec<&str> = kind.group.split('.').collect();
        reversed.reverse();
        schemas.insert(format!("{}.{}.{}", reversed.join("."), kind.version, kind.kind), schema);
        // What kubectl looks for: that the server checks fields.
        let parameters = json!([{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]);
        let within = if kind.namespaced { "namespaces/{namespace}/" } else { "" };
        let operation = |action: &str| json!({"x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk, "parameters": parameters});
        paths.insert(
            format!("/{wanted}/{within}{}/{{name}}", kind.plural),
            json!({"get": operation("get"), "put": operation("put"), "patch": operation("patch")}),
        );
    }
    let info = json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
    let document =
        json!({"openapi": "3.0.0", "info": info, "components": {"schemas": schemas}, "paths": paths});
    Some(document.to_string())
}

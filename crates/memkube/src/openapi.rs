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

/// One document.
pub(super) fn document(kinds: &[Arc<Kind>], wanted: &str) -> Option<String> {
    let custom: Vec<_> =
        kinds.iter().filter(|kind| kind.custom().is_some() && path(kind) == wanted).collect();
    if custom.is_empty() {
        return schema::documents().remove(wanted).map(|document| document.get().to_owned());
    }
    let mut schemas: BTreeMap<String, Value> = schema::builtin().metadata.clone();
    let mut paths = Map::new();
    for kind in custom {
        let Some(custom) = kind.custom() else { continue };
        let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let mut schema = custom.described();
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

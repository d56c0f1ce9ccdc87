//! Tests of the CRDs as the API server will see them: structural, bounded, described.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::*;

fn crd(kind: &str) -> Value {
    let crd = all().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
    serde_json::to_value(crd).unwrap()
}

fn version(kind: &str) -> Value {
    crd(kind)["spec"]["versions"][0].clone()
}

fn field(kind: &str, pointer: &str) -> Value {
    let path: String = pointer.split('.').map(|part| format!("/properties/{part}")).collect();
    let schema = version(kind)["schema"]["openAPIV3Schema"].clone();
    schema
        .pointer(&path.replace("/properties/[]", "/items"))
        .cloned()
        .unwrap_or_else(|| panic!("{kind} {pointer}"))
}

/// Every schema of every kind with its path, the parts of `metadata` left out.
fn schemas() -> BTreeMap<String, Value> {
    fn walk(path: &str, schema: &Value, found: &mut BTreeMap<String, Value>) {
        found.insert(path.to_owned(), schema.clone());
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            walk(&format!("{path}.{name}"), property, found);
        }
        for (key, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
            if schema[key].is_object() {
                walk(&format!("{path}{suffix}"), &schema[key], found);
            }
        }
    }
    let mut found = BTreeMap::new();
    for kind in all().into_iter().map(|crd| crd.spec.names.kind) {
        let root = version(&kind)["schema"]["openAPIV3Schema"].clone();
        for part in ["spec", "status"] {
            if let Some(schema) = root["properties"].get(part) {
                walk(&format!("{kind}.{part}"), schema, &mut found);
            }
        }
    }
    found
}

/// Fields that hold what users want to have in members, whatever it is.
fn is_free(path: &str) -> bool {
    ["VidraResource.spec.overrides[].jsonPatch[].value", "VidraResource.spec.overrides[].mergePatch"]
        .contains(&path)
}

/// The number of the schemas, and the SHA-256 of what they say without their descriptions.
const KNOWN: (u32, &str) = (9, "3f2aa79719c226a97b11ad8170bdbdd083bbe3be42879a9b5821498df21f490c");

fn without_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            // A property of that name has a schema.
            fields.retain(|name, value| name != "description" || !value.is_string());
            fields.values_mut().for_each(without_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(without_descriptions),
        _ => {}
    }
}

#[test]
fn a_change_of_a_schema_raises_the_number_that_the_crds_bear() {
    let mut schemas: Value =
        all().into_iter().map(|crd| version(&crd.spec.names.kind)["schema"].clone()).collect();
    without_descriptions(&mut schemas);
    let hash = Sha256::digest(schemas.to_string());
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        (SCHEMA, hash.as_str()),
        KNOWN,
        "a schema has changed: raise SCHEMA in crds.rs, so that no hub of this version works with CRDs that do not have \
         the change, run `cargo xtask crds`, and write here what is left"
    );
    for crd in all() {
        let annotations = crd.metadata.annotations.unwrap_or_default();
        assert_eq!(annotations.get(SCHEMA_ANNOTATION), Some(&SCHEMA.to_string()));
    }
}

#[test]
fn every_string_list_and_map_has_a_bound() {
    let mut unbounded = Vec::new();
    for (path, schema) in schemas() {
        let bounded = match schema["type"].as_str() {
            Some("string") => {
                schema["maxLength"].is_u64() || schema["enum"].is_array() || schema["format"] == "date-time"
            }
            Some("array") => schema["maxItems"].is_u64() && schema["items"].is_object(),
            Some("object") => schema["properties"].is_object() || schema["maxProperties"].is_u64(),
            Some("boolean" | "integer") => true,
            None => schema["x-kubernetes-int-or-string"] == true && schema["maxLength"].is_u64(),
            _ => false,
        };
        if !bounded && !is_free(&path) {
            unbounded.push(format!("{path}: {schema}"));
        }
    }
    assert!(unbounded.is_empty(), "{unbounded:#?}");
}

#[test]
fn the_walk_sees_strings_in_lists_and_maps() {
    let paths = schemas();
    for path in [
        "VidraResource.spec.targets[].clusterSelector.matchLabels{}",
        "VidraResource.spec.targets[].clusterSelector.matchExpressions[].values[]",
        "VidraInventory.spec.entries[]",
        "MemberCluster.status.conditions[].message",
    ] {
        assert_eq!(paths[path]["type"], "string", "{path}");
    }
}

#[test]
fn every_list_says_how_it_merges_and_only_conditions_merge_by_key() {
    for (path, schema) in schemas() {
        if schema["type"] == "array" {
            let expected = if path.ends_with(".conditions") { "map" } else { "atomic" };
            assert_eq!(schema["x-kubernetes-list-type"], expected, "{path}");
        }
    }
}

#[test]
fn every_field_is_described() {
    for (path, schema) in schemas() {
        // Values of a map or of a list of plain strings are described by the field that holds them.
        if !path.ends_with("{}") && !path.ends_with("[]") {
            let text = schema["description"].as_str().unwrap_or_default();
            assert!(text.ends_with('.') && !text.contains('\n'), "{path}: {text:?}");
        }
    }
}

#[test]
fn schemas_are_structural_and_null_is_no_value() {
    const FORBIDDEN: [&str; 8] = [
        "nullable",
        "title",
        "$ref",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "x-kubernetes-preserve-unknown-fields",
    ];
    for (path, schema) in schemas().into_iter().filter(|(path, _)| !is_free(path)) {
        for key in FORBIDDEN {
            // Objects of any kind.
            if path == "VidraResource.spec.manifests[]" && key == "x-kubernetes-preserve-unknown-fields" {
                continue;
            }
            assert!(schema.get(key).is_none(), "{path} has {key}: {schema}");
        }
        if let Some(format) = schema["format"].as_str() {
            assert!(["int32", "int64", "date-time"].contains(&format), "{path}: {format}");
        }
    }
}

#[test]
fn a_status_has_no_defaults_and_an_inventory_stays_small() {
    for (path, schema) in schemas() {
        if path.contains(".status") || path.starts_with("VidraInventory") {
            assert!(schema.get("default").is_none(), "{path}: {schema}");
        }
    }
}

#[test]
fn defaults_are_those_of_the_rust_types() {
    let rows = [
        ("VidraResource", "spec.createNamespaces", json!(true)),
        ("VidraResource", "spec.prune", json!(true)),
        ("VidraResource", "spec.deletionPolicy", json!("Delete")),
        ("VidraResource", "spec.suspend", json!(false)),
        ("MemberCluster", "spec.onLeave", json!("Orphan")),
        ("MemberCluster", "spec.onRevoke", json!("Keep")),
        ("MemberCluster", "spec.suspend", json!(false)),
        ("MemberCluster", "spec.kubeconfigSecretRef.key", json!("kubeconfig")),
    ];
    for (kind, path, default) in rows {
        assert_eq!(field(kind, path)["default"], default, "{kind} {path}");
    }
    for (kind, path) in [("VidraResource", "spec.reconcile"), ("MemberCluster", "spec.allowedNamespaces")] {
        assert!(field(kind, path).get("default").is_none(), "{kind} {path}");
    }
}

#[test]
fn only_what_the_hub_cannot_do_without_is_required() {
    let rows = [
        ("VidraResource", "spec", json!(["targets"])),
        (
            "VidraTarget",
            "spec",
            json!(["cluster", "desired", "generation", "namespace", "resource", "revision"]),
        ),
        ("VidraInventory", "spec", json!(["chunk", "cluster", "resource"])),
        ("MemberCluster", "spec", Value::Null),
        ("MemberCluster", "spec.kubeconfigSecretRef", json!(["name", "namespace"])),
        ("VidraResource", "spec.targets.[].clusterSelector.matchExpressions.[]", json!(["key", "operator"])),
        ("VidraResource", "status", Value::Null),
        ("VidraTarget", "status", Value::Null),
        ("VidraResource", "spec.manifestsFrom.[]", Value::Null),
        ("VidraResource", "spec.conflicts.takeFrom.[]", json!(["manager", "operation"])),
        ("VidraResource", "spec.manifestsFrom.[].configMapRef", json!(["name"])),
        ("VidraResource", "spec.manifestsFrom.[].secretRef", json!(["name"])),
    ];
    for (kind, path, required) in rows {
        assert_eq!(field(kind, path)["required"], required, "{kind} {path}");
    }
}

#[test]
fn names_scopes_and_subresources_are_as_documented() {
    // Kind, plural, short name, scope, in the category, with a status.
    let rows = [
        ("MemberCluster", "memberclusters", "mc", "Cluster", true, true),
        ("VidraInventory", "vidrainventories", "vi", "Namespaced", false, false),
        ("VidraResource", "vidraresources", "vr", "Namespaced", true, true),
        ("VidraTarget", "vidratargets", "vt", "Namespaced", true, true),
    ];
    assert_eq!(all().len(), rows.len());
    for (kind, plural, short, scope, category, status) in rows {
        let crd = crd(kind);
        assert_eq!(crd["metadata"]["name"], format!("{plural}.{}", crate::GROUP));
        assert_eq!(crd["spec"]["group"], crate::GROUP);
        assert_eq!(crd["spec"]["names"]["plural"], plural);
        assert_eq!(crd["spec"]["names"]["shortNames"], json!([short]));
        assert_eq!(crd["spec"]["scope"], scope);
        assert_eq!(crd["spec"]["names"]["categories"] == json!(["vidra"]), category, "{kind}");
        assert_eq!(crd["spec"]["versions"].as_array().map(Vec::len), Some(1));
        assert_eq!(version(kind)["name"], crate::VERSION);
        assert_eq!(version(kind)["subresources"] == json!({"status": {}}), status, "{kind}");
    }
}

#[test]
fn columns_are_as_documented_and_wide_ones_end_with_plus() {
    let rows = [
        ("VidraResource", "Ready Targets Revision Removing+ Message+ Age"),
        ("VidraTarget", "Cluster Resource State Drift Objects Since Revision+ Message+"),
        ("VidraInventory", "Cluster Resource Age"),
        ("MemberCluster", "Ready Targets Drifted Objects Version Reason Age Watches+ Denied+ Message+"),
    ];
    for (kind, expected) in rows {
        let columns = version(kind)["additionalPrinterColumns"].clone();
        let names: Vec<String> = columns
            .as_array()
            .unwrap()
            .iter()
            .map(|column| {
                let wide = if column["priority"] == 1 { "+" } else { "" };
                format!("{}{wide}", column["name"].as_str().unwrap())
            })
            .collect();
        assert_eq!(names.join(" "), expected, "{kind}");
    }
}

#[test]
fn targets_can_be_selected_by_cluster_resource_state_and_drift() {
    let paths: Vec<Value> = [".spec.cluster", ".spec.resource", ".status.state", ".status.drift"]
        .map(|p| json!({"jsonPath": p}))
        .into();
    assert_eq!(version("VidraTarget")["selectableFields"], Value::Array(paths));
}

#[test]
fn every_rule_refuses_with_a_sentence_that_begins_with_what_to_do() {
    let mut rules = Vec::new();
    for kind in all().into_iter().map(|crd| crd.spec.names.kind) {
        rules.push((kind.clone(), version(&kind)["schema"]["openAPIV3Schema"].clone()));
    }
    rules.extend(schemas());
    let mut seen = 0;
    for (path, schema) in rules {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let message = rule["message"].as_str().unwrap_or_default();
            let verb = message.split(' ').next().unwrap_or_default();
            assert!(["set", "use", "write", "give", "choose", "make"].contains(&verb), "{path}: {message}");
            seen += 1;
        }
    }
    assert!(seen >= 15, "only {seen} rules");
}

#[test]
fn how_a_target_ends_stands_in_its_resource_alone() {
    let of = |kind: &str| field(kind, "spec")["properties"]["deletionPolicy"].is_object();
    assert!(of("VidraResource") && !of("VidraTarget"));
}

//! Custom resources: what a CRD's structural schema says of their fields. Pruning, defaulting, validation.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use regex::Regex;
use serde_json::{Value, json};

mod check;
mod format;
mod node;
mod rule;

use check::Wrong;
use node::{Fault, Node};

use super::deep;
use super::schema::{self, META, Reader, TypeId, Types};
use super::smd::Typed;
use super::store::rfc3339;

/// One version of a CRD.
#[derive(Debug)]
pub(super) struct Custom {
    pub types: Types,
    pub root: TypeId,
    /// `openAPIV3Schema`; null where there is none.
    schema: Value,
    /// The same as it is checked.
    node: Node,
    /// What of the schema cannot be used.
    faults: Vec<Fault>,
    /// Dotted paths that field selectors may name, beside metadata.name and metadata.namespace.
    pub selectable: Vec<String>,
    /// The `scale` subresource's paths.
    pub scale: Value,
    /// `additionalPrinterColumns`.
    pub columns: Vec<Value>,
}

impl Custom {
    /// Reads one of the versions of a CRD's spec. What reads alike is read once in a process: its rules are
    /// compiled, and thousands of clusters have the same CRDs.
    pub fn read(version: &Value, spec: &Value) -> Arc<Self> {
        static KNOWN: Mutex<BTreeMap<String, Arc<Custom>>> = Mutex::new(BTreeMap::new());
        let key = format!("{} {version}", spec["preserveUnknownFields"] == true);
        if let Some(custom) = KNOWN.lock().get(&key) {
            return custom.clone();
        }
        // The parser of rules takes much of the stack.
        let custom = Arc::new(deep::roomy(|| Custom::read_new(version, spec)));
        let mut known = KNOWN.lock();
        // Of tests that make a CRD each, none is to be kept for long.
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(key, custom.clone());
        custom
    }

    fn read_new(version: &Value, spec: &Value) -> Self {
        let mut schema = version["schema"]["openAPIV3Schema"].clone();
        if spec["preserveUnknownFields"] == true && schema.is_object() {
            schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
        }
        let open = schema.is_null();
        let mut described = if open { json!({"type": "object"}) } else { schema.clone() };
        if let Some(root) = described.as_object_mut() {
            let properties = root.entry("properties").or_insert_with(|| json!({}));
            properties["apiVersion"] = json!({"type": "string"});
            properties["kind"] = json!({"type": "string"});
            properties["metadata"] = json!({"$ref": format!("#/{META}.ObjectMeta")});
        }
        let mut faults = Vec::new();
        let node = Node::read(&schema, true, "", &mut faults);
        let mut reader = Reader::new(&schema::builtin().metadata, Types::new());
        let root = reader.schema(&described, open);
        let paths = version["selectableFields"].as_array().into_iter().flatten();
        let paths = paths.filter_map(|field| field["jsonPath"].as_str());
        Custom {
            types: reader.finish(),
            root,
            schema,
            node,
            faults,
            selectable: paths.map(|path| path.trim_start_matches('.').to_owned()).collect(),
            scale: version["subresources"]["scale"].clone(),
            columns: version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default(),
        }
    }

    /// The schema as `/openapi/v3` shows it.
    pub fn described(&self) -> Value {
        let mut schema =
            if self.schema.is_object() { self.schema.clone() } else { json!({"type": "object"}) };
        for field in ["apiVersion", "kind"] {
            if schema["properties"][field].is_null() {
                schema["properties"][field] = json!({"type": "string"});
            }
        }
        schema["properties"]["metadata"] = json!({
            "allOf": [{"$ref": format!("#/components/schemas/{META}.ObjectMeta")}],
        });
        schema
    }

    /// The type of metadata.
    pub fn metadata(&self) -> Typed<'_> {
        let root = self.types.atom(self.root).map.as_ref();
        let of = root.and_then(|map| map.fields.get("metadata")).map_or(Types::DEDUCED, |field| field.of);
        Typed { types: &self.types, of }
    }

    /// Takes out what the schema does not declare; gives the paths of what was there.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut gone = Vec::new();
        if self.schema.is_object() {
            prune(object, &self.schema, true, &At::Root, &mut gone);
        }
        gone
    }

    /// Fills in defaults. With `prune`, null where it is not allowed counts as absent.
    pub fn default(&self, object: &mut Value, prune: bool) {
        default(object, &self.schema, prune);
    }

    /// What the schema refuses of an object: (field, reason, message) of each. What was wrong before in a live
    /// object, and is as it was, may stay so.
    pub fn validate(&self, live: Option<&Value>, object: &Value) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        if !self.schema.is_object() {
            return wrong;
        }
        check::check(&self.node, object, live, "", &mut wrong);
        if self.node.ruled && wrong.iter().any(|(_, reason, _)| BLOCKING.contains(reason)) {
            let why = "Invalid value: null: some validation rules were not checked because the object was \
                       invalid; correct the existing errors to complete validation";
            wrong.push(("<nil>".to_owned(), "FieldValueInvalid", why.to_owned()));
        } else {
            rule::run(&self.node, object, live, false, "", &mut wrong);
        }
        wrong
    }
}

/// Versions of CRDs that are kept read.
const MOST_KNOWN: usize = 256;

/// Reasons after which no rule is run: `hasBlockingErr` of the real server.
const BLOCKING: [&str; 5] = [
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
];

/// A pattern of a schema or a rule.
fn regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| format!("{text:?} is no pattern: {error}"))
}

/// What of a CRD's schemas cannot be used, each with its field.
pub(super) fn faults(crd: &Value) -> Vec<Wrong> {
    let spec = &crd["spec"];
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let all = versions.iter().enumerate().flat_map(|(index, version)| {
        let custom = Custom::read(version, spec);
        let wrong = |(path, why): &Fault| {
            // A schema that all versions have is looked at once, and elsewhere.
            let at = match versions {
                [_] => "spec.validation".to_owned(),
                _ => format!("spec.versions[{index}].schema"),
            };
            let field = format!("{at}.openAPIV3Schema{path}");
            (field, "FieldValueInvalid", format!("Invalid value: {why}"))
        };
        custom.faults.iter().map(wrong).collect::<Vec<_>>()
    });
    all.collect()
}

/// Always there in a custom resource and in an embedded one.
const COMMON: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// A place in an object, written only where there is something to say of it.
enum At<'a> {
    Root,
    Field(&'a At<'a>, &'a str),
    Item(&'a At<'a>, usize),
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Root => Ok(()),
            At::Field(At::Root, name) => f.write_str(name),
            At::Field(above, name) => write!(f, "{above}.{name}"),
            At::Item(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

fn prune(value: &mut Value, schema: &Value, root: bool, path: &At<'_>, gone: &mut Vec<String>) {
    let open = schema["x-kubernetes-preserve-unknown-fields"] == true;
    let resource = root || schema["x-kubernetes-embedded-resource"] == true;
    match value {
        Value::Object(map) => {
            let properties = schema["properties"].as_object();
            let rest = &schema["additionalProperties"];
            map.retain(|key, value| {
                let at = At::Field(path, key);
                if resource && COMMON.contains(&key.as_str()) {
                    return true;
                }
                match properties.and_then(|all| all.get(key)) {
                    Some(schema) => prune(value, schema, false, &at, gone),
                    None if rest.is_object() => prune(value, rest, false, &at, gone),
                    None if open || *rest == json!(true) => {}
                    None => {
                        gone.push(at.to_string());
                        return false;
                    }
                }
                true
            });
        }
        Value::Array(list) => {
            for (index, item) in list.iter_mut().enumerate() {
                let items = &schema["items"];
                // Nothing is pruned in items that the schema says nothing of.
                if items.is_object() {
                    prune(item, items, false, &At::Item(path, index), gone);
                }
            }
        }
        _ => {}
    }
}

fn default(value: &mut Value, schema: &Value, prune: bool) {
    if !schema.is_object() {
        return;
    }
    match value {
        Value::Object(map) => {
            let properties = schema["properties"].as_object();
            for (key, schema) in properties.into_iter().flatten() {
                let Some(given) = schema.get("default") else { continue };
                let null = map.get(key).is_some_and(Value::is_null) && schema["nullable"] != true;
                if null || !map.contains_key(key) {
                    map.insert(key.clone(), given.clone());
                }
            }
            map.retain(|key, value| {
                let declared = properties.and_then(|all| all.get(key));
                !(prune && value.is_null() && declared.is_some_and(|schema| schema["nullable"] != true))
            });
            for (key, value) in map.iter_mut() {
                let inner =
                    properties.and_then(|all| all.get(key)).unwrap_or(&schema["additionalProperties"]);
                default(value, inner, prune);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|item| default(item, &schema["items"], prune)),
        _ => {}
    }
}

/// Has it been established?
pub(super) fn is_established(crd: &Value) -> bool {
    let mut conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|one| one["type"] == "Established" && one["status"] == "True")
}

/// The status that the controllers of a CRD give it.
pub(super) fn crd_status(crd: &Value, now: Timestamp) -> Value {
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": rfc3339(now),
        })
    };
    json!({
        "acceptedNames": crd["spec"]["names"],
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "storedVersions": stored_versions(crd),
    })
}

/// The versions that a CRD stores in: one.
pub(super) fn stored_versions(crd: &Value) -> Vec<Value> {
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    versions.filter(|version| version["storage"] == true).map(|version| version["name"].clone()).collect()
}

/// Every version that objects were ever stored in.
pub(super) fn all_stored(live: &Value, new: &Value) -> Value {
    let mut all = live["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    all.extend(stored_versions(new).into_iter().filter(|version| {
        !live["status"]["storedVersions"].as_array().is_some_and(|all| all.contains(version))
    }));
    Value::Array(all)
}

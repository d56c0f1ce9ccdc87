//! Custom resources: what a CRD's structural schema says of their fields. Pruning, defaulting, validation.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

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
    /// Dotted paths that field selectors may name, beside metadata.name and metadata.namespace.
    pub selectable: Vec<String>,
    /// The `scale` subresource's paths.
    pub scale: Value,
    /// `additionalPrinterColumns`.
    pub columns: Vec<Value>,
}

impl Custom {
    /// Reads one of the versions of a CRD's spec.
    pub fn read(version: &Value, spec: &Value) -> Self {
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
        let mut reader = Reader::new(&schema::builtin().metadata, Types::new());
        let root = reader.schema(&described, open);
        let paths = version["selectableFields"].as_array().into_iter().flatten();
        let paths = paths.filter_map(|field| field["jsonPath"].as_str());
        Custom {
            types: reader.finish(),
            root,
            schema,
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
            prune(object, &self.schema, true, "", &mut gone);
        }
        gone
    }

    /// Fills in defaults. With `prune`, null where it is not allowed counts as absent.
    pub fn default(&self, object: &mut Value, prune: bool) {
        default(object, &self.schema, prune);
    }

    /// What the schema refuses: (field, reason, message) of each.
    pub fn validate(&self, object: &Value) -> Vec<(String, &'static str, String)> {
        let mut wrong = Vec::new();
        if self.schema.is_object() {
            check(object, &self.schema, "", true, &mut wrong);
        }
        wrong
    }
}

/// Always there in a custom resource and in an embedded one.
const COMMON: [&str; 3] = ["apiVersion", "kind", "metadata"];

fn prune(value: &mut Value, schema: &Value, root: bool, path: &str, gone: &mut Vec<String>) {
    let open = schema["x-kubernetes-preserve-unknown-fields"] == true;
    let resource = root || schema["x-kubernetes-embedded-resource"] == true;
    match value {
        Value::Object(map) => {
            let properties = schema["properties"].as_object();
            let rest = &schema["additionalProperties"];
            map.retain(|key, value| {
                let at = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                if resource && COMMON.contains(&key.as_str()) {
                    return true;
                }
                match properties.and_then(|all| all.get(key)) {
                    Some(schema) => prune(value, schema, false, &at, gone),
                    None if rest.is_object() => prune(value, rest, false, &at, gone),
                    None if open || *rest == json!(true) => {}
                    None => {
                        gone.push(at);
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
                    prune(item, items, false, &format!("{path}[{index}]"), gone);
                }
            }
        }
        _ => {}
    }
}

fn default(value: &mut Value, schema: &Value, prune: bool) {
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

type Wrong = (String, &'static str, String);

fn check(value: &Value, schema: &Value, path: &str, root: bool, wrong: &mut Vec<Wrong>) {
    let mut refuse = |reason, message: String| wrong.push((path.to_owned(), reason, message));
    if value.is_null() {
        if schema["nullable"] != true && schema["type"].is_string() {
            let kind = schema["type"].as_str().unwrap_or_default();
            refuse(
                "FieldValueTypeInvalid",
                format!("Invalid value: \"null\": {path} in body must be of type {kind}: \"null\""),
            );
        }
        return;
    }
    if let Some(kind) = schema["type"].as_str()
        && !is_a(value, kind)
        && !(schema["x-kubernetes-int-or-string"] == true)
    {
        let found = name_of(value);
        refuse(
            "FieldValueTypeInvalid",
            format!("Invalid value: {found:?}: {path} in body must be of type {kind}: {found:?}"),
        );
        return;
    }
    if schema["x-kubernetes-int-or-string"] == true && !is_a(value, "integer") && !value.is_string() {
        let found = name_of(value);
        refuse(
            "FieldValueTypeInvalid",
            format!("Invalid value: {found:?}: {path} in body must be of type integer,string: {found:?}"),
        );
        return;
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let allowed: Vec<_> = allowed.iter().map(Value::to_string).collect();
        refuse(
            "FieldValueNotSupported",
            format!("Unsupported value: {value}: supported values: {}", allowed.join(", ")),
        );
    }
    bounds(value, schema, path, &mut refuse);
    match value {
        Value::Object(map) => members(map, schema, path, root, wrong),
        Value::Array(list) => {
            let kind = schema["x-kubernetes-list-type"].as_str();
            for (index, item) in list.iter().enumerate() {
                check(item, &schema["items"], &format!("{path}[{index}]"), false, wrong);
                let same = |other: &Value| match kind {
                    Some("set") => other == item,
                    Some("map") => {
                        let keys = schema["x-kubernetes-list-map-keys"].as_array();
                        let mut keys = keys.into_iter().flatten().filter_map(Value::as_str);
                        keys.all(|key| other[key] == item[key])
                    }
                    _ => false,
                };
                if list[..index].iter().any(same) {
                    wrong.push((
                        format!("{path}[{index}]"),
                        "FieldValueDuplicate",
                        format!("Duplicate value: {item}"),
                    ));
                }
            }
        }
        _ => {}
    }
}

fn members(map: &Map<String, Value>, schema: &Value, path: &str, root: bool, wrong: &mut Vec<Wrong>) {
    let at = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for key in required.filter(|key| !map.contains_key(*key)) {
        wrong.push((at(key), "FieldValueRequired", "Required value".to_owned()));
    }
    let resource = root || schema["x-kubernetes-embedded-resource"] == true;
    for (key, value) in map {
        if resource && key == "metadata" {
            continue;
        }
        let inner = schema["properties"].get(key).unwrap_or(&schema["additionalProperties"]);
        check(value, inner, &at(key), false, wrong);
    }
}

fn bounds(value: &Value, schema: &Value, path: &str, refuse: &mut impl FnMut(&'static str, String)) {
    let invalid = |refuse: &mut dyn FnMut(&'static str, String), why: &str, bound: &Value, unit: &str| {
        let message = format!("Invalid value: {value}: {path} in body should {why} {bound}{unit}");
        refuse("FieldValueInvalid", message);
    };
    let size = match value {
        Value::String(text) => {
            Some((text.chars().count(), "minLength", "maxLength", "be at least", " chars long"))
        }
        Value::Array(list) => Some((list.len(), "minItems", "maxItems", "have at least", " items")),
        Value::Object(map) => {
            Some((map.len(), "minProperties", "maxProperties", "have at least", " properties"))
        }
        _ => None,
    };
    if let Some((size, least, most, why, unit)) = size {
        if schema[least].as_u64().is_some_and(|least| (size as u64) < least) {
            invalid(refuse, why, &schema[least], unit);
        }
        if schema[most].as_u64().is_some_and(|most| (size as u64) > most) {
            let most = &schema[most];
            match value {
                Value::String(_) => {
                    refuse("FieldValueTooLong", format!("Too long: may not be more than {most} bytes"));
                }
                _ => refuse("FieldValueTooMany", format!("Too many: {size}: must have at most {most} items")),
            }
        }
    }
    if let Some(number) = value.as_f64() {
        let over = |name: &str, exclusive: &str, beyond: fn(f64, f64) -> bool| {
            let limit = schema[name].as_f64()?;
            let excluded = schema[exclusive] == true;
            (beyond(number, limit) || (excluded && number == limit)).then_some(excluded)
        };
        if let Some(excluded) = over("minimum", "exclusiveMinimum", |one, least| one < least) {
            let why = if excluded { "be greater than" } else { "be greater than or equal to" };
            invalid(refuse, why, &schema["minimum"], "");
        }
        if let Some(excluded) = over("maximum", "exclusiveMaximum", |one, most| one > most) {
            let why = if excluded { "be less than" } else { "be less than or equal to" };
            invalid(refuse, why, &schema["maximum"], "");
        }
    }
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

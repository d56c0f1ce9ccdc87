//! Small objects that overlap much: for each sequence a few fields of each struct, few names, few values.

use std::collections::BTreeMap;

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::types::{Kind, component};

/// Makes objects of one kind for one sequence.
pub struct Generator<'a> {
    pub rng: Rng,
    kind: &'a Kind,
    components: &'a BTreeMap<String, Value>,
    /// The fields that this sequence uses, by the place of the struct.
    focus: BTreeMap<String, Vec<String>>,
}

/// Fields that lead to lists by key and other places where much happens.
const FAVOURITES: [&str; 40] = [
    "spec",
    "template",
    "containers",
    "initContainers",
    "ports",
    "env",
    "volumes",
    "volumeMounts",
    "rules",
    "subjects",
    "labels",
    "annotations",
    "data",
    "http",
    "paths",
    "resources",
    "limits",
    "requests",
    "conditions",
    "status",
    "strategy",
    "selector",
    "matchLabels",
    "matchExpressions",
    "ingress",
    "egress",
    "from",
    "podSelector",
    "secrets",
    "imagePullSecrets",
    "loadBalancer",
    "tolerations",
    "topologySpreadConstraints",
    "hostAliases",
    "finalizers",
    "ownerReferences",
    "items",
    "configMap",
    "valueFrom",
    "jobTemplate",
];
const TEXTS: [&str; 4] = ["a", "b", "c", ""];
const DEEPEST: usize = 11;

impl<'a> Generator<'a> {
    pub fn new(seed: u64, kind: &'a Kind, components: &'a BTreeMap<String, Value>) -> Self {
        Generator { rng: Rng::with_seed(seed), kind, components, focus: BTreeMap::new() }
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(..100) < percent
    }

    /// One of them.
    pub fn one<'t, T: ?Sized>(&mut self, of: &[&'t T]) -> &'t T {
        of[self.rng.usize(..of.len())]
    }

    /// A whole object.
    pub fn object(&mut self) -> Value {
        let component = self.kind.component.clone();
        let mut object = self.schema(&json!({"$ref": format!("#/{component}")}), "", 0);
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        object["apiVersion"] = json!(match self.kind.group {
            "" => self.kind.version.to_owned(),
            group => format!("{group}/{}", self.kind.version),
        });
        object["kind"] = json!(self.kind.kind);
        object["metadata"]["name"] = json!("x");
        object
    }

    /// Something between two objects: each field of the one, of the other, of neither, or between both.
    pub fn mix(&mut self, live: &Value, fresh: &Value) -> Value {
        match (live, fresh) {
            (Value::Object(one), Value::Object(other)) => {
                let keys: Vec<_> =
                    one.keys().chain(other.keys().filter(|key| !one.contains_key(*key))).collect();
                let mut mixed = Map::new();
                for key in keys {
                    let kept = matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "name");
                    let value = match (one.get(key), other.get(key), self.rng.u32(..10)) {
                        (Some(one), _, _) if kept && !one.is_object() => one.clone(),
                        (Some(one), Some(other), 0..7) => self.mix(one, other),
                        (Some(one), Some(_), 7..8) if !kept => one.clone(),
                        (Some(_), Some(other), 8..9) if !kept => other.clone(),
                        (Some(one), None, 0..9) => one.clone(),
                        (None, Some(other), 0..4) => other.clone(),
                        (Some(one), ..) if kept => one.clone(),
                        (None, Some(other), _) if kept => other.clone(),
                        _ => continue,
                    };
                    mixed.insert(key.clone(), value);
                }
                Value::Object(mixed)
            }
            (Value::Array(one), Value::Array(other)) => match self.rng.u32(..6) {
                0 => Value::Array(one.clone()),
                1 => Value::Array(other.clone()),
                2 => Value::Array(one.iter().rev().cloned().collect()),
                3 => {
                    // Often with duplicates: writes but applies may have them.
                    Value::Array(one.iter().chain(other).cloned().collect())
                }
                _ => {
                    let pairs = one.iter().zip(other).map(|(one, other)| self.mix(one, other));
                    Value::Array(pairs.collect())
                }
            },
            (one, other) => if self.chance(70) { other } else { one }.clone(),
        }
    }

    fn schema(&mut self, schema: &Value, path: &str, depth: usize) -> Value {
        let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
        if let Some(name) = reference.and_then(component) {
            match name.rsplit('.').next().unwrap_or_default() {
                "Quantity" => return json!(self.one(&["1", "2", "500m"])),
                "IntOrString" => return if self.chance(50) { json!(1) } else { json!("a") },
                "Time" | "MicroTime" => return json!("2026-01-01T00:00:00Z"),
                "FieldsV1" | "RawExtension" => return self.free(2),
                "ObjectMeta" => return self.metadata(path, depth),
                _ => {}
            }
            let components = self.components;
            return components.get(name).map_or(Value::Null, |schema| self.schema(schema, path, depth));
        }
        let open = schema["x-kubernetes-preserve-unknown-fields"] == true;
        match schema["type"].as_str() {
            _ if schema["x-kubernetes-int-or-string"] == true => {
                if self.chance(50) {
                    json!(1)
                } else {
                    json!("a")
                }
            }
            Some("object") => self.map(schema, path, depth, open),
            Some("array") => self.list(schema, path, depth),
            Some("integer") => json!(self.rng.u32(..3)),
            Some("number") => json!(f64::from(self.rng.u32(1..4)) + 0.5),
            Some("boolean") => json!(self.rng.bool()),
            Some("string") => match schema["format"].as_str() {
                Some("date-time") => json!("2026-01-01T00:00:00Z"),
                Some("byte") => json!(self.one(&["", "YQ==", "Yg=="])),
                Some("int-or-string") => json!(1),
                _ => json!(self.one(&TEXTS)),
            },
            _ => self.free(2),
        }
    }

    fn map(&mut self, schema: &Value, path: &str, depth: usize, open: bool) -> Value {
        let mut object = Map::new();
        let none = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&none);
        if self.chance(6) {
            return json!({});
        }
        if depth < DEEPEST {
            for name in self.fields(properties, path) {
                if self.chance(60) {
                    let value = self.value(&properties[&name], &format!("{path}.{name}"), depth + 1);
                    object.insert(name, value);
                }
            }
        }
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for name in required {
            if !object.contains_key(name) && self.chance(95) && depth < DEEPEST {
                let value = self.schema(&properties[name], &format!("{path}.{name}"), depth + 1);
                object.insert(name.to_owned(), value);
            }
        }
        match &schema["additionalProperties"] {
            Value::Object(_) if depth < DEEPEST => {
                for key in ["a", "b", "c"] {
                    if self.chance(40) {
                        let inner =
                            self.value(&schema["additionalProperties"], &format!("{path}.*"), depth + 1);
                        object.insert(key.to_owned(), inner);
                    }
                }
            }
            _ if open || (properties.is_empty() && schema["additionalProperties"].is_null()) => {
                let free = self.free(3);
                let free = free.as_object().cloned().unwrap_or_default();
                object.extend(free.into_iter().map(|(key, value)| (format!("x{key}"), value)));
            }
            _ => {}
        }
        Value::Object(object)
    }

    /// A value in a map or struct: now and then null.
    fn value(&mut self, schema: &Value, path: &str, depth: usize) -> Value {
        if self.chance(3) { Value::Null } else { self.schema(schema, path, depth) }
    }

    /// The fields of a struct that this sequence uses.
    fn fields(&mut self, properties: &Map<String, Value>, path: &str) -> Vec<String> {
        if let Some(known) = self.focus.get(path) {
            return known.clone();
        }
        let hidden = |name: &str| path.is_empty() && matches!(name, "apiVersion" | "kind");
        let mut all: Vec<_> = properties.keys().filter(|name| !hidden(name)).cloned().collect();
        let mut chosen = Vec::new();
        for _ in 0..self.rng.usize(2..5) {
            let liked: Vec<_> = (0..all.len()).filter(|at| FAVOURITES.contains(&all[*at].as_str())).collect();
            if all.is_empty() {
                break;
            }
            let at = match liked.is_empty() || self.chance(25) {
                true => self.rng.usize(..all.len()),
                false => liked[self.rng.usize(..liked.len())],
            };
            chosen.push(all.swap_remove(at));
        }
        self.focus.insert(path.to_owned(), chosen.clone());
        chosen
    }

    fn list(&mut self, schema: &Value, path: &str, depth: usize) -> Value {
        let items = &schema["items"];
        let kind = schema["x-kubernetes-list-type"].as_str();
        let merge_key = schema["x-kubernetes-patch-merge-key"].as_str();
        let most = if depth > 8 { 1 } else { 3 };
        let count = if self.chance(8) { 0 } else { self.rng.usize(1..=most) };
        let mut made: Vec<Value> = Vec::new();
        for _ in 0..count {
            let mut item = self.schema(items, &format!("{path}[]"), depth + 1);
            let keys: Vec<&str> = match (kind, merge_key) {
                (Some("map"), _) => {
                    let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                    keys.filter_map(Value::as_str).collect()
                }
                (None, Some(key)) => vec![key],
                _ => Vec::new(),
            };
            if let Some(item) = item.as_object_mut() {
                item.retain(|key, value| !(keys.contains(&key.as_str()) && (value.is_null() || value == "")));
                for key in &keys {
                    if !item.contains_key(*key) && self.chance(92) {
                        let name = self.one(&["a", "b", "c"]);
                        item.insert((*key).to_owned(), self.key(items, key, name));
                    }
                }
            }
            let twin = made.iter().any(|other| match keys.is_empty() {
                true => *other == item,
                false => keys.iter().all(|key| other[*key] == item[*key]),
            });
            if !twin || self.chance(3) {
                made.push(item);
            }
        }
        Value::Array(made)
    }

    /// A key of the type that the schema says.
    fn key(&mut self, items: &Value, key: &str, text: &str) -> Value {
        let name = items["$ref"].as_str().or_else(|| items["allOf"][0]["$ref"].as_str()).and_then(component);
        let schema = name.and_then(|name| self.components.get(name)).unwrap_or(items);
        match schema["properties"][key]["type"].as_str() {
            Some("integer") => json!(self.rng.u32(1..3)),
            _ => json!(text),
        }
    }

    /// What no schema says.
    fn free(&mut self, depth: usize) -> Value {
        match self.rng.u32(..if depth == 0 { 5 } else { 8 }) {
            0 => json!(self.one(&TEXTS)),
            1 => json!(self.rng.u32(..3)),
            2 => json!(self.rng.bool()),
            3 => json!({}),
            4 => json!([]),
            5 => {
                let items: Vec<_> = (0..self.rng.u32(1..3)).map(|_| self.free(depth - 1)).collect();
                json!(items)
            }
            _ => {
                let mut map = Map::new();
                for key in ["a", "b", "c"] {
                    if self.chance(50) {
                        let value = if self.chance(4) { Value::Null } else { self.free(depth - 1) };
                        map.insert(key.to_owned(), value);
                    }
                }
                Value::Object(map)
            }
        }
    }

    fn metadata(&mut self, path: &str, depth: usize) -> Value {
        let all: Map<String, Value> = ["labels", "annotations", "finalizers", "ownerReferences"]
            .into_iter()
            .map(|name| (name.to_owned(), Value::Null))
            .collect();
        let mut metadata = Map::new();
        for name in self.fields(&all, path) {
            if !self.chance(50) {
                continue;
            }
            let components = self.components;
            let name_of = format!("{}.ObjectMeta", memkube::schema::META);
            let Some(schema) = components.get(&name_of) else { continue };
            let value = self.value(&schema["properties"][&name], &format!("{path}.{name}"), depth + 1);
            metadata.insert(name, value);
        }
        Value::Object(metadata)
    }
}

//! Every field of the CRDs' specs with every rule that its schema has, and an object in which just that is wrong.

use serde_json::{Map, Value, json};

/// An object that an API server has to refuse.
pub struct Wrong {
    /// Kind, path and rule, as the golden file names them.
    pub what: String,
    /// The object.
    pub object: Value,
    /// What the refusal has to say, where the schema has its own words.
    pub says: Option<String>,
}

/// Objects that an API server takes, one of each kind; the fields in them are made wrong one by one.
pub fn good() -> [Value; 4] {
    let selector = json!({
        "matchLabels": {"env": "prod"},
        "matchExpressions": [{"key": "tier", "operator": "In", "values": ["web"]}],
    });
    let drift = json!({
        "policy": "Correct", "yield": "None",
        "ignore": [{"target": {"kind": "ConfigMap"}, "paths": [".data.a"]}],
    });
    let conflicts = json!({
        "existing": "Fail", "fields": "Force",
        "takeFrom": [{"manager": "helm-controller", "operation": "Update"}],
    });
    let feedback = json!([{"apiVersion": "example.com/v1", "kind": "Gadget", "name": "a",
        "values": [{"name": "size", "expression": "spec.size"}]}]);
    let spec = json!({
        "targets": [{"clusterNames": ["berlin"], "namespace": "shop"}, {"clusterSelector": selector}],
        "excludeClusters": ["tokyo"],
        "manifest": "kind: ConfigMap",
        "manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}],
        "manifestsFrom": [
            {"configMapRef": {"name": "a", "keys": ["k"]}},
            {"secretRef": {"name": "b", "keys": ["k"]}},
        ],
        "overrides": [
            {"target": {"group": "", "version": "v1", "kind": "ConfigMap", "name": "a", "namespace": "shop"},
                "clusterNames": ["berlin"],
                "jsonPatch": [{"op": "move", "from": "/data/a", "path": "/data/b"}]},
            {"target": {"kind": "ConfigMap"}, "clusterSelector": selector, "mergePatch": {"data": {"a": "b"}}},
            {"target": {"kind": "ConfigMap"}, "set": [{"path": ".data.a", "expression": "cluster.name"}]},
        ],
        "reconcile": {"interval": "1m", "retryInterval": "1m", "timeout": "1m", "onEvents": true},
        "conflicts": conflicts,
        "drift": drift,
        "healthCheckExprs": [{"apiVersion": "example.com/v1", "kind": "Gadget", "inProgress": "false",
            "failed": "false", "current": "true", "suspended": "false", "message": "status.text",
            "observedGeneration": "Ignore"}],
        "statusFeedback": feedback,
        "readiness": {"maxUnreachable": "5%"},
    });
    [
        of("VidraResource", "shop", spec),
        of(
            "MemberCluster",
            "berlin",
            json!({
                "kubeconfigSecretRef": {"namespace": "vidra", "name": "berlin", "key": "kubeconfig"},
                "allowedNamespaces": ["shop"],
                "values": {"registry": "eu.example"},
            }),
        ),
        of(
            "VidraTarget",
            "shop.berlin",
            json!({
                "resource": "shop", "cluster": "berlin", "revision": "00ff", "desired": "Present",
                "namespace": "shop", "generation": 1,
                "overrides": {"apply": [0], "labels": {"env": "prod"}, "values": {"registry": "eu.example"}},
                "reconcile": {"interval": "1m", "retryInterval": "1m", "timeout": "1m", "onEvents": true},
                "conflicts": conflicts,
                "drift": drift,
                "healthRules": "0123456789ab",
                "statusFeedback": "ab0123456789",
            }),
        ),
        of(
            "VidraInventory",
            "shop.berlin.0",
            json!({
                "resource": "shop", "cluster": "berlin", "chunk": 0, "chunks": [0],
                "entries": ["/v1/ConfigMap/shop/a/done/u"],
            }),
        ),
    ]
}

fn of(kind: &str, name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "vidra.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    if kind != "MemberCluster" {
        object["metadata"]["namespace"] = "default".into();
    }
    object
}

/// A wrong value for rules in CEL that neither an empty one nor the text "not right!" breaks: by the end of the path,
/// and a part of the rule's message where there are several.
const WRONG: [(&str, &str, &str); 18] = [
    (".matchLabels", "label key", r#"{"not right!": "a"}"#),
    (".values", "keys", r#"{"not right!": "a"}"#),
    (".matchExpressions[]", "", r#"{"key": "a", "operator": "In"}"#),
    (".paths[]", "below the root", r#"".metadata.name""#),
    (".takeFrom[].manager", "", r#""vidra/hub/team/shop""#),
    (".jsonPatch[]", "", r#"{"op": "move", "path": "/a"}"#),
    (
        ".overrides[]",
        "at most one",
        r#"{"target": {}, "clusterNames": ["a"], "clusterSelector": {}, "mergePatch": {}}"#,
    ),
    (".overrides[]", "exactly one", r#"{"target": {}}"#),
    (".maxUnreachable", "", r#""0%""#),
    (".maxUnreachable", "", r#""101%""#),
    (".maxUnreachable", "", r#""x""#),
    (".maxUnreachable", "", "-1"),
    (".healthCheckExprs[]", "", r#"{"apiVersion": "apps/v1", "current": "true"}"#),
    (".statusFeedback[]", "", r#"{"apiVersion": "v1", "kind": "Secret"}"#),
    (
        ".statusFeedback[].values",
        "",
        r#"[{"name": "a", "expression": "1"}, {"name": "a", "expression": "2"}]"#,
    ),
    ("VidraResource", "", "181"),
    ("MemberCluster", "", "64"),
    ("VidraTarget", "", "7"),
];

/// Every field of these CRDs, as JSON, wrong in every way that its schema forbids.
pub fn wrong(crds: &[Value]) -> Vec<Wrong> {
    let mut all = Vec::new();
    for good in good() {
        let kind = good["kind"].as_str().unwrap();
        let crd = crds.iter().find(|crd| crd["spec"]["names"]["kind"] == kind).expect("a CRD of the kind");
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut field = Field { kind, good: &good, path: Vec::new(), all: &mut all };
        field.rules(&json!({"required": schema["required"], "x-kubernetes-validations": schema["x-kubernetes-validations"]}));
        field.path.push(Step::Field("spec".to_owned()));
        field.walk(&schema["properties"]["spec"]);
    }
    all
}

/// A step of a path through a schema.
#[derive(Clone, PartialEq)]
enum Step {
    Field(String),
    /// Any item of a list.
    Item,
    /// Any value of a map.
    Entry,
}

struct Field<'a> {
    kind: &'a str,
    good: &'a Value,
    path: Vec<Step>,
    all: &'a mut Vec<Wrong>,
}

impl Field<'_> {
    fn walk(&mut self, schema: &Value) {
        self.rules(schema);
        let below = |step: Step, schema: &Value, field: &mut Self| {
            field.path.push(step);
            field.walk(schema);
            field.path.pop();
        };
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            below(Step::Field(name.clone()), schema, self);
        }
        if schema["items"].is_object() {
            below(Step::Item, &schema["items"], self);
        }
        if schema["additionalProperties"].is_object() {
            below(Step::Entry, &schema["additionalProperties"], self);
        }
    }

    fn rules(&mut self, schema: &Value) {
        let before = self.all.len();
        let present = self.present().cloned();
        for (rule, bound) in schema.as_object().into_iter().flatten() {
            let text = |length: u64| Value::from("a".repeat(length as usize));
            let number = bound.as_f64().unwrap_or_default();
            let size = bound.as_u64().unwrap_or_default();
            let value = match rule.as_str() {
                "enum" => "Wrong".into(),
                "pattern" => "not right!".into(),
                "maxLength" => text(size + 1),
                "minLength" => text(size - 1),
                "maxItems" => {
                    let first = present.as_ref().and_then(|list| list[0].clone().into()).unwrap_or_default();
                    vec![first; size as usize + 1].into()
                }
                "minItems" => json!([]),
                "maxProperties" => {
                    let all = (0..=size).map(|number| (format!("k{number}"), Value::from("v")));
                    all.collect::<Map<_, _>>().into()
                }
                "minimum" => json!(number as i64 - 1),
                "maximum" => json!(number as i64 + 1),
                "required" => {
                    for name in bound.as_array().into_iter().flatten().filter_map(Value::as_str) {
                        let mut value = present.clone().unwrap_or_else(|| json!({}));
                        value.as_object_mut().unwrap().remove(name);
                        self.add(&format!("required {name}"), value, Some("Required value".to_owned()));
                    }
                    continue;
                }
                "x-kubernetes-validations" => {
                    for one in bound.as_array().into_iter().flatten() {
                        let message = one["message"].as_str().expect("each rule has a message of its own");
                        for value in self.against(schema, message) {
                            self.add("rule", value, Some(message.to_owned()));
                        }
                    }
                    continue;
                }
                _ => continue,
            };
            self.add(rule, value, None);
        }
        // What has no other rule has a type.
        let type_ = schema["type"].as_str().unwrap_or_default();
        if self.all.len() == before && !type_.is_empty() {
            let value = if type_ == "string" { json!(7) } else { json!("text") };
            self.add("type", value, Some(format!("must be of type {type_}")));
        }
    }

    /// Values that break the rule with this message.
    fn against(&self, schema: &Value, message: &str) -> Vec<Value> {
        let path = self.to_string();
        let rows = WRONG.iter().filter(|(end, part, _)| path.ends_with(end) && message.contains(part));
        let mut values: Vec<Value> = rows.map(|(_, _, value)| serde_json::from_str(value).unwrap()).collect();
        if values.is_empty() {
            values.push(match schema["type"].as_str() {
                Some("string") => "not right!".into(),
                Some("array") => json!([]),
                _ => json!({}),
            });
        }
        let named = |value: Value| match (self.path.is_empty(), value.as_u64()) {
            // The rule is about the name.
            (true, Some(length)) => {
                let mut object = self.good.clone();
                object["metadata"]["name"] = "n".repeat(length as usize).into();
                object
            }
            _ => value,
        };
        values.into_iter().map(named).collect()
    }

    /// The good object's value here.
    fn present(&self) -> Option<&Value> {
        let pointer = find(self.good, &self.path)?;
        self.good.pointer(&pointer)
    }

    fn add(&mut self, rule: &str, value: Value, says: Option<String>) {
        let mut object = self.good.clone();
        // The longest part of the path that is there, and below it just what leads to the field.
        let there = (0..=self.path.len())
            .rev()
            .find_map(|length| Some((length, find(self.good, &self.path[..length])?)));
        let (length, pointer) = there.expect("the root is there");
        let new = self.path[length..].iter().rev().fold(value, |below, step| match step {
            Step::Field(name) => json!({ name: below }),
            Step::Item => json!([below]),
            Step::Entry => json!({"k": below}),
        });
        let place = object.pointer_mut(&pointer).expect("it was found");
        match (place, new) {
            (Value::Object(place), Value::Object(new)) if length < self.path.len() => place.extend(new),
            (place, new) => *place = new,
        }
        self.all.push(Wrong { what: format!("{self} {rule}"), object, says });
    }
}

impl std::fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind)?;
        for (number, step) in self.path.iter().enumerate() {
            match step {
                Step::Field(name) if number == 0 => write!(f, " .{name}")?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Item => f.write_str("[]")?,
                Step::Entry => f.write_str("{}")?,
            }
        }
        Ok(())
    }
}

/// A JSON Pointer to the first value of `object` at a path of its schema.
fn find(object: &Value, path: &[Step]) -> Option<String> {
    let Some((step, rest)) = path.split_first() else { return Some(String::new()) };
    let below = |key: String, value: &Value| Some(format!("/{key}{}", find(value, rest)?));
    match step {
        Step::Field(name) => below(name.clone(), object.get(name)?),
        Step::Item => {
            let all = object.as_array()?.iter().enumerate();
            all.map(|(index, item)| below(index.to_string(), item)).find_map(|found| found)
        }
        Step::Entry => object.as_object()?.iter().find_map(|(key, value)| below(key.clone(), value)),
    }
}

/// A value that is long only to be too long is no sentence: the golden file has its beginning.
pub fn shortened(text: &str) -> String {
    let (mut short, mut last, mut run) = (String::new(), None, 0);
    for c in text.chars() {
        run = if last == Some(c) { run + 1 } else { 0 };
        last = Some(c);
        match run {
            0..10 => short.push(c),
            10 => short.push('…'),
            _ => {}
        }
    }
    short
}

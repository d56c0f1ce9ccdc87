//! A sequence of writes over one object, and memkube's answers to it.

use memkube::managers::{By, FieldManagers, Refusal};
use serde_json::{Value, json};

use super::generate::Generator;
use super::types::{Kind, Types};

/// One write.
#[derive(Clone)]
pub struct Step {
    pub apply: bool,
    pub manager: &'static str,
    pub force: bool,
    pub subresource: &'static str,
    pub object: Value,
}

/// Writes over one object that does not exist at first.
#[derive(Clone)]
pub struct Sequence {
    pub seed: u64,
    pub kind: &'static str,
    pub managers: FieldManagers,
    pub steps: Vec<Step>,
    /// What memkube answered.
    pub answers: Vec<Value>,
}

impl Sequence {
    /// The sequence of a seed: 6 to 10 steps.
    pub fn generate(seed: u64, types: &Types) -> Self {
        let kind = &types.kinds[fastrand::Rng::with_seed(seed).usize(..types.kinds.len())];
        let mut generator = Generator::new(seed, kind, &types.components);
        let mut live = kind.managers.empty();
        let mut sequence = Sequence {
            seed,
            kind: kind.kind,
            managers: kind.managers.clone(),
            steps: Vec::new(),
            answers: Vec::new(),
        };
        for _ in 0..generator.rng.usize(6..=10) {
            let step = step(&mut generator, kind, &live);
            sequence.answers.push(perform(&kind.managers, &mut live, &step));
            sequence.steps.push(step);
        }
        sequence
    }

    /// The same with other steps.
    pub fn with(&self, steps: Vec<Step>) -> Self {
        let mut live = self.managers.empty();
        let answers = steps.iter().map(|step| perform(&self.managers, &mut live, step)).collect();
        Sequence { steps, answers, ..self.clone() }
    }

    /// As the other side reads it.
    pub fn line(&self) -> String {
        let steps: Vec<_> = self.steps.iter().map(Step::json).collect();
        json!({"kind": self.kind, "steps": steps}).to_string()
    }

    /// The first step that the other side answers otherwise.
    pub fn difference(&self, wanted: &[Value]) -> Option<usize> {
        let pairs = wanted.iter().zip(&self.answers);
        pairs.enumerate().find_map(|(at, (wanted, found))| (plain(wanted) != *found).then_some(at))
    }

    /// What a person needs to look into it.
    pub fn told(&self, wanted: &[Value]) -> String {
        let Some(at) = self.difference(wanted) else { return format!("seed {}: gone", self.seed) };
        let mut lines = vec![format!("seed {}, {}, step {at}:", self.seed, self.kind)];
        lines.extend(self.steps.iter().take(at + 1).map(|step| format!("  {}", step.json())));
        if let Some(before) = at.checked_sub(1) {
            lines.push(format!("  before:  {}", self.answers[before]));
        }
        lines.push(format!("  real:    {}", plain(&wanted[at])));
        lines.push(format!("  real, in its words: {}", wanted[at]["refused"]));
        lines.push(format!("  memkube: {}", self.answers[at]));
        lines.join("\n")
    }
}

impl Step {
    fn json(&self) -> Value {
        json!({
            "do": if self.apply { "apply" } else { "update" },
            "manager": self.manager,
            "force": self.force,
            "subresource": self.subresource,
            "object": self.object,
        })
    }
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn step(generator: &mut Generator<'_>, kind: &Kind, live: &Value) -> Step {
    let status = kind.reset["status"].is_array() && generator.chance(25);
    let subresource = if status { "status" } else { "" };
    let manager = generator.one(&["one", "two", "three", "kubectl"]);
    let fresh = generator.object();
    let apply = generator.chance(62);
    let force = generator.chance(35);
    let mut object = if apply && generator.chance(85) {
        fresh
    } else {
        let mixed = if generator.chance(75) { generator.mix(live, &fresh) } else { fresh };
        if apply { applicable(mixed) } else { mixed }
    };
    if !apply {
        tamper(generator, live, &mut object);
        if manager == "kubectl" && generator.chance(60) {
            let mut said = generator.object();
            said["metadata"]["name"] = json!("x");
            if generator.chance(70) {
                said = applicable(generator.mix(&said, &object));
            }
            if !object["metadata"]["annotations"].is_object() {
                object["metadata"]["annotations"] = json!({});
            }
            object["metadata"]["annotations"][LAST_APPLIED] = json!(said.to_string());
        }
    }
    Step { apply, manager, force, subresource, object }
}

/// What came from the live object, as somebody may apply it.
fn applicable(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        metadata.remove("uid");
    }
    object
}

/// What a client may send as managedFields: often nothing, the live ones, none, or others.
fn tamper(generator: &mut Generator<'_>, live: &Value, object: &mut Value) {
    let mut entries = live["metadata"]["managedFields"].clone();
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    if !live["metadata"]["uid"].is_null() {
        metadata.insert("uid".to_owned(), json!("u"));
    }
    let sent = match generator.rng.u32(..20) {
        0 => json!([]),
        1 => json!([{}]),
        2 => {
            if let Some(list) = entries.as_array_mut().filter(|list| !list.is_empty()) {
                list.remove(generator.rng.usize(..list.len()));
            }
            entries
        }
        3 => {
            // Sets of other schemas and of nothing that is there.
            let fields = generator.one(&[
                r#"{"f:spec":{"f:template":{}}}"#,
                r#"{"f:spec":{},"f:status":{"f:conditions":{}}}"#,
                r#"{"f:rules":{"i:0":{}},"f:data":{"f:a":{}}}"#,
                r#"{"f:metadata":{"f:name":{},"f:labels":{".":{},"f:a":{}}}}"#,
                r#"{"f:spec":{"f:plain":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}},"f:whole":{"f:a":{}}}}"#,
                r#"{"f:spec":{"f:items":{},"f:names":{"v:\"a\"":{}},"f:selector":{"f:a":{}}}}"#,
                r#"{"f:data":1}"#,
                "null",
            ]);
            let fields: Value = serde_json::from_str(fields).unwrap_or_default();
            let entry = json!({"manager": generator.one(&["one", "two", "four"]),
                "operation": generator.one(&["Apply", "Update"]), "apiVersion": live["apiVersion"],
                "fieldsType": "FieldsV1", "fieldsV1": fields});
            match entries.as_array_mut().filter(|_| generator.chance(70)) {
                Some(list) => list.push(entry),
                None => entries = json!([entry]),
            }
            entries
        }
        4..8 => entries,
        _ => Value::Null,
    };
    match sent {
        Value::Null => metadata.remove("managedFields"),
        sent => metadata.insert("managedFields".to_owned(), sent),
    };
}

fn perform(managers: &FieldManagers, live: &mut Value, step: &Step) -> Value {
    let by = By { manager: step.manager, subresource: step.subresource };
    let made = match step.apply {
        true => managers.apply(live, &step.object, by, step.force),
        false => Ok(managers.update(live, step.object.clone(), by)),
    };
    let answer = match made {
        Ok(mut object) => {
            // A live object is told from none by its uid.
            object["metadata"]["uid"] = json!("u");
            live.clone_from(&object);
            json!({"object": object})
        }
        Err(Refusal::Conflicts(conflicts)) => json!({"conflicts": conflicts}),
        Err(Refusal::Untyped(_)) => json!({"refused": ""}),
    };
    plain(&answer)
}

/// Without times, orders and the words of refusals.
fn plain(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(entries) = answer.pointer_mut("/object/metadata/managedFields").and_then(Value::as_array_mut)
    {
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            entry.remove("time");
        }
        entries.sort_by_key(Value::to_string);
    }
    if let Some(conflicts) = answer["conflicts"].as_array_mut() {
        conflicts.sort_by_key(Value::to_string);
    }
    if answer["refused"].is_string() {
        answer["refused"] = json!("");
    }
    if let Some(map) = answer.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    answer
}

//! Steps, how they are sent to a bed, and what is compared of the answers.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::bed::Bed;
use crate::plain::{plain, slim};

/// One request and its answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Step {
    /// A method; APPLY, MERGE, JSON, STRATEGIC for the types of PATCH; LIST and DELETECOLLECTION; WATCH: all
    /// events until it ends; WAIT: GET until it is found; GONE: GET until it is not; EXPIRED: the second page of
    /// a list of which nothing is known any more.
    #[serde(rename = "do")]
    pub method: String,
    /// `{ns}` is the sequence's namespace, `{uid}` and `{rv}` are those of the last object answered, `{my-uid}`
    /// and `{my-rv}` those of the last one answered under this path, `{start}` is the version of the first
    /// list, `{continue}` the token of the last one.
    pub path: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub body: Value,
    /// A body that is no JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// Its type, where it is not that of the method.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content: String,
    /// What is wrong with the request, if anything.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sort: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub answer: Value,
}

impl Step {
    pub fn new(method: &str, path: String, body: Value) -> Self {
        Step { method: method.to_owned(), path, body, ..Step::default() }
    }

    pub fn named(self, method: &str) -> Self {
        Step { method: method.to_owned(), ..self }
    }
}

/// What differs between runs of one sequence on one server.
#[derive(Default)]
pub struct Seen {
    pub namespace: String,
    /// Objects whose kind is not compared whole are compared in part.
    pub partly: bool,
    uid: String,
    version: String,
    start: String,
    token: String,
    /// Uid and version by path.
    mine: BTreeMap<String, (String, String)>,
    /// The number of each resourceVersion, by uid.
    versions: BTreeMap<String, Vec<String>>,
}

/// The path of an object: without query and subresource.
fn target(path: &str) -> &str {
    let path = path.split('?').next().unwrap_or_default();
    path.strip_suffix("/status").or_else(|| path.strip_suffix("/scale")).unwrap_or(path)
}

impl Seen {
    fn fill(&self, text: &str, path: &str) -> String {
        let mine = self.mine.get(target(path)).cloned().unwrap_or_default();
        text.replace("{ns}", &self.namespace)
            .replace("{uid}", &self.uid)
            .replace("{rv}", &self.version)
            .replace("{my-uid}", &mine.0)
            .replace("{my-rv}", &mine.1)
            .replace("{start}", &self.start)
            .replace("{continue}", &self.token)
    }

    fn answer(&mut self, code: u16, body: &Value, path: &str) -> Value {
        let mut answer = json!({"code": code});
        if body["kind"] == "Status" {
            answer["reason"] = body["reason"].clone();
            let causes = body["details"]["causes"].as_array().into_iter().flatten();
            let mut causes: Vec<_> = causes.map(|cause| json!([cause["reason"], cause["field"]])).collect();
            causes.sort_by_key(Value::to_string);
            if self.partly {
                // How often it says the same depends on how its code is cut.
                causes.dedup();
            }
            if !causes.is_empty() {
                answer["causes"] = json!(causes);
            }
        } else if !body.is_object() {
            answer["text"] = body.clone();
        } else {
            if body["items"].is_array() {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                self.token = text(&body["metadata"]["continue"]);
                if self.start.is_empty() {
                    self.start = text(&body["metadata"]["resourceVersion"]);
                }
            }
            answer["object"] = self.object(body, path);
        }
        let mut text = answer.to_string().replace(&self.namespace, "{ns}");
        for uid in self.versions.keys() {
            text = text.replace(uid.as_str(), "X");
        }
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn object(&mut self, object: &Value, path: &str) -> Value {
        let mut object = object.clone();
        let metadata = &mut object["metadata"];
        let uid = metadata["uid"].as_str().unwrap_or_default().to_owned();
        if !uid.is_empty() {
            let version = metadata["resourceVersion"].as_str().unwrap_or_default().to_owned();
            self.uid.clone_from(&uid);
            self.version.clone_from(&version);
            self.mine.insert(target(path).to_owned(), (uid.clone(), version.clone()));
            if let Some(name) = metadata["name"].as_str() {
                self.mine.insert(format!("{}/{name}", target(path)), (uid.clone(), version.clone()));
            }
            let versions = self.versions.entry(uid).or_default();
            let number = versions.iter().position(|seen| *seen == version).unwrap_or_else(|| {
                versions.push(version);
                versions.len() - 1
            });
            metadata["resourceVersion"] = json!(format!("#{number}"));
        }
        plain(&mut object);
        if self.partly { slim(&object) } else { object }
    }
}

/// Sends the steps one after the other; gives what is compared of each answer.
pub async fn run(bed: &Bed, partly: bool, steps: &[Step]) -> Result<Vec<Value>> {
    let mut seen = Seen { namespace: bed.namespace().await?, partly, ..Seen::default() };
    let mut answers = Vec::new();
    for step in steps {
        answers.push(one(bed, &mut seen, step).await?);
    }
    Ok(answers)
}

async fn one(bed: &Bed, seen: &mut Seen, step: &Step) -> Result<Value> {
    let path = seen.fill(&step.path, &seen.fill(&step.path, ""));
    let body = match (&step.raw, &step.body) {
        (Some(raw), _) => raw.clone(),
        (None, Value::Null) => String::new(),
        (None, body) => seen.fill(&body.to_string(), &path),
    };
    let (method, kind) = match step.method.as_str() {
        "APPLY" => ("PATCH", "application/apply-patch+yaml"),
        "MERGE" => ("PATCH", "application/merge-patch+json"),
        "JSON" => ("PATCH", "application/json-patch+json"),
        "STRATEGIC" => ("PATCH", "application/strategic-merge-patch+json"),
        "LIST" => ("GET", ""),
        "DELETECOLLECTION" => ("DELETE", "application/json"),
        "WAIT" => {
            bed.wait(&path).await?;
            return Ok(Value::Null);
        }
        "GONE" => return Ok(json!({"gone": bed.gone(&path).await?})),
        "WATCH" => {
            let events = bed.watch(&path, 1_000).await?;
            let named = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let events: Vec<_> = events.iter().map(|(of, object)| json!([of, named(object)])).collect();
            let text = json!({"events": events}).to_string().replace(&seen.namespace, "{ns}");
            return Ok(crate::plain::generated(serde_json::from_str(&text)?));
        }
        "EXPIRED" => {
            let path = bed.expired(&path);
            let (code, _, answer) = bed.send("GET", &path, "", String::new()).await?;
            return Ok(seen.answer(code, &answer, &path));
        }
        method => (method, "application/json"),
    };
    let kind = if step.content.is_empty() { kind } else { &step.content };
    let (code, warnings, answer) = bed.send(method, &path, kind, body).await?;
    let mut answer = seen.answer(code, &answer, &path);
    if warnings > 0 && seen.partly {
        answer["warnings"] = json!(warnings);
    }
    Ok(answer)
}

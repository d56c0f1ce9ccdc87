//! Sequences of requests with the answers that a real kube-apiserver gave, replayed on memkube.
//!
//! `tests/recorded/*.json` are lists of steps. With `MEMKUBE_REAL_KUBECONFIG` set the sequences are sent to
//! that server instead, and with `MEMKUBE_RECORD=1` as well its answers are written into the files. Compared
//! are code, reason, causes and objects; not messages, uids, times, addresses. A resourceVersion is compared
//! by whether it is a new one.

mod bed;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bed::{Bed, memkube, real};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Step {
    /// A method, or APPLY, MERGE, JSON, STRATEGIC for the types of PATCH, or WAIT: GET until it is found.
    #[serde(rename = "do")]
    method: String,
    /// `{ns}` is the sequence's namespace, `{uid}` and `{rv}` are those of the last object answered.
    path: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    body: Value,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    answer: Value,
}

fn files() -> Result<Vec<PathBuf>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// What differs between runs of one sequence on one server.
#[derive(Default)]
struct Seen {
    namespace: String,
    uid: String,
    version: String,
    /// The number of each resourceVersion, by uid.
    versions: BTreeMap<String, Vec<String>>,
}

impl Seen {
    fn fill(&self, text: &str) -> String {
        text.replace("{ns}", &self.namespace).replace("{uid}", &self.uid).replace("{rv}", &self.version)
    }

    fn answer(&mut self, code: u16, body: &Value) -> Value {
        let mut answer = json!({"code": code});
        if body["kind"] == "Status" {
            answer["reason"] = body["reason"].clone();
            let causes = body["details"]["causes"].as_array().into_iter().flatten();
            let mut causes: Vec<_> = causes.map(|cause| json!([cause["reason"], cause["field"]])).collect();
            causes.sort_by_key(Value::to_string);
            if !causes.is_empty() {
                answer["causes"] = json!(causes);
            }
        } else if !body.is_object() {
            answer["text"] = body.clone();
        } else {
            answer["object"] = self.object(body);
        }
        let text = answer.to_string().replace(&self.namespace, "{ns}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn object(&mut self, object: &Value) -> Value {
        let mut object = object.clone();
        let metadata = &mut object["metadata"];
        let uid = metadata["uid"].as_str().unwrap_or_default().to_owned();
        if !uid.is_empty() {
            let version = metadata["resourceVersion"].as_str().unwrap_or_default().to_owned();
            self.uid.clone_from(&uid);
            self.version.clone_from(&version);
            let versions = self.versions.entry(uid).or_default();
            let number = versions.iter().position(|seen| *seen == version).unwrap_or_else(|| {
                versions.push(version);
                versions.len() - 1
            });
            metadata["resourceVersion"] = json!(format!("#{number}"));
        }
        plain(&mut object);
        object
    }
}

/// Replaces what each server makes up by itself.
fn plain(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match key.as_str() {
                    // Whether an entry has a time is compared, not the order that comes of it.
                    "managedFields" => {
                        let entries = value.as_array_mut().into_iter().flatten();
                        entries.for_each(plain);
                        if let Some(entries) = value.as_array_mut() {
                            let key = |entry: &Value| {
                                json!([
                                    entry["operation"],
                                    entry["manager"],
                                    entry["apiVersion"],
                                    entry["subresource"]
                                ])
                                .to_string()
                            };
                            entries.sort_by_key(key);
                        }
                    }
                    "uid" | "creationTimestamp" | "deletionTimestamp" | "lastTransitionTime"
                    | "clusterIP"
                        if value.is_string() && *value != "None" && *value != "" =>
                    {
                        *value = json!("X");
                    }
                    "time" if value.is_string() => *value = json!("T"),
                    // Of lists and their items.
                    "resourceVersion" if value.as_str().is_some_and(|text| !text.starts_with('#')) => {
                        *value = json!("R");
                    }
                    "clusterIPs" if value[0] != "None" => *value = json!(["X"]),
                    "nodePort" => *value = json!(0),
                    "message" => *value = json!(""),
                    key if key.ends_with("controller-uid") && value.is_string() => *value = json!("X"),
                    _ => plain(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(plain),
        _ => {}
    }
}

async fn run(bed: &Bed, steps: &[Step]) -> Result<Vec<Value>> {
    let mut seen = Seen { namespace: bed.namespace().await?, ..Seen::default() };
    let mut answers = Vec::new();
    for step in steps {
        let path = seen.fill(&step.path);
        let body = match &step.body {
            Value::Null => String::new(),
            body => seen.fill(&body.to_string()),
        };
        let (method, kind) = match step.method.as_str() {
            "APPLY" => ("PATCH", "application/apply-patch+yaml"),
            "MERGE" => ("PATCH", "application/merge-patch+json"),
            "JSON" => ("PATCH", "application/json-patch+json"),
            "STRATEGIC" => ("PATCH", "application/strategic-merge-patch+json"),
            "WAIT" => {
                bed.wait(&path).await?;
                answers.push(Value::Null);
                continue;
            }
            method => (method, "application/json"),
        };
        let (code, answer) = bed.call(method, &path, kind, body).await?;
        answers.push(seen.answer(code, &answer));
    }
    Ok(answers)
}

fn steps(file: &Path) -> Result<Vec<Step>> {
    let text = std::fs::read_to_string(file)?;
    serde_json::from_str(&text).with_context(|| format!("reading {}", file.display()))
}

/// One line a difference, at most some.
fn differences(path: &str, wanted: &Value, found: &Value, lines: &mut Vec<String>) {
    match (wanted, found) {
        (Value::Object(one), Value::Object(other)) => {
            for key in one.keys().chain(other.keys().filter(|key| !one.contains_key(*key))) {
                differences(&format!("{path}.{key}"), &wanted[key], &found[key], lines);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                differences(&format!("{path}[{index}]"), one, other, lines);
            }
        }
        _ if wanted != found => lines.push(format!("  {path}: real {wanted}, memkube {found}")),
        _ => {}
    }
}

#[tokio::test(start_paused = true)]
async fn recorded_sequences_get_the_same_answers() -> Result<()> {
    let mut wrong = Vec::new();
    for file in files()? {
        let steps = steps(&file)?;
        let answers = run(&memkube(), &steps).await?;
        for (number, (step, found)) in steps.iter().zip(&answers).enumerate() {
            let mut lines = Vec::new();
            differences("", &step.answer, found, &mut lines);
            if !lines.is_empty() {
                let name = file.file_stem().unwrap_or_default().to_string_lossy();
                wrong.push(format!("{name} step {number} {} {}", step.method, step.path));
                wrong.extend(lines);
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { bail!("memkube differs:\n{}", wrong.join("\n")) }
}

/// Holds the recording to the real server, or makes it anew.
#[tokio::test]
async fn the_real_server_still_answers_as_recorded() -> Result<()> {
    let Some(bed) = real().await? else { return Ok(()) };
    let record = std::env::var_os("MEMKUBE_RECORD").is_some();
    for file in files()? {
        let mut steps = steps(&file)?;
        let answers = run(&bed, &steps).await.with_context(|| format!("{}", file.display()))?;
        for (number, (step, answer)) in steps.iter_mut().zip(answers).enumerate() {
            if !record && step.answer != answer {
                bail!("{} step {number}: recorded {}, now {answer}", file.display(), step.answer);
            }
            step.answer = answer;
        }
        if record {
            let lines: Vec<_> = steps.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
            std::fs::write(&file, format!("[\n{}\n]\n", lines.join(",\n")))?;
        }
    }
    // Controllers and caches of a real server settle between runs.
    tokio::time::sleep(Duration::from_millis(10)).await;
    Ok(())
}

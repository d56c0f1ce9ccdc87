//! Sequences of requests with the answers that a real kube-apiserver gave, replayed on memkube.
//!
//! `*.json` are written by hand; `generated.jsonl.zst` holds those that `generate` makes of seeds. Tests that run only
//! with `--ignored` send the sequences to the real server of `MEMKUBE_REAL_KUBECONFIG`, and with `MEMKUBE_RECORD=1` as
//! well its answers are written into the files (the garbage collector must run there). Compared are code,
//! reason, causes and objects; not messages, uids, times, addresses. Of kinds that are neither RBAC's nor
//! custom, ConfigMaps nor Secrets, generated sequences compare metadata, managedFields and the owned fields.
//! A resourceVersion is compared by whether it is a new one. What memkube is known to do otherwise is in
//! `differences`.

#[path = "../bed/mod.rs"]
mod bed;
mod counts;
mod differences;
mod generate;
mod plain;
mod steps;
mod subjects;
mod wrong;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bed::{Bed, memkube, real};
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steps::{Step, run};

const UNNAMED: &str = "MEMKUBE_REAL_KUBECONFIG is to name the kubeconfig of a real server";

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded")
}

fn files() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn steps_of(file: &Path) -> Result<Vec<Step>> {
    let text = std::fs::read_to_string(file)?;
    serde_json::from_str(&text).with_context(|| format!("reading {}", file.display()))
}

/// A generated sequence.
#[derive(Serialize, Deserialize)]
struct Generated {
    seed: u64,
    steps: Vec<Step>,
}

fn generated_file() -> PathBuf {
    directory().join("generated.jsonl.zst")
}

fn generated() -> Result<Vec<Generated>> {
    let text = zstd::decode_all(std::fs::File::open(generated_file())?)?;
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| Ok(serde_json::from_slice(line)?)).collect()
}

/// Makes the kinds that all generated sequences share.
async fn prepare(bed: &Bed) -> Result<()> {
    for crd in subjects::crds() {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (code, answer) = bed.call("POST", path, "application/json", crd.to_string()).await?;
        if code != 201 && code != 409 {
            bail!("make a CRD: {answer}");
        }
        let plural = crd["spec"]["names"]["plural"].as_str().unwrap_or_default();
        bed.wait(&format!("/apis/{}/v1/{plural}", subjects::GROUP)).await?;
    }
    Ok(())
}

/// One line a difference.
fn compare(path: &str, wanted: &Value, found: &Value, lines: &mut Vec<String>) {
    match (wanted, found) {
        (Value::Object(one), Value::Object(other)) => {
            for key in one.keys().chain(other.keys().filter(|key| !one.contains_key(*key))) {
                let path = format!("{path}.{key}");
                match (one.get(key), other.get(key)) {
                    (Some(one), Some(other)) => compare(&path, one, other, lines),
                    (Some(one), None) => lines.push(format!("  {path}: real {one}, memkube nothing")),
                    (None, other) => lines.push(format!("  {path}: real nothing, memkube {other:?}")),
                }
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                compare(&format!("{path}[{index}]"), one, other, lines);
            }
        }
        _ if wanted != found => lines.push(format!("  {path}: real {wanted}, memkube {found}")),
        _ => {}
    }
}

/// What differs at the first step that does: those after it follow from it. Of what is known to differ `met` has the
/// reason.
fn first_difference(
    name: &str,
    steps: &[Step],
    answers: &[Value],
    met: &mut BTreeSet<&'static str>,
) -> Option<String> {
    let differing = steps.iter().zip(answers).enumerate().find(|(_, (step, found))| step.answer != **found);
    let (number, (step, found)) = differing?;
    if let Some(why) = differences::known(step, found) {
        met.insert(why);
        return None;
    }
    let mut lines = Vec::new();
    compare("", &step.answer, found, &mut lines);
    let body = step.raw.clone().unwrap_or_else(|| step.body.to_string());
    let head = format!("{name} step {number} {} {} {} {body}", step.sort, step.method, step.path);
    Some(format!("{head}\n{}", lines.join("\n")))
}

#[tokio::test(start_paused = true)]
async fn recorded_sequences_get_the_same_answers() -> Result<()> {
    let (mut wrong, mut met) = (Vec::new(), BTreeSet::new());
    for file in files()? {
        let steps = steps_of(&file)?;
        let answers = run(&memkube(), false, &steps).await?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        wrong.extend(first_difference(&name, &steps, &answers, &mut met));
    }
    if wrong.is_empty() { Ok(()) } else { bail!("memkube differs:\n{}", wrong.join("\n")) }
}

#[tokio::test(start_paused = true)]
async fn generated_sequences_get_the_real_servers_answers_but_for_known_differences() -> Result<()> {
    let (mut wrong, mut met) = (Vec::new(), BTreeSet::new());
    for Generated { seed, steps } in generated()? {
        let bed = memkube();
        prepare(&bed).await?;
        let answers = run(&bed, true, &steps).await?;
        wrong.extend(first_difference(&format!("seed {seed}"), &steps, &answers, &mut met));
    }
    let gone = differences::all().filter(|why| !met.contains(why));
    wrong.extend(gone.map(|why| format!("no sequence differs so any more; take it out of KNOWN: {why}")));
    let count = wrong.len();
    if wrong.is_empty() {
        Ok(())
    } else {
        bail!("memkube differs, or not as is known, {count} times:\n{}", wrong.join("\n"))
    }
}

/// The answers of a real server. Times in managedFields are whole seconds, and which manager is the oldest depends on
/// them: a sequence that is answered otherwise and ran into the next second is run again.
#[expect(clippy::disallowed_methods, reason = "it is the real server's clock that counts")]
async fn within_a_second(bed: &Bed, steps: &[Step]) -> Result<Vec<Value>> {
    let second = || jiff::Timestamp::now().as_second();
    let mut tries = 5;
    loop {
        let began = second();
        let answers = run(bed, false, steps).await?;
        tries -= 1;
        let is_equal =
            steps.iter().zip(&answers).all(|(step, answer)| !differences::is_other(bed, step, answer));
        if is_equal || second() == began || tries == 0 {
            return Ok(answers);
        }
    }
}

/// Holds the recordings to the real server, or makes them again.
#[tokio::test]
#[ignore = "the real server that one names"]
async fn the_real_server_still_answers_as_recorded() -> Result<()> {
    let bed = real().await?.context(UNNAMED)?;
    let record = std::env::var_os("MEMKUBE_RECORD").is_some();
    let mut wrong = Vec::new();
    for file in files()? {
        let mut steps = steps_of(&file)?;
        let answers = within_a_second(&bed, &steps).await.with_context(|| format!("{}", file.display()))?;
        for (number, (step, answer)) in steps.iter_mut().zip(answers).enumerate() {
            if !record && differences::is_other(&bed, step, &answer) {
                wrong.push(format!(
                    "{} step {number}: recorded {}, now {answer}",
                    file.display(),
                    step.answer
                ));
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
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
}

/// The same for the generated ones: `MEMKUBE_RECORD=COUNT` records those of the seeds up to COUNT that are not
/// in the file.
#[tokio::test]
#[ignore = "the real server that one names"]
async fn the_real_server_still_answers_generated_sequences() -> Result<()> {
    let bed = real().await?.context(UNNAMED)?;
    prepare(&bed).await?;
    let count: u64 = std::env::var("MEMKUBE_RECORD").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let kept = if generated_file().exists() { generated()? } else { Vec::new() };
    let is_kept = |seed: &u64| kept.iter().any(|generated| generated.seed == *seed);
    let missing = (1..=count).filter(|seed| !is_kept(seed));
    let missing: Vec<_> = missing.map(|seed| Generated { seed, steps: generate::sequence(seed) }).collect();
    let (mut lines, recorded) = match count {
        0 => (Vec::new(), kept),
        _ => (kept.iter().map(serde_json::to_string).collect::<Result<_, _>>()?, missing),
    };
    let bed = &bed;
    let answered: Vec<_> = futures::stream::iter(recorded)
        .map(|Generated { seed, steps }| async move {
            let answers = run(bed, true, &steps).await.with_context(|| format!("seed {seed}"))?;
            anyhow::Ok((seed, steps, answers))
        })
        .buffered(8)
        .try_collect()
        .await?;
    for (seed, mut steps, answers) in answered {
        for (number, (step, answer)) in steps.iter_mut().zip(answers).enumerate() {
            if count == 0 && differences::is_other(bed, step, &answer) {
                bail!("seed {seed} step {number}: recorded {}, now {answer}", step.answer);
            }
            step.answer = answer;
        }
        lines.push(serde_json::to_string(&Generated { seed, steps })?);
    }
    if count > 0 {
        std::fs::write(generated_file(), zstd::encode_all(lines.join("\n").as_bytes(), 19)?)?;
    }
    Ok(())
}

#[test]
fn each_verb_is_recorded_often_enough() -> Result<()> {
    let mut sequences: Vec<_> = files()?.iter().map(|file| steps_of(file)).collect::<Result<_>>()?;
    sequences.extend(generated()?.into_iter().map(|generated| generated.steps));
    counts::enough(&sequences)
}

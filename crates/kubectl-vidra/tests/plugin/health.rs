//! `health` as a process: no cluster is asked, files and standard input are read, and what cannot be read is one line.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::bed::Ran;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clusters/examples");
/// A Certificate that is issued, and one that could not be.
const CERTIFICATES: &str = "apiVersion: v1
kind: List
items:
- apiVersion: cert-manager.io/v1
  kind: Certificate
  metadata: {name: shop, namespace: team-a}
  status: {conditions: [{type: Ready, status: \"True\"}]}
- apiVersion: cert-manager.io/v1
  kind: Certificate
  metadata: {name: till, namespace: team-a}
  status: {conditions: [{type: Issuing, status: \"False\", reason: Failed}, {type: Ready, status: \"False\"}]}
";

/// Runs it with this standard input, where no kubeconfig is.
fn run(arguments: &str, input: &str) -> Result<Ran> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kubectl-vidra"))
        .arg("health")
        .args(arguments.split_whitespace())
        .env("KUBECONFIG", "/nowhere/config")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // One that refuses its flags reads nothing.
    let _ = child.stdin.take().context("a pipe")?.write_all(input.as_bytes());
    Ran::of(child.wait_with_output()?)
}

#[test]
fn the_exit_code_says_whether_all_are_as_required() -> Result<()> {
    let issued = CERTIFICATES.split("- apiVersion").take(2).collect::<Vec<_>>().join("- apiVersion");
    let pending = issued.replace("True", "False");
    for (arguments, input, code) in [
        ("-f -", issued.as_str(), 0),
        ("-f - --require Current", &issued, 0),
        ("-f -", &pending, 0),
        ("-f - --require Current", &pending, 1),
        ("-f - --require current,inprogress", &pending, 0),
        ("-f -", CERTIFICATES, 1),
        ("-f - --require Current,Failed", CERTIFICATES, 0),
    ] {
        let ran = run(arguments, input)?.ended(code).with_context(|| arguments.to_owned())?;
        ran.says(&["HEALTH", "cert-manager.io/Certificate (shipped)", "Rules: "])?;
        ensure!(ran.err.is_empty(), "{ran:?}");
    }
    Ok(())
}

#[test]
fn programs_read_each_object_and_the_digest() -> Result<()> {
    let ran = run("-f - -o json", CERTIFICATES)?.ended(1)?;
    let value: serde_json::Value = serde_json::from_str(&ran.out)?;
    let objects = value["objects"].as_array().context("a list")?;
    let told: Vec<_> = objects.iter().map(|one| (one["name"].as_str(), one["health"].as_str())).collect();
    ensure!(told == [(Some("shop"), Some("Current")), (Some("till"), Some("Failed"))], "{ran:?}");
    ensure!(objects[1]["reason"] == "HealthCheckFailed" && objects[1]["namespace"] == "team-a", "{ran:?}");
    ensure!(value["rules"].as_str().is_some_and(|digest| digest.len() == 12), "{ran:?}");
    run("-f - -o yaml", CERTIFICATES)?.ended(1)?.says(&["health: Failed"])
}

#[test]
fn the_example_says_what_its_comments_say() -> Result<()> {
    let objects = format!("{EXAMPLES}/health/objects.yaml");
    let rules = format!("{EXAMPLES}/health/rules.yaml");
    // As it is shipped an issuer that cannot register is on its way; the fleet says that it has failed.
    let shipped = run(&format!("-f {objects}"), "")?.ended(0)?;
    shipped.says(&["cert-manager.io/ClusterIssuer (shipped)", "InProgress"])?;
    let ran = run(&format!("-f {objects} --rules {rules}"), "")?.ended(1)?;
    ran.says(&["cert-manager.io/ClusterIssuer (fleet)", "Failed", "cert-manager.io/Certificate (shipped)"])?;
    ensure!(ran.err.is_empty(), "{ran:?}");
    // Those of a VidraResource, which also declares a Namespace.
    let resource = format!("{EXAMPLES}/health/certificates.yaml");
    let ran = run(&format!("-f {objects} --rules {resource}"), "")?.ended(1)?;
    ran.says(&["cert-manager.io/ClusterIssuer (VidraResource)"])
}

#[test]
fn what_cannot_be_read_is_one_line() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("rules.yaml");
    let rules = format!("-f - --rules {}", file.display());
    for (text, words) in [
        (
            "- {apiVersion: v1, kind: Pod, current: status.phase = 'a'}",
            vec!["rules.yaml", "core/Pod, current, column 14"],
        ),
        (
            "- {apiVersion: v1, kind: Pod, curent: 'true'}",
            vec!["rules[0]", "unknown field `curent`", "write apiVersion"],
        ),
        ("[]", vec!["rules.yaml holds no health rule"]),
    ] {
        std::fs::write(&file, text)?;
        run(&rules, CERTIFICATES)?.refused(&words)?;
    }
    for (arguments, input, words) in [
        ("-f /nowhere.yaml", "", vec!["cannot read /nowhere.yaml"]),
        ("-f - --rules /nowhere.yaml", CERTIFICATES, vec!["cannot read /nowhere.yaml"]),
        ("-f -", "", vec!["standard input holds no object", "kubectl get -o yaml"]),
        ("-f -", "apiVersion: v1\nkind: List\nitems: []\n", vec!["standard input holds no object"]),
        ("-f -", "kind: [\n", vec!["standard input, document 1 (line "]),
        ("-f -", "a: 1\n---\nkind: Pod\n", vec!["document 1 (line 1): object has no apiVersion"]),
    ] {
        run(arguments, input)?.refused(&words)?;
    }
    // Flags that clap refuses.
    for (arguments, words) in [
        ("", "--filename"),
        ("-f - --require Ready", "\"Ready\" is no health; write one of Current, Suspended"),
        ("-f - --age soon", "\"soon\" is no duration"),
    ] {
        let ran = run(arguments, "")?.ended(2)?;
        ensure!(ran.err.contains(words), "{ran:?}");
    }
    Ok(())
}

#[test]
fn rules_that_the_hub_would_not_read_as_meant_are_a_warning() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("rules.yaml");
    let rule = "- {apiVersion: example.com, kind: Shop, current: status.open}";
    std::fs::write(
        &file,
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  a: |\n    {rule}\n"),
    )?;
    let ran = run(&format!("-f - --rules {}", file.display()), CERTIFICATES)?.ended(1)?;
    let one_line = ran.err.starts_with("warning: ") && ran.err.trim_end().lines().count() == 1;
    ensure!(one_line && ran.err.contains("vidra.dev/health-rules: \"true\""), "{ran:?}");
    Ok(())
}

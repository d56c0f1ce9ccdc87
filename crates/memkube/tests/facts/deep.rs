//! Facts of documents with many levels: what is read, stored, listed and watched, and what is refused.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{At, everywhere};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Maps in maps: so many levels.
fn nested(levels: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

/// A custom resource whose body has so many levels in all.
fn body(group: &str, name: &str, levels: usize) -> String {
    let spec = nested(levels - 1);
    format!(r#"{{"apiVersion":"{group}/v1","kind":"Deep","metadata":{{"name":"{name}"}},"spec":{spec}}}"#)
}

/// Makes a kind that keeps whatever stands in its spec; gives its group, which is the namespace's own.
async fn kind(at: &At) -> Result<String> {
    let group = format!("{}.deep.dev", at.namespace);
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": open}});
    let crd = json!({
        "metadata": {"name": format!("deeps.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "Deep", "plural": "deeps"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    let (code, made) = at.bed.call("POST", CRDS, "application/json", crd.to_string()).await?;
    ensure!(code == 201, "{made}");
    at.bed.wait(at.path(&format!("apis/{group}/v1/deeps"), "").trim_end_matches('/')).await?;
    Ok(group)
}

async fn end(at: &At, group: &str) -> Result<()> {
    let path = format!("{CRDS}/deeps.{group}");
    at.bed.call("DELETE", &path, "application/json", String::new()).await?;
    Ok(())
}

/// As text: what is too deep for this client is one text.
fn holds(answer: &Value, part: &str) -> bool {
    match answer {
        Value::String(text) => text.contains(part),
        other => other.to_string().contains(part),
    }
}

const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

#[test]
fn deep_objects_are_stored_listed_and_watched() -> Result<()> {
    everywhere(|at| async move {
        let group = kind(&at).await?;
        let all = at.path(&format!("apis/{group}/v1/deeps"), "");
        let all = all.trim_end_matches('/').to_owned();
        for levels in [100, 127, 128, 300, 2000] {
            let (one, deep) = (format!("{all}/made-{levels}"), nested(levels - 1));
            let made = body(&group, &format!("made-{levels}"), levels);
            let (code, answer) = at.bed.call("POST", &all, JSON, made.clone()).await?;
            ensure!(code == 201 && holds(&answer, &deep), "create {levels}: {code} {answer:.300}");
            for path in [&one, &all, &format!("{all}?watch=1&timeoutSeconds=1&resourceVersion=0")] {
                let (code, answer) = at.bed.call("GET", path, "", String::new()).await?;
                ensure!(code == 200 && holds(&answer, &deep), "{path} {levels}: {code}");
            }
            let patch = format!(r#"{{"spec":{{"b":{}}}}}"#, nested(levels - 2));
            let (code, answer) = at.bed.call("PATCH", &one, MERGE, patch).await?;
            ensure!(
                code == 200 && holds(&answer, "\"b\":{\"a\":"),
                "merge patch {levels}: {code} {answer:.300}"
            );
            let applied = body(&group, &format!("applied-{levels}"), levels);
            let path = format!("{all}/applied-{levels}?fieldManager=m");
            for (wanted, text) in [(201, &applied), (200, &applied)] {
                let (code, answer) = at.bed.call("PATCH", &path, APPLY, text.clone()).await?;
                ensure!(code == wanted && holds(&answer, &deep), "apply {levels}: {code} {answer:.300}");
            }
            // The same in YAML that is no JSON.
            let yaml = format!("# YAML\n{applied}");
            let (code, answer) = at.bed.call("PATCH", &path, APPLY, yaml).await?;
            ensure!(code == 200 && holds(&answer, &deep), "apply YAML {levels}: {code} {answer:.300}");
            let (code, _) = at.bed.call("DELETE", &one, JSON, String::new()).await?;
            ensure!(code == 200, "delete {levels}: {code}");
        }
        end(&at, &group).await
    })
}

const PATCH: &str = "application/json-patch+json";

/// The limit of Go's readers of JSON and YAML.
#[test]
fn more_than_ten_thousand_levels_are_refused() -> Result<()> {
    everywhere(|at| async move {
        let group = kind(&at).await?;
        let all = at.path(&format!("apis/{group}/v1/deeps"), "");
        let all = all.trim_end_matches('/').to_owned();
        let (code, answer) = at.bed.call("POST", &all, JSON, body(&group, "base", 3)).await?;
        ensure!(code == 201, "{answer}");
        let (dry, manager) = (format!("{all}?dryRun=All"), "dryRun=All&fieldManager=m");
        // managedFields are four levels deeper than what they are of: such an object could not be read again.
        for (levels, wanted) in [(9995, 201), (9996, 500)] {
            let (code, answer) = at.bed.call("POST", &dry, JSON, body(&group, "new", levels)).await?;
            ensure!(code == wanted, "{levels}: {code} {answer:.300}");
        }
        let levels = 10_001;
        let new = body(&group, "new", levels);
        let merge = format!(r#"{{"spec":{{"b":{}}}}}"#, nested(levels - 2));
        let patch = format!(r#"[{{"op":"add","path":"/spec/b","value":{}}}]"#, nested(levels - 2));
        let (new_one, base) = (format!("{all}/new?{manager}"), format!("{all}/base?{manager}"));
        for (method, path, kind, text) in [
            ("POST", &dry, JSON, new.clone()),
            ("POST", &dry, "application/yaml", format!("# YAML\n{new}")),
            ("PATCH", &new_one, APPLY, new.clone()),
            ("PATCH", &new_one, APPLY, format!("# YAML\n{new}")),
            ("PATCH", &base, MERGE, merge),
            ("PATCH", &base, PATCH, patch),
        ] {
            let (code, answer) = at.bed.call(method, path, kind, text).await?;
            ensure!(code == 400, "{method} {kind}: {code} {answer:.300}");
            ensure!(
                answer["message"].to_string().contains("exceeded max depth"),
                "{method} {kind}: {answer}"
            );
        }
        end(&at, &group).await
    })
}

//! Wrong requests get the real server's code, reason and causes: each line of `wrong.json`, on every bed.

use anyhow::{Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::everywhere;

#[derive(Deserialize)]
struct Wrong {
    method: String,
    /// `{ns}` is the namespace; a ConfigMap `live` is in it.
    path: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    /// `BIG` is one beyond the limit.
    #[serde(default)]
    body: String,
    code: u16,
    /// Of a Status.
    #[serde(default)]
    reason: Option<String>,
    /// Reason and field of each.
    #[serde(default)]
    causes: Vec<(String, String)>,
    /// The release of Kubernetes that first answers so, 35 for 1.35.
    #[serde(default)]
    since: u32,
}

#[test]
fn wrong_requests_are_refused_as_by_the_real_server() -> Result<()> {
    let all: Vec<Wrong> = serde_json::from_str(include_str!("wrong.json"))?;
    everywhere(|at| async {
        let at = at;
        at.create("configmaps", &json!({"metadata": {"name": "live"}, "data": {"a": "b"}})).await?;
        let big = json!({"metadata": {"name": "big"}, "data": {"a": "x".repeat(3 << 20)}}).to_string();
        let mut differing = Vec::new();
        for wrong in all.iter().filter(|wrong| at.bed.is_since(wrong.since)) {
            let path = wrong.path.replace("{ns}", &at.namespace);
            let body =
                if wrong.body == "BIG" { big.clone() } else { wrong.body.replace("{ns}", &at.namespace) };
            let (code, _, answer) = at.bed.send_with(&wrong.method, &path, &wrong.headers, body).await?;
            let status = if answer["kind"] == "Status" { answer } else { Value::Null };
            let causes = status["details"]["causes"].as_array().into_iter().flatten();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let mut causes: Vec<_> =
                causes.map(|cause| (text(&cause["reason"]), text(&cause["field"]))).collect();
            causes.sort();
            let reason = status["reason"].as_str().map(str::to_owned);
            if (code, &reason, &causes) != (wrong.code, &wrong.reason, &wrong.causes) {
                differing.push(format!(
                    "{} {path} {:?} {}: {code} {reason:?} {causes:?} {}",
                    wrong.method, wrong.headers, wrong.body, status["message"]
                ));
            }
        }
        ensure!(differing.is_empty(), "{}", differing.join("\n"));
        Ok(())
    })
}

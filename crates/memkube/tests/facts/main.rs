//! What is relied upon of the API server, each statement a test on every bed: memkube, and the real server of
//! `MEMKUBE_REAL_KUBECONFIG` where that is set. Where the real server's controllers are needed, that bed does
//! it only when `MEMKUBE_REAL_CONTROLLERS` is set too (garbage collector and namespace controller).

mod apply;
#[path = "../bed/mod.rs"]
mod bed;
mod deep;
mod kubectl;
mod lifecycle;
mod order;
mod rights;
mod schema;
mod serving;
mod time;
mod wrong;

use std::future::Future;

use anyhow::{Result, ensure};
use bed::{Bed, memkube, real};
use serde_json::{Value, json};

/// Runs a statement on memkube, on a paused clock, and on the real server.
fn everywhere<F: Future<Output = Result<()>>>(statement: impl Fn(At) -> F) -> Result<()> {
    everywhere_from(memkube, statement)
}

/// The same, with another bed in memory.
fn everywhere_from<F: Future<Output = Result<()>>>(
    memory: impl Fn() -> Bed,
    statement: impl Fn(At) -> F,
) -> Result<()> {
    let runtime =
        |paused| tokio::runtime::Builder::new_current_thread().enable_all().start_paused(paused).build();
    runtime(true)?.block_on(async {
        let bed = memory();
        statement(At { namespace: bed.namespace().await?, bed }).await
    })?;
    runtime(false)?.block_on(async {
        let Some(bed) = real().await? else { return Ok(()) };
        statement(At { namespace: bed.namespace().await?, bed }).await
    })
}

/// A namespace on a bed.
struct At {
    bed: Bed,
    namespace: String,
}

type Answer = (u16, Value);

impl At {
    fn path(&self, resource: &str, name: &str) -> String {
        let (group, plural) = resource.rsplit_once('/').unwrap_or(("api/v1", resource));
        format!("/{group}/namespaces/{}/{plural}/{name}", self.namespace)
    }

    /// Applies; `how` is a manager, with `&force=true` and the like.
    async fn apply(&self, resource: &str, how: &str, body: &Value) -> Result<Answer> {
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{}?fieldManager={how}", self.path(resource, name));
        self.bed.call("PATCH", &path, "application/apply-patch+yaml", body.to_string()).await
    }

    async fn patch(&self, resource: &str, name: &str, how: &str, body: &Value) -> Result<Answer> {
        let kind =
            if body.is_array() { "application/json-patch+json" } else { "application/merge-patch+json" };
        let path = format!("{}?fieldManager={how}", self.path(resource, name));
        self.bed.call("PATCH", &path, kind, body.to_string()).await
    }

    async fn get(&self, resource: &str, name: &str) -> Result<Answer> {
        self.bed.call("GET", &self.path(resource, name), "", String::new()).await
    }

    async fn create(&self, resource: &str, body: &Value) -> Result<Value> {
        let path = self.path(resource, "");
        let path = path.trim_end_matches('/');
        let (code, made) = self.bed.call("POST", path, "application/json", body.to_string()).await?;
        ensure!(code == 201, "create {resource}: {code} {made}");
        Ok(made)
    }

    async fn delete_with(&self, resource: &str, name: &str, options: &Value) -> Result<Answer> {
        let path = self.path(resource, name);
        self.bed.call("DELETE", &path, "application/json", options.to_string()).await
    }

    /// Asks again until the answer is as wanted.
    async fn until(&self, path: &str, wanted: impl Fn(&Answer) -> bool) -> Result<Value> {
        // A broken APIService of another test holds namespaces up.
        for _ in 0..3600 {
            let answer = self.bed.call("GET", path, "", String::new()).await?;
            if wanted(&answer) {
                return Ok(answer.1);
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let last = self.bed.call("GET", path, "", String::new()).await?;
        anyhow::bail!("wait for {path}: it did not become as wanted: {last:?}")
    }

    async fn delete(&self, resource: &str, name: &str) -> Result<Answer> {
        self.bed.call("DELETE", &self.path(resource, name), "application/json", String::new()).await
    }
}

/// fieldsV1 of a manager's Apply entry; null where there is none.
fn owned(object: &Value, manager: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut own = entries.filter(|entry| entry["manager"] == manager && entry["operation"] == "Apply");
    own.next().map(|entry| entry["fieldsV1"].clone()).unwrap_or_default()
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
}

fn config(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

const DEPLOYMENTS: &str = "apis/apps/v1/deployments";

fn deployment(container: Value) -> Value {
    let mut container = container;
    container["name"] = json!("c");
    container["image"] = json!("x:1");
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec})
}

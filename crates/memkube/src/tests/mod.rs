//! The in-memory API server through kube's own client, on tokio's paused clock.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::core::Status;
use serde_json::{Value, json};

use super::{Cluster, Options, tokio_clock};

mod admission;
mod apply;
mod faults;
mod faults_watching;
mod kubectl;
mod late;
mod noise;
mod objects;
mod owning;
mod replay;
mod rights;
mod serving;
mod watching;
mod workloads;

fn cluster() -> Cluster {
    let start = "2026-01-01T00:00:00Z".parse().expect("a time");
    Cluster::new("one", Options { clock: tokio_clock(start), uids: 7 })
}

fn config_maps(cluster: &Cluster) -> Api<ConfigMap> {
    Api::namespaced(cluster.client_as("tester"), "default")
}

fn config_map(name: &str, data: Value) -> ConfigMap {
    from(json!({"metadata": {"name": name}, "data": data}))
}

fn labelled(name: &str, labels: Value) -> ConfigMap {
    from(json!({"metadata": {"name": name, "labels": labels}}))
}

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a well-formed object")
}

async fn create(cluster: &Cluster, object: &ConfigMap) -> ConfigMap {
    config_maps(cluster).create(&PostParams::default(), object).await.expect("created")
}

/// The Status of a refusal.
fn refusal<T: std::fmt::Debug>(result: kube::Result<T>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// As `curl` would: method, path, content type, body; gives the code and the answer as JSON.
async fn raw(cluster: &Cluster, method: &str, path: &str, content_type: &str, body: Value) -> (u16, Value) {
    raw_as(cluster, "anonymous", method, path, content_type, body).await
}

/// The same as a named user.
async fn raw_as(
    cluster: &Cluster,
    user: &str,
    method: &str,
    path: &str,
    content_type: &str,
    body: Value,
) -> (u16, Value) {
    use http_body_util::BodyExt;
    use tower::ServiceExt;
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(kube::client::Body::from(body.to_string().into_bytes()))
        .expect("a request");
    let response = cluster.service_as(user).oneshot(request).await.expect("an answer");
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))))
}

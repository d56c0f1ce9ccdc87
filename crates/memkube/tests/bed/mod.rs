//! The beds on which the same requests run: memkube in this process, and a real API server.
#![allow(dead_code, reason = "each test uses a part")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use futures::{StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use kube::Client;
use kube::api::WatchEvent;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use memkube::{Cluster, Lag, Options, tokio_clock};
use serde_json::{Value, json};

/// A server that requests can be sent to.
pub struct Bed {
    pub client: Client,
    /// Its garbage collector and its namespace controller run.
    pub controllers: bool,
    /// Where it is in memory.
    cluster: Option<Cluster>,
    /// The second number of Kubernetes' release; memkube is of the newest.
    minor: u32,
    /// Distinguishes the namespaces of runs on one server.
    run: String,
}

/// The same with users' rights looked at; the bed's own user may do everything.
pub fn memkube_with_rights() -> Bed {
    let cluster = Cluster::new("one", Options { clock: tokio_clock(jiff::Timestamp::UNIX_EPOCH), uids: 7 });
    cluster.authorize_with_rbac(["admin"]);
    Bed {
        client: cluster.client_as("admin"),
        controllers: true,
        run: "m".to_owned(),
        cluster: Some(cluster),
        minor: u32::MAX,
    }
}

static NEXT: AtomicU64 = AtomicU64::new(0);

/// An empty cluster in memory.
pub fn memkube() -> Bed {
    let cluster = Cluster::new("one", Options { clock: tokio_clock(jiff::Timestamp::UNIX_EPOCH), uids: 7 });
    Bed {
        client: cluster.client(),
        controllers: true,
        run: "m".to_owned(),
        cluster: Some(cluster),
        minor: u32::MAX,
    }
}

/// The same with controllers that are behind.
pub fn memkube_with_lag(lag: Lag) -> Bed {
    let bed = memkube();
    bed.cluster.iter().for_each(|cluster| cluster.set_lag(lag));
    bed
}

/// The server of `MEMKUBE_REAL_KUBECONFIG`; none where that is not set.
pub async fn real() -> Result<Option<Bed>> {
    let Some(path) = std::env::var_os("MEMKUBE_REAL_KUBECONFIG") else { return Ok(None) };
    let kubeconfig = Kubeconfig::read_from(path)?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    let client = Client::try_from(config)?;
    // A version that the server has not had yet tells runs apart.
    let list =
        client.request_text(http::Request::get("/api/v1/namespaces?limit=1").body(Vec::new())?).await?;
    let list: Value = serde_json::from_str(&list)?;
    let run = list["metadata"]["resourceVersion"].as_str().context("a list's resourceVersion")?.to_owned();
    let controllers = std::env::var_os("MEMKUBE_REAL_CONTROLLERS").is_some();
    let version = client.request_text(http::Request::get("/version").body(Vec::new())?).await?;
    let version: Value = serde_json::from_str(&version)?;
    // Some distributions write "35+".
    let minor = version["minor"].as_str().context("the server's version")?.trim_end_matches('+').parse()?;
    Ok(Some(Bed { client, controllers, run, cluster: None, minor }))
}

impl Bed {
    /// Is it of this release of Kubernetes or a newer one: of 1.36 for 36?
    pub fn is_since(&self, minor: u32) -> bool {
        self.minor >= minor
    }

    /// Sends a request; gives the code and the answer.
    pub async fn call(&self, method: &str, path: &str, kind: &str, body: String) -> Result<(u16, Value)> {
        let (code, _, answer) = self.send(method, path, kind, body).await?;
        Ok((code, answer))
    }

    /// Sends a request; gives the code, how many warnings came with it, and the answer.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: String,
    ) -> Result<(u16, usize, Value)> {
        self.send_with(method, path, &[("content-type".to_owned(), kind.to_owned())], body).await
    }

    /// The same with these headers.
    pub async fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: String,
    ) -> Result<(u16, usize, Value)> {
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let response = self.client.send(request.body(Body::from(body.into_bytes()))?).await?;
        let code = response.status().as_u16();
        let warnings = response.headers().get_all("warning").iter().count();
        let bytes = response.into_body().collect().await?.to_bytes();
        let answer = serde_json::from_slice(&bytes);
        Ok((code, warnings, answer.unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)))))
    }

    /// Is what is there under a path gone within a few seconds?
    pub async fn gone(&self, path: &str) -> Result<bool> {
        for _ in 0..60 {
            if self.call("GET", path, "", String::new()).await?.0 == 404 {
                return Ok(true);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(false)
    }

    /// The path of a list's page of which the server has forgotten the rest. A real one must have been up for
    /// ten minutes: it compacts its history every five.
    pub fn expired(&self, path: &str) -> String {
        let token = match &self.cluster {
            Some(cluster) => {
                cluster.compact();
                "1//a".to_owned()
            }
            None => {
                let token = json!({"v": "meta.k8s.io/v1", "rv": 1, "start": "a\u{0}"}).to_string();
                base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token)
            }
        };
        format!("{path}?limit=1&continue={token}")
    }

    /// The same as another user, whom the bed's own may impersonate.
    pub async fn call_as(
        &self,
        user: &str,
        method: &str,
        path: &str,
        kind: &str,
        body: &Value,
    ) -> Result<(u16, Value)> {
        let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
        let request = request.header("impersonate-user", user);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let response = self.client.send(request.body(Body::from(body))?).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await?.to_bytes();
        let answer = serde_json::from_slice(&bytes);
        Ok((code, answer.unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)))))
    }

    /// GET with an `Accept` header.
    pub async fn accept(&self, path: &str, accept: &str) -> Result<Value> {
        let request = http::Request::get(path).header("accept", accept).body(Vec::new())?;
        Ok(serde_json::from_str(&self.client.request_text(request).await?)?)
    }

    /// What a watch sends until it ends or has sent so many events: type and object of each.
    pub async fn watch(&self, path: &str, most: usize) -> Result<Vec<(&'static str, Value)>> {
        let request = http::Request::get(path).body(Vec::new())?;
        let events = self.client.request_events::<Value>(request).await?;
        let events: Vec<_> = events.take(most).try_collect().await?;
        Ok(events
            .into_iter()
            .map(|event| match event {
                WatchEvent::Added(object) => ("ADDED", object),
                WatchEvent::Modified(object) => ("MODIFIED", object),
                WatchEvent::Deleted(object) => ("DELETED", object),
                WatchEvent::Bookmark(_) => ("BOOKMARK", Value::Null),
                WatchEvent::Error(_) => ("ERROR", Value::Null),
            })
            .collect())
    }

    /// Makes a namespace that nobody else uses; gives its name.
    pub async fn namespace(&self) -> Result<String> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("bed-{}-{number}-x", self.run);
        let body = json!({"metadata": {"name": name}});
        match self.call("POST", "/api/v1/namespaces", "application/json", body.to_string()).await? {
            (201, _) => Ok(name),
            (code, answer) => bail!("make namespace {name}: {code} {answer}"),
        }
    }

    /// Waits until a GET finds something.
    pub async fn wait(&self, path: &str) -> Result<()> {
        for _ in 0..200 {
            if self.call("GET", path, "", String::new()).await?.0 == 200 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("wait for {path}: it did not come")
    }
}

//! ConfigMaps of a bench in a member: what they are to say, who watches them, and how long until what was done to
//! them is undone.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::fleet::NAMESPACE;

/// What an object says when all is well.
pub const DECLARED: &str = "as declared";
const SOON: Duration = Duration::from_secs(60);

/// One of the objects of `owner`: the hub, or a bare loop.
pub fn object(owner: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"bench": owner}},
        "data": {"value": DECLARED, "filling": "x".repeat(256)},
    })
}

/// What an object says.
pub fn value(object: &ConfigMap) -> Option<&str> {
    object.data.as_ref()?.get("value").map(String::as_str)
}

/// Events of ConfigMaps.
pub type Events = BoxStream<'static, kube::Result<WatchEvent<ConfigMap>>>;

/// The ConfigMaps of the bench, or of one owner, from now on.
pub async fn watch(client: &Client, of: Option<&str>) -> Result<Events> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let mut params = WatchParams::default().timeout(290);
    if let Some(owner) = of {
        params = params.labels(&format!("bench={owner}"));
    }
    let version = api.list(&Default::default()).await?.metadata.resource_version.unwrap_or_default();
    Ok(reopened(api, params, version))
}

/// A watch that is opened again where it ended, as servers end them after some minutes.
fn reopened(api: Api<ConfigMap>, params: WatchParams, version: String) -> Events {
    let again = move |version: String| {
        let (api, params) = (api.clone(), params.clone());
        async move {
            let events = api.watch(&params, &version).await?.boxed();
            Ok::<_, kube::Error>(events)
        }
    };
    futures::stream::try_unfold((None::<Events>, version), move |(mut open, mut version)| {
        let again = again.clone();
        async move {
            loop {
                let mut events = match open.take() {
                    Some(events) => events,
                    None => again(version.clone()).await?,
                };
                if let Some(event) = events.try_next().await? {
                    if let WatchEvent::Added(object)
                    | WatchEvent::Modified(object)
                    | WatchEvent::Deleted(object) = &event
                    {
                        version = object.metadata.resource_version.clone().unwrap_or(version);
                    }
                    return Ok(Some((event, (Some(events), version))));
                }
            }
        }
    })
    .boxed()
}

/// Milliseconds from `began` until each of these objects, to all of which harm comes, is as declared again.
pub async fn undone(events: &mut Events, began: Instant, names: &[String]) -> Result<Vec<f64>> {
    let mut waiting: BTreeMap<&str, bool> = names.iter().map(|name| (name.as_str(), false)).collect();
    let mut times = Vec::new();
    let all = async {
        while let Some(event) = events.try_next().await? {
            let (object, is_declared) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    let is_declared = value(&object) == Some(DECLARED);
                    (object, is_declared)
                }
                WatchEvent::Deleted(object) => (object, false),
                _ => continue,
            };
            let name = object.metadata.name.as_deref().unwrap_or_default();
            let Some(was_harmed) = waiting.get_mut(name) else { continue };
            *was_harmed |= !is_declared;
            if *was_harmed && is_declared {
                waiting.remove(name);
                times.push(began.elapsed().as_secs_f64() * 1000.0);
            }
            if waiting.is_empty() {
                return Ok(());
            }
        }
        bail!("the observer's watch ended")
    };
    match timeout(SOON, all).await {
        Ok(ended) => ended?,
        Err(_) => bail!("after {SOON:?} these were not as declared again: {:?}", waiting.keys()),
    }
    Ok(times)
}

/// Milliseconds from `began` until this object says so.
pub async fn says(events: &mut Events, began: Instant, name: &str, wanted: &str) -> Result<f64> {
    let seen = async {
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
                && object.metadata.name.as_deref() == Some(name)
                && value(&object) == Some(wanted)
            {
                return Ok(began.elapsed().as_secs_f64() * 1000.0);
            }
        }
        bail!("the observer's watch ended")
    };
    timeout(SOON, seen).await.with_context(|| format!("{name} does not say {wanted:?}"))?
}

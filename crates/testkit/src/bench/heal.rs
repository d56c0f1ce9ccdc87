//! `heal`: how soon an edit in a member is undone, beside a bare loop that watches and applies.
//!
//! Edits come one at a time, in turn to an object of the hub, of one loop and of a second loop: the two loops
//! beside each other give the spread of the machine. Timed is from the edit's request to the watch event that
//! shows the object as declared again, seen by one observer for all.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use super::{
    fleet::{Fleet, NAMESPACE, is_true, resource, resource_at},
    report::{Report, quantile},
};
use crate::world::{Access, At};

/// Edits of each.
const EDITS: usize = 500;
/// Objects of each, edited in turn: each less often than makes the hub take it for a fight.
const OBJECTS: usize = 125;
const DECLARED: &str = "as declared";
const SOON: Duration = Duration::from_secs(60);

/// Runs it.
pub async fn heal(binary: &Path) -> Result<Report> {
    let fleet = Fleet::start(binary, 1).await?;
    let member = fleet.bed.members.first().context("no member")?;
    let editor = Access::new(member.client("admin").await?, "bench-edit");
    let manifest: Vec<_> = (0..OBJECTS).map(|number| object("hub", number).to_string()).collect();
    let applied = fleet.hub.apply(&resource("heal", &manifest.join("\n---\n"), json!({})), true).await;
    applied.map_err(|refused| anyhow::anyhow!("the VidraResource: {refused}"))?;
    fleet.hub.when(&resource_at("heal"), "is ready", |resource: &Value| is_true(resource, "Ready")).await;
    let mut loops = JoinSet::new();
    for name in ["loop", "other"] {
        let client = member.client("admin").await?;
        for number in 0..OBJECTS {
            put(&client, name, number).await?;
        }
        let events = watch(&client, Some(name)).await?;
        loops.spawn(repair(client, name, events));
    }
    fleet.settled(SOON, || Ok(())).await?;

    let mut observer = watch(&member.client("admin").await?, None).await?;
    let (mut hub, mut floor, mut other) = (Vec::new(), Vec::new(), Vec::new());
    for edit in 0..EDITS {
        for (name, times) in [("loop", &mut floor), ("hub", &mut hub), ("other", &mut other)] {
            times.push(edited(&editor, &mut observer, &object_name(name, edit % OBJECTS), edit).await?);
        }
        if edit % 100 == 99 {
            tracing::info!("{} edits of {EDITS}", edit + 1);
        }
    }
    loops.shutdown().await;

    let mut report = Report::new("heal");
    for (key, share, bound) in [("ratio_p50", 0.5, 2.0), ("ratio_p99", 0.99, 2.0)] {
        let ratio = quantile(&hub, share) / quantile(&floor, share);
        report.figure(
            key,
            ratio,
            Some(bound),
            "from an edit to the repaired object, over a bare watch-and-apply loop",
        );
        let word = if share > 0.9 { "P99" } else { "P50" };
        report.condition(&format!("ms {word} of the hub"), quantile(&hub, share));
        report.condition(&format!("ms {word} of the loop"), quantile(&floor, share));
        let spread = quantile(&other, share) / quantile(&floor, share);
        report.condition(&format!("{word}, loop over loop: the spread"), spread);
    }
    report.condition("edits of each", EDITS);
    report.condition("bed", fleet.describe().await?);
    fleet.stop().await?;
    Ok(report)
}

type Events = BoxStream<'static, kube::Result<WatchEvent<ConfigMap>>>;

/// The ConfigMaps of the bench, or of one loop, from now on.
async fn watch(client: &Client, of: Option<&str>) -> Result<Events> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let mut params = WatchParams::default().timeout(290);
    if let Some(name) = of {
        params = params.labels(&format!("bench={name}"));
    }
    let version = api.list(&Default::default()).await?.metadata.resource_version.unwrap_or_default();
    let stream = async_stream(api, params, version);
    Ok(stream)
}

/// A watch that is opened again where it ended, as servers end them after some minutes.
fn async_stream(api: Api<ConfigMap>, params: WatchParams, version: String) -> Events {
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
                    if let WatchEvent::Added(object) | WatchEvent::Modified(object) = &event {
                        version = object.metadata.resource_version.clone().unwrap_or(version);
                    }
                    return Ok(Some((event, (Some(events), version))));
                }
            }
        }
    })
    .boxed()
}

/// Edits an object; milliseconds until the observer sees it as declared again.
async fn edited(editor: &Access, observer: &mut Events, name: &str, edit: usize) -> Result<f64> {
    let began = Instant::now();
    editor.merge(&At::config_map(NAMESPACE, name), json!({"data": {"value": format!("edit {edit}")}})).await;
    let healed = async {
        let mut was_edited = false;
        while let Some(event) = observer.try_next().await? {
            let (WatchEvent::Added(object) | WatchEvent::Modified(object)) = event else { continue };
            if object.metadata.name.as_deref() != Some(name) {
                continue;
            }
            let is_declared = value(&object) == Some(DECLARED);
            was_edited |= !is_declared;
            if was_edited && is_declared {
                return Ok(began.elapsed().as_secs_f64() * 1000.0);
            }
        }
        bail!("the observer's watch ended")
    };
    timeout(SOON, healed).await.with_context(|| format!("{name} was not healed"))?
}

/// The bare loop: what differs is applied.
async fn repair(client: Client, name: &'static str, mut events: Events) -> Result<()> {
    while let Some(event) = events.try_next().await? {
        if let WatchEvent::Modified(object) = event
            && value(&object) != Some(DECLARED)
            && let Some(number) =
                object.metadata.name.as_deref().and_then(|name| name.rsplit('-').next()?.parse().ok())
        {
            put(&client, name, number).await?;
        }
    }
    Ok(())
}

async fn put(client: &Client, name: &str, number: usize) -> Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let params = PatchParams::apply(name).force();
    api.patch(&object_name(name, number), &params, &Patch::Apply(object(name, number))).await?;
    Ok(())
}

fn value(object: &ConfigMap) -> Option<&str> {
    object.data.as_ref()?.get("value").map(String::as_str)
}

fn object_name(name: &str, number: usize) -> String {
    format!("{name}-{number:02}")
}

fn object(name: &str, number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": object_name(name, number), "namespace": NAMESPACE, "labels": {"bench": name}},
        "data": {"value": DECLARED, "filling": "x".repeat(256)},
    })
}

//! `scale`: a thousand clusters with a thousand objects each, in memory, in a process of their own; the hub in
//! another. Simulated: what is measured is the hub and the way to it, not Kubernetes.

use std::{path::Path, time::Duration};

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, future::BoxFuture, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::{
    fleet::NAMESPACE,
    memkube::{STEP, Simulated},
    process::{HubProcess, resident_bytes},
    report::{Report, quantile},
};
use crate::{testbed::cpu_seconds, world::Access};

/// Objects of one VidraResource.
const OBJECTS_EACH: usize = 250;
/// Bytes of an object's data.
const DATA: usize = 256;
/// How many times one object is changed on all clusters.
const CHANGES: usize = 5;
const IN_FLIGHT: usize = 16;

/// How much there is.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Member clusters.
    pub clusters: usize,
    /// Objects in each.
    pub objects: usize,
}

impl Default for Scale {
    fn default() -> Self {
        Self { clusters: 1000, objects: 1000 }
    }
}

/// Runs it with these binaries of the hub and of memkube.
pub async fn scale(hub: &Path, memkube: &Path, scale: Scale) -> Result<Report> {
    let fleet = Simulated::start(hub, memkube, scale.clusters).await?;
    let mut report = Report::new("scale");
    let bench = Bench { fleet: &fleet, scale };
    fleet.explain(bench.run(&mut report).await)?;
    report.condition("clusters", scale.clusters);
    report.condition("objects in each", scale.objects);
    report.condition("bytes of an object's data", DATA);
    report.condition("memkube_rss_bytes", resident_bytes(fleet.members.pid)?.0);
    report.condition("bed", "memkube over HTTPS on loopback, simulated clusters, in a process of their own");
    fleet.stop().await?;
    Ok(report)
}

struct Bench<'a> {
    fleet: &'a Simulated,
    scale: Scale,
}

impl Bench<'_> {
    async fn run(&self, report: &mut Report) -> Result<()> {
        let hub = self.fleet.hub().await?;
        self.fleet.install(&hub).await?;
        let process = self.fleet.start_hub().await?;
        let began = Instant::now();
        self.fleet.register(&hub).await?;
        report.condition("seconds until all members are ready", rounded(began.elapsed()));

        let (began, cpu) = (Instant::now(), self.cpu(&process)?);
        self.deliver(&hub).await?;
        self.fleet.ready(&hub, self.resources()).await?;
        let (seconds, used) = (began.elapsed(), self.cpu(&process)?);
        report.condition("seconds_to_deliver", rounded(seconds));
        report.condition(
            "objects delivered in a second",
            (self.total() as f64 / seconds.as_secs_f64()).round(),
        );
        report.condition("CPU seconds of the hub, delivering", (used.0 - cpu.0).round());
        report.condition("CPU seconds of memkube, delivering", (used.1 - cpu.1).round());
        report.condition("rss_bytes after delivering, most", process.resident_bytes()?.1);

        let latencies = self.change(&hub).await?;
        process.stop().await?;

        let began = Instant::now();
        let process = self.fleet.start_hub().await?;
        self.fleet.synced(&process, self.total(), self.resources()).await?;
        report.figure(
            "seconds_to_sync",
            began.elapsed().as_secs_f64(),
            None,
            "from a restart of the hub until it has seen every object and looked at every target",
        );
        let (now, most) = process.resident_bytes()?;
        report.figure("rss_bytes", now as f64, None, "memory of the hub after the restart");
        report.condition("rss_bytes, most", most);
        report.condition("CPU seconds of the restarted hub", process.cpu_seconds()?.round());
        report.figure(
            "change_p99_ms",
            quantile(&latencies, 0.99),
            None,
            "from the apply on the hub until a cluster has the change",
        );
        report.condition("change_p50_ms", quantile(&latencies, 0.5).round());
        report.condition("change_max_ms", quantile(&latencies, 1.0).round());
        process.stop().await
    }

    fn total(&self) -> usize {
        self.scale.clusters * self.scale.objects
    }

    fn resources(&self) -> usize {
        self.scale.objects.div_ceil(OBJECTS_EACH)
    }

    /// CPU seconds of the hub and of memkube.
    fn cpu(&self, process: &HubProcess) -> Result<(f64, f64)> {
        Ok((
            process.cpu_seconds()?,
            cpu_seconds(self.fleet.members.pid)? + cpu_seconds(self.fleet.hub_api.pid)?,
        ))
    }

    async fn deliver(&self, hub: &Access) -> Result<()> {
        tracing::info!("delivering {} objects", self.total());
        for number in 0..self.resources() {
            let applied = hub.apply(&self.resource(number, "first"), true).await;
            applied.map_err(|refused| anyhow::anyhow!("a VidraResource: {refused}"))?;
        }
        Ok(())
    }

    /// Milliseconds from the change on the hub to each cluster, several times.
    async fn change(&self, hub: &Access) -> Result<Vec<f64>> {
        tracing::info!("changing one object on {} clusters, {CHANGES} times", self.scale.clusters);
        let clients: Vec<_> = stream::iter(self.fleet.names())
            .map(|name| async move { self.fleet.members.client(&name).await })
            .buffered(IN_FLIGHT)
            .try_collect()
            .await?;
        let mut latencies = Vec::new();
        for round in 0..CHANGES {
            let word = format!("round-{round}");
            let watches = clients.iter().map(|client| arrival(client.clone(), word.clone()));
            // All watches are open when the change is made.
            let watches: Vec<_> = stream::iter(watches).buffered(IN_FLIGHT).try_collect().await?;
            let began = Instant::now();
            hub.apply(&self.resource(0, &word), true)
                .await
                .map_err(|refused| anyhow::anyhow!("{refused}"))?;
            let arrivals = futures::future::try_join_all(watches).await?;
            latencies.extend(arrivals.iter().map(|at| (*at - began).as_secs_f64() * 1000.0));
            sleep(Duration::from_secs(3)).await;
        }
        Ok(latencies)
    }

    /// The VidraResource of this number, whose first object says `word`.
    fn resource(&self, number: usize, word: &str) -> Value {
        let first = number * OBJECTS_EACH;
        let names = first..self.scale.objects.min(first + OBJECTS_EACH);
        let filling = "x".repeat(DATA - 16);
        let manifest = names.map(|object| {
            let word = if object == first { word } else { "same" };
            let name = format!("object-{object:06}");
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{word: {word}, filling: {filling}}}\n---\n"
            )
        });
        super::fleet::resource(&format!("scale-{number}"), &manifest.collect::<String>(), json!({}))
    }
}

/// Opens a watch on the changing object; what is returned ends when the object says `word`.
async fn arrival(client: Client, word: String) -> Result<BoxFuture<'static, Result<Instant>>> {
    let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let version = api.get("object-000000").await?.metadata.resource_version.unwrap_or_default();
    let params = WatchParams::default().fields("metadata.name=object-000000");
    let mut events = api.watch(&params, &version).await?.boxed();
    Ok(Box::pin(async move {
        let seen = async {
            while let Some(event) = events.try_next().await? {
                if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
                    && object.data.and_then(|mut data| data.remove("word")).is_some_and(|found| found == word)
                {
                    return Ok(Instant::now());
                }
            }
            anyhow::bail!("a watch ended before the change came")
        };
        timeout(STEP, seen).await?
    }))
}

fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

//! `scale`: a thousand clusters with a thousand objects each, in memory, in a process of their own; the hub in
//! another. Simulated: what is measured is the hub and the way to it, not Kubernetes.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, future::BoxFuture, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config,
    api::{WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdin, Command},
    time::{Instant, sleep, timeout},
};
use vidra_api::{MemberCluster, VidraResource, find};

use super::{
    process::{HubProcess, resident_bytes},
    report::{Report, quantile},
};
use crate::{testbed::cpu_seconds, world::Access};

const NAMESPACE: &str = "bench";
/// Objects of one VidraResource.
const OBJECTS_EACH: usize = 250;
/// Bytes of an object's data.
const DATA: usize = 256;
/// How many times one object is changed on all clusters.
const CHANGES: usize = 5;
/// For one step, on a slow machine.
const STEP: Duration = Duration::from_secs(5400);
const LOOK_EVERY: Duration = Duration::from_millis(500);
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
    let directory = tempfile::tempdir()?;
    // The hub's own API server does not share threads with its members'.
    let names = (0..scale.clusters).map(member).collect();
    let fleet = Memkube::start(memkube, &directory.path().join("members"), names).await?;
    let hub_api = Memkube::start(memkube, &directory.path().join("hub"), vec!["hub".to_owned()]).await?;
    let mut report = Report::new("scale");
    let bench =
        Bench { fleet: &fleet, hub_api: &hub_api, scale, directory: directory.path(), hub_binary: hub };
    if let Err(error) = bench.run(&mut report).await {
        let log = std::fs::read_to_string(directory.path().join("vidra-hub.log")).unwrap_or_default();
        let last: Vec<_> = log.lines().rev().take(5).collect();
        tracing::error!("the hub's last words, newest first: {last:#?}");
        return Err(error);
    }
    report.condition("clusters", scale.clusters);
    report.condition("objects in each", scale.objects);
    report.condition("bytes of an object's data", DATA);
    report.condition("memkube_rss_bytes", resident_bytes(fleet.pid)?.0);
    report.condition("bed", "memkube over HTTPS on loopback, simulated clusters, in a process of their own");
    hub_api.stop().await?;
    fleet.stop().await?;
    Ok(report)
}

/// A process with clusters.
struct Memkube {
    child: Child,
    pid: u32,
    /// Closing it ends the process.
    stdin: Option<ChildStdin>,
    kubeconfig: PathBuf,
    admin: Kubeconfig,
}

impl Memkube {
    async fn start(binary: &Path, kubeconfig: &Path, names: Vec<String>) -> Result<Self> {
        let mut child = Command::new(binary)
            .args(["--until-stdin-closes", "--names", &names.join(",")])
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}; cargo xtask bench builds it", binary.display()))?;
        let pid = child.id().context("memkube ended at once")?;
        let stdin = child.stdin.take();
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut line).await?;
        ensure!(!line.is_empty(), "memkube did not come up; see its output above");
        let admin = Kubeconfig::read_from(kubeconfig)?;
        Ok(Self { child, pid, stdin, kubeconfig: kubeconfig.to_owned(), admin })
    }

    async fn client(&self, cluster: &str) -> Result<Client> {
        let options = KubeConfigOptions { context: Some(cluster.to_owned()), ..Default::default() };
        let mut config = Config::from_custom_kubeconfig(self.admin.clone(), &options).await?;
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }

    /// What a registration Secret of this cluster holds.
    fn kubeconfig_of(&self, cluster: &str) -> Result<String> {
        let admin = serde_json::to_value(&self.admin)?;
        let named = |list: &str, name: &Value| -> Value {
            let found = admin[list].as_array().into_iter().flatten().find(|one| one["name"] == *name);
            json!([found])
        };
        let context = named("contexts", &cluster.into());
        ensure!(context[0].is_object(), "memkube's kubeconfig has no context {cluster}");
        let one = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": cluster,
            "clusters": named("clusters", &context[0]["context"]["cluster"]),
            "users": named("users", &context[0]["context"]["user"]),
            "contexts": context,
        });
        Ok(one.to_string())
    }

    async fn stop(mut self) -> Result<()> {
        drop(self.stdin.take());
        self.child.wait().await?;
        Ok(())
    }
}

struct Bench<'a> {
    fleet: &'a Memkube,
    hub_api: &'a Memkube,
    scale: Scale,
    directory: &'a Path,
    hub_binary: &'a Path,
}

impl Bench<'_> {
    async fn run(&self, report: &mut Report) -> Result<()> {
        let client = self.hub_api.client("hub").await?;
        let hub = Access::new(client.clone(), "bench");
        self.install(&hub).await?;
        let process = self.start_hub().await?;
        let began = Instant::now();
        self.register(&hub).await?;
        self.joined(&client).await?;
        report.condition("seconds until all members are ready", rounded(began.elapsed()));

        let (began, cpu) = (Instant::now(), self.cpu(&process)?);
        self.deliver(&hub).await?;
        self.ready(&client).await?;
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
        let process = self.start_hub().await?;
        self.synced(&process).await?;
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

    fn members(&self) -> impl Iterator<Item = String> {
        (0..self.scale.clusters).map(member)
    }

    /// CPU seconds of the hub and of memkube.
    fn cpu(&self, process: &HubProcess) -> Result<(f64, f64)> {
        Ok((process.cpu_seconds()?, cpu_seconds(self.fleet.pid)? + cpu_seconds(self.hub_api.pid)?))
    }

    async fn start_hub(&self) -> Result<HubProcess> {
        HubProcess::start(self.hub_binary, &self.hub_api.kubeconfig, &self.directory.join("vidra-hub.log"))
            .await
    }

    async fn install(&self, hub: &Access) -> Result<()> {
        for crd in vidra_api::crds::all() {
            let applied = hub.apply(&serde_json::to_value(crd)?, true).await;
            applied.map_err(|refused| anyhow::anyhow!("a CRD: {refused}"))?;
        }
        for name in ["vidra-system", NAMESPACE] {
            hub.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
        }
        Ok(())
    }

    async fn register(&self, hub: &Access) -> Result<()> {
        tracing::info!("registering {} members", self.scale.clusters);
        for name in self.members() {
            let kubeconfig = self.fleet.kubeconfig_of(&name)?;
            hub.create(json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name, "namespace": "vidra-system", "labels": {"vidra.dev/member-cluster": name}},
                "stringData": {"kubeconfig": kubeconfig},
            }))
            .await;
        }
        Ok(())
    }

    async fn joined(&self, client: &Client) -> Result<()> {
        let api: Api<MemberCluster> = Api::all(client.clone());
        let wanted = self.scale.clusters;
        reached("members are ready", wanted, || {
            let api = api.clone();
            Box::pin(async move {
                let members = api.list(&Default::default()).await?.items.into_iter();
                let conditions = members.filter_map(|member| Some(member.status?.conditions));
                let is_ready = |all: &Vec<vidra_api::Condition>| {
                    find(all, "Ready").is_some_and(|ready| ready.status == "True")
                };
                Ok(conditions.filter(is_ready).count())
            })
        })
        .await
    }

    async fn deliver(&self, hub: &Access) -> Result<()> {
        tracing::info!("delivering {} objects", self.total());
        for number in 0..self.resources() {
            let applied = hub.apply(&self.resource(number, "first"), true).await;
            applied.map_err(|refused| anyhow::anyhow!("a VidraResource: {refused}"))?;
        }
        Ok(())
    }

    /// Waits until every target of every VidraResource is ready.
    async fn ready(&self, client: &Client) -> Result<()> {
        let api: Api<VidraResource> = Api::namespaced(client.clone(), NAMESPACE);
        let wanted = self.resources() * self.scale.clusters;
        reached("targets are ready", wanted, || {
            let api = api.clone();
            Box::pin(async move {
                let resources = api.list(&Default::default()).await?.items.into_iter();
                let summaries = resources.filter_map(|one| {
                    let current = one.metadata.generation;
                    one.status.filter(|status| status.observed_generation == current)?.summary
                });
                Ok(summaries.map(|summary| summary.ready as usize).sum())
            })
        })
        .await
    }

    /// Milliseconds from the change on the hub to each cluster, several times.
    async fn change(&self, hub: &Access) -> Result<Vec<f64>> {
        tracing::info!("changing one object on {} clusters, {CHANGES} times", self.scale.clusters);
        let clients: Vec<_> = stream::iter(self.members())
            .map(|name| async move { self.fleet.client(&name).await })
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

    async fn synced(&self, process: &HubProcess) -> Result<()> {
        tracing::info!("the hub was started again");
        let targets = (self.resources() * self.scale.clusters) as f64;
        let deadline = Instant::now() + STEP;
        loop {
            let seen = self.progress(process).await;
            if let Ok((objects, looks, waiting)) = seen
                && objects >= self.total() as f64
                && looks >= targets
                && waiting == 0.0
            {
                return Ok(());
            }
            // While it reads a million objects it may be late to answer.
            ensure!(Instant::now() < deadline && process.is_running(), "the hub has not synced: {seen:?}");
            sleep(LOOK_EVERY).await;
        }
    }

    /// Objects that the hub has seen, looks at targets, and keys that wait.
    async fn progress(&self, process: &HubProcess) -> Result<(f64, f64, f64)> {
        let objects = process.metrics("vidra_objects{").await?;
        let looks = process.metric("workqueue_work_duration_seconds_count{name=\"target\"}").await?;
        Ok((objects, looks, process.metric("workqueue_depth").await?))
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

async fn reached(
    what: &str,
    wanted: usize,
    look: impl Fn() -> BoxFuture<'static, Result<usize>>,
) -> Result<()> {
    let deadline = Instant::now() + STEP;
    let mut told = Instant::now();
    loop {
        let found = look().await?;
        if found == wanted {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{found} of {wanted} {what} after {STEP:?}");
        if told.elapsed() > Duration::from_secs(15) {
            tracing::info!("{found} of {wanted} {what}");
            told = Instant::now();
        }
        sleep(LOOK_EVERY).await;
    }
}

fn member(number: usize) -> String {
    format!("member-{number:04}")
}

fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

//! A fleet that is simulated: the members' clusters in one process of memkube, the hub's API in another, and the
//! hub a process of its own that can be started again.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use futures::future::BoxFuture;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdin, Command},
    time::{Instant, sleep},
};
use vidra_api::{MemberCluster, VidraResource, find};

use super::{fleet::NAMESPACE, process::HubProcess};
use crate::world::Access;

/// For one step, on a slow machine.
pub const STEP: Duration = Duration::from_secs(5400);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Clusters of memkube in processes of their own.
pub struct Simulated {
    /// The members' clusters.
    pub members: Memkube,
    /// The hub's.
    pub hub_api: Memkube,
    /// Where the hub's log is.
    pub directory: tempfile::TempDir,
    binary: PathBuf,
    count: usize,
}

impl Simulated {
    /// So many members, nothing in them, no hub yet.
    pub async fn start(hub: &Path, memkube: &Path, count: usize) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let names = (0..count).map(member).collect();
        let members = Memkube::start(memkube, &directory.path().join("members"), names).await?;
        // The hub's own API server does not share threads with its members'.
        let hub_api = Memkube::start(memkube, &directory.path().join("hub"), vec!["hub".to_owned()]).await?;
        Ok(Self { members, hub_api, directory, binary: hub.to_owned(), count })
    }

    /// The hub's cluster, as administrator.
    pub async fn hub(&self) -> Result<Access> {
        Ok(Access::new(self.hub_api.client("hub").await?, "bench"))
    }

    /// The members' names.
    pub fn names(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.count).map(member)
    }

    /// Starts the hub's process.
    pub async fn start_hub(&self) -> Result<HubProcess> {
        let log = self.directory.path().join("vidra-hub.log");
        HubProcess::start(&self.binary, &self.hub_api.kubeconfig, &log).await
    }

    /// Installs the CRDs and makes the namespaces.
    pub async fn install(&self, hub: &Access) -> Result<()> {
        for crd in vidra_api::crds::all() {
            let applied = hub.apply(&serde_json::to_value(crd)?, true).await;
            applied.map_err(|refused| anyhow::anyhow!("a CRD: {refused}"))?;
        }
        for name in ["vidra-system", NAMESPACE] {
            hub.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
        }
        Ok(())
    }

    /// Registers all members, and waits until they are ready.
    pub async fn register(&self, hub: &Access) -> Result<()> {
        tracing::info!("registering {} members", self.count);
        for name in self.names() {
            let kubeconfig = self.members.kubeconfig_of(&name)?;
            hub.create(json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name, "namespace": "vidra-system", "labels": {"vidra.dev/member-cluster": name}},
                "stringData": {"kubeconfig": kubeconfig},
            }))
            .await;
        }
        let api: Api<MemberCluster> = Api::all(hub.client.clone());
        reached("members are ready", self.count, || {
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

    /// Waits until every target of so many VidraResources is ready.
    pub async fn ready(&self, hub: &Access, resources: usize) -> Result<()> {
        let api: Api<VidraResource> = Api::namespaced(hub.client.clone(), NAMESPACE);
        reached("targets are ready", resources * self.count, || {
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

    /// Waits until a hub that was started has seen so many objects, and has looked at every target of so many
    /// VidraResources.
    pub async fn synced(&self, process: &HubProcess, objects: usize, resources: usize) -> Result<()> {
        tracing::info!("the hub was started again");
        let targets = (resources * self.count) as f64;
        let deadline = Instant::now() + STEP;
        loop {
            let seen = progress(process).await;
            if let Ok((known, looks, waiting)) = seen
                && known >= objects as f64
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

    /// What was found; beside an error the hub's last words.
    pub fn explain<T>(&self, found: Result<T>) -> Result<T> {
        found.inspect_err(|_| {
            let log =
                std::fs::read_to_string(self.directory.path().join("vidra-hub.log")).unwrap_or_default();
            let words: Vec<_> = log.lines().rev().take(5).collect();
            tracing::error!("the hub's last words, newest first: {words:#?}");
        })
    }

    /// Ends the clusters.
    pub async fn stop(self) -> Result<()> {
        self.hub_api.stop().await?;
        self.members.stop().await
    }
}

/// Objects that the hub has seen, looks at targets, and keys that wait.
async fn progress(process: &HubProcess) -> Result<(f64, f64, f64)> {
    let objects = process.metrics("vidra_objects{").await?;
    let looks = process.metric("workqueue_work_duration_seconds_count{name=\"target\"}").await?;
    Ok((objects, looks, process.metric("workqueue_depth").await?))
}

fn member(number: usize) -> String {
    format!("member-{number:04}")
}

/// A process with clusters.
pub struct Memkube {
    child: Child,
    /// Its process.
    pub pid: u32,
    /// Closing it ends the process.
    stdin: Option<ChildStdin>,
    /// A context for each cluster, as administrator.
    pub kubeconfig: PathBuf,
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

    /// A client of one cluster, as administrator.
    pub async fn client(&self, cluster: &str) -> Result<Client> {
        let options = KubeConfigOptions { context: Some(cluster.to_owned()), ..Default::default() };
        let mut config = Config::from_custom_kubeconfig(self.admin.clone(), &options).await?;
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }

    /// What a registration Secret of this cluster holds.
    pub fn kubeconfig_of(&self, cluster: &str) -> Result<String> {
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

/// Waits until what is counted is so many.
pub async fn reached(
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

//! A hub and members on real API servers, with the hub's process running and the members joined.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result};
use kube::{Api, Client, runtime::wait::await_condition};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use vidra_api::{MemberCluster, VidraResource, find};

use super::{ledger, process::HubProcess};
use crate::{
    testbed::{Cluster, Testbed},
    world::{Access, At, LONG, wait_for},
};

/// The namespace of the bench's objects, on the hub and in the members.
pub const NAMESPACE: &str = "bench";
/// A hub that has asked for nothing in this time has settled: it waits a second between two statuses.
const QUIET: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The hub's process and its members, for a bench. All of it ends with it.
pub struct Fleet {
    /// The hub's process.
    pub process: HubProcess,
    /// The hub's cluster, as administrator.
    pub hub: Access,
    /// The clusters.
    pub bed: Testbed,
}

impl Fleet {
    /// Starts one, and waits until the members are ready.
    pub async fn start(binary: &Path, members: usize) -> Result<Self> {
        let bed = Testbed::start(&["--members", &members.to_string()])?;
        Self::on(binary, bed, |member| member.kubeconfig("vidra-hub")).await
    }

    /// The same on a bed that is there, the members registered with these kubeconfigs.
    pub async fn on(
        binary: &Path,
        bed: Testbed,
        kubeconfig_of: impl Fn(&Cluster) -> Result<String>,
    ) -> Result<Self> {
        let hub = Access::new(bed.hub.client("admin").await?, "bench");
        for crd in vidra_api::crds::all() {
            let crd = serde_json::to_value(crd)?;
            hub.apply(&crd, true).await.map_err(|refused| anyhow::anyhow!("a CRD: {refused}"))?;
            hub.when(&At::of(&crd), "Established", |crd| is_true(crd, "Established")).await;
        }
        for name in ["vidra-system", NAMESPACE] {
            hub.create(namespace(name)).await;
        }
        for member in &bed.members {
            Access::new(member.client("admin").await?, "bench").create(namespace(NAMESPACE)).await;
            hub.create(registration(member, &kubeconfig_of(member)?)).await;
        }
        let kubeconfig = bed.hub.kubeconfigs.get("vidra-hub").context("no identity vidra-hub")?;
        let process = HubProcess::start(binary, kubeconfig, &bed.dir.join("vidra-hub.log")).await?;
        let fleet = Self { process, hub, bed };
        fleet.joined().await;
        Ok(fleet)
    }

    /// Ends the hub's process and starts it again; returns when that one began.
    pub async fn restart(&mut self, binary: &Path) -> Result<Instant> {
        self.process.end().await?;
        let began = Instant::now();
        let kubeconfig = self.bed.hub.kubeconfigs.get("vidra-hub").context("no identity vidra-hub")?;
        self.process =
            HubProcess::start(binary, kubeconfig, &self.bed.dir.join("vidra-hub-again.log")).await?;
        Ok(began)
    }

    /// Waits until all members are ready.
    pub async fn joined(&self) {
        self.joined_within(LONG).await;
    }

    /// The same, within this time.
    pub async fn joined_within(&self, time: Duration) {
        let is_ready = |member: &MemberCluster| {
            let conditions = member.status.as_ref().map(|status| status.conditions.as_slice());
            find(conditions.unwrap_or_default(), "Ready").is_some_and(|ready| ready.status == "True")
        };
        self.all_members("all members are ready", time, is_ready).await;
    }

    /// Waits until each member's status counts so many objects: that is written some seconds after the last of them.
    pub async fn counted(&self, objects: usize) {
        let is_counted = |member: &MemberCluster| {
            member.status.as_ref().and_then(|status| status.objects) == Some(objects as i64)
        };
        self.all_members("all objects are counted", LONG, is_counted).await;
    }

    /// Waits until a MemberCluster has, or has not, a condition with status True. By a watch: what is timed must not wait
    /// for the next look.
    pub async fn member_says(&self, name: &str, type_: &str, wanted: bool) -> Result<()> {
        let api: Api<MemberCluster> = Api::all(self.client());
        let says = |member: Option<&MemberCluster>| {
            let conditions = member.and_then(|member| member.status.as_ref());
            let found = find(conditions.map_or(&[], |status| &status.conditions), type_);
            found.is_some_and(|condition| (condition.status == "True") == wanted)
        };
        tokio::time::timeout(LONG, await_condition(api, name, says))
            .await
            .with_context(|| format!("{name} did not become {type_}={wanted} within {LONG:?}"))??;
        Ok(())
    }

    async fn all_members(&self, what: &str, within: Duration, is: impl Fn(&MemberCluster) -> bool) {
        let api: Api<MemberCluster> = Api::all(self.client());
        wait_for(what, within, async || {
            let members = api.list(&Default::default()).await.map_err(|error| error.to_string())?.items;
            let count = members.iter().filter(|member| is(member)).count();
            if count == self.bed.members.len() { Ok(()) } else { Err(format!("{count} are")) }
        })
        .await;
    }

    /// Waits until a VidraResource is ready as it is declared now. By a watch, as `kubectl wait` does: asking
    /// again and again for an object with its manifests keeps the hub's API server busy.
    pub async fn ready(&self, name: &str) -> Result<()> {
        self.ready_within(name, LONG).await
    }

    /// The same, within this time.
    pub async fn ready_within(&self, name: &str, time: Duration) -> Result<()> {
        let api: Api<VidraResource> = Api::namespaced(self.client(), NAMESPACE);
        let ready = |resource: Option<&VidraResource>| {
            let conditions = resource.and_then(|resource| resource.status.as_ref());
            let generation = resource.and_then(|resource| resource.metadata.generation);
            find(conditions.map_or(&[], |status| &status.conditions), "Ready")
                .is_some_and(|ready| ready.status == "True" && ready.observed_generation == generation)
        };
        tokio::time::timeout(time, await_condition(api, name, ready))
            .await
            .with_context(|| format!("{name} was not ready within {time:?}"))??;
        Ok(())
    }

    /// The hub's cluster, as administrator.
    pub fn client(&self) -> Client {
        self.hub.client.clone()
    }

    /// All API servers.
    pub fn clusters(&self) -> impl Iterator<Item = &Cluster> {
        [&self.bed.hub].into_iter().chain(&self.bed.members)
    }

    /// Waits until the hub asks for nothing any more; `look` is called whenever it still did.
    pub async fn settled(&self, within: Duration, mut look: impl FnMut() -> Result<()>) -> Result<()> {
        let deadline = Instant::now() + within;
        let mut quiet_since = Instant::now();
        let mut marks: Vec<_> = self.clusters().map(ledger::mark).collect::<Result<_>>()?;
        while quiet_since.elapsed() < QUIET {
            anyhow::ensure!(Instant::now() < deadline, "the hub had not settled after {within:?}");
            sleep(LOOK_EVERY).await;
            let mut busy = false;
            for (cluster, since) in self.clusters().zip(&mut marks) {
                let next = ledger::mark(cluster)?;
                busy |= !ledger::work(cluster, *since)?.is_empty();
                *since = next;
            }
            if busy {
                quiet_since = Instant::now();
                look()?;
            }
        }
        Ok(())
    }

    /// How often the hub has looked at a target.
    pub async fn passes(&self) -> Result<f64> {
        self.process.metric("workqueue_work_duration_seconds_count{name=\"target\"}").await
    }

    /// Versions, for a report.
    pub async fn describe(&self) -> Result<Value> {
        let version = self.client().apiserver_version().await?;
        Ok(json!({
            "kubernetes": version.git_version,
            "members": self.bed.members.len(),
            "hub": "its own process, release build, default flags",
        }))
    }

    /// Ends it all, the hub first.
    pub async fn stop(self) -> Result<()> {
        self.process.stop().await
    }
}

/// A VidraResource of the bench.
pub fn resource(name: &str, manifest: &str, mut spec: Value) -> Value {
    spec["manifest"] = manifest.into();
    spec["targets"] = json!([{"clusterSelector": {}}]);
    let metadata = json!({"name": name, "namespace": NAMESPACE});
    json!({"apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource", "metadata": metadata, "spec": spec})
}

/// Who judges a bench's ConfigMaps.
#[derive(Clone, Copy)]
pub enum Judge {
    /// The hub's own check, which says nothing of a ConfigMap.
    Hub,
    /// A health rule of the VidraResource, one for every object.
    Rule,
}

impl Judge {
    /// The part of a VidraResource's spec.
    pub fn spec(self) -> Value {
        match self {
            Self::Hub => json!({}),
            Self::Rule => json!({"healthCheckExprs": [
                {"apiVersion": "v1", "kind": "ConfigMap", "current": "data.filling != ''", "failed": "data.filling == 'broken'"},
            ]}),
        }
    }

    /// For a report.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hub => "the hub's own check",
            Self::Rule => "a rule of the VidraResource",
        }
    }
}

/// Applies one with this manifest.
pub async fn deliver(hub: &Access, name: &str, manifest: &str) -> Result<()> {
    let applied = hub.apply(&resource(name, manifest, json!({})), true).await;
    applied.map(drop).map_err(|refused| anyhow::anyhow!("VidraResource {name}: {refused}"))
}

/// Where a VidraResource of the bench is.
pub fn resource_at(name: &str) -> At {
    At::new("vidra.dev/v1alpha1", "VidraResource", NAMESPACE, name)
}

/// Has an object, in JSON, this condition with status True for its present generation?
pub fn is_true(object: &Value, type_: &str) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let generation = &object["metadata"]["generation"];
    conditions.any(|one| {
        let observed = &one["observedGeneration"];
        one["type"] == type_ && one["status"] == "True" && (observed.is_null() || observed == generation)
    })
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn registration(member: &Cluster, kubeconfig: &str) -> Value {
    let labels = json!({"vidra.dev/member-cluster": member.name});
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": member.name, "namespace": "vidra-system", "labels": labels},
        "stringData": {"kubeconfig": kubeconfig},
    })
}

//! `calls`: how many requests the hub makes, by the API servers' own record.
//!
//! For one object at its member: to make it, to watch over it through ten intervals, to undo or only report an edit
//! and a deletion. For one target at the hub: to change a ConfigMap, and to make a workload that becomes ready. Of
//! several the worst counts. `still` is what is left alone: objects that are shared, and replicas of an autoscaler.

mod still;

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    fleet::{Fleet, NAMESPACE, resource},
    ledger::{self, Mark, is_write},
    report::Report,
};
use crate::{
    testbed::{Cluster, Request},
    world::{Access, At, LONG, wait_for},
};

/// Objects that are made, edited and deleted.
const OBJECTS: usize = 20;
/// Intervals without a change.
const INTERVALS: usize = 10;
/// Changes, and workloads.
const ROUNDS: usize = 5;
const SETTLE: Duration = Duration::from_secs(120);

/// Runs it.
pub async fn calls(binary: &Path) -> Result<Report> {
    let fleet = Fleet::start(binary, 1).await?;
    let member = fleet.bed.members.first().context("no member")?;
    let admin = Access::new(member.client("admin").await?, "bench-edit");
    let bench = Bench { fleet: &fleet, member, admin };
    let mut report = Report::new("calls");
    bench.create(&mut report).await?;
    bench.repair(&mut report).await?;
    bench.repair_delete(&mut report).await?;
    bench.report(&mut report).await?;
    let shared_change = bench.change(&mut report).await?;
    let shared_create = bench.workload(&mut report).await?;
    bench.idle(&mut report).await?;
    bench.idle_shared(&mut report).await?;
    bench.scaled(&mut report).await?;
    report.condition("hub_writes_shared, worst change", shared_change);
    report.condition("hub_writes_shared, worst workload", shared_create);
    report.condition("objects", OBJECTS);
    report.condition("rounds", ROUNDS);
    report.condition("counted", "the worst object or round; Leases, probes, discovery and watches apart");
    report.condition("bed", fleet.describe().await?);
    fleet.stop().await?;
    Ok(report)
}

struct Bench<'a> {
    fleet: &'a Fleet,
    member: &'a Cluster,
    admin: Access,
}

impl Bench<'_> {
    async fn apply(&self, resource: Value) -> Result<()> {
        let applied = self.fleet.hub.apply(&resource, true).await;
        applied.map(|_| ()).map_err(|refused| anyhow::anyhow!("the VidraResource: {refused}"))
    }

    /// Waits until it is ready as it is declared now, and the hub has settled.
    async fn ready(&self, name: &str) -> Result<()> {
        self.fleet.ready(name).await?;
        self.settled().await
    }

    async fn settled(&self) -> Result<()> {
        self.fleet.settled(SETTLE, || Ok(())).await
    }

    async fn create(&self, report: &mut Report) -> Result<()> {
        tracing::info!("creating {OBJECTS} objects");
        let since = ledger::mark(self.member)?;
        self.apply(resource("objects", &config_maps("object", "as declared"), json!({}))).await?;
        self.ready("objects").await?;
        let seen = ledger::work(self.member, since)?;
        report.condition("at the member, creating", json!(ledger::sorts(&seen)));
        report.figure(
            "create",
            worst(&seen, "object"),
            Some(1.0),
            "requests for an object at the member, to make it",
        );
        Ok(())
    }

    async fn repair(&self, report: &mut Report) -> Result<()> {
        tracing::info!("editing {OBJECTS} objects");
        let since = ledger::mark(self.member)?;
        for number in 0..OBJECTS {
            let at = config_map(number);
            self.admin.merge(&at, json!({"data": {"value": "tampered with"}})).await;
            self.admin.when(&at, "as declared", |object| object["data"]["value"] == "as declared").await;
        }
        self.settled().await?;
        let seen = ledger::work(self.member, since)?;
        report.condition("at the member, repairing", json!(ledger::sorts(&seen)));
        report.figure("repair", worst(&seen, "object"), Some(1.0), "... to repair an edit");
        Ok(())
    }

    async fn repair_delete(&self, report: &mut Report) -> Result<()> {
        tracing::info!("deleting {OBJECTS} objects");
        let since = ledger::mark(self.member)?;
        for number in 0..OBJECTS {
            let at = config_map(number);
            self.admin.delete(&at).await;
            self.admin.when(&at, "there again", |object| object["data"]["value"] == "as declared").await;
        }
        self.settled().await?;
        let seen = ledger::work(self.member, since)?;
        report.condition("at the member, repairing deletions", json!(ledger::sorts(&seen)));
        report.figure("repair_delete", worst(&seen, "object"), Some(1.0), "... to repair a deletion");
        Ok(())
    }

    /// Edits, then deletions, where drift is only reported.
    async fn report(&self, report: &mut Report) -> Result<()> {
        let spec = json!({"drift": {"policy": "Report"}});
        self.apply(resource("watched", &config_maps("watched", "as declared"), spec)).await?;
        self.ready("watched").await?;
        let mut step = async |delete: bool, reported: &str| {
            tracing::info!("reporting {OBJECTS} {reported}");
            let since = ledger::mark(self.member)?;
            for number in 0..OBJECTS {
                let at = At::config_map(NAMESPACE, &format!("watched-{number:02}"));
                match delete {
                    true => self.admin.delete(&at).await,
                    false => drop(self.admin.merge(&at, json!({"data": {"value": "tampered with"}})).await),
                }
            }
            let change = if delete { "Missing" } else { "Modified" };
            let target = At::new(
                "vidra.dev/v1alpha1",
                "VidraTarget",
                NAMESPACE,
                &format!("watched.{}", self.member.name),
            );
            let all = |target: &Value| {
                let changes = target["status"]["changes"].as_array().map(Vec::as_slice).unwrap_or_default();
                changes.iter().filter(|one| one["change"] == change).count() == OBJECTS
            };
            self.fleet.hub.when(&target, "reports them all", all).await;
            self.settled().await?;
            let seen = ledger::work(self.member, since)?;
            report.condition(&format!("at the member, reporting {reported}"), json!(ledger::sorts(&seen)));
            Ok::<_, anyhow::Error>(worst(&seen, "watched"))
        };
        let edits = step(false, "edits").await?;
        let deletions = step(true, "deletions").await?;
        report.figure("report", edits, Some(0.0), "... to report an edit");
        report.figure("report_delete", deletions, Some(1.0), "... to report a deletion");
        Ok(())
    }

    async fn idle(&self, report: &mut Report) -> Result<()> {
        tracing::info!("waiting {INTERVALS} intervals of a second");
        let every_second = json!({"reconcile": {"interval": "1s"}});
        self.apply(resource("ticking", &config_maps("tick", "as declared"), every_second)).await?;
        self.ready("ticking").await?;
        let hub = ledger::mark(&self.fleet.bed.hub)?;
        let seen = self.through_intervals(1, async |_| Ok(())).await?;
        report.figure(
            "idle",
            seen.len() as f64,
            Some(0.0),
            "requests for objects at the member in ten intervals",
        );
        let writes: Vec<_> = ledger::work(&self.fleet.bed.hub, hub)?.into_iter().filter(is_write).collect();
        report.condition("hub writes in ten intervals", writes.len());
        Ok(())
    }

    /// What the hub asks of the member while each of these VidraResources, compared every second, has been compared
    /// so often; `meanwhile` is done again and again.
    async fn through_intervals(
        &self,
        resources: usize,
        meanwhile: impl AsyncFn(usize) -> Result<()>,
    ) -> Result<Vec<Request>> {
        let since = ledger::mark(self.member)?;
        let enough = self.fleet.passes().await? + (INTERVALS * resources) as f64;
        for round in 0.. {
            meanwhile(round).await?;
            // Events have them compared sooner: that many seconds have to pass as well.
            if round >= INTERVALS * 5 && self.fleet.passes().await? >= enough {
                break;
            }
            anyhow::ensure!(round < 600, "the intervals have not passed in a time that is enough for many");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        ledger::work(self.member, since)
    }

    async fn change(&self, report: &mut Report) -> Result<usize> {
        let manifest = |value: &str| one_config_map("changing", value);
        self.apply(resource("changing", &manifest("0"), json!({}))).await?;
        self.ready("changing").await?;
        let mut rounds = Rounds::default();
        for round in 1..=ROUNDS {
            tracing::info!("change {round} of {ROUNDS}");
            let since = ledger::mark(&self.fleet.bed.hub)?;
            self.apply(resource("changing", &manifest(&round.to_string()), json!({}))).await?;
            self.ready("changing").await?;
            rounds.add(&self.fleet.bed.hub, since, "changing")?;
        }
        report.condition("hub writes, worst change", json!(rounds.sorts));
        report.figure(
            "hub_writes_change",
            rounds.own as f64,
            Some(3.0),
            "hub writes to a target's own objects, changing a ConfigMap",
        );
        Ok(rounds.shared)
    }

    async fn workload(&self, report: &mut Report) -> Result<usize> {
        let mut rounds = Rounds::default();
        for round in 1..=ROUNDS {
            tracing::info!("workload {round} of {ROUNDS}");
            let name = format!("web{round}");
            let since = ledger::mark(&self.fleet.bed.hub)?;
            self.apply(resource(&name, &deployment(&name), json!({}))).await?;
            self.run_pods(&name, 2).await?;
            self.ready(&name).await?;
            rounds.add(&self.fleet.bed.hub, since, &name)?;
        }
        report.condition("hub writes, worst workload", json!(rounds.sorts));
        report.figure(
            "hub_writes_create",
            rounds.own as f64,
            Some(5.0),
            "... making a workload that becomes ready",
        );
        Ok(rounds.shared)
    }

    /// What a kubelet would report: there are no nodes. From the Pods on, the controllers are the real ones.
    async fn run_pods(&self, app: &str, count: usize) -> Result<()> {
        let api: Api<Pod> = Api::namespaced(self.admin.client.clone(), NAMESPACE);
        let mine = ListParams::default().labels(&format!("app={app}"));
        let pods = wait_for(&format!("{count} Pods are there"), LONG, async || {
            let pods = api.list(&mine).await.map_err(|error| error.to_string())?.items;
            if pods.len() == count { Ok(pods) } else { Err(format!("{} are", pods.len())) }
        })
        .await;
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let patch = Patch::Merge(json!({"status": status}));
        for pod in pods {
            api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await?;
        }
        Ok(())
    }
}

/// The worst of several rounds.
#[derive(Default)]
struct Rounds {
    /// Writes to the target's VidraTarget and VidraInventory.
    own: usize,
    /// Writes to what it shares with other targets.
    shared: usize,
    /// What the writes of the worst round were.
    sorts: BTreeMap<String, usize>,
}

impl Rounds {
    fn add(&mut self, hub: &Cluster, since: Mark, name: &str) -> Result<()> {
        let writes: Vec<_> = ledger::work(hub, since)?.into_iter().filter(is_write).collect();
        let is_own = |request: &&Request| {
            let kind = request.resource.split('/').next().unwrap_or_default();
            // A create by POST names nothing in the record: nobody else makes any meanwhile.
            let named = request.name.is_empty() || request.name.starts_with(&format!("{name}."));
            matches!(kind, "vidratargets" | "vidrainventories") && named
        };
        let own = writes.iter().filter(is_own).count();
        if own >= self.own {
            self.sorts = ledger::sorts(&writes);
        }
        self.own = self.own.max(own);
        self.shared = self.shared.max(writes.len() - own);
        Ok(())
    }
}

/// The most requests that any one of the bench's objects took.
fn worst(seen: &[Request], prefix: &str) -> f64 {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for request in seen.iter().filter(|request| request.name.starts_with(prefix)) {
        *counts.entry(&request.name).or_default() += 1;
    }
    counts.values().max().copied().unwrap_or(0) as f64
}

fn config_map(number: usize) -> At {
    At::config_map(NAMESPACE, &format!("object-{number:02}"))
}

fn one_config_map(name: &str, value: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}})
        .to_string()
}

fn config_maps(prefix: &str, value: &str) -> String {
    let one = |number| one_config_map(&format!("{prefix}-{number:02}"), value);
    (0..OBJECTS).map(one).collect::<Vec<_>>().join("\n---\n")
}

fn deployment(name: &str) -> String {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "example.test/web:1"}]},
            },
        },
    })
    .to_string()
}

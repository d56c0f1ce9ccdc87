//! `health`: what rules cost. Simulated clusters, in a process of their own: events of objects that a rule judges beside as
//! many of ConfigMaps, a change of the fleet's rules on all members, and values that come back from all of them.

use std::{path::Path, time::Duration};

use anyhow::Result;
use futures::{StreamExt, stream};
use kube::Api;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use vidra_api::{TargetState, VidraTarget};

use super::{
    feedback::Feedback,
    fleet::{NAMESPACE, deliver},
    memkube::{Simulated, reached},
    process::HubProcess,
    report::Report,
};
use crate::world::{Access, At};

/// Objects of each kind in a cluster.
const OBJECTS: usize = 20;
/// Events of each kind in all, at least; each object has as many.
const EVENTS: usize = 100_000;
const IN_FLIGHT: usize = 32;
/// The hub without work: so long it is looked at, and so long it has to take in what came last.
const REST: Duration = Duration::from_secs(10);
const GROUP: &str = "bench.example.com";

/// Runs it with these binaries of the hub and of memkube, with this number of member clusters.
pub async fn health(hub: &Path, memkube: &Path, clusters: usize) -> Result<Report> {
    let fleet = Simulated::start(hub, memkube, clusters).await?;
    let mut report = Report::new("health");
    let bench = Bench { fleet: &fleet, clusters };
    fleet.explain(bench.run(&mut report).await)?;
    report.condition("clusters", clusters);
    report.condition("objects of each kind in a cluster", OBJECTS);
    report.condition("bed", "memkube over HTTPS on loopback, simulated clusters, in a process of their own");
    fleet.stop().await?;
    Ok(report)
}

struct Bench<'a> {
    fleet: &'a Simulated,
    clusters: usize,
}

/// What a change of rules came to.
struct Change {
    seconds: f64,
    cpu: f64,
    writes: f64,
}

impl Bench<'_> {
    async fn run(&self, report: &mut Report) -> Result<()> {
        let hub = self.fleet.hub().await?;
        self.fleet.install(&hub).await?;
        put_rules(&hub, "status.phase == 'Up'").await?;
        let process = self.fleet.start_hub().await?;
        self.fleet.register(&hub).await?;
        let members = self.members().await?;
        deliver(&hub, "plain", &manifest((0..OBJECTS).map(config_map))).await?;
        self.fleet.ready(&hub, 1).await?;
        let gadgets = manifest(std::iter::once(crd()).chain((0..OBJECTS).map(gadget)));
        deliver(&hub, "gadgets", &gadgets).await?;
        self.targets_are(&hub, TargetState::Progressing).await?;
        let up = async |member: &Access, object, _| {
            member.merge_status(&gadget_at(object), json!({"status": {"phase": "Up", "load": 0}})).await;
        };
        each(&members, 1, &up).await;
        self.fleet.ready(&hub, 2).await?;
        self.events(&process, &members, report).await?;
        let first = self.fleet.names().next().unwrap_or_default();
        let feedback = Feedback {
            hub: &hub,
            process: &process,
            members: &members,
            value: |turn| json!({"status": {"load": turn}}),
            rule: json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Gadget", "name": gadget_name(0),
                "values": [{"name": "load", "expression": "status.load"}]}),
            object: gadget_at(0),
            resource: ("gadgets", gadgets),
            first: &first,
        };
        feedback.run(report).await?;
        // One that turns nothing, one that turns all, and one that turns all back.
        let (up, not_up) = (TargetState::Ready, TargetState::Progressing);
        let still = self.change(&hub, &process, "status.phase in ['Up']", up).await?;
        let turned = self.change(&hub, &process, "status.phase == 'Better'", not_up).await?;
        let back = self.change(&hub, &process, "status.phase == 'Up'", up).await?;
        report.figure("still_writes", still.writes, Some(0.0), "hub writes for a rule that turns no verdict");
        report.condition("CPU seconds for a rule that turns no verdict", still.cpu);
        for (name, change) in [("turns all", &turned), ("turns all back", &back)] {
            report.condition(&format!("CPU seconds for a rule that {name}"), change.cpu);
            report.condition(&format!("hub writes for a rule that {name}"), change.writes);
        }
        report.figure(
            "turn_s",
            turned.seconds,
            None,
            "from the rule that turns all until each target says so",
        );
        report.figure("back_s", back.seconds, None, "the same of the one that turns all back");
        process.stop().await
    }

    async fn members(&self) -> Result<Vec<Access>> {
        let mut all = Vec::new();
        for name in self.fleet.names() {
            all.push(Access::new(self.fleet.members.client(&name).await?, "bench"));
        }
        Ok(all)
    }

    /// Events of both kinds, in turns of one for each object.
    async fn events(&self, process: &HubProcess, members: &[Access], report: &mut Report) -> Result<()> {
        let rounds = EVENTS.div_ceil(self.clusters * OBJECTS);
        let looks = "workqueue_work_duration_seconds_count{name=\"target\"}";
        let looked = process.metric(looks).await?;
        let load = async |member: &Access, object, round| {
            let status = json!({"status": {"load": round}});
            member.merge_status(&gadget_at(object), status).await;
        };
        let touch = async |member: &Access, object, round: usize| {
            let data = json!({"data": {"load": round.to_string()}});
            member.merge(&At::config_map(NAMESPACE, &config_map_name(object)), data).await;
        };
        let (mut ruled, mut plain) = (0.0, 0.0);
        // Halves in the order A B B A, so that what drifts falls on both alike; and the hub without work before each and after.
        let half = rounds.div_ceil(2);
        let mut idle = vec![idle_share(process).await?];
        let mut busy = [Duration::ZERO; 2];
        for (is_ruled, first) in [(true, 1), (false, 1), (false, 1 + half), (true, 1 + half)] {
            let (began, cpu) = (Instant::now(), process.cpu_seconds()?);
            for round in first..first + half {
                match is_ruled {
                    true => each(members, round, &load).await,
                    false => each(members, round, &touch).await,
                }
            }
            sleep(REST).await;
            *(if is_ruled { &mut ruled } else { &mut plain }) += process.cpu_seconds()? - cpu;
            busy[usize::from(is_ruled)] += began.elapsed();
            idle.push(idle_share(process).await?);
        }
        let share = idle.iter().sum::<f64>() / idle.len() as f64;
        plain -= share * busy[0].as_secs_f64();
        ruled -= share * busy[1].as_secs_f64();
        report.condition(
            "CPU of the hub without work, at least",
            idle.iter().copied().fold(f64::MAX, f64::min),
        );
        report.condition("CPU of the hub without work, at most", idle.iter().copied().fold(0.0, f64::max));
        let events = (2 * half * self.clusters * OBJECTS) as f64;
        let micros = |seconds: f64| (seconds / events * 1e7).round() / 10.0;
        report.figure(
            "event_ratio",
            ruled / plain,
            Some(2.0),
            "CPU for an event that a rule judges, over a ConfigMap's",
        );
        report.figure("ruled_us", micros(ruled), None, "CPU microseconds for an event that a rule judges");
        report.figure("plain_us", micros(plain), None, "the same of a ConfigMap");
        report.figure(
            "reconciles",
            process.metric(looks).await? - looked,
            None,
            "reconciles of targets meanwhile, those of intervals with them",
        );
        report.condition("events of each kind", events);
        Ok(())
    }

    /// Puts this rule in place of the one before, and waits until all targets of what it judges say this.
    async fn change(
        &self,
        hub: &Access,
        process: &HubProcess,
        current: &str,
        state: TargetState,
    ) -> Result<Change> {
        let writes = "vidra_api_requests_total{cluster=\"hub\"";
        let (cpu, written, began) = (process.cpu_seconds()?, process.metrics(writes).await?, Instant::now());
        put_rules(hub, current).await?;
        self.targets_are(hub, state).await?;
        let seconds = began.elapsed().as_secs_f64();
        // All lists are over then.
        sleep(REST * 2).await;
        let (cpu, writes) = (process.cpu_seconds()? - cpu, process.metrics(writes).await? - written);
        Ok(Change { seconds, cpu, writes })
    }

    /// Waits until each target of the gadgets says this.
    async fn targets_are(&self, hub: &Access, state: TargetState) -> Result<()> {
        let api: Api<VidraTarget> = Api::namespaced(hub.client.clone(), NAMESPACE);
        reached(&format!("targets say {state:?}"), self.clusters, || {
            let api = api.clone();
            Box::pin(async move {
                let all = api.list(&Default::default()).await?.items.into_iter();
                let says = |target: &VidraTarget| target.status.as_ref().and_then(|status| status.state);
                Ok(all.filter(|one| one.spec.resource == "gadgets" && says(one) == Some(state)).count())
            })
        })
        .await
    }
}

/// CPU that the hub takes without work, of one core.
async fn idle_share(process: &HubProcess) -> Result<f64> {
    let (began, cpu) = (Instant::now(), process.cpu_seconds()?);
    sleep(REST).await;
    Ok((process.cpu_seconds()? - cpu) / began.elapsed().as_secs_f64())
}

/// Does this once with each object of each member.
async fn each(members: &[Access], round: usize, change: &impl AsyncFn(&Access, usize, usize)) {
    let all = (0..OBJECTS).flat_map(|object| members.iter().map(move |member| (member, object)));
    stream::iter(all).for_each_concurrent(IN_FLIGHT, |(member, object)| change(member, object, round)).await;
}

async fn put_rules(hub: &Access, current: &str) -> Result<()> {
    let rule = json!([{"apiVersion": format!("{GROUP}/v1"), "kind": "Gadget", "current": current,
        "failed": "has(status.broken) && status.broken == true"}]);
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"rules": rule.to_string()},
        "metadata": {"name": "bench", "namespace": "vidra-system", "labels": {"vidra.dev/health-rules": "true"}},
    });
    let applied = hub.apply(&object, true).await;
    applied.map(|_| ()).map_err(|refused| anyhow::anyhow!("the rules: {refused}"))
}

fn manifest(objects: impl Iterator<Item = Value>) -> String {
    objects.map(|object| object.to_string()).collect::<Vec<_>>().join("\n---\n")
}

fn config_map_name(number: usize) -> String {
    format!("plain-{number:02}")
}

fn config_map(number: usize) -> Value {
    let metadata = json!({"name": config_map_name(number)});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"size": "1"}})
}

fn gadget_name(number: usize) -> String {
    format!("gadget-{number:02}")
}

fn gadget(number: usize) -> Value {
    let metadata = json!({"name": gadget_name(number)});
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Gadget", "metadata": metadata, "spec": {"size": 1}})
}

fn gadget_at(number: usize) -> At {
    At::new(&format!("{GROUP}/v1"), "Gadget", NAMESPACE, &gadget_name(number))
}

fn crd() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": open, "status": open}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

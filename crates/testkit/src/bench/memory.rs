//! `memory`: what the hub's process holds for an object, an informer and a cluster, by how it grows. Simulated
//! clusters, in processes of their own.
//!
//! The hub is measured after a restart, when it has seen everything and looked at every target: what it needed while
//! it delivered is not in the figures; what it needed to start is the peak.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{fleet::deliver, memkube::Simulated, report::Report};

const CLUSTERS: usize = 100;
/// Objects of one VidraResource in a cluster.
const EACH: usize = 250;
/// VidraResources of objects, in the first and in the second step: 100,000 and 400,000 objects.
const STEPS: [usize; 2] = [4, 16];
/// Bytes of an object's data.
const DATA: usize = 128;
/// Kinds with one object each, for the informers.
const KINDS: [(&str, &str); 12] = [
    ("v1", "Secret"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("v1", "Endpoints"),
    ("v1", "LimitRange"),
    ("v1", "ResourceQuota"),
    ("v1", "PodTemplate"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("coordination.k8s.io/v1", "Lease"),
    ("apps/v1", "ControllerRevision"),
    ("node.k8s.io/v1", "RuntimeClass"),
];
/// What was freed after the last look is given back by then.
const REST: std::time::Duration = std::time::Duration::from_secs(5);

/// Runs it with these binaries of the hub and of memkube.
pub async fn memory(hub: &Path, memkube: &Path) -> Result<Report> {
    let fleet = Simulated::start(hub, memkube, CLUSTERS).await?;
    let [none, joined, first, second, kinds] = fleet.explain(measure(&fleet).await)?;
    let objects = STEPS.map(|resources| (resources * EACH * CLUSTERS) as f64);
    let per_object = (second.now - first.now) / (objects[1] - objects[0]);
    let informers = (KINDS.len() * CLUSTERS) as f64;
    let mut report = Report::new("memory");
    report.figure("bytes_per_object", per_object, Some(400.0), "growth from 100,000 to 400,000 objects");
    report.figure(
        "bytes_per_informer",
        (kinds.now - second.now) / informers - per_object,
        Some(20_000.0),
        "growth with 12 more kinds on each cluster, their objects apart",
    );
    report.figure(
        "peak_bytes_per_object",
        (second.most - second.now) / objects[1],
        Some(200.0),
        "the excess while starting with 400,000 objects",
    );
    report.figure(
        "bytes_per_cluster",
        (joined.now - none.now) / CLUSTERS as f64,
        None,
        "growth with 100 members",
    );
    for (name, step) in ["no members", "members", "100,000 objects", "400,000 objects", "12 more kinds"]
        .into_iter()
        .zip([none, joined, first, second, kinds])
    {
        report.condition(&format!("rss_bytes, {name}"), step.now);
    }
    report.condition("clusters", CLUSTERS);
    report.condition("bytes of an object's data", DATA);
    report.condition("bed", "memkube over HTTPS on loopback, simulated clusters, in a process of their own");
    fleet.stop().await?;
    Ok(report)
}

/// Bytes that a hub holds once it is in step, and the most that it held.
#[derive(Clone, Copy)]
struct Step {
    now: f64,
    most: f64,
}

async fn measure(fleet: &Simulated) -> Result<[Step; 5]> {
    let hub = fleet.hub().await?;
    fleet.install(&hub).await?;
    let none = restarted(fleet, 0, 0).await?;
    let process = fleet.start_hub().await?;
    fleet.register(&hub).await?;
    process.stop().await?;
    let joined = restarted(fleet, 0, 0).await?;
    let mut steps = Vec::new();
    let mut there = 0;
    for resources in STEPS {
        let process = fleet.start_hub().await?;
        for number in there..resources {
            deliver(&hub, &format!("objects-{number}"), &config_maps(number)).await?;
        }
        fleet.ready(&hub, resources).await?;
        process.stop().await?;
        there = resources;
        steps.push(restarted(fleet, resources * EACH * CLUSTERS, resources).await?);
    }
    let process = fleet.start_hub().await?;
    let manifest: Vec<String> =
        KINDS.iter().map(|(version, kind)| object(version, kind).to_string()).collect();
    deliver(&hub, "kinds", &manifest.join("\n---\n")).await?;
    fleet.ready(&hub, there + 1).await?;
    process.stop().await?;
    let kinds = restarted(fleet, (there * EACH + KINDS.len()) * CLUSTERS, there + 1).await?;
    Ok([none, joined, steps[0], steps[1], kinds])
}

async fn restarted(fleet: &Simulated, objects: usize, resources: usize) -> Result<Step> {
    let process = fleet.start_hub().await?;
    fleet.synced(&process, objects, resources).await?;
    sleep(REST).await;
    let (now, most) = process.resident_bytes()?;
    tracing::info!("{objects} objects: {now} bytes, {most} at most");
    process.stop().await?;
    Ok(Step { now: now as f64, most: most as f64 })
}

fn config_maps(number: usize) -> String {
    let one = |object| {
        let name = format!("object-{number:02}-{object:04}");
        let data = json!({"filling": "x".repeat(DATA)});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}).to_string()
    };
    (0..EACH).map(one).collect::<Vec<_>>().join("\n---\n")
}

/// The least that is valid of a kind.
fn object(version: &str, kind: &str) -> Value {
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "bench"}});
    match kind {
        "Service" => object["spec"] = json!({"ports": [{"port": 80}]}),
        "LimitRange" => object["spec"] = json!({"limits": [{"type": "Pod"}]}),
        "ResourceQuota" => object["spec"] = json!({"hard": {"pods": "1000"}}),
        "PriorityClass" => object["value"] = json!(1),
        "RuntimeClass" => object["handler"] = json!("bench"),
        "ControllerRevision" => object["revision"] = json!(1),
        "PodTemplate" => {
            object["template"] = json!({"spec": {"containers": [{"name": "bench", "image": "bench"}]}});
        }
        _ => {}
    }
    object
}

//! `quiet` and `restart`: three members with everything in place. What the hub does while nothing changes, and what
//! it does after it was started again.

use std::{path::Path, time::Duration};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    fleet::{Fleet, Judge, NAMESPACE, resource},
    ledger::{self, Mark, is_write},
    report::Report,
};
use crate::{
    testbed::Request,
    world::{LONG, wait_for},
};

const MEMBERS: usize = 3;
/// VidraResources, each on all members.
const RESOURCES: usize = 4;
/// Objects of each in a member.
const OBJECTS: usize = 250;
/// Bytes of an object's data.
const DATA: usize = 1024;
const INTERVALS: usize = 10;
const INTERVAL: Duration = Duration::from_secs(3);
const SETTLE: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs `quiet`.
pub async fn quiet(binary: &Path, judge: Judge) -> Result<Report> {
    let fleet = delivered(binary, judge).await?;
    let since = marks(&fleet)?;
    let (began, cpu) = (Instant::now(), fleet.process.cpu_seconds()?);
    let enough = fleet.passes().await? + (INTERVALS * RESOURCES * MEMBERS) as f64;
    tracing::info!("waiting {INTERVALS} intervals of {INTERVAL:?}");
    wait_for("the intervals have passed", LONG, async || match fleet.passes().await {
        Ok(passes) if passes >= enough => Ok(()),
        Ok(passes) => Err(format!("{} looks to go", enough - passes)),
        Err(error) => Err(format!("{error:#}")),
    })
    .await;
    let (minutes, cpu) = (began.elapsed().as_secs_f64() / 60.0, fleet.process.cpu_seconds()? - cpu);
    let seen = requests(&fleet, &since)?;
    let writes: Vec<_> = seen.iter().filter(|request| is_write(request)).cloned().collect();
    let mut report = Report::new("quiet");
    report.figure("writes", writes.len() as f64, Some(0.0), "writes on hub and members in ten intervals");
    report.figure("cpu_seconds_per_minute", cpu / minutes, None, "CPU of the hub's process meanwhile");
    report.condition("the writes", json!(ledger::sorts(&writes)));
    report.condition("all requests for objects", json!(ledger::sorts(&seen)));
    finish(report, fleet, judge).await
}

/// Runs `restart`.
pub async fn restart(binary: &Path, judge: Judge) -> Result<Report> {
    let mut fleet = delivered(binary, judge).await?;
    let since = marks(&fleet)?;
    tracing::info!("starting the hub again");
    let began = fleet.restart(binary).await?;
    let (objects, looks) = ((MEMBERS * RESOURCES * OBJECTS) as f64, (MEMBERS * RESOURCES) as f64);
    let deadline = Instant::now() + SETTLE;
    loop {
        let seen = fleet.process.metrics("vidra_objects{").await?;
        if seen >= objects && fleet.passes().await? >= looks {
            break;
        }
        ensure!(Instant::now() < deadline, "the hub has seen {seen} of {objects} objects");
        sleep(LOOK_EVERY).await;
    }
    let (seconds, cpu) = (began.elapsed().as_secs_f64(), fleet.process.cpu_seconds()?);
    fleet.settled(SETTLE, || Ok(())).await?;
    let mut writes = Vec::new();
    for (member, since) in fleet.bed.members.iter().zip(since.iter().skip(1)) {
        writes.extend(ledger::work(member, *since)?.into_iter().filter(is_write));
    }
    let mut report = Report::new("restart");
    report.figure("member_writes", writes.len() as f64, Some(0.0), "writes on members after a restart");
    report.figure(
        "seconds_per_100k_objects",
        seconds * 100_000.0 / objects,
        None,
        "from the restart until every object is seen and every target looked at",
    );
    report.condition("the writes", json!(ledger::sorts(&writes)));
    report.condition("seconds until synced", seconds);
    report.condition("CPU seconds until synced", cpu);
    finish(report, fleet, judge).await
}

async fn finish(mut report: Report, fleet: Fleet, judge: Judge) -> Result<Report> {
    report.condition("objects in each member", RESOURCES * OBJECTS);
    report.condition("VidraResources", RESOURCES);
    report.condition("what judges the objects", judge.word());
    report.condition("bed", fleet.describe().await?);
    fleet.stop().await?;
    Ok(report)
}

/// A fleet that has everything, and a hub that has settled.
async fn delivered(binary: &Path, judge: Judge) -> Result<Fleet> {
    let fleet = Fleet::start(binary, MEMBERS).await?;
    tracing::info!("delivering {} objects to each of {MEMBERS} members", RESOURCES * OBJECTS);
    for number in 0..RESOURCES {
        let name = format!("steady-{number}");
        let manifest: Vec<_> = (0..OBJECTS).map(|object| config_map(&name, object).to_string()).collect();
        let mut spec = judge.spec();
        spec["reconcile"] = json!({"interval": format!("{}s", INTERVAL.as_secs())});
        let applied = fleet.hub.apply(&resource(&name, &manifest.join("\n---\n"), spec), true).await;
        applied.map_err(|refused| anyhow::anyhow!("{name}: {refused}"))?;
    }
    for number in 0..RESOURCES {
        fleet.ready(&format!("steady-{number}")).await?;
    }
    fleet.counted(RESOURCES * OBJECTS).await;
    fleet.settled(SETTLE, || Ok(())).await?;
    Ok(fleet)
}

/// A point in each cluster's record, the hub's first.
fn marks(fleet: &Fleet) -> Result<Vec<Mark>> {
    fleet.clusters().map(ledger::mark).collect()
}

fn requests(fleet: &Fleet, since: &[Mark]) -> Result<Vec<Request>> {
    let mut all = Vec::new();
    for (cluster, since) in fleet.clusters().zip(since) {
        all.extend(ledger::work(cluster, *since)?);
    }
    Ok(all)
}

fn config_map(resource: &str, number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("{resource}-{number:04}"), "namespace": NAMESPACE},
        "data": {"filling": "x".repeat(DATA)},
    })
}

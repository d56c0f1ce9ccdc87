//! `apply`: how fast objects reach the members, beside a bare loop that applies the same ones.
//!
//! One VidraResource with ConfigMaps for three members, until it is Ready: the hub's API, its revision, its
//! inventories and its statuses are in that time. The loop knows the objects and only sends them, as many at a
//! time as the hub has in flight to a member: to all members side by side, as the hub must, so that one that is slow
//! holds no other up. A second loop goes to one member after the other, which on a machine that all servers share costs
//! them less (docs/decisions/0020). They take turns, and the median round of each counts; CPU is that of all rounds.

use std::{path::Path, time::Duration};

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    fleet::{Fleet, NAMESPACE, resource, resource_at},
    report::{Report, quantile},
};
use crate::{
    testbed::cpu_seconds,
    world::{Access, At},
};

const MEMBERS: usize = 3;
/// Objects in each member.
const OBJECTS: usize = 200;
/// Bytes of an object's data.
const DATA: usize = 1024;
const IN_FLIGHT: usize = 32;
const ROUNDS: usize = 9;
const SETTLE: Duration = Duration::from_secs(120);

/// Runs it.
pub async fn apply(binary: &Path) -> Result<Report> {
    let fleet = Fleet::start(binary, MEMBERS).await?;
    let mut floors = Vec::new();
    for member in &fleet.bed.members {
        floors.push(Access::new(member.client("admin").await?, "bench-floor"));
    }
    let bench = Bench { fleet: &fleet, floors };
    // The first of each opens connections and starts informers.
    bench.hub("warm").await?;
    bench.floor("warm-floor", Order::OneByOne).await?;
    let (mut hub, mut floor, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        tracing::info!("round {} of {ROUNDS}", round + 1);
        floor.push(bench.floor(&format!("floor-{round}"), Order::OneByOne).await?);
        beside.push(bench.floor(&format!("beside-{round}"), Order::SideBySide).await?);
        hub.push(bench.hub(&format!("hub-{round}")).await?);
    }
    let median =
        |rounds: &[Cost], part: fn(&Cost) -> f64| quantile(&rounds.iter().map(part).collect::<Vec<_>>(), 0.5);
    let rate = |rounds: &[Cost]| (MEMBERS * OBJECTS) as f64 / median(rounds, |cost| cost.seconds);
    // Of all rounds: a round's is told to the hundredth of a second, and is less than ten of them.
    let cpu = |rounds: &[Cost]| {
        let all: f64 = rounds.iter().map(|cost| cost.cpu).sum();
        all * 1000.0 / (rounds.len() * MEMBERS * OBJECTS) as f64
    };
    let mut report = Report::new("apply");
    report.figure_at_least(
        "ratio",
        rate(&hub) / rate(&beside),
        0.8,
        "objects/s, over a bare loop of the same applies, to all members side by side as the hub does it",
    );
    report.figure("ratio_one_by_one", rate(&hub) / rate(&floor), None, "... to one member after the other");
    report.figure(
        "cpu_ratio",
        cpu(&hub) / cpu(&beside),
        Some(2.0),
        "CPU of the hub for an object, over the loop's",
    );
    report.condition("objects/s of the hub", rate(&hub).round());
    report.condition("objects/s of the loop", rate(&beside).round());
    report.condition("objects/s of the loop, one by one", rate(&floor).round());
    report.condition("ms of CPU of the hub for an object", cpu(&hub));
    report.condition("ms of CPU of the loop for an object", cpu(&beside));
    for (part, cpu) in PARTS.iter().enumerate() {
        let median = |rounds: &[Cost]| {
            let all: Vec<_> = rounds.iter().map(|cost| cost.servers[part]).collect();
            quantile(&all, 0.5) * 1000.0 / (MEMBERS * OBJECTS) as f64
        };
        report.condition(&format!("ms of CPU of {cpu} for an object, hub"), median(&hub));
        report.condition(&format!("ms of CPU of {cpu} for an object, loop"), median(&beside));
        report.condition(&format!("ms of CPU of {cpu} for an object, loop one by one"), median(&floor));
    }
    report.condition("objects in each member", OBJECTS);
    report.condition("rounds", ROUNDS);
    report.condition("in flight, of the loop", IN_FLIGHT);
    report.condition("bed", fleet.describe().await?);
    fleet.stop().await?;
    Ok(report)
}

/// In which order a loop goes.
#[derive(Clone, Copy)]
enum Order {
    /// One member after the other.
    OneByOne,
    /// All members at the same time.
    SideBySide,
}

/// Whose CPU is counted beside that of who applied.
const PARTS: [&str; 3] = ["the members' API servers", "the hub's API server", "etcd"];

/// What a round took.
struct Cost {
    seconds: f64,
    /// CPU seconds of who applied.
    cpu: f64,
    /// CPU seconds of the [`PARTS`] in that time.
    servers: [f64; 3],
}

struct Bench<'a> {
    fleet: &'a Fleet,
    /// Each member, as the loop has it.
    floors: Vec<Access>,
}

impl Bench<'_> {
    /// One VidraResource to all members; it is taken away again, untimed.
    async fn hub(&self, name: &str) -> Result<Cost> {
        let manifest: Vec<_> = (0..OBJECTS).map(|number| object(name, number).to_string()).collect();
        let declared = resource(name, &manifest.join("\n---\n"), json!({}));
        self.settled().await?;
        let (began, cpu, servers) = (Instant::now(), self.fleet.process.cpu_seconds()?, self.servers()?);
        let applied = self.fleet.hub.apply(&declared, true).await;
        applied.map_err(|refused| anyhow::anyhow!("the VidraResource: {refused}"))?;
        self.fleet.ready(name).await?;
        let (seconds, servers) = (began.elapsed().as_secs_f64(), since(servers, self.servers()?));
        self.settled().await?;
        let cpu = self.fleet.process.cpu_seconds()? - cpu;
        self.fleet.hub.delete(&resource_at(name)).await;
        self.fleet.hub.gone(&resource_at(name)).await;
        self.settled().await?;
        Ok(Cost { seconds, cpu, servers })
    }

    fn servers(&self) -> Result<[f64; 3]> {
        let bed = &self.fleet.bed;
        let mut members = 0.0;
        for member in &bed.members {
            members += cpu_seconds(member.pid)?;
        }
        Ok([members, cpu_seconds(bed.hub.pid)?, cpu_seconds(bed.etcd_pid)?])
    }

    async fn settled(&self) -> Result<()> {
        self.fleet.settled(SETTLE, || Ok(())).await
    }

    /// The same objects by a loop; they are taken away again, untimed.
    async fn floor(&self, name: &str, order: Order) -> Result<Cost> {
        let objects: Vec<_> = (0..OBJECTS).map(|number| object(name, number)).collect();
        let of_member = |member| objects.iter().map(move |object| (member, object));
        let pairs: Vec<_> = match order {
            Order::OneByOne => self.floors.iter().flat_map(of_member).collect(),
            Order::SideBySide => {
                let of_object = |object| self.floors.iter().map(move |member| (member, object));
                objects.iter().flat_map(of_object).collect()
            }
        };
        let own = std::process::id();
        let (began, cpu, servers) = (Instant::now(), cpu_seconds(own)?, self.servers()?);
        stream::iter(&pairs)
            .map(|(member, object)| member.apply(object, true))
            .buffer_unordered(IN_FLIGHT)
            .try_for_each(|_| async { Ok(()) })
            .await
            .map_err(|refused| anyhow::anyhow!("the loop: {refused}"))?;
        let (seconds, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds(own)? - cpu);
        let servers = since(servers, self.servers()?);
        let deletes = pairs.iter().map(|(member, object)| async { member.delete(&At::of(object)).await });
        stream::iter(deletes).buffer_unordered(IN_FLIGHT).collect::<Vec<_>>().await;
        Ok(Cost { seconds, cpu, servers })
    }
}

fn since(before: [f64; 3], now: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|part| now[part] - before[part])
}

fn object(name: &str, number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("{name}-{number:03}"), "namespace": NAMESPACE},
        "data": {"filling": "x".repeat(DATA)},
    })
}

//! What a fleet at rest costs: what the process holds, and what it asks for in an hour in which nothing happens.

use std::{alloc::System, collections::BTreeMap};

use memkube::{Call, Verb};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use testkit::world::World;
use tokio::{runtime::Handle, time::sleep};
use vidra_hub::metrics::Entries;

use crate::{
    judge::{is_of_hub, is_probe},
    plan::{HOUR, MINUTE},
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that are allocated now.
fn allocated() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Rest {
    pub entries: Entries,
    /// Recorded objects of all members.
    pub objects: usize,
    pub tasks: usize,
    /// By the gauge and the cluster.
    pub gauges: BTreeMap<String, u64>,
    /// Of the process: the hub, and what the clusters hold but for their histories.
    pub bytes: usize,
    /// Calls in an hour, by what they are; probes and watches apart.
    pub calls: BTreeMap<String, usize>,
    /// Writes among them.
    pub writes: Vec<String>,
}

impl Rest {
    /// Of a fleet to which nothing happens from now on.
    pub async fn of(world: &World) -> Self {
        let clusters: Vec<_> = world.members().into_iter().chain(["hub".to_owned()]).collect();
        let clusters: Vec<_> =
            clusters.iter().map(|name| world.bed().memory(name).expect("this bed is in memory")).collect();
        let ours = |call: &Call| is_of_hub(call) || call.user.contains("serviceaccount");
        for cluster in &clusters {
            cluster.clear_requests();
            cluster.set_recording(true);
        }
        sleep(HOUR).await;
        let (mut calls, mut writes) = (BTreeMap::<String, usize>::new(), Vec::new());
        for cluster in &clusters {
            let whose = if cluster.name() == "hub" { "hub" } else { "members" };
            let asks = |call: &Call| ours(call) && !is_probe(call) && call.verb != Verb::Watch;
            for call in cluster.requests().iter().filter(|call| asks(call)) {
                *calls.entry(format!("{whose}: {} {}", call.verb, call.resource)).or_default() += 1;
                let is_read = matches!(call.verb, Verb::Get | Verb::List);
                if !is_read && call.resource != "leases" {
                    writes.push(call.to_string());
                }
            }
            cluster.set_recording(cluster.name() == "hub");
            cluster.clear_requests();
            // Its watches begin again.
            cluster.compact();
        }
        sleep(MINUTE * 10).await;
        clusters.iter().for_each(|cluster| cluster.clear_requests());
        let bytes = allocated();
        let tasks = Handle::current().metrics().num_alive_tasks();
        let mut entries = world.entries();
        let objects = entries.remove("recorded objects").unwrap_or_default();
        Self { entries, objects, tasks, gauges: gauges(&world.metrics()), bytes, calls, writes }
    }
}

/// What is there now, as the metrics tell.
fn gauges(metrics: &str) -> BTreeMap<String, u64> {
    let names = ["vidra_informers", "vidra_targets", "vidra_member_ready", "workqueue_depth"];
    let lines = metrics.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
    let parts = lines.filter_map(|line| line.rsplit_once(' '));
    parts.filter_map(|(name, value)| Some((name.to_owned(), value.parse::<f64>().ok()? as u64))).collect()
}

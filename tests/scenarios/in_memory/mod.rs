//! Scenarios that only clusters in memory can show: what takes hours or is a matter of a moment, late answers, watches
//! that lag or lie, what changes in the middle of long work, objects that etcd does not take, webhooks, gateways, many
//! targets, when contact is lost, processes whose Lease is not renewed, panics, credentials that are replaced meanwhile, what is logged.

mod absent;
mod causes;
mod clockwork;
mod contact;
mod gateways;
mod health_hostile;
mod hurried;
mod lagging;
mod late;
mod leading;
mod logs;
mod many;
mod midway;
mod oversized;
mod panics;
mod patience;
mod plain;
mod refused;
mod restored;
mod returning;
mod rotating;
mod slander;
mod started;
mod swapped;
mod watching;
mod webhooks;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use memkube::{Call, Cluster, Fault};
use testkit::world::{SOON, World, in_memory as scenario, wait_for};

/// A cluster of a scenario: backups of it, and all else that only one in memory can do.
fn memory(world: &World, cluster: &str) -> Cluster {
    world.bed().memory(cluster).expect("this bed is in memory")
}

/// The first of these calls meets the fault; of those after it none reaches the server.
fn first_meets(cluster: &Cluster, fault: Fault, is_one: fn(&Call) -> bool) {
    let first = AtomicBool::new(true);
    cluster.set_fault(Arc::new(move |call: &Call| match is_one(call) {
        true if first.swap(false, Ordering::Relaxed) => fault.clone(),
        true => Fault::DropBefore,
        false => Fault::None,
    }));
}

/// Waits until such a call is made.
async fn called(cluster: &Cluster, is_one: fn(&Call) -> bool) {
    wait_for("the call", SOON, async || match cluster.requests().iter().any(is_one) {
        true => Ok(()),
        false => Err("none".into()),
    })
    .await;
}

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

use testkit::world::{World, in_memory as scenario};

/// A cluster of a scenario: backups of it, and all else that only one in memory can do.
fn memory(world: &World, cluster: &str) -> memkube::Cluster {
    world.bed().memory(cluster).expect("this bed is in memory")
}

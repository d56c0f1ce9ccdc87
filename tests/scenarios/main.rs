//! What the hub does, shown on real servers: each scenario is a sentence about a hub and its members.
//!
//! These are kube-apiservers and kube-controller-managers, started once for this process. All scenarios share
//! them and take turns; each has fresh names and a hub of its own. `memory.rs` runs the same in memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a scenario fails by panicking")]

mod adopting;
mod apply_modes;
mod canary;
mod common;
mod conformance;
mod counts;
mod credentials;
mod deaf;
mod deletion;
mod delivery;
mod disaster;
mod drift;
mod emptying;
mod fights;
mod foreign;
mod forgetting;
mod identity;
mod ignoring;
mod inheriting;
mod labels;
mod lies;
mod limits;
mod namespaces;
mod order;
mod others;
mod outages;
mod overrides;
mod partial;
mod proxies;
mod real;
mod removal;
mod reporting;
mod rights;
mod rollup;
mod served;
mod settings;
mod shared;
mod sources;
mod spelling;
mod tally;
mod terminating;
mod transport;
mod uninstalling;
mod unready;

use common::*;
use testkit::world::on_real_servers as scenario;

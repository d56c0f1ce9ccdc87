//! What the hub does: each scenario is a sentence about a hub and its members.
//!
//! `VIDRA_BED=testbed` runs them on kube-apiservers and kube-controller-managers, started once for this process, on
//! which scenarios take turns with fresh names and a hub of their own. Without it they run in memory, in seconds.
//! Those of `in_memory` and `on_real_servers` take their own bed, whatever the variable says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a scenario fails by panicking")]

mod adopting;
mod apply_modes;
mod canary;
mod common;
mod conformance;
mod contention;
mod counts;
mod credentials;
mod deaf;
mod deep;
mod deletion;
mod delivery;
mod disaster;
mod drift;
mod emptying;
mod failing;
mod feedback;
mod foreign;
mod forgetting;
mod handing_over;
mod health;
mod health_fleet;
mod identity;
mod ignoring;
mod in_memory;
mod inheriting;
mod labels;
mod lies;
mod limits;
mod lost_identity;
mod moving;
mod namespaces;
mod newer;
mod on_real_servers;
mod order;
mod others;
mod outages;
mod overrides;
mod partial;
mod removal;
mod reporting;
mod resource_missing;
mod restraint;
mod revoking;
mod rights;
mod rollup;
mod served;
mod settings;
mod shared;
mod sources;
mod spelling;
mod tally;
mod terminating;
mod too_large;
mod uninstalling;
mod unready;
mod wait_for;

use common::*;
use testkit::world::scenario;

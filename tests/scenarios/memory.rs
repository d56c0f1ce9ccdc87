//! What the hub does, shown in memory: the scenarios of `main.rs` on clusters of memkube, in seconds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a scenario fails by panicking")]

mod common;
mod conformance;
mod counts;
mod credentials;
mod deletion;
mod delivery;
mod drift;
mod foreign;
mod identity;
mod labels;
mod others;
mod outages;
mod overrides;
mod partial;
mod removal;
mod settings;
mod shared;
mod terminating;

use common::*;
use testkit::world::in_memory as scenario;

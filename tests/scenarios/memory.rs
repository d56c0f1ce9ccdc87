//! What the hub does, shown in memory: the scenarios of `main.rs` on clusters of memkube, in seconds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a scenario fails by panicking")]

mod adopting;
mod apply_modes;
mod common;
mod conformance;
mod counts;
mod credentials;
mod deletion;
mod delivery;
mod disaster;
mod drift;
mod emptying;
mod foreign;
mod forgetting;
mod identity;
mod ignoring;
mod labels;
mod order;
mod others;
mod outages;
mod overrides;
mod partial;
mod removal;
mod rights;
mod settings;
mod shared;
mod sources;
mod spelling;
mod terminating;
mod uninstalling;

use common::*;
use testkit::world::in_memory as scenario;

//! What the hub does, shown in memory: the scenarios of `main.rs` on clusters of memkube, in seconds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a scenario fails by panicking")]

mod adopting;
mod apply_modes;
mod canary;
mod clockwork;
mod common;
mod conformance;
mod counts;
mod credentials;
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
mod patience;
mod removal;
mod reporting;
mod restored;
mod rights;
mod rollup;
mod served;
mod settings;
mod shared;
mod sources;
mod spelling;
mod tally;
mod terminating;
mod uninstalling;
mod watching;

use common::*;
use testkit::world::in_memory as scenario;

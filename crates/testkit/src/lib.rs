//! Beds, faults and helpers of the scenarios, and the benches. A dev-dependency: never in a release.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on stops")]

pub mod bench;
pub mod hub;
pub mod proxy;
pub mod refusals;
pub mod sim;
pub mod tables;
pub mod testbed;
pub mod world;

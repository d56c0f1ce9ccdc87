//! The hub process of Vidra Hub. All I/O against clusters is in this crate and nowhere else; every decision
//! is in vidra-core. docs/architecture.md shows the rooms and the way through them.

pub mod app;
pub mod base;
pub mod cli;
pub mod config;
pub mod controllers;
#[cfg(feature = "demo")]
pub mod demo;
pub mod desired;
pub mod hub;
pub mod internal_limits;
pub mod leader_election;
pub mod member;
pub mod metrics;
pub mod process;
pub mod serve;
pub mod telemetry;
pub mod wire;
pub mod workqueue;

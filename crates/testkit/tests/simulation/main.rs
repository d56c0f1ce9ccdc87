//! The whole hub over clusters in memory, on the paused clock: the loop as a user sees it, crashes, lost events
//! and older views over every scenario, random walks, mutants, replay by seed, quiet, and a member that is dead.
//!
//! A run that fails says how to replay it, with the hub's logs; docs/simulation.md has the words of a replay.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on stops"
)]

/// The simulation allocates and frees small things all the time: an eighth of its CPU with the C library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod crashes;
mod found;
mod harm;
mod hubs;
mod leniency;
mod members;
mod mutants;
mod parting;
mod replay;
mod scenarios;
mod schema;
mod sieve;
mod teams;
mod turns;
mod walk;
mod whole;
mod wishes;

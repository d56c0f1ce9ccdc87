//! The whole hub over clusters in memory, on the paused clock: the loop as a user sees it, a crash at every
//! call, replay by seed, quiet, and a member that is dead.
//!
//! A run that fails says how to replay it, with the hub's logs:
//! `VIDRA_SIM=<scenario>:<call>[ab] cargo test -p testkit --test simulation replay -- --nocapture`, where a
//! means after the call's effect and b before; several calls are joined by commas, `:seed=<n>` follows for
//! another seed with latencies. `VIDRA_SIM_SEEDS=<n>` runs more seeds than the few of an ordinary run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on stops"
)]

mod crashes;
mod found;
mod harm;
mod members;
#[cfg(vidra_mutants)]
mod mutants;
mod replay;
mod scenarios;
mod sieve;
mod walk;
mod whole;

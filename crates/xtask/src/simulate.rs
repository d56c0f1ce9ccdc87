//! `cargo xtask simulate`: random walks of the hub in memory, optimised.

use std::process::Command;

use anyhow::Result;

use crate::run::{cargo_program, succeed};

/// So many seeds from this one, on all cores.
pub fn run(seeds: u64, from: u64) -> Result<()> {
    let mut walks = simulation(&["--exact", "walk::many::simulate", "--ignored", "--nocapture"]);
    walks.env("VIDRA_SIM_SEEDS", seeds.to_string()).env("VIDRA_SIM_FROM", from.to_string());
    succeed(&mut walks)
}

/// One seed, with all that happens in it.
pub fn replay(seed: u64) -> Result<()> {
    let mut walk = simulation(&["--exact", "walk::many::one_walk", "--nocapture"]);
    walk.env("VIDRA_SIM_WALK", seed.to_string());
    succeed(&mut walk)
}

/// All tests of the beds and the simulation.
pub fn tests() -> Command {
    let mut command = cargo_program();
    command.args(["test", "--locked", "--profile", "simulate", "--package", "testkit"]);
    command
}

fn simulation(arguments: &[&str]) -> Command {
    let mut command = cargo_program();
    command.args(["test", "--locked", "--quiet", "--profile", "simulate", "--package", "testkit"]);
    command.args(["--test", "simulation", "--"]).args(arguments);
    command
}

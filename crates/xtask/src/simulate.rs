//! `cargo xtask simulate`: random walks of the hub in memory, optimised.

use std::process::Command;

use anyhow::{Context, Result};

use crate::run::{cargo_program, output, program, succeed};

/// So many seeds from this one, on all cores.
pub fn run(seeds: u64, from: u64) -> Result<()> {
    let mut walks = simulation("walk::many::simulate");
    walks.env("VIDRA_SIM_SEEDS", seeds.to_string()).env("VIDRA_SIM_FROM", from.to_string());
    succeed(&mut walks)
}

/// A seed by the hash of what is committed; small enough that a walk's number is short.
pub fn of_tree() -> Result<u64> {
    let hash = output(program("git").args(["rev-parse", "HEAD^{tree}"]))?;
    let digits = hash.get(..8).context("git tells no hash")?;
    let seed = u64::from_str_radix(digits, 16).context("git tells no hash")?;
    println!("seeds from {seed}, by the tree {hash}");
    Ok(seed)
}

/// One run, with all that happens in it: a walk by its seed, or a scenario with its trouble; and each change of objects
/// whose names have this part.
pub fn replay(run: &str, object: Option<&str>) -> Result<()> {
    let (test, variable) = match run.parse::<u64>() {
        Ok(_) => ("walk::many::one_walk", "VIDRA_SIM_WALK"),
        Err(_) => ("replay::replay", "VIDRA_SIM"),
    };
    let mut command = simulation(test);
    command.env(variable, run);
    if let Some(object) = object {
        command.env("VIDRA_SIM_OBJECT", object);
    }
    succeed(&mut command)
}

/// One of the tests that are ignored unless somebody asks for them. `--workspace`, because what the whole is built
/// with is what `cargo xtask test` has built.
fn simulation(test: &str) -> Command {
    let mut command = cargo_program();
    command.args([
        "test",
        "--locked",
        "--quiet",
        "--workspace",
        "--profile",
        "simulate",
        "--test",
        "simulation",
        "--",
    ]);
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    command
}

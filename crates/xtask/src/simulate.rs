//! `cargo xtask simulate`: random walks of the hub in memory, optimised.

use std::process::Command;

use anyhow::{Context, Result};

use crate::run::{cargo_program, output, program, succeed};

/// From so many walks on the longer build of the profile `seeds` is worth its time.
const MANY: u64 = 10_000;

/// This many seeds from the first, on all cores; with a table of what they have reached, where that is asked for.
pub fn run(seeds: u64, from: u64, marks: bool) -> Result<()> {
    let profile = if seeds < MANY { "simulate" } else { "seeds" };
    let mut walks = simulation("walk::many::simulate", profile);
    walks.env("VIDRA_SIM_SEEDS", seeds.to_string()).env("VIDRA_SIM_FROM", from.to_string());
    if marks {
        walks.env("VIDRA_SIM_MARKS", "1");
    }
    succeed(&mut walks)
}

/// How many walks it takes until each mutant is noticed that has this in its name.
pub fn mutants(seeds: u64, from: u64, part: &str) -> Result<()> {
    let mut table = simulation("mutants::table", "simulate");
    table.env("VIDRA_SIM_SEEDS", seeds.to_string()).env("VIDRA_SIM_FROM", from.to_string());
    succeed(table.env("VIDRA_SIM_MUTANT", part))
}

/// A seed by the hash of what is committed; small enough that a walk's number is short.
pub fn of_tree() -> Result<u64> {
    let hash = output(program("git").args(["rev-parse", "HEAD^{tree}"]))?;
    let digits = hash.get(..8).context("git tells no hash")?;
    let seed = u64::from_str_radix(digits, 16).context("git tells no hash")?;
    println!("seeds from {seed}, by the tree {hash}");
    Ok(seed)
}

/// One run, with all that happens in it: a walk by its seed, with as few steps as still fail where that is asked for, or a
/// scenario with its trouble; and each change of objects whose names have this part.
pub fn replay(run: &str, object: Option<&str>, shrink: bool) -> Result<()> {
    let is_walk = run.split(':').next().is_some_and(|name| name.parse::<u64>().is_ok());
    let (test, variable) = match is_walk {
        true => ("walk::many::one_walk", "VIDRA_SIM_WALK"),
        false => ("replay::replay", "VIDRA_SIM"),
    };
    let mut command = simulation(test, "simulate");
    command.env(variable, run);
    if shrink {
        command.env("VIDRA_SIM_SHRINK", "1");
    }
    if let Some(object) = object {
        command.env("VIDRA_SIM_OBJECT", object);
    }
    succeed(&mut command)
}

/// One of the tests that are ignored unless somebody asks for them. `--workspace`, because what the whole is built
/// with is what `cargo xtask test` has built.
fn simulation(test: &str, profile: &str) -> Command {
    let mut command = cargo_program();
    command.args([
        "test",
        "--locked",
        "--quiet",
        "--workspace",
        "--profile",
        profile,
        "--test",
        "simulation",
        "--",
    ]);
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    command
}

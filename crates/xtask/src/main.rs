//! Every chore of the project is `cargo xtask NAME`. It starts programs (cargo, go, kubectl, the testbed, the
//! hub) and links no Kubernetes client, so that it builds in seconds.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

mod bench;
mod demo;
mod run;
mod schemas;
mod simulate;
mod test;
mod testbed;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The chores of Vidra Hub.")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Writes crds/, and what of deploy/ follows from the code, from crates/vidra-api; and the tables of the health rules
    /// that vidra-core ships into docs/reference/health.md.
    Crds,
    /// Writes what memkube knows of built-in kinds, from a real API server of the testbed.
    Schemas,
    /// Real Kubernetes API servers on this machine.
    Testbed {
        #[command(subcommand)]
        what: Testbed,
    },
    /// Everything that must hold before a change is merged; needs Rust and Go, and nothing set up by hand.
    Test {
        /// What takes seconds only; says what it left out.
        #[arg(long)]
        quick: bool,
        /// Instead of all that: the two releases of Kubernetes before the newest. Facts on each, the hub's scenarios on
        /// the oldest.
        #[arg(long, conflicts_with = "quick")]
        skew: bool,
    },
    /// Runs the hub in memory through random walks; each is a function of its seed.
    Simulate {
        /// How many.
        #[arg(long, default_value_t = 1000)]
        seeds: u64,
        /// The first.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// The first is drawn by the hash of what is committed: other seeds for each version, the same for everybody.
        #[arg(long, conflicts_with = "from")]
        from_tree: bool,
        /// Prints in how many seeds each coverage mark was reached.
        #[arg(long, conflicts_with = "replay")]
        marks: bool,
        /// Prints instead how many walks it takes until each mutant is noticed whose name has this part, which may be empty.
        #[arg(long, value_name = "PART", conflicts_with_all = ["replay", "from_tree", "marks"])]
        mutants: Option<String>,
        /// Runs one instead, SEED, SEED:STEP,STEP or SCENARIO:TROUBLE as a failure names it, and tells all: what happens,
        /// the hub's logs (RUST_LOG), each of its calls.
        #[arg(long, value_name = "RUN", conflicts_with_all = ["seeds", "from", "from_tree"])]
        replay: Option<String>,
        /// A walk that fails is made as short as it can be first.
        #[arg(long, requires = "replay")]
        shrink: bool,
        /// With each change of the objects whose names have this part, on every cluster.
        #[arg(long, value_name = "PART", requires = "replay")]
        object: Option<String>,
    },
    /// Measures: apply, calls, heal, health, hubstate, isolation, memory, quiet, restart, scale, standby.
    Bench {
        /// Which.
        name: String,
        /// Writes the figures into this file, for programs.
        #[arg(long)]
        json: Option<PathBuf>,
        /// More of the bench's own flags, after `--`; e.g. `-- --clusters 100`.
        #[arg(last = true)]
        more: Vec<String>,
    },
    /// Shows delivery and repair on a real hub with three real members.
    Demo {
        /// Ends when everything was seen, instead of staying up to be played with.
        #[arg(long)]
        once: bool,
    },
}

#[derive(Subcommand)]
enum Testbed {
    /// Starts a hub and members, and keeps them until Ctrl-C. `up --help` tells the flags.
    #[command(disable_help_flag = true)]
    Up {
        /// An older release of Kubernetes, 1.35 for example; goes before the other flags.
        #[arg(long)]
        release: Option<String>,
        /// As `vidra-testbed up` takes them, e.g. --members 2.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        flags: Vec<String>,
    },
}

fn main() -> ExitCode {
    match perform(Arguments::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(chore: Chore) -> Result<()> {
    match chore {
        Chore::Crds => {
            let write = |package: &str, program: &str, place: &str| {
                run::cargo(&["run", "--quiet", "--package", package, "--bin", program, place])
            };
            write("vidra-api", "crds", "crds")?;
            write("vidra-api", "deploy", "deploy")?;
            write("vidra-core", "reference", "docs/reference/health.md")
        }
        Chore::Schemas => schemas::write(),
        Chore::Testbed { what: Testbed::Up { release, flags } } => testbed::up(release.as_deref(), &flags),
        Chore::Test { skew: true, .. } => test::skew::run(),
        Chore::Test { quick, .. } => test::run(quick),
        Chore::Simulate { replay: Some(run), object, shrink, .. } => {
            simulate::replay(&run, object.as_deref(), shrink)
        }
        Chore::Simulate { seeds, from, mutants: Some(part), .. } => simulate::mutants(seeds, from, &part),
        Chore::Simulate { seeds, from, from_tree, marks, replay: None, .. } => {
            simulate::run(seeds, if from_tree { simulate::of_tree()? } else { from }, marks)
        }
        Chore::Bench { name, json, more } => bench::run(&name, json.as_deref(), &more),
        Chore::Demo { once } => demo::run(once),
    }
}

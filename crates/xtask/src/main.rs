//! Every chore of the project is `cargo xtask NAME`. It starts programs (cargo, go, kubectl, the testbed, the
//! hub) and links no Kubernetes client, so that it builds in seconds.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

mod bench;
mod demo;
mod run;
mod schemas;
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
    /// Writes crds/ from the types in crates/vidra-api.
    Crds,
    /// Writes what memkube knows of built-in kinds, from a real API server of the testbed.
    Schemas,
    /// Real Kubernetes API servers on this machine.
    Testbed {
        #[command(subcommand)]
        what: Testbed,
    },
    /// Everything that must hold before a change is merged; needs Rust and Go, and nothing set up by hand.
    Test,
    /// Measures: calls, hubstate.
    Bench {
        /// Which.
        name: String,
        /// Writes the figures into this file, for programs.
        #[arg(long)]
        json: Option<PathBuf>,
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
        Chore::Crds => run::cargo(&["run", "--quiet", "--package", "vidra-api", "--bin", "crds", "crds"]),
        Chore::Schemas => schemas::write(),
        Chore::Testbed { what: Testbed::Up { flags } } => testbed::up(&flags),
        Chore::Test => test::all(),
        Chore::Bench { name, json } => bench::run(&name, json.as_deref()),
        Chore::Demo { once } => demo::run(once),
    }
}

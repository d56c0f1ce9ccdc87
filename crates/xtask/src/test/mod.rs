//! `cargo xtask test`: every check. All tests are built once; then what waits for real API servers and what computes
//! run side by side. `--quick` leaves out what takes long, and says what; `--skew` is about older releases of Kubernetes.

mod build;
mod known;
mod lanes;
mod mutants;
mod part;
mod parts;
pub mod skew;

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, bail};

use crate::run::{root, start_watch};
use build::Binaries;
use lanes::Lane;
use part::{Done, Part};

/// Parts of the table at the end.
const SLOWEST: usize = 10;

/// Where each part's output is kept.
fn logs() -> PathBuf {
    root().join("target/check")
}

/// What an earlier run said is not this one's.
fn fresh_logs() -> Result<()> {
    let _ = std::fs::remove_dir_all(logs());
    Ok(std::fs::create_dir_all(logs())?)
}

/// Runs them all, or those that take seconds.
pub fn run(quick: bool) -> Result<()> {
    let began = start_watch();
    parts::require_tools(quick)?;
    fresh_logs()?;
    let first = vec![parts::format()];
    let mut done = lanes::run(vec![Lane::new(first)]);
    if failed(&done).is_none() {
        // What Go builds goes beside what Rust builds: both have an end with one busy core.
        let go = if quick { Vec::new() } else { parts::go_builds() };
        let lanes = vec![Lane::new(vec![build::tests()]), Lane::new(go)];
        done.extend(lanes::run(lanes));
    }
    if failed(&done).is_none() {
        let named =
            Binaries::read().and_then(|all| if quick { parts::quick(&all) } else { parts::all(&all) });
        let none = |error| vec![Lane::new(vec![Part::new("find the test programs", |_| Err(error))])];
        done.extend(lanes::run(named.unwrap_or_else(none)));
    }
    report(done, began.elapsed(), quick)
}

/// The first part that failed.
fn failed(done: &[Done]) -> Option<&Done> {
    done.iter().find(|part| part.error.is_some())
}

fn report(mut done: Vec<Done>, took: Duration, quick: bool) -> Result<()> {
    let failures: Vec<_> = done.iter().filter(|part| part.error.is_some()).cloned().collect();
    for part in &failures {
        println!("\n=== {}\n{}", part.name, part::telling(&part::text_of(&part.log)));
    }
    done.sort_by_key(|part| std::cmp::Reverse(part.took));
    println!("\nThe slowest parts, in seconds:");
    for part in done.iter().take(SLOWEST) {
        println!("{:>8.1}  {}", part.took.as_secs_f64(), part.name);
    }
    if quick {
        println!("\n--quick left out: {}", parts::LEFT_OUT);
    }
    for part in &failures {
        println!("\nFAILED: {}: {}", part.name, part.error.as_deref().unwrap_or_default());
    }
    let (passed, wrong) = done
        .iter()
        .fold((0, 0), |(passed, failed), part| (passed + part.tests.passed, failed + part.tests.failed));
    println!("\n{} parts in {:.0} s; their output is in target/check", done.len(), took.as_secs_f64());
    println!("{passed} passed, {wrong} failed");
    match failures.is_empty() {
        true => Ok(()),
        false => bail!("{} of {} parts failed", failures.len(), done.len()),
    }
}

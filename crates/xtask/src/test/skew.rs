//! `cargo xtask test --skew`: the releases of Kubernetes before the newest, for every night. Each is built; facts hold on
//! each, and the hub's scenarios on the oldest.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{
    build::{self, Binaries},
    failed, fresh_logs, lanes,
    lanes::Lane,
    part::{Done, Part, text_of},
    parts,
};
use crate::{
    run::start_watch,
    testbed::{build as testbed, older_releases},
};

/// Runs it. Servers are started one after the other, and nothing beside them.
pub fn run() -> Result<()> {
    let began = start_watch();
    parts::require_programs()?;
    let releases = older_releases()?;
    fresh_logs()?;
    let builds = releases
        .iter()
        .map(|release| Part::command(&format!("build Kubernetes {release}, in Go"), testbed(Some(release))));
    let lanes = vec![Lane::new(vec![build::tests()]), Lane::new(builds.collect())];
    let mut done = lanes::run(lanes);
    let building = began.elapsed();
    if failed(&done).is_none() {
        // A part that fails says nothing of those after it.
        done.extend(on_servers(&releases)?.into_iter().map(Part::perform));
    }
    report(&done, building, began.elapsed())
}

fn on_servers(releases: &[String]) -> Result<Vec<Part>> {
    let binaries = Binaries::read()?;
    let facts = releases.iter().map(|release| parts::conformance(&binaries, Some(release)));
    let mut all: Vec<_> = facts.collect::<Result<_>>()?;
    let oldest = releases.last().context("tests/testbed/releases is empty")?;
    let mut scenarios = parts::scenarios(&binaries, "testbed")?;
    scenarios.env("VIDRA_TESTBED_RELEASE", oldest);
    all.push(Part::command(&format!("scenarios on Kubernetes {oldest}"), scenarios));
    Ok(all)
}

fn report(done: &[Done], building: Duration, took: Duration) -> Result<()> {
    let failures: Vec<_> = done.iter().filter_map(|part| Some((part, part.error.as_deref()?))).collect();
    for (part, _) in &failures {
        println!("\n=== {}\n{}", part.name, text_of(&part.log));
    }
    println!("\nOlder releases of Kubernetes, in seconds:");
    for part in done {
        let (seconds, tests) = (part.took.as_secs_f64(), part.tests);
        println!("{seconds:>8.1}  {}: {} passed, {} failed", part.name, tests.passed, tests.failed);
    }
    for (part, error) in &failures {
        println!("\nFAILED: {}: {error}", part.name);
    }
    let (all, building) = (took.as_secs_f64(), building.as_secs_f64());
    println!("\n{all:.0} s, {building:.0} of them for building; the output of each part is in target/check");
    match failures.is_empty() {
        true => Ok(()),
        false => bail!("{} of {} parts failed", failures.len(), done.len()),
    }
}

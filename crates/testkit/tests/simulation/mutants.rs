//! Mistakes put into the hub on purpose: the simulation must notice each, or it says nothing of a hub that it
//! lets pass. What kills a mutant is tried in the same way on the hub as it is, which must survive it.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use vidra_core::mutants::{self, Mutant};

use crate::{
    found::{of_expired_watches, of_failed_lists},
    leniency::{of_ignored_field, of_reported_drift},
    walk::many::{bucket, is_known, spread, threads, variable, walk_of},
};

/// A mutant must be noticed within so many walks.
const WALKS: u64 = 60;

/// What is wrong at the end of a scenario.
type Scenario = fn() -> Vec<String>;

/// Tried first.
const SCENARIOS: [(&str, Scenario); 4] = [
    ("a list that fails", of_failed_lists),
    ("a watch that expires", of_expired_watches),
    ("drift that is only reported", of_reported_drift),
    ("a field that is ignored", of_ignored_field),
];

/// The walks that it takes; 0: a scenario is enough, which comes first.
#[allow(clippy::print_stderr, reason = "the figures are for people")]
fn kill(mutant: Mutant) -> u64 {
    mutants::choose(Some(mutant));
    for (of, scenario) in SCENARIOS {
        if let Some(first) = scenario().first() {
            mutants::choose(None);
            eprintln!("{mutant:?} is noticed in the scenario of {of}: {first}");
            return 0;
        }
    }
    for seed in (0..WALKS).filter(|seed| !is_known(*seed)) {
        let wrong = walk_of(seed);
        if let Some(first) = wrong.first() {
            mutants::choose(None);
            let said: String = first.chars().take(300).collect();
            eprintln!("{mutant:?} is noticed in walk {}, of {WALKS} at most: {said}", seed + 1);
            return seed + 1;
        }
    }
    panic!("{mutant:?} lives through {WALKS} walks: no rule of the simulation notices it");
}

/// The hub as it is passes the scenarios among the others, and here as many walks as any mutant took.
#[test]
fn every_mutant_is_noticed_and_the_hub_passes_what_kills_it() {
    let most = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (first, second) = Mutant::ALL.split_at(3);
        for part in [first, second] {
            let most = &most;
            scope.spawn(move || {
                for mutant in part {
                    most.fetch_max(kill(*mutant), Ordering::Relaxed);
                }
            });
        }
    });
    for seed in (0..most.into_inner()).filter(|seed| !is_known(*seed)) {
        let wrong = walk_of(seed);
        assert!(wrong.is_empty(), "the hub as it is, walk {seed}: {}", wrong.join("\n"));
    }
}

/// `cargo xtask simulate --mutants`: in how many of VIDRA_SIM_SEEDS walks each mistake is noticed, those of guards too; the
/// walks that fail without one say nothing. VIDRA_SIM_MUTANT picks those with this in their names.
#[test]
#[ignore = "as many seeds as one asks for"]
#[allow(clippy::print_stdout, reason = "people wait for it")]
fn table() {
    let (from, seeds) = (variable("VIDRA_SIM_FROM").unwrap_or(0), variable("VIDRA_SIM_SEEDS").unwrap_or(60));
    let part = std::env::var("VIDRA_SIM_MUTANT").unwrap_or_default();
    let fail: BTreeSet<u64> =
        spread(from..from + seeds, threads(), walk_of, |_| {}).into_iter().map(|(seed, _)| seed).collect();
    println!("{} of {seeds} walks from {from} fail without a mutant", fail.len());
    let all = Mutant::ALL.into_iter().chain(Mutant::GUARDS);
    let all: Vec<_> = all.filter(|mutant| format!("{mutant:?}").contains(&part)).collect();
    let noticed = Mutex::new(0);
    let one = |at: u64| {
        let mutant = all[usize::try_from(at).unwrap_or_default()];
        mutants::choose(Some(mutant));
        let seeds = (from..from + seeds).filter(|seed| !fail.contains(seed));
        let noticing: Vec<_> =
            seeds.map(|seed| (seed, walk_of(seed))).filter(|(_, wrong)| !wrong.is_empty()).collect();
        mutants::choose(None);
        if let Some((seed, wrong)) = noticing.first() {
            *noticed.lock() += 1;
            println!("{:4} {mutant:?}, first in {seed}: {}", noticing.len(), bucket(wrong));
        } else {
            println!("   0 {mutant:?}");
        }
        Vec::new()
    };
    spread(0..all.len() as u64, threads(), one, |_| {});
    println!("{} of {} mutants are noticed by {seeds} walks", noticed.into_inner(), all.len());
}

//! Mistakes put into the hub on purpose: the simulation must notice each, or it says nothing of a hub that it
//! lets pass. What kills a mutant is tried in the same way on the hub as it is, which must survive it.

use std::sync::atomic::{AtomicU64, Ordering};

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
            eprintln!("{mutant:?} is noticed in the walk of seed {seed}, of {WALKS} at most: {said}");
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

/// `cargo xtask simulate --mutants`: which of VIDRA_SIM_SEEDS walks is the first to notice each mistake, those of guards
/// too. Walks in which nothing asks for the mistake are passed over, and those that fail without one; of the rest at most
/// VIDRA_SIM_TRIES are taken. VIDRA_SIM_MUTANT picks mutants with this in their names.
#[test]
#[ignore = "as many seeds as one asks for"]
#[allow(clippy::print_stdout, reason = "people wait for it")]
fn table() {
    let (from, seeds) = (variable("VIDRA_SIM_FROM").unwrap_or(0), variable("VIDRA_SIM_SEEDS").unwrap_or(60));
    let tries = variable("VIDRA_SIM_TRIES").unwrap_or(seeds);
    let part = std::env::var("VIDRA_SIM_MUTANT").unwrap_or_default();
    let askers = Mutex::new(Vec::new());
    let plain = |seed| {
        let _ = mutants::asked();
        let wrong = walk_of(seed);
        let asked = mutants::asked();
        if wrong.is_empty() {
            askers.lock().extend(asked.into_iter().map(|mutant| (seed, mutant)));
        }
        wrong
    };
    let fail = spread(from..from + seeds, threads(), plain, |_| {});
    println!("{} of {seeds} walks from {from} fail without a mutant", fail.len());
    let mut askers = askers.into_inner();
    askers.sort_by_key(|(seed, _)| *seed);
    let all = Mutant::ALL.into_iter().chain(Mutant::GUARDS);
    let all: Vec<_> = all.filter(|mutant| format!("{mutant:?}").contains(&part)).collect();
    assert!(!all.is_empty(), "no mutant has {part:?} in its name");
    let noticed = Mutex::new(0);
    let one = |at: u64| {
        let mutant = all[usize::try_from(at).unwrap_or_default()];
        let asking: Vec<u64> =
            askers.iter().filter(|(_, asked)| *asked == mutant).map(|(seed, _)| *seed).collect();
        mutants::choose(Some(mutant));
        let tried = asking.iter().take(usize::try_from(tries).unwrap_or(usize::MAX));
        let first = tried.map(|seed| (seed, walk_of(*seed))).find(|(_, wrong)| !wrong.is_empty());
        mutants::choose(None);
        let asking = asking.len();
        if let Some((seed, wrong)) = first {
            *noticed.lock() += 1;
            println!("{seed:5} {mutant:?}, asked in {asking}: {}", bucket(&wrong));
        } else {
            println!("    - {mutant:?}, asked in {asking}");
        }
        Vec::new()
    };
    spread(0..all.len() as u64, threads(), one, |_| {});
    println!("{} of {} mutants are noticed by {seeds} walks", noticed.into_inner(), all.len());
}

//! Many seeds, on all cores: a seed is one thread and one runtime.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use parking_lot::Mutex;

use super::{
    Plan, kept_walk,
    reached::{ENOUGH, Reached},
    walk,
};

/// Seeds that are known to fail, and why: not the simulation's mistake, and not put right yet.
const KNOWN: &str = include_str!("../../../../../tests/known-failures.txt");

/// Is it known to fail?
pub fn is_known(seed: u64) -> bool {
    let named = |line: &str| line.split('|').next().is_some_and(|row| row.trim() == format!("walk {seed}"));
    KNOWN.lines().any(named)
}

/// In an ordinary run.
const FEW: u64 = 20;
/// At most this many kinds of failures are made short; each takes some forty walks.
const SHRUNK: usize = 5;

/// Runs these seeds on so many threads; each failure is a seed and what was wrong. `looked` hears of each.
pub fn spread(
    seeds: std::ops::Range<u64>,
    threads: usize,
    one: impl Fn(u64) -> Vec<String> + Sync,
    looked: impl Fn(u64) + Sync,
) -> Vec<(u64, Vec<String>)> {
    let (next, done) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let wrong = one(seed);
                    if !wrong.is_empty() {
                        failures.lock().push((seed, wrong));
                    }
                    looked(done.fetch_add(1, Ordering::Relaxed) + 1);
                }
            });
        }
    });
    let mut failures = failures.into_inner();
    failures.sort();
    failures
}

/// What goes wrong in a walk.
pub fn walk_of(seed: u64) -> Vec<String> {
    walk(&Plan::whole(seed), false).wrong
}

pub fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

fn told(failures: &[(u64, Vec<String>)]) -> String {
    let tell = |(seed, wrong): &(u64, Vec<String>)| {
        let lines: Vec<_> = wrong.iter().take(8).map(|line| format!("  - {line}")).collect();
        format!("seed {seed}, again by: cargo xtask simulate --replay {seed}\n{}", lines.join("\n"))
    };
    failures.iter().map(tell).collect::<Vec<_>>().join("\n")
}

/// What is alike in the first breach of two walks that fail for one reason: its words, without times, names that are made
/// up, and what objects hold.
pub fn bucket(wrong: &[String]) -> String {
    let first = wrong.first().map(String::as_str).unwrap_or_default();
    let plain = |word: &&str| word.chars().all(|one| one.is_alphabetic() || ",:.-'".contains(one));
    let words = first.split_whitespace().filter(plain);
    words.take(12).map(|word| word.trim_end_matches([':', ',', '.'])).collect::<Vec<_>>().join(" ")
}

/// A walk that fails, with as few steps as still fail in the same way.
fn shrunk(plan: &Plan, wrong: &[String]) -> (Plan, Vec<String>) {
    let like = bucket(wrong);
    let plan = plan.shrunk(|fewer| bucket(&walk(fewer, false).wrong) == like);
    let wrong = walk(&plan, false).wrong;
    (plan, wrong)
}

/// The first line in which two runs differ.
fn differs(what: &str, one: &[String], two: &[String]) -> Option<String> {
    let first = one.iter().zip(two).position(|(one, two)| one != two);
    match first {
        Some(at) => Some(format!("{what} {at} differs:\n  {}\n  {}", one[at], two[at])),
        None => (one.len() != two.len())
            .then(|| format!("{what}: one run has {}, the other {}", one.len(), two.len())),
    }
}

/// What is wrong in a walk, and in what a second run of it differs.
fn walked_twice(plan: &Plan) -> Vec<String> {
    let (one, two) = (kept_walk(plan), kept_walk(plan));
    let mut wrong = one.wrong;
    wrong.extend(differs("call", &one.trace, &two.trace));
    wrong.extend(differs("object in the end", &one.stored, &two.stored));
    wrong
}

#[test]
fn random_walks_end_as_declared_in_silence_and_twice_alike() {
    let twice = |seed| if is_known(seed) { Vec::new() } else { walked_twice(&Plan::whole(seed)) };
    let failures = spread(0..FEW, threads(), twice, |_| {});
    assert!(failures.is_empty(), "{} of {FEW} fail:\n{}", failures.len(), told(&failures));
}

/// `cargo xtask simulate`: VIDRA_SIM_SEEDS seeds from VIDRA_SIM_FROM.
#[test]
#[ignore = "as many seeds as one asks for"]
#[allow(clippy::print_stdout, clippy::disallowed_methods, reason = "people wait for it, in real time")]
fn simulate() {
    let (from, seeds) = (variable("VIDRA_SIM_FROM").unwrap_or(0), variable("VIDRA_SIM_SEEDS").unwrap_or(100));
    let (began, failing) = (std::time::Instant::now(), AtomicUsize::new(0));
    let reached = Mutex::new(Reached::default());
    let one = |seed| {
        let walked = walk(&Plan::whole(seed), false);
        reached.lock().add(walked.marks);
        let wrong = walked.wrong;
        if !wrong.is_empty() {
            failing.fetch_add(1, Ordering::Relaxed);
            println!("seed {seed} fails: {}", bucket(&wrong));
        }
        wrong
    };
    let step = (seeds / 10).max(1);
    let looked = |done: u64| {
        if done.is_multiple_of(step) {
            let (seconds, failing) = (began.elapsed().as_secs_f64(), failing.load(Ordering::Relaxed));
            println!("{done} of {seeds} seeds, {seconds:.0} s, {failing} failing");
        }
    };
    let failures = spread(from..from + seeds, threads(), one, looked);
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{seeds} seeds from {from} in {seconds:.1} s on {} threads: {:.1} seeds a second, {} fail",
        threads(),
        seeds as f64 / seconds,
        failures.len(),
    );
    let reached = reached.into_inner();
    if variable("VIDRA_SIM_MARKS").is_some() {
        println!("seeds that reach a mark:\n{}", reached.table());
    }
    let unmarked = if seeds >= ENOUGH { reached.wrong(seeds) } else { Vec::new() };
    unmarked.iter().for_each(|what| println!("{what}"));
    if !failures.is_empty() {
        println!("{}", told(&failures));
        tell_shrunk(&failures);
    }
    if !(failures.is_empty() && unmarked.is_empty()) {
        std::process::exit(1);
    }
}

/// One of each bucket, as short as it can be.
#[allow(clippy::print_stdout, reason = "people wait for it")]
fn tell_shrunk(failures: &[(u64, Vec<String>)]) {
    let mut buckets = BTreeMap::new();
    for (seed, wrong) in failures {
        buckets.entry(bucket(wrong)).or_insert_with(Vec::new).push((*seed, wrong));
    }
    for of in buckets.values().take(SHRUNK) {
        let Some((seed, wrong)) = of.first() else { continue };
        let (plan, wrong) = shrunk(&Plan::whole(*seed), wrong);
        let first = wrong.first().map(String::as_str).unwrap_or_default();
        println!(
            "{} like seed {seed}, in {} steps: cargo xtask simulate --replay {plan}\n  {first}",
            of.len(),
            plan.steps.len()
        );
    }
    if buckets.len() > SHRUNK {
        println!("{} more kinds of failures are not made short", buckets.len() - SHRUNK);
    }
}

/// `cargo xtask simulate --replay`: VIDRA_SIM_WALK names the walk, with VIDRA_SIM_SHRINK as short as it can be.
#[test]
#[ignore = "the seed that one asks for"]
#[allow(clippy::print_stdout, reason = "people wait for it")]
fn one_walk() {
    let named = std::env::var("VIDRA_SIM_WALK").ok().and_then(|text| text.parse::<Plan>().ok());
    let mut plan = named.expect("VIDRA_SIM_WALK names a walk: SEED, or SEED:STEP,STEP");
    if variable("VIDRA_SIM_SHRINK").is_some() {
        let wrong = walk(&plan, false).wrong;
        assert!(!wrong.is_empty(), "{plan} does not fail by itself: there is nothing to make short");
        (plan, _) = shrunk(&plan, &wrong);
        println!("as short as it can be: cargo xtask simulate --replay {plan}");
    }
    crate::replay::log();
    let mut wrong = walk(&plan, true).wrong;
    if wrong.is_empty() {
        wrong = walked_twice(&plan);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

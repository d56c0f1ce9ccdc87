//! Many seeds, on all cores: a seed is one thread and one runtime.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::walk;

/// Seeds that are known to fail, and why: not the simulation's mistake, and not put right yet.
const KNOWN: &str = include_str!("../../../../../tests/known-failures.txt");

/// Is it known to fail?
pub fn is_known(seed: u64) -> bool {
    let named = |line: &str| line.split('|').next().is_some_and(|row| row.trim() == format!("walk {seed}"));
    KNOWN.lines().any(named)
}

/// In an ordinary run.
const FEW: u64 = 20;

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
    walk(seed, false).wrong
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

fn told(failures: &[(u64, Vec<String>)]) -> String {
    let tell = |(seed, wrong): &(u64, Vec<String>)| {
        let lines: Vec<_> = wrong.iter().take(8).map(|line| format!("  - {line}")).collect();
        format!("seed {seed}, again by: cargo xtask simulate --replay {seed}\n{}", lines.join("\n"))
    };
    failures.iter().map(tell).collect::<Vec<_>>().join("\n")
}

#[test]
fn random_walks_end_as_declared_in_silence_and_twice_alike() {
    let twice = |seed| {
        if is_known(seed) {
            return Vec::new();
        }
        let (one, two) = (walk(seed, false), walk(seed, false));
        let mut wrong = one.wrong;
        let first = one.trace.iter().zip(&two.trace).position(|(one, two)| one != two);
        if let Some(at) = first {
            wrong.push(format!("line {at} differs:\n  {}\n  {}", one.trace[at], two.trace[at]));
        } else if one.trace.len() != two.trace.len() {
            wrong.push("one run is longer than the other".to_owned());
        }
        wrong
    };
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
    let one = |seed| {
        let wrong = walk(seed, false).wrong;
        if !wrong.is_empty() {
            failing.fetch_add(1, Ordering::Relaxed);
            println!("seed {seed} fails");
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
    if !failures.is_empty() {
        println!("{}", told(&failures));
        std::process::exit(1);
    }
}

/// `cargo xtask simulate --replay`: VIDRA_SIM_WALK names the seed.
#[test]
#[ignore = "the seed that one asks for"]
fn one_walk() {
    let seed = variable("VIDRA_SIM_WALK").expect("VIDRA_SIM_WALK names a seed");
    crate::replay::log();
    let wrong = walk(seed, true).wrong;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! The three patterns of Sieve (OSDI 2022) over every scenario: what is left half done, what was not seen, and
//! what was seen too late. Each run must end as the undisturbed one, with no rule broken on the way.
//!
//! Of many events and writes a sample is taken; with `VIDRA_SIM_ALL=1` each has its turn.

use std::sync::atomic::{AtomicUsize, Ordering};

use testkit::sim::{Crash, Effect, Lost, Scenario, Stale, Trouble, crash::Run, crash::once, world::Shape};

use crate::{
    crashes::{SEED, name_of, undisturbed},
    harm, parting, scenarios, turns, wishes,
};

const EVENTS: usize = 8;
const WRITES: usize = 4;

#[allow(clippy::print_stderr, reason = "the figures are for people")]
fn disturbed<S: Scenario>(acts: &[S], troubles: impl Fn(S, &Run) -> Vec<Trouble>) {
    let (mut failures, runs) = (Vec::new(), AtomicUsize::new(0));
    for act in acts {
        let shape = Shape::of(&act.name(), SEED);
        let wanted = undisturbed(*act, shape);
        for trouble in troubles(*act, &wanted) {
            runs.fetch_add(1, Ordering::Relaxed);
            if let Err(wrong) = once(*act, shape, &trouble, Some(&wanted.state)) {
                failures.push((name_of(*act, shape, &trouble), wrong));
            }
        }
    }
    let runs = runs.into_inner();
    eprintln!("{runs} runs over {} scenarios", acts.len());
    let Some((name, wrong)) = failures.first() else { return };
    let names: Vec<_> = failures.iter().map(|(name, _)| name.as_str()).collect();
    panic!("{} of {runs} end otherwise: {}\nthe first, {name}:\n{wrong}", failures.len(), names.join(" "));
}

/// So many of these, as the seed has it; all of them if that is asked for.
fn some<T: Copy>(all: &[T], most: usize) -> Vec<T> {
    if all.len() <= most || std::env::var_os("VIDRA_SIM_ALL").is_some() {
        return all.to_vec();
    }
    let mut chance = fastrand::Rng::with_seed(SEED);
    let mut chosen = chance.choose_multiple(0..all.len(), most);
    chosen.sort_unstable();
    chosen.into_iter().map(|at| all[at]).collect()
}

fn restless<S: Scenario>(_: S, _: &Run) -> Vec<Trouble> {
    vec![Trouble::restless()]
}

/// Each event alone, and with the next one of its object, which may take it back.
fn unobserved<S: Scenario>(_: S, wanted: &Run) -> Vec<Trouble> {
    let events: Vec<_> = (0..wanted.events).collect();
    let lost =
        some(&events, EVENTS).into_iter().flat_map(|event| [false, true].map(|next| Lost { event, next }));
    lost.map(|lost| Trouble { lost: Some(lost), ..Trouble::default() }).collect()
}

/// A restart after a write, into a world that does not show the write yet.
fn stale<S: Scenario>(_: S, wanted: &Run) -> Vec<Trouble> {
    let calls = wanted.trace.iter().enumerate();
    let writes: Vec<_> = calls.filter(|(_, seen)| seen.is_write()).map(|(call, _)| call).collect();
    let crashes = some(&writes, WRITES).into_iter().map(|call| Crash { call, effect: Effect::Done });
    let both = crashes.flat_map(|crash| [Stale::Cache, Stale::Members].map(|stale| (crash, stale)));
    both.map(|(crash, stale)| Trouble { stale: Some(stale), ..[crash][..].into() }).collect()
}

/// The last write of a life lands while the next one is at work.
fn landing<S: Scenario>(_: S, wanted: &Run) -> Vec<Trouble> {
    let calls = wanted.trace.iter().enumerate();
    let writes: Vec<_> = calls.filter(|(_, seen)| seen.is_write()).map(|(call, _)| call).collect();
    let crashes = some(&writes, WRITES).into_iter().map(|call| Crash { call, effect: Effect::Late });
    crashes.map(|crash| [crash][..].into()).collect()
}

#[test]
fn everything_survives_a_write_that_lands_in_the_next_life() {
    disturbed(&scenarios::ALL, landing);
    disturbed(&harm::ALL, landing);
    disturbed(&parting::ALL, landing);
    disturbed(&turns::ALL, landing);
    disturbed(&wishes::ALL, landing);
}

#[test]
fn acts_survive_a_restart_after_each_effective_write() {
    disturbed(&scenarios::ALL, restless);
}

#[test]
fn harms_survive_a_restart_after_each_effective_write() {
    disturbed(&harm::ALL, restless);
    disturbed(&parting::ALL, restless);
}

#[test]
fn acts_survive_events_that_are_not_seen() {
    disturbed(&scenarios::ALL, unobserved);
}

#[test]
fn harms_survive_events_that_are_not_seen() {
    disturbed(&harm::ALL, unobserved);
    // Whether the hub owns beside somebody what that one has put back depends on whether it looked in between.
    let others: Vec<_> =
        parting::ALL.into_iter().filter(|parting| *parting != parting::Parting::Hold).collect();
    disturbed(&others, unobserved);
}

#[test]
fn acts_survive_a_restart_into_the_past() {
    disturbed(&scenarios::ALL, stale);
}

#[test]
fn harms_survive_a_restart_into_the_past() {
    disturbed(&harm::ALL, stale);
    disturbed(&parting::ALL, stale);
}

#[test]
fn turns_survive_a_restart_after_each_effective_write() {
    disturbed(&turns::ALL, restless);
}

#[test]
fn turns_survive_events_that_are_not_seen() {
    disturbed(&turns::ALL, unobserved);
}

#[test]
fn turns_survive_a_restart_into_the_past() {
    disturbed(&turns::ALL, stale);
}

#[test]
fn wishes_survive_a_restart_after_each_effective_write() {
    disturbed(&wishes::ALL, restless);
}

#[test]
fn wishes_survive_events_that_are_not_seen() {
    disturbed(&wishes::ALL, unobserved);
}

#[test]
fn wishes_survive_a_restart_into_the_past() {
    disturbed(&wishes::ALL, stale);
}

//! A run is a function of its seed; one that failed can be seen again.

use testkit::sim::{Crash, Effect, Scenario, Trouble, crash::once, world::Shape};

use crate::{
    crashes::undisturbed,
    harm, parting,
    scenarios::{self, Act},
    turns, wishes,
};

#[test]
fn two_runs_of_a_seed_have_the_same_calls_and_the_same_end() {
    twice(&scenarios::ALL);
    twice(&harm::ALL);
    twice(&turns::ALL);
    twice(&parting::ALL);
    twice(&wishes::ALL);
}

fn twice<S: Scenario>(acts: &[S]) {
    for (at, act) in acts.iter().copied().enumerate() {
        let shape = Shape { latency: true, kept: true, ..Shape::new(7) };
        let (first, second) = (undisturbed(act, shape), undisturbed(act, shape));
        assert_same(act, &lines(&first.trace), &lines(&second.trace));
        assert_same(act, &first.raw, &second.raw);
        if at % 4 != 0 {
            continue;
        }
        let crash = [Crash { call: first.trace.len() / 2, effect: Effect::Done }];
        let again = || {
            once(act, shape, &crash[..].into(), Some(&first.state)).unwrap_or_else(|wrong| panic!("{wrong}"))
        };
        let (one, two) = (again(), again());
        assert_same(act, &lines(&one.trace), &lines(&two.trace));
        assert_same(act, &one.raw, &two.raw);
    }
}

#[test]
fn another_seed_gives_other_interleavings() {
    let of = |seed| lines(&undisturbed(Act::Deliver, Shape { latency: true, ..Shape::new(seed) }).trace);
    assert_ne!(of(1), of(2));
}

fn lines<T: ToString>(all: &[T]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

fn assert_same<S: Scenario>(act: S, one: &[String], two: &[String]) {
    let first = one.iter().zip(two).position(|(one, two)| one != two);
    if let Some(at) = first {
        panic!("{} differs at line {at}:\n  {}\n  {}", act.name(), one[at], two[at]);
    }
    assert_eq!(one.len(), two.len(), "{}", act.name());
}

/// `VIDRA_SIM` names the run.
#[test]
#[ignore = "the run that one asks for"]
fn replay() {
    let wanted = std::env::var("VIDRA_SIM").expect("VIDRA_SIM=<scenario>:<trouble>");
    log();
    let mut parts = wanted.split(':');
    let name = parts.next().unwrap_or_default();
    let trouble = Trouble::read(parts.next().unwrap_or_default());
    let seed = parts.next().and_then(|part| part.strip_prefix("seed=")?.parse().ok());
    let shape = seed.map_or(Shape::of(name, 1), |seed| Shape { latency: true, ..Shape::of(name, seed) });
    let act = scenarios::ALL.into_iter().find(|act| act.name() == name);
    let harm = harm::ALL.into_iter().find(|harm| harm.name() == name);
    let turn = turns::ALL.into_iter().find(|turn| turn.name() == name);
    let parting = parting::ALL.into_iter().find(|parting| parting.name() == name);
    let wish = wishes::ALL.into_iter().find(|wish| wish.name() == name);
    match (act, harm, parting, turn, wish) {
        (Some(act), ..) => show(act, shape, &trouble),
        (_, Some(harm), ..) => show(harm, shape, &trouble),
        (_, _, Some(parting), ..) => show(parting, shape, &trouble),
        (_, _, _, Some(turn), _) => show(turn, shape, &trouble),
        (_, _, _, _, Some(wish)) => show(wish, shape, &trouble),
        _ => panic!("there is no scenario {name:?}; VIDRA_SIM=<scenario>:<trouble>"),
    }
}

/// The hub's logs, in one replayed run.
pub fn log() {
    let filter = std::env::var("RUST_LOG").unwrap_or_else(|_| "vidra_hub=debug".to_owned());
    let _ = tracing_subscriber::fmt().with_env_filter(filter).without_time().with_test_writer().try_init();
}

fn show<S: Scenario>(act: S, shape: Shape, trouble: &Trouble) {
    let reference = undisturbed(act, shape);
    println!("=== undisturbed, {:?}:", reference.took);
    reference.trace.iter().enumerate().for_each(|(index, seen)| println!("{index:5} {seen}"));
    if *trouble == Trouble::default() {
        return;
    }
    println!("=== with {trouble}:");
    match once(act, shape, trouble, Some(&reference.state)) {
        Ok(run) => {
            run.trace.iter().enumerate().for_each(|(index, seen)| println!("{index:5} {seen}"));
            println!("it passes, after {:?}", run.took);
        }
        Err(wrong) => panic!("{wrong}"),
    }
}

//! Contention by tables and by properties: what begins one, how long an object is left alone, what ends it.

use proptest::prelude::*;

use super::*;
use crate::{object::Gvk, render::HashKey};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(&Gvk::new("", "v1", "ConfigMap"), "shop", name)
}

fn at(second: u64) -> Now {
    Now { elapsed: Duration::from_secs(second), wall: Timestamp::from_second(second as i64).unwrap() }
}

fn finding(cause: Cause) -> Finding {
    Finding { cause, by: vec!["alice-edit".into()] }
}

fn evidence(change: ChangeKind, fields: &[(&str, &str, &str)]) -> Evidence {
    let field = |(path, actual, manager): &(&str, &str, &str)| ChangedField {
        path: (*path).to_owned(),
        actual: Some((*actual).to_owned()),
        manager: (*manager).to_owned(),
        ..ChangedField::default()
    };
    Evidence { change, fields: fields.iter().map(field).collect() }
}

#[test]
fn the_same_paths_are_the_same_cause_whoever_changed_them_to_whatever() {
    let of = |fields: &[_]| Finding::of(&evidence(ChangeKind::Modified, fields));
    let first = of(&[(".data.a", "1", "alice-edit")]);
    assert_eq!(first.by, ["alice-edit"]);
    let again = of(&[(".data.a", "2", "bob")]);
    assert_eq!((first.cause, again.by), (again.cause, vec!["bob".to_owned()]));
    for other in [of(&[(".data.b", "1", "alice-edit")]), of(&[(".data.a", "1", "x"), (".data.b", "1", "x")])]
    {
        assert_ne!(first.cause, other.cause);
    }
    let removed = of(&[(".data.a", "", "unknown")]);
    assert_eq!((removed.cause, removed.by.len()), (first.cause, 0));
}

#[test]
fn what_is_gone_and_lost_marks_are_causes_of_their_own() {
    let of = |change| Finding::of(&evidence(change, &[(".metadata.labels.x", "", "bob")])).cause;
    assert_eq!(of(ChangeKind::Missing), Cause::Missing);
    assert_eq!(of(ChangeKind::OwnershipLost), Cause::Marks);
}

fn found(names: &[&str]) -> BTreeMap<ObjectKey, Finding> {
    names.iter().map(|name| (key(name), finding(Cause::Values(1)))).collect()
}

/// What is declared, by a name.
fn hash(name: &str) -> DeclaredHash {
    DeclaredHash::of(&name.into(), &HashKey::new([7; 32]))
}

fn same(_: &ObjectKey) -> Option<DeclaredHash> {
    Some(hash("one"))
}

/// After five repairs, the last one at second 5, and not as declared again at once.
fn contended() -> Contentions {
    let mut contentions = repaired(5);
    assert_eq!(contentions.review(same, &found(&["a"]), at(5)).begun, [key("a")]);
    contentions
}

/// Repaired so many times, once a second.
fn repaired(times: u64) -> Contentions {
    let mut contentions = Contentions::default();
    for second in 1..=times {
        contentions.repaired(&key("a"), hash("one"), &finding(Cause::Values(1)), at(second));
    }
    contentions
}

fn left_alone(
    contentions: &mut Contentions,
    found: &BTreeMap<ObjectKey, Finding>,
    second: u64,
) -> BTreeSet<ObjectKey> {
    contentions.review(same, found, at(second)).left_alone
}

/// Somebody who undoes each repair at once: the seconds at which it is repaired.
fn repairs_of_an_endless_fight(seconds: u64) -> Vec<u64> {
    let mut contentions = Contentions::default();
    let mut repaired = Vec::new();
    for second in 0..seconds {
        if left_alone(&mut contentions, &found(&["a"]), second).is_empty() {
            contentions.repaired(&key("a"), hash("one"), &finding(Cause::Values(1)), at(second));
            repaired.push(second);
        }
    }
    repaired
}

#[test]
fn a_fight_backs_off_to_half_an_hour_and_costs_little() {
    let repaired = repairs_of_an_endless_fight(4 * 3600);
    let pauses: Vec<u64> = repaired.windows(2).map(|two| two[1] - two[0]).collect();
    assert_eq!(pauses, [1, 1, 1, 1, 60, 120, 240, 480, 960, 1800, 1800, 1800, 1800, 1800, 1800]);
    assert!(repairs_of_an_endless_fight(3600).len() <= 20);
}

#[test]
fn what_is_no_fight_is_repaired_at_once() {
    let cases: [(&str, Vec<(u64, Cause)>); 4] = [
        (
            "four times",
            vec![(1, Cause::Missing), (2, Cause::Missing), (3, Cause::Missing), (4, Cause::Missing)],
        ),
        ("five times, the first too long ago", (0..5).map(|n| (n * 151, Cause::Values(1))).collect()),
        ("other paths each time", (0..5).map(|n| (n, Cause::Values(n))).collect()),
        (
            "gone and changed by turns",
            (0..8).map(|n| (n, if n % 2 == 0 { Cause::Missing } else { Cause::Values(1) })).collect(),
        ),
    ];
    for (what, repairs) in cases {
        let mut contentions = Contentions::default();
        for (second, cause) in repairs {
            contentions.repaired(&key("a"), hash("one"), &finding(cause), at(second));
        }
        let last = at(700);
        assert_eq!(contentions.review(same, &found(&["a"]), last), Review::default(), "{what}");
        assert_eq!((contentions.next_look(last), contentions.told()), (None, None), "{what}");
    }
}

#[test]
fn whoever_invents_causes_is_in_a_fight_all_the_same() {
    let mut contentions = Contentions::default();
    let begun = (0..100).position(|n| {
        contentions.repaired(&key("a"), hash("one"), &finding(Cause::Values(n)), at(n));
        !contentions.review(same, &found(&["a"]), at(n)).begun.is_empty()
    });
    assert_eq!(begun, Some(CAUSES + IDENTICAL - 1));
}

#[test]
fn five_repairs_that_hold_are_no_fight() {
    let mut contentions = repaired(5);
    let nothing = BTreeMap::new();
    assert_eq!(contentions.review(same, &nothing, at(6)), Review::default());
    assert_eq!((contentions.told(), contentions.next_look(at(6))), (None, None));
    contentions.review(same, &nothing, at(605));
    assert!(contentions.is_empty());
}

#[test]
fn an_object_is_left_alone_until_its_time_and_others_are_not() {
    let mut contentions = contended();
    let both = found(&["a", "b"]);
    assert_eq!(left_alone(&mut contentions, &both, 6), BTreeSet::from([key("a")]));
    assert_eq!(contentions.next_look(at(6)), Some(Duration::from_secs(59)));
    assert_eq!(left_alone(&mut contentions, &both, 64), BTreeSet::from([key("a")]));
    assert_eq!(left_alone(&mut contentions, &both, 65), BTreeSet::new());
    assert_eq!(contentions.next_look(at(65)), None, "its time has come");
    contentions.repaired(&key("a"), hash("one"), &finding(Cause::Values(1)), at(65));
    assert_eq!(contentions.review(same, &both, at(65)).begun, [], "no new contention");
    assert_eq!(left_alone(&mut contentions, &both, 66), BTreeSet::from([key("a")]));
    assert_eq!(contentions.next_look(at(66)), Some(Duration::from_secs(119)));
    assert_eq!(contentions.iter().next().unwrap().1.repairs, 6);
}

#[test]
fn it_ends_when_a_repair_holds_for_a_window() {
    let mut contentions = contended();
    let nothing = BTreeMap::new();
    contentions.review(same, &found(&["a"]), at(30));
    contentions.repaired(&key("a"), hash("one"), &finding(Cause::Values(1)), at(65));
    assert!(left_alone(&mut contentions, &nothing, 66).is_empty());
    assert_eq!(contentions.next_look(at(66)), Some(Duration::from_secs(599)));
    contentions.review(same, &nothing, at(664));
    assert_eq!(contentions.iter().count(), 1);
    contentions.review(same, &nothing, at(665));
    assert!(contentions.is_empty());
    assert_eq!(contentions.next_look(at(665)), None);
}

#[test]
fn drift_that_comes_back_within_the_window_goes_on_with_the_fight() {
    let mut contentions = contended();
    contentions.review(same, &BTreeMap::new(), at(500));
    assert!(left_alone(&mut contentions, &found(&["a"]), 590).is_empty(), "its pause is over");
    contentions.repaired(&key("a"), hash("one"), &finding(Cause::Values(1)), at(590));
    assert_eq!(left_alone(&mut contentions, &found(&["a"]), 600).len(), 1);
    // Put right by the other side: quiet from when it was seen otherwise last.
    contentions.review(same, &BTreeMap::new(), at(1199));
    assert_eq!(contentions.iter().count(), 1);
    contentions.review(same, &BTreeMap::new(), at(1200));
    assert!(contentions.is_empty());
}

#[test]
fn a_new_declaration_begins_again_and_what_is_no_longer_declared_is_forgotten() {
    let mut contentions = contended();
    assert!(contentions.review(|_| Some(hash("two")), &found(&["a"]), at(6)).left_alone.is_empty());
    assert!(contentions.is_empty());
    let mut contentions = contended();
    contentions.repaired(&key("a"), hash("two"), &finding(Cause::Values(1)), at(6));
    assert_eq!(contentions.iter().count(), 0);
    let mut contentions = contended();
    assert!(contentions.review(|_| None, &found(&["a"]), at(6)).left_alone.is_empty());
    assert!(contentions.is_empty());
}

#[test]
fn a_person_may_have_it_tried_at_once_and_each_word_counts_once() {
    let mut contentions = contended();
    let drifted = found(&["a"]);
    assert_eq!(left_alone(&mut contentions, &drifted, 6).len(), 1);
    contentions.ask("now");
    assert!(left_alone(&mut contentions, &drifted, 7).is_empty());
    contentions.repaired(&key("a"), hash("one"), &finding(Cause::Values(1)), at(7));
    contentions.ask("now");
    assert_eq!(left_alone(&mut contentions, &drifted, 8).len(), 1);
    contentions.ask("now, please");
    assert!(left_alone(&mut contentions, &drifted, 9).is_empty());
}

#[test]
fn the_other_side_is_named_and_the_words_move_only_with_the_facts() {
    let mut contentions = contended();
    contentions.review(same, &found(&["a"]), at(6));
    let told = contentions.told().unwrap();
    assert!(told.unrepaired);
    let expected = "ConfigMap shop/a was repaired 5 times and \"alice-edit\" changed it back each time; it is left as it \
         is until 1970-01-01T00:01:05Z";
    assert!(told.message.starts_with(expected), "{}", told.message);
    contentions.review(same, &found(&["a"]), at(50));
    assert_eq!(contentions.told(), Some(told));
    let gone = Finding { cause: Cause::Missing, by: Vec::new() };
    contentions.repaired(&key("a"), hash("one"), &gone, at(70));
    let told = contentions.told().unwrap();
    assert!(!told.unrepaired);
    let expected =
        "6 times (\"alice-edit\" changed it back 5 times, somebody deleted it again once); it is as declared";
    assert!(told.message.contains(expected), "{}", told.message);
    assert!(told.message.contains("as declared since 1970-01-01T00:01:10Z"), "{}", told.message);
}

#[test]
fn each_is_named_for_what_it_did_and_not_for_what_it_holds_now() {
    let by = |name: &str| Finding { cause: Cause::Values(1), by: vec![name.into()] };
    let mut contentions = Contentions::default();
    for second in 1..=5 {
        contentions.repaired(&key("a"), hash("one"), &by("other-controller"), at(second));
    }
    let later = BTreeMap::from([(key("a"), by("webdup"))]);
    contentions.review(same, &later, at(6));
    let expected = "5 times (\"other-controller\" changed it back 5 times), and now \"webdup\" changed it back; it is \
         left";
    assert!(contentions.told().unwrap().message.contains(expected), "{:?}", contentions.told());
    assert_eq!(contentions.by(&key("a")), ["other-controller"]);
    contentions.repaired(&key("a"), hash("one"), &by("webdup"), at(70));
    let expected =
        "6 times (\"other-controller\" changed it back 5 times, \"webdup\" changed it back once); it is as";
    assert!(contentions.told().unwrap().message.contains(expected), "{:?}", contentions.told());
    assert_eq!(contentions.by(&key("a")), ["other-controller", "webdup"]);
}

#[test]
fn however_many_undo_repairs_what_is_remembered_of_them_is_bounded() {
    let mut contentions = Contentions::default();
    for second in 1..200 {
        let by = Finding { cause: Cause::Values(1), by: vec![format!("alice-{second}")] };
        contentions.repaired(&key("a"), hash("one"), &by, at(second));
    }
    contentions.review(same, &found(&["a"]), at(200));
    let told = contentions.told().unwrap().message;
    assert!(
        contentions.by(&key("a")).len() <= OPPONENTS && told.contains("somebody changed it back 191 times"),
        "{told}"
    );
}

proptest! {
    /// Whatever is done to an object, in whatever rhythm: in any hour it is repaired a bounded number of times, and
    /// never sooner than a pause after a repair in contention.
    #[test]
    fn no_rhythm_makes_a_fight_expensive(steps in prop::collection::vec((0u64..40, 0u64..12), 1..300)) {
        let mut contentions = Contentions::default();
        let mut second = 0;
        let mut repaired: Vec<u64> = Vec::new();
        for (wait, cause) in steps {
            second += wait;
            let finding = finding(Cause::Values(cause));
            let drifted = BTreeMap::from([(key("a"), finding.clone())]);
            let paused = contentions.iter().next().map(|(_, contention, _)| contention.over);
            let left_alone = left_alone(&mut contentions, &drifted, second);
            if paused.is_some_and(|over| at(second).elapsed < over) {
                prop_assert!(!left_alone.is_empty());
            }
            if left_alone.is_empty() {
                contentions.repaired(&key("a"), hash("one"), &finding, at(second));
                repaired.push(second);
            }
        }
        for from in &repaired {
            let within = repaired.iter().filter(|at| (*from..*from + 3600).contains(*at)).count();
            prop_assert!(within <= (CAUSES + 1) * IDENTICAL * 6 + 6, "{within} within an hour");
        }
    }

    /// Whatever came before: once it stays as declared, nothing is left of it after a window.
    #[test]
    fn every_fight_ends_by_itself(seconds in prop::collection::vec(1u64..200, 0..60)) {
        let mut contentions = Contentions::default();
        let mut second = 0;
        for wait in seconds {
            second += wait;
            if left_alone(&mut contentions, &found(&["a"]), second).is_empty() {
                contentions.repaired(&key("a"), hash("one"), &finding(Cause::Values(1)), at(second));
            }
        }
        contentions.review(same, &BTreeMap::new(), at(second + 600));
        prop_assert!(contentions.is_empty());
    }
}

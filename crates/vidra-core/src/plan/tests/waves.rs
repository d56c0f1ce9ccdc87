//! Waves, and objects that are not applied each time.

use super::*;
use crate::{directives::ApplyMode, render::Relation};

fn in_wave(state: State, kind: &str, name: &str, wave: i32) -> State {
    with(state.want(kind, name, "h"), kind, name, |directives| directives.wave = wave)
}

fn with(mut state: State, kind: &str, name: &str, change: impl Fn(&mut Directives)) -> State {
    change(&mut state.wants.get_mut(&key(kind, name)).unwrap().directives);
    state
}

fn sick(uid: &str, content: &str) -> Live {
    Live { current: false, ..live(uid, content) }
}

fn acted(plan: &Plan) -> Vec<Vec<String>> {
    let names = |stage: &Vec<Effect>| stage.iter().map(|effect| effect.key.name.to_string()).collect();
    plan.stages.iter().map(names).collect()
}

fn three() -> State {
    let state = in_wave(State::default(), "ConfigMap", "last", 7);
    let state = in_wave(state, "Deployment", "first", -1);
    in_wave(in_wave(state, "ConfigMap", "second", 0), "Deployment", "second-too", 0)
}

#[test]
fn a_wave_starts_when_the_one_before_is_current() {
    let state = three();
    let plan = state.plan(Presence::Present);
    assert_eq!(acted(&plan), [["first"]]);
    let waits = |wave, before, name, kind| Wait::Wave { wave, before, key: key(kind, name) };
    assert_eq!(plan.waits, [waits(0, -1, "first", "Deployment")]);
    assert_eq!(plan.intent.map(|keys| keys.len()), Some(4), "all of it is intended beforehand");

    let stuck = state.clone().live("Deployment", "first", sick("1", "h")).plan(Presence::Present);
    assert!(stuck.stages.is_empty() && stuck.waits.len() == 1, "{stuck:?}");

    let state = state.live("Deployment", "first", live("1", "h"));
    let plan = state.plan(Presence::Present);
    assert_eq!(acted(&plan), [["second"], ["second-too"]], "stages within the wave");
    assert_eq!(plan.waits, [waits(7, 0, "second", "ConfigMap")]);

    let state =
        state.live("ConfigMap", "second", live("2", "h")).live("Deployment", "second-too", live("3", "h"));
    assert_eq!(acted(&state.plan(Presence::Present)), [["last"]]);
}

#[test]
fn a_wave_says_that_it_waits_for_what_is_suspended_where_it_waits_for_nothing_else() {
    let suspended = |uid| Live { suspended: true, ..sick(uid, "h") };
    let state = three().live("Deployment", "first", suspended("1"));
    let key = |kind, name| key(kind, name);
    let waits = Wait::Suspended { wave: 0, before: -1, key: key("Deployment", "first") };
    assert_eq!(state.plan(Presence::Present).waits, [waits]);
    // It is about to be resumed.
    let old = Live { applied: Some(hash("old")), ..suspended("1") };
    let plan = three().live("Deployment", "first", old).plan(Presence::Present);
    assert!(matches!(&plan.waits[..], [Wait::Wave { .. }]), "{plan:?}");

    let state = three().live("Deployment", "first", live("1", "h"));
    let state = state.live("ConfigMap", "second", suspended("2"));
    let late = state.clone().live("Deployment", "second-too", sick("3", "h")).plan(Presence::Present);
    let waits = Wait::Wave { wave: 7, before: 0, key: key("Deployment", "second-too") };
    assert_eq!(late.waits, [waits], "what may come late goes before");
    let well = state.live("Deployment", "second-too", live("3", "h")).plan(Presence::Present);
    let waits = Wait::Suspended { wave: 7, before: 0, key: key("ConfigMap", "second") };
    assert_eq!(well.waits, [waits]);
}

#[test]
fn what_is_refused_or_terminating_holds_the_next_wave_back_too() {
    let mut foreign = live("1", "h");
    foreign.proof = false;
    let mut dying = live("1", "h");
    dying.terminating = true;
    for seen in [foreign, dying] {
        let plan = three().live("Deployment", "first", seen).plan(Presence::Present);
        assert!(plan.stages.is_empty(), "{plan:?}");
    }
}

#[test]
fn a_wave_that_is_not_current_holds_news_back_and_no_repair() {
    let sick_first = || three().live("Deployment", "first", sick("1", "h")).hold("ConfigMap", "last", "9");
    let mut edited = live("9", "h");
    edited.drift = Drift::Differs;
    let mut unsure = live("9", "h");
    unsure.drift = Drift::Unsure;
    for seen in [edited, unsure] {
        let plan = sick_first().live("ConfigMap", "last", seen).plan(Presence::Present);
        assert_eq!(acted(&plan), [["last"]]);
    }
    let changed = sick_first().live("ConfigMap", "last", live("9", "old")).plan(Presence::Present);
    assert!(changed.stages.is_empty(), "{changed:?}");
    // Nobody knows what the missing object was applied as, unless all of this revision was applied.
    let mut state = sick_first();
    assert!(state.plan(Presence::Present).stages.is_empty());
    state.delivered = true;
    assert_eq!(acted(&state.plan(Presence::Present)), [["last"]]);
}

#[test]
fn a_namespace_that_is_not_current_holds_news_back_and_no_repair_of_what_is_in_it() {
    let state = |namespace| {
        let state = State::default().want("Namespace", "n", "n").want("ConfigMap", "edited", "h");
        let state = in_wave(state, "ConfigMap", "second", 1);
        let edited = Live { drift: Drift::Differs, ..live("2", "h") };
        let state = state.live("Namespace", "n", namespace).live("ConfigMap", "edited", edited);
        state.hold("ConfigMap", "second", "3")
    };
    let waits = [Wait::NotCurrent(key("Namespace", "n"))];
    let plan = state(sick("1", "n")).plan(Presence::Present);
    assert_eq!((acted(&plan), &plan.waits[..]), (vec![vec!["edited".to_owned()]], &waits[..]));
    let whole = State { delivered: true, ..state(sick("1", "n")) };
    let plan = whole.plan(Presence::Present);
    assert_eq!((acted(&plan).concat(), plan.waits), (vec!["edited".to_owned(), "second".to_owned()], vec![]));
    let more = State { delivered: true, ..state(sick("1", "n")).want("ConfigMap", "new", "h") };
    let plan = more.plan(Presence::Present);
    assert_eq!((acted(&plan).concat().len(), &plan.waits[..]), (2, &waits[..]));
    // Neither a repair of its own, nor a change that may be refused each time, stops those of others.
    let whole = |state| State { delivered: true, ..state };
    let drifted = Live { drift: Drift::Differs, ..sick("1", "n") };
    let plan = whole(state(drifted)).plan(Presence::Present);
    assert_eq!((acted(&plan).concat().len(), plan.waits.len()), (3, 0), "{plan:?}");
    let plan = state(sick("1", "old")).plan(Presence::Present);
    assert_eq!(
        (acted(&plan).concat(), &plan.waits[..]),
        (vec!["n".to_owned(), "edited".to_owned()], &waits[..])
    );
}

#[test]
fn what_is_gone_or_about_to_go_stops_the_repair_of_what_is_in_it_alone() {
    let edited = || Live { drift: Drift::Differs, ..live("2", "h") };
    let state = |kind: &str, name: &str, ends: Option<Live>| {
        let state = State::default().want(kind, name, "n").want("ConfigMap", "edited", "h");
        let state = in_wave(state, "Deployment", "second", 1).hold("Deployment", "second", "3");
        let state = state.live("ConfigMap", "edited", edited());
        let state = ends.into_iter().fold(state, |state, live| state.live(kind, name, live));
        State { delivered: true, ..state.hold(kind, name, "1") }
    };
    let repairs = |state: &State| {
        let plan = state.plan(Presence::Present);
        let of = |name| acted(&plan).concat().iter().any(|one| one == name);
        (of("edited"), of("second"), plan.waits.first().cloned())
    };
    let dying = || Live { terminating: true, ..sick("1", "n") };
    let ends = |name| Some(Wait::Terminating(key("Namespace", name)));
    assert_eq!(repairs(&state("Namespace", "shop", Some(dying()))), (false, false, ends("shop")));
    assert_eq!(repairs(&state("Namespace", "other", Some(dying()))), (true, true, ends("other")));
    let gone = Some(Wait::NotCurrent(key("Namespace", "shop")));
    assert_eq!(repairs(&state("Namespace", "shop", None)), (false, false, gone));
    // A CRD by its kind: another kind of the same group is repaired, and the same kind of another group.
    let crd = |group: &str, kind: &str| {
        let mut state = state("CustomResourceDefinition", "gadgets.apps", Some(dying()));
        state.wants.get_mut(&key("CustomResourceDefinition", "gadgets.apps")).unwrap().relation =
            Relation::Defines((group.into(), kind.into()));
        repairs(&state)
    };
    let repaired = |group, kind| (crd(group, kind).0, crd(group, kind).1);
    assert_eq!(repaired("apps", "Deployment"), (true, false));
    assert_eq!(repaired("apps", "Gadget"), (true, true));
    assert_eq!(repaired("example.com", "Deployment"), (true, true));
    // Whatever is waited for of it, and whosever it is.
    for (mode, current, proof) in
        [(ApplyMode::Once, false, true), (ApplyMode::Once, true, true), (ApplyMode::IfAbsent, true, false)]
    {
        let ending = Live { terminating: true, current, proof, ..live("1", "n") };
        let state = state("Namespace", "shop", Some(ending));
        let mut state = with(state, "Namespace", "shop", |directives| directives.apply = mode);
        state.inventory.get_mut(&key("Namespace", "shop")).unwrap().settled =
            Some(hash("n").to_string().into());
        assert_eq!(repairs(&state), (false, false, ends("shop")), "{mode:?} {current}");
    }
}

#[test]
fn what_answers_for_others_is_repaired_unless_what_it_needs_is_gone() {
    let repaired = |(kind, name): (&str, &str), ends, relation: &Relation| {
        let state = State::default().want(kind, name, "n").hold(kind, name, "1").live(kind, name, ends);
        let edited = Live { drift: Drift::Differs, ..live("4", "h") };
        let state = state.want("APIService", "a", "h").hold("APIService", "a", "4");
        let mut state = State { delivered: true, ..state.live("APIService", "a", edited) };
        state.wants.get_mut(&key("APIService", "a")).unwrap().relation = relation.clone();
        state.wants.get_mut(&key(kind, name)).unwrap().relation = match kind {
            "Namespace" => Relation::None,
            _ => Relation::Defines(("example.com".into(), "Gadget".into())),
        };
        acted(&state.plan(Presence::Present)).concat().contains(&"a".to_owned())
    };
    let dying = || Live { terminating: true, ..sick("1", "n") };
    let other = ("Namespace", "other");
    let calls = |namespace: &str| Relation::Requires { namespaces: [namespace.into()].into(), kind: None };
    assert!(!repaired(other, dying(), &calls("other")), "it may keep the Namespace from its end");
    assert!(repaired(other, dying(), &calls("third")), "its repair may be what lets the Namespace end");
    assert!(repaired(other, sick("1", "n"), &calls("other")));
    let crd = ("CustomResourceDefinition", "gadgets.example.com");
    let reads = |kind: &str| Relation::Requires {
        namespaces: [].into(),
        kind: Some(("example.com".into(), kind.into())),
    };
    assert!(!repaired(crd, dying(), &reads("Gadget")), "without its parameters it refuses what it admits");
    assert!(repaired(crd, dying(), &reads("Other")));
}

#[test]
fn what_is_not_served_yet_waits_for_the_crd_before_it() {
    let state = |unplannable, crd| {
        let state =
            State::default().want("CustomResourceDefinition", "gadgets", "h").want("ConfigMap", "a", "h");
        let state = state.live("ConfigMap", "a", live("2", "h"));
        State { unplannable, ..state.live("CustomResourceDefinition", "gadgets", crd) }
    };
    let waits = |unplannable, crd| state(unplannable, crd).plan_with(Presence::Present, true, false).waits;
    let crd = key("CustomResourceDefinition", "gadgets");
    assert_eq!(waits(Some(0), sick("1", "h")), [Wait::NotCurrent(crd)]);
    assert_eq!(waits(Some(-1), sick("1", "h")), [], "it is wanted before that CRD");
    assert_eq!((waits(None, sick("1", "h")), waits(Some(0), live("1", "h"))), (vec![], vec![]));
}

#[test]
fn a_wave_waits_for_what_cannot_be_planned_in_one_before() {
    let mut state = three();
    state.unplannable = Some(-1);
    let state = state.live("Deployment", "first", live("1", "h"));
    let plan = state.plan_with(Presence::Present, true, false);
    assert!(plan.stages.is_empty() && plan.waits.is_empty(), "{plan:?}");
    let none_of_its_own = State { unplannable: Some(-2), ..three() };
    assert!(none_of_its_own.plan_with(Presence::Present, true, false).stages.is_empty());
    let later = State { unplannable: Some(0), ..state };
    assert_eq!(acted(&later.plan_with(Presence::Present, true, false)), [["second"], ["second-too"]]);
}

#[test]
fn nothing_is_pruned_while_a_wave_waits_and_removal_goes_through_the_waves_in_reverse() {
    let state = three().hold("ConfigMap", "dropped", "d");
    assert!(state.plan(Presence::Present).removals.is_empty());
    let mut state =
        State::default().hold("ConfigMap", "a", "1").hold("Deployment", "b", "2").hold("ConfigMap", "c", "3");
    for (kind, name, wave) in [("ConfigMap", "a", 5), ("Deployment", "b", 0), ("ConfigMap", "c", 0)] {
        state.inventory.get_mut(&key(kind, name)).unwrap().wave = wave;
    }
    let order = state.plan(Presence::Absent).removals;
    let names: Vec<_> = order.iter().flatten().map(|effect| &*effect.key.name).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(order.len(), 3);
}

fn mode(state: State, mode: ApplyMode) -> State {
    with(state, "ConfigMap", "a", |directives| directives.apply = mode)
}

fn settled(mut state: State, uid: &str, content: &str) -> State {
    let entry = Held { settled: Some(hash(content).to_string().into()), ..held(uid) };
    state.inventory.insert(key("ConfigMap", "a"), entry);
    state
}

#[test]
fn an_object_that_is_wanted_where_there_is_none_is_made_and_never_changed() {
    let base = || mode(State::default().want("ConfigMap", "a", "h1"), ApplyMode::IfAbsent);
    let known = || base().hold("ConfigMap", "a", "u");
    assert_eq!(*only(&base().plan(Presence::Present)), Action::Create);
    assert_eq!(*only(&known().plan(Presence::Present)), Action::Create, "it was deleted: there is none");
    let mut drifted = live("u", "h1");
    drifted.drift = Drift::Differs;
    let mut unlabelled = live("u", "h0");
    unlabelled.proof = false;
    let mut controlled = live("u", "h1");
    controlled.controlled = true;
    for seen in [live("u", "h1"), live("u", "h0"), drifted, unlabelled, controlled] {
        let plan = known().live("ConfigMap", "a", seen).plan(Presence::Present);
        assert_eq!(plan, Plan::default());
    }
    assert_eq!(
        settled(base(), "", "h0").plan(Presence::Present),
        Plan::default(),
        "somebody else's is there"
    );
    // Whether it still is no watch tells: it is looked for now and then, and keeps nothing waiting.
    let state = in_wave(settled(base(), "", "h0"), "ConfigMap", "b", 1);
    let plan = State { revisit: true, delivered: true, ..state }.plan(Presence::Present);
    assert_eq!(acted(&plan), [["a"], ["b"]]);
    assert_eq!(plan.waits, []);
    let ignore = Policy { drift: DriftPolicy::Ignore, ..Policy::default() };
    let plan = State { revisit: true, ..settled(base(), "", "h0") }.plan_under(
        Presence::Present,
        true,
        true,
        ignore,
    );
    assert_eq!(plan, Plan::default());
    let mut dropped = settled(base(), "u", "h1");
    dropped.wants.clear();
    assert_eq!(dropped.plan(Presence::Present).removals.len(), 1);
}

#[test]
fn anothers_object_where_one_is_wanted_if_there_is_none_holds_no_wave_back_however_it_is() {
    let state = mode(in_wave(State::default(), "ConfigMap", "a", -1), ApplyMode::IfAbsent);
    let state = settled(in_wave(state, "ConfigMap", "b", 0), "", "h");
    let of = |uid: &str, proof: bool, held: &str| {
        let mut live = sick(uid, "h");
        (live.proof, live.shared) = (proof, true);
        let state = settled(state.clone(), held, "h").live("ConfigMap", "a", live);
        acted(&state.plan(Presence::Present))
    };
    assert_eq!(of("theirs", false, ""), [["b"]]);
    assert_eq!(of("theirs", false, "u"), [["b"]]);
    assert!(of("u", false, "u").is_empty(), "our own counts by its health");
}

#[test]
fn an_object_that_is_applied_once_is_applied_for_each_content_and_never_again() {
    let base = || mode(State::default().want("ConfigMap", "a", "h1"), ApplyMode::Once);
    assert_eq!(*only(&base().plan(Presence::Present)), Action::Create);
    let mut drifted = live("u", "h1");
    drifted.drift = Drift::Differs;
    assert_eq!(settled(base(), "u", "h1").plan(Presence::Present), Plan::default(), "gone, and done");
    assert_eq!(
        settled(base(), "u", "h1").live("ConfigMap", "a", drifted.clone()).plan(Presence::Present),
        Plan::default()
    );
    // Applied by a life that could not write it down.
    assert_eq!(
        base()
            .hold("ConfigMap", "a", "")
            .live("ConfigMap", "a", drifted)
            .plan(Presence::Present)
            .stages
            .len(),
        0
    );
    // Another content: made again where it is gone, applied where it is there.
    assert_eq!(*only(&settled(base(), "u", "h0").plan(Presence::Present)), Action::Create);
    let changed = settled(base(), "u", "h0").live("ConfigMap", "a", live("u", "h0"));
    let apply = Action::Apply { uid: "u".into(), why: Why::Changed, force: true };
    assert_eq!(*only(&changed.plan(Presence::Present)), apply);
}

#[test]
fn an_object_that_was_applied_once_and_is_gone_holds_no_wave_back() {
    let state = mode(in_wave(State::default(), "ConfigMap", "a", -1), ApplyMode::Once);
    let state = in_wave(state, "ConfigMap", "b", 0);
    assert_eq!(acted(&state.plan(Presence::Present)), [["a"]]);
    assert_eq!(acted(&settled(state.clone(), "u", "h").plan(Presence::Present)), [["b"]]);
    // One that is there counts by its health.
    let failed = settled(state, "u", "h").live("ConfigMap", "a", sick("u", "h"));
    assert!(failed.plan(Presence::Present).stages.is_empty());
}

fn any_directives() -> impl Strategy<Value = Directives> {
    let mode = prop_oneof![
        3 => Just(ApplyMode::Always), 1 => Just(ApplyMode::IfAbsent), 1 => Just(ApplyMode::Once)
    ];
    (-1..2, mode).prop_map(|(wave, apply)| Directives { wave, apply, ..Directives::default() })
}

fn any_waved_state() -> impl Strategy<Value = State> {
    let directives = proptest::collection::vec(any_directives(), 12);
    let marks = proptest::collection::vec(proptest::option::of("h[01]"), 12);
    (any_state(), directives, marks, any::<bool>()).prop_map(|(mut state, directives, marks, delivered)| {
        for (want, directives) in state.wants.values_mut().zip(directives) {
            want.directives = directives;
        }
        for (held, mark) in state.inventory.values_mut().zip(marks) {
            held.settled = mark.map(|content| hash(&content).to_string().into());
        }
        State { delivered, ..state }
    })
}

/// As [`perform`], and the inventory notes what the hub notes.
fn perform_and_note(state: &mut State, plan: &Plan) {
    perform(state, plan);
    for effect in plan.stages.iter().flatten() {
        let (want, held) = (&state.wants[&effect.key], state.inventory.get_mut(&effect.key).unwrap());
        held.wave = want.directives.wave;
        held.settled = (want.directives.apply == ApplyMode::Once).then(|| want.hash.to_string().into());
    }
}

proptest! {
    #[test]
    fn performing_plans_wave_by_wave_soon_leaves_nothing_to_plan(mut state in any_waved_state()) {
        // Three waves of two gates each.
        for _ in 0..7 {
            let plan = state.plan(Presence::Present);
            perform_and_note(&mut state, &plan);
        }
        let again = state.plan(Presence::Present);
        prop_assert!(again.is_empty(), "{:?}", again);
    }

    #[test]
    fn nothing_new_is_applied_behind_an_object_that_is_not_current(state in any_waved_state()) {
        let plan = state.plan(Presence::Present);
        for effect in plan.stages.iter().flatten() {
            let wave = state.wants[&effect.key].directives.wave;
            let news = matches!(&effect.action, Action::Create | Action::Apply { why: Why::Changed, .. });
            for (key, want) in state.wants.iter().filter(|(_, want)| want.directives.wave < wave) {
                let held = state.inventory.get(key);
                // Somebody else's, where one is wanted only if there is none, is all that was asked for.
                let is_anothers = |live: &Live| {
                    let is_own = live.proof || held.is_some_and(|held| held.uid == live.uid);
                    let is_absent = want.directives.apply == ApplyMode::IfAbsent;
                    is_absent && !is_own && held.is_some_and(|held| is_settled(want, held))
                };
                let current = match state.live.get(key) {
                    Some(live) => live.current || is_anothers(live),
                    None => held.is_some_and(|held| is_settled(want, held)),
                };
                let known = state.inventory.get(&effect.key).is_some_and(|held| !held.uid.is_empty());
                let repaired = state.delivered && known && effect.action == Action::Create;
                prop_assert!(!news || current || repaired, "{:?} before {}", effect, key);
            }
        }
    }
}

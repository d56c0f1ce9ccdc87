//! What is left as it is, and what is not, under the policies that repair nothing.

use super::*;

fn under(drift: DriftPolicy, state: &State) -> Plan {
    state.plan_under(Presence::Present, true, true, Policy { drift, ..Policy::default() })
}

/// One ConfigMap of a revision that was delivered whole, known by the uid u.
fn delivered() -> State {
    State { delivered: true, ..State::default().want("ConfigMap", "a", "h1").hold("ConfigMap", "a", "u") }
}

fn seen(change: impl Fn(&mut Live)) -> State {
    let mut live = live("u", "h1");
    change(&mut live);
    delivered().live("ConfigMap", "a", live)
}

fn vanished(applied: Option<&str>, told: bool) -> State {
    let mut state = delivered();
    let known = Vanished { applied: applied.map(hash), told, hidden: false };
    state.vanished.insert(key("ConfigMap", "a"), known);
    state
}

#[test]
fn report_looks_where_nobody_knows_and_writes_nothing() {
    let look = || Some(Action::Look { uid: "u".into() });
    let mut untold = delivered();
    untold.delivered = false;
    let cases = [
        ("values differ", seen(|live| live.drift = Drift::Differs), None),
        ("marks are lost", seen(|live| live.proof = false), None),
        (
            "marks and stamp are lost",
            seen(|live| {
                live.proof = false;
                live.applied = None;
            }),
            None,
        ),
        ("not known without asking", seen(|live| live.drift = Drift::Unsure), look()),
        ("it is being deleted", seen(|live| live.terminating = true), None),
        ("replaced by another", seen(|live| (live.uid, live.proof) = ("other".into(), false)), None),
        ("not shown, after a restart", delivered(), look()),
        ("not shown", vanished(Some("h1"), false), look()),
        ("not shown, and a look has told", vanished(Some("h1"), true), None),
        ("not shown since before a restart, and a look has told", vanished(None, true), None),
        ("not shown, after a restart, and no status tells how it was applied", untold, look()),
    ];
    for (name, state, action) in cases {
        let plan = under(DriftPolicy::Report, &state);
        let planned = plan.stages.iter().flatten().map(|effect| effect.action.clone()).next();
        assert_eq!((planned, plan.waits, plan.refusals), (action, vec![], vec![]), "{name}");
        assert!(under(DriftPolicy::Ignore, &state).is_empty(), "{name}: ignored");
    }
}

#[test]
fn what_is_hidden_is_looked_at_now_and_then_for_no_watch_shows_its_end() {
    for (hidden, revisit) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut state = vanished(Some("h1"), true);
        state.revisit = revisit;
        state.vanished.values_mut().for_each(|known| known.hidden = hidden);
        let plan = under(DriftPolicy::Report, &state);
        let looks = plan.stages.iter().flatten().any(|effect| matches!(effect.action, Action::Look { .. }));
        assert_eq!(looks, hidden && revisit, "{hidden}, {revisit}");
        assert!(under(DriftPolicy::Ignore, &state).is_empty());
    }
}

#[test]
fn what_is_declared_otherwise_is_applied_under_every_policy() {
    let applies = |why, force| Action::Apply { uid: "u".into(), why, force };
    let cases = [
        ("drifted and changed", seen(|live| live.applied = Some(hash("h0"))), applies(Why::Changed, true)),
        ("gone and changed", vanished(Some("h0"), true), applies(Why::Missing, false)),
        ("new", State::default().want("ConfigMap", "a", "h1"), Action::Create),
    ];
    for (name, state, action) in cases {
        for policy in [DriftPolicy::Correct, DriftPolicy::Report, DriftPolicy::Ignore] {
            assert_eq!(*only(&under(policy, &state)), action, "{name}, {policy:?}");
        }
    }
}

#[test]
fn a_revision_that_changes_other_objects_leaves_what_differs_as_it_is() {
    let stampless = |uid: &str, proof| {
        seen(|live| (live.uid, live.proof, live.applied, live.shared) = (uid.into(), proof, None, true))
    };
    let cases = [
        ("gone", vanished(Some("h1"), true)),
        ("its stamp is lost", stampless("u", true)),
        ("its marks and stamp are lost", stampless("u", false)),
        ("another VidraResource has made one of its name", stampless("other", false)),
    ];
    for (name, mut state) in cases {
        state.delivered = false;
        state.before.insert(key("ConfigMap", "a"), Some(hash("h1")));
        let plan = under(DriftPolicy::Report, &state);
        let writes = |effect: &&Effect| !matches!(effect.action, Action::Look { .. });
        assert_eq!(plan.stages.iter().flatten().find(writes), None, "{name}");
        assert!(under(DriftPolicy::Ignore, &state).is_empty(), "{name}: ignored");
        for before in [Some(hash("h0")), None] {
            state.before.insert(key("ConfigMap", "a"), before);
            let plan = under(DriftPolicy::Report, &state);
            assert!(!plan.is_empty(), "{name}, and it is declared otherwise than before, {before:?}");
        }
    }
}

#[test]
fn what_was_dropped_is_removed_under_every_policy() {
    let state = seen(|live| live.drift = Drift::Differs).hold("ConfigMap", "dropped", "d");
    for policy in [DriftPolicy::Report, DriftPolicy::Ignore] {
        assert_eq!(deletions(&under(policy, &state)), 1);
    }
}

#[test]
fn drift_that_is_left_holds_no_wave_back_and_what_is_not_current_does() {
    let two = |state: State| {
        let mut state = state.want("ConfigMap", "b", "h");
        state.wants.get_mut(&key("ConfigMap", "b")).unwrap().directives.wave = 1;
        state
    };
    for policy in [DriftPolicy::Report, DriftPolicy::Ignore] {
        for state in
            [vanished(Some("h1"), true), vanished(None, true), seen(|live| live.drift = Drift::Differs)]
        {
            let plan = under(policy, &two(state));
            assert_eq!((only(&plan).clone(), plan.waits.len()), (Action::Create, 0), "{policy:?}");
        }
        let plan = under(policy, &two(seen(|live| live.current = false)));
        assert!(plan.stages.is_empty() && plan.waits.len() == 1, "{plan:?}");
    }
}

#[test]
fn an_object_that_is_wanted_only_where_there_is_none_is_not_made_again_under_report() {
    let mode = |mut state: State| {
        let want = state.wants.get_mut(&key("ConfigMap", "a")).unwrap();
        want.directives.apply = crate::directives::ApplyMode::IfAbsent;
        state
    };
    let state = mode(vanished(Some("h1"), true));
    assert!(under(DriftPolicy::Report, &state).is_empty());
    assert_eq!(*only(&under(DriftPolicy::Correct, &state)), Action::Create);
}

#[test]
fn what_is_applied_once_and_is_gone_is_made_again_when_it_is_declared_otherwise() {
    let settled = |as_what: &str| {
        let mut state = State { delivered: false, ..delivered() };
        let held = state.inventory.get_mut(&key("ConfigMap", "a")).unwrap();
        held.settled = Some(hash(as_what).to_string().into());
        let want = state.wants.get_mut(&key("ConfigMap", "a")).unwrap();
        want.directives.apply = crate::directives::ApplyMode::Once;
        state
    };
    for policy in [DriftPolicy::Correct, DriftPolicy::Report, DriftPolicy::Ignore] {
        assert!(under(policy, &settled("h1")).is_empty(), "{policy:?}");
        assert_eq!(*only(&under(policy, &settled("h0"))), Action::Create, "{policy:?}");
    }
}

#[test]
fn what_the_hub_has_deleted_is_waited_for_and_made_again_under_every_policy() {
    let going = |mut state: State| {
        state.inventory.get_mut(&key("ConfigMap", "a")).unwrap().going = true;
        state
    };
    let anothers = seen(|live| (live.uid, live.proof) = ("other".into(), false));
    for policy in [DriftPolicy::Correct, DriftPolicy::Report, DriftPolicy::Ignore] {
        for state in [delivered(), vanished(Some("h1"), true), vanished(None, false)] {
            assert_eq!(*only(&under(policy, &going(state))), Action::Create, "{policy:?}");
        }
        let plan = under(policy, &going(seen(|live| live.terminating = true)));
        let waits = vec![Wait::Terminating(key("ConfigMap", "a"))];
        assert_eq!((plan.stages.len(), plan.waits), (0, waits), "{policy:?}");
        // What stays all the same is as any other.
        assert!(under(policy, &going(seen(|_| ()))).is_empty(), "{policy:?}");
        let refused = under(policy, &going(anothers.clone())).refusals;
        assert_eq!(refused, vec![Refusal::NotOurs(key("ConfigMap", "a"))], "{policy:?}");
    }
}

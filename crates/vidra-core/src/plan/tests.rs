//! The rules of planning, as tables, and its great property: a plan that was performed leaves nothing to plan.

mod drift;
mod waves;

use proptest::prelude::*;
use vidra_api::DriftPolicy;

use super::*;
use crate::render::HashKey;

fn gvk(kind: &str) -> Gvk {
    match kind {
        "CustomResourceDefinition" => Gvk::new("apiextensions.k8s.io", "v1", kind),
        "APIService" => Gvk::new("apiregistration.k8s.io", "v1", kind),
        "Deployment" => Gvk::new("apps", "v1", kind),
        _ => Gvk::new("", "v1", kind),
    }
}

fn key(kind: &str, name: &str) -> ObjectKey {
    ObjectKey::new(&gvk(kind), if kind == "Namespace" { "" } else { "shop" }, name)
}

/// The hash of what goes by this name.
fn hash(name: &str) -> DeclaredHash {
    DeclaredHash::of(&name.into(), &HashKey::new([7; 32]))
}

fn want(kind: &str, content: &str) -> Want {
    let gvk = gvk(kind);
    let (stage, directives) = (Stage::of(&gvk), Directives::default());
    Want { gvk, scope: Scope::Namespaced, stage, directives, hash: hash(content), relation: Relation::None }
}

fn held(uid: &str) -> Held {
    Held { version: "v1".into(), uid: uid.into(), ..Held::default() }
}

fn live(uid: &str, content: &str) -> Live {
    Live {
        uid: uid.into(),
        proof: true,
        controlled: false,
        terminating: false,
        shared: false,
        applied: Some(hash(content)),
        drift: Drift::None,
        current: true,
        suspended: false,
    }
}

#[derive(Clone, Debug, Default)]
struct State {
    wants: BTreeMap<ObjectKey, Want>,
    inventory: BTreeMap<ObjectKey, Held>,
    live: BTreeMap<ObjectKey, Live>,
    vanished: BTreeMap<ObjectKey, Vanished>,
    before: BTreeMap<ObjectKey, Option<DeclaredHash>>,
    handovers: BTreeMap<ObjectKey, Handover>,
    delivered: bool,
    unplannable: Option<i32>,
    revisit: bool,
}

impl State {
    fn want(mut self, kind: &str, name: &str, hash: &str) -> Self {
        self.wants.insert(key(kind, name), want(kind, hash));
        self
    }
    fn hold(mut self, kind: &str, name: &str, uid: &str) -> Self {
        self.inventory.insert(key(kind, name), held(uid));
        self
    }
    fn live(mut self, kind: &str, name: &str, live: Live) -> Self {
        self.live.insert(key(kind, name), live);
        self
    }
    fn plan(&self, presence: Presence) -> Plan {
        self.plan_with(presence, true, true)
    }
    fn plan_with(&self, presence: Presence, prune: bool, complete: bool) -> Plan {
        self.plan_under(presence, prune, complete, Policy::default())
    }
    fn plan_under(&self, presence: Presence, prune: bool, complete: bool, policy: Policy) -> Plan {
        let (wants, inventory, live) = (&self.wants, &self.inventory, &self.live);
        let (delivered, unplannable) = (self.delivered, self.unplannable);
        super::plan(&PlanInput {
            presence,
            wants,
            inventory,
            live,
            vanished: &self.vanished,
            before: &self.before,
            handovers: &self.handovers,
            prune,
            complete,
            delivered,
            revisit: self.revisit,
            unplannable,
            may_be_declared: &|_| false,
            policy,
        })
    }
}

/// How an object is to leave its target.
fn mode(effect: &Effect) -> Option<RemovalMode> {
    match effect.action {
        Action::Remove { mode, .. } => Some(mode),
        _ => None,
    }
}

/// How many objects it deletes, as far as can be told without looking at them.
fn deletions(plan: &Plan) -> usize {
    let effects = plan.removals.iter().flatten();
    let deletes =
        |effect: &&Effect| matches!(mode(effect), Some(RemovalMode::Delete | RemovalMode::DeleteEmpty));
    effects.filter(deletes).count()
}

fn only(plan: &Plan) -> &Action {
    assert_eq!(plan.stages.iter().flatten().count(), 1, "{plan:?}");
    &plan.stages[0][0].action
}

#[test]
fn each_object_gets_what_its_state_asks_for() {
    let base = || State::default().want("ConfigMap", "a", "h1");
    let apply = |why, force| Action::Apply { uid: "u".into(), why, force };
    let with = |change: fn(&mut Live)| {
        let mut seen = live("u", "h1");
        change(&mut seen);
        seen
    };
    let cases = [
        ("never seen", base(), Action::Create),
        ("intended, no answer recorded", base().hold("ConfigMap", "a", ""), Action::Create),
        ("known and not shown", base().hold("ConfigMap", "a", "u"), apply(Why::Missing, false)),
        ("declared otherwise", base().live("ConfigMap", "a", live("u", "h0")), apply(Why::Changed, true)),
        (
            "values differ",
            base().live("ConfigMap", "a", with(|seen| seen.drift = Drift::Differs)),
            apply(Why::Drifted, true),
        ),
        (
            "not known without asking",
            base().live("ConfigMap", "a", with(|seen| seen.drift = Drift::Unsure)),
            Action::Verify { uid: "u".into(), force: true },
        ),
        (
            "another resource alone holds some of it",
            base().live("ConfigMap", "a", with(|seen| seen.drift = Drift::HeldByOther)),
            Action::Verify { uid: "u".into(), force: true },
        ),
        (
            "another resource applies it too: no force",
            base().live(
                "ConfigMap",
                "a",
                with(|seen| {
                    seen.drift = Drift::Differs;
                    seen.shared = true;
                }),
            ),
            apply(Why::Drifted, false),
        ),
        (
            "proved by its uid alone",
            base().hold("ConfigMap", "a", "u").live(
                "ConfigMap",
                "a",
                with(|seen| {
                    seen.proof = false;
                    seen.applied = None;
                }),
            ),
            apply(Why::Changed, true),
        ),
        (
            "proved by its uid alone, with our values and without our label",
            base().hold("ConfigMap", "a", "u").live("ConfigMap", "a", with(|seen| seen.proof = false)),
            apply(Why::Drifted, true),
        ),
    ];
    for (name, state, action) in cases {
        assert_eq!(*only(&state.plan(Presence::Present)), action, "{name}");
    }
    let settled = base().hold("ConfigMap", "a", "u").live("ConfigMap", "a", live("u", "h1"));
    assert_eq!(settled.plan(Presence::Present), Plan::default());
}

#[test]
fn what_is_not_provably_ours_is_never_written() {
    let mut foreign = live("u", "h1");
    foreign.proof = false;
    let state = State::default().want("ConfigMap", "a", "h2").live("ConfigMap", "a", foreign.clone());
    let plan = state.plan(Presence::Present);
    assert!(plan.stages.is_empty());
    assert_eq!(plan.refusals, [Refusal::NotOurs(key("ConfigMap", "a"))]);
    // The inventory knows another uid under this name: that one is gone, this one is somebody else's.
    let replaced = state.hold("ConfigMap", "a", "old").plan(Presence::Present);
    assert!(replaced.stages.is_empty(), "{replaced:?}");
    let mut controlled = live("u", "h0");
    controlled.controlled = true;
    let state = State::default().want("ConfigMap", "a", "h1").live("ConfigMap", "a", controlled);
    assert_eq!(state.plan(Presence::Present).refusals, [Refusal::Controlled(key("ConfigMap", "a"))]);
}

#[test]
fn what_may_be_taken_over_is_tried_as_new_and_nothing_of_a_controller_is() {
    let policy = Policy { adopt: true, ..Policy::default() };
    let state = |change: fn(&mut Live)| {
        let mut seen = Live { proof: false, ..live("u", "h1") };
        change(&mut seen);
        State::default().want("ConfigMap", "a", "h2").live("ConfigMap", "a", seen)
    };
    let plan = |state: State| state.plan_under(Presence::Present, true, true, policy);
    assert_eq!(*only(&plan(state(|_| {}))), Action::Create);
    let controlled = plan(state(|seen| seen.controlled = true));
    assert_eq!(controlled.refusals, [Refusal::Controlled(key("ConfigMap", "a"))]);
    let dying = plan(state(|seen| seen.terminating = true));
    assert_eq!(dying.waits, [Wait::Terminating(key("ConfigMap", "a"))]);
    assert!(controlled.stages.is_empty() && dying.stages.is_empty());
}

#[test]
fn where_fields_are_not_to_be_taken_no_apply_is_forced() {
    let policy = Policy { force: false, ..Policy::default() };
    for drift in [Drift::Differs, Drift::Unsure] {
        let seen = Live { drift, ..live("u", "h1") };
        let state = State::default().want("ConfigMap", "a", "h1").live("ConfigMap", "a", seen);
        let plan = state.plan_under(Presence::Present, true, true, policy);
        let forced =
            matches!(only(&plan), Action::Apply { force: true, .. } | Action::Verify { force: true, .. });
        assert!(!forced, "{plan:?}");
    }
}

#[test]
fn a_terminating_object_is_waited_for() {
    let mut dying = live("u", "h0");
    dying.terminating = true;
    let plan =
        State::default().want("ConfigMap", "a", "h1").live("ConfigMap", "a", dying).plan(Presence::Present);
    assert!(plan.stages.is_empty());
    assert_eq!(plan.waits, [Wait::Terminating(key("ConfigMap", "a"))]);
}

#[test]
fn kinds_and_namespaces_come_first_and_the_rest_waits_for_them() {
    let crd = "CustomResourceDefinition";
    let state = State::default().want("Deployment", "d", "h").want(crd, "c", "h").want("ConfigMap", "m", "h");
    let plan = state.plan(Presence::Present);
    assert_eq!(plan.stages.len(), 1);
    assert_eq!(plan.waits, [Wait::NotCurrent(key(crd, "c"))]);
    assert_eq!(plan.intent.as_ref().map(BTreeSet::len), Some(3), "all of it is intended beforehand");
    let mut young = live("u", "h");
    young.current = false;
    let waiting = state.clone().live(crd, "c", young).plan(Presence::Present);
    assert!(waiting.stages.is_empty() && !waiting.waits.is_empty(), "{waiting:?}");
    let ready = state.live(crd, "c", live("u", "h")).plan(Presence::Present);
    let kinds: Vec<_> = ready.stages.iter().flatten().map(|effect| &*effect.gvk.kind).collect();
    assert_eq!(kinds, ["ConfigMap", "Deployment"]);
}

#[test]
fn only_what_the_inventory_holds_is_removed_and_only_when_all_is_known() {
    let state = State::default()
        .want("ConfigMap", "kept", "h")
        .live("ConfigMap", "kept", live("k", "h"))
        .hold("ConfigMap", "kept", "k")
        .hold("ConfigMap", "dropped", "d")
        .live("ConfigMap", "stray", live("s", "h"));
    let removed = |plan: Plan| -> Vec<ObjectKey> {
        plan.removals.into_iter().flatten().map(|effect| effect.key).collect()
    };
    assert_eq!(removed(state.plan(Presence::Present)), [key("ConfigMap", "dropped")]);
    assert_eq!(removed(state.plan_with(Presence::Present, false, true)), []);
    assert_eq!(removed(state.plan_with(Presence::Present, true, false)), []);
}

#[test]
fn an_object_that_another_declared_key_resolves_to_is_not_removed() {
    // core and events.k8s.io Events share one uid.
    let state = State::default()
        .want("ConfigMap", "new", "h")
        .live("ConfigMap", "new", live("same", "h"))
        .hold("ConfigMap", "new", "same")
        .hold("Secret", "old", "same");
    assert!(state.plan(Presence::Present).removals.is_empty());
}

#[test]
fn teardown_is_the_reverse_of_applying_and_keeps_what_others_may_live_in() {
    let state = State::default()
        .hold("Namespace", "n", "1")
        .hold("ConfigMap", "m", "2")
        .hold("Deployment", "d", "3")
        .hold("CustomResourceDefinition", "c", "4");
    let plan = state.plan(Presence::Absent);
    let order: Vec<_> = plan.removals.iter().flatten().map(|effect| &*effect.gvk.kind).collect();
    assert_eq!(order[..2], ["Deployment", "ConfigMap"]);
    for effect in plan.removals.iter().flatten() {
        let kept = matches!(&*effect.gvk.kind, "Namespace" | "CustomResourceDefinition");
        assert_eq!(mode(effect) == Some(RemovalMode::Release), kept, "{effect:?}");
    }
    let when_empty = Policy { when_empty: true, ..Policy::default() };
    let emptied = state.plan_under(Presence::Absent, true, true, when_empty);
    for effect in emptied.removals.iter().flatten() {
        let asks = matches!(&*effect.gvk.kind, "Namespace" | "CustomResourceDefinition");
        assert_eq!(mode(effect) == Some(RemovalMode::DeleteEmpty), asks, "{effect:?}");
    }
    assert_eq!((deletions(&plan), deletions(&emptied)), (2, 4));
    let orphaned = state.plan_under(Presence::Orphaned, true, true, when_empty);
    assert_eq!(deletions(&orphaned), 0);
    assert!(orphaned.removals.iter().flatten().all(|effect| mode(effect) == Some(RemovalMode::Release)));
}

#[test]
fn what_another_one_declares_is_not_removed_and_is_left_to_it_once_it_applies_it() {
    let awaited = || Handover::Awaited("second".into());
    for presence in [Presence::Present, Presence::Absent, Presence::Orphaned] {
        let mut state = State::default();
        for name in ["alone", "early", "wanted", "taken", "unclaimed", "unseen", "unknown"] {
            state = state.hold("ConfigMap", name, name).live("ConfigMap", name, live(name, "h"));
        }
        state = state.hold("Namespace", "inside", "inside");
        for (name, handover) in
            [("early", Handover::Delayed), ("wanted", awaited()), ("taken", Handover::Done)]
        {
            state.handovers.insert(key("ConfigMap", name), handover);
        }
        state.handovers.insert(key("ConfigMap", "unclaimed"), Handover::Unclaimed);
        let (unseen, unknown) = (Handover::Unseen(Box::new(awaited())), Handover::Unknown("second".into()));
        state.handovers.insert(key("ConfigMap", "unseen"), unseen.clone());
        state.handovers.insert(key("ConfigMap", "unknown"), unknown.clone());
        state.handovers.insert(key("Namespace", "inside"), Handover::Done);
        let plan = state.plan(presence);
        let effects: Vec<_> =
            plan.removals.iter().flatten().map(|effect| (&*effect.key.name, &effect.action)).collect();
        let remove = |uid: &str, mode| Action::Remove { uid: uid.into(), mode };
        assert_eq!(effects.len(), 5, "{presence:?}: {effects:?}");
        let yields = remove("unseen", RemovalMode::Yield { as_is: presence == Presence::Orphaned });
        assert!(effects.contains(&("unseen", &yields)), "{effects:?}");
        assert!(effects.contains(&("unclaimed", &remove("unclaimed", RemovalMode::Release))), "{effects:?}");
        let part = |uid: &str| match presence {
            Presence::Orphaned => remove(uid, RemovalMode::Release),
            _ => remove(uid, RemovalMode::Withdraw),
        };
        assert!(effects.contains(&("taken", &part("taken"))), "{effects:?}");
        assert!(effects.contains(&("inside", &part("inside"))), "{effects:?}");
        assert!(effects.iter().any(|(name, _)| *name == "alone"));
        assert_eq!(
            deletions(&plan),
            usize::from(presence != Presence::Orphaned),
            "what is left to another is no loss"
        );
        let stays =
            [("early", Handover::Delayed), ("wanted", awaited()), ("unseen", unseen), ("unknown", unknown)];
        let stays = stays.map(|(name, handover)| (key("ConfigMap", name), handover));
        assert_eq!(plan.stays, BTreeMap::from(stays));
    }
}

/// Performs a plan as a member would that answers every call.
fn perform(state: &mut State, plan: &Plan) {
    if let Some(keys) = &plan.intent {
        for key in keys {
            state.inventory.entry(key.clone()).or_insert_with(|| held(""));
        }
    }
    for effect in plan.stages.iter().flatten() {
        let applied = Some(state.wants[&effect.key].hash);
        if let Action::Look { .. } = effect.action {
            match state.live.get_mut(&effect.key) {
                Some(live) => live.drift = Drift::Differs,
                None => state.vanished.entry(effect.key.clone()).or_default().told = true,
            }
            continue;
        }
        let uid = match &effect.action {
            Action::Apply { uid, why: Why::Changed | Why::Drifted, .. } | Action::Verify { uid, .. } => {
                uid.clone()
            }
            _ => Uid::from(&*format!("new-{}", effect.key)),
        };
        let before = state.live.get(&effect.key);
        let current = before.is_none_or(|live| live.current);
        let shared = before.is_some_and(|live| live.shared);
        let now = Live { uid: uid.clone(), current, shared, applied, ..live("", "") };
        state.live.insert(effect.key.clone(), now);
        state.inventory.insert(effect.key.clone(), Held { uid, ..held("") });
    }
    for effect in plan.removals.iter().flatten() {
        state.live.remove(&effect.key);
        state.inventory.remove(&effect.key);
    }
}

fn any_live() -> impl Strategy<Value = Live> {
    let drift =
        prop_oneof![Just(Drift::None), Just(Drift::HeldByOther), Just(Drift::Differs), Just(Drift::Unsure)];
    let flags = proptest::array::uniform6(any::<bool>());
    (flags, drift, "[ab]", prop_oneof![Just(None), "h[01]".prop_map(|content| Some(hash(&content)))])
        .prop_map(|([proof, controlled, terminating, shared, current, suspended], drift, uid, applied)| {
            Live {
                uid: Uid::from(&*uid),
                proof,
                controlled,
                terminating,
                shared,
                applied,
                drift,
                current,
                suspended: suspended && !current,
            }
        })
}

fn any_state() -> impl Strategy<Value = State> {
    let kind = prop_oneof![
        Just("Namespace"),
        Just("ConfigMap"),
        Just("Deployment"),
        Just("CustomResourceDefinition")
    ];
    let object = (kind, "[a-c]", any::<[bool; 2]>(), "h[01]", "[ab]?", proptest::option::of(any_live()));
    (proptest::collection::vec(object, 0..12), any::<bool>()).prop_map(|(objects, delivered)| {
        objects.into_iter().fold(
            State { delivered, ..State::default() },
            |mut state, (kind, name, [wanted, known], hash, uid, seen)| {
                if wanted {
                    state = state.want(kind, &name, &hash);
                }
                if known {
                    state = state.hold(kind, &name, &uid);
                }
                if let Some(seen) = seen {
                    state = state.live(kind, &name, seen);
                }
                state
            },
        )
    })
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let drift = prop_oneof![Just(DriftPolicy::Correct), Just(DriftPolicy::Report), Just(DriftPolicy::Ignore)];
    (any::<[bool; 3]>(), drift).prop_map(|([adopt, force, when_empty], drift)| Policy {
        adopt,
        force,
        when_empty,
        drift,
    })
}

proptest! {
    #[test]
    fn performing_plans_soon_leaves_nothing_to_plan(mut state in any_state(), policy in any_policy(), presence in prop_oneof![
        Just(Presence::Present), Just(Presence::Absent), Just(Presence::Orphaned)
    ]) {
        if presence != Presence::Present {
            state.wants.clear();
        }
        // One plan for each gate: foundations, then the rest.
        for _ in 0..3 {
            let plan = state.plan_under(presence, true, true, policy);
            perform(&mut state, &plan);
        }
        let again = state.plan_under(presence, true, true, policy);
        prop_assert!(again.is_empty(), "{:?}", again);
    }

    #[test]
    fn no_plan_acts_on_what_is_foreign_or_removes_what_the_inventory_does_not_hold(
        state in any_state(), policy in any_policy()
    ) {
        for presence in [Presence::Present, Presence::Absent, Presence::Orphaned] {
            let plan = state.plan_under(presence, true, true, policy);
            for effect in plan.removals.iter().flatten() {
                prop_assert!(state.inventory.contains_key(&effect.key));
                prop_assert!(!state.wants.contains_key(&effect.key));
            }
            for effect in plan.stages.iter().flatten() {
                let Some(seen) = state.live.get(&effect.key) else { continue };
                let known = state.inventory.get(&effect.key).is_some_and(|held| held.uid == seen.uid);
                let create_only = effect.action == Action::Create;
                prop_assert!(create_only || seen.proof || known, "{:?}", effect);
                prop_assert!(!seen.controlled && !seen.terminating, "{:?}", effect);
            }
        }
    }
}

#[test]
fn what_a_declaration_drops_is_told_whatever_is_waited_for() {
    let dropped = |plan: &Plan| plan.drops.keys().map(|key| key.name.to_string()).collect::<Vec<_>>();
    let hold_all = |state: State| {
        let held = |state: State, name: &str| state.hold("ConfigMap", name, name);
        ["a", "b", "c", "d"].into_iter().fold(state, held)
    };
    let new = || State::default().want("ConfigMap", "new", "h");
    let moved = || hold_all(new().want("Namespace", "n", "n"));
    let all = ["a", "b", "c", "d"];
    let waits = moved().plan(Presence::Present);
    assert!(!waits.waits.is_empty() && waits.removals.is_empty(), "a Namespace comes first: {waits:?}");
    assert_eq!(dropped(&waits), all);
    let mut refused = hold_all(new());
    refused.live.insert(key("ConfigMap", "new"), Live { proof: false, ..live("foreign", "h") });
    let refused = refused.plan(Presence::Present);
    assert!(!refused.refusals.is_empty(), "{refused:?}");
    assert_eq!(dropped(&refused), all);
    assert_eq!(
        dropped(&moved().plan_with(Presence::Present, true, false)),
        all,
        "another kind cannot be seen"
    );
    assert_eq!(dropped(&moved().plan_with(Presence::Present, false, true)), [""; 0], "nothing is pruned");
    assert_eq!(dropped(&moved().plan(Presence::Absent)), [""; 0], "it is no revision that drops them");
    let mut taken = moved();
    for (name, handover) in [
        ("a", Handover::Done),
        ("b", Handover::Awaited("second".into())),
        ("c", Handover::Unseen(Box::new(Handover::Unknown("second".into())))),
        ("d", Handover::Delayed),
    ] {
        taken.handovers.insert(key("ConfigMap", name), handover);
    }
    assert_eq!(dropped(&taken.plan(Presence::Present)), ["c", "d"], "what others take over is no loss");
}

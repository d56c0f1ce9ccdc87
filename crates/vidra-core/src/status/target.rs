//! The status of one target.

use std::time::Duration;

use vidra_api::{
    Change, ConditionStatus, Corrections, DriftState, Feedback, OverrideInputs, RemovingObjects, TargetState,
    Time, VidraTarget, VidraTargetStatus, clip,
    condition::{READY, STALLED},
    find, set_condition,
    target::MESSAGE_MAX,
};

use super::{
    changes::{Changes, changes},
    progress::{self, Awaited},
    reason::Reason,
    unproven::Unproven,
    unready::Unready,
};
use crate::{
    contention::Told,
    mutants::{self, Mutant},
};

/// Condition of a VidraTarget: what its inventory held is gone or released, and the inventory is empty.
pub const TORN_DOWN: &str = "TornDown";

/// How delivery to the member went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Everything declared was applied.
    Applied,
    /// It goes on by itself, not yet everything was done.
    Waiting {
        /// Why.
        reason: Reason,
        /// For what.
        message: String,
    },
    /// Something could not be done.
    Failed {
        /// Why.
        reason: Reason,
        /// What, where, and what to do.
        message: String,
        /// It will not move without a person.
        stalled: bool,
    },
    /// The member does not answer, or is not to be written to: what is there is not known.
    Unreachable {
        /// Why.
        reason: Reason,
        /// Why, and what to do.
        message: String,
    },
    /// A person suspended it, its VidraResource or its member.
    Suspended {
        /// Which, and what to do.
        message: String,
    },
    /// The member does not allow the namespace any more: it is left as it is, and nobody waits for it.
    Revoked {
        /// Where, and what to do.
        message: String,
    },
    /// Objects are being removed or released.
    TearingDown {
        /// Why.
        reason: Reason,
        /// What is waited for.
        message: String,
    },
    /// Nothing of it is left.
    TornDown,
}

/// What a target's status is made from.
#[derive(Clone, Debug)]
pub struct TargetFacts<'a> {
    /// The VidraTarget's generation that was acted on.
    pub generation: i64,
    /// The revision that was acted on.
    pub revision: &'a str,
    /// The namespace that was acted on.
    pub namespace: &'a str,
    /// The inputs of overrides that were acted on.
    pub overrides: Option<&'a OverrideInputs>,
    /// How often it had been to go and was wanted again.
    pub recalls: i32,
    /// It is to be removed or released.
    pub leaving: bool,
    /// How delivery went.
    pub delivery: Delivery,
    /// Objects in the target.
    pub objects: i64,
    /// Of these, healthy.
    pub ready: i64,
    /// Of these, suspended.
    pub suspended: i64,
    /// Of the healthy ones, those of which nothing shows it. `None`: that is not known of all yet.
    pub unproven: Option<Unproven>,
    /// What is otherwise than it was delivered, detected now. `None`: nobody asks.
    pub found: Option<Vec<Change>>,
    /// What was repaired since the status before, with the time.
    pub corrections: Vec<Change>,
    /// Entries of `changes`, at most.
    pub changes_max: usize,
    /// Repairs that somebody undoes again and again.
    pub contention: Option<Told>,
    /// Declared objects that are not healthy.
    pub unready: Unready,
    /// Objects that are declared no more and are still there.
    pub removing: Option<RemovingObjects>,
    /// Corrections made in this pass.
    pub corrected: i64,
    /// What rules of feedback give. `None`: nobody has looked.
    pub feedback: Option<Feedback>,
    /// All of the target was compared with the member.
    pub compared: bool,
    /// The member does not serve a kind of it: whether its objects are as declared, nobody knows.
    pub unserved: bool,
    /// The highest generation of the VidraResource at which an object was applied.
    pub applied_generation: i64,
    /// What is waited for, if it is health.
    pub awaited: Option<Awaited>,
    /// How long that may take.
    pub timeout: Duration,
    /// Now.
    pub now: Time,
}

/// Makes the status that follows `before`.
pub fn target_status(before: &VidraTargetStatus, facts: &TargetFacts<'_>) -> VidraTargetStatus {
    let mut status = before.clone();
    status.progress = progress::next(before, facts);
    let (state, reason, message) = match progress::late(status.progress.as_ref(), facts) {
        Some(late) => late,
        None => state(facts),
    };
    status.observed_generation = Some(facts.generation);
    status.ready_revision = ready_revision(before, (state, reason), facts);
    if status.state != Some(state) {
        status.since = Some(facts.now.clone());
    }
    status.state = Some(state);
    status.reason = Some(reason.to_string());
    status.message = (!message.is_empty()).then(|| clip(&message, MESSAGE_MAX));
    let known = !matches!(
        facts.delivery,
        Delivery::Unreachable { .. } | Delivery::Suspended { .. } | Delivery::Revoked { .. }
    );
    if known {
        (status.objects, status.ready) = (facts.objects, facts.ready);
        status.suspended = facts.suspended;
        status.unproven = facts.unproven.as_ref().map_or(status.unproven.take(), Unproven::entry);
        (status.unready, status.unready_total) = (facts.unready.entries(), facts.unready.total());
        status.removing = facts.removing.clone().map(|removing| RemovingObjects {
            message: removing.message.map(|message| clip(&message, MESSAGE_MAX)),
            ..removing
        });
    }
    if facts.leaving {
        // They are to go, whatever they were.
        (status.unready, status.unready_total) = (Vec::new(), None);
        (status.suspended, status.unproven, status.removing) = (0, None, None);
    }
    if facts.delivery == Delivery::Applied && !facts.leaving {
        status.revision = Some(facts.revision.to_owned());
        status.namespace = Some(facts.namespace.to_owned());
        status.overrides = facts.overrides.cloned();
        status.recalls = facts.recalls;
        status.applied_generation = Some(facts.applied_generation);
    }
    feedback(&mut status, facts);
    let compared = known && facts.compared && facts.found.is_some();
    drift(&mut status, facts, compared);
    // What is found is drift, whatever became of the rest; where nothing is, that says something only of a target that
    // was delivered whole.
    let delivered = status.revision.is_some() && !facts.unserved;
    status.drift = Some(match (compared, status.drifted > 0, delivered) {
        (true, true, _) => DriftState::Drifted,
        (true, false, true) => DriftState::InSync,
        _ => DriftState::Unknown,
    });
    if facts.corrected > 0 {
        let count = status.corrections.as_ref().map_or(0, |corrections| corrections.count);
        status.corrections =
            Some(Corrections { count: count + facts.corrected, last: Some(facts.now.clone()) });
    }
    conditions(&mut status, facts, state, reason, &message);
    status
}

/// What was Ready is noted when it ends: that alone writes nothing. It is no more where objects have failed, whatever else
/// there is to tell, or where something else, or a part of it, may be there: another revision, or the same one in another
/// namespace or with other inputs. A call that fails says nothing of either.
fn ready_revision(
    before: &VidraTargetStatus,
    (state, reason): (TargetState, Reason),
    facts: &TargetFacts<'_>,
) -> Option<String> {
    let is_seen =
        matches!(facts.delivery, Delivery::Applied | Delivery::Waiting { .. } | Delivery::Failed { .. });
    let has_failed = reason == Reason::HealthCheckTimeout
        || matches!(facts.unready.first(), Some((TargetState::Failed, ..)));
    let is_other = before.revision.as_deref() != Some(facts.revision)
        || progress::has_other_inputs(before, facts) && !mutants::is(Mutant::OtherInputsWereReady);
    match (before.state, state) {
        (_, TargetState::Ready) => None,
        _ if is_seen && has_failed && !mutants::is(Mutant::FailedWasReady) => None,
        _ if is_seen && is_other && !mutants::is(Mutant::HalfWasReady) => None,
        (Some(TargetState::Ready), _) => before.revision.clone(),
        _ => before.ready_revision.clone(),
    }
}

/// What was last known stands while nobody can look.
fn drift(status: &mut VidraTargetStatus, facts: &TargetFacts<'_>, compared: bool) {
    let now = match &facts.found {
        Some(found) if !facts.leaving => {
            let is_open = |change: &&Change| change.corrected.is_none();
            let found = match compared {
                true => found.clone(),
                false if facts.corrections.is_empty() => return,
                false => status.changes.iter().filter(is_open).cloned().collect(),
            };
            changes(&status.changes, found, facts.corrections.clone(), facts.changes_max)
        }
        _ => Changes::default(),
    };
    (status.changes, status.changes_total, status.drifted) = (now.entries, now.total, now.drifted);
}

/// What was last known stands while nobody can look, with its time.
fn feedback(status: &mut VidraTargetStatus, facts: &TargetFacts<'_>) {
    match &facts.feedback {
        _ if facts.leaving => (status.feedback, status.feedback_at) = (None, None),
        Some(now) => {
            status.feedback = Some(now.clone()).filter(|now| !now.is_empty());
            status.feedback_at = None;
        }
        None if status.feedback.is_some() && status.feedback_at.is_none() => {
            status.feedback_at = Some(facts.now.clone());
        }
        None => {}
    }
}

/// What others make of a target's status is the same as before: what came back from its member, and what nothing shows, is
/// nobody's but a reader's.
pub fn tells_the_same(before: Option<&VidraTargetStatus>, now: Option<&VidraTargetStatus>) -> bool {
    let without = |status: &VidraTargetStatus| VidraTargetStatus {
        feedback: None,
        feedback_at: None,
        unproven: None,
        ..status.clone()
    };
    before == now || before.map(without) == now.map(without)
}

/// Nothing is another but how objects that are not well describe that themselves.
pub fn tells_other_words(before: &VidraTargetStatus, now: &VidraTargetStatus) -> bool {
    let is_of_health = matches!(
        Reason::of(now),
        Some(
            Reason::ObjectsProgressing
                | Reason::ObjectFailed
                | Reason::HealthCheckTimeout
                | Reason::WaitingForWave
                | Reason::WaitingForObject
        )
    );
    let without = |status: &VidraTargetStatus| {
        let mut status = VidraTargetStatus { message: None, ..status.clone() };
        status.unready.iter_mut().for_each(|one| one.note = None);
        status.conditions.iter_mut().for_each(|condition| condition.message.clear());
        status
    };
    is_of_health && tells_the_same(Some(&without(before)), Some(&without(now)))
}

/// The member is free of this target, as of its current generation.
pub fn is_torn_down(target: &VidraTarget) -> bool {
    let generation = target.metadata.generation.unwrap_or_default();
    target.status.as_ref().is_some_and(|status| {
        status.observed_generation == Some(generation)
            && find(&status.conditions, TORN_DOWN).is_some_and(|condition| condition.status == "True")
    })
}

/// A target that says this is left as it is, for its member does not allow the namespace any more: nobody waits for it.
pub fn is_revoked(state: Option<TargetState>, reason: Option<Reason>) -> bool {
    state == Some(TargetState::Suspended) && reason == Some(Reason::NamespaceNotAllowed)
}

fn conditions(
    status: &mut VidraTargetStatus,
    facts: &TargetFacts<'_>,
    state: TargetState,
    reason: Reason,
    message: &str,
) {
    let ready = match state {
        TargetState::Ready => ConditionStatus::True,
        TargetState::Unknown => ConditionStatus::Unknown,
        _ => ConditionStatus::False,
    };
    let stalled = match (&facts.delivery, &facts.contention) {
        (Delivery::Failed { stalled: true, .. }, _) => Some((reason, message)),
        (Delivery::Applied | Delivery::Waiting { .. } | Delivery::Failed { .. }, Some(told)) => {
            Some((Reason::Contention, &*told.message))
        }
        _ => None,
    };
    let generation = Some(facts.generation);
    let mut set = |type_: &str, value: ConditionStatus, reason: Reason, message: &str| {
        let (reason, now) = (reason.as_str(), facts.now.clone());
        set_condition(&mut status.conditions, type_, value, reason, message, generation, now)
    };
    set(READY, ready, reason, message);
    match stalled {
        Some((reason, message)) => set(STALLED, ConditionStatus::True, reason, message),
        None => set(STALLED, ConditionStatus::False, Reason::Moving, ""),
    };
    if facts.delivery == Delivery::TornDown {
        set(TORN_DOWN, ConditionStatus::True, Reason::Removed, "");
    } else {
        status.conditions.retain(|condition| condition.type_ != TORN_DOWN);
    }
}

pub(super) fn state(facts: &TargetFacts<'_>) -> (TargetState, Reason, String) {
    match &facts.delivery {
        Delivery::Suspended { message } => (TargetState::Suspended, Reason::Suspended, message.clone()),
        Delivery::Revoked { message } => {
            (TargetState::Suspended, Reason::NamespaceNotAllowed, message.clone())
        }
        Delivery::TornDown => (TargetState::Terminating, Reason::Removed, String::new()),
        Delivery::TearingDown { reason, message } => (TargetState::Terminating, *reason, message.clone()),
        Delivery::Unreachable { reason, message } if facts.leaving => {
            (TargetState::Terminating, *reason, message.clone())
        }
        Delivery::Unreachable { reason, message } => (TargetState::Unknown, *reason, message.clone()),
        Delivery::Applied | Delivery::Waiting { .. } if let Some(told) = unrepaired(facts) => {
            (TargetState::Failed, Reason::Contention, told.message.clone())
        }
        Delivery::Waiting { reason, message } => match facts.unready.first() {
            // What it waits for does not come by itself: nobody has to wait for the time-out to hear that.
            Some((TargetState::Failed, failed, why))
                if matches!(reason, Reason::WaitingForWave | Reason::WaitingForObject) =>
            {
                (TargetState::Failed, failed, format!("{why}; what comes after it is not applied"))
            }
            Some((TargetState::Failed, failed, why)) if *reason == Reason::ObjectTerminating => {
                (TargetState::Failed, failed, format!("{why}; {message}"))
            }
            _ => (TargetState::Waiting, *reason, message.clone()),
        },
        Delivery::Failed { reason, message, .. } => (TargetState::Failed, *reason, message.clone()),
        Delivery::Applied => {
            facts.unready.first().unwrap_or((TargetState::Ready, Reason::Ready, String::new()))
        }
    }
}

/// Contention in which an object is left as somebody else made it.
fn unrepaired<'a>(facts: &'a TargetFacts<'_>) -> Option<&'a Told> {
    facts.contention.as_ref().filter(|told| told.unrepaired)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{health::HealthStatus, status::unready};
    use k8s_openapi::jiff::Timestamp;
    use vidra_api::VidraTargetSpec;

    pub(in crate::status) fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    pub(in crate::status) fn facts(delivery: Delivery, second: i64) -> TargetFacts<'static> {
        TargetFacts {
            generation: 3,
            revision: "r1",
            namespace: "shop",
            overrides: None,
            recalls: 0,
            leaving: false,
            delivery,
            objects: 2,
            ready: 2,
            suspended: 0,
            unproven: Some(Unproven::default()),
            found: Some(Vec::new()),
            corrections: Vec::new(),
            changes_max: 100,
            contention: None,
            unready: Unready::default(),
            removing: None,
            corrected: 0,
            feedback: None,
            compared: true,
            unserved: false,
            applied_generation: 7,
            awaited: None,
            timeout: Duration::from_secs(300),
            now: at(second),
        }
    }

    fn suspended() -> Delivery {
        Delivery::Suspended { message: "why".into() }
    }

    #[test]
    fn equal_facts_give_an_equal_status_however_late() {
        let first = target_status(&VidraTargetStatus::default(), &facts(Delivery::Applied, 10));
        let second = target_status(&first, &facts(Delivery::Applied, 999));
        assert_eq!(first, second);
        assert_eq!((first.state, first.since), (Some(TargetState::Ready), Some(at(10))));
    }

    #[test]
    fn a_member_that_is_silent_is_unknown_and_keeps_what_was_known() {
        let before = target_status(&VidraTargetStatus::default(), &facts(Delivery::Applied, 10));
        let silent = Delivery::Unreachable { reason: Reason::NoAnswer, message: "no answer".into() };
        let after =
            target_status(&before, &TargetFacts { objects: 0, ready: 0, ..facts(silent.clone(), 50) });
        assert_eq!((after.state, after.drift), (Some(TargetState::Unknown), Some(DriftState::Unknown)));
        assert_eq!((after.objects, after.revision.as_deref(), after.since), (2, Some("r1"), Some(at(50))));
        let leaving = target_status(&before, &TargetFacts { leaving: true, ..facts(silent, 50) });
        assert_eq!(leaving.state, Some(TargetState::Terminating));
    }

    #[test]
    fn how_many_are_unproven_stands_until_that_is_known_and_is_nobodys_but_a_readers() {
        let of = |unproven| TargetFacts { unproven, ..facts(Delivery::Applied, 10) };
        let mut one = Unproven::default();
        let gvk = crate::object::Gvk::new("example.com", "v1", "Widget");
        one.add(&crate::object::ObjectKey::new(&gvk, "shop", "a"));
        let none = target_status(&VidraTargetStatus::default(), &of(Some(Unproven::default())));
        let first = target_status(&none, &of(Some(one)));
        assert_eq!(
            (none.unproven.clone(), first.unproven.as_ref().map(|told| told.objects)),
            (None, Some(1))
        );
        assert!(first != none && tells_the_same(Some(&none), Some(&first)));
        assert_eq!(
            target_status(&first, &of(None)),
            first,
            "a process that has just begun knows nothing yet"
        );
        let silent = Delivery::Unreachable { reason: Reason::NoAnswer, message: String::new() };
        let lost = target_status(&first, &TargetFacts { delivery: silent, ..of(Some(Unproven::default())) });
        assert_eq!(lost.unproven, first.unproven);
        assert_eq!(target_status(&first, &TargetFacts { leaving: true, ..of(None) }).unproven, None);
    }

    #[test]
    fn what_was_ready_last_is_noted_when_it_ends_and_stands_until_it_is_ready_again() {
        let first = target_status(&VidraTargetStatus::default(), &facts(Delivery::Applied, 10));
        assert_eq!(first.ready_revision, None);
        let late = || TargetFacts {
            unready: unready::tests::one("web", HealthStatus::InProgress),
            ..facts(Delivery::Applied, 20)
        };
        let after = target_status(&first, &late());
        assert_eq!(
            (after.state, after.ready_revision.as_deref()),
            (Some(TargetState::Progressing), Some("r1"))
        );
        let silent = Delivery::Unreachable { reason: Reason::NoAnswer, message: String::new() };
        let lost = target_status(&after, &facts(silent, 30));
        assert_eq!(lost.ready_revision.as_deref(), Some("r1"));
        let next = target_status(&lost, &TargetFacts { revision: "r2", ..late() });
        assert_eq!((next.revision.as_deref(), next.ready_revision.as_deref()), (Some("r2"), None));
        assert_eq!(target_status(&next, &facts(Delivery::Applied, 40)).ready_revision, None);
        let never = target_status(&VidraTargetStatus::default(), &late());
        assert_eq!(never.ready_revision, None);
        // A call that fails says nothing of what is there; what has failed there does.
        let refused =
            || Delivery::Failed { reason: Reason::NoAnswer, message: String::new(), stalled: false };
        let told = target_status(&after, &facts(refused(), 30));
        assert_eq!((told.state, told.ready_revision.as_deref()), (Some(TargetState::Failed), Some("r1")));
        let failed = || TargetFacts { unready: unready::tests::one("web", HealthStatus::Failed), ..late() };
        let timed_out = TargetFacts { awaited: Some(0.into()), timeout: Duration::ZERO, ..late() };
        let beside = |delivery| TargetFacts { delivery, ..failed() };
        let ends = Delivery::Waiting { reason: Reason::ObjectTerminating, message: String::new() };
        for facts in [failed(), timed_out, beside(ends), beside(refused())] {
            for before in [&first, &after] {
                assert_eq!(target_status(before, &facts).ready_revision, None, "{:?}", facts.delivery);
            }
        }
        // Of another revision a part was applied, and then it was taken back.
        let wave = Delivery::Waiting { reason: Reason::WaitingForWave, message: String::new() };
        let half = target_status(&first, &TargetFacts { revision: "r2", ..facts(wave, 20) });
        assert_eq!((half.revision.as_deref(), half.ready_revision), (Some("r1"), None));
        // The same revision in another namespace, or with other inputs, was not Ready.
        let inputs = OverrideInputs::default();
        for other in [
            TargetFacts { namespace: "elsewhere", ..late() },
            TargetFacts { overrides: Some(&inputs), ..late() },
            TargetFacts { recalls: 1, ..late() },
        ] {
            let moved = target_status(&first, &other);
            assert_eq!((moved.revision.as_deref(), moved.ready_revision), (Some("r1"), None));
        }
    }

    #[test]
    fn where_a_kind_is_not_served_any_more_nobody_says_that_all_is_as_declared() {
        let before = target_status(&VidraTargetStatus::default(), &facts(Delivery::Applied, 10));
        let failed =
            || Delivery::Failed { reason: Reason::KindUnknown, message: String::new(), stalled: true };
        let unserved = || TargetFacts { unserved: true, ..facts(failed(), 50) };
        assert_eq!(target_status(&before, &unserved()).drift, Some(DriftState::Unknown));
        let drifted = target_status(&before, &TargetFacts { found: Some(vec![changed("a")]), ..unserved() });
        assert_eq!(drifted.drift, Some(DriftState::Drifted), "what is found is drift all the same");
    }

    #[test]
    fn ready_is_told_only_when_everything_is_applied_and_healthy() {
        let cases = [
            (Delivery::Applied, None, TargetState::Ready),
            (Delivery::Applied, Some(HealthStatus::InProgress), TargetState::Progressing),
            (Delivery::Applied, Some(HealthStatus::Failed), TargetState::Failed),
            (
                Delivery::Waiting { reason: Reason::ListFailed, message: String::new() },
                None,
                TargetState::Waiting,
            ),
            (suspended(), None, TargetState::Suspended),
        ];
        for (delivery, health, state) in cases {
            let unready = health.map_or_else(Unready::default, |health| unready::tests::one("web", health));
            let status = target_status(
                &VidraTargetStatus::default(),
                &TargetFacts { unready, ..facts(delivery.clone(), 1) },
            );
            assert_eq!(status.state, Some(state), "{delivery:?}");
            let ready = find(&status.conditions, READY).unwrap();
            assert_eq!(ready.status == "True", state == TargetState::Ready, "{delivery:?}");
        }
    }

    #[test]
    fn what_is_pruned_is_told_beside_the_state_stands_while_nobody_can_look_and_ends_when_all_is_to_go() {
        let message = Some("w".repeat(2000));
        let going = RemovingObjects { objects: 2, reason: "Finalizers".into(), message };
        let pruning = TargetFacts { removing: Some(going), ..facts(Delivery::Applied, 1) };
        let first = target_status(&VidraTargetStatus::default(), &pruning);
        assert_eq!(first.state, Some(TargetState::Ready), "what is declared is there");
        let told = first.removing.clone().unwrap();
        assert_eq!((told.objects, told.message.map(|text| text.chars().count())), (2, Some(MESSAGE_MAX)));
        let silent = || Delivery::Unreachable { reason: Reason::NoAnswer, message: String::new() };
        let revoked = Delivery::Revoked { message: "not allowed".into() };
        for delivery in [silent(), suspended(), revoked] {
            assert_eq!(target_status(&first, &facts(delivery, 5)).removing, first.removing);
        }
        let leaving = TargetFacts { leaving: true, ..facts(silent(), 5) };
        for facts in [leaving, facts(Delivery::Applied, 5)] {
            assert_eq!(target_status(&first, &facts).removing, None);
        }
    }

    #[test]
    fn corrections_add_up_and_a_teardown_counts_for_its_generation_only() {
        let first = target_status(
            &VidraTargetStatus::default(),
            &TargetFacts { corrected: 2, ..facts(Delivery::Applied, 1) },
        );
        let second = target_status(&first, &TargetFacts { corrected: 1, ..facts(Delivery::Applied, 9) });
        assert_eq!(second.corrections, Some(Corrections { count: 3, last: Some(at(9)) }));
        let gone = target_status(&second, &facts(Delivery::TornDown, 10));
        let is_torn_down = |status: &VidraTargetStatus, generation| {
            let mut target = VidraTarget::new("shop.berlin", VidraTargetSpec::default());
            (target.metadata.generation, target.status) = (Some(generation), Some(status.clone()));
            is_torn_down(&target)
        };
        assert!(is_torn_down(&gone, 3) && !is_torn_down(&gone, 4));
        let back = target_status(&gone, &facts(Delivery::Applied, 11));
        assert!(!is_torn_down(&back, 3));
    }

    fn changed(name: &str) -> Change {
        let text = format!(
            r#"{{"version": "v1", "kind": "ConfigMap", "name": "{name}", "change": "Modified", "detectedAt": "1970-01-01T00:00:05Z"}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn drift_is_told_beside_the_state_and_stands_while_nobody_can_look() {
        let found = |names: &[&str]| Some(names.iter().map(|name| changed(name)).collect());
        let drifted = target_status(
            &VidraTargetStatus::default(),
            &TargetFacts { found: found(&["a", "b"]), ..facts(Delivery::Applied, 5) },
        );
        assert_eq!((drifted.state, drifted.drift), (Some(TargetState::Ready), Some(DriftState::Drifted)));
        assert_eq!((drifted.drifted, drifted.changes.len()), (2, 2));
        let silent = Delivery::Unreachable { reason: Reason::NoAnswer, message: "no answer".into() };
        let unknown = target_status(&drifted, &TargetFacts { compared: false, ..facts(silent, 50) });
        assert_eq!(
            (unknown.drift, unknown.drifted, unknown.changes.len()),
            (Some(DriftState::Unknown), 2, 2)
        );
        let ignored = target_status(&drifted, &TargetFacts { found: None, ..facts(Delivery::Applied, 60) });
        assert_eq!(
            (ignored.drift, ignored.drifted, ignored.changes.len()),
            (Some(DriftState::Unknown), 0, 0)
        );
        let back = target_status(&drifted, &facts(Delivery::Applied, 70));
        assert_eq!((back.drift, back.changes.len()), (Some(DriftState::InSync), 0));
    }

    #[test]
    fn feedback_stands_with_its_time_while_nobody_can_look_and_is_no_news_to_others() {
        let values = |left_out| Some(Feedback { left_out, ..Feedback::default() });
        let with = |feedback, second| TargetFacts { feedback, ..facts(Delivery::Applied, second) };
        let first = target_status(&VidraTargetStatus::default(), &with(values(1), 5));
        assert_eq!((&first.feedback, &first.feedback_at), (&values(1), &None));
        let silent = || Delivery::Unreachable { reason: Reason::NoAnswer, message: String::new() };
        let lost = target_status(&first, &facts(silent(), 10));
        assert_eq!((&lost.feedback, &lost.feedback_at), (&values(1), &Some(at(10))));
        assert_eq!(target_status(&lost, &facts(silent(), 20)).feedback_at, Some(at(10)));
        let back = target_status(&lost, &with(values(2), 30));
        assert_eq!((&back.feedback, &back.feedback_at), (&values(2), &None));
        assert!(tells_the_same(Some(&first), Some(&back)) == (first.since == back.since));
        let other = target_status(&back, &with(values(3), 40));
        assert!(tells_the_same(Some(&back), Some(&other)) && back != other);
        assert!(!tells_the_same(Some(&first), Some(&lost)) && !tells_the_same(None, Some(&first)));
        let none = target_status(&other, &with(Some(Feedback::default()), 50));
        let leaving = target_status(&lost, &TargetFacts { leaving: true, ..facts(silent(), 50) });
        for gone in [none, leaving, target_status(&VidraTargetStatus::default(), &facts(silent(), 5))] {
            assert_eq!((gone.feedback, gone.feedback_at), (None, None));
        }
    }

    #[test]
    fn what_is_found_is_drift_though_the_rest_was_never_delivered() {
        let refused =
            || Delivery::Failed { reason: Reason::AlreadyExists, message: "no".into(), stalled: true };
        let cases = [
            (Delivery::Applied, false, true, 1, DriftState::Drifted),
            (Delivery::Applied, false, true, 0, DriftState::InSync),
            (refused(), false, true, 1, DriftState::Drifted),
            (refused(), false, true, 0, DriftState::Unknown),
            (refused(), false, false, 1, DriftState::Unknown),
            (refused(), true, true, 1, DriftState::Drifted),
            (refused(), true, true, 0, DriftState::InSync),
        ];
        for (delivery, whole_before, compared, found, drift) in cases {
            let before = match whole_before {
                true => target_status(&VidraTargetStatus::default(), &facts(Delivery::Applied, 1)),
                false => VidraTargetStatus::default(),
            };
            let found = Some((0..found).map(|number| changed(&number.to_string())).collect());
            let case = format!("{delivery:?}, before: {whole_before}, compared: {compared}, {found:?}");
            let state = if delivery == Delivery::Applied { TargetState::Ready } else { TargetState::Failed };
            let status = target_status(&before, &TargetFacts { found, compared, ..facts(delivery, 5) });
            assert_eq!((status.drift, status.state), (Some(drift), Some(state)), "{case}");
        }
    }

    #[test]
    fn other_words_of_an_object_are_told_apart_from_all_else() {
        let says = |words: &str, health, delivery| {
            let unready = unready::tests::one_that_says("web", health, words);
            target_status(&VidraTargetStatus::default(), &TargetFacts { unready, ..facts(delivery, 1) })
        };
        let way = HealthStatus::InProgress;
        let first = says("asks", way, Delivery::Applied);
        assert!(tells_other_words(&first, &says("asks again", way, Delivery::Applied)));
        assert!(!tells_other_words(&first, &says("asks", HealthStatus::Failed, Delivery::Applied)));
        let refused = |words: &str| {
            let why = Delivery::Failed { reason: Reason::Invalid, message: words.to_owned(), stalled: true };
            says("asks", way, why)
        };
        assert!(!tells_other_words(&refused("no"), &refused("never")), "the words are the hub's");
    }

    #[test]
    fn what_has_failed_is_told_at_once_though_what_comes_after_it_waits() {
        let waits = |reason| Delivery::Waiting { reason, message: "wave 1 waits for web".to_owned() };
        let (wave, listing) = (Reason::WaitingForWave, Reason::ListFailed);
        for (reason, health, state, told) in [
            (wave, HealthStatus::Failed, TargetState::Failed, "ObjectFailed"),
            (Reason::WaitingForObject, HealthStatus::Failed, TargetState::Failed, "ObjectFailed"),
            (Reason::ObjectTerminating, HealthStatus::Failed, TargetState::Failed, "ObjectFailed"),
            (Reason::ObjectTerminating, HealthStatus::InProgress, TargetState::Waiting, "ObjectTerminating"),
            (wave, HealthStatus::InProgress, TargetState::Waiting, "WaitingForWave"),
            (listing, HealthStatus::Failed, TargetState::Waiting, "ListFailed"),
        ] {
            let facts =
                TargetFacts { unready: unready::tests::one("web", health), ..facts(waits(reason), 1) };
            let status = target_status(&VidraTargetStatus::default(), &facts);
            assert_eq!((status.state, status.reason.as_deref()), (Some(state), Some(told)), "{reason:?}");
        }
    }

    #[test]
    fn a_fight_stalls_its_target_and_fails_it_only_while_something_is_not_repaired() {
        let told = |unrepaired| Some(Told { message: "bob did it".into(), unrepaired });
        let waiting = Delivery::Waiting { reason: Reason::WaitingForWave, message: String::new() };
        let refused = Delivery::Failed { reason: Reason::Invalid, message: "no".into(), stalled: true };
        let silent = Delivery::Unreachable { reason: Reason::NoAnswer, message: String::new() };
        let cases = [
            (Delivery::Applied, true, TargetState::Failed, "Contention", Some("Contention")),
            (Delivery::Applied, false, TargetState::Ready, "Ready", Some("Contention")),
            (waiting.clone(), true, TargetState::Failed, "Contention", Some("Contention")),
            (waiting, false, TargetState::Waiting, "WaitingForWave", Some("Contention")),
            (refused, true, TargetState::Failed, "Invalid", Some("Invalid")),
            (silent, true, TargetState::Unknown, "NoAnswer", None),
            (suspended(), true, TargetState::Suspended, "Suspended", None),
            (
                Delivery::Revoked { message: String::new() },
                true,
                TargetState::Suspended,
                "NamespaceNotAllowed",
                None,
            ),
        ];
        for (delivery, unrepaired, state, reason, stalled) in cases {
            let facts = TargetFacts {
                contention: told(unrepaired),
                found: Some(if unrepaired { vec![changed("a")] } else { Vec::new() }),
                ..facts(delivery.clone(), 1)
            };
            let status = target_status(&VidraTargetStatus::default(), &facts);
            assert_eq!((status.state, status.reason.as_deref()), (Some(state), Some(reason)), "{delivery:?}");
            let found = find(&status.conditions, STALLED).unwrap();
            let seen = (found.status == "True").then_some(found.reason.as_str());
            assert_eq!(seen, stalled, "{delivery:?}, unrepaired: {unrepaired}");
            let over = target_status(&status, &self::facts(Delivery::Applied, 9));
            assert_eq!(find(&over.conditions, STALLED).unwrap().status, "False", "{delivery:?}");
        }
    }
}

//! How long a target has waited for objects to become healthy: a function of what its status recorded, so
//! that a new process counts on, and of nothing that moves by itself.

use std::time::Duration;

use vidra_api::{Progress, TargetState, Time, VidraTargetStatus};

use super::{
    reason::Reason,
    target::{Delivery, TargetFacts, state},
};
use crate::{duration::told, object::ObjectKey};

/// What of a target is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The wave up to which the revision is applied.
    pub wave: i32,
    /// The object of it for which the rest waits; `None`: nothing is held back.
    pub gate: Option<ObjectKey>,
}

impl From<i32> for Awaited {
    fn from(wave: i32) -> Self {
        Self { wave, gate: None }
    }
}

/// What is waited for now: since it was first waited for, as far as that is the same wave of the same revision.
///
/// While the member is out of reach, or calls fail, nobody can get healthy in the hub's eyes: the time counts
/// again after it.
pub(super) fn next(before: &VidraTargetStatus, facts: &TargetFacts<'_>) -> Option<Progress> {
    let waits = match &facts.delivery {
        Delivery::Applied => facts.unready.is_waited_for() && !facts.leaving,
        Delivery::Waiting { .. } => !facts.leaving,
        _ => false,
    };
    let wave = facts.awaited.as_ref().filter(|_| waits)?.wave;
    let known = before.progress.as_ref().filter(|_| !is_moved(before, facts));
    let same = known.filter(|known| known.revision == facts.revision && known.wave == wave);
    Some(same.cloned().unwrap_or_else(|| Progress {
        revision: facts.revision.to_owned(),
        wave,
        since: Some(facts.now.clone()),
    }))
}

/// This is the first status of a spec in which the revision that was applied whole is for another namespace, or with
/// other inputs: something else is waited for.
fn is_moved(before: &VidraTargetStatus, facts: &TargetFacts<'_>) -> bool {
    before.observed_generation != Some(facts.generation)
        && before.revision.as_deref() == Some(facts.revision)
        && has_other_inputs(before, facts)
}

/// What was applied whole last is for another namespace, or has other inputs than what is wanted now.
pub(super) fn has_other_inputs(before: &VidraTargetStatus, facts: &TargetFacts<'_>) -> bool {
    before.namespace.as_ref().is_some_and(|namespace| {
        (namespace.as_str(), before.overrides.as_ref(), before.recalls)
            != (facts.namespace, facts.overrides, facts.recalls)
    })
}

/// State, reason and message of a target that has waited for too long. What has failed already says so itself.
pub(super) fn late(
    progress: Option<&Progress>,
    facts: &TargetFacts<'_>,
) -> Option<(TargetState, Reason, String)> {
    let progress = progress?;
    if !left(progress, facts.timeout, &facts.now)?.is_zero() {
        return None;
    }
    let (TargetState::Progressing | TargetState::Waiting, _, message) = state(facts) else { return None };
    // No instant: it differs by cluster, and those that say the same are told together.
    let timeout = told(facts.timeout);
    let gate = facts.awaited.as_ref().and_then(|awaited| awaited.gate.as_ref());
    let first = match facts.unready.is_unjudged(gate) {
        true => "correct what keeps it from being judged; ",
        false => "",
    };
    let message = format!(
        "{message}; waited for longer than reconcile.timeout ({timeout}); {first}to go on without its health, annotate it in the manifest with vidra.dev/wait-for: Nothing"
    );
    Some((TargetState::Failed, Reason::HealthCheckTimeout, message))
}

/// How long until the time is over; zero when it is, `None` when nothing is waited for.
pub fn left(progress: &Progress, timeout: Duration, now: &Time) -> Option<Duration> {
    let waited = now.0.duration_since(progress.since.as_ref()?.0);
    // A clock that was set back: from here on.
    let waited = Duration::try_from(waited).unwrap_or_default();
    Some(timeout.saturating_sub(waited))
}

#[cfg(test)]
mod tests {
    use vidra_api::{OverrideInputs, condition::STALLED, find};

    use super::*;
    use crate::directives::WaitFor;
    use crate::health::HealthStatus;
    use crate::status::target::{self, tests::at};
    use crate::status::target_status;
    use crate::status::unready::{self, Unready};

    fn facts(delivery: Delivery, unready: Option<HealthStatus>, second: i64) -> TargetFacts<'static> {
        TargetFacts {
            ready: 1,
            unready: unready.map_or_else(Unready::default, |health| unready::tests::one("web", health)),
            awaited: Some(0.into()),
            ..target::tests::facts(delivery, second)
        }
    }

    fn waiting() -> Delivery {
        Delivery::Waiting { reason: Reason::WaitingForWave, message: "wave 1 waits".into() }
    }

    #[test]
    fn an_object_that_is_late_is_named_with_the_limit_and_recovers() {
        let late = |second| facts(Delivery::Applied, Some(HealthStatus::InProgress), second);
        let first = target_status(&VidraTargetStatus::default(), &late(1000));
        assert_eq!(first.state, Some(TargetState::Progressing));
        let almost = target_status(&first, &late(1299));
        assert_eq!(almost, first, "nothing moves by itself");
        let over = target_status(&first, &late(1300));
        assert_eq!(
            (over.state, over.reason.as_deref()),
            (Some(TargetState::Failed), Some("HealthCheckTimeout"))
        );
        let message = over.message.clone().unwrap();
        assert!(
            message.contains("Deployment.apps shop/web is not ready")
                && message.contains("reconcile.timeout (5m)")
                && message.contains("annotate it in the manifest with vidra.dev/wait-for: Nothing"),
            "{message}"
        );
        let unjudged = |second| facts(Delivery::Applied, Some(HealthStatus::Unknown), second);
        let advice = |status: &VidraTargetStatus| status.message.clone().unwrap_or_default();
        let told =
            target_status(&target_status(&VidraTargetStatus::default(), &unjudged(1000)), &unjudged(1300));
        assert!(advice(&told).contains("; correct what keeps it from being judged; to go on"), "{told:?}");
        // The message names another object.
        let mut both = late(1300);
        both.unready.add(&unready::tests::key("z"), HealthStatus::Unknown, None, WaitFor::Health);
        let told = target_status(&first, &both);
        assert!(
            advice(&told).contains("shop/web is not ready") && !advice(&told).contains("correct"),
            "{told:?}"
        );
        let gate = |name| {
            let awaited = || Some(Awaited { wave: 0, gate: Some(unready::tests::key(name)) });
            let after = |before: &VidraTargetStatus, second| {
                let facts =
                    TargetFacts { delivery: waiting(), awaited: awaited(), now: at(second), ..both.clone() };
                target_status(before, &facts)
            };
            advice(&after(&after(&VidraTargetStatus::default(), 1000), 1300))
        };
        assert_eq!(["web", "z"].map(|name| gate(name).contains("correct what keeps")), [false, true]);
        assert!(!advice(&over).contains("correct"), "{over:?}");
        // Clusters that wait for the same are told together, whenever each began.
        let later = target_status(&VidraTargetStatus::default(), &late(2000));
        assert_eq!(target_status(&later, &late(2345)).message, Some(message));
        assert_eq!(find(&over.conditions, STALLED).unwrap().status, "False");
        assert_eq!(target_status(&over, &late(9000)), over);
        let well = target_status(&over, &facts(Delivery::Applied, None, 9001));
        assert_eq!((well.state, well.progress), (Some(TargetState::Ready), None));
    }

    #[test]
    fn each_wave_of_each_revision_has_its_own_time() {
        let first = target_status(&VidraTargetStatus::default(), &facts(waiting(), None, 1000));
        let since = |status: &VidraTargetStatus| status.progress.clone().and_then(|progress| progress.since);
        assert_eq!(since(&first), Some(at(1000)));
        let next =
            target_status(&first, &TargetFacts { awaited: Some(1.into()), ..facts(waiting(), None, 1250) });
        assert_eq!(since(&next), Some(at(1250)));
        let other = target_status(&next, &TargetFacts { revision: "r2", ..facts(waiting(), None, 1260) });
        assert_eq!(since(&other), Some(at(1260)));
        assert_eq!(other.state, Some(TargetState::Waiting));
        let over = target_status(&other, &TargetFacts { revision: "r2", ..facts(waiting(), None, 1560) });
        assert_eq!(over.reason.as_deref(), Some("HealthCheckTimeout"));
    }

    #[test]
    fn what_was_applied_whole_elsewhere_or_with_other_inputs_says_nothing_of_the_time_that_it_takes_now() {
        let late = |second| facts(Delivery::Applied, Some(HealthStatus::InProgress), second);
        let first = target_status(&VidraTargetStatus::default(), &late(1000));
        let over = target_status(&first, &late(1300));
        assert_eq!(over.reason.as_deref(), Some("HealthCheckTimeout"));
        let inputs = OverrideInputs::default();
        let now = |case: usize, second: i64| {
            let same = TargetFacts { generation: 4, ..late(second) };
            match case {
                0 => TargetFacts { namespace: "elsewhere", ..same },
                1 => TargetFacts { overrides: Some(&inputs), ..same },
                2 => TargetFacts { namespace: "elsewhere", delivery: waiting(), ..same },
                _ => same,
            }
        };
        for (case, begins) in [true, true, true, false].into_iter().enumerate() {
            let facts = |second| now(case, second);
            let status = target_status(&over, &facts(1301));
            let is_late = |status: &VidraTargetStatus| status.reason.as_deref() == Some("HealthCheckTimeout");
            assert_eq!(is_late(&status), !begins, "{status:?}");
            assert_eq!(target_status(&status, &facts(1302)), status, "nothing moves by itself");
            assert!(is_late(&target_status(&status, &facts(1602))), "but the time ends");
        }
    }

    #[test]
    fn what_is_not_a_wait_for_health_ends_the_time_and_is_never_late() {
        let begun = target_status(&VidraTargetStatus::default(), &facts(waiting(), None, 1000));
        let gone = Delivery::Unreachable { reason: Reason::NoAnswer, message: String::new() };
        let refused = Delivery::Failed { reason: Reason::Invalid, message: String::new(), stalled: true };
        let other = Delivery::Waiting { reason: Reason::NoAnswer, message: String::new() };
        let cases = [
            (facts(gone, None, 2000), "NoAnswer"),
            (facts(refused, None, 2000), "Invalid"),
            (TargetFacts { awaited: None, ..facts(other, None, 2000) }, "NoAnswer"),
            (facts(Delivery::Applied, None, 2000), "Ready"),
        ];
        for (facts, reason) in cases {
            let status = target_status(&begun, &facts);
            assert_eq!((status.reason.as_deref(), status.progress), (Some(reason), None));
        }
        let dead = target_status(&begun, &facts(Delivery::Applied, Some(HealthStatus::Failed), 2000));
        assert_eq!(dead.reason.as_deref(), Some("ObjectFailed"), "its own failure says more");
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nobody_late() {
        let progress = Progress { revision: "r".into(), wave: 0, since: Some(at(1000)) };
        let timeout = Duration::from_secs(300);
        assert_eq!(left(&progress, timeout, &at(500)), Some(timeout));
        assert_eq!(left(&progress, timeout, &at(1100)), Some(Duration::from_secs(200)));
        assert_eq!(left(&progress, timeout, &at(5000)), Some(Duration::ZERO));
    }
}

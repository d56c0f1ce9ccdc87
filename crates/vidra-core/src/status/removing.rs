//! The condition Removing of a VidraResource: what still goes, on how many targets, and why it is not gone yet.
//!
//! A reason that the target loop writes into `status.removing` of a VidraTarget needs nothing here, unless it passes by
//! itself: then it belongs into [`BY_ITSELF`].

use std::collections::BTreeMap;

use vidra_api::{ConditionStatus, DesiredState, TargetState, VidraTarget};

use super::{
    reason::{Reason, StatusReason},
    target::{is_revoked, is_torn_down},
};
use crate::first_of::{count, first_of};

/// Reasons that pass by themselves, the slowest first: they are told behind all others.
const BY_ITSELF: [Reason; 5] =
    [Reason::HandingOver, Reason::Finalizers, Reason::Settling, Reason::PruneDelayed, Reason::Removing];
/// So many clusters are named for a reason.
const NAMED: usize = 10;

/// What still goes of one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Going {
    /// How many objects, as far as is known.
    pub objects: i64,
    /// Why they are still there.
    pub reason: StatusReason,
    /// Why, in a sentence; may be empty.
    pub message: String,
}

/// What still goes of a target: all that it has where it is to go, else what it has no more of in its revision.
pub fn going(target: &VidraTarget) -> Option<Going> {
    let status = target.status.clone().unwrap_or_default();
    let generation = target.metadata.generation;
    let told = (StatusReason::from(status.reason.unwrap_or_default()), status.message.unwrap_or_default());
    match target.spec.desired {
        // It stays as it is.
        DesiredState::Forgotten => None,
        DesiredState::Present => {
            let going = status.removing?;
            // It stays for as long as the namespace is not allowed.
            if is_revoked(status.state, told.0.known()) {
                return None;
            }
            // Nobody can look, or is to: what was known stands.
            let (reason, message) = match status.state {
                Some(TargetState::Unknown | TargetState::Suspended) => told,
                _ => (going.reason.into(), going.message.unwrap_or_default()),
            };
            Some(Going { objects: going.objects, reason, message })
        }
        DesiredState::Absent | DesiredState::Orphaned => {
            let (objects, observed) = (status.objects, status.observed_generation);
            let (reason, message) = match observed == generation && !told.0.as_str().is_empty() {
                true => told,
                false => (Reason::Removing.into(), String::new()),
            };
            (!is_torn_down(target)).then_some(Going { objects, reason, message })
        }
    }
}

/// Whether a target says for this reason that its member cannot be worked with at all.
pub fn is_out_of_reach(reason: Reason) -> bool {
    use Reason::{IdentityNotConfirmed, MemberMissing, MemberUnreachable, NoCredentials};
    matches!(reason, MemberUnreachable | NoCredentials | IdentityNotConfirmed | MemberMissing)
}

/// Status, reason and message of the condition, from what goes of each target, with its cluster.
pub fn removing<'a>(
    all: impl IntoIterator<Item = (&'a str, &'a Going)>,
) -> (ConditionStatus, String, String) {
    let mut by_reason: BTreeMap<(usize, &str), BTreeMap<&str, &Going>> = BTreeMap::new();
    let (mut objects, mut targets) = (0_i64, 0_usize);
    for (cluster, going) in all {
        (objects, targets) = (objects.saturating_add(going.objects), targets + 1);
        let is_one = |one: &Reason| going.reason.known() == Some(*one);
        let slow = BY_ITSELF.iter().position(is_one).map_or(0, |place| place + 1);
        by_reason.entry((slow, going.reason.as_str())).or_default().insert(cluster, going);
    }
    let Some(((_, first), _)) = by_reason.first_key_value() else {
        return (ConditionStatus::False, Reason::Nothing.to_string(), String::new());
    };
    let first = (*first).to_owned();
    let mut message = format!("still to go: {} on {}", count(objects, "object"), count(targets, "target"));
    for ((_, reason), clusters) in by_reason {
        message.push_str(&format!("; {reason} on {}", first_of(clusters.keys(), NAMED)));
        // Of several the first says what it is like.
        if let Some(going) = clusters.values().find(|going| !going.message.is_empty()) {
            message.push_str(&format!(": {}", going.message));
        }
    }
    (ConditionStatus::True, first, message)
}

#[cfg(test)]
mod tests {
    use vidra_api::{
        RemovingObjects, VidraTargetSpec, VidraTargetStatus, condition::CONDITION_MESSAGE_MAX, set_condition,
    };

    use super::*;
    use crate::status::{TORN_DOWN, target::tests::at};

    fn target(desired: DesiredState, status: VidraTargetStatus) -> VidraTarget {
        let mut target =
            VidraTarget::new("shop.berlin", VidraTargetSpec { desired, ..VidraTargetSpec::default() });
        target.metadata.generation = Some(2);
        target.status = Some(VidraTargetStatus { observed_generation: Some(2), objects: 3, ..status });
        target
    }

    fn says(state: TargetState, reason: &str, message: &str) -> VidraTargetStatus {
        let (reason, message) = (Some(reason.to_owned()), Some(message.to_owned()));
        VidraTargetStatus { state: Some(state), reason, message, ..VidraTargetStatus::default() }
    }

    fn of(objects: i64, reason: &str, message: &str) -> Going {
        Going { objects, reason: reason.to_owned().into(), message: message.into() }
    }

    #[test]
    fn of_a_target_that_leaves_all_goes_and_of_one_that_stays_what_it_says() {
        use TargetState::{Failed, Ready, Suspended, Terminating, Unknown};
        let pruned = |status: VidraTargetStatus| {
            let message = Some("waiting".to_owned());
            let removing = RemovingObjects { objects: 1, reason: "Finalizers".into(), message };
            VidraTargetStatus { removing: Some(removing), ..status }
        };
        let mut gone = says(Terminating, "Removed", "");
        set_condition(&mut gone.conditions, TORN_DOWN, true, "Removed", "", None, at(1));
        let silent = |state| says(state, "MemberUnreachable", "no answer");
        let fresh = VidraTargetStatus::default;
        let cases = [
            (DesiredState::Present, says(Ready, "Ready", ""), None),
            (DesiredState::Present, pruned(says(Ready, "Ready", "")), Some(of(1, "Finalizers", "waiting"))),
            (
                DesiredState::Present,
                pruned(says(Failed, "Invalid", "no")),
                Some(of(1, "Finalizers", "waiting")),
            ),
            (DesiredState::Present, pruned(silent(Unknown)), Some(of(1, "MemberUnreachable", "no answer"))),
            (DesiredState::Present, pruned(says(Suspended, "Suspended", "")), Some(of(1, "Suspended", ""))),
            (DesiredState::Present, pruned(says(Suspended, "NamespaceNotAllowed", "no")), None),
            (DesiredState::Absent, silent(Terminating), Some(of(3, "MemberUnreachable", "no answer"))),
            (DesiredState::Orphaned, says(Failed, "Forbidden", "no"), Some(of(3, "Forbidden", "no"))),
            (DesiredState::Absent, fresh(), Some(of(3, "Removing", ""))),
            (DesiredState::Absent, gone, None),
            (DesiredState::Forgotten, silent(Terminating), None),
        ];
        for (desired, status, expected) in cases {
            let target = target(desired, status);
            assert_eq!(going(&target), expected, "{target:?}");
        }
        // What it said before it was told to go says nothing of its going.
        let mut turned = target(DesiredState::Absent, says(Ready, "Ready", ""));
        turned.metadata.generation = Some(3);
        assert_eq!(going(&turned), Some(of(3, "Removing", "")));
        turned.status = None;
        assert_eq!(going(&turned), Some(of(0, "Removing", "")));
    }

    #[test]
    fn the_condition_says_how_many_where_and_why_and_what_needs_a_person_first() {
        let none: [(&str, &Going); 0] = [];
        assert_eq!(removing(none), (ConditionStatus::False, "Nothing".into(), String::new()));
        let all = [
            ("tokyo", of(2, "Removing", "")),
            ("berlin", of(1, "Finalizers", "waiting until ConfigMap shop/a is gone")),
            ("cairo", of(4, "MemberUnreachable", "no answer")),
            ("austin", of(3, "MemberUnreachable", "")),
        ];
        let of_all = |count: usize| removing(all[..count].iter().map(|(cluster, going)| (*cluster, going)));
        let (status, reason, message) = of_all(4);
        assert_eq!((status, reason.as_str()), (ConditionStatus::True, "MemberUnreachable"));
        assert_eq!(
            message,
            "still to go: 10 objects on 4 targets; MemberUnreachable on austin, cairo: no answer; \
             Finalizers on berlin: waiting until ConfigMap shop/a is gone; Removing on tokyo"
        );
        assert_eq!(of_all(2).1, "Finalizers");
        assert_eq!(of_all(1).2, "still to go: 2 objects on 1 target; Removing on tokyo");
        let mut backwards: Vec<_> = all.iter().map(|(cluster, going)| (*cluster, going)).collect();
        backwards.reverse();
        assert_eq!(removing(backwards), of_all(4), "the order does not matter");
    }

    #[test]
    fn of_many_targets_a_few_are_named() {
        let names: Vec<String> = (0..500).map(|number| format!("cluster-{number:03}")).collect();
        let one = of(1, "Forbidden", &"x".repeat(1024));
        let (_, _, message) = removing(names.iter().map(|name| (name.as_str(), &one)));
        assert!(message.contains("cluster-009 and 490 more: x") && !message.contains("cluster-010"));
        assert!(message.chars().count() < CONDITION_MESSAGE_MAX);
    }
}

//! Reading and setting `metav1.Condition`s in a status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// Longest message of a condition in characters. Kubernetes allows 32768; a status holds several.
pub const CONDITION_MESSAGE_MAX: usize = 4096;

/// Every target has this generation's revision, applied and healthy; a member: the hub can deliver.
pub const READY: &str = "Ready";
/// Work is under way.
pub const RECONCILING: &str = "Reconciling";
/// It will not move without a person.
pub const STALLED: &str = "Stalled";
/// Some target differs from what is declared.
pub const DRIFTED: &str = "Drifted";
/// Something is still to go: a target, or objects of one.
pub const REMOVING: &str = "Removing";
/// A path of `spec.drift.ignore` matches nothing that is declared, on any member. Not there when all match.
pub const IGNORE_UNMATCHED: &str = "IgnoreUnmatched";
/// A rule of `spec.statusFeedback` cannot be used, or matches nothing that is declared. Not there when all do.
pub const FEEDBACK_INCOMPLETE: &str = "FeedbackIncomplete";
/// The member's API server answers.
pub const REACHABLE: &str = "Reachable";
/// The member accepts the registered credentials.
pub const CREDENTIALS_VALID: &str = "CredentialsValid";
/// The member is the cluster that joined under this name.
pub const IDENTITY_CONFIRMED: &str = "IdentityConfirmed";

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody knows.
    Unknown,
}

impl ConditionStatus {
    /// As the API writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// The condition of this type, if there is one.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Sets one condition and says whether anything in it changed.
///
/// `lastTransitionTime` becomes `now`, cut to whole seconds as the API keeps it, only when the status
/// differs from before; source: k8s.io/apimachinery/pkg/api/meta/conditions.go, SetStatusCondition.
/// A new condition goes to the end, the others keep their place. `reason` must be one CamelCase word,
/// or the API server refuses the status; a long `message` is cut with [`clip`].
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    type_: &str,
    status: impl Into<ConditionStatus>,
    reason: &str,
    message: &str,
    observed_generation: Option<i64>,
    now: Time,
) -> bool {
    let wanted = Condition {
        type_: type_.to_owned(),
        status: status.into().as_str().to_owned(),
        reason: reason.to_owned(),
        message: clip(message, CONDITION_MESSAGE_MAX),
        observed_generation,
        last_transition_time: whole_seconds(now),
    };
    let Some(present) = conditions.iter_mut().find(|condition| condition.type_ == type_) else {
        conditions.push(wanted);
        return true;
    };
    let last_transition_time = if present.status == wanted.status {
        present.last_transition_time.clone()
    } else {
        wanted.last_transition_time.clone()
    };
    let wanted = Condition { last_transition_time, ..wanted };
    let changed = *present != wanted;
    *present = wanted;
    changed
}

/// The text, or its beginning and an ellipsis where it has more than `max` characters. Schemas count
/// characters (`maxLength`), so a clipped text is never refused and never cut within a character.
#[must_use]
pub fn clip(text: &str, max: usize) -> String {
    if text.chars().nth(max).is_none() {
        return text.to_owned();
    }
    text.chars().take(max.saturating_sub(1)).chain((max > 0).then_some('…')).collect()
}

fn whole_seconds(time: Time) -> Time {
    Time(Timestamp::from_second(time.0.as_second()).unwrap_or(time.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn a_new_condition_is_added_at_the_end_with_the_time_given() {
        let mut conditions = Vec::new();
        assert!(set_condition(&mut conditions, READY, true, "Applied", "all", Some(1), at(10)));
        assert!(set_condition(&mut conditions, STALLED, ConditionStatus::Unknown, "New", "", None, at(11)));
        let types: Vec<_> = conditions.iter().map(|c| c.type_.as_str()).collect();
        assert_eq!(types, [READY, STALLED]);
        let stalled = find(&conditions, STALLED).unwrap();
        assert_eq!((stalled.status.as_str(), &stalled.last_transition_time), ("Unknown", &at(11)));
        assert_eq!(find(&conditions, DRIFTED), None);
    }

    /// Each row: status, reason, message, generation; whether it is a change; the time it leaves.
    #[test]
    fn only_a_change_of_status_moves_the_time_and_any_change_is_told() {
        let rows = [
            (true, "Applied", "all", Some(1), false, 10),
            (true, "Other", "all", Some(1), true, 10),
            (true, "Applied", "some", Some(1), true, 10),
            (true, "Applied", "all", Some(2), true, 10),
            (false, "Applied", "all", Some(1), true, 20),
        ];
        for (status, reason, message, generation, changed, time) in rows {
            let mut conditions = Vec::new();
            set_condition(&mut conditions, READY, true, "Applied", "all", Some(1), at(10));
            let told = set_condition(&mut conditions, READY, status, reason, message, generation, at(20));
            assert_eq!(told, changed, "{status} {reason} {message} {generation:?}");
            let now = find(&conditions, READY).unwrap();
            assert_eq!(now.last_transition_time, at(time), "{status} {reason} {message} {generation:?}");
            assert_eq!((now.reason.as_str(), now.message.as_str()), (reason, message));
            assert_eq!(now.observed_generation, generation);
        }
    }

    #[test]
    fn a_condition_equals_itself_after_the_way_through_json() {
        let now = Time(Timestamp::new(1_700_000_000, 123_456_789).unwrap());
        let mut conditions = Vec::new();
        set_condition(&mut conditions, READY, false, "Denied", "no", Some(3), now);
        let text = serde_json::to_string(&conditions).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Condition>>(&text).unwrap(), conditions);
    }

    #[test]
    fn a_long_message_is_cut_so_that_the_status_is_not_refused() {
        let mut conditions = Vec::new();
        set_condition(&mut conditions, READY, false, "Denied", &"ü".repeat(5000), None, at(1));
        assert_eq!(conditions[0].message.chars().count(), CONDITION_MESSAGE_MAX);
        assert!(!set_condition(&mut conditions, READY, false, "Denied", &"ü".repeat(5000), None, at(2)));
    }

    proptest! {
        #[test]
        fn clipped_text_is_short_enough_and_whole_text_is_left_alone(text in ".{0,40}", max in 0_usize..40) {
            let clipped = clip(&text, max);
            let (length, whole) = (clipped.chars().count(), text.chars().count() <= max);
            prop_assert!(length <= max);
            prop_assert_eq!(clipped == text, whole);
            if !whole && max > 0 {
                prop_assert_eq!(length, max);
                prop_assert!(clipped.ends_with('…'));
                prop_assert!(text.starts_with(clipped.trim_end_matches('…')) || text.contains('…'));
            }
        }
    }
}

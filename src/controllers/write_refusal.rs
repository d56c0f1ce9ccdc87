//! Writes that the hub's own API does not take: which of them are told, and which are only tried again.

use super::Hub;
use crate::{
    base::error::{CallError, Class},
    workqueue::Key,
};

/// A failure that may pass by itself is told when it was met so many times one after the other: with the queue's pauses
/// that takes seconds.
const TRIES: u32 = 5;

/// The API server's own word, that no other try changes: a quota, a policy, a right.
pub(super) fn is_refusal(error: &CallError) -> bool {
    error.class == Class::Forbidden || error.is_invalid()
}

/// What failed, with what to do about it.
pub(super) fn advised(error: &CallError) -> String {
    let advice = match is_refusal(error) {
        true => "lift the quota, grant the right that is missing, or change the policy that refuses it",
        false => "it is tried again by itself; see the log of the hub's API server if it goes on",
    };
    format!("{error}; {advice}")
}

/// How many reconciles of a key have ended one after the other by a write on the hub that failed.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Failures(u32);

impl Failures {
    /// Enough of them that the next one is told.
    fn are_often(&self) -> bool {
        self.0.saturating_add(1) >= TRIES
    }
}

/// A reconcile ended by a write that failed. In words, where it is to be told: it was refused, or it fails again and
/// again.
pub(super) fn count_failed_write(hub: &Hub, key: &Key, error: &CallError) -> Option<String> {
    let often = hub.state.lock().change(key, |state| {
        let often = state.failures.are_often();
        state.failures.0 = state.failures.0.saturating_add(1);
        often
    });
    (is_refusal(error) || often).then(|| advised(error))
}

/// Reconciles of this key have ended by failed writes often enough that the next one is told.
pub(super) fn fails_often(hub: &Hub, key: &Key) -> bool {
    hub.state.lock().of(key).is_some_and(|state| state.failures.are_often())
}

/// A reconcile has ended without a failure: its failures are forgotten. False: a status was put off after a failure, so the
/// key is to be tried again.
pub(super) fn clear_failed_writes(hub: &Hub, key: &Key) -> bool {
    hub.state.lock().change(key, |state| {
        if state.throttle.take_deferred() && state.failures.0 > 0 {
            return false;
        }
        state.failures = Failures::default();
        true
    })
}

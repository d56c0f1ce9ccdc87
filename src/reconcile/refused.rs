//! Writes that the hub's own API does not take: which of them are told, and which are only tried again.

use super::Hub;
use crate::{
    base::error::{CallError, Class},
    queue::Key,
};

/// Reason of a write that is refused, on VidraResources and VidraTargets.
pub(super) const WRITE_REFUSED: &str = "WriteRefused";
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
        true => "lift the quota or change the policy that refuses it",
        false => "it is tried again by itself; see the log of the hub's API server if it goes on",
    };
    format!("{error}; {advice}")
}

impl Hub {
    /// A pass ended by a write that failed. In words, where it is to be told: it was refused, or it fails again and
    /// again.
    pub(super) fn refusal(&self, key: &Key, error: &CallError) -> Option<String> {
        let often = self.fails_often(key);
        let mut memo = self.memo.lock();
        let failures = memo.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        drop(memo);
        (is_refusal(error) || often).then(|| advised(error))
    }

    /// So many passes of this key have ended so that one more is told.
    pub(super) fn fails_often(&self, key: &Key) -> bool {
        self.memo.lock().failures.get(key).is_some_and(|failures| failures.saturating_add(1) >= TRIES)
    }

    /// A pass has ended without a failure. Whether all is written: after a failure a status may have to wait a moment.
    pub(super) fn ends_well(&self, key: &Key) -> bool {
        let mut memo = self.memo.lock();
        if memo.deferred.remove(key) && memo.failures.contains_key(key) {
            return false;
        }
        memo.failures.remove(key);
        true
    }
}

//! When a target is reconciled again: what the steps of a reconcile ask for. The settings make a time of it.

use std::time::Duration;

/// When a target is reconciled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requeue {
    /// When something changes.
    OnChange,
    /// At once.
    AtOnce,
    /// When something changes, and at the latest after this long.
    After(Duration),
    /// When something changes, and at the latest after [`RETRY_RARELY`](crate::controllers::RETRY_RARELY): for what only
    /// another manifest, or another schema in the member, makes right. Any other requeue replaces it.
    Backstop,
    /// When the key's back-off says so.
    Retry(Retry),
}

impl Requeue {
    /// Of what a status tells: after the interval, or when its delivery is late, which nothing else tells.
    pub(super) fn at_interval(interval: Duration, late_in: Option<Duration>) -> Self {
        Self::After(late_in.map_or(interval, |left| left.min(interval)))
    }
}

/// The class of a failure: how often it is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Retry {
    /// It may pass by itself: at least every [`RETRY_MOST`](crate::controllers::RETRY_MOST).
    Soon,
    /// It probably needs a person: at least as often as the setting `retry.max` says.
    Rarely,
}

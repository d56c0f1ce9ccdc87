//! What a member shows and is not to be trusted: said in the log, as a metric and as an Event, and when a
//! member was found restored from a backup.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use vidra_core::{first_of::count, status::Reason};

use super::places::Place;
use crate::{member::session_deps::Warn, metrics::ClusterCounters};

/// Everything is listed again for a restore at most this often: a server whose versions go to and fro is no reason
/// to list for ever.
const RESTORED_EVERY: Duration = Duration::from_secs(60);

/// What is wrong with what a member shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WatchFault {
    /// A watch has lost events: of how many objects.
    Lost(usize),
    /// A watch was dead.
    Silent,
    /// A list was older than what had been seen.
    Restored,
    /// An object cannot be read: which, and why.
    Unreadable(String),
    /// A watch sent more than is read: what of.
    Flood(String),
    /// Its lists do not end.
    Endless(String),
}

impl WatchFault {
    /// As the metric, the Event and the log name it.
    fn words(&self, place: &Place) -> (&'static str, Reason, String) {
        match self {
            WatchFault::Lost(objects) => (
                "lost",
                Reason::WatchEventsMissed,
                format!(
                    "the watch of {place} has missed what became of {}, as a list shows; all is listed again. \
                     Look at what is between the hub and the API server",
                    count(*objects, "object")
                ),
            ),
            WatchFault::Silent => (
                "silent",
                Reason::WatchStalled,
                format!(
                    "the watch of {place} showed nothing and did not end when it should; it is started again"
                ),
            ),
            WatchFault::Restored => (
                "restored",
                Reason::MemberRestored,
                format!(
                    "a list of {place} is older than what was seen before: the member was restored from a backup. All kinds \
                     are listed again, and nothing is changed or deleted until that is done"
                ),
            ),
            WatchFault::Unreadable(which) => (
                "unreadable",
                Reason::ObjectUnreadable,
                format!("of {place} an object cannot be read and is left as it is: {which}"),
            ),
            WatchFault::Endless(why) => (
                "flooded",
                Reason::ListEndless,
                format!(
                    "the list of {place} was given up: {why}; it is started again after thirty times the time that this took, a \
                     minute to an hour. Find out who makes objects with the hub's label, or what answers in place of the \
                     API server"
                ),
            ),
            WatchFault::Flood(why) => (
                "flooded",
                Reason::WatchFloods,
                format!(
                    "the watch of {place} was ended: {why}; it is started again after a pause. Find out who changes objects \
                     with the hub's label so often, or makes such large ones"
                ),
            ),
        }
    }
}

/// Says what is wrong with what a member shows: in the log, as a metric, and as an Event.
pub(super) struct FaultReporter {
    cluster: Arc<str>,
    counters: ClusterCounters,
    warn: Warn,
}

impl FaultReporter {
    pub(super) fn new(cluster: Arc<str>, counters: ClusterCounters, warn: Warn) -> Self {
        Self { cluster, counters, warn }
    }

    pub(super) fn report(&self, place: &Place, fault: &WatchFault) {
        let (word, reason, note) = fault.words(place);
        tracing::warn!(cluster = %self.cluster, "{note}");
        self.counters.distrusted(place.gvk.to_string(), word);
        (self.warn)(&self.cluster, reason, &note);
    }
}

/// When the member was found restored last.
#[derive(Default)]
pub(super) struct Restore {
    last: Option<Instant>,
}

impl Restore {
    /// It was found so again. True: that counts, for it is not the same one.
    pub(super) fn begin(&mut self) -> bool {
        if self.last.is_some_and(|at| at.elapsed() < RESTORED_EVERY) {
            return false;
        }
        self.last = Some(Instant::now());
        true
    }
}

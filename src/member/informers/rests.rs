//! Places whose list does not end, or fails only after a long time: what it costs to find that out is paid again only after a
//! rest, whoever asks for the list.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;
use vidra_core::mutants::{self, Mutant};

use super::places::Place;
use crate::base::error::{CallError, Class};

/// A list that does not end rests this number of times the time that it took to find that out.
const REST: u32 = 30;
/// The shortest and the longest rest.
const RESTS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

/// A list that took so long to fail rests as long again, up to the shortest of [`RESTS`]: each reconcile that waits for it keeps
/// another one from its turn.
const LONG: Duration = Duration::from_secs(10);

/// Places whose list is not begun again before a pause is over.
#[derive(Default)]
pub(super) struct Rests {
    of: BTreeMap<Place, Rest>,
}

/// A place is not listed before this, and why.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    pub(super) until: Instant,
    pub(super) error: CallError,
}

/// How long a list rests that took so long and did not end.
pub(super) fn rest_after(took: Duration) -> Duration {
    let (least, most) = RESTS;
    took.saturating_mul(REST).clamp(least, most)
}

/// How long a list rests that took so long and failed so: one that does not end, and one that took long to fail.
pub(super) fn rest_of(error: &CallError, took: Duration) -> Option<Duration> {
    match error.class {
        Class::Flood => Some(rest_after(took)),
        Class::Transport | Class::Server | Class::Gateway
            if took >= LONG && !mutants::is(Mutant::SlowListsInARow) =>
        {
            Some(took.min(RESTS.0))
        }
        _ => None,
    }
}

impl Rests {
    /// Whether a place is not to be listed now.
    pub(super) fn now(&mut self, place: &Place) -> Option<Rest> {
        let now = Instant::now();
        self.of.retain(|_, rest| rest.until > now);
        self.of.get(place).cloned()
    }

    /// The place rests from now on.
    pub(super) fn begin(&mut self, place: &Place, rest: Duration, error: CallError) {
        self.of.insert(place.clone(), Rest { until: Instant::now() + rest, error });
    }

    /// The member was out of reach: what failed for that is asked for again.
    pub(super) fn end_short(&mut self) {
        self.of.retain(|_, rest| rest.error.class == Class::Flood);
    }

    pub(super) fn len(&self) -> usize {
        self.of.len()
    }
}

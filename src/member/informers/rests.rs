//! Places whose list does not end: what it costs to find that out is paid again only after a rest, whoever asks for the list.

use std::time::Duration;

use tokio::time::Instant;

use super::{Informers, Place, faults::WatchFault};
use crate::{
    member::error::{CallError, Class},
    queue::jittered,
};

/// A list that does not end rests this number of times the time that it took to find that out.
const REST: u32 = 30;
/// The shortest and the longest rest.
const RESTS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

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

impl Informers {
    /// Whether a place is not to be listed now.
    pub(super) fn at_rest(&self, place: &Place) -> Option<Rest> {
        let mut state = self.state.lock();
        let now = Instant::now();
        state.rests.retain(|_, rest| rest.until > now);
        state.rests.get(place).cloned()
    }

    /// A list that began then ended so: one that does not end is told, and rests.
    pub(super) fn note_list(&self, place: &Place, began: Instant, ended: Option<&CallError>) {
        let Some(error) = ended.filter(|error| error.class == Class::Flood) else { return };
        self.complain(place, &WatchFault::Endless(error.message.clone()), 0);
        let rest = jittered(rest_after(began.elapsed()), self.rng.as_ref());
        let rest = Rest { until: Instant::now() + rest, error: error.clone() };
        self.state.lock().rests.insert(place.clone(), rest);
    }
}

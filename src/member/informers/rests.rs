//! Places whose list does not end, or fails only after a long time: what it costs to find that out is paid again only after a
//! rest, whoever asks for the list.

use std::time::Duration;

use tokio::time::Instant;
use vidra_core::mutants::{self, Mutant};

use super::{Informers, Place, Registry, faults::WatchFault};
use crate::base::{
    backoff::jittered,
    error::{CallError, Class},
};

/// A list that does not end rests this number of times the time that it took to find that out.
const REST: u32 = 30;
/// The shortest and the longest rest.
const RESTS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

/// A list that took so long to fail rests as long again, up to the shortest of [`RESTS`]: each reconcile that waits for it keeps
/// another one from its turn.
const LONG: Duration = Duration::from_secs(10);

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

    /// A list that began then ended so: one that does not end is told, and rests, as one does that took long to fail.
    pub(super) fn note_list(&self, place: &Place, began: Instant, ended: Option<&CallError>) {
        let Some(error) = ended else { return };
        let took = began.elapsed();
        let rest = match error.class {
            Class::Flood => {
                self.complain(place, &WatchFault::Endless(error.message.clone()), 0);
                rest_after(took)
            }
            Class::Transport | Class::Server if took >= LONG && !mutants::is(Mutant::SlowListsInARow) => {
                took.min(RESTS.0)
            }
            _ => return,
        };
        let rest = jittered(rest, self.rng.as_ref());
        let rest = Rest { until: Instant::now() + rest, error: error.clone() };
        self.state.lock().rests.insert(place.clone(), rest);
    }
}

impl Registry {
    /// The member was out of reach: what failed for that is asked for again.
    pub(super) fn end_short_rests(&mut self) {
        self.rests.retain(|_, rest| rest.error.class == Class::Flood);
    }
}

//! How far apart the statuses of one object are written of which only values are news: rarely where these change all the
//! time.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;
use vidra_core::mutants::{self, Mutant};

/// A status of which only what came back from a member is news is written so long after the last at the earliest.
const BETWEEN_VALUES: Duration = Duration::from_secs(10);

/// Of a target whose values alone were written so often within [`BUSY_WITHIN`], they are written so long after the last.
const BETWEEN_BUSY_VALUES: Duration = Duration::from_secs(600);
/// See [`BETWEEN_BUSY_VALUES`].
const BUSY_FROM: usize = 6;
/// See [`BETWEEN_BUSY_VALUES`]. Values that did not change for so long after they were written are busy no more.
const BUSY_WITHIN: Duration = Duration::from_secs(100);

/// Whether the values of one object change all the time: nobody reads them every ten seconds, and the hub's API has other
/// work.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ValuePace {
    /// When values alone were written last, the newest at the end.
    written: VecDeque<Instant>,
    /// Since when others wait.
    waits: Option<Instant>,
    /// What is due now are values alone.
    due: bool,
    busy: bool,
}

impl ValuePace {
    /// Values changed, if nothing else waits already; `sent`: when the status was written last. How far apart they are
    /// written.
    pub(super) fn note_change(&mut self, sent: Option<Instant>, now: Instant) -> Duration {
        let since = *self.waits.get_or_insert(now);
        if sent.is_none_or(|sent| since.saturating_duration_since(sent) > BUSY_WITHIN) {
            self.rest();
        }
        if self.busy && !mutants::is(Mutant::BusyValuesWritten) {
            BETWEEN_BUSY_VALUES
        } else {
            BETWEEN_VALUES
        }
    }

    /// Values are as they were written. How long after that it is told that they are not old.
    pub(super) fn note_rest(&mut self) -> Duration {
        self.waits = None;
        if self.busy { BUSY_WITHIN } else { BETWEEN_VALUES }
    }

    /// They do not change all the time.
    pub(super) fn rest(&mut self) {
        self.busy = false;
        self.written.clear();
    }

    /// `taken`: the hub's API has it. What it did not take waits on, and a second try is no change.
    pub(super) fn note_sent(&mut self, taken: bool, now: Instant) {
        if !taken {
            return;
        }
        self.waits = None;
        if !std::mem::take(&mut self.due) {
            return;
        }
        self.busy |= self.would_be_busy(now);
        self.written.push_back(now);
        if self.written.len() > BUSY_FROM {
            self.written.pop_front();
        }
    }

    /// Nothing of the object is to be told.
    pub(super) fn note_nothing(&mut self) {
        self.waits = None;
    }

    /// A status is written now; `alone`: values are all that it tells.
    pub(super) fn note_due(&mut self, alone: bool) {
        self.due = alone;
    }

    /// They change all the time, or what is written now makes them so; not those that have rested since, though nobody has
    /// asked. `sent`: when the status was written last.
    pub(super) fn is_busy(&self, sent: Option<Instant>, now: Instant) -> bool {
        let is_near = |sent| now.saturating_duration_since(sent) <= BUSY_WITHIN;
        let is_busy = self.busy && (self.waits.is_some() || sent.is_some_and(is_near));
        is_busy || self.due && self.would_be_busy(now)
    }

    /// Where they have rested by now, they are busy no more.
    pub(super) fn end_busy(&mut self, sent: Option<Instant>, now: Instant) {
        if self.busy && !self.is_busy(sent, now) {
            self.rest();
        }
    }

    /// Values that are written now are the last of so many in so short a time.
    fn would_be_busy(&self, now: Instant) -> bool {
        let first = (self.written.len() + 1).checked_sub(BUSY_FROM).and_then(|nth| self.written.get(nth));
        first.is_some_and(|first| now.duration_since(*first) <= BUSY_WITHIN)
    }
}

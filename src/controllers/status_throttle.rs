//! When a status of one object may be written: at most once a second, the last one always. One that is passing waits a
//! moment for the next, and the end of what it announced does not wait.

use std::time::Duration;

use tokio::time::Instant;

/// A status of one object is written at most once in this time, and once more when it ends what a passing one
/// announced; the last one always.
const BETWEEN_STATUSES: Duration = Duration::from_secs(1);
/// How long a passing status waits for the next.
const SETTLE: Duration = Duration::from_secs(1);

/// When the status of one object was written last, and since when another waits.
#[derive(Debug, Default, PartialEq)]
pub(super) struct StatusThrottle {
    /// When a status was due last, or sent if it has been, and whether that one was passing.
    last: Option<(Instant, bool)>,
    /// Since when a status that may pass by itself waits to be written.
    settling: Option<Instant>,
    /// A status could not be written in the last reconcile, for one was a moment ago.
    deferred: bool,
}

impl StatusThrottle {
    /// How long a status, of which more may be told in a moment, can still wait.
    pub(super) fn can_wait(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let since = *self.settling.get_or_insert(now);
        SETTLE.checked_sub(now.duration_since(since)).filter(|rest| !rest.is_zero())
    }

    /// How long it takes until a status may be written; `None`: it is due now, and counts as written.
    ///
    /// A status that is `passing`, for it tells of work that is mostly done in a moment, waits for that
    /// moment: of a change that goes well only the end is written.
    pub(super) fn wait(&mut self, passing: bool) -> Option<Duration> {
        if passing && let Some(rest) = self.can_wait() {
            return Some(rest);
        }
        let now = Instant::now();
        self.settling = None;
        if let Some((last, was_passing)) = self.last {
            let since = now.duration_since(last);
            // What a passing status announced need not wait.
            let is_end = was_passing && !passing;
            if since < BETWEEN_STATUSES && !is_end {
                self.deferred = true;
                return Some(BETWEEN_STATUSES - since);
            }
        }
        self.last = Some((now, passing));
        None
    }

    /// A status that was due has been sent. It may have waited for its turn among the calls to the hub's API, and its
    /// answer may have taken long: the next one keeps its distance from this moment.
    pub(super) fn sent(&mut self) {
        if let Some((last, _)) = &mut self.last {
            *last = Instant::now();
        }
    }

    /// One was written a moment ago.
    pub(super) fn is_fresh(&self) -> bool {
        self.last.is_some_and(|(at, _)| Instant::now().duration_since(at) < BETWEEN_STATUSES)
    }

    /// Whether one was deferred since this was asked last.
    pub(super) fn take_deferred(&mut self) -> bool {
        std::mem::take(&mut self.deferred)
    }
}

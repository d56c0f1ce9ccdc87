//! What the watch cache of the real server does not do to the dot: bookmarks, and how far back history goes.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::Cluster;
use super::store::Store;

/// As often as the real server.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The last one comes so long before a watch ends (apiserver's `nextBookmarkTime`).
const BEFORE_THE_END: Duration = Duration::from_secs(2);

/// How a cluster's watch cache works. From the start: bookmarks each 60 s to the dot, and a history of 10,000
/// changes, however old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchCache {
    /// Bookmarks come up to so much later than each 60 s, by chance from this seed and the call (about two
    /// seconds on the real server), and one two seconds before a watch ends by its timeout.
    pub jitter: Option<(Duration, u64)>,
    /// A change is forgotten after so long: watches and pages from before it get 410. The real server compacts
    /// its history every five minutes.
    pub history: Option<Duration>,
}

/// Which revision there was when.
#[derive(Default)]
pub(super) struct Ages {
    keep: Option<Duration>,
    marks: VecDeque<(Instant, u64)>,
}

impl Store {
    /// Forgets what is too old. Called whenever somebody asks, before and after.
    pub fn age(&mut self) {
        let Some(keep) = self.ages.keep else { return };
        let (now, revision) = (Instant::now(), self.revision());
        if self.ages.marks.back().is_none_or(|(_, last)| *last < revision) {
            self.ages.marks.push_back((now, revision));
        }
        while self.ages.marks.get(1).is_some_and(|(at, _)| *at + keep <= now) {
            self.ages.marks.pop_front();
        }
        if let Some((_, revision)) = self.ages.marks.front().filter(|(at, _)| *at + keep <= now) {
            self.compact_to(*revision);
        }
    }
}

/// When a watch's next bookmark is sent that ends at this deadline.
pub(super) fn next_bookmark(
    jitter: Option<(Duration, u64)>,
    call: u64,
    nth: u64,
    now: Instant,
    deadline: Instant,
) -> Instant {
    let next = now + BOOKMARK_EVERY;
    let Some((most, seed)) = jitter else { return next };
    let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
    let mut chance = fastrand::Rng::with_seed(seed ^ (call << 16) ^ nth);
    let next = next + Duration::from_millis(chance.u64(..most));
    match deadline.checked_sub(BEFORE_THE_END).filter(|last| *last > now) {
        Some(last) => next.min(last),
        None => next,
    }
}

impl Cluster {
    /// Lets the watch cache work so from now on.
    pub fn set_watch_cache(&self, cache: WatchCache) {
        let mut store = self.inner.store.lock();
        store.ages = Ages { keep: cache.history, marks: VecDeque::new() };
        store.age();
        drop(store);
        self.inner.front.lock().jitter = cache.jitter;
    }
}

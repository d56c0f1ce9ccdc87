//! The work queue: keyed, deduplicated, delayed, fair across member clusters, with priorities.
//!
//! A key is held once. While it is worked on it is marked, and what arrives for it meanwhile makes it
//! ready again when that work ends. Lanes (one for each member) take turns.

mod key;

pub use key::{Key, Priority, ResourceKey, TargetKey};

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::StreamExt;
use key::Lane;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, time::DelayQueue};
use vidra_core::mutants::{self, Mutant};

use crate::{seams::Rng, serve::metrics::QueueMetrics};

/// How many keys of one lane may be worked on at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For each member cluster.
    pub per_member: usize,
    /// For the resource loop and for the cluster loop.
    pub per_loop: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { per_member: 4, per_loop: 8 }
    }
}

/// How a key's work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing more to do until something changes; look again after this long, if given.
    Done(Option<Duration>),
    /// Try again soon: the key's exponential back-off decides when, at most the given time.
    Retry(Duration),
}

/// The queue. Cheap to share behind an `Arc`; all methods take `&self`.
pub struct Queue {
    inner: Mutex<Inner>,
    wake: Notify,
    arrived: Notify,
    timer: mpsc::UnboundedSender<(Key, Instant)>,
    rng: Arc<dyn Rng>,
    metrics: QueueMetrics,
}

/// Reads delayed keys; [`Timer::run`] must be running for delays to end.
pub struct Timer {
    queue: Arc<Queue>,
    requests: mpsc::UnboundedReceiver<(Key, Instant)>,
}

struct Inner {
    limits: Limits,
    first_retry: Duration,
    lanes: BTreeMap<Lane, LaneState>,
    /// Lanes that have a ready key and room for it.
    eligible: BTreeSet<Lane>,
    /// The lane served last: the next one in order has its turn.
    cursor: Option<Lane>,
    keys: BTreeMap<Key, KeyState>,
    failures: BTreeMap<Key, u32>,
    delayed: BTreeMap<Key, Instant>,
}

#[derive(Default)]
struct LaneState {
    ready: [VecDeque<Key>; 3],
    running: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyState {
    Ready(Priority),
    Running,
    /// Running, and so many things arrived for it since it was started.
    Dirty(Priority, u32),
}

/// No key waits longer: whoever asks for more looks sooner. The timer of tokio-util ends at 795 days.
const LONGEST_DELAY: Duration = Duration::from_secs(30 * 24 * 3600);
const FIRST_RETRY: Duration = Duration::from_millis(250);

/// What a member's counts are has to hold for so long before it is written.
pub const COUNTS_SETTLE: Duration = Duration::from_secs(2);

impl Queue {
    /// A queue and the timer that ends its delays.
    pub fn new(limits: Limits, rng: Arc<dyn Rng>, metrics: QueueMetrics) -> (Arc<Self>, Timer) {
        let (timer, requests) = mpsc::unbounded_channel();
        let queue = Arc::new(Self {
            inner: Mutex::new(Inner::new(limits)),
            wake: Notify::new(),
            arrived: Notify::new(),
            timer,
            rng,
            metrics,
        });
        (queue.clone(), Timer { queue, requests })
    }

    /// Makes a key ready, once. A key that waits already keeps the better of the two priorities.
    pub fn add(&self, key: Key, priority: Priority) {
        let mut inner = self.inner.lock();
        match inner.keys.get(&key).copied() {
            Some(KeyState::Ready(held)) if held <= priority => return,
            Some(KeyState::Running) if mutants::is(Mutant::ArrivalLost) => return,
            Some(KeyState::Running) => return self.arrived(inner, key, KeyState::Dirty(priority, 1)),
            Some(KeyState::Dirty(held, times)) => {
                let more = KeyState::Dirty(held.min(priority), times.saturating_add(1));
                return self.arrived(inner, key, more);
            }
            Some(KeyState::Ready(held)) => inner.remove_ready(&key, held),
            None => self.metrics.added(key.loop_name()),
        }
        inner.push(key, priority);
        drop(inner);
        self.wake.notify_one();
    }

    fn arrived(&self, mut inner: MutexGuard<'_, Inner>, key: Key, state: KeyState) {
        inner.keys.insert(key, state);
        drop(inner);
        self.arrived.notify_waiters();
    }

    /// How many things arrived for a key that is worked on since that work began: it is worked on again when it ends.
    pub fn arrivals(&self, key: &Key) -> u32 {
        match self.inner.lock().keys.get(key) {
            Some(KeyState::Dirty(_, times)) => *times,
            _ => 0,
        }
    }

    /// The same, when it is more than `known`.
    pub async fn more_arrivals(&self, key: &Key, known: u32) -> u32 {
        loop {
            let mut arrived = pin!(self.arrived.notified());
            // From here on no arrival is missed.
            arrived.as_mut().enable();
            let times = self.arrivals(key);
            if times > known {
                return times;
            }
            arrived.await;
        }
    }

    /// Changes how many keys of a member are worked on at once, and the first pause after a failure.
    pub fn tune(&self, per_member: usize, first_retry: Duration) {
        let mut inner = self.inner.lock();
        inner.limits.per_member = per_member;
        inner.first_retry = first_retry;
        let limits = inner.limits;
        let has_room = |(lane, state): (&Lane, &LaneState)| {
            (!state.is_empty() && state.running < lane.limit(limits)).then(|| lane.clone())
        };
        inner.eligible = inner.lanes.iter().filter_map(has_room).collect();
        drop(inner);
        self.wake.notify_one();
    }

    /// Makes a key ready after a delay, unless an earlier delay of it is running already.
    pub fn add_after(&self, key: Key, delay: Duration) {
        let most = if mutants::is(Mutant::LongDelays) { delay } else { LONGEST_DELAY };
        let at = Instant::now() + delay.min(most);
        {
            let mut inner = self.inner.lock();
            match inner.delayed.get(&key) {
                Some(held) if *held <= at => return,
                _ => inner.delayed.insert(key.clone(), at),
            };
        }
        // Sending fails only when the timer is gone, and then the process is ending.
        let _ = self.timer.send((key, at));
    }

    /// Something changed that a member's status counts: the member's key comes when that may have settled.
    pub fn recount(&self, cluster: &Arc<str>) {
        self.add_after(Key::Cluster(cluster.clone()), COUNTS_SETTLE);
    }

    /// The next key in turn. Pass it to [`Queue::done`] when its work has ended.
    pub async fn next(&self) -> Key {
        loop {
            let notified = self.wake.notified();
            if let Some(key) = self.inner.lock().pop() {
                return key;
            }
            notified.await;
        }
    }

    /// Ends the work on a key and schedules what its verdict asks for.
    pub fn done(&self, key: &Key, verdict: Verdict) {
        let delay = {
            let mut inner = self.inner.lock();
            let again = inner.finish(key);
            let delay = match verdict {
                Verdict::Done(delay) => {
                    inner.failures.remove(key);
                    delay
                }
                Verdict::Retry(most) => {
                    let first = inner.first_retry;
                    let failures = inner.failures.entry(key.clone()).or_default();
                    *failures = failures.saturating_add(1);
                    let exponential = first.saturating_mul(1 << (*failures - 1).min(20));
                    self.metrics.retried(key.loop_name());
                    Some(jittered(exponential.min(most), self.rng.as_ref()))
                }
            };
            if again {
                self.metrics.added(key.loop_name());
            }
            delay
        };
        self.wake.notify_one();
        if let Some(delay) = delay {
            self.add_after(key.clone(), delay);
        }
    }

    /// Keys ready now, for metrics.
    pub fn depth(&self) -> usize {
        let inner = self.inner.lock();
        inner.keys.values().filter(|state| matches!(state, KeyState::Ready(_))).count()
    }

    /// No key is ready or being worked on (delayed ones may wait).
    pub fn is_idle(&self) -> bool {
        self.inner.lock().keys.is_empty()
    }
}

/// Spreads a delay by up to 10 % either way, so that keys made together do not stay together.
pub fn jittered(delay: Duration, rng: &dyn Rng) -> Duration {
    let spread = (rng.next() % 2001) as f64 / 10_000.0 - 0.1;
    delay.mul_f64(1.0 + spread)
}

impl Inner {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            first_retry: FIRST_RETRY,
            lanes: BTreeMap::new(),
            eligible: BTreeSet::new(),
            cursor: None,
            keys: BTreeMap::new(),
            failures: BTreeMap::new(),
            delayed: BTreeMap::new(),
        }
    }

    fn push(&mut self, key: Key, priority: Priority) {
        let limits = self.limits;
        let lane = key.lane();
        let state = self.lanes.entry(lane.clone()).or_default();
        state.ready[priority as usize].push_back(key.clone());
        if state.running < lane.limit(limits) {
            self.eligible.insert(lane);
        }
        self.keys.insert(key, KeyState::Ready(priority));
    }

    fn remove_ready(&mut self, key: &Key, priority: Priority) {
        if let Some(state) = self.lanes.get_mut(&key.lane()) {
            state.ready[priority as usize].retain(|held| held != key);
        }
    }

    fn pop(&mut self) -> Option<Key> {
        let limits = self.limits;
        let after = self.cursor.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let lane = self
            .eligible
            .range::<Lane, _>((after, Bound::Unbounded))
            .next()
            .or_else(|| self.eligible.first())?
            .clone();
        let state = self.lanes.get_mut(&lane)?;
        let key = state.ready.iter_mut().find_map(VecDeque::pop_front)?;
        state.running += 1;
        if state.running >= lane.limit(limits) || state.is_empty() {
            self.eligible.remove(&lane);
        }
        self.cursor = Some(lane);
        self.keys.insert(key.clone(), KeyState::Running);
        Some(key)
    }

    /// Returns whether the key became ready again.
    fn finish(&mut self, key: &Key) -> bool {
        let lane = key.lane();
        let mut drained = false;
        if let Some(state) = self.lanes.get_mut(&lane) {
            state.running = state.running.saturating_sub(1);
            // The limit may have become smaller meanwhile.
            if !state.is_empty() && state.running < lane.limit(self.limits) {
                self.eligible.insert(lane.clone());
            }
            drained = state.is_empty() && state.running == 0;
        }
        match self.keys.remove(key) {
            Some(KeyState::Dirty(priority, _)) => {
                self.push(key.clone(), priority);
                true
            }
            _ => {
                if drained {
                    self.lanes.remove(&lane);
                }
                false
            }
        }
    }
}

impl LaneState {
    fn is_empty(&self) -> bool {
        self.ready.iter().all(VecDeque::is_empty)
    }
}

impl Lane {
    fn limit(&self, limits: Limits) -> usize {
        match self {
            Lane::Clusters | Lane::Resources => limits.per_loop,
            Lane::Member(_) => limits.per_member,
        }
    }
}

impl Timer {
    /// Runs until cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut delays = DelayQueue::new();
        let mut held = BTreeMap::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                request = self.requests.recv() => match request {
                    Some((key, at)) => {
                        if let Some(entry) = held.get(&key) {
                            delays.reset_at(entry, at);
                        } else {
                            held.insert(key.clone(), delays.insert_at(key, at));
                        }
                    }
                    None => return,
                },
                Some(expired) = delays.next(), if !delays.is_empty() => {
                    let key = expired.into_inner();
                    held.remove(&key);
                    self.queue.inner.lock().delayed.remove(&key);
                    self.queue.add(key, Priority::Resync);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! The work queue: keyed, deduplicated, delayed, fair across member clusters, with priorities, and with exponential
//! back-off of failed reconciles.
//!
//! A key is held once. While it is worked on it is marked, and what arrives for it meanwhile makes it
//! ready again when that work ends. Flows (one for each member and for each namespace of the hub) take turns, and within
//! a flow the better priority goes first, but for now and then one of the others.

mod counters;
mod key;

pub use counters::QueueMetrics;
pub use key::{Key, Priority, ResourceKey, TargetKey};

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::StreamExt;
use key::Flow;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};
use tokio_util::{
    sync::CancellationToken,
    time::{DelayQueue, delay_queue},
};
use vidra_core::mutants::{self, Mutant};

use crate::base::{backoff::jittered, env::Rng};

/// How many keys may be worked on at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Targets of each member cluster.
    pub per_member: usize,
    /// VidraResources of each namespace; MemberClusters in all.
    pub per_loop: usize,
    /// VidraResources in all: each may hold what it reads.
    pub resources: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { per_member: 4, per_loop: 8, resources: 32 }
    }
}

/// How a key's work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing more to do until something changes; look again after this long, if given.
    Done(Option<Duration>),
    /// It failed: the key comes again after its exponential back-off, which is at most the given time.
    Backoff(Duration),
}

/// A key that is given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// What to work on. Pass it to [`Queue::done`].
    pub key: Key,
    /// What made it ready.
    pub trigger: Priority,
    /// 1 for the first try since its work went well.
    pub attempt: u32,
}

/// The queue. Cheap to share behind an `Arc`; all methods take `&self`.
pub struct Queue {
    inner: Mutex<Inner>,
    wake: Notify,
    timer: mpsc::UnboundedSender<Request>,
    rng: Arc<dyn Rng>,
    metrics: QueueMetrics,
}

/// Reads delayed keys; [`Timer::run`] must be running for delays to end.
pub struct Timer {
    queue: Arc<Queue>,
    requests: mpsc::UnboundedReceiver<Request>,
}

enum Request {
    /// The key's delay ends then.
    At(Key, Instant),
    /// It has none any more.
    Forget(Key),
}

struct Inner {
    limits: Limits,
    first_retry: Duration,
    flows: BTreeMap<Flow, FlowState>,
    /// Flows that have a ready key and room for it.
    eligible: BTreeSet<Flow>,
    /// The flow served last: the next one in order has its turn.
    cursor: Option<Flow>,
    keys: BTreeMap<Key, KeyState>,
    /// Who waits for what arrives for a key that is worked on.
    waiting: BTreeMap<Key, Arc<Notify>>,
    failures: BTreeMap<Key, u32>,
    delayed: BTreeMap<Key, Instant>,
    /// So many keys were made ready.
    added: u64,
    /// VidraResources that are worked on.
    resources: usize,
}

#[derive(Default)]
struct FlowState {
    /// By priority; each by when it became ready.
    ready: [BTreeMap<u64, Key>; 3],
    running: usize,
    /// So many keys of it were given out since it was empty.
    turns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyState {
    /// Its priority, and its number in the order of arrival.
    Ready(Priority, u64),
    /// When its work began.
    Running(Instant),
    /// It is worked on, and is worked on again; `times`: how often it was added since its work began.
    Dirty { since: Instant, priority: Priority, times: u32 },
}

/// No key waits longer: whoever asks for more looks sooner. The timer of tokio-util ends at 795 days.
const LONGEST_DELAY: Duration = Duration::from_secs(30 * 24 * 3600);
const FIRST_RETRY: Duration = Duration::from_millis(250);
/// Of so many keys that a flow gives out one is not chosen by its priority: who has the better one cannot keep others
/// waiting for ever.
const AGED_TURN: u64 = 8;
/// A VidraResource whose targets tell something new while it is worked on rests so many times as long as that work took:
/// with a thousand targets, each status would cost a look at all of them.
const ROLL_UP_REST: u32 = 4;
/// And at most so long.
const ROLL_UP: Duration = Duration::from_millis(100);

/// What a member's counts are has to hold for so long before it is written.
pub const COUNTS_SETTLE: Duration = Duration::from_secs(2);

impl Queue {
    /// A queue and the timer that ends its delays.
    pub fn new(limits: Limits, rng: Arc<dyn Rng>, metrics: QueueMetrics) -> (Arc<Self>, Timer) {
        let (timer, requests) = mpsc::unbounded_channel();
        let queue = Arc::new(Self {
            inner: Mutex::new(Inner::new(limits)),
            wake: Notify::new(),
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
            Some(KeyState::Ready(held, _)) if held <= priority => return,
            Some(KeyState::Running(_)) if mutants::is(Mutant::ArrivalLost) => return,
            Some(KeyState::Running(since)) => return inner.arrive(key, since, priority, 1),
            Some(KeyState::Dirty { since, priority: held, times }) => {
                return inner.arrive(key, since, held.min(priority), times.saturating_add(1));
            }
            Some(KeyState::Ready(held, number)) => inner.remove_ready(&key, held, number),
            None if inner.comes_anyway(&key, priority) => return,
            None => self.metrics.added(key.loop_name()),
        }
        inner.push(key, priority);
        drop(inner);
        self.wake.notify_one();
    }

    /// How many things arrived for a key that is worked on since that work began: it is worked on again when it ends.
    pub fn arrivals(&self, key: &Key) -> u32 {
        match self.inner.lock().keys.get(key) {
            Some(KeyState::Dirty { times, .. }) => *times,
            _ => 0,
        }
    }

    /// Waits until more has arrived for a key that is worked on than is `known`; how much.
    pub async fn more_arrivals(&self, key: &Key, known: u32) -> u32 {
        let news = self.inner.lock().news_of(key);
        loop {
            let mut arrived = pin!(news.notified());
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
        let has_room = |(flow, state): (&Flow, &FlowState)| {
            (!state.is_empty() && state.running < flow.limit(limits)).then(|| flow.clone())
        };
        inner.eligible = inner.flows.iter().filter_map(has_room).collect();
        drop(inner);
        self.wake.notify_one();
    }

    /// Makes a key ready after a delay, unless an earlier delay of it is running already.
    pub fn add_after(&self, key: Key, delay: Duration) {
        let most = if mutants::is(Mutant::LongDelays) { delay } else { LONGEST_DELAY };
        let at = Instant::now() + delay.min(most);
        let mut inner = self.inner.lock();
        match inner.delayed.get(&key) {
            Some(held) if *held <= at => return,
            _ => inner.delayed.insert(key.clone(), at),
        };
        // Under the lock: the timer is told in the order in which it was decided. It fails only when the timer is gone,
        // and then the process is ending.
        let _ = self.timer.send(Request::At(key, at));
    }

    /// What the key is about is gone: its delay and its failures go with it.
    pub fn forget(&self, key: &Key) {
        let mut inner = self.inner.lock();
        inner.failures.remove(key);
        if inner.delayed.remove(key).is_some() {
            let _ = self.timer.send(Request::Forget(key.clone()));
        }
    }

    /// Something changed that a member's status counts: the member's key comes when that may have settled.
    pub fn recount(&self, cluster: &Arc<str>) {
        self.add_after(Key::Cluster(cluster.clone()), COUNTS_SETTLE);
    }

    /// The next key in turn.
    pub async fn next(&self) -> Turn {
        loop {
            let notified = self.wake.notified();
            if let Some(turn) = self.inner.lock().pop() {
                return turn;
            }
            notified.await;
        }
    }

    /// Ends the work on a key and schedules what its verdict asks for: after a failure, with exponential back-off.
    pub fn done(&self, key: &Key, verdict: Verdict) {
        let (ended, delay) = {
            let mut inner = self.inner.lock();
            let ended = inner.finish(key);
            let delay = match verdict {
                Verdict::Done(delay) => {
                    inner.failures.remove(key);
                    delay
                }
                Verdict::Backoff(most) => {
                    let first = inner.first_retry;
                    let failures = inner.failures.entry(key.clone()).or_default();
                    *failures = failures.saturating_add(1);
                    let exponential = first.saturating_mul(1 << (*failures - 1).min(20));
                    self.metrics.retried(key.loop_name());
                    Some(jittered(exponential.min(most), self.rng.as_ref()))
                }
            };
            (ended, delay)
        };
        self.wake.notify_one();
        match ended {
            Ended::Idle => {}
            Ended::Ready => self.metrics.added(key.loop_name()),
            Ended::Rests(rest) => self.add_after(key.clone(), rest),
        }
        if let Some(delay) = delay {
            self.add_after(key.clone(), delay);
        }
    }

    /// Keys ready now, for metrics.
    pub fn depth(&self) -> usize {
        let inner = self.inner.lock();
        inner.keys.values().filter(|state| matches!(state, KeyState::Ready(..))).count()
    }

    /// How many entries it holds, by what they are of; for tests, which look that what is gone leaves none.
    pub fn entries(&self) -> [(&'static str, usize); 5] {
        let inner = self.inner.lock();
        [
            ("keys", inner.keys.len()),
            ("flows", inner.flows.len()),
            ("keys that failed", inner.failures.len()),
            ("keys that are delayed", inner.delayed.len()),
            ("keys that are waited for", inner.waiting.len()),
        ]
    }
}

/// What becomes of a key whose work has ended.
enum Ended {
    Idle,
    Ready,
    /// It becomes ready after so long.
    Rests(Duration),
}

impl Inner {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            first_retry: FIRST_RETRY,
            flows: BTreeMap::new(),
            eligible: BTreeSet::new(),
            cursor: None,
            keys: BTreeMap::new(),
            waiting: BTreeMap::new(),
            failures: BTreeMap::new(),
            delayed: BTreeMap::new(),
            added: 0,
            resources: 0,
        }
    }

    /// Something arrived for a key that is worked on: who waits for that wakes, and nobody else.
    fn arrive(&mut self, key: Key, since: Instant, priority: Priority, times: u32) {
        if let Some(waiting) = self.waiting.get(&key) {
            waiting.notify_waiters();
        }
        self.keys.insert(key, KeyState::Dirty { since, priority, times });
    }

    /// Wakes who waits for what arrives for a key that is worked on.
    fn news_of(&mut self, key: &Key) -> Arc<Notify> {
        match self.keys.contains_key(key) {
            true => self.waiting.entry(key.clone()).or_default().clone(),
            false => Arc::default(),
        }
    }

    /// A VidraResource that is looked at in a moment need not be looked at before for what its targets tell.
    fn comes_anyway(&self, key: &Key, priority: Priority) -> bool {
        matches!(key, Key::Resource(_))
            && priority != Priority::User
            && self.delayed.get(key).is_some_and(|at| *at <= Instant::now() + ROLL_UP)
            && !mutants::is(Mutant::RollUpsAtOnce)
    }

    fn push(&mut self, key: Key, priority: Priority) {
        let limits = self.limits;
        let flow = key.flow();
        self.added += 1;
        let state = self.flows.entry(flow.clone()).or_default();
        state.ready[priority as usize].insert(self.added, key.clone());
        if state.running < flow.limit(limits) {
            self.eligible.insert(flow);
        }
        self.keys.insert(key, KeyState::Ready(priority, self.added));
    }

    fn remove_ready(&mut self, key: &Key, priority: Priority, number: u64) {
        if let Some(state) = self.flows.get_mut(&key.flow()) {
            state.ready[priority as usize].remove(&number);
        }
    }

    /// The flow whose turn it is.
    fn flow_in_turn(&self) -> Option<Flow> {
        let after = self.cursor.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut flows = self.eligible.range::<Flow, _>((after, Bound::Unbounded)).chain(self.eligible.iter());
        let is_full = self.resources >= self.limits.resources;
        flows.find(|flow| !(is_full && flow.is_of_resources())).cloned()
    }

    fn pop(&mut self) -> Option<Turn> {
        let limits = self.limits;
        let flow = self.flow_in_turn()?;
        let state = self.flows.get_mut(&flow)?;
        let (trigger, key) = state.pop()?;
        state.running += 1;
        self.resources += usize::from(flow.is_of_resources());
        if state.running >= flow.limit(limits) || state.is_empty() {
            self.eligible.remove(&flow);
        }
        self.cursor = Some(flow);
        self.keys.insert(key.clone(), KeyState::Running(Instant::now()));
        let attempt = self.failures.get(&key).map_or(1, |failures| failures.saturating_add(1));
        Some(Turn { key, trigger, attempt })
    }

    fn finish(&mut self, key: &Key) -> Ended {
        let flow = key.flow();
        let mut is_drained = false;
        if let Some(state) = self.flows.get_mut(&flow) {
            state.running = state.running.saturating_sub(1);
            // The limit may have become smaller meanwhile.
            if !state.is_empty() && state.running < flow.limit(self.limits) {
                self.eligible.insert(flow.clone());
            }
            is_drained = state.is_empty() && state.running == 0;
        }
        self.resources = self.resources.saturating_sub(usize::from(flow.is_of_resources()));
        self.waiting.remove(key);
        let ended = match self.keys.remove(key) {
            Some(KeyState::Dirty { since, priority, .. }) => match rest(key, priority, since.elapsed()) {
                Some(rest) => Ended::Rests(rest),
                None => {
                    self.push(key.clone(), priority);
                    return Ended::Ready;
                }
            },
            _ => Ended::Idle,
        };
        if is_drained {
            self.flows.remove(&flow);
        }
        ended
    }
}

/// How long a key that something arrived for rests after work that took so long.
fn rest(key: &Key, priority: Priority, took: Duration) -> Option<Duration> {
    let is_roll_up = matches!(key, Key::Resource(_)) && priority != Priority::User;
    // The timer counts milliseconds.
    let rest = took.saturating_mul(ROLL_UP_REST).min(ROLL_UP);
    (is_roll_up && rest >= Duration::from_millis(1) && !mutants::is(Mutant::RollUpsAtOnce)).then_some(rest)
}

impl FlowState {
    fn is_empty(&self) -> bool {
        self.ready.iter().all(BTreeMap::is_empty)
    }

    /// The key in turn: of the best priority, but for each [`AGED_TURN`]th, which is one of the others' by turns.
    fn pop(&mut self) -> Option<(Priority, Key)> {
        self.turns += 1;
        let is_aged = self.turns.is_multiple_of(AGED_TURN) && !mutants::is(Mutant::PriorityForEver);
        let other = match (self.turns / AGED_TURN).is_multiple_of(2) {
            true => Priority::Event,
            false => Priority::Resync,
        };
        let mut order = is_aged.then_some(other).into_iter().chain(Priority::ALL);
        order.find_map(|priority| Some((priority, self.ready.get_mut(priority as usize)?.pop_first()?.1)))
    }
}

impl Flow {
    fn limit(&self, limits: Limits) -> usize {
        match self {
            Flow::Clusters | Flow::Resources(_) => limits.per_loop,
            Flow::Member(_) => limits.per_member,
        }
    }

    fn is_of_resources(&self) -> bool {
        matches!(self, Flow::Resources(_))
    }
}

impl Timer {
    /// Runs until cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut delays = DelayQueue::new();
        // With when each ends.
        let mut held: BTreeMap<Key, (delay_queue::Key, Instant)> = BTreeMap::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                request = self.requests.recv() => match request {
                    Some(Request::At(key, at)) => match held.get_mut(&key) {
                        Some((entry, ends)) if at < *ends => {
                            delays.reset_at(entry, at);
                            *ends = at;
                        }
                        Some(_) => {}
                        None => {
                            let entry = delays.insert_at(key.clone(), at);
                            held.insert(key, (entry, at));
                        }
                    },
                    Some(Request::Forget(key)) => {
                        if let Some((entry, _)) = held.remove(&key) {
                            delays.try_remove(&entry);
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

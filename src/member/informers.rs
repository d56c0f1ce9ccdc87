//! The informer registry of one member: dynamic informers by GVR, made and ended from inside the
//! reconcile, counted by the targets that use them.
//!
//! An informer lists and watches the hub's own objects of one kind and folds them into [`Records`]. One
//! that fails says so and tries on; it never stops another. Where a kind cannot be listed in all namespaces, for
//! that is forbidden, there is one for each namespace in use.
//!
//! `run` and `list` are what one of them does, `reader` what it reads, `places` where there is one, `verify` how it
//! finds out that a watch lies, `faults` what is said of that, `broken` what is known of objects that cannot be read,
//! `counts` what a status tells, `rests` which lists do not end.

mod counts;
mod faults;
mod list;
mod places;
mod reader;
mod rests;
mod run;
mod unreadable;
mod verify;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kube::{Client, core::ApiResource};
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use vidra_api::names::HubId;
use vidra_core::{
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey, Scope},
};

pub use self::places::{Need, Place};
use self::{faults::WatchFault, reader::Reader, rests::Rest, run::Run};
use super::{
    deps::{SessionDeps, Warn},
    doubt::Doubt,
    records::Records,
};
use crate::{
    base::{
        env::Rng,
        error::{CallError, Class},
        limiter::Turns,
        supervise::supervised,
    },
    metrics::ClusterCounters,
    queue::{Key, Priority, Queue, TargetKey},
    settings::tuning::Tuning,
    wire::{flow::Flow, pace::Pace},
};

/// How soon a target looks at objects that only bear its label.
const STRAYS_REST: Duration = Duration::from_secs(1);

/// How an informer stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The first list is under way.
    Syncing,
    /// Its records are complete, and followed.
    Synced,
    /// It is not allowed to list or watch.
    Denied(String),
    /// It fails and tries again.
    Failing(String),
}

/// See the module.
pub struct Informers {
    cluster: Arc<str>,
    hub: HubId,
    client: Client,
    records: Arc<Records>,
    queue: Arc<Queue>,
    rng: Arc<dyn Rng>,
    turns: Turns,
    /// Objects in a page of a list.
    page: u32,
    tuning: Arc<Tuning>,
    counters: ClusterCounters,
    warn: Warn,
    tasks: TaskTracker,
    /// Why one of them could not start, where that is to end the contact.
    startup: watch::Sender<Option<String>>,
    /// Ends every informer.
    stop: CancellationToken,
    /// Raised by a watch that breaks.
    doubt: Arc<Doubt>,
    /// What all watches may send.
    flow: Arc<Flow>,
    /// How long the member asks to be left alone.
    pace: Arc<Pace>,
    state: Mutex<Registry>,
    next_id: AtomicU64,
}

/// A single list, when it began in the order of what is asked, and how it ended.
type Once = tokio::sync::Mutex<Option<(u64, Result<(), CallError>)>>;

#[derive(Default)]
struct Registry {
    running: BTreeMap<Place, Informer>,
    /// Kinds that may not be listed in all namespaces.
    confined: BTreeSet<Gvk>,
    /// Objects that cannot be read.
    broken: unreadable::Unread,
    restored: Option<Instant>,
    /// Places that are not to be listed now.
    rests: BTreeMap<Place, Rest>,
    /// Single lists of places, under way.
    once: BTreeMap<Place, Arc<Once>>,
    /// Targets that have said what they need.
    looked: BTreeSet<TargetKey>,
}

struct Informer {
    id: u64,
    resource: ApiResource,
    scope: Scope,
    users: BTreeSet<TargetKey>,
    state: State,
    stop: CancellationToken,
}

impl Registry {
    /// Does an informer see this kind there, in whichever version?
    fn sees(&self, gvk: &Gvk, namespace: &str) -> bool {
        self.running.keys().any(|place| {
            (&place.gvk.group, &place.gvk.kind) == (&gvk.group, &gvk.kind)
                && (place.namespace.is_empty() || *place.namespace == *namespace)
        })
    }

    /// Does this target have informers?
    fn follows(&self, target: &TargetKey) -> bool {
        self.running.values().any(|informer| informer.users.contains(target))
    }

    /// Nobody follows these places any more: what they showed that cannot be read goes, and, with the last place of a kind,
    /// that it may not be listed in all namespaces.
    fn forget(&mut self, ended: &BTreeSet<Place>) {
        self.broken.forget(ended);
        let running = &self.running;
        let is_followed = |gvk: &Gvk| running.keys().any(|place| place.gvk == *gvk);
        self.confined.retain(|gvk| is_followed(gvk) || !ended.iter().any(|place| place.gvk == *gvk));
    }

    fn users_of(&self, gvk: &Gvk) -> BTreeSet<TargetKey> {
        let of_kind = self.running.iter().filter(|(place, _)| place.gvk == *gvk);
        of_kind.flat_map(|(_, informer)| informer.users.iter().cloned()).collect()
    }
}

impl Informers {
    /// A registry without informers.
    pub fn new(
        cluster: Arc<str>,
        client: Client,
        records: Arc<Records>,
        deps: &SessionDeps,
        tasks: TaskTracker,
        (stop, doubt, pace): (CancellationToken, Arc<Doubt>, Arc<Pace>),
    ) -> Arc<Self> {
        Arc::new(Self {
            counters: deps.metrics.clusters().of(&cluster),
            cluster,
            hub: deps.hub.clone(),
            client,
            records,
            queue: deps.queue.clone(),
            rng: deps.rng.clone(),
            turns: deps.calls.turns(),
            page: deps.knobs.page,
            tuning: deps.tuning.clone(),
            warn: deps.warn.clone(),
            tasks,
            startup: watch::Sender::new(None),
            stop,
            doubt,
            flow: Arc::default(),
            pace,
            state: Mutex::default(),
            next_id: AtomicU64::new(0),
        })
    }

    /// Makes sure that the kinds which a target needs are watched, ends what nobody needs any more, and
    /// returns how each stands. Two targets that ask at once get one informer.
    pub fn require(
        self: &Arc<Self>,
        target: &TargetKey,
        needs: &BTreeMap<Gvk, Need>,
    ) -> BTreeMap<Place, State> {
        let mut state = self.state.lock();
        let places = state.places(needs);
        let mut states = BTreeMap::new();
        for (place, need) in &places {
            let running = &mut state.running;
            let informer =
                running.entry(place.clone()).or_insert_with(|| self.start(place, &need.resource, need.scope));
            if informer.resource != need.resource {
                // The kind was taken away and defined again, with other names.
                informer.stop.cancel();
                let users = std::mem::take(&mut informer.users);
                *informer = Informer { users, ..self.start(place, &need.resource, need.scope) };
            }
            informer.users.insert(target.clone());
            states.insert(place.clone(), informer.state.clone());
        }
        let mut ended = BTreeSet::new();
        state.running.retain(|place, informer| {
            if !places.contains_key(place) {
                informer.users.remove(target);
            }
            let needed = !informer.users.is_empty();
            if !needed {
                informer.stop.cancel();
                ended.insert(place.clone());
            }
            needed
        });
        if !ended.is_empty() {
            self.queue.recount(&self.cluster);
            state.forget(&ended);
        }
        for gvk in ended.into_iter().map(|place| place.gvk).collect::<BTreeSet<_>>() {
            let targets = self.records.drop_kind(&gvk, |namespace| state.sees(&gvk, namespace));
            self.wake(targets.into_iter().collect());
        }
        states
    }

    /// The target needs no informer any more.
    pub fn release(self: &Arc<Self>, target: &TargetKey) {
        self.require(target, &BTreeMap::new());
    }

    /// Where a target's needs would be seen, without informers.
    pub fn places(&self, needs: &BTreeMap<Gvk, Need>) -> BTreeSet<Place> {
        self.state.lock().places(needs).into_keys().collect()
    }

    /// Ends when an informer could not start and the settings say that this ends the contact.
    pub async fn cannot_start(&self) -> CallError {
        let mut startup = self.startup.subscribe();
        let why = startup.wait_for(Option::is_some).await.map(|why| why.clone());
        match why {
            Ok(why) => CallError { class: Class::Server, message: why.unwrap_or_default() },
            // The sender lives as long as this.
            Err(_) => std::future::pending().await,
        }
    }

    /// Begins every informer again, for all namespaces: after the member was out of reach.
    pub fn restart(self: &Arc<Self>) {
        self.startup.send_replace(None);
        let mut state = self.state.lock();
        state.confined.clear();
        state.end_short_rests();
        let before = std::mem::take(&mut state.running);
        state.broken.forget(&before.keys().filter(|place| !place.namespace.is_empty()).cloned().collect());
        for (place, old) in before {
            old.stop.cancel();
            let everywhere = Place::everywhere(&place.gvk);
            let fresh = || self.start(&Place::everywhere(&place.gvk), &old.resource, old.scope);
            state.running.entry(everywhere).or_insert_with(fresh).users.extend(old.users);
        }
    }

    /// Stops following, keeps the records and who asked: the member is out of reach.
    pub fn pause(&self) {
        for informer in self.state.lock().running.values_mut() {
            informer.stop.cancel();
            informer.state = State::Syncing;
        }
    }

    /// How many informers there are, and how many are synced.
    pub fn counts(&self) -> (usize, usize) {
        let running = &self.state.lock().running;
        (running.len(), running.values().filter(|informer| informer.state == State::Synced).count())
    }

    fn reader(&self, place: &Place, resource: &ApiResource) -> Reader {
        let kind = (place.gvk.clone(), resource.clone());
        let (client, hub, tuning) = (self.client.clone(), self.hub.clone(), self.tuning.clone());
        Reader::new(client, kind, place.namespace.clone(), hub, tuning)
            .with(self.flow.clone(), self.pace.clone())
    }

    fn start(self: &Arc<Self>, place: &Place, resource: &ApiResource, scope: Scope) -> Informer {
        let stop = self.stop.child_token();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let reader = self.reader(place, resource);
        let run = Arc::new(Run {
            registry: self.clone(),
            place: place.clone(),
            reader,
            scope,
            id,
            named: Default::default(),
            in_line: Default::default(),
        });
        let (token, rng) = (stop.clone(), self.rng.clone());
        let follow =
            async move { supervised("informer", rng.as_ref(), || Box::pin(run.clone().follow())).await };
        self.tasks.spawn(token.run_until_cancelled_owned(follow));
        let resource = resource.clone();
        Informer { id, resource, scope, users: BTreeSet::new(), state: State::Syncing, stop }
    }

    /// From 0 to 1.
    fn chance(&self) -> f64 {
        (self.rng.next() % 1001) as f64 / 1000.0
    }

    fn notify_of_list(&self, targets: impl IntoIterator<Item = TargetKey>) {
        if mutants::is(Mutant::EventsLostAtRelist) {
            return;
        }
        self.notify(targets);
    }

    /// Tells those that follow events: the others' objects may be of a kind that somebody follows.
    fn notify(&self, targets: impl IntoIterator<Item = TargetKey>) {
        let mut targets = targets.into_iter().peekable();
        if targets.peek().is_none() {
            return;
        }
        let state = self.state.lock();
        for target in targets.filter(|target| state.follows(target)) {
            self.queue.add(Key::Target(target), Priority::Drift);
        }
    }

    /// The same of what costs nobody anything while it waits: however much comes, one look a second tells of all.
    fn notify_later(&self, targets: Vec<TargetKey>) {
        let state = self.state.lock();
        for target in targets.into_iter().filter(|target| state.follows(target)) {
            self.queue.add_after(Key::Target(target), STRAYS_REST);
        }
    }

    fn wake(&self, targets: BTreeSet<TargetKey>) {
        for target in targets {
            self.queue.add(Key::Target(target), Priority::Resync);
        }
    }

    fn set_state(&self, place: &Place, id: u64, state: State) {
        let (users, starting) = match self.state.lock().running.get_mut(place) {
            Some(informer) if informer.id == id && informer.state != state => {
                let before = std::mem::replace(&mut informer.state, state.clone());
                (informer.users.clone(), before == State::Syncing)
            }
            _ => return,
        };
        self.queue.recount(&self.cluster);
        if let State::Denied(why) | State::Failing(why) = &state
            && starting
            && self.tuning.now().stop_on_startup_error
        {
            let why = format!(
                "the informer of {place} could not start, and the setting informer.onStartupError is Stop: {why}"
            );
            // The contact ends, and that wakes the targets: woken now, they would ask a member that does not answer.
            self.startup.send_replace(Some(why));
            return;
        }
        self.wake(users);
    }

    /// Why objects of these cannot be read, where they cannot.
    pub fn unread<'a>(&self, keys: impl Iterator<Item = &'a ObjectKey>) -> BTreeMap<ObjectKey, String> {
        self.state.lock().broken.of(keys)
    }
}

#[cfg(test)]
mod tests;

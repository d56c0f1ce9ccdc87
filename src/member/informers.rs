//! The informer registry of one member: dynamic informers by GVR, made and ended from inside the
//! reconcile, counted by the targets that use them.
//!
//! An informer lists and watches the hub's own objects of one kind and folds them into [`Records`]. One
//! that fails says so and tries on; it never stops another. Where a kind cannot be listed in all namespaces, for
//! that is forbidden, there is one for each namespace in use.
//!
//! `registry` is what runs, `run` and `list` are what one of them does, `reader` what it reads, `places` where there is
//! one, `verify` how it finds out that a watch lies, `faults` what is said of that, `unreadable` what is known of objects
//! that cannot be read, `counts` what a status tells, `rests` which lists do not end, `single_list` the lists without a
//! watch, `rejudge` those for changed health rules.

mod counts;
mod faults;
mod list;
mod places;
mod reader;
mod registry;
mod rejudge;
mod rests;
mod run;
mod single_list;
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
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use vidra_api::{MemberWatches, VidraTarget, names::HubId};
use vidra_core::{
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey, Scope},
};

pub use self::places::{Need, Place};
use self::{
    counts::count,
    faults::{FaultReporter, WatchFault},
    reader::Reader,
    registry::{Informer, Registry},
    rests::{Rest, rest_of},
    run::Run,
};
use super::{doubt::Doubt, records::Records, session_deps::SessionDeps};
use crate::{
    base::{
        backoff::jittered,
        env::Rng,
        error::{CallError, Class},
        limiter::Turns,
        supervise::supervised,
    },
    config::{health_rules::HealthRules, tuning::Tuning},
    wire::{flow::Flow, pace::Pace},
    workqueue::{Key, Priority, Queue, TargetKey},
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

/// The informers of one member.
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
    health: Arc<HealthRules>,
    /// A place is followed, and other rules judge its kind than when it was listed.
    unjudged: Notify,
    faults: FaultReporter,
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
        let informers = Arc::new(Self {
            faults: FaultReporter::new(
                cluster.clone(),
                deps.metrics.clusters().of(&cluster),
                deps.warn.clone(),
            ),
            cluster,
            hub: deps.hub.clone(),
            client,
            records,
            queue: deps.queue.clone(),
            rng: deps.rng.clone(),
            turns: deps.calls.turns(),
            page: deps.limits.page,
            tuning: deps.tuning.clone(),
            health: deps.health.clone(),
            unjudged: Notify::new(),
            tasks,
            startup: watch::Sender::new(None),
            stop,
            doubt,
            flow: Arc::default(),
            pace,
            state: Mutex::default(),
            next_id: AtomicU64::new(0),
        });
        let (of, rng, token) = (informers.clone(), informers.rng.clone(), informers.stop.clone());
        let follow = async move { supervised("rejudge", rng.as_ref(), || rejudge::follow(of.clone())).await };
        informers.tasks.spawn(token.run_until_cancelled_owned(follow));
        informers
    }

    /// Makes sure that the kinds which a target needs are watched, ends what nobody needs any more, and
    /// returns how each stands. Two targets that ask at once get one informer.
    pub fn require(
        self: &Arc<Self>,
        target: &TargetKey,
        needs: &BTreeMap<Gvk, Need>,
    ) -> BTreeMap<Place, State> {
        let mut state = self.state.lock();
        let places = state.confined.places(needs);
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
        let ended = state.release(target, &places);
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
        self.state.lock().confined.places(needs).into_keys().collect()
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
        state.rests.end_short();
        let before = std::mem::take(&mut state.running);
        state
            .unreadable
            .forget(&before.keys().filter(|place| !place.namespace.is_empty()).cloned().collect());
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
        let (resource, users, state) = (resource.clone(), BTreeSet::new(), State::Syncing);
        Informer { id, resource, scope, users, state, stop, judged_by: None }
    }

    /// The informer with this id has listed all while the rule of its kind said this.
    fn set_judged(&self, place: &Place, id: u64, judged_by: u64) {
        let users = self.state.lock().set_judged(place, id, judged_by);
        self.notify_later(users.into_iter().collect());
        self.wake_rejudge(place);
    }

    /// What of a place was listed is judged by another rule by now.
    fn wake_rejudge(&self, place: &Place) {
        let says = self.health.now().fingerprint(&place.gvk.group, &place.gvk.kind);
        let judged_by = self.state.lock().running.get(place).and_then(|informer| informer.judged_by);
        if judged_by.is_some_and(|by| by != says) {
            self.unjudged.notify_one();
        }
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
            self.queue.add(Key::Target(target), Priority::Event);
        }
    }

    /// Tells those that follow events of what costs nobody anything while it waits: however much comes, one look a second
    /// tells of all.
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
        let Some((users, before)) = self.state.lock().set_state(place, id, state.clone()) else { return };
        self.queue.recount(&self.cluster);
        if state == State::Synced {
            self.wake_rejudge(place);
        }
        if let State::Denied(why) | State::Failing(why) = &state
            && before == State::Syncing
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

    /// What a target's informers follow was listed since the rules that hold for all have changed for it. Where none
    /// follows, each reconcile lists.
    pub fn are_judged(&self, target: &TargetKey) -> bool {
        let rules = self.health.now();
        let state = self.state.lock();
        let followed =
            |informer: &Informer| informer.state == State::Synced && informer.users.contains(target);
        state.running.iter().filter(|(_, informer)| followed(informer)).all(|(place, informer)| {
            informer.judged_by == Some(rules.fingerprint(&place.gvk.group, &place.gvk.kind))
        })
    }

    /// Why objects of these cannot be read, where they cannot.
    pub fn unread<'a>(&self, keys: impl Iterator<Item = &'a ObjectKey>) -> BTreeMap<ObjectKey, String> {
        self.state.lock().unreadable.of(keys)
    }

    /// A list has shown which objects of a place cannot be read. The targets for which that is news.
    fn set_unreadable(&self, place: &Place, broken: BTreeMap<ObjectKey, &'static str>) -> Vec<TargetKey> {
        let news = self.state.lock().unreadable.set(place, broken);
        news.iter().flat_map(|key| self.records.wanting(key)).collect()
    }

    /// A watch has shown one more.
    fn add_unreadable(&self, place: &Place, key: ObjectKey, why: &'static str) -> Vec<TargetKey> {
        let is_news = self.state.lock().unreadable.add(place, key.clone(), why);
        if is_news { self.records.wanting(&key) } else { Vec::new() }
    }

    /// An object was read, or is gone. The targets for which that is news.
    fn set_readable(&self, key: &ObjectKey) -> Vec<TargetKey> {
        let is_news = self.state.lock().unreadable.remove(key);
        if is_news { self.records.wanting(key) } else { Vec::new() }
    }

    /// A list was older than what was seen: the member was restored from a backup. True: everything is listed
    /// again, and until then no target plans anything.
    fn restored(self: &Arc<Self>, place: &Place) -> bool {
        let counts = self.state.lock().restore.begin();
        if counts {
            self.faults.report(place, &WatchFault::Restored);
            self.restart();
        }
        counts
    }

    /// Whether a place is not to be listed now.
    fn at_rest(&self, place: &Place) -> Option<Rest> {
        self.state.lock().rests.now(place)
    }

    /// A list that began then ended so: one that does not end is told, and rests, as one does that took long to fail.
    fn note_list(&self, place: &Place, began: Instant, ended: Option<&CallError>) {
        let Some(error) = ended else { return };
        let took = began.elapsed();
        if error.is_transport() {
            // With the first list of a place no watch breaks that would say so, and the next one may be another cluster's.
            self.doubt.raise();
        }
        if error.class == Class::Flood {
            self.faults.report(place, &WatchFault::Endless(error.message.clone()));
        }
        let Some(rest) = rest_of(error, took) else { return };
        let rest = jittered(rest, self.rng.as_ref());
        self.state.lock().rests.begin(place, rest, error.clone());
    }

    /// A list in all namespaces is forbidden. True: from now on there is one for each that is needed; its users
    /// look again, and ask for them.
    fn confine(&self, place: &Place, id: u64, scope: Scope) -> bool {
        if !place.namespace.is_empty() || scope == Scope::Cluster {
            return false;
        }
        let Some(users) = self.state.lock().confine(place, id) else { return true };
        tracing::info!(cluster = %self.cluster, kind = %place.gvk, "the hub may not list a kind in all namespaces; it lists it in each that targets need");
        self.wake(users);
        true
    }

    fn is_confined(&self, gvk: &Gvk) -> bool {
        self.state.lock().confined.contains(gvk)
    }

    /// It may be listed in all namespaces again.
    fn unconfine(&self, gvk: &Gvk) {
        let users = {
            let mut state = self.state.lock();
            if !state.confined.remove(gvk) {
                return;
            }
            state.users_of(gvk)
        };
        self.wake(users);
    }

    /// A target was looked at, and has the informers that it needs.
    pub fn looked(&self, target: &TargetKey) {
        let mut state = self.state.lock();
        if !state.looked.contains(target) {
            state.looked.insert(target.clone());
            drop(state);
            self.queue.recount(&self.cluster);
        }
    }

    /// A target is gone.
    pub fn forget(&self, target: &TargetKey) {
        self.state.lock().looked.remove(target);
    }

    /// Counts what these targets need, those apart that are suspended. `None`: some were not looked at yet, or a first list
    /// is under way.
    pub fn watches(&self, targets: &BTreeMap<TargetKey, Arc<VidraTarget>>) -> Option<MemberWatches> {
        let state = self.state.lock();
        let are_looked = targets.keys().all(|target| state.looked.contains(target));
        if are_looked { count(state.running.values(), targets) } else { None }
    }

    /// How many entries there are, by what they are of; for tests, which look that what is gone leaves none.
    pub fn entries(&self) -> [(&'static str, usize); 4] {
        let state = self.state.lock();
        [
            ("informers", state.running.len()),
            ("targets with informers", state.looked.len()),
            ("places that rest", state.rests.len()),
            ("places listed once", state.single_lists.len()),
        ]
    }
}

#[cfg(test)]
mod tests;

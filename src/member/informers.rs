//! The informer registry of one member: dynamic informers by GVR, made and ended from inside the
//! reconcile, counted by the targets that use them.
//!
//! An informer lists and watches the hub's own objects of one kind and folds them into [`Records`]. One
//! that fails says so and tries on; it never stops another. Where a kind cannot be listed in all namespaces, for
//! that is forbidden, there is one for each namespace in use.
//!
//! `run` is what one of them does, `wire` what it reads, `verify` how it finds out that a watch lies, `broken` what
//! is known of objects that cannot be read.

mod broken;
mod run;
mod verify;
mod wire;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
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
use vidra_core::object::{Gvk, ObjectKey, Scope};

pub use self::wire::MOST;
use self::{
    run::{PAGE, PAGE_WITHIN, Run},
    wire::{Item, Page, Wire},
};
use super::{
    budget::Shared,
    error::{CallError, Class},
    records::{Records, Source},
    session::SessionDeps,
};
use crate::{
    queue::{Key, Priority, Queue, TargetKey},
    seams::Rng,
    serve::metrics::Metrics,
    settings::tuning::Tuning,
    tasks::supervised,
};

/// Everything is listed anew for a restore at most this often: a server whose versions go to and fro is no reason
/// to list for ever.
const RESTORED_EVERY: Duration = Duration::from_secs(60);

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

/// What one informer sees: the objects of a kind, in one namespace or in all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The kind.
    pub gvk: Gvk,
    /// Empty: all of them.
    pub namespace: Arc<str>,
}

impl Place {
    /// All namespaces, or a kind without any.
    pub fn everywhere(gvk: &Gvk) -> Self {
        Self { gvk: gvk.clone(), namespace: "".into() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.gvk)?;
        if !self.namespace.is_empty() {
            write!(f, " in namespace {}", self.namespace)?;
        }
        Ok(())
    }
}

/// What a target needs of a kind.
#[derive(Clone, Debug)]
pub struct Need {
    /// How to address it.
    pub resource: ApiResource,
    /// Where it lives.
    pub scope: Scope,
    /// Where the target's objects are.
    pub namespaces: BTreeSet<Arc<str>>,
}

/// What is wrong with what a member shows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WatchFault {
    /// A watch has lost events.
    Lost,
    /// A watch was dead.
    Silent,
    /// A list was older than what had been seen.
    Restored,
    /// An object cannot be read: which, and why.
    Unreadable(String),
}

/// See the module.
pub struct Informers {
    cluster: Arc<str>,
    hub: HubId,
    client: Client,
    records: Arc<Records>,
    queue: Arc<Queue>,
    rng: Arc<dyn Rng>,
    turns: Shared,
    tuning: Arc<Tuning>,
    metrics: Metrics,
    warn: Arc<dyn Fn(&str, &str, &str) + Send + Sync>,
    tasks: TaskTracker,
    /// Why one of them could not start, where that is to end the contact.
    startup: watch::Sender<Option<String>>,
    /// Ends every informer.
    stop: CancellationToken,
    state: Mutex<Registry>,
    next_id: AtomicU64,
}

#[derive(Default)]
struct Registry {
    running: BTreeMap<Place, Informer>,
    /// Kinds that may not be listed in all namespaces.
    confined: BTreeSet<Gvk>,
    /// Objects that cannot be read.
    broken: broken::Unread,
    restored: Option<Instant>,
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
    /// Where a target's needs are to be seen.
    fn places<'a>(&self, needs: &'a BTreeMap<Gvk, Need>) -> BTreeMap<Place, &'a Need> {
        let mut places = BTreeMap::new();
        for (gvk, need) in needs {
            if need.scope == Scope::Namespaced && self.confined.contains(gvk) {
                places.extend(
                    need.namespaces
                        .iter()
                        .map(|namespace| (Place { gvk: gvk.clone(), namespace: namespace.clone() }, need)),
                );
            } else {
                places.insert(Place::everywhere(gvk), need);
            }
        }
        places
    }

    /// Does an informer see this kind there, in whichever version?
    fn sees(&self, gvk: &Gvk, namespace: &str) -> bool {
        self.running.keys().any(|place| {
            (&place.gvk.group, &place.gvk.kind) == (&gvk.group, &gvk.kind)
                && (place.namespace.is_empty() || *place.namespace == *namespace)
        })
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
        stop: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            cluster,
            hub: deps.hub.clone(),
            client,
            records,
            queue: deps.queue.clone(),
            rng: deps.rng.clone(),
            turns: deps.calls.clone(),
            tuning: deps.tuning.clone(),
            metrics: deps.metrics.clone(),
            warn: deps.warn.clone(),
            tasks,
            startup: watch::Sender::new(None),
            stop,
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
                // The kind was taken away and defined anew, with other names.
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
                ended.insert(place.gvk.clone());
            }
            needed
        });
        for gvk in ended {
            self.records.drop_kind(&gvk, |namespace| state.sees(&gvk, namespace));
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

    /// Begins every informer anew, for all namespaces: after the member was out of reach.
    pub fn restart(self: &Arc<Self>) {
        self.startup.send_replace(None);
        let mut state = self.state.lock();
        state.confined.clear();
        for (place, old) in std::mem::take(&mut state.running) {
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

    /// Lists one place now, where no watch tells: events are off, or the watch is down. Where it may not be listed
    /// in all namespaces, in those that are needed. Returns what could not be listed.
    pub async fn list_now(&self, place: &Place, need: &Need) -> BTreeMap<Place, CallError> {
        let mut failed = BTreeMap::new();
        match self.list_once(place, &need.resource).await {
            Ok(()) => {}
            Err(error)
                if error.class == Class::Forbidden
                    && place.namespace.is_empty()
                    && need.scope == Scope::Namespaced =>
            {
                self.state.lock().confined.insert(place.gvk.clone());
                for namespace in &need.namespaces {
                    let place = Place { gvk: place.gvk.clone(), namespace: namespace.clone() };
                    if let Err(error) = self.list_once(&place, &need.resource).await {
                        failed.insert(place, error);
                    }
                }
            }
            Err(error) => {
                failed.insert(place.clone(), error);
            }
        }
        failed
    }

    async fn list_once(&self, place: &Place, resource: &ApiResource) -> Result<(), CallError> {
        let wire = self.wire(place, resource);
        let mark = self.records.mark();
        let (mut seen, mut broken) = (BTreeSet::new(), BTreeMap::new());
        let (mut size, mut from) = (PAGE, None::<String>);
        loop {
            let text = match wire.page(size, from.as_deref(), PAGE_WITHIN).await {
                Err(error) if error.class == Class::Oversized && size > 1 => {
                    size = (size / 5).max(1);
                    continue;
                }
                text => text?,
            };
            let page = Page::read(&text)?;
            for raw in page.items() {
                match wire.item(raw) {
                    Item::Object(key, live) => {
                        seen.insert(key);
                        let targets = self.records.fold(&place.gvk, *live, Source::List(mark));
                        self.notify(targets);
                    }
                    Item::Broken(one) => {
                        if let Some(key) = one.key {
                            seen.insert(key.clone());
                            broken.insert(key, one.why);
                        }
                    }
                }
            }
            match page.next() {
                Some(next) => from = Some(next.to_owned()),
                None => break,
            }
        }
        self.set_broken(place, broken);
        self.notify(self.records.listed(&place.gvk, &place.namespace, &seen, mark));
        Ok(())
    }

    fn wire(&self, place: &Place, resource: &ApiResource) -> Wire {
        Wire {
            client: self.client.clone(),
            gvk: place.gvk.clone(),
            resource: resource.clone(),
            namespace: place.namespace.clone(),
            hub: self.hub.clone(),
        }
    }

    fn start(self: &Arc<Self>, place: &Place, resource: &ApiResource, scope: Scope) -> Informer {
        let stop = self.stop.child_token();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let wire = self.wire(place, resource);
        let run = Arc::new(Run { registry: self.clone(), place: place.clone(), wire, scope, id });
        let (token, rng) = (stop.clone(), self.rng.clone());
        let follow = async move { supervised("informer", rng.as_ref(), || run.clone().follow()).await };
        self.tasks.spawn(token.run_until_cancelled_owned(follow));
        let resource = resource.clone();
        Informer { id, resource, scope, users: BTreeSet::new(), state: State::Syncing, stop }
    }

    /// From 0 to 1.
    fn chance(&self) -> f64 {
        (self.rng.next() % 1001) as f64 / 1000.0
    }

    fn notify_of_list(&self, targets: impl IntoIterator<Item = TargetKey>) {
        #[cfg(vidra_mutants)]
        if crate::mutants::is(crate::mutants::Mutant::EventsLostAtRelist) {
            return;
        }
        self.notify(targets);
    }

    fn notify(&self, targets: impl IntoIterator<Item = TargetKey>) {
        for target in targets {
            self.queue.add(Key::Target(target), Priority::Drift);
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
        if let State::Denied(why) | State::Failing(why) = &state
            && starting
            && self.tuning.now().stop_on_startup_error
        {
            let why = format!(
                "the informer of {place} could not start, and the setting informer.onStartupError is Stop: {why}"
            );
            self.startup.send_replace(Some(why));
        }
        self.wake(users);
    }

    /// A list in all namespaces is forbidden. True: from now on there is one for each that is needed; its users
    /// look again, and ask for them.
    fn confine(&self, place: &Place, id: u64, scope: Scope) -> bool {
        if !place.namespace.is_empty() || scope == Scope::Cluster {
            return false;
        }
        let users = {
            let mut state = self.state.lock();
            match state.running.get(place) {
                Some(informer) if informer.id == id => {}
                _ => return true,
            }
            state.confined.insert(place.gvk.clone());
            state.users_of(&place.gvk)
        };
        tracing::info!(cluster = %self.cluster, kind = %place.gvk, "may not be listed in all namespaces; one by one");
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

    /// A list was older than what was seen: the member was restored from a backup. True: everything is listed
    /// anew, and until then no target plans anything.
    fn restored(self: &Arc<Self>, place: &Place) -> bool {
        {
            let mut state = self.state.lock();
            if state.restored.is_some_and(|at| at.elapsed() < RESTORED_EVERY) {
                return false;
            }
            state.restored = Some(Instant::now());
        }
        self.complain(place, &WatchFault::Restored, 0);
        self.restart();
        true
    }

    /// Says what is wrong with what the member shows: in the log, as a metric, and as an Event.
    fn complain(&self, place: &Place, fault: &WatchFault, objects: usize) {
        let (word, reason, note) = match fault {
            WatchFault::Lost => (
                "lost",
                "WatchLied",
                format!(
                    "the watch of {place} has not told of {objects} objects that a list shows otherwise; all is listed anew. \
                     Look at what is between the hub and the API server"
                ),
            ),
            WatchFault::Silent => (
                "silent",
                "WatchSilent",
                format!(
                    "the watch of {place} showed nothing and did not end when it should; it is begun anew"
                ),
            ),
            WatchFault::Restored => (
                "restored",
                "MemberRestored",
                format!(
                    "a list of {place} is older than what was seen before: the member was restored from a backup. All kinds \
                     are listed anew, and nothing is changed or deleted until that is done"
                ),
            ),
            WatchFault::Unreadable(which) => (
                "unreadable",
                "ObjectUnreadable",
                format!("of {place} an object cannot be read and is left as it is: {which}"),
            ),
        };
        tracing::warn!(cluster = %self.cluster, %note, "what the member shows is not to be trusted");
        self.metrics.distrusted(&self.cluster, &place.gvk.to_string(), word);
        (self.warn)(&self.cluster, reason, &note);
    }

    /// Why objects of these cannot be read, where they cannot.
    pub fn unread<'a>(&self, keys: impl Iterator<Item = &'a ObjectKey>) -> BTreeMap<ObjectKey, String> {
        self.state.lock().broken.of(keys)
    }
}

#[cfg(test)]
mod tests;

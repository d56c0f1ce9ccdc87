//! The informer registry of one member: dynamic informers by GVR, made and ended from inside the
//! reconcile, counted by the targets that use them.
//!
//! An informer lists and watches the hub's own objects of one kind and folds them into [`Records`]. One
//! that fails says so and tries on; it never stops another.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt};
use kube::{
    Api, Client,
    api::ListParams,
    core::ApiResource,
    runtime::watcher::{self, Event},
};
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use vidra_core::object::{Gvk, ObjectKey};

use super::{
    budget::Shared,
    error::{CallError, Class},
    live::Live,
    records::{Records, Source},
    session::SessionDeps,
};
use crate::{
    queue::{Key, Priority, Queue, TargetKey},
    seams::Rng,
    settings::tuning::Tuning,
    tasks::{Pauses, supervised},
};

/// Watches end after this long and are begun anew, before load balancers drop them as idle (240 s).
const WATCH_SECONDS: u32 = 200;
const LIST_WITHIN: Duration = Duration::from_secs(60);
const PAGE: u32 = 500;
/// A list that has shown nothing for so long gives its turn to another.
const SILENT_LIST: Duration = Duration::from_secs(2);

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
    /// The selector of this hub's objects.
    selector: String,
    client: Client,
    records: Arc<Records>,
    queue: Arc<Queue>,
    rng: Arc<dyn Rng>,
    turns: Shared,
    tuning: Arc<Tuning>,
    tasks: TaskTracker,
    /// Why one of them could not start, where that is to end the contact.
    startup: watch::Sender<Option<String>>,
    /// Ends every informer.
    stop: CancellationToken,
    running: Mutex<BTreeMap<Gvk, Informer>>,
    next_id: AtomicU64,
}

struct Informer {
    id: u64,
    resource: ApiResource,
    users: BTreeSet<TargetKey>,
    state: State,
    stop: CancellationToken,
}

impl Informers {
    /// A registry without informers.
    pub fn new(
        selector: String,
        client: Client,
        records: Arc<Records>,
        deps: &SessionDeps,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Arc<Self> {
        let (queue, rng, tuning) = (deps.queue.clone(), deps.rng.clone(), deps.tuning.clone());
        let turns = deps.calls.clone();
        let (running, startup) = (Mutex::default(), watch::Sender::new(None));
        Arc::new(Self {
            selector,
            client,
            records,
            queue,
            rng,
            turns,
            tuning,
            tasks,
            startup,
            stop,
            running,
            next_id: AtomicU64::new(0),
        })
    }

    /// Makes sure that the kinds which a target needs are watched, ends what nobody needs any more, and
    /// returns how each stands. Two targets that ask at once get one informer.
    pub fn require(
        self: &Arc<Self>,
        target: &TargetKey,
        kinds: &BTreeMap<Gvk, ApiResource>,
    ) -> BTreeMap<Gvk, State> {
        let mut running = self.running.lock();
        running.retain(|gvk, informer| {
            if !kinds.contains_key(gvk) {
                informer.users.remove(target);
            }
            if informer.users.is_empty() && !kinds.contains_key(gvk) {
                informer.stop.cancel();
                self.records.drop_kind(gvk);
                return false;
            }
            true
        });
        kinds
            .iter()
            .map(|(gvk, resource)| {
                let informer = running.entry(gvk.clone()).or_insert_with(|| self.start(gvk, resource));
                informer.users.insert(target.clone());
                (gvk.clone(), informer.state.clone())
            })
            .collect()
    }

    /// The target needs no informer any more.
    pub fn release(self: &Arc<Self>, target: &TargetKey) {
        self.require(target, &BTreeMap::new());
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

    /// Begins every informer anew: after the member was out of reach.
    pub fn restart(self: &Arc<Self>) {
        self.startup.send_replace(None);
        let mut running = self.running.lock();
        let kinds: Vec<_> =
            running.iter().map(|(gvk, informer)| (gvk.clone(), informer.resource.clone())).collect();
        for (gvk, resource) in kinds {
            let fresh = self.start(&gvk, &resource);
            if let Some(old) = running.get_mut(&gvk) {
                old.stop.cancel();
                (old.id, old.stop, old.state) = (fresh.id, fresh.stop, fresh.state);
            }
        }
    }

    /// Stops following, keeps the records and who asked: the member is out of reach.
    pub fn pause(&self) {
        for informer in self.running.lock().values_mut() {
            informer.stop.cancel();
            informer.state = State::Syncing;
        }
    }

    /// How many informers there are, and how many are synced.
    pub fn counts(&self) -> (usize, usize) {
        let running = self.running.lock();
        (running.len(), running.values().filter(|informer| informer.state == State::Synced).count())
    }

    /// Lists one kind now, where no watch tells: events are off, or the watch is down.
    pub async fn list_now(&self, gvk: &Gvk, resource: &ApiResource) -> Result<(), CallError> {
        let api: Api<Live> = Api::all_with(self.client.clone(), resource);
        let mark = self.records.mark();
        let mut seen = BTreeSet::new();
        let mut params = ListParams::default().labels(&self.selector).limit(PAGE);
        loop {
            let page = tokio::time::timeout(LIST_WITHIN, api.list(&params))
                .await
                .map_err(|_| CallError::deadline(LIST_WITHIN))??;
            for live in page.items {
                seen.insert(key_of(gvk, &live));
                let targets = self.records.fold(gvk, live, Source::List(mark));
                self.notify(targets);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
        self.notify(self.records.listed(gvk, "", &seen, mark));
        Ok(())
    }

    fn start(self: &Arc<Self>, gvk: &Gvk, resource: &ApiResource) -> Informer {
        let stop = self.stop.child_token();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let run = Arc::new(Run { registry: self.clone(), gvk: gvk.clone(), resource: resource.clone(), id });
        let (token, rng) = (stop.clone(), self.rng.clone());
        let follow = async move { supervised("informer", rng.as_ref(), || run.clone().follow()).await };
        self.tasks.spawn(token.run_until_cancelled_owned(follow));
        Informer { id, resource: resource.clone(), users: BTreeSet::new(), state: State::Syncing, stop }
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

    fn set_state(&self, gvk: &Gvk, id: u64, state: State) {
        let (users, starting) = match self.running.lock().get_mut(gvk) {
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
                "the informer of {gvk} could not start, and the setting informer.onStartupError is Stop: {why}"
            );
            self.startup.send_replace(Some(why));
        }
        for user in users {
            self.queue.add(Key::Target(user), Priority::Resync);
        }
    }
}

/// One informer's task.
struct Run {
    registry: Arc<Informers>,
    gvk: Gvk,
    resource: ApiResource,
    id: u64,
}

impl Run {
    /// Follows for ever; the caller cancels it.
    async fn follow(self: Arc<Self>) {
        let mut pauses = Pauses::default();
        loop {
            self.follow_one_stream(&mut pauses).await;
        }
    }

    /// Until the stream has to be made anew: a watcher that met an expired resourceVersion would ask with it
    /// for ever, and one that was refused would not say when it is let in again.
    async fn follow_one_stream(&self, pauses: &mut Pauses) {
        let registry = &self.registry;
        let api: Api<Live> = Api::all_with(registry.client.clone(), &self.resource);
        let config =
            watcher::Config::default().labels(&registry.selector).timeout(WATCH_SECONDS).page_size(PAGE);
        let mut events = std::pin::pin!(watcher::watcher(api, config));
        let mut seen = BTreeSet::new();
        let mut mark = registry.records.mark();
        // Never fails: turns do not end.
        let mut turn = registry.turns.list().await.ok();
        // Told at the list's end: until then a plan would have to wait for it.
        let mut woken = BTreeSet::new();
        let within = registry.tuning.now().cache_sync_timeout;
        let mut listing = Some(Instant::now() + within);
        loop {
            let event = match listing {
                Some(end) => tokio::time::timeout_at(end, next(&mut events, &mut turn)).await,
                None => Ok(next(&mut events, &mut turn).await),
            };
            let Ok(event) = event else {
                // It goes on all the same: begun anew, a long list would never end.
                let why = format!("its first list takes longer than {within:?}");
                registry.set_state(&self.gvk, self.id, State::Failing(why));
                listing = None;
                continue;
            };
            let Some(event) = event else { return };
            match event {
                Ok(Event::Init) => {
                    seen.clear();
                    mark = registry.records.mark();
                }
                Ok(Event::InitApply(live)) => {
                    seen.insert(key_of(&self.gvk, &live));
                    woken.extend(registry.records.fold(&self.gvk, live, Source::List(mark)));
                }
                Ok(Event::InitDone) => {
                    woken.extend(registry.records.listed(&self.gvk, "", &seen, mark));
                    registry.notify_of_list(std::mem::take(&mut woken));
                    seen.clear();
                    turn = None;
                    pauses.reset();
                    listing = None;
                    registry.set_state(&self.gvk, self.id, State::Synced);
                }
                Ok(Event::Apply(live)) => {
                    pauses.reset();
                    registry.notify(registry.records.fold(&self.gvk, live, Source::Watch));
                }
                Ok(Event::Delete(live)) => {
                    pauses.reset();
                    let key = key_of(&self.gvk, &live);
                    registry.notify(registry.records.fold_gone(&key, live.uid(), live.resource_version()));
                }
                Err(error) => {
                    turn = None;
                    registry.notify_of_list(std::mem::take(&mut woken));
                    let judgement = judge(error);
                    tracing::debug!(kind = %self.gvk, ?judgement, "informer");
                    let anew = judgement != Judgement::GoOn;
                    if let Judgement::Blind(state) = judgement {
                        registry.set_state(&self.gvk, self.id, state);
                    }
                    pauses.pause(registry.rng.as_ref()).await;
                    if anew {
                        return;
                    }
                }
            }
        }
    }
}

/// The next event; a stream that is silent loses its turn at listing while it is waited for.
async fn next<S: Stream + Unpin>(events: &mut S, turn: &mut Option<OwnedSemaphorePermit>) -> Option<S::Item> {
    if turn.is_some() {
        match tokio::time::timeout(SILENT_LIST, events.next()).await {
            Ok(event) => return event,
            Err(_) => *turn = None,
        }
    }
    events.next().await
}

fn key_of(gvk: &Gvk, live: &Live) -> ObjectKey {
    ObjectKey::new(gvk, live.meta_text("namespace"), live.meta_text("name"))
}

/// What an error says of the informer.
#[derive(Debug, PartialEq, Eq)]
enum Judgement {
    /// A watch that ends or breaks is begun again where it was: that alone leaves the records complete.
    GoOn,
    /// Its position has expired: a list is due.
    Expired,
    /// It sees nothing.
    Blind(State),
}

fn judge(error: watcher::Error) -> Judgement {
    let (error, listing) = match error {
        watcher::Error::InitialListFailed(error) => (CallError::from(error), true),
        watcher::Error::WatchStartFailed(error) => (CallError::from(error), false),
        watcher::Error::WatchFailed(error) => (CallError::from(error), false),
        watcher::Error::WatchError(status) => (CallError::from(*status), false),
        watcher::Error::NoResourceVersion => {
            return Judgement::Blind(State::Failing("the member sends no resourceVersion".into()));
        }
    };
    match error.class {
        Class::Expired => Judgement::Expired,
        Class::Forbidden | Class::Unauthenticated => Judgement::Blind(State::Denied(error.message)),
        // The kind has gone, or is not yet served.
        Class::NotFound => Judgement::Blind(State::Failing(error.message)),
        _ if listing => Judgement::Blind(State::Failing(error.message)),
        _ => Judgement::GoOn,
    }
}

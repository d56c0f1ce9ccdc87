//! Wiring and shutdown, nothing else: seams in, a running hub out.

mod health_rules;
mod settings_change;

use std::sync::Arc;

use kube::Client;
use tokio::{sync::watch, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument, info_span};

use crate::{
    base::{
        env::{Clock, Connect, Rng},
        supervise::{Halt, Stop, supervised, vital},
    },
    config::{
        Settings,
        health_rules::{self as fleet_rules, ConfigMaps},
        tuning::{self, Tuning},
    },
    controllers::{Hub, RETRY_RARELY, entry_counts, gauges},
    hub::{
        api::HubApi,
        catalog::Catalog,
        crd_version::{self, SchemaError},
        events::{Events, Writer},
        identity::{self, Identity, IdentityError},
        revisions::Revisions,
        sources::watch::follow_sources,
        watch::{Startup, follow_all},
    },
    internal_limits::InternalLimits,
    leader_election::lease::Tenure,
    metrics::Metrics,
    workqueue::{Key, Limits, Queue, Timer, Turn, Verdict},
};

/// The seams, and the hub's own client.
pub struct Deps {
    /// The hub cluster.
    pub client: Client,
    /// The way to members.
    pub connect: Arc<dyn Connect>,
    /// Wall time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub rng: Arc<dyn Rng>,
    /// Counters; shared with whoever serves them.
    pub metrics: Metrics,
    /// Bounds, which only the simulation has otherwise.
    pub limits: InternalLimits,
    /// Of the Lease under which it runs; `None`: no other process can be there.
    pub tenure: Option<Arc<Tenure>>,
}

/// Why the hub could not start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its CRDs are older than it.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// It has no identity.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// It could not go on.
    #[error(transparent)]
    Halted(#[from] Halt),
}

/// Runs the hub until `stop`; then ends everything that it started. `synced` turns true when the hub's own
/// objects and the fleet's health rules are known.
pub async fn run(
    settings: Settings,
    deps: Deps,
    synced: watch::Sender<bool>,
    stop: CancellationToken,
) -> Result<(), RunError> {
    let known = stop.run_until_cancelled(crd_version::check(&deps.client)).await.transpose()?;
    if known.is_none() {
        return Ok(());
    }
    let identity = identity::ensure(&deps.client, &settings, deps.rng.as_ref());
    let Some(identity) = stop.run_until_cancelled(identity).await.transpose()? else { return Ok(()) };
    let (hub, timer, event_writer) = assemble(settings, deps, identity);
    observe(&hub);

    let tasks = TaskTracker::new();
    let halting = Arc::new(Stop::new(stop.clone(), hub.metrics.fallen().clone()));
    let ending = halting.clone();
    tasks.spawn(async move { vital("timer", &ending, timer.run(ending.token.clone())).await });
    let startup = Arc::new(Startup {
        tuning: hub.tuning.clone(),
        stop: halting.clone(),
        hub: hub.identity.hub.clone(),
        page: hub.limits.page,
    });
    let listed = watch::Sender::new(false);
    let known = [listed.subscribe(), follow(&hub, startup, listed, &tasks)];
    let ending = halting.clone();
    let write = async move { vital("event writer", &ending, event_writer.run()).await };
    tasks.spawn(stop.clone().run_until_cancelled_owned(write));
    vital("dispatcher", &halting, work(&hub, (known, synced), &tasks, &stop)).await;

    let sessions = std::mem::take(&mut *hub.sessions.lock());
    for session in sessions.into_values() {
        session.end().await;
    }
    tasks.close();
    tasks.wait().await;
    hub.metrics.forget();
    match halting.why() {
        Some(why) => Err(why.into()),
        None => Ok(()),
    }
}

/// The hub, in which nothing runs yet, with the timer of its queue and the writer of its Events.
fn assemble(settings: Settings, deps: Deps, identity: Identity) -> (Arc<Hub>, Timer, Writer) {
    let Deps { client, connect, clock, rng, metrics, limits, tenure } = deps;
    let (queue, timer) = Queue::new(Limits::default(), rng.clone(), metrics.queue());
    let catalog = Arc::new(Catalog::new(queue.clone()));
    let tuning = Arc::new(Tuning::new(&settings));
    let (events, event_writer) = Events::new(client.clone(), clock.clone(), rng.clone());
    let hub = Arc::new(Hub {
        api: HubApi::new(
            client,
            identity.hub.clone(),
            catalog.clone(),
            metrics.clusters().hub(),
            tenure.clone(),
            limits.hub_calls,
        ),
        revisions: Revisions::new(identity.key.clone(), catalog.interned().clone(), limits.revision_part),
        settings,
        tuning,
        health: Default::default(),
        identity,
        catalog,
        queue,
        events: Arc::new(events),
        clock,
        rng,
        connect,
        metrics,
        limits,
        tenure,
        sessions: Default::default(),
        calls: Default::default(),
        value_bytes: Default::default(),
        late_creates: Default::default(),
        state: Default::default(),
    });
    (hub, timer, event_writer)
}

/// Lets the gauges be read from this hub, for as long as it is there.
fn observe(hub: &Arc<Hub>) {
    let (read, counted) = (Arc::downgrade(hub), Arc::downgrade(hub));
    hub.metrics.observe(
        move || Some(gauges::read(&*read.upgrade()?)),
        move || Some(entry_counts::read(&*counted.upgrade()?)),
    );
}

/// Starts what follows the settings, the fleet's health rules and, once the settings are known, the hub's own objects, whose
/// first lists `listed` awaits. The receiver turns true when the rules are known.
fn follow(
    hub: &Arc<Hub>,
    startup: Arc<Startup>,
    listed: watch::Sender<bool>,
    tasks: &TaskTracker,
) -> watch::Receiver<bool> {
    let client = hub.api.client.clone();
    let (stop, ending) = (startup.stop.token.clone(), startup.stop.clone());
    let asked = watch::Sender::new(false);
    let mut answered = asked.subscribe();
    let (of_settings, tuned) = (client.clone(), hub.clone());
    let settings = async move {
        let follow = || {
            let (namespace, rng) = (&*tuned.settings.namespace, tuned.rng.as_ref());
            let changed = |change: tuning::Change<'_>| settings_change::apply(&tuned, change);
            let follow = tuning::follow(
                of_settings.clone(),
                namespace,
                rng,
                &tuned.tuning,
                asked.clone(),
                &ending,
                changed,
            );
            ending.runs("settings", follow)
        };
        supervised("settings", tuned.rng.as_ref(), follow).await;
    };
    tasks.spawn(stop.clone().run_until_cancelled_owned(settings));
    let judges = follow_health_rules(hub, &startup, tasks);
    let ending = startup.stop.clone();
    let (namespace, catalog, rng) = (hub.settings.namespace.clone(), hub.catalog.clone(), hub.rng.clone());
    let objects = async move {
        // What follows on a failure at the start is a setting.
        let _ = answered.wait_for(|answered| *answered).await;
        let follow = || {
            let (rng, listed) = (rng.as_ref(), listed.clone());
            let follow = follow_all(client.clone(), &namespace, catalog.clone(), rng, &startup, listed);
            startup.stop.runs("hub watches", follow)
        };
        supervised("hub watches", rng.as_ref(), follow).await;
    };
    tasks.spawn(stop.clone().run_until_cancelled_owned(objects));
    let hub = hub.clone();
    let sources = async move {
        let follow = || {
            let (rng, page) = (hub.rng.as_ref(), hub.limits.page);
            let follow = follow_sources(&hub.api.client, hub.catalog.sources(), rng, page, &ending);
            ending.runs("watches of sources", follow)
        };
        supervised("watches of sources", hub.rng.as_ref(), follow).await;
    };
    tasks.spawn(stop.run_until_cancelled_owned(sources));
    judges
}

/// Starts what follows the fleet's health rules, and tells what comes of them; the receiver turns true when they are known.
fn follow_health_rules(hub: &Arc<Hub>, startup: &Arc<Startup>, tasks: &TaskTracker) -> watch::Receiver<bool> {
    let asked = watch::Sender::new(false);
    let (answered, stop) = (asked.subscribe(), startup.stop.token.clone());
    let (of_rules, ending) = (hub.clone(), startup.stop.clone());
    let rules = async move {
        let follow = || {
            let (hub, client) = (of_rules.as_ref(), of_rules.api.client.clone());
            let config_maps = ConfigMaps::new(client, &hub.settings.namespace, hub.identity.hub.clone());
            let changed = |change: fleet_rules::Change<'_>| health_rules::apply(hub, change);
            let follow =
                fleet_rules::follow(config_maps, hub.rng.as_ref(), &hub.health, &asked, &ending, changed);
            ending.runs("health rules", follow)
        };
        supervised("health rules", of_rules.rng.as_ref(), follow).await;
    };
    tasks.spawn(stop.clone().run_until_cancelled_owned(rules));
    let (hub, ending) = (hub.clone(), startup.stop.clone());
    let told = async move {
        let tell = || ending.runs("what health rules turn", health_rules::tell_turned(&hub));
        supervised("what health rules turn", hub.rng.as_ref(), tell).await;
    };
    tasks.spawn(stop.run_until_cancelled_owned(told));
    answered
}

/// Gives out keys until `stop`. Nothing is decided before all of `known` are true: the hub's own objects are known, and the
/// fleet's health rules, for what opens waves is not judged by half of them.
async fn work(
    hub: &Arc<Hub>,
    (known, synced): ([watch::Receiver<bool>; 2], watch::Sender<bool>),
    tasks: &TaskTracker,
    stop: &CancellationToken,
) {
    for mut known in known {
        let is_known = stop.run_until_cancelled(async { known.wait_for(|known| *known).await.is_ok() }).await;
        if is_known != Some(true) {
            return;
        }
    }
    synced.send_replace(true);
    while let Some(turn) = stop.run_until_cancelled(hub.queue.next()).await {
        let (hub, stop) = (hub.clone(), stop.clone());
        let Turn { key, trigger, attempt } = turn;
        let span =
            info_span!("reconcile", controller = key.loop_name(), key = %key.object(), ?trigger, attempt);
        let turn = async move {
            let work = Work { hub: &hub, key: &key, verdict: None };
            stop.run_until_cancelled(work.run()).await;
        };
        tasks.spawn(turn.instrument(span));
    }
}

/// One key's turn; whatever becomes of it, the queue hears that it has ended.
struct Work<'a> {
    hub: &'a Hub,
    key: &'a Key,
    verdict: Option<Verdict>,
}

impl Work<'_> {
    async fn run(mut self) {
        let begun = Instant::now();
        let verdict = self.hub.metrics.queue().timed(self.key, self.hub.reconcile(self.key)).await;
        tracing::debug!(duration = ?begun.elapsed(), result = ?verdict, "the reconcile ends");
        self.verdict = Some(verdict);
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        // Without a verdict the work panicked or was cancelled: it is tried again, later and later.
        let retry = Verdict::Backoff(RETRY_RARELY);
        self.hub.queue.done(self.key, self.verdict.unwrap_or(retry));
    }
}

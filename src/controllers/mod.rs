//! The three loops. Each gathers, asks vidra-core, performs, reports, and is the single writer of what it
//! writes.

mod approvals;
mod confirmation;
pub mod entry_counts;
pub mod gauges;
pub mod member_cluster;
mod own_rules;
mod owners;
mod revoke;
mod state;
mod status_fallback;
mod status_throttle;
mod unreadable;
mod value_pace;
mod value_turns;
pub mod vidra_resource;
pub mod vidra_target;
mod write_refusal;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use vidra_api::{Condition, VidraResource, condition::READY, find};
use vidra_core::contention::Now;

use state::ControllerState;
use status_throttle::{Due, StatusChange};

use crate::{
    base::{
        env::{Clock, Connect, Rng},
        error::CallError,
        limiter::Shared,
    },
    config::{Settings, health_rules::HealthRules, tuning::Tuning},
    hub::{
        api::HubApi,
        catalog::Catalog,
        events::{Events, Severity},
        identity::Identity,
        revisions::Revisions,
    },
    internal_limits::InternalLimits,
    leader_election::lease::Tenure,
    member::{
        late_creates::LateCreatesByMember, records::ValueBytes, session::Session, session_deps::SessionDeps,
    },
    metrics::Metrics,
    workqueue::{Key, Priority, Queue, ResourceKey, TargetKey, Verdict},
};

/// A failure that may pass by itself is tried again at least this often.
const RETRY_MOST: Duration = Duration::from_secs(30);
/// A Lease that was not renewed in time is mostly renewed soon, and to ask costs nothing.
const LEADS_AGAIN: Duration = Duration::from_secs(5);
/// A failure of a VidraResource or a MemberCluster that probably needs a person is looked at again at least this often.
pub const RETRY_RARELY: Duration = Duration::from_secs(300);

/// What the loops share.
pub struct Hub {
    /// Flags.
    pub settings: Settings,
    /// What can be changed while the hub runs.
    pub tuning: Arc<Tuning>,
    /// How objects in members are judged.
    pub health: Arc<HealthRules>,
    /// Who this hub is.
    pub identity: Identity,
    /// What is declared.
    pub catalog: Arc<Catalog>,
    /// The work queue.
    pub queue: Arc<Queue>,
    /// Writes to the hub.
    pub api: HubApi,
    /// Revisions, parsed and rendered.
    pub revisions: Revisions,
    /// Events.
    pub events: Arc<Events>,
    /// Wall time.
    pub clock: Arc<dyn Clock>,
    /// The source of random numbers; seeded in the simulation.
    pub rng: Arc<dyn Rng>,
    /// The way to members.
    pub connect: Arc<dyn Connect>,
    /// Counters.
    pub metrics: Metrics,
    /// One for each member that has credentials.
    pub sessions: Mutex<BTreeMap<String, Arc<Session>>>,
    /// Bounds.
    pub limits: InternalLimits,
    /// Of the Lease under which this process runs, if there is one.
    pub tenure: Option<Arc<Tenure>>,
    /// The calls that all members share.
    pub calls: Shared,
    /// What values that come back take, of all members.
    pub value_bytes: ValueBytes,
    /// What calls may still make in members.
    pub late_creates: Arc<LateCreatesByMember>,
    /// What the loops remember between reconciles; lost with the process, and nothing is wrong then.
    pub state: Mutex<ControllerState>,
}

impl Hub {
    /// The session of a member.
    pub fn session(&self, cluster: &str) -> Option<Arc<Session>> {
        self.sessions.lock().get(cluster).cloned()
    }

    /// What a new session needs.
    pub fn session_deps(&self) -> SessionDeps {
        let (catalog, queue) = (self.catalog.clone(), self.queue.clone());
        let (known, events) = (self.catalog.clone(), self.events.clone());
        let (declared, own) = (self.catalog.clone(), self.identity.hub.clone());
        SessionDeps {
            hub: self.identity.hub.clone(),
            salt: self.identity.key.clone(),
            queue: self.queue.clone(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            metrics: self.metrics.clone(),
            calls: self.calls.clone(),
            limits: self.limits,
            interned: self.catalog.interned().clone(),
            value_bytes: self.value_bytes.clone(),
            tuning: self.tuning.clone(),
            health: self.health.clone(),
            wake_targets: Arc::new(move |cluster| wake_targets(&catalog, &queue, cluster)),
            is_owner: Arc::new(move |cluster, manager| owners::is_known(&declared, &own, cluster, manager)),
            warn: Arc::new(move |cluster, reason, note| {
                if let Some(member) = known.member(cluster) {
                    events.say(member.as_ref(), Severity::Warning, reason, note);
                }
            }),
            late_creates: self.late_creates.clone(),
            late: self.tenure.as_ref().map(|tenure| tenure.late()),
        }
    }

    /// Makes every target on a cluster look again.
    pub fn wake_targets(&self, cluster: &str) {
        wake_targets(&self.catalog, &self.queue, cluster);
    }

    /// Now, for counting repairs.
    fn now(&self) -> Now {
        let now = Instant::now();
        let origin = *self.state.lock().origin.get_or_insert(now);
        Now { elapsed: now.duration_since(origin), wall: self.clock.now() }
    }

    /// A VidraTarget is gone: what was kept of it goes too.
    fn forget_target(&self, key: &TargetKey) {
        let mut state = self.state.lock();
        // Another one of its name may have been made since it went.
        state.forget_target(key, self.catalog.find_target(key).is_ok());
        drop(state);
        self.queue.forget(&Key::Target(key.clone()));
    }

    /// No other process can hold the Lease now.
    fn leads(&self) -> bool {
        self.api.leads().is_ok()
    }

    /// The revision that came of what a VidraResource declares now, as far as this process has seen.
    fn revision_of(&self, key: &ResourceKey, resource: &VidraResource) -> Option<String> {
        // Where no watch tells of changes, what was read last is all that anybody knows.
        if !resource.spec.manifests_from.is_empty() {
            return self.catalog.sources().last(key, resource);
        }
        let state = self.state.lock();
        state.resource(key)?.kept_revision.as_ref()?.of(resource).map(str::to_owned)
    }

    /// The revision of the last manifest of a VidraResource that could be read.
    fn last_revision(&self, key: &ResourceKey, resource: &VidraResource) -> Option<String> {
        let state = self.state.lock();
        let kept = state.resource(key).and_then(|state| state.kept_revision.as_ref()?.last_of(resource));
        let told = || resource.status.as_ref()?.revision.as_deref();
        kept.or_else(told).map(str::to_owned)
    }

    /// One key's turn.
    pub async fn reconcile(&self, key: &Key) -> Verdict {
        if !self.leads() {
            return Verdict::Backoff(LEADS_AGAIN);
        }
        // On the heap, each once: a turn that waits for a member is as large as its future, and all that wraps the turn
        // moves it.
        match key {
            Key::Cluster(name) => Box::pin(member_cluster::reconcile(self, name)).await,
            Key::Resource(key) => Box::pin(vidra_resource::reconcile(self, key)).await,
            Key::Target(key) => Box::pin(vidra_target::reconcile(self, key)).await,
        }
    }

    /// Whether a status of this key that has this to tell may be written now; where not, requeues the key for
    /// when it may.
    fn write_now_or_requeue(&self, key: &Key, change: StatusChange) -> bool {
        let due = self.state.lock().status_due(key, change, Instant::now());
        if let Due::In(wait) = due {
            self.queue.add_after(key.clone(), wait);
        }
        due == Due::Now
    }
}

fn wake_targets(catalog: &Catalog, queue: &Queue, cluster: &str) {
    for target in catalog.targets_on(cluster) {
        queue.add(Key::Target(target), Priority::Resync);
    }
}

/// Logs that an object's Ready condition says something else than before. To be called where its status is written.
fn log_ready(before: Option<&[Condition]>, now: &[Condition]) {
    let of = |ready: &&Condition| (ready.status.clone(), ready.reason.clone());
    let before = find(before.unwrap_or_default(), READY);
    let Some(ready) = find(now, READY).filter(|ready| before.as_ref().map(of) != Some(of(ready))) else {
        return;
    };
    let apart = if ready.message.is_empty() { "" } else { ": " };
    tracing::info!(
        ready = ready.status,
        reason = ready.reason,
        "Ready changes to {}{apart}{}",
        ready.status,
        ready.message
    );
}

/// What a failed write to the hub leads to: the state has moved on, or the API server does not answer.
fn after_hub_error(error: &CallError) -> Verdict {
    tracing::info!(%error, "the hub's API did not take a write; the hub reconciles the object again");
    Verdict::Backoff(RETRY_MOST)
}

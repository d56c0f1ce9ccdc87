//! The three loops. Each gathers, asks vidra-core, performs, reports, and is the single writer of what it
//! writes.

pub mod cluster;
pub mod resource;
pub mod target;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    hub::{api::HubApi, catalog::Catalog, events::Events, identity::Identity, revisions::Revisions},
    member::{
        error::CallError,
        session::{Session, SessionDeps},
    },
    queue::{Key, Priority, Queue, TargetKey, Verdict},
    seams::{Clock, Connect, Rng},
    serve::metrics::Metrics,
    settings::Settings,
};

/// A status of one object is written at most once in this time; the last one always.
const BETWEEN_STATUSES: Duration = Duration::from_secs(1);
/// A failure that may mend itself is tried again at least this often.
const RETRY_MOST: Duration = Duration::from_secs(30);
/// A failure that probably needs a person is looked at again at least this often.
const RETRY_RARELY: Duration = Duration::from_secs(300);

/// What the loops share.
pub struct Hub {
    /// Flags.
    pub settings: Settings,
    /// Who this hub is.
    pub identity: Identity,
    /// What is declared.
    pub catalog: Arc<Catalog>,
    /// Keys.
    pub queue: Arc<Queue>,
    /// Writes to the hub.
    pub api: HubApi,
    /// Revisions, parsed and rendered.
    pub revisions: Revisions,
    /// Events.
    pub events: Events,
    /// Wall time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub rng: Arc<dyn Rng>,
    /// The way to members.
    pub connect: Arc<dyn Connect>,
    /// Counters.
    pub metrics: Metrics,
    /// One for each member that has credentials.
    pub sessions: Mutex<BTreeMap<String, Arc<Session>>>,
    /// What the loops remember between passes; lost with the process, and nothing is wrong then.
    pub memo: Mutex<Memo>,
}

/// See [`Hub::memo`].
#[derive(Default)]
pub struct Memo {
    status_written: BTreeMap<Key, Instant>,
    corrections: BTreeMap<TargetKey, i64>,
    /// Members whose credentials the cluster loop has looked at since the start.
    judged: BTreeSet<String>,
}

impl Hub {
    /// The session of a member.
    pub fn session(&self, cluster: &str) -> Option<Arc<Session>> {
        self.sessions.lock().get(cluster).cloned()
    }

    /// What a new session needs.
    pub fn session_deps(&self) -> SessionDeps {
        let (catalog, queue) = (self.catalog.clone(), self.queue.clone());
        SessionDeps {
            hub: self.identity.hub.clone(),
            queue: self.queue.clone(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            metrics: self.metrics.clone(),
            wake_targets: Arc::new(move |cluster| wake_targets(&catalog, &queue, cluster)),
        }
    }

    /// Makes every target on a cluster look again.
    pub fn wake_targets(&self, cluster: &str) {
        wake_targets(&self.catalog, &self.queue, cluster);
    }

    /// One key's turn.
    pub async fn reconcile(&self, key: &Key) -> Verdict {
        match key {
            Key::Cluster(name) => cluster::reconcile(self, name).await,
            Key::Resource(key) => resource::reconcile(self, key).await,
            Key::Target(key) => target::reconcile(self, key).await,
        }
    }

    /// May a status of this key be written now? If not, the key comes again when it may.
    fn status_is_due(&self, key: &Key) -> bool {
        let now = Instant::now();
        let mut memo = self.memo.lock();
        if let Some(last) = memo.status_written.get(key) {
            let since = now.duration_since(*last);
            if since < BETWEEN_STATUSES {
                drop(memo);
                self.queue.add_after(key.clone(), BETWEEN_STATUSES - since);
                return false;
            }
        }
        memo.status_written.insert(key.clone(), now);
        true
    }
}

fn wake_targets(catalog: &Catalog, queue: &Queue, cluster: &str) {
    for target in catalog.targets_on(cluster) {
        queue.add(Key::Target(target), Priority::Resync);
    }
}

/// What a failed write to the hub leads to: the state has moved on, or the API server does not answer.
fn after_hub_error(key: &Key, error: &CallError) -> Verdict {
    tracing::info!(%key, %error, "a write to the hub did not go through; it is decided anew");
    Verdict::Retry(RETRY_MOST)
}

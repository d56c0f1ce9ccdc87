//! The three loops. Each gathers, asks vidra-core, performs, reports, and is the single writer of what it
//! writes.

mod affirm;
mod approvals;
pub mod cluster;
pub mod entries;
pub mod gauges;
mod lean;
mod owners;
mod refused;
pub mod resource;
mod revoke;
mod unreadable;
pub mod vidra_target;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use vidra_api::{Change, ChangeKind, DriftSpec, VidraResource, VidraResourceStatus, VidraTargetStatus};
use vidra_core::{
    fights::{Fights, Now},
    ignore::Unused,
    object::ObjectKey,
};

use crate::{
    base::{
        env::{Clock, Connect, Rng},
        error::CallError,
        limiter::Shared,
    },
    hub::{
        api::HubApi,
        catalog::Catalog,
        events::{Events, Severity},
        identity::Identity,
        revisions::Revisions,
    },
    knobs::Knobs,
    leader_election::lease::Tenure,
    member::{deps::SessionDeps, landing::Landings, session::Session},
    metrics::Metrics,
    queue::{Key, Priority, Queue, ResourceKey, TargetKey, Verdict},
    settings::{Settings, tuning::Tuning},
};

/// A status of one object is written at most once in this time, and once more when it ends what a passing one
/// announced; the last one always.
const BETWEEN_STATUSES: Duration = Duration::from_secs(1);
/// How long a passing status waits for the next.
const SETTLE: Duration = Duration::from_secs(1);
/// A failure that may pass by itself is tried again at least this often.
const RETRY_MOST: Duration = Duration::from_secs(30);
/// A Lease that was not renewed in time is mostly renewed soon, and to ask costs nothing.
const LEADS_AGAIN: Duration = Duration::from_secs(5);
/// A failure that probably needs a person is looked at again at least this often.
const RETRY_RARELY: Duration = Duration::from_secs(300);

/// What the loops share.
pub struct Hub {
    /// Flags.
    pub settings: Settings,
    /// What can be changed while the hub runs.
    pub tuning: Arc<Tuning>,
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
    pub events: Arc<Events>,
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
    /// Bounds.
    pub knobs: Knobs,
    /// Of the Lease under which this process runs, if there is one.
    pub tenure: Option<Arc<Tenure>>,
    /// The calls that all members share.
    pub calls: Shared,
    /// What calls may still make in members.
    pub landings: Arc<Landings>,
    /// What the loops remember between passes; lost with the process, and nothing is wrong then.
    pub memo: Mutex<Memo>,
}

/// See [`Hub::memo`].
#[derive(Default)]
pub struct Memo {
    /// When a status was due last, or sent if it has been, and whether that one was passing.
    status_written: BTreeMap<Key, (Instant, bool)>,
    corrections: BTreeMap<TargetKey, i64>,
    /// VidraTargets that this process made, until they have a status.
    made: BTreeSet<TargetKey>,
    /// VidraTargets of others' making that were met without a status: what was delivered for them is not known.
    untold: BTreeSet<TargetKey>,
    /// Repairs of late, and those who undo them.
    fights: BTreeMap<TargetKey, Fights>,
    /// What was found not to be as declared, was told, and is not repaired.
    drifting: BTreeMap<TargetKey, BTreeSet<(ObjectKey, ChangeKind)>>,
    /// Since when this process counts time.
    origin: Option<Instant>,
    /// What was repaired since the status that was written last; the newest.
    mended: BTreeMap<TargetKey, Vec<Change>>,
    /// Members whose credentials the cluster loop has looked at since the start.
    judged: BTreeSet<String>,
    /// What is known to be kept of what a VidraResource declares.
    kept_revision: BTreeMap<ResourceKey, KeptRevision>,
    /// The revisions of a VidraResource that nobody has any more.
    outdated: BTreeMap<ResourceKey, resource::Outdated>,
    /// What of the ignored paths matched nothing in a target, and of which rules that was said.
    unused: BTreeMap<TargetKey, (DriftSpec, Vec<Unused>)>,
    /// Which cluster answers under a MemberCluster's name, by its uid.
    claims: BTreeMap<String, String>,
    /// What targets do not declare any more and still have.
    undeclared: BTreeMap<TargetKey, vidra_target::Undeclared>,
    /// When targets last looked for what others have made in place of what they declare.
    revisited: BTreeMap<TargetKey, Instant>,
    /// VidraResources at which their loop has looked, or has tried to and could not: what `Catalog::arrivals` was when
    /// it began.
    tried: BTreeMap<ResourceKey, u64>,
    /// What was taken over of an object's approvals, and off its annotation, last.
    used_approvals: BTreeMap<Key, VecDeque<String>>,
    /// Annotations that approve no removal, once that was told.
    idle_approvals: BTreeMap<Key, String>,
    /// What a person has approved that MemberClusters' onRevoke takes.
    revoking: BTreeMap<String, revoke::Approved>,
    /// How the counts of a MemberCluster's status settle.
    counts: BTreeMap<String, cluster::counts::Settling>,
    /// Since when a status that may pass by itself waits to be written.
    settling: BTreeMap<Key, Instant>,
    /// How many passes one after the other have ended by a write on the hub that failed.
    failures: BTreeMap<Key, u32>,
    /// A status of these could not be written in their last pass, for one was a moment ago.
    deferred: BTreeSet<Key>,
    /// Targets for which the hub's API refuses writes, and how that is told.
    refused: BTreeMap<TargetKey, String>,
    /// Statuses of VidraResources that were not taken whole, and stand without their lists.
    whole_resources: BTreeMap<Key, VidraResourceStatus>,
    /// The same of VidraTargets.
    whole_targets: BTreeMap<Key, VidraTargetStatus>,
}

/// A revision whose Secret was written.
#[derive(Clone)]
struct KeptRevision {
    /// Of the VidraResource.
    uid: Option<String>,
    /// The VidraResource's, when it was kept.
    generation: i64,
    /// The revision's.
    name: String,
}

impl Memo {
    fn forget_key(&mut self, key: &Key) {
        self.status_written.remove(key);
        self.settling.remove(key);
        self.failures.remove(key);
        self.deferred.remove(key);
        self.whole_resources.remove(key);
        self.whole_targets.remove(key);
    }

    /// A VidraResource is gone: what was remembered of it goes too, and of targets that were never made.
    fn forget_resource(&mut self, key: &ResourceKey) {
        self.kept_revision.remove(key);
        self.outdated.remove(key);
        self.tried.remove(key);
        let first =
            TargetKey { namespace: key.namespace.clone(), resource: key.name.clone(), cluster: "".into() };
        let is_of = |made: &&TargetKey| made.namespace == key.namespace && made.resource == key.name;
        let made: Vec<_> = self.made.range(first..).take_while(is_of).cloned().collect();
        for target in &made {
            self.made.remove(target);
        }
        let key = Key::Resource(key.clone());
        self.idle_approvals.remove(&key);
        self.used_approvals.remove(&key);
        self.forget_key(&key);
    }

    /// A MemberCluster is gone: the same of it. One that joins under its name is judged by its own credentials.
    fn forget_member(&mut self, name: &str) {
        let key = Key::Cluster(name.into());
        self.counts.remove(name);
        self.revoking.remove(name);
        self.judged.remove(name);
        self.idle_approvals.remove(&key);
        self.used_approvals.remove(&key);
        self.forget_key(&key);
    }
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
            knobs: self.knobs,
            interned: self.catalog.interned().clone(),
            tuning: self.tuning.clone(),
            wake_targets: Arc::new(move |cluster| wake_targets(&catalog, &queue, cluster)),
            is_owner: Arc::new(move |cluster, manager| owners::is_known(&declared, &own, cluster, manager)),
            warn: Arc::new(move |cluster, reason, note| {
                if let Some(member) = known.member(cluster) {
                    events.say(member.as_ref(), Severity::Warning, reason, note);
                }
            }),
            landings: self.landings.clone(),
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
        let origin = *self.memo.lock().origin.get_or_insert(now);
        Now { elapsed: now.duration_since(origin), wall: self.clock.now() }
    }

    /// A person asks that repairs which wait for somebody to stop undoing them are tried at once; and a status that was
    /// not taken whole is tried once more.
    fn ask_again(&self, key: &TargetKey, word: &str) {
        let mut memo = self.memo.lock();
        if let Some(fights) = memo.fights.get_mut(key) {
            fights.ask(word);
        }
        memo.whole_targets.remove(&Key::Target(key.clone()));
    }

    /// How many objects somebody changes back again and again, by cluster.
    pub fn contentions(&self) -> BTreeMap<String, i64> {
        let mut counts = BTreeMap::new();
        for (key, fights) in &self.memo.lock().fights {
            *counts.entry(key.cluster.to_string()).or_default() += fights.contentions().count() as i64;
        }
        counts
    }

    /// Nothing is kept as declared of this target any more.
    fn forget_drift(&self, key: &TargetKey) {
        let mut memo = self.memo.lock();
        memo.fights.remove(key);
        memo.drifting.remove(key);
    }

    /// A target tells what of the ignored paths matches nothing in it; `None`: none are ignored. Whether that is
    /// news.
    fn note_unused(&self, key: &TargetKey, unused: Option<(DriftSpec, Vec<Unused>)>) -> bool {
        let mut memo = self.memo.lock();
        match unused {
            None => memo.unused.remove(key).is_some(),
            Some(unused) if memo.unused.get(key) == Some(&unused) => false,
            Some(unused) => {
                memo.unused.insert(key.clone(), unused);
                true
            }
        }
    }

    /// The same of a VidraTarget.
    fn forget_target(&self, key: &TargetKey) {
        self.forget_drift(key);
        let mut memo = self.memo.lock();
        memo.corrections.remove(key);
        // Another one of its name may have been made since it went.
        if self.catalog.find_target(key).is_err() {
            memo.made.remove(key);
        }
        memo.untold.remove(key);
        memo.unused.remove(key);
        memo.mended.remove(key);
        memo.undeclared.remove(key);
        memo.revisited.remove(key);
        memo.refused.remove(key);
        let key = Key::Target(key.clone());
        memo.forget_key(&key);
        drop(memo);
        self.queue.forget(&key);
    }

    /// No other process can hold the Lease now.
    fn leads(&self) -> bool {
        self.tenure.as_ref().is_none_or(|tenure| tenure.stands())
    }

    /// The revision that came of what a VidraResource declares now, as far as this process has seen.
    fn revision_of(&self, key: &ResourceKey, resource: &VidraResource) -> Option<String> {
        let generation = resource.metadata.generation.unwrap_or_default();
        let sources = self.catalog.sources();
        // Where no watch tells of changes, what was read last is all that anybody knows.
        if !resource.spec.manifests_from.is_empty() && sources.follows(key) {
            return sources.unchanged(key, generation);
        }
        let memo = self.memo.lock();
        let kept = memo.kept_revision.get(key)?;
        (kept.uid == resource.metadata.uid && kept.generation == generation).then(|| kept.name.clone())
    }

    /// One key's turn.
    pub async fn reconcile(&self, key: &Key) -> Verdict {
        if !self.leads() {
            return Verdict::Retry(LEADS_AGAIN);
        }
        match key {
            Key::Cluster(name) => cluster::reconcile(self, name).await,
            Key::Resource(key) => resource::reconcile(self, key).await,
            Key::Target(key) => vidra_target::reconcile(self, key).await,
        }
    }

    /// How long a status of this key, of which more may be told in a moment, can still wait.
    fn can_wait(&self, key: &Key) -> Option<Duration> {
        let now = Instant::now();
        let since = *self.memo.lock().settling.entry(key.clone()).or_insert(now);
        SETTLE.checked_sub(now.duration_since(since)).filter(|rest| !rest.is_zero())
    }

    /// May a status of this key be written now? If not, the key comes again when it may.
    ///
    /// A status that is `passing`, for it tells of work that is mostly done in a moment, waits for that
    /// moment: of a change that goes well only the end is written.
    fn status_is_due(&self, key: &Key, passing: bool) -> bool {
        if passing && let Some(rest) = self.can_wait(key) {
            self.queue.add_after(key.clone(), rest);
            return false;
        }
        let now = Instant::now();
        let mut memo = self.memo.lock();
        memo.settling.remove(key);
        if let Some((last, was_passing)) = memo.status_written.get(key) {
            let since = now.duration_since(*last);
            // What a passing status announced need not wait.
            let is_end = *was_passing && !passing;
            if since < BETWEEN_STATUSES && !is_end {
                memo.deferred.insert(key.clone());
                drop(memo);
                self.queue.add_after(key.clone(), BETWEEN_STATUSES - since);
                return false;
            }
        }
        memo.status_written.insert(key.clone(), (now, passing));
        true
    }

    /// A status of this key that was due has been sent. It may have waited for its turn among the calls to the hub's
    /// API, and its answer may have taken long: the next one keeps its distance from this moment.
    fn status_was_sent(&self, key: &Key) {
        if let Some((last, _)) = self.memo.lock().status_written.get_mut(key) {
            *last = Instant::now();
        }
    }
}

fn wake_targets(catalog: &Catalog, queue: &Queue, cluster: &str) {
    for target in catalog.targets_on(cluster) {
        queue.add(Key::Target(target), Priority::Resync);
    }
}

/// What a failed write to the hub leads to: the state has moved on, or the API server does not answer.
fn after_hub_error(key: &Key, error: &CallError) -> Verdict {
    tracing::info!(%key, %error, "a write to the hub did not go through; it is decided again");
    Verdict::Retry(RETRY_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_remembered_of_resources_and_members_that_are_gone() {
        let mut memo = Memo::default();
        let resource = |nth: usize| ResourceKey::new("team", &format!("shop-{nth}"));
        let other = TargetKey::new("team", "shop", "berlin");
        memo.made.insert(other.clone());
        for nth in 0..10_000 {
            // Made known to be made, and refused.
            for cluster in ["berlin", "tokyo"] {
                memo.made.insert(TargetKey::new("team", &format!("shop-{nth}"), cluster));
            }
            memo.tried.insert(resource(nth), 0);
            memo.judged.insert(format!("member-{nth}"));
        }
        for nth in 0..10_000 {
            memo.forget_resource(&resource(nth));
            memo.forget_member(&format!("member-{nth}"));
        }
        assert_eq!(memo.made, BTreeSet::from([other]));
        assert_eq!((memo.tried.len(), memo.judged.len()), (0, 0));
    }
}

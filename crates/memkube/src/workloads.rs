//! The controllers that make workloads ready, as one timed function beside the API: it watches the store and
//! writes status step by step. It makes no children: a Deployment gets no ReplicaSet, a claim no volume.
//!
//! ```text
//! store's changes -> look (a new generation: ask the plan) -> steps by time -> status::advance -> store
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::fault::Down;
use super::lifecycle::is_terminating;
use super::store::{Place, Resource, Store, Stored};
use super::write::{Validation, Write, text};
use super::{Cluster, Inner};

mod conditions;
mod pods;
mod status;

use status::{Base, Phase, Workload};

/// What becomes of one generation of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it is ready after this time, half of its replicas after half of the time.
    Ready(Duration),
    /// It is observed and never gets further; a Deployment exceeds its `progressDeadlineSeconds`.
    Stuck,
    /// It is observed, and fails after this time for this reason, such as `BackoffLimitExceeded` of a Job,
    /// `Evicted` of a Pod or `ProgressDeadlineExceeded` of a Deployment (of which another reason is that of
    /// its condition ReplicaFailure). A claim is lost. Other kinds have no way to say so: they are stuck.
    Failed(Duration, String),
}

/// Moves the status of Deployments, StatefulSets, DaemonSets, ReplicaSets, Jobs, Pods, PersistentVolumeClaims,
/// Ingresses and Services of type LoadBalancer as controllers do, on tokio's clock, until it is dropped. The
/// plan is asked once for each generation of each workload (of kinds without generation once for each object
/// and type), and a new generation ends what the last one was at. What is settled when this starts stays.
///
/// It reads and writes the store beside the API: its writes are no calls and pass no hook. Their manager is
/// `kube-controller-manager` (of Pods `kubelet`) with subresource `status`. While the cluster hangs it waits.
pub async fn run_workloads(cluster: Cluster, plan: impl Fn(&Value) -> Outcome + Send + Sync) {
    let inner = cluster.inner;
    let mut runner = Runner::default();
    loop {
        // Made before looking, so that no wake-up between looking and waiting is lost.
        let changed = inner.wake.notified();
        if inner.front.lock().down == Some(Down::Hang) {
            changed.await;
            continue;
        }
        runner.look(&inner, &plan);
        if runner.step(&inner) {
            continue;
        }
        let due = runner.due();
        tokio::select! {
            biased;
            () = changed => {}
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
    }
}

type Key = (Resource, Place);

/// One workload at one generation.
struct Run {
    /// What makes it the same: uid and generation.
    mark: String,
    template: u64,
    base: Base,
    /// When to go where, in order.
    steps: VecDeque<(Instant, Phase)>,
}

#[derive(Default)]
struct Runner {
    /// Everything up to this revision was looked at; nothing at the start.
    position: Option<u64>,
    /// How often the store had been restored by then.
    restores: u64,
    runs: BTreeMap<Key, Run>,
    /// When each run that goes on makes its next step.
    queue: BTreeSet<(Instant, Key)>,
}

impl Runner {
    /// Takes over what is new in the store.
    fn look(&mut self, inner: &Inner, plan: &impl Fn(&Value) -> Outcome) {
        let store = inner.store.lock();
        let now = store.revision();
        let mut seen: Vec<(Key, Option<Stored>)> = Vec::new();
        match self
            .position
            .filter(|_| self.restores == store.restores)
            .map(|position| store.changes_after(position))
        {
            Some(Ok(changes)) => {
                let of_workloads = changes.filter(|change| Workload::of(&change.resource).is_some());
                seen.extend(of_workloads.map(|change| {
                    (((*change.resource).clone(), (*change.place).clone()), change.new.clone())
                }));
            }
            _ => {
                self.runs.clear();
                self.queue.clear();
                for resource in Workload::resources() {
                    let table = store.table(&resource).into_iter().flatten();
                    seen.extend(table.map(|(place, stored)| {
                        ((resource.clone(), (**place).clone()), Some(stored.clone()))
                    }));
                }
            }
        }
        self.position = Some(now);
        self.restores = store.restores;
        let nodes = store.table(&Resource::new("", "nodes")).map_or(0, BTreeMap::len);
        // The plan is a test's: it may use the cluster.
        drop(store);
        for (key, stored) in seen {
            match stored.map(|stored| stored.read()).filter(|object| !is_terminating(object)) {
                Some(object) => self.start(key, &object, nodes, plan),
                None => self.forget(&key),
            }
        }
    }

    /// Starts a run for an object, unless it is at the same already, or is settled.
    fn start(&mut self, key: Key, object: &Value, nodes: usize, plan: &impl Fn(&Value) -> Outcome) {
        let Some(workload) = Workload::of(&key.0) else { return };
        if !workload.concerns(object) {
            self.forget(&key);
            return;
        }
        let count = match workload {
            Workload::Service => object["spec"]["type"].to_string(),
            _ => object["metadata"]["generation"].to_string(),
        };
        let mark = format!("{} {count}", text(object, "uid"));
        let last = self.runs.get(&key).filter(|run| run.mark.starts_with(text(object, "uid")));
        if last.is_some_and(|run| run.mark == mark) {
            return;
        }
        let template = hash(&object["spec"]["template"].to_string());
        let renewed = last.map(|run| run.template != template);
        let base = Base::read(workload, object, renewed, template, nodes);
        let steps = match last.is_some() || !workload.settled(object) {
            true => steps(workload, object, base.creates(workload, renewed), plan(object)),
            false => VecDeque::new(),
        };
        self.forget(&key);
        if let Some((at, _)) = steps.front() {
            self.queue.insert((*at, key.clone()));
        }
        self.runs.insert(key, Run { mark, template, base, steps });
    }

    fn forget(&mut self, key: &Key) {
        if let Some((at, _)) = self.runs.remove(key).and_then(|mut run| run.steps.pop_front()) {
            self.queue.remove(&(at, key.clone()));
        }
    }

    fn due(&self) -> Option<Instant> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Makes the next step that is due; false where there is none.
    fn step(&mut self, inner: &Inner) -> bool {
        if self.due().is_none_or(|at| at > Instant::now()) {
            return false;
        }
        let Some((_, key)) = self.queue.pop_first() else { return false };
        let Some(run) = self.runs.get_mut(&key) else { return true };
        let Some((_, phase)) = run.steps.pop_front() else { return true };
        if let Some((at, _)) = run.steps.front() {
            self.queue.insert((*at, key.clone()));
        }
        let mut store = inner.store.lock();
        let before = store.revision();
        advance(&mut store, inner, &key.0, &key.1, run, &phase);
        let changed = store.revision() != before;
        drop(store);
        if changed {
            inner.wake.notify_waiters();
        }
        true
    }
}

/// What a controller takes from one write to the next of a Deployment that it has just seen.
const GAP: Duration = Duration::from_millis(10);

/// The way of a generation; `creates` a ReplicaSet first.
fn steps(workload: Workload, object: &Value, creates: bool, outcome: Outcome) -> VecDeque<(Instant, Phase)> {
    let now = Instant::now();
    let mut steps = VecDeque::new();
    if workload.is_held(object) {
        steps.push_back((now, Phase::Observed));
        return steps;
    }
    let gap = match &outcome {
        Outcome::Ready(after) | Outcome::Failed(after, _) => GAP.min(*after / 8),
        Outcome::Stuck => GAP,
    };
    let mut at = now;
    let before = [(creates, Phase::Created), (workload == Workload::Deployment, Phase::Noted)];
    for (_, phase) in before.into_iter().filter(|(wanted, _)| *wanted) {
        steps.push_back((at, phase));
        at += gap;
    }
    steps.push_back((at, Phase::Observed));
    match outcome {
        Outcome::Ready(after) => {
            steps.push_back((now + after / 2, Phase::Half));
            steps.push_back((now + after, Phase::Done));
        }
        Outcome::Stuck => {}
        Outcome::Failed(after, reason) => steps.push_back((now + after, Phase::Failed(reason))),
    }
    let deadline = object["spec"]["progressDeadlineSeconds"].as_u64().map(Duration::from_secs);
    if let Some(at) = deadline.filter(|_| workload == Workload::Deployment).map(|deadline| now + deadline)
        && steps.back().is_none_or(|(last, phase)| *phase != Phase::Done || *last > at)
    {
        let place = steps.iter().take_while(|(due, _)| *due <= at).count();
        steps.insert(place, (at, Phase::TimedOut));
    }
    steps
}

fn hash(text: &str) -> u64 {
    // Always with the same keys.
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Writes what a phase makes of an object.
fn advance(store: &mut Store, inner: &Inner, resource: &Resource, place: &Place, run: &Run, phase: &Phase) {
    let Some(workload) = Workload::of(resource) else { return };
    let same =
        |kind: &&std::sync::Arc<super::Kind>| kind.group == resource.group && kind.plural == resource.plural;
    let Some(kind) = store.kinds.iter().find(same).cloned() else { return };
    let now = (inner.clock)();
    let write = |subresource: &str| Write {
        kind: kind.clone(),
        place: place.clone(),
        subresource: subresource.to_owned(),
        manager: if workload == Workload::Pod { "kubelet" } else { "kube-controller-manager" }.to_owned(),
        dry_run: false,
        validation: Validation::Ignore,
        exact: false,
        now,
        gate: None,
    };
    for subresource in ["", "status"] {
        let Some(live) = store.get(resource, place) else { return };
        let mut new = Value::clone(&live);
        match subresource {
            "" => status::bind(workload, &mut new, phase),
            _ => status::advance(workload, &mut new, &run.base, phase, now),
        }
        if new != *live {
            // A status that the server does not take stays as it was.
            let _ = store.replace(&write(subresource), new);
        }
    }
}

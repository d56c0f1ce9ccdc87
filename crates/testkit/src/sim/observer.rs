//! Sees each call before it has an effect: writes the trace, delays, cuts a life of the hub off, and judges
//! what must hold at all times.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{sync::Notify, time::Instant};
use vidra_api::labels::HUB_LABEL;

use memkube::{Call, Cluster, Fault, Verb};

/// The hub's users are named so, and numbered.
pub const HUB_USER: &str = "vidra-hub-";
/// The hub's id.
pub const HUB_ID: &str = "sim";

/// Kinds that scenarios deliver: group, plural, kind.
pub const DELIVERED: [(&str, &str, &str); 3] =
    [("", "configmaps", "ConfigMap"), ("", "secrets", "Secret"), ("", "namespaces", "Namespace")];

/// Where a life of the hub ends, in calls since [`Observer::arm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// The call.
    pub call: usize,
    /// After its effect and before its answer; else before its effect.
    pub after: bool,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.call, if self.after { "a" } else { "b" })
    }
}

/// All clusters of a world.
#[derive(Clone)]
pub struct Clusters {
    /// The hub's.
    pub hub: Cluster,
    /// Members by name.
    pub members: BTreeMap<String, Cluster>,
}

/// One call of the hub.
#[derive(Clone, Debug)]
pub struct Seen {
    /// On the simulated clock, since the world began.
    pub at: Duration,
    /// The call; its status is not known yet.
    pub call: Call,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { at, call } = self;
        let dry = if call.dry_run { " (dry run)" } else { "" };
        write!(f, "{:10.3} {} {} {} {}{dry}", at.as_secs_f64(), call.user, call.cluster, call.verb, call.path)
    }
}

impl Seen {
    /// A probe or a watch: goes on for ever and changes nothing.
    pub fn is_idle(&self) -> bool {
        self.call.verb == Verb::Watch || self.call.path == "/livez"
    }

    /// It may change something.
    pub fn is_write(&self) -> bool {
        is_write(&self.call)
    }
}

/// See the module.
pub struct Observer {
    clusters: Clusters,
    began: Instant,
    state: Mutex<State>,
    crashed: Notify,
}

#[derive(Default)]
struct State {
    trace: Vec<Seen>,
    armed: Option<usize>,
    crashes: VecDeque<Crash>,
    dead: BTreeSet<Arc<str>>,
    busy: Option<Instant>,
    foreign: BTreeMap<String, Foreign>,
    breaches: Vec<String>,
    latency: Option<fastrand::Rng>,
    noise: Option<fastrand::Rng>,
    /// A person has made the hub forget; until the end nothing is said about it.
    forgetful: bool,
}

/// An object that is none of the hub's business.
#[derive(Clone, Debug)]
struct Foreign {
    cluster: String,
    plural: String,
    object: Value,
}

impl Observer {
    /// Sees the calls to these clusters from now on; `latency` draws how long each takes.
    pub fn new(clusters: Clusters, latency: Option<fastrand::Rng>) -> Arc<Self> {
        let state = Mutex::new(State { latency, ..State::default() });
        let observer = Arc::new(Self { clusters, began: Instant::now(), state, crashed: Notify::new() });
        for cluster in observer.all() {
            let hook = observer.clone();
            cluster.set_fault(Arc::new(move |call| hook.judge(call)));
        }
        observer
    }

    /// Ends it: without this clusters and observer would keep each other.
    pub fn end(&self) {
        self.all().for_each(Cluster::clear_fault);
    }

    fn all(&self) -> impl Iterator<Item = &Cluster> {
        std::iter::once(&self.clusters.hub).chain(self.clusters.members.values())
    }

    /// Counts the hub's calls from here, and cuts it off at these; one life for each.
    pub fn arm(&self, crashes: &[Crash]) {
        let mut state = self.state.lock();
        state.armed = Some(state.trace.len());
        state.crashes = crashes.iter().copied().collect();
    }

    /// From now on one call in ten fails, each in another way as chance has it; with `None` no more.
    pub fn noise(&self, chance: Option<fastrand::Rng>) {
        self.state.lock().noise = chance;
    }

    /// Waits until a life was cut off.
    pub async fn crashed(&self) {
        self.crashed.notified().await;
    }

    /// Crashes that were asked for and have not come.
    pub fn crashes_left(&self) -> usize {
        self.state.lock().crashes.len()
    }

    /// Nothing that this user sends from now on has an effect or an answer.
    pub fn cut_off(&self, user: &Arc<str>) {
        self.state.lock().dead.insert(user.clone());
    }

    /// The hub's calls since the world began.
    pub fn whole_trace(&self) -> Vec<Seen> {
        self.state.lock().trace.clone()
    }

    /// The hub's calls since [`Observer::arm`], or all.
    pub fn trace(&self) -> Vec<Seen> {
        let state = self.state.lock();
        state.trace.get(state.armed.unwrap_or(0)..).unwrap_or_default().to_vec()
    }

    /// How long the world has been.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Something was done from which the hub may have work.
    pub fn stir(&self) {
        self.state.lock().busy = Some(Instant::now());
    }

    /// How long the hub has called nothing but probes and watches.
    pub fn quiet_for(&self) -> Duration {
        self.state.lock().busy.unwrap_or(self.began).elapsed()
    }

    /// From now on the object must stay as it is to the byte.
    pub fn guard(&self, cluster: &str, plural: &str, object: Value) {
        let uid = uid(&object).to_owned();
        let foreign = Foreign { cluster: cluster.to_owned(), plural: plural.to_owned(), object };
        self.state.lock().foreign.insert(uid, foreign);
    }

    /// A person takes an inventory away: that objects are in none is not the hub's fault until the end.
    pub fn excuse_unknown(&self) {
        self.state.lock().forgetful = true;
    }

    /// What did not hold, in words.
    pub fn breaches(&self) -> Vec<String> {
        let mut breaches = self.state.lock().breaches.clone();
        let foreign: Vec<_> = self.state.lock().foreign.values().cloned().collect();
        for Foreign { cluster, plural, object } in foreign {
            let metadata = &object["metadata"];
            let text = |field: &str| metadata[field].as_str().unwrap_or_default();
            let live = self.clusters.members[&cluster].object("", &plural, text("namespace"), text("name"));
            if live.as_ref() != Some(&object) {
                breaches.push(format!("foreign {plural} on {cluster} changed from {object} to {live:?}"));
            }
        }
        breaches.extend(self.unknown_objects());
        breaches
    }

    fn judge(&self, call: &Call) -> Fault {
        if !call.user.starts_with(HUB_USER) {
            return Fault::None;
        }
        if self.state.lock().dead.contains(&call.user) {
            return Fault::Hang;
        }
        let breaches = if is_write(call) { self.judge_write(call) } else { Vec::new() };
        let mut state = self.state.lock();
        state.breaches.extend(breaches);
        let seen = Seen { at: self.began.elapsed(), call: call.clone() };
        if !seen.is_idle() {
            state.busy = Some(Instant::now());
        }
        state.trace.push(seen);
        let index = state.armed.map(|armed| state.trace.len() - 1 - armed);
        if let (Some(crash), Some(index)) = (state.crashes.front().copied(), index)
            && index >= crash.call
        {
            state.crashes.pop_front();
            state.dead.insert(call.user.clone());
            self.crashed.notify_one();
            return if crash.after { Fault::DropAfter } else { Fault::Hang };
        }
        if let Some(chance) = &mut state.noise
            && chance.u8(..10) == 0
        {
            return fault(chance, call.verb);
        }
        // Milliseconds, so that calls side by side end in another order.
        if let Some(chance) = &mut state.latency
            && chance.bool()
        {
            return Fault::Delay(Duration::from_millis(chance.u64(1..12)));
        }
        Fault::None
    }

    fn judge_write(&self, call: &Call) -> Vec<String> {
        let member = self.clusters.members.get(&*call.cluster);
        let mut breaches = Vec::new();
        // Other writes change neither what members have nor what inventories hold.
        if (member.is_some() || call.resource == "vidrainventories") && !self.state.lock().forgetful {
            let unknown = self.unknown_objects();
            breaches.extend(unknown.into_iter().map(|what| format!("before {call}: {what}")));
        }
        let Some(member) = member.filter(|_| call.verb == Verb::Delete) else { return breaches };
        let read = member.requests().into_iter().any(|earlier| {
            earlier.index < call.index
                && earlier.user == call.user
                && (earlier.verb, earlier.status) == (Verb::Get, 200)
                && earlier.path == call.path
        });
        if !read {
            breaches.push(format!("{call}: deleted without a read of it"));
        }
        let live =
            member.object(&call.group, &call.resource, &call.namespace, &call.name).unwrap_or_default();
        if self.state.lock().foreign.contains_key(uid(&live)) {
            breaches.push(format!("{call}: a foreign object was to be deleted"));
        }
        breaches
    }

    /// Objects that bear the hub's label in a member and that no inventory knows.
    fn unknown_objects(&self) -> Vec<String> {
        let foreign: BTreeSet<String> = self.state.lock().foreign.keys().cloned().collect();
        let known = known_objects(&self.clusters.hub);
        let mut unknown = Vec::new();
        for (cluster, member) in &self.clusters.members {
            for (group, plural, kind) in DELIVERED {
                for object in member.objects(group, plural) {
                    let metadata = &object["metadata"];
                    if metadata["labels"][HUB_LABEL] != HUB_ID || foreign.contains(uid(&object)) {
                        continue;
                    }
                    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
                    let key = [cluster, group, kind, text("namespace"), text("name")].map(str::to_owned);
                    if !known.contains(&key) {
                        unknown.push(format!("no inventory knows {}", key.join("/")));
                    }
                }
            }
        }
        unknown
    }
}

/// What the inventories hold: cluster, group, kind, namespace, name.
fn known_objects(hub: &Cluster) -> BTreeSet<[String; 5]> {
    let mut known = BTreeSet::new();
    for inventory in hub.objects(vidra_api::GROUP, "vidrainventories") {
        let cluster = inventory["spec"]["cluster"].as_str().unwrap_or_default();
        for entry in inventory["spec"]["entries"].as_array().into_iter().flatten() {
            let text = |field: &str| entry[field].as_str().unwrap_or_default();
            let key = [cluster, text("group"), text("kind"), text("namespace"), text("name")];
            known.insert(key.map(str::to_owned));
        }
    }
    known
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn fault(chance: &mut fastrand::Rng, verb: Verb) -> Fault {
    match chance.u8(..6) {
        0 => Fault::DropBefore,
        1 => Fault::DropAfter,
        2 => Fault::Status(500, "InternalError"),
        3 => Fault::Status(429, "TooManyRequests"),
        4 if matches!(verb, Verb::List | Verb::Watch) => Fault::Status(410, "Expired"),
        4 => Fault::Status(503, "ServiceUnavailable"),
        _ => Fault::Delay(Duration::from_secs(chance.u64(1..8))),
    }
}

fn is_write(call: &Call) -> bool {
    let writes = [Verb::Create, Verb::Update, Verb::Patch, Verb::Apply, Verb::Delete, Verb::DeleteCollection];
    writes.contains(&call.verb) && !call.dry_run
}

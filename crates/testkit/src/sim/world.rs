//! A hub cluster and its members in memory, people who change things in them, and the hub's lives.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use vidra_api::labels::{RECONCILE_REQUESTED_AT, REGISTRATION_LABEL};
use vidra_hub::internal_limits::InternalLimits;

use super::{
    crash::BLIND,
    judge::clouds::HUB,
    life::Life,
    observer::{Clusters, Observer},
    seams::TOKEN,
    state::{self, State},
    strike::ask,
    trouble::Crash,
};
use memkube::{Address, Backup, Cluster, Options, tokio_clock};

/// The hub's own namespace.
pub const HUB_NAMESPACE: &str = "vidra-system";
/// Members, as many as a world has of them.
pub const FLEET: [&str; 5] = ["berlin", "tokyo", "austin", "cairo", "lima"];
/// Those that each world has.
pub const MEMBERS: [&str; 2] = ["berlin", "tokyo"];
/// The cluster of another hub, in a world that has one.
pub const OTHER_HUB: &str = "other-hub";
/// Where VidraResources are, on the hub.
pub const TEAM: &str = "team-a";
/// Where more of them are, in a world that somebody has given another team.
pub const OTHER_TEAM: &str = "team-b";
/// Where their objects go, in members.
pub const TARGET_NAMESPACE: &str = "shop";
/// A process that died is started again after this.
const RESTART_AFTER: Duration = Duration::from_millis(200);
/// So long without a call of the hub, and nothing more comes: statuses are at most a second apart, a
/// removal is looked at again after two, and counts on MemberClusters are written at most ten after others.
pub const QUIET: Duration = Duration::from_secs(12);

/// What a world is made with.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Of uids, jitter and latencies.
    pub seed: u64,
    /// The hub's interval.
    pub interval: Duration,
    /// Half of the calls take some milliseconds, drawn from the seed; else none takes any time.
    pub latency: bool,
    /// The hub's lives hold its Lease, one at a time, as processes do.
    pub lease: bool,
    /// What is stored in the end is kept as text, to be compared to the byte.
    pub kept: bool,
    /// How many of the fleet there are.
    pub members: usize,
    /// The hub's bounds.
    pub limits: InternalLimits,
}

impl Shape {
    /// With two members, an interval of ten minutes, and bounds as everywhere.
    pub fn new(seed: u64) -> Self {
        let (interval, limits) = (Duration::from_secs(600), InternalLimits::default());
        Self { seed, interval, latency: false, lease: false, kept: false, members: MEMBERS.len(), limits }
    }

    /// With bounds drawn from the seed and the name of what is run, so that scenarios of one seed have others.
    pub fn of(name: &str, seed: u64) -> Self {
        let both = name.bytes().fold(seed, |all, byte| all.wrapping_mul(31).wrapping_add(byte.into()));
        Self { limits: drawn(&mut fastrand::Rng::with_seed(both)), ..Self::new(seed) }
    }
}

/// Each bound is as everywhere, or so small that a small world comes to it.
fn drawn(chance: &mut fastrand::Rng) -> InternalLimits {
    let usual = InternalLimits::default();
    let mut small = || chance.bool();
    InternalLimits {
        page: if small() { 2 } else { usual.page },
        inventory_entries: if small() { 3 } else { usual.inventory_entries },
        // A walk's manifests are packed to some 700 bytes.
        revision_part: if small() { 300 } else { usual.revision_part },
        target_calls: if small() { 2 } else { usual.target_calls },
        resource_calls: if small() { 2 } else { usual.resource_calls },
        changes: if small() { 2 } else { usual.changes },
        hub_calls: if small() { 4 } else { usual.hub_calls },
    }
}

/// Objects that a cluster need not read again: about all that a walk comes back to.
const KEPT: usize = 1000;

/// The hub with its CRDs, and the members, as each world begins: thousands of worlds are made in a process.
static BEGINNING: LazyLock<Vec<(&str, Backup)>> = LazyLock::new(|| {
    let clusters = std::iter::once("hub").chain(FLEET).zip(0..);
    let began = clusters.map(|(name, uids)| {
        let cluster = Cluster::new(name, Options { clock: Arc::new(start), uids });
        let crds = vidra_api::crds::all().into_iter().filter(|_| name == "hub");
        for crd in crds {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            let crd = serde_json::to_value(crd).expect("a CRD is JSON");
            assert!(ask(&cluster, "POST", path, &crd), "a CRD is refused");
        }
        (name, cluster.backup())
    });
    began.collect()
});

/// A cluster of a world of this seed, the one of this number, as it begins.
fn began(name: &str, backup: &Backup, seed: u64, nth: usize, clock: &memkube::Clock) -> Cluster {
    let uids = seed.wrapping_mul(31) + nth as u64;
    let cluster = Cluster::from_backup(name, Options { clock: clock.clone(), uids }, backup);
    cluster.keep_read(KEPT);
    cluster
}

/// The number of a hub's next life.
fn next(lives: &AtomicU32) -> u32 {
    lives.fetch_add(1, Ordering::Relaxed) + 1
}

/// When each world begins.
pub(super) fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

/// The clusters of a simulation, with its people.
pub struct World {
    /// What it was made with.
    pub shape: Shape,
    /// The clusters.
    pub clusters: Clusters,
    /// By which the hub reaches the members, by member.
    pub addresses: BTreeMap<String, Address>,
    /// Sees and judges the hub's calls.
    pub observer: Arc<Observer>,
    /// Wall time.
    pub clock: memkube::Clock,
    people: BTreeMap<String, Client>,
    life: Mutex<Option<Life>>,
    rival: Mutex<Option<Life>>,
    lives: AtomicU32,
    other: Option<Other>,
}

/// Another hub: it has a cluster and an id of its own, and one of the first one's members as well.
struct Other {
    cluster: Cluster,
    member: &'static str,
    life: Mutex<Option<Life>>,
    lives: AtomicU32,
}

impl Drop for World {
    fn drop(&mut self) {
        self.observer.end();
    }
}

impl World {
    /// Clusters with what people have put there before the hub first starts: registrations on the hub,
    /// and in each member objects that are none of the hub's business.
    pub async fn new(shape: Shape) -> Self {
        let clock = tokio_clock(start());
        let make = |nth: usize| {
            let (name, backup) = &BEGINNING[nth];
            began(name, backup, shape.seed, nth, &clock)
        };
        let members =
            FLEET.into_iter().take(shape.members).zip(1..).map(|(name, nth)| (name.to_owned(), make(nth)));
        let clusters = Clusters { hub: make(0), members: members.collect() };
        let people = std::iter::once(&clusters.hub).chain(clusters.members.values());
        let people = people.map(|cluster| (cluster.name().to_owned(), cluster.client_as("alice"))).collect();
        let latency = shape.latency.then(|| fastrand::Rng::with_seed(shape.seed));
        let observer = Observer::new(clusters.clone(), latency);
        let (life, rival, lives) = (Mutex::default(), Mutex::default(), AtomicU32::default());
        let to = |(name, cluster): (&String, &Cluster)| (name.clone(), Address::new(cluster.clone()));
        let addresses = clusters.members.iter().map(to).collect();
        let other = None;
        let world = Self { shape, clusters, addresses, observer, clock, people, life, rival, lives, other };
        world.furnish().await;
        world
    }

    /// What people make on a hub before it first starts: namespaces, and registrations of these members.
    async fn set_up(&self, hub: &str, members: &[&str]) {
        for namespace in [HUB_NAMESPACE, TEAM] {
            self.create(hub, "/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await;
        }
        for member in members {
            self.create(hub, &secrets(HUB_NAMESPACE), registration(member, "it")).await;
        }
    }

    async fn furnish(&self) {
        self.set_up("hub", self.members()).await;
        // Only one has the namespace: in the other the hub must make it.
        self.create("berlin", "/api/v1/namespaces", json!({"metadata": {"name": TARGET_NAMESPACE}})).await;
        self.plant("berlin", TARGET_NAMESPACE, "theirs", json!({})).await;
        self.plant("tokyo", "default", "theirs", json!({})).await;
        // Labels prove nothing: somebody copied them.
        let hub = vidra_api::names::HubId::try_from(super::observer::HUB_ID).expect("a hub id");
        let owner = vidra_api::names::OwnerHash::new(&hub, TEAM, "shop");
        let labels = json!(vidra_api::labels::object_labels(&hub, &owner));
        self.plant("berlin", TARGET_NAMESPACE, "copied", labels).await;
    }

    /// The members that it has.
    pub fn members(&self) -> &'static [&'static str] {
        &FLEET[..self.shape.members]
    }

    /// A ConfigMap that must stay as it is.
    pub async fn plant(&self, member: &str, namespace: &str, name: &str, labels: Value) {
        let body = json!({"metadata": {"name": name, "labels": labels}, "data": {"whose": "alice"}});
        let made = self.create(member, &config_maps(namespace), body).await;
        self.observer.guard(&made);
    }

    /// A cluster by name.
    pub fn cluster(&self, name: &str) -> &Cluster {
        match (name, &self.other) {
            ("hub", _) => &self.clusters.hub,
            (OTHER_HUB, Some(other)) => &other.cluster,
            _ => &self.clusters.members[name],
        }
    }

    /// Makes another hub's cluster, called [`OTHER_HUB`], where this member is registered as well. Of that hub's calls the
    /// observer sees those to the member, and no fault is made for them alone.
    pub async fn found_other_hub(&mut self, member: &'static str) {
        let (_, backup) = &BEGINNING[0];
        let cluster = began(OTHER_HUB, backup, self.shape.seed, BEGINNING.len(), &self.clock);
        cluster.set_recording(false);
        self.people.insert(OTHER_HUB.to_owned(), cluster.client_as("alice"));
        self.other = Some(Other { cluster, member, life: Mutex::default(), lives: AtomicU32::default() });
        self.set_up(OTHER_HUB, &[member]).await;
    }

    /// Starts the other hub's next life, where there is that hub.
    pub fn start_other_hub(&self) {
        let Some(Other { cluster, member, life, lives }) = &self.other else { return };
        let before = life.lock().replace(Life::start_other(self, cluster, member, next(lives)));
        assert!(before.is_none(), "the other hub runs twice");
    }

    /// Ends the other hub in order.
    pub async fn end_other_hub(&self) {
        let life = self.other.as_ref().and_then(|other| other.life.lock().take());
        if let Some(life) = life {
            life.end().await;
        }
    }

    /// Lets the address of a member lead to another cluster from now on, one that nobody knows, with the same credentials:
    /// with other `uids` it has another kube-system. The hub's connections and watches to the old one break; people still
    /// reach each cluster by its own name. The observer sees only the clusters that the world began with.
    pub fn lead_elsewhere(&self, member: &str, uids: u64) -> Cluster {
        let stranger = Cluster::new(member, Options { clock: self.clock.clone(), uids });
        self.addresses[member].redirect(stranger.clone());
        stranger
    }

    /// Lets it lead to the member again.
    pub fn lead_back(&self, member: &str) {
        self.addresses[member].redirect(self.cluster(member).clone());
    }

    fn next_life(&self) -> Life {
        Life::start(self, next(&self.lives))
    }

    /// Starts a second hub beside the first, which only the Lease keeps apart.
    pub fn start_rival(&self) {
        assert!(self.shape.lease, "two hubs without a Lease");
        let rival = self.next_life();
        assert!(self.rival.lock().replace(rival).is_none(), "three hubs at once");
    }

    /// The first hub dies, and the second takes its place, if there is one.
    pub async fn crash_first_of_two(&self) {
        let Some(rival) = self.rival.lock().take() else { return };
        let first = self.life.lock().replace(rival);
        if let Some(first) = first {
            self.observer.cut_off(&first.user);
            first.crash().await;
        }
    }

    /// The user of the hub that was started first.
    pub fn hub_user(&self) -> Option<Arc<str>> {
        self.life.lock().as_ref().map(|life| life.user.clone())
    }

    /// Starts the hub's next life.
    pub fn start_hub(&self) {
        let life = self.next_life();
        let before = self.life.lock().replace(life);
        assert!(before.is_none(), "two hubs at once");
    }

    /// Ends the hub in order.
    pub async fn end_hub(&self) {
        let life = self.life.lock().take();
        let life = life.expect("a hub runs");
        let user = life.user.clone();
        life.end().await;
        self.observer.cut_off(&user);
    }

    /// The hub dies now.
    pub async fn crash_hub(&self) {
        let life = self.life.lock().take();
        let life = life.expect("a hub runs");
        self.observer.cut_off(&life.user);
        life.crash().await;
    }

    /// Does a hub run?
    pub fn hub_runs(&self) -> bool {
        self.life.lock().is_some()
    }

    /// Starts a new life after each one that the observer cuts off; for ever.
    async fn keep_running(&self) -> std::convert::Infallible {
        loop {
            self.observer.crashed().await;
            self.crash_hub().await;
            sleep(RESTART_AFTER).await;
            self.start_hub();
        }
    }

    /// Lets the hub see what is so, a while after it was blinded; for ever.
    async fn keep_seeing(&self) -> std::convert::Infallible {
        loop {
            self.observer.blinded().await;
            self.observer.cloud(HUB, BLIND);
            sleep(BLIND).await;
            self.observer.enlighten();
        }
    }

    /// Runs this, and the hub again whenever it is cut off.
    pub async fn supervised<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            never = self.keep_running() => match never {},
            never = self.keep_seeing() => match never {},
            done = work => done,
        }
    }

    /// Waits until this holds, looking every tenth of a second, later every second; panics after so long.
    pub async fn until(&self, what: &str, within: Duration, holds: impl Fn() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() <= within, "not within {within:?}: {what}");
            let pause = if began.elapsed() < Duration::from_secs(5) { 100 } else { 1000 };
            sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Somebody asks a hub for a look at a VidraResource, called as [`named`] has it.
    pub async fn ask_for_a_look(&self, hub: &str, called: &str) {
        let at = format!("{:?}", self.observer.elapsed());
        let now = json!({"metadata": {"annotations": {RECONCILE_REQUESTED_AT: at}}});
        self.try_patch(hub, &path_named("vidraresources", called), now).await;
    }

    /// Waits until the hub has nothing more to do.
    pub async fn settle(&self) {
        self.observer.stir();
        let most = Duration::from_secs(600);
        self.until("the hub falls quiet", most, || self.observer.quiet_for() >= QUIET).await;
    }

    /// What is stored, as it is compared between runs.
    pub fn state(&self) -> State {
        state::of(&self.clusters)
    }

    /// The inventories among that.
    pub fn inventories(&self) -> State {
        state::inventories(&self.clusters)
    }

    /// Counts the hub's calls from here, and lets it die at these.
    pub fn arm(&self, crashes: &[Crash]) {
        self.observer.arm(crashes);
    }

    /// A stored object.
    pub fn object(
        &self,
        cluster: &str,
        group: &str,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Value> {
        self.cluster(cluster).object(group, plural, namespace, name)
    }

    /// A ConfigMap's data in a member, where the VidraResources' objects go.
    pub fn data(&self, member: &str, name: &str) -> Option<Value> {
        Some(self.object(member, "", "configmaps", TARGET_NAMESPACE, name)?["data"].clone())
    }

    /// A VidraResource, called as [`named`] has it.
    pub fn resource(&self, called: &str) -> Option<Value> {
        let (namespace, name) = place_of(called);
        self.object("hub", vidra_api::GROUP, "vidraresources", namespace, name)
    }

    /// A VidraTarget.
    pub fn target(&self, resource: &str, cluster: &str) -> Option<Value> {
        let (namespace, resource) = place_of(resource);
        let name = vidra_api::names::target_name(resource, cluster);
        self.object("hub", vidra_api::GROUP, "vidratargets", namespace, &name)
    }

    /// The reason that a VidraResource's target in a member gives; null: none.
    pub fn reason(&self, resource: &str, member: &str) -> Value {
        self.target(resource, member).unwrap_or_default()["status"]["reason"].clone()
    }

    /// Has a VidraResource this condition, for its present generation?
    pub fn has_condition(&self, resource: &str, type_: &str, status: &str, reason: &str) -> bool {
        let Some(resource) = self.resource(resource) else { return false };
        let generation = &resource["metadata"]["generation"];
        resource["status"]["conditions"].as_array().into_iter().flatten().any(|condition| {
            condition["type"] == type_
                && condition["status"] == status
                && (reason.is_empty() || condition["reason"] == reason)
                && condition["observedGeneration"] == *generation
        })
    }

    /// A person makes an object; the path is its collection's.
    pub async fn create(&self, cluster: &str, path: &str, body: Value) -> Value {
        self.ask(cluster, "POST", path, "application/json", body).await
    }

    /// A person changes an object by a merge patch.
    pub async fn patch(&self, cluster: &str, path: &str, body: Value) -> Value {
        self.ask(cluster, "PATCH", path, "application/merge-patch+json", body).await
    }

    /// A person deletes an object.
    pub async fn delete(&self, cluster: &str, path: &str) {
        self.ask(cluster, "DELETE", path, "application/json", json!({})).await;
    }

    /// A person makes an object, if it can be made.
    pub async fn try_create(&self, cluster: &str, path: &str, body: Value) -> bool {
        let request = http::Request::post(format!("{path}?fieldManager=alice"));
        let request = request.header("content-type", "application/json");
        let request = request.body(body.to_string().into_bytes()).expect("a request");
        self.people[cluster].request::<Value>(request).await.is_ok()
    }

    /// A person changes an object by a merge patch, if it is there.
    pub async fn try_patch(&self, cluster: &str, path: &str, body: Value) {
        self.try_patch_as("alice", cluster, path, body).await;
    }

    /// The same under another field manager.
    pub async fn try_patch_as(&self, manager: &str, cluster: &str, path: &str, body: Value) {
        let request = http::Request::patch(format!("{path}?fieldManager={manager}"));
        let request = request.header("content-type", "application/merge-patch+json");
        let request = request.body(body.to_string().into_bytes()).expect("a request");
        let _ = self.people[cluster].request::<Value>(request).await;
    }

    /// Somebody applies an object under this field manager, if that can be done.
    pub async fn try_apply_as(&self, manager: &str, cluster: &str, path: &str, body: Value) {
        let request = http::Request::patch(format!("{path}?fieldManager={manager}"));
        let request = request.header("content-type", "application/apply-patch+yaml");
        let request = request.body(body.to_string().into_bytes()).expect("a request");
        let _ = self.people[cluster].request::<Value>(request).await;
    }

    /// A person deletes an object, if it is there.
    pub async fn try_delete(&self, cluster: &str, path: &str) {
        let request = http::Request::delete(path).body(Vec::new()).expect("a request");
        let _ = self.people[cluster].request::<Value>(request).await;
    }

    async fn ask(&self, cluster: &str, method: &str, path: &str, content: &str, body: Value) -> Value {
        let uri = match method {
            "DELETE" => path.to_owned(),
            _ => format!("{path}?fieldManager=alice"),
        };
        let request = http::Request::builder().method(method).uri(uri).header("content-type", content);
        let request = request.body(body.to_string().into_bytes()).expect("a request");
        let answer = self.people[cluster].request::<Value>(request).await;
        answer.unwrap_or_else(|error| panic!("{method} {path} on {cluster}: {error}"))
    }
}

/// The path of a namespace's ConfigMaps.
pub fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// The path of a namespace's Secrets.
pub fn secrets(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets")
}

/// The path of a ConfigMap that the hub delivers.
pub fn config_map(name: &str) -> String {
    format!("{}/{name}", config_maps(TARGET_NAMESPACE))
}

/// The path of a kind of ours, in [`TEAM`].
pub fn hub_path(plural: &str) -> String {
    hub_path_in(TEAM, plural)
}

/// The same in a namespace.
pub fn hub_path_in(namespace: &str, plural: &str) -> String {
    format!("/apis/vidra.dev/v1alpha1/namespaces/{namespace}/{plural}")
}

/// What a VidraResource, or what the hub keeps for it, is called among those of all namespaces: in [`TEAM`] by its name alone.
/// The names that the hub makes of a VidraResource's begin with that, so they come of what it is called in the same way.
pub fn named(namespace: &str, name: &str) -> String {
    match namespace {
        TEAM => name.to_owned(),
        other => format!("{other}/{name}"),
    }
}

/// The namespace and the name of what is called so.
pub fn place_of(called: &str) -> (&str, &str) {
    called.split_once('/').unwrap_or((TEAM, called))
}

/// The path of a VidraResource, or of what the hub keeps for it, that is called so.
pub fn path_named(plural: &str, called: &str) -> String {
    let (namespace, name) = place_of(called);
    format!("{}/{name}", hub_path_in(namespace, plural))
}

/// The path of a MemberCluster.
pub fn member_path(name: &str) -> String {
    format!("/apis/vidra.dev/v1alpha1/memberclusters/{name}")
}

/// A document of a manifest.
pub fn document(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{key: {value}}}\n---\n")
}

/// The same in a namespace.
pub fn document_in(namespace: &str, name: &str, value: &str) -> String {
    let metadata = format!("{{name: {name}, namespace: {namespace}}}");
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}\ndata: {{key: {value}}}\n---\n")
}

/// A VidraResource for every member, to be made in its namespace.
pub fn resource(called: &str, manifest: &str) -> Value {
    json!({
        "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
        "metadata": {"name": place_of(called).1},
        "spec": {"manifest": manifest, "targets": [{"clusterSelector": {}, "namespace": TARGET_NAMESPACE}]},
    })
}

/// The Secret that registers a member; `context` names all that its kubeconfig has.
pub fn registration(member: &str, context: &str) -> Value {
    let kubeconfig = json!({
        "kind": "Config",
        "current-context": context,
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        // An empty DER sequence: enough for a parser, and nobody speaks TLS here.
        "clusters": [{"name": context, "cluster": {
            "server": format!("https://{member}.test"), "certificate-authority-data": "MAA=",
        }}],
        "users": [{"name": context, "user": {"token": TOKEN}}],
    });
    let data = k8s_openapi::ByteString(kubeconfig.to_string().into_bytes());
    json!({
        "metadata": {"name": member, "labels": {REGISTRATION_LABEL: member, "city": member}},
        "data": {"kubeconfig": data},
    })
}

#[test]
fn what_is_called_so_is_found_in_its_namespace() {
    for (namespace, name) in [(TEAM, "shop"), (OTHER_TEAM, "shop"), (OTHER_TEAM, "my.shop.berlin.0")] {
        assert_eq!(place_of(&named(namespace, name)), (namespace, name));
    }
    assert_eq!(named(TEAM, "shop"), "shop");
    assert_eq!(
        path_named("vidratargets", "shop.berlin"),
        format!("{}/shop.berlin", hub_path("vidratargets"))
    );
}

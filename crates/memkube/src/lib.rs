//! A Kubernetes API server in memory: a tower Service over a store, on tokio's clock, a function of its seed.
//! It knows nothing of what is built on it.
//!
//! ```text
//! listen (HTTPS) ------\
//! kube::Client -> service (records, faults) -> handle (routes, rights, reads) -> write, scale -> lifecycle -> store
//!                     \-> discovery, openapi, table \-> watch <----- history -----------------/    ^
//!                     handle -> options (queries, forms of bodies and answers) -> protobuf (bodies of Go clients)
//! write -> shape, builtin, custom (the stored form, rules) -> managed -> smd (merge, compare, remove)  |
//! write -> strategic (kubectl's patches)             lifecycle <-> garbage (what goes with its owner)
//! handle -> rights (RBAC), review    write, lifecycle -> admission (hooks)    workloads -> write
//! lifecycle, garbage -> lag (what controllers do later)    handle -> starting    address -> service
//! ```
//!
//! It serves discovery, OpenAPI v3, get, list, watch (tables too), create, update, merge, JSON and strategic
//! merge patch, server-side apply, status, scale, delete and deletecollection with their propagation policies,
//! in JSON, YAML or protobuf, for the built-in kinds of Kubernetes 1.36, those of CRDs, and registered ones. A request
//! is done in one step, and so is what follows from it: what goes with its owner or its namespace is gone, or
//! marked, when the answer is given. That is so until a test asks for time to pass.
//!
//! Turned on by a test: users' rights by RBAC with impersonation and reviews ([`Cluster::authorize_with_rbac`]),
//! admission hooks, groups that do not answer ([`Cluster::set_group_available`]), workloads that become ready,
//! stay stuck or fail ([`run_workloads`]), faults of calls ([`Fault`]: lost, refused, answered late, carried
//! out later than their callers wait, read without what their headers say, answered by somebody else), of the events of watches ([`WatchFault`]: lost, late) and of the whole
//! cluster ([`Down`]), and backups ([`Cluster::backup`]).
//!
//! Time and identity, all on tokio's clock and all off from the start:
//! - controllers that lag ([`Cluster::set_lag`]): a Namespace and a CRD stay Terminating with what they hold,
//!   what an owner leaves goes step by step, a kind is 404, then 429, then served, then discovered;
//! - a server that has just started ([`Cluster::restart`]): its discovery lacks the groups of CRDs, their kinds
//!   get 503 (404 from older servers), users under RBAC 403, its health is 500, and watches from before get 410;
//! - a store put back under clients that live on ([`Cluster::restore`]): numbers are given again, a read of a
//!   revision that is not there waits three seconds, then gets 504; or with a higher revision than it ever had
//!   ([`Cluster::restore_bumped`]);
//! - a group whose own server does not answer ([`Cluster::set_group_available`]): `freshness: Stale` in
//!   aggregated discovery, 503 for its kinds;
//! - an address that leads to another cluster than before, or two that lead to one ([`Address`]);
//! - a history that ends by its age, and bookmarks that are not to the dot ([`Cluster::set_watch_cache`]).
//!
//! What it knows of built-in kinds is packed in `schemas/builtin.bin`, made from a real server's discovery and
//! OpenAPI documents (`cargo xtask schemas`); what those do not say is in `schemas/defaults.json`, `builtin`
//! and `strategy`.
//!
//! Four tests hold it to the real one. `tests/oracle` fuzzes server-side apply ([`managers`]) against
//! apimachinery's own field managers, built as kube-apiserver builds them, by a Go program: objects, owners and
//! conflicts after each step, without a difference. `tests/recorded` replays sequences of requests with a real
//! server's answers, more than a thousand of them made from seeds, at least 20 for each verb, patch type, scope
//! and subresource. `tests/facts` runs each statement on both, and the wrong requests of `wrong.json`.
//! `tests/kubectl` has what two releases of kubectl print on both.
//!
//! With the feature `listen` (on by default; simulations go without) it serves clusters over HTTPS, and
//! `memkube` is a program that does so. A release build on two cores serves 1,000 empty clusters after 0.3 s, in
//! 30 MB.
//!
//! Memory, counted by the allocator (`tests/memory.rs`): an empty cluster 4.3 KB, a ConfigMap of 1 KB 1.6 KB,
//! changed once 3.1 KB. Objects are kept as compact JSON, which the history shares; it keeps the versions
//! of the last 10,000 changes. The notes of the calls come on top unless [`Cluster::set_recording`] ends them.
//! [`Cluster::keep_read`] trades memory for time.
//! What clusters share (types, discovery) is made once in a process.
//!
//! Known differences from the real server (those that recordings meet are in `tests/recorded/differences.rs`):
//! - Of the controllers there are the garbage collector, that of namespaces and that of CRDs, without delay
//!   unless [`Cluster::set_lag`] says otherwise. A Namespace that they work on says no more than Terminating,
//!   and a CRD has no condition Terminating. Owners that block each other in a circle wait for ever in a foreground deletion. Workloads stay as they
//!   are unless [`run_workloads`] runs, which moves their statuses and makes no ReplicaSets, Pods or volumes;
//!   the finalizers that protect volumes do not hold.
//! - Validation of built-in kinds is metadata, required fields, sizes and a few rules (`validate`, `limits`).
//!   An object's size in etcd is that of its JSON. Of a PersistentVolume's spec
//!   only the access modes are looked at, of a Service's address families nothing. Of several causes of a
//!   refusal each is said once, and a wrong uid alone.
//! - CRDs are validated only as far as their patterns, formats and rules can be used; what memkube does not know
//!   (`custom/rule.rs` and `custom/format.rs` have what it does) refuses the CRD. What rules cost is not counted,
//!   and their types are not checked before they run: a rule that compares a text with a number refuses objects.
//!   What was wrong before and stays so gives no warning. Of an anyOf or oneOf that nothing fits, the first
//!   alternative is told.
//! - A write of the status of a Service that is not there does not make it.
//! - A custom resource is stored in one form only: a write that changes nothing never makes a new version.
//! - A CRD is established by the write that follows its making, in the same step unless it lags. A first write
//!   to a new kind does not wait two seconds.
//! - A server that has just started knows all built-in kinds, and lists of custom resources get no 429.
//! - Versions of one kind show one object under another apiVersion: nothing is converted (fact 16).
//! - Users' rights are looked at from [`Cluster::authorize_with_rbac`] on; until then every review allows.
//!   Writers of Roles and bindings may give what they have not (no check of escalation), aggregated
//!   ClusterRoles are not filled in, and admin, edit and view are not there.
//! - Webhook configurations do nothing; two hooks stand for webhooks ([`Cluster::set_mutating_admission`],
//!   [`Cluster::set_validating_admission`]).
//! - Nothing answers behind an APIService that names a Service.
//! - Tables have the real columns for the kinds of `schemas/columns.txt` and custom resources, all others name
//!   and time of creation. Of the JSON paths of a CRD's columns, `..` and unions are not read.
//! - `/openapi/v2` describes nothing: `kubectl explain --output=plaintext-openapiv2` does not work.
//! - Answers are JSON where YAML is asked for, and 406 where only protobuf is; protobuf bodies are read of the
//!   stable built-in kinds, not of CRDs and APIServices. Nothing is compressed. `/` is not served.
//! - Reviews that name nothing are not refused; tokens of service accounts, evictions, logs, exec and the like
//!   are not served. A cluster has no APIServices and priority classes of its own.
//! - A DaemonSet's template generation stays 1.
//! - A merge patch of a custom resource's scale is noted in managedFields.
//! - An object that would have more than 10,000 levels with its managedFields is refused. The real server stores
//!   it and answers 500; from then on neither it nor a list of its kind can be read, and it cannot be deleted. A
//!   body of just 10,000 levels, of which it can note no managedFields, it takes.
//! - Continue tokens are not those of the real server; bodies in CBOR are refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

mod address;
mod admission;
mod aggregated;
mod body;
mod builtin;
mod cache;
mod custom;
mod deep;
mod discovery;
mod events;
mod failure;
mod fault;
mod garbage;
mod handle;
mod kinds;
mod lag;
mod lifecycle;
mod limits;
#[cfg(feature = "listen")]
pub mod listen;
mod managed;
pub mod managers;
mod openapi;
mod operations;
mod options;
mod protobuf;
mod quantity;
mod review;
mod rights;
mod route;
mod scale;
pub mod schema;
mod select;
mod service;
mod shape;
pub mod smd;
mod starting;
mod store;
mod strategic;
mod strategy;
mod table;
mod validate;
mod watch;
mod witness;
mod workloads;
mod write;

#[cfg(test)]
mod tests;

pub use address::{Address, AddressService};
pub use admission::{AdmitHook, Denial, MutateHook};
pub use cache::WatchCache;
pub use fault::{Call, ConnectionError, Down, Fault, FaultHook, Verb, WatchFault, WatchHook};
pub use kinds::Kind;
pub use lag::Lag;
pub use service::{ApiService, ResponseBody};
pub use starting::Startup;
pub use store::Backup;
use store::{Object, Place, Resource, Store};
pub use witness::{Changed, Witness};
pub use workloads::{Outcome, run_workloads};
use write::Write;

/// Tells the time of day.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What a cluster is made with.
#[derive(Clone)]
pub struct Options {
    /// For creationTimestamp, deletionTimestamp and managedFields.
    pub clock: Clock,
    /// Seed of uids and generated names.
    pub uids: u64,
}

/// A clock that shows `start` now and goes on with tokio's clock. Make it inside a runtime.
pub fn tokio_clock(start: Timestamp) -> Clock {
    let began = tokio::time::Instant::now();
    Arc::new(move || start.saturating_add(began.elapsed()).unwrap_or(start))
}

/// A cluster; clones are the same one.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    name: Arc<str>,
    clock: Clock,
    store: Mutex<Store>,
    front: Mutex<Front>,
    /// Woken in the order of waiting when the store changes or the cluster goes down or up. (tokio's watch
    /// channel wakes its receivers in a random order.)
    wake: Notify,
}

/// What stands before the store.
#[derive(Default)]
struct Front {
    calls: BTreeMap<u64, Call>,
    next_index: u64,
    /// Calls are not noted down.
    unrecorded: bool,
    fault: Option<FaultHook>,
    witness: Option<Witness>,
    hooks: admission::Hooks,
    /// Users' rights are looked at.
    authority: Option<Arc<rights::Authority>>,
    down: Option<Down>,
    counts: fault::Counts,
    watch_fault: Option<WatchHook>,
    /// By how much bookmarks are late, and the seed of it.
    jitter: Option<(Duration, u64)>,
    /// Grows when the cluster goes out of reach by refusing.
    refusals: u64,
    /// The last start of the server, and what it did not know then.
    started: Option<(Instant, Startup)>,
    /// Calls that are carried out later, whoever waits for them, and what controllers do later.
    beside: JoinSet<()>,
}

impl Cluster {
    /// A cluster with the built-in kinds and the Namespaces that each has from the start.
    pub fn new(name: &str, options: Options) -> Self {
        let mut store = Store::new(options.uids);
        let kind = store.kind("", "v1", "namespaces").cloned();
        let kind = kind.unwrap_or_else(|| Kind::new("v1", "Namespace", "namespaces", false, true).into());
        for namespace in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let write = Write {
                kind: kind.clone(),
                place: Place::default(),
                subresource: String::new(),
                manager: "kube-apiserver".to_owned(),
                dry_run: false,
                validation: write::Validation::Ignore,
                exact: false,
                now: (options.clock)(),
                gate: None,
            };
            // A fresh store refuses no well-formed Namespace.
            let _ = store.create(write, json!({"metadata": {"name": namespace}}));
        }
        Self::with(name, options.clock, store)
    }

    fn with(name: &str, clock: Clock, store: Store) -> Self {
        let inner = Inner {
            name: name.into(),
            clock,
            store: Mutex::new(store),
            front: Mutex::default(),
            wake: Notify::new(),
        };
        Cluster { inner: Arc::new(inner) }
    }

    /// The name given at the start.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Serves a kind beside the built-in ones.
    pub fn register(&self, kind: Kind) {
        let mut store = self.inner.store.lock();
        store.register(kind);
        self.inner.schedule(&mut store);
    }

    /// The API server as `anonymous` meets it.
    pub fn service(&self) -> ApiService {
        self.service_as("anonymous")
    }

    /// The API server as a named user meets it.
    pub fn service_as(&self, user: &str) -> ApiService {
        ApiService { cluster: self.inner.clone(), user: user.into() }
    }

    /// A client for `anonymous`. Make it inside a runtime; it repeats nothing by itself.
    pub fn client(&self) -> kube::Client {
        self.client_as("anonymous")
    }

    /// A client whose calls are recorded under this user.
    pub fn client_as(&self, user: &str) -> kube::Client {
        kube::Client::new(self.service_as(user), "default")
    }

    /// The calls so far, in the order of arrival.
    pub fn requests(&self) -> Vec<Call> {
        self.inner.front.lock().calls.values().cloned().collect()
    }

    /// Forgets the calls so far; indexes go on.
    pub fn clear_requests(&self) {
        self.inner.front.lock().calls.clear();
    }

    /// Notes calls down, as from the start, or no longer: of a million calls the notes are larger than the
    /// objects.
    pub fn set_recording(&self, on: bool) {
        self.inner.front.lock().unrecorded = !on;
    }

    /// Asks this hook about each call from now on. It may also only look.
    pub fn set_fault(&self, hook: FaultHook) {
        self.inner.front.lock().fault = Some(hook);
    }

    /// Ends all faults of the hook.
    pub fn clear_fault(&self) {
        self.inner.front.lock().fault = None;
    }

    /// Takes the cluster out of reach, or with `None` back.
    pub fn set_down(&self, down: Option<Down>) {
        let mut front = self.inner.front.lock();
        front.down = down;
        if down == Some(Down::Refuse) {
            front.counts.cuts += 1;
            front.refusals += 1;
        }
        drop(front);
        self.inner.wake.notify_waiters();
    }

    /// Forgets the history: a watch or a page from before this gets 410.
    pub fn compact(&self) {
        self.inner.store.lock().compact();
    }

    /// What `/version` says from now on, as of an API server that was upgraded behind a load balancer. Nothing else
    /// changes.
    pub fn set_version(&self, version: &'static str) {
        self.inner.store.lock().version = version;
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.inner.store.lock().revision()
    }

    /// A stored object, read beside the API: not a call. The namespace is empty for cluster-scoped kinds. One of
    /// some thousand levels takes more stack to be dropped than tests have.
    pub fn object(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let resource = Resource::new(group, plural);
        let found = self.inner.store.lock().get(&resource, &Place::new(namespace, name));
        found.map(Object::into_value)
    }

    /// How many objects of a resource there are in a namespace: not a call, and cheap.
    pub fn count(&self, group: &str, plural: &str, namespace: &str) -> usize {
        let store = self.inner.store.lock();
        let table = store.table(&Resource::new(group, plural));
        table.map_or(0, |table| {
            table
                .range(Place::new(namespace, "")..)
                .take_while(|(place, _)| place.namespace == namespace)
                .count()
        })
    }

    /// All stored objects of a resource by namespace and name, read beside the API: not a call.
    pub fn objects(&self, group: &str, plural: &str) -> Vec<Value> {
        let store = self.inner.store.lock();
        let table = store.table(&Resource::new(group, plural));
        let all = table.into_iter().flat_map(|table| table.values());
        all.map(|stored| store.read(stored).into_value()).collect()
    }
}

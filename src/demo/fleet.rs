//! The demo's clusters, the people in it, and the hub over them.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use kube::{
    Client,
    api::{Api, DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use memkube::{
    Cluster, Options, Outcome,
    listen::{Server, Settings as Listen, User},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use vidra_api::labels::REGISTRATION_LABEL;
use vidra_core::kubeconfig::Allow;

use super::{DemoError, DemoFlags, teller::Teller};
use crate::{
    app::{self, Deps},
    base::env::{Clock, Rng, SystemClock, SystemRng},
    config::Settings,
    internal_limits::InternalLimits,
    member::connect::TlsConnect,
    metrics::Metrics,
    serve::{self, Readiness},
};

/// The hub's own namespace.
const HUB_NAMESPACE: &str = "vidra-system";
/// What the hub is called in its clusters.
const HUB_USER: &str = "vidra-hub";
/// Whose kubeconfig people get.
const ADMIN: &str = "admin";
/// A workload's last replica.
const READY_AFTER: Duration = Duration::from_millis(600);
const NAMES: [(&str, &str); 3] = [("berlin", "prod"), ("tokyo", "prod"), ("austin", "test")];

/// A hub cluster and members in memory, with people who change things.
pub struct Fleet {
    /// The hub's cluster.
    pub hub: Cluster,
    /// The members, in the order of their making.
    pub members: Vec<Cluster>,
    server: Option<Server>,
    kubeconfig: PathBuf,
    counters: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
    /// Removed in the end.
    _directory: TempDir,
}

impl Fleet {
    /// Starts the clusters and the hub, and registers the members.
    pub async fn start(flags: &DemoFlags, teller: &Teller) -> Result<Self, DemoError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let rng: Arc<dyn Rng> = Arc::new(SystemRng::default());
        let make = |name: &str| {
            let clock = clock.clone();
            let cluster =
                Cluster::new(name, Options { clock: Arc::new(move || clock.now()), uids: rng.next() });
            // Nobody reads the notes of its calls.
            cluster.set_recording(false);
            cluster
        };
        let hub = make("hub");
        let members: Vec<_> = names(flags.members).map(|(name, _)| make(&name)).collect();
        let stop = CancellationToken::new();
        let clusters = std::iter::once(&hub).chain(&members).cloned().collect();
        let users = [ADMIN, HUB_USER, "alice"].map(User::named).to_vec();
        let listen = Listen { users, seed: rng.next(), first_port: 0 };
        let server = Server::start(clusters, &listen, &stop).await?;
        let directory = TempDir::with_prefix("vidra-demo-").map_err(DemoError::Directory)?;
        let kubeconfig = directory.path().join("kubeconfig");
        server.write_kubeconfig(&kubeconfig, ADMIN)?;
        teller.tell("demo", &format!("a hub and {} members serve, in memory", members.len()));
        teller.tell("demo", &format!("export KUBECONFIG={}", kubeconfig.display()));
        let tasks = TaskTracker::new();
        let mut fleet = Self {
            hub,
            members,
            server: Some(server),
            kubeconfig,
            counters: SocketAddr::from(([127, 0, 0, 1], 0)),
            stop,
            tasks,
            _directory: directory,
        };
        fleet.install().await?;
        fleet.run_workloads();
        fleet.start_hub(clock, rng).await?;
        fleet.register(flags.members).await?;
        Ok(fleet)
    }

    /// A kubeconfig with a context for each cluster.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Where the hub serves its counters.
    pub fn counters(&self) -> SocketAddr {
        self.counters
    }

    /// Ends everything, the hub first.
    pub async fn end(mut self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
    }

    /// Runs this until the demo ends.
    pub fn beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(work));
    }

    /// Nothing runs in these clusters: the workloads' statuses are moved as if something did.
    fn run_workloads(&self) {
        for member in &self.members {
            let ready = |_: &Value| Outcome::Ready(READY_AFTER);
            self.beside(memkube::run_workloads(member.clone(), ready));
        }
    }

    async fn install(&self) -> Result<(), DemoError> {
        for crd in vidra_api::crds::all() {
            let crd = serde_json::to_value(crd).unwrap_or_default();
            apply(&self.hub, ADMIN, crd).await?;
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HUB_NAMESPACE}});
        apply(&self.hub, ADMIN, namespace).await.map(drop)
    }

    async fn start_hub(&mut self, clock: Arc<dyn Clock>, rng: Arc<dyn Rng>) -> Result<(), DemoError> {
        // The members are on this machine.
        let allow = Allow { loopback: true, http: false, proxy: false };
        let settings = Settings {
            namespace: HUB_NAMESPACE.to_owned(),
            hub_id: Some("demo".to_owned()),
            inherit: Default::default(),
            interval: Duration::from_secs(600),
            on_events: true,
            allow,
            memory_limit: None,
        };
        let (metrics, synced) = (Metrics::default(), watch::Sender::new(false));
        let listener = serve::listen(self.counters).await.map_err(DemoError::Serve)?;
        self.counters = listener.local_addr().map_err(DemoError::Serve)?;
        let [waits, leads] = [false, true].map(|is| watch::channel(is).1);
        let ready = Readiness { waits, leads, synced: synced.subscribe() };
        self.tasks.spawn(serve::serve(listener, metrics.clone(), ready, self.stop.clone()));
        let client = self.hub.client_as(HUB_USER);
        let deps = Deps {
            client,
            connect: Arc::new(TlsConnect::new(allow)),
            clock,
            rng,
            metrics,
            limits: InternalLimits::default(),
            tenure: None,
        };
        let mut known = synced.subscribe();
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            if let Err(error) = app::run(settings, deps, synced, stop).await {
                tracing::error!(%error, "the demo's hub ended");
            }
        });
        let ready = known.wait_for(|synced| *synced).await;
        ready.map(drop).map_err(|_| DemoError::Hub("it ended at once; see what it logged".to_owned()))
    }

    /// A labelled Secret with a kubeconfig for each member, as clusters/registration.yaml shows.
    async fn register(&self, members: u16) -> Result<(), DemoError> {
        let Some(server) = &self.server else { return Ok(()) };
        for (name, env) in names(members) {
            let kubeconfig = server.kubeconfig_of(&name, HUB_USER)?;
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {
                    "name": name, "namespace": HUB_NAMESPACE, "labels": {REGISTRATION_LABEL: name, "env": env},
                },
                "stringData": {"kubeconfig": kubeconfig},
            });
            apply(&self.hub, ADMIN, secret).await?;
        }
        Ok(())
    }
}

/// Names of members, and what they are for.
fn names(count: u16) -> impl Iterator<Item = (String, &'static str)> {
    let first = NAMES.into_iter().map(|(name, env)| (name.to_owned(), env));
    first.chain((4..).map(|number| (format!("member-{number}"), "test"))).take(count.into())
}

/// A person applies an object, server-side, as kubectl does.
pub async fn apply(cluster: &Cluster, user: &str, object: Value) -> Result<DynamicObject, DemoError> {
    let (object, api, name, step) = place(cluster, user, object)?;
    let params = PatchParams::apply("kubectl").force();
    let applied = api.patch(&name, &params, &Patch::Apply(&object)).await;
    applied.map_err(|cause| DemoError::Step { step, cause: cause.to_string() })
}

/// A person changes a field of an object by `kubectl patch`.
pub async fn patch(cluster: &Cluster, user: &str, object: Value, change: Value) -> Result<(), DemoError> {
    let (_, api, name, step) = place(cluster, user, object)?;
    let params = PatchParams { field_manager: Some("kubectl-patch".to_owned()), ..PatchParams::default() };
    let patched = api.patch(&name, &params, &Patch::Merge(change)).await;
    patched.map(drop).map_err(|cause| DemoError::Step { step, cause: cause.to_string() })
}

fn place(
    cluster: &Cluster,
    user: &str,
    object: Value,
) -> Result<(DynamicObject, Api<DynamicObject>, String, String), DemoError> {
    let object: DynamicObject = serde_json::from_value(object).map_err(|cause| DemoError::Step {
        step: "read an object of the demo".to_owned(),
        cause: cause.to_string(),
    })?;
    let types = object.types.clone().unwrap_or_default();
    let name = object.metadata.name.clone().unwrap_or_default();
    let step = format!("{user} writes {} {name} on {}", types.kind, cluster.name());
    let gvk = GroupVersionKind::try_from(&types)
        .map_err(|cause| DemoError::Step { step: step.clone(), cause: cause.to_string() })?;
    let api = api(&cluster.client_as(user), &gvk, object.metadata.namespace.as_deref());
    Ok((object, api, name, step))
}

/// Objects of a kind, by the regular plural.
pub fn api(client: &Client, gvk: &GroupVersionKind, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(gvk);
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

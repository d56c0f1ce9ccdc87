//! The bed in memory: clusters of memkube in this process, on tokio's paused clock, without a socket. Each
//! scenario has its own.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use kube::Client;
use memkube::{Address, Cluster, Down, Options, Outcome, Verb, tokio_clock};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tower::{BoxError, ServiceExt, service_fn};
use vidra_core::kubeconfig::{ClientAuth, MemberConfig};
use vidra_hub::{
    app::Deps,
    base::env::{AnswerBody, Connect, ConnectError, Link, SeededRng},
    config::Settings,
    internal_limits::InternalLimits,
    metrics::Metrics,
};

use super::{
    Boxed,
    bed::{Bed, Turns, Who},
    hub::World,
    rights::account_user,
};
use crate::{
    hub::RunningHub,
    sim::seams::SimClock,
    testbed::{Point, Request},
};

/// The members, as those of the testbed.
const MEMBERS: [&str; 3] = ["berlin", "tokyo", "austin"];
const EVERYBODY: [Who; 4] = [Who::Admin, Who::Alice, Who::VidraHub, Who::Limited];

/// Runs a scenario in memory; hours pass in milliseconds.
pub fn in_memory(scenario: impl AsyncFnOnce(World)) {
    run(super::boxed(scenario));
}

/// The same, with these members instead of those of the testbed.
pub fn in_memory_with_members(members: &[&str], scenario: impl AsyncFnOnce(World)) {
    run_with(members, super::boxed(scenario));
}

pub(super) fn run(scenario: Boxed<'_>) {
    run_with(&MEMBERS, scenario);
}

fn run_with(members: &[&str], scenario: Boxed<'_>) {
    // kube's back-off draws from the thread's generator.
    fastrand::seed(1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let bed = Arc::new(Memory::new(members));
        let workloads = bed.clusters.values().map(|cluster| {
            memkube::run_workloads(cluster.clone(), |_| Outcome::Ready(Duration::from_secs(1)))
        });
        tokio::select! {
            biased;
            () = async { scenario(World::start(bed.clone()).await).await } => {}
            _ = futures::future::join_all(workloads) => {}
        }
    });
}

struct Memory {
    members: Vec<String>,
    clusters: Arc<BTreeMap<String, Cluster>>,
    /// By which hubs reach the members.
    addresses: Arc<BTreeMap<String, Address>>,
    clock: memkube::Clock,
    turns: Arc<Mutex<Turns>>,
    /// Hubs started so far.
    lives: AtomicU64,
}

impl Memory {
    /// Inside a runtime, with whose clock its time goes.
    fn new(members: &[&str]) -> Self {
        let clock = tokio_clock("2026-01-01T00:00:00Z".parse().expect("a time"));
        let make = |(name, nth): (&str, u64)| {
            let cluster = Cluster::new(name, Options { clock: clock.clone(), uids: nth });
            let everything = EVERYBODY.into_iter().filter(|who| *who != Who::Limited);
            cluster.authorize_with_rbac(everything.map(Who::name));
            (name.to_owned(), cluster)
        };
        let clusters: BTreeMap<_, _> = members.iter().copied().chain(["hub"]).zip(1..).map(make).collect();
        let to = |(name, cluster): (&String, &Cluster)| (name.clone(), Address::new(cluster.clone()));
        let addresses = Arc::new(clusters.iter().map(to).collect());
        Self {
            members: members.iter().copied().map(str::to_owned).collect(),
            clusters: Arc::new(clusters),
            addresses,
            clock,
            turns: Arc::default(),
            lives: AtomicU64::new(0),
        }
    }

    fn cluster(&self, name: &str) -> Result<&Cluster> {
        self.clusters.get(name).with_context(|| format!("no cluster {name}"))
    }
}

impl Bed for Memory {
    fn turns(&self) -> Arc<Mutex<Turns>> {
        self.turns.clone()
    }

    fn members(&self) -> Vec<String> {
        self.members.clone()
    }

    fn client<'a>(&'a self, cluster: &'a str, who: Who) -> BoxFuture<'a, Result<Client>> {
        Box::pin(async move { Ok(self.cluster(cluster)?.client_as(who.name())) })
    }

    fn account<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<Client>> {
        Box::pin(async move { Ok(self.cluster("hub")?.client_as(&account_user(namespace, name))) })
    }

    fn kubeconfig(&self, cluster: &str, who: Who) -> Result<String> {
        self.cluster(cluster)?;
        let context = format!("{who}@{cluster}");
        // An empty DER sequence: enough for a parser, and nobody speaks TLS here.
        Ok(format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {context}\ncontexts:\n- name: {context}\n  context:\n    \
             cluster: {cluster}\n    user: {context}\nclusters:\n- name: {cluster}\n  cluster:\n    \
             server: https://{cluster}.test\n    certificate-authority-data: MAA=\nusers:\n- name: {context}\n  \
             user:\n    token: {}\n",
            token(who)
        ))
    }

    fn start_hub(&self, client: Client, settings: Settings) -> BoxFuture<'_, Result<RunningHub>> {
        let deps = Deps {
            client,
            connect: Arc::new(InMemory(self.addresses.clone())),
            clock: Arc::new(SimClock(self.clock.clone())),
            // Each life has its own chance: names of Events are made of it.
            rng: Arc::new(SeededRng::new(1 + self.lives.fetch_add(1, Ordering::Relaxed))),
            metrics: Metrics::default(),
            limits: InternalLimits::default(),
            tenure: None,
        };
        Box::pin(RunningHub::start_with(deps, settings))
    }

    fn kubectl(&self) -> Result<(PathBuf, PathBuf)> {
        bail!("these clusters have no socket")
    }

    fn freeze(&self, cluster: &str) -> Result<()> {
        self.cluster(cluster)?.set_down(Some(Down::Hang));
        Ok(())
    }

    fn thaw(&self, cluster: &str) -> Result<()> {
        self.cluster(cluster)?.set_down(None);
        Ok(())
    }

    fn memory(&self, cluster: &str) -> Option<Cluster> {
        self.clusters.get(cluster).cloned()
    }

    fn redirect(&self, cluster: &str, to: Cluster) -> Result<()> {
        let address = self.addresses.get(cluster).with_context(|| format!("no cluster {cluster}"))?;
        address.redirect(to);
        Ok(())
    }

    fn mark(&self, cluster: &str) -> Result<Point> {
        let length = self.cluster(cluster)?.requests().last().map_or(0, |call| call.index + 1);
        Ok(Point { length, at: (self.clock)() })
    }

    fn requests_since(&self, cluster: &str, mark: Point) -> Result<Vec<Request>> {
        let calls = self.cluster(cluster)?.requests().into_iter();
        Ok(calls.filter(|call| call.index >= mark.length && call.status != 0).map(request).collect())
    }
}

/// As the testbed's audit log would tell it.
fn request(call: memkube::Call) -> Request {
    let slash = if call.subresource.is_empty() { "" } else { "/" };
    let labels = if call.labels.is_empty() { "" } else { "?labelSelector=" };
    Request {
        user: call.user.to_string(),
        verb: if call.verb == Verb::Apply { "patch".into() } else { call.verb.to_string() },
        resource: format!("{}{slash}{}", call.resource, call.subresource),
        uri: format!("{}{}{labels}{}", call.path, if call.dry_run { "?dryRun=All" } else { "" }, call.labels),
        group: call.group,
        namespace: call.namespace,
        name: call.name,
        code: call.status.into(),
    }
}

fn token(who: Who) -> String {
    format!("the-token-of-{who}")
}

/// The way to the members: a kubeconfig's host names the cluster, its token the user.
struct InMemory(Arc<BTreeMap<String, Address>>);

impl Connect for InMemory {
    fn connect(&self, config: &MemberConfig) -> Result<Link, ConnectError> {
        let host = config.server.host().unwrap_or_default();
        let found = host.strip_suffix(".test").and_then(|name| self.0.get(name));
        let address = found.ok_or_else(|| ConnectError::Server(format!("nobody is at {host:?}")))?;
        let ClientAuth::Token(given) = &config.client_auth else {
            return Err(ConnectError::Tls("clusters in memory take tokens only".into()));
        };
        let who = EVERYBODY.into_iter().find(|who| given.expose() == token(*who));
        Ok(who.map_or_else(unauthorized, |who| address.service_as(who.name()).boxed_clone()))
    }
}

/// The way to a server that does not know the token.
fn unauthorized() -> Link {
    async fn answer(_: http::Request<kube::client::Body>) -> Result<Response<AnswerBody>, BoxError> {
        let status = json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 401,
            "reason": "Unauthorized", "message": "Unauthorized",
        });
        Ok(as_json(StatusCode::UNAUTHORIZED, &status)?)
    }
    service_fn(answer).boxed_clone()
}

fn as_json(code: StatusCode, body: &Value) -> Result<Response<AnswerBody>, http::Error> {
    let response = Response::builder().status(code).header(header::CONTENT_TYPE, "application/json");
    let body = Full::<Bytes>::from(body.to_string()).map_err(|never| match never {});
    response.body(body.boxed_unsync())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use kube::Api;
    use vidra_core::kubeconfig::{self, Allow};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_address_of_a_member_can_lead_to_another_cluster_with_the_same_credentials() {
        let bed = Memory::new(&MEMBERS);
        let text = bed.kubeconfig("berlin", Who::VidraHub).expect("a kubeconfig");
        let config = kubeconfig::parse(text.as_bytes(), &Allow::default()).expect("it is good");
        let link = InMemory(bed.addresses.clone()).connect(&config).expect("a way there");
        let namespaces: Api<Namespace> = Api::all(Client::new(link, "default"));
        let uid = async || namespaces.get("kube-system").await.expect("read").metadata.uid;
        let own = |cluster: &Cluster| {
            let found = cluster.object("", "namespaces", "", "kube-system").expect("it is there");
            found["metadata"]["uid"].as_str().map(str::to_owned)
        };
        let berlin = bed.memory("berlin").expect("in memory");
        assert_eq!(uid().await, own(&berlin));
        let other = Cluster::new("berlin", Options { clock: bed.clock.clone(), uids: 99 });
        other.authorize_with_rbac([Who::VidraHub.name()]);
        bed.redirect("berlin", other.clone()).expect("it leads there");
        assert_eq!(uid().await, own(&other));
        assert_ne!(own(&other), own(&berlin));
        bed.redirect("berlin", bed.memory("tokyo").expect("in memory")).expect("it leads there");
        assert_eq!(
            uid().await,
            own(&bed.memory("tokyo").expect("in memory")),
            "two addresses of one cluster"
        );
    }
}

//! What a bed offers, and the real one: kube-apiservers, started once for the test process.

use std::{fmt, sync::OnceLock};

use anyhow::Result;
use futures::future::BoxFuture;
use kube::Client;
use vidra_hub::settings::Settings;

use crate::{
    hub::RunningHub,
    testbed::{Request, Testbed},
};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// May do everything.
    Admin,
    /// May do everything, and does what nobody should.
    Alice,
    /// The hub: in its own cluster and, unless a scenario says otherwise, in its members.
    VidraHub,
    /// May do nothing until it is allowed.
    Limited,
}

impl Who {
    /// The user's name.
    pub fn name(self) -> &'static str {
        match self {
            Who::Admin => "admin",
            Who::Alice => "alice",
            Who::VidraHub => "vidra-hub",
            Who::Limited => "limited",
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A hub's cluster, called `hub`, and its members.
pub trait Bed: Send + Sync {
    /// The members' names.
    fn members(&self) -> Vec<String>;
    /// A client of a cluster.
    fn client<'a>(&'a self, cluster: &'a str, who: Who) -> BoxFuture<'a, Result<Client>>;
    /// A kubeconfig of a cluster.
    fn kubeconfig(&self, cluster: &str, who: Who) -> Result<String>;
    /// Starts a hub; the members that it reaches are this bed's.
    fn start_hub(&self, client: Client, settings: Settings) -> BoxFuture<'_, Result<RunningHub>>;
    /// From now on a cluster takes connections and answers nothing.
    fn freeze(&self, cluster: &str) -> Result<()>;
    /// It answers again.
    fn thaw(&self, cluster: &str) -> Result<()>;
    /// A point in a cluster's record of requests.
    fn mark(&self, cluster: &str) -> Result<u64>;
    /// The requests that ended since.
    fn requests_since(&self, cluster: &str, mark: u64) -> Result<Vec<Request>>;
    /// Where kubectl is and the kubeconfig to use with it, where there is something to talk to.
    fn kubectl(&self) -> Option<(std::path::PathBuf, std::path::PathBuf)>;
}

/// Real API servers: a hub and three members.
struct Real(Testbed);

/// The real bed. Started at the first call; it ends with the process.
pub fn real() -> &'static dyn Bed {
    static REAL: OnceLock<Real> = OnceLock::new();
    REAL.get_or_init(|| Real(Testbed::start(&["--members", "3"]).expect("the testbed starts")))
}

impl Bed for Real {
    fn members(&self) -> Vec<String> {
        self.0.members.iter().map(|member| member.name.clone()).collect()
    }

    fn client<'a>(&'a self, cluster: &'a str, who: Who) -> BoxFuture<'a, Result<Client>> {
        Box::pin(async move { self.0.cluster(cluster)?.client(who.name()).await })
    }

    fn kubeconfig(&self, cluster: &str, who: Who) -> Result<String> {
        self.0.cluster(cluster)?.kubeconfig(who.name())
    }

    fn start_hub(&self, client: Client, settings: Settings) -> BoxFuture<'_, Result<RunningHub>> {
        Box::pin(RunningHub::start(client, settings))
    }

    fn freeze(&self, cluster: &str) -> Result<()> {
        self.0.cluster(cluster)?.signal("STOP")
    }

    fn thaw(&self, cluster: &str) -> Result<()> {
        self.0.cluster(cluster)?.signal("CONT")
    }

    fn mark(&self, cluster: &str) -> Result<u64> {
        self.0.cluster(cluster)?.audit_mark()
    }

    fn requests_since(&self, cluster: &str, mark: u64) -> Result<Vec<Request>> {
        self.0.cluster(cluster)?.requests_since(mark)
    }

    fn kubectl(&self) -> Option<(std::path::PathBuf, std::path::PathBuf)> {
        let kubectl = crate::testbed::binary().ok()?.parent()?.join("kubectl");
        Some((kubectl, self.0.hub.kubeconfigs.get(Who::Admin.name())?.clone()))
    }
}

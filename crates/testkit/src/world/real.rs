//! The real bed: kube-apiservers, started once for the test process.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use anyhow::Result;
use futures::future::BoxFuture;
use kube::Client;
use tokio::sync::Mutex;
use vidra_hub::settings::Settings;

use super::{
    bed::{Bed, Turns, Who},
    hub::World,
};
use crate::{
    hub::RunningHub,
    testbed::{Request, Testbed, binary},
};

/// Real API servers: a hub and three members.
struct Real {
    testbed: Testbed,
    turns: Arc<Mutex<Turns>>,
}

static REAL: OnceLock<Arc<Real>> = OnceLock::new();

/// The real bed. Started at the first call; it ends with the process.
fn real() -> Arc<Real> {
    let start = || {
        let testbed = Testbed::start(&["--members", "3"]).expect("the testbed starts");
        Arc::new(Real { testbed, turns: Arc::default() })
    };
    REAL.get_or_init(start).clone()
}

/// Runs a scenario on the real bed, in real time.
pub fn on_real_servers(scenario: impl AsyncFnOnce(World)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { scenario(World::start(real()).await).await });
}

/// Where kubectl is, and the kubeconfig to use with it: a context for each cluster, as administrator.
pub fn kubectl() -> (PathBuf, PathBuf) {
    let binary = binary().expect("the testbed's binary");
    (binary.with_file_name("kubectl"), real().testbed.kubeconfig.clone())
}

impl Bed for Real {
    fn turns(&self) -> Arc<Mutex<Turns>> {
        self.turns.clone()
    }

    fn members(&self) -> Vec<String> {
        self.testbed.members.iter().map(|member| member.name.clone()).collect()
    }

    fn client<'a>(&'a self, cluster: &'a str, who: Who) -> BoxFuture<'a, Result<Client>> {
        Box::pin(async move { self.testbed.cluster(cluster)?.client(who.name()).await })
    }

    fn account<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<Client>> {
        Box::pin(self.testbed.hub.account(namespace, name))
    }

    fn kubeconfig(&self, cluster: &str, who: Who) -> Result<String> {
        self.testbed.cluster(cluster)?.kubeconfig(who.name())
    }

    fn start_hub(&self, client: Client, settings: Settings) -> BoxFuture<'_, Result<RunningHub>> {
        Box::pin(RunningHub::start(client, settings))
    }

    fn freeze(&self, cluster: &str) -> Result<()> {
        self.testbed.cluster(cluster)?.signal("STOP")
    }

    fn thaw(&self, cluster: &str) -> Result<()> {
        self.testbed.cluster(cluster)?.signal("CONT")
    }

    fn mark(&self, cluster: &str) -> Result<u64> {
        self.testbed.cluster(cluster)?.audit_mark()
    }

    fn requests_since(&self, cluster: &str, mark: u64) -> Result<Vec<Request>> {
        self.testbed.cluster(cluster)?.requests_since(mark)
    }
}

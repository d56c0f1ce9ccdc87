//! The real beds: kube-apiservers, a bed for each test thread up to a bound, each started once in a test process.

use std::{path::PathBuf, sync::Arc};

use anyhow::Result;
use futures::future::BoxFuture;
use kube::Client;
use parking_lot::{Condvar, Mutex as Lock};
use tokio::sync::Mutex;
use vidra_hub::config::Settings;

use super::{
    Boxed,
    bed::{Bed, Turns, Who},
    boxed,
    hub::World,
};
use crate::{
    hub::RunningHub,
    testbed::{Point, Request, Testbed, binary},
};

/// Beds at most, of four servers and some 1.3 GB each. Scenarios wait most of their time: two beds leave two cores idle
/// for three quarters of it.
const BEDS: usize = 4;

/// Real API servers: a hub and three members.
struct Real {
    testbed: Testbed,
    turns: Arc<Mutex<Turns>>,
}

/// Beds that were started and that no scenario uses. They end with the process.
#[derive(Default)]
struct Beds {
    free: Vec<Arc<Real>>,
    started: usize,
}

static BEDS_OF_PROCESS: (Lock<Beds>, Condvar) =
    (Lock::new(Beds { free: Vec::new(), started: 0 }), Condvar::new());

/// A bed while a scenario has it.
struct Taken(Arc<Real>);

impl Taken {
    /// A free bed; started where all are in use and there may be another, else waited for.
    fn one() -> Self {
        let (beds, freed) = &BEDS_OF_PROCESS;
        let mut beds = beds.lock();
        loop {
            if let Some(bed) = beds.free.pop() {
                return Self(bed);
            }
            if beds.started < BEDS {
                let testbed = Testbed::start(&["--members", "3"]).expect("the testbed starts");
                beds.started += 1;
                return Self(Arc::new(Real { testbed, turns: Arc::default() }));
            }
            freed.wait(&mut beds);
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let (beds, freed) = &BEDS_OF_PROCESS;
        beds.lock().free.push(self.0.clone());
        freed.notify_one();
    }
}

/// Runs a scenario on a real bed, in real time.
pub fn on_real_servers(scenario: impl AsyncFnOnce(World)) {
    run(boxed(scenario));
}

pub(super) fn run(scenario: Boxed<'_>) {
    let bed = Taken::one();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { scenario(World::start(bed.0.clone()).await).await });
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

    fn kubectl(&self) -> Result<(PathBuf, PathBuf)> {
        Ok((binary()?.with_file_name("kubectl"), self.testbed.kubeconfig.clone()))
    }

    fn freeze(&self, cluster: &str) -> Result<()> {
        self.testbed.cluster(cluster)?.signal("STOP")
    }

    fn thaw(&self, cluster: &str) -> Result<()> {
        self.testbed.cluster(cluster)?.signal("CONT")
    }

    fn mark(&self, cluster: &str) -> Result<Point> {
        self.testbed.cluster(cluster)?.audit_mark()
    }

    fn requests_since(&self, cluster: &str, mark: Point) -> Result<Vec<Request>> {
        self.testbed.cluster(cluster)?.requests_since(mark)
    }
}

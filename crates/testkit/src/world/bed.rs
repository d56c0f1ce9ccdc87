//! What a bed offers.

use std::{fmt, path::PathBuf, sync::Arc};

use anyhow::Result;
use futures::future::BoxFuture;
use kube::Client;
use tokio::sync::Mutex;
use vidra_hub::config::Settings;

use crate::{
    hub::RunningHub,
    testbed::{Point, Request},
};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// May do everything.
    Admin,
    /// May do everything, and does what nobody should.
    Alice,
    /// The hub in its members, unless a scenario says otherwise. In its own cluster it is a ServiceAccount.
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

/// What scenarios on one bed share: they take turns.
#[derive(Debug, Default)]
pub struct Turns {
    /// How many there were; names are made of it.
    pub begun: u32,
    /// The hub's CRDs are there.
    pub installed: bool,
}

/// A hub's cluster, called `hub`, and its members.
pub trait Bed: Send + Sync {
    /// Whose turn it is.
    fn turns(&self) -> Arc<Mutex<Turns>>;
    /// The members' names.
    fn members(&self) -> Vec<String>;
    /// A client of a cluster.
    fn client<'a>(&'a self, cluster: &'a str, who: Who) -> BoxFuture<'a, Result<Client>>;
    /// A client of the hub's cluster as a ServiceAccount there.
    fn account<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, Result<Client>>;
    /// A kubeconfig of a cluster.
    fn kubeconfig(&self, cluster: &str, who: Who) -> Result<String>;
    /// Starts a hub; the members that it reaches are this bed's.
    fn start_hub(&self, client: Client, settings: Settings) -> BoxFuture<'_, Result<RunningHub>>;
    /// Where kubectl is, and the kubeconfig to use with it: a context for each cluster, as administrator.
    fn kubectl(&self) -> Result<(PathBuf, PathBuf)>;
    /// From now on a cluster takes connections and answers nothing.
    fn freeze(&self, cluster: &str) -> Result<()>;
    /// It answers again.
    fn thaw(&self, cluster: &str) -> Result<()>;
    /// A point in a cluster's record of requests.
    fn mark(&self, cluster: &str) -> Result<Point>;
    /// A cluster of the bed in memory, for faults that no real server has; `None`: this bed has servers.
    fn memory(&self, _cluster: &str) -> Option<memkube::Cluster> {
        None
    }
    /// Lets the address of a member lead to another cluster in memory.
    fn redirect(&self, cluster: &str, _to: memkube::Cluster) -> Result<()> {
        anyhow::bail!("{cluster} is a real server: its address stays")
    }
    /// The requests that arrived since and have ended.
    fn requests_since(&self, cluster: &str, mark: Point) -> Result<Vec<Request>>;
}

//! Clusters over HTTPS on 127.0.0.1: a port each, users by bearer token, HTTP/1.1 and HTTP/2 as the client
//! likes. For kubectl, for the hub's own binary, and for load from another process.
//!
//! ```text
//! Server -> accept (a task a cluster) -> connection (TLS, out of reach) -> gate (who asks, how much) -> ApiService
//! ```
//!
//! One CA and one server certificate serve all clusters of a server; each user has a token of its own in each
//! cluster. A cluster that refuses breaks its connections, open ones too; one that hangs is silent below TLS
//! already. The fault of a single call breaks its connection in HTTP/1.1 and only its stream in HTTP/2.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Cluster;

mod connection;
mod count;
mod front;
mod gate;
mod kubeconfig;
mod tls;

use connection::Site;
pub use count::Open;
pub use front::Front;

/// Who may ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// As calls are recorded.
    pub name: String,
    /// The bearer token, the same in all clusters; without one each cluster's is drawn from the seed.
    pub token: Option<String>,
}

impl User {
    /// A user whose tokens are drawn.
    pub fn named(name: &str) -> Self {
        User { name: name.to_owned(), token: None }
    }
}

/// How clusters are served.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Who may ask; everybody may do everything.
    pub users: Vec<User>,
    /// Of the tokens that are drawn.
    pub seed: u64,
    /// The first cluster's port, and the next ones after it; 0 leaves the choice to the system.
    pub first_port: u16,
}

/// Why clusters are not served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The certificates could not be made.
    #[error("make the server's certificate: {0}; this is a defect of memkube")]
    Certificate(Box<dyn std::error::Error + Send + Sync>),
    /// A port is not to be had.
    #[error("listen on 127.0.0.1:{port} for cluster {cluster}: {cause}; choose another port, or 0 for any")]
    Bind {
        /// The cluster's name.
        cluster: String,
        /// 0 is any.
        port: u32,
        /// What the system said.
        cause: std::io::Error,
    },
    /// Clusters are told apart by their names.
    #[error("serve clusters: two are named {0}; give each a name of its own")]
    Name(String),
    /// No such cluster or user.
    #[error("write a kubeconfig: there is no user {user} of a cluster {cluster}; name one that is served")]
    Unknown {
        /// The cluster's name.
        cluster: String,
        /// The user's name.
        user: String,
    },
    /// The file could not be written.
    #[error("write the kubeconfig {path}: {cause}; choose another file")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
}

/// One cluster that is served.
#[derive(Clone)]
pub struct Endpoint {
    /// The cluster's name.
    pub name: String,
    /// Such as `https://127.0.0.1:40001`.
    pub url: String,
    /// By user.
    tokens: BTreeMap<String, String>,
}

/// Serves clusters until it is stopped or dropped.
pub struct Server {
    endpoints: Vec<Endpoint>,
    sites: Vec<Arc<Site>>,
    ca: String,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Server {
    /// Serves these clusters; all are listening when this returns. It ends with `stop`, too.
    pub async fn start(
        clusters: Vec<Cluster>,
        settings: &Settings,
        stop: &CancellationToken,
    ) -> Result<Self, ListenError> {
        let identity = tls::Identity::new()?;
        let mut chance = fastrand::Rng::with_seed(settings.seed);
        let mut server = Server {
            endpoints: Vec::new(),
            sites: Vec::new(),
            ca: identity.ca,
            tasks: TaskTracker::new(),
            stop: stop.child_token(),
        };
        for (cluster, number) in clusters.into_iter().zip(0u32..) {
            let name = cluster.name().to_owned();
            if server.endpoint(&name).is_some() {
                return Err(ListenError::Name(name));
            }
            let port = if settings.first_port == 0 { 0 } else { u32::from(settings.first_port) + number };
            let (listener, url) = listen(&name, port).await?;
            let tokens: BTreeMap<_, _> = settings
                .users
                .iter()
                .map(|user| (user.name.clone(), user.token.clone().unwrap_or_else(|| draw(&mut chance))))
                .collect();
            let site = Arc::new(Site {
                users: tokens.iter().map(|(user, token)| (token.clone(), user.as_str().into())).collect(),
                cluster,
                tls: identity.acceptor.clone(),
                open: Arc::default(),
                tasks: server.tasks.clone(),
                stop: server.stop.clone(),
            });
            site.spawn(connection::accept(site.clone(), listener));
            server.sites.push(site);
            server.endpoints.push(Endpoint { name, url, tokens });
        }
        Ok(server)
    }

    /// What is served, in the order given.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// One of them by its name.
    pub fn endpoint(&self, cluster: &str) -> Option<&Endpoint> {
        self.endpoints.iter().find(|endpoint| endpoint.name == cluster)
    }

    /// The certificate authority, as PEM.
    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// What is open of all clusters.
    pub fn open(&self) -> Open {
        self.sites.iter().map(|site| site.open.now()).fold(Open::default(), |sum, one| Open {
            connections: sum.connections + one.connections,
            calls: sum.calls + one.calls,
        })
    }

    /// A kubeconfig with a context, a cluster and a user for each cluster, all named as the cluster is; the
    /// first is the current one.
    pub fn kubeconfig(&self, user: &str) -> Result<String, ListenError> {
        kubeconfig::text(&self.ca, &self.endpoints, user)
    }

    /// The kubeconfig of one cluster, for the Secret that registers it.
    pub fn kubeconfig_of(&self, cluster: &str, user: &str) -> Result<String, ListenError> {
        let unknown = || ListenError::Unknown { cluster: cluster.to_owned(), user: user.to_owned() };
        let endpoint = self.endpoint(cluster).ok_or_else(unknown)?;
        kubeconfig::text(&self.ca, std::slice::from_ref(endpoint), user)
    }

    /// Writes [`kubeconfig`](Server::kubeconfig) into a file that only its owner may read.
    pub fn write_kubeconfig(&self, path: &Path, user: &str) -> Result<(), ListenError> {
        kubeconfig::write(path, &self.kubeconfig(user)?)
    }

    /// Ends all connections; no task is left when this returns.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// How many tasks run: one a cluster that waits for connections, and those of open ones.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Endpoint {
    /// The bearer token of a user.
    pub fn token(&self, user: &str) -> Option<&str> {
        self.tokens.get(user).map(String::as_str)
    }
}

async fn listen(cluster: &str, port: u32) -> Result<(TcpListener, String), ListenError> {
    let failed = |cause| ListenError::Bind { cluster: cluster.to_owned(), port, cause };
    let number = u16::try_from(port).map_err(|error| failed(std::io::Error::other(error)))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, number)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, format!("https://{address}")))
}

/// 32 characters.
fn draw(chance: &mut fastrand::Rng) -> String {
    let mut token = String::new();
    // Writing to a String cannot fail.
    let _ = write!(token, "{:032x}", chance.u128(..));
    token
}

//! What is known of a call, and the faults that a test may put in its way.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What a request asks for, by the names that Kubernetes' audit log uses; an apply patch is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Apply,
    Delete,
    DeleteCollection,
    /// A method that the API does not have.
    Other,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Apply => "apply",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Other => "other",
        })
    }
}

/// One request as the server saw it. Discovery and health requests have an empty `resource`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Position in the order of arrival at this cluster, from 0; clearing the record does not reset it.
    pub index: u64,
    /// The cluster's name.
    pub cluster: Arc<str>,
    /// Who calls: the name given to [`client_as`](super::Cluster::client_as).
    pub user: Arc<str>,
    /// What is asked for.
    pub verb: Verb,
    /// The URL's path, without the query.
    pub path: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Plural resource name.
    pub resource: String,
    /// `status`, or empty.
    pub subresource: String,
    /// Empty for cluster-scoped objects and for requests across namespaces.
    pub namespace: String,
    /// Empty for lists, watches and creates.
    pub name: String,
    /// The request asked for a dry run in its query.
    pub dry_run: bool,
    /// The answer's HTTP status; 0 while there is none, and for ever when the connection broke.
    pub status: u16,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { index, cluster, user, verb, path, status, .. } = self;
        let dry = if self.dry_run { " (dry run)" } else { "" };
        write!(f, "{cluster}#{index} {user} {verb} {path}{dry} {status}")
    }
}

/// What happens to a call instead of, or beside, its being served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// It is served.
    #[default]
    None,
    /// The connection breaks before the server has done anything.
    DropBefore,
    /// The server does what was asked, then the connection breaks: the caller never learns.
    DropAfter,
    /// This HTTP status and `reason` instead of being served. 429 comes with `Retry-After: 1`.
    Status(u16, &'static str),
    /// Nothing is done, and no answer ever comes.
    Hang,
    /// Served after this time of tokio's clock.
    Delay(Duration),
}

/// Asked once for each call, in the order of arrival and before any effect; it may use the cluster.
pub type FaultHook = Arc<dyn Fn(&Call) -> Fault + Send + Sync>;

/// How a cluster is out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Down {
    /// Connections are refused, and open watches break.
    Refuse,
    /// Nothing answers, as of a stopped process: calls wait until the cluster is up again, and a call
    /// that its caller gives up in the meantime has no effect. Open watches are silent, then go on.
    Hang,
}

/// A connection that gave no HTTP answer.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConnectionError {
    /// Nobody listens.
    #[error("connect to cluster {0}: connection refused; it was set down by the test")]
    Connect(Arc<str>),
    /// The connection broke on the way.
    #[error("call cluster {0}: connection reset by the test's fault; the call may have been done")]
    Call(Arc<str>),
    /// An open watch broke.
    #[error("watch cluster {0}: connection reset by the test; watch again")]
    Watch(Arc<str>),
    /// The request's body could not be read.
    #[error("read the request's body to cluster {cluster}: {cause}; send it again")]
    Body {
        /// The cluster's name.
        cluster: Arc<str>,
        /// What the body said.
        cause: String,
    },
}

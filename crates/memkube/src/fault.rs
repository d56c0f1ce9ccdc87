//! What is known of a call, and the faults that a test may put in its way.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Cluster;

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
    /// The field manager that a write names, or the program that asks.
    pub manager: String,
    /// By which labels a list or a watch selects; empty: by none.
    pub labels: String,
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
    /// The server does what was asked at once, and answers after this time: watches tell of it first. A list
    /// shows what was there at once, a watch begins there. If the cluster refuses connections before the
    /// answer, none comes.
    Late(Duration),
    /// The request is carried out after this time, with the server's state of then, whether its caller still
    /// waits or not: as one that stands in a proxy's queue or the server's own. Who waits so long gets the
    /// answer. Where the caller gives it up earlier (a time limit, a process that dies: its future is
    /// dropped), the write lands all the same, and the [`Call`] keeps status 0. [`Fault::Delay`] is the same
    /// for callers that wait; what they give up has no effect. If the cluster is out of reach when the time
    /// has come, the request waits for it or is lost, as [`Down`] says. The [`Witness`](super::Witness)
    /// hears of it when it lands. It ends with the runtime of the caller, and with the cluster.
    ///
    /// ```text
    /// let hook = |call: &Call| match call.verb {
    ///     Verb::Apply => Fault::LandsLater(Duration::from_secs(90)),
    ///     _ => Fault::None,
    /// };
    /// cluster.set_fault(Arc::new(hook));
    /// ```
    LandsLater(Duration),
    /// The same, but the caller's connection breaks at once: it may ask again before the first request lands.
    DropLandsLater(Duration),
    /// The server does what was asked, and the connection breaks in the middle of the answer's body; of a
    /// watch, in the middle of its first event.
    HalfBody,
    /// 409 Conflict without an effect, in the real server's shape: somebody else was faster.
    Conflict,
    /// 401 in the real server's shape: the token has expired.
    Unauthorized,
    /// A read is answered as of this older revision, by a server whose cache stands still there: a get or a
    /// list that names a resourceVersion ("0", or one that it must not be older than; a later one than this
    /// gets 504), and a watch that names one, which sends nothing newer until it is cut. Reads that ask for
    /// the latest state get it, as from every real server. Writes and discovery are served as ever.
    Stale(u64),
    /// The same for all reads: no healthy server answers so, one behind a split store does.
    StaleReads(u64),
    /// A watch is opened and silent, without bookmarks and without an end, until it is cut. Anything else is
    /// served as ever.
    Silent,
    /// The parameters of the `Accept` header are lost, as in a gateway that drops them: discovery is answered in plain
    /// documents, and tables and metadata in whole objects.
    Plain,
    /// This HTTP status with a page of HTML, as a load balancer answers that finds no server. Nothing is done.
    Html(u16),
    /// This HTTP status with JSON that is no Kubernetes object, as a gateway answers that has no such route. Nothing is done.
    Json(u16),
    /// This HTTP status with this plain text, as a gateway answers that has no such route. Nothing is done.
    Page(u16, &'static str),
    /// 404 in the real server's shape, of this resource of the core group and this name, whatever was asked: as a webhook
    /// says it of what it looks for itself, or a server behind the server. Nothing is done.
    NotFound(&'static str, &'static str),
    /// 429 as a server with too much to do writes it: a line of plain text, and so many seconds in
    /// `Retry-After`. Nothing is done. The mark of its flow control is on these answers alone; that of an API
    /// server is on all but a gateway's.
    TooMany(u32),
    /// The server does what was asked, and answers with this HTTP status and `reason` all the same, as when etcd
    /// or a proxy gives up too early. A watch is not opened.
    StatusAfter(u16, &'static str),
}

/// What happens to one event of an open watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchFault {
    /// It is sent (later, where an earlier event of this watch was delayed).
    #[default]
    None,
    /// It is sent so much later, and so is all that comes after it in this watch: bookmarks, and the ERROR
    /// that ends it. Delays do not add up: the longest one so far holds, until the watch ends; the next watch
    /// begins without. The order within the watch stays, but it falls behind other watches and behind the
    /// answers of calls. What is still held back when the watch ends (by its timeout, or cut) is not sent: the
    /// client asks for it again. A connection keeps one delay if the hook answers so for the first event.
    ///
    /// ```text
    /// // What this user sees of Secrets comes two seconds late.
    /// let hook = |call: &Call, _: &str, _: &Value| match (&*call.user, call.resource.as_str()) {
    ///     ("vidra-hub", "secrets") => WatchFault::Delay(Duration::from_secs(2)),
    ///     _ => WatchFault::None,
    /// };
    /// cluster.set_watch_fault(Some(Arc::new(hook)));
    /// ```
    Delay(Duration),
    /// It is not sent, and nothing says so: later events and bookmarks go on.
    Lose,
    /// Half of it is sent, then the connection breaks.
    Half,
    /// Instead of it an ERROR event with status 410, and the watch ends.
    Expire,
    /// Neither it nor anything after it is sent; the watch stays open until it is cut.
    Silence,
}

/// Asked for each event of each watch, bookmarks too, with the call that opened the watch, the event's type and
/// its object as it would be sent; it may use the cluster.
pub type WatchHook = Arc<dyn Fn(&Call, &str, &Value) -> WatchFault + Send + Sync>;

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
    /// The same, but what came in the meantime is carried out when the cluster is up again, also where its
    /// caller has given it up, as by a stopped process that finds it in its sockets. Set to
    /// [`Down::Refuse`] instead, it is lost.
    Queue,
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

/// What was done to all open watches so far: each watch compares it with what it was at its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Connections were cut.
    pub cuts: u64,
    /// Watches were ended with 410.
    pub expiries: u64,
    /// Bookmarks were sent out of turn.
    pub bookmarks: u64,
}

impl Cluster {
    /// Asks this hook about each event of each watch from now on; `None` ends it.
    pub fn set_watch_fault(&self, hook: Option<WatchHook>) {
        self.inner.front.lock().watch_fault = hook;
    }

    /// Breaks all open watches; new ones can be opened at once.
    pub fn cut_watches(&self) {
        self.inner.front.lock().counts.cuts += 1;
        self.inner.wake.notify_waiters();
    }

    /// Ends all open watches with an ERROR event of status 410, as a server does to those that it cannot
    /// serve any longer.
    pub fn expire_watches(&self) {
        self.inner.front.lock().counts.expiries += 1;
        self.inner.wake.notify_waiters();
    }

    /// Sends a bookmark at once to all open watches that asked for bookmarks.
    pub fn bookmark_watches(&self) {
        self.inner.front.lock().counts.bookmarks += 1;
        self.inner.wake.notify_waiters();
    }
}

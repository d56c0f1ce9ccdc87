//! Connections: accepted, spoken TLS and HTTP with, and broken or silent while the cluster is out of reach.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::count::Counts;
use super::gate;
use crate::{Cluster, Down};

/// A client that does not get through with TLS, or with a request's head, for so long is gone; the real
/// server's limits are of this size.
const HANDSHAKE: Duration = Duration::from_secs(10);
const HEAD: Duration = Duration::from_secs(32);
/// HTTP/2 clients are asked after this silence whether they are there.
const PING: Duration = Duration::from_secs(30);
/// Requests at a time on one HTTP/2 connection; watches are requests.
const STREAMS: u32 = 1000;

/// One cluster and its door.
pub(super) struct Site {
    pub cluster: Cluster,
    /// By token.
    pub users: BTreeMap<String, Arc<str>>,
    pub tls: TlsAcceptor,
    pub open: Arc<Counts>,
    pub tasks: TaskTracker,
    pub stop: CancellationToken,
}

impl Site {
    /// Starts a task that ends with the server.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled_owned(work).await;
        });
    }

    /// Does some work of a connection, but not while the cluster hangs, and no longer once it refuses.
    async fn while_in_reach(&self, work: impl Future) {
        let cluster = &self.cluster.inner;
        let refusals = cluster.front.lock().refusals;
        let mut work = pin!(work);
        loop {
            // Made before looking, so that no wake-up between looking and waiting is lost.
            let changed = cluster.wake.notified();
            let hung = {
                let front = cluster.front.lock();
                if front.down == Some(Down::Refuse) || front.refusals != refusals {
                    return;
                }
                matches!(front.down, Some(Down::Hang | Down::Queue))
            };
            tokio::select! {
                biased;
                () = changed => {}
                _ = &mut work, if !hung => return,
            }
        }
    }
}

/// Accepts for ever.
pub(super) async fn accept(site: Arc<Site>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => site.spawn(connection(site.clone(), stream)),
            // No more open files, say: others may close theirs.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn connection(site: Arc<Site>, stream: TcpStream) {
    let _counted = site.open.connection();
    // Both only make things quick: answers leave at once, and what is broken is reset.
    let _ = stream.set_nodelay(true);
    if site.cluster.inner.front.lock().down == Some(Down::Refuse) {
        let _ = stream.set_zero_linger();
        return;
    }
    let stop = site.stop.child_token();
    // The tasks of its HTTP/2 streams end with it.
    let _streams = stop.clone().drop_guard();
    let streams = Streams { tasks: site.tasks.clone(), stop };
    site.while_in_reach(speak(&site, stream, streams)).await;
}

async fn speak(site: &Arc<Site>, stream: TcpStream, streams: Streams) {
    let Ok(Ok(stream)) = timeout(HANDSHAKE, site.tls.accept(stream)).await else { return };
    let mut builder = Builder::new(streams);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .adaptive_window(true)
        .keep_alive_interval(PING)
        .keep_alive_timeout(HANDSHAKE);
    let service = service_fn(|request| gate::answer(site.clone(), request));
    // A connection's end is nobody's error: the client, or a test's fault, wanted it.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

/// Runs the streams of one connection.
#[derive(Clone)]
pub(super) struct Streams {
    pub tasks: TaskTracker,
    pub stop: CancellationToken,
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, work: F) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled_owned(work).await;
        });
    }
}

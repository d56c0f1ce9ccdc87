//! A member's connections: calls have one to themselves, watches have others, each with a bounded number.
//!
//! Over HTTP/2 a connection carries many requests, and an API server allows 100 at a time on each: a request
//! beyond them waits until another ends, and a watch does not end for minutes. So watches never share a
//! connection with calls, and another one is opened before the limit. Where a server, or what is before it, speaks
//! HTTP/1.1 only, each request has a connection of its own, and none of this matters.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper_util::{
    client::legacy::{Builder, Client as HyperClient, Error, connect::Connect},
    rt::{TokioExecutor, TokioTimer},
};
use kube::client::Body;
use parking_lot::Mutex;

/// Watches on one connection; API servers allow 100.
const WATCHES: usize = 80;
/// A connection that is silent for so long is asked whether it still is one.
const PING_EVERY: Duration = Duration::from_secs(10);
/// It is given up when no answer comes within this time.
const PONG_WITHIN: Duration = Duration::from_secs(5);
const IDLE_FOR: Duration = Duration::from_secs(60);
/// What an answer may send ahead of what is read of it.
const AHEAD: u32 = 256 << 10;
/// API servers allow so many requests on a connection. Where each of them is ahead and not read, for it waits for room
/// (`reading.rs`), the others go on all the same.
const REQUESTS: u32 = 100;

/// A member's connections: for calls, and for watches.
pub(super) struct ConnectionPool<C> {
    connector: C,
    calls: HyperClient<C, Body>,
    watches: Mutex<Vec<WatchConnection<C>>>,
}

struct WatchConnection<C> {
    client: HyperClient<C, Body>,
    open: Arc<AtomicUsize>,
}

impl<C: Connect + Clone + Send + Sync + 'static> ConnectionPool<C> {
    /// No connection yet.
    pub(super) fn new(connector: C) -> Self {
        let mut calls = builder();
        calls.http2_initial_stream_window_size(AHEAD).http2_initial_connection_window_size(AHEAD * REQUESTS);
        Self { calls: calls.build(connector.clone()), connector, watches: Mutex::default() }
    }

    /// Sends a request on the connection that is for its like.
    ///
    /// # Errors
    /// Of the connection.
    pub(super) async fn send(&self, request: Request<Body>) -> Result<Response<Counted>, Error> {
        if !is_watch(&request) {
            let response = self.calls.request(request).await?;
            return Ok(response.map(|body| Counted { body, _open: None }));
        }
        let (client, open) = self.watch_connection();
        let response = client.request(request).await?;
        Ok(response.map(|body| Counted { body, _open: Some(open) }))
    }

    /// A connection for watches with room, and the place in it that was taken.
    fn watch_connection(&self) -> (HyperClient<C, Body>, Open) {
        let mut all = self.watches.lock();
        // An empty one beyond the first is closed with its last watch.
        let mut first = true;
        all.retain(|connection| std::mem::take(&mut first) || connection.open.load(Ordering::Relaxed) > 0);
        if let Some(connection) =
            all.iter().find(|connection| connection.open.load(Ordering::Relaxed) < WATCHES)
        {
            return (connection.client.clone(), Open::new(&connection.open));
        }
        let connection =
            WatchConnection { client: builder().build(self.connector.clone()), open: Arc::default() };
        let taken = (connection.client.clone(), Open::new(&connection.open));
        all.push(connection);
        taken
    }
}

fn builder() -> Builder {
    let mut builder = HyperClient::<(), ()>::builder(TokioExecutor::new());
    builder
        .pool_idle_timeout(IDLE_FOR)
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_EVERY)
        .http2_keep_alive_timeout(PONG_WITHIN);
    builder
}

/// It asks for a watch.
pub(super) fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|part| matches!(part, "watch=true" | "watch=1"))
}

/// A place in a connection, until it is dropped.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(open.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A response's body, which holds its watch's place until it ends.
pub(super) struct Counted {
    body: Incoming,
    _open: Option<Open>,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper_util::client::legacy::connect::HttpConnector;

    #[test]
    fn a_watch_is_told_by_its_query() {
        let is = |uri: &str| is_watch(&Request::get(uri).body(Body::empty()).unwrap());
        assert!(is("/api/v1/configmaps?labelSelector=a%3Db&watch=true"));
        assert!(!is("/api/v1/configmaps?labelSelector=watch%3Dtrue"));
        assert!(!is("/api/v1/watch"));
    }

    #[test]
    fn a_connection_is_full_before_the_server_says_so_and_goes_when_it_is_empty() {
        let pool = ConnectionPool::new(HttpConnector::new());
        let count = || pool.watches.lock().len();
        let mut open: Vec<Open> = (0..WATCHES).map(|_| pool.watch_connection().1).collect();
        assert_eq!(count(), 1);
        let beyond = pool.watch_connection().1;
        assert_eq!(count(), 2);
        open.pop();
        open.push(pool.watch_connection().1);
        assert_eq!(count(), 2, "the place that was left is taken");
        drop(beyond);
        open.pop();
        open.push(pool.watch_connection().1);
        assert_eq!(count(), 1, "the empty one is gone");
    }
}

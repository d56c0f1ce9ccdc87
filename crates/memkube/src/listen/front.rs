//! Anything over HTTPS on 127.0.0.1, with a certificate of its own: for servers that are no clusters.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::Streams;
use super::{Endpoint, ListenError, kubeconfig, listen, tls};

const HANDSHAKE: Duration = Duration::from_secs(10);
/// Requests at a time on one HTTP/2 connection, as API servers allow.
const STREAMS: u32 = 100;

/// An HTTPS listener on loopback. Its connections end with it.
pub struct Front {
    /// Where it listens.
    pub address: SocketAddr,
    /// The authority that its certificate is of, as PEM.
    pub ca: String,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Front {
    /// Answers every request so, each with its body read.
    pub async fn start<S, F, B>(name: &str, answer: S) -> Result<Self, ListenError>
    where
        S: Fn(Request<Bytes>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = io::Result<Response<B>>> + Send + 'static,
        B: Stream<Item = io::Result<Bytes>> + Send + 'static,
    {
        let identity = tls::Identity::new()?;
        let (listener, _) = listen(name, 0).await?;
        let failed = |cause| ListenError::Bind { cluster: name.to_owned(), port: 0, cause };
        let address = listener.local_addr().map_err(failed)?;
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let front = Self { address, ca: identity.ca, tasks: tasks.clone(), stop: stop.clone() };
        let streams = Streams { tasks: tasks.clone(), stop };
        tasks.spawn(accept(listener, identity.acceptor, Arc::new(answer), streams));
        Ok(front)
    }

    /// A kubeconfig that leads to it, or to what stands before it at `url`, with this bearer token.
    pub fn kubeconfig(&self, url: &str, token: &str) -> Result<String, ListenError> {
        let tokens = [("user".to_owned(), token.to_owned())].into();
        let endpoint = Endpoint { name: "front".to_owned(), url: url.to_owned(), tokens };
        kubeconfig::text(&self.ca, &[endpoint], "user")
    }

    /// Ends all connections.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept<S, F, B>(listener: TcpListener, tls: TlsAcceptor, answer: Arc<S>, streams: Streams)
where
    S: Fn(Request<Bytes>) -> F + Send + Sync + 'static,
    F: Future<Output = io::Result<Response<B>>> + Send + 'static,
    B: Stream<Item = io::Result<Bytes>> + Send + 'static,
{
    let accepting = async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let speaking = speak(stream, tls.clone(), answer.clone(), streams.clone());
                    streams.tasks.spawn(streams.stop.clone().run_until_cancelled_owned(speaking));
                }
                // No more open files, say: others may close theirs.
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    };
    streams.stop.run_until_cancelled(accepting).await;
}

async fn speak<S, F, B>(stream: TcpStream, tls: TlsAcceptor, answer: Arc<S>, streams: Streams)
where
    S: Fn(Request<Bytes>) -> F + Send + Sync + 'static,
    F: Future<Output = io::Result<Response<B>>> + Send + 'static,
    B: Stream<Item = io::Result<Bytes>> + Send + 'static,
{
    // It only makes things quick.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(HANDSHAKE, tls.accept(stream)).await else { return };
    let mut builder = Builder::new(streams);
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS).adaptive_window(true);
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            let answered = answer(Request::from_parts(parts, body)).await?;
            Ok::<_, io::Error>(answered.map(|pieces| StreamBody::new(pieces.map_ok(Frame::data))))
        }
    });
    // A connection's end is nobody's error.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

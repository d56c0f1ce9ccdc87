//! What the process serves about itself: /metrics, /healthz, /readyz.

pub mod metrics;

use std::{convert::Infallible, net::SocketAddr};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use metrics::Metrics;

/// A request's headers must arrive within this time.
const HEADERS_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// Serves until `stop`.
pub async fn serve(
    listener: TcpListener,
    metrics: Metrics,
    ready: watch::Receiver<bool>,
    stop: CancellationToken,
) {
    let connections = TaskTracker::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let Ok((stream, _)) = accepted else { continue };
        let (metrics, ready) = (metrics.clone(), ready.clone());
        let answer = service_fn(move |request: Request<Incoming>| {
            let response = respond(request.uri().path(), &metrics, *ready.borrow());
            async move { Ok::<_, Infallible>(response) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_WITHIN)
            .serve_connection(TokioIo::new(stream), answer);
        let stop = stop.clone();
        connections.spawn(async move {
            // A client that breaks off is its own affair.
            let _ = stop.run_until_cancelled(connection).await;
        });
    }
    connections.close();
    connections.wait().await;
}

/// Listens; port 0 takes a free one.
pub async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

fn respond(path: &str, metrics: &Metrics, ready: bool) -> Response<Full<Bytes>> {
    let (status, kind, body) = match path {
        "/healthz" | "/livez" => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        "/readyz" if ready => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        "/readyz" => (
            StatusCode::SERVICE_UNAVAILABLE,
            "text/plain",
            "the hub's objects are not all known yet\n".to_owned(),
        ),
        "/metrics" => (StatusCode::OK, metrics::CONTENT_TYPE, metrics.render()),
        _ => (StatusCode::NOT_FOUND, "text/plain", "try /metrics, /healthz or /readyz\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}

//! What the process serves about itself: /metrics, /healthz, /livez, /readyz.

use std::{convert::Infallible, net::SocketAddr};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::metrics::{self, Metrics};

/// A request's headers must arrive within this time.
const HEADERS_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// How far the process has come.
#[derive(Clone)]
pub struct Readiness {
    /// It has read the Lease, which another process holds: it can take over.
    pub waits: watch::Receiver<bool>,
    /// It holds the Lease, or needs none.
    pub leads: watch::Receiver<bool>,
    /// It knows the hub's own objects.
    pub synced: watch::Receiver<bool>,
}

impl Readiness {
    /// What is waited for; `None`: it is ready.
    fn lacks(&self) -> Option<&'static str> {
        match (*self.waits.borrow(), *self.leads.borrow(), *self.synced.borrow()) {
            (_, _, true) | (true, false, _) => None,
            (false, false, _) => Some("the Lease was not read yet\n"),
            (_, true, false) => Some("the hub's objects are not all known yet\n"),
        }
    }
}

/// Serves until `stop`.
pub async fn serve(listener: TcpListener, metrics: Metrics, ready: Readiness, stop: CancellationToken) {
    let connections = TaskTracker::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let Ok((stream, _)) = accepted else { continue };
        let (metrics, ready) = (metrics.clone(), ready.clone());
        let answer = service_fn(move |request: Request<Incoming>| {
            let response = respond(request.uri().path(), &metrics, &ready);
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

fn respond(path: &str, metrics: &Metrics, ready: &Readiness) -> Response<Full<Bytes>> {
    let (status, kind, body) = match path {
        "/healthz" | "/livez" => match metrics.fallen().names() {
            fallen if fallen.is_empty() => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
            fallen => {
                let words = format!("does not run: {}; the log says why\n", fallen.join(", "));
                (StatusCode::SERVICE_UNAVAILABLE, "text/plain", words)
            }
        },
        "/readyz" => match ready.lacks() {
            None => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
            Some(lacks) => (StatusCode::SERVICE_UNAVAILABLE, "text/plain", lacks.to_owned()),
        },
        "/metrics" => (StatusCode::OK, metrics::CONTENT_TYPE, metrics.render()),
        _ => (StatusCode::NOT_FOUND, "text/plain", "try /metrics, /healthz, /livez or /readyz\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::supervise::Stop;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn a_task_that_does_not_run_is_named_by_livez() {
        let (metrics, tasks) = (Metrics::default(), CancellationToken::new());
        let stop = Stop::new(tasks.clone(), metrics.fallen().clone());
        let [waits, leads, synced] = [false, true, true].map(|is| watch::channel(is).1);
        let ready = Readiness { waits, leads, synced };
        let asked = async || {
            let response = respond("/livez", &metrics, &ready);
            let (code, body) = (response.status().as_u16(), response.into_body().collect().await.unwrap());
            (code, String::from_utf8(body.to_bytes().to_vec()).unwrap())
        };
        assert_eq!(asked().await, (200, "ok\n".to_owned()));
        for task in ["hub watches", "settings"] {
            stop.runs(task, async {}).await;
        }
        let (code, words) = asked().await;
        assert!(code == 503 && words.contains("does not run: hub watches, settings"), "{words}");
    }

    #[tokio::test]
    async fn what_a_process_that_is_not_ready_waits_for_is_said() {
        let metrics = Metrics::default();
        for (state, code, words) in [
            ([false, false, false], 503, "the Lease was not read yet"),
            // It can take over.
            ([true, false, false], 200, "ok"),
            ([true, true, false], 503, "objects are not all known"),
            ([false, true, false], 503, "objects are not all known"),
            ([true, true, true], 200, "ok"),
            ([false, true, true], 200, "ok"),
        ] {
            let [waits, leads, synced] = state.map(|is| watch::channel(is).1);
            let ready = Readiness { waits, leads, synced };
            let response = respond("/readyz", &metrics, &ready);
            assert_eq!(response.status(), code);
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let body = std::str::from_utf8(&body).unwrap();
            assert!(body.contains(words), "{body}");
        }
    }
}

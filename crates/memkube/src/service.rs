//! The HTTP face: a tower Service that records calls, lets faults happen, and serves the rest.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, DATE, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use jiff::{Timestamp, fmt::rfc2822::DateTimePrinter};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tower::{BoxError, Service};

use super::discovery::AGGREGATED;
use super::failure::Failure;
use super::fault::{Call, ConnectionError, Down, Fault, Verb};
use super::handle::Answer;
use super::route::Asked;
use super::store::View;
use super::{Changed, Inner, watch};

/// How long a read waits for a revision that is not there yet; apiserver's `blockTimeout`.
const CATCH_UP: Duration = Duration::from_secs(3);

/// The body of an answer. `kube::client::Body` cannot be made from a stream outside kube, and
/// `kube::Client::new` takes any body.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// One user's connection to a cluster.
#[derive(Clone)]
pub struct ApiService {
    pub(super) cluster: Arc<Inner>,
    pub(super) user: Arc<str>,
}

impl<B> Service<Request<B>> for ApiService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let ApiService { cluster, user } = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|error| ConnectionError::Body {
                cluster: cluster.name.clone(),
                cause: error.into().to_string(),
            })?;
            let asked = Asked::read(&parts, body.to_bytes());
            let call = cluster.record(&asked, user);
            Ok(cluster.serve(asked, call).await?)
        })
    }
}

impl Inner {
    fn record(&self, asked: &Asked, user: Arc<str>) -> Call {
        let address = asked.address();
        let mut front = self.front.lock();
        let call = Call {
            index: front.next_index,
            cluster: self.name.clone(),
            user,
            verb: asked.verb,
            path: asked.path.clone(),
            group: address.group,
            resource: address.plural,
            subresource: address.subresource,
            namespace: address.namespace,
            name: address.name,
            manager: asked.manager().to_owned(),
            labels: asked.param("labelSelector").to_owned(),
            dry_run: asked.dry_run(),
            status: 0,
        };
        front.next_index += 1;
        if !front.unrecorded {
            front.calls.insert(call.index, call.clone());
        }
        call
    }

    async fn serve(
        self: Arc<Self>,
        asked: Asked,
        call: Call,
    ) -> Result<Response<ResponseBody>, ConnectionError> {
        let hook = self.front.lock().fault.clone();
        let fault = hook.map_or(Fault::None, |hook| hook(&call));
        let queued = self.front.lock().down == Some(Down::Queue);
        let (index, name) = (call.index, self.name.clone());
        let broken = || ConnectionError::Call(name.clone());
        let response = match fault {
            Fault::DropBefore => return Err(broken()),
            Fault::Hang => std::future::pending().await,
            Fault::LandsLater(time) => {
                self.land(asked, call, fault, time).await.unwrap_or_else(|_| Err(broken()))?
            }
            Fault::DropLandsLater(time) => {
                drop(self.land(asked, call, fault, time));
                return Err(broken());
            }
            fault => {
                let time = if let Fault::Delay(time) = fault { time } else { Duration::ZERO };
                if queued {
                    self.land(asked, call, fault, time).await.unwrap_or_else(|_| Err(broken()))?
                } else {
                    pause(time).await;
                    self.clone().carry_out(asked, call, fault).await?
                }
            }
        };
        if let Some(call) = self.front.lock().calls.get_mut(&index) {
            call.status = response.status().as_u16();
        }
        Ok(response)
    }

    /// Carries a call out after this time, whether or not its caller still waits for the answer.
    fn land(
        self: &Arc<Self>,
        asked: Asked,
        call: Call,
        fault: Fault,
        after: Duration,
    ) -> oneshot::Receiver<Result<Response<ResponseBody>, ConnectionError>> {
        let (answer, waiting) = oneshot::channel();
        // What is on its way does not keep the cluster: it ends with it.
        let cluster = Arc::downgrade(self);
        self.spawn(async move {
            pause(after).await;
            let Some(cluster) = cluster.upgrade() else { return };
            let served = cluster.carry_out(asked, call, fault).await;
            // Nobody hears it who has given up.
            let _ = answer.send(served);
        });
        waiting
    }

    /// Lets this run beside the callers, until it or the cluster ends.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if tokio::runtime::Handle::try_current().is_ok() {
            let mut front = self.front.lock();
            while front.beside.try_join_next().is_some() {}
            front.beside.spawn(work);
        }
    }

    async fn carry_out(
        self: Arc<Self>,
        mut asked: Asked,
        call: Call,
        fault: Fault,
    ) -> Result<Response<ResponseBody>, ConnectionError> {
        let broken = || ConnectionError::Call(self.name.clone());
        if let Fault::Stale(revision) | Fault::StaleReads(revision) = fault {
            let to_all = matches!(fault, Fault::StaleReads(_));
            let reads = matches!(call.verb, Verb::Get | Verb::List | Verb::Watch);
            asked.view = reads.then_some(View { revision, to_all });
        }
        if fault == Fault::Plain {
            asked.accept = "application/json".to_owned();
        }
        self.reachable().await?;
        let told = |code, reason: &str| {
            let message = format!("the test answers this request with {code} {reason}");
            Answer::from(Failure::new(code, reason, message))
        };
        let instead = match fault {
            Fault::Status(code, reason) => Some(told(code, reason)),
            Fault::Conflict => Some(Failure::modified_at(&call.group, &call.resource, &call.name).into()),
            Fault::Unauthorized => Some(Failure::unauthorized().into()),
            Fault::Html(code) => Some(Answer::Html(code)),
            Fault::Page(code, text) => Some(Answer::Text(code, text)),
            Fault::NotFound(plural, name) => Some(Failure::not_found_at(plural, name).into()),
            Fault::Json(code) => Some(Answer::Json(
                code,
                serde_json::json!({"error": "no such route", "kind": "GatewayError"}),
            )),
            Fault::TooMany(_) => Some(Answer::Text(429, TOO_MANY)),
            _ => None,
        };
        if instead.is_none() {
            self.caught_up(&asked).await;
            self.reachable().await?;
        }
        let before = self.store.lock().revision();
        let (mut answer, warnings) = match instead {
            Some(answer) => (answer, Vec::new()),
            None => self.handle(&asked, &call),
        };
        self.testify(&call, &answer, before);
        match fault {
            Fault::DropAfter => return Err(broken()),
            Fault::StatusAfter(code, reason) => answer = told(code, reason),
            _ => {}
        }
        let refusals = self.front.lock().refusals;
        let late = if let Fault::Late(time) = fault { Some(time) } else { None };
        // A watch begins here, also one whose answer is late.
        let mut response = self.clone().respond(answer, call, fault);
        for warning in &warnings {
            let text = warning.replace('\\', "\\\\").replace('"', "\\\"");
            if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
                response.headers_mut().append(http::header::WARNING, value);
            }
        }
        if let Some(time) = late {
            pause(time).await;
            // No answer comes from a server that went out of reach in the meantime, nor after it is back.
            self.reachable().await.map_err(|_| broken())?;
            if self.front.lock().refusals != refusals {
                return Err(broken());
            }
        }
        Ok(response)
    }

    /// Waits, as long as the real server does, for the revision that a read asks for.
    async fn caught_up(&self, asked: &Asked) {
        let Some(wanted) = asked.wanted() else { return };
        let deadline = Instant::now() + CATCH_UP;
        loop {
            let changed = self.wake.notified();
            let newest = asked.limit().unwrap_or(u64::MAX).min(self.store.lock().revision());
            if wanted <= newest {
                return;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep_until(deadline) => return,
            }
        }
    }

    /// Tells the witness what the call came to.
    fn testify(&self, call: &Call, answer: &Answer, before: u64) {
        let Some(witness) = self.front.lock().witness.clone() else { return };
        let store = self.store.lock();
        let changes =
            store.changes_after(before).into_iter().flatten().map(Changed::from).collect::<Vec<_>>();
        drop(store);
        self.with_room(|| witness(&Call { status: answer.code(), ..call.clone() }, &changes));
    }

    /// Waits while the cluster hangs.
    async fn reachable(&self) -> Result<(), ConnectionError> {
        loop {
            let changed = self.wake.notified();
            let down = self.front.lock().down;
            match down {
                None => return Ok(()),
                Some(Down::Refuse) => return Err(ConnectionError::Connect(self.name.clone())),
                Some(Down::Hang | Down::Queue) => changed.await,
            }
        }
    }

    fn respond(self: Arc<Self>, answer: Answer, call: Call, fault: Fault) -> Response<ResponseBody> {
        let (name, index, date) = (self.name.clone(), call.index, date((self.clock)()));
        let is_anothers = matches!(fault, Fault::Html(_) | Fault::Json(_) | Fault::Page(..));
        let (is_flow_control, wait) = match fault {
            Fault::TooMany(seconds) => (true, HeaderValue::from(seconds)),
            _ => (false, HeaderValue::from_static("1")),
        };
        let full = |bytes: Bytes| match fault {
            Fault::HalfBody => {
                let half = bytes.slice(..bytes.len() / 2);
                let parts = [Ok(Frame::data(half)), Err(ConnectionError::Call(name).into())];
                BodyExt::boxed_unsync(StreamBody::new(futures::stream::iter(parts)))
            }
            _ => Full::new(bytes).map_err(|never| match never {}).boxed_unsync(),
        };
        let (code, content_type, body) = match answer {
            Answer::Json(code, value) => (code, "application/json", full(value.to_string().into())),
            Answer::Object(code, object) => (code, "application/json", full(object.json())),
            Answer::Raw(code, text) => (code, "application/json", full(text)),
            Answer::Aggregated(text) => (200, AGGREGATED, full(text)),
            Answer::Text(code, text) => (code, "text/plain; charset=utf-8", full(text.into())),
            Answer::Html(code) => (code, "text/html", full(page(code).into())),
            Answer::Watch(start) => {
                let body = StreamBody::new(watch::open(self, start, call, fault));
                (200, "application/json", BodyExt::boxed_unsync(body))
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        let headers = response.headers_mut();
        if code == 429 {
            headers.insert(RETRY_AFTER, wait);
        }
        // `WithAuditInit` in k8s.io/apiserver/pkg/endpoints/filters, and `setResponseHeaders` of its flow control.
        if !is_anothers {
            headers.insert("audit-id", HeaderValue::from(index));
            headers.extend(date.map(|date| (DATE, date)));
        }
        if is_flow_control {
            headers.insert("x-kubernetes-pf-flowschema-uid", HeaderValue::from_static("flow-schema"));
        }
        response
    }
}

/// As net/http writes it.
fn date(now: Timestamp) -> Option<HeaderValue> {
    let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&now).ok()?;
    HeaderValue::try_from(text).ok()
}

/// `tooManyRequests` of kube-apiserver.
const TOO_MANY: &str = "Too many requests, please try again later.\n";

/// A proxy's page for an error.
fn page(code: u16) -> String {
    let reason = StatusCode::from_u16(code).ok().and_then(|code| code.canonical_reason()).unwrap_or_default();
    format!(
        "<html>\r\n<head><title>{code} {reason}</title></head>\r\n<body>\r\n<center><h1>{code} {reason}</h1></center>\r\n\
         <hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
    )
}

pub(super) async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

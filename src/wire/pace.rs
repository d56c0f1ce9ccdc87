//! How long a server asks to be left alone: 429 with `Retry-After`, read from each of its answers before kube drops the
//! headers. Whatever is sent to that server next waits for it, except what asks who answers there.
//!
//! An API server says 429 in two ways. Its flow control, its bound on requests in flight, and one that shuts down write a
//! line of plain text (`tooManyRequests` and `WithRetryAfter` in k8s.io/apiserver/pkg/server/filters): that is said of
//! whatever may be asked. A Status with 429 is said of what was asked alone: a kind whose storage is not ready yet, an
//! object that a webhook refuses.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use vidra_core::mutants::{self, Mutant};

use crate::base::{env::AnswerBody, error::CallError};

/// Nothing waits longer, whatever a server asks.
pub const LONGEST: Duration = Duration::from_secs(60);
/// What an API server's answers bear and nobody else's. The first is on each of them, for the outermost of its filters
/// sets it (`WithAuditInit`); the second on those that its flow control let through or refused (`setResponseHeaders`).
const MARKS: [&str; 2] = ["audit-id", "x-kubernetes-pf-flowschema-uid"];

/// For how long a server asks to be left alone. One for each server.
#[derive(Debug, Default)]
pub struct Pace(Mutex<Asked>);

#[derive(Debug, Default)]
struct Asked {
    /// Nothing is to be sent before this.
    until: Option<Instant>,
    /// Nothing is to be sent before this, for an API server said so.
    by_server: Option<Instant>,
    /// When something was sent last although it asked.
    sent: Option<Instant>,
}

/// Who asks to be left alone, and for how long.
#[derive(Debug, PartialEq, Eq)]
enum Asks {
    /// An API server.
    Server(Duration),
    /// What stands before it: whether there is one nobody knows.
    Gateway(Duration),
}

impl Asks {
    /// What an answer asks of all that is sent there.
    fn read(code: StatusCode, headers: &HeaderMap) -> Option<Self> {
        if code != StatusCode::TOO_MANY_REQUESTS || mutants::is(Mutant::RetryAfterUnread) {
            return None;
        }
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let seconds = text(header::RETRY_AFTER).and_then(|seconds| seconds.trim().parse().ok());
        let wait = seconds.map(|seconds| Duration::from_secs(seconds).min(LONGEST));
        let is_json = text(header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/json"));
        match MARKS.iter().any(|mark| headers.contains_key(*mark)) {
            true if is_json => None,
            true => Some(Self::Server(wait.unwrap_or_default())),
            false => wait.map(Self::Gateway),
        }
    }
}

impl Pace {
    /// Until when the server asks to be left alone, or until `most` where that is sooner; `None`: it does not ask now.
    pub fn asks(&self, most: Instant) -> Option<Instant> {
        let until = self.0.lock().until?.min(most);
        (until > Instant::now()).then_some(until)
    }

    /// Waits for as long as the server asks, but not beyond `most`. Whoever has waited so long goes all the same, one in
    /// [`LONGEST`]: true, it asks still.
    ///
    /// # Errors
    /// `Throttled`: it asks still, and another one went a moment ago; nothing may be sent.
    pub async fn pass(&self, most: Instant) -> Result<bool, CallError> {
        while let Some(until) = self.asks(most) {
            sleep_until(until).await;
        }
        let now = Instant::now();
        let mut asked = self.0.lock();
        let Some(rest) = asked.until.map(|until| until - now).filter(|rest| !rest.is_zero()) else {
            return Ok(false);
        };
        if asked.sent.is_some_and(|sent| now - sent < LONGEST) && !mutants::is(Mutant::EachGoesAfterAMinute) {
            return Err(CallError::throttled(rest));
        }
        asked.sent = Some(now);
        Ok(true)
    }

    /// Whether an API server has asked to be left alone for longer than until then.
    pub fn is_asked_by_server(&self, then: Instant) -> bool {
        self.0.lock().by_server.is_some_and(|until| until > then)
    }

    /// Notes what an answer asks. What an API server says with a line of text becomes the Status that says the same: kube
    /// would take it for a gateway's page.
    pub fn note_answer(&self, answer: Response<AnswerBody>) -> Response<AnswerBody> {
        let Some(asks) = Asks::read(answer.status(), answer.headers()) else { return answer };
        let (Asks::Server(wait) | Asks::Gateway(wait)) = asks;
        let until = Some(Instant::now() + wait);
        let mut asked = self.0.lock();
        asked.until = asked.until.max(until);
        match asks {
            Asks::Gateway(_) => answer,
            Asks::Server(wait) => {
                asked.by_server = asked.by_server.max(until);
                too_many(wait)
            }
        }
    }
}

/// As an API server writes it where it writes JSON.
fn too_many(wait: Duration) -> Response<AnswerBody> {
    let seconds = wait.as_secs();
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "TooManyRequests", "code": 429,
        "message": format!("the API server has too many requests, and asks to wait {seconds} s"),
        "details": {"retryAfterSeconds": seconds},
    });
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    answer
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Client, api::ListParams, client::Body};
    use tower::{BoxError, ServiceExt, service_fn};

    use super::*;
    use crate::{
        base::error::Class,
        wire::{Wire, follow::WATCH_OPENS, pages::PAGE_WITHIN},
    };

    const AUDIT: (&str, &str) = ("audit-id", "7");
    const FLOW: (&str, &str) = ("x-kubernetes-pf-flowschema-uid", "u");
    const TEXT: (&str, &str) = ("content-type", "text/plain; charset=utf-8");
    const JSON: (&str, &str) = ("content-type", "application/json");

    fn after(seconds: &'static str) -> (&'static str, &'static str) {
        ("retry-after", seconds)
    }

    fn answer(code: u16, headers: &[(&str, &str)]) -> Response<AnswerBody> {
        let body = Full::new(Bytes::from_static(b"Too many requests")).map_err(|never| match never {});
        let mut answer = Response::builder().status(code);
        for (name, value) in headers {
            answer = answer.header(*name, *value);
        }
        answer.body(body.boxed_unsync()).unwrap()
    }

    #[test]
    fn what_is_asked_of_all_calls_is_told_by_code_and_headers() {
        let server = |seconds| Some(Asks::Server(Duration::from_secs(seconds)));
        let gateway = |seconds| Some(Asks::Gateway(Duration::from_secs(seconds)));
        for (code, headers, asks) in [
            (429, vec![AUDIT, FLOW, TEXT, after("7")], server(7)),
            // Its bound on requests in flight, and one that shuts down.
            (429, vec![AUDIT, TEXT, after("5")], server(5)),
            (429, vec![FLOW, TEXT, after("1")], server(1)),
            (429, vec![AUDIT, TEXT, after("86400")], server(60)),
            (429, vec![AUDIT, TEXT], server(0)),
            // Said of what was asked alone.
            (429, vec![AUDIT, FLOW, JSON, after("30")], None),
            // Somebody before it: how long is heard, that there is an API server is not.
            (429, vec![TEXT, after("7")], gateway(7)),
            (429, vec![JSON, after("99999999999")], gateway(60)),
            (429, vec![TEXT], None),
            (429, vec![TEXT, after("Wed, 21 Oct 2026 07:28:00 GMT")], None),
            (429, vec![TEXT, after("-1")], None),
            (200, vec![AUDIT, JSON, after("7")], None),
            (503, vec![AUDIT, TEXT, after("7")], None),
        ] {
            let told = answer(code, &headers);
            assert_eq!(Asks::read(told.status(), told.headers()), asks, "{code} {headers:?}");
        }
    }

    /// A server that answers so, and counts; what reads from it.
    fn server(headers: Vec<(&'static str, &'static str)>, asked: Arc<AtomicU32>) -> (Arc<Pace>, Wire) {
        let pace = Arc::<Pace>::default();
        let service = service_fn(move |_: http::Request<Body>| {
            asked.fetch_add(1, Ordering::Relaxed);
            let answer = answer(429, &headers);
            async move { Ok::<_, BoxError>(answer) }
        });
        let heard = pace.clone();
        let client = Client::new(service.map_response(move |answer| heard.note_answer(answer)), "default");
        let wire = Wire::of::<ConfigMap>(client, None, ListParams::default()).with_pace(pace.clone());
        (pace, wire)
    }

    #[tokio::test(start_paused = true)]
    async fn lists_and_watches_wait_as_long_as_the_server_asks_and_are_told_that_it_is_one() {
        let asked = Arc::<AtomicU32>::default();
        let (pace, wire) = server(vec![AUDIT, FLOW, TEXT, after("20")], asked.clone());
        let began = Instant::now();
        let list = async || wire.page(500, None, false, PAGE_WITHIN).await.map(drop).unwrap_err();
        let watch = async || wire.watch("1", 200, WATCH_OPENS).await.map(drop).unwrap_err();
        let throttled = |error: CallError| {
            assert_eq!(error.class, Class::Throttled(Some(Duration::from_secs(20))), "{error}");
        };
        throttled(list().await);
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(pace.is_asked_by_server(began) && !pace.is_asked_by_server(began + Duration::from_secs(20)));
        throttled(watch().await);
        throttled(list().await);
        throttled(watch().await);
        assert_eq!(began.elapsed().as_secs(), 60);
        assert_eq!(asked.load(Ordering::Relaxed), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_gateway_is_waited_for_and_is_no_api_server() {
        let (pace, wire) = server(vec![TEXT, after("3600")], Arc::default());
        let began = Instant::now();
        for _ in 0..2 {
            let error = wire.page(500, None, false, PAGE_WITHIN).await.map(drop).unwrap_err();
            assert_eq!(error.class, Class::Gateway, "{error}");
        }
        assert_eq!(began.elapsed().as_secs(), 60, "a minute at most");
        assert!(!pace.is_asked_by_server(began));
    }

    #[tokio::test(start_paused = true)]
    async fn however_often_more_is_asked_nobody_waits_longer_than_a_minute() {
        let pace = Pace::default();
        let began = Instant::now();
        let asks = async {
            loop {
                pace.note_answer(answer(429, &[AUDIT, TEXT, after("30")]));
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
        };
        tokio::select! {
            biased;
            () = asks => {}
            went = pace.pass(began + LONGEST) => assert!(went.unwrap()),
        }
        assert_eq!(began.elapsed().as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn of_many_that_waited_a_minute_one_goes_and_the_others_are_told_how_long_it_asks_still() {
        let pace = Pace::default();
        let began = Instant::now();
        let asks = async {
            loop {
                pace.note_answer(answer(429, &[AUDIT, TEXT, after("30")]));
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
        };
        let pass = async |after: u64| {
            tokio::time::sleep(Duration::from_secs(after)).await;
            let went = pace.pass(Instant::now() + LONGEST).await;
            (began.elapsed().as_secs(), went.map_err(|error| error.class))
        };
        let all = async { tokio::join!(pass(1), pass(8), pass(69), pass(70)) };
        let went = tokio::select! {
            biased;
            () = asks => return,
            went = all => went,
        };
        let throttled = |seconds| Err(Class::Throttled(Some(Duration::from_secs(seconds))));
        let goes = Ok(true);
        // One goes, one a moment later does not; one that comes much later goes in its turn.
        assert_eq!(went, ((61, goes.clone()), (68, throttled(22)), (129, goes), (130, throttled(30))));
    }
}

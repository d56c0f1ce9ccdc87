//! Follows a kind: lists it, watches it from there, and lists it again when the watch cannot be trusted.
//!
//! For what the hub keeps of its own API. Of members an informer knows more (`member::informers`).

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use vidra_core::mutants::{self, Mutant};

use super::{
    Glance, Line, Lines, Wire,
    pages::{PAGE_WITHIN, Pages},
};
use crate::base::{
    backoff::Pauses,
    env::Rng,
    error::{CallError, Class},
};

/// A watch ends after this long and another begins, before load balancers drop it as idle (240 s).
pub const WATCH_SECONDS: u32 = 200;
/// A watch that goes on for longer than it was asked to is dead: nobody closes it.
pub const WATCH_MOST: Duration = Duration::from_secs(210);
/// A watch that has said nothing for so long is begun again where it stands: a server sends a bookmark each minute.
pub const WATCH_SILENT: Duration = Duration::from_secs(75);
/// One that the server ends sooner is not ended because its time is over.
const WATCH_EARLY: Duration = Duration::from_secs(190);
/// A watch must have begun within this time.
pub const WATCH_OPENS: Duration = Duration::from_secs(30);
/// One that ends sooner is not asked for again at once.
pub const WATCH_LEAST: Duration = Duration::from_secs(5);

/// Versions that grew by more than this a second were raised by hand, as etcd's restore does with `--bump-revision` (by
/// 1,000,000,000, mostly). No store writes so fast, and one whose versions are microseconds comes to half of it.
const GROWS_MOST: u64 = 2_000_000;

/// What a follower is told, in the words of kube-rs' watcher.
pub enum WatchEvent<'a> {
    /// A list begins.
    Init,
    /// An object of the list.
    InitApply(Object<'a>),
    /// The list is complete: what it did not show was gone in this resourceVersion.
    InitDone(u64),
    /// An object was made or changed.
    Apply(Object<'a>),
    /// An object is gone, or out of sight.
    Delete(Object<'a>),
    /// The watch has told everything up to this resourceVersion.
    Bookmark(u64),
    /// A list or a watch failed; it is tried again.
    Error(&'a CallError),
    /// The server's own versions have gone back, or were raised: it was restored, and nothing that was told before counts.
    /// It is the last event.
    Restored,
}

/// An object as the server sent it.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    /// Its JSON.
    pub text: &'a str,
    /// It is larger than anything that is read; this is its metadata.
    pub is_cut: bool,
}

/// Follows until it is dropped; `most` objects in a page of a list.
pub async fn follow(wire: &Wire, most: u32, rng: &dyn Rng, mut tell: impl FnMut(WatchEvent<'_>) + Send) {
    let mut course = Course {
        size: most,
        most,
        highest: 0,
        named: 0,
        named_at: Instant::now(),
        pauses: Pauses::default(),
    };
    loop {
        let ended = match course.list(wire, &mut tell).await {
            Ok(version) => match course.watch(wire, version, rng, &mut tell).await {
                None => continue,
                Some(error) => error,
            },
            Err(error) => error,
        };
        tell(WatchEvent::Error(&ended));
        course.pauses.pause(rng).await;
    }
}

struct Course {
    /// Objects in the next page.
    size: u32,
    most: u32,
    /// The highest resourceVersion up to which all was told.
    highest: u64,
    /// The highest that the server has named, and when: one that is not as far afterwards was restored, though no watch has
    /// shown what is lost.
    named: u64,
    named_at: Instant,
    pauses: Pauses,
}

impl Course {
    /// Lists all; the resourceVersion behind which to watch.
    async fn list(
        &mut self,
        wire: &Wire,
        tell: &mut (impl FnMut(WatchEvent<'_>) + Send),
    ) -> Result<String, CallError> {
        tell(WatchEvent::Init);
        let mut pages = Pages::new(wire, &mut self.size, self.most, None);
        let mut take = |text: &str, is_cut| tell(WatchEvent::InitApply(Object { text, is_cut }));
        while pages.next(&mut take).await? {}
        let version = pages.version();
        let number = version.parse().unwrap_or(0);
        if number == 0 {
            let message = "the server sends no resourceVersion".to_owned();
            return Err(CallError { class: Class::Server, message });
        }
        if self.was_restored(number) && !mutants::is(Mutant::RestoreUnnoticed) {
            tell(WatchEvent::Restored);
            return std::future::pending().await;
        }
        self.highest = number;
        self.note_named(number);
        self.pauses.reset();
        tell(WatchEvent::InitDone(number));
        Ok(version)
    }

    /// A list names this version: no server comes from the highest one that it has named to it by writes.
    fn was_restored(&self, number: u64) -> bool {
        let grows = GROWS_MOST.saturating_mul(self.named_at.elapsed().as_secs() + 1);
        self.named > 0 && (number < self.named || number - self.named > grows)
    }

    fn note_named(&mut self, number: u64) {
        (self.named, self.named_at) = (self.named.max(number), Instant::now());
    }

    /// Watches, one session after another, until a list is due. An error: nothing can be seen.
    async fn watch(
        &mut self,
        wire: &Wire,
        mut version: String,
        rng: &dyn Rng,
        tell: &mut (impl FnMut(WatchEvent<'_>) + Send),
    ) -> Option<CallError> {
        loop {
            let began = Instant::now();
            let ended = match wire.watch(&version, WATCH_SECONDS, WATCH_OPENS).await {
                Ok(lines) => self.session(wire, lines, &mut version, tell).await,
                Err(error) => Ended::Broken(error),
            };
            match ended {
                Ended::InOrder => continue,
                Ended::Early if began.elapsed() < WATCH_LEAST => self.pauses.pause(rng).await,
                Ended::Early => {}
                Ended::Dead => return None,
                Ended::Broken(error) => match &error.class {
                    // The kind is not served, or there is no right any more.
                    Class::Forbidden | Class::Unauthenticated | Class::NotServed | Class::NotFound(_) => {
                        return Some(error);
                    }
                    class => {
                        let relists = matches!(class, Class::Expired | Class::Oversized);
                        tell(WatchEvent::Error(&error));
                        self.pauses.pause(rng).await;
                        if relists {
                            return None;
                        }
                    }
                },
            }
            if let Err(error) = self.reaches(wire, rng, tell).await {
                return Some(error).filter(|error| error.class != Class::Expired);
            }
        }
    }

    /// Whether the server is as far as it was, asked until it says so or not: one that was restored would be silent until
    /// it is as far again, and then go on as if nothing had happened.
    async fn reaches(
        &mut self,
        wire: &Wire,
        rng: &dyn Rng,
        tell: &mut (impl FnMut(WatchEvent<'_>) + Send),
    ) -> Result<(), CallError> {
        if mutants::is(Mutant::ReachUnasked) {
            return Ok(());
        }
        loop {
            match wire.reaches(self.named, PAGE_WITHIN).await {
                Err(error)
                    if matches!(
                        error.class,
                        Class::Transport | Class::Server | Class::Gateway | Class::Throttled(_)
                    ) =>
                {
                    tell(WatchEvent::Error(&error));
                    self.pauses.pause(rng).await;
                }
                Ok(number) if self.was_restored(number) => {
                    let message = "the server is further than writes bring it".to_owned();
                    return Err(CallError { class: Class::Expired, message });
                }
                answer => return answer.map(|number| self.note_named(number)),
            }
        }
    }

    /// One watch from its beginning to its end.
    async fn session(
        &mut self,
        wire: &Wire,
        mut lines: Lines,
        version: &mut String,
        tell: &mut (impl FnMut(WatchEvent<'_>) + Send),
    ) -> Ended {
        let began = Instant::now();
        let end = began + WATCH_MOST;
        let (mut heard, mut silent_at) = (false, began + WATCH_SILENT);
        loop {
            if Instant::now() >= end && heard {
                return Ended::InOrder;
            }
            let by = if mutants::is(Mutant::SilentWatchTrusted) { end } else { silent_at.min(end) };
            let text = match timeout_at(by, lines.next()).await {
                Err(_) if heard && !mutants::is(Mutant::SilenceIsOrder) => return Ended::Early,
                Err(_) if heard => return Ended::InOrder,
                Err(_) => return Ended::Dead,
                Ok(Ok(None)) if began.elapsed() < WATCH_EARLY => return Ended::Early,
                Ok(Ok(None)) => return Ended::InOrder,
                Ok(Ok(Some(text))) => text,
                Ok(Err(error)) => return Ended::Broken(error),
            };
            (heard, silent_at) = (true, Instant::now() + WATCH_SILENT);
            let of = |text| Object { text, is_cut: false };
            let event = match wire.line(&text) {
                Ok(Line::Applied(object)) => WatchEvent::Apply(of(object)),
                Ok(Line::Deleted(object)) => WatchEvent::Delete(of(object)),
                Ok(Line::Bookmark(reached)) => {
                    tell(WatchEvent::Bookmark(self.reach(reached, version)));
                    continue;
                }
                Ok(Line::Error(error)) => return Ended::Broken(error),
                // What it said is lost.
                Err(error) => return Ended::Broken(CallError { class: Class::Expired, ..error }),
            };
            let (WatchEvent::Apply(object) | WatchEvent::Delete(object)) = &event else { continue };
            let glance = Glance::read(object.text).unwrap_or_default();
            let reached = self.reach(glance.resource_version.unwrap_or_default(), version);
            tell(event);
            tell(WatchEvent::Bookmark(reached));
            self.pauses.reset();
        }
    }

    /// Notes how far the watch is; the highest version that was seen.
    fn reach(&mut self, reached: String, version: &mut String) -> u64 {
        if !reached.is_empty() {
            self.highest = self.highest.max(reached.parse().unwrap_or(0));
            self.note_named(self.highest);
            *version = reached;
        }
        self.highest
    }
}

/// How a watch ended.
enum Ended {
    /// The server ended it as was asked.
    InOrder,
    /// It ended before its time, or is silent: the server may be going away, or be gone.
    Early,
    /// It neither says anything nor ends.
    Dead,
    /// The connection broke, or the server refused it.
    Broken(CallError),
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, sync::Arc};

    use bytes::Bytes;
    use futures::{StreamExt, stream};
    use http::{Request, Response};
    use http_body_util::{BodyExt, StreamBody};
    use hyper::body::Frame;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Client, api::ListParams, client::Body};
    use parking_lot::Mutex;
    use serde_json::json;
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::base::env::{AnswerBody, SeededRng};

    /// What becomes of a call.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Does {
        /// The server is as far as this.
        Reaches(u64),
        /// It fails.
        Fails,
        /// A watch begins at what the server has forgotten.
        Expired,
        /// A watch is ended in good order after so many seconds.
        Ends(u64),
        /// It breaks at once.
        Breaks,
        /// It tells of an object in this version, and stays.
        Tells(u64),
        /// It tells of an object in this version, and is silent until it is begun again.
        Silent(u64),
    }

    fn answer(does: Does) -> Response<AnswerBody> {
        let list = |version: u64| {
            json!({"kind": "ConfigMapList", "apiVersion": "v1", "items": [],
                "metadata": {"resourceVersion": version.to_string()}})
        };
        let failed = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
            "reason": "InternalError", "code": 500, "message": "etcd is not ready"});
        let (code, first) = match does {
            Does::Reaches(version) => (200, list(version).to_string()),
            Does::Fails => (500, failed.to_string()),
            Does::Tells(version) | Does::Silent(version) => {
                let object = json!({"kind": "ConfigMap", "apiVersion": "v1",
                    "metadata": {"name": "one", "resourceVersion": version.to_string()}});
                (200, json!({"type": "ADDED", "object": object}).to_string() + "\n")
            }
            Does::Expired => {
                let gone = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "reason": "Expired", "code": 410, "message": "too old resource version"});
                (410, gone.to_string())
            }
            Does::Ends(_) | Does::Breaks => (200, String::new()),
        };
        let first = stream::iter([Ok::<_, BoxError>(Frame::data(Bytes::from(first)))]);
        let rest = async move {
            match does {
                Does::Ends(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
                Does::Tells(_) | Does::Silent(_) => std::future::pending().await,
                Does::Breaks => return Some(Err(BoxError::from("the connection broke"))),
                Does::Reaches(_) | Does::Fails | Does::Expired => {}
            }
            None
        };
        let rest = stream::once(rest).filter_map(std::future::ready);
        let body = StreamBody::new(first.chain(rest));
        let answer = Response::builder().status(code).header("content-type", "application/json");
        answer.body(body.boxed_unsync()).unwrap()
    }

    /// Follows a server at version 100 that answers the calls behind its first list so, in this order and the last one for
    /// ever; whether it is noticed that it was restored within a minute, two where a watch is silent first, and how many calls that
    /// took.
    async fn notices(answers: &[Does]) -> (bool, usize) {
        let mut left: VecDeque<Does> =
            [Does::Reaches(100)].into_iter().chain(answers.iter().copied()).collect();
        let asked = Arc::new(Mutex::new(0));
        let counted = asked.clone();
        let service = service_fn(move |_: Request<Body>| {
            *counted.lock() += 1;
            let does = if left.len() > 1 { left.pop_front().unwrap() } else { left[0] };
            async move { Ok::<_, BoxError>(answer(does)) }
        });
        let wire = Wire::of::<ConfigMap>(Client::new(service, "default"), None, ListParams::default());
        let is_silent = answers.iter().any(|does| matches!(does, Does::Silent(_)));
        let mut restored = false;
        let rng = SeededRng::new(1);
        let follows = follow(&wire, 500, &rng, |event| restored |= matches!(event, WatchEvent::Restored));
        let _ = tokio::time::timeout(Duration::from_secs(if is_silent { 120 } else { 60 }), follows).await;
        let asked = *asked.lock();
        (restored, asked)
    }

    #[tokio::test(start_paused = true)]
    async fn versions_that_leap_further_than_any_store_writes_tell_of_a_restore() {
        use Does::{Breaks, Expired, Reaches, Tells};
        const BUMPED: u64 = 1_000_000_060;
        for (answers, restored) in [
            // Others have written much, or versions are a time, and the history is forgotten.
            (vec![Expired, Reaches(5_000), Tells(5_001)], false),
            (vec![Expired, Reaches(1_500_000), Tells(1_500_001)], false),
            (vec![Expired, Reaches(BUMPED)], true),
            (vec![Breaks, Reaches(BUMPED), Expired, Reaches(BUMPED)], true),
            (vec![Breaks, Reaches(500), Expired, Reaches(300)], true),
        ] {
            assert_eq!(notices(&answers).await.0, restored, "{answers:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whether_the_server_went_back_is_asked_until_it_is_told_however_a_watch_ended() {
        use Does::{Breaks, Ends, Fails, Reaches, Silent, Tells};
        for (answers, restored) in [
            // It was not restored.
            (vec![Breaks, Reaches(100), Tells(101)], false),
            (vec![Ends(20), Reaches(101), Tells(102)], false),
            (vec![Breaks, Fails, Fails, Reaches(100), Tells(101)], false),
            // It was; soon it is as far as it was, and a watch from there tells what comes then.
            (vec![Breaks, Reaches(60)], true),
            (vec![Breaks, Fails, Fails, Reaches(60)], true),
            (vec![Ends(20), Reaches(60)], true),
            (vec![Ends(20), Fails, Reaches(60)], true),
            // Nobody closes its watch.
            (vec![Silent(101), Reaches(101), Tells(102)], false),
            (vec![Silent(101), Reaches(60)], true),
            // It is as far as the watch was, and not as far as it has said since.
            (vec![Breaks, Reaches(500), Breaks, Reaches(300)], true),
            (vec![Breaks, Reaches(500), Ends(20), Reaches(500), Tells(501)], false),
        ] {
            let calls = 1 + answers.len() + usize::from(restored);
            assert_eq!(notices(&answers).await, (restored, calls), "{answers:?}");
        }
    }
}

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
use crate::{
    member::error::{CallError, Class},
    seams::Rng,
    tasks::Pauses,
};

/// A watch ends after this long and another begins, before load balancers drop it as idle (240 s).
pub const WATCH_SECONDS: u32 = 200;
/// A watch that goes on for longer than it was asked to is dead: nobody closes it.
pub const WATCH_MOST: Duration = Duration::from_secs(210);
/// A watch must have begun within this time.
pub const WATCH_OPENS: Duration = Duration::from_secs(30);
/// One that ends sooner is not asked for again at once.
pub const WATCH_LEAST: Duration = Duration::from_secs(5);

/// What a follower is told.
pub enum News<'a> {
    /// A list begins.
    Listing,
    /// An object of the list.
    Listed(Object<'a>),
    /// The list is complete: what it did not show was gone in this resourceVersion.
    Complete(u64),
    /// An object was made or changed.
    Applied(Object<'a>),
    /// An object is gone, or out of sight.
    Deleted(Object<'a>),
    /// The watch has told everything up to this resourceVersion.
    Reached(u64),
    /// A list or a watch failed; it is tried again.
    Failed(&'a CallError),
    /// The server's own versions have gone back: it was restored, and nothing that was told before counts. It is the
    /// last news.
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
pub async fn follow(wire: &Wire, most: u32, rng: &dyn Rng, mut tell: impl FnMut(News<'_>) + Send) {
    let mut course = Course { size: most, most, highest: 0, pauses: Pauses::default() };
    loop {
        let ended = match course.list(wire, &mut tell).await {
            Ok(version) => match course.watch(wire, version, rng, &mut tell).await {
                None => continue,
                Some(error) => error,
            },
            Err(error) => error,
        };
        tell(News::Failed(&ended));
        course.pauses.pause(rng).await;
    }
}

struct Course {
    /// Objects in the next page.
    size: u32,
    most: u32,
    /// The highest resourceVersion that was seen.
    highest: u64,
    pauses: Pauses,
}

impl Course {
    /// Lists all; the resourceVersion behind which to watch.
    async fn list(
        &mut self,
        wire: &Wire,
        tell: &mut (impl FnMut(News<'_>) + Send),
    ) -> Result<String, CallError> {
        tell(News::Listing);
        let mut pages = Pages::new(wire, &mut self.size, self.most, None);
        let mut take = |text: &str, is_cut| tell(News::Listed(Object { text, is_cut }));
        while pages.next(&mut take).await? {}
        let version = pages.version();
        let number = version.parse().unwrap_or(0);
        if number == 0 {
            let message = "the server sends no resourceVersion".to_owned();
            return Err(CallError { class: Class::Server, message });
        }
        if number < self.highest && !mutants::is(Mutant::RestoreUnnoticed) {
            tell(News::Restored);
            return std::future::pending().await;
        }
        self.highest = number;
        self.pauses.reset();
        tell(News::Complete(number));
        Ok(version)
    }

    /// Watches, one session after another, until a list is due. An error: nothing can be seen.
    async fn watch(
        &mut self,
        wire: &Wire,
        mut version: String,
        rng: &dyn Rng,
        tell: &mut (impl FnMut(News<'_>) + Send),
    ) -> Option<CallError> {
        loop {
            let began = Instant::now();
            let ended = match wire.watch(&version, WATCH_SECONDS, WATCH_OPENS).await {
                Ok(lines) => self.session(wire, lines, &mut version, tell).await,
                Err(error) => Ended::Broken(error),
            };
            match ended {
                Ended::InOrder if began.elapsed() < WATCH_LEAST => self.pauses.pause(rng).await,
                Ended::InOrder => {}
                Ended::Dead => return None,
                Ended::Broken(error) => match &error.class {
                    // The kind is not served, or there is no right any more.
                    Class::Forbidden | Class::Unauthenticated | Class::NotServed | Class::NotFound(_) => {
                        return Some(error);
                    }
                    class => {
                        let relists = matches!(class, Class::Expired | Class::Oversized);
                        tell(News::Failed(&error));
                        self.pauses.pause(rng).await;
                        if relists {
                            return None;
                        }
                        // A server that was restored would be silent until it is as far again.
                        let reaches = wire.reaches(&version, PAGE_WITHIN).await;
                        if reaches.is_err_and(|error| error.class == Class::Expired) {
                            return None;
                        }
                    }
                },
            }
        }
    }

    /// One watch from its beginning to its end.
    async fn session(
        &mut self,
        wire: &Wire,
        mut lines: Lines,
        version: &mut String,
        tell: &mut (impl FnMut(News<'_>) + Send),
    ) -> Ended {
        let end = Instant::now() + WATCH_MOST;
        let mut heard = false;
        loop {
            if Instant::now() >= end && heard {
                return Ended::InOrder;
            }
            let text = match timeout_at(end, lines.next()).await {
                Err(_) if heard => return Ended::InOrder,
                Err(_) => return Ended::Dead,
                Ok(Ok(None)) => return Ended::InOrder,
                Ok(Ok(Some(text))) => text,
                Ok(Err(error)) => return Ended::Broken(error),
            };
            heard = true;
            let of = |text| Object { text, is_cut: false };
            let news = match wire.line(&text) {
                Ok(Line::Applied(object)) => News::Applied(of(object)),
                Ok(Line::Deleted(object)) => News::Deleted(of(object)),
                Ok(Line::Bookmark(reached)) => {
                    tell(News::Reached(self.reach(reached, version)));
                    continue;
                }
                Ok(Line::Error(error)) => return Ended::Broken(error),
                // What it said is lost.
                Err(error) => return Ended::Broken(CallError { class: Class::Expired, ..error }),
            };
            let (News::Applied(object) | News::Deleted(object)) = &news else { continue };
            let glance = Glance::read(object.text).unwrap_or_default();
            let reached = self.reach(glance.resource_version.unwrap_or_default(), version);
            tell(news);
            tell(News::Reached(reached));
            self.pauses.reset();
        }
    }

    /// Notes how far the watch is; the highest version that was seen.
    fn reach(&mut self, reached: String, version: &mut String) -> u64 {
        if !reached.is_empty() {
            self.highest = self.highest.max(reached.parse().unwrap_or(0));
            *version = reached;
        }
        self.highest
    }
}

/// How a watch ended.
enum Ended {
    /// The server ended it, as was asked.
    InOrder,
    /// It neither says anything nor ends.
    Dead,
    /// The connection broke, or the server refused it.
    Broken(CallError),
}

//! One informer's task: lists, watches, and lists again when the watch cannot be trusted.
//!
//! ```text
//! list -> watch, one session after another, each from where the last one was
//!   ^       |  its position has expired; it was silent; it has lost events; nothing was heard of the server's state
//!   +-------+
//! ```

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::time::{Instant, sleep_until, timeout_at};
use vidra_core::{
    mutants::{self, Mutant},
    object::{ObjectKey, Scope},
};

use super::{
    Informers, State,
    faults::WatchFault,
    places::Place,
    reader::{Broken, Item, Line, Reader},
    verify::{Found, Verification, verify},
};
use crate::{
    base::{
        backoff::Pauses,
        error::{CallError, Class},
    },
    member::records::Source,
    wire::{
        Lines,
        follow::{WATCH_LEAST, WATCH_MOST, WATCH_OPENS, WATCH_SECONDS},
        pages::PAGE_WITHIN,
    },
};

/// What is recorded counts for as long as this though no watch can be opened.
const UNOPENED_MOST: Duration = Duration::from_secs(60);
/// So many objects that cannot be read are named by one informer.
const NAMED_MOST: u32 = 100;

/// One informer's task.
pub(super) struct Run {
    pub(super) registry: Arc<Informers>,
    pub(super) place: Place,
    pub(super) reader: Reader,
    pub(super) scope: Scope,
    pub(super) id: u64,
    /// Objects that were named because they cannot be read.
    pub(super) named: AtomicU32,
    /// Its list waits for a turn.
    pub(super) in_line: AtomicBool,
}

/// What an informer knows of its own way.
pub(super) struct Course {
    /// Objects in a page.
    pub(super) page: u32,
    /// The highest resourceVersion that was seen: only a member that was restored shows a list that is older.
    pub(super) highest: u64,
    /// Watches in a row that ended as they should and said nothing.
    silent: u32,
    /// The last watch was dead: what is recorded counts for nothing until one lives.
    down: bool,
    /// No watch could be opened: likewise, until one can.
    closed: bool,
    /// When all was listed last.
    pub(super) verified: Instant,
    /// The part of verifyInterval after which it is listed again.
    pub(super) spread: f64,
    pauses: Pauses,
    /// After watches that sent too much: an event between two of them does not make these short again.
    floods: Pauses,
    /// Before lists for which a watch has asked, likewise.
    lists: Pauses,
    /// Since when no watch could be opened.
    unopened: Option<Instant>,
    /// All was listed before: who answers was asked for that list, and another cluster may be there for the next one.
    listed: bool,
}

impl Course {
    fn new(page: u32, spread: f64) -> Self {
        Self {
            page,
            highest: 0,
            silent: 0,
            down: false,
            closed: false,
            verified: Instant::now(),
            spread,
            pauses: Pauses::default(),
            floods: Pauses::default(),
            lists: Pauses::default(),
            unopened: None,
            listed: false,
        }
    }
}

/// Why a watch is not gone on with.
enum After {
    /// A list is due.
    List,
    /// It cannot see anything.
    Blind(CallError),
}

/// Says that nobody follows a place when its task panics: it is begun again, but only after a pause.
struct Watched<'a>(&'a Run);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !mutants::is(Mutant::PanicsUnseen) {
            self.0.set_state(State::Failing("its task panicked; it is started again".to_owned()));
        }
    }
}

impl Run {
    /// Follows until it is cancelled, or is of no use any more.
    pub(super) async fn follow(self: Arc<Self>) {
        let _watched = Watched(&self);
        // Those that begin together do not list together for ever.
        let spread = 0.5 + self.registry.chance() * 0.5;
        let mut course = Course::new(self.registry.page, spread);
        loop {
            while let Some(rest) = self.registry.at_rest(&self.place) {
                self.set_state(State::Failing(rest.error.message));
                sleep_until(rest.until).await;
            }
            // While no watch is open no connection breaks when another cluster comes to be there: what it lists says nothing.
            if course.listed {
                self.registry.doubt.raise();
            }
            // What is not done all the time is on the heap while it is: there are many informers, and they watch.
            let blind = match Box::pin(self.list_in_time(&mut course)).await {
                Ok(version) => {
                    course.listed = true;
                    // How long it goes well is not how long the list took.
                    course.lists.begin();
                    course.pauses.begin();
                    if !course.down && !course.closed {
                        self.set_state(State::Synced);
                    }
                    match self.watch(&mut course, version).await {
                        After::List => continue,
                        After::Blind(error) => {
                            // A list alone does not tell what comes next.
                            course.closed = true;
                            error
                        }
                    }
                }
                Err(error) => error,
            };
            tracing::debug!(place = %self.place, error = %blind, "an informer sees nothing; it begins again with a list");
            if blind.class == Class::Forbidden && self.registry.confine(&self.place, self.id, self.scope) {
                return;
            }
            match blind.class {
                // It rests, as is said above.
                Class::Flood => continue,
                Class::Expired => {}
                Class::Forbidden | Class::Unauthenticated => self.set_state(State::Denied(blind.message)),
                _ => self.set_state(State::Failing(blind.message)),
            }
            course.pauses.pause(self.registry.rng.as_ref()).await;
        }
    }

    pub(super) fn set_state(&self, state: State) {
        self.registry.set_state(&self.place, self.id, state);
    }

    /// When all is to be listed although the watch tells; `None`: never.
    fn verify_at(&self, course: &Course) -> Option<Instant> {
        let interval = self.registry.tuning.now().verify_interval;
        interval.map(|interval| course.verified + interval.mul_f64(course.spread))
    }

    /// Watches, one session after another, until a list is due.
    async fn watch(&self, course: &mut Course, mut version: String) -> After {
        let mut broke = false;
        loop {
            let opened = Box::pin(self.reader.wire.watch(&version, WATCH_SECONDS, WATCH_OPENS)).await;
            // It may have waited for long until it was opened.
            let began = Instant::now();
            let ended = match opened {
                Ok(lines) => {
                    if std::mem::take(&mut broke) {
                        self.registry.doubt.note_answer();
                    }
                    let _open = self.registry.doubt.watches();
                    self.session(course, &mut version, lines).await
                }
                Err(error) => Ended::Broken(error),
            };
            match ended {
                Ended::Due => return After::List,
                Ended::InOrder { .. } if began.elapsed() < WATCH_LEAST => {
                    let message = "it ends as soon as it begins".to_owned();
                    self.note_unopened(course, &CallError { class: Class::Server, message });
                    course.pauses.pause(self.registry.rng.as_ref()).await;
                }
                Ended::InOrder { heard } => {
                    self.lives(course);
                    course.silent = if heard { 0 } else { course.silent + 1 };
                    // A server that has seen nothing of a kind since it started sends no bookmarks either.
                    if course.silent.is_power_of_two() && !mutants::is(Mutant::SilenceTrusted) {
                        return After::List;
                    }
                }
                Ended::Dead => {
                    course.down = true;
                    self.registry.faults.report(&self.place, &WatchFault::Silent);
                    let why = format!("its watch shows nothing and does not end within {WATCH_MOST:?}");
                    self.set_state(State::Failing(why));
                    return After::List;
                }
                Ended::Broken(error) => {
                    broke = true;
                    if let Some(after) = self.after_break(course, error).await {
                        return after;
                    }
                }
            }
        }
    }

    /// What comes after a watch that broke or was refused; `None`: another from where it was.
    async fn after_break(&self, course: &mut Course, error: CallError) -> Option<After> {
        match error.class {
            Class::Flood | Class::Oversized => {
                let is_too_long = error.class == Class::Oversized;
                self.registry.faults.report(&self.place, &WatchFault::Flood(error.message));
                course.floods.pause(self.registry.rng.as_ref()).await;
                is_too_long.then_some(After::List)
            }
            // 410: the version is too old to watch from.
            Class::Expired => {
                course.lists.pause(self.registry.rng.as_ref()).await;
                Some(After::List)
            }
            // The kind has gone, or is not yet served.
            Class::Forbidden | Class::Unauthenticated | Class::NotServed | Class::NotFound(_) => {
                Some(After::Blind(error))
            }
            _ => {
                if error.is_transport() {
                    self.registry.doubt.raise();
                }
                tracing::debug!(place = %self.place, %error, "a watch ended");
                self.note_unopened(course, &error);
                (!self.reaches(course).await).then_some(After::List)
            }
        }
    }

    /// Whether the server is as far as it was, asked until it says so or not: one that was restored would be silent until
    /// it is as far again.
    async fn reaches(&self, course: &mut Course) -> bool {
        loop {
            course.pauses.pause(self.registry.rng.as_ref()).await;
            match Box::pin(self.reader.wire.reaches(course.highest, PAGE_WITHIN)).await {
                Err(CallError { class: Class::Expired, .. }) => return false,
                Err(error) if error.is_transient() => self.note_unopened(course, &error),
                Err(_) => return true,
                // One that is not as far when it is asked again was restored, though no watch has shown what is lost.
                Ok(reached) => {
                    course.highest = reached;
                    return true;
                }
            }
        }
    }

    /// A watch could not be opened: nothing tells any more, and after a while what is recorded counts for nothing. The
    /// member answers otherwise, or its session would say so.
    fn note_unopened(&self, course: &mut Course, error: &CallError) {
        let since = *course.unopened.get_or_insert_with(Instant::now);
        if since.elapsed() >= UNOPENED_MOST && !mutants::is(Mutant::UnopenedTrusted) {
            course.closed = true;
            self.set_state(State::Failing(format!("its watch cannot be opened: {error}")));
        }
    }

    /// Its watch tells, or has lasted: what is recorded counts.
    fn lives(&self, course: &mut Course) {
        course.unopened = None;
        let was_down = std::mem::take(&mut course.down);
        if std::mem::take(&mut course.closed) || was_down {
            self.set_state(State::Synced);
        }
    }

    /// One watch from its beginning to its end.
    async fn session(&self, course: &mut Course, version: &mut String, mut lines: Lines) -> Ended {
        let registry = &self.registry;
        let end = Instant::now() + WATCH_MOST;
        let mut heard = false;
        // A server that opens watches and lets none last has opened none.
        let mut opened = (course.closed || course.unopened.is_some()).then(|| Instant::now() + WATCH_LEAST);
        let mut verifying: Option<BoxFuture<'_, Result<Found, CallError>>> = None;
        let mut verification = Verification::default();
        loop {
            let due = self.verify_at(course).filter(|_| verifying.is_none());
            let wait_until = verification.judged_at().or(due);
            tokio::select! {
                biased;
                text = next_text(&mut lines, end, heard) => {
                    let line = match self.read(course, text).await {
                        Ok(line) => line,
                        Err(ended) => return ended,
                    };
                    if !std::mem::replace(&mut heard, true) {
                        self.lives(course);
                        opened = None;
                    }
                    self.take(course, version, line, &mut verification);
                }
                () = until(opened) => {
                    opened = None;
                    // One that was dead has to tell something.
                    if !course.down {
                        self.lives(course);
                    }
                }
                found = some(&mut verifying) => {
                    verifying = None;
                    self.next_verification(course);
                    match found {
                        Ok(found) => verification.found(found),
                        Err(error) => tracing::debug!(place = %self.place, %error, "a list that verifies a watch failed"),
                    }
                }
                () = until(wait_until) => {
                    if verification.judged_at().is_none() {
                        self.try_everywhere().await;
                        verification = Verification::begun();
                        verifying = Some(Box::pin(verify(&self.registry, &self.reader, &self.place, course.page)));
                        continue;
                    }
                    let lost = std::mem::take(&mut verification).lost(&self.registry.records);
                    if lost > 0 {
                        registry.faults.report(&self.place, &WatchFault::Lost(lost));
                        return Ended::Due;
                    }
                }
            }
        }
    }

    fn next_verification(&self, course: &mut Course) {
        course.verified = Instant::now();
        course.spread = 0.9 + self.registry.chance() * 0.2;
    }

    /// What a line of the watch says, if there is one.
    ///
    /// # Errors
    /// The watch ends, by itself, because the line says so, or because it cannot be read and what it said is lost.
    async fn read(&self, course: &mut Course, text: Result<String, Ended>) -> Result<Line, Ended> {
        let text = text?;
        let records = &self.registry.records;
        let is_known = |key: &_, uid: &str, version: &str| records.is_known(key, uid, version);
        match self.reader.line(&text, is_known) {
            Ok(Line::Error(error)) => Err(Ended::Broken(error)),
            Ok(line) => Ok(line),
            Err(error) => {
                tracing::warn!(place = %self.place, %error, "the hub cannot read a watch; it lists all again");
                course.lists.pause(self.registry.rng.as_ref()).await;
                Err(Ended::Due)
            }
        }
    }

    /// Where it sees single namespaces only, rights may have come since.
    async fn try_everywhere(&self) {
        if !self.registry.is_confined(&self.place.gvk) {
            return;
        }
        let everywhere = self.registry.reader(&Place::everywhere(&self.place.gvk), &self.reader.resource);
        if Box::pin(everywhere.wire.page(1, None, false, PAGE_WITHIN)).await.is_ok() {
            self.registry.unconfine(&self.place.gvk);
        }
    }

    fn take(&self, course: &mut Course, version: &mut String, line: Line, verification: &mut Verification) {
        let (registry, gvk) = (&self.registry, &self.place.gvk);
        let mut reach = |reached: &str| {
            if !reached.is_empty() {
                reached.clone_into(version);
                course.highest = course.highest.max(reached.parse().unwrap_or(0));
            }
        };
        match line {
            Line::Applied(Item::Object(key, live)) => {
                reach(live.resource_version());
                verification.touch(&key);
                let woken = registry.records.fold(gvk, *live, Source::Watch);
                registry.flow.evaluated(registry.records.take_steps());
                // Whoever may write there can make any number of objects with a target's label.
                let (strays, woken) =
                    woken.into_iter().partition(|target| registry.records.is_stray_of(target, &key));
                registry.notify(woken);
                registry.notify_later(strays);
                registry.notify(registry.set_readable(&key));
            }
            Line::Known(key, version) => {
                reach(&version);
                verification.touch(&key);
                registry.notify(registry.set_readable(&key));
            }
            Line::Deleted(Item::Object(key, live)) => {
                reach(live.resource_version());
                verification.touch(&key);
                registry.notify(registry.records.fold_gone(&key, live.uid(), live.resource_version()));
                registry.notify(registry.set_readable(&key));
            }
            Line::Applied(Item::Broken(one)) => {
                reach(&one.version);
                self.name_broken(&one);
                if let Some(key) = one.key {
                    verification.touch(&key);
                    registry.notify(registry.add_unreadable(&self.place, key, one.why));
                }
            }
            Line::Deleted(Item::Broken(one)) => {
                reach(&one.version);
                self.name_broken(&one);
                if let Some(key) = one.key {
                    verification.touch(&key);
                    registry.notify(registry.records.fold_gone(&key, &one.uid, &one.version));
                    registry.notify(registry.set_readable(&key));
                }
            }
            Line::Bookmark(reached) => reach(&reached),
            Line::Error(_) => {}
        }
        course.pauses.reset();
        if mutants::is(Mutant::ListsInARow) {
            course.lists.reset();
        }
    }

    pub(super) fn name_broken(&self, one: &Broken) {
        // A member that makes up objects does not fill the log.
        if self.named.fetch_add(1, Ordering::Relaxed) >= NAMED_MOST {
            return;
        }
        let of_key = |key: &ObjectKey| key.to_string();
        let name = one.key.as_ref().map_or_else(|| "without a name".to_owned(), of_key);
        self.registry.faults.report(&self.place, &WatchFault::Unreadable(format!("{name}: {}", one.why)));
    }
}

/// How a watch ended.
enum Ended {
    /// The server ended it, as was asked; whether it said anything before.
    InOrder { heard: bool },
    /// It neither says anything nor ends.
    Dead,
    /// All has to be listed.
    Due,
    /// The connection broke, or the server refused it.
    Broken(CallError),
}

/// The next line of a watch that has until `end`, or how it ended; `heard`: it has said something before.
async fn next_text(lines: &mut Lines, end: Instant, heard: bool) -> Result<String, Ended> {
    let line = timeout_at(end, lines.next()).await;
    // A flood is no watch that goes on: what is there already would be read for ever.
    if Instant::now() >= end && heard {
        return Err(Ended::InOrder { heard });
    }
    match line {
        Err(_) if heard => Err(Ended::InOrder { heard }),
        Err(_) => Err(Ended::Dead),
        Ok(Ok(None)) => Err(Ended::InOrder { heard }),
        Ok(Ok(Some(text))) => Ok(text),
        Ok(Err(error)) => Err(Ended::Broken(error)),
    }
}

async fn some<T>(future: &mut Option<BoxFuture<'_, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

//! Open watches: streams of events read from the store's history.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use http_body::Frame;
use serde_json::json;
use tokio::time::Instant;
use tower::BoxError;

use super::Inner;
use super::cache;
use super::failure::Failure;
use super::fault::{Call, ConnectionError, Counts, Down, Fault, WatchFault};
use super::kinds::Kind;
use super::options::{self, Form};
use super::select::Selector;
use super::store::{Change, Object, Resource, Store, Stored};
use super::table;

/// An event of a watch.
struct Event {
    kind: &'static str,
    object: Object,
}

impl Event {
    /// As it is sent: JSON, in a line.
    fn line(&self) -> Bytes {
        let (object, kind) = (self.object.json(), self.kind.as_bytes());
        [b"{\"object\":", &*object, b",\"type\":\"", kind, b"\"}\n"].concat().into()
    }
}

/// What is watched.
pub(super) struct Scope {
    pub kind: Arc<Kind>,
    resource: Resource,
    /// Empty for all.
    pub namespace: String,
    pub selector: Selector,
}

impl Scope {
    pub fn new(kind: Arc<Kind>, namespace: &str, selector: Selector) -> Self {
        let resource = Resource::from(&*kind);
        Scope { kind, resource, namespace: namespace.to_owned(), selector }
    }

    /// The event of a change, by what the selector holds before and after it. What is gone, from the store
    /// or from the selector's sight, is sent as it was, under the revision that took it away.
    fn event(&self, store: &Store, change: &Change) -> Option<Event> {
        let elsewhere = !self.namespace.is_empty() && change.place.namespace != self.namespace;
        if *change.resource != self.resource || elsewhere {
            return None;
        }
        let (old, new) = (change.old.as_ref(), change.new.as_ref());
        let before = self.before(store, old, new.is_some());
        let after = new.and_then(|new| self.selector.read(store, new));
        let (event, object) = match (before, after) {
            (None, None) => return None,
            (None, Some(new)) => ("ADDED", new),
            (Some(_), Some(new)) => ("MODIFIED", new),
            (Some(old), None) => ("DELETED", old),
        };
        let mut object = self.kind.view(&object);
        let revision = change.revision.to_string();
        if object["metadata"]["resourceVersion"] != revision {
            let mut gone = object.into_value();
            gone["metadata"]["resourceVersion"] = json!(revision);
            object = gone.into();
        }
        Some(Event { kind: event, object })
    }

    /// What was there and matched. It is not read where the new state is certain to be sent.
    fn before(&self, store: &Store, old: Option<&Stored>, certain: bool) -> Option<Object> {
        match certain && self.selector.is_empty() {
            true => old.map(|_| Object::default()),
            false => self.selector.read(store, old?),
        }
    }

    /// What a watch that names no revision sends first: all that is there, or was at a revision.
    fn initial(&self, store: &Store, revision: u64) -> Result<Vec<Event>, Failure> {
        let table = store.table_at(&self.resource, revision)?;
        let here =
            table.iter().filter(|(place, _)| self.namespace.is_empty() || place.namespace == self.namespace);
        let matching = here.filter_map(|(_, stored)| self.selector.read(store, stored));
        Ok(matching.map(|object| Event { kind: "ADDED", object: self.kind.view(&object) }).collect())
    }

    fn bookmark(&self, revision: u64, initial: bool) -> Event {
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (kind, version) = (&self.kind.kind, self.kind.api_version());
        let object = json!({"kind": kind, "apiVersion": version, "metadata": metadata});
        Event { kind: "BOOKMARK", object: object.into() }
    }
}

/// How a watch starts.
pub(super) struct Start {
    pub scope: Scope,
    /// `resourceVersion` of the request; empty or "0" starts with all that is there.
    pub resource_version: String,
    /// `sendInitialEvents`: all that is there, then a bookmark that says so.
    pub initial_events: bool,
    pub bookmarks: bool,
    /// What events bear.
    pub form: Form,
    /// `includeObject`, of tables.
    pub include: String,
    pub timeout: Duration,
    /// A fault shows nothing newer than this revision.
    pub until: Option<u64>,
}

struct Watch {
    cluster: Arc<Inner>,
    scope: Scope,
    /// Everything up to this revision was sent or is pending.
    position: u64,
    pending: VecDeque<Event>,
    /// How much later a fault shows what is sent.
    lag: Duration,
    /// What is sent later, and when.
    held: VecDeque<(Instant, Bytes)>,
    form: Form,
    include: String,
    /// The columns were sent.
    headed: bool,
    next_bookmark: Option<Instant>,
    /// By how much bookmarks are late, and how many there were.
    jitter: Option<(Duration, u64)>,
    bookmarks: u64,
    deadline: Instant,
    until: Option<u64>,
    /// The call that opened it.
    call: Call,
    /// The cluster's counts when this watch began; once they are others, something is done to it.
    counts: Counts,
    /// A fault keeps everything back until it is cut.
    silent: bool,
    /// A fault breaks the next event in the middle.
    halves: bool,
    /// It breaks now.
    broken: bool,
    over: bool,
}

/// The stream of a watch's body: one line of JSON a frame.
pub(super) fn open(
    cluster: Arc<Inner>,
    start: Start,
    call: Call,
    fault: Fault,
) -> impl Stream<Item = Result<Frame<Bytes>, BoxError>> + Send {
    let now = Instant::now();
    let (pending, position, over) = cluster.with_room(|| first(&cluster, &start));
    let (counts, jitter) = {
        let front = cluster.front.lock();
        (front.counts, front.jitter)
    };
    let deadline = now + start.timeout;
    let first = cache::next_bookmark(jitter, call.index, 0, now, deadline);
    let watch = Watch {
        counts,
        call,
        until: start.until,
        silent: fault == Fault::Silent,
        halves: fault == Fault::HalfBody,
        broken: false,
        scope: start.scope,
        position,
        pending,
        lag: Duration::ZERO,
        held: VecDeque::new(),
        form: start.form,
        include: start.include,
        headed: false,
        next_bookmark: start.bookmarks.then_some(first),
        jitter,
        bookmarks: 0,
        deadline,
        over,
        cluster,
    };
    futures::stream::unfold(watch, |mut watch| async move {
        let next = watch.next().await?;
        Some((next.map(Frame::data).map_err(BoxError::from), watch))
    })
}

/// What is sent at the start, the revision up to which it tells, and whether that is the end.
fn first(cluster: &Inner, start: &Start) -> (VecDeque<Event>, u64, bool) {
    let mut pending = VecDeque::new();
    let store = cluster.store.lock();
    let from_now = matches!(start.resource_version.as_str(), "" | "0");
    let mut over = false;
    let position = if from_now || start.initial_events {
        let newest = start.until.unwrap_or(u64::MAX).min(store.revision());
        let wanted = start.resource_version.parse().unwrap_or_default();
        let initial = match wanted > newest {
            true => Err(Failure::too_large(wanted, newest)),
            false => start.scope.initial(&store, newest),
        };
        match initial {
            Ok(initial) => pending.extend(initial),
            Err(failure) => {
                pending.push_back(gone(&failure));
                over = true;
            }
        }
        newest
    } else {
        start.resource_version.parse().unwrap_or_default()
    };
    drop(store);
    if start.initial_events && !over {
        pending.push_back(start.scope.bookmark(position, true));
    }
    (pending, position, over)
}

impl Drop for Watch {
    fn drop(&mut self) {
        let cluster = self.cluster.clone();
        cluster.with_room(|| self.pending.clear());
    }
}

impl Watch {
    async fn next(&mut self) -> Option<Result<Bytes, ConnectionError>> {
        let cluster = self.cluster.clone();
        loop {
            // Made before looking, so that no wake-up between looking and waiting is lost.
            let changed = cluster.wake.notified();
            if self.over && self.pending.is_empty() && self.held.is_empty() {
                return None;
            }
            let (counts, down) = {
                let front = cluster.front.lock();
                (front.counts, front.down)
            };
            if counts.cuts != self.counts.cuts || self.broken && self.held.is_empty() {
                self.over = true;
                self.broken = false;
                cluster.with_room(|| self.pending.clear());
                self.held.clear();
                self.counts = counts;
                return Some(Err(ConnectionError::Watch(cluster.name.clone())));
            }
            if self.silent && self.held.is_empty() {
                changed.await;
                continue;
            }
            let hung = matches!(down, Some(Down::Hang | Down::Queue));
            if !hung {
                if !self.silent && !self.broken {
                    let next = cluster.with_room(|| {
                        self.note(counts);
                        self.read();
                        let event = self.pending.pop_front()?;
                        Some(self.send(event))
                    });
                    if let Some(sent) = next {
                        match sent {
                            Some(bytes) if self.lag.is_zero() => return Some(Ok(bytes)),
                            Some(bytes) => self.held.push_back((Instant::now() + self.lag, bytes)),
                            None => {}
                        }
                        continue;
                    }
                }
                if self.held.front().is_some_and(|(at, _)| *at <= Instant::now()) {
                    return self.held.pop_front().map(|(_, bytes)| Ok(bytes));
                }
                if self.over && self.held.is_empty() || Instant::now() >= self.deadline {
                    return None;
                }
            }
            let held = self.held.front().map(|(at, _)| *at);
            let times = [self.next_bookmark.filter(|_| !self.silent && !self.broken && !self.over), held];
            let wake_at = times.into_iter().flatten().fold(self.deadline, Instant::min);
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep_until(wake_at), if !hung => {}
            }
        }
    }

    /// Takes over what was done to all watches.
    fn note(&mut self, counts: Counts) {
        let last = std::mem::replace(&mut self.counts, counts);
        if counts.expiries != last.expiries && !self.over {
            self.expire();
        }
        if counts.bookmarks != last.bookmarks && self.next_bookmark.is_some() {
            self.next_bookmark = Some(Instant::now());
        }
    }

    /// Ends with 410.
    fn expire(&mut self) {
        self.pending.clear();
        let why = format!("The resourceVersion for the provided watch is too old. ({})", self.position);
        self.pending.push_back(gone(&Failure::expired(why)));
        self.over = true;
    }

    /// What is sent of an event, where anything is.
    fn send(&mut self, event: Event) -> Option<Bytes> {
        let event = self.shown(event);
        let hook = self.cluster.front.lock().watch_fault.clone();
        let fault = match hook.filter(|_| event.kind != "ERROR") {
            Some(hook) => hook(&self.call, event.kind, &event.object),
            None => WatchFault::None,
        };
        match fault {
            WatchFault::None => {}
            WatchFault::Delay(time) => self.lag = self.lag.max(time),
            WatchFault::Half => self.halves = true,
            WatchFault::Lose => return None,
            WatchFault::Expire => {
                self.expire();
                return None;
            }
            WatchFault::Silence => {
                self.silent = true;
                return None;
            }
        }
        let mut bytes = event.line();
        if self.halves {
            self.halves = false;
            bytes.truncate(bytes.len() / 2);
            self.broken = true;
        }
        Some(bytes)
    }

    /// The event as it was asked for.
    fn shown(&mut self, event: Event) -> Event {
        let Event { kind, object } = event;
        let object = match self.form {
            Form::Metadata if kind != "ERROR" => options::metadata(&object).into(),
            Form::Table if kind != "ERROR" => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                let (head, now) = (!self.headed, (self.cluster.clock)());
                self.headed = true;
                table::of(&self.scope.kind, &[object], metadata, head, &self.include, now).into()
            }
            _ => object,
        };
        Event { kind, object }
    }

    /// Takes over what the history has that is new, and a bookmark when it is time.
    fn read(&mut self) {
        if self.over {
            return;
        }
        let store = self.cluster.store.lock();
        match store.events_after(self.position) {
            Ok(changes) => {
                let until = self.until.unwrap_or(u64::MAX);
                let changes = changes.take_while(|change| change.revision <= until);
                self.pending.extend(changes.filter_map(|change| self.scope.event(&store, change)));
                self.position = self.position.max(store.revision().min(until));
            }
            Err(failure) => {
                self.pending.push_back(gone(&failure));
                self.over = true;
            }
        }
        let now = Instant::now();
        // As on the real server, a watch from a revision that is not yet there is silent.
        if self.next_bookmark.is_some_and(|at| at <= now) && !self.over {
            self.bookmarks += 1;
            let (index, nth) = (self.call.index, self.bookmarks);
            self.next_bookmark = Some(cache::next_bookmark(self.jitter, index, nth, now, self.deadline));
            if self.position == store.revision().min(self.until.unwrap_or(u64::MAX)) {
                self.pending.push_back(self.scope.bookmark(self.position, false));
            }
        }
    }
}

fn gone(failure: &Failure) -> Event {
    Event { kind: "ERROR", object: failure.status().into() }
}

//! Events for what a user should know, on the hub's objects. Written beside the work, never in its way.
//!
//! Our own writer: kube's Recorder takes names from the wall clock and has no limit. One Event for the
//! same words about the same object within ten minutes; an Event that cannot be written is counted, and its words may be
//! said again.

mod burst;
mod fair_queue;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{Api, Client, Resource, api::PostParams};
use parking_lot::Mutex;
use tokio::time::Instant;
use vidra_core::status::Reason;

pub use self::burst::{ADOPTED, CONTENTION, CORRECTED, DETECTED, One, READY, Saying};

use self::{
    burst::{Bursts, Group},
    fair_queue::Waiting,
};
use crate::base::env::{Clock, Rng};

const AGAIN_AFTER: Duration = Duration::from_secs(600);
const REMEMBERED: usize = 4096;
const BETWEEN: Duration = Duration::from_millis(50);
/// events.k8s.io/v1: `note` at most 1024 bytes.
const NOTE_MAX: usize = 1024;
/// Where Events about cluster-scoped objects go; any other namespace is refused.
/// Source: k8s.io/kubernetes/pkg/apis/core/validation/events.go, legacyValidateEvent.
const CLUSTER_SCOPED: &str = "default";

/// Normal or Warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Goes as it should.
    Normal,
    /// Somebody should look.
    Warning,
}

/// Takes Events; the [`Writer`] writes them.
pub struct Events {
    waiting: Arc<Waiting<Item>>,
    memory: Arc<Memory>,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
}

/// Writes what [`Events`] took.
pub struct Writer {
    client: Client,
    waiting: Arc<Waiting<Item>>,
    memory: Arc<Memory>,
}

/// What the writer is given.
enum Item {
    /// To be written, and the words by which it is remembered.
    Event(Box<Event>, String),
    /// What this group has gathered is to be written.
    Group(Group),
}

/// What was said, and what is gathered.
#[derive(Default)]
struct Memory {
    said: Mutex<BTreeMap<String, Instant>>,
    bursts: Bursts,
    /// So many could not be written.
    failed: AtomicU64,
}

impl Events {
    /// Takes Events, and the writer that writes them.
    pub fn new(client: Client, clock: Arc<dyn Clock>, rng: Arc<dyn Rng>) -> (Self, Writer) {
        let (waiting, memory) = (Arc::<Waiting<Item>>::default(), Arc::<Memory>::default());
        let writer = Writer { client, waiting: waiting.clone(), memory: memory.clone() };
        (Self { waiting, memory, clock, rng }, writer)
    }

    /// Says something about an object, unless that was said a moment ago.
    pub fn say<K>(&self, about: &K, severity: Severity, reason: Reason, note: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        self.say_of(about.object_ref(&()), severity, reason, note);
    }

    /// As [`Events::say`], about a reference.
    pub fn say_of(&self, regarding: ObjectReference, severity: Severity, reason: Reason, note: &str) {
        let uid = regarding.uid.as_deref().unwrap_or_default();
        let words = format!("{uid} {reason} {note}");
        if !self.memory.is_news(&words) {
            return;
        }
        let mut event = self.event(regarding, severity, reason);
        event.note = Some(cut(note));
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        if !self.waiting.put(&namespace, Item::Event(Box::new(event), words.clone())) {
            // It is said when it is so again.
            self.memory.forget(&words);
        }
    }

    /// Says it of one more object on a member: what comes within a moment is one Event.
    pub fn gather<K>(&self, about: &K, saying: Saying, one: One<'_>)
    where
        K: Resource<DynamicType = ()>,
    {
        let regarding = about.object_ref(&());
        let uid = regarding.uid.clone().unwrap_or_default();
        let group: Group = (uid, saying.reason);
        let namespace = place(&regarding);
        let event = || self.event(regarding, saying.severity, saying.reason);
        if self.memory.bursts.add(&group, saying, one, event)
            && !self.waiting.put_later(&namespace, Item::Group(group.clone()))
        {
            self.memory.bursts.take(&group);
        }
    }

    /// How many were dropped, because too many waited.
    pub fn dropped(&self) -> u64 {
        self.waiting.dropped()
    }

    /// How many could not be written: the server refused them, or did not answer.
    pub fn failed(&self) -> u64 {
        self.memory.failed.load(Ordering::Relaxed)
    }

    fn event(&self, regarding: ObjectReference, severity: Severity, reason: Reason) -> Event {
        let namespace = place(&regarding);
        let name: String = regarding.name.as_deref().unwrap_or_default().chars().take(200).collect();
        let mut event = Event {
            event_time: Some(MicroTime(self.clock.now())),
            action: Some("Reconcile".to_owned()),
            reason: Some(reason.to_string()),
            type_: Some(if severity == Severity::Warning { "Warning" } else { "Normal" }.to_owned()),
            reporting_controller: Some("vidra.dev/hub".to_owned()),
            reporting_instance: Some("vidra-hub".to_owned()),
            regarding: Some(regarding),
            ..Event::default()
        };
        event.metadata.namespace = Some(namespace);
        event.metadata.name = Some(format!("{name}.{:016x}", self.rng.next()));
        event
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.waiting.close();
    }
}

/// The namespace of an Event about this.
fn place(regarding: &ObjectReference) -> String {
    regarding.namespace.clone().unwrap_or_else(|| CLUSTER_SCOPED.to_owned())
}

/// As much of a note as an Event takes.
fn cut(note: &str) -> String {
    if note.len() <= NOTE_MAX {
        return note.to_owned();
    }
    let room = NOTE_MAX - '…'.len_utf8();
    let end = (0..=room).rev().find(|at| note.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &note[..end])
}

impl Memory {
    fn is_news(&self, words: &str) -> bool {
        let now = Instant::now();
        let mut said = self.said.lock();
        if said.get(words).is_some_and(|at| now.duration_since(*at) < AGAIN_AFTER) {
            return false;
        }
        if said.len() >= REMEMBERED {
            said.retain(|_, at| now.duration_since(*at) < AGAIN_AFTER);
            if said.len() >= REMEMBERED {
                // The older half: whoever has much to say makes others' words be said again, but not all of them.
                let mut ages: Vec<Instant> = said.values().copied().collect();
                let (_, middle, _) = ages.select_nth_unstable(REMEMBERED / 2);
                let middle = *middle;
                said.retain(|_, at| *at > middle);
            }
        }
        said.insert(words.to_owned(), now);
        true
    }

    /// What was to be said was not: it may be said at once when it is so again.
    fn forget(&self, words: &str) {
        self.said.lock().remove(words);
    }
}

impl Writer {
    /// Writes until cancelled or until nobody can say anything any more.
    pub async fn run(self) {
        while let Some(item) = self.waiting.next().await {
            match item {
                Item::Event(event, words) => self.write(&event, &words).await,
                Item::Group(group) => self.tell(&group).await,
            }
        }
    }

    /// Writes what a group has gathered.
    async fn tell(&self, group: &Group) {
        let Some((mut event, note)) = self.memory.bursts.take(group) else { return };
        let (uid, reason) = group;
        let words = format!("{uid} {reason} {note}");
        if self.memory.is_news(&words) {
            event.note = Some(cut(&note));
            self.write(&event, &words).await;
        }
    }

    async fn write(&self, event: &Event, words: &str) {
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let params = PostParams::default();
        let written = tokio::time::timeout(Duration::from_secs(5), api.create(&params, event)).await;
        match &written {
            Ok(Ok(_)) => {}
            Ok(Err(kube::Error::Api(status))) => {
                tracing::debug!(
                    code = status.code,
                    message = status.message,
                    "the hub's API refused an Event"
                );
            }
            Ok(Err(_)) | Err(_) => tracing::debug!("the hub could not write an Event in time"),
        }
        if !matches!(written, Ok(Ok(_))) {
            self.memory.failed.fetch_add(1, Ordering::Relaxed);
            self.memory.forget(words);
        }
        tokio::time::sleep(BETWEEN).await;
    }
}

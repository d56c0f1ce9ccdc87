//! What verdicts depend on beside the object that is judged: what time it is in the member, what its kind declares, and
//! what the hub changed of it last.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{HeaderMap, header::DATE};
use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use vidra_core::{
    health::facts::{self, Facts, KindFacts},
    mutants::{self, Mutant},
    object::Gvk,
};

use crate::{config::tuning::Tuning, member::kinds::Kinds};

/// What is known of one member, for all its objects.
pub struct MemberFacts {
    tuning: Arc<Tuning>,
    /// The start of the field managers of this hub.
    managers: String,
    known: Mutex<Known>,
    /// How often what a CRD declares has become known: whoever judged before that judges again.
    declarations: AtomicU64,
}

#[derive(Default)]
struct Known {
    /// What time an answer said it was, and when that came.
    time: Option<(Timestamp, Instant)>,
    kinds: Arc<Kinds>,
    /// What CRDs declare, as far as they were read.
    declared: BTreeMap<Gvk, Arc<KindFacts>>,
    /// When reading what a CRD declares failed first, of failures that are no further apart than [`READ_WITHIN`], and last.
    failed: BTreeMap<Gvk, (Instant, Instant)>,
}

/// How long reading what a CRD declares is tried: as long as a status is waited for where nobody says otherwise.
const READ_WITHIN: Duration = Duration::from_secs(60);

impl MemberFacts {
    pub(super) fn new(tuning: Arc<Tuning>, managers: String) -> Self {
        Self { tuning, managers, known: Mutex::default(), declarations: AtomicU64::default() }
    }

    /// Hears what time it is there: from the headers of an answer.
    pub fn hear(&self, headers: &HeaderMap) {
        let text = headers.get(DATE).and_then(|date| date.to_str().ok());
        let time = text.and_then(|text| DateTimeParser::new().parse_timestamp(text).ok());
        if let Some(time) = time {
            self.known.lock().time = Some((time, Instant::now()));
        }
    }

    /// Takes what the member serves.
    pub fn set_kinds(&self, kinds: Arc<Kinds>) {
        self.known.lock().kinds = kinds;
    }

    /// Takes what the CRD of a kind declares.
    pub fn set_declared(&self, gvk: Gvk, declared: Arc<KindFacts>) {
        self.known.lock().declared.insert(gvk, declared);
        self.declarations.fetch_add(1, Ordering::SeqCst);
    }

    /// How often [`MemberFacts::set_declared`] was called.
    pub(super) fn declarations(&self) -> u64 {
        self.declarations.load(Ordering::SeqCst)
    }

    /// What the CRD of a kind declares; `None`: it was not read.
    pub fn declared(&self, gvk: &Gvk) -> Option<Arc<KindFacts>> {
        self.known.lock().declared.get(gvk).cloned()
    }

    /// Reading it has failed; whether it has for so long that the CRD counts as one that declares nothing.
    pub fn gives_up(&self, gvk: &Gvk) -> bool {
        let mut known = self.known.lock();
        let now = Instant::now();
        has_failed_for_long(known.failed.entry(gvk.clone()).or_insert((now, now)), now)
    }

    /// It is another cluster.
    pub(super) fn forget(&self) {
        let mut known = self.known.lock();
        known.declared.clear();
        known.failed.clear();
    }

    /// What an object that is judged now is judged by, before it is known what the hub changed of it.
    pub(super) fn circumstances(&self, gvk: &Gvk, live: &Value) -> Circumstances {
        let now = Instant::now();
        let known = self.known.lock();
        let is_custom = facts::may_be_custom(&gvk.group);
        let declared = known.declared.get(gvk);
        let mut kind = declared.map(|declared| KindFacts::clone(declared)).unwrap_or_default();
        kind.has_status = known.kinds.has_status(gvk).filter(|_| is_custom);
        let has_status = kind.has_status == Some(true) || live.get("status").is_some();
        let time = known.time.and_then(|(time, at)| time.checked_add(now.duration_since(at)).ok());
        let made = time_of(live["metadata"]["creationTimestamp"].as_str());
        // What is made in the future is made now.
        let age = time.zip(made).map(|(time, made)| time.duration_since(made).try_into().unwrap_or_default());
        let waits = self.tuning.now().waits;
        let facts = Facts { kind, age, failing: Some(Duration::ZERO), waits, ..Facts::default() };
        Circumstances {
            now,
            time,
            facts,
            change: None,
            unread: is_custom && has_status && declared.is_none(),
        }
    }

    /// The last change of ours that raised the generation of a live object, where no status was written since. After a
    /// start managedFields alone tell of it.
    pub(super) fn change(
        &self,
        before: Option<BeforeChange>,
        live: &Value,
        by: &Circumstances,
    ) -> Option<OwnChange> {
        if by.facts.kind.has_status != Some(true) {
            return None;
        }
        let status = facts::status_mark(live);
        let unanswered = || facts::unanswered(live, |manager| manager.starts_with(&self.managers));
        let Some(before) = before else {
            // The first generation is no change.
            let changed = time_of(unanswered().filter(|_| generation(live) > 1))?;
            let ago = by.time?.duration_since(changed).try_into().unwrap_or_default();
            let at = by.now.checked_sub(ago).filter(|_| !mutants::is(Mutant::RestartForgetsChange))?;
            return Some(OwnChange { at, status, is_found: true });
        };
        // An answer shows the status that was there when the change came.
        if generation(live) > before.generation
            && (before.is_answer || before.is_ours && unanswered().is_some())
        {
            return Some(OwnChange { at: by.now, status, is_found: false });
        }
        let is_waited_for = |at: Instant| by.now.saturating_duration_since(at) < by.facts.waits.stale_status;
        before.change.filter(|change| change.status == status && is_waited_for(change.at))
    }
}

/// What was recorded of an object, as far as it tells whether the hub changed it since.
pub(super) struct BeforeChange {
    pub(super) generation: u32,
    /// What is folded is the answer of an apply.
    pub(super) is_answer: bool,
    /// An owner's apply is another one now.
    pub(super) is_ours: bool,
    pub(super) change: Option<OwnChange>,
}

/// A change of the hub's, which no status has followed yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnChange {
    at: Instant,
    /// See [`facts::status_mark`].
    status: u64,
    /// An earlier process may have made it.
    is_found: bool,
}

/// What one object is judged by.
#[derive(Clone)]
pub(super) struct Circumstances {
    pub(super) now: Instant,
    /// What time it is in the member.
    time: Option<Timestamp>,
    pub(super) facts: Facts,
    pub(super) change: Option<OwnChange>,
    /// The CRD of its kind may declare more, and was not read.
    pub(super) unread: bool,
}

impl Circumstances {
    /// With a change of ours; whether that may make another verdict.
    pub(super) fn note(&mut self, change: Option<OwnChange>) -> bool {
        self.change = change;
        self.facts.change = change.map(|change| facts::Change {
            ago: self.now.saturating_duration_since(change.at),
            status_since: false,
        });
        change.is_some()
    }

    /// The circumstances a while later.
    pub(super) fn later(&self, by: Duration) -> Self {
        Self { now: self.now + by, facts: self.facts.later(by), ..self.clone() }
    }

    /// The circumstances for whom the object was current before, at this revision: what an earlier process changed was
    /// current then.
    pub(super) fn of_known(&self) -> Self {
        let mut known = self.clone();
        known.facts.was_current = true;
        known.note(self.change.filter(|change| !change.is_found));
        known
    }
}

/// It has failed again; since when it has, and when it did last: where nobody has tried for long, that begins again.
fn has_failed_for_long((since, last): &mut (Instant, Instant), now: Instant) -> bool {
    if now.duration_since(*last) > READ_WITHIN {
        *since = now;
    }
    *last = now;
    now.duration_since(*since) >= READ_WITHIN
}

/// `metadata.generation`; 0 where there is none.
pub(super) fn generation(live: &Value) -> u32 {
    let generation = live["metadata"]["generation"].as_u64().unwrap_or_default();
    u32::try_from(generation).unwrap_or(u32::MAX)
}

fn time_of(text: Option<&str>) -> Option<Timestamp> {
    text?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_long_ago_and_was_not_tried_since_has_not_failed_for_long() {
        let start = Instant::now();
        let mut failed = (start, start);
        for (seconds, for_long) in
            [(0, false), (61, false), (183, false), (213, false), (243, true), (400, false)]
        {
            let now = start + Duration::from_secs(seconds);
            assert_eq!(has_failed_for_long(&mut failed, now), for_long, "{seconds} s");
        }
    }
}

//! What annotations approve, and that each word is used once: what was taken over is taken off, and approves nothing
//! when somebody puts it back.

use std::collections::{BTreeSet, VecDeque};

use vidra_api::labels::APPROVE_REMOVAL;
use vidra_core::guard::{self, Approvals};

use super::Hub;
use crate::workqueue::{Key, ResourceKey};

/// So many used ones are known of an object.
const USED_MAX: usize = 100;
/// So many characters of an annotation that approves nothing are told.
const NAMED: usize = 100;

/// What of an annotation was taken over, and what is left of it then.
pub(super) struct Used {
    words: Vec<String>,
    pub(super) rest: Option<String>,
}

/// The command that approves a removal of a VidraResource's.
pub(super) fn command(key: &ResourceKey, hash: &str) -> String {
    let ResourceKey { namespace, name } = key;
    format!("kubectl annotate vidraresource {name} -n {namespace} --overwrite {APPROVE_REMOVAL}={hash}")
}

/// What is known of an object's approvals.
#[derive(Debug, Default, PartialEq)]
pub(super) struct KnownApprovals {
    /// What was taken over of them, and off the annotation, last.
    used: VecDeque<String>,
    /// An annotation that approves no removal, once that was told.
    idle: Option<String>,
}

impl KnownApprovals {
    fn note_used(&mut self, used: Used) {
        for word in used.words {
            if !self.used.contains(&word) {
                self.used.push_back(word);
            }
        }
        // The oldest is the least likely to be put back.
        while self.used.len() > USED_MAX {
            self.used.pop_front();
        }
    }

    /// Whether it is news that this annotation approves nothing, or (`None`) is not there.
    fn note_idle(&mut self, annotation: Option<&String>) -> bool {
        let is_news = annotation.is_some() && self.idle.as_ref() != annotation;
        self.idle = annotation.cloned();
        is_news
    }
}

/// What the annotation of an object approves. What was used and put back approves nothing.
pub(super) fn valid<'a>(hub: &Hub, of: &Key, annotation: Option<&'a str>) -> Approvals<'a> {
    let mut approvals = guard::approvals(annotation);
    if let Some(state) = hub.state.lock().of(of) {
        approvals.retain(|word| !state.approvals.used.iter().any(|used| used == word));
    }
    approvals
}

/// What of it VidraTargets bear; `None`: nothing.
pub(super) fn to_use_up(hub: &Hub, of: &Key, annotation: &str, in_use: &BTreeSet<&str>) -> Option<Used> {
    let (used, idle): (BTreeSet<&str>, BTreeSet<&str>) =
        valid(hub, of, Some(annotation)).into_iter().partition(|word| in_use.contains(word));
    if used.is_empty() {
        return None;
    }
    let rest: Vec<&str> = idle.into_iter().collect();
    let rest = Some(rest.join(",")).filter(|rest| !rest.is_empty());
    Some(Used { words: used.into_iter().map(str::to_owned).collect(), rest })
}

/// It was taken off. Once in the life of a process: whoever puts it back is left to it.
pub(super) fn note_used(hub: &Hub, of: &Key, used: Used) {
    hub.state.lock().change(of, |state| state.approvals.note_used(used));
}

/// The annotation approves nothing, or (`None`) is not there: what to tell of that, once.
pub(super) fn idle(hub: &Hub, of: &Key, annotation: Option<&str>) -> Option<String> {
    let idle = annotation.map(|annotation| vidra_api::clip(annotation, NAMED));
    let is_news = hub.state.lock().change(of, |state| state.approvals.note_idle(idle.as_ref()));
    let idle = idle.filter(|_| is_news)?;
    Some(format!(
        "{APPROVE_REMOVAL}={idle} names no removal that is held now, and the hub ignores it: take the annotation off, or copy the one of the message that says RemovalHeld"
    ))
}

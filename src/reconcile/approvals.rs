//! What annotations approve, and that each word is used once: what was taken over is taken off, and approves nothing
//! when somebody puts it back.

use std::collections::BTreeSet;

use vidra_api::labels::APPROVE_REMOVAL;
use vidra_core::guard::{self, Approvals};

use super::Hub;
use crate::queue::Key;

/// So many used ones are known of an object.
const USED_MAX: usize = 100;
/// So many characters of an annotation that approves nothing are told.
const NAMED: usize = 100;

/// What of an annotation was taken over, and what is left of it then.
pub(super) struct Used {
    words: Vec<String>,
    pub(super) rest: Option<String>,
}

impl Hub {
    /// What the annotation of an object approves. What was used and put back approves nothing.
    pub(super) fn approvals<'a>(&self, of: &Key, annotation: Option<&'a str>) -> Approvals<'a> {
        let mut approvals = guard::approvals(annotation);
        if let Some(known) = self.memo.lock().used_approvals.get(of) {
            approvals.retain(|word| !known.iter().any(|known| known == word));
        }
        approvals
    }

    /// What of it VidraTargets bear; `None`: nothing.
    pub(super) fn used_approvals(&self, of: &Key, annotation: &str, borne: &BTreeSet<&str>) -> Option<Used> {
        let (used, idle): (BTreeSet<&str>, BTreeSet<&str>) =
            self.approvals(of, Some(annotation)).into_iter().partition(|word| borne.contains(word));
        if used.is_empty() {
            return None;
        }
        let rest: Vec<&str> = idle.into_iter().collect();
        let rest = Some(rest.join(",")).filter(|rest| !rest.is_empty());
        Some(Used { words: used.into_iter().map(str::to_owned).collect(), rest })
    }

    /// It was taken off. Once in the life of a process: whoever puts it back is left to it.
    pub(super) fn note_used(&self, of: Key, used: Used) {
        let mut memo = self.memo.lock();
        let known = memo.used_approvals.entry(of).or_default();
        for word in used.words {
            if !known.contains(&word) {
                known.push_back(word);
            }
        }
        // The oldest is the least likely to be put back.
        while known.len() > USED_MAX {
            known.pop_front();
        }
    }

    /// The annotation approves nothing, or (`None`) is not there: what to tell of that, once.
    pub(super) fn idle_approval(&self, of: &Key, annotation: Option<&str>) -> Option<String> {
        let mut memo = self.memo.lock();
        let Some(annotation) = annotation else {
            memo.idle_approvals.remove(of);
            return None;
        };
        let idle = vidra_api::clip(annotation, NAMED);
        let told = memo.idle_approvals.insert(of.clone(), idle.clone());
        (told.as_ref() != Some(&idle)).then(|| format!(
            "{APPROVE_REMOVAL}={idle} names no removal that is held now, and the hub ignores it: take the annotation off, or copy the one of the message that says RemovalHeld"
        ))
    }
}

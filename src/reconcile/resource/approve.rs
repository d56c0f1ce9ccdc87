//! A person's word for removals that are held: taken from the annotation into the VidraTargets that it is for, once.

use std::collections::BTreeSet;

use kube::ResourceExt;
use vidra_api::{VidraTargetSpec, labels::APPROVE_REMOVAL, target::Desired as Wish};
use vidra_core::guard::{self, Approvals};

use super::{Pass, Targets};
use crate::{hub::events::Severity, member::error::CallError};

/// So many used ones are known of a VidraResource.
const USED_MAX: usize = 100;
/// So many characters of an annotation that approves nothing are told.
const NAMED: usize = 100;

impl Pass<'_> {
    fn annotation(&self) -> Option<&str> {
        self.resource.annotations().get(APPROVE_REMOVAL).map(String::as_str)
    }

    /// What the VidraResource's annotation approves. What was used and put back approves nothing.
    pub(super) fn approvals(&self) -> Approvals<'_> {
        let mut approvals = guard::approvals(self.annotation());
        if let Some(known) = self.hub.memo.lock().used_approvals.get(self.key) {
            approvals.retain(|word| !known.contains(*word));
        }
        approvals
    }

    /// What approves that this revision, in this namespace, drops most objects of a target. `held` is what the target has
    /// been told: the word is for the generation in which it was first told so, and stands while it is told nothing else.
    pub(super) fn approved(
        &self,
        revision: &str,
        namespace: &str,
        held: Option<&VidraTargetSpec>,
    ) -> Option<String> {
        let is_same = |held: &&VidraTargetSpec| {
            held.revision == revision && held.namespace == namespace && held.desired == Wish::Present
        };
        let told = held.filter(is_same);
        if let Some(word) = told.and_then(|told| told.approved_removal.clone()) {
            return Some(word);
        }
        let current = self.resource.metadata.generation.unwrap_or_default();
        let generation = told.map_or(current, |told| told.generation);
        let hash = guard::objects_hash(&self.uid(), generation, namespace);
        guard::is_approved(&self.approvals(), &hash).then_some(hash)
    }

    /// Takes off the VidraResource what its VidraTargets have taken over, so that it says nothing of a later removal. What
    /// approves nothing, or was put back, stays, and is told once.
    pub(super) async fn use_up_approvals(&self, before: &Targets) -> Result<(), CallError> {
        let Some(annotation) = self.annotation() else {
            self.hub.memo.lock().idle_approvals.remove(self.key);
            return Ok(());
        };
        let after = self.hub.catalog.targets_of(self.key);
        let borne: BTreeSet<&str> = (before.values().chain(after.values()))
            .filter_map(|target| target.spec.approved_removal.as_deref())
            .collect();
        // Once in the life of a process: whoever puts it back is left to it.
        let (used, idle): (BTreeSet<&str>, BTreeSet<&str>) =
            self.approvals().into_iter().partition(|word| borne.contains(word));
        if !used.is_empty() {
            let taken: Vec<String> = used.into_iter().map(str::to_owned).collect();
            let rest: Vec<&str> = idle.into_iter().collect();
            let rest = Some(rest.join(",")).filter(|rest| !rest.is_empty());
            self.hub.api.reannotate_resource(self.resource, APPROVE_REMOVAL, annotation, rest).await?;
            let mut memo = self.hub.memo.lock();
            let known = memo.used_approvals.entry(self.key.clone()).or_default();
            known.extend(taken);
            while known.len() > USED_MAX {
                known.pop_first();
            }
            return Ok(());
        }
        let idle = vidra_api::clip(annotation, NAMED);
        let told = self.hub.memo.lock().idle_approvals.insert(self.key.clone(), idle.clone());
        if told.as_ref() != Some(&idle) {
            let message = format!(
                "{APPROVE_REMOVAL}={idle} names no removal that is held now, and the hub ignores it: take the annotation off, or copy the one of the message that says RemovalHeld"
            );
            self.hub.events.say(self.resource, Severity::Warning, "ApprovalIgnored", &message);
        }
        Ok(())
    }
}

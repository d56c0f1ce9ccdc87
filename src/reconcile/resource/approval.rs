//! A person's word for removals that are held: taken from the annotation into the VidraTargets that it is for, once.

use std::collections::BTreeSet;

use kube::ResourceExt;
use vidra_api::{VidraTargetSpec, labels::APPROVE_REMOVAL, target::Desired as Wish};
use vidra_core::guard::{self, Approvals};

use super::{Pass, Targets};
use crate::{base::error::CallError, hub::events::Severity, queue::Key, reconcile::approvals};

impl Pass<'_> {
    fn annotation(&self) -> Option<&str> {
        self.resource.annotations().get(APPROVE_REMOVAL).map(String::as_str)
    }

    /// What the VidraResource's annotation approves.
    pub(super) fn approvals(&self) -> Approvals<'_> {
        approvals::valid(self.hub, &Key::Resource(self.key.clone()), self.annotation())
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
        let key = Key::Resource(self.key.clone());
        let Some(annotation) = self.annotation() else {
            approvals::idle(self.hub, &key, None);
            return Ok(());
        };
        let after = self.hub.catalog.targets_of(self.key);
        let borne: BTreeSet<&str> = (before.values().chain(after.values()))
            .filter_map(|target| target.spec.approved_removal.as_deref())
            .collect();
        if let Some(used) = approvals::to_use_up(self.hub, &key, annotation, &borne) {
            let rest = used.rest.clone();
            self.hub.api.reannotate_resource(self.resource, APPROVE_REMOVAL, annotation, rest).await?;
            approvals::note_used(self.hub, &key, used);
        } else if let Some(message) = approvals::idle(self.hub, &key, Some(annotation)) {
            self.hub.events.say(self.resource, Severity::Warning, "ApprovalIgnored", &message);
        }
        Ok(())
    }
}

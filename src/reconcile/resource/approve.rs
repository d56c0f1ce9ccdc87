//! A person's word for removals that are held.

use kube::ResourceExt;
use vidra_api::{VidraTargetSpec, labels::APPROVE_REMOVAL};
use vidra_core::guard;

use super::Pass;

impl Pass<'_> {
    /// Whether a person approved that this revision, in this namespace, drops most objects of its targets. `held` is what
    /// the target has been told: the word is for the generation in which it was first told so.
    pub(super) fn approves(&self, revision: &str, namespace: &str, held: Option<&VidraTargetSpec>) -> bool {
        let told = held.filter(|held| held.revision == revision && held.namespace == namespace);
        let current = self.resource.metadata.generation.unwrap_or_default();
        let generation = told.map_or(current, |told| told.generation);
        let approval = self.resource.annotations().get(APPROVE_REMOVAL).map(String::as_str);
        guard::is_approved(approval, &guard::objects_hash(&self.uid(), generation, namespace))
    }
}

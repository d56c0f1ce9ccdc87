//! A person's word for removals that are held.

use kube::ResourceExt;
use vidra_api::labels::APPROVE_REMOVAL;
use vidra_core::guard;

use super::Pass;

impl Pass<'_> {
    /// Whether a person approved that this revision, in this namespace, drops most objects of its targets.
    pub(super) fn approves(&self, revision: &str, namespace: &str) -> bool {
        let approval = self.resource.annotations().get(APPROVE_REMOVAL).map(String::as_str);
        guard::is_approved(approval, &guard::objects_hash(revision, namespace))
    }
}

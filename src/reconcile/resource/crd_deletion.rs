//! What becomes of targets while one of our own CRDs is being deleted.

use vidra_api::labels::{APPROVE_ORPHANING, APPROVE_REMOVAL};
use vidra_core::status::Problem;

use super::Pass;
use crate::{
    base::error::CallError,
    hub::{
        crd_deletion::{self, Ending},
        events::Severity,
    },
};

impl Pass<'_> {
    /// Whether this VidraResource, or the member, is being deleted as its whole kind is. Asked once a pass.
    pub(super) async fn ending(&self, cluster: &str) -> Result<Ending, CallError> {
        let member = self.hub.catalog.member(cluster);
        let deleted = self.resource.metadata.deletion_timestamp.is_some()
            || member.is_some_and(|member| member.metadata.deletion_timestamp.is_some());
        if !deleted {
            return Ok(Ending::No);
        }
        let ending = self.ending.get_or_try_init(|| crd_deletion::look(&self.hub.api)).await?;
        if let Ending::Unseen(why) = ending {
            self.hub.events.say(self.resource, Severity::Warning, "CRDUnreadable", why);
        }
        Ok(ending.clone())
    }

    /// Whether this pass has found that a person has to decide.
    pub(super) fn is_undecided(&self) -> bool {
        matches!(self.ending.get(), Some(Ending::Held(_)))
    }

    /// What a person has to decide, if this pass has found it.
    pub(super) fn undecided(&self) -> Option<Problem> {
        let Some(Ending::Held(crd)) = self.ending.get() else { return None };
        let message = format!(
            "the CustomResourceDefinition {crd} is being deleted; nothing is removed in the members. To leave the objects there as they are and let the deletion go on: kubectl annotate crd {crd} {APPROVE_REMOVAL}={APPROVE_ORPHANING}"
        );
        self.hub.events.say(self.resource, Severity::Warning, "CRDTerminating", &message);
        Some(Problem { reason: "CRDTerminating", message, stalled: true })
    }
}

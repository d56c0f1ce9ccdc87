//! The removal guard for objects: a revision that would delete most of a target's objects is not acted on until a
//! person has approved it.

use kube::ResourceExt;
use vidra_api::labels::APPROVE_REMOVAL;
use vidra_core::{
    guard,
    plan::{Handover, Plan},
    status::Delivery,
};

use super::{Pass, handover::why_kept};
use crate::{desired::Desired, hub::events::Severity};

/// So many objects are named.
const NAMED: usize = 10;

impl Pass<'_> {
    /// Why nothing is done now; `None`: go on. A manifest that is meant to be empty says so itself.
    pub(super) fn held(&self, desired: &Desired, plan: &Plan, objects: usize) -> Option<Delivery> {
        let spec = &self.target.spec;
        let is_open =
            |(_, why): &(_, &Handover)| matches!(why.why(), Handover::Delayed | Handover::Unknown(_));
        let open = || plan.stays.iter().filter(is_open);
        let dropped = plan.deletions() + open().count();
        let meant = desired.objects.is_empty() && desired.unresolved.is_empty();
        let share = self.hub.tuning.now().object_removal_guard;
        if spec.approved_removal.is_some() || meant || !guard::holds_objects(objects, dropped, share) {
            return None;
        }
        // What another VidraResource takes over is no loss; nothing is changed before that is known.
        if let Some((reason, why)) = why_kept(open()) {
            let message = format!(
                "the revision drops {dropped} of {objects} objects, and nothing is changed before it is known whether others take them over: {why}"
            );
            return Some(Delivery::Waiting { reason, message });
        }
        let names: Vec<String> = plan.deleted().take(NAMED).map(ToString::to_string).collect();
        let more = match dropped - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let resource = self.hub.catalog.resource(&self.key.resource_key());
        let uid = resource.and_then(|resource| resource.uid()).unwrap_or_default();
        let hash = guard::objects_hash(&uid, spec.generation, &spec.namespace);
        let message = format!(
            "held: the revision drops {dropped} of {objects} objects ({}{more}), and nothing was changed. If this is meant, annotate the VidraResource: {APPROVE_REMOVAL}={hash}",
            names.join(", "),
        );
        self.say(Severity::Warning, "RemovalHeld", &format!("{}: {message}", self.key.cluster));
        Some(Delivery::Failed { reason: "RemovalHeld", message, stalled: true })
    }
}

//! The removal guard for objects: a revision that would delete most of a target's objects is not acted on until a
//! person has approved it.

use kube::ResourceExt;
use vidra_api::labels::APPROVE_REMOVAL;
use vidra_core::{
    guard,
    plan::{Handover, Plan},
    status::{Delivery, PRUNE_DELAYED},
};

use super::Pass;
use crate::{desired::Desired, hub::events::Severity};

/// So many objects are named.
const NAMED: usize = 10;

impl Pass<'_> {
    /// Why nothing is done now; `None`: go on. A manifest that is meant to be empty says so itself.
    pub(super) fn held(&self, desired: &Desired, plan: &Plan, objects: usize) -> Option<Delivery> {
        let spec = &self.target.spec;
        let is_open = |why: &&Handover| matches!(why, Handover::Delayed | Handover::Unknown(_));
        let delayed = plan.stays.values().filter(is_open).count();
        let dropped = plan.deletions() + delayed;
        let meant = desired.objects.is_empty() && desired.unresolved.is_empty();
        let share = self.hub.tuning.now().object_removal_guard;
        if spec.approved_removal.is_some() || meant || !guard::holds_objects(objects, dropped, share) {
            return None;
        }
        if delayed > 0 {
            // What another VidraResource takes over is no loss; nothing is changed before that is known.
            let message = format!(
                "the revision drops {dropped} of {objects} objects; before that is held, the setting pruneDelay gives other VidraResources time to take them over"
            );
            return Some(Delivery::Waiting { reason: PRUNE_DELAYED, message });
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

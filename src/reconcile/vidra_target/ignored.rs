//! What of a target's objects is left alone, and what of the rules for it matches nothing there.

use std::sync::Arc;

use vidra_core::{ignore::Sparing, status::Delivery};

use super::Pass;
use crate::{
    desired::Desired,
    queue::{Key, Priority},
};

impl Pass<'_> {
    /// As the VidraTarget's spec says. What matches nothing is told by the resource loop, once all targets have
    /// looked.
    pub(super) fn sparing(&self, desired: &Desired) -> Result<Arc<Sparing>, Delivery> {
        let spec = &self.target.spec.drift;
        let autoscalers = &self.hub.tuning.now().autoscalers;
        let sparing = desired.sparing(spec, autoscalers).map_err(|error| Delivery::Failed {
            reason: "IgnoreInvalid",
            message: error.to_string(),
            stalled: true,
        })?;
        let unused = match spec.ignore.is_empty() {
            true => None,
            false => Some((spec.clone(), sparing.unused.clone())),
        };
        let is_news = self.hub.memo.lock().note_unused(self.key, unused);
        if is_news {
            self.hub.queue.add(Key::Resource(self.key.resource_key()), Priority::Drift);
        }
        Ok(sparing)
    }
}

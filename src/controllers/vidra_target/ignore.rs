//! What of a target's objects is left alone, and what of the rules for it matches nothing there.

use std::{mem, sync::Arc};

use vidra_core::{
    ignore::Exemptions,
    status::{Delivery, Reason},
};

use super::context::Context;
use crate::{
    desired::Desired,
    workqueue::{Key, Priority},
};

/// What is left alone as the VidraTarget's spec says. Remembers which rules match nothing, and wakes the VidraResource
/// where that is news, which tells of it once all targets have looked.
pub(super) fn read_exemptions(ctx: &Context<'_>, desired: &Desired) -> Result<Arc<Exemptions>, Delivery> {
    let spec = &ctx.target.spec.drift;
    let autoscalers = &ctx.hub.tuning.now().autoscalers;
    let exemptions = desired.exemptions(spec, autoscalers).map_err(|error| Delivery::Failed {
        reason: Reason::IgnoreInvalid,
        message: error.to_string(),
        stalled: true,
    })?;
    let unused = match spec.ignore.is_empty() {
        true => None,
        false => Some((spec.clone(), exemptions.unused.clone())),
    };
    let is_news = ctx.hub.state.lock().change_target(ctx.key, |state| {
        let before = mem::replace(&mut state.unused, unused);
        before != state.unused
    });
    if is_news {
        ctx.hub.queue.add(Key::Resource(ctx.key.resource_key()), Priority::Event);
    }
    Ok(exemptions)
}

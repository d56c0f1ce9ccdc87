//! What of a target's objects is left alone, and what of the rules for it matches nothing there.

use std::{mem, sync::Arc};

use vidra_core::{
    ignore::Sparing,
    status::{Delivery, Reason},
};

use super::context::Context;
use crate::{
    desired::Desired,
    workqueue::{Key, Priority},
};

/// As the VidraTarget's spec says. What matches nothing is told by the resource loop, once all targets have
/// looked.
pub(super) fn sparing(ctx: &Context<'_>, desired: &Desired) -> Result<Arc<Sparing>, Delivery> {
    let spec = &ctx.target.spec.drift;
    let autoscalers = &ctx.hub.tuning.now().autoscalers;
    let sparing = desired.sparing(spec, autoscalers).map_err(|error| Delivery::Failed {
        reason: Reason::IgnoreInvalid,
        message: error.to_string(),
        stalled: true,
    })?;
    let unused = match spec.ignore.is_empty() {
        true => None,
        false => Some((spec.clone(), sparing.unused.clone())),
    };
    let is_news = ctx.hub.state.lock().change_target(ctx.key, |state| {
        let before = mem::replace(&mut state.unused, unused);
        before != state.unused
    });
    if is_news {
        ctx.hub.queue.add(Key::Resource(ctx.key.resource_key()), Priority::Event);
    }
    Ok(sparing)
}

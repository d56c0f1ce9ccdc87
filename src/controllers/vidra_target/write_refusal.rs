//! A write for a target that the hub's API does not take: of its inventory, or of its status. It is told on the
//! VidraTarget, and in any case on its VidraResource, for the VidraTarget's status may be what is refused.

use std::mem;

use tokio::time::Instant;
use vidra_core::status::{Delivery, Reason};

use super::{context::Context, status::publish_unseen};
use crate::{
    base::error::CallError,
    controllers::{Hub, after_hub_error, write_refusal::count_failed_write},
    hub::events::Severity,
    workqueue::{Key, Priority, TargetKey, Verdict},
};

/// Tells that a write for a target failed, where that is to be told; in which words.
pub(super) fn tell(hub: &Hub, key: &TargetKey, error: &CallError) -> Option<String> {
    let told = count_failed_write(hub, &Key::Target(key.clone()), error)?;
    let message = format!("the hub's API refuses a write for VidraTarget {}: {told}", key.target_name());
    tracing::warn!("{message}");
    if let Some(resource) = hub.catalog.resource(&key.resource_key()) {
        hub.events.say(resource.as_ref(), Severity::Warning, Reason::WriteRefused, &message);
    }
    Some(message)
}

pub(super) async fn tell_failure(ctx: &Context<'_>, error: &CallError) -> Verdict {
    let key = Key::Target(ctx.key.clone());
    if let Some(message) = tell(ctx.hub, ctx.key, error) {
        note_refused(ctx, Some(message.clone()));
        let is_fresh =
            ctx.hub.state.lock().of(&key).is_some_and(|state| state.throttle.is_fresh(Instant::now()));
        // Else the status is what failed, a moment ago.
        if !is_fresh {
            let refused = Delivery::Failed { reason: Reason::WriteRefused, message, stalled: true };
            if let Err(error) = publish_unseen(ctx, refused).await {
                tracing::info!(%error, "the hub's API does not take the status either");
            }
        }
    }
    after_hub_error(error)
}

/// Remembers that writes for it are refused (`None`: they are not), and has its VidraResource report a change of that.
pub(super) fn note_refused(ctx: &Context<'_>, message: Option<String>) {
    let is_news = ctx.hub.state.lock().change_target(ctx.key, |state| {
        let before = mem::replace(&mut state.refused, message);
        before != state.refused
    });
    if is_news {
        ctx.hub.queue.add(Key::Resource(ctx.key.resource_key()), Priority::Event);
    }
}

/// Writes for it are refused now.
pub(super) fn is_refused(ctx: &Context<'_>) -> bool {
    ctx.hub.state.lock().target(ctx.key).is_some_and(|state| state.refused.is_some())
}

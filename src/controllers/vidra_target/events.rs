//! Events on the VidraResource of a target: of objects together, and of the target itself.

use vidra_core::{object::ObjectKey, status::Reason};

use super::context::Context;
use crate::hub::events::{One, Saying, Severity};

/// Tells of one more object; what comes within a moment is one Event.
pub(super) fn gather(ctx: &Context<'_>, saying: Saying, key: &ObjectKey, by: &[String]) {
    let cluster = &ctx.key.cluster;
    gather_one(ctx, saying, One { cluster, object: &key.to_string(), by, message: "" });
}

/// Tells of one more object that was refused, or for which a call failed: likewise.
pub(super) fn gather_failure(ctx: &Context<'_>, reason: Reason, key: &ObjectKey, message: &str) {
    let cluster = &ctx.key.cluster;
    let one = One { cluster, object: &key.to_string(), by: &[], message };
    gather_one(ctx, Saying::failure(reason), one);
}

/// Adds one item to the Event about this VidraResource that is being gathered.
pub(super) fn gather_one(ctx: &Context<'_>, saying: Saying, one: One<'_>) {
    if let Some(resource) = ctx.hub.catalog.resource(&ctx.key.resource_key()) {
        ctx.hub.events.gather(resource.as_ref(), saying, one);
    }
}

pub(super) fn say(ctx: &Context<'_>, severity: Severity, reason: Reason, note: &str) {
    if let Some(resource) = ctx.hub.catalog.resource(&ctx.key.resource_key()) {
        ctx.hub.events.say(resource.as_ref(), severity, reason, note);
    }
}

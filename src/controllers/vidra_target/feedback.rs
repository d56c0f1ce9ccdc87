//! What a target tells of its objects' own fields: by which rules, and what came back.

use std::sync::Arc;

use vidra_api::{Feedback, VidraTargetStatus};
use vidra_core::{feedback::Rules, object::ObjectKey, owner::Owner};

use super::context::Context;
use crate::{
    controllers::own_rules::{delivered, own_feedback},
    member::session::Session,
};

/// The rules that the target goes by.
pub(super) fn rules(ctx: &Context<'_>, session: &Session, owner: &Owner) -> Arc<Rules> {
    let wanted = ctx.target.spec.status_feedback.as_ref();
    let now = own_feedback(ctx.hub, &ctx.key.resource_key()).map(|own| own.rules.clone()).unwrap_or_default();
    delivered(now, || session.records.feedback_rules(&owner.hash), |rules| rules.digest() == wanted)
}

/// What came back; `None`: nobody has looked. `before`: what the status says now, which stands until all is read.
/// `seen`: all of the target was.
pub(super) fn values(
    ctx: &Context<'_>,
    session: Option<&Session>,
    (before, seen): (&VidraTargetStatus, bool),
) -> Option<Feedback> {
    if ctx.target.spec.status_feedback.is_none() {
        return Some(Feedback::default());
    }
    let redact = &ctx.hub.tuning.now().redact;
    let is_hidden = |key: &ObjectKey| redact.protects(&key.group, &key.kind);
    match session?.records.feedback(&ctx.owner_hash(ctx.key), is_hidden, seen) {
        // What was old stays old until all is read.
        None if before.feedback_at.is_some() => None,
        read => Some(read.or_else(|| before.feedback.clone()).unwrap_or_default()),
    }
}

/// Takes out what must not be written now, though it was allowed when it came back.
pub(super) fn redact(ctx: &Context<'_>, feedback: &mut Option<Feedback>) {
    let Some(feedback) = feedback else { return };
    let redact = &ctx.hub.tuning.now().redact;
    let before = feedback.objects.len();
    feedback.objects.retain(|one| !redact.protects(&one.group, &one.kind));
    feedback.left_out += i64::try_from(before - feedback.objects.len()).unwrap_or(i64::MAX);
}

/// They wait for their turn: what changes until then goes along, and wakes nobody.
pub(super) fn hold(ctx: &Context<'_>, session: Option<&Session>) {
    if let Some(session) = session {
        session.records.hold_feedback(&ctx.owner_hash(ctx.key));
    }
}

//! Rules of `spec.statusFeedback` that cannot be used, and those that match nothing that is declared.

use vidra_api::{VidraResourceStatus, condition::FEEDBACK_INCOMPLETE};
use vidra_core::{feedback, status::Reason};

use super::context::Context;
use crate::{controllers::own_rules::own_feedback, hub::revisions::Parsed};

/// The first of it.
pub(super) fn complaint(ctx: &Context<'_>, revision: &Parsed) -> Option<(Reason, String)> {
    let own = own_feedback(ctx.hub, ctx.key)?;
    let declared = revision.objects.iter();
    let declared = declared.map(|object| (&*object.gvk.group, &*object.gvk.kind, &*object.name));
    feedback::complaint(&own.problems, &own.rules.without_match(declared))
}

/// Puts it into the status, or takes it out again. While it is not known what is declared it stays as it was.
pub(super) fn warn(
    ctx: &Context<'_>,
    complaint: Option<Option<(Reason, String)>>,
    status: &mut VidraResourceStatus,
) {
    let Some(complaint) = complaint else { return };
    if let Some((reason, message)) = ctx.put_complaint(status, FEEDBACK_INCOMPLETE, complaint) {
        ctx.warn(reason, &message);
    }
}

//! What becomes of targets while one of our own CRDs is being deleted.

use vidra_api::labels::{APPROVE_ORPHANING, APPROVE_REMOVAL};
use vidra_core::status::{Problem, Reason};

use super::context::Context;
use crate::{
    base::error::CallError,
    controllers::confirmation::is_leaving,
    hub::crd_deletion::{self, Ending},
};

/// Whether this VidraResource, or the member, is being deleted as its whole kind is. Asked once a reconcile.
pub(super) async fn ending(ctx: &Context<'_>, cluster: &str) -> Result<Ending, CallError> {
    if !ctx.is_deleted() && !is_leaving(ctx.hub, cluster) {
        return Ok(Ending::No);
    }
    let ending = ctx.ending.get_or_try_init(|| crd_deletion::look(&ctx.hub.api)).await?;
    if let Ending::Unseen(why) = ending {
        ctx.warn(Reason::CRDUnreadable, why);
    }
    Ok(ending.clone())
}

/// Whether this reconcile has found that a person has to decide.
pub(super) fn is_undecided(ctx: &Context<'_>) -> bool {
    matches!(ctx.ending.get(), Some(Ending::Held(_)))
}

/// What a person has to decide, if this reconcile has found it.
pub(super) fn crd_problem(ctx: &Context<'_>) -> Option<Problem> {
    let Some(Ending::Held(crd)) = ctx.ending.get() else { return None };
    let message = format!(
        "the CustomResourceDefinition {crd} is being deleted; nothing is removed in the members. To leave the objects there as they are and let the deletion go on: kubectl annotate crd {crd} {APPROVE_REMOVAL}={APPROVE_ORPHANING}"
    );
    Some(Problem { reason: Reason::CRDTerminating, message, stalled: true })
}

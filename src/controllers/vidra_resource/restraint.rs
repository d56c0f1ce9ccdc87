//! What becomes of targets while nothing new is delivered: those that leave go on, what was deleted by hand comes back, and
//! what of the policies restrains the hub acts.

use vidra_api::{VidraTarget, target::DesiredState};
use vidra_core::{
    mutants::{self, Mutant},
    restraint::restrained,
};

use super::{
    context::{Context, has_finalizer},
    targets::{update, write},
    teardown::{Step, is_over, send_away},
};
use crate::{
    base::error::CallError,
    controllers::{confirmation::is_leaving, revoke},
};

/// One VidraTarget while nothing new is delivered: it goes on leaving, or is restrained. `is_selected`: still targeted.
pub(super) async fn rest(
    ctx: &Context<'_>,
    cluster: &str,
    target: &VidraTarget,
    is_selected: bool,
) -> Result<Step, CallError> {
    let going = is_going(ctx, cluster, target).filter(|_| !mutants::is(Mutant::RestHoldsLeaving));
    match going {
        Some(approval) => send_away(ctx, cluster, target, approval.as_deref()).await,
        None => restrain(ctx, cluster, target, is_selected).await.map(|()| Step::Done),
    }
}

/// Whether a target goes whatever becomes of the VidraResource: by what is under way or asked of the member itself;
/// and the word that approved it where it needed one.
fn is_going(ctx: &Context<'_>, cluster: &str, target: &VidraTarget) -> Option<Option<String>> {
    let key = ctx.target_key(cluster);
    if is_leaving(ctx.hub, cluster) || is_over(target) {
        return Some(None);
    }
    // What is under way where the namespace is not allowed goes by the member's onRevoke, as it is now.
    match target.spec.desired != DesiredState::Present && !revoke::is_revoked(ctx.hub, &key) {
        true => Some(None),
        false => revoke::taken(ctx.hub, &key, target),
    }
}

/// The revision that it has stays, with what of the policies restrains it.
async fn restrain(
    ctx: &Context<'_>,
    cluster: &str,
    target: &VidraTarget,
    is_selected: bool,
) -> Result<(), CallError> {
    let spec = match target.spec.desired {
        DesiredState::Present if !mutants::is(Mutant::PoliciesWait) => {
            restrained(&target.spec, &ctx.resource.spec)
        }
        _ => target.spec.clone(),
    };
    // One that goes and is not selected is not made again, and without it the guard would not know of the loss.
    let goes = target.metadata.deletion_timestamp.is_some();
    if goes && !is_selected && !mutants::is(Mutant::GuardForgets) {
        return match has_finalizer(target) {
            true => write(ctx, cluster, target, spec).await,
            // It ends as soon as others let it, and takes no finalizer any more.
            false => Ok(()),
        };
    }
    update(ctx, cluster, target, spec).await
}

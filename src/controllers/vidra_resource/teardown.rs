//! How targets end: each is turned to what becomes of its objects, and goes when the member is free of it.

use vidra_api::{ContainerDeletion, VidraTarget, VidraTargetSpec, target::DesiredState};
use vidra_core::{
    departure::{Departure, DepartureFacts, departure},
    mutants::{self, Mutant},
    status::is_torn_down,
};

use super::{
    context::Context,
    crd_deletion::ending,
    patience::{has_lost_its_cluster, is_given_up, is_tried, patience_ends_in},
    targets::{has_nothing_there, update},
};
use crate::{
    base::error::CallError,
    controllers::{confirmation, revoke},
    hub::{catalog::Lack, crd_deletion::Ending},
    workqueue::TargetKey,
};

/// How far a target has come on its way out.
pub(super) enum Step {
    /// As far as it can now.
    Done,
    /// It is not waited for any more: this is to be written once a status says what stays in its member.
    Forget(Box<VidraTarget>),
}

/// It was to go, and the member is free of it.
fn has_left(target: &VidraTarget) -> bool {
    target.spec.desired != DesiredState::Present && is_torn_down(target)
}

/// It has left its member, or nobody waits for its member any more.
pub(super) fn is_over(target: &VidraTarget) -> bool {
    target.spec.desired == DesiredState::Forgotten || has_left(target)
}

/// Turns a target to Absent or Orphaned, by the word that approved it where it needed one, and removes it once the
/// member is free of it.
pub(super) async fn send_away(
    ctx: &Context<'_>,
    cluster: &str,
    target: &VidraTarget,
    approval: Option<&str>,
) -> Result<Step, CallError> {
    let key = ctx.target_key(cluster);
    let latest = ctx.hub.catalog.target(&key);
    let target = latest.as_deref().unwrap_or(target);
    if has_left(target) || came_to_nothing(ctx, cluster, target) {
        return ctx.hub.api.remove_target(&key, target).await.map(|()| Step::Done);
    }
    let member_exists = match ctx.hub.catalog.find_member(cluster) {
        Err(Lack::Unread) => return Ok(Step::Done),
        found => found.is_ok(),
    };
    let ending = match target.spec.desired {
        DesiredState::Present => ending(ctx, cluster).await?,
        _ => Ending::No,
    };
    let departure = match ending {
        Ending::Held(_) => Departure::Wait,
        Ending::Orphan => Departure::Turn(DesiredState::Forgotten),
        Ending::No | Ending::Unseen(_) => departure(&facts(ctx, cluster, target, member_exists)),
    };
    let turned = |desired| {
        let approved_removal = approval.map(str::to_owned).or_else(|| target.spec.approved_removal.clone());
        let namespace_and_crd_deletion = namespace_and_crd_deletion(ctx, &key, target);
        let suspend = false;
        let of = target.spec.clone();
        let spec = VidraTargetSpec { desired, suspend, approved_removal, namespace_and_crd_deletion, ..of };
        VidraTarget { spec, ..target.clone() }
    };
    let next = match departure {
        Departure::Wait => return Ok(Step::Done),
        Departure::Forget => return Ok(Step::Forget(Box::new(turned(DesiredState::Forgotten)))),
        Departure::Turn(desired) => turned(desired),
    };
    let approved_removal = target.spec.approved_removal.clone();
    if (VidraTargetSpec { approved_removal, ..next.spec.clone() }) == target.spec {
        return Ok(Step::Done);
    }
    ctx.hub.api.replace_target(&next).await.map(|()| Step::Done)
}

/// What vidra-core needs to decide how a target leaves.
fn facts(ctx: &Context<'_>, cluster: &str, target: &VidraTarget, member_exists: bool) -> DepartureFacts {
    DepartureFacts {
        desired: target.spec.desired,
        asked: end(ctx, cluster),
        member_exists,
        is_twin: has_lost_its_cluster(ctx, cluster),
        is_tried: is_tried(target),
        is_given_up: is_given_up(ctx, cluster),
        is_overdue: patience_ends_in(ctx, cluster, target).is_some_and(|rest| rest.is_zero()),
    }
}

/// How a target ends.
fn end(ctx: &Context<'_>, cluster: &str) -> DesiredState {
    let of_member = ctx.hub.catalog.member(cluster).and_then(|member| {
        let selection = confirmation::select(ctx.hub, ctx.resource, std::slice::from_ref(&member));
        confirmation::removal(ctx.resource, &member, &selection)
    });
    of_member.unwrap_or_else(|| confirmation::by_policy(ctx.resource))
}

/// What becomes of the Namespaces and CRDs of a target that goes: what its VidraResource asks for now, for what goes
/// waits for no manifest.
fn namespace_and_crd_deletion(ctx: &Context<'_>, key: &TargetKey, target: &VidraTarget) -> ContainerDeletion {
    let written = target.spec.namespace_and_crd_deletion;
    let now = ctx.resource.spec.namespace_and_crd_deletion;
    match mutants::is(Mutant::GoesByOldPolicy) {
        true => written,
        // Whose namespace is not allowed there any more has no say in it but to keep.
        false if revoke::is_revoked(ctx.hub, key) => written.min(now),
        false => now,
    }
}

/// Its MemberCluster has gone, while the VidraTarget was being made mostly, and nothing was ever delivered there: it is
/// no wish to leave, and there is nothing to leave.
pub(super) fn came_to_nothing(ctx: &Context<'_>, cluster: &str, target: &VidraTarget) -> bool {
    target.spec.desired == DesiredState::Present
        && matches!(ctx.hub.catalog.find_member(cluster), Err(Lack::Missing))
        && has_nothing_there(ctx, cluster, target)
        && !mutants::is(Mutant::NothingWaits)
}

/// A target on a member that does not allow the namespace goes by the member's onRevoke; else it stays as it is, and
/// what was decided of it while it was allowed waits.
pub(super) async fn withdraw(
    ctx: &Context<'_>,
    cluster: &str,
    target: &VidraTarget,
) -> Result<Step, CallError> {
    let spec = &target.spec;
    if is_over(target) {
        return send_away(ctx, cluster, target, None).await;
    }
    if let Some(approval) = revoke::taken(ctx.hub, &ctx.target_key(cluster), target) {
        return send_away(ctx, cluster, target, approval.as_deref()).await;
    }
    // A word for its removal says nothing of its objects.
    let approved_removal = spec.approved_removal.clone().filter(|_| spec.desired == DesiredState::Present);
    let (desired, recalls) = (DesiredState::Present, spec.recalled());
    let spec = VidraTargetSpec { desired, recalls, suspend: false, approved_removal, ..spec.clone() };
    update(ctx, cluster, target, spec).await.map(|()| Step::Done)
}

//! What of a VidraResource's targets is there and cannot be read: it is neither made over nor counted as gone.

use vidra_api::TargetState;
use vidra_core::status::{Problem, Reason, TargetView};

use super::context::Context;
use crate::{controllers::unreadable, hub::catalog::Listed};

/// Its VidraTarget for this cluster is there and cannot be read.
pub(super) fn is_target_unread(ctx: &Context<'_>, cluster: &str) -> bool {
    let name = ctx.target_key(cluster).target_name();
    ctx.hub.catalog.is_unread(Listed::Targets, &ctx.key.namespace, &name)
}

/// Some VidraTarget of it is there and cannot be read.
pub(super) fn is_any_target_unread(ctx: &Context<'_>) -> bool {
    !ctx.hub.catalog.unread_targets_of(ctx.key).is_empty()
}

/// The MemberCluster is there and cannot be read.
pub(super) fn is_member_unread(ctx: &Context<'_>, cluster: &str) -> bool {
    ctx.hub.catalog.is_unread(Listed::Members, "", cluster)
}

/// The first VidraTarget of it, or else MemberCluster of one, that cannot be read, in words.
pub(super) fn unread_problem(ctx: &Context<'_>) -> Option<Problem> {
    let of_target = |cluster: &str| unreadable::message(&format!("VidraTarget {}", ctx.target_key(cluster)));
    let target = ctx.hub.catalog.unread_targets_of(ctx.key).first().map(|cluster| of_target(cluster));
    let member = || {
        let mut clusters = ctx.hub.catalog.targets_of(ctx.key).into_keys();
        let cluster = clusters.find(|cluster| is_member_unread(ctx, cluster))?;
        Some(unreadable::message(&format!("MemberCluster {cluster}")))
    };
    Some(too_old(target.or_else(member)?))
}

/// A MemberCluster that cannot be read, in words: one that is named, and of which there is no target.
pub(super) fn unread_member(ctx: &Context<'_>, cluster: &str) -> Option<Problem> {
    let is_unread = is_member_unread(ctx, cluster);
    is_unread.then(|| too_old(unreadable::message(&format!("MemberCluster {cluster}"))))
}

fn too_old(message: String) -> Problem {
    Problem { reason: Reason::HubTooOld, message, stalled: true }
}

/// The targets that cannot be read, as the roll-up counts them.
pub(super) fn unread_views(ctx: &Context<'_>) -> Vec<TargetView> {
    let view = |cluster: &str| TargetView {
        cluster: cluster.to_owned(),
        state: Some(TargetState::Unknown),
        drift: None,
        reason: Some(Reason::HubTooOld.into()),
        message: Some(unreadable::message(&format!("VidraTarget {}", ctx.target_key(cluster)))),
        revision: None,
        ready_revision: None,
        since: None,
        leaving: false,
        stalled: None,
        first_drift: None,
        going: None,
        objects: 0,
    };
    ctx.hub.catalog.unread_targets_of(ctx.key).iter().map(|cluster| view(cluster)).collect()
}

//! How long members that do not answer are waited for: until a person says that nobody is to, or, where nothing is to be
//! deleted there, for a while.

use std::time::Duration;

use kube::ResourceExt;
use vidra_api::{VidraTarget, condition::READY, find, labels::FORGET, member::OnLeave, target::DesiredState};
use vidra_core::{
    mutants::{self, Mutant},
    status::{Reason, is_torn_down},
};

use super::context::Context;
use crate::{
    controllers::{
        Hub, RETRY_MOST, confirmation,
        member_cluster::{intended_uid, twins},
    },
    member::session::State,
};

/// A member that leaves, and whose objects are only to be orphaned, is given up after so long without contact.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// It is on its way out, and its member was asked.
pub(super) fn is_tried(target: &VidraTarget) -> bool {
    let Some(status) = &target.status else { return false };
    let generation = target.metadata.generation.unwrap_or_default();
    let reason = Reason::of(status);
    matches!(target.spec.desired, DesiredState::Absent | DesiredState::Orphaned)
        && status.observed_generation == Some(generation)
        && !is_torn_down(target)
        && reason != Some(Reason::PruneDelayed)
        && (!matches!(reason, Some(Reason::Settling | Reason::LooksFirst))
            || mutants::is(Mutant::TooEarlyIsTried))
}

/// A person says, on the VidraResource or the MemberCluster, that nobody is to wait for the member.
pub(super) fn is_given_up(ctx: &Context<'_>, cluster: &str) -> bool {
    let names_it = |all: &String| all.split(',').any(|one| one.trim() == cluster);
    ctx.resource.annotations().get(FORGET).is_some_and(names_it)
        || confirmation::is_given_up(ctx.hub, cluster)
}

/// Its member leaves, and is refused because its cluster is a member under an older name: that one has the objects.
pub(super) fn has_lost_its_cluster(ctx: &Context<'_>, cluster: &str) -> bool {
    if mutants::is(Mutant::TwinsTakeAway) {
        return false;
    }
    let Some(session) = ctx.hub.session(cluster) else { return false };
    let State::Refused(who, _) = session.state() else { return false };
    let Some(member) = ctx.hub.catalog.member(cluster) else { return false };
    // Where another cluster answers than the one that joined, its own has the objects.
    let is_its_own = intended_uid(ctx.hub, &member).is_none_or(|own| *own == *who.uid);
    let (older, _) = twins(ctx.hub, &member, &who.uid);
    member.metadata.deletion_timestamp.is_some() && is_its_own && !older.is_empty()
}

/// How long until a target is given up by itself: its objects are only to be orphaned.
pub(super) fn patience_ends_in(ctx: &Context<'_>, cluster: &str, target: &VidraTarget) -> Option<Duration> {
    (target.spec.desired == DesiredState::Orphaned).then(|| patience_with_member(ctx.hub, cluster)).flatten()
}

/// When to look again for a target that is given up by itself.
pub(super) fn soonest_end(ctx: &Context<'_>) -> Option<Duration> {
    ctx.targets().iter().filter_map(|(cluster, target)| patience_ends_in(ctx, cluster, target)).min()
}

/// How long until all that a MemberCluster has is given up by itself: it is leaving, nothing is to be deleted there, and
/// the hub cannot work there. `None`: it is not.
pub(super) fn patience_with_member(hub: &Hub, cluster: &str) -> Option<Duration> {
    let member = hub.catalog.member(cluster)?;
    let deleted = member.metadata.deletion_timestamp.as_ref()?;
    if member.spec.on_leave != OnLeave::Orphan {
        return None;
    }
    let is_known = match hub.session(cluster) {
        Some(session) => match session.state() {
            State::Open(_) => return None,
            State::Connecting | State::Asking(_) => false,
            State::Refused(..) | State::Down { .. } => true,
        },
        None => hub.state.lock().member(cluster).is_some_and(|member| member.judged),
    };
    if !is_known {
        return Some(RETRY_MOST);
    }
    // Kept in the status: a new process does not count again.
    let status = member.status.clone().unwrap_or_default();
    let lost = find(&status.conditions, READY).filter(|ready| ready.status != "True");
    let now = hub.clock.time();
    let since = lost.map_or(&now, |ready| &ready.last_transition_time).max(deleted);
    let silent = Duration::try_from(now.0.duration_since(since.0)).unwrap_or_default();
    Some(PATIENCE.saturating_sub(silent))
}

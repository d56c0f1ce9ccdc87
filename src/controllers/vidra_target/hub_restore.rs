//! A hub that was restored from an older backup, or rebuilt from an older commit, holds its writes until a person
//! says that what it declares is meant.

use kube::ResourceExt;
use vidra_api::{
    VidraTarget,
    labels::{CONFIRM, CONFIRM_RESTORE},
    target::DesiredState,
};
use vidra_core::{
    mutants::{self, Mutant},
    status::{Delivery, Reason},
};

use super::context::Context;
use crate::{
    controllers::owners::is_selected,
    hub::events::Severity,
    member::{records::Generations, session::Session},
    workqueue::{Key, Priority, TargetKey},
};

/// This many objects from later declarations in one member may be an accident: somebody's own copy of a stamp.
const FEW: usize = 5;

/// The highest generation of the VidraResource that the hub knows of. After a hub was built again from the
/// same declarations generations begin at 1, and what was found in the member is known once all agreed.
pub(super) fn known_generation(ctx: &Context<'_>) -> i64 {
    let agreed = ctx.target.status.as_ref().and_then(|status| status.applied_generation);
    ctx.target.spec.generation.max(agreed.unwrap_or_default())
}

/// Why nothing is written to the member, if the hub is behind it. Notes what the target has found, and wakes who goes by
/// that.
pub(super) fn check_restore(ctx: &Context<'_>, session: &Session, found: &Generations) -> Option<Delivery> {
    note_later(ctx, session, found);
    let example = found.example.as_ref().map_or_else(String::new, |(key, generation)| {
        format!(" (here {key}, at generation {generation} of the VidraResource)")
    });
    behind(ctx, session, found.later > 0, || session.later_generations.total(), &example)
}

/// Notes what the target has found, and wakes who goes by that.
pub(super) fn note_later(ctx: &Context<'_>, session: &Session, found: &Generations) {
    let cluster = &ctx.key.cluster;
    let (before, total) = session.later_generations.note(ctx.key, found.later);
    if before > FEW && total <= FEW {
        ctx.hub.wake_targets(cluster);
    }
    if before > 0 && total == 0 {
        // It takes the annotation off that confirms the restore.
        ctx.hub.queue.add(Key::Cluster(cluster.clone()), Priority::Resync);
    }
}

/// Why a target that is being removed waits, if the hub is behind the member: what the other targets found says whether its
/// wish may be out of date.
pub(super) fn goes_behind(ctx: &Context<'_>, session: &Session) -> Option<Delivery> {
    if mutants::is(Mutant::LeavesBehind) {
        return None;
    }
    match behind(ctx, session, false, || session.later_generations.of_others(ctx.key), "")? {
        Delivery::Waiting { reason, message } => {
            session.later_generations.wait(ctx.key, false);
            Some(Delivery::TearingDown { reason, message })
        }
        held => Some(held),
    }
}

/// `total`: objects on the member from later declarations; `found`: some of them are this target's.
fn behind(
    ctx: &Context<'_>,
    session: &Session,
    found: bool,
    total: impl Fn() -> usize,
    example: &str,
) -> Option<Delivery> {
    let cluster = &ctx.key.cluster;
    let member = ctx.hub.catalog.member(cluster)?;
    let confirmed = member.annotations().get(CONFIRM).is_some_and(|word| word == CONFIRM_RESTORE);
    if confirmed {
        return None;
    }
    let awaited = match found || !session.later_generations.is_complete() {
        true => release_waiting(ctx, session),
        false => None,
    };
    if let Some(awaited) = awaited.filter(|_| !mutants::is(Mutant::WritesBeforeLooks)) {
        // What other namespaces have is nobody's business here.
        let awaited = match awaited.namespace == ctx.key.namespace {
            true => awaited.to_string(),
            false => "a VidraTarget of another namespace".to_owned(),
        };
        let message = format!(
            "nothing is written to {cluster} until all that the hub has there has been looked at, and {awaited} has not been yet"
        );
        return Some(Delivery::Waiting { reason: Reason::LooksFirst, message });
    }
    // Counted when all have looked: another one, beside this, may have told what it found only since.
    let total = total();
    if total <= FEW {
        return None;
    }
    let so = format!("on {cluster} were applied from later declarations than this hub has");
    let what = format!(
        "it seems to be restored from an older backup, and nothing is written there. Apply the later VidraResources, or \
         confirm that this hub's state is the right one: kubectl annotate membercluster {cluster} --overwrite \
         {CONFIRM}={CONFIRM_RESTORE}"
    );
    // The same words whichever target says so.
    ctx.hub.events.say(
        member.as_ref(),
        Severity::Warning,
        Reason::HubRestored,
        &format!("more than {FEW} objects {so}: {what}"),
    );
    let message = format!("{total} objects {so}{example}: {what}");
    Some(Delivery::Failed { reason: Reason::HubRestored, message, stalled: true })
}

/// This target was looked at, or cannot be.
pub(super) fn note_first_look(ctx: &Context<'_>, session: &Session) {
    if session.later_generations.note_looked(ctx.key) {
        release_waiting(ctx, session);
    }
}

/// This target cannot be looked at, for nobody knows what is wanted there: others wait for it no more.
pub(super) fn skip_first_look(ctx: &Context<'_>) {
    if let Some(session) = ctx.hub.session(&ctx.key.cluster) {
        note_first_look(ctx, &session);
    }
}

/// What is still to be looked at; after the last look those go on that wait for it.
fn release_waiting(ctx: &Context<'_>, session: &Session) -> Option<TargetKey> {
    let awaited = unlooked(ctx, session);
    if awaited.is_none() {
        for (key, is_new) in session.later_generations.complete() {
            // What somebody changes is not to wait behind repairs.
            let priority = if is_new { Priority::User } else { Priority::Resync };
            ctx.hub.queue.add(Key::Target(key), priority);
        }
    }
    awaited
}

/// What is to be kept on the member and has not been looked at in this session: a target, or one that is still to
/// be made, for a restore may bring back VidraResources alone.
fn unlooked(ctx: &Context<'_>, session: &Session) -> Option<TargetKey> {
    let is_awaited = |key: &TargetKey, target: &VidraTarget| {
        target.spec.desired == DesiredState::Present
            && !target.spec.suspend
            && target.metadata.deletion_timestamp.is_none()
            && !session.later_generations.has_looked(key)
    };
    ctx.hub.catalog.first_on(&ctx.key.cluster, is_awaited).or_else(|| unmade(ctx))
}

/// Its VidraResource has not been looked at since the member came.
fn unmade(ctx: &Context<'_>) -> Option<TargetKey> {
    let mut unmade = ctx.hub.catalog.unmade_on(&ctx.key.cluster);
    let since = ctx.hub.catalog.arrival(&ctx.key.cluster);
    let state = ctx.hub.state.lock();
    unmade.retain(|key| {
        state.resource(&key.resource_key()).and_then(|one| one.tried).is_none_or(|tried| tried < since)
    });
    drop(state);
    unmade.into_iter().find(|key| is_selected(&ctx.hub.catalog, key))
}

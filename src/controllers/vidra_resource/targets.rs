//! VidraTargets as a VidraResource has them: made, written where they differ, and made again where somebody deleted them.

use kube::ResourceExt;
use vidra_api::{
    MemberCluster, VidraTarget, VidraTargetSpec,
    labels::{APPROVE_REMOVAL, FINALIZER, HUB_LABEL},
};
use vidra_core::{
    mutants::{self, Mutant},
    status::Reason,
};

use super::{
    context::{Context, foreign_finalizer, has_finalizer},
    unreadable::is_target_unread,
};
use crate::{
    base::error::{CallError, Class},
    controllers::vidra_target::may_have_delivered,
    hub::state_ownership::{hub_labels, is_labelled_ours},
    workqueue::{Key, Priority},
};

/// Makes or writes the VidraTarget of a cluster. `target`: there is one.
pub(super) async fn place(
    ctx: &Context<'_>,
    cluster: &str,
    target: Option<&VidraTarget>,
    spec: VidraTargetSpec,
) -> Result<(), CallError> {
    match target {
        // Not made over.
        None if is_target_unread(ctx, cluster) => Ok(()),
        // It was selected when the reconcile began, and many are made in turn.
        None if !is_still_there(ctx, cluster, &spec) => Ok(()),
        None => make(ctx, cluster, spec).await,
        Some(target) => update(ctx, cluster, target, spec).await,
    }
}

/// The member for which this was made is there, and does not leave: nobody would take a target off it that is made now.
fn is_still_there(ctx: &Context<'_>, cluster: &str, spec: &VidraTargetSpec) -> bool {
    let is_it = |member: &MemberCluster| {
        member.metadata.deletion_timestamp.is_none() && member.uid() == spec.member_uid
    };
    mutants::is(Mutant::MadeForGone) || ctx.hub.catalog.member(cluster).is_some_and(|now| is_it(&now))
}

/// Makes a VidraTarget for which nothing was ever delivered.
async fn make(ctx: &Context<'_>, cluster: &str, spec: VidraTargetSpec) -> Result<(), CallError> {
    let (key, state) = (ctx.target_key(cluster), &ctx.hub.state);
    // Known before its first reconcile.
    state.lock().change_target(&key, |state| state.made = true);
    let made = create(ctx, cluster, spec).await;
    state.lock().change_target(&key, |state| match &made {
        // Meanwhile one of that name may have been forgotten, which had gone before.
        Ok(()) => (state.made, state.untold) = (true, false),
        // It may be there, and be another's.
        Err(error) => state.made &= error.is_unsure(),
    });
    made
}

async fn create(ctx: &Context<'_>, cluster: &str, spec: VidraTargetSpec) -> Result<(), CallError> {
    let mut target = VidraTarget::new(&ctx.target_key(cluster).target_name(), spec);
    target.metadata.namespace = Some(ctx.key.namespace.to_string());
    target.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    target.metadata.owner_references = ctx.owner_reference();
    target.metadata.labels = Some(hub_labels(&ctx.hub.identity.hub));
    ctx.hub.api.create_target(&target).await
}

/// Writes a VidraTarget's spec where it differs; makes it again where it was deleted by hand.
pub(super) async fn update(
    ctx: &Context<'_>,
    cluster: &str,
    target: &VidraTarget,
    spec: VidraTargetSpec,
) -> Result<(), CallError> {
    if target.metadata.deletion_timestamp.is_none() {
        return write(ctx, cluster, target, spec).await;
    }
    // Ours stays on it until it can be made again at once: the guard counts it as long as it is there.
    if foreign_finalizer(target).is_some() && !mutants::is(Mutant::GuardForgets) {
        let message = format!("VidraTarget {}", target.name_any());
        return Err(still_there(target, CallError { class: Class::Conflict, message }));
    }
    // It ends with its namespace, and so will the VidraResource: the teardown needs it then.
    if !ctx.hub.api.could_remake(target).await? {
        return Ok(());
    }
    // Nobody's wish: it goes, and comes back. Its inventories stay.
    let message = format!("VidraTarget {} was deleted by hand; it is made again", target.name_any());
    ctx.warn(Reason::TargetRestored, &message);
    let is_empty = has_nothing_there(ctx, cluster, target);
    ctx.hub.api.remove_target(&ctx.target_key(cluster), target).await?;
    let made = match is_empty {
        true => make(ctx, cluster, spec).await,
        false => create(ctx, cluster, spec).await,
    };
    made.map_err(|error| still_there(target, error))
}

/// A VidraTarget that is to be made again cannot be while it is on its way out.
fn still_there(target: &VidraTarget, error: CallError) -> CallError {
    let foreign = foreign_finalizer(target);
    match foreign.filter(|_| error.class == Class::Conflict) {
        Some(finalizer) => CallError {
            message: format!(
                "{}: it was deleted and waits for the finalizer {finalizer}; take that off if nobody else does",
                error.message
            ),
            ..error
        },
        None => error,
    }
}

/// Writes the newest of a VidraTarget, where its spec or what marks it as ours differs. The generation alone is no
/// difference: it goes along with the next one, so that an edit of who is targeted writes nothing to those who stay.
pub(super) async fn write(
    ctx: &Context<'_>,
    cluster: &str,
    target: &VidraTarget,
    spec: VidraTargetSpec,
) -> Result<(), CallError> {
    // The target loop writes statuses meanwhile: the newest is written to.
    let latest = ctx.hub.catalog.target(&ctx.target_key(cluster));
    let target = latest.as_deref().unwrap_or(target);
    let same = VidraTargetSpec { generation: target.spec.generation, ..spec.clone() } == target.spec;
    let marked = has_finalizer(target);
    let hub = &ctx.hub.identity.hub;
    let labelled = is_labelled_ours(target.labels(), hub);
    if !labelled && target.labels().contains_key(HUB_LABEL) && !mutants::is(Mutant::TakesAnyState) {
        // Another hub's: the watch that shows it ends the process.
        return Ok(());
    }
    // A person's word for the time without the VidraResource.
    let spoken = target.annotations().contains_key(APPROVE_REMOVAL);
    let owned = target.metadata.owner_references == ctx.owner_reference();
    if same && marked && labelled && owned && !spoken {
        return Ok(());
    }
    let mut next = VidraTarget { spec, ..target.clone() };
    if spoken {
        next.metadata.annotations.get_or_insert_default().remove(APPROVE_REMOVAL);
    }
    if !marked {
        next.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
    }
    next.metadata.labels.get_or_insert_default().extend(hub_labels(hub));
    next.metadata.owner_references = ctx.owner_reference();
    ctx.hub.api.replace_target(&next).await?;
    if !owned {
        // It may have waited for its VidraResource, and its spec is what it was.
        ctx.hub.queue.add(Key::Target(ctx.target_key(cluster)), Priority::User);
    }
    Ok(())
}

/// Nothing was ever delivered for it.
pub(super) fn has_nothing_there(ctx: &Context<'_>, cluster: &str, target: &VidraTarget) -> bool {
    let (key, catalog) = (ctx.target_key(cluster), &ctx.hub.catalog);
    let status = target.status.as_ref();
    // One that was restored without its status says nothing of what it has.
    let is_told = status.is_some_and(|status| status.observed_generation.is_some())
        || ctx.hub.state.lock().target(&key).is_some_and(|state| state.made);
    is_told
        && !may_have_delivered(ctx.hub, &key, target)
        && catalog.inventory(&key).is_empty()
        && catalog.unread_inventory(&key).is_none()
}

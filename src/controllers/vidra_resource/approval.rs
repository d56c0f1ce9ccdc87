//! A person's word for removals that are held: taken from the annotation into the VidraTargets that it is for, once.

use std::collections::BTreeSet;

use kube::ResourceExt;
use vidra_api::{VidraTargetSpec, labels::APPROVE_REMOVAL, target::DesiredState};
use vidra_core::{
    guard::{self, Approvals},
    mutants::{self, Mutant},
    status::Reason,
};

use super::context::{Context, Targets};
use crate::{base::error::CallError, controllers::approvals};

fn annotation<'a>(ctx: &Context<'a>) -> Option<&'a str> {
    ctx.resource.annotations().get(APPROVE_REMOVAL).map(String::as_str)
}

/// What the VidraResource's annotation approves.
pub(super) fn approvals<'a>(ctx: &Context<'a>) -> Approvals<'a> {
    approvals::valid(ctx.hub, &ctx.queue_key(), annotation(ctx))
}

/// What approves that this revision, in this namespace, drops most objects of a target; and how many drops were approved
/// before. `before` is what the target has been told: the word is for the generation in which it was first told so, and
/// stands while it is told nothing else.
pub(super) fn approval(
    ctx: &Context<'_>,
    (revision, namespace): (&str, &str),
    targets: &Targets,
    before: Option<&VidraTargetSpec>,
) -> (Option<String>, i32) {
    let is_same = |before: &&VidraTargetSpec| {
        before.revision == revision
            && (before.namespace == namespace || mutants::is(Mutant::WordMovesAlong))
            && before.desired == DesiredState::Present
    };
    let told = before.filter(is_same);
    let drops =
        told.map_or_else(|| approved_drops(targets, (revision, namespace)), |told| told.approved_drops);
    if let Some(word) = told.and_then(|told| told.approved_removal.clone()) {
        return (Some(word), drops);
    }
    let generation = told.map_or(ctx.generation(), |told| told.generation);
    let hash = guard::objects_hash(&ctx.uid(), generation, revision, namespace, drops);
    (guard::is_approved(&approvals(ctx), &hash).then_some(hash), drops)
}

/// How many drops were approved before this was declared. Of all targets the most: one word is for all members, of which
/// not all are told in one reconcile.
fn approved_drops(targets: &Targets, now: (&str, &str)) -> i32 {
    if mutants::is(Mutant::SameDropApproved) {
        return 0;
    }
    let drops = targets.values().map(|target| {
        let spec = &target.spec;
        // A word for its removal says nothing of its objects, and one for what is declared now is not used up.
        let is_before = (&*spec.revision, &*spec.namespace) != now;
        let is_drop = spec.desired == DesiredState::Present && spec.approved_removal.is_some() && is_before;
        spec.approved_drops.saturating_add(i32::from(is_drop))
    });
    drops.max().unwrap_or_default()
}

/// Takes off the VidraResource what its VidraTargets have taken over, so that it says nothing of a later removal. What
/// approves nothing, or was put back, stays, and is told once. `before`: they may be gone. `lost`: the word by which
/// targets were lost. A member that was made again and is selected for another namespace bears none: once its target is
/// for the member of now, the word has done its work.
pub(super) async fn use_up_approvals(
    ctx: &Context<'_>,
    before: &Targets,
    lost: Option<&str>,
) -> Result<(), CallError> {
    let key = ctx.queue_key();
    let Some(annotation) = annotation(ctx) else {
        approvals::idle(ctx.hub, &key, None);
        return Ok(());
    };
    let after = ctx.targets();
    let lost = lost.filter(|_| !after.values().any(|target| ctx.is_remade(target)));
    let in_use: BTreeSet<&str> = (before.values().chain(after.values()))
        .filter_map(|target| target.spec.approved_removal.as_deref())
        .chain(lost)
        .collect();
    if let Some(used) = approvals::to_use_up(ctx.hub, &key, annotation, &in_use) {
        let rest = used.rest.clone();
        ctx.hub.api.reannotate_resource(ctx.resource, APPROVE_REMOVAL, annotation, rest).await?;
        approvals::note_used(ctx.hub, &key, used);
        return Ok(());
    }
    // A target's word waits while the VidraResource itself is held.
    let uid = ctx.uid();
    let waits = |spec: &VidraTargetSpec| {
        let VidraTargetSpec { generation, revision, namespace, approved_drops, .. } = spec;
        guard::objects_hash(&uid, *generation, revision, namespace, *approved_drops)
    };
    let words = approvals(ctx);
    if after.values().any(|target| words.contains(&*waits(&target.spec))) {
        return Ok(());
    }
    if let Some(message) = approvals::idle(ctx.hub, &key, Some(annotation)) {
        ctx.warn(Reason::ApprovalIgnored, &message);
    }
    Ok(())
}

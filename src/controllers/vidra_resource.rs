//! The resource loop: from a VidraResource to its revision and its VidraTargets, and from their statuses
//! back to the VidraResource's.
//!
//! It alone writes VidraTargets' metadata and spec. A VidraTarget that was deleted while it is wanted is
//! let go and made again; its inventories stay valid.
//!
//! What is declared is delivered in four steps, each of which makes a value from those before: `observe` an
//! `Observation`, `plan` a `Plan`, `execute` writes them, and of all comes a `Status`, which `publish` writes.

mod approval;
mod complaints;
mod context;
mod crd_deletion;
mod execute;
mod feedback_rules;
mod ignore_rules;
mod left_behind;
mod observe;
mod orphans;
mod patience;
mod plan;
mod removal_guard;
mod restraint;
mod revision;
mod revision_gc;
mod status;
mod targets;
mod teardown;
mod unreadable;

use std::collections::BTreeSet;

use kube::ResourceExt;
use tokio::sync::OnceCell;
use vidra_api::{labels::RECONCILE_REQUESTED_AT, resource::REQUEST_MAX};
use vidra_core::{
    mutants::{self, Mutant},
    status::{Problem, Reason},
};

pub(super) use self::{revision::KeptRevision, revision_gc::RevisionUse};

use self::{
    approval::use_up_approvals,
    complaints::complaint,
    context::{Context, foreign_finalizer, has_finalizer},
    crd_deletion::crd_problem,
    execute::execute,
    observe::{Declaration, Observation, observe},
    plan::{plan, plan_teardown},
    revision::revision,
    status::{Status, publish, report, write_refusal},
    unreadable::is_any_target_unread,
};
use super::{
    Hub, RETRY_MOST, RETRY_RARELY, after_hub_error,
    write_refusal::{clear_failed_writes, count_failed_write},
};
use crate::{
    base::error::CallError,
    hub::catalog::Lack,
    workqueue::{Key, Priority, ResourceKey, Verdict},
};

/// One reconcile.
pub async fn reconcile(hub: &Hub, key: &ResourceKey) -> Verdict {
    let resource = match hub.catalog.find_resource(key) {
        Ok(resource) => resource,
        // Its targets tell it.
        Err(Lack::Unread) => return Verdict::Done(None),
        Err(Lack::Missing) => {
            hub.revisions.keep(key, &BTreeSet::new());
            if let Some(again) = orphans::release(hub, key).await {
                return again;
            }
            hub.state.lock().forget_resource(key);
            hub.queue.forget(&Key::Resource(key.clone()));
            return Verdict::Done(None);
        }
    };
    let ctx = &Context { hub, key, resource: &resource, ending: OnceCell::new() };
    // Who comes meanwhile may not have been seen.
    let arrivals = hub.catalog.arrivals();
    let verdict = run(ctx).await;
    hub.state.lock().resource_mut(key).tried = Some(arrivals);
    match verdict {
        Ok(Verdict::Done(_)) if !clear_failed_writes(hub, &ctx.queue_key()) => Verdict::Backoff(RETRY_MOST),
        Ok(verdict) => verdict,
        Err(error) => tell_failure(ctx, &error).await,
    }
}

/// What is to become of the VidraResource now: it goes, rests, or is delivered.
async fn run(ctx: &Context<'_>) -> Result<Verdict, CallError> {
    if ctx.is_deleted() {
        return tear_down(ctx).await;
    }
    let handled = honour_request(ctx);
    if ctx.resource.spec.suspend {
        return match add_finalizer(ctx).await? {
            true => deliver(ctx, Declaration::Rest, handled).await,
            false => Ok(Verdict::Done(None)),
        };
    }
    // The revision is owned by the VidraResource and needs no mark on it; the targets do.
    let (has_finalizer, revision) = match tokio::join!(add_finalizer(ctx), revision(ctx)) {
        (Ok(has_finalizer), Ok(revision)) => (has_finalizer, revision),
        // Perhaps there is no room for the mark either, and without a target it is not needed.
        (Err(_), Ok(Err(error))) if error.is_inline_too_large() && ctx.targets().is_empty() => {
            (true, Err(error))
        }
        (Err(error), _) | (_, Err(error)) => {
            let observation = observe(ctx, Declaration::Rest);
            // What of this fails is tried again with the rest.
            let _ = execute(ctx, &observation, plan(ctx, &observation).waves).await;
            return Err(error);
        }
    };
    if !has_finalizer {
        return Ok(Verdict::Done(None));
    }
    if revision.is_err() {
        recall(ctx).await;
    }
    deliver(ctx, revision.map_or_else(Declaration::Invalid, Declaration::Revision), handled).await
}

/// Has the last revision that could be read in memory: targets that prune ask whether it declares what they drop.
async fn recall(ctx: &Context<'_>) {
    let Some(last) = ctx.hub.last_revision(ctx.key, ctx.resource) else { return };
    if ctx.hub.revisions.known(ctx.key, &last).is_none() {
        // Until it can be read, it may declare anything.
        let _ = ctx.hub.revisions.get(&ctx.hub.api, ctx.key, &last).await;
    }
}

/// Brings the VidraTargets to what is declared, unless something holds that.
async fn deliver(
    ctx: &Context<'_>,
    declaration: Declaration,
    handled: Option<String>,
) -> Result<Verdict, CallError> {
    let observation = observe(ctx, declaration);
    let plan = plan(ctx, &observation);
    if let Some(held) = &plan.held {
        ctx.say(held);
    }
    let is_revision = matches!(observation.declaration, Declaration::Revision(_));
    let refusal = match execute(ctx, &observation, plan.waves).await {
        Ok(refusal) => refusal,
        Err(error) => {
            // What holds a revision is told whatever fails.
            if is_revision && plan.held.is_some() {
                publish(ctx, status(ctx, &observation, plan.held, None, handled)).await?;
            }
            return Err(error);
        }
    };
    let status = status(ctx, &observation, plan.held, refusal.as_ref(), handled);
    if is_revision && refusal.is_none() {
        use_up_approvals(ctx, &observation.targets, plan.approval.as_deref()).await?;
    }
    publish(ctx, status).await
}

/// What a delivery is told as. `held`: why nothing new is delivered.
fn status(
    ctx: &Context<'_>,
    observation: &Observation,
    held: Option<Problem>,
    refusal: Option<&Problem>,
    handled: Option<String>,
) -> Status {
    let revision = match &observation.declaration {
        Declaration::Revision(revision) => Some(revision),
        Declaration::Rest | Declaration::Invalid(_) => None,
    };
    let complaint = || {
        let complaint = complaint(ctx, revision?, &observation.selection);
        complaint.inspect(|complaint| ctx.say(complaint))
    };
    // Nothing tells when others have made room, a right was given, or the hub's API takes what it refused.
    let again = match &observation.declaration {
        Declaration::Invalid(error) if error.is_full() => Some(RETRY_RARELY),
        Declaration::Invalid(error) if error.is_forbidden() => Some(RETRY_MOST),
        _ => refusal.map(|_| RETRY_MOST),
    };
    Status {
        revision: revision.map(|revision| revision.name.clone()),
        problem: held.or_else(|| refusal.cloned()).or_else(complaint),
        handled,
        feedback: revision.map(|revision| feedback_rules::complaint(ctx, revision)),
        again,
    }
}

/// It is deleted: its targets go first, then its finalizer.
async fn tear_down(ctx: &Context<'_>) -> Result<Verdict, CallError> {
    let observation = observe(ctx, Declaration::Rest);
    let refusal = execute(ctx, &observation, plan_teardown(&observation).waves).await?;
    if refusal.is_some() {
        report(ctx, Status::of(refusal)).await?;
        return Ok(Verdict::Backoff(RETRY_MOST));
    }
    // One that cannot be read is there all the same.
    if !ctx.targets().is_empty() || is_any_target_unread(ctx) {
        let problem = crd_problem(ctx).inspect(|problem| ctx.say(problem));
        return report(ctx, Status::of(problem)).await;
    }
    if has_finalizer(ctx.resource) {
        ctx.hub.api.remove_resource_finalizer(ctx.resource).await?;
    }
    let Some(other) = foreign_finalizer(ctx.resource) else {
        return Ok(Verdict::Done(None));
    };
    let message = format!("the hub has finished; deletion waits for the finalizer {other}");
    report(ctx, Status::of(Some(Problem { reason: Reason::Terminating, message, stalled: false }))).await
}

/// A write failed without which the reconcile could not go on.
async fn tell_failure(ctx: &Context<'_>, error: &CallError) -> Verdict {
    let key = ctx.queue_key();
    if let Some(advice) = count_failed_write(ctx.hub, &key, error) {
        let problem = write_refusal(&advice);
        ctx.say(&problem);
        // The Event stands alone where the status is what is refused.
        if let Err(error) = report(ctx, Status::of(Some(problem))).await {
            tracing::info!(%error, "the hub's API does not take the status either");
        }
    }
    after_hub_error(error)
}

/// Puts our finalizer on it. Returns whether it is still there, and is to stay.
async fn add_finalizer(ctx: &Context<'_>) -> Result<bool, CallError> {
    if has_finalizer(ctx.resource) {
        return Ok(true);
    }
    ctx.hub.api.add_resource_finalizer(ctx.resource).await?;
    Ok(ctx.hub.catalog.resource(ctx.key).is_some_and(|now| {
        let same = now.metadata.uid == ctx.resource.metadata.uid;
        same && has_finalizer(&*now) && now.metadata.deletion_timestamp.is_none()
    }))
}

/// A request to reconcile now, by annotation: every target looks again. Returns the last request that is handled: all targets
/// have looked since, and their statuses tell what they found.
fn honour_request(ctx: &Context<'_>) -> Option<String> {
    let asked = vidra_api::clip(ctx.resource.annotations().get(RECONCILE_REQUESTED_AT)?, REQUEST_MAX);
    let handled = ctx.resource.status.as_ref().and_then(|status| status.last_handled_reconcile_at.clone());
    let targets = ctx.targets();
    let mut state = ctx.hub.state.lock();
    if handled.as_ref() != Some(&asked) && state.resource_mut(ctx.key).request.as_ref() != Some(&asked) {
        state.resource_mut(ctx.key).request = Some(asked.clone());
        for cluster in targets.keys() {
            let key = ctx.target_key(cluster);
            state.ask_again(&key, &asked);
            ctx.hub.queue.add(Key::Target(key), Priority::User);
        }
    }
    let owes =
        |cluster: &String| state.target(&ctx.target_key(cluster)).is_some_and(|state| state.owes_look());
    if targets.keys().any(owes) && !mutants::is(Mutant::RequestHandledAtOnce) { handled } else { Some(asked) }
}

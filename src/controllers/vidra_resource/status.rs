//! The last step: the VidraResource's status, the roll-up of its targets'.

use std::time::Duration;

use vidra_api::{
    TargetState, VidraResource, VidraResourceStatus, VidraTarget,
    condition::{READY, STALLED},
    find,
    target::DesiredState,
};
use vidra_core::{
    mutants::{self, Mutant},
    status::{
        Problem, Reason, ResourceFacts, Stall, StatusReason, TargetView, first_drift, going, resource_status,
    },
};

use super::{
    context::Context,
    crd_deletion::is_undecided,
    feedback_rules, ignore_rules,
    observe::select,
    patience::soonest_end,
    revision_gc::collect_revisions,
    unreadable::{unread_problem, unread_views},
};
use crate::{
    base::error::CallError,
    controllers::{
        RETRY_MOST, after_hub_error, log_ready, status_fallback,
        status_throttle::StatusChange,
        write_refusal::{advised, is_refusal},
    },
    workqueue::Verdict,
};

/// What a reconcile came to.
#[derive(Default)]
pub(super) struct Status {
    /// The revision that is declared; `None`: what is declared is none, or was not read.
    pub(super) revision: Option<String>,
    pub(super) problem: Option<Problem>,
    /// The request to reconcile that was acted on.
    pub(super) handled: Option<String>,
    /// What of its rules of feedback is amiss; `None`: what is declared was not read.
    pub(super) feedback: Option<Option<(Reason, String)>>,
    /// Nothing tells when to try again: after a back-off of at most this.
    pub(super) again: Option<Duration>,
}

impl Status {
    /// Of one to which nothing is delivered.
    pub(super) fn of(problem: Option<Problem>) -> Self {
        Self { problem, ..Self::default() }
    }
}

/// Writes the status; what nobody has any more goes after that.
pub(super) async fn publish(ctx: &Context<'_>, status: Status) -> Result<Verdict, CallError> {
    let (revision, again) = (status.revision.clone(), status.again);
    let verdict = report(ctx, status).await?;
    if let Err(error) = collect_revisions(ctx, revision.as_deref()).await {
        // That is no matter of the status.
        if is_refusal(&error) {
            ctx.say(&write_refusal(&advised(&error)));
        }
        return Ok(after_hub_error(&error));
    }
    Ok(again.map_or(verdict, Verdict::Backoff))
}

/// The problem that says that the hub's API refuses a write.
pub(super) fn write_refusal(advice: &str) -> Problem {
    let message = format!("the hub's API refuses a write for this VidraResource: {advice}");
    tracing::warn!("{message}");
    Problem { reason: Reason::WriteRefused, message, stalled: true }
}

/// Writes the status that follows from the targets'.
pub(super) async fn report(ctx: &Context<'_>, status: Status) -> Result<Verdict, CallError> {
    let targets = ctx.targets();
    let views = targets.iter().map(|(cluster, target)| view(cluster, target, refusal_of(ctx, cluster)));
    let targets: Vec<_> = views.chain(unread_views(ctx)).collect();
    // The newest is written to: an answer that was folded meanwhile would be refused, and what this reconcile has noted in
    // the status stays.
    let latest = ctx.hub.catalog.resource(ctx.key);
    let resource = latest.as_deref().unwrap_or(ctx.resource);
    // Another one, which is reconciled by itself.
    if resource.metadata.uid != ctx.resource.metadata.uid && !mutants::is(Mutant::SuccessorReported) {
        return Ok(Verdict::Done(None));
    }
    let queue_key = ctx.queue_key();
    let told = status_fallback::last_written(ctx.hub, &queue_key, resource.status.as_ref());
    let none = VidraResourceStatus::default();
    let before = told.as_ref().unwrap_or(&none);
    let unread = || unread_problem(ctx).inspect(|problem| ctx.say(problem));
    let readiness = ctx.resource.spec.readiness.as_ref();
    let facts = ResourceFacts {
        generation: ctx.generation(),
        revision: status.revision.as_deref().or(before.revision.as_deref()),
        problem: status.problem.or_else(unread),
        deleting: ctx.is_deleted(),
        suspended: ctx.resource.spec.suspend,
        targets: &targets,
        max_unreachable: readiness.and_then(|readiness| readiness.max_unreachable.as_ref()),
        closed: status.revision.as_ref().map_or(0, |_| closed_members(ctx, &targets)),
        handled: status.handled,
        now: ctx.hub.clock.time(),
    };
    let feedback = status.feedback;
    let mut status = resource_status(before, &facts);
    ignore_rules::warn(ctx, &mut status);
    feedback_rules::warn(ctx, feedback, &mut status);
    let is_passing = || {
        find(&status.conditions, READY).is_some_and(|ready| {
            matches!(Reason::parse(&ready.reason), Some(Reason::Progressing | Reason::TargetsWaiting))
        })
    };
    let news = match told.as_ref() == Some(&status) {
        true => StatusChange::Nothing,
        false if is_passing() => StatusChange::Transient,
        false => StatusChange::Durable,
    };
    if ctx.hub.write_now_or_requeue(&queue_key, news) {
        log_ready(Some(&before.conditions), &status.conditions);
        write_status(ctx, resource, status).await?;
    }
    // No watch shows what a person writes on a CRD.
    let waiting = (facts.deleting || is_undecided(ctx)).then_some(RETRY_MOST);
    Ok(Verdict::Done(waiting.into_iter().chain(soonest_end(ctx)).min()))
}

/// How many members match and do not allow the namespace, beside those where something of it rests.
fn closed_members(ctx: &Context<'_>, targets: &[TargetView]) -> usize {
    let rests = |cluster: &String| targets.iter().any(|target| target.cluster == *cluster);
    select(ctx).closed.iter().filter(|cluster| !rests(cluster)).count()
}

fn refusal_of(ctx: &Context<'_>, cluster: &str) -> Option<String> {
    ctx.hub.state.lock().target(&ctx.target_key(cluster)).and_then(|state| state.refused.clone())
}

/// Writes a status, without its lists where the whole is not taken.
pub(super) async fn write_status(
    ctx: &Context<'_>,
    resource: &VidraResource,
    status: VidraResourceStatus,
) -> Result<(), CallError> {
    let put = |status| ctx.hub.api.resource_status(resource, status);
    let key = ctx.queue_key();
    if let Some(error) = status_fallback::put(ctx.hub, &key, resource.status.as_ref(), status, put).await? {
        let message = status_fallback::shortened("this VidraResource", ctx.key, &error);
        ctx.warn(Reason::StatusShortened, &message);
    }
    Ok(())
}

/// `refused`: writes for it are, among them perhaps that of its own status.
fn view(cluster: &str, target: &VidraTarget, refused: Option<String>) -> TargetView {
    let view = status_view(cluster, target);
    let Some(message) = refused else { return view };
    TargetView {
        state: Some(TargetState::Failed),
        stalled: Some(Stall { reason: Reason::WriteRefused.into(), message: message.clone() }),
        reason: Some(Reason::WriteRefused.into()),
        message: Some(message),
        ..view
    }
}

fn status_view(cluster: &str, target: &VidraTarget) -> TargetView {
    let status = target.status.clone().unwrap_or_default();
    // A status of an earlier spec says nothing of this one.
    let current = status.observed_generation == target.metadata.generation;
    TargetView {
        cluster: cluster.to_owned(),
        state: status.state.filter(|_| current),
        drift: status.drift,
        stalled: find(&status.conditions, STALLED)
            .filter(|stalled| current && stalled.status == "True")
            .map(|stalled| Stall { reason: stalled.reason.clone().into(), message: stalled.message.clone() }),
        first_drift: first_drift(&status.changes),
        going: going(target),
        reason: status.reason.filter(|_| current).map(StatusReason::from),
        message: status.message.filter(|_| current),
        revision: status.revision,
        // The same revision in another namespace, or with other inputs of overrides, is something else.
        ready_revision: status.ready_revision.filter(|_| target.is_delivered()),
        since: status.since,
        leaving: target.spec.desired != DesiredState::Present,
        objects: status.objects,
    }
}

//! The third step: the VidraTargets are written, each whatever becomes of the others.

use vidra_core::{
    first_of::more,
    mutants::{self, Mutant},
    status::{Problem, Reason},
};

use super::{
    context::{Context, Written},
    left_behind::forget,
    observe::{Declaration, Observation},
    plan::{Goal, Task},
    restraint::rest,
    targets::place,
    teardown::{Step, send_away, withdraw},
};
use crate::{
    base::error::CallError,
    controllers::write_refusal::{advised, fails_often, is_refusal},
};

/// Performs the waves of a plan. Returns what of it the hub's API refuses, by a quota or a policy, or fails to write again
/// and again.
///
/// # Errors
/// The first write that failed, where none was refused: all are tried again.
pub(super) async fn execute(
    ctx: &Context<'_>,
    observation: &Observation,
    waves: Vec<Vec<Task>>,
) -> Result<Option<Problem>, CallError> {
    let mut written = Written::new();
    for wave in waves {
        let places = wave.iter().any(|task| matches!(task.goal, Goal::Place { .. }));
        written.extend(perform(ctx, wave).await);
        if places {
            make_second_status_writer(ctx, observation).await;
        }
    }
    let refusal = refused_targets(ctx, written)?;
    if let Some(refusal) = &refusal {
        ctx.say(refusal);
    }
    Ok(refusal)
}

/// Takes these tasks side by side, and then tells those targets that are to be forgotten.
async fn perform(ctx: &Context<'_>, wave: Vec<Task>) -> Written {
    let steps = wave.into_iter().map(|Task { cluster, goal }| async move {
        let step = take(ctx, &cluster, goal).await;
        (cluster, step)
    });
    let (mut written, mut forgotten) = (Written::new(), Vec::new());
    for (cluster, step) in ctx.side_by_side(steps.collect()).await {
        match step {
            Ok(Step::Done) => written.push((cluster, Ok(()))),
            Ok(Step::Forget(next)) => forgotten.push((cluster, *next)),
            Err(error) => written.push((cluster, Err(error))),
        }
    }
    written.extend(forget(ctx, &forgotten).await);
    written
}

async fn take(ctx: &Context<'_>, cluster: &str, goal: Goal) -> Result<Step, CallError> {
    match goal {
        Goal::Place { target, spec } => {
            place(ctx, cluster, target.as_deref(), *spec).await.map(|()| Step::Done)
        }
        Goal::Rest { target, is_selected } => rest(ctx, cluster, &target, is_selected).await,
        Goal::Leave { target, approval } => send_away(ctx, cluster, &target, approval.as_deref()).await,
        Goal::Withdraw { target } => withdraw(ctx, cluster, &target).await,
    }
}

/// What of these writes is refused. Others are tried again.
fn refused_targets(ctx: &Context<'_>, written: Written) -> Result<Option<Problem>, CallError> {
    let often = fails_often(ctx.hub, &ctx.queue_key());
    let is_told = |error: &CallError| (is_refusal(error) || often) && !mutants::is(Mutant::RefusalEndsPass);
    let failed = written.into_iter().filter_map(|(cluster, written)| Some((cluster, written.err()?)));
    let (refused, other): (Vec<_>, Vec<_>) = failed.partition(|(_, error)| is_told(error));
    let Some((cluster, error)) = refused.first() else {
        return other.into_iter().next().map_or(Ok(None), |(_, error)| Err(error));
    };
    let more = more(refused.len() - 1, |more| format!(", and {more} more"));
    let message = format!(
        "the hub's API refuses to write VidraTarget {}{more}: {}",
        ctx.target_key(cluster).target_name(),
        advised(error),
    );
    Ok(Some(Problem { reason: Reason::TargetRefused, message, stalled: true }))
}

/// The mistake [`Mutant::SecondStatusWriter`]; else nothing.
async fn make_second_status_writer(ctx: &Context<'_>, observation: &Observation) {
    if !mutants::is(Mutant::SecondStatusWriter) {
        return;
    }
    let Declaration::Revision(revision) = &observation.declaration else { return };
    for (cluster, target) in ctx.targets() {
        let before = observation.targets.get(&cluster);
        if before.is_some_and(|before| before.spec.revision != revision.name) {
            let mut status = target.status.clone().unwrap_or_default();
            status.state = Some(vidra_api::TargetState::Progressing);
            let _ = ctx.hub.api.target_status(&target, status).await;
        }
    }
}

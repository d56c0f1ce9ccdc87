//! The end of a pass: what it found and did is told. What drifts while that is written is repaired beside it.

use std::time::Duration;

use vidra_api::RemovingObjects;
use vidra_core::{
    health::HealthStatus,
    mutants::{self, Mutant},
    object::ObjectKey,
    plan::{Action, Effect, Inventory, Plan, Wait, Why},
    status::{Delivery, UNDER_WAY},
};

use super::{
    context::Context,
    drifting::{find_drift, key_of},
    fights::conclude_drift,
    follow::lost_a_kind,
    handover::{asks_again, kept, staying},
    lately::Lately,
    look::Scope,
    outcome::{changed, settle, written},
    perform::{Done, account_all, send},
    plan::TargetPlan,
    refused::is_refused,
    report::{conclude, count_corrections},
    restored::{known_generation, note_later},
    result::Report,
    waiting::{awaited, complaint},
};
use crate::{
    base::error::CallError,
    member::{effects::Actor, session::Session},
    queue::Verdict,
    reconcile::RETRY_MOST,
};

/// What the plan was to remove and the inventory still has, with why.
fn still_there(plan: &Plan, inventory: &Inventory, report: &mut Report) -> Option<RemovingObjects> {
    let removed = plan.removals.iter().flatten().filter(|effect| !plan.stays.contains_key(&effect.key));
    let left = removed.filter(|effect| inventory.contains_key(&effect.key)).count();
    if left == 0 {
        return kept(plan, inventory);
    }
    let left = left + staying(plan, inventory).count();
    let told = report.removing.take().unwrap_or_else(|| match &report.delivery {
        Some(Delivery::Failed { reason, message, .. } | Delivery::Waiting { reason, message }) => {
            RemovingObjects { reason: (*reason).to_owned(), message: Some(message.clone()), objects: 0 }
        }
        _ => RemovingObjects { reason: UNDER_WAY.to_owned(), ..RemovingObjects::default() },
    });
    Some(RemovingObjects { objects: left as i64, ..told })
}

/// What is told of an object that does not keep what it was applied as.
const MARKS_TAKEN: &str = "something in the member, such as a mutating webhook, takes the hub's annotations off it each time it is applied; exempt it there";

/// It was applied, and what the server answered does not bear the stamp of that: the next pass would apply it again.
fn loses_marks(scope: &Scope<'_>, effect: &Effect) -> bool {
    let Scope { session, owner, desired, .. } = *scope;
    let declared = desired.wants.get(&effect.key).map(|want| want.hash);
    matches!(effect.action, Action::Apply { why: Why::Changed, .. })
        && session
            .records
            .view(&owner.hash, &effect.key, desired)
            .is_some_and(|live| live.applied != declared)
        && !mutants::is(Mutant::UnmarkedAtOnce)
}

/// What of a plan's effects others wait for.
fn gates(plan: &Plan) -> impl Iterator<Item = &Effect> {
    let is_gate = |key: &ObjectKey| plan.waits.iter().filter_map(Wait::gate).any(|gate| gate == key);
    plan.stages.iter().flatten().filter(move |effect| is_gate(&effect.key))
}

fn is_current(session: &Session, key: &ObjectKey) -> bool {
    session.records.health(key).is_some_and(|(health, _)| health == HealthStatus::Current)
}

/// Tells what a pass came to. `done` is what it did by `plan`.
pub(super) async fn close(
    scope: &Scope<'_>,
    actor: &Actor<'_>,
    mut plan: TargetPlan,
    mut lately: Lately<'_>,
    done: Done,
) -> Result<Verdict, CallError> {
    let Scope { ctx, session, owner, desired, blind, .. } = *scope;
    let Done { mut report, mut inventory } = done;
    loop {
        lately.hand_over(&mut plan);
        if report.withdrawn || lost_a_kind(session, desired, &report).await {
            return again(ctx, &mut report).await;
        }
        find_drift(ctx, session, owner, desired, &plan.suspects, &mut report);
        conclude_drift(ctx, session, &plan.causes, desired, &report);
        let unmarked = gates(&plan.effects).find(|effect| loses_marks(scope, effect));
        // An answer is no event: nothing else would tell that what was waited for, and was applied just now, is
        // there.
        let is_there = |gate: &Effect| is_current(session, &gate.key);
        if report.undone == 0 && unmarked.is_none() && gates(&plan.effects).any(is_there) {
            return again(ctx, &mut report).await;
        }
        if report.delivery.is_none() {
            let notes = |key: &ObjectKey| match unmarked.is_some_and(|effect| effect.key == *key) {
                true => Some(MARKS_TAKEN.to_owned()),
                false => session.records.health(key).and_then(|(_, note)| note),
            };
            report.delivery = complaint(&plan.effects, desired, blind, &session.kinds(), notes);
            report.awaited = awaited(&plan.effects, desired);
        }
        // Nothing tells when what is waited for is current or keeps its marks, a kind comes to be served, or may be
        // seen.
        let untold = !ctx.follows_events() && plan.effects.waits.iter().any(|wait| wait.gate().is_some());
        if untold || unmarked.is_some() || !desired.unresolved.is_empty() || blind.passes() {
            report.look_again(Verdict::Retry(RETRY_MOST));
        }
        let is_found = |key: &ObjectKey| report.found.iter().any(|change| key_of(change) == *key);
        report.compared = blind.is_empty() && report.unverified.iter().all(is_found);
        report.removing = still_there(&plan.effects, &inventory, &mut report);
        report.applied_generation = applied_generation(scope, plan.generation);
        // Where something is amiss the next pass takes care of it first.
        let is_well = report.delivery.is_none() && report.verdict.is_none();
        let delivery = report.delivery.take().unwrap_or(Delivery::Applied);
        let told = conclude_and_settle(scope, delivery, !plan.effects.removals.is_empty(), &mut report);
        let lately_too = is_well.then_some(&mut lately);
        let (mended, told) = send(actor, &[], &mut inventory, lately_too, told).await;
        if mended.is_empty() {
            return Ok(report.verdict.or_else(|| asks_again(&plan.effects)).unwrap_or(told?));
        }
        let written = written(ctx, &scope.wants);
        report = Report::default();
        account_all(ctx, actor, mended, &mut inventory, &mut report);
        report.unwritten = changed(ctx, &written, &inventory);
    }
}

/// The highest generation of the VidraResource among the live objects; `seen`: before the pass applied anything.
fn applied_generation(scope: &Scope<'_>, seen: i64) -> i64 {
    let Scope { ctx, session, owner, desired, .. } = *scope;
    if seen <= ctx.target.spec.generation {
        return seen;
    }
    // What the pass has applied is from no later declaration any more, and nothing else tells of that.
    let found = session.records.generations(&owner.hash, desired, known_generation(ctx));
    note_later(ctx, session, &found);
    found.highest
}

/// Writes the status and what became of the inventory; mostly the status first, for which people wait.
async fn conclude_and_settle(
    scope: &Scope<'_>,
    delivery: Delivery,
    removes: bool,
    report: &mut Report,
) -> Result<Verdict, CallError> {
    let ctx = scope.ctx;
    if removes || is_refused(ctx) {
        // What is gone and still in the inventory would be taken for what is to go, after a crash. And a status does
        // not go to and fro with each try of an inventory that is refused.
        settle(ctx, report).await?;
    }
    let concluded = conclude(ctx, delivery, scope.desired, Some(scope.session), report).await;
    settle(ctx, report).await?;
    concluded
}

/// What the pass did is kept, and it begins again at once.
pub(super) async fn again(ctx: &Context<'_>, report: &mut Report) -> Result<Verdict, CallError> {
    count_corrections(ctx, report);
    settle(ctx, report).await?;
    Ok(Verdict::Done(Some(Duration::ZERO)))
}

//! The end of a reconcile: what it found and did becomes a status, and is written with what became of the inventory. What
//! drifts meanwhile is repaired beside that.

use std::{mem, time::Duration};

use vidra_api::{Change, DriftPolicy, RemovingObjects};
use vidra_core::{
    directives::ApplyMode,
    mutants::{self, Mutant},
    object::ObjectKey,
    plan::{Action, Effect, Inventory, Plan, Wait, Why, is_settled},
    status::{Awaited, Delivery, Reason},
};

use super::{
    blockers::{awaited, complaint},
    cause::{self, explained},
    concurrent_repair::ConcurrentRepair,
    contention::conclude_drift,
    context::Context,
    drift::{DriftReport, find_drift, key_of},
    execute::send,
    execution::{Execution, account_all},
    handover::{self, asks_again, retained},
    hub_restore::{known_generation, note_later},
    inventory::{InventoryChange, current_inventory},
    observe::Scope,
    plan::TargetPlan,
    requeue::{Requeue, Retry},
    status::{Status, count_corrections, publish_with_inventory},
    visibility::lost_a_kind,
    write_refusal::is_refused,
};
use crate::{base::error::CallError, member::apply::Executor};

/// What the plan was to remove and the inventory still has, with why.
fn removing_objects(plan: &Plan, execution: &mut Execution) -> Option<RemovingObjects> {
    let inventory = &execution.inventory;
    let removed = plan.removals.iter().flatten().filter(|effect| !plan.stays.contains_key(&effect.key));
    let left = removed.filter(|effect| inventory.contains_key(&effect.key)).count();
    if left == 0 {
        return handover::removing_objects(plan, inventory);
    }
    let left = left + retained(plan, inventory).count();
    let told = execution.removing.take().unwrap_or_else(|| match &execution.delivery {
        Some(Delivery::Failed { reason, message, .. } | Delivery::Waiting { reason, message }) => {
            RemovingObjects { reason: reason.to_string(), message: Some(message.clone()), objects: 0 }
        }
        _ => RemovingObjects { reason: Reason::Removing.to_string(), ..RemovingObjects::default() },
    });
    Some(RemovingObjects { objects: left as i64, ..told })
}

/// What is told of an object that does not keep what it was applied as.
const MARKS_TAKEN: &str = "something in the member, such as a mutating webhook, takes the hub's annotations off it each time it is applied; exempt it there";

/// It was applied, and what the server answered does not bear the stamp of that: the next reconcile would apply it again.
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

/// What waits for an object may go on: it is seen to be well, or no watch shows it and a read has found it there.
fn is_there(scope: &Scope<'_>, inventory: &Inventory, key: &ObjectKey) -> bool {
    let Scope { session, owner, desired, .. } = *scope;
    let want = desired.wants.get(key);
    let found = || want.zip(inventory.get(key)).is_some_and(|(want, held)| is_settled(want, held));
    // Somebody else's is there however it is, where one is wanted only if there is none.
    let is_anothers = || {
        want.is_some_and(|want| want.directives.apply == ApplyMode::IfAbsent)
            && !session.records.is_applied_for(key, &owner.hash)
    };
    let is_unseen = session.records.uid(key).is_none();
    session.records.opens(&owner.hash, key) || (is_unseen || is_anothers()) && found()
}

/// Tells what a reconcile came to: what was done by `plan`, and what became of the inventory.
pub(super) async fn finish(
    scope: &Scope<'_>,
    executor: &Executor<'_>,
    mut plan: TargetPlan,
    (mut execution, mut change): (Execution, InventoryChange),
    mut repair: ConcurrentRepair<'_>,
) -> Result<Requeue, CallError> {
    let Scope { ctx, session, desired, .. } = *scope;
    loop {
        repair.hand_over(&mut plan);
        if execution.withdrawn || lost_a_kind(session, desired, execution.delivery.as_ref()).await {
            return settle_and_requeue(ctx, &execution.corrections, &mut change).await;
        }
        let drift = find_drift(ctx, executor, (&plan.suspects, &execution.unverified), &change);
        conclude_drift(ctx, executor, &plan.causes, &execution, &drift);
        let effects = &plan.effects;
        let unmarked = gates(effects).find(|effect| loses_marks(scope, effect));
        // An answer is no event: nothing else would tell that what was waited for, and was applied just now, is
        // there.
        let is_there = |gate: &Effect| is_there(scope, &execution.inventory, &gate.key);
        if execution.failed_effects == 0 && unmarked.is_none() && gates(effects).any(is_there) {
            return settle_and_requeue(ctx, &execution.corrections, &mut change).await;
        }
        let awaited = note_blockers(scope, effects, unmarked, &mut execution);
        // Where something is amiss the next reconcile takes care of it first.
        let is_well = execution.delivery.is_none() && execution.requeue.is_none();
        let status = status(scope, &plan, drift, awaited, &mut execution);
        let publication = publish_and_settle(scope, status, !effects.removals.is_empty(), &mut change);
        let beside = is_well.then_some(&mut repair);
        let (corrected, published) = send(executor, &[], &mut execution.inventory, beside, publication).await;
        if corrected.is_empty() {
            let late_in = published?;
            let asked = execution.requeue.or_else(|| asks_again(effects));
            return Ok(asked.unwrap_or_else(|| Requeue::at_interval(ctx.interval(), late_in)));
        }
        let written = current_inventory(ctx, &scope.wants);
        execution = Execution::of(execution.inventory);
        account_all(ctx, executor, corrected, &mut execution);
        change = InventoryChange::between(ctx, &written, &execution.inventory);
    }
}

/// What keeps the plan from being everything, where nothing failed, and when to look at that again; what is awaited.
/// `unmarked`: the effect whose object loses the hub's marks.
fn note_blockers(
    scope: &Scope<'_>,
    plan: &Plan,
    unmarked: Option<&Effect>,
    execution: &mut Execution,
) -> Option<Awaited> {
    let Scope { ctx, session, owner, desired, blind, .. } = *scope;
    let mut waits_for = None;
    if execution.delivery.is_none() {
        let notes = |key: &ObjectKey| match unmarked.is_some_and(|effect| effect.key == *key) {
            true => Some(MARKS_TAKEN.to_owned()),
            false => {
                let (status, note) = session.records.health(&owner.hash, key)?;
                explained(&cause::known(ctx), key, (status, note.as_deref()))
            }
        };
        execution.delivery = complaint(plan, desired, blind, &session.kinds(), notes);
        waits_for = awaited(plan, desired, blind);
    }
    // Nothing tells when what is waited for is current, is gone or keeps its marks, a kind comes to be served, or may be
    // seen.
    let untold = !ctx.follows_events() && !plan.waits.is_empty();
    if untold || unmarked.is_some() || !desired.unresolved.is_empty() || blind.passes() {
        execution.look_again(Requeue::Retry(Retry::Soon));
    }
    waits_for
}

/// Makes the status of an execution. One that nothing kept from its end is `Delivery::Applied`.
fn status(
    scope: &Scope<'_>,
    plan: &TargetPlan,
    drift: DriftReport,
    awaited: Option<Awaited>,
    execution: &mut Execution,
) -> Status {
    let is_found = |key: &ObjectKey| drift.changes.iter().any(|change| key_of(change) == *key);
    let seen = scope.blind.is_empty();
    let compared = seen && execution.unverified.iter().all(is_found);
    let removing = removing_objects(&plan.effects, execution);
    let applied_generation = applied_generation(scope, plan.generation);
    let delivery = execution.delivery.take().unwrap_or(Delivery::Applied);
    let corrections = mem::take(&mut execution.corrections);
    Status { delivery, corrections, drift, removing, compared, seen, applied_generation, awaited }
}

/// The highest generation of the VidraResource among the live objects; `seen`: before anything was applied.
fn applied_generation(scope: &Scope<'_>, seen: i64) -> i64 {
    let Scope { ctx, session, owner, desired, .. } = *scope;
    if seen <= ctx.target.spec.generation {
        return seen;
    }
    // What was applied is from no later declaration any more, and nothing else tells of that.
    let found = session.records.generations(&owner.hash, desired, known_generation(ctx));
    note_later(ctx, session, &found);
    found.highest
}

/// Writes the status and what became of the inventory; mostly the status first, for which people wait. Returns what
/// [`publish_with_inventory`] does.
async fn publish_and_settle(
    scope: &Scope<'_>,
    status: Status,
    removes: bool,
    change: &mut InventoryChange,
) -> Result<Option<Duration>, CallError> {
    let ctx = scope.ctx;
    // What is not repaired is known by its uid alone once it is gone: nobody tells that it was delivered before that is written.
    let leaves =
        ctx.target.spec.drift.policy != DriftPolicy::Correct && !mutants::is(Mutant::TellsBeforeUids);
    if removes || leaves || is_refused(ctx) {
        // What is gone and still in the inventory would be taken for what is to go, after a crash. And a status does
        // not go to and fro with each try of an inventory that is refused.
        change.settle(ctx).await?;
    }
    let published = publish_with_inventory(ctx, status, (scope.desired, Some(scope.session)), change).await;
    change.settle(ctx).await?;
    published
}

/// Ends the reconcile without a status: writes the inventory, and has the target reconciled again at once.
pub(super) async fn settle_and_requeue(
    ctx: &Context<'_>,
    corrections: &[Change],
    change: &mut InventoryChange,
) -> Result<Requeue, CallError> {
    count_corrections(ctx, corrections);
    change.settle(ctx).await?;
    Ok(Requeue::AtOnce)
}

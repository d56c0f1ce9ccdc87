//! The target loop: one reconcile of one (VidraResource, member cluster) pair. It writes the member's objects, the
//! inventory and the VidraTarget's status; nothing else.
//!
//! What is declared is kept in five steps, each of which makes a value from the one before: `observe` an `Observation`,
//! `plan` a `TargetPlan`, `execute` an `Execution`, and of that come an `InventoryChange` and, in `finish`, a
//! `Status`. A target that is not worked on gets its `Status` at once, without these steps.

mod blockers;
mod cause;
mod concurrent_repair;
mod contention;
mod context;
mod drift;
mod eligibility;
mod events;
mod execute;
mod execution;
mod feedback;
mod finish;
mod handover;
mod hub_restore;
mod ignore;
mod inventory;
mod inventory_recovery;
mod observe;
mod own_health;
mod plan;
mod removal_guard;
mod render;
mod requeue;
mod status;
mod teardown;
mod visibility;
mod write_refusal;

use std::{borrow::Cow, mem, sync::Arc};

use tokio::time::Instant;
use vidra_api::{TargetState, VidraTarget, VidraTargetStatus, target::DesiredState};
use vidra_core::{
    mutants::{self, Mutant},
    plan::Inventory,
    status::{Delivery, Reason, failed, is_held},
};

pub(super) use self::{cause::Causes, handover::Undeclared, inventory_recovery::may_have_delivered};
use self::{
    concurrent_repair::ConcurrentRepair,
    context::Context,
    eligibility::{at_rest, explain, open_session},
    execute::{execute, tend},
    finish::finish,
    handover::{asks_again_while_held, claim, claim_at_rest, claims_now, disclaim},
    hub_restore::{note_first_look, skip_first_look},
    ignore::read_exemptions,
    inventory::{InventoryChange, current_inventory, enter_proofs},
    inventory_recovery::{Recovery, note_past, recover_inventory},
    observe::{Scope, observe},
    plan::{TargetPlan, plan},
    removal_guard::guard_removal,
    render::desired_state,
    requeue::{Requeue, Retry},
    status::{Status, publish, publish_unseen},
    teardown::{end, forget, forget_state, has_nothing, leave},
    visibility::require_informers,
    write_refusal::{note_refused, tell_failure},
};
use super::{
    Hub, RETRY_MOST, after_hub_error,
    confirmation::{Confirmation, confirm},
    status_throttle::StatusChange,
    write_refusal::clear_failed_writes,
};
use crate::{
    base::error::{CallError, Class},
    desired::Desired,
    hub::catalog::Lack,
    member::{claims::Claim, session::Session},
    workqueue::{Key, Priority, TargetKey, Verdict},
};

/// One reconcile.
pub async fn reconcile(hub: &Hub, key: &TargetKey) -> Verdict {
    let target = match hub.catalog.find_target(key) {
        Ok(target) => target,
        // Its VidraResource tells it.
        Err(Lack::Unread) => return Verdict::Done(None),
        Err(Lack::Missing) => {
            return match forget_state(hub, key).await {
                Ok(()) => Verdict::Done(None),
                Err(error) => {
                    write_refusal::tell(hub, key, &error);
                    after_hub_error(&error)
                }
            };
        }
    };
    let ctx = &Context { hub, key, target: &target };
    hub.state.lock().change_target(key, |state| state.begin_look());
    let ended = run(ctx).await;
    if ended.is_ok() && hub.state.lock().change_target(key, |state| state.end_look()) {
        hub.queue.add(Key::Resource(key.resource_key()), Priority::User);
    }
    match ended {
        Ok(requeue) if clear_failed_writes(hub, &Key::Target(key.clone())) => {
            note_refused(ctx, None);
            ctx.verdict(requeue)
        }
        Ok(_) => ctx.verdict(Requeue::Retry(Retry::Soon)),
        Err(error) => tell_failure(ctx, &error).await,
    }
}

/// What is to become of the target now: it is forgotten, left as it is, taken away or kept.
async fn run(ctx: &Context<'_>) -> Result<Requeue, CallError> {
    note_past(ctx);
    let spec = &ctx.target.spec;
    let leaving = spec.desired != DesiredState::Present;
    if spec.desired == DesiredState::Forgotten {
        return forget(ctx).await;
    }
    own_health::install_rules(ctx);
    let intent = confirm(ctx.hub, ctx.key, spec);
    if let Some(rests) = at_rest(ctx, intent) {
        if intent == Confirmation::NotAllowed && !mutants::is(Mutant::RevokedAwaited) {
            // Others wait for its first look, which does not come while the namespace is not allowed.
            skip_first_look(ctx);
        }
        claim_at_rest(ctx).await;
        // Of an owner that is known by then.
        own_health::install_rules(ctx);
        let told = publish_unseen(ctx, rests).await?;
        // By the VidraResource's word alone, which nothing tells when that is taken back.
        let is_unwritten = ctx.is_suspended() && !spec.suspend;
        return Ok(if is_unwritten { Requeue::After(RETRY_MOST) } else { told });
    }
    if let Some(chunk) = ctx.hub.catalog.unread_inventory(ctx.key) {
        let message = format!(
            "this vidra-hub cannot read VidraInventory {chunk}: nothing is written and nothing is deleted. Run the vidra-hub that wrote it, or repair it by hand"
        );
        let reason = Reason::InventoryUnreadable;
        return publish_unknown(ctx, Delivery::Failed { reason, message, stalled: true }).await;
    }
    if leaving && has_nothing(ctx) {
        disclaim(ctx);
        // The inventory is written before the first object: no member needs to be asked.
        return end(ctx).await;
    }
    match intent {
        Confirmation::Confirmed => {}
        Confirmation::NotYet => return not_yet(ctx).await,
        missing => return publish_unknown(ctx, explain(ctx, missing)).await,
    }
    let session = match open_session(ctx) {
        Ok(Some(session)) => session,
        // The first answer is awaited: what was last known stands.
        Ok(None) => return Ok(Requeue::OnChange),
        Err(delivery) => return publish_unseen(ctx, delivery).await,
    };
    if leaving {
        return leave(ctx, &session).await;
    }
    let (desired, create_namespaces) = match desired_state(ctx, &session).await {
        Ok(desired) => desired,
        Err(delivery) => {
            note_first_look(ctx, &session);
            claim(ctx, Claim::Unknown);
            publish_unseen(ctx, delivery).await?;
            return Ok(Requeue::Retry(Retry::Rarely));
        }
    };
    claim(ctx, Claim::Objects(desired.clone()));
    keep(ctx, &session, &desired, create_namespaces).await
}

/// Publishes this for a target that cannot be looked at and whose declaration is unknown: others stop waiting for it.
async fn publish_unknown(ctx: &Context<'_>, delivery: Delivery) -> Result<Requeue, CallError> {
    skip_first_look(ctx);
    claim(ctx, Claim::Unknown);
    publish_unseen(ctx, delivery).await
}

/// It was to go, and that is not asked for any more. Mostly the VidraTarget changes at once, which comes as an event;
/// not while nothing is delivered of its VidraResource: what it said of its going holds no more, and is not to
/// stand until then.
async fn not_yet(ctx: &Context<'_>) -> Result<Requeue, CallError> {
    let resource = ctx.hub.catalog.resource(&ctx.key.resource_key());
    if resource.is_some_and(|resource| is_held(&resource)) {
        let message = format!(
            "VidraResource {} no longer asks to remove this target: its objects stay as they are until the VidraResource can be delivered; see its Ready condition",
            ctx.key.resource
        );
        let rests = Delivery::Suspended { message };
        publish_unseen(ctx, rests).await?;
        // Nothing tells when the same end is asked for again: the VidraTarget stays as it is.
        return Ok(Requeue::After(RETRY_MOST));
    }
    // Nor when it is held.
    Ok(Requeue::Retry(Retry::Soon))
}

/// Keeps the member as declared.
async fn keep(
    ctx: &Context<'_>,
    session: &Arc<Session>,
    desired: &Arc<Desired>,
    create_namespaces: bool,
) -> Result<Requeue, CallError> {
    let owner = ctx.owner(create_namespaces);
    let exemptions = match read_exemptions(ctx, desired) {
        Ok(exemptions) => exemptions,
        Err(delivery) => {
            note_first_look(ctx, session);
            publish(ctx, Status::of(delivery), (desired, None)).await?;
            return Ok(Requeue::Retry(Retry::Rarely));
        }
    };
    session.records.declare(owner.hash.clone(), owner.since, ctx.key.clone(), desired.clone(), exemptions);
    let status = ctx.target.status.as_ref();
    let was_ready =
        ctx.target.is_delivered() && status.is_some_and(|status| status.state == Some(TargetState::Ready));
    // What failed before a change of the revision may not have by what it changed to.
    let had_failed = status.filter(|status| {
        ctx.target.is_delivered()
            || has_failed_since(ctx.target, status) && !mutants::is(Mutant::WaitingForgetsFailed)
            || mutants::is(Mutant::OldFailureStands)
    });
    session.records.set_previous_health(&owner.hash, was_ready, had_failed.map(failed).unwrap_or_default());
    own_health::install_rules_in(ctx, session, &owner.hash);
    session.records.set_feedback_rules(&owner.hash, feedback::rules(ctx, session, &owner));
    let blind = match require_informers(ctx, session, desired).await {
        Ok(blind) => blind,
        Err(requeue) => return Ok(requeue),
    };
    own_health::list_unjudged(ctx, session, &owner, desired).await;
    let wants = match blind.is_empty() {
        true => Cow::Borrowed(&desired.wants),
        false => Cow::Owned(blind.seen(&desired.wants)),
    };
    let (delivered, revisit) = (ctx.target.is_delivered(), is_revisit_due(ctx));
    let blind = &blind;
    deliver(Scope { ctx, session, owner: &owner, desired, blind, wants, delivered, revisit }).await
}

/// Its status is of what is there as it is declared now, though not all of that is delivered: a wave waits. One that
/// nobody could look at keeps what it said of an earlier declaration.
fn has_failed_since(target: &VidraTarget, status: &VidraTargetStatus) -> bool {
    let is_seen = !matches!(status.state, None | Some(TargetState::Unknown | TargetState::Suspended));
    status.observed_generation == target.metadata.generation && is_seen
}

/// Applies to the member what differs from the declaration, as far as the member can be seen.
async fn deliver(mut scope: Scope<'_>) -> Result<Requeue, CallError> {
    let Scope { ctx, session, owner, desired, .. } = scope;
    let fence = ctx.fence(session);
    own_health::read_kinds(ctx, session, desired, &fence).await;
    let live = scope.live();
    let written = current_inventory(ctx, &scope.wants);
    let recovery = match recover_inventory(ctx, session, (owner, desired), &live, &fence).await {
        Err(error) if error.class == Class::Withdrawn => return Ok(Requeue::AtOnce),
        recovery => recovery?,
    };
    let (written, mut inventory) = recovery.known(ctx, written);
    let is_untold = |key: &_, uid: &_| session.records.is_untold(key, uid);
    enter_proofs(&mut inventory, &scope.wants, &live, is_untold);
    let observation = observe(&scope, live, &inventory).await;
    let mut plan = plan(&scope, observation, &inventory);
    let revisit = mem::take(&mut scope.revisit);
    if let Some(requeue) = hold(&scope, &mut plan, &inventory).await? {
        return Ok(requeue);
    }
    let executor = ctx.executor(session, owner, desired, &fence, claims_now(ctx, session));
    if mutants::is(Mutant::ReadyBeforeApplied) {
        let status = Status { compared: true, ..Status::of(Delivery::Applied) };
        publish(ctx, status, (desired, Some(session))).await?;
    }
    let mut repair = ConcurrentRepair::new(&scope, &fence, &plan.effects);
    let (execution, change) = match recovery {
        // What would be written would look complete.
        Recovery::Unknown(delivery) => {
            let effects = plan.effects.clone();
            (tend(ctx, &executor, effects, inventory, delivery).await, InventoryChange::default())
        }
        Recovery::NotLost | Recovery::All(_) => {
            execute(ctx, &executor, &plan.effects, written, inventory, Some(&mut repair)).await?
        }
    };
    // Of a kind that is new there the first object tells whether it matters.
    own_health::read_kinds(ctx, session, desired, &fence).await;
    cause::ask(ctx, session, desired, &fence).await;
    // Where its leave to call was taken back in the middle it has not looked.
    if revisit && fence.check().is_ok() {
        ctx.hub.state.lock().change_target(ctx.key, |state| state.revisited = Some(Instant::now()));
    }
    finish(&scope, &executor, plan, (execution, change), repair).await
}

/// If the plan is not performed now: publishes why, and returns when to look again. `None`: perform it.
async fn hold(
    scope: &Scope<'_>,
    plan: &mut TargetPlan,
    inventory: &Inventory,
) -> Result<Option<Requeue>, CallError> {
    let Scope { ctx, session, desired, .. } = *scope;
    if let Some(held) = plan.behind.take_if(|_| !plan.effects.is_empty()) {
        return wait_behind(scope, held).await.map(Some);
    }
    let Some(delivery) = guard_removal(ctx, desired, &plan.effects, inventory) else { return Ok(None) };
    publish(ctx, scope.status(delivery), (desired, Some(session))).await?;
    let again = asks_again_while_held(&plan.effects);
    Ok(Some(again.unwrap_or_else(|| Requeue::After(ctx.interval()))))
}

/// The hub seems to be behind the member, or that is not known yet: nothing is written.
async fn wait_behind(scope: &Scope<'_>, held: Delivery) -> Result<Requeue, CallError> {
    let Scope { ctx, session, desired, delivered, .. } = *scope;
    if matches!(held, Delivery::Waiting { .. }) {
        session.later_generations.wait(ctx.key, !delivered);
        // Mostly it is over in a moment, and what would be told need not be made.
        if !ctx.hub.write_now_or_requeue(&Key::Target(ctx.key.clone()), StatusChange::Transient) {
            return Ok(Requeue::OnChange);
        }
    }
    publish(ctx, scope.status(held), (desired, Some(session))).await?;
    Ok(Requeue::Retry(Retry::Soon))
}

/// Once after a start, and as often as all is listed though watches tell.
fn is_revisit_due(ctx: &Context<'_>) -> bool {
    let every = ctx.hub.tuning.now().verify_interval;
    let last = ctx.hub.state.lock().target(ctx.key).and_then(|state| state.revisited);
    last.is_none_or(|last| every.is_some_and(|every| last.elapsed() >= every))
}

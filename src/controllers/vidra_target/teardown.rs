//! A target that goes: what its inventory holds is deleted or released.

use std::{collections::BTreeMap, sync::Arc};

use vidra_api::{names::OwnerHash, target::DesiredState};
use vidra_core::{
    plan::{self, Inventory, Plan, PlanInput},
    status::{Delivery, Reason, is_torn_down},
};

use super::{
    context::Context,
    execute::execute,
    finish::settle_and_requeue,
    handover::{asks_again, claims_now, classify_undeclared, disclaim, teardown_delivery},
    hub_restore::goes_behind,
    inventory::{chunk_lands_in, write},
    inventory_recovery::{may_have_delivered, with_found},
    requeue::{Requeue, Retry},
    status::{Status, publish_unseen, publish_with_inventory},
    visibility::look_for_kinds,
};
use crate::{
    base::error::{CallError, Class},
    controllers::Hub,
    desired::Desired,
    hub::inventory,
    member::{late_creates::CREATE_LANDS_WITHIN, own_objects, session::Session},
    workqueue::TargetKey,
};

/// Deletes or releases what the inventory holds.
pub(super) async fn leave(ctx: &Context<'_>, session: &Arc<Session>) -> Result<Requeue, CallError> {
    let owner = ctx.owner(false);
    ctx.hub.state.lock().change_target(ctx.key, |state| state.forget_drift());
    session.informers.release(ctx.key);
    let chunks = ctx.hub.catalog.inventory(ctx.key);
    let desired = Arc::new(Desired::default());
    // Whoever takes over an object has to know that this one does not declare it any more.
    session.records.declare(
        owner.hash.clone(),
        owner.since,
        ctx.key.clone(),
        desired.clone(),
        Arc::default(),
    );
    disclaim(ctx);
    let fence = ctx.fence(session);
    let mut inventory = inventory::joined(&chunks);
    let lost = match chunks.is_empty() {
        // The inventory is written before the first object.
        true => may_have_delivered(ctx.hub, ctx.key, ctx.target) && !is_torn_down(ctx.target),
        false => inventory::is_lost(&chunks),
    };
    if lost {
        match own_objects::find_own(session, &owner, &fence).await {
            Ok(found) => inventory = with_found(inventory, &found),
            Err(error) if error.class == Class::Withdrawn => return Ok(Requeue::AtOnce),
            Err(error) => {
                let message = format!("its inventory is lost, and finding its objects failed: {error}");
                let reason = Reason::InventoryMissing;
                publish_unseen(ctx, Delivery::Failed { reason, message, stalled: false }).await?;
                return Ok(Requeue::Retry(Retry::Soon));
            }
        }
    }
    let plan = plan_to_leave(ctx, session, &inventory);
    if !plan.is_empty()
        && let Some(held) = goes_behind(ctx, session)
    {
        publish_unseen(ctx, held).await?;
        return Ok(Requeue::Retry(Retry::Soon));
    }
    let executor = ctx.executor(session, &owner, &desired, &fence, claims_now(ctx, session));
    let held = inventory::joined(&chunks);
    let (execution, mut change) = execute(ctx, &executor, &plan, held, inventory, None).await?;
    if execution.withdrawn {
        return settle_and_requeue(ctx, &execution.corrections, &mut change).await;
    }
    look_for_kinds(session, execution.delivery.as_ref()).await;
    change.settle(ctx).await?;
    let stays = || teardown_delivery(&plan, &execution.inventory);
    let (ended, lands) = ended(ctx);
    let delivery = execution.delivery.or_else(stays).unwrap_or(ended);
    if delivery == Delivery::TornDown {
        session.records.forget(&owner.hash);
    }
    let status = Status { corrections: execution.corrections, ..Status::of(delivery) };
    publish_with_inventory(ctx, status, (&desired, None), &change).await?;
    Ok(execution.requeue.or_else(|| asks_again(&plan)).or(lands).unwrap_or(Requeue::OnChange))
}

/// Nothing is left of it.
pub(super) async fn end(ctx: &Context<'_>) -> Result<Requeue, CallError> {
    let (delivery, again) = ended(ctx);
    let told = publish_unseen(ctx, delivery).await?;
    Ok(again.unwrap_or(told))
}

/// What a target says of which nothing is left, and when it is looked at again. A part of its inventory may still come: with
/// the VidraTarget gone, nobody would read in the member what stands in that.
fn ended(ctx: &Context<'_>) -> (Delivery, Option<Requeue>) {
    let Some(rest) = chunk_lands_in(ctx) else { return (Delivery::TornDown, None) };
    let message = format!(
        "a call that creates a part of its inventory got no answer, and may take effect for {} s more at most",
        CREATE_LANDS_WITHIN.as_secs()
    );
    (Delivery::TearingDown { reason: Reason::Settling, message }, Some(Requeue::After(rest)))
}

/// What is to be done with all that the inventory holds.
fn plan_to_leave(ctx: &Context<'_>, session: &Session, inventory: &Inventory) -> Plan {
    let presence = match ctx.target.spec.desired {
        DesiredState::Orphaned => plan::Presence::Orphaned,
        _ => plan::Presence::Absent,
    };
    let (wants, live) = (BTreeMap::new(), BTreeMap::new());
    let (vanished, before) = (BTreeMap::new(), BTreeMap::new());
    let handovers = classify_undeclared(ctx, session, inventory.keys());
    plan::plan(&PlanInput {
        presence,
        wants: &wants,
        inventory,
        live: &live,
        vanished: &vanished,
        before: &before,
        handovers: &handovers,
        prune: true,
        complete: true,
        delivered: false,
        revisit: false,
        unplannable: None,
        may_be_declared: &|_| false,
        policy: ctx.policy(),
    })
}

/// Its member is not asked, and is not waited for.
pub(super) async fn forget(ctx: &Context<'_>) -> Result<Requeue, CallError> {
    if let Some(session) = ctx.hub.session(&ctx.key.cluster) {
        session.informers.release(ctx.key);
    }
    disclaim(ctx);
    forget_inventory(ctx).await?;
    end(ctx).await
}

/// Nothing was ever delivered, or all of it is gone. A lost inventory is no empty one.
pub(super) fn has_nothing(ctx: &Context<'_>) -> bool {
    let chunks = ctx.hub.catalog.inventory(ctx.key);
    match chunks.is_empty() {
        true => !may_have_delivered(ctx.hub, ctx.key, ctx.target),
        false => inventory::is_empty(&chunks) && !inventory::is_lost(&chunks),
    }
}

/// Nothing is left of it, and nobody is asked: the member was forgotten.
async fn forget_inventory(ctx: &Context<'_>) -> Result<(), CallError> {
    let chunks = ctx.hub.catalog.inventory(ctx.key);
    if inventory::is_empty(&chunks) {
        return Ok(());
    }
    write(ctx, &Inventory::new(), true).await
}

/// The VidraTarget is gone: what was kept for it goes too. An inventory that still holds something stays.
pub(super) async fn forget_state(hub: &Hub, key: &TargetKey) -> Result<(), CallError> {
    if let Some(session) = hub.session(&key.cluster) {
        session.informers.release(key);
        session.informers.forget(key);
        session.later_generations.forget(key);
        session.claims.forget(key);
        session.records.forget(&OwnerHash::new(&hub.identity.hub, &key.namespace, &key.resource));
    }
    hub.forget_target(key);
    let chunks = hub.catalog.inventory(key);
    if !chunks.is_empty() && inventory::is_empty(&chunks) {
        let writes: Vec<_> = chunks.values().map(|chunk| chunk.removal()).collect();
        hub.api.write_inventory(key, &writes).await?;
    }
    Ok(())
}

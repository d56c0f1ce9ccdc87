//! The third step: a plan's effects are performed, intent first, stage by stage, removals last.

use std::{
    collections::VecDeque,
    future::{pending, ready},
    pin::pin,
};

use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use vidra_core::{
    plan::{Action, Effect, Held, Inventory, Plan},
    status::Delivery,
};

use super::{
    concurrent_repair::{ConcurrentRepair, UnderWay},
    context::Context,
    execution::{Execution, account_all},
    inventory::InventoryChange,
    requeue::{Requeue, Retry},
};
use crate::{
    base::error::CallError,
    member::apply::{Executor, Outcome},
};

/// Performs a plan: intent first, then stage by stage, removals last. With what is to be written of the inventory at the
/// end. `written` is what is written of it, `inventory` what is known when this begins. `repair` takes up what drifts
/// meanwhile.
pub(super) async fn execute(
    ctx: &Context<'_>,
    executor: &Executor<'_>,
    plan: &Plan,
    mut written: Inventory,
    inventory: Inventory,
    mut repair: Option<&mut ConcurrentRepair<'_>>,
) -> Result<(Execution, InventoryChange), CallError> {
    let mut execution = Execution::of(inventory);
    if let Some(keys) = &plan.intent {
        for key in keys {
            if let Some(want) = executor.desired.wants.get(key) {
                let intended = || Held::intended(&want.gvk.version);
                execution.inventory.entry(key.clone()).or_insert_with(intended);
            }
        }
        InventoryChange::between(ctx, &written, &execution.inventory).settle(ctx).await?;
        // What was found of a lost inventory is written from here on, and is to go from it when it goes.
        written.clone_from(&execution.inventory);
    }
    for stage in &plan.stages {
        execute_stage(ctx, executor, stage, &mut execution, repair.as_deref_mut()).await;
    }
    if execution.failed_effects == 0 {
        for stage in &plan.removals {
            let before = execution.failed_effects;
            execute_stage(ctx, executor, stage, &mut execution, None).await;
            if execution.failed_effects > before {
                break;
            }
        }
    }
    let change = InventoryChange::between(ctx, &written, &execution.inventory);
    Ok((execution, change))
}

/// Repairs what is there, and writes no inventory: it would look complete. `unknown`: why it is not known.
pub(super) async fn tend(
    ctx: &Context<'_>,
    executor: &Executor<'_>,
    mut plan: Plan,
    inventory: Inventory,
    unknown: Delivery,
) -> Execution {
    plan.intent = None;
    plan.removals.clear();
    for stage in &mut plan.stages {
        stage.retain(|effect| {
            matches!(effect.action, Action::Apply { .. } | Action::Verify { .. } | Action::Look { .. })
        });
    }
    let mut execution = Execution::of(inventory);
    for stage in &plan.stages {
        execute_stage(ctx, executor, stage, &mut execution, None).await;
    }
    execution.delivery.get_or_insert(unknown);
    execution.look_again(Requeue::Retry(Retry::Soon));
    execution
}

async fn execute_stage(
    ctx: &Context<'_>,
    executor: &Executor<'_>,
    stage: &[Effect],
    execution: &mut Execution,
    repair: Option<&mut ConcurrentRepair<'_>>,
) {
    let (done, ()) = send(executor, stage, &mut execution.inventory, repair, ready(())).await;
    account_all(ctx, executor, done, execution);
}

/// Sends the effects of a stage, and of what `repair` takes up beside it; how each ended, in the order in which they were
/// planned: what is told of them does not depend on who answers first. `beside` is done meanwhile.
pub(super) async fn send<T>(
    executor: &Executor<'_>,
    stage: &[Effect],
    inventory: &mut Inventory,
    repair: Option<&mut ConcurrentRepair<'_>>,
    beside: impl Future<Output = T>,
) -> (Vec<(Effect, Outcome)>, T) {
    let perform = |turn: usize, effect: Effect| async move {
        let outcome = executor.perform(&effect).await;
        (turn, effect, outcome)
    };
    let mut repair = repair.and_then(|repair| repair.begin(stage).then_some(repair));
    let mut news = repair.as_ref().map_or_else(|| pending().boxed(), |repair| repair.news());
    let mut more = VecDeque::new();
    let (mut working, mut done) = (FuturesUnordered::new(), Vec::new());
    let most = executor.session.limits().target_calls;
    let (mut planned, mut turns) = (stage.iter().cloned(), 0..);
    let (mut beside, mut told) = (pin!(beside), None);
    let told = loop {
        // Each made only when its turn is near: what waits in thousands of reconciles side by side adds up.
        while working.len() < most
            && let Some(effect) = planned.next().or_else(|| more.pop_front())
            && let Some(turn) = turns.next()
        {
            working.push(perform(turn, effect));
        }
        if working.is_empty()
            && let Some(told) = told.take()
        {
            break told;
        }
        tokio::select! {
            biased;
            Some(ended) = working.next() => done.push(ended),
            ended = &mut beside, if told.is_none() => told = Some(ended),
            () = &mut news => {
                if let Some(repair) = &mut repair {
                    let under_way = UnderWay { calls: !working.is_empty(), writes: told.is_none() };
                    more.extend(repair.more(under_way, inventory).await);
                    news = repair.news();
                }
            }
        }
    };
    done.sort_by_key(|(turn, ..)| *turn);
    let mut done: Vec<_> = done.into_iter().map(|(_, effect, outcome)| (effect, outcome)).collect();
    executor.confirm_gone(&mut done).await;
    (done, told)
}

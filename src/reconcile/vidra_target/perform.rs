//! Performing a plan: intent first, stage by stage, removals last. What the inventory is then comes with the report.

use std::{
    collections::VecDeque,
    future::{pending, ready},
    pin::pin,
    time::Duration,
};

use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use vidra_api::{RemovingObjects, target::Desired as Wish};
use vidra_core::{
    object::ObjectKey,
    plan::{Action, Effect, Held, Inventory, Plan, Want, Why},
    status::{Delivery, FINALIZERS, SETTLING, UNDER_WAY},
};

use super::{
    context::Context,
    drifting::repair,
    events::{gather, gather_failure, say},
    lately::{Lately, UnderWay},
    outcome::{self, changed, settle},
    result::{RARELY, Report},
    waiting::wait_for_end,
};
use crate::{
    base::error::{CallError, Class},
    hub::events::{self, Severity},
    member::effects::{Actor, Outcome},
    queue::Verdict,
    reconcile::{RETRY_MOST, RETRY_RARELY},
};

/// A removal waits for finalizers in the member: it is looked at again after this.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// What cannot be told yet is looked at again after this.
const SETTLES: Duration = Duration::from_secs(10);
/// What was done, and what is known of the inventory's objects then.
pub(super) struct Done {
    pub(super) report: Report,
    pub(super) inventory: Inventory,
}

/// Performs a plan: intent first, then stage by stage, removals last. The inventory is to be written at the end
/// with [`settle`]. `before` is what is written of it, `inventory` what is known when the pass begins.
/// `lately` takes up what drifts meanwhile.
pub(super) async fn perform(
    ctx: &Context<'_>,
    actor: &Actor<'_>,
    plan: &Plan,
    before: Inventory,
    mut inventory: Inventory,
    mut lately: Option<&mut Lately<'_>>,
) -> Result<Done, CallError> {
    let mut report = Report::default();
    if let Some(keys) = &plan.intent {
        for key in keys {
            if let Some(want) = actor.desired.wants.get(key) {
                inventory.entry(key.clone()).or_insert_with(|| Held::intended(&want.gvk.version));
            }
        }
        report.unwritten = changed(ctx, &before, &inventory);
        settle(ctx, &mut report).await?;
    }
    for stage in &plan.stages {
        let lately = lately.as_deref_mut();
        perform_stage(ctx, actor, stage, &mut inventory, &mut report, lately).await;
    }
    if report.undone == 0 {
        for stage in &plan.removals {
            let before = report.undone;
            perform_stage(ctx, actor, stage, &mut inventory, &mut report, None).await;
            if report.undone > before {
                break;
            }
        }
    }
    report.unwritten = changed(ctx, &before, &inventory);
    Ok(Done { report, inventory })
}

pub(super) async fn perform_stage(
    ctx: &Context<'_>,
    actor: &Actor<'_>,
    stage: &[Effect],
    inventory: &mut Inventory,
    report: &mut Report,
    lately: Option<&mut Lately<'_>>,
) {
    let (done, ()) = send(actor, stage, inventory, lately, ready(())).await;
    account_all(ctx, actor, done, inventory, report);
}

/// Takes what became of effects.
pub(super) fn account_all(
    ctx: &Context<'_>,
    actor: &Actor<'_>,
    done: Vec<(Effect, Outcome)>,
    inventory: &mut Inventory,
    report: &mut Report,
) {
    for (effect, outcome) in done {
        let want = actor.desired.wants.get(&effect.key);
        let healed = actor.session.records.take_healed(&actor.owner.hash, &effect.key);
        if let Outcome::Applied { uid, corrected: true } = &outcome {
            report.mended.push(repair(ctx, actor.session, &effect, uid, healed));
        }
        account(ctx, &effect, want, outcome, inventory, report);
    }
}

fn account(
    ctx: &Context<'_>,
    effect: &Effect,
    want: Option<&Want>,
    outcome: Outcome,
    inventory: &mut Inventory,
    report: &mut Report,
) {
    let key = &effect.key;
    if let Some(want) = want {
        outcome::enter(key, want, &outcome, inventory);
    }
    if matches!(outcome, Outcome::Gone | Outcome::Unproven) {
        inventory.remove(key);
    }
    if matches!(outcome, Outcome::Removing | Outcome::Leaving) {
        outcome::going(key, inventory);
    }
    if reapplies(&effect.action, &outcome, ctx.target.is_delivered()) {
        report.reapplied.insert(key.clone());
    }
    if leaves_doubt(&effect.action, &outcome) {
        report.unverified.insert(key.clone());
    }
    report_outcome(ctx, effect, want, outcome, report);
}

/// Tells what came of an effect, and what keeps the target from being as it is to be.
fn report_outcome(
    ctx: &Context<'_>,
    effect: &Effect,
    want: Option<&Want>,
    outcome: Outcome,
    report: &mut Report,
) {
    let (key, cluster) = (&effect.key, &ctx.key.cluster);
    match outcome {
        Outcome::Applied { corrected: true, .. } => {
            report.corrected += 1;
            gather(ctx, events::CORRECTED, key, &[]);
        }
        Outcome::Applied { .. } | Outcome::Present | Outcome::Seen | Outcome::Gone => {}
        Outcome::Recreated { fields, .. } => {
            let note =
                format!("{key} on {cluster} was deleted and made again: {fields} could not be changed");
            say(ctx, Severity::Normal, "Recreated", &note);
        }
        Outcome::Leaving => {
            let message = format!("{key} is being deleted in the member to be made again");
            let waiting = Delivery::Waiting { reason: "ObjectTerminating", message };
            report.put_off(waiting, Verdict::Done(Some(LOOK_AGAIN)));
        }
        // No watch tells when one without our label is gone.
        Outcome::InTheWay => report.put_off(wait_for_end(key), Verdict::Retry(RETRY_MOST)),
        Outcome::Adopted { apart, .. } => {
            gather(ctx, events::ADOPTED, key, &[]);
            if let Some(message) = apart {
                gather_failure(ctx, "AdoptedInPart", key, &message);
            }
        }
        Outcome::Unproven => {
            let note = format!(
                "{key} on {cluster} stands in the inventory and bears no mark of this VidraResource: it is left alone"
            );
            say(ctx, Severity::Warning, "InventoryEntryUnproven", &note);
        }
        Outcome::Removing => {
            let message = format!(
                "waiting until {key} is gone: finalizers run in the member, of it or of what is in it"
            );
            still_going(ctx, FINALIZERS, message, LOOK_AGAIN, report);
        }
        Outcome::Unsettled { why } => {
            let message = format!("{key} is not seen: {why}");
            still_going(ctx, SETTLING, message, SETTLES, report);
        }
        Outcome::TooEarly { rest } => account_too_early(ctx, key, want, rest, report),
        Outcome::Refused { reason, message } => {
            gather_failure(ctx, reason, key, &message);
            let refused = Delivery::Failed { reason, message, stalled: true };
            report.put_off(refused, Verdict::Retry(RETRY_RARELY));
        }
        // Nothing was sent, and nothing is to be said of it.
        Outcome::Failed(CallError { class: Class::Withdrawn, .. }) => {
            report.undone += 1;
            report.withdrawn = true;
        }
        Outcome::Failed(error) => account_failure(ctx, effect, &error, report),
    }
}

/// It is neither removed nor, where it is declared, made again before what the process of before had sent has landed.
fn account_too_early(
    ctx: &Context<'_>,
    key: &ObjectKey,
    want: Option<&Want>,
    rest: Duration,
    report: &mut Report,
) {
    let now = ctx.hub.clock.now();
    let until = now.checked_add(rest).unwrap_or(now);
    let message = format!(
        "{key} is left as it is until {until:.0}: what the vidra-hub process before this one had sent may take effect until then"
    );
    match want {
        Some(_) => {
            let waiting = Delivery::Waiting { reason: SETTLING, message };
            report.put_off(waiting, Verdict::Done(Some(rest)));
        }
        None => still_going(ctx, SETTLING, message, rest, report),
    }
}

/// An object is on its way out. Of a target that stays that is told beside its state: what is declared is there.
fn still_going(ctx: &Context<'_>, reason: &str, message: String, again: Duration, report: &mut Report) {
    let again = Verdict::Done(Some(again));
    if ctx.target.spec.desired != Wish::Present {
        // Nobody has tried to remove what is left as it is for a while.
        let reason = if reason == SETTLING { SETTLING } else { UNDER_WAY };
        return report.put_off(Delivery::TearingDown { reason, message }, again);
    }
    report.undone += 1;
    report.look_again(again);
    report.removing.get_or_insert_with(|| RemovingObjects {
        objects: 0,
        reason: reason.to_owned(),
        message: Some(message),
    });
}

/// Nobody has said how soon what failed is to be tried again.
fn retries_by_default(ctx: &Context<'_>) -> bool {
    let live = ctx.hub.tuning.now();
    let own = &ctx.target.spec.reconcile.retry_interval;
    own.is_none() && live.retry && live.retry_max >= RETRY_RARELY
}

fn account_failure(ctx: &Context<'_>, effect: &Effect, error: &CallError, report: &mut Report) {
    let (message, reason) = (failure(effect, error), error.reason());
    tracing::info!(cluster = %ctx.key.cluster, target = %ctx.key, %message, "an effect failed");
    if !error.is_transport() {
        gather_failure(ctx, reason, &effect.key, &message);
    }
    // Silence is no failure of the object: the breaker finds out what it is.
    let delivery = match error.is_transport() {
        true => Delivery::Waiting { reason, message },
        false => {
            let stalled =
                error.class == Class::Forbidden || (error.is_invalid() && error.class != Class::InvalidField);
            Delivery::Failed { reason, message, stalled }
        }
    };
    let told = ctx.target.status.as_ref().and_then(|status| status.reason.as_deref());
    // The back-off of what was told before says nothing of it. Of several failures only the first is told.
    let is_news = report.delivery.is_none() && told != Some(reason);
    let is_short = error.is_transient() && error.class != Class::Server;
    let again = match error.class {
        // Once soon: a server may not know yet the schema that came with this very revision.
        Class::InvalidField if told == Some(reason) && retries_by_default(ctx) => RARELY,
        _ if is_short || is_news => Verdict::Retry(RETRY_MOST),
        _ => Verdict::Retry(RETRY_RARELY),
    };
    report.put_off(delivery, again);
}

/// Whether something was applied again by it, for whatever reason.
fn reapplies(action: &Action, outcome: &Outcome, is_delivered: bool) -> bool {
    match outcome {
        Outcome::Applied { corrected: true, .. } => true,
        Outcome::Applied { .. } | Outcome::Adopted { .. } | Outcome::Recreated { .. } => match action {
            Action::Apply { .. } => true,
            Action::Create => is_delivered,
            _ => false,
        },
        _ => false,
    }
}

/// Whether an object that may be otherwise could be neither compared nor repaired.
fn leaves_doubt(action: &Action, outcome: &Outcome) -> bool {
    matches!(action, Action::Verify { .. } | Action::Look { .. } | Action::Apply { why: Why::Drifted, .. })
        && matches!(outcome, Outcome::Refused { .. } | Outcome::InTheWay | Outcome::Failed(_))
}

/// Sends the effects of a stage, and of what `lately` takes up beside it; how each ended, in the order in which they were
/// planned: what is told of them does not depend on who answers first. `beside` is done meanwhile.
pub(super) async fn send<T>(
    actor: &Actor<'_>,
    stage: &[Effect],
    inventory: &mut Inventory,
    lately: Option<&mut Lately<'_>>,
    beside: impl Future<Output = T>,
) -> (Vec<(Effect, Outcome)>, T) {
    let perform = |turn: usize, effect: Effect| async move {
        let outcome = actor.perform(&effect).await;
        (turn, effect, outcome)
    };
    let mut lately = lately.and_then(|lately| lately.begin(stage).then_some(lately));
    let mut news = lately.as_ref().map_or_else(|| pending().boxed(), |lately| lately.news());
    let mut more = VecDeque::new();
    let (mut working, mut done) = (FuturesUnordered::new(), Vec::new());
    let most = actor.session.knobs().target_calls;
    let (mut planned, mut turns) = (stage.iter().cloned(), 0..);
    let (mut beside, mut told) = (pin!(beside), None);
    let told = loop {
        // Each made only when its turn is near: what waits in thousands of passes side by side adds up.
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
                if let Some(lately) = &mut lately {
                    let under_way = UnderWay { calls: !working.is_empty(), writes: told.is_none() };
                    more.extend(lately.more(under_way, inventory).await);
                    news = lately.news();
                }
            }
        }
    };
    done.sort_by_key(|(turn, ..)| *turn);
    let mut done: Vec<_> = done.into_iter().map(|(_, effect, outcome)| (effect, outcome)).collect();
    actor.confirm_gone(&mut done).await;
    (done, told)
}

fn failure(effect: &Effect, error: &CallError) -> String {
    let doing = match &effect.action {
        Action::Create => "creating",
        Action::Apply { .. } | Action::Verify { .. } => "applying",
        Action::Look { .. } => "looking at",
        Action::Delete { .. } | Action::DeleteEmpty { .. } => "deleting",
        Action::Release { .. } | Action::Withdraw { .. } | Action::Yield { .. } => "releasing",
    };
    let hint = match error.class {
        // An admission policy answers with the same code.
        Class::Forbidden => {
            "; grant the registered credentials this right in the member, or declare what its admission policies allow"
        }
        // Where nothing is sent no field of it is at fault.
        Class::Invalid | Class::InvalidField | Class::InvalidFields(_)
            if matches!(effect.action, Action::Create | Action::Apply { .. } | Action::Verify { .. }) =>
        {
            "; correct the object in the manifest if its fields are at fault"
        }
        _ => "",
    };
    format!("{doing} {} failed: {}{hint}", effect.key, error.message)
}

#[cfg(test)]
mod tests {
    use vidra_core::object::Gvk;

    use super::*;

    #[test]
    fn what_is_forbidden_may_be_so_by_a_right_or_by_a_policy() {
        let gvk = Gvk::new("", "v1", "ConfigMap");
        let effect = Effect { key: ObjectKey::new(&gvk, "shop", "a"), gvk, action: Action::Create };
        let message = "ValidatingAdmissionPolicy 'owners' denied request: no owner".to_owned();
        let told = failure(&effect, &CallError { class: Class::Forbidden, message });
        assert!(told.contains("grant the registered credentials this right"), "{told}");
        assert!(told.contains("declare what its admission policies allow"), "{told}");
    }
}

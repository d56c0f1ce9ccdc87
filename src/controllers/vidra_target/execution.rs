//! What was done by a plan: what each effect's outcome leaves in the inventory, what of it is told, and when the target is
//! looked at again.

use std::{collections::BTreeSet, time::Duration};

use vidra_api::{Change, RemovingObjects, target::DesiredState};
use vidra_core::{
    mutants::{self, Mutant},
    object::ObjectKey,
    plan::{Action, Effect, Inventory, RemovalMode, Want, Why},
    status::{Delivery, Reason},
};

use super::{
    blockers::wait_for_end,
    context::Context,
    drift::repair,
    events::{gather, gather_failure, say},
    inventory::{enter_deletion, enter_outcome},
    requeue::{Requeue, Retry},
};
use crate::{
    base::error::{CallError, Class},
    controllers::RETRY_RARELY,
    hub::events::{self, Severity},
    member::apply::{Executor, Outcome},
};

/// A removal waits for finalizers in the member: it is looked at again after this.
const FINALIZERS_RECHECK: Duration = Duration::from_secs(2);
/// What cannot be told yet is looked at again after this.
const SETTLES: Duration = Duration::from_secs(10);

/// What was done, so far.
#[derive(Default)]
pub(super) struct Execution {
    /// What is known of the inventory's objects now.
    pub(super) inventory: Inventory,
    /// What keeps the target from being as it is to be.
    pub(super) delivery: Option<Delivery>,
    /// When it is looked at again.
    pub(super) requeue: Option<Requeue>,
    /// Repairs of drift, with what was otherwise.
    pub(super) corrections: Vec<Change>,
    /// What was applied to again, for whatever reason, and what a read found to differ.
    pub(super) reapplied: BTreeSet<ObjectKey>,
    /// What of what is not declared any more could not be removed yet.
    pub(super) removing: Option<RemovingObjects>,
    /// Objects whose effect did not succeed.
    pub(super) failed_effects: usize,
    /// Some effects were not begun: what was decided counts no more.
    pub(super) withdrawn: bool,
    /// Objects that may be otherwise, and could be neither compared nor repaired.
    pub(super) unverified: BTreeSet<ObjectKey>,
}

impl Execution {
    /// Nothing was done yet.
    pub(super) fn of(inventory: Inventory) -> Self {
        Self { inventory, ..Self::default() }
    }

    /// An effect did not succeed; of several such the first is told and decides when to look again.
    fn put_off(&mut self, delivery: Delivery, requeue: Requeue) {
        self.failed_effects += 1;
        self.delivery.get_or_insert(delivery);
        self.look_again(requeue);
    }

    /// The first that asks decides, but what is tried rarely puts off nothing else, and of failures the one that is tried
    /// again soonest counts.
    pub(super) fn look_again(&mut self, requeue: Requeue) {
        self.requeue = Some(match (self.requeue, requeue) {
            (None | Some(Requeue::Backstop), requeue) => requeue,
            (Some(Requeue::Retry(held)), Requeue::Retry(class)) => Requeue::Retry(held.min(class)),
            (Some(held), _) => held,
        });
    }
}

/// Takes what became of effects.
pub(super) fn account_all(
    ctx: &Context<'_>,
    executor: &Executor<'_>,
    done: Vec<(Effect, Outcome)>,
    execution: &mut Execution,
) {
    for (effect, outcome) in done {
        let want = executor.desired.wants.get(&effect.key);
        let correction = executor.session.records.take_correction(&executor.owner.hash, &effect.key);
        if let Outcome::Applied { uid, corrected: true } = &outcome {
            execution.corrections.push(repair(ctx, executor.session, &effect, uid, correction));
        }
        if executor.take_deleted(&effect.key) || matches!(outcome, Outcome::Removing | Outcome::Leaving) {
            enter_deletion(&effect.key, &mut execution.inventory);
        }
        account(ctx, &effect, want, outcome, execution);
    }
}

fn account(
    ctx: &Context<'_>,
    effect: &Effect,
    want: Option<&Want>,
    outcome: Outcome,
    execution: &mut Execution,
) {
    let key = &effect.key;
    if let Some(want) = want {
        enter_outcome(key, want, &outcome, &mut execution.inventory);
    }
    if matches!(outcome, Outcome::Gone | Outcome::Unproven) {
        execution.inventory.remove(key);
    }
    if reapplies(&effect.action, &outcome, ctx.target.is_delivered()) {
        execution.reapplied.insert(key.clone());
    }
    if leaves_doubt(&effect.action, &outcome) {
        execution.unverified.insert(key.clone());
    }
    report_outcome(ctx, effect, want, outcome, execution);
}

/// Tells what came of an effect, and what keeps the target from being as it is to be.
fn report_outcome(
    ctx: &Context<'_>,
    effect: &Effect,
    want: Option<&Want>,
    outcome: Outcome,
    execution: &mut Execution,
) {
    let (key, cluster) = (&effect.key, &ctx.key.cluster);
    match outcome {
        Outcome::Applied { corrected: true, .. } => gather(ctx, events::CORRECTED, key, &[]),
        Outcome::Applied { .. } | Outcome::Present | Outcome::Seen | Outcome::Gone => {}
        Outcome::Recreated { fields, .. } => {
            let note =
                format!("{key} on {cluster} was deleted and made again: {fields} could not be changed");
            say(ctx, Severity::Normal, Reason::Recreated, &note);
        }
        Outcome::Leaving => {
            let message = format!("{key} is being deleted in the member to be made again");
            let waiting = Delivery::Waiting { reason: Reason::ObjectTerminating, message };
            execution.put_off(waiting, Requeue::After(FINALIZERS_RECHECK));
        }
        // No watch tells when one without our label is gone.
        Outcome::InTheWay => execution.put_off(wait_for_end(key), Requeue::Retry(Retry::Soon)),
        Outcome::Adopted { other_versions, .. } => {
            gather(ctx, events::ADOPTED, key, &[]);
            if let Some(message) = other_versions {
                gather_failure(ctx, Reason::AdoptedInPart, key, &message);
            }
        }
        Outcome::Unproven => {
            let note = format!(
                "{key} on {cluster} stands in the inventory and bears no mark of this VidraResource: it is left alone"
            );
            say(ctx, Severity::Warning, Reason::InventoryEntryUnproven, &note);
        }
        Outcome::Removing => {
            let message = format!(
                "waiting until {key} is gone: finalizers run in the member, of it or of what is in it"
            );
            still_going(ctx, Reason::Finalizers, message, FINALIZERS_RECHECK, execution);
        }
        Outcome::Unsettled { why } => {
            let message = format!("{key} is not seen: {why}");
            still_going(ctx, Reason::Settling, message, SETTLES, execution);
        }
        Outcome::TooEarly { rest } => account_too_early(ctx, key, want, rest, execution),
        Outcome::Refused { reason, message } => {
            gather_failure(ctx, reason, key, &message);
            let refused = Delivery::Failed { reason, message, stalled: true };
            execution.put_off(refused, Requeue::Retry(Retry::Rarely));
        }
        Outcome::Failed(error) => account_failure(ctx, effect, &error, execution),
    }
}

/// It is neither removed nor, where it is declared, made again before what the previous process had sent has landed.
fn account_too_early(
    ctx: &Context<'_>,
    key: &ObjectKey,
    want: Option<&Want>,
    rest: Duration,
    execution: &mut Execution,
) {
    let now = ctx.hub.clock.now();
    let until = now.checked_add(rest).unwrap_or(now);
    let message = format!(
        "{key} is left as it is until {until:.0}: what the vidra-hub process before this one had sent may take effect until then"
    );
    match want {
        Some(_) => {
            let waiting = Delivery::Waiting { reason: Reason::Settling, message };
            execution.put_off(waiting, Requeue::After(rest));
        }
        None => still_going(ctx, Reason::Settling, message, rest, execution),
    }
}

/// An object is on its way out. Of a target that stays that is told beside its state: what is declared is there.
fn still_going(
    ctx: &Context<'_>,
    reason: Reason,
    message: String,
    again: Duration,
    execution: &mut Execution,
) {
    let again = Requeue::After(again);
    if ctx.target.spec.desired != DesiredState::Present {
        // Nobody has tried to remove what is left as it is for a while.
        let reason = if reason == Reason::Settling { reason } else { Reason::Removing };
        return execution.put_off(Delivery::TearingDown { reason, message }, again);
    }
    execution.failed_effects += 1;
    execution.look_again(again);
    execution.removing.get_or_insert_with(|| RemovingObjects {
        objects: 0,
        reason: reason.to_string(),
        message: Some(message),
    });
}

/// Nobody has said how soon what failed is to be tried again.
fn retries_by_default(ctx: &Context<'_>) -> bool {
    let settings = ctx.hub.tuning.now();
    let own = &ctx.target.spec.reconcile.retry_interval;
    own.is_none() && settings.retry && settings.retry_max >= RETRY_RARELY
}

fn account_failure(ctx: &Context<'_>, effect: &Effect, error: &CallError, execution: &mut Execution) {
    if error.class == Class::Withdrawn {
        // Nothing was sent, and nothing is to be said of it.
        execution.failed_effects += 1;
        execution.withdrawn = true;
        return;
    }
    let (message, reason) = (failure(effect, error), error.reason());
    // Of several failures only the first is told, and with it that they go on.
    match execution.delivery {
        None => tracing::info!("{message}"),
        Some(_) => tracing::debug!("{message}"),
    }
    if !error.is_transport() {
        gather_failure(ctx, reason, &effect.key, &message);
    }
    // Silence is no failure of the object: the session's health check finds out whether the member is lost.
    let delivery = match error.is_transport() {
        true => Delivery::Waiting { reason, message },
        false => {
            let stalled =
                error.class == Class::Forbidden || (error.is_invalid() && error.class != Class::InvalidField);
            Delivery::Failed { reason, message, stalled }
        }
    };
    let told = ctx.target.status.as_ref().and_then(Reason::of);
    // The back-off of what was told before says nothing of it. Of several failures only the first is told.
    let is_news = execution.delivery.is_none() && told != Some(reason);
    // A namespace that is on its way out is made again when it is gone, and nothing tells of that.
    let is_ending = error.class == Class::Namespace { terminating: true };
    let is_long =
        error.class == Class::Server || error.class == Class::Gateway && mutants::is(Mutant::GatewaysRarely);
    let is_short = is_ending || error.is_transient() && !is_long;
    let again = match error.class {
        // Once soon: a server may not know yet the schema that came with this very revision.
        Class::InvalidField if told == Some(reason) && retries_by_default(ctx) => Requeue::Backstop,
        _ if is_short || is_news => Requeue::Retry(Retry::Soon),
        _ => Requeue::Retry(Retry::Rarely),
    };
    execution.put_off(delivery, again);
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

fn failure(effect: &Effect, error: &CallError) -> String {
    let doing = match &effect.action {
        Action::Create => "creating",
        Action::Apply { .. } | Action::Verify { .. } => "applying",
        Action::Look { .. } => "looking at",
        Action::Remove { mode: RemovalMode::Delete | RemovalMode::DeleteEmpty, .. } => "deleting",
        Action::Remove { .. } => "releasing",
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
    fn what_is_tried_rarely_puts_off_nothing_else() {
        let (soon, rarely) = (Requeue::Retry(Retry::Soon), Requeue::Retry(Retry::Rarely));
        let (later, backstop) = (Requeue::After(Duration::from_secs(2)), Requeue::Backstop);
        for (asked, decided) in [
            (vec![backstop], backstop),
            (vec![backstop, soon, later], soon),
            (vec![later, soon, backstop], later),
            (vec![rarely, soon], soon),
            (vec![soon, rarely], soon),
            (vec![rarely, later, backstop], rarely),
        ] {
            let mut execution = Execution::default();
            asked.iter().for_each(|requeue| execution.look_again(*requeue));
            assert_eq!(execution.requeue, Some(decided), "{asked:?}");
        }
    }

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

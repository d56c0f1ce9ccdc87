//! Performing a plan: intent first, stage by stage, removals last. What the inventory is then comes with the report.

use std::{
    collections::VecDeque,
    future::{pending, ready},
    pin::pin,
    sync::Arc,
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
    Pass,
    lately::{Lately, UnderWay},
    outcome,
    result::{RARELY, Report},
    waiting::wait_for_end,
};
use crate::{
    base::error::{CallError, Class},
    hub::{
        events::{self, Severity},
        inventory,
    },
    member::effects::{Actor, Outcome},
    queue::Verdict,
    reconcile::{RETRY_MOST, RETRY_RARELY, cluster::meant},
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

impl Pass<'_> {
    /// Performs a plan: intent first, then stage by stage, removals last. The inventory is to be written at the end
    /// with [`Pass::settle`]. `before` is what is written of it, `inventory` what is known when the pass begins.
    /// `lately` takes up what drifts meanwhile.
    pub(super) async fn perform(
        &self,
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
            report.unwritten = self.changed(&before, &inventory);
            self.settle(&mut report).await?;
        }
        for stage in &plan.stages {
            let lately = lately.as_deref_mut();
            self.perform_stage(actor, stage, &mut inventory, &mut report, lately).await;
        }
        if report.undone == 0 {
            for stage in &plan.removals {
                let before = report.undone;
                self.perform_stage(actor, stage, &mut inventory, &mut report, None).await;
                if report.undone > before {
                    break;
                }
            }
        }
        report.unwritten = self.changed(&before, &inventory);
        Ok(Done { report, inventory })
    }

    /// Writes what became of the inventory, where that is anything new. Until then our Apply entries are the proof
    /// of what was made; so it may follow the status, for which people wait.
    pub(super) async fn settle(&self, report: &mut Report) -> Result<(), CallError> {
        let Some(inventory) = report.unwritten.take() else { return Ok(()) };
        self.write(&inventory, self.target.spec.desired != Wish::Present).await
    }

    /// What is to be written of the inventory, a part of which went from `before` to `now`.
    pub(super) fn changed(&self, before: &Inventory, now: &Inventory) -> Option<Inventory> {
        let (chunks, cluster) = (self.hub.catalog.inventory(self.key), self.cluster_uid());
        inventory::changed(&chunks, cluster.as_deref(), before, now)
    }

    /// Brings what is written of the inventory to this.
    pub(super) async fn write(&self, inventory: &Inventory, leaving: bool) -> Result<(), CallError> {
        let (chunks, cluster) = (self.hub.catalog.inventory(self.key), self.cluster_uid());
        let most = self.hub.knobs.inventory_entries;
        let writes = inventory::writes(&chunks, cluster.as_deref(), inventory, leaving, most);
        self.hub.api.write_inventory(self.key, &writes).await
    }

    /// Which cluster the target's member is.
    pub(super) fn cluster_uid(&self) -> Option<Arc<str>> {
        self.hub.catalog.member(&self.key.cluster).and_then(|member| meant(self.hub, &member))
    }

    pub(super) async fn perform_stage(
        &self,
        actor: &Actor<'_>,
        stage: &[Effect],
        inventory: &mut Inventory,
        report: &mut Report,
        lately: Option<&mut Lately<'_>>,
    ) {
        let (done, ()) = send(actor, stage, inventory, lately, ready(())).await;
        self.account_all(actor, done, inventory, report);
    }

    /// Takes what became of effects.
    pub(super) fn account_all(
        &self,
        actor: &Actor<'_>,
        done: Vec<(Effect, Outcome)>,
        inventory: &mut Inventory,
        report: &mut Report,
    ) {
        for (effect, outcome) in done {
            let want = actor.desired.wants.get(&effect.key);
            let healed = actor.session.records.take_healed(&actor.owner.hash, &effect.key);
            if let Outcome::Applied { uid, corrected: true } = &outcome {
                report.mended.push(self.mended(actor.session, &effect, uid, healed));
            }
            self.account(&effect, want, outcome, inventory, report);
        }
    }

    fn account(
        &self,
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
        if reapplies(&effect.action, &outcome, self.target.is_delivered()) {
            report.reapplied.insert(key.clone());
        }
        if leaves_doubt(&effect.action, &outcome) {
            report.unverified.insert(key.clone());
        }
        self.report_outcome(effect, want, outcome, report);
    }

    /// Tells what came of an effect, and what keeps the target from being as it is to be.
    fn report_outcome(&self, effect: &Effect, want: Option<&Want>, outcome: Outcome, report: &mut Report) {
        let (key, cluster) = (&effect.key, &self.key.cluster);
        match outcome {
            Outcome::Applied { corrected: true, .. } => {
                report.corrected += 1;
                self.gather(events::CORRECTED, key, &[]);
            }
            Outcome::Applied { .. } | Outcome::Present | Outcome::Seen | Outcome::Gone => {}
            Outcome::Recreated { fields, .. } => {
                let note =
                    format!("{key} on {cluster} was deleted and made again: {fields} could not be changed");
                self.say(Severity::Normal, "Recreated", &note);
            }
            Outcome::Leaving => {
                let message = format!("{key} is being deleted in the member to be made again");
                let waiting = Delivery::Waiting { reason: "ObjectTerminating", message };
                report.put_off(waiting, Verdict::Done(Some(LOOK_AGAIN)));
            }
            // No watch tells when one without our label is gone.
            Outcome::InTheWay => report.put_off(wait_for_end(key), Verdict::Retry(RETRY_MOST)),
            Outcome::Adopted { apart, .. } => {
                self.gather(events::ADOPTED, key, &[]);
                if let Some(message) = apart {
                    self.gather_failure("AdoptedInPart", key, &message);
                }
            }
            Outcome::Unproven => {
                let note = format!(
                    "{key} on {cluster} stands in the inventory and bears no mark of this VidraResource: it is left alone"
                );
                self.say(Severity::Warning, "InventoryEntryUnproven", &note);
            }
            Outcome::Removing => {
                let message = format!(
                    "waiting until {key} is gone: finalizers run in the member, of it or of what is in it"
                );
                self.still_going(FINALIZERS, message, LOOK_AGAIN, report);
            }
            Outcome::Unsettled { why } => {
                let message = format!("{key} is not seen: {why}");
                self.still_going(SETTLING, message, SETTLES, report);
            }
            Outcome::TooEarly { rest } => self.account_too_early(key, want, rest, report),
            Outcome::Refused { reason, message } => {
                self.gather_failure(reason, key, &message);
                let refused = Delivery::Failed { reason, message, stalled: true };
                report.put_off(refused, Verdict::Retry(RETRY_RARELY));
            }
            // Nothing was sent, and nothing is to be said of it.
            Outcome::Failed(CallError { class: Class::Withdrawn, .. }) => {
                report.undone += 1;
                report.withdrawn = true;
            }
            Outcome::Failed(error) => self.account_failure(effect, &error, report),
        }
    }

    /// It is neither removed nor, where it is declared, made again before what the process of before had sent has landed.
    fn account_too_early(&self, key: &ObjectKey, want: Option<&Want>, rest: Duration, report: &mut Report) {
        let now = self.hub.clock.now();
        let until = now.checked_add(rest).unwrap_or(now);
        let message = format!(
            "{key} is left as it is until {until:.0}: what the vidra-hub process before this one had sent may take effect until then"
        );
        match want {
            Some(_) => {
                let waiting = Delivery::Waiting { reason: SETTLING, message };
                report.put_off(waiting, Verdict::Done(Some(rest)));
            }
            None => self.still_going(SETTLING, message, rest, report),
        }
    }

    /// An object is on its way out. Of a target that stays that is told beside its state: what is declared is there.
    fn still_going(&self, reason: &str, message: String, again: Duration, report: &mut Report) {
        let again = Verdict::Done(Some(again));
        if self.target.spec.desired != Wish::Present {
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
    fn retries_by_default(&self) -> bool {
        let live = self.hub.tuning.now();
        let own = &self.target.spec.reconcile.retry_interval;
        own.is_none() && live.retry && live.retry_max >= RETRY_RARELY
    }

    fn account_failure(&self, effect: &Effect, error: &CallError, report: &mut Report) {
        let (message, reason) = (failure(effect, error), error.reason());
        tracing::info!(cluster = %self.key.cluster, target = %self.key, %message, "an effect failed");
        if !error.is_transport() {
            self.gather_failure(reason, &effect.key, &message);
        }
        // Silence is no failure of the object: the breaker finds out what it is.
        let delivery = match error.is_transport() {
            true => Delivery::Waiting { reason, message },
            false => {
                let stalled = error.class == Class::Forbidden
                    || (error.is_invalid() && error.class != Class::InvalidField);
                Delivery::Failed { reason, message, stalled }
            }
        };
        let told = self.target.status.as_ref().and_then(|status| status.reason.as_deref());
        // The back-off of what was told before says nothing of it. Of several failures only the first is told.
        let is_news = report.delivery.is_none() && told != Some(reason);
        let is_short = error.is_transient() && error.class != Class::Server;
        let again = match error.class {
            // Once soon: a server may not know yet the schema that came with this very revision.
            Class::InvalidField if told == Some(reason) && self.retries_by_default() => RARELY,
            _ if is_short || is_news => Verdict::Retry(RETRY_MOST),
            _ => Verdict::Retry(RETRY_RARELY),
        };
        report.put_off(delivery, again);
    }
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

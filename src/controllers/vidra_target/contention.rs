//! Drift that a plan brings back, what of it is left alone because somebody keeps undoing repairs (vidra-core decides), and
//! who is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use vidra_api::{Change, ChangeKind, DriftPolicy};
use vidra_core::{
    contention::{Cause, Finding, Review, Told},
    drift::managers,
    mutants::{self, Mutant},
    object::ObjectKey,
    owner::Owner,
    plan::{self, Action, Drift, Effect, Live, Plan, PlanInput, Why},
};

use super::{
    context::Context,
    drift::{DriftReport, key_of},
    events::gather,
    execution::Execution,
};
use crate::{
    hub::events,
    member::{apply::Executor, session::Session},
    workqueue::Key,
};

/// All that a plan would bring back to what was applied before, and why it is not as declared.
#[derive(Default)]
pub(super) struct DriftCauses(BTreeMap<ObjectKey, Finding>);

/// Plans, without what is to be left alone for now: neither is it acted on, nor does a wave wait for it, unless
/// it is missing.
pub(super) fn plan_without_contention(
    ctx: &Context<'_>,
    input: &PlanInput<'_>,
    session: &Session,
    owner: &Owner,
) -> (Plan, DriftCauses) {
    let plan = plan::plan(input);
    let mut causes = DriftCauses::default();
    for effect in plan.stages.iter().flatten() {
        causes.enter(effect, input, session, owner);
    }
    let Review { left_alone, begun } = review(ctx, &causes, input);
    for key in &begun {
        let by = ctx.hub.state.lock().target(ctx.key).map(|state| state.contentions.by(key));
        gather(ctx, events::CONTENTION, key, &by.unwrap_or_default());
    }
    if left_alone.is_empty() {
        return (plan, causes);
    }
    let masked = mask(input, &left_alone);
    let mut plan = plan::plan(&PlanInput { live: &masked, ..*input });
    for stage in &mut plan.stages {
        stage.retain(|effect| !left_alone.contains(&effect.key));
    }
    plan.stages.retain(|stage| !stage.is_empty());
    if plan.stages.is_empty() {
        plan.intent = None;
    }
    (plan, causes)
}

fn review(ctx: &Context<'_>, causes: &DriftCauses, input: &PlanInput<'_>) -> Review {
    let now = ctx.hub.now();
    let declared = |key: &ObjectKey| input.wants.get(key).map(|want| want.hash);
    ctx.hub.state.lock().change_target(ctx.key, |state| state.contentions.review(declared, &causes.0, now))
}

/// Takes what became of what was found: counts repairs, tells of drift that is new, and has the target looked
/// at again when contention asks for it.
pub(super) fn conclude_drift(
    ctx: &Context<'_>,
    executor: &Executor<'_>,
    causes: &DriftCauses,
    execution: &Execution,
    drift: &DriftReport,
) {
    let Executor { session, desired, .. } = *executor;
    let now = ctx.hub.now();
    let next = ctx.hub.state.lock().change_target(ctx.key, |state| {
        for key in &execution.reapplied {
            let (Some(suspect), Some(want)) = (causes.0.get(key), desired.wants.get(key)) else {
                continue;
            };
            state.contentions.repaired(key, want.hash, suspect, now);
        }
        state.contentions.next_look(now)
    });
    for change in news(ctx, &execution.corrections, drift) {
        session.counters().drift_detected(change.change);
        gather(ctx, events::DETECTED, &key_of(change), &managers(&change.fields));
    }
    session.counters().drift_corrected(execution.corrections.len() as i64);
    if let Some(wait) = next {
        ctx.hub.queue.add_after(Key::Target(ctx.key.clone()), wait);
    }
}

/// Drift that was not found before: by this process, or by the one before it as the status tells.
fn news<'r>(ctx: &Context<'_>, corrections: &'r [Change], drift: &'r DriftReport) -> Vec<&'r Change> {
    if ctx.target.spec.drift.policy == DriftPolicy::Ignore {
        return Vec::new();
    }
    let id = |change: &Change| match mutants::is(Mutant::DriftToldOnce) {
        true => (key_of(change), ChangeKind::Modified),
        false => (key_of(change), change.change),
    };
    let told = || {
        let status = ctx.target.status.as_ref();
        let changes = status.into_iter().flat_map(|status| &status.changes);
        changes.filter(|change| change.corrected.is_none()).map(id).collect()
    };
    let open: BTreeSet<_> = drift.changes.iter().map(id).collect();
    let known = ctx.hub.state.lock().change_target(ctx.key, |state| mem::replace(&mut state.drifting, open));
    let mut known = if known.is_empty() { told() } else { known };
    corrections.iter().chain(&drift.changes).filter(|change| known.insert(id(change))).collect()
}

/// What the status says of this target's contentions.
pub(super) fn contention(ctx: &Context<'_>) -> Option<Told> {
    ctx.hub.state.lock().target(ctx.key).and_then(|state| state.contentions.told())
}

impl DriftCauses {
    /// What a newer plan has found beside it: the objects of which `is_new` is true.
    pub(super) fn join(&mut self, newer: Self, is_new: impl Fn(&ObjectKey) -> bool) {
        self.0.extend(newer.0.into_iter().filter(|(key, _)| is_new(key)));
    }

    fn enter(&mut self, effect: &Effect, input: &PlanInput<'_>, session: &Session, owner: &Owner) {
        let key = &effect.key;
        let live = input.live.get(key);
        let held = input.inventory.get(key).is_some_and(|held| !held.uid.is_empty());
        let is_unmarked = held && live.is_some_and(|live| live.applied.is_none());
        let of = |cause| Finding { cause, by: Vec::new() };
        let suspect = match &effect.action {
            Action::Apply { why: Why::Missing, .. } => of(Cause::Missing),
            Action::Create if input.delivered && held && live.is_none() => of(Cause::Missing),
            Action::Apply { uid, why: Why::Drifted, .. } => {
                let evidence = session.records.found(&owner.hash, key, uid);
                evidence.map_or_else(|| of(Cause::Marks), |evidence| Finding::of(&evidence))
            }
            // It was applied as it is declared now: somebody took our stamp off, or put an older one back. Without any stamp
            // that holds also while the rest waits for it.
            Action::Apply { why: Why::Changed, .. } if input.delivered || is_unmarked => of(Cause::Marks),
            Action::Verify { .. } => of(Cause::Unseen),
            _ => return,
        };
        self.0.insert(key.clone(), suspect);
    }
}

/// The member as if these objects were as declared.
fn mask(input: &PlanInput<'_>, as_declared: &BTreeSet<ObjectKey>) -> BTreeMap<ObjectKey, Live> {
    let mut live = input.live.clone();
    for key in as_declared {
        if let (Some(live), Some(want)) = (live.get_mut(key), input.wants.get(key)) {
            live.proof = true;
            live.applied = Some(want.hash);
            live.drift = Drift::None;
        }
    }
    live
}

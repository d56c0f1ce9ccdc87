//! The second step: what is to be done about an observation. vidra-core decides it, and what of it is left alone for now
//! because somebody keeps undoing it.

use vidra_core::{
    plan::{Inventory, Plan, PlanInput, Presence},
    status::Delivery,
};

use super::{
    blockers::unplannable,
    contention::{DriftCauses, plan_without_contention},
    drift::Suspects,
    observe::{Observation, Scope},
};

/// What is to be done, and what of the observation counts when it is done.
pub(super) struct TargetPlan {
    pub(super) effects: Plan,
    /// The drift that they bring back.
    pub(super) causes: DriftCauses,
    /// Objects that may be otherwise than they were left.
    pub(super) suspects: Suspects,
    /// The hub seems to be behind the member: nothing is written.
    pub(super) behind: Option<Delivery>,
    /// The highest generation of the VidraResource among the live objects.
    pub(super) generation: i64,
}

/// Plans to keep the member as declared.
pub(super) fn plan(scope: &Scope<'_>, observation: Observation, inventory: &Inventory) -> TargetPlan {
    let Scope { ctx, session, owner, desired, blind, ref wants, delivered, revisit } = *scope;
    let Observation { live, vanished, before, handovers, suspects, behind, generation } = observation;
    let input = PlanInput {
        presence: Presence::Present,
        wants,
        inventory,
        live: &live,
        vanished: &vanished,
        before: &before,
        handovers: &handovers,
        prune: ctx.prunes(),
        complete: desired.unresolved.is_empty() && blind.is_empty(),
        delivered,
        revisit,
        unplannable: unplannable(desired, blind),
        may_be_declared: &|key| desired.declares(key),
        policy: ctx.policy(),
    };
    let (effects, causes) = plan_without_contention(ctx, &input, session, owner);
    TargetPlan { effects, causes, suspects, behind, generation }
}

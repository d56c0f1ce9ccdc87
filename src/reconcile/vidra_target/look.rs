//! One look at the member: what is otherwise than declared, and what to do about it. A pass begins with one, and takes
//! another where more drifts while it repairs.

use std::{borrow::Cow, collections::BTreeMap};

use vidra_core::{
    beside::Beside,
    object::ObjectKey,
    plan::{self, Inventory, Live, Plan, PlanInput, Want},
    status::Delivery,
};

use super::{
    context::Context,
    drifting::{Suspects, applied_before, vanished},
    fights::{Found, plan_around_fights},
    follow::Blind,
    handover::handovers,
    outcome::proven,
    restored::{known_generation, restored},
    waiting::unplannable,
};
use crate::{
    desired::Desired,
    member::{owner::Owner, session::Session},
};

/// What does not change while a pass is under way.
pub(super) struct Scene<'a> {
    pub(super) session: &'a Session,
    pub(super) owner: &'a Owner,
    pub(super) desired: &'a Desired,
    /// What cannot be seen.
    pub(super) blind: &'a Blind,
    /// What is declared and can be seen.
    pub(super) wants: Cow<'a, BTreeMap<ObjectKey, Want>>,
    /// Just what is asked for was applied whole before.
    pub(super) delivered: bool,
    /// It is time to look for what no watch shows.
    pub(super) revisit: bool,
}

impl Scene<'_> {
    /// What the member has of it now.
    pub(super) fn live(&self) -> BTreeMap<ObjectKey, Live> {
        self.session.records.views_of(&self.owner.hash, self.wants.keys(), self.desired)
    }
}

/// What came of it.
pub(super) struct Look {
    pub(super) plan: Plan,
    /// Drift, and what of it is left alone.
    pub(super) found: Found,
    pub(super) suspects: Suspects,
    /// The hub seems to be behind the member: nothing is written.
    pub(super) behind: Option<Delivery>,
    /// The highest generation of the VidraResource among the live objects.
    pub(super) generation: i64,
}

/// Looks, and enters in the inventory what the member proves to be ours.
pub(super) async fn look(
    ctx: &Context<'_>,
    scene: &Scene<'_>,
    live: &BTreeMap<ObjectKey, Live>,
    inventory: &mut Inventory,
) -> Look {
    let Scene { session, owner, desired, blind, ref wants, delivered, revisit } = *scene;
    let generations = session.records.generations(&owner.hash, desired, known_generation(ctx));
    let behind = restored(ctx, session, &generations);
    proven(inventory, wants, live);
    let suspects = Suspects::of(wants, live, inventory);
    let vanished = vanished(session, owner, &suspects, live);
    let before = applied_before(ctx, session, desired, &suspects, (live, &vanished), delivered).await;
    let mut declared = Beside::new(wants);
    let gone = inventory.keys().filter(|key| declared.get(key).is_none());
    let handovers = handovers(ctx, session, gone);
    let input = PlanInput {
        wish: plan::Wish::Present,
        wants,
        inventory,
        live,
        vanished: &vanished,
        before: &before,
        handovers: &handovers,
        prune: ctx.target.spec.prune,
        complete: desired.unresolved.is_empty() && blind.is_empty(),
        delivered,
        revisit,
        unplannable: unplannable(desired, blind),
        may_be_declared: &|key| desired.declares(key),
        policy: ctx.policy(),
    };
    let (plan, found) = plan_around_fights(ctx, &input, session, owner);
    Look { plan, found, suspects, behind, generation: generations.highest }
}

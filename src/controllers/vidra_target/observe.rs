//! The first step: the member as it is seen now, beside what is declared and what the inventory has. A reconcile begins
//! with one observation, and takes another where more drifts while it repairs.

use std::{borrow::Cow, collections::BTreeMap};

use vidra_core::{
    merge_lookup::MergeLookup,
    object::ObjectKey,
    owner::Owner,
    plan::{Handover, Inventory, Live, Vanished, Want},
    render::DeclaredHash,
    status::Delivery,
};

use super::{
    context::Context,
    drift::{Suspects, applied_before, vanished},
    handover::classify_undeclared,
    hub_restore::{check_restore, known_generation},
    status::Status,
    visibility::Blind,
};
use crate::{desired::Desired, member::session::Session};

/// What does not change while a target is brought to what is declared.
pub(super) struct Scope<'a> {
    pub(super) ctx: &'a Context<'a>,
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

impl Scope<'_> {
    /// What the member has of it now.
    pub(super) fn live(&self) -> BTreeMap<ObjectKey, Live> {
        self.session.records.views_of(&self.owner.hash, self.wants.keys(), self.desired)
    }

    /// Of what is looked at, and not brought to what is declared.
    pub(super) fn status(&self, delivery: Delivery) -> Status {
        Status { seen: self.blind.is_empty(), ..Status::of(delivery) }
    }
}

/// What a plan goes by.
pub(super) struct Observation {
    pub(super) live: BTreeMap<ObjectKey, Live>,
    /// Of objects that the inventory knows and the member does not show.
    pub(super) vanished: BTreeMap<ObjectKey, Vanished>,
    /// As what the revision that was applied whole last declared objects; see [`applied_before`].
    pub(super) before: BTreeMap<ObjectKey, Option<DeclaredHash>>,
    /// Of objects that are not declared any more.
    pub(super) handovers: BTreeMap<ObjectKey, Handover>,
    /// Objects that may be otherwise than they were left.
    pub(super) suspects: Suspects,
    /// The hub seems to be behind the member: nothing is written.
    pub(super) behind: Option<Delivery>,
    /// The highest generation of the VidraResource among the live objects.
    pub(super) generation: i64,
}

/// Observes. `inventory`: with what the member proves to be ours.
pub(super) async fn observe(
    scope: &Scope<'_>,
    live: BTreeMap<ObjectKey, Live>,
    inventory: &Inventory,
) -> Observation {
    let Scope { ctx, session, owner, desired, ref wants, delivered, .. } = *scope;
    let generations = session.records.generations(&owner.hash, desired, known_generation(ctx));
    let behind = check_restore(ctx, session, &generations);
    let suspects = Suspects::of(wants, &live, inventory);
    let vanished = vanished(session, owner, &suspects, &live);
    let before = applied_before(ctx, session, desired, &suspects, (&live, &vanished), delivered).await;
    let mut declared = MergeLookup::new(wants);
    let gone = inventory.keys().filter(|key| declared.get(key).is_none());
    let handovers = classify_undeclared(ctx, session, gone);
    Observation { live, vanished, before, handovers, suspects, behind, generation: generations.highest }
}

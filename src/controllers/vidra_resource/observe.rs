//! The first step: what a VidraResource declares, which members it targets, and the VidraTargets that it has.

use std::sync::Arc;

use vidra_core::select::Selection;

use super::context::{Context, Targets};
use crate::{
    controllers::confirmation,
    hub::revisions::{Parsed, RevisionError},
};

/// What is to be delivered.
pub(super) enum Declaration {
    /// Nothing new: it is suspended or goes, or its revision could not be kept.
    Rest,
    /// What cannot be a revision.
    Invalid(RevisionError),
    /// A revision that is kept.
    Revision(Arc<Parsed>),
}

/// What a plan goes by.
pub(super) struct Observation {
    pub(super) declaration: Declaration,
    pub(super) selection: Selection,
    pub(super) targets: Targets,
}

/// Takes together what the plan goes by: the declaration, the members selected now, the VidraTargets that exist.
pub(super) fn observe(ctx: &Context<'_>, declaration: Declaration) -> Observation {
    Observation { declaration, selection: select(ctx), targets: ctx.targets() }
}

/// Which members it targets now.
pub(super) fn select(ctx: &Context<'_>) -> Selection {
    confirmation::select(ctx.hub, ctx.resource, &ctx.hub.catalog.members())
}

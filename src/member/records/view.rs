//! One owner's standing in an object: its marks, what its values are compared with, and the evidence of drift.

use std::sync::Arc;

use smallvec::SmallVec;
use vidra_api::names::OwnerHash;
use vidra_core::{drift::Evidence, render::DeclaredHash};

use super::{baseline::Baseline, trace::Trace};

/// What was declared at an apply, and the VidraResource's generation then.
pub(super) type Applied = (DeclaredHash, i64);

/// Mostly one.
pub(super) type Views = SmallVec<[View; 1]>;

/// One owner's standing in a live object.
pub(super) struct View {
    pub(super) owner: OwnerHash,
    pub(super) proof: bool,
    /// It has an Apply entry, with or without its label.
    pub(super) applies: bool,
    /// Our last apply.
    pub(super) applied: Option<Arc<Applied>>,
    /// Somebody holds what is left to such. `None`: it was not seen since it is known what is.
    pub(super) yields: Option<bool>,
    /// See [`vidra_core::render::Stamp::kept`].
    pub(super) kept: bool,
    pub(super) baseline: Baseline,
    /// While it is not as it was left.
    pub(super) trace: Option<Box<Trace>>,
}

impl View {
    pub(super) fn applied(&self) -> Option<Applied> {
        self.applied.as_deref().copied()
    }

    pub(super) fn evidence(&self) -> Option<Evidence> {
        self.trace.as_ref().map(|trace| trace.evidence.clone())
    }
}

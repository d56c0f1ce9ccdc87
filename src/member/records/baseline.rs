//! The drift decision: what one owner's live values are compared with, and what of them is hashed: not what is left alone.

use std::{
    borrow::{Borrow, Cow},
    sync::Arc,
};

use serde_json::Value;
use vidra_api::names::HubId;
use vidra_core::{
    fields::{self, FieldSet},
    ignore::FieldExemptions,
    object::ObjectKey,
    plan::Drift,
};

use super::owners::Owner;

/// What an owner's live values are compared with, and how sure that is.
pub(super) enum Baseline {
    /// The values of our last apply over its field set.
    Compared { set: Arc<FieldSet>, values: u64, drifted: bool },
    /// Those values too, but some only another VidraResource holds now: they would go with that one.
    HeldByOther { set: Arc<FieldSet>, values: u64 },
    /// Seen, not compared yet: the values over what our entry owns now. `exact`: what is declared was
    /// known when they were hashed, so that what it leaves empty, and what is ignored, was left out.
    Uncompared { set: Arc<FieldSet>, values: u64, exact: bool },
    /// What is left alone has changed since it was seen, or a field was lost to another VidraResource: only a dry run
    /// tells.
    NeedsDryRun,
    /// It differs in what cannot be changed, so that no dry run tells what an apply would leave.
    Immutable,
    /// Our entry is gone, or the label by which the object is seen; what was known before.
    Lost { was: Option<(Arc<FieldSet>, u64)> },
}

/// A live object beside what an owner declares of it.
pub(super) struct Comparison<'a> {
    hub: &'a HubId,
    owner: Option<&'a Owner>,
    live: &'a Value,
    /// What is hashed of it.
    hashed: Cow<'a, Value>,
    declared: Option<&'a Value>,
    exempt: Option<&'a FieldExemptions>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(hub: &'a HubId, key: &ObjectKey, live: &'a Value, owner: Option<&'a Owner>) -> Self {
        let declared = owner.and_then(|known| known.declared(key));
        let exempt = owner.and_then(|known| known.exempt(key));
        let hashed = hashed_part(exempt, live);
        Self { hub, owner, live, hashed, declared: declared.map(|declared| &*declared.body), exempt }
    }

    /// The baseline of an object that is as it was left.
    pub(super) fn unchanged(&self, set: Arc<FieldSet>) -> Baseline {
        let values = fields::values_hash(&self.hashed, &set, self.declared);
        Baseline::Compared { set, values, drifted: false }
    }

    /// The baseline of an object of which nothing was known.
    pub(super) fn first(&self, set: Arc<FieldSet>) -> Baseline {
        let values = fields::values_hash(&self.hashed, &set, self.declared);
        match self.is_filled() || self.is_disturbed(&set) {
            true => Baseline::Compared { set, values, drifted: true },
            false => Baseline::Uncompared { set, values, exact: self.declared.is_some() },
        }
    }

    /// The baseline of an object of which these values over the set were known; `others`: what other VidraResources own of
    /// it. `is_confirmed`: where the same values are theirs alone, a dry run has told so.
    pub(super) fn next(
        &self,
        entry: &Arc<FieldSet>,
        (set, values): (Arc<FieldSet>, u64),
        others: impl Iterator<Item = impl Borrow<FieldSet>>,
        is_confirmed: bool,
    ) -> Baseline {
        let drifted = self.differs(entry, &set, values);
        match !drifted && set.is_lost_to(entry, others) {
            true if is_confirmed => Baseline::HeldByOther { set, values },
            true => Baseline::NeedsDryRun,
            false => Baseline::Compared { set, values, drifted },
        }
    }

    /// Whether it is otherwise than these values over the set; `entry` is what our entry owns now.
    fn differs(&self, entry: &Arc<FieldSet>, set: &Arc<FieldSet>, values: u64) -> bool {
        (fields::values_hash(&self.hashed, set, self.declared) != values
            && !is_yielded(self.exempt, self.live, self.declared, (set, values)))
            || (entry != set && self.is_filled())
            || self.is_disturbed(entry)
    }

    /// Somebody holds what is left to such.
    pub(super) fn yields(&self) -> bool {
        self.exempt.is_some_and(|exempt| exempt.yields_now(self.live))
    }

    fn is_disturbed(&self, own: &FieldSet) -> bool {
        let both = self.exempt.zip(self.declared);
        both.is_some_and(|(exempt, declared)| exempt.is_disturbed(self.live, declared, own))
    }

    /// Somebody filled, as a whole, what we declare empty: no value of ours shows it, only our entry's loss.
    fn is_filled(&self) -> bool {
        let (Some(declared), Some(owner)) = (self.declared, self.owner) else { return false };
        let manager = owner.manager(self.hub);
        fields::has_empties(declared) && !fields::taken_empties(&self.hashed, declared, &manager).is_empty()
    }
}

impl Baseline {
    pub(super) fn known(&self) -> Option<(Arc<FieldSet>, u64, bool)> {
        match self {
            Baseline::Compared { set, values, drifted } => Some((set.clone(), *values, *drifted)),
            Baseline::HeldByOther { set, values } => Some((set.clone(), *values, false)),
            Baseline::Lost { was: Some((set, values)) } => Some((set.clone(), *values, true)),
            Baseline::Uncompared { .. }
            | Baseline::NeedsDryRun
            | Baseline::Immutable
            | Baseline::Lost { was: None } => None,
        }
    }

    /// It is not as it was left, as far as is known without a call.
    pub(super) fn has_drifted(&self) -> bool {
        matches!(self, Baseline::Compared { drifted: true, .. } | Baseline::Lost { .. })
    }

    /// What is left alone is otherwise from now on.
    pub(super) fn invalidate(&mut self) {
        if !matches!(self, Baseline::Lost { .. }) {
            *self = Baseline::NeedsDryRun;
        }
    }

    /// Takes what was seen for a baseline, where that needs no call. `yields`: somebody holds what is left to such.
    /// `kept`: not all that our entry owns is as declared, which is as it should be only while something is ignored.
    pub(super) fn promote(
        &mut self,
        declared: &Value,
        exempt: Option<&FieldExemptions>,
        yields: bool,
        kept: bool,
    ) {
        let Baseline::Uncompared { set, values, exact } = self else { return };
        let ignores = exempt.is_some_and(FieldExemptions::ignores);
        let comparable = match ignores {
            true => *exact,
            false => !kept && (*exact || !fields::has_empties(declared)),
        };
        let is_owned = |declared: &Value| fields::missing_leaves(declared, set).is_empty();
        let owned = match exempt {
            Some(exempt) => is_owned(&exempt.expected(declared, yields)),
            None => is_owned(declared),
        };
        if comparable && owned {
            *self = Baseline::Compared { set: set.clone(), values: *values, drifted: false };
        }
    }

    pub(super) fn drift(&self) -> Drift {
        match self {
            Baseline::Compared { drifted: false, .. } => Drift::None,
            Baseline::HeldByOther { .. } => Drift::HeldByOther,
            Baseline::Compared { drifted: true, .. } | Baseline::Immutable | Baseline::Lost { .. } => {
                Drift::Differs
            }
            Baseline::Uncompared { .. } | Baseline::NeedsDryRun => Drift::Unsure,
        }
    }

    /// Whether values differ from those of our last apply, where they are known: `None` without them.
    pub(super) fn is_modified(&self, live: &Value, declared: &Value) -> Option<bool> {
        match self {
            Baseline::Compared { drifted, .. } => Some(*drifted),
            Baseline::HeldByOther { .. } => Some(false),
            Baseline::Immutable => Some(true),
            Baseline::Lost { was: Some((set, values)) } => {
                Some(fields::values_hash(live, set, Some(declared)) != *values)
            }
            Baseline::Uncompared { .. } | Baseline::NeedsDryRun | Baseline::Lost { was: None } => None,
        }
    }
}

/// What is hashed of a live object. Mostly all of it.
pub(super) fn hashed_part<'a>(exempt: Option<&FieldExemptions>, live: &'a Value) -> Cow<'a, Value> {
    match exempt.filter(|exempt| exempt.ignores()) {
        Some(exempt) => Cow::Owned(exempt.masked(live)),
        None => Cow::Borrowed(live),
    }
}

/// Whether values that differ from these do so only in what is left to who holds it now.
fn is_yielded(
    exempt: Option<&FieldExemptions>,
    live: &Value,
    declared: Option<&Value>,
    (set, values): (&FieldSet, u64),
) -> bool {
    exempt.zip(declared).is_some_and(|(exempt, declared)| {
        exempt.yields_now(live)
            && fields::values_hash(&exempt.undone(live, declared), set, Some(declared)) == values
    })
}

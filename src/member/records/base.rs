//! What one owner's live values are compared with.

use std::sync::Arc;

use serde_json::Value;
use vidra_core::{
    fields::{self, FieldSet},
    plan::Drift,
};

/// See the module.
pub(super) enum Base {
    /// The values of our last apply over its field set.
    Known { set: Arc<FieldSet>, values: u64, drifted: bool },
    /// Seen, not compared yet: the values over what our entry owns now. `exact`: what is declared was
    /// known when they were hashed, so that what it leaves empty was left out.
    Seen { set: Arc<FieldSet>, values: u64, exact: bool },
    /// Our entry is gone; what was known before.
    Lost { was: Option<(Arc<FieldSet>, u64)> },
}

impl Base {
    pub(super) fn known_now(live: &Value, set: Arc<FieldSet>, body: Option<&Value>) -> Self {
        let values = fields::values_hash(live, &set, body);
        Base::Known { set, values, drifted: false }
    }

    pub(super) fn known(&self) -> Option<(Arc<FieldSet>, u64, bool)> {
        match self {
            Base::Known { set, values, drifted } => Some((set.clone(), *values, *drifted)),
            Base::Lost { was: Some((set, values)) } => Some((set.clone(), *values, true)),
            Base::Seen { .. } | Base::Lost { was: None } => None,
        }
    }

    pub(super) fn settle(&mut self, declared: &Value) {
        if let Base::Seen { set, values, exact } = self
            && (*exact || !fields::has_empties(declared))
            && fields::missing_leaves(declared, set).is_empty()
        {
            *self = Base::Known { set: set.clone(), values: *values, drifted: false };
        }
    }

    pub(super) fn drift(&self) -> Drift {
        match self {
            Base::Known { drifted: false, .. } => Drift::None,
            Base::Known { drifted: true, .. } | Base::Lost { .. } => Drift::Differs,
            Base::Seen { .. } => Drift::Unsure,
        }
    }

    /// Whether values differ from those of our last apply, where they are known: `None` without them.
    pub(super) fn is_modified(&self, live: &Value, declared: &Value) -> Option<bool> {
        match self {
            Base::Known { drifted, .. } => Some(*drifted),
            Base::Lost { was: Some((set, values)) } => {
                Some(fields::values_hash(live, set, Some(declared)) != *values)
            }
            Base::Seen { .. } | Base::Lost { was: None } => None,
        }
    }
}

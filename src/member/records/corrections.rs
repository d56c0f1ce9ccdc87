//! What own answers have corrected, by owner and object, until it is asked for.

use std::collections::BTreeMap;

use vidra_api::names::OwnerHash;
use vidra_core::{drift::Evidence, object::ObjectKey};

/// Drift that our own answers corrected, until it is taken.
#[derive(Default)]
pub(super) struct Corrections {
    of: BTreeMap<(OwnerHash, ObjectKey), Evidence>,
}

impl Corrections {
    /// What the last answer has corrected; nothing: the object was as it should be.
    pub(super) fn set(&mut self, owner: &OwnerHash, key: &ObjectKey, evidence: Option<Evidence>) {
        let place = (owner.clone(), key.clone());
        match evidence {
            Some(evidence) => self.of.insert(place, evidence),
            None => self.of.remove(&place),
        };
    }

    pub(super) fn take(&mut self, owner: &OwnerHash, key: &ObjectKey) -> Option<Evidence> {
        self.of.remove(&(owner.clone(), key.clone()))
    }

    /// The owner is gone.
    pub(super) fn forget(&mut self, owner: &OwnerHash) {
        self.of.retain(|(of, _), _| of != owner);
    }

    pub(super) fn clear(&mut self) {
        self.of.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.of.len()
    }
}

//! Objects that bear an owner's label and are not proved to be its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use vidra_api::names::OwnerHash;
use vidra_core::{
    mutants::{self, Mutant},
    object::ObjectKey,
};

/// Bound on the objects that are noted: a member's users can make any number of them.
pub(super) const STRAYS_MOST: usize = 1000;

/// See the module: each with its version, by owner, and for whom each one is.
#[derive(Default)]
pub(super) struct Strays {
    by_owner: BTreeMap<OwnerHash, BTreeMap<ObjectKey, Arc<str>>>,
    of: BTreeMap<ObjectKey, Vec<OwnerHash>>,
}

impl Strays {
    /// For whom this object is one.
    pub(super) fn owners_of(&self, key: &ObjectKey) -> &[OwnerHash] {
        self.of.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Those with the label of this owner, each with its version.
    pub(super) fn of_owner(&self, owner: &OwnerHash) -> BTreeMap<ObjectKey, Arc<str>> {
        self.by_owner.get(owner).cloned().unwrap_or_default()
    }

    /// The object is none any more.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        for owner in self.of.remove(key).unwrap_or_default() {
            if let Some(strays) = self.by_owner.get_mut(&owner) {
                strays.remove(key);
                if strays.is_empty() {
                    self.by_owner.remove(&owner);
                }
            }
        }
    }

    /// The object is one for this owner, if there is room.
    pub(super) fn note(&mut self, owner: &OwnerHash, key: &ObjectKey, version: &Arc<str>) {
        let full = self.of.len() >= STRAYS_MOST && !mutants::is(Mutant::StraysForEver);
        if full && !self.of.contains_key(key) {
            return;
        }
        self.by_owner.entry(owner.clone()).or_default().insert(key.clone(), version.clone());
        self.of.entry(key.clone()).or_default().push(owner.clone());
    }

    /// Forgets those that do not stay; returns the owners for whom some were noted.
    pub(super) fn retain(&mut self, stays: impl Fn(&ObjectKey) -> bool) -> BTreeSet<OwnerHash> {
        let gone: Vec<_> = self.of.keys().filter(|key| !stays(key)).cloned().collect();
        let owners = gone.iter().flat_map(|key| self.owners_of(key).to_vec()).collect();
        gone.iter().for_each(|key| self.forget(key));
        owners
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// For how many owners there are some.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_owner.len()
    }
}

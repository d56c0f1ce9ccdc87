//! Where there is an informer: for a kind in all namespaces, or, where that is forbidden, in each that is in use.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use kube::core::ApiResource;
use vidra_core::object::{Gvk, Scope};

/// What one informer sees: the objects of a kind, in one namespace or in all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The kind.
    pub gvk: Gvk,
    /// Empty: all of them.
    pub namespace: Arc<str>,
}

impl Place {
    /// All namespaces, or a kind without any.
    pub fn everywhere(gvk: &Gvk) -> Self {
        Self { gvk: gvk.clone(), namespace: "".into() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.gvk)?;
        if !self.namespace.is_empty() {
            write!(f, " in namespace {}", self.namespace)?;
        }
        Ok(())
    }
}

/// What a target needs of a kind.
#[derive(Clone, Debug)]
pub struct Need {
    /// How to address it.
    pub resource: ApiResource,
    /// Where it lives.
    pub scope: Scope,
    /// Where the target's objects are.
    pub namespaces: BTreeSet<Arc<str>>,
}

/// Kinds that may not be listed in all namespaces.
#[derive(Default)]
pub(super) struct Confined {
    kinds: BTreeSet<Gvk>,
}

impl Confined {
    /// Where a target's needs are to be seen.
    pub(super) fn places<'a>(&self, needs: &'a BTreeMap<Gvk, Need>) -> BTreeMap<Place, &'a Need> {
        let mut places = BTreeMap::new();
        for (gvk, need) in needs {
            if need.scope == Scope::Namespaced && self.contains(gvk) {
                places.extend(
                    need.namespaces
                        .iter()
                        .map(|namespace| (Place { gvk: gvk.clone(), namespace: namespace.clone() }, need)),
                );
            } else {
                places.insert(Place::everywhere(gvk), need);
            }
        }
        places
    }

    pub(super) fn contains(&self, gvk: &Gvk) -> bool {
        self.kinds.contains(gvk)
    }

    pub(super) fn add(&mut self, gvk: &Gvk) {
        self.kinds.insert(gvk.clone());
    }

    /// It may be listed in all namespaces again; whether it might not be before.
    pub(super) fn remove(&mut self, gvk: &Gvk) -> bool {
        self.kinds.remove(gvk)
    }

    pub(super) fn retain(&mut self, stays: impl Fn(&Gvk) -> bool) {
        self.kinds.retain(|gvk| stays(gvk));
    }

    pub(super) fn clear(&mut self) {
        self.kinds.clear();
    }
}

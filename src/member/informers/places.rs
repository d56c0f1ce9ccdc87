//! Where there is an informer: for a kind in all namespaces, or, where that is forbidden, in each that is in use.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use kube::core::ApiResource;
use vidra_core::object::{Gvk, Scope};

use super::{Informers, Registry};
use crate::base::error::{CallError, Class};

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

impl Registry {
    /// Where a target's needs are to be seen.
    pub(super) fn places<'a>(&self, needs: &'a BTreeMap<Gvk, Need>) -> BTreeMap<Place, &'a Need> {
        let mut places = BTreeMap::new();
        for (gvk, need) in needs {
            if need.scope == Scope::Namespaced && self.confined.contains(gvk) {
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
}

impl Informers {
    /// Lists one place now, where no watch tells: events are off, or the watch is down. Where it may not be listed
    /// in all namespaces, in those that are needed. Returns what could not be listed.
    pub async fn list_now(&self, place: &Place, need: &Need) -> BTreeMap<Place, CallError> {
        let mut failed = BTreeMap::new();
        match self.list_once(place, &need.resource).await {
            Ok(()) => {}
            Err(error)
                if error.class == Class::Forbidden
                    && place.namespace.is_empty()
                    && need.scope == Scope::Namespaced =>
            {
                self.state.lock().confined.insert(place.gvk.clone());
                for namespace in &need.namespaces {
                    let place = Place { gvk: place.gvk.clone(), namespace: namespace.clone() };
                    if let Err(error) = self.list_once(&place, &need.resource).await {
                        failed.insert(place, error);
                    }
                }
            }
            Err(error) => {
                failed.insert(place.clone(), error);
            }
        }
        failed
    }

    /// A list in all namespaces is forbidden. True: from now on there is one for each that is needed; its users
    /// look again, and ask for them.
    pub(super) fn confine(&self, place: &Place, id: u64, scope: Scope) -> bool {
        if !place.namespace.is_empty() || scope == Scope::Cluster {
            return false;
        }
        let users = {
            let mut state = self.state.lock();
            match state.running.get(place) {
                Some(informer) if informer.id == id => {}
                _ => return true,
            }
            state.confined.insert(place.gvk.clone());
            state.users_of(&place.gvk)
        };
        tracing::info!(cluster = %self.cluster, kind = %place.gvk, "may not be listed in all namespaces; one by one");
        self.wake(users);
        true
    }

    pub(super) fn is_confined(&self, gvk: &Gvk) -> bool {
        self.state.lock().confined.contains(gvk)
    }

    /// It may be listed in all namespaces again.
    pub(super) fn unconfine(&self, gvk: &Gvk) {
        let users = {
            let mut state = self.state.lock();
            if !state.confined.remove(gvk) {
                return;
            }
            state.users_of(gvk)
        };
        self.wake(users);
    }
}

//! Whether another VidraResource declares an object as this one does.

use std::sync::Arc;

use vidra_api::names::{self, OwnerHash};
use vidra_core::{
    mutants::{self, Mutant},
    object::ObjectKey,
    render::Declared,
};

use super::{Base, Owner, Records};
use crate::{desired::Desired, queue::TargetKey};

/// What another VidraResource declares of an object, beside this one.
pub enum Other {
    /// Nobody knows: it has not been looked at since the start, or is another hub's.
    Unknown,
    /// The same; or it has dropped the object, and is of the same namespace.
    Yields,
    /// Something else, or nothing.
    Differs {
        /// What it declares.
        desired: Arc<Desired>,
        /// It is of the same namespace.
        is_near: bool,
        /// It is the older of the two.
        is_older: bool,
    },
}

impl Owner {
    /// Of two VidraResources the one that was made first; of two made in one second, by name.
    fn is_older(&self, other: &Self) -> bool {
        let rank = |owner: &Self| {
            let TargetKey { namespace, resource, .. } = &owner.target;
            (owner.since, namespace.clone(), resource.clone())
        };
        rank(self) < rank(other)
    }

    /// It does not declare the object, and `own` is of the same namespace.
    fn dropped(&self, key: &ObjectKey, own: &Self) -> bool {
        self.target.namespace == own.target.namespace && !self.desired.declares(key)
    }
}

impl Records {
    /// Is the object applied for this owner, as far as was seen?
    pub fn is_applied_for(&self, key: &ObjectKey, owner: &OwnerHash) -> bool {
        let inner = self.inner.lock();
        let record = inner.objects.get(key);
        record.is_some_and(|record| record.views.iter().any(|view| view.owner == *owner && view.proof))
    }

    /// Does another VidraResource prove this object its own, as far as was seen?
    pub fn is_shared(&self, key: &ObjectKey, own: &OwnerHash) -> bool {
        let inner = self.inner.lock();
        let record = inner.objects.get(key);
        record.is_some_and(|record| record.views.iter().any(|view| view.owner != *own && view.proof))
    }

    /// What the VidraResource with this field manager declares of the object now.
    pub fn other(&self, key: &ObjectKey, manager: &str, own: &OwnerHash, declared: &Declared) -> Other {
        let inner = self.inner.lock();
        let named = |owner: &&Owner| {
            names::field_manager(&self.hub, &owner.target.namespace, &owner.target.resource) == manager
        };
        let (Some(own), Some(other)) = (inner.owners.get(own), inner.owners.values().find(named)) else {
            return Other::Unknown;
        };
        let theirs = other.desired.objects.get(key);
        match theirs.is_some_and(|theirs| theirs.hash == declared.hash) || other.dropped(key, own) {
            true => Other::Yields,
            false => Other::Differs {
                desired: other.desired.clone(),
                is_near: other.target.namespace == own.target.namespace
                    || mutants::is(Mutant::AgeAcrossNamespaces),
                is_older: other.is_older(own),
            },
        }
    }

    /// Does another VidraResource prove this object its own, and declare it otherwise, as far as is known? One of the same
    /// namespace that has dropped it is going to let go of it.
    pub fn is_disputed(&self, key: &ObjectKey, own: &OwnerHash, declared: &Declared) -> bool {
        let inner = self.inner.lock();
        let agrees = |other: &OwnerHash| {
            inner.owners.get(other).is_some_and(|other| {
                let theirs = other.desired.objects.get(key);
                theirs.is_some_and(|theirs| theirs.hash == declared.hash)
                    || inner.owners.get(own).is_some_and(|own| other.dropped(key, own))
            })
        };
        inner.objects.get(key).is_some_and(|record| {
            record.views.iter().any(|view| view.owner != *own && view.proof && !agrees(&view.owner))
        })
    }

    /// Does another target declare this object otherwise, whose word does not yield to this one's: one of another
    /// namespace, or an older one?
    pub fn is_outranked(&self, key: &ObjectKey, own: &OwnerHash, declared: &Declared) -> bool {
        let inner = self.inner.lock();
        let Some(own) = inner.owners.get(own) else { return true };
        inner.owners.values().any(|other| {
            let theirs = other.desired.objects.get(key);
            theirs.is_some_and(|theirs| theirs.hash != declared.hash)
                && (other.target.namespace != own.target.namespace || other.is_older(own))
        })
    }

    /// Is our entry gone from this object's managedFields, as far as was seen?
    pub fn has_lost_entry(&self, key: &ObjectKey, own: &OwnerHash) -> bool {
        let inner = self.inner.lock();
        inner.objects.get(key).is_some_and(|record| {
            record.views.iter().any(|view| view.owner == *own && matches!(view.base, Base::Lost { .. }))
        })
    }
}

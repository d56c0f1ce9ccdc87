//! Whether another VidraResource declares an object as this one does.

use vidra_api::names::{self, OwnerHash};
use vidra_core::{object::ObjectKey, render::Declared};

use super::{Base, Owner, Records};

impl Owner {
    /// It does not declare the object, and `own` is of the same namespace.
    fn dropped(&self, key: &ObjectKey, own: &Self) -> bool {
        self.target.namespace == own.target.namespace && !self.desired.objects.contains_key(key)
    }
}

impl Records {
    /// Is the object applied for this owner, as far as was seen?
    pub fn is_applied_for(&self, key: &ObjectKey, owner: &OwnerHash) -> bool {
        let inner = self.inner.lock();
        let record = inner.objects.get(key);
        record.is_some_and(|record| record.views.iter().any(|view| view.owner == *owner && view.proof))
    }

    /// Does the VidraResource with this field manager declare the object just so now? Of one that has not been
    /// looked at since the start, nobody knows.
    pub fn agrees(&self, key: &ObjectKey, manager: &str, declared: &Declared) -> bool {
        let inner = self.inner.lock();
        inner.owners.values().any(|owner| {
            let theirs = owner.desired.objects.get(key);
            theirs.is_some_and(|theirs| theirs.hash == declared.hash)
                && names::field_manager(&self.hub, &owner.target.namespace, &owner.target.resource) == manager
        })
    }

    /// Does the VidraResource with this field manager, of the same namespace, not declare the object any more? Of one that
    /// has not been looked at since the start, nobody knows.
    pub fn has_dropped(&self, key: &ObjectKey, manager: &str, own: &OwnerHash) -> bool {
        let inner = self.inner.lock();
        let Some(own) = inner.owners.get(own) else { return false };
        inner.owners.values().any(|owner| {
            owner.dropped(key, own)
                && names::field_manager(&self.hub, &owner.target.namespace, &owner.target.resource) == manager
        })
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

    /// Is our entry gone from this object's managedFields, as far as was seen?
    pub fn has_lost_entry(&self, key: &ObjectKey, own: &OwnerHash) -> bool {
        let inner = self.inner.lock();
        inner.objects.get(key).is_some_and(|record| {
            record.views.iter().any(|view| view.owner == *own && matches!(view.base, Base::Lost { .. }))
        })
    }
}

//! Whether another VidraResource declares an object as this one does.

use vidra_api::names::{self, OwnerHash};
use vidra_core::{object::ObjectKey, render::Declared};

use super::{Base, Records};

impl Records {
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

    /// Does another VidraResource prove this object its own, without declaring it just so, as far as is known?
    pub fn is_disputed(&self, key: &ObjectKey, own: &OwnerHash, declared: &Declared) -> bool {
        let inner = self.inner.lock();
        let agrees = |owner: &OwnerHash| {
            let theirs = inner.owners.get(owner).and_then(|owner| owner.desired.objects.get(key));
            theirs.is_some_and(|theirs| theirs.hash == declared.hash)
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

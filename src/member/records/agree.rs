//! Whether another VidraResource declares an object as this one does.

use vidra_api::names;
use vidra_core::{object::ObjectKey, render::Declared};

use super::Records;

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
}

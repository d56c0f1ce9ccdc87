//! What of a target's objects is left alone, as far as records go: it is not hashed, and what is known of an object
//! ends when it changes.

use std::{borrow::Cow, sync::Arc};

use serde_json::Value;
use vidra_api::names::OwnerHash;
use vidra_core::{
    fields::{self, FieldSet},
    ignore::{Spared, Sparing},
    object::ObjectKey,
};

use super::{Base, Records, owners::Owner};
use crate::{desired::Desired, queue::TargetKey};

/// What is hashed of a live object. Mostly all of it.
pub(super) fn seen<'a>(spared: Option<&Spared>, live: &'a Value) -> Cow<'a, Value> {
    match spared.filter(|spared| spared.ignores()) {
        Some(spared) => Cow::Owned(spared.masked(live)),
        None => Cow::Borrowed(live),
    }
}

/// Whether values that differ from these do so only in what is left to who holds it now.
pub(super) fn is_yielded(
    spared: Option<&Spared>,
    live: &Value,
    declared: Option<&Value>,
    (set, values): (&FieldSet, u64),
) -> bool {
    spared.zip(declared).is_some_and(|(spared, declared)| {
        spared.yields_now(live)
            && fields::values_hash(&spared.undone(live, declared), set, Some(declared)) == values
    })
}

impl Records {
    /// Says what a target declares, and what of it is left alone, before its objects are folded.
    /// `since` is when its VidraResource was made, in seconds.
    pub fn declare(
        &self,
        owner: OwnerHash,
        since: i64,
        target: TargetKey,
        desired: Arc<Desired>,
        sparing: Arc<Sparing>,
    ) {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let before = inner.owners.get(&owner).map(|known| Arc::clone(&known.sparing));
        let was = before.clone().unwrap_or_default();
        if !Arc::ptr_eq(&was, &sparing) {
            let (was, now) = (&was.objects, &sparing.objects);
            let changed = was.keys().chain(now.keys()).filter(|key| was.get(*key) != now.get(*key));
            for key in changed {
                let views = inner.objects.get_mut(key).map(|record| &mut record.views);
                for view in views.into_iter().flatten().filter(|view| view.owner == owner) {
                    // What was seen before anything was declared is compared yet.
                    if before.is_some() || matches!(view.base, Base::Known { .. } | Base::Apart { .. }) {
                        view.base.doubt();
                    }
                }
            }
        }
        let known = inner.owners.set(owner, Owner { since, target, desired: desired.clone(), sparing });
        if known.is_none_or(|known| !Arc::ptr_eq(&known.desired, &desired)) {
            inner.forget_unwanted();
        }
    }

    /// What of a target's objects is left alone, as it said last.
    pub fn sparing(&self, owner: &OwnerHash) -> Arc<Sparing> {
        self.inner.lock().owners.get(owner).map(|known| Arc::clone(&known.sparing)).unwrap_or_default()
    }

    /// The resourceVersion under which nobody held what is left to such, in the object with this uid.
    pub fn unyielded(&self, owner: &OwnerHash, key: &ObjectKey, uid: &str) -> Option<String> {
        let inner = self.inner.lock();
        let record = inner.objects.get(key).filter(|record| record.uid == *uid)?;
        let view = record.views.iter().find(|view| view.owner == *owner)?;
        (!view.yields && record.resource_version > 0).then(|| record.resource_version.to_string())
    }

    /// Only a dry run tells how this owner's object is: what is left alone of it has changed.
    pub fn is_stale(&self, owner: &OwnerHash, key: &ObjectKey) -> bool {
        let inner = self.inner.lock();
        let views = inner.objects.get(key).map(|record| record.views.as_slice()).unwrap_or_default();
        views.iter().any(|view| view.owner == *owner && matches!(view.base, Base::Stale))
    }
}

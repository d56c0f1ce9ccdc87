//! What was seen of those who changed an object: only of objects that are not as they were left, from the event that
//! showed it, for afterwards nobody can tell.

use std::collections::BTreeMap;

use serde_json::Value;
use vidra_api::names::{self, HubId, OwnerHash};
use vidra_core::{
    fields::{self, Path, Taken},
    object::ObjectKey,
};

use super::{Base, Inner, Records, View};

/// Fewer are not looked through for those whose object is gone.
const FEW: usize = 64;

/// See the module.
#[derive(Default)]
pub(super) struct Traces {
    of: BTreeMap<ObjectKey, Vec<(OwnerHash, Taken)>>,
    /// So many, and those whose object is gone are dropped.
    swept_at: usize,
}

impl Inner {
    /// Notes what each owner has lost in an object, and to whom; nothing where it is as it was left.
    pub(super) fn trace(&mut self, hub: &HubId, key: &ObjectKey, live: &Value, views: &[View]) {
        let lost = |view: &View| {
            let Base::Known { set, drifted: true, .. } = &view.base else { return None };
            let owner = self.owners.get(&view.owner)?;
            let manager = names::field_manager(hub, &owner.target.namespace, &owner.target.resource);
            let spared = owner.sparing.objects.get(key);
            let left_alone = |path: &Path| spared.is_some_and(|spared| spared.covers(path, live));
            Some((view.owner.clone(), fields::taken(live, &manager, set, left_alone)))
        };
        let found: Vec<_> = views.iter().filter_map(lost).collect();
        if found.is_empty() {
            self.traces.of.remove(key);
            return;
        }
        if self.traces.of.len() >= self.traces.swept_at.max(FEW) {
            self.traces.of.retain(|key, _| self.objects.contains_key(key));
            self.traces.swept_at = self.traces.of.len() * 2;
        }
        self.traces.of.insert(key.clone(), found);
    }
}

impl Records {
    /// What this owner's entry in an object has lost, and to whom; `None`: nothing, or all of it is gone.
    pub fn taken(&self, owner: &OwnerHash, key: &ObjectKey) -> Option<Taken> {
        let inner = self.inner.lock();
        let found = inner.traces.of.get(key)?.iter().find(|(of, _)| of == owner)?;
        Some(found.1.clone())
    }
}

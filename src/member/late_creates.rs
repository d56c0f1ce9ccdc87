//! Objects that a call may still make although nobody waits for its answer any more: until then nobody may say that they
//! are gone.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use vidra_api::names::OwnerHash;
use vidra_core::object::ObjectKey;

/// An API server gives up a request after a minute, and a call ends after 15 s. That is longer than what a former process
/// sent is waited for (leader_change.rs), which holds back whole members: here one object waits, and a proxy's queue is allowed
/// for too.
pub const CREATE_LANDS_WITHIN: Duration = Duration::from_secs(75);

/// Those of all members, by name. They outlive sessions: what was sent with credentials that are gone may land all the same.
#[derive(Default)]
pub struct LateCreatesByMember(Mutex<BTreeMap<String, LateCreates>>);

impl LateCreatesByMember {
    /// A member's.
    pub fn of(&self, cluster: &str) -> LateCreates {
        let mut all = self.0.lock();
        all.retain(|_, late_creates| late_creates.is_needed());
        all.entry(cluster.to_owned()).or_default().clone()
    }

    /// Of how many members something is kept.
    pub fn count(&self) -> usize {
        let mut all = self.0.lock();
        all.retain(|_, late_creates| late_creates.is_needed());
        all.len()
    }
}

/// Creates that may still take effect, by owner and object. Each with the time until when. Cheap to clone.
#[derive(Clone, Default)]
pub struct LateCreates(Arc<Mutex<BTreeMap<(OwnerHash, ObjectKey), Instant>>>);

impl LateCreates {
    /// A call that makes this object for its owner was not answered: it may have been sent all the same.
    pub(super) fn note(&self, owner: &OwnerHash, key: &ObjectKey) {
        let now = Instant::now();
        let mut all = self.0.lock();
        all.retain(|_, until| *until > now);
        all.insert((owner.clone(), key.clone()), now + CREATE_LANDS_WITHIN);
    }

    /// Whether an object that is not there may still be made by an earlier call, as this owner's: what others send stands
    /// in their inventories, and they may try for ever.
    pub(super) fn may_appear(&self, owner: &OwnerHash, key: &ObjectKey) -> bool {
        let now = Instant::now();
        let mut all = self.0.lock();
        all.retain(|_, until| *until > now);
        all.contains_key(&(owner.clone(), key.clone()))
    }

    /// Somebody goes by it, or something may still be made.
    fn is_needed(&self) -> bool {
        let now = Instant::now();
        Arc::strong_count(&self.0) > 1 || self.0.lock().values().any(|until| *until > now)
    }

    /// Another cluster answers: nothing that was sent before lands there.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use vidra_api::names::HubId;
    use vidra_core::object::Gvk;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_another_owner_tries_to_make_for_ever_is_not_waited_for() {
        let hub = HubId::try_from("h1").unwrap();
        let [ours, theirs] = ["ours", "theirs"].map(|name| OwnerHash::new(&hub, "team-a", name));
        let key = ObjectKey::new(&Gvk::new("", "v1", "ConfigMap"), "shop", "settings");
        let late_creates = LateCreates::default();
        late_creates.note(&ours, &key);
        for _ in 0..3 {
            assert!(late_creates.may_appear(&ours, &key));
            late_creates.note(&theirs, &key);
            tokio::time::advance(CREATE_LANDS_WITHIN / 3).await;
        }
        assert!(!late_creates.may_appear(&ours, &key));
        assert!(late_creates.may_appear(&theirs, &key));
    }
}

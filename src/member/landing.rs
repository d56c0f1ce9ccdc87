//! Objects that a call may still make although nobody waits for its answer any more: until then nobody may say that they
//! are gone.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use vidra_core::object::ObjectKey;

/// An API server gives up a request after a minute, and a call ends after 15 s.
const LANDS_WITHIN: Duration = Duration::from_secs(75);

/// Those of all members, by name. They outlive sessions: what was sent with credentials that are gone may land all the same.
#[derive(Default)]
pub struct Landings(Mutex<BTreeMap<String, Landing>>);

impl Landings {
    /// A member's.
    pub fn of(&self, cluster: &str) -> Landing {
        let mut all = self.0.lock();
        all.retain(|_, landing| landing.is_needed());
        all.entry(cluster.to_owned()).or_default().clone()
    }

    /// Of how many members something is kept.
    pub fn count(&self) -> usize {
        let mut all = self.0.lock();
        all.retain(|_, landing| landing.is_needed());
        all.len()
    }
}

/// See the module. Each with the time until when. Cheap to clone.
#[derive(Clone, Default)]
pub struct Landing(Arc<Mutex<BTreeMap<ObjectKey, Instant>>>);

impl Landing {
    /// A call that makes this object was not answered: it may have been sent all the same.
    pub(super) fn note(&self, key: &ObjectKey) {
        let now = Instant::now();
        let mut all = self.0.lock();
        all.retain(|_, until| *until > now);
        all.insert(key.clone(), now + LANDS_WITHIN);
    }

    /// Whether an object that is not there may still be made by a call of before.
    pub(super) fn may_land(&self, key: &ObjectKey) -> bool {
        let now = Instant::now();
        let mut all = self.0.lock();
        all.retain(|_, until| *until > now);
        all.contains_key(key)
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

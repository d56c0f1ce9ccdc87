//! Objects that a call may still make although nobody waits for its answer any more: until then nobody may say that they
//! are gone.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use vidra_core::object::ObjectKey;

/// An API server gives up a request after a minute, and a call ends after 15 s.
const LANDS_WITHIN: Duration = Duration::from_secs(75);

/// See the module. Each with the time until when. Cheap to clone: a session with new credentials has that of the one before.
#[derive(Clone, Default)]
pub(super) struct Landing(Arc<Mutex<BTreeMap<ObjectKey, Instant>>>);

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

    /// Another cluster answers: nothing that was sent before lands there.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}

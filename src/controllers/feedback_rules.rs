//! What a VidraResource asks back of its objects, `spec.statusFeedback`: read once.

use std::sync::Arc;

use vidra_api::FeedbackRule;
use vidra_core::feedback::Rules;

use super::Hub;
use crate::workqueue::ResourceKey;

/// What was read of it.
pub(super) struct OwnFeedback {
    written: Vec<FeedbackRule>,
    pub(super) rules: Arc<Rules>,
    /// What of it cannot be used.
    pub(super) problems: Vec<String>,
}

/// What a VidraResource asks for now; `None`: nothing, or it is not there.
pub(super) fn own_feedback(hub: &Hub, key: &ResourceKey) -> Option<Arc<OwnFeedback>> {
    let resource = hub.catalog.resource(key)?;
    let written = &resource.spec.status_feedback;
    let known = hub.state.lock().resource(key).and_then(|known| known.feedback_rules.clone());
    if written.is_empty() && known.is_none() {
        return None;
    }
    if let Some(known) = known.filter(|known| known.written == *written) {
        return Some(known);
    }
    let (rules, problems) = Rules::read(written);
    let read = Arc::new(OwnFeedback { written: written.clone(), rules: Arc::new(rules), problems });
    let kept = (!written.is_empty()).then_some(read);
    let mut state = hub.state.lock();
    // Under the lock: of one that is gone nothing is to be remembered.
    hub.catalog.resource(key)?;
    state.resource_mut(key).feedback_rules.clone_from(&kept);
    kept
}

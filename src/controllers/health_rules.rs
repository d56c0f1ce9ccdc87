//! The health rules that a VidraResource has of its own: read once, and as they were where they cannot be used any more.

use std::sync::Arc;

use vidra_api::HealthCheckExpr;
use vidra_core::health::{
    own,
    rules::{Problem, Rules},
};

use super::Hub;
use crate::workqueue::ResourceKey;

/// What was read of a VidraResource's spec.healthCheckExprs.
pub(super) struct OwnRules {
    /// Of the VidraResource: another of its name has nothing that was before.
    uid: Option<String>,
    written: Vec<HealthCheckExpr>,
    pub(super) rules: Arc<Rules>,
    pub(super) problems: Vec<Problem>,
}

/// As a VidraTarget's spec has it: `None` where there are no rules.
pub(super) fn digest(rules: &Rules) -> Option<String> {
    (!rules.is_empty()).then(|| rules.digest())
}

/// Those that a VidraResource has now; `None`: it has none, or is not there.
pub(super) fn own_rules(hub: &Hub, key: &ResourceKey) -> Option<Arc<OwnRules>> {
    let resource = hub.catalog.resource(key)?;
    let written = &resource.spec.health_check_exprs;
    let known = hub.state.lock().resource(key).and_then(|known| known.health_rules.clone());
    let known = known.filter(|known| known.uid == resource.metadata.uid);
    if written.is_empty() && known.is_none() {
        return None;
    }
    if let Some(known) = known.as_ref().filter(|known| known.written == *written) {
        return Some(known.clone());
    }
    let none = Rules::default();
    let (rules, problems) = own::read(written, known.as_ref().map_or(&none, |known| &known.rules));
    let (uid, written) = (resource.metadata.uid.clone(), written.clone());
    let read = Arc::new(OwnRules { uid, written, rules: Arc::new(rules), problems });
    let kept = (!read.written.is_empty()).then(|| read.clone());
    let mut state = hub.state.lock();
    // Under the lock: of one that is gone nothing is to be remembered.
    hub.catalog.resource(key)?;
    state.resource_mut(key).health_rules.clone_from(&kept);
    kept
}

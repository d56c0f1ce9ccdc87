//! Rules that a VidraResource has of its own, for health and for what comes back: read once for what is written, and those by
//! which a target goes.

use std::sync::Arc;

use vidra_api::{FeedbackRule, HealthCheckExpr, VidraResourceSpec};
use vidra_core::{
    feedback,
    health::{own, rules},
};

use super::{Hub, state::ResourceState};
use crate::workqueue::ResourceKey;

/// What was read of a list in a VidraResource's spec.
pub(super) struct OwnRules<W, R, P> {
    /// Of the VidraResource: another of its name has nothing that was before.
    uid: Option<String>,
    written: Vec<W>,
    pub(super) rules: Arc<R>,
    /// What of it cannot be used.
    pub(super) problems: Vec<P>,
}

/// Of `spec.healthCheckExprs`.
pub(super) type OwnHealth = OwnRules<HealthCheckExpr, rules::Rules, rules::Problem>;
/// Of `spec.statusFeedback`.
pub(super) type OwnFeedback = OwnRules<FeedbackRule, feedback::Rules, String>;

/// The health rules that a VidraResource has now; `None`: it has none, or is not there. One that cannot be used any more is as
/// it was.
pub(super) fn own_health(hub: &Hub, key: &ResourceKey) -> Option<Arc<OwnHealth>> {
    read(hub, key, |spec| &spec.health_check_exprs, |state| &mut state.own_health, own::read)
}

/// The rules of feedback that it has now.
pub(super) fn own_feedback(hub: &Hub, key: &ResourceKey) -> Option<Arc<OwnFeedback>> {
    let compile = |written: &[FeedbackRule], _: &_| feedback::Rules::read(written);
    read(hub, key, |spec| &spec.status_feedback, |state| &mut state.own_feedback, compile)
}

type Slot<W, R, P> = Option<Arc<OwnRules<W, R, P>>>;

fn read<W: Clone + PartialEq, R: Default, P>(
    hub: &Hub,
    key: &ResourceKey,
    written: fn(&VidraResourceSpec) -> &Vec<W>,
    slot: fn(&mut ResourceState) -> &mut Slot<W, R, P>,
    compile: impl FnOnce(&[W], &R) -> (R, Vec<P>),
) -> Slot<W, R, P> {
    let resource = hub.catalog.resource(key)?;
    let (uid, written) = (resource.metadata.uid.clone(), written(&resource.spec));
    let known = hub.state.lock().known_resource(key).and_then(|state| slot(state).clone());
    let known = known.filter(|known| known.uid == uid);
    match &known {
        None if written.is_empty() => return None,
        Some(known) if known.written == *written => return Some(known.clone()),
        _ => {}
    }
    let (rules, problems) = match &known {
        Some(known) => compile(written, &known.rules),
        None => compile(written, &R::default()),
    };
    let read = OwnRules { uid, written: written.clone(), rules: Arc::new(rules), problems };
    let kept = (!written.is_empty()).then(|| Arc::new(read));
    let mut state = hub.state.lock();
    // Under the lock: of one that is gone nothing is to be remembered.
    hub.catalog.resource(key)?;
    slot(state.resource_mut(key)).clone_from(&kept);
    kept
}

/// The rules that a target goes by: those of which its spec has the digest. What is declared now may not have reached it, or
/// be held; then it goes by what it went by `before`, and where this process never knew that, by what is declared now.
pub(super) fn delivered<R>(now: Arc<R>, before: Arc<R>, is_delivered: impl Fn(&R) -> bool) -> Arc<R> {
    if is_delivered(&now) || !is_delivered(&before) { now } else { before }
}

//! The rules that a VidraResource has of its own, for health and for feedback: compiled once for what its spec says, and
//! those by which a target goes, which may still be the ones that were delivered.

use std::sync::Arc;

use vidra_api::{FeedbackRule, HealthCheckExpr, VidraResource, VidraResourceSpec};
use vidra_core::{
    feedback,
    health::{own, rules},
};

use super::Hub;
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

type Slot<W, R, P> = Option<Arc<OwnRules<W, R, P>>>;

/// Of `spec.healthCheckExprs`.
pub(super) type OwnHealth = OwnRules<HealthCheckExpr, rules::Rules, rules::Problem>;
/// Of `spec.statusFeedback`.
pub(super) type OwnFeedback = OwnRules<FeedbackRule, feedback::Rules, String>;

/// What is remembered of one VidraResource's own rules.
#[derive(Default)]
pub(super) struct Memory {
    health: Option<Arc<OwnHealth>>,
    feedback: Option<Arc<OwnFeedback>>,
}

/// The health rules that a VidraResource has now; `None`: it has none, or is not there. One that cannot be used any more is
/// as it was.
pub(super) fn own_health(hub: &Hub, key: &ResourceKey) -> Option<Arc<OwnHealth>> {
    let known = hub.state.lock().resource(key).and_then(|memory| memory.own_rules.health.clone());
    read_once(hub, key, |spec| &spec.health_check_exprs, known, |memory| &mut memory.health, own::read)
}

/// The rules of feedback that a VidraResource has now; `None`: it has none, or is not there.
pub(super) fn own_feedback(hub: &Hub, key: &ResourceKey) -> Option<Arc<OwnFeedback>> {
    let compile = |written: &[FeedbackRule], _: &_| feedback::Rules::read(written);
    let known = hub.state.lock().resource(key).and_then(|memory| memory.own_rules.feedback.clone());
    read_once(hub, key, |spec| &spec.status_feedback, known, |memory| &mut memory.feedback, compile)
}

/// What a list of a VidraResource's spec says now: read where it is not what is `known`, and remembered.
fn read_once<W: Clone + PartialEq, R: Default, P>(
    hub: &Hub,
    key: &ResourceKey,
    list: fn(&VidraResourceSpec) -> &Vec<W>,
    known: Slot<W, R, P>,
    memory: fn(&mut Memory) -> &mut Slot<W, R, P>,
    compile: impl FnOnce(&[W], &R) -> (R, Vec<P>),
) -> Slot<W, R, P> {
    let resource = hub.catalog.resource(key)?;
    let (rules, is_news) = read(&resource, list(&resource.spec), known, compile);
    if is_news {
        let mut state = hub.state.lock();
        // Under the lock: of one that is gone nothing is to be remembered.
        hub.catalog.resource(key)?;
        memory(&mut state.resource_mut(key).own_rules).clone_from(&rules);
    }
    rules
}

/// What is written now, read; and whether that is another than the `known` one.
fn read<W: Clone + PartialEq, R: Default, P>(
    resource: &VidraResource,
    written: &[W],
    known: Slot<W, R, P>,
    compile: impl FnOnce(&[W], &R) -> (R, Vec<P>),
) -> (Slot<W, R, P>, bool) {
    let uid = resource.metadata.uid.clone();
    let was_known = known.is_some();
    let known = known.filter(|known| known.uid == uid);
    if written.is_empty() {
        return (None, was_known);
    }
    let (rules, problems) = match &known {
        Some(same) if same.written == written => return (known, false),
        Some(before) => compile(written, &before.rules),
        None => compile(written, &R::default()),
    };
    (Some(Arc::new(OwnRules { uid, written: written.to_vec(), rules: Arc::new(rules), problems })), true)
}

/// The rules that a target goes by: those of which its spec has the digest. What is declared now may not have reached it,
/// or be held; then it goes by what it went by `before`, and where this process never knew that, by what is declared now.
pub(super) fn delivered<R>(
    now: Arc<R>,
    before: impl FnOnce() -> Arc<R>,
    is_delivered: impl Fn(&R) -> bool,
) -> Arc<R> {
    if is_delivered(&now) {
        return now;
    }
    Some(before()).filter(|before| is_delivered(before)).unwrap_or(now)
}

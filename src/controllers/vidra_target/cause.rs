//! Why workloads of a target have failed, as their Pods tell. Asked when one fails, and again after a while; told until it
//! has failed no more.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::{Instant, timeout_at};
use vidra_core::{
    health::{HealthStatus, cause::between},
    mutants::{self, Mutant},
    object::ObjectKey,
    uid::Uid,
};

use super::context::Context;
use crate::{
    config::dynamic_settings::DynamicSettings,
    desired::Desired,
    member::{cause::cause, fence::Fence, session::Session},
    workqueue::Key,
};

/// Workloads that one reconcile asks about.
const ASKED_MOST: usize = 3;
/// What delivers waits no longer for all answers, which only explain.
const WITHIN: Duration = Duration::from_secs(3);
/// A workload is asked about again after this, if it has failed then.
const REST: Duration = Duration::from_secs(300);
/// Where more are to be asked about, the target is reconciled again after this.
const NEXT: Duration = Duration::from_secs(10);

/// What the Pods of a workload said.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::controllers) struct Cause {
    asked: Instant,
    /// Nothing: it has not failed, its Pods say nothing, or they could not be read.
    text: Option<String>,
}

/// By workload.
pub(in crate::controllers) type Causes = BTreeMap<ObjectKey, Cause>;

/// Asks about those that have failed, and forgets what the Pods of the others said.
pub(super) async fn ask(ctx: &Context<'_>, session: &Session, desired: &Desired, fence: &Fence<'_>) {
    let failed = failed(ctx, session, desired);
    let mut causes = known(ctx);
    if failed.is_empty() && causes.is_empty() {
        return;
    }
    // That it was asked about stays: one that fails again and again is not asked about each time.
    causes.retain(|key, cause| desired.objects.contains_key(key) && cause.asked.elapsed() < REST * 2);
    for (_, cause) in causes.iter_mut().filter(|(key, _)| !failed.contains_key(*key)) {
        cause.text = None;
    }
    let asked = |key: &ObjectKey| causes.get(key).map(|cause| cause.asked);
    let mut due: Vec<_> = failed.iter().map(|(key, uid)| (asked(key), key, uid)).collect();
    due.retain(|(asked, ..)| asked.is_none_or(|asked| asked.elapsed() >= REST));
    // Whoever never was, first.
    due.sort_unstable_by_key(|(asked, ..)| *asked);
    let deadline = Instant::now() + WITHIN;
    // Behind all other work of all members, and not waited for: this reconcile holds a place that others wait for.
    let turn = if due.is_empty() { None } else { ctx.hub.health.free_turn() };
    let most = if turn.is_some() { ASKED_MOST } else { 0 };
    let (many, mut asked) = (due.len(), 0);
    // Nothing else tells when those that were not asked about may be, or when an answer comes.
    let look_after = |pause| ctx.hub.queue.add_after(Key::Target(ctx.key.clone()), pause);
    for (_, key, uid) in due.into_iter().take(most) {
        asked += 1;
        let text = match timeout_at(deadline, cause(session, fence, (key, &uid.to_string()))).await {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => {
                tracing::debug!(%key, %error, "why it has failed cannot be asked");
                look_after(REST);
                None
            }
            Err(_) => {
                look_after(REST);
                None
            }
        };
        causes.insert(key.clone(), Cause { asked: Instant::now(), text });
        if Instant::now() >= deadline {
            break;
        }
    }
    if asked < many {
        look_after(NEXT);
    }
    ctx.hub.state.lock().change_target(ctx.key, |state| state.causes = causes);
}

/// What is covered of a Pod stands in what Pods say of their workloads.
fn may_ask(settings: &DynamicSettings) -> bool {
    settings.causes && !settings.redact.protects("", "Pod")
}

/// Pods may have said what stands in the note of an object of this kind, and may not be quoted now.
pub(super) fn is_covered(ctx: &Context<'_>, group: &str, kind: &str) -> bool {
    between(group, kind).is_some() && ctx.hub.tuning.now().redact.protects("", "Pod")
}

/// The workloads of the target that have failed and whose Pods may be asked, with their uids.
fn failed(ctx: &Context<'_>, session: &Session, desired: &Desired) -> BTreeMap<ObjectKey, Uid> {
    let settings = ctx.hub.tuning.now();
    let mut failed = BTreeMap::new();
    if !may_ask(&settings) {
        return failed;
    }
    let is_asked = |key: &&ObjectKey| {
        between(&key.group, &key.kind).is_some() && !settings.redact.protects(&key.group, &key.kind)
    };
    let workloads = desired.objects.keys().filter(is_asked);
    session.records.healths(&ctx.owner_hash(ctx.key), workloads, |key, seen| {
        if let Some(seen) = seen.filter(|seen| seen.proof && seen.health == HealthStatus::Failed) {
            failed.insert(key.clone(), seen.uid.clone());
        }
    });
    failed
}

/// What the Pods of the target's workloads said, as far as it may be told now.
pub(super) fn known(ctx: &Context<'_>) -> Causes {
    if !may_ask(&ctx.hub.tuning.now()) && !mutants::is(Mutant::CauseStays) {
        return Causes::default();
    }
    ctx.hub.state.lock().target(ctx.key).map(|state| state.causes.clone()).unwrap_or_default()
}

/// An object's note with why it has failed, where it has and that was told.
pub(super) fn explained(
    causes: &Causes,
    key: &ObjectKey,
    (status, note): (HealthStatus, Option<&str>),
) -> Option<String> {
    let cause = causes.get(key).filter(|_| status == HealthStatus::Failed);
    let told = cause.and_then(|cause| cause.text.as_deref());
    match (note, told) {
        (Some(note), Some(told)) => Some(format!("{note}; {told}")),
        (note, told) => note.or(told).map(str::to_owned),
    }
}

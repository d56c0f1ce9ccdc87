//! Why workloads of a target have failed, as their Pods tell. Asked once when one fails, and again after a while where nothing
//! was told; kept until it has failed no more.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::{Instant, timeout};
use vidra_core::{
    health::{HealthStatus, cause::between},
    object::ObjectKey,
};

use super::context::Context;
use crate::{
    desired::Desired,
    member::{cause::cause, session::Session, token::Token},
};

/// Workloads that one reconcile asks about.
const ASKED_MOST: usize = 3;
/// What delivers is not to wait longer for an answer that only explains.
const WITHIN: Duration = Duration::from_secs(5);
/// Where nothing was told it is asked again after this.
const REST: Duration = Duration::from_secs(300);

/// What was told of a workload.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::controllers) struct Cause {
    asked: Instant,
    /// Nothing: its Pods say nothing, or could not be read.
    text: Option<String>,
}

/// By workload.
pub(in crate::controllers) type Causes = BTreeMap<ObjectKey, Cause>;

/// Asks about those that have failed, and forgets the others.
pub(super) async fn ask(ctx: &Context<'_>, session: &Session, desired: &Desired, token: &Token<'_>) {
    let owner = ctx.owner_hash(ctx.key);
    let has_failed = |key: &&ObjectKey| {
        let health = session.records.health(&owner, key);
        health.is_some_and(|(status, _)| status == HealthStatus::Failed)
    };
    let workloads = desired.objects.keys().filter(|key| between(&key.group, &key.kind).is_some());
    let failed: Vec<_> = match ctx.hub.tuning.now().causes {
        true => workloads.filter(has_failed).collect(),
        false => Vec::new(),
    };
    let mut causes = known(ctx);
    if failed.is_empty() && causes.is_empty() {
        return;
    }
    causes.retain(|key, _| failed.contains(&key));
    let rests = |known: &Cause| known.text.is_some() || known.asked.elapsed() < REST;
    let due: Vec<_> = failed.into_iter().filter(|key| !causes.get(*key).is_some_and(rests)).collect();
    for key in due.into_iter().take(ASKED_MOST) {
        let text = match timeout(WITHIN, cause(session, token, key)).await {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => {
                tracing::debug!(%key, %error, "why it has failed cannot be asked");
                None
            }
            Err(_) => None,
        };
        causes.insert(key.clone(), Cause { asked: Instant::now(), text });
    }
    ctx.hub.state.lock().change_target(ctx.key, |state| state.causes = causes);
}

/// What was told of the target's workloads.
pub(super) fn known(ctx: &Context<'_>) -> Causes {
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

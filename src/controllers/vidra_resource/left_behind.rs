//! Targets for whose members nobody waits any more: what stays behind there is written down first.

use std::time::Duration;

use vidra_api::{
    LeftBehind, VidraTarget, clip,
    resource::CLUSTERS_MAX,
    target::{DesiredState, MESSAGE_MAX},
};
use vidra_core::{
    first_of::{count, first_of},
    mutants::{self, Mutant},
    status::Reason,
};

use super::{
    context::{Context, Written},
    patience::{PATIENCE, has_lost_its_cluster, is_given_up, is_tried, patience_with_member},
    status::write_status,
};
use crate::{
    base::error::CallError,
    controllers::{Hub, confirmation, status_fallback, status_throttle::StatusChange},
    hub::inventory,
    workqueue::TargetKey,
};

/// How many objects, and how many clusters in an Event, are named.
const NAMED: usize = 10;

/// Tells these targets that nobody waits for them any more, once the VidraResource's status says what stays in their
/// members: as many at a time as a status has room for.
pub(super) async fn forget(ctx: &Context<'_>, targets: &[(String, VidraTarget)]) -> Written {
    let mut written = Written::new();
    for targets in targets.chunks(CLUSTERS_MAX) {
        let left = targets.iter().map(|(cluster, _)| left_behind(ctx.hub, &ctx.target_key(cluster)));
        match note(ctx, left.collect()).await {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                let first = targets.first().map(|(cluster, _)| (cluster.clone(), Err(error)));
                written.extend(first);
                break;
            }
        }
        let writes = targets
            .iter()
            .map(|(cluster, next)| async move { (cluster.clone(), ctx.hub.api.replace_target(next).await) });
        written.extend(ctx.side_by_side(writes.collect()).await);
    }
    written
}

/// What stays in a member.
fn left_behind(hub: &Hub, key: &TargetKey) -> LeftBehind {
    let held = inventory::joined(&hub.catalog.inventory(key));
    LeftBehind {
        cluster: key.cluster.to_string(),
        objects: held.len() as i64,
        names: clip(&first_of(held.keys(), NAMED), MESSAGE_MAX),
        at: hub.clock.time(),
    }
}

/// Writes into the VidraResource's status what stays in members; false: it is not its turn yet, and the key comes again.
async fn note(ctx: &Context<'_>, left: Vec<LeftBehind>) -> Result<bool, CallError> {
    let latest = ctx.hub.catalog.resource(ctx.key);
    let resource = latest.as_deref().unwrap_or(ctx.resource);
    let key = ctx.queue_key();
    let mut status =
        status_fallback::last_written(ctx.hub, &key, resource.status.as_ref()).unwrap_or_default();
    let is_noted = |left: &LeftBehind| {
        let same = |known: &LeftBehind| LeftBehind { at: left.at.clone(), ..known.clone() } == *left;
        status.left_behind.iter().any(same)
    };
    if left.iter().all(is_noted) {
        return Ok(true);
    }
    if !ctx.hub.write_now_or_requeue(&key, StatusChange::Durable) {
        return Ok(false);
    }
    let message = message(ctx, &left);
    status.left_behind.retain(|known| left.iter().all(|left| left.cluster != known.cluster));
    status.left_behind.extend(left);
    let spare = status.left_behind.len().saturating_sub(CLUSTERS_MAX);
    status.left_behind.drain(..spare);
    write_status(ctx, resource, status).await?;
    ctx.warn(Reason::LeftBehind, &message);
    Ok(true)
}

/// In words.
fn message(ctx: &Context<'_>, left: &[LeftBehind]) -> String {
    if let [one] = left {
        return message_of(one, &why(ctx, &one.cluster));
    }
    let each = |left: &LeftBehind| {
        format!("{}{} ({})", left.cluster, why(ctx, &left.cluster), count(left.objects, "object"))
    };
    format!(
        "{} clusters are forgotten, and their objects stay there (see status.leftBehind): {}",
        left.len(),
        first_of(left.iter().map(each), NAMED),
    )
}

/// Why nobody waits for a member.
fn why(ctx: &Context<'_>, cluster: &str) -> String {
    if is_given_up(ctx, cluster) {
        String::new()
    } else if has_lost_its_cluster(ctx, cluster) {
        ", for its cluster is a member under an older name".to_owned()
    } else {
        out_of_patience()
    }
}

/// Of a target without its VidraResource, on a member that leaves: whether it is not waited for any more, and what is told
/// of it then. Nothing of it is to be deleted, so ten minutes end the wait whether or not a person has said a word.
pub(super) fn given_up_without(hub: &Hub, key: &TargetKey, target: &VidraTarget) -> Option<String> {
    let is_given_up = confirmation::is_given_up(hub, &key.cluster);
    let by_word = target.spec.desired == DesiredState::Orphaned && is_given_up && is_tried(target);
    let by_itself = || patience_with_member(hub, &key.cluster) == Some(Duration::ZERO);
    if mutants::is(Mutant::MissingHoldsLeaving) || !(by_word || by_itself()) {
        return None;
    }
    let why = if by_word { String::new() } else { out_of_patience() };
    Some(message_of(&left_behind(hub, key), &why))
}

/// One in words.
fn message_of(left: &LeftBehind, why: &str) -> String {
    let LeftBehind { cluster, objects, names, .. } = left;
    format!("{cluster} is forgotten{why}; it keeps {}: {names}", count(*objects, "object"))
}

fn out_of_patience() -> String {
    format!(", for it has not answered for {} minutes", PATIENCE.as_secs() / 60)
}

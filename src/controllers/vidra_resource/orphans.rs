//! VidraTargets whose VidraResource is not there. That is no wish: they wait until it is applied again, or for a person's
//! word, on the VidraTarget, that what it has stays in the member without it. On a member that leaves they are given up as
//! others are that are only orphaned: there is no VidraResource that could say so.

use vidra_api::{VidraTarget, VidraTargetSpec, target::DesiredState};
use vidra_core::{
    mutants::{self, Mutant},
    status::{Reason, is_torn_down},
};

use super::left_behind::given_up_without;
use crate::{
    base::error::CallError,
    controllers::{
        Hub, RETRY_MOST, after_hub_error,
        confirmation::{is_leaving, may_be_orphaned},
        write_refusal::count_failed_write,
    },
    hub::{events::Severity, inventory},
    workqueue::{Key, ResourceKey, TargetKey, Verdict},
};

/// Lets go those of which a person says so, and gives up those on members that leave and do not answer.
pub(super) async fn release(hub: &Hub, key: &ResourceKey) -> Option<Verdict> {
    let mut again = None;
    let mut waits = false;
    for (cluster, target) in hub.catalog.targets_of(key) {
        if mutants::is(Mutant::DeleteOnFailedList) {
            let spec = VidraTargetSpec { desired: DesiredState::Absent, ..target.spec.clone() };
            let _ = hub.api.replace_target(&VidraTarget { spec, ..(*target).clone() }).await;
            continue;
        }
        waits |= is_leaving(hub, &cluster);
        let of_target = TargetKey::new(&key.namespace, &key.name, &cluster);
        if let Err(error) = advance(hub, &of_target, &target).await {
            if let Some(told) = count_failed_write(hub, &Key::Resource(key.clone()), &error) {
                let message = format!("the hub's API refuses a write for it: {told}");
                hub.events.say(target.as_ref(), Severity::Warning, Reason::WriteRefused, &message);
            }
            again = Some(after_hub_error(&error));
        }
    }
    // Nothing tells of a member's silence: what these targets say stays as it is.
    again.or_else(|| waits.then_some(Verdict::Done(Some(RETRY_MOST))))
}

/// Its inventory is there, and says that nothing is left of it: of one without any nobody knows what a restore lost.
fn has_nothing(hub: &Hub, key: &TargetKey) -> bool {
    let chunks = hub.catalog.inventory(key);
    hub.catalog.unread_inventory(key).is_none()
        && !chunks.is_empty()
        && inventory::is_empty(&chunks)
        && !inventory::is_lost(&chunks)
}

async fn advance(hub: &Hub, key: &TargetKey, target: &VidraTarget) -> Result<(), CallError> {
    let is_forgotten = target.spec.desired == DesiredState::Forgotten;
    let is_free = || {
        target.spec.desired != DesiredState::Present
            && (may_be_orphaned(hub, target) || has_nothing(hub, key))
    };
    if is_torn_down(target) && (is_forgotten || is_free()) {
        return hub.api.remove_target(key, target).await;
    }
    if is_forgotten {
        return Ok(());
    }
    let left = given_up_without(hub, key, target);
    let desired = match &left {
        Some(_) => DesiredState::Forgotten,
        None if target.spec.desired != DesiredState::Orphaned && may_be_orphaned(hub, target) => {
            DesiredState::Orphaned
        }
        None => return Ok(()),
    };
    let spec = VidraTargetSpec { desired, suspend: false, ..target.spec.clone() };
    if let Some(left) = left {
        // There is no VidraResource to write it into.
        hub.events.say(target, Severity::Warning, Reason::LeftBehind, &left);
    }
    hub.api.replace_target(&VidraTarget { spec, ..target.clone() }).await
}

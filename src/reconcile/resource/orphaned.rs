//! VidraTargets whose VidraResource is not there. That is no wish: they wait until it is applied again, or for a person's
//! word, on the VidraTarget, that what it has stays in the member without it.

use vidra_api::{VidraTarget, VidraTargetSpec, target::Desired as Wish};
use vidra_core::{
    mutants::{self, Mutant},
    status::is_torn_down,
};

use crate::{
    hub::events::Severity,
    member::error::CallError,
    queue::{Key, ResourceKey, TargetKey, Verdict},
    reconcile::{Hub, affirm::is_let_go, after_hub_error, refused::WRITE_REFUSED},
};

/// Lets go those of which a person says so.
pub(super) async fn let_go(hub: &Hub, key: &ResourceKey) -> Option<Verdict> {
    let mut again = None;
    for (cluster, target) in hub.catalog.targets_of(key) {
        if mutants::is(Mutant::DeleteOnFailedList) {
            let spec = VidraTargetSpec { desired: Wish::Absent, ..target.spec.clone() };
            let _ = hub.api.replace_target(&VidraTarget { spec, ..(*target).clone() }).await;
            continue;
        }
        if !is_let_go(&target) {
            continue;
        }
        let of_target = TargetKey::new(&key.namespace, &key.name, &cluster);
        if let Err(error) = advance(hub, &of_target, &target).await {
            if let Some(told) = hub.refusal(&Key::Resource(key.clone()), &error) {
                let message = format!("the hub's API refuses a write for it: {told}");
                hub.events.say(target.as_ref(), Severity::Warning, WRITE_REFUSED, &message);
            }
            again = Some(after_hub_error(&Key::Resource(key.clone()), &error));
        }
    }
    again
}

async fn advance(hub: &Hub, key: &TargetKey, target: &VidraTarget) -> Result<(), CallError> {
    let generation = target.metadata.generation.unwrap_or_default();
    let status = target.status.clone().unwrap_or_default();
    if target.spec.desired != Wish::Present && is_torn_down(&status, generation) {
        return hub.api.remove_target(key, target).await;
    }
    if matches!(target.spec.desired, Wish::Orphaned | Wish::Forgotten) {
        return Ok(());
    }
    let spec = VidraTargetSpec { desired: Wish::Orphaned, suspend: false, ..target.spec.clone() };
    hub.api.replace_target(&VidraTarget { spec, ..target.clone() }).await
}

//! A living target whose inventory was lost: it is found again in the member before anything is made or pruned.

use std::collections::BTreeMap;

use vidra_api::VidraTarget;
use vidra_core::{
    directives::ApplyMode,
    mutants::{self, Mutant},
    object::ObjectKey,
    owner::Owner,
    plan::{self, Held, Inventory},
    status::{Delivery, Reason},
};

use super::{context::Context, hub_restore::known_generation, inventory::send};
use crate::{
    base::error::{CallError, Class},
    controllers::Hub,
    desired::Desired,
    hub::inventory::{self, ChunkWrite},
    member::{
        fence::Fence,
        own_objects::{self, Found},
        session::Session,
    },
    workqueue::TargetKey,
};

/// What is known of an inventory that was lost.
pub(super) enum Recovery {
    /// It was not lost.
    NotLost,
    /// Everything that it held and that is still there.
    All(BTreeMap<ObjectKey, Found>),
    /// Some kinds could not be listed: more may be there. Why, and what to do.
    Unknown(Delivery),
}

impl Recovery {
    /// What is written of the inventory, and what is known of its objects; `written`: what was read before.
    pub(super) fn known(&self, ctx: &Context<'_>, written: Inventory) -> (Inventory, Inventory) {
        match self {
            Self::All(found) => {
                let whole = inventory::joined(&ctx.hub.catalog.inventory(ctx.key));
                (whole.clone(), with_found(whole, found))
            }
            Self::NotLost | Self::Unknown(_) => (written.clone(), written),
        }
    }
}

/// The inventory is written before the first object. So where there is none, and something was delivered, it was
/// lost. An emptied one keeps an empty chunk; of several the first names all. What is found there, is not declared, and
/// was applied from a later declaration than this hub knows, is left out: nobody has dropped it.
pub(super) async fn recover_inventory(
    ctx: &Context<'_>,
    session: &Session,
    (owner, desired): (&Owner, &Desired),
    live: &BTreeMap<ObjectKey, plan::Live>,
    fence: &Fence<'_>,
) -> Result<Recovery, CallError> {
    let ours = live.values().any(|live| live.proof && !live.controlled);
    let chunks = ctx.hub.catalog.inventory(ctx.key);
    let lost = match chunks.is_empty() {
        true => tells_delivery(ctx.target) || ours,
        false => inventory::is_lost(&chunks),
    };
    if !lost {
        return Ok(Recovery::NotLost);
    }
    match own_objects::find_own(session, owner, fence).await {
        Ok(mut found) => {
            // What later declarations alone have is dropped by none that this hub has: it is not to be pruned.
            let known = known_generation(ctx);
            let is_known = |one: &Found| one.generation.is_some_and(|generation| generation <= known);
            found.retain(|key, one| {
                desired.declares(key) || is_known(one) || mutants::is(Mutant::LaterIsDropped)
            });
            // What is to be applied once, and was, is not made again for that.
            let is_done = |key: &ObjectKey| {
                let once = desired.wants.get(key).filter(|want| want.directives.apply == ApplyMode::Once);
                let applied = live.get(key).and_then(|live| live.applied);
                once.is_some_and(|want| applied == Some(want.hash))
            };
            found.iter_mut().for_each(|(key, one)| one.going &= !is_done(key));
            // An empty chunk tells the next reconcile that nothing was found.
            if found.is_empty() && chunks.is_empty() {
                let cluster_uid = ctx.cluster_uid();
                let (named, entries) = (Vec::new(), Vec::new());
                let writes = [ChunkWrite::Create { index: 0, named, cluster_uid, entries }];
                send(ctx, &writes).await?;
            }
            Ok(Recovery::All(found))
        }
        // The call was abandoned, not answered.
        Err(error) if error.class == Class::Withdrawn => Err(error),
        Err(error) => {
            let message = format!(
                "its inventory is lost, and finding its objects failed: {error}; until that is fixed, the hub creates nothing new and prunes nothing"
            );
            let reason = Reason::InventoryMissing;
            Ok(Recovery::Unknown(Delivery::Failed { reason, message, stalled: false }))
        }
    }
}

/// A VidraTarget without a status that this process did not make: a restore drops statuses.
pub(super) fn note_past(ctx: &Context<'_>) {
    let told = ctx.target.status.as_ref().is_some_and(|status| status.observed_generation.is_some());
    if !told {
        ctx.hub.state.lock().change_target(ctx.key, |state| state.untold |= !state.made);
    }
}

/// Something was delivered, or nobody can tell that nothing was.
pub(in crate::controllers) fn may_have_delivered(hub: &Hub, key: &TargetKey, target: &VidraTarget) -> bool {
    tells_delivery(target) || hub.state.lock().target(key).is_some_and(|state| state.untold)
}

/// Its status says that something was delivered.
fn tells_delivery(target: &VidraTarget) -> bool {
    let status = target.status.as_ref();
    status.is_some_and(|status| status.objects > 0 || status.revision.is_some())
}

/// Puts what was found beside what is written.
pub(super) fn with_found(mut held: Inventory, found: &BTreeMap<ObjectKey, Found>) -> Inventory {
    for (key, one) in found {
        let found = || Held { uid: one.uid.clone(), going: one.going, ..Held::intended(&one.version) };
        held.entry(key.clone()).or_insert_with(found);
    }
    held
}

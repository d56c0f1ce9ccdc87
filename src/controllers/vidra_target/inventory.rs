//! The fourth step: what became of the inventory, and writing it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;
use vidra_api::target::DesiredState;
use vidra_core::{
    directives::ApplyMode,
    merge_lookup::MergeLookup,
    mutants::{self, Mutant},
    object::ObjectKey,
    plan::{Held, Inventory, Live, Want, is_settled},
    uid::Uid,
};

use super::context::Context;
use crate::{
    base::error::CallError,
    hub::inventory::{self, ChunkWrite, Chunks},
    member::{apply::Outcome, late_creates::CREATE_LANDS_WITHIN},
};

/// Enters what came of applying an object.
pub(super) fn enter_outcome(key: &ObjectKey, want: &Want, outcome: &Outcome, inventory: &mut Inventory) {
    let (Outcome::Applied { .. } | Outcome::Adopted { .. } | Outcome::Recreated { .. } | Outcome::Present) =
        outcome
    else {
        return;
    };
    let held = inventory.entry(key.clone()).or_insert_with(|| Held::intended(&want.gvk.version));
    held.version.clone_from(&want.gvk.version);
    held.wave = want.directives.wave;
    held.going = false;
    match outcome {
        Outcome::Applied { uid, .. } | Outcome::Adopted { uid, .. } | Outcome::Recreated { uid, .. } => {
            held.uid = uid.as_str().into();
            held.adopted |= matches!(outcome, Outcome::Adopted { .. });
            let once = want.directives.apply == ApplyMode::Once;
            held.settled = once.then(|| want.hash.to_string().into());
        }
        _ => held.settled = Some(want.hash.to_string().into()),
    }
}

/// Enters that an object is on its way out or gone, for it was to be deleted: nobody else would know that when it is gone, and it
/// may be wanted again by then. What was made in its place is entered afterwards.
pub(super) fn enter_deletion(key: &ObjectKey, inventory: &mut Inventory) {
    if let Some(held) = inventory.get_mut(key) {
        // What was never noted by its uid is news in any case.
        held.going = !held.uid.is_empty();
        held.settled = None;
    }
}

/// Enters what the member proves to be ours: a hub that died may have applied it and not
/// written down its uid. And with what is declared of waves now, which no apply tells. `is_untold`: whether an object with
/// this uid was seen and is not any more, and no read has told why.
pub(super) fn enter_proofs(
    inventory: &mut Inventory,
    wants: &BTreeMap<ObjectKey, Want>,
    live: &BTreeMap<ObjectKey, Live>,
    is_untold: impl Fn(&ObjectKey, &Uid) -> bool,
) {
    let mut live = MergeLookup::new(live);
    for (key, want) in wants {
        let Some(live) = live.get(key).filter(|live| live.proof && !live.controlled) else {
            if let Some(held) = inventory.get_mut(key) {
                held.wave = want.directives.wave;
                // It was seen again since it was found there, and its end came before anybody looked.
                let is_absent = want.directives.apply == ApplyMode::IfAbsent && held.settled.is_some();
                if is_absent && is_untold(key, &held.uid) {
                    held.settled = None;
                }
            }
            continue;
        };
        let held = inventory.entry(key.clone()).or_insert_with(|| Held::intended(&want.gvk.version));
        held.wave = want.directives.wave;
        // What is on its way out does not turn back: what is there now was made since, or a backup has brought it back.
        held.going &= live.terminating;
        held.uid.clone_from(&live.uid);
        let applied = live.applied == Some(want.hash) && !held.going;
        match want.directives.apply {
            ApplyMode::Once if applied && !is_settled(want, held) => {
                held.settled = Some(want.hash.to_string().into());
            }
            // It is seen again.
            ApplyMode::IfAbsent => held.settled = None,
            ApplyMode::Always | ApplyMode::Once => {}
        }
    }
}

/// Objects of which nobody waits to see them: they were applied once, or somebody else has made them. Those
/// that the inventory knows by a uid count as this target's.
pub(super) struct SettledObjects {
    /// All of them.
    pub(super) all: BTreeSet<ObjectKey>,
    /// Of these, this target's.
    pub(super) known: BTreeSet<ObjectKey>,
}

impl SettledObjects {
    /// Of these wants, by the part of the inventory that is asked for.
    pub(super) fn of(
        wants: &BTreeMap<ObjectKey, Want>,
        part: impl FnOnce(&dyn Fn(&ObjectKey) -> bool) -> Inventory,
    ) -> Self {
        let (mut all, mut known) = (BTreeSet::new(), BTreeSet::new());
        // Most targets have none, and large inventories.
        if wants.values().any(|want| want.directives.apply != ApplyMode::Always) {
            let special = |key: &ObjectKey| {
                wants.get(key).is_some_and(|want| want.directives.apply != ApplyMode::Always)
            };
            for (key, held) in part(&special) {
                if wants.get(&key).is_some_and(|want| is_settled(want, &held)) {
                    if !held.uid.is_empty() {
                        known.insert(key.clone());
                    }
                    all.insert(key);
                }
            }
        }
        Self { all, known }
    }
}

/// The whole inventory, where what was done changed it and that is not written yet.
#[derive(Default)]
pub(super) struct InventoryChange(Option<Inventory>);

impl InventoryChange {
    /// What is to be written of the inventory, a part of which went from `before` to `now`.
    pub(super) fn between(ctx: &Context<'_>, before: &Inventory, now: &Inventory) -> Self {
        let (chunks, cluster) = (ctx.hub.catalog.inventory(ctx.key), ctx.cluster_uid());
        Self(inventory::changed(&chunks, cluster.as_deref(), before, now))
    }

    /// Writes it, where that is anything new. Until then our Apply entries are the proof of what was made; so it may
    /// follow the status, for which people wait.
    pub(super) async fn settle(&mut self, ctx: &Context<'_>) -> Result<(), CallError> {
        let Some(inventory) = self.0.take() else { return Ok(()) };
        write(ctx, &inventory, ctx.target.spec.desired != DesiredState::Present).await
    }

    /// The part of the inventory that is asked for, as it will be; `chunks`: as it is written.
    pub(super) fn part(&self, chunks: &Chunks, wanted: impl Fn(&ObjectKey) -> bool) -> Inventory {
        match &self.0 {
            Some(inventory) => inventory::chosen(inventory, wanted),
            None => inventory::part(chunks, wanted),
        }
    }

    /// How many objects are known to be there.
    pub(super) fn known(&self, chunks: &Chunks) -> usize {
        self.0.as_ref().map_or_else(|| inventory::known(chunks), inventory::identified)
    }
}

/// What is written of the inventory, as far as it matters now.
pub(super) fn current_inventory(ctx: &Context<'_>, wants: &BTreeMap<ObjectKey, Want>) -> Inventory {
    let prune = ctx.prunes();
    inventory::part(&ctx.hub.catalog.inventory(ctx.key), |key| prune || wants.contains_key(key))
}

/// Brings what is written of the inventory to this.
pub(super) async fn write(ctx: &Context<'_>, inventory: &Inventory, leaving: bool) -> Result<(), CallError> {
    let (chunks, cluster) = (ctx.hub.catalog.inventory(ctx.key), ctx.cluster_uid());
    let most = ctx.hub.limits.inventory_entries;
    let writes = inventory::writes(&chunks, cluster.as_deref(), inventory, leaving, most);
    send(ctx, &writes).await
}

/// Writes parts of the inventory. One whose making is not answered may come for as long as any other create.
pub(super) async fn send(ctx: &Context<'_>, writes: &[ChunkWrite]) -> Result<(), CallError> {
    let written = ctx.hub.api.write_inventory(ctx.key, writes).await;
    let makes = writes.iter().any(|write| matches!(write, ChunkWrite::Create { .. }));
    if makes && written.as_ref().is_err_and(CallError::is_unsure) {
        let until = Instant::now() + CREATE_LANDS_WITHIN;
        ctx.hub.state.lock().change_target(ctx.key, |state| state.chunk_lands = Some(until));
    }
    written
}

/// How long a part of the inventory may still come whose making was not answered.
pub(super) fn chunk_lands_in(ctx: &Context<'_>) -> Option<Duration> {
    let until = ctx.hub.state.lock().target(ctx.key).and_then(|state| state.chunk_lands)?;
    let rest = until.checked_duration_since(Instant::now())?;
    (!rest.is_zero() && !mutants::is(Mutant::LateChunkUnawaited)).then_some(rest)
}

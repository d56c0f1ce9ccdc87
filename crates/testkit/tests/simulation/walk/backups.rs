//! The hub's own cluster is put back to what it was: people stop the hub, restore, apply again what they have or delete again
//! what was deleted since, and start it. Where it is behind its members it waits for their word.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use memkube::Backup;
use serde_json::{Value, json};
use testkit::sim::world::{hub_path, member_path};
use tokio::time::sleep;
use vidra_api::{
    GROUP,
    labels::{CONFIRM, CONFIRM_RESTORE},
};

use super::{
    Walk,
    model::{Docs, manifest},
    removals::MUCH,
};

/// What is declared is delivered within this, mostly.
const DELIVERS_WITHIN: Duration = Duration::from_secs(3);

/// A backup of the hub, and what people had declared there.
pub(super) struct Kept {
    backup: Backup,
    declared: BTreeMap<&'static str, Docs>,
    overrides: Vec<(&'static str, Value)>,
}

impl Walk {
    /// One of these, by its number from 0 to 1.
    pub(super) async fn go_back(&mut self, which: u8, some: Duration) {
        match (which, self.kept.take()) {
            (0, None) => self.kept = Some(self.keep()),
            (0, Some(kept)) => self.restore_hub(kept, some).await,
            (_, kept) => {
                self.kept = kept;
                self.fall_behind(some).await;
            }
        }
    }

    fn keep(&self) -> Kept {
        Kept {
            backup: self.world.cluster("hub").backup(),
            declared: self.declared.clone(),
            overrides: self.overrides.clone(),
        }
    }

    /// More than a few objects are declared otherwise after the backup.
    async fn fall_behind(&mut self, some: Duration) {
        self.declare_all_anew().await;
        sleep(DELIVERS_WITHIN + some / 4).await;
        let kept = self.keep();
        self.declare_all_anew().await;
        sleep(DELIVERS_WITHIN + some / 4).await;
        self.restore_hub(kept, some).await;
    }

    async fn declare_all_anew(&mut self) {
        let value = self.value();
        let shop = self.declared.entry("shop").or_default();
        shop.extend(MUCH.into_iter().chain(["b"]).map(|slot| (slot, value)));
        self.declare_the_shop().await;
        if let Some(bank) = self.declared.get_mut("bank") {
            bank.extend([("c", value), ("s", value)]);
            let text = manifest(bank);
            self.patch_resource("bank", json!({"manifest": text})).await;
        }
    }

    async fn restore_hub(&mut self, kept: Kept, some: Duration) {
        let Kept { backup, declared, overrides } = kept;
        self.tell("the hub is restored");
        self.world.crash_hub().await;
        self.world.observer.restore_hub(&backup);
        let newest = std::mem::replace(&mut self.declared, declared);
        self.overrides = overrides;
        self.restored = true;
        for &member in self.world.members() {
            self.note_returned(member, &BTreeSet::new());
        }
        match (self.chance.u8(..4), newest.get("shop")) {
            (0, Some(docs)) if !docs.is_empty() => {
                self.declared.insert("shop", docs.clone());
                self.declare_the_shop().await;
            }
            (1, _) if self.declared.remove("bank").is_some() => {
                self.world.try_delete("hub", &format!("{}/bank", hub_path("vidraresources"))).await;
            }
            _ => {}
        }
        self.world.start_hub();
        sleep(some).await;
        if self.chance.bool() {
            self.confirm_what_is_held().await;
        }
    }

    /// Says where a hub that is behind waits for it that what it declares is meant.
    pub(super) async fn confirm_what_is_held(&self) {
        let targets = self.world.clusters.hub.objects(GROUP, "vidratargets");
        for &member in self.world.members() {
            let waits =
                |one: &Value| one["spec"]["cluster"] == member && one["status"]["reason"] == "HubRestored";
            if targets.iter().any(waits) {
                let word = json!({"metadata": {"annotations": {CONFIRM: CONFIRM_RESTORE}}});
                self.world.try_patch("hub", &member_path(member), word).await;
            }
        }
    }
}

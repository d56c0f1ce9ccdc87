//! The hub's own cluster is put back to what it was: people stop the hub, restore, apply again what they have or delete again
//! what was deleted since, and start it. Where it is behind its members it waits for their word. Or nobody stops the hub.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use memkube::{Backup, Cluster, Down};
use serde_json::{Value, json};
use testkit::sim::{
    judge::behind::ENDS_WITHIN,
    world::{hub_path, member_path},
};
use tokio::time::{Instant, sleep};
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

/// What others write in the hub's cluster between a backup and what is restored of it, at least.
const OTHERS_WRITE: u64 = 1000;

/// A backup of the hub, and what people had declared there.
pub(super) struct Kept {
    backup: Backup,
    made: Instant,
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
        let hub = self.world.cluster("hub");
        let backup = hub.backup();
        hub.pass(OTHERS_WRITE);
        Kept {
            backup,
            made: Instant::now(),
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
        self.tell("the hub is restored");
        self.world.crash_hub().await;
        self.world.observer.restore_hub(&kept.backup);
        let newest = self.take_back(kept);
        self.declare_again(&newest).await;
        self.world.start_hub();
        sleep(some).await;
        if self.chance.bool() {
            self.confirm_what_is_held().await;
        }
    }

    /// Nobody stops the hub: its API server is stopped, its etcd restored, with raised versions or without, and the API server
    /// started. The hub has to notice and to end, and is started again.
    pub(super) async fn hub_api_restored_while_running(&mut self, some: Duration) {
        let kept = match self.kept.take().filter(|_| self.chance.bool()) {
            Some(kept) => kept,
            None => self.fall_behind_somehow(some).await,
        };
        let (since, bump) = (Instant::now(), self.pick(&[0, Cluster::BUMP]));
        self.tell(&format!("the hub's API is restored under it, raised by {bump}"));
        self.world.cluster("hub").set_down(Some(Down::Refuse));
        sleep(some / 4).await;
        self.world.observer.restore_under_the_hub((&kept.backup, kept.made), bump, since);
        self.world.cluster("hub").set_down(None);
        let newest = self.take_back(kept);
        let is_prompt = self.chance.bool();
        if is_prompt {
            self.declare_again(&newest).await;
        }
        let began = Instant::now();
        while self.world.observer.is_unaware() {
            if began.elapsed() > ENDS_WITHIN {
                self.world.observer.breach_unaware();
                break;
            }
            sleep(Duration::from_millis(100)).await;
        }
        self.tell("the hub knows");
        if !is_prompt {
            self.declare_again(&newest).await;
        }
        sleep(some).await;
        if self.chance.bool() {
            self.confirm_what_is_held().await;
        }
    }

    /// A backup, after which much is declared otherwise, or something comes or goes.
    async fn fall_behind_somehow(&mut self, some: Duration) -> Kept {
        self.declare_all_anew().await;
        sleep(DELIVERS_WITHIN + some / 4).await;
        let kept = self.keep();
        match self.chance.u8(..3) {
            0 => self.come_or_go().await,
            1 => self.edit().await,
            _ => self.declare_all_anew().await,
        }
        sleep(DELIVERS_WITHIN + some / 4).await;
        kept
    }

    /// What was declared when the backup was made is what there is; what was declared last.
    fn take_back(&mut self, kept: Kept) -> BTreeMap<&'static str, Docs> {
        self.overrides = kept.overrides;
        self.restored = true;
        let newest = std::mem::replace(&mut self.declared, kept.declared);
        for &member in self.world.members() {
            self.note_returned(member, &BTreeSet::new());
        }
        newest
    }

    /// People apply the shop again as it was declared last, or delete the bank again, or neither.
    async fn declare_again(&mut self, newest: &BTreeMap<&'static str, Docs>) {
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

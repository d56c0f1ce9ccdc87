//! What becomes of the clusters themselves, beside what people declare and what breaks on the way: kinds that come and go,
//! groups that do not answer, servers that start again.

use std::time::Duration;

use memkube::Startup;
use serde_json::json;
use tokio::time::sleep;

use super::{
    Walk,
    model::{crd, manifest},
};

/// Where CRDs are, and the one of books.
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const BOOKS: &str = "books.test.io";

/// Something is removed when a group has been silent for this long, and it is for as long again at least: what the hub removes
/// after its pruneDelay it decides when the group does not answer.
const SILENT_FOR: Duration = Duration::from_secs(6);

impl Walk {
    /// One of these, by its number from 0 to 5.
    pub(super) async fn unsettle(&mut self, which: u8, member: &'static str, some: Duration) {
        match which {
            0 | 1 => self.lose_a_kind(member, some).await,
            2..=4 => self.silence_a_group(member, some).await,
            _ => self.restart_a_server(member, some).await,
        }
    }

    /// Somebody deletes a CRD in a member, and with it all that is of its kind. The shop may have just dropped it, or drops
    /// it then; and somebody may make one of his own, unless the hub is faster.
    async fn lose_a_kind(&mut self, member: &'static str, some: Duration) {
        if self.chance.bool() {
            self.declare("book").await;
            sleep(some / 4).await;
        }
        // Finalizers would keep it on its way out: that is for other steps.
        self.let_go(member).await;
        if self.chance.u8(..6) == 0 {
            self.declare_no_more("book").await;
        }
        self.world.try_delete(member, &format!("{CRDS}/{BOOKS}")).await;
        if self.chance.u8(..6) == 0 {
            self.declare_no_more("book").await;
        }
        if self.chance.bool() {
            sleep(some).await;
            self.make_a_kind(member).await;
        }
    }

    /// What somebody makes is his, until the hub is told to take it.
    async fn make_a_kind(&self, member: &str) {
        if !self.world.try_create(member, CRDS, crd()).await {
            return;
        }
        let group = "apiextensions.k8s.io";
        if let Some(made) = self.world.object(member, group, "customresourcedefinitions", "", BOOKS) {
            self.world.observer.guard(&made);
        }
    }

    /// What serves a group in a member does not answer for a while; in other groups all goes on. Nothing is gone for that.
    async fn silence_a_group(&mut self, member: &'static str, some: Duration) {
        let (group, slot) =
            self.pick(&[("test.io", "book"), ("apps", "app"), ("apps", "db"), ("batch", "job")]);
        let slot = self.pick(&[slot, slot, "own"]);
        if self.chance.bool() {
            self.patch_resource("shop", json!({"namespaceAndCRDDeletion": "WhenEmpty"})).await;
            self.declare(slot).await;
            sleep(some / 4).await;
        }
        self.world.observer.cloud(member, SILENT_FOR * 2 + some);
        self.world.observer.set_group_available(member, group, false);
        if self.chance.bool() {
            self.world.cluster(member).cut_watches();
        }
        self.edit().await;
        sleep(SILENT_FOR).await;
        match self.chance.u8(..8) {
            0 => self.declare_nothing().await,
            1 => self.come_or_go().await,
            2..=4 => self.declare_no_more(slot).await,
            5 => {
                self.world.crash_hub().await;
                self.world.start_hub();
            }
            _ => {}
        }
        sleep(SILENT_FOR + some).await;
        self.world.observer.set_group_available(member, group, true);
    }

    /// A member's server starts again, and does not know its CRDs for a while. What is of their kinds is not gone, also for a
    /// hub that starts meanwhile.
    async fn restart_a_server(&mut self, member: &'static str, some: Duration) {
        if self.chance.u8(..4) > 0 {
            self.declare("book").await;
            sleep(some / 4).await;
        }
        self.world.observer.cloud(member, some);
        let not_found = self.chance.bool();
        let startup = Startup { crds: some, health: some, not_found, ..Startup::default() };
        self.world.cluster(member).restart(startup);
        if self.chance.u8(..4) > 0 {
            self.world.crash_hub().await;
            self.world.start_hub();
        }
        match self.chance.u8(..4) {
            0 => self.edit().await,
            _ => self.declare_no_more("book").await,
        }
        sleep(some).await;
    }

    /// From now on the shop declares this too, or otherwise.
    pub(super) async fn declare(&mut self, slot: &'static str) {
        let value = self.value();
        self.declared.entry("shop").or_default().insert(slot, value);
        self.declare_the_shop().await;
    }

    /// From now on the shop does not declare this, unless it declares nothing else.
    pub(super) async fn declare_no_more(&mut self, slot: &'static str) {
        let docs = self.declared.entry("shop").or_default();
        if docs.len() > 1 && docs.remove(slot).is_some() {
            self.declare_the_shop().await;
        }
    }

    pub(super) async fn declare_the_shop(&self) {
        let text = manifest(&self.declared["shop"]);
        self.patch_resource("shop", json!({"manifest": text})).await;
    }
}

//! What becomes of the clusters themselves, beside what people declare and what breaks on the way: kinds that come and go.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::{
    Walk,
    model::{crd, manifest},
};

/// Where CRDs are, and the one of books.
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const BOOKS: &str = "books.test.io";

impl Walk {
    /// One of these, by its number from 0 to 1.
    pub(super) async fn unsettle(&mut self, _which: u8, member: &'static str, some: Duration) {
        self.lose_a_kind(member, some).await;
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

    /// From now on the shop declares this too, or otherwise.
    async fn declare(&mut self, slot: &'static str) {
        let value = self.value();
        self.declared.entry("shop").or_default().insert(slot, value);
        self.declare_the_shop().await;
    }

    /// From now on the shop does not declare this, unless it declares nothing else.
    async fn declare_no_more(&mut self, slot: &'static str) {
        let docs = self.declared.entry("shop").or_default();
        if docs.len() > 1 && docs.remove(slot).is_some() {
            self.declare_the_shop().await;
        }
    }

    async fn declare_the_shop(&self) {
        let text = manifest(&self.declared["shop"]);
        self.patch_resource("shop", json!({"manifest": text})).await;
    }
}

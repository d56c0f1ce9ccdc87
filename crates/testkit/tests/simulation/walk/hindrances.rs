//! What keeps the hub from its work for a while without any fault: finalizers of others, a manifest that cannot be read,
//! rights that are taken and given back, a webhook that refuses.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Denial};
use serde_json::{Value, json};
use testkit::sim::observer::HUB_USER;
use tokio::time::sleep;

use super::{Walk, model::manifest};

/// Somebody else's.
pub(super) const FINALIZER: &str = "test.io/hold";

impl Walk {
    /// One of these, by its number from 0 to 5.
    pub(super) async fn hinder(&mut self, which: u8, member: &'static str, path: &str, some: Duration) {
        match which {
            0 | 1 => {
                let held = json!({"metadata": {"finalizers": [FINALIZER]}});
                self.world.try_patch(member, path, held).await;
                if self.chance.bool() {
                    self.edit().await;
                }
            }
            2 => self.let_go(member).await,
            3 => self.declare_what_cannot_be_read(some).await,
            4 => {
                let resource = self.pick(&["configmaps", "secrets", "deployments", "namespaces", "jobs"]);
                self.world.observer.cloud(member, some);
                self.world.observer.forbid(Some((member, resource)));
                self.edit().await;
                sleep(some).await;
                self.world.observer.forbid(None);
            }
            _ => self.refuse_for_a_while(member, some).await,
        }
    }

    /// Takes the finalizers off all that is in a member.
    pub(super) async fn let_go(&self, member: &str) {
        for (object, path) in self.all_in(member) {
            let mut finalizers = object["metadata"]["finalizers"].as_array().into_iter().flatten();
            if finalizers.any(|one| one == FINALIZER) {
                let free = json!({"metadata": {"finalizers": null}});
                self.world.try_patch(member, &path, free).await;
            }
        }
    }

    /// In all members.
    pub(super) async fn let_all_go(&self) {
        for member in self.world.members() {
            self.let_go(member).await;
        }
    }

    /// For a while the shop's manifest cannot be read.
    async fn declare_what_cannot_be_read(&mut self, some: Duration) {
        let before = manifest(&self.declared["shop"]);
        self.patch_resource("shop", json!({"manifest": format!("{before}a: [b")})).await;
        sleep(some).await;
        if self.chance.bool() {
            self.edit().await;
        }
        let now = manifest(&self.declared["shop"]);
        self.patch_resource("shop", json!({"manifest": now})).await;
    }

    /// For a while a webhook refuses what the hub writes about one name.
    async fn refuse_for_a_while(&mut self, member: &'static str, some: Duration) {
        let name = self.pick(&["a", "b", "s", "key", "app", "db", "job"]);
        let refuse = move |call: &Call, object: &Value| {
            let meant = call.user.starts_with(HUB_USER) && object["metadata"]["name"] == name;
            if meant { Err(Denial::new("policy.test.io", "not now")) } else { Ok(()) }
        };
        self.world.cluster(member).set_validating_admission(Some(Arc::new(refuse)));
        self.edit().await;
        sleep(some).await;
        self.world.cluster(member).set_validating_admission(None);
    }
}

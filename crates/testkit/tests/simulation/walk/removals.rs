//! Much is taken away at once: by a declaration that drops most of what there was, and by a selection that loses most of
//! those who have it. People say a word for it, the right one or another, take it back, or meddle meanwhile.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::sim::world::{TARGET_NAMESPACE, TEAM, hub_path};
use tokio::time::sleep;
use vidra_api::{
    GROUP,
    labels::{APPROVE_REMOVAL, FINALIZER as TEARDOWN},
    names::target_name,
};

use super::{Walk, hindrances::FINALIZER};

/// What is declared so that much can be dropped.
pub(super) const MUCH: [&str; 6] = ["a", "d", "s", "key", "web", "role"];
/// Approves nothing that there is.
const ANY_WORD: &str = "0123456789";

impl Walk {
    /// One of these, by its number from 0 to 3.
    pub(super) async fn remove_much(&mut self, which: u8, member: &'static str, some: Duration) {
        match which {
            0 | 1 => self.cut_down(some).await,
            _ => self.lose_targets(member, some).await,
        }
    }

    /// The shop declares much, and then little; with that perhaps what has to wait for its wave.
    async fn cut_down(&mut self, some: Duration) {
        let value = self.value();
        let shop = self.declared.entry("shop").or_default();
        shop.extend(MUCH.map(|slot| (slot, value)));
        let before = shop.clone();
        self.declare_the_shop().await;
        sleep(some / 2).await;
        let (most, waits) = (self.chance.u8(..3) > 0, self.chance.bool());
        let one = self.pick(&MUCH);
        let shop = self.declared.entry("shop").or_default();
        match most {
            true => shop.retain(|slot, _| *slot == one),
            false => shop.retain(|slot, _| *slot != one),
        }
        if waits {
            shop.extend([("app", value), ("b", "three")]);
        }
        self.declare_the_shop().await;
        self.say_a_word(some).await;
        if self.chance.u8(..4) == 0 {
            self.declared.insert("shop", before);
            self.declare_the_shop().await;
        }
    }

    /// The shop is for few, or for nobody. Somebody deletes one of its VidraTargets meanwhile, and may hold it there for a while.
    async fn lose_targets(&mut self, member: &'static str, some: Duration) {
        let entry = match self.chance.u8(..3) {
            0 => {
                json!({"clusterSelector": {"matchLabels": {"pool": "nowhere"}}, "namespace": TARGET_NAMESPACE})
            }
            _ => json!({"clusterNames": [member], "namespace": TARGET_NAMESPACE}),
        };
        self.patch_resource("shop", json!({"targets": [entry]})).await;
        sleep(some / 4).await;
        let other = self.pick_member();
        let path = hub_path(&format!("vidratargets/{}", target_name("shop", other)));
        let (meddles, holds) = (self.chance.bool(), self.chance.bool());
        if meddles && holds {
            let held = json!({"metadata": {"finalizers": [TEARDOWN, FINALIZER]}});
            self.world.try_patch("hub", &path, held).await;
        }
        if meddles {
            self.world.try_delete("hub", &path).await;
        }
        self.say_a_word(some).await;
        if meddles && holds {
            self.let_target_go(other, &path).await;
            sleep(some / 2).await;
        }
    }

    /// Takes off a VidraTarget what somebody has put on it, and nothing else.
    async fn let_target_go(&self, member: &str, path: &str) {
        let name = target_name("shop", member);
        let Some(target) = self.world.object("hub", GROUP, "vidratargets", TEAM, &name) else { return };
        let all = target["metadata"]["finalizers"].as_array().into_iter().flatten();
        let kept: Vec<&Value> = all.filter(|one| **one != FINALIZER).collect();
        self.world.try_patch("hub", path, json!({"metadata": {"finalizers": kept}})).await;
    }

    /// None, one that approves nothing, or the one that is asked for.
    async fn say_a_word(&mut self, some: Duration) {
        sleep(some / 4).await;
        match self.chance.u8(..4) {
            0 | 1 => {
                let word = json!({"metadata": {"annotations": {APPROVE_REMOVAL: ANY_WORD}}});
                let path = format!("{}/shop", hub_path("vidraresources"));
                self.world.try_patch("hub", &path, word).await;
            }
            2 => self.approve_what_is_held().await,
            _ => {}
        }
        sleep(some).await;
    }
}

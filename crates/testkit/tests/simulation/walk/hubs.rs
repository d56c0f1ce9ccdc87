//! Another hub, with an id and a cluster of its own, that has one of the members as well: it delivers into a namespace of its
//! own, and in two of three such walks also under names that the first hub's objects may have, in their namespace. Who is first
//! there has the name, and the other is refused it. In the end the other hub leaves all of them to the first one.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::sim::{
    World,
    observer::OTHER_ID,
    world::{
        OTHER_HUB, TARGET_NAMESPACE, config_map, config_maps, document, document_in, hub_path, path_named,
        resource,
    },
};
use tokio::time::sleep;
use vidra_api::labels::HUB_LABEL;

use super::{Walk, model::Docs, pick};

/// Its VidraResource, which is called as the first hub's.
pub(super) const THEIRS: &str = "shop";
/// Where in the member its own objects go.
const ANNEX: &str = "annex";
/// These are its own: one is called as one of the shop's.
const OWN: [&str; 2] = ["a", "x"];
/// What it may have in common with the first hub's.
const COMMON: [&str; 5] = ["a", "b", "d", "s", "absent"];
/// More that it drops at once would wait for manual approval.
const MOST: usize = 3;
/// Those of the shop among them.
const VALUES: [&str; 4] = ["one", "two", "theirs", "others"];
/// What it drops it removes within this: after the setting `pruneDelay`.
const REMOVES_WITHIN: Duration = Duration::from_secs(10);
/// Makes of a seed the source of what is drawn for it.
const BESIDE: u64 = 0x7e11_0f5e;

/// See the module.
pub(super) struct OtherHub {
    member: &'static str,
    /// It wants what the first hub may have.
    vies: bool,
    /// There is its VidraResource.
    is_there: bool,
    own: Docs,
    common: Docs,
}

impl OtherHub {
    /// Founds the other hub of the walk of this seed and starts it, a while before the first one or at once: in one of seven, and
    /// without a draw from what the others draw from.
    pub(super) async fn of(seed: u64, world: &mut World) -> Option<Self> {
        if seed % 7 != 4 {
            return None;
        }
        let mut chance = fastrand::Rng::with_seed(seed ^ BESIDE);
        let member = pick(&mut chance, world.members());
        let vies = chance.u8(..3) > 0;
        let (own, mut common) = (OWN.map(|name| (name, "one")).into(), Docs::new());
        if vies {
            common.insert(pick(&mut chance, &COMMON), pick(&mut chance, &VALUES));
        }
        let other = Self { member, vies, is_there: true, own, common };
        world.found_other_hub(member).await;
        world.create(OTHER_HUB, &hub_path("vidraresources"), other.made()).await;
        world.start_other_hub();
        if chance.bool() {
            sleep(Duration::from_secs(2)).await;
        }
        Some(other)
    }

    fn manifest(&self) -> String {
        let own = self.own.iter().map(|(name, value)| document(name, value));
        let common = self.common.iter().map(|(name, value)| document_in(TARGET_NAMESPACE, name, value));
        own.chain(common).collect()
    }

    fn made(&self) -> Value {
        let mut made = resource(THEIRS, &self.manifest());
        made["spec"]["targets"] = json!([{"clusterSelector": {}, "namespace": ANNEX}]);
        made
    }

    async fn put(&self, world: &World) {
        let spec = json!({"spec": {"manifest": self.manifest()}});
        world.try_patch(OTHER_HUB, &path(), spec).await;
    }

    /// It declares something else, of its own or of what both may have.
    async fn edit(&mut self, chance: &mut fastrand::Rng, world: &World) {
        let (own, common, value) = (pick(chance, &OWN), pick(chance, &COMMON), pick(chance, &VALUES));
        if !self.vies || chance.u8(..3) == 0 {
            self.own.insert(own, value);
        } else if self.common.remove(common).is_none() && self.common.len() < MOST {
            self.common.insert(common, value);
        }
        self.put(world).await;
    }

    async fn come_or_go(&mut self, world: &World) {
        if self.is_there {
            self.is_there = false;
            return world.try_delete(OTHER_HUB, &path()).await;
        }
        self.is_there = world.try_create(OTHER_HUB, &hub_path("vidraresources"), self.made()).await;
    }
}

/// Where its VidraResource is.
fn path() -> String {
    path_named("vidraresources", THEIRS)
}

impl Walk {
    /// Before a step something may happen to the other hub, to what it has, or to what both want.
    pub(super) async fn meddle(&mut self, mut chance: fastrand::Rng) {
        if self.other_hub.is_none() {
            return;
        }
        let (what, own, name) = (chance.u8(..12), pick(&mut chance, &OWN), pick(&mut chance, &COMMON));
        self.tell(&format!("beside {what}: {own} {name}"));
        let Self { other_hub: Some(other), world, .. } = self else { return };
        let (member, common) = (other.member, config_map(name));
        match what {
            0..=3 => other.edit(&mut chance, world).await,
            // Whoever is faster then has it.
            4 | 5 if other.vies => {
                world.try_delete(member, &common).await;
                world.ask_for_a_look(OTHER_HUB, THEIRS).await;
            }
            6 if other.vies => {
                let bare = json!({"metadata": {"labels": {HUB_LABEL: null}}});
                world.try_patch(member, &common, bare).await;
            }
            7 => {
                let tampered = json!({"data": {"key": "mine"}});
                world.try_patch(member, &format!("{}/{own}", config_maps(ANNEX)), tampered).await;
            }
            8 => {
                world.end_other_hub().await;
                world.start_other_hub();
            }
            9 => other.come_or_go(world).await,
            _ => {}
        }
    }

    /// What people put right of this in the end: the other hub leaves to the first one what both want. What a restore of the
    /// member has brought back of it they delete, and they tell the first one that it may try again.
    pub(super) async fn part_hubs(&mut self) {
        let Some(other) = &mut self.other_hub else { return };
        other.common.clear();
        other.put(&self.world).await;
        let member = other.member;
        sleep(REMOVES_WITHIN).await;
        for object in self.world.cluster(member).objects("", "configmaps") {
            let metadata = &object["metadata"];
            if metadata["namespace"] == TARGET_NAMESPACE && metadata["labels"][HUB_LABEL] == OTHER_ID {
                let name = metadata["name"].as_str().unwrap_or_default();
                self.world.try_delete(member, &config_map(name)).await;
            }
        }
        self.ask_again().await;
    }
}

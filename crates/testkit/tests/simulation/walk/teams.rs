//! Another team, in a namespace of its own on the hub: its VidraResource has the name of the first one's, delivers to the same
//! members, and may share an object. Members do not allow it for a while; and what else only several owners show: what moves
//! between two VidraResources, and a name of this hub's that nobody bears.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::sim::{
    World,
    observer::HUB_ID,
    world::{OTHER_TEAM, TARGET_NAMESPACE, TEAM, hub_path_in, member_path, path_named},
};
use tokio::time::sleep;

use super::{
    Walk,
    model::{Docs, declaring, manifest, place},
    rig::RIG,
};

/// What its VidraResource is called among all: that of [`OTHER_TEAM`] with the name of the first team's.
pub(super) const OTHER: &str = "team-b/shop";
/// What it may declare: of its own, and what the first team's have in common.
pub(super) const OTHER_SLOTS: [&str; 4] = ["m", "k", "s", "s"];
/// Who applies under this is none of the hub's, though it looks so.
pub(super) const NOBODY: &str = "vidra/sim/nobody/";

/// Is there another team in the walk of this seed? In a third of them, with two hubs or one.
pub(super) fn is_with_others(seed: u64) -> bool {
    seed / 3 % 3 == 1
}

/// Makes the other team's namespace.
pub(super) async fn found(world: &World) {
    world.create("hub", "/api/v1/namespaces", json!({"metadata": {"name": OTHER_TEAM}})).await;
}

/// Every member, and there the namespace of the shop's objects, or the one that is called as the team's.
fn targets(with_the_shop: bool) -> Value {
    match with_the_shop {
        true => json!([{"clusterSelector": {}, "namespace": TARGET_NAMESPACE}]),
        false => json!([{"clusterSelector": {}}]),
    }
}

/// What the other team declares at first, and the VidraResource that does.
pub(super) fn others(chance: &mut fastrand::Rng) -> (Docs, Value) {
    let mut docs = Docs::from([("m", "one"), ("k", "one")]);
    if chance.u8(..3) > 0 {
        docs.insert("s", "one");
    }
    let mut made = declaring(OTHER, &docs);
    made["spec"]["targets"] = targets(chance.u8(..4) > 0);
    (docs, made)
}

impl Walk {
    /// The VidraResources that there may be.
    pub(super) fn names(&self) -> &'static [&'static str] {
        match (self.others, self.declared.contains_key(RIG)) {
            (true, true) => &["shop", "bank", OTHER, RIG],
            (true, false) => &["shop", "bank", OTHER],
            (false, true) => &["shop", "bank", RIG],
            (false, false) => &["shop", "bank"],
        }
    }

    /// The shop of any team.
    pub(super) fn some_shop(&mut self) -> &'static str {
        if self.others && self.chance.bool() { OTHER } else { "shop" }
    }

    /// One of these, by its number from 0 to 3.
    pub(super) async fn deal(&mut self, which: u8, member: &'static str, some: Duration) {
        match which {
            0 | 1 => self.allow(member, some).await,
            2 => self.hand_over(some).await,
            _ => self.forge(member, some).await,
        }
    }

    /// The other team declares something else, or in another namespace.
    pub(super) async fn edit_other(&mut self) {
        let (slot, value) = (self.pick(&OTHER_SLOTS), self.value());
        if self.chance.u8(..6) == 0 {
            let targets = targets(self.chance.bool());
            return self.patch_resource(OTHER, json!({"targets": targets})).await;
        }
        let removes = self.chance.u8(..3) == 0;
        let Some(docs) = self.declared.get_mut(OTHER) else { return };
        if removes && docs.len() > 1 {
            docs.remove(slot);
        } else {
            docs.insert(slot, value);
        }
        self.put_docs(OTHER).await;
    }

    /// It is deleted, or made again.
    pub(super) async fn other_comes_or_goes(&mut self) {
        if self.declared.remove(OTHER).is_some() {
            return self.world.try_delete("hub", &path_named("vidraresources", OTHER)).await;
        }
        let (docs, made) = others(&mut self.chance);
        if self.world.try_create("hub", &hub_path_in(OTHER_TEAM, "vidraresources"), made).await {
            self.declared.insert(OTHER, docs);
        }
    }

    /// Tells the hub what a VidraResource declares.
    async fn put_docs(&self, name: &str) {
        let Some(docs) = self.declared.get(name) else { return };
        self.tell(&format!("{name} declares {docs:?}"));
        self.patch_resource(name, json!({"manifest": manifest(docs)})).await;
    }

    /// A VidraResource declares this of a slot, or with `None` nothing any more.
    async fn put_slot(&mut self, name: &str, slot: &'static str, value: Option<&'static str>) {
        let Some(docs) = self.declared.get_mut(name) else { return };
        match value {
            Some(value) => {
                docs.insert(slot, value);
            }
            None => {
                docs.remove(slot);
            }
        }
        if docs.is_empty() {
            docs.insert("web", "one");
        }
        self.put_docs(name).await;
    }

    /// A member does not allow the other team, for a while or until somebody says otherwise; or allows it again.
    async fn allow(&mut self, member: &'static str, some: Duration) {
        if self.chance.u8(..4) == 0 {
            return self.open(member).await;
        }
        let on_revoke = self.pick(&["Keep", "Keep", "Orphan", "Delete"]);
        self.tell(&format!("{member} allows {TEAM} alone, {on_revoke}"));
        let closed = json!({"spec": {"allowedNamespaces": [TEAM], "onRevoke": on_revoke}});
        self.world.try_patch("hub", &member_path(member), closed).await;
        let slot = self.pick(&OTHER_SLOTS);
        let (path, tampered) = place(slot);
        match self.chance.u8(..5) {
            0 => self.restart(some).await,
            1 => self.edit_other().await,
            2 => self.world.try_patch(member, &path, tampered).await,
            3 => self.other_comes_or_goes().await,
            _ => {}
        }
        sleep(some).await;
        if self.chance.bool() {
            self.open(member).await;
        }
    }

    pub(super) async fn open(&self, member: &str) {
        let open = json!({"spec": {"allowedNamespaces": null, "onRevoke": "Keep"}});
        self.world.try_patch("hub", &member_path(member), open).await;
    }

    /// What one has goes to another of its namespace, which declares it otherwise, so that it is refused until then; or the
    /// other comes to it a moment before, or after.
    async fn hand_over(&mut self, some: Duration) {
        let (from, to) = self.pick(&[("shop", "bank"), ("bank", "shop")]);
        let (one, other) = (self.value(), self.value());
        self.put_slot(from, "s", Some(one)).await;
        self.put_slot(to, "s", None).await;
        sleep(some).await;
        let between = self.pick(&[Duration::ZERO, Duration::from_millis(50), some / 2]);
        if self.chance.u8(..4) > 0 {
            self.put_slot(to, "s", Some(other)).await;
            sleep(between).await;
            self.put_slot(from, "s", None).await;
        } else {
            self.put_slot(from, "s", None).await;
            sleep(between.min(Duration::from_secs(3))).await;
            self.put_slot(to, "s", Some(other)).await;
        }
    }

    /// Somebody applies a field to what the shop has, under a name of this hub's that no VidraResource bears; then the shop drops
    /// the object.
    async fn forge(&mut self, member: &'static str, some: Duration) {
        let slot = self.pick(&["a", "b"]);
        let Some(object) = self.world.object(member, "", "configmaps", TARGET_NAMESPACE, slot) else {
            return;
        };
        let shop = format!("vidra/{HUB_ID}/{TEAM}/shop");
        let mut entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
        let is_shops = |entry: &Value| entry["manager"] == shop && entry["operation"] == "Apply";
        if !entries.any(is_shops) || self.world.observer.is_foreign(&object) {
            return;
        }
        // With its uid it is this object or none.
        let metadata = json!({"name": slot, "namespace": TARGET_NAMESPACE, "uid": object["metadata"]["uid"]});
        let forged =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"forged": "so"}});
        self.tell(&format!("{NOBODY}{slot} applies {slot}"));
        let (path, _) = place(slot);
        self.world.try_apply_as(&format!("{NOBODY}{slot}"), member, &path, forged).await;
        sleep(some / 8).await;
        self.put_slot("shop", slot, None).await;
    }

    /// What people put right of all this in the end: what is shared is declared alike, and each member allows everybody.
    pub(super) async fn put_teams_right(&mut self) {
        if !self.others {
            return;
        }
        let of = |name: &str| self.declared.get(name)?.get("s").copied();
        let told = of("shop").or_else(|| of("bank"));
        if let (Some(value), Some(_)) = (told, of(OTHER)) {
            self.put_slot(OTHER, "s", Some(value)).await;
        }
        if self.restored {
            // What a restore of a member has brought back is where it may be again.
            self.patch_resource(OTHER, json!({"targets": targets(true)})).await;
        }
        for &member in self.world.members() {
            self.open(member).await;
        }
    }
}

#[test]
fn the_other_teams_resource_has_the_name_of_the_first_ones() {
    assert_eq!(testkit::sim::world::place_of(OTHER), (OTHER_TEAM, "shop"));
}

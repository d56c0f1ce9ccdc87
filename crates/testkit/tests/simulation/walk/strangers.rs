//! Names that nobody has, and those that somebody else has: members that are not there, or allow nobody; registrations
//! that name no member, or one that another Secret registers; a namespace that nobody makes; a MemberCluster that is lost; and
//! objects that look like a hub's.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::sim::{
    judge::clouds::HUB,
    observer::HUB_ID,
    world::{
        HUB_NAMESPACE, OTHER_TEAM, TARGET_NAMESPACE, TEAM, config_map, config_maps, member_path,
        registration, secrets,
    },
};
use tokio::time::sleep;
use vidra_api::{
    GROUP,
    labels::{ALLOWED_NAMESPACES, HUB_LABEL, REGISTRATION_LABEL},
};

use super::{Walk, refusals::LABEL, steps::secret};

/// The hub has seen what was changed within this.
const SEES_WITHIN: Duration = Duration::from_secs(3);
/// Secrets that register nobody.
const SPARE: &str = "spare";
/// What an object has that looks like a hub's and was made by somebody.
const MARKED: &str = "marked";

impl Walk {
    /// One of these, by its number from 0 to 5.
    pub(super) async fn mistake(&mut self, which: u8, member: &'static str, some: Duration) {
        match which {
            0 => self.name_members(member, some).await,
            1 => self.register_wrongly(member, some).await,
            2 => self.join_for_nobody(member, some).await,
            3 => self.lack_a_namespace(some).await,
            4 => self.lose_a_member(member, some).await,
            _ => self.squat_with_marks(member, some).await,
        }
    }

    /// What people put right of all this in the end.
    pub(super) async fn put_strangers_right(&self) {
        for &member in self.world.members() {
            let object = self.world.object("hub", GROUP, "memberclusters", "", member).unwrap_or_default();
            if object["spec"]["allowedNamespaces"].as_array().is_some_and(Vec::is_empty) {
                self.allow_all(member).await;
            }
            self.remove_what_is_marked(member).await;
        }
    }

    /// The shop names a member beside all others, and one that there is not, or that allows nobody for a while.
    async fn name_members(&mut self, member: &'static str, some: Duration) {
        let is_there = self.chance.bool();
        let names = if is_there { vec![member] } else { vec![member, "nowhere"] };
        let all = json!([
            {"clusterNames": names, "namespace": TARGET_NAMESPACE},
            {"clusterSelector": {}, "namespace": TARGET_NAMESPACE},
        ]);
        self.patch_resource("shop", json!({"targets": all})).await;
        sleep(SEES_WITHIN).await;
        if is_there {
            // What all lose at once waits for manual approval.
            let on_revoke = self.pick(&["Keep", "Orphan", "Delete"]);
            let closed = json!({"spec": {"allowedNamespaces": [], "onRevoke": on_revoke}});
            self.world.try_patch("hub", &member_path(member), closed).await;
        }
        self.edit().await;
        sleep(some).await;
        if is_there {
            self.open(member).await;
        }
    }

    async fn allow_all(&self, member: &str) {
        let all = json!({"spec": {"allowedNamespaces": [TEAM, OTHER_TEAM]}});
        self.world.try_patch("hub", &member_path(member), all).await;
    }

    /// Is there a MemberCluster, and not on its way out?
    fn is_member(&self, member: &str) -> bool {
        let object = self.world.object("hub", GROUP, "memberclusters", "", member);
        object.is_some_and(|object| object["metadata"]["deletionTimestamp"].is_null())
    }

    /// A Secret names no member, or one that another Secret registers; or a label is not carried over, for somebody has set it.
    async fn register_wrongly(&mut self, member: &'static str, some: Duration) {
        let mut spare = registration(member, "it");
        spare["metadata"]["name"] = json!(SPARE);
        let path = member_path(member);
        match self.chance.u8(..3) {
            0 => {
                spare["metadata"]["labels"][REGISTRATION_LABEL] = json!("No_Name");
                self.world.try_create("hub", &secrets(HUB_NAMESPACE), spare).await;
            }
            // Whom nobody registers it would register.
            1 if self.is_member(member) => {
                self.world.try_create("hub", &secrets(HUB_NAMESPACE), spare).await;
            }
            _ => {
                let mine = json!({"metadata": {"labels": {LABEL: "mine"}}});
                self.world.try_patch("hub", &path, mine).await;
                let value = self.value();
                self.label_registration(member, json!(value)).await;
            }
        }
        sleep(SEES_WITHIN + some / 4).await;
        self.world.try_delete("hub", &secret(SPARE)).await;
        let none = json!({"metadata": {"labels": {LABEL: null}}});
        self.world.try_patch("hub", &path, none).await;
        self.label_registration(member, Value::Null).await;
    }

    /// A member leaves, and joins again by a registration whose namespaces cannot be read: it allows nobody until somebody says
    /// who may go there.
    async fn join_for_nobody(&mut self, member: &'static str, some: Duration) {
        self.world.observer.cloud(member, some);
        self.world.try_delete("hub", &member_path(member)).await;
        sleep(some).await;
        self.world.try_delete("hub", &secret(member)).await;
        let mut wrong = registration(member, "it");
        wrong["metadata"]["annotations"] = json!({ALLOWED_NAMESPACES: "Team A"});
        self.world.try_create("hub", &secrets(HUB_NAMESPACE), wrong).await;
        sleep(SEES_WITHIN).await;
        let none = json!({"metadata": {"annotations": {ALLOWED_NAMESPACES: null}}});
        self.world.try_patch("hub", &secret(member), none).await;
        self.allow_all(member).await;
    }

    /// The shop's objects go to a namespace that is not there, and for a while nobody makes it.
    async fn lack_a_namespace(&mut self, some: Duration) {
        let elsewhere = json!([{"clusterSelector": {}, "namespace": "elsewhere"}]);
        self.patch_resource("shop", json!({"targets": elsewhere, "createNamespaces": false})).await;
        sleep(some).await;
        self.patch_resource("shop", json!({"createNamespaces": true})).await;
        self.ask_for_a_look().await;
    }

    /// A MemberCluster and its registration are lost while no hub runs, as a restore of a few objects does it. That is no wish.
    async fn lose_a_member(&mut self, member: &'static str, some: Duration) {
        let path = member_path(member);
        self.world.observer.cloud(HUB, some);
        self.world.crash_hub().await;
        self.world.try_patch("hub", &path, json!({"metadata": {"finalizers": null}})).await;
        self.world.try_delete("hub", &path).await;
        self.world.try_delete("hub", &secret(member)).await;
        self.world.start_hub();
        sleep(SEES_WITHIN + some).await;
        self.register(member).await;
    }

    /// An object that somebody made bears a name that is declared, and the label of this hub, or that of another one, from whom
    /// it is to be taken, or none, and would be taken if it were alike. The hub would be faster, so it is down.
    async fn squat_with_marks(&mut self, member: &'static str, some: Duration) {
        let (existing, hub) =
            self.pick(&[("Fail", Some(HUB_ID)), ("Adopt", Some("another")), ("AdoptIfEqual", None)]);
        let name = self.pick(&["a", "b", "s"]);
        self.declare(name).await;
        self.patch_resource("shop", json!({"conflicts": {"existing": existing}})).await;
        self.world.crash_hub().await;
        self.world.try_delete(member, &config_map(name)).await;
        let labels = hub.map_or_else(|| json!({}), |hub| json!({HUB_LABEL: hub}));
        let made = json!({"metadata": {"name": name, "labels": labels}, "data": {"whose": MARKED}});
        if self.world.try_create(member, &config_maps(TARGET_NAMESPACE), made).await {
            self.guard_made(member, TARGET_NAMESPACE, name);
        }
        self.world.start_hub();
        sleep(SEES_WITHIN + some).await;
        if self.chance.bool() {
            self.remove_what_is_marked(member).await;
            self.ask_for_a_look().await;
        }
    }

    async fn remove_what_is_marked(&self, member: &str) {
        for (object, path) in self.all_in(member) {
            if object["data"]["whose"] == MARKED {
                self.world.try_delete(member, &path).await;
            }
        }
    }
}

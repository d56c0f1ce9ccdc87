//! People make mistakes, and put them right a while later, or only in the end: what cannot be read in overrides, rules and
//! sources, kubeconfigs that are none, names that a controller has, objects that cannot be changed, an address that leads to
//! another cluster.

use std::time::Duration;

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use testkit::sim::{
    judge::{changes_in, clouds::HUB},
    vary::BROKEN_EXPRESSIONS,
    world::{HUB_NAMESPACE, TARGET_NAMESPACE, config_map, config_maps, registration},
};
use tokio::time::sleep;

use super::{
    Walk,
    model::place,
    steps::secret,
    wishes::{SOURCES, source_path},
};

/// A path that the CRD lets through, and that has an index which is none.
const UNREADABLE: &str = ".data.key[99999999999]";
/// A path at which nothing is.
const NOWHERE: &str = ".data.nothing";
/// What is no kubeconfig.
const NO_KUBECONFIG: &[u8] = b"a: [b";
/// Another key of a registration than the one that is asked for.
const OTHER_KEY: &str = "elsewhere";
/// It looks packed, and is damaged.
const DAMAGED: &[u8] = &[0x1f, 0x8b, 0xff, 0xfe, 0x00];
/// ConfigMaps that cannot be made again when they cannot be changed.
const PLAIN: [&str; 2] = ["a", "b"];
/// What was on its way when an address was led elsewhere has arrived: nobody can call that back.
const ARRIVES_WITHIN: Duration = Duration::from_millis(50);
/// Another cluster is found out, and that is told, within this: two probes, ten seconds apart and five seconds long, and a
/// status.
const TOLD_WITHIN: Duration = Duration::from_secs(40);
/// Uids of another cluster are none of a member's.
const STRANGER: u64 = 1 << 40;

impl Walk {
    /// One of these, by its number from 0 to 8.
    pub(super) async fn err(&mut self, which: u8, member: &'static str, some: Duration) {
        match which {
            0 => self.override_wrongly(some).await,
            1 => self.ignore_wrongly(UNREADABLE, some).await,
            2 => self.ignore_wrongly(NOWHERE, some).await,
            3 => self.name_a_wrong_source(some).await,
            4 => self.forbid_sources(some).await,
            5 => self.break_a_kubeconfig(member, some).await,
            6 => self.squat_as_a_controller(member, some).await,
            7 => self.make_immutable(member, some).await,
            _ => self.lead_elsewhere(member, some).await,
        }
    }

    /// The mistake is there for a while, and in a third of the tries something else happens. Is it put right then?
    async fn notice_late(&mut self, some: Duration) -> bool {
        if self.chance.u8(..3) == 0 {
            if self.chance.bool() {
                self.edit().await;
            } else {
                let (member, (path, tampered)) = (self.pick_member(), place(self.some_slot()));
                self.world.try_patch(member, &path, tampered).await;
            }
        }
        sleep(some).await;
        self.chance.bool()
    }

    /// What people put right of all this in the end.
    pub(super) async fn put_mistakes_right(&mut self) {
        // Overrides and what sources hold are put right with the wishes.
        self.mend_rules().await;
        self.mend_references().await;
        for &member in self.world.members() {
            self.mend_kubeconfig(member).await;
            self.remove_what_is_controlled(member).await;
            self.remove_what_is_immutable(member).await;
        }
    }

    /// An expression does not compile.
    async fn override_wrongly(&mut self, some: Duration) {
        let expression = self.pick(&BROKEN_EXPRESSIONS);
        let target = json!({"kind": "ConfigMap", "name": "a"});
        let wrong = json!({"target": target, "set": [{"path": ".data.zone", "expression": expression}]});
        let mut all: Vec<_> = self.overrides.iter().map(|(_, entry)| entry.clone()).collect();
        all.push(wrong);
        self.patch_resource("shop", json!({"overrides": all})).await;
        if self.notice_late(some).await {
            self.declare_overrides().await;
        }
    }

    /// A rule more of what is to be ignored, with this path; perhaps with a policy beside it, of which what restrains holds.
    async fn ignore_wrongly(&mut self, path: &str, some: Duration) {
        let name = self.pick(&["shop", "shop", "bank"]);
        let mut rules = self.rules_of(name);
        rules.push(json!({"target": {"kind": "ConfigMap"}, "paths": [path]}));
        let mut drift = json!({"ignore": rules});
        if self.chance.u8(..3) == 0 {
            drift["policy"] = json!(self.pick(&["Report", "Correct"]));
        }
        self.patch_resource(name, json!({"drift": drift})).await;
        if self.notice_late(some).await {
            self.mend_rules().await;
        }
    }

    fn rules_of(&self, name: &str) -> Vec<Value> {
        let spec = self.world.resource(name).unwrap_or_default()["spec"].clone();
        spec["drift"]["ignore"].as_array().cloned().unwrap_or_default()
    }

    /// Takes the wrong rules out; what was there beside them stays.
    async fn mend_rules(&self) {
        let is_wrong = |rule: &Value| [UNREADABLE, NOWHERE].iter().any(|path| rule["paths"][0] == *path);
        for &name in self.names() {
            let mut rules = self.rules_of(name);
            if !rules.iter().any(is_wrong) {
                continue;
            }
            rules.retain(|rule| !is_wrong(rule));
            let ignore = if rules.is_empty() { Value::Null } else { json!(rules) };
            self.patch_resource(name, json!({"drift": {"ignore": ignore}})).await;
        }
    }

    /// A source is damaged, or a key is asked for that it does not have.
    async fn name_a_wrong_source(&mut self, some: Duration) {
        self.read_sources().await;
        sleep(some / 8).await;
        if self.chance.bool() {
            let damaged = json!({"data": {"a.yaml": ByteString(DAMAGED.to_vec())}});
            self.world.try_patch("hub", &source_path(SOURCES[1].0), damaged).await;
        } else {
            let wrong = json!([{"configMapRef": {"name": SOURCES[0].0, "keys": ["b.yaml"]}}]);
            self.patch_resource("shop", json!({"manifestsFrom": wrong})).await;
        }
        if self.notice_late(some).await {
            self.mend_sources().await;
            self.mend_references().await;
        }
    }

    /// The shop asks for no key that is not there.
    async fn mend_references(&mut self) {
        let spec = self.world.resource("shop").unwrap_or_default()["spec"].clone();
        let mut entries = spec["manifestsFrom"].as_array().into_iter().flatten();
        if entries.any(|entry| !entry["configMapRef"]["keys"].is_null()) {
            self.read_sources().await;
        }
    }

    /// Somebody takes from the hub what it may read on its own cluster, while the sources change, and gives it back.
    async fn forbid_sources(&mut self, some: Duration) {
        self.world.observer.cloud(HUB, some);
        self.world.observer.forbid(Some(("hub", "configmaps")));
        self.read_sources().await;
        self.notice_late(some).await;
        self.world.observer.forbid(None);
    }

    /// Somebody writes something else into a registration, or under another key.
    async fn break_a_kubeconfig(&mut self, member: &'static str, some: Duration) {
        self.world.observer.cloud(member, some);
        let text = ByteString(NO_KUBECONFIG.to_vec());
        let data = match self.chance.bool() {
            true => json!({"kubeconfig": text}),
            false => json!({"kubeconfig": null, OTHER_KEY: text}),
        };
        self.world.try_patch("hub", &secret(member), json!({"data": data})).await;
        if self.notice_late(some).await {
            self.mend_kubeconfig(member).await;
        }
    }

    async fn mend_kubeconfig(&self, member: &str) {
        let held = self.world.object("hub", "", "secrets", HUB_NAMESPACE, member);
        let Some(held) = held else { return };
        let kubeconfig = &held["data"]["kubeconfig"];
        if kubeconfig.is_null() || *kubeconfig == json!(ByteString(NO_KUBECONFIG.to_vec())) {
            let mut data = registration(member, "it")["data"].clone();
            data[OTHER_KEY] = Value::Null;
            self.world.try_patch("hub", &secret(member), json!({"data": data})).await;
        }
    }

    /// What a controller of the member has made bears a name that is declared. The hub would be faster, so it is down.
    async fn squat_as_a_controller(&mut self, member: &'static str, some: Duration) {
        let name = self.pick(&["a", "b", "c", "s"]);
        self.change_resource(json!({"conflicts": {"existing": "Adopt"}})).await;
        // Without an owner that is there it would go at once.
        let owner = json!({"metadata": {"name": "owner"}, "data": {"whose": "theirs"}});
        if self.world.try_create(member, &config_maps(TARGET_NAMESPACE), owner).await {
            self.guard_made(member, TARGET_NAMESPACE, "owner");
        }
        let Some(owner) = self.world.object(member, "", "configmaps", TARGET_NAMESPACE, "owner") else {
            return;
        };
        let reference = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
            "controller": true,
        });
        let metadata = json!({"name": name, "ownerReferences": [reference]});
        self.world.crash_hub().await;
        self.world.try_delete(member, &config_map(name)).await;
        let made = json!({"metadata": metadata, "data": {"whose": "theirs"}});
        if self.world.try_create(member, &config_maps(TARGET_NAMESPACE), made).await {
            self.guard_made(member, TARGET_NAMESPACE, name);
        }
        self.world.start_hub();
        if self.notice_late(some).await {
            self.remove_what_is_controlled(member).await;
        }
    }

    async fn remove_what_is_controlled(&self, member: &str) {
        for (object, path) in self.all_in(member) {
            let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            if owners.any(|owner| owner["controller"] == true) {
                self.world.try_delete(member, &path).await;
            }
        }
    }

    /// Somebody lets nobody change what the shop has, and the shop declares it otherwise, or he has changed it himself.
    async fn make_immutable(&mut self, member: &'static str, some: Duration) {
        let slot = self.pick(&PLAIN);
        let mut fixed = json!({"immutable": true});
        if self.chance.u8(..4) == 0 {
            fixed["data"] = json!({"key": "mine"});
        }
        self.world.try_patch(member, &config_map(slot), fixed).await;
        let value = self.value();
        if let Some(known) = self.declared.get_mut("shop").and_then(|shop| shop.get_mut(slot)) {
            *known = value;
            self.declare_the_shop().await;
        }
        if self.notice_late(some).await {
            self.remove_what_is_immutable(member).await;
        }
    }

    async fn remove_what_is_immutable(&self, member: &str) {
        for (object, path) in self.all_in(member) {
            let is_plain = PLAIN.iter().any(|name| object["metadata"]["name"] == *name);
            if is_plain && object["immutable"] == true {
                self.world.try_delete(member, &path).await;
            }
        }
    }

    /// The address of a member leads to another cluster, where the credentials are good too: it gets nothing.
    async fn lead_elsewhere(&mut self, member: &'static str, some: Duration) {
        // One that has yet to join would join as whoever answers.
        let object = self.world.object("hub", vidra_api::GROUP, "memberclusters", "", member);
        let is_known = |object: &Value| {
            object["status"]["uid"].is_string() && object["metadata"]["deletionTimestamp"].is_null()
        };
        if !object.is_some_and(|object| is_known(&object)) {
            return;
        }
        let lasts = TOLD_WITHIN + some;
        self.world.observer.cloud(member, lasts);
        let uids = self.world.shape.seed.wrapping_add(STRANGER);
        let stranger = self.world.lead_elsewhere(member, uids);
        sleep(ARRIVES_WITHIN).await;
        stranger.clear_requests();
        // In either case there is something to write.
        self.notice_late(some).await;
        self.edit().await;
        sleep(TOLD_WITHIN).await;
        let changes = changes_in(&stranger);
        assert!(
            changes.is_empty(),
            "another cluster behind the address of {member} was written to: {changes:?}"
        );
        self.world.observer.judge_contact(member, TOLD_WITHIN);
        self.world.lead_back(member);
    }
}

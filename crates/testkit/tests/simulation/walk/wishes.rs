//! What people ask of the hub beside manifests: how far it may go with what others made, what it keeps, sources,
//! overrides, settings; and what they lose of what it keeps for itself.

use std::time::Duration;

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use testkit::sim::{
    World,
    index::Key,
    judge::clouds::HUB,
    kinds::{DELIVERED, plural_of},
    world::{
        HUB_NAMESPACE, TARGET_NAMESPACE, TEAM, config_map, config_maps, document, hub_path, member_path,
    },
};
use tokio::time::sleep;
use vidra_api::labels::{HUB_LABEL, PRUNE};

use super::Walk;

/// The settings' ConfigMap.
const SETTINGS: &str = "vidra-hub";
/// What cannot be read.
const BROKEN: &str = "a: [b";
/// Names of the two sources, and what each holds.
pub(super) const SOURCES: [(&str, &str); 2] = [("texts", "e"), ("more", "g")];

/// Where an object is.
pub(super) fn path_of(key: &Key) -> String {
    let [_, group, kind, namespace, name] = key;
    let api = match group.is_empty() {
        true => "/api/v1".to_owned(),
        false => format!("/apis/{group}/v1"),
    };
    let within = match namespace.is_empty() {
        true => String::new(),
        false => format!("/namespaces/{namespace}"),
    };
    format!("{api}{within}/{}/{name}", plural_of(kind))
}

fn settings_path() -> String {
    format!("{}/{SETTINGS}", config_maps(HUB_NAMESPACE))
}

/// What differs by cluster, by the slot that it changes.
fn overrides() -> [(&'static str, Value); 5] {
    let of = |name: &str| json!({"kind": "ConfigMap", "name": name});
    let pool = json!({"matchLabels": {"pool": "on"}});
    [
        (
            "a",
            json!({"clusterNames": ["tokyo"], "target": of("a"), "mergePatch": {"data": {"where": "tokyo"}}}),
        ),
        (
            "a",
            json!({"target": of("a"), "set": [{"path": ".data.zone", "expression": "cluster.values['zone']"}]}),
        ),
        (
            "b",
            json!({"clusterSelector": pool, "target": of("b"), "jsonPatch": [{"op": "add", "path": "/data/pool", "value": "on"}]}),
        ),
        (
            "app",
            json!({"clusterSelector": pool, "target": {"kind": "Deployment"}, "mergePatch": {"spec": {"replicas": 3}}}),
        ),
        // It cannot be changed, and is made again.
        (
            "d",
            json!({"target": of("d"), "set": [{"path": ".data.city", "expression": "cluster.labels['city']"}]}),
        ),
    ]
}

impl Walk {
    /// One of these, by its number from 0 to 19.
    pub(super) async fn wish(&mut self, which: u8, member: &'static str, path: &str, some: Duration) {
        match which {
            0 | 1 => {
                let existing = self.pick(&["Fail", "Adopt", "Adopt", "AdoptIfEqual"]);
                self.change_resource(json!({"conflicts": {"existing": existing}})).await;
                if self.chance.bool() {
                    self.squat(member).await;
                }
            }
            2 => {
                let fields = self.pick(&["Fail", "Force"]);
                self.change_resource(json!({"conflicts": {"fields": fields}})).await;
            }
            3 => {
                let kept = json!({"metadata": {"annotations": {PRUNE: "disabled"}}});
                self.world.try_patch(member, path, kept).await;
            }
            4 => {
                let prune = self.chance.bool();
                self.change_resource(json!({"prune": prune})).await;
            }
            5 => self.fill_and_empty(member).await,
            6 => self.declare_nothing().await,
            7 => {
                let namespace = self.pick(&["elsewhere", TARGET_NAMESPACE]);
                let targets = json!([{"clusterSelector": {}, "namespace": namespace}]);
                self.patch_resource("shop", json!({"targets": targets})).await;
            }
            8..=10 => self.change_source().await,
            11 | 12 => self.override_some().await,
            13 | 14 => self.change_member(member).await,
            15 => self.change_settings().await,
            16 => self.look_rarely(member, path, some).await,
            17 => self.erase_statuses(member).await,
            18 => self.erase_inventories(member).await,
            _ => self.reset_fields().await,
        }
    }

    /// What becomes of Namespaces and CRDs; and somebody may put something of their own into one.
    async fn fill_and_empty(&mut self, member: &'static str) {
        let policy = self.pick(&["Retain", "WhenEmpty", "WhenEmpty"]);
        self.change_resource(json!({"namespaceAndCRDDeletion": policy})).await;
        let mine = json!({"metadata": {"name": "mine"}, "data": {"whose": "theirs"}});
        if self.chance.bool() && self.world.try_create(member, &config_maps("own"), mine).await {
            self.guard_made(member, "own", "mine");
        }
    }

    pub(super) fn guard_made(&self, member: &str, namespace: &str, name: &str) {
        if let Some(made) = self.world.object(member, "", "configmaps", namespace, name) {
            self.world.observer.guard(&made);
        }
    }

    /// Whether that is meant or not.
    pub(super) async fn declare_nothing(&mut self) {
        let meant = self.chance.bool();
        if let Some(docs) = self.declared.get_mut("shop") {
            docs.clear();
        }
        self.patch_resource("shop", json!({"manifest": "# nothing", "allowEmpty": meant})).await;
    }

    /// The shop reads more from a ConfigMap and a Secret, or not any more; or what they hold changes, is lost or
    /// cannot be read.
    async fn change_source(&mut self) {
        let (name, slot) = self.pick(&SOURCES);
        let value = self.value();
        match self.chance.u8(..6) {
            0 | 1 => self.read_sources().await,
            2 => self.patch_resource("shop", json!({"manifestsFrom": null})).await,
            3 => self.world.try_delete("hub", &source_path(name)).await,
            4 => self.put_source(name, BROKEN).await,
            _ => self.put_source(name, &document(slot, value)).await,
        }
    }

    pub(super) async fn read_sources(&mut self) {
        self.mend_sources().await;
        let both = json!([{"configMapRef": {"name": SOURCES[0].0}}, {"secretRef": {"name": SOURCES[1].0}}]);
        self.patch_resource("shop", json!({"manifestsFrom": both})).await;
    }

    pub(super) async fn mend_sources(&mut self) {
        for (name, slot) in SOURCES {
            let value = self.value();
            self.put_source(name, &document(slot, value)).await;
        }
    }

    /// Gives another world the sources as they are.
    pub(super) async fn copy_sources(&self, to: &World) {
        for (name, _) in SOURCES {
            let (plural, path) =
                (if name == SOURCES[0].0 { "configmaps" } else { "secrets" }, source_path(name));
            let (collection, _) = path.rsplit_once('/').unwrap_or_default();
            if let Some(source) = self.world.object("hub", "", plural, TEAM, name) {
                let made = json!({"metadata": {"name": name}, "data": source["data"]});
                to.try_create("hub", collection, made).await;
            }
        }
    }

    async fn put_source(&self, name: &str, text: &str) {
        let data = match name == SOURCES[0].0 {
            true => json!({"data": {"a.yaml": text}}),
            false => json!({"data": {"a.yaml": ByteString(text.as_bytes().to_vec())}}),
        };
        let mut made = data.clone();
        made["metadata"] = json!({"name": name});
        let path = source_path(name);
        let (collection, _) = path.rsplit_once('/').unwrap_or_default();
        if !self.world.try_create("hub", collection, made).await {
            self.world.try_patch("hub", &path, data).await;
        }
    }

    async fn override_some(&mut self) {
        let mut some = overrides().to_vec();
        some.retain(|_| self.chance.u8(..3) == 0);
        self.overrides = some;
        self.declare_overrides().await;
    }

    pub(super) async fn declare_overrides(&self) {
        let all: Vec<_> = self.overrides.iter().map(|(_, entry)| entry).collect();
        self.patch_resource("shop", json!({"overrides": all})).await;
    }

    async fn change_member(&mut self, member: &'static str) {
        let pool = self.pick(&[Some("on"), None]);
        let (city, zone) =
            (self.pick(&[Some("here"), Some("there"), None]), self.pick(&[Some("one"), Some("two"), None]));
        let change = match self.chance.u8(..3) {
            0 => json!({"metadata": {"labels": {"pool": pool}}}),
            1 => json!({"metadata": {"labels": {"city": city}}}),
            _ => json!({"spec": {"values": {"zone": zone}}}),
        };
        self.world.try_patch("hub", &member_path(member), change).await;
    }

    async fn change_settings(&mut self) {
        let all = [
            json!({"interval": "30s"}),
            json!({"interval": "soon", "retry.max": "x", "removalGuard": "many", "reconcileOnEvents": "maybe"}),
            json!({"retry.base": "1s", "retry.max": "20s"}),
            json!({"retry.enabled": "false", "requeueResourcesAfter": "60s"}),
            json!({"clusterConcurrency": "1", "apply.timeout": "5s"}),
            json!({"removalGuard": "0", "nonsense": "yes"}),
            json!({"removalGuard": "100", "pruneDelay": "0s"}),
            json!({"verifyInterval": "1m", "interval": "20s"}),
        ];
        let which = self.chance.usize(..all.len());
        self.put_settings(all[which].clone()).await;
    }

    pub(super) async fn put_settings(&self, data: Value) {
        self.drop_settings().await;
        let settings = json!({"metadata": {"name": SETTINGS}, "data": data});
        self.world.try_create("hub", &config_maps(HUB_NAMESPACE), settings).await;
    }

    pub(super) async fn drop_settings(&self) {
        self.world.try_delete("hub", &settings_path()).await;
    }

    /// For a while the hub looks on its interval only.
    async fn look_rarely(&mut self, member: &'static str, path: &str, some: Duration) {
        self.world.observer.cloud(HUB, some * 2);
        self.put_settings(json!({"eventBasedReconcile": "false", "interval": "10s"})).await;
        sleep(some).await;
        self.world.try_delete(member, path).await;
        sleep(some).await;
        self.drop_settings().await;
    }

    async fn erase_statuses(&mut self, member: &str) {
        let nothing = json!({"status": null});
        for path in ["vidraresources/shop".to_owned(), format!("vidratargets/shop.{member}")] {
            let path = format!("{}/status", hub_path(&path));
            self.world.try_patch("hub", &path, nothing.clone()).await;
        }
    }

    pub(super) async fn erase_inventories(&mut self, member: &str) {
        self.world.observer.excuse_unknown(member);
        self.restored = true;
        let all = self.chance.bool();
        let inventories = self.world.clusters.hub.objects(vidra_api::GROUP, "vidrainventories");
        for inventory in inventories.iter().filter(|one| one["metadata"]["namespace"] == TEAM) {
            let name = inventory["metadata"]["name"].as_str().unwrap_or_default();
            if name.starts_with(&format!("shop.{member}.")) && (all || self.chance.bool()) {
                let path = format!("{}/{name}", hub_path("vidrainventories"));
                self.world.try_patch("hub", &path, json!({"metadata": {"finalizers": null}})).await;
                self.world.try_delete("hub", &path).await;
            }
        }
        self.note_unproved(member);
    }

    /// As a restore tool does it, with all that the hub has delivered.
    async fn reset_fields(&mut self) {
        for &member in self.world.members() {
            for (object, path) in self.all_in(member) {
                if !object["metadata"]["labels"][HUB_LABEL].is_null() {
                    let reset = json!({"metadata": {"managedFields": [{}]}});
                    self.world.try_patch(member, &path, reset).await;
                }
            }
            self.note_unproved(member);
        }
    }

    /// What a member has of the kinds that are delivered, each with its path.
    pub(super) fn all_in(&self, member: &str) -> Vec<(Value, String)> {
        let mut all = Vec::new();
        for (group, plural, kind, _) in DELIVERED {
            for object in self.world.cluster(member).objects(group, plural) {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                let key = [member, group, kind, text("namespace"), text("name")].map(str::to_owned);
                all.push((object, path_of(&key)));
            }
        }
        all
    }

    /// What people put right of all this in the end.
    pub(super) async fn put_wishes_right(&mut self) {
        self.mend_sources().await;
        self.drop_settings().await;
        // One that changes nothing is complained about.
        let shop = self.declared.entry("shop").or_default();
        if shop.is_empty() {
            shop.insert("a", "one");
        }
        let shop = shop.clone();
        self.overrides.retain(|(slot, _)| shop.contains_key(slot));
        self.patch_resource("shop", json!({"manifest": super::model::manifest(&shop)})).await;
        self.declare_overrides().await;
        for name in self.names() {
            let usual = json!({"conflicts": {"fields": "Force"}, "prune": true, "reconcile": null});
            self.patch_resource(name, usual).await;
        }
    }

    /// What overrides use of a member that has none of it, which may have come again.
    pub(super) async fn describe_members(&self) {
        for &member in self.world.members() {
            let object =
                self.world.object("hub", vidra_api::GROUP, "memberclusters", "", member).unwrap_or_default();
            if object["metadata"]["labels"]["city"].is_null() || object["spec"]["values"]["zone"].is_null() {
                let all =
                    json!({"metadata": {"labels": {"city": member}}, "spec": {"values": {"zone": "one"}}});
                self.world.try_patch("hub", &member_path(member), all).await;
            }
        }
    }

    /// Somebody takes a name that the hub wants, perhaps with just what it wants there. The hub would be faster, so
    /// it is down.
    pub(super) async fn squat(&mut self, member: &'static str) {
        let name = self.pick(&["a", "b", "c", "d", "s", "keep", "once", "absent"]);
        let mut body = json!({"metadata": {"name": name}, "data": {"whose": "theirs"}});
        if let Some(value) = self.declared["shop"].get(name).filter(|_| self.chance.bool()) {
            body["data"]["key"] = json!(value);
        }
        self.world.crash_hub().await;
        self.world.try_delete(member, &config_map(name)).await;
        if self.world.try_create(member, &config_maps(TARGET_NAMESPACE), body).await {
            self.guard_made(member, TARGET_NAMESPACE, name);
        }
        self.world.start_hub();
    }
}

/// Where a source is on the hub.
pub(super) fn source_path(name: &str) -> String {
    let kind = if name == SOURCES[0].0 { "configmaps" } else { "secrets" };
    format!("/api/v1/namespaces/{TEAM}/{kind}/{name}")
}

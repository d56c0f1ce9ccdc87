//! A fresh world as oracle: what people declare in the end, delivered into a world in which nothing has happened yet, must
//! come to what the walk has come to. What an earlier declaration left behind shows here, and only here.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::{Value, json};
use testkit::sim::{
    Shape, World,
    judge::clouds::HUB,
    kinds::DELIVERED,
    observer::{HUB_ID, OTHER_ID},
    run,
    sparing::yielded,
    state::{State, differences},
    world::{TARGET_NAMESPACE, TEAM, hub_path, hub_path_in, member_path, named, place_of},
};
use tokio::time::sleep;
use vidra_api::{
    labels::{HUB_LABEL, OWNER_PREFIX},
    names::{HubId, OwnerHash},
};

use super::{
    Plan, Walk,
    hubs::THEIRS,
    model::{manifest, place},
    rig::{self, RIG, run_well},
    teams::{NOBODY, found},
    workloads::{Fate, run_workloads},
};
use crate::scenarios::ready;

/// Where the shop's objects go for a while.
const ELSEWHERE: &str = "elsewhere";
/// All is delivered within this.
const DELIVERS_WITHIN: Duration = Duration::from_secs(120);
/// Walks that are compared: each that this divides.
const EVERY: u64 = 10;
/// What stays as it was by the wish of its annotation, and what comes from somebody else where there is one.
const KEPT: [&str; 3] = ["keep", "once", "absent"];

impl Walk {
    /// Compares what the walk has come to with what a fresh world does.
    pub(super) async fn differs_from_fresh(&self) -> Result<(), String> {
        // What is ignored was written where an object was made, and is not where one was taken over.
        let ignores = |name: &&str| {
            self.world.resource(name).is_some_and(|one| !one["spec"]["drift"]["ignore"].is_null())
        };
        if !self.world.shape.seed.is_multiple_of(EVERY) || self.declared.keys().any(ignores) {
            return Ok(());
        }
        let shape = Shape { latency: false, lease: false, ..self.world.shape };
        let fresh = World::new(shape).await;
        fresh.start_hub();
        for &member in fresh.members() {
            let is_there = || fresh.object("hub", vidra_api::GROUP, "memberclusters", "", member).is_some();
            fresh.until("a member has joined", DELIVERS_WITHIN, is_there).await;
            let of =
                self.world.object("hub", vidra_api::GROUP, "memberclusters", "", member).unwrap_or_default();
            let labels = of["metadata"]["labels"].clone();
            let same = json!({"metadata": {"labels": labels}, "spec": {"values": of["spec"]["values"]}});
            fresh.try_patch("hub", &member_path(member), same).await;
        }
        self.copy_sources(&fresh).await;
        if self.others {
            found(&fresh).await;
        }
        if self.declared.contains_key(RIG) {
            rig::found(&fresh).await;
        }
        for name in self.declared.keys() {
            let spec = self.world.resource(name).unwrap_or_default()["spec"].clone();
            let mut made = testkit::sim::world::resource(name, "");
            made["spec"] = spec;
            fresh.create("hub", &hub_path_in(place_of(name).0, "vidraresources"), made).await;
        }
        if !self.is_delivered(&fresh).await {
            let statuses =
                self.declared.keys().map(|name| fresh.resource(name).unwrap_or_default()["status"].clone());
            return Err(format!("a fresh world does not come to rest: {:?}", statuses.collect::<Vec<_>>()));
        }
        fresh.settle().await;
        fresh.end_hub().await;
        let (mut wanted, mut found) = (fresh.state(), self.world.state());
        self.leave_out_yielded(&mut wanted, &mut found);
        self.leave_out_returned(&wanted, &mut found);
        self.leave_out_unproved(&wanted, &mut found);
        let wrong = differences(&owned(&wanted), &owned(&found));
        if wrong.is_empty() { Ok(()) } else { Err(format!("not as in a fresh world:\n{wrong}")) }
    }

    /// Somebody runs the workloads until all that is declared is delivered in this world; whether that is so in time.
    async fn is_delivered(&self, world: &World) -> bool {
        let began = tokio::time::Instant::now();
        while !self.declared.keys().all(|name| ready(world, name)) {
            if began.elapsed() > DELIVERS_WITHIN {
                return false;
            }
            run_workloads(world, || Some(Fate::Well)).await;
            run_well(world).await;
            sleep(Duration::from_secs(1)).await;
        }
        true
    }

    /// Takes replicas that are left to an autoscaler, which the hub need not own, out of both: nobody scales in a fresh world.
    fn leave_out_yielded(&self, wanted: &mut State, found: &mut State) {
        for name in self.declared.keys() {
            let spec = self.world.resource(name).unwrap_or_default()["spec"].clone();
            for (key, live) in found.iter_mut().filter(|(_, live)| !yielded(&spec, live).is_empty()) {
                for object in wanted.get_mut(key).into_iter().chain([live]) {
                    let entries = object["metadata"]["managedFields"].as_array_mut().into_iter().flatten();
                    for entry in entries.filter(|entry| entry["manager"] == manager(name).as_str()) {
                        let fields = entry.pointer_mut("/fieldsV1/f:spec").and_then(Value::as_object_mut);
                        fields.map(|fields| fields.remove("f:replicas"));
                    }
                }
            }
        }
    }

    /// Takes off what a restore of the member has brought back of a VidraResource that is not to have it: that is for people to
    /// remove. From an object that nobody is to have it takes nothing that tells of it.
    fn leave_out_returned(&self, wanted: &State, found: &mut State) {
        for (key, name) in &self.returned {
            let is_to_have = |object: &Value| appliers(object).contains(name);
            let Some(object) = found.get_mut(key).filter(|_| !wanted.get(key).is_some_and(is_to_have)) else {
                continue;
            };
            if let Some(entries) = object["metadata"]["managedFields"].as_array_mut() {
                entries.retain(|entry| entry["manager"] != manager(name).as_str());
            }
            take_marks(object, name);
        }
    }

    /// Takes off marks that nothing proves, of a VidraResource that has not applied the object again and is not to have it.
    /// Those that somebody has put on objects of his own are in a fresh world too.
    fn leave_out_unproved(&self, wanted: &State, found: &mut State) {
        for (key, name) in &self.unproved {
            let has = |object: &Value| {
                appliers(object).contains(name) || !object["metadata"]["labels"][mark(name)].is_null()
            };
            if let Some(object) = found.get_mut(key).filter(|object| !appliers(object).contains(name))
                && !wanted.get(key).is_some_and(has)
            {
                take_marks(object, name);
            }
        }
    }

    /// Somebody has reset managedFields in a member, or taken inventories of it away: which objects bear the marks of a
    /// VidraResource now of which they have no entry, and in whose inventory their uids are not?
    pub(super) fn note_unproved(&mut self, member: &str) {
        let inventories = self.world.cluster(HUB).objects(vidra_api::GROUP, "vidrainventories");
        let knows = |name: &str, uid: &str| {
            let (namespace, resource) = place_of(name);
            let is_its = |one: &&Value| {
                let called = one["metadata"]["name"].as_str().unwrap_or_default();
                one["metadata"]["namespace"] == namespace
                    && called.starts_with(&format!("{resource}.{member}."))
            };
            inventories.iter().filter(is_its).any(|one| one["spec"]["entries"].to_string().contains(uid))
        };
        for (group, plural, ..) in DELIVERED {
            for object in self.world.cluster(member).objects(group, plural) {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                let key = format!("{member}/{plural}/{}/{}", text("namespace"), text("name"));
                for name in self.declared.keys() {
                    let is_marked = !object["metadata"]["labels"][mark(name)].is_null();
                    let has_entry = appliers(&object).iter().any(|by| by == name);
                    if is_marked && !has_entry && !knows(name, text("uid")) {
                        self.unproved.insert((key.clone(), (*name).to_owned()));
                    }
                }
            }
        }
    }

    /// A member was restored, and had these before: what it has again of VidraResources that do not declare it was removed
    /// since the backup, and no inventory knows it.
    pub(super) fn note_returned(&mut self, member: &str, had: &BTreeSet<(String, String)>) {
        let mut has = applied(&self.world, member);
        has.retain(|of| {
            let (key, name) = of;
            let mut parts = key.rsplit('/');
            let (object, namespace) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let declares = self.declared.get(name.as_str()).is_some_and(|docs| docs.contains_key(object));
            !(had.contains(of) || declares && self.goes_to(name, namespace))
        });
        self.returned.append(&mut has);
    }

    /// May what a VidraResource declares be in this namespace? Not in one of these where it is for another one.
    fn goes_to(&self, name: &str, namespace: &str) -> bool {
        let spec = self.world.resource(name).unwrap_or_default()["spec"].clone();
        let mut entries = spec["targets"].as_array().into_iter().flatten();
        ![TARGET_NAMESPACE, ELSEWHERE].contains(&namespace)
            || entries.any(|entry| entry["namespace"] == namespace)
    }
}

/// What a member has, by its key in a state, and a VidraResource that has applied it.
pub(super) fn applied(world: &World, member: &str) -> BTreeSet<(String, String)> {
    let (state, within) = (world.state(), format!("{member}/"));
    let objects = state.iter().filter(|(key, _)| key.starts_with(&within));
    let mut all = BTreeSet::new();
    for (key, object) in objects {
        all.extend(appliers(object).into_iter().map(|name| (key.clone(), name)));
    }
    all
}

/// The VidraResources that have applied it.
fn appliers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let managers = entries.filter_map(|entry| entry["manager"].as_str());
    let places = managers
        .filter_map(|by| by.strip_prefix("vidra/")?.strip_prefix(HUB_ID)?.strip_prefix('/')?.split_once('/'));
    places.map(|(namespace, name)| named(namespace, name)).collect()
}

/// The label and the annotation of a VidraResource.
fn mark(name: &str) -> String {
    let (namespace, name) = place_of(name);
    mark_of(HUB_ID, namespace, name)
}

fn mark_of(hub: &str, namespace: &str, name: &str) -> String {
    let hub = HubId::try_from(hub).expect("a hub id");
    OwnerHash::new(&hub, namespace, name).label_key()
}

/// Takes the label and the annotation of a VidraResource off an object.
fn take_marks(object: &mut Value, name: &str) {
    for field in ["labels", "annotations"] {
        let marks = object["metadata"][field].as_object_mut();
        marks.map(|marks| marks.remove(&mark(name)));
    }
}

/// The field manager of a VidraResource.
fn manager(name: &str) -> String {
    let (namespace, name) = place_of(name);
    format!("vidra/{HUB_ID}/{namespace}/{name}")
}

/// What of members' objects is the hub's: who of its VidraResources owns which fields, and what it has put beside them.
fn owned(state: &State) -> State {
    let delivered = state.iter().filter(|(key, object)| {
        let name = key.rsplit('/').next().unwrap_or_default();
        let is_ours = object["metadata"]["labels"][HUB_LABEL] == HUB_ID;
        is_ours && !key.contains("/namespaces/") && !KEPT.contains(&name)
    });
    // What somebody has taken the other hub's label off bears the rest of its marks, also when it was taken over.
    let (ours, theirs) = (format!("vidra/{HUB_ID}/"), mark_of(OTHER_ID, TEAM, THEIRS));
    let of = |object: &Value| {
        let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
        let is_ours = |by: &str| by.starts_with(&ours) && !by.starts_with(NOBODY);
        let ours = entries.filter(|entry| entry["manager"].as_str().is_some_and(is_ours));
        let mut fields: Vec<_> =
            ours.map(|entry| json!([entry["manager"], entry["operation"], entry["fieldsV1"]])).collect();
        // Where somebody took the hub's label off what two have, it is of the one that put it back until the other applies.
        if fields.len() > 1 {
            fields
                .iter_mut()
                .for_each(|entry| entry[2]["f:metadata"]["f:labels"]["f:vidra.dev/hub"] = json!({}));
        }
        let marks = |field: &str| -> BTreeMap<String, Value> {
            let all = object["metadata"][field].as_object().into_iter().flatten();
            let ours = all.filter(|(key, _)| key.starts_with(OWNER_PREFIX) && **key != theirs);
            ours.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        json!({"fields": fields, "labels": marks("labels"), "annotations": marks("annotations")})
    };
    delivered.map(|(key, object)| (key.clone(), of(object))).collect()
}

/// It has taken the replicas from the hub, which owns them in a fresh world.
#[test]
fn replicas_that_are_left_to_an_autoscaler_are_no_difference_and_a_persons_are() {
    let plan = Plan { seed: 0, steps: Vec::new() };
    run(plan.seed, || async {
        let mut walk = Walk::new(&plan, false).await;
        walk.declared.entry("shop").or_default().insert("app", "one");
        let text = manifest(&walk.declared["shop"]);
        walk.patch_resource("shop", json!({"manifest": text})).await;
        assert!(walk.is_delivered(&walk.world).await);
        let scale = format!("{}/scale", place("app").0);
        let to = |replicas: u8| json!({"spec": {"replicas": replicas}});
        walk.world.try_patch_as("kube-controller-manager", "tokyo", &scale, to(4)).await;
        walk.world.settle().await;
        assert!(walk.is_delivered(&walk.world).await);
        walk.world.settle().await;
        assert_eq!(walk.differs_from_fresh().await, Ok(()));
        walk.world.end_hub().await;
        walk.world.try_patch_as("alice", "tokyo", &scale, to(5)).await;
        let wrong = walk.differs_from_fresh().await.unwrap_err();
        assert!(wrong.contains("f:replicas"), "{wrong}");
    });
}

/// The hub had taken them off, and its inventory is gone: nobody but people can.
#[test]
fn marks_that_a_restore_has_brought_back_are_no_difference_and_those_that_stayed_are() {
    let plan = Plan { seed: 0, steps: Vec::new() };
    run(plan.seed, || async {
        let mut walk = Walk::new(&plan, false).await;
        assert!(walk.is_delivered(&walk.world).await);
        walk.world.settle().await;
        // The first only makes the backup.
        walk.restore("tokyo").await;
        walk.declared.remove("bank");
        walk.world.try_delete("hub", &format!("{}/bank", hub_path("vidraresources"))).await;
        let is_gone = || walk.world.resource("bank").is_none();
        walk.world.until("the bank has gone", DELIVERS_WITHIN, is_gone).await;
        walk.restore("tokyo").await;
        // People find it by its label.
        walk.world.try_delete("tokyo", &place("c").0).await;
        walk.world.settle().await;
        assert_eq!(walk.differs_from_fresh().await, Ok(()));
        walk.returned.clear();
        let wrong = walk.differs_from_fresh().await.unwrap_err();
        assert!(wrong.contains("/configmaps/shop/s .labels"), "{wrong}");
    });
}

/// It had left them, for what it declares goes elsewhere: by its name alone that is still declared.
#[test]
fn marks_that_a_restore_has_brought_back_where_nothing_goes_any_more_are_no_difference() {
    let plan = Plan { seed: 0, steps: Vec::new() };
    run(plan.seed, || async {
        let mut walk = Walk::new(&plan, false).await;
        assert!(walk.is_delivered(&walk.world).await);
        walk.restore("tokyo").await;
        let targets = json!([{"clusterSelector": {}, "namespace": ELSEWHERE}]);
        walk.patch_resource("shop", json!({"targets": targets})).await;
        walk.world.settle().await;
        walk.restore("tokyo").await;
        let has = |namespace: &str| {
            walk.returned.contains(&(format!("tokyo/configmaps/{namespace}/s"), "shop".to_owned()))
        };
        assert!(has(TARGET_NAMESPACE) && !has(ELSEWHERE), "{:?}", walk.returned);
        walk.world.end_hub().await;
    });
}

/// Its inventory is gone, and with the managedFields what it could be found by: another VidraResource has its own back.
#[test]
fn marks_that_nothing_proves_are_no_difference_and_those_that_an_inventory_knows_are() {
    let plan = Plan { seed: 0, steps: Vec::new() };
    run(plan.seed, || async {
        let mut walk = Walk::new(&plan, false).await;
        assert!(walk.is_delivered(&walk.world).await);
        walk.patch_resource("shop", json!({"suspend": true})).await;
        walk.world.settle().await;
        let reset = json!({"metadata": {"managedFields": [{}]}});
        walk.world.try_patch("tokyo", &place("s").0, reset).await;
        walk.note_unproved("tokyo");
        assert!(walk.unproved.is_empty(), "the inventories know it");
        let all = walk.world.cluster(HUB).objects(vidra_api::GROUP, "vidrainventories");
        for name in all.iter().filter_map(|one| one["metadata"]["name"].as_str()) {
            if name.starts_with("shop.tokyo.") {
                let path = hub_path(&format!("vidrainventories/{name}"));
                walk.world.try_patch("hub", &path, json!({"metadata": {"finalizers": null}})).await;
                walk.world.try_delete("hub", &path).await;
            }
        }
        walk.note_unproved("tokyo");
        walk.declared.get_mut("shop").expect("it is declared").remove("s");
        let text = manifest(&walk.declared["shop"]);
        walk.patch_resource("shop", json!({"suspend": false, "manifest": text})).await;
        walk.world.settle().await;
        assert!(walk.is_delivered(&walk.world).await);
        assert_eq!(walk.differs_from_fresh().await, Ok(()));
        walk.unproved.clear();
        let wrong = walk.differs_from_fresh().await.unwrap_err();
        assert!(wrong.contains("/configmaps/shop/s .labels"), "{wrong}");
    });
}

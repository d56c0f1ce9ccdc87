//! A fresh world as oracle: what people declare in the end, delivered into a world in which nothing has happened yet, must
//! come to what the walk has come to. What an earlier declaration left behind shows here, and only here.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use testkit::sim::{
    Shape, World,
    observer::HUB_ID,
    state::{State, differences},
    world::{hub_path, member_path},
};
use tokio::time::sleep;
use vidra_api::labels::{HUB_LABEL, OWNER_PREFIX};

use super::{Walk, steps::run_deployments};
use crate::scenarios::ready;

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
        for name in self.declared.keys() {
            let spec = self.world.resource(name).unwrap_or_default()["spec"].clone();
            let mut made = testkit::sim::world::resource(name, "");
            made["spec"] = spec;
            fresh.create("hub", &hub_path("vidraresources"), made).await;
        }
        let began = tokio::time::Instant::now();
        while !self.declared.keys().all(|name| ready(&fresh, name)) {
            run_deployments(&fresh, || Some(true)).await;
            sleep(Duration::from_secs(1)).await;
            if began.elapsed() > DELIVERS_WITHIN {
                let statuses = self
                    .declared
                    .keys()
                    .map(|name| fresh.resource(name).unwrap_or_default()["status"].clone());
                return Err(format!(
                    "a fresh world does not come to rest: {:?}",
                    statuses.collect::<Vec<_>>()
                ));
            }
        }
        fresh.settle().await;
        fresh.end_hub().await;
        let wrong = differences(&owned(&fresh.state()), &owned(&self.world.state()));
        if wrong.is_empty() { Ok(()) } else { Err(format!("not as in a fresh world:\n{wrong}")) }
    }
}

/// What of members' objects is the hub's: who of its VidraResources owns which fields, and what it has put beside them.
fn owned(state: &State) -> State {
    let delivered = state.iter().filter(|(key, object)| {
        let name = key.rsplit('/').next().unwrap_or_default();
        let is_ours = object["metadata"]["labels"][HUB_LABEL] == HUB_ID;
        is_ours && !key.contains("/namespaces/") && !KEPT.contains(&name)
    });
    let of = |object: &Value| {
        let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
        let ours =
            entries.filter(|entry| entry["manager"].as_str().is_some_and(|by| by.starts_with("vidra/")));
        let fields: Vec<_> =
            ours.map(|entry| json!([entry["manager"], entry["operation"], entry["fieldsV1"]])).collect();
        let marks = |field: &str| -> BTreeMap<String, Value> {
            let all = object["metadata"][field].as_object().into_iter().flatten();
            let ours = all.filter(|(key, _)| key.starts_with(OWNER_PREFIX));
            ours.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        json!({"fields": fields, "labels": marks("labels"), "annotations": marks("annotations")})
    };
    delivered.map(|(key, object)| (key.clone(), of(object))).collect()
}

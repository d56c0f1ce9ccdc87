//! What the hub does, shown on a bed: each scenario is a sentence about a hub and its members.
//!
//! All share one bed and take turns; each has fresh names and a hub of its own. On the real bed these are
//! kube-apiservers and kube-controller-managers, started once for this process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a scenario fails by panicking")]

mod conformance;
mod counts;
mod credentials;
mod deletion;
mod delivery;
mod drift;
mod foreign;
mod identity;
mod labels;
mod others;
mod outages;
mod partial;
mod removal;
mod shared;
mod terminating;

use serde_json::{Value, json};
use testkit::world::{World, real};

/// A scenario's turn, with a hub that runs and knows no member.
async fn world() -> World {
    World::start(real()).await
}

/// The manifest of a ConfigMap.
fn config_map(name: &str, value: &str) -> String {
    object(&config_map_in("", name, value))
}

/// A ConfigMap.
fn config_map_in(namespace: &str, name: &str, value: &str) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value},
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

/// One document of a manifest.
fn object(object: &Value) -> String {
    format!("---\n{object}\n")
}

/// What a ConfigMap of [`config_map`] says.
fn says<'a>(value: &'a str) -> impl Fn(&Value) -> bool + 'a {
    move |object| object["data"]["key"] == value
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().expect("a live object has a uid").to_owned()
}

/// Its marks of any hub: labels, annotations, managers.
fn marks(object: &Value) -> Vec<String> {
    let metadata = &object["metadata"];
    let keys = ["labels", "annotations"].into_iter().flat_map(|field| metadata[field].as_object()).flatten();
    let keys = keys.map(|(key, _)| key.clone()).filter(|key| key.contains("vidra.dev/"));
    let entries = metadata["managedFields"].as_array().into_iter().flatten();
    let managers =
        entries.filter_map(|entry| entry["manager"].as_str()).filter(|name| name.starts_with("vidra"));
    keys.chain(managers.map(str::to_owned)).collect()
}

//! What people wish beside manifests, and change: overrides and what they use of members, sources that are secret,
//! settings, what is kept, and what is taken over late; and what they erase of what the hub writes.

use std::time::Duration;

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use testkit::sim::{
    Moment, Scenario, World,
    judge::clouds::HUB,
    world::{
        HUB_NAMESPACE, MEMBERS, TARGET_NAMESPACE, TEAM, config_map, config_maps, document, hub_path,
        member_path, resource, secrets,
    },
};
use vidra_api::labels::PRUNE;

use crate::scenarios::{has, manifest, ready, shop};

/// Each is run with a crash at every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A member's labels change, by which overrides select it and of which they make values.
    Relabel,
    /// A value that an override uses is taken away, and another is given.
    Revalue,
    /// The Secret that holds a manifest changes.
    SecretSource,
    /// Settings change while the hub is down: it looks on its interval only, and at last at once again.
    Settings,
    /// Somebody's object is in the way, and then it may be taken over.
    AdoptLater,
    /// All statuses are erased.
    EraseStatuses,
    /// A restore tool resets the managedFields of all that was delivered.
    ResetAll,
    /// Somebody annotates a live object, so that it is kept.
    KeepLive,
    /// A document is dropped, and nothing is to be pruned.
    Unpruned,
}

pub const ALL: [Wish; 9] = [
    Wish::Relabel,
    Wish::Revalue,
    Wish::SecretSource,
    Wish::Settings,
    Wish::AdoptLater,
    Wish::EraseStatuses,
    Wish::ResetAll,
    Wish::KeepLive,
    Wish::Unpruned,
];

const SOON: Duration = Duration::from_secs(90);

fn secret(text: &str) -> Value {
    json!({"metadata": {"name": "more"}, "data": {"a.yaml": ByteString(text.as_bytes().to_vec())}})
}

async fn value(world: &World, member: &str, zone: Option<&str>) {
    world.patch("hub", &member_path(member), json!({"spec": {"values": {"zone": zone}}})).await;
}

impl Scenario for Wish {
    fn name(&self) -> String {
        format!("{self:?}").to_lowercase()
    }

    fn moment(&self) -> Moment {
        Moment::BeforeAct
    }

    async fn prepare(&self, world: &World) {
        let mut shop = resource("shop", &manifest("one", "one"));
        let of = |name: &str| json!({"kind": "ConfigMap", "name": name});
        match self {
            Wish::Relabel => {
                shop["spec"]["overrides"] = json!([
                    {"clusterSelector": {"matchLabels": {"pool": "on"}}, "target": of("b"),
                        "mergePatch": {"data": {"pool": "on"}}},
                    {"target": of("a"), "set": [{"path": ".data.city", "expression": "cluster.labels['city']"}]},
                ]);
            }
            Wish::Revalue => {
                let set = json!([{"path": ".data.zone", "expression": "cluster.values['zone']"}]);
                shop["spec"]["overrides"] = json!([{"target": of("a"), "set": set}]);
            }
            Wish::SecretSource => {
                world.create("hub", &secrets(TEAM), secret(&manifest("one", "one"))).await;
                shop["spec"]["manifest"] = document("c", "one").into();
                shop["spec"]["manifestsFrom"] = json!([{"secretRef": {"name": "more"}}]);
            }
            Wish::AdoptLater => world.plant("berlin", TARGET_NAMESPACE, "b", json!({})).await,
            Wish::Unpruned => shop["spec"]["prune"] = json!(false),
            _ => {}
        }
        world.create("hub", &hub_path("vidraresources"), shop).await;
    }

    async fn act(&self, world: &World) {
        match self {
            Wish::Relabel => {
                let labels = json!({"metadata": {"labels": {"pool": "on", "city": "kyoto"}}});
                world.patch("hub", &member_path("tokyo"), labels).await;
            }
            Wish::Revalue => {
                for member in MEMBERS {
                    value(world, member, Some("one")).await;
                }
                world.until("it is delivered", SOON, || ready(world, "shop")).await;
                value(world, "tokyo", None).await;
                let reason = || world.reason("shop", "tokyo");
                world.until("it is missed", SOON, || reason() == "OverrideFailed").await;
                assert_eq!(world.data("tokyo", "a"), Some(json!({"key": "one", "zone": "one"})));
                value(world, "tokyo", Some("two")).await;
            }
            Wish::SecretSource => {
                let path = format!("{}/more", secrets(TEAM));
                world.patch("hub", &path, secret(&manifest("two", "one"))).await;
            }
            Wish::Settings => {
                world.end_hub().await;
                world.observer.cloud(HUB, SOON);
                let data = json!({"interval": "20s", "reconcileOnEvents": "false"});
                let settings = json!({"metadata": {"name": "vidra-hub"}, "data": data});
                world.create("hub", &config_maps(HUB_NAMESPACE), settings).await;
                world.start_hub();
                tokio::time::sleep(Duration::from_secs(5)).await;
                let tampered = || world.data("tokyo", "a") == Some(json!({"key": "mine"}));
                world.patch("tokyo", &config_map("a"), json!({"data": {"key": "mine"}})).await;
                world.until("the interval undoes it", SOON, || !tampered()).await;
                world.delete("hub", &format!("{}/vidra-hub", config_maps(HUB_NAMESPACE))).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
                world.patch("tokyo", &config_map("a"), json!({"data": {"key": "mine"}})).await;
                world.until("an event undoes it", Duration::from_secs(10), || !tampered()).await;
            }
            Wish::AdoptLater => {
                world.patch("hub", &shop(), json!({"spec": {"conflicts": {"existing": "Adopt"}}})).await;
            }
            Wish::EraseStatuses => {
                for path in ["vidraresources/shop", "vidratargets/shop.berlin", "vidratargets/shop.tokyo"] {
                    let path = format!("{}/status", hub_path(path));
                    world.patch("hub", &path, json!({"status": null})).await;
                }
            }
            Wish::ResetAll => {
                for member in MEMBERS {
                    for name in ["a", "b"] {
                        let reset = json!({"metadata": {"managedFields": [{}]}});
                        world.patch(member, &config_map(name), reset).await;
                    }
                }
            }
            Wish::KeepLive => {
                let kept = json!({"metadata": {"annotations": {PRUNE: "disabled"}}});
                world.patch("tokyo", &config_map("b"), kept).await;
                world.patch("hub", &shop(), json!({"spec": {"manifest": document("a", "one")}})).await;
            }
            Wish::Unpruned => {
                world.patch("hub", &shop(), json!({"spec": {"manifest": document("a", "two")}})).await;
            }
        }
    }

    fn check(&self, world: &World) {
        let status = world.resource("shop").unwrap_or_default()["status"].clone();
        assert!(ready(world, "shop"), "{status}");
        for member in MEMBERS {
            let is = |name: &str, data: Value| {
                assert_eq!(world.data(member, name), Some(data), "{name} on {member}")
            };
            match self {
                Wish::Relabel if member == "tokyo" => {
                    is("a", json!({"key": "one", "city": "kyoto"}));
                    is("b", json!({"key": "one", "pool": "on"}));
                }
                Wish::Relabel => {
                    is("a", json!({"key": "one", "city": "berlin"}));
                    is("b", json!({"key": "one"}));
                }
                Wish::Revalue => {
                    is("a", json!({"key": "one", "zone": if member == "tokyo" { "two" } else { "one" }}));
                }
                Wish::SecretSource => has(world, member, "a", "two"),
                Wish::AdoptLater if member == "berlin" => is("b", json!({"key": "one", "whose": "alice"})),
                Wish::KeepLive if member == "tokyo" => {
                    let kept =
                        world.object(member, "", "configmaps", TARGET_NAMESPACE, "b").expect("it stays");
                    assert_eq!(kept["metadata"]["annotations"], json!({PRUNE: "disabled"}), "{kept}");
                    assert!(
                        kept["metadata"]["labels"].as_object().is_none_or(|all| all.is_empty()),
                        "{kept}"
                    );
                }
                Wish::KeepLive => assert_eq!(world.data(member, "b"), None),
                Wish::Unpruned => {
                    has(world, member, "a", "two");
                    has(world, member, "b", "one");
                }
                _ => {
                    has(world, member, "a", "one");
                    has(world, member, "b", "one");
                }
            }
        }
    }
}

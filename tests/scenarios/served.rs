//! What a member serves changes while objects of it are delivered: kinds go, come back, and change their version.

use serde_json::{Value, json};
use testkit::world::{Access, At, LONG, World, wait_for};
use vidra_api::{DriftState, TargetState, VidraTargetStatus};

use crate::{object, scenario, uid};

fn group(world: &World) -> String {
    format!("{}.example.com", world.ns)
}

pub fn crd_at(world: &World) -> At {
    let name = format!("gadgets.{}", group(world));
    At::new("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", &name)
}

/// A definition that serves these versions; the last is stored.
fn crd(world: &World, versions: &[&str]) -> Value {
    let group = group(world);
    let version = |name: &&str| {
        json!({"name": name, "served": true, "storage": Some(name) == versions.last(),
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"size": {"type": "integer"}}}}})
    };
    let all: Vec<Value> = versions.iter().map(version).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"}, "versions": all},
    })
}

pub fn gadget(world: &World, version: &str, size: u32) -> String {
    gadget_named(world, version, "one", size)
}

fn gadget_named(world: &World, version: &str, name: &str, size: u32) -> String {
    let api_version = format!("{}/{version}", group(world));
    object(&json!({"apiVersion": api_version, "kind": "Gadget", "metadata": {"name": name}, "size": size}))
}

pub fn gadget_at(world: &World, version: &str) -> At {
    At::new(&format!("{}/{version}", group(world)), "Gadget", &world.ns, "one")
}

pub async fn install(world: &World, alice: &Access, versions: &[&str]) {
    alice.apply(&crd(world, versions), true).await.expect("the CRD is taken");
    for version in versions {
        let of_kind = gadget_at(world, version);
        wait_for("the kind is served", LONG, async || {
            alice.try_list(&of_kind).await.map_err(|refused| refused.to_string())
        })
        .await;
    }
}

#[test]
fn a_kind_that_goes_and_comes_back_is_delivered_again_without_a_restart() {
    scenario(async |world| {
        let alice = world.alice("berlin").await;
        install(&world, &alice, &["v1"]).await;
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &gadget(&world, "v1", 7)).await;
        world.ready("shop").await;
        let at = gadget_at(&world, "v1");
        let before = alice.live(&at).await;

        alice.delete(&crd_at(&world)).await;
        alice.gone(&crd_at(&world)).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "KindUnknown").await;
        assert!(message.contains("Gadget") && message.contains("install its CRD"), "{message}");
        let unknown = |status: &VidraTargetStatus| status.drift == Some(DriftState::Unknown);
        world.target_when("shop", "berlin", "nobody knows how it is", unknown).await;

        install(&world, &alice, &["v1"]).await;
        world.ready("shop").await;
        let after = alice.live(&at).await;
        assert_ne!(uid(&after), uid(&before));
        // It is watched again.
        alice.merge(&at, json!({"size": 8})).await;
        alice.when(&at, "as declared", |live| live["size"] == 7).await;
        world.remove("shop").await;
        alice.gone(&at).await;
        alice.delete(&crd_at(&world)).await;
        world.end().await;
    });
}

#[test]
fn a_version_that_is_not_served_any_more_is_said_and_the_next_one_keeps_the_object() {
    scenario(async |world| {
        let alice = world.alice("berlin").await;
        install(&world, &alice, &["v1alpha1", "v1"]).await;
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &gadget(&world, "v1alpha1", 7)).await;
        world.ready("shop").await;
        let before = alice.live(&gadget_at(&world, "v1")).await;
        let mark = world.mark();

        install(&world, &alice, &["v1"]).await;
        // What notices it is the next thing that asks for it.
        world.look("shop", "now", 1).await;
        let at = gadget_at(&world, "v1");
        alice.merge(&at, json!({"size": 8})).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "KindUnknown").await;
        assert!(message.contains("v1alpha1"), "{message}");

        world.deliver("shop", &["berlin"], &gadget(&world, "v1", 9)).await;
        world.ready("shop").await;
        let after = alice.live(&at).await;
        assert_eq!((uid(&after), after["size"].as_i64()), (uid(&before), Some(9)));
        let deletes: Vec<_> =
            world.writes("berlin", &mark).into_iter().filter(|one| one.verb == "delete").collect();
        assert_eq!(deletes, []);
        alice.merge(&at, json!({"size": 8})).await;
        alice.when(&at, "as declared", |live| live["size"] == 9).await;
        world.remove("shop").await;
        alice.delete(&crd_at(&world)).await;
        world.end().await;
    });
}

#[test]
fn what_is_declared_in_one_version_stays_in_sight_when_nobody_declares_the_kind_in_another_any_more() {
    scenario(async |world| {
        let alice = world.alice("berlin").await;
        install(&world, &alice, &["v1alpha1", "v1"]).await;
        world.register(&["berlin"]).await;
        world.deliver("stays", &["berlin"], &gadget(&world, "v1", 7)).await;
        world.deliver("moves", &["berlin"], &gadget_named(&world, "v1alpha1", "two", 7)).await;
        for name in ["stays", "moves"] {
            world.ready(name).await;
            world.recorded(name, &["berlin"]).await;
        }
        let (at, mark) = (gadget_at(&world, "v1"), world.mark());

        // From now on nobody follows the older version.
        world.deliver("moves", &["berlin"], &gadget_named(&world, "v1", "two", 7)).await;
        world.ready("moves").await;
        world.look("stays", "now", 1).await;
        for name in ["stays", "moves"] {
            let status = world.target(name, "berlin").await.unwrap().status.unwrap();
            assert_eq!((status.drifted, status.corrections), (0, None), "{name}: {:?}", status.changes);
        }
        assert_eq!(world.requests_for(&at, "berlin", &mark), []);

        alice.merge(&at, json!({"size": 8})).await;
        alice.when(&at, "as declared", |live| live["size"] == 7).await;
        world.corrected("stays", "berlin", 1).await;
        assert_eq!(world.requests_for(&at, "berlin", &mark).len(), 1, "the repair alone");
        for name in ["stays", "moves"] {
            world.remove(name).await;
        }
        alice.delete(&crd_at(&world)).await;
        world.end().await;
    });
}

#[test]
fn a_default_that_a_definition_gets_later_is_no_drift_and_costs_no_write() {
    scenario(async |mut world| {
        let alice = world.alice("berlin").await;
        install(&world, &alice, &["v1"]).await;
        world.register(&["berlin"]).await;
        let served = crd(&world, &["v1"]);
        let define = async |properties: Value| {
            let mut definition = served.clone();
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = properties;
            alice.apply(&definition, true).await.expect("the CRD is taken");
        };
        let properties = |default: Option<(u32, u32, &str)>| {
            let mut all = json!({"size": {"type": "integer"}, "speed": {"type": "integer"},
                "limits": {"type": "object", "properties": {"colour": {"type": "string"}}}});
            if let Some((size, speed, colour)) = default {
                all["size"]["default"] = size.into();
                all["speed"]["default"] = speed.into();
                all["limits"]["properties"]["colour"]["default"] = colour.into();
            }
            all
        };
        define(properties(None)).await;
        // What it owns: a value, and something empty into which a default will come.
        let declared = json!({"apiVersion": format!("{}/v1", group(&world)), "kind": "Gadget",
            "metadata": {"name": "one"}, "size": 7, "limits": {}});
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": {"interval": "1s"}});
        world.deliver_with("shop", &object(&declared), spec).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        world.counted(&["berlin"]).await;

        let (at, mark) = (gadget_at(&world, "v1"), world.mark());
        for (turn, defaults) in [(3, 5, "red"), (4, 6, "green")].into_iter().enumerate() {
            define(properties(Some(defaults))).await;
            // A server may show it at once, or from the next write on.
            alice.merge(&at, json!({"metadata": {"annotations": {"turn": turn.to_string()}}})).await;
            alice.when(&at, "the default is there", |live| !live["speed"].is_null()).await;
            world.after_passes(2).await;
            if turn == 1 {
                world.restart_hub().await;
            }
            world.look("shop", &format!("turn {turn}"), 1).await;
            world.after_passes(2).await;
            let live = alice.live(&at).await;
            assert!(live["size"] == 7 && live["limits"]["colour"].is_string(), "{live}");
            let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
            assert_eq!((status.drifted, status.corrections), (0, None), "{:?}", status.changes);
        }
        assert_eq!(world.writes("berlin", &mark), []);
        assert_eq!(world.requests_for(&at, "berlin", &mark), []);
        world.remove("shop").await;
        alice.delete(&crd_at(&world)).await;
        world.end().await;
    });
}

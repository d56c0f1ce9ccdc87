//! Namespaces and CustomResourceDefinitions: kept, or deleted when nothing is in them.

use serde_json::{Value, json};
use testkit::world::{Access, At, World};
use vidra_api::TargetState;

use crate::{config_map_in, marks, object, scenario, uid};

fn spec() -> Value {
    json!({"targets": [{"clusterNames": ["berlin"]}], "namespaceAndCRDDeletion": "WhenEmpty"})
}

/// The same, where the Namespace is there already.
fn adopting() -> Value {
    let mut spec = spec();
    spec["conflicts"] = json!({"existing": "Adopt"});
    spec
}

/// A Namespace with a ConfigMap in it.
fn manifest(name: &str) -> String {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    object(&namespace) + &object(&config_map_in(name, "settings", "one"))
}

/// That, delivered.
async fn with_namespace(world: &World, name: &str) -> (Access, At) {
    world.register(&["berlin"]).await;
    world.deliver_with("shop", &manifest(name), spec()).await;
    world.ready("shop").await;
    (world.alice("berlin").await, At::new("v1", "Namespace", "", name))
}

#[test]
fn a_declared_namespace_goes_when_nothing_is_left_in_it() {
    scenario(async |world| {
        let name = format!("{}-own", world.ns);
        let (alice, namespace) = with_namespace(&world, &name).await;
        world.remove("shop").await;
        alice.gone(&namespace).await;
        world.end().await;
    });
}

#[test]
fn a_declared_namespace_stays_by_the_word_that_holds_when_it_would_go() {
    scenario(async |world| {
        let name = format!("{}-own", world.ns);
        let (alice, namespace) = with_namespace(&world, &name).await;
        let shop = world.resource_at("shop");
        world.hub.merge(&shop, json!({"spec": {"suspend": true}})).await;
        world.target_is("shop", "berlin", TargetState::Suspended, "Suspended").await;
        world.hub.merge(&shop, json!({"spec": {"namespaceAndCRDDeletion": "Retain"}})).await;
        world.remove("shop").await;
        alice.gone(&At::config_map(&name, "settings")).await;
        assert!(alice.live(&namespace).await["metadata"]["deletionTimestamp"].is_null());

        // And while all goes already.
        world.deliver_with("shop", &manifest(&name), adopting()).await;
        world.ready("shop").await;
        let settings = At::config_map(&name, "settings");
        alice.merge(&settings, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
        world.hub.delete(&shop).await;
        world.target_is("shop", "berlin", TargetState::Terminating, "Removing").await;
        world.hub.merge(&shop, json!({"spec": {"namespaceAndCRDDeletion": "Retain"}})).await;
        let retains = |target: &Value| target["spec"]["namespaceAndCRDDeletion"] == "Retain";
        let target = At::new("vidra.dev/v1alpha1", "VidraTarget", &world.ns, "shop.berlin");
        world.hub.when(&target, "Retain", retains).await;
        alice.merge(&settings, json!({"metadata": {"finalizers": null}})).await;
        world.removed("shop").await;
        alice.gone(&settings).await;
        assert!(alice.live(&namespace).await["metadata"]["deletionTimestamp"].is_null());
        alice.delete(&namespace).await;
        world.end().await;
    });
}

#[test]
fn a_declared_namespace_stays_with_what_others_have_in_it() {
    scenario(async |world| {
        let name = format!("{}-own", world.ns);
        let (alice, namespace) = with_namespace(&world, &name).await;
        let foreign = alice
            .create(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": {"name": "alices", "namespace": name}, "rules": []}))
            .await;
        world.remove("shop").await;
        alice.gone(&At::config_map(&name, "settings")).await;
        let left = alice.live(&namespace).await;
        assert!(marks(&left).is_empty() && left["metadata"]["deletionTimestamp"].is_null(), "{left}");
        assert_eq!(alice.live(&At::of(&foreign)).await, foreign);
        world.end().await;
        alice.delete(&namespace).await;
    });
}

/// What an object of the cluster owns does not go with the namespace.
#[test]
fn a_declared_namespace_stays_with_what_an_object_of_the_cluster_owns() {
    scenario(async |world| {
        let name = format!("{}-own", world.ns);
        let (alice, namespace) = with_namespace(&world, &name).await;
        let owner = alice
            .create(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": name}, "rules": []}))
            .await;
        let mut owned = config_map_in(&name, "owned", "alice's");
        owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole", "name": name, "uid": uid(&owner)}]);
        let owned = alice.create(owned).await;
        world.remove("shop").await;
        let left = alice.live(&namespace).await;
        assert!(marks(&left).is_empty() && left["metadata"]["deletionTimestamp"].is_null(), "{left}");
        assert_eq!(alice.live(&At::of(&owned)).await, owned);
        world.end().await;
        alice.delete(&namespace).await;
        alice.delete(&At::of(&owner)).await;
    });
}

#[test]
fn a_namespace_waits_for_what_is_going_and_is_kept_when_it_leaves_the_manifest_without_that_wish() {
    scenario(async |world| {
        let name = format!("{}-own", world.ns);
        let (alice, namespace) = with_namespace(&world, &name).await;
        let mut held = config_map_in(&name, "held", "alice's");
        held["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let held = At::of(&alice.create(held).await);
        alice.delete(&held).await;
        world.hub.delete(&world.resource_at("shop")).await;
        let message = world.target_is("shop", "berlin", TargetState::Terminating, "Removing").await;
        assert!(message.contains(&name), "{message}");
        assert!(alice.live(&namespace).await["metadata"]["deletionTimestamp"].is_null());
        alice.merge(&held, json!({"metadata": {"finalizers": null}})).await;
        world.removed("shop").await;
        alice.gone(&namespace).await;

        let again =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("{name}-2")}});
        let beside = object(&config_map_in("", "beside", "one"));
        world.deliver("keeps", &["berlin"], &(object(&again) + &beside)).await;
        world.ready("keeps").await;
        world.deliver("keeps", &["berlin"], &beside).await;
        let left = alice.when(&At::of(&again), "let go", |live| marks(live).is_empty()).await;
        assert!(left["metadata"]["deletionTimestamp"].is_null());
        world.ready("keeps").await;
        world.end().await;
        alice.delete(&At::of(&again)).await;
    });
}

fn crd(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("books.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "Book", "plural": "books"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    })
}

#[test]
fn a_declared_kind_goes_when_no_object_of_it_is_left_anywhere() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let group = format!("{}.example.com", world.ns);
        let book = |name: &str| json!({"apiVersion": format!("{group}/v1"), "kind": "Book", "metadata": {"name": name}});
        let manifest = object(&crd(&group)) + &object(&book("one"));
        world.deliver_with("shop", &manifest, spec()).await;
        world.ready("shop").await;
        let (kind, namespace) = (At::of(&crd(&group)), world.ns.clone());
        let mut foreign = book("alices");
        foreign["metadata"]["namespace"] = "default".into();
        let foreign = alice.create(foreign).await;
        world.remove("shop").await;
        alice.gone(&At::new(&format!("{group}/v1"), "Book", &namespace, "one")).await;
        let left = alice.live(&kind).await;
        assert!(marks(&left).is_empty() && left["metadata"]["deletionTimestamp"].is_null(), "{left}");

        alice.delete(&At::of(&foreign)).await;
        let adopting = json!({"targets": [{"clusterNames": ["berlin"]}], "namespaceAndCRDDeletion": "WhenEmpty",
            "conflicts": {"existing": "Adopt"}});
        world.deliver_with("shop", &manifest, adopting).await;
        world.ready("shop").await;
        world.remove("shop").await;
        alice.gone(&kind).await;
        world.end().await;
    });
}

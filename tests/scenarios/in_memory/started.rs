//! Members whose API servers have just started: they answer before they know what they serve, and what they do not
//! know yet is not gone. Only in memory does that last as long as a scenario wants.

use std::time::Duration;

use memkube::Startup;
use serde_json::{Value, json};
use testkit::world::{Access, At, World};
use vidra_api::TargetState;

use super::scenario;
use crate::{config_map_in, deletion::lose, gadget, gadgets, object};

fn group(world: &World) -> String {
    format!("{}.example.com", world.ns)
}

fn gadget_at(world: &World, namespace: &str, name: &str) -> At {
    At::new(&format!("{}/v1", group(world)), "Gadget", namespace, name)
}

/// Berlin, with the CRD of gadgets, which is alice's.
async fn with_gadgets(world: &World) -> (Access, At) {
    world.register(&["berlin"]).await;
    let alice = world.alice("berlin").await;
    let crd = alice.create(gadgets(&group(world))).await;
    (alice, At::of(&crd))
}

/// The VidraResource is deleted while berlin is out of reach, and berlin's server starts then; until it is ready.
async fn removed_meanwhile(world: &World) {
    let frozen = world.freeze("berlin");
    world.hub.delete(&world.resource_at("shop")).await;
    world.target_is("shop", "berlin", TargetState::Terminating, "MemberUnreachable").await;
    let crds = Duration::from_secs(5);
    let startup = Startup { crds, health: crds, ..Startup::default() };
    world.bed().memory("berlin").expect("this bed is in memory").restart(startup);
    drop(frozen);
    world.member_says("berlin", "Reachable", "True").await;
    tokio::time::sleep(2 * crds).await;
}

#[test]
fn custom_resources_that_a_starting_server_does_not_serve_yet_are_not_taken_for_gone() {
    scenario(async |world| {
        let (alice, crd) = with_gadgets(&world).await;
        world.deliver("shop", &["berlin"], &gadget(&group(&world), "one")).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        removed_meanwhile(&world).await;
        world.removed("shop").await;
        let left = alice.get(&gadget_at(&world, &world.ns, "one")).await;
        assert_eq!(left, None, "the hub says that all is removed");
        alice.delete(&crd).await;
        world.end().await;
    });
}

#[test]
fn a_namespace_is_not_empty_because_a_starting_server_does_not_serve_yet_what_is_in_it() {
    scenario(async |world| {
        let (alice, crd) = with_gadgets(&world).await;
        let name = format!("{}-own", world.ns);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let manifest = object(&namespace) + &object(&config_map_in(&name, "settings", "one"));
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "namespaceAndCRDDeletion": "WhenEmpty"});
        world.deliver_with("shop", &manifest, spec).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let mut theirs: Value = json!({"apiVersion": format!("{}/v1", group(&world)), "kind": "Gadget"});
        theirs["metadata"] = json!({"name": "alices", "namespace": name});
        let theirs = alice.create(theirs).await;
        removed_meanwhile(&world).await;
        let left = alice.get(&gadget_at(&world, &name, "alices")).await;
        assert_eq!(left, Some(theirs), "alice's object went with the namespace");
        world.removed("shop").await;
        let namespace = alice.live(&At::of(&namespace)).await;
        assert!(namespace["metadata"]["deletionTimestamp"].is_null(), "{namespace}");
        world.end().await;
        alice.delete(&At::of(&namespace)).await;
        alice.delete(&crd).await;
    });
}

#[test]
fn an_inventory_is_not_found_again_on_a_server_that_does_not_serve_yet_what_stood_in_it() {
    scenario(async |mut world| {
        let (alice, crd) = with_gadgets(&world).await;
        world.deliver("shop", &["berlin"], &gadget(&group(&world), "one")).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        world.stop_hub().await;
        lose(&world, "VidraInventory").await;
        world.hub.delete(&world.resource_at("shop")).await;
        let crds = Duration::from_secs(5);
        let startup = Startup { crds, health: crds, ..Startup::default() };
        world.bed().memory("berlin").expect("this bed is in memory").restart(startup);
        world.start_hub().await;
        world.removed("shop").await;
        let left = alice.get(&gadget_at(&world, &world.ns, "one")).await;
        assert_eq!(left, None, "the hub says that all is removed");
        alice.delete(&crd).await;
        world.end().await;
    });
}

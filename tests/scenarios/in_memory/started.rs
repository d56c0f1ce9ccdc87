//! Members whose API servers have just started: they answer before they know what they serve, and what they do not
//! know yet is not gone; nor is what a group serves that does not answer for a while. Only in memory does that last as
//! long as a scenario wants.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Cluster, Fault, Startup, Verb};
use serde_json::{Value, json};
use testkit::world::{Access, At, World};
use tokio_util::task::TaskTracker;
use vidra_api::{TargetState, VidraTargetStatus};

use super::{memory, scenario};
use crate::{config_map, config_map_in, deletion::lose, gadget, gadgets, marks, object, settings::set};

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
    memory(world, "berlin").restart(startup);
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

/// Delivers a Namespace of this name with an object in it, to be deleted when it is empty.
pub(super) async fn with_namespace(world: &World, name: &str) -> Value {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let manifest = object(&namespace) + &object(&config_map_in(name, "settings", "one"));
    let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "namespaceAndCRDDeletion": "WhenEmpty"});
    world.deliver_with("shop", &manifest, spec).await;
    world.ready("shop").await;
    world.recorded("shop", &["berlin"]).await;
    namespace
}

#[test]
fn a_namespace_is_not_empty_because_a_starting_server_does_not_serve_yet_what_is_in_it() {
    scenario(async |world| {
        let (alice, crd) = with_gadgets(&world).await;
        let name = format!("{}-own", world.ns);
        let namespace = with_namespace(&world, &name).await;
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
fn a_namespace_is_not_let_go_for_an_api_group_that_does_not_answer_for_a_while() {
    scenario(async |world| {
        let (alice, crd) = with_gadgets(&world).await;
        let namespace = with_namespace(&world, &format!("{}-own", world.ns)).await;

        let (berlin, group) = (memory(&world, "berlin"), group(&world));
        berlin.set_group_available(&group, false);
        world.hub.delete(&world.resource_at("shop")).await;
        let told = |status: &VidraTargetStatus| {
            status.message.as_ref().is_some_and(|message| message.contains(&group))
        };
        world.target_when("shop", "berlin", "the group is named", told).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let left = alice.live(&At::of(&namespace)).await;
        assert!(!marks(&left).is_empty() && left["metadata"]["deletionTimestamp"].is_null(), "{left}");

        berlin.set_group_available(&group, true);
        // It is tried again after five minutes at most.
        tokio::time::sleep(Duration::from_secs(330)).await;
        world.removed("shop").await;
        alice.gone(&At::of(&namespace)).await;
        alice.delete(&crd).await;
        world.end().await;
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
        memory(&world, "berlin").restart(startup);
        world.start_hub().await;
        world.removed("shop").await;
        let left = alice.get(&gadget_at(&world, &world.ns, "one")).await;
        assert_eq!(left, None, "the hub says that all is removed");
        alice.delete(&crd).await;
        world.end().await;
    });
}

fn answer_lists_of_config_maps(hub: &Cluster, fault: Fault) {
    hub.set_fault(Arc::new(move |call: &Call| {
        match call.verb == Verb::List && call.resource == "configmaps" {
            true => fault.clone(),
            false => Fault::None,
        }
    }));
}

#[test]
fn a_hub_that_cannot_read_its_settings_for_a_moment_waits_for_them_before_it_delivers() {
    scenario(async |mut world| {
        let hub = memory(&world, "hub");
        world.register(&["berlin"]).await;
        set(&world, json!({"defaultAllowedNamespaces": "others"})).await;
        world.stop_hub().await;
        let mark = world.mark();
        let everywhere = json!({"targets": [{"clusterSelector": {}}]});
        world.deliver_with("shop", &config_map("settings", "one"), everywhere).await;
        // As an API server that does not know yet who may do what, and then is in trouble.
        answer_lists_of_config_maps(&hub, Fault::Status(403, "Forbidden"));
        let server = hub.clone();
        TaskTracker::new().spawn(async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            answer_lists_of_config_maps(&server, Fault::Status(500, "InternalError"));
            tokio::time::sleep(Duration::from_secs(10)).await;
            server.clear_fault();
        });
        world.start_hub().await;
        world.resource_says("shop", "Ready", "False", "NoTargets").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(world.target("shop", "berlin").await.is_none());
        assert_eq!(world.writes("berlin", &mark), []);
        world.end().await;
    });
}

#[test]
fn a_registration_namespace_that_cannot_be_listed_for_a_moment_is_waited_for_at_a_start() {
    scenario(async |mut world| {
        let (hub, team) = (memory(&world, "hub"), world.namespace_beside().await);
        world.give_registration_rights(&team).await;
        set(&world, json!({"registrationNamespaces": team})).await;
        world.register(&["berlin"]).await;
        // Its registration moves to the team: made there first, as a person would.
        let mut secret = world.hub.live(&world.registration("berlin")).await;
        secret["metadata"] =
            json!({"name": "berlin", "namespace": team, "labels": secret["metadata"]["labels"]});
        world.hub.create(secret).await;
        let reference = json!({"spec": {"kubeconfigSecretRef": {"namespace": team, "name": "berlin"}}});
        world.hub.merge(&world.member_at("berlin"), reference).await;
        world.hub.delete(&world.registration("berlin")).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.stop_hub().await;
        let within = team.clone();
        hub.set_fault(Arc::new(move |call: &Call| {
            match call.verb == Verb::List && call.resource == "secrets" && call.namespace == within {
                true => Fault::Status(403, "Forbidden"),
                false => Fault::None,
            }
        }));
        let (server, mark) = (hub.clone(), world.mark());
        TaskTracker::new().spawn(async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            server.clear_fault();
        });
        world.start_hub().await;
        world.look("shop", "after the start", 1).await;
        assert_eq!(
            world.writes_to(&world.member_at("berlin"), "hub", &mark),
            [],
            "it never lacked credentials"
        );
        assert_eq!(world.writes_to(&world.resource_at("shop"), "hub", &mark).len(), 1, "the look alone");
        world.end().await;
    });
}

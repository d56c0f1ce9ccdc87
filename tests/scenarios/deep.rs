//! VidraResources that are nested deeper than most readers read, as API servers take them, some 10,000 levels: such a
//! one is at fault alone, and no other VidraResource hears of it.
//!
//! They are sent and read as text: this side's readers stop at 128 levels too.

use http::{Method, Request};
use serde_json::{Value, json};
use testkit::world::{At, LONG, SOON, World, wait_for};

use crate::{config_map, gadgets, object, says, scenario};

/// One request about VidraResource `deep`, and its answer as text; `None`: it is not there.
async fn send(world: &World, method: Method, body: String) -> Option<String> {
    let path =
        format!("/apis/vidra.dev/v1alpha1/namespaces/{}/vidraresources/deep?fieldManager=kubectl", world.ns);
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/merge-patch+json").body(body.into_bytes());
    match world.hub.client.request_text(request.expect("a well-formed request")).await {
        Ok(text) => Some(text),
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        Err(error) => panic!("VidraResource deep: {error}"),
    }
}

/// A text that means this value with an array of so many levels in place of the word `deep`.
fn nested(value: &Value, levels: usize) -> String {
    value.to_string().replace("\"deep!\"", &format!("{}{}", "[".repeat(levels), "]".repeat(levels)))
}

/// The spec of a VidraResource is changed so; then the others are delivered and repaired as ever, before and after a
/// restart, and what it had delivered stays, is repaired, and goes with it.
fn harms_nobody(change: Value, levels: usize, reason: &str) {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let own = crate::config_map_in("", "own", "one");
        let deep = json!({
            "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource", "metadata": {"name": "deep"},
            "spec": {"targets": [{"clusterNames": ["berlin"]}], "manifests": [own]},
        });
        world.apply_yaml(&deep.to_string()).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("deep").await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let (own, settings) = (At::config_map(&world.ns, "own"), At::config_map(&world.ns, "settings"));

        send(&world, Method::PATCH, nested(&json!({ "spec": change }), levels)).await.expect("it is there");
        for life in ["the same", "the next"] {
            if life == "the next" {
                world.stop_hub().await;
                let started = tokio::time::timeout(LONG, world.start_hub()).await;
                assert!(started.is_ok(), "a hub that is started does not come to know its objects");
            }
            world.deliver("shop", &["berlin"], &config_map("settings", life)).await;
            alice.when(&settings, "delivered", says(life)).await;
            world.ready("shop").await;
            for (at, value) in [(&settings, life), (&own, "one")] {
                alice.merge(at, json!({"data": {"key": "evil"}})).await;
                alice.when(at, "repaired", says(value)).await;
            }
        }
        wait_for("the deep one is told that it is", SOON, async || {
            let text = send(&world, Method::GET, String::new()).await.expect("it is there");
            let told = text.contains(reason);
            if told { Ok(()) } else { Err(text[..text.len().min(2000)].to_owned()) }
        })
        .await;

        send(&world, Method::DELETE, String::new()).await;
        wait_for("the deep one is gone", LONG, async || {
            match send(&world, Method::GET, String::new()).await {
                None => Ok(()),
                Some(text) => Err(text[..text.len().min(2000)].to_owned()),
            }
        })
        .await;
        alice.gone(&own).await;
        world.end().await;
    });
}

/// A manifest that nobody can deliver.
fn manifests() -> Value {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}, "data": {"key": "deep!"}});
    json!({ "manifests": [object] })
}

#[test]
fn manifests_of_200_levels_harm_no_other_resource() {
    harms_nobody(manifests(), 200, "ManifestInvalid");
}

#[test]
fn manifests_of_9000_levels_harm_no_other_resource() {
    harms_nobody(manifests(), 9000, "ManifestInvalid");
}

#[test]
fn a_merge_patch_of_200_levels_harms_no_other_resource() {
    let patch = json!({"data": {"key": "deep!"}});
    harms_nobody(
        json!({"overrides": [{"target": {"kind": "ConfigMap"}, "mergePatch": patch}]}),
        200,
        "OverridesInvalid",
    );
}

#[test]
fn a_json_patch_of_200_levels_harms_no_other_resource() {
    let patch = json!([{"op": "replace", "path": "/data/key", "value": "deep!"}]);
    harms_nobody(
        json!({"overrides": [{"target": {"kind": "ConfigMap"}, "jsonPatch": patch}]}),
        200,
        "OverridesInvalid",
    );
}

/// Somebody makes an object in berlin that bears these labels, and whose managedFields are nested too deep for most
/// readers.
async fn make_deep(world: &World, group: &str, namespace: &str, labels: &Value) -> String {
    let alice = world.alice("berlin").await;
    let gadget = json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget",
        "metadata": {"name": "deep", "labels": labels}, "spec": "deep!"});
    let deep = format!("{}1{}", "{\"a\":".repeat(300), "}".repeat(300));
    let path = format!("/apis/{group}/v1/namespaces/{namespace}/gadgets");
    let request =
        Request::post(format!("{path}?fieldManager=alice-edit")).header("content-type", "application/json");
    let request = request.body(gadget.to_string().replace("\"deep!\"", &deep).into_bytes()).unwrap();
    alice.client.request_text(request).await.expect("it is made");
    format!("{path}/deep")
}

/// Whether it is there, which this side's readers could not tell.
async fn is_there(world: &World, path: &str) -> bool {
    let request = Request::get(path).body(Vec::new()).unwrap();
    world.alice("berlin").await.client.request_text(request).await.is_ok()
}

/// A CRD of gadgets in berlin that is nobody's.
async fn make_kind(world: &World, group: &str) -> At {
    let alice = world.alice("berlin").await;
    let kind = gadgets(group);
    alice.create(kind.clone()).await;
    let served = At::new(&format!("{group}/v1"), "Gadget", &world.ns, "");
    wait_for("the kind is served", LONG, async || {
        alice.try_list(&served).await.map_err(|error| format!("{error:?}"))
    })
    .await;
    At::of(&kind)
}

/// All inventories are lost, while no hub runs.
async fn lose_inventories(world: &World) {
    for inventory in world.hub.list(&At::new("vidra.dev/v1alpha1", "VidraInventory", &world.ns, "")).await {
        let at = At::of(&inventory);
        world.hub.merge(&at, json!({"metadata": {"finalizers": null}})).await;
        world.hub.delete(&at).await;
        world.hub.gone(&at).await;
    }
}

#[test]
fn a_deep_object_that_claims_to_be_ours_does_not_keep_a_lost_inventory_from_being_found_again() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        world
            .deliver("shop", &["berlin"], &(config_map("kept", "one") + &config_map("dropped", "one")))
            .await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let group = format!("{}.example.com", world.ns);
        let kind = make_kind(&world, &group).await;
        let labels = alice.live(&At::config_map(&world.ns, "kept")).await["metadata"]["labels"].clone();
        let deep = make_deep(&world, &group, &world.ns, &labels).await;

        world.stop_hub().await;
        lose_inventories(&world).await;
        world.deliver("shop", &["berlin"], &config_map("kept", "one")).await;
        world.start_hub().await;
        alice.gone(&At::config_map(&world.ns, "dropped")).await;
        world.ready("shop").await;

        world.stop_hub().await;
        lose_inventories(&world).await;
        world.start_hub().await;
        world.remove("shop").await;
        alice.gone(&At::config_map(&world.ns, "kept")).await;
        assert!(is_there(&world, &deep).await, "what others made is not ours for its labels");
        alice.delete(&kind).await;
        world.end().await;
    });
}

#[test]
fn a_namespace_with_a_deep_object_in_it_is_not_empty() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let own = format!("{}-own", world.ns);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own}});
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "namespaceAndCRDDeletion": "WhenEmpty"});
        world.deliver_with("shop", &object(&namespace), spec).await;
        world.ready("shop").await;
        let group = format!("{}.example.com", world.ns);
        let kind = make_kind(&world, &group).await;
        let deep = make_deep(&world, &group, &own, &json!({})).await;

        world.remove("shop").await;
        assert!(is_there(&world, &deep).await, "it was deleted with its namespace");
        let alice = world.alice("berlin").await;
        alice.delete(&kind).await;
        alice.delete(&At::new("v1", "Namespace", "", &own)).await;
        world.end().await;
    });
}

//! Policies while the manifest cannot be read, or a removal is held: what restrains the hub acts at once, what has it do
//! more waits for what it was declared with.

use serde_json::{Value, json};
use testkit::world::{At, World};
use vidra_api::{DriftPolicy, TargetState};

use crate::{config_map, says, scenario};

/// No manifest: a document is not closed.
const BROKEN: &str = "kind: [ConfigMap";

fn policy(policy: &str) -> Value {
    json!({"spec": {"drift": {"policy": policy}}})
}

async fn asks(world: &World, what: &str, patch: Value) {
    let resource = world.hub.merge(&world.resource_at("shop"), patch).await;
    let generation = resource["metadata"]["generation"].as_i64();
    let is = |resource: &Value| resource["status"]["observedGeneration"].as_i64() == generation;
    world.hub.when(&world.resource_at("shop"), what, is).await;
}

async fn has(world: &World, policy: DriftPolicy) {
    let is = |target: &Value| target["spec"]["drift"]["policy"] == json!(policy);
    let at = At::new("vidra.dev/v1alpha1", "VidraTarget", &world.ns, "shop.berlin");
    world.hub.when(&at, &format!("{policy:?}"), is).await;
}

#[test]
fn a_policy_that_writes_less_needs_no_readable_manifest_and_one_that_writes_more_does() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));

        let broken = json!({"spec": {"manifest": BROKEN, "drift": {"policy": "Report"}}});
        asks(&world, "broken", broken).await;
        has(&world, DriftPolicy::Report).await;
        let mark = world.mark();
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        world
            .target_when("shop", "berlin", "drift is told", |status| {
                status.drift == Some(vidra_api::DriftState::Drifted)
            })
            .await;
        // More than that was asked for along with another manifest than the one that is there.
        asks(&world, "to be corrected", policy("Correct")).await;
        world.look("shop", "look", 1).await;
        has(&world, DriftPolicy::Report).await;
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);

        asks(&world, "suspended", json!({"spec": {"suspend": true}})).await;
        world.target_is("shop", "berlin", TargetState::Suspended, "Suspended").await;
        asks(&world, "to go on", json!({"spec": {"suspend": false}})).await;
        let told = world.resource_says("shop", "Ready", "False", "ManifestInvalid").await;
        let ready = vidra_api::find(&told.status.unwrap().conditions, "Ready").unwrap().message.clone();
        assert!(ready.contains("what was suspended stays so until then"), "{ready}");
        world.target_is("shop", "berlin", TargetState::Suspended, "Suspended").await;
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);

        asks(&world, "mended", json!({"spec": {"manifest": config_map("settings", "two")}})).await;
        alice.when(&settings, "as declared", says("two")).await;
        world.ready("shop").await;
        has(&world, DriftPolicy::Correct).await;
        world.end().await;
    });
}

#[test]
fn a_policy_that_writes_less_acts_while_a_removal_is_held() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let nobody = json!({"spec": {"targets": [], "drift": {"policy": "Report"}}});
        asks(&world, "nobody is selected", nobody).await;
        world.resource_says("shop", "Stalled", "True", "RemovalHeld").await;
        has(&world, DriftPolicy::Report).await;
        asks(&world, "to be corrected", policy("Correct")).await;
        has(&world, DriftPolicy::Report).await;
        let again = json!({"spec": {"targets": [{"clusterNames": ["berlin"]}]}});
        asks(&world, "selected", again).await;
        has(&world, DriftPolicy::Correct).await;
        world.ready("shop").await;
        world.end().await;
    });
}

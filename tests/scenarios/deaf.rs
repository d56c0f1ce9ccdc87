//! Events that one VidraResource does without, beside another that has them.

use serde_json::{Value, json};
use testkit::world::{At, World};

use crate::{config_map, says, scenario};

async fn deliver(world: &World, name: &str, reconcile: Value) {
    let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": reconcile});
    world.deliver_with(name, &config_map(name, "one"), spec).await;
    world.ready(name).await;
}

async fn corrections(world: &World, name: &str) -> i64 {
    let status = world.target(name, "berlin").await.unwrap().status.unwrap();
    status.corrections.map_or(0, |all| all.count)
}

#[test]
fn a_resource_without_events_waits_for_its_interval_and_the_one_beside_it_does_not() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        // Objects of one kind: the other's informer sees those of the deaf one too.
        deliver(&world, "deaf", json!({"onEvents": false, "interval": "1h"})).await;
        let alice = world.alice("berlin").await;
        let (deaf, alert) = (At::config_map(&world.ns, "deaf"), At::config_map(&world.ns, "alert"));
        deliver(&world, "alert", json!({"interval": "1h"})).await;
        let (mut turn, mut in_a_row) = (0, 0);
        while in_a_row < 3 {
            turn += 1;
            // The looks that belong to a delivery, for its status and its inventory, may meet the first of these edits.
            assert!(turn <= 10, "it hears events");
            let before = corrections(&world, "deaf").await;
            let evil = json!({"data": {"key": format!("evil {turn}")}});
            alice.merge(&deaf, evil.clone()).await;
            alice.merge(&alert, evil).await;
            alice.when(&alert, "as declared", says("one")).await;
            world.corrected("alert", "berlin", turn).await;
            let stays = says(&format!("evil {turn}"))(&alice.live(&deaf).await)
                && corrections(&world, "deaf").await == before;
            in_a_row = if stays { in_a_row + 1 } else { 0 };
        }
        let before = corrections(&world, "deaf").await;
        alice.delete(&alert).await;
        alice.when(&alert, "made again", says("one")).await;
        world.corrected("alert", "berlin", turn + 1).await;
        assert!(says(&format!("evil {turn}"))(&alice.live(&deaf).await), "no event is for it");
        assert_eq!(corrections(&world, "deaf").await, before);

        // Asked for, it looks.
        world.reconcile_now("deaf", "now").await;
        alice.when(&deaf, "as declared", says("one")).await;
        world.corrected("deaf", "berlin", before + 1).await;

        // So it does on its interval, while the other one's is as long as it was.
        deliver(&world, "deaf", json!({"onEvents": false, "interval": "1s"})).await;
        alice.merge(&deaf, json!({"data": {"key": "evil"}})).await;
        alice.when(&deaf, "as declared", says("one")).await;
        world.corrected("deaf", "berlin", before + 2).await;
        alice.merge(&alert, json!({"data": {"key": "evil"}})).await;
        alice.when(&alert, "as declared", says("one")).await;
        world.end().await;
    });
}

/// A pipeline that asks for a look goes by what stands there when the look is handled.
#[test]
fn a_request_to_look_is_handled_when_the_targets_tell_what_they_found() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        let reconcile = json!({"onEvents": false, "interval": "1h"});
        let spec = json!({"targets": [{"clusterSelector": {}}], "reconcile": reconcile, "drift": {"policy": "Report"}});
        world.deliver_with("deaf", &config_map("deaf", "one"), spec).await;
        world.ready("deaf").await;
        deliver(&world, "alert", json!({"interval": "1h"})).await;
        let alice = world.alice("berlin").await;
        let (deaf, alert) = (At::config_map(&world.ns, "deaf"), At::config_map(&world.ns, "alert"));
        for (token, value, drifted) in [("1", "evil", "True"), ("2", "one", "False"), ("3", "worse", "True")]
        {
            alice.merge(&deaf, json!({"data": {"key": value}})).await;
            // When this one is corrected, the hub has seen the other one too.
            alice.merge(&alert, json!({"data": {"key": token}})).await;
            alice.when(&alert, "as declared", says("one")).await;
            world.reconcile_now("deaf", token).await;
            let is_handled = |resource: &Value| resource["status"]["lastHandledReconcileAt"] == token;
            let told = world.hub.when(&world.resource_at("deaf"), "handled", is_handled).await;
            let conditions = told["status"]["conditions"].as_array().into_iter().flatten();
            let said = conditions.filter(|condition| condition["type"] == "Drifted");
            assert_eq!(said.map(|said| &said["status"]).collect::<Vec<_>>(), [drifted], "{token}: {told:#}");
        }
        world.end().await;
    });
}

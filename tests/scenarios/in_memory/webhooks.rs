//! Webhooks that rewrite what the hub declares: what the server answered is what is expected, and not what was sent.
//! In memory only: for a real server there would have to be one that serves them.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Cluster};
use serde_json::{Value, json};
use testkit::world::{Access, At, World};
use vidra_api::{DriftState, VidraTargetStatus};

use super::scenario;
use crate::{config_map, says};

/// From now on berlin has a webhook that marks the value of every ConfigMap of this name, once.
fn rewrite(world: &World) {
    let hook = |call: &Call, object: &mut Value| {
        let name = object["metadata"]["name"] == "settings";
        let value = object["data"]["key"].as_str().unwrap_or_default().to_owned();
        if call.resource == "configmaps" && name && !value.ends_with(" (scanned)") {
            object["data"]["key"] = format!("{value} (scanned)").into();
        }
    };
    berlin(world).set_mutating_admission(Some(Arc::new(hook)));
}

fn berlin(world: &World) -> Cluster {
    world.bed().memory("berlin").expect("this bed is in memory")
}

async fn delivered(world: &World, policy: &str) -> (Access, At) {
    world.register(&["berlin"]).await;
    let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": {"interval": "10s"},
        "drift": {"policy": policy}});
    world.deliver_with("shop", &config_map("settings", "one"), spec).await;
    world.ready("shop").await;
    (world.alice("berlin").await, At::config_map(&world.ns, "settings"))
}

/// As declared, as far as the hub is concerned, and ten intervals cost nothing on either side.
async fn is_quiet(world: &World, at: &At) {
    let in_sync = |status: &VidraTargetStatus| status.drift == Some(DriftState::InSync);
    world.target_when("shop", "berlin", "in sync", in_sync).await;
    world.recorded("shop", &["berlin"]).await;
    world.counted(&["berlin"]).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let quiet = world.mark();
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(world.requests_for(at, "berlin", &quiet), []);
    assert_eq!((world.writes("berlin", &quiet), world.writes("hub", &quiet)), (vec![], vec![]));
    let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
    assert_eq!((status.drift, status.drifted), (Some(DriftState::InSync), 0), "{:?}", status.changes);
}

#[test]
fn a_value_that_a_webhook_rewrites_is_neither_repaired_nor_reported_and_an_edit_of_it_is() {
    scenario(async |mut world| {
        rewrite(&world);
        let (alice, settings) = delivered(&world, "Correct").await;
        let rewritten = says("one (scanned)");
        assert!(rewritten(&alice.live(&settings).await));
        is_quiet(&world, &settings).await;

        // One repair, and what the webhook makes of it is as expected again.
        let mark = world.mark();
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        alice.when(&settings, "as it was", &rewritten).await;
        world.corrected("shop", "berlin", 1).await;
        is_quiet(&world, &settings).await;
        assert_eq!(world.writes_to(&settings, "berlin", &mark).len(), 1);

        let mark = world.mark();
        world.restart_hub().await;
        world.look("shop", "restarted", 1).await;
        is_quiet(&world, &settings).await;
        assert_eq!(world.writes("berlin", &mark), [], "a restart");

        // Edited and put back while the hub is down: nobody owns it for the hub, and it is as the server would answer.
        world.stop_hub().await;
        let mark = world.mark();
        for value in ["evil", "one"] {
            alice.merge(&settings, json!({"data": {"key": value}})).await;
        }
        world.start_hub().await;
        world.look("shop", "started", 1).await;
        is_quiet(&world, &settings).await;
        assert_eq!(world.writes("berlin", &mark), [], "an edit that was undone");
        world.end().await;
    });
}

#[test]
fn a_webhook_that_comes_later_costs_one_repair_when_somebody_touches_the_object() {
    scenario(async |world| {
        let (alice, settings) = delivered(&world, "Correct").await;
        rewrite(&world);
        is_quiet(&world, &settings).await;
        let mark = world.mark();
        for turn in 0..3 {
            // The webhook's doing is somebody's edit, until an answer has shown what it makes of what is declared.
            alice.merge(&settings, json!({"metadata": {"annotations": {"turn": turn.to_string()}}})).await;
            is_quiet(&world, &settings).await;
        }
        assert!(says("one (scanned)")(&alice.live(&settings).await));
        assert_eq!(world.writes_to(&settings, "berlin", &mark).len(), 1);
        world.corrected("shop", "berlin", 1).await;
        world.end().await;
    });
}

#[test]
fn under_report_what_a_webhook_rewrites_is_no_drift_and_what_people_rewrite_is() {
    scenario(async |mut world| {
        rewrite(&world);
        let (alice, settings) = delivered(&world, "Report").await;
        is_quiet(&world, &settings).await;
        world.restart_hub().await;
        world.look("shop", "restarted", 1).await;
        is_quiet(&world, &settings).await;

        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        let drifted = |status: &VidraTargetStatus| status.drift == Some(DriftState::Drifted);
        let target = world.target_when("shop", "berlin", "drifted", drifted).await;
        let field = target.status.unwrap().changes[0].fields[0].clone();
        assert_eq!(
            (&*field.path, field.actual.as_deref()),
            (".data.key", Some("\"evil (scanned)\"")),
            "{field:?}"
        );
        alice.merge(&settings, json!({"data": {"key": "one"}})).await;
        is_quiet(&world, &settings).await;
        world.end().await;
    });
}

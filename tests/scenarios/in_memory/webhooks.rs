//! Webhooks that rewrite what the hub declares: what the server answered is what is expected, and not what was sent.
//! And webhooks that refuse it with a code that an API server has another meaning for: their word is not the server's.
//! In memory only: for a real server there would have to be one that serves them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use memkube::{Call, Cluster, Denial, Verb};
use serde_json::{Value, json};
use testkit::world::{Access, At, World};
use vidra_api::{DriftState, TargetState, VidraTargetStatus};

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

/// What the webhook of [`refuse`] says.
const WORDS: &str = "ledger \"main\" is not to be had";
/// So many refusals later it answers 403: what would go on without end ends, and the scenario can tell how far it came.
const ENOUGH: usize = 100;

/// From now on a webhook of berlin refuses what is done so to ConfigMap settings.
fn refuse(world: &World, verb: Verb, code: u16, reason: &'static str) {
    let refused = AtomicUsize::new(0);
    let hook = move |call: &Call, object: &Value| {
        let is_meant = call.verb == verb && call.resource == "configmaps";
        if !is_meant || object["metadata"]["name"] != "settings" {
            return Ok(());
        }
        let so_far = refused.fetch_add(1, Ordering::Relaxed);
        let (code, reason) = if so_far < ENOUGH { (code, reason) } else { (403, "Forbidden") };
        let (webhook, message) = ("ledgers.example.com".to_owned(), WORDS.to_owned());
        Err(Denial { webhook, code, reason: reason.to_owned(), message })
    };
    berlin(world).set_validating_admission(Some(Arc::new(hook)));
}

/// What the hub says of a target names the webhook and its words, and is no success.
async fn is_told(world: &World, name: &str) {
    let told = |status: &VidraTargetStatus| {
        let message = status.message.as_deref().unwrap_or_default();
        message.contains("ledgers.example.com") && message.contains(WORDS)
    };
    let target = world.target_when(name, "berlin", "the webhook's words", told).await;
    let state = target.status.and_then(|status| status.state);
    assert!(matches!(state, Some(TargetState::Failed | TargetState::Terminating)), "{state:?}");
}

#[test]
fn an_update_that_a_webhook_refuses_with_409_is_tried_again_after_pauses_and_told() {
    refused_update(409, "Conflict");
}

#[test]
fn an_update_that_a_webhook_refuses_with_404_is_tried_again_after_pauses_and_told() {
    refused_update(404, "NotFound");
}

fn refused_update(code: u16, reason: &'static str) {
    scenario(async |world| {
        let (alice, settings) = delivered(&world, "Correct").await;
        refuse(&world, Verb::Apply, code, reason);
        let mark = world.mark();
        world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
        tokio::time::sleep(Duration::from_secs(25)).await;
        let all = world.requests_for(&settings, "berlin", &mark);
        let count = |verb: &str| all.iter().filter(|one| one.verb == verb).count();
        let (writes, reads) = (count("patch"), count("get"));
        assert!((2..=7).contains(&writes) && reads <= 7, "{writes} writes and {reads} reads in 25 s");
        is_told(&world, "shop").await;

        // The hub goes on working, for this member and this VidraResource too.
        world.deliver("other", &["berlin"], &config_map("other", "one")).await;
        world.ready("other").await;
        berlin(&world).set_validating_admission(None);
        world.reconcile_now("shop", "1").await;
        world.ready("shop").await;
        assert!(says("two")(&alice.live(&settings).await));
        world.end().await;
    });
}

#[test]
fn a_dropped_object_whose_deletion_a_webhook_refuses_with_404_stays_in_the_inventory() {
    scenario(async |world| {
        let (alice, settings) = delivered(&world, "Correct").await;
        let both = config_map("settings", "one") + &config_map("beside", "one");
        world.deliver("shop", &["berlin"], &both).await;
        world.ready("shop").await;
        refuse(&world, Verb::Delete, 404, "NotFound");
        world.deliver("shop", &["berlin"], &config_map("beside", "one")).await;
        tokio::time::sleep(Duration::from_secs(25)).await;
        alice.live(&settings).await;
        let held = world.inventory("shop", "berlin").await;
        assert!(held.iter().any(|entry| entry.name == "settings"), "forgotten, and still there: {held:?}");
        is_told(&world, "shop").await;

        berlin(&world).set_validating_admission(None);
        world.reconcile_now("shop", "1").await;
        alice.gone(&settings).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_resource_whose_object_a_webhook_does_not_let_go_with_404_waits_for_it() {
    scenario(async |world| {
        let (alice, settings) = delivered(&world, "Correct").await;
        refuse(&world, Verb::Delete, 404, "NotFound");
        world.hub.delete(&world.resource_at("shop")).await;
        tokio::time::sleep(Duration::from_secs(25)).await;
        alice.live(&settings).await;
        let target = world.target("shop", "berlin").await;
        assert!(target.is_some(), "the hub says that all of it is gone, and it is there");
        is_told(&world, "shop").await;

        berlin(&world).set_validating_admission(None);
        world.removed("shop").await;
        alice.gone(&settings).await;
        world.end().await;
    });
}

//! Labels find objects; they prove nothing, and losing them loses nothing.

use serde_json::{Value, json};
use testkit::world::{At, LONG, wait_for};
use vidra_api::TargetState;

use crate::{config_map, marks, object, says, uid, world};

fn owner_label(live: &Value) -> String {
    let labels = live["metadata"]["labels"].as_object().expect("labels");
    labels.keys().find(|key| key.starts_with("owner.vidra.dev/")).expect("an owner label").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_lost_its_labels_is_found_and_healed() {
    let world = world().await;
    world.register(&["berlin"]).await;
    world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
    world.ready("shop").await;
    let alice = world.alice("berlin").await;
    let settings = At::config_map(&world.ns, "settings");
    let made = alice.live(&settings).await;
    let owner = owner_label(&made);
    let hub = "vidra.dev/hub".to_owned();
    for lost in [vec![&hub], vec![&owner], vec![&hub, &owner]] {
        let labels: Value = lost
            .iter()
            .map(|label| ((*label).clone(), Value::Null))
            .collect::<serde_json::Map<_, _>>()
            .into();
        alice.merge(&settings, json!({"metadata": {"labels": labels}})).await;
        let healed = alice
            .when(&settings, "both labels", |live| live["metadata"]["labels"] == made["metadata"]["labels"])
            .await;
        assert_eq!(uid(&healed), uid(&made), "{lost:?}");
    }
    // Out of sight and changed.
    let hidden = json!({"metadata": {"labels": {&hub: null}}, "data": {"key": "evil"}});
    alice.merge(&settings, hidden).await;
    let healed = alice.when(&settings, "as declared", says("one")).await;
    assert_eq!((uid(&healed), owner_label(&healed)), (uid(&made), owner.clone()));
    world.target_when("shop", "berlin", "InSync", |status| status.drifted == 0).await;

    // Afterwards it is watched as before.
    alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
    alice.when(&settings, "as declared", says("one")).await;
    world.end().await;
}

/// `kubectl replace --force`: deleted and made anew, labels and all.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_made_anew_by_another_with_our_labels_is_not_taken_for_ours() {
    let mut world = world().await;
    world.register(&["berlin"]).await;
    world.deliver("shop", &["berlin"], &(config_map("settings", "one") + &config_map("beside", "one"))).await;
    world.ready("shop").await;
    let alice = world.alice("berlin").await;
    let settings = At::config_map(&world.ns, "settings");
    let made = alice.live(&settings).await;
    // The hub is down meanwhile, or it would make its own before alice can.
    world.stop_hub().await;
    alice.delete(&settings).await;
    let foreign = alice
        .create(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "alice's"},
            "metadata": {
                "name": "settings", "namespace": world.ns,
                "labels": made["metadata"]["labels"], "annotations": made["metadata"]["annotations"],
            },
        }))
        .await;
    let mark = world.mark();
    world.start_hub().await;
    let target = world
        .target_when("shop", "berlin", "Failed", |status| status.state == Some(TargetState::Failed))
        .await;
    let status = target.status.unwrap();
    assert!(matches!(status.reason.as_deref(), Some("NotOurs" | "AlreadyExists")), "{status:?}");
    assert!(status.message.unwrap().contains("settings"));

    // What is beside it is tended all the same, and deleting the resource leaves alice's alone.
    let beside = At::config_map(&world.ns, "beside");
    alice.merge(&beside, json!({"data": {"key": "evil"}})).await;
    alice.when(&beside, "as declared", says("one")).await;
    world.remove("shop").await;
    alice.gone(&beside).await;
    assert_eq!(alice.live(&settings).await, foreign);
    assert!(world.writes_to(&settings, "berlin", &mark).iter().all(|write| write.code >= 400));
    alice.delete(&settings).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoint_slices_that_copied_our_labels_are_never_touched() {
    let world = world().await;
    world.register(&["berlin"]).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    // An EndpointSlice of our own, so that the hub watches the kind.
    let own = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "own"}, "endpoints": [{"addresses": ["10.1.2.3"]}]});
    world
        .deliver_with(
            "shop",
            &(object(&service) + &object(&own)),
            json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": {"interval": "1s"}}),
        )
        .await;
    world.ready("shop").await;
    let alice = world.alice("berlin").await;
    let slices = At::new("discovery.k8s.io/v1", "EndpointSlice", &world.ns, "");
    let copied = wait_for("the controller manager makes a slice", LONG, async || {
        let all = alice.list(&slices).await;
        let made = all.iter().find(|slice| slice["metadata"]["name"] != "own").cloned();
        made.ok_or_else(|| format!("{all:?}"))
    })
    .await;
    assert!(marks(&copied).iter().any(|mark| mark == "vidra.dev/hub"), "the labels are copied: {copied}");
    let name = copied["metadata"]["name"].as_str().unwrap();
    let made = At::new("discovery.k8s.io/v1", "EndpointSlice", &world.ns, name);
    let mark = world.mark();
    world.after_passes(3).await;

    // Pruning our own slice and changing the Service leaves the other; so does deletion.
    world.deliver("shop", &["berlin"], &object(&service)).await;
    alice.gone(&At::new("discovery.k8s.io/v1", "EndpointSlice", &world.ns, "own")).await;
    world.ready("shop").await;
    assert_eq!(uid(&alice.live(&made).await), uid(&copied));
    world.remove("shop").await;
    assert_eq!(world.requests_for(&made, "berlin", &mark), []);
    world.end().await;
}

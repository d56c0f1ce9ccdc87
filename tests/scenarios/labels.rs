//! Labels find objects; they prove nothing, and losing them loses nothing.

use serde_json::{Value, json};
use testkit::world::At;
use vidra_api::{TargetState, VidraTargetStatus};

use crate::{config_map, says, scenario, uid};

fn owner_label(live: &Value) -> String {
    let labels = live["metadata"]["labels"].as_object().expect("labels");
    labels.keys().find(|key| key.starts_with("owner.vidra.dev/")).expect("an owner label").clone()
}

#[test]
fn an_object_that_lost_its_labels_is_found_and_healed() {
    scenario(async |world| {
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
                .when(&settings, "both labels", |live| {
                    live["metadata"]["labels"] == made["metadata"]["labels"]
                })
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
    });
}

/// `kubectl replace --force`: deleted and made again, labels and all.
#[test]
fn an_object_made_again_by_another_with_our_labels_is_not_taken_for_ours() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        world
            .deliver("shop", &["berlin"], &(config_map("settings", "one") + &config_map("beside", "one")))
            .await;
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
        let message = world.target_is("shop", "berlin", TargetState::Failed, "NotOurs").await;
        assert!(message.contains("/settings bears the hub's label"), "{message}");

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
    });
}

/// As EndpointSlices are made from a Service: a controller's object, with all our labels.
#[test]
fn an_object_that_a_controller_made_with_our_labels_is_nothing_to_the_hub() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": {"interval": "1s"},
            "conflicts": {"existing": "Adopt"}});
        let manifest = config_map("settings", "one") + &config_map("beside", "one");
        world.deliver_with("shop", &manifest, spec.clone()).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let made = alice.live(&At::config_map(&world.ns, "settings")).await;
        let copy = alice
            .create(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "copied"},
                "metadata": {
                    "name": "copy", "namespace": world.ns,
                    "labels": made["metadata"]["labels"], "annotations": made["metadata"]["annotations"],
                    "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "settings",
                        "uid": made["metadata"]["uid"], "controller": true}],
                },
            }))
            .await;
        let (at, mark) = (At::of(&copy), world.mark());
        world.after_passes(2).await;
        world.deliver_with("shop", &config_map("settings", "two"), spec).await;
        alice.gone(&At::config_map(&world.ns, "beside")).await;
        world.ready("shop").await;
        world.target_when("shop", "berlin", "one object is left", |status| status.objects == 1).await;
        assert_eq!(alice.live(&at).await, copy);
        assert_eq!(world.requests_for(&at, "berlin", &mark), []);
        alice.delete(&at).await;
        world.end().await;
    });
}

#[test]
fn what_is_replaced_stays_while_somebody_elses_object_with_our_labels_has_the_new_name() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("old", "one")).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let at = |name: &str| At::config_map(&world.ns, name);
        let made = alice.live(&at("old")).await;
        let mut copy = crate::config_map_in(&world.ns, "new", "alice's");
        copy["metadata"]["labels"] = made["metadata"]["labels"].clone();
        alice.create(copy).await;

        world.deliver("shop", &["berlin"], &config_map("new", "one")).await;
        let failed = |status: &VidraTargetStatus| status.state == Some(TargetState::Failed);
        world.target_when("shop", "berlin", "it cannot come", failed).await;
        world.look("shop", "1", 1).await;
        assert!(says("alice's")(&alice.live(&at("new")).await));
        let left = alice.get(&at("old")).await.map(|live| uid(&live));
        assert_eq!(left, Some(uid(&made)), "it went before what replaces it could come");

        alice.delete(&at("new")).await;
        alice.when(&at("new"), "made by the hub", says("one")).await;
        alice.gone(&at("old")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

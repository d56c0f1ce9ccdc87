//! What is being deleted is left to go, and made again once it is gone.

use serde_json::json;
use testkit::world::At;
use vidra_api::TargetState;

use crate::{apply_modes::annotated, config_map, config_map_in, says, scenario, settings, uid};

#[test]
fn a_terminating_object_is_left_until_it_is_gone_and_then_made_again() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": {"interval": "1s"}});
        let manifest = config_map("settings", "one") + &config_map("beside", "one");
        world.deliver_with("shop", &manifest, spec).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        let made = alice.merge(&settings, held).await;
        let mark = world.mark();
        alice.delete(&settings).await;
        let message = world.target_is("shop", "berlin", TargetState::Waiting, "ObjectTerminating").await;
        assert!(message.contains("settings"), "{message}");
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        world.after_passes(3).await;
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);
        // The other object is tended meanwhile.
        let beside = At::config_map(&world.ns, "beside");
        alice.merge(&beside, json!({"data": {"key": "evil"}})).await;
        alice.when(&beside, "as declared", says("one")).await;

        alice.merge(&settings, json!({"metadata": {"finalizers": null}})).await;
        let again =
            alice.when(&settings, "made again", |live| says("one")(live) && uid(live) != uid(&made)).await;
        assert!(again["metadata"]["deletionTimestamp"].is_null());
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_namespace_that_is_deleted_under_the_objects_is_waited_for_and_filled_again() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let (settings, held) = (At::config_map(&world.ns, "settings"), At::config_map(&world.ns, "held"));
        let namespace = At::new("v1", "Namespace", "", &world.ns);
        let mut object = config_map_in(&world.ns, "held", "alice's");
        object["metadata"]["finalizers"] = json!(["example.com/hold"]);
        alice.create(object).await;
        let before = uid(&alice.live(&namespace).await);
        alice.delete(&namespace).await;
        alice.gone(&settings).await;
        let message = world
            .target_when("shop", "berlin", "not Ready", |status| status.state != Some(TargetState::Ready))
            .await;
        let message = message.status.unwrap().message.unwrap_or_default();
        assert!(message.contains(&world.ns), "{message}");

        alice.merge(&held, json!({"metadata": {"finalizers": null}})).await;
        let again = alice.when(&namespace, "made again", |live| uid(live) != before).await;
        assert!(again["metadata"]["deletionTimestamp"].is_null());
        alice.when(&settings, "made again", says("one")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

/// The hub's marks are not on it, so no watch shows it: it was told as Conflict, which says that somebody was faster.
#[test]
fn what_others_have_of_a_name_and_is_being_deleted_is_waited_for_alike() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        alice.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.ns}})).await;
        let manifests = [
            ("plain", config_map("plain", "two")),
            ("absent", annotated(config_map_in("", "absent", "two"), &[("apply", "IfAbsent")])),
        ];
        for (name, manifest) in manifests {
            let mut dying = config_map_in(&world.ns, name, "one");
            dying["metadata"]["finalizers"] = json!(["example.com/hold"]);
            let at = At::of(&alice.create(dying).await);
            alice.delete(&at).await;
            let before = alice.live(&at).await;
            world.deliver(name, &["berlin"], &manifest).await;
            let message = world.target_is(name, "berlin", TargetState::Waiting, "ObjectTerminating").await;
            assert!(message.contains(name), "{message}");
            assert_eq!(alice.live(&at).await, before);
            alice.merge(&at, json!({"metadata": {"finalizers": null}})).await;
            alice.when(&at, "made by the hub", says("two")).await;
            world.ready(name).await;
        }
        world.end().await;
    });
}

#[test]
fn what_is_replaced_stays_while_what_replaces_it_is_still_being_deleted() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        // What is dropped would stay for that long anyhow.
        settings::set(&world, json!({"pruneDelay": "0s"})).await;
        let (old, new) = (config_map("old", "one"), config_map("new", "one"));
        world.deliver("shop", &["berlin"], &(old.clone() + &new)).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let at = |name: &str| At::config_map(&world.ns, name);
        let made = alice.live(&at("old")).await;
        // Dropped, and on its way out, when it is to take the other's place.
        alice.merge(&at("new"), json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
        world.deliver("shop", &["berlin"], &old).await;
        alice
            .when(&at("new"), "being deleted", |live| !live["metadata"]["deletionTimestamp"].is_null())
            .await;
        world.deliver("shop", &["berlin"], &new).await;
        let message = world.target_is("shop", "berlin", TargetState::Waiting, "ObjectTerminating").await;
        assert!(message.contains("new"), "{message}");
        world.look("shop", "1", 1).await;
        let left = alice.get(&at("old")).await.map(|live| uid(&live));
        assert_eq!(left, Some(uid(&made)), "it went before what replaces it could come");

        alice.merge(&at("new"), json!({"metadata": {"finalizers": null}})).await;
        let is_new = |live: &serde_json::Value| live["metadata"]["deletionTimestamp"].is_null();
        alice.when(&at("new"), "made again", is_new).await;
        alice.gone(&at("old")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

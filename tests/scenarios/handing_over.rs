//! Objects that move from one VidraResource to another, and what waits for them.

use serde_json::{Value, json};
use testkit::world::{Access, At, SOON, World, wait_for};
use vidra_api::{HubId, OwnerHash, TargetState};

use crate::{
    config_map, config_map_in,
    limits::take,
    marks, object, says, scenario,
    settings::{set, settings_at},
    uid,
};

/// The managers of this hub that an object has.
pub fn holders(live: &Value) -> Vec<String> {
    marks(live).into_iter().filter(|mark| mark.starts_with("vidra/")).collect()
}

/// A first VidraResource has, beside an object of its own, two that it is going to drop; the one that moves, as it is.
pub async fn to_move(world: &World) -> (Access, At, Value) {
    world.register(&["berlin"]).await;
    let alice = world.alice("berlin").await;
    let at = At::config_map(&world.ns, "moved");
    let all = config_map("first", "one") + &config_map("moved", "one") + &config_map("dropped", "one");
    world.deliver("first", &["berlin"], &all).await;
    world.ready("first").await;
    let before = alice.live(&at).await;
    (alice, at, before)
}

/// Waits until the object is the second VidraResource's alone, and it is the one that it was before.
pub async fn is_the_seconds(world: &World, alice: &Access, before: &Value) -> Value {
    let second = format!("vidra/{0}/{0}/second", world.ns);
    let is_moved = |live: &Value| holders(live) == [second.clone()];
    let now = alice.when(&At::of(before), "it is the second's alone", is_moved).await;
    assert_eq!(uid(&now), uid(before), "{} was deleted and made again", At::of(before));
    now
}

/// The first VidraResource drops both objects. The one that nobody may declare goes; the other stays, and it is told for
/// whom.
pub async fn drop_both(world: &World, alice: &Access, before: &Value) {
    world.deliver("first", &["berlin"], &config_map("first", "one")).await;
    alice.gone(&At::config_map(&world.ns, "dropped")).await;
    let waits = |status: &vidra_api::VidraTargetStatus| {
        status.removing.as_ref().is_some_and(|removing| {
            let message = removing.message.as_deref().unwrap_or_default();
            removing.reason == "HandingOver"
                && removing.objects == 1
                && message.contains("VidraResource second")
        })
    };
    world.target_when("first", "berlin", "waits for the second", waits).await;
    assert_eq!(uid(&alice.live(&At::of(before)).await), uid(before));
    world.ready("first").await;
}

#[test]
fn what_is_dropped_stays_for_the_delay_and_that_is_told() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        set(&world, json!({"pruneDelay": "10s"})).await;
        let stays = config_map("first", "one") + &config_map("second", "one");
        world.deliver("shop", &["berlin"], &(stays.clone() + &config_map("dropped", "one"))).await;
        world.ready("shop").await;
        world.deliver("shop", &["berlin"], &stays).await;
        world.resource_says("shop", "Removing", "True", "PruneDelayed").await;
        world.alice("berlin").await.gone(&At::config_map(&world.ns, "dropped")).await;
        world.resource_says("shop", "Removing", "False", "Nothing").await;
        world.ready("shop").await;
        world.resource_says("shop", "Reconciling", "False", "Settled").await;
        world.end().await;
    });
}

#[test]
fn objects_that_move_from_one_resource_to_another_in_one_apply_stay_the_objects_that_they_are() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let at = |name: &str| At::config_map(&world.ns, name);
        let moving = |value: &str| config_map("moved", "one") + &config_map("changed", value);
        world.deliver("first", &["berlin"], &(config_map("first", "one") + &moving("one"))).await;
        world.deliver("second", &["berlin"], &config_map("second", "one")).await;
        world.ready("first").await;
        world.ready("second").await;
        let before = [alice.live(&at("moved")).await, alice.live(&at("changed")).await];

        // As kubectl sends the documents of a file: one after the other.
        let mark = world.mark();
        world.deliver("first", &["berlin"], &config_map("first", "one")).await;
        world.deliver("second", &["berlin"], &(config_map("second", "one") + &moving("two"))).await;
        world.ready("second").await;
        world.ready("first").await;
        for live in before {
            is_the_seconds(&world, &alice, &live).await;
        }
        let deletes = world.writes("berlin", &mark).into_iter().filter(|one| one.verb == "delete");
        assert_eq!(deletes.collect::<Vec<_>>(), []);
        assert!(says("two")(&alice.live(&at("changed")).await));

        // From now on they go with the second.
        world.remove("first").await;
        for name in ["moved", "changed"] {
            alice.live(&at(name)).await;
        }
        world.remove("second").await;
        for name in ["moved", "changed"] {
            alice.gone(&at(name)).await;
        }
        world.end().await;
    });
}

#[test]
fn objects_that_are_taken_up_before_they_are_dropped_stay_the_objects_that_they_are() {
    scenario(async |world| {
        let (alice, at, before) = to_move(&world).await;
        let mark = world.mark();
        world.deliver("second", &["berlin"], &config_map("moved", "two")).await;
        world.target_is("second", "berlin", TargetState::Failed, "SharedObjectConflict").await;
        world.deliver("first", &["berlin"], &config_map("first", "one")).await;
        world.ready("second").await;
        let now = is_the_seconds(&world, &alice, &before).await;
        assert!(says("two")(&now), "{now}");
        assert!(world.writes_to(&at, "berlin", &mark).iter().all(|one| one.verb != "delete"));
        world.end().await;
    });
}

#[test]
fn what_is_deleted_with_one_resource_and_declared_by_another_stays() {
    scenario(async |world| {
        let (alice, _, before) = to_move(&world).await;
        world.deliver("second", &["berlin"], &config_map("moved", "two")).await;
        world.target_is("second", "berlin", TargetState::Failed, "SharedObjectConflict").await;
        world.remove("first").await;
        world.ready("second").await;
        let now = is_the_seconds(&world, &alice, &before).await;
        assert!(says("two")(&now), "{now}");
        alice.gone(&At::config_map(&world.ns, "first")).await;
        world.end().await;
    });
}

#[test]
fn objects_that_moved_while_the_hub_was_down_stay_the_objects_that_they_are() {
    scenario(async |mut world| {
        let (alice, at, before) = to_move(&world).await;
        world.deliver("second", &["berlin"], &config_map("second", "one")).await;
        world.ready("second").await;
        let mark = world.mark();
        world.stop_hub().await;
        world.deliver("first", &["berlin"], &config_map("first", "one")).await;
        world
            .deliver("second", &["berlin"], &(config_map("second", "one") + &config_map("moved", "two")))
            .await;
        world.start_hub().await;
        is_the_seconds(&world, &alice, &before).await;
        assert!(world.writes_to(&at, "berlin", &mark).iter().all(|one| one.verb != "delete"));
        world.end().await;
    });
}

#[test]
fn what_an_invalid_manifest_may_declare_stays_until_it_is_corrected() {
    scenario(async |world| {
        let (alice, _, before) = to_move(&world).await;
        let moved = config_map("second", "one") + &config_map("moved", "two");
        world.deliver("second", &["berlin"], &config_map("second", "one")).await;
        world.ready("second").await;
        world.deliver("second", &["berlin"], &format!("{moved}---\nkind: [\n")).await;
        world.resource_says("second", "Stalled", "True", "ManifestInvalid").await;
        drop_both(&world, &alice, &before).await;
        world.deliver("second", &["berlin"], &moved).await;
        let now = is_the_seconds(&world, &alice, &before).await;
        assert!(says("two")(&now), "{now}");
        world.end().await;
    });
}

#[test]
fn what_is_to_be_applied_once_in_a_wave_that_is_closed_stays() {
    scenario(async |world| {
        let (alice, _, before) = to_move(&world).await;
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "first",
            "annotations": {"vidra.dev/wait-for": "Address"}},
            "spec": {"type": "LoadBalancer", "loadBalancerClass": "example.com/alice", "ports": [{"port": 80}]}});
        let mut once = config_map_in("", "moved", "one");
        once["metadata"]["annotations"] = json!({"vidra.dev/apply": "Once", "vidra.dev/wave": "1"});
        world.deliver("second", &["berlin"], &(object(&service) + &object(&once))).await;
        alice.when(&At::new("v1", "Service", &world.ns, "first"), "made", |_| true).await;
        drop_both(&world, &alice, &before).await;
        assert_eq!(uid(&alice.live(&At::of(&before)).await), uid(&before), "it was deleted");
        world.end().await;
    });
}

#[test]
fn what_a_source_that_is_not_there_may_declare_stays_until_it_is_read() {
    scenario(async |world| {
        let (alice, _, before) = to_move(&world).await;
        let own = config_map("second", "one");
        world.deliver("second", &["berlin"], &own).await;
        world.ready("second").await;
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "manifestsFrom": [{"configMapRef": {"name": "later"}}]});
        world.deliver_with("second", &own, spec).await;
        world.resource_says("second", "Stalled", "True", "SourceNotFound").await;
        world.deliver("first", &["berlin"], &config_map("first", "one")).await;
        let waits = |status: &vidra_api::VidraTargetStatus| {
            status.removing.as_ref().is_some_and(|one| one.reason == "HandingOver" && one.objects == 2)
        };
        world.target_when("first", "berlin", "waits for the second", waits).await;
        world
            .hub
            .create(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": config_map("moved", "two")},
                "metadata": {"name": "later", "namespace": world.ns}}),
            )
            .await;
        let now = is_the_seconds(&world, &alice, &before).await;
        assert!(says("two")(&now), "{now}");
        alice.gone(&At::config_map(&world.ns, "dropped")).await;
        world.end().await;
    });
}

#[test]
fn what_a_resource_that_is_held_declares_stays_until_it_may_have_it() {
    scenario(async |world| {
        world.register(&["tokyo"]).await;
        let (alice, _, before) = to_move(&world).await;
        let own = config_map("second", "one");
        world.deliver("second", &["berlin", "tokyo"], &own).await;
        world.ready("second").await;
        take(&world, json!({"removalGuard": "0"})).await;
        let moved = own + &config_map("moved", "two");
        world.deliver("second", &["berlin"], &moved).await;
        world.resource_says("second", "Stalled", "True", "RemovalHeld").await;
        drop_both(&world, &alice, &before).await;
        world.deliver("second", &["berlin", "tokyo"], &moved).await;
        let now = is_the_seconds(&world, &alice, &before).await;
        assert!(says("two")(&now), "{now}");
        world.hub.delete(&settings_at(&world)).await;
        world.end().await;
    });
}

async fn within(world: &World, clusters: &[&str], namespace: &str, manifest: &str) {
    let targets = json!([{"clusterNames": clusters, "namespace": namespace}]);
    world.deliver_with("shop", manifest, json!({"targets": targets})).await;
}

/// The revision is the same in both namespaces.
#[test]
fn what_a_namespace_that_is_held_brings_back_is_not_pruned_by_the_one_before_it() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        take(&world, json!({"removalGuard": "0", "pruneDelay": "10s"})).await;
        let (first, second) = (world.ns.clone(), format!("{}-b", world.ns));
        let manifest = config_map("settings", "one");
        within(&world, &["berlin", "tokyo"], &first, &manifest).await;
        world.ready("shop").await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&first, "settings"));
        let before = alice.live(&settings).await;
        within(&world, &["berlin", "tokyo"], &second, &manifest).await;
        alice.when(&At::config_map(&second, "settings"), "made", says("one")).await;
        within(&world, &["berlin"], &first, &manifest).await;
        world.resource_says("shop", "Stalled", "True", "RemovalHeld").await;
        let waits = |status: &vidra_api::VidraTargetStatus| {
            status.removing.as_ref().is_some_and(|one| one.reason == "HandingOver" && one.objects == 1)
        };
        world.target_when("shop", "berlin", "keeps what is to come back", waits).await;
        within(&world, &["berlin", "tokyo"], &first, &manifest).await;
        alice.gone(&At::config_map(&second, "settings")).await;
        world.ready("shop").await;
        assert_eq!(uid(&alice.live(&settings).await), uid(&before), "it was deleted and made again");
        world.hub.delete(&settings_at(&world)).await;
        world.end().await;
    });
}

/// What makes no manifest takes nothing back.
#[test]
fn what_a_held_declaration_brings_back_stays_though_the_manifest_is_emptied_by_mistake() {
    for restarts in [false, true] {
        scenario(async |mut world| {
            world.register(&["berlin", "tokyo"]).await;
            take(&world, json!({"removalGuard": "0", "pruneDelay": "10s"})).await;
            let (first, second) = (world.ns.clone(), format!("{}-b", world.ns));
            let (both, manifest) = (["berlin", "tokyo"], config_map("settings", "one"));
            within(&world, &both, &first, &manifest).await;
            world.ready("shop").await;
            let (alice, settings) = (world.alice("berlin").await, At::config_map(&first, "settings"));
            let before = alice.live(&settings).await;
            within(&world, &both, &second, &manifest).await;
            alice.when(&At::config_map(&second, "settings"), "made", says("one")).await;
            within(&world, &["berlin"], &first, &manifest).await;
            world.resource_says("shop", "Stalled", "True", "RemovalHeld").await;
            within(&world, &["berlin"], &first, "# nothing\n").await;
            world.resource_says("shop", "Stalled", "True", "ManifestInvalid").await;
            if restarts {
                world.restart_hub().await;
            }
            let waits = |status: &vidra_api::VidraTargetStatus| {
                status.removing.as_ref().is_some_and(|one| one.reason == "HandingOver" && one.objects == 1)
            };
            world.target_when("shop", "berlin", "keeps what is to come back", waits).await;
            within(&world, &both, &first, &manifest).await;
            alice.gone(&At::config_map(&second, "settings")).await;
            world.ready("shop").await;
            assert_eq!(uid(&alice.live(&settings).await), uid(&before), "it was deleted and made again");
            world.hub.delete(&settings_at(&world)).await;
            world.end().await;
        });
    }
}

fn secret(name: &str) -> String {
    object(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}))
}

fn suspend(on: bool) -> Value {
    json!({"spec": {"suspend": on}})
}

async fn suspended(world: &World, name: &str) {
    world.hub.merge(&world.resource_at(name), suspend(true)).await;
    let rests = |status: &vidra_api::VidraTargetStatus| status.state == Some(TargetState::Suspended);
    world.target_when(name, "berlin", "suspended", rests).await;
}

#[test]
fn what_a_suspended_resource_has_dropped_is_taken_over_after_a_restart() {
    scenario(async |mut world| {
        let (alice, at, before) = to_move(&world).await;
        take(&world, json!({"pruneDelay": "1h"})).await;
        world.deliver("first", &["berlin"], &config_map("first", "one")).await;
        world.resource_says("first", "Removing", "True", "PruneDelayed").await;
        suspended(&world, "first").await;
        world.restart_hub().await;
        world.deliver("second", &["berlin"], &config_map("moved", "two")).await;
        world.ready("second").await;
        assert!(says("two")(&alice.live(&at).await));
        world.hub.merge(&world.resource_at("first"), suspend(false)).await;
        is_the_seconds(&world, &alice, &before).await;
        world.hub.delete(&settings_at(&world)).await;
        world.end().await;
    });
}

#[test]
fn what_a_suspended_resource_applied_is_left_to_it_though_nobody_watches_its_kind() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let (alice, at) = (world.alice("berlin").await, At::config_map(&world.ns, "moved"));
        world.deliver("first", &["berlin"], &(secret("first") + &config_map("moved", "one"))).await;
        world.ready("first").await;
        world.deliver("second", &["berlin"], &config_map("moved", "one")).await;
        world.ready("second").await;
        let before = alice.live(&at).await;
        suspended(&world, "second").await;
        world.stop_hub().await;
        world.deliver("first", &["berlin"], &secret("first")).await;
        world.start_hub().await;
        is_the_seconds(&world, &alice, &before).await;
        world.resource_says("first", "Removing", "False", "Nothing").await;
        world.hub.merge(&world.resource_at("second"), suspend(false)).await;
        world.end().await;
    });
}

#[test]
fn what_is_gone_and_was_to_be_applied_once_is_not_waited_for() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, at) = (world.alice("berlin").await, At::config_map(&world.ns, "moved"));
        world.deliver("first", &["berlin"], &(secret("first") + &config_map("moved", "one"))).await;
        world.ready("first").await;
        let mut once = config_map_in("", "moved", "one");
        once["metadata"]["annotations"]["vidra.dev/apply"] = "Once".into();
        world.deliver("second", &["berlin"], &object(&once)).await;
        world.ready("second").await;
        suspended(&world, "first").await;
        alice.delete(&at).await;
        world.deliver("first", &["berlin"], &secret("first")).await;
        world.hub.merge(&world.resource_at("first"), suspend(false)).await;
        wait_for("the first has the Secret alone", SOON, async || {
            let entries = world.inventory("first", "berlin").await;
            if entries.iter().all(|entry| entry.kind == "Secret") {
                Ok(())
            } else {
                Err(format!("{entries:?}"))
            }
        })
        .await;
        world.resource_says("first", "Removing", "False", "Nothing").await;
        assert!(alice.get(&at).await.is_none());
        world.end().await;
    });
}

#[test]
fn what_is_let_go_and_another_one_applies_keeps_all_its_values() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, at) = (world.alice("berlin").await, At::config_map(&world.ns, "moved"));
        let mut more = config_map_in("", "moved", "one");
        more["data"]["more"] = "kept".into();
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "deletionPolicy": "Orphan"});
        world.deliver_with("first", &object(&more), spec).await;
        world.ready("first").await;
        world.deliver("second", &["berlin"], &config_map("moved", "one")).await;
        world.ready("second").await;
        let before = alice.live(&at).await;
        world.remove("first").await;
        let now = is_the_seconds(&world, &alice, &before).await;
        assert_eq!(now["data"], before["data"]);
        world.end().await;
    });
}

#[test]
fn who_is_older_and_of_another_namespace_takes_no_field_of_what_both_apply() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        // Of two that were made in one second the name counts.
        let other = world.namespace_beside().await;
        let deliver = async |manifest: String| world.deliver_from(&other, "older", &manifest).await;
        let theirs = |value: &str| object(&config_map_in(&world.ns, "settings", value));
        deliver(config_map("own", "one")).await;
        alice.when(&At::config_map(&other, "own"), "delivered", says("one")).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        deliver(theirs("one")).await;
        let shared = alice.when(&settings, "applied by both", |live| holders(live).len() == 2).await;

        deliver(theirs("two")).await;
        let target = At::new("vidra.dev/v1alpha1", "VidraTarget", &other, "older.berlin");
        let refused = |live: &Value| live["status"]["reason"] == "SharedObjectConflict";
        world.hub.when(&target, "refused", refused).await;
        let now = alice.live(&settings).await;
        assert_eq!((uid(&now), &now["data"]), (uid(&shared), &shared["data"]));
        world.ready("shop").await;
        world.remove_from(&other, "older").await;
        world.hub.delete(&At::new("v1", "Namespace", "", &other)).await;
        world.end().await;
    });
}

/// An Apply entry holds its fields with or without the label beside it.
#[test]
fn who_lost_its_label_keeps_what_it_holds_from_another_namespace() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let other = world.namespace_beside().await;
        let mut both = config_map_in(&world.ns, "settings", "one");
        both["data"]["more"] = "theirs".into();
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.deliver_from(&other, "bank", &object(&both)).await;
        let shared = alice.when(&settings, "applied by both", |live| holders(live).len() == 2).await;
        // One that is refused writes no label again.
        both["data"]["key"] = "two".into();
        world.deliver_from(&other, "bank", &object(&both)).await;
        let target = At::new("vidra.dev/v1alpha1", "VidraTarget", &other, "bank.berlin");
        let refused = |live: &Value| live["status"]["reason"] == "SharedObjectConflict";
        world.hub.when(&target, "refused", refused).await;
        let hub = HubId::try_from(&*world.ns).unwrap();
        let bank = OwnerHash::new(&hub, &other, "bank").label_key();
        assert!(shared["metadata"]["labels"][&bank].is_string(), "{shared}");
        alice.merge(&settings, json!({"metadata": {"labels": {bank: null}}})).await;

        let mut mine = config_map_in("", "settings", "one");
        mine["data"]["more"] = "mine".into();
        world.deliver("shop", &["berlin"], &object(&mine)).await;
        world.target_is("shop", "berlin", TargetState::Failed, "SharedObjectConflict").await;
        let now = alice.live(&settings).await;
        assert_eq!((uid(&now), &now["data"]), (uid(&shared), &shared["data"]));
        world.remove_from(&other, "bank").await;
        alice
            .when(&settings, "the one that is left has its way", |live| live["data"]["more"] == "mine")
            .await;
        world.ready("shop").await;
        world.hub.delete(&At::new("v1", "Namespace", "", &other)).await;
        world.end().await;
    });
}

/// It cannot be written again while a finalizer of somebody else's is on it.
#[test]
fn what_a_target_that_was_deleted_by_hand_is_to_have_stays() {
    for is_removed in [false, true] {
        scenario(async |world| {
            let (alice, at, before) = to_move(&world).await;
            let own = config_map("second", "one");
            world.deliver("second", &["berlin"], &own).await;
            world.ready("second").await;
            let target = world.target_at("second", "berlin");
            let ours = world.hub.live(&target).await["metadata"]["finalizers"].clone();
            let mut held = ours.clone();
            held.as_array_mut().unwrap().push("example.com/hold".into());
            world.hub.merge(&target, json!({"metadata": {"finalizers": held}})).await;
            world.hub.delete(&target).await;
            world.deliver("second", &["berlin"], &(own + &config_map("moved", "two"))).await;
            match is_removed {
                true => world.hub.delete(&world.resource_at("first")).await,
                false => world.deliver("first", &["berlin"], &config_map("first", "one")).await,
            }
            alice.gone(&At::config_map(&world.ns, "dropped")).await;
            world.look("second", "1", 3).await;
            assert_eq!(uid(&alice.live(&at).await), uid(&before));
            world.hub.merge(&target, json!({"metadata": {"finalizers": ours}})).await;
            is_the_seconds(&world, &alice, &before).await;
            world.ready("second").await;
            world.end().await;
        });
    }
}

//! However a VidraResource or a VidraTarget is deleted, the members end up clean, and nothing else is touched.

use serde_json::{Value, json};
use testkit::world::{Access, At, SOON, World, wait_for};
use vidra_api::TargetState;

use crate::{
    apply_modes::immutable_settings, config_map, config_map_in, inventoried, says, scenario, settings, told,
    uid,
};

/// Delivers to two members, beside objects of alice's.
async fn delivered(world: &World) -> Vec<(Access, Value)> {
    world.register(&["berlin", "tokyo"]).await;
    let manifest = config_map("settings", "one") + &config_map("more", "one");
    world.deliver("shop", &["berlin", "tokyo"], &manifest).await;
    world.ready("shop").await;
    let mut members = Vec::new();
    for name in ["berlin", "tokyo"] {
        let alice = world.alice(name).await;
        let foreign = alice.create(config_map_in(&world.ns, "foreign", "alice's")).await;
        members.push((alice, foreign));
    }
    members
}

async fn all_is_clean(world: &World, members: &[(Access, Value)]) {
    for (alice, foreign) in members {
        alice.gone(&At::config_map(&world.ns, "settings")).await;
        alice.gone(&At::config_map(&world.ns, "more")).await;
        assert_eq!(alice.live(&At::config_map(&world.ns, "foreign")).await, *foreign);
    }
}

#[test]
fn foreground_and_orphaning_deletion_of_a_resource_clean_the_members() {
    scenario(async |world| {
        let members = delivered(&world).await;
        world.hub.delete_with(&world.resource_at("shop"), json!({"propagationPolicy": "Foreground"})).await;
        world.removed("shop").await;
        all_is_clean(&world, &members).await;

        world.deliver("shop", &["berlin", "tokyo"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.hub.delete_with(&world.resource_at("shop"), json!({"propagationPolicy": "Orphan"})).await;
        world.removed("shop").await;
        all_is_clean(&world, &members).await;
        world.end().await;
    });
}

#[test]
fn a_resource_that_only_a_foreign_finalizer_keeps_says_whose() {
    scenario(async |world| {
        let members = delivered(&world).await;
        let at = world.resource_at("shop");
        let finalizers = &world.hub.live(&at).await["metadata"]["finalizers"];
        let mut both = finalizers.as_array().cloned().unwrap_or_default();
        both.push(json!("example.org/audit"));
        world.hub.merge(&at, json!({"metadata": {"finalizers": both}})).await;
        world.hub.delete(&at).await;
        all_is_clean(&world, &members).await;
        let says_whose = |live: &Value| {
            let conditions = live["status"]["conditions"].to_string();
            conditions.contains("waits for the finalizer example.org/audit")
        };
        world.hub.when(&at, "the hub says for whom it waits", says_whose).await;
        world.hub.merge(&at, json!({"metadata": {"finalizers": null}})).await;
        world.removed("shop").await;
        world.end().await;
    });
}

#[test]
fn the_end_of_the_resources_namespace_cleans_the_members() {
    scenario(async |world| {
        let members = delivered(&world).await;
        let namespace = At::new("v1", "Namespace", "", &world.ns);
        world.hub.delete(&namespace).await;
        world.removed("shop").await;
        all_is_clean(&world, &members).await;
        world.hub.gone(&namespace).await;
        world.end().await;
    });
}

#[test]
fn a_target_or_inventory_deleted_by_hand_comes_back_and_nothing_is_lost() {
    scenario(async |world| {
        let members = delivered(&world).await;
        let settings = At::config_map(&world.ns, "settings");
        let (berlin, _) = &members[0];
        let made = berlin.live(&settings).await;
        let mark = world.mark();

        let target = world.target_at("shop", "berlin");
        let before = uid(&world.hub.live(&target).await);
        world.hub.delete(&target).await;
        world.hub.when(&target, "made again", |live| uid(live) != before).await;
        told(&world, "TargetRestored", &["VidraTarget shop.berlin was deleted by hand"]).await;
        world.ready("shop").await;

        let inventory = At::new("vidra.dev/v1alpha1", "VidraInventory", &world.ns, "");
        for chunk in world.hub.list(&inventory).await {
            let name = chunk["metadata"]["name"].as_str().unwrap();
            let at = At::new("vidra.dev/v1alpha1", "VidraInventory", &world.ns, name);
            world.hub.delete(&at).await;
            world.hub.gone(&at).await;
        }
        let held = world.inventory("shop", "berlin").await;
        assert_eq!(held.iter().filter(|entry| entry.done).count(), 2, "{held:?}");
        assert_eq!(berlin.live(&settings).await, made);
        for name in ["berlin", "tokyo"] {
            assert_eq!(world.writes(name, &mark), [], "{name}");
        }

        // Afterwards it is tended and taken away as ever.
        berlin.merge(&settings, json!({"data": {"key": "evil"}})).await;
        berlin.when(&settings, "as declared", says("one")).await;
        world.remove("shop").await;
        all_is_clean(&world, &members).await;
        world.end().await;
    });
}

#[test]
fn a_target_that_never_had_anything_and_was_deleted_by_hand_goes_with_its_resource() {
    scenario(async |world| {
        let member = json!({"apiVersion": "vidra.dev/v1alpha1", "kind": "MemberCluster", "spec": {},
            "metadata": {"name": "silent"}});
        world.hub.create(member).await;
        world.member_says("silent", "CredentialsValid", "False").await;
        world.deliver("shop", &["silent"], &config_map("settings", "one")).await;
        world.target_is("shop", "silent", TargetState::Unknown, "NoCredentials").await;
        let target = world.target_at("shop", "silent");
        let before = uid(&world.hub.live(&target).await);
        world.hub.delete(&target).await;
        world.hub.when(&target, "made again", |live| uid(live) != before).await;
        world.target_is("shop", "silent", TargetState::Unknown, "NoCredentials").await;
        world.remove("shop").await;
        world.end().await;
    });
}

#[test]
fn a_resource_deleted_while_the_hub_was_down_is_taken_away_after_the_start() {
    scenario(async |mut world| {
        let members = delivered(&world).await;
        world.stop_hub().await;
        world.hub.delete(&world.resource_at("shop")).await;
        world.start_hub().await;
        world.removed("shop").await;
        all_is_clean(&world, &members).await;
        world.end().await;
    });
}

#[test]
fn a_member_that_leaves_keeps_its_objects_without_our_marks_and_may_join_again() {
    scenario(async |world| {
        let members = delivered(&world).await;
        world.hub.delete(&world.member_at("berlin")).await;
        world.hub.gone(&world.member_at("berlin")).await;
        let settings = At::config_map(&world.ns, "settings");
        let left = members[0].0.live(&settings).await;
        assert!(says("one")(&left) && crate::marks(&left).is_empty(), "{left}");
        // Its Secret is still there, and does not bring it back.
        let secret = world.hub.live(&world.registration("berlin")).await;
        assert!(secret["metadata"]["annotations"]["vidra.dev/left-at"].is_string(), "{secret}");
        world.resource_says("shop", "Ready", "False", "ClusterNotFound").await;
        assert!(world.member("berlin").await.is_none());
        members[1].0.live(&settings).await;

        // It joins again when a person says so; what it kept is not the hub's any more.
        let again = json!({"metadata": {"annotations": {"vidra.dev/left-at": null}}});
        world.hub.merge(&world.registration("berlin"), again).await;
        world.member_says("berlin", "Ready", "True").await;
        world.target_is("shop", "berlin", TargetState::Failed, "AlreadyExists").await;
        members[0].0.delete(&settings).await;
        members[0].0.delete(&At::config_map(&world.ns, "more")).await;
        world.ready("shop").await;
        world.remove("shop").await;
        all_is_clean(&world, &members).await;
        world.end().await;
    });
}

/// Takes inventories away for good, as a restore without them does; and VidraTargets with their statuses.
pub async fn lose(world: &World, kind: &str) {
    let of_kind = At::new("vidra.dev/v1alpha1", kind, &world.ns, "");
    for object in world.hub.list(&of_kind).await {
        let at = At::new("vidra.dev/v1alpha1", kind, &world.ns, object["metadata"]["name"].as_str().unwrap());
        world.hub.merge(&at, json!({"metadata": {"finalizers": null}})).await;
        world.hub.delete(&at).await;
        world.hub.gone(&at).await;
    }
}

/// The inventory alone tells that the hub itself deleted it, to make it again.
#[test]
fn what_the_hub_has_deleted_is_made_again_though_its_inventory_was_lost_before_it_was_gone() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let spec = || json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": "Ignore"}});
        world.deliver_with("shop", &immutable_settings("one"), spec()).await;
        world.ready("shop").await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let made = alice.merge(&settings, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
        world.deliver_with("shop", &immutable_settings("two"), spec()).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "ObjectTerminating").await;
        world.stop_hub().await;
        lose(&world, "VidraInventory").await;
        world.start_hub().await;
        wait_for("it is found again", SOON, async || match &world.inventory("shop", "berlin").await[..] {
            [_] => Ok(()),
            held => Err(format!("{held:?}")),
        })
        .await;
        world.deliver_with("shop", &immutable_settings("one"), spec()).await;
        world.look("shop", "taken back", 1).await;
        alice.merge(&settings, json!({"metadata": {"finalizers": null}})).await;
        let is_new = |live: &Value| says("one")(live) && uid(live) != uid(&made);
        alice.when(&settings, "made again", is_new).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_lost_inventory_is_found_again_in_the_member_before_anything_is_pruned() {
    scenario(async |mut world| {
        let members = delivered(&world).await;
        let (settings, more) = (At::config_map(&world.ns, "settings"), At::config_map(&world.ns, "more"));
        for lost in [&["VidraInventory"][..], &["VidraTarget", "VidraInventory"][..]] {
            let made = members[0].0.live(&settings).await;
            world.stop_hub().await;
            for kind in lost {
                lose(&world, kind).await;
            }
            // Meanwhile a document was dropped: nobody declares that object any more.
            world.deliver("shop", &["berlin", "tokyo"], &config_map("settings", "one")).await;
            let mark = world.mark();
            world.start_hub().await;
            for (alice, foreign) in &members {
                alice.gone(&more).await;
                assert_eq!(alice.live(&At::of(foreign)).await, *foreign);
            }
            world.ready("shop").await;
            assert_eq!(members[0].0.live(&settings).await, made);
            assert_eq!(world.writes_to(&settings, "berlin", &mark), []);
            let held = world.inventory("shop", "berlin").await;
            assert!(held.len() == 1 && held[0].done, "{held:?}");
            let manifest = config_map("settings", "one") + &config_map("more", "one");
            world.deliver("shop", &["berlin", "tokyo"], &manifest).await;
            world.ready("shop").await;
        }
        world.remove("shop").await;
        all_is_clean(&world, &members).await;
        world.end().await;
    });
}

/// The inventory that was found again is written before what is new is made, and of what goes behind that it kept the names.
#[test]
fn what_goes_while_a_lost_inventory_is_found_again_stands_in_it_no_more() {
    scenario(async |world| {
        settings::set(&world, json!({"pruneDelay": "0s"})).await;
        let members = delivered(&world).await;
        let spec =
            |suspend: bool| json!({"targets": [{"clusterNames": ["berlin", "tokyo"]}], "suspend": suspend});
        let before = config_map("settings", "one") + &config_map("more", "one");
        world.deliver_with("shop", &before, spec(true)).await;
        for name in ["berlin", "tokyo"] {
            world.target_is("shop", name, TargetState::Suspended, "Suspended").await;
        }
        lose(&world, "VidraInventory").await;
        let after = config_map("settings", "one") + &config_map("new", "one");
        world.deliver_with("shop", &after, spec(false)).await;
        world.ready("shop").await;
        for ((alice, _), name) in members.iter().zip(["berlin", "tokyo"]) {
            alice.gone(&At::config_map(&world.ns, "more")).await;
            inventoried(&world, "shop", name, 2).await;
            let held = world.inventory("shop", name).await;
            assert_eq!(held.len(), 2, "{name}: {held:?}");
        }
        world.end().await;
    });
}

#[test]
fn what_is_found_of_a_lost_inventory_is_known_by_its_uid_when_its_managed_fields_are_reset() {
    scenario(async |mut world| {
        let members = delivered(&world).await;
        world.stop_hub().await;
        lose(&world, "VidraInventory").await;
        let spec = json!({"targets": [{"clusterNames": ["berlin", "tokyo"]}], "prune": false});
        world.deliver_with("shop", &config_map("settings", "one"), spec).await;
        world.start_hub().await;
        for ((alice, _), name) in members.iter().zip(["berlin", "tokyo"]) {
            inventoried(&world, "shop", name, 2).await;
            let more = At::config_map(&world.ns, "more");
            alice.merge(&more, json!({"metadata": {"managedFields": [{}]}})).await;
        }
        world.remove("shop").await;
        all_is_clean(&world, &members).await;
        world.end().await;
    });
}

/// VidraTargets as a restore brings them back: without their statuses.
async fn lose_statuses(world: &World) {
    for mut target in world.hub.list(&world.target_at("", "")).await {
        let at = At::of(&target);
        world.hub.merge(&at, json!({"metadata": {"finalizers": null}})).await;
        world.hub.delete(&at).await;
        world.hub.gone(&at).await;
        target.as_object_mut().unwrap().remove("status");
        for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
            target["metadata"].as_object_mut().unwrap().remove(field);
        }
        world.hub.create(target).await;
    }
}

#[test]
fn where_nobody_can_tell_whether_anything_was_delivered_the_member_is_searched_before_the_target_goes() {
    scenario(async |mut world| {
        let members = delivered(&world).await;
        world.stop_hub().await;
        lose(&world, "VidraInventory").await;
        lose_statuses(&world).await;
        let manifest = config_map("settings", "one") + &config_map("more", "one");
        world.deliver("shop", &["berlin"], &manifest).await;
        world.start_hub().await;
        world.hub.gone(&world.target_at("shop", "tokyo")).await;
        all_is_clean(&world, &members[1..]).await;
        world.ready("shop").await;
        world.remove("shop").await;
        all_is_clean(&world, &members).await;
        world.end().await;
    });
}

#[test]
fn a_member_leaves_though_a_resource_with_a_target_there_is_suspended() {
    scenario(async |world| {
        let members = delivered(&world).await;
        let spec = json!({"targets": [{"clusterNames": ["berlin", "tokyo"]}], "suspend": true});
        let manifest = config_map("settings", "one") + &config_map("more", "one");
        world.deliver_with("shop", &manifest, spec).await;
        world.target_is("shop", "berlin", TargetState::Suspended, "Suspended").await;
        leaves(&world, &members[0].0).await;
        world.end().await;
    });
}

#[test]
fn a_member_leaves_though_the_removal_of_other_targets_is_held() {
    scenario(async |world| {
        let members = delivered(&world).await;
        world.deliver("shop", &[], &config_map("settings", "one")).await;
        world.resource_says("shop", "Stalled", "True", "RemovalHeld").await;
        leaves(&world, &members[0].0).await;
        world.end().await;
    });
}

/// Berlin leaves by a person's word, and what was delivered there stays, without our marks.
async fn leaves(world: &World, alice: &Access) {
    world.hub.delete(&world.member_at("berlin")).await;
    world.hub.gone(&world.member_at("berlin")).await;
    for name in ["settings", "more"] {
        let left = alice.live(&At::config_map(&world.ns, name)).await;
        assert!(says("one")(&left) && crate::marks(&left).is_empty(), "{left}");
        alice.delete(&At::config_map(&world.ns, name)).await;
    }
}

#[test]
fn an_entry_that_somebody_writes_into_an_inventory_deletes_nothing_foreign() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "theirs", "namespace": world.ns}, "data": {"key": "theirs"}});
        let theirs = alice.create(theirs).await;

        let at = At::new("vidra.dev/v1alpha1", "VidraInventory", &world.ns, "shop.berlin.0");
        let spec = world.hub.live(&at).await["spec"].clone();
        let mut spec: vidra_api::VidraInventorySpec = serde_json::from_value(spec).unwrap();
        let mut forged = spec.entries[0].clone();
        (forged.name, forged.uid) = ("theirs".to_owned(), uid(&theirs));
        spec.entries.push(forged);
        world.hub.merge(&at, json!({"spec": spec})).await;

        world
            .hub
            .when(&at, "the entry is dropped", |live| !live["spec"].to_string().contains("theirs"))
            .await;
        wait_for("it is told", SOON, async || {
            let told = crate::events(&world, "InventoryEntryUnproven").await;
            if told.iter().any(|note| note.contains("theirs")) { Ok(()) } else { Err(format!("{told:?}")) }
        })
        .await;
        world.ready("shop").await;
        world.remove("shop").await;
        assert_eq!(alice.live(&At::of(&theirs)).await, theirs);
        alice.delete(&At::of(&theirs)).await;
        world.end().await;
    });
}

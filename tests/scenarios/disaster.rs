//! What is lost with a hub, and what comes back with a backup, destroys nothing in the members.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::world::{Access, At, Mark, SOON, World, wait_for};
use vidra_api::TargetState;

use crate::{
    config_map, object,
    removal::{approval, held},
    revisions, says, scenario,
    settings::set,
    uid,
};

/// More than the few that may be an accident.
const OBJECTS: usize = 7;

fn manifest(value: &str) -> String {
    (0..OBJECTS).map(|number| config_map(&format!("settings-{number}"), value)).collect()
}

/// All that the hub's cluster had of its own is gone, but for its identity and the members' registrations.
async fn lose_all_but_the_identity(world: &World) {
    for kind in ["VidraResource", "VidraTarget", "VidraInventory", "MemberCluster"] {
        let namespace = if kind == "MemberCluster" { "" } else { &world.ns };
        for object in world.hub.list(&At::new("vidra.dev/v1alpha1", kind, namespace, "")).await {
            let name = object["metadata"]["name"].as_str().unwrap();
            let at = At::new("vidra.dev/v1alpha1", kind, namespace, name);
            world.hub.merge(&at, json!({"metadata": {"finalizers": null}})).await;
            world.hub.delete(&at).await;
            world.hub.gone(&at).await;
        }
    }
    for secret in world.hub.list(&At::new("v1", "Secret", &world.ns, "")).await {
        if secret["type"] == "vidra.dev/revision" {
            let name = secret["metadata"]["name"].as_str().unwrap();
            world.hub.delete(&At::new("v1", "Secret", &world.ns, name)).await;
        }
    }
}

/// Berlin, which is a member, has the second of two declarations; the hub's cluster has lost everything, and the hub does not
/// run.
async fn delivered_and_lost(world: &mut World) {
    for value in ["one", "two"] {
        world.deliver("shop", &["berlin"], &manifest(value)).await;
        world.ready("shop").await;
    }
    world.stop_hub().await;
    lose_all_but_the_identity(world).await;
}

/// The hub begins again with the first of the two declarations, and holds its writes: since when, and what it says.
async fn behind(world: &mut World) -> (Mark, String) {
    world.register(&["berlin"]).await;
    delivered_and_lost(world).await;
    let mark = world.mark();
    world.deliver("shop", &["berlin"], &manifest("one")).await;
    world.start_hub().await;
    (mark, world.target_is("shop", "berlin", TargetState::Failed, "HubRestored").await)
}

async fn all_say(world: &World, value: &str) {
    let berlin = world.alice("berlin").await;
    for number in 0..OBJECTS {
        let at = At::config_map(&world.ns, &format!("settings-{number}"));
        assert!(says(value)(&berlin.live(&at).await), "{at}");
    }
}

#[test]
fn a_hub_built_again_from_the_same_declarations_knows_its_objects_and_writes_nothing() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        delivered_and_lost(&mut world).await;
        let mark = world.mark();
        world.deliver("shop", &["berlin"], &manifest("two")).await;
        world.start_hub().await;
        world.ready("shop").await;
        assert_eq!(world.writes("berlin", &mark), []);
        assert_eq!(world.inventory("shop", "berlin").await.len(), OBJECTS);

        // Generations begin again with the new VidraResource; that alone is no older backup.
        world.deliver("shop", &["berlin"], &manifest("three")).await;
        world.ready("shop").await;
        all_say(&world, "three").await;
        world.end().await;
    });
}

#[test]
fn stamps_that_a_user_of_the_member_forges_hold_nothing_up() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &manifest("one")).await;
        world.deliver("other", &["berlin"], &config_map("others", "one")).await;
        world.ready("shop").await;
        world.ready("other").await;
        let alice = world.alice("berlin").await;
        world.stop_hub().await;
        let ns = world.ns.clone();
        let at = |number: usize| At::config_map(&ns, &format!("settings-{number}"));
        for number in 0..OBJECTS {
            let live = alice.live(&at(number)).await;
            let annotations = live["metadata"]["annotations"].as_object().unwrap();
            let (owner, stamp) =
                annotations.iter().find(|(key, _)| key.starts_with("owner.vidra.dev/")).unwrap();
            let mut words: Vec<_> = stamp.as_str().unwrap().split(' ').collect();
            (words[1], words[2]) = ("999999", "0123456789abcdef0123456789abcdef");
            alice.merge(&at(number), json!({"metadata": {"annotations": {owner: words.join(" ")}}})).await;
        }
        let others = At::config_map(&ns, "others");
        alice.merge(&others, json!({"data": {"key": "evil"}})).await;
        world.start_hub().await;
        alice.when(&others, "repaired", says("one")).await;
        for number in 0..OBJECTS {
            let forged = |live: &Value| live["metadata"]["annotations"].to_string().contains("999999");
            alice.when(&at(number), "stamped by the hub again", |live| !forged(live)).await;
        }
        world.ready("shop").await;
        world.end().await;
    });
}

/// Takes away the last of berlin's VidraInventories while the hub does not run. One of the objects that stood in it.
async fn lose_a_part_of_the_inventory(world: &mut World) -> String {
    world.stop_hub().await;
    let mut parts = world.hub.list(&At::new("vidra.dev/v1alpha1", "VidraInventory", &world.ns, "")).await;
    assert!(parts.len() > 1, "an inventory in several parts");
    parts.sort_by_key(|part| part["spec"]["chunk"].as_i64());
    let last = parts.pop().unwrap();
    let name = last["metadata"]["name"].as_str().unwrap();
    let at = At::new("vidra.dev/v1alpha1", "VidraInventory", &world.ns, name);
    world.hub.merge(&at, json!({"metadata": {"finalizers": null}})).await;
    world.hub.delete(&at).await;
    world.hub.gone(&at).await;
    // group/version/kind/namespace/name/...
    let entry = last["spec"]["entries"][0].as_str().unwrap();
    entry.split('/').nth(4).unwrap().to_owned()
}

#[test]
fn what_stood_in_a_lost_part_of_an_inventory_is_known_again_and_goes_when_it_is_dropped() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let berlin = world.alice("berlin").await;
        // More than one VidraInventory holds.
        let mut names: Vec<_> = (0..503).map(|number| format!("settings-{number}")).collect();
        let manifest =
            |names: &[String]| names.iter().map(|name| config_map(name, "one")).collect::<String>();
        world.deliver("shop", &["berlin"], &manifest(&names)).await;
        world.ready("shop").await;
        let dropped = lose_a_part_of_the_inventory(&mut world).await;
        names.retain(|name| *name != dropped);
        world.deliver("shop", &["berlin"], &manifest(&names)).await;
        world.start_hub().await;
        berlin.gone(&At::config_map(&world.ns, &dropped)).await;
        world.ready("shop").await;
        wait_for("the inventory is whole", SOON, async || {
            let held = world.inventory("shop", "berlin").await.len();
            if held == names.len() { Ok(()) } else { Err(held.to_string()) }
        })
        .await;

        // Nor does what nobody knew stay when all goes.
        let last = lose_a_part_of_the_inventory(&mut world).await;
        world.hub.delete(&world.resource_at("shop")).await;
        world.start_hub().await;
        world.removed("shop").await;
        assert!(berlin.get(&At::config_map(&world.ns, &last)).await.is_none());
        world.end().await;
    });
}

#[test]
fn a_hub_that_is_behind_its_members_holds_its_writes_until_a_person_confirms() {
    scenario(async |mut world| {
        let (mark, message) = behind(&mut world).await;
        assert!(message.contains("vidra.dev/confirm=restore") && message.contains("settings-0"), "{message}");
        world.resource_says("shop", "Stalled", "True", "TargetsFailed").await;
        // Neither a look now nor a restart gets round it.
        world.reconcile_now("shop", "1").await;
        world.restart_hub().await;
        world.look("shop", "2", 1).await;
        world.target_is("shop", "berlin", TargetState::Failed, "HubRestored").await;
        assert_eq!(world.writes("berlin", &mark), []);
        all_say(&world, "two").await;

        let member = world.member_at("berlin");
        world
            .hub
            .merge(&member, json!({"metadata": {"annotations": {"vidra.dev/confirm": "restore"}}}))
            .await;
        world.ready("shop").await;
        all_say(&world, "one").await;
        // The word was for this once.
        let said = |member: &Value| member["metadata"]["annotations"].get("vidra.dev/confirm").is_some();
        world.hub.when(&member, "the confirmation is taken off", |member| !said(member)).await;
        world.end().await;
    });
}

#[test]
fn a_hub_that_is_behind_its_members_takes_nothing_away_until_a_person_confirms() {
    scenario(async |mut world| {
        let others = config_map("others", "one");
        world.register(&["berlin"]).await;
        world.deliver("other", &["berlin"], &others).await;
        world.ready("other").await;
        delivered_and_lost(&mut world).await;
        let mark = world.mark();
        world.deliver("other", &["berlin"], &others).await;
        world.deliver("shop", &["berlin"], &manifest("one")).await;
        world.start_hub().await;
        world.target_is("shop", "berlin", TargetState::Failed, "HubRestored").await;
        world.ready("other").await;
        world.hub.delete(&world.resource_at("other")).await;
        let is_held = |target: &Value| {
            let (spec, status) = (&target["spec"], &target["status"]);
            spec["desired"] == "Absent"
                && status["observedGeneration"] == target["metadata"]["generation"]
                && status["reason"] == "HubRestored"
        };
        world.hub.when(&world.target_at("other", "berlin"), "held", is_held).await;
        world.restart_hub().await;
        world.reconcile_now("shop", "1").await;
        world.look("shop", "2", 1).await;
        assert_eq!(world.writes("berlin", &mark), []);
        let alice = world.alice("berlin").await;
        let at = At::config_map(&world.ns, "others");
        assert!(says("one")(&alice.live(&at).await));

        let confirmed = json!({"metadata": {"annotations": {"vidra.dev/confirm": "restore"}}});
        world.hub.merge(&world.member_at("berlin"), confirmed).await;
        world.removed("other").await;
        alice.gone(&at).await;
        world.end().await;
    });
}

#[test]
fn a_hub_that_is_behind_goes_on_by_itself_when_the_later_declarations_are_applied() {
    scenario(async |mut world| {
        let (mark, _) = behind(&mut world).await;
        world.deliver("shop", &["berlin"], &manifest("two")).await;
        world.ready("shop").await;
        assert_eq!(world.writes("berlin", &mark), []);
        all_say(&world, "two").await;
        world.end().await;
    });
}

/// Nothing that both declare is otherwise, and what is added is the smaller part: nothing else would hold.
#[test]
fn what_only_later_declarations_have_stays_where_a_hub_begins_again_with_earlier_ones() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let added: Vec<_> = (0..OBJECTS - 1).map(|number| format!("added-{number}")).collect();
        let later = manifest("one") + &added.iter().map(|name| config_map(name, "one")).collect::<String>();
        world.deliver("shop", &["berlin"], &manifest("one")).await;
        world.ready("shop").await;
        world.deliver("shop", &["berlin"], &later).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let mut before = Vec::new();
        for name in &added {
            before.push(alice.live(&At::config_map(&world.ns, name)).await);
        }
        world.stop_hub().await;
        lose_all_but_the_identity(&world).await;

        let mark = world.mark();
        world.deliver("shop", &["berlin"], &manifest("one")).await;
        world.start_hub().await;
        world.ready("shop").await;
        let has = async |objects: usize| {
            wait_for("the inventory has what is declared", SOON, async || {
                let held = world.inventory("shop", "berlin").await.len();
                if held == objects { Ok(()) } else { Err(held.to_string()) }
            })
            .await;
        };
        has(OBJECTS).await;
        world.resource_says("shop", "Removing", "False", "Nothing").await;
        assert_eq!(world.writes("berlin", &mark), []);

        world.deliver("shop", &["berlin"], &later).await;
        world.ready("shop").await;
        has(2 * OBJECTS - 1).await;
        for live in &before {
            assert_eq!(uid(&alice.live(&At::of(live)).await), uid(live));
        }
        world.end().await;
    });
}

#[test]
fn a_confirmation_is_for_once_though_a_suspended_resource_has_a_target_there() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        world.deliver("other", &["berlin"], &config_map("others", "one")).await;
        world.ready("other").await;
        delivered_and_lost(&mut world).await;
        world.deliver("other", &["berlin"], &config_map("others", "one")).await;
        world.deliver("shop", &["berlin"], &manifest("one")).await;
        world.start_hub().await;
        world.target_is("shop", "berlin", TargetState::Failed, "HubRestored").await;
        world.ready("other").await;
        world.hub.merge(&world.resource_at("other"), json!({"spec": {"suspend": true}})).await;
        world.target_is("other", "berlin", TargetState::Suspended, "Suspended").await;
        world.restart_hub().await;
        let member = world.member_at("berlin");
        let word = json!({"metadata": {"annotations": {"vidra.dev/confirm": "restore"}}});
        world.hub.merge(&member, word).await;
        world.ready("shop").await;
        all_say(&world, "one").await;
        let said = |member: &Value| member["metadata"]["annotations"].get("vidra.dev/confirm").is_some();
        world.hub.when(&member, "the confirmation is taken off", |member| !said(member)).await;
        world.end().await;
    });
}

#[test]
fn a_few_objects_from_later_declarations_hold_nothing() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        for value in ["one", "two"] {
            world.deliver("shop", &["berlin"], &config_map("settings", value)).await;
            world.ready("shop").await;
        }
        world.stop_hub().await;
        lose_all_but_the_identity(&world).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.start_hub().await;
        world.ready("shop").await;
        let settings = world.alice("berlin").await.live(&At::config_map(&world.ns, "settings")).await;
        assert!(says("one")(&settings));
        world.end().await;
    });
}

/// Deletes the Secrets of all revisions by hand.
async fn lose_revisions(world: &World) -> usize {
    let revisions = revisions(world).await;
    for secret in &revisions {
        world.hub.delete(&At::of(&with_kind(secret))).await;
    }
    revisions.len()
}

/// An item of a list does not say of what kind it is.
fn with_kind(secret: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": secret["metadata"]})
}

#[test]
fn a_revision_whose_secret_is_lost_is_repaired_before_and_after_a_restart() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        assert_eq!(lose_revisions(&world).await, 1);
        for restarted in [false, true] {
            if restarted {
                world.restart_hub().await;
            }
            alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
            alice.when(&settings, "it is repaired", says("one")).await;
            world.ready("shop").await;
        }
        // What is declared is kept again.
        wait_for("a Secret of the revision", SOON, async || match revisions(&world).await.len() {
            1 => Ok(()),
            count => Err(format!("there are {count}")),
        })
        .await;
        world.end().await;
    });
}

#[test]
fn a_revision_whose_secret_is_lost_while_the_manifest_cannot_be_read_is_told_until_that_is_mended() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let mark = world.mark();
        world.deliver("shop", &["berlin"], "no: manifest").await;
        world.resource_says("shop", "Stalled", "True", "ManifestInvalid").await;
        world.stop_hub().await;
        assert_eq!(lose_revisions(&world).await, 1);
        world.start_hub().await;
        world.target_is("shop", "berlin", TargetState::Failed, "RevisionUnavailable").await;
        assert_eq!(world.writes("berlin", &mark), []);

        world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
        world.ready("shop").await;
        let settings = world.alice("berlin").await.live(&At::config_map(&world.ns, "settings")).await;
        assert!(says("two")(&settings));
        world.end().await;
    });
}

#[test]
fn a_revision_whose_secret_is_lost_is_made_again_though_a_setting_bars_what_is_declared() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let at = At::new("v1", "Secret", &world.ns, "password");
        let secret = |key: &str| {
            object(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"},
                "stringData": {"key": key}}))
        };
        world.deliver("shop", &["berlin"], &secret("one")).await;
        world.ready("shop").await;
        set(&world, json!({"allowInlineSecrets": "false"})).await;
        world.resource_says("shop", "Stalled", "True", "ManifestInvalid").await;
        world.stop_hub().await;
        assert_eq!(lose_revisions(&world).await, 1);
        let alice = world.alice("berlin").await;
        alice.delete(&at).await;
        world.start_hub().await;
        alice.when(&at, "it is repaired", |_| true).await;
        let kept = wait_for("a Secret of the revision", SOON, async || match &*revisions(&world).await {
            [one] => Ok(one["metadata"]["name"].clone()),
            all => Err(format!("there are {}", all.len())),
        })
        .await;
        world.resource_says("shop", "Stalled", "True", "ManifestInvalid").await;

        // What is declared newly is barred, and nothing of it is kept.
        world.deliver("shop", &["berlin"], &secret("two")).await;
        world.reconcile_now("shop", "1").await;
        let names: Vec<_> =
            revisions(&world).await.iter().map(|one| one["metadata"]["name"].clone()).collect();
        assert_eq!(names, [kept]);
        set(&world, json!({})).await;
        world.ready("shop").await;
        alice.when(&at, "as declared now", |live| live["data"]["key"] == "dHdv").await;
        world.end().await;
    });
}

/// A MemberCluster is gone without its having left: no finalizer of the hub was heeded.
async fn lose_member(world: &World, name: &str) {
    let member = world.member_at(name);
    world.hub.merge(&member, json!({"metadata": {"finalizers": null}})).await;
    world.hub.delete(&member).await;
    world.hub.gone(&member).await;
}

/// berlin's MemberCluster is lost while no hub runs; what is asked of the clusters from when one runs again.
async fn berlin_is_lost(world: &mut World) -> Mark {
    world.stop_hub().await;
    lose_member(world, "berlin").await;
    let mark = world.mark();
    world.start_hub().await;
    mark
}

#[test]
fn what_a_label_on_a_member_selected_stays_when_its_membercluster_is_lost_and_registered_again() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let label = |value: Value| json!({"metadata": {"labels": {"pool": value}}});
        world.hub.merge(&world.member_at("berlin"), label("on".into())).await;
        let targets = json!({"targets": [{"clusterSelector": {"matchLabels": {"pool": "on"}}}]});
        world.deliver_with("shop", &config_map("settings", "one"), targets).await;
        world.ready("shop").await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let made = alice.live(&settings).await;

        let mark = berlin_is_lost(&mut world).await;
        // The Secret, which has no such label, brings the member back, and the hub has the time to work there.
        world.member_says("berlin", "Ready", "True").await;
        world.deliver("marker", &["berlin"], &config_map("marker", "one")).await;
        world.ready("marker").await;
        assert_eq!(alice.get(&settings).await, Some(made), "nobody wished it away");
        world.resource_says("shop", "Stalled", "True", "RemovalHeld").await;
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);

        world.hub.merge(&world.member_at("berlin"), label("on".into())).await;
        world.ready("shop").await;
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);
        world.end().await;
    });
}

#[test]
fn what_a_label_selected_on_one_of_two_members_stays_when_its_membercluster_is_made_again_without_it() {
    scenario(async |mut world| {
        world.register(&["berlin", "tokyo"]).await;
        let label = |value: Value| json!({"metadata": {"labels": {"pool": value}}});
        for member in ["berlin", "tokyo"] {
            world.hub.merge(&world.member_at(member), label("on".into())).await;
        }
        let targets = json!({"targets": [{"clusterSelector": {"matchLabels": {"pool": "on"}}}]});
        world.deliver_with("shop", &config_map("settings", "one"), targets).await;
        world.ready("shop").await;
        wait_for("both are targets", SOON, async || match world.target("shop", "berlin").await.is_some() {
            true => Ok(()),
            false => Err("berlin is none".into()),
        })
        .await;
        world.ready("shop").await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let made = alice.live(&settings).await;

        let mark = berlin_is_lost(&mut world).await;
        world.member_says("berlin", "Ready", "True").await;
        let held = world.resource_says("shop", "Stalled", "True", "RemovalHeld").await;
        let told = format!("{:?}", held.status);
        assert!(told.contains("MemberCluster berlin was made again"), "{told}");
        // The hub has the time to work there.
        world.deliver("marker", &["berlin"], &config_map("marker", "one")).await;
        world.ready("marker").await;
        assert_eq!(alice.get(&settings).await, Some(made), "nobody took it back");

        world.hub.merge(&world.member_at("berlin"), label("on".into())).await;
        world.ready("shop").await;
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);
        // From then on a person who takes the label off has their way.
        world.hub.merge(&world.member_at("berlin"), label(Value::Null)).await;
        alice.gone(&settings).await;
        world.end().await;
    });
}

/// Waits until shop is held because of MemberCluster berlin; the message.
async fn held_as_remade(world: &World) -> String {
    wait_for("held, for it was made again", SOON, async || {
        let message = held(world, "shop").await;
        if message.contains("MemberCluster berlin was made again") { Ok(message) } else { Err(message) }
    })
    .await
}

/// One object in the member berlin by a label, and in the second namespace without it; whoever edits it there, where it is,
/// and that namespace.
async fn settings_by_label(world: &World) -> (Access, At, String) {
    world.register(&["berlin"]).await;
    world.hub.merge(&world.member_at("berlin"), pool_on()).await;
    let rest = format!("{}-rest", world.ns);
    let targets = json!([
        {"clusterSelector": {"matchLabels": {"pool": "on"}}},
        {"clusterSelector": {}, "namespace": rest},
    ]);
    world.deliver_with("shop", &config_map("settings", "one"), json!({"targets": targets})).await;
    world.ready("shop").await;
    (world.alice("berlin").await, At::config_map(&world.ns, "settings"), rest)
}

fn pool_on() -> Value {
    json!({"metadata": {"labels": {"pool": "on"}}})
}

/// Another entry selects it for another namespace then.
#[test]
fn what_a_label_selected_for_a_namespace_stays_there_when_its_membercluster_is_made_again_without_it() {
    scenario(async |mut world| {
        let (alice, settings, rest) = settings_by_label(&world).await;
        let made = alice.live(&settings).await;

        let mark = berlin_is_lost(&mut world).await;
        world.member_says("berlin", "Ready", "True").await;
        held_as_remade(&world).await;
        world.hub.merge(&world.member_at("berlin"), pool_on()).await;
        world.ready("shop").await;
        assert_eq!(alice.live(&settings).await, made);
        assert_eq!(world.writes("berlin", &mark), []);
        // From then on a person who takes the label off has their way.
        let none = json!({"metadata": {"labels": {"pool": null}}});
        world.hub.merge(&world.member_at("berlin"), none).await;
        alice.gone(&settings).await;
        alice.live(&At::config_map(&rest, "settings")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn what_a_remade_member_has_in_another_namespace_goes_by_a_word_that_is_used_up() {
    scenario(async |mut world| {
        let (alice, settings, rest) = settings_by_label(&world).await;

        berlin_is_lost(&mut world).await;
        let message = held_as_remade(&world).await;
        world.hub.merge(&world.resource_at("shop"), approval(&message)).await;

        alice.gone(&settings).await;
        alice.live(&At::config_map(&rest, "settings")).await;
        world.ready("shop").await;
        let resource = world.hub.live(&world.resource_at("shop")).await;
        let annotation = &resource["metadata"]["annotations"]["vidra.dev/approve-removal"];
        assert!(annotation.is_null(), "{annotation}");
        assert_eq!(crate::events(&world, "ApprovalIgnored").await, Vec::<String>::new());
        world.end().await;
    });
}

#[test]
fn a_target_whose_membercluster_is_missing_says_so_and_waits_for_it() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let made = alice.live(&settings).await;

        world.stop_hub().await;
        lose_member(&world, "berlin").await;
        world.hub.delete(&world.registration("berlin")).await;
        let mark = world.mark();
        world.start_hub().await;
        let message = world.target_is("shop", "berlin", TargetState::Unknown, "MemberMissing").await;
        assert!(message.contains("no wish to leave"), "{message}");

        world.register(&["berlin"]).await;
        world.ready("shop").await;
        assert_eq!(alice.get(&settings).await, Some(made), "nobody wished it away");
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);
        world.end().await;
    });
}

#[test]
fn a_hub_that_is_behind_by_a_few_objects_in_each_of_many_resources_holds_its_writes_too() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        // Of each as few as may be an accident; together they are none.
        let name = |number: usize| format!("shop-{number}");
        let manifest = |number: usize, value: &str| -> String {
            (0..4).map(|one| config_map(&format!("settings-{number}-{one}"), value)).collect()
        };
        for value in ["one", "two"] {
            for number in 0..2 {
                world.deliver(&name(number), &["berlin"], &manifest(number, value)).await;
                world.ready(&name(number)).await;
            }
        }
        world.stop_hub().await;
        lose_all_but_the_identity(&world).await;
        let mark = world.mark();
        for number in 0..2 {
            world.deliver(&name(number), &["berlin"], &manifest(number, "one")).await;
        }
        world.start_hub().await;
        wait_for("both were looked at", SOON, async || {
            let mut states = Vec::new();
            for number in 0..2 {
                let target = world.target(&name(number), "berlin").await.ok_or("no target yet")?;
                states.push(target.status.and_then(|status| status.state).ok_or("no state yet")?);
            }
            match states.contains(&TargetState::Progressing) {
                true => Err(format!("{states:?}")),
                false => Ok(()),
            }
        })
        .await;
        assert_eq!(world.writes("berlin", &mark), [], "what was applied from later declarations is undone");
        for number in 0..2 {
            world.target_is(&name(number), "berlin", TargetState::Failed, "HubRestored").await;
            world.look(&name(number), "1", 1).await;
        }
        assert_eq!(world.writes("berlin", &mark), []);
        let confirm = json!({"metadata": {"annotations": {"vidra.dev/confirm": "restore"}}});
        world.hub.merge(&world.member_at("berlin"), confirm).await;
        for number in 0..2 {
            world.ready(&name(number)).await;
        }
        world.end().await;
    });
}

/// What is said of a member in Events for this reason, each text once.
async fn said_of(world: &World, member: &str, reason: &str) -> BTreeSet<String> {
    let uid = world.member(member).await.and_then(|member| member.metadata.uid).expect("it is registered");
    let all = world.hub.list(&At::new("events.k8s.io/v1", "Event", "", "")).await;
    let of =
        all.iter().filter(|event| event["reason"] == reason && event["regarding"]["uid"] == uid.as_str());
    of.map(|event| event["note"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_hub_that_is_behind_two_members_writes_nothing_to_either_and_says_so_in_the_same_words() {
    scenario(async |mut world| {
        let members = ["berlin", "tokyo"];
        world.register(&members).await;
        // One of which later declarations have dropped an object that a hub that is behind would make again.
        let names = ["aside", "shop-0", "shop-1"];
        let manifest = |name: &str, value: &str| -> String {
            let settings = |number| config_map(&format!("{name}-{number}"), value);
            match (name, value) {
                ("aside", "one") => config_map("kept", "one") + &config_map("dropped", "one"),
                ("aside", _) => config_map("kept", "one"),
                _ => (0..4).map(settings).collect(),
            }
        };
        for value in ["one", "two"] {
            for name in names {
                world.deliver(name, &members, &manifest(name, value)).await;
                world.ready(name).await;
            }
        }
        for member in members {
            world.alice(member).await.gone(&At::config_map(&world.ns, "dropped")).await;
        }
        world.stop_hub().await;
        lose_all_but_the_identity(&world).await;
        let mark = world.mark();
        for name in names {
            world.deliver(name, &members, &manifest(name, "one")).await;
        }
        world.start_hub().await;
        for (name, member) in names.iter().flat_map(|name| members.map(|member| (name, member))) {
            world.target_is(name, member, TargetState::Failed, "HubRestored").await;
        }
        for member in members {
            assert_eq!(world.writes(member, &mark), [], "{member}");
            wait_for("an Event", SOON, async || match said_of(&world, member, "HubRestored").await.len() {
                0 => Err("none yet".to_owned()),
                _ => Ok(()),
            })
            .await;
        }
        for name in names {
            world.look(name, "1", 2).await;
        }
        let mut said = BTreeSet::new();
        for member in members {
            assert_eq!(world.writes(member, &mark), [], "{member}");
            let texts = said_of(&world, member, "HubRestored").await;
            said.extend(texts.into_iter().map(|text| text.replace(member, "MEMBER")));
        }
        assert_eq!(said.len(), 1, "{said:?}");
        for member in members {
            let confirm = json!({"metadata": {"annotations": {"vidra.dev/confirm": "restore"}}});
            world.hub.merge(&world.member_at(member), confirm).await;
        }
        for name in names {
            world.ready(name).await;
        }
        world.end().await;
    });
}

/// As a backup tool brings one back.
#[test]
fn a_part_of_an_inventory_that_holds_what_stands_in_another_is_let_go() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let at = |name: &str| At::new("vidra.dev/v1alpha1", "VidraInventory", &world.ns, name);
        let mut second = world.hub.live(&at("shop.berlin.0")).await;
        let (labels, finalizers) = (&second["metadata"]["labels"], &second["metadata"]["finalizers"]);
        second["metadata"] = json!({"name": "shop.berlin.1", "namespace": world.ns, "labels": labels,
            "finalizers": finalizers});
        (second["spec"]["chunk"], second["spec"]["chunks"]) = (json!(1), json!([0]));
        world.hub.create(second).await;
        world.hub.gone(&at("shop.berlin.1")).await;
        world.recorded("shop", &["berlin"]).await;
        world.end().await;
    });
}

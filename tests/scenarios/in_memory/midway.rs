//! What changes in the middle of long work: a pass over hundreds of objects does not go on after contact is lost, nor
//! after it is not wished any more. Only members in memory are slow in the way that is needed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use memkube::{Call, Cluster, Fault, Verb};
use serde_json::{Value, json};
use testkit::world::{At, SOON, Who, World, wait_for};
use vidra_api::{DesiredState, TargetState};

use super::{memory, scenario};
use crate::{config_map, member_without_credentials, says, uid};

/// Far more than are in flight at once.
const MANY: usize = 300;
/// So many calls of the hub to one member may be in flight.
const IN_FLIGHT: usize = 32;

fn name(number: usize) -> String {
    format!("c{number:03}")
}

fn manifest() -> String {
    (0..MANY).map(|number| config_map(&name(number), "one")).collect()
}

fn berlin(world: &World) -> Cluster {
    memory(world, "berlin")
}

/// The hub's calls of a kind to ConfigMaps of berlin from a point in its record on, unanswered ones too.
fn calls(world: &World, verb: Verb, from: u64) -> usize {
    let all = berlin(world).requests().into_iter();
    all.filter(|call| call.index >= from && &*call.user == "vidra-hub" && call.resource == "configmaps")
        .filter(|call| call.verb == verb)
        .count()
}

fn now(world: &World) -> u64 {
    berlin(world).requests().last().map_or(0, |call| call.index + 1)
}

#[test]
fn a_member_that_falls_silent_in_the_middle_of_a_delivery_is_sent_nothing_more_until_it_answers() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let applied = AtomicUsize::new(0);
        let silent = move |call: &Call| {
            if &*call.user != "vidra-hub" {
                return Fault::None;
            }
            let is_one = call.verb == Verb::Apply && call.resource == "configmaps";
            let before = applied.fetch_add(usize::from(is_one), Ordering::Relaxed);
            if before >= 10 { Fault::Hang } else { Fault::None }
        };
        berlin(&world).set_fault(Arc::new(silent));
        world.deliver("shop", &["berlin"], &manifest()).await;
        world.member_says("berlin", "Reachable", "False").await;
        let lost = now(&world);
        tokio::time::sleep(Duration::from_secs(120)).await;
        let sent = calls(&world, Verb::Apply, lost);
        assert_eq!(sent, 0, "applies sent to a member after the hub had said that it does not answer");
        world.target_is("shop", "berlin", TargetState::Unknown, "MemberUnreachable").await;

        berlin(&world).clear_fault();
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn what_somebody_asks_to_keep_while_the_call_that_deletes_it_is_under_way_stays() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, old) = (world.alice("berlin").await, At::config_map(&world.ns, "old"));
        let settings = config_map("settings", "one");
        world.deliver("shop", &["berlin"], &(settings.clone() + &config_map("old", "one"))).await;
        world.ready("shop").await;
        let slow = |call: &Call| match call.verb == Verb::Delete && call.resource == "configmaps" {
            true => Fault::Delay(Duration::from_secs(3)),
            false => Fault::None,
        };
        berlin(&world).set_fault(Arc::new(slow));
        let mark = now(&world);
        world.deliver("shop", &["berlin"], &settings).await;
        wait_for("the call that deletes it", SOON, async || match calls(&world, Verb::Delete, mark) {
            0 => Err("nothing is deleted".into()),
            _ => Ok(()),
        })
        .await;
        alice.merge(&old, json!({"metadata": {"annotations": {"vidra.dev/prune": "disabled"}}})).await;
        let is_let_go = |live: &Value| live["metadata"]["labels"]["vidra.dev/hub"].is_null();
        let left = alice.when(&old, "let go", is_let_go).await;
        assert!(left["metadata"]["deletionTimestamp"].is_null(), "{left}");
        berlin(&world).clear_fault();
        world.ready("shop").await;
        world.end().await;
        alice.delete(&old).await;
    });
}

/// It is for another removal, and is not taken off with the one that was used up.
#[test]
fn a_word_that_is_written_while_an_earlier_one_is_taken_over_stays() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let maps = |names: &[&str]| names.iter().map(|name| config_map(name, "one")).collect::<String>();
        world.deliver("shop", &["berlin"], &maps(&["a", "b", "c", "d", "e"])).await;
        world.ready("shop").await;
        world.deliver("shop", &["berlin"], &maps(&["a"])).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "RemovalHeld").await;
        let (_, hash) = message.rsplit_once("vidra.dev/approve-removal=").expect("it says what approves it");
        // Until the target is told takes long.
        let hub = memory(&world, "hub");
        let stuck = |call: &Call| match call.verb == Verb::Update && call.resource == "vidratargets" {
            true => Fault::Late(Duration::from_secs(5)),
            false => Fault::None,
        };
        hub.set_fault(Arc::new(stuck));
        let approve = |hash: &str| json!({"metadata": {"annotations": {"vidra.dev/approve-removal": hash}}});
        world.hub.merge(&world.resource_at("shop"), approve(hash)).await;
        let is_told = |target: &Value| target["spec"]["approvedRemoval"] == *hash;
        world.hub.when(&world.target_at("shop", "berlin"), "told", is_told).await;
        world.hub.merge(&world.resource_at("shop"), approve("0123456789")).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        hub.clear_fault();
        world.ready("shop").await;
        let annotations = &world.hub.live(&world.resource_at("shop")).await["metadata"]["annotations"];
        assert_eq!(annotations["vidra.dev/approve-removal"], "0123456789", "{annotations}");
        world.end().await;
    });
}

#[test]
fn a_removal_ends_when_what_it_removes_is_wanted_again() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        world.deliver("shop", &["berlin", "tokyo"], &manifest()).await;
        world.ready("shop").await;
        let slow = |call: &Call| match call.verb == Verb::Delete && call.resource == "configmaps" {
            true => Fault::Delay(Duration::from_secs(1)),
            false => Fault::None,
        };
        berlin(&world).set_fault(Arc::new(slow));
        let mark = now(&world);
        world.deliver("shop", &["tokyo"], &manifest()).await;
        wait_for("the removal has begun", SOON, async || match calls(&world, Verb::Delete, mark) {
            0 => Err("nothing is deleted".into()),
            _ => Ok(()),
        })
        .await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = calls(&world, Verb::Delete, mark);
        world.deliver("shop", &["berlin", "tokyo"], &manifest()).await;
        world.ready("shop").await;
        let after = calls(&world, Verb::Delete, mark);
        assert!(
            after <= before + IN_FLIGHT,
            "{before} of {MANY} were deleted when all were wanted again, {after} in the end"
        );
        let alice = world.alice("berlin").await;
        alice.live(&At::config_map(&world.ns, &name(MANY - 1))).await;
        berlin(&world).clear_fault();
        world.end().await;
    });
}

#[test]
fn a_removal_stops_when_its_objects_are_to_stay_though_the_hubs_api_takes_no_target() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &manifest()).await;
        world.ready("shop").await;
        let slow = |call: &Call| match call.verb == Verb::Delete && call.resource == "configmaps" {
            true => Fault::Delay(Duration::from_secs(1)),
            false => Fault::None,
        };
        berlin(&world).set_fault(Arc::new(slow));
        let mark = now(&world);
        world.hub.delete(&world.resource_at("shop")).await;
        wait_for("the removal has begun", SOON, async || match calls(&world, Verb::Delete, mark) {
            0 => Err("nothing is deleted".into()),
            _ => Ok(()),
        })
        .await;
        // Until the target is told otherwise takes long.
        let hub = memory(&world, "hub");
        let stuck = |call: &Call| match call.verb == Verb::Update && call.resource == "vidratargets" {
            true => Fault::Delay(Duration::from_secs(12)),
            false => Fault::None,
        };
        hub.set_fault(Arc::new(stuck));
        world.hub.merge(&world.resource_at("shop"), json!({"spec": {"deletionPolicy": "Orphan"}})).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = calls(&world, Verb::Delete, mark);
        assert!(before < MANY / 2, "{before} of {MANY} were deleted when all were to stay");
        tokio::time::sleep(Duration::from_secs(9)).await;
        let after = calls(&world, Verb::Delete, mark);
        assert!(after <= before + IN_FLIGHT, "{before} of {MANY} were deleted, then {after}");
        hub.clear_fault();
        berlin(&world).clear_fault();
        world.removed("shop").await;
        let alice = world.alice("berlin").await;
        let names = (0..MANY).map(|number| At::config_map(&world.ns, &name(number)));
        let mut left = 0;
        for at in names {
            left += usize::from(alice.get(&at).await.is_some());
        }
        assert!(left >= MANY - after, "{left} of {MANY} are left");
        world.end().await;
    });
}

#[test]
fn a_removal_ends_when_another_resource_comes_to_declare_what_it_removes() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &manifest()).await;
        world.ready("shop").await;
        let slow = |call: &Call| match call.verb == Verb::Delete && call.resource == "configmaps" {
            true => Fault::Delay(Duration::from_secs(1)),
            false => Fault::None,
        };
        berlin(&world).set_fault(Arc::new(slow));
        let mark = now(&world);
        world.hub.delete(&world.resource_at("shop")).await;
        wait_for("the removal has begun", SOON, async || match calls(&world, Verb::Delete, mark) {
            0 => Err("nothing is deleted".into()),
            _ => Ok(()),
        })
        .await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        // It is told of a typing error, and applies nothing yet.
        world.deliver("second", &["berlin"], &(manifest() + "---\nkind: [\n")).await;
        let before = calls(&world, Verb::Delete, mark);
        tokio::time::sleep(Duration::from_secs(30)).await;
        let after = calls(&world, Verb::Delete, mark);
        assert!(
            after <= before + IN_FLIGHT,
            "{before} of {MANY} were deleted when all were declared elsewhere, {after} in the end"
        );
        let (alice, last) = (world.alice("berlin").await, At::config_map(&world.ns, &name(MANY - 1)));
        let kept = alice.live(&last).await;
        berlin(&world).clear_fault();
        world.deliver("second", &["berlin"], &manifest()).await;
        world.removed("shop").await;
        world.ready("second").await;
        assert_eq!(uid(&alice.live(&last).await), uid(&kept));
        world.end().await;
    });
}

/// What the guard of objects holds is overdue when somebody puts it right.
#[test]
fn what_moves_in_the_apply_that_ends_a_hold_stays_the_object_that_it_is() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, moved) = (world.alice("berlin").await, At::config_map(&world.ns, "moved"));
        let all = |names: &[&str]| names.iter().map(|name| config_map(name, "one")).collect::<String>();
        let deliver = async |resource: &str, names: &[&str]| {
            world.deliver(resource, &["berlin"], &all(names)).await;
        };
        deliver("first", &["first", "moved", "a", "b", "c"]).await;
        deliver("second", &["second"]).await;
        world.ready("first").await;
        world.ready("second").await;
        let before = alice.live(&moved).await;
        deliver("first", &["first"]).await;
        world.target_is("first", "berlin", TargetState::Failed, "RemovalHeld").await;

        // As kubectl sends the documents of a file: one after the other.
        deliver("first", &["first", "a", "b", "c"]).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        deliver("second", &["second", "moved"]).await;
        world.ready("first").await;
        world.ready("second").await;
        assert_eq!(uid(&alice.live(&moved).await), uid(&before), "it was deleted and made again");
        world.end().await;
    });
}

#[test]
fn a_younger_name_of_a_cluster_writes_nothing_more_once_the_older_one_is_admitted() {
    scenario(async |world| {
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        member_without_credentials(&world, "austin").await;
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let hub = memory(&world, "hub");
        // The younger one's own reconcile takes long to say so.
        let stuck = |call: &Call| match call.verb == Verb::Update
            && call.resource == "memberclusters"
            && &*call.name == "berlin"
        {
            true => Fault::Delay(Duration::from_secs(12)),
            false => Fault::None,
        };
        hub.set_fault(Arc::new(stuck));
        world.register_as("austin", &world.kubeconfig("berlin", Who::VidraHub), json!({})).await;
        world.member_says("austin", "Ready", "True").await;
        alice.merge(&settings, json!({"data": {"key": "alice's"}})).await;
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert!(says("alice's")(&alice.live(&settings).await), "two names have one cluster");
        hub.clear_fault();
        world.member_says("berlin", "IdentityConfirmed", "False").await;
        world.hub.delete(&world.member_at("berlin")).await;
        world.hub.gone(&world.member_at("berlin")).await;
        // The hub has let go of nothing there.
        alice.delete(&settings).await;
        world.end().await;
    });
}

#[test]
fn a_younger_name_that_is_admitted_beside_the_older_one_writes_nothing() {
    scenario(async |world| {
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        member_without_credentials(&world, "austin").await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        let hub = memory(&world, "hub");
        // The younger one waits for its first status, and then for the one that says who answers.
        let slow = |call: &Call| {
            let is_its = call.resource == "memberclusters" && &*call.name == "berlin";
            match is_its && call.verb == Verb::Update {
                true => Fault::Delay(Duration::from_secs(12)),
                false => Fault::None,
            }
        };
        hub.set_fault(Arc::new(slow));
        world.register_as("berlin", &world.kubeconfig("berlin", Who::VidraHub), json!({})).await;
        tokio::time::sleep(Duration::from_secs(18)).await;
        world.register_as("austin", &world.kubeconfig("berlin", Who::VidraHub), json!({})).await;
        world.member_says("austin", "Ready", "True").await;
        tokio::time::sleep(Duration::from_secs(15)).await;
        alice.gone(&settings).await;
        hub.clear_fault();
        world.member_says("berlin", "IdentityConfirmed", "False").await;
        alice.gone(&settings).await;
        world.end().await;
    });
}

/// How many VidraTargets the hub has tried to make, unanswered ones too.
fn attempts(hub: &Cluster) -> usize {
    let is_it = |call: &&Call| call.verb == Verb::Create && call.resource == "vidratargets";
    hub.requests().iter().filter(is_it).count()
}

/// From here on it takes long to make a VidraTarget.
fn targets_take_long(world: &World) -> Cluster {
    let hub = memory(world, "hub");
    let slow = |call: &Call| match call.verb == Verb::Create && call.resource == "vidratargets" {
        true => Fault::Delay(Duration::from_secs(5)),
        false => Fault::None,
    };
    hub.set_fault(Arc::new(slow));
    hub
}

/// More than are made at a time.
const IN_TURN: usize = 20;

#[test]
fn for_a_member_that_has_left_before_its_turn_no_target_is_made() {
    scenario(async |world| {
        let members: Vec<_> = (0..IN_TURN).map(|number| format!("m{number:02}")).collect();
        for name in &members {
            member_without_credentials(&world, name).await;
        }
        let hub = targets_take_long(&world);
        let names: Vec<_> = members.iter().map(String::as_str).collect();
        world.deliver("shop", &names, &config_map("settings", "one")).await;
        wait_for("the first are being made", SOON, async || match attempts(&hub) {
            0 => Err("none is".into()),
            _ => Ok(()),
        })
        .await;
        world.hub.delete(&world.member_at("m19")).await;
        world.hub.gone(&world.member_at("m19")).await;
        world.target_is("shop", "m18", TargetState::Unknown, "NoCredentials").await;
        world.resource_says("shop", "Ready", "False", "ClusterNotFound").await;
        assert_eq!(attempts(&hub), IN_TURN - 1);
        hub.clear_fault();
        world.end().await;
    });
}

#[test]
fn a_target_that_was_made_while_its_member_left_goes_again_and_holds_nothing() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let hub = targets_take_long(&world);
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        wait_for("it is being made", SOON, async || match attempts(&hub) {
            0 => Err("it is not".into()),
            _ => Ok(()),
        })
        .await;
        world.hub.delete(&world.member_at("berlin")).await;
        world.hub.gone(&world.member_at("berlin")).await;
        // Told by the pass that made it, or by a later one.
        world.resource_says("shop", "Ready", "False", "ClusterNotFound").await;
        assert_eq!(attempts(&hub), 1);
        world.hub.gone(&world.target_at("shop", "berlin")).await;
        hub.clear_fault();
        world.remove("shop").await;
        world.end().await;
    });
}

#[test]
fn a_target_that_its_resource_is_letting_go_is_none_of_those_that_stay_on_a_member() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        for name in ["left", "kept"] {
            let everywhere = json!({"targets": [{"clusterSelector": {}}]});
            world.deliver_with(name, &config_map(name, "one"), everywhere).await;
            world.ready(name).await;
        }
        let closed = json!({"spec": {"allowedNamespaces": [], "onRevoke": "Orphan"}});
        world.hub.merge(&world.member_at("berlin"), closed).await;
        world.target_is("kept", "berlin", TargetState::Suspended, "NamespaceNotAllowed").await;
        // Until the target is told that it goes takes long.
        let hub = memory(&world, "hub");
        let stuck = |call: &Call| match call.verb == Verb::Update && &*call.name == "left.berlin" {
            true => Fault::Delay(Duration::from_secs(5)),
            false => Fault::None,
        };
        hub.set_fault(Arc::new(stuck));
        let elsewhere = json!({"targets": [{"clusterSelector": {}}], "excludeClusters": ["berlin"]});
        world.deliver_with("left", &config_map("left", "one"), elsewhere).await;
        for turn in 0..4 {
            world.reconcile_now("kept", &turn.to_string()).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let kept = world.target("kept", "berlin").await.expect("it is there");
            assert_eq!(kept.spec.desired, DesiredState::Present, "it is the last that stays there");
        }
        hub.clear_fault();
        world.hub.gone(&world.target_at("left", "berlin")).await;
        world.target_is("kept", "berlin", TargetState::Suspended, "NamespaceNotAllowed").await;
        world.end().await;
    });
}

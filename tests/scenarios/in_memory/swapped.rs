//! Another cluster behind a member's address, as when a name or a proxy is led elsewhere and the credentials are good
//! there too: it gets nothing, however quick that was. In memory only, where a cluster becomes another in a moment.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use memkube::{Call, Fault, Verb};
use serde_json::json;
use testkit::world::{At, SOON, World, wait_for};
use vidra_api::TargetState;

use super::{memory, scenario};
use crate::{config_map, config_map_in};

/// From now on tokyo as it is answers where berlin did: connections broke, and no call failed. Its versions are above
/// berlin's, so that nothing seems to be silent there.
async fn becomes_tokyo(world: &World) {
    let (berlin, tokyo) = (memory(world, "berlin"), memory(world, "tokyo"));
    let alice = world.alice("tokyo").await;
    let mut number = 0;
    while tokyo.revision() <= berlin.revision() {
        alice.create(config_map_in("default", &format!("filler-{number}"), "alice's")).await;
        number += 1;
    }
    berlin.restore(&tokyo.backup());
}

/// Tokyo as it is behind berlin's address was found out, and nothing was written to it.
async fn is_refused(world: &World, mark: &testkit::world::Mark) {
    tokio::time::sleep(Duration::from_secs(120)).await;
    let writes: Vec<_> =
        world.writes("berlin", mark).into_iter().map(|one| (one.verb, one.code, one.name)).collect();
    assert_eq!(writes, [], "sent to another cluster than the one that was confirmed");
    world.member_says("berlin", "IdentityConfirmed", "False").await;
    world.target_is("shop", "berlin", TargetState::Unknown, "IdentityNotConfirmed").await;
}

/// Berlin itself answers again.
async fn answers_again(world: &World, backup: &memkube::Backup) {
    let frozen = world.freeze("berlin");
    world.member_says("berlin", "Reachable", "False").await;
    memory(world, "berlin").restore(backup);
    drop(frozen);
}

/// The same, and all is as it was.
async fn becomes_berlin(world: &World, backup: &memkube::Backup) {
    answers_again(world, backup).await;
    world.ready("shop").await;
}

#[test]
fn another_cluster_that_answers_from_one_moment_to_the_next_gets_nothing() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let backup = memory(&world, "berlin").backup();
        let mark = world.mark();
        becomes_tokyo(&world).await;
        is_refused(&world, &mark).await;
        let settings = At::config_map(&world.ns, "settings");
        assert_eq!(world.alice("berlin").await.get(&settings).await, None);
        becomes_berlin(&world, &backup).await;
        world.end().await;
    });
}

#[test]
fn what_was_being_delivered_when_a_member_fell_silent_does_not_go_to_another_that_answers_in_its_place() {
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
        memory(&world, "berlin").set_fault(Arc::new(silent));
        let manifest: String = (0..300).map(|number| config_map(&format!("c{number:03}"), "one")).collect();
        world.deliver("shop", &["berlin"], &manifest).await;
        world.member_says("berlin", "Reachable", "False").await;
        let backup = memory(&world, "berlin").backup();
        let mark = world.mark();
        becomes_tokyo(&world).await;
        memory(&world, "berlin").clear_fault();
        is_refused(&world, &mark).await;
        becomes_berlin(&world, &backup).await;
        world.end().await;
    });
}

/// A target that goes watches nothing, so no connection breaks and nobody is in doubt before the next probe.
#[test]
fn what_another_cluster_in_its_place_does_not_have_is_not_taken_for_removed() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        alice.merge(&settings, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
        world.hub.delete(&world.resource_at("shop")).await;
        world.target_is("shop", "berlin", TargetState::Terminating, "Removing").await;
        let berlin = memory(&world, "berlin");
        let backup = berlin.backup();
        becomes_tokyo(&world).await;
        // It is looked again every two seconds, and asked who answers every ten.
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(world.target("shop", "berlin").await.is_some(), "its objects are taken for removed");
        answers_again(&world, &backup).await;
        alice.merge(&settings, json!({"metadata": {"finalizers": null}})).await;
        world.removed("shop").await;
        alice.gone(&settings).await;
        world.end().await;
    });
}

/// Another cluster comes to be there when a first list has met this fault.
async fn gets_nothing_where_a_first_list_met(world: World, fault: fn() -> Fault) {
    world.register(&["berlin"]).await;
    let lists = Arc::new(AtomicUsize::default());
    let listed = lists.clone();
    let amiss = move |call: &Call| {
        let is_one = &*call.user == "vidra-hub" && call.verb == Verb::List && call.resource == "configmaps";
        listed.fetch_add(usize::from(is_one), Ordering::Relaxed);
        if is_one { fault() } else { Fault::None }
    };
    let (berlin, tokyo) = (memory(&world, "berlin"), memory(&world, "tokyo"));
    berlin.set_fault(Arc::new(amiss));
    world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
    wait_for("the hub lists", SOON, async || match lists.load(Ordering::Relaxed) {
        0 => Err("it has not".into()),
        _ => Ok(()),
    })
    .await;
    let mark = world.mark();
    world.redirect("berlin", tokyo);
    world.target_is("shop", "berlin", TargetState::Unknown, "IdentityNotConfirmed").await;
    assert_eq!(world.writes("tokyo", &mark), []);
    berlin.clear_fault();
    world.redirect("berlin", berlin);
    world.ready("shop").await;
    world.end().await;
}

/// The list that broke was the first of its kind, so no watch broke with it: what the next one showed was another cluster's, and
/// what was decided by it went there.
#[test]
fn another_cluster_gets_nothing_where_only_a_first_list_broke_on_the_way_to_it() {
    scenario(async |world| {
        gets_nothing_where_a_first_list_met(world, || Fault::Delay(Duration::from_secs(2))).await;
    });
}

/// Nothing was under way and no watch was open, so no connection broke: what the next list showed was believed, and what was decided
/// by it went to the other cluster, until the next probe.
#[test]
fn another_cluster_gets_nothing_that_came_between_two_lists() {
    scenario(async |world| {
        gets_nothing_where_a_first_list_met(world, || Fault::Status(500, "InternalError")).await;
    });
}

/// Its watch had just expired and the next list was to come in a second: no connection broke, and an edit of that second went to
/// the other cluster.
#[test]
fn another_cluster_gets_nothing_that_came_between_a_watch_and_the_next_list() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let (berlin, tokyo) = (memory(&world, "berlin"), memory(&world, "tokyo"));
        berlin.expire_watches();
        // It has read that: otherwise the watch breaks.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mark = world.mark();
        world.redirect("berlin", tokyo);
        world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
        world.target_is("shop", "berlin", TargetState::Unknown, "IdentityNotConfirmed").await;
        assert_eq!(world.writes("tokyo", &mark), []);
        world.redirect("berlin", berlin);
        world.ready("shop").await;
        world.end().await;
    });
}

//! When contact with a member is lost: on the paused clock, where seconds are counted and a process can be starved.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Cluster, Fault};
use testkit::world::{SOON, World, wait_for};
use tokio::time::{Instant, advance, sleep};
use vidra_api::TargetState;

use super::scenario;
use crate::config_map;

fn berlin(world: &World) -> Cluster {
    world.bed().memory("berlin").expect("this bed is in memory")
}

fn is_probe(call: &Call) -> bool {
    &*call.user == "vidra-hub" && call.path == "/api/v1/namespaces/kube-system"
}

/// How often the hub has asked who answers.
fn probes(world: &World) -> usize {
    berlin(world).requests().iter().filter(|call| is_probe(call)).count()
}

/// Waits until it has asked more often than so.
async fn next_probe(world: &World, before: usize) -> usize {
    wait_for("a probe", SOON, async || match probes(world) {
        now if now > before => Ok(now),
        _ => Err("none".into()),
    })
    .await
}

#[test]
fn a_member_that_falls_silent_is_told_within_21_seconds_in_the_worst_case() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        sleep(Duration::from_secs(120)).await;
        // It is asked, answers, and is silent from then on.
        next_probe(&world, probes(&world)).await;
        let frozen = world.freeze("berlin");
        let silent = Instant::now();
        world.target_is("shop", "berlin", TargetState::Unknown, "MemberUnreachable").await;
        world.member_says("berlin", "Reachable", "False").await;
        assert!(silent.elapsed() <= Duration::from_secs(21), "{:?}", silent.elapsed());
        drop(frozen);
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_process_that_is_starved_for_half_a_minute_at_a_time_takes_no_member_for_silent() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.counted(&["berlin"]).await;
        let mark = world.mark();
        // The answers are there, and this process does not come to read them.
        let unread = |call: &Call| if is_probe(call) { Fault::Hang } else { Fault::None };
        berlin(&world).set_fault(Arc::new(unread));
        let mut asked = probes(&world);
        for _ in 0..5 {
            asked = next_probe(&world, asked).await;
            advance(Duration::from_secs(30)).await;
        }
        berlin(&world).clear_fault();
        sleep(Duration::from_secs(60)).await;
        assert_eq!(world.writes_to(&world.member_at("berlin"), "hub", &mark), [], "contact is as it was");
        world.end().await;
    });
}

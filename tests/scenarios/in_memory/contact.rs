//! When contact with a member is lost: on the paused clock, where seconds are counted and a process can be starved.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use memkube::{Call, Cluster, Down, Fault, Verb};
use parking_lot::Mutex;
use serde_json::json;
use testkit::world::{At, Mark, SOON, World, wait_for};
use tokio::time::{Instant, advance, sleep, sleep_until};
use vidra_api::{TargetState, VidraTarget, find};

use super::{memory, scenario};
use crate::{config_map, says};

fn berlin(world: &World) -> Cluster {
    memory(world, "berlin")
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

/// Something is delivered to berlin, and nothing is left to do.
async fn at_rest(world: &World) -> Mark {
    world.register(&["berlin"]).await;
    world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
    world.ready("shop").await;
    world.counted(&["berlin"]).await;
    world.mark()
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
fn a_restart_does_not_begin_the_silence_of_a_member_again() {
    scenario(async |mut world| {
        at_rest(&world).await;
        let frozen = world.freeze("berlin");
        world.target_is("shop", "berlin", TargetState::Unknown, "MemberUnreachable").await;
        world.member_says("berlin", "Reachable", "False").await;
        sleep(Duration::from_secs(60)).await;
        let before = world.target("shop", "berlin").await.unwrap();
        world.restart_hub().await;
        sleep(Duration::from_secs(120)).await;
        let now = world.target("shop", "berlin").await.unwrap();
        let message = |target: &VidraTarget| target.status.as_ref().and_then(|status| status.message.clone());
        assert_eq!(message(&now), message(&before));
        assert_eq!(now.metadata.resource_version, before.metadata.resource_version);
        drop(frozen);
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_process_that_is_starved_for_half_a_minute_at_a_time_takes_no_member_for_silent() {
    scenario(async |world| {
        let mark = at_rest(&world).await;
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

/// How often the hub has listed ConfigMaps of berlin since then.
fn lists(world: &World, since: &Mark) -> usize {
    let all = world.requests("berlin", since).into_iter();
    all.filter(|one| one.verb == "list" && one.resource == "configmaps").count()
}

#[test]
fn a_member_that_was_away_for_long_is_written_of_once_and_true_half_a_minute_after_it_is_back() {
    scenario(async |world| {
        for down in [Down::Hang, Down::Refuse] {
            let mark = at_rest(&world).await;
            berlin(&world).set_down(Some(down));
            sleep(Duration::from_secs(600)).await;
            world.target_is("shop", "berlin", TargetState::Unknown, "MemberUnreachable").await;
            let told = world.writes_to(&world.target_at("shop", "berlin"), "hub", &mark);
            assert_eq!(told.len(), 1, "{down:?}: {told:?}");
            berlin(&world).set_down(None);
            sleep(Duration::from_secs(30)).await;
            let target = world.target("shop", "berlin").await.and_then(|target| target.status);
            assert_eq!(target.and_then(|status| status.state), Some(TargetState::Ready), "{down:?}");
        }
        world.end().await;
    });
}

#[test]
fn a_member_that_fails_in_other_words_each_time_is_written_of_every_two_minutes_at_most() {
    scenario(async |world| {
        let mark = at_rest(&world).await;
        let nth = AtomicUsize::new(0);
        berlin(&world).set_fault(Arc::new(move |call: &Call| match &*call.user {
            "vidra-hub" if nth.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) => Fault::DropBefore,
            "vidra-hub" => Fault::Hang,
            _ => Fault::None,
        }));
        berlin(&world).cut_watches();
        sleep(Duration::from_secs(1200)).await;
        world.target_is("shop", "berlin", TargetState::Unknown, "MemberUnreachable").await;
        let told = world.writes_to(&world.target_at("shop", "berlin"), "hub", &mark).len();
        assert!(told <= 11, "{told} writes in twenty minutes");
        berlin(&world).clear_fault();
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_member_that_comes_and_goes_is_met_less_and_less_often_and_at_once_again_after_quiet_minutes() {
    const TIMES: usize = 36;
    scenario(async |world| {
        let mark = at_rest(&world).await;
        for _ in 0..TIMES {
            berlin(&world).set_down(Some(Down::Hang));
            sleep(Duration::from_secs(25)).await;
            berlin(&world).set_down(None);
            sleep(Duration::from_secs(8)).await;
        }
        // Twenty minutes; after it is met it is asked 1, 2, 4, … 64 s later and then every two minutes: 7 times and 9 more.
        let listed = lists(&world, &mark);
        assert!((2..=16).contains(&listed), "it was listed {listed} times in {TIMES} outages");
        let of_target = world.writes_to(&world.target_at("shop", "berlin"), "hub", &mark).len();
        assert!(of_target <= 2 * listed + 4, "{of_target} writes of its target, {listed} lists");
        let of_member = world.writes_to(&world.member_at("berlin"), "hub", &mark).len();
        assert!(of_member <= 4 * listed + 4, "{of_member} writes of its MemberCluster, {listed} lists");

        // It is met within two minutes, and stays for six.
        sleep(Duration::from_secs(8 * 60 + 30)).await;
        world.member_says("berlin", "Reachable", "True").await;
        berlin(&world).set_down(Some(Down::Hang));
        world.member_says("berlin", "Reachable", "False").await;
        sleep(Duration::from_secs(5)).await;
        berlin(&world).set_down(None);
        let back = Instant::now();
        world.member_says("berlin", "Reachable", "True").await;
        assert!(back.elapsed() <= Duration::from_secs(5), "{:?}", back.elapsed());
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_member_that_has_too_many_requests_is_left_alone_as_long_as_it_asks_and_is_in_contact() {
    const MANY: usize = 32;
    const ASKS: Duration = Duration::from_secs(20);
    let many = |value: &str| -> String {
        (0..MANY).map(|nth| config_map(&format!("settings-{nth}"), value)).collect()
    };
    scenario(async |world| {
        let clusters = ["berlin", "austin"];
        world.register(&clusters).await;
        world.deliver("shop", &clusters, &many("one")).await;
        world.ready("shop").await;
        world.counted(&clusters).await;
        let reachable = async || {
            let status = world.member("berlin").await.and_then(|member| member.status).expect("a status");
            find(&status.conditions, "Reachable").cloned().expect("a condition")
        };
        let before = reachable().await;
        let (mark, began, probed) = (world.mark(), Instant::now(), probes(&world));
        let sent = Arc::new(Mutex::new(Vec::new()));
        let asked = sent.clone();
        berlin(&world).set_fault(Arc::new(move |call: &Call| {
            if &*call.user != "vidra-hub" {
                return Fault::None;
            }
            if !is_probe(call) {
                asked.lock().push(Instant::now());
            }
            Fault::TooMany(20)
        }));
        world.deliver("shop", &clusters, &many("two")).await;
        let last = At::config_map(&world.ns, &format!("settings-{}", MANY - 1));
        world.alice("austin").await.when(&last, "it is changed", says("two")).await;
        assert!(began.elapsed() <= Duration::from_secs(2), "austin: {:?}", began.elapsed());
        world.target_is("shop", "berlin", TargetState::Failed, "Throttled").await;
        sleep_until(began + 3 * ASKS - Duration::from_secs(2)).await;

        let sent = std::mem::take(&mut *sent.lock());
        assert!((2..=3 * MANY).contains(&sent.len()), "{} calls in a minute", sent.len());
        for pair in sent.windows(2) {
            let pause = pair[1] - pair[0];
            assert!(pause.is_zero() || pause >= ASKS, "{pause:?} between two calls");
        }
        assert_eq!(lists(&world, &mark), 0, "it was listed again");
        assert!(probes(&world) >= probed + 5, "it is asked who answers all the same");
        assert_eq!(reachable().await, before);
        berlin(&world).clear_fault();
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_member_that_does_not_say_who_it_is_while_that_is_in_doubt_is_told_and_comes_back() {
    scenario(async |world| {
        at_rest(&world).await;
        let alice = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        // Somebody takes the right away to ask: where nothing is in doubt, contact is as it was.
        let refused = |call: &Call| match is_probe(call) {
            true => Fault::Status(403, "Forbidden"),
            false => Fault::None,
        };
        berlin(&world).set_fault(Arc::new(refused));
        sleep(Duration::from_secs(60)).await;
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        alice.when(&settings, "repaired", says("one")).await;

        berlin(&world).cut_watches();
        let message = world.member_says("berlin", "CredentialsValid", "False").await;
        assert!(message.contains("Forbidden"), "{message}");
        world.target_is("shop", "berlin", TargetState::Unknown, "MemberUnreachable").await;
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        berlin(&world).clear_fault();
        alice.when(&settings, "repaired", says("one")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

/// No watch is open there that would break.
#[test]
fn a_member_without_watches_that_does_not_say_who_it_is_is_told_and_comes_back() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let reconcile = json!({"onEvents": false, "interval": "1m"});
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": reconcile});
        world.deliver_with("shop", &config_map("settings", "one"), spec).await;
        world.ready("shop").await;
        let refused = |call: &Call| match is_probe(call) {
            true => Fault::Status(403, "Forbidden"),
            false => Fault::None,
        };
        berlin(&world).set_fault(Arc::new(refused));
        let message = world.member_says("berlin", "CredentialsValid", "False").await;
        assert!(message.contains("Forbidden"), "{message}");
        world.target_is("shop", "berlin", TargetState::Unknown, "MemberUnreachable").await;
        berlin(&world).clear_fault();
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_member_that_only_asks_to_be_left_alone_while_who_it_is_is_in_doubt_is_told_and_comes_back() {
    scenario(async |world| {
        let alice = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        for asks in [0, 20] {
            at_rest(&world).await;
            let busy = move |call: &Call| match is_probe(call) {
                true => Fault::TooMany(asks),
                false => Fault::None,
            };
            berlin(&world).set_fault(Arc::new(busy));
            berlin(&world).cut_watches();
            let message = world.member_says("berlin", "Reachable", "False").await;
            assert!(message.contains("too many requests"), "{message}");
            world.target_is("shop", "berlin", TargetState::Unknown, "MemberUnreachable").await;
            alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
            berlin(&world).clear_fault();
            alice.when(&settings, "repaired", says("one")).await;
            world.ready("shop").await;
        }
        world.end().await;
    });
}

#[test]
fn a_server_that_asks_to_be_left_alone_and_refuses_at_once_is_asked_no_more_often_than_ever() {
    const ASKS: Duration = Duration::from_secs(55);
    scenario(async |world| {
        at_rest(&world).await;
        let alice = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        let asked = AtomicUsize::new(0);
        let busy = move |call: &Call| match (&*call.user, is_probe(call)) {
            // Who asks without a pause would stop the clock.
            ("vidra-hub", true) if asked.fetch_add(1, Ordering::Relaxed) > 100 => Fault::Hang,
            ("vidra-hub", true) => Fault::Status(500, "InternalError"),
            ("vidra-hub", false) if call.verb == Verb::Apply => Fault::TooMany(60),
            _ => Fault::None,
        };
        berlin(&world).set_fault(Arc::new(busy));
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        sleep(Duration::from_secs(1)).await;
        let before = probes(&world);
        sleep(ASKS).await;
        let asked = probes(&world) - before;
        assert!(asked <= 8, "it was asked {asked} times in {ASKS:?}");
        berlin(&world).clear_fault();
        alice.when(&settings, "repaired", says("one")).await;
        world.end().await;
    });
}

/// How often the hub has asked for its version.
fn versions(world: &World) -> usize {
    let is_version = |call: &&Call| &*call.user == "vidra-hub" && call.path == "/version";
    berlin(world).requests().iter().filter(is_version).count()
}

#[test]
fn the_version_of_a_member_that_is_upgraded_while_it_answers_is_told_and_asked_for_every_ten_minutes() {
    const MINUTE: Duration = Duration::from_secs(60);
    scenario(async |world| {
        let told = async || world.member("berlin").await.and_then(|member| member.status?.version);
        let mark = at_rest(&world).await;
        let (asked, probed) = (versions(&world), probes(&world));
        sleep(9 * MINUTE).await;
        assert_eq!(versions(&world), asked);
        assert_eq!(told().await.as_deref(), Some("v1.36.3"));
        berlin(&world).set_version("v1.37.0");
        sleep(2 * MINUTE).await;
        assert_eq!(told().await.as_deref(), Some("v1.37.0"));
        sleep(49 * MINUTE).await;
        let (asked, probed) = (versions(&world) - asked, probes(&world) - probed);
        assert!((5..=6).contains(&asked), "it was asked for its version {asked} times in an hour");
        assert!(probed > 300, "it was asked who it is {probed} times in an hour");
        // All that is told of it.
        assert_eq!(world.writes_to(&world.member_at("berlin"), "hub", &mark).len(), 1);
        let told_of_target = world.writes_to(&world.target_at("shop", "berlin"), "hub", &mark);
        assert_eq!((told_of_target, world.writes("berlin", &mark)), (Vec::new(), Vec::new()));

        // What does not answer that question is in contact all the same.
        let mark = world.mark();
        berlin(&world).set_fault(Arc::new(|call: &Call| match call.path.as_str() {
            "/version" => Fault::Hang,
            _ => Fault::None,
        }));
        sleep(30 * MINUTE).await;
        assert_eq!(world.writes_to(&world.member_at("berlin"), "hub", &mark), []);
        world.ready("shop").await;
        world.end().await;
    });
}

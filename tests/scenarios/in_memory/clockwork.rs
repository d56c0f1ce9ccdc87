//! What takes hours, or is a matter of a moment: on the paused clock only, so in memory only.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Fault, Verb};
use serde_json::json;
use testkit::world::At;
use tokio::time::{Instant, sleep};
use vidra_api::{DriftState, MemberTargets, TargetState, VidraTargetStatus};

use super::{memory, scenario};
use crate::{
    config_map, config_map_in, events,
    limits::{take, wide},
    object, revisions, says,
    settings::settings_at,
    told,
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn an_hour_of_a_fight_costs_twenty_repairs_at_most_and_it_ends_by_itself() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let manifest = config_map("settings", "one") + &config_map("other", "one");
        world.deliver("shop", &["berlin"], &manifest).await;
        world.ready("shop").await;
        let (alice, mark) = (world.alice("berlin").await, world.mark());
        let (settings, other) = (At::config_map(&world.ns, "settings"), At::config_map(&world.ns, "other"));
        let (began, mut undone) = (Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(3600) {
            if says("one")(&alice.live(&settings).await) {
                alice.merge(&settings, json!({"data": {"key": format!("evil {undone}")}})).await;
                undone += 1;
            }
            sleep(SECOND).await;
        }
        let repairs = world.writes_to(&settings, "berlin", &mark).len();
        assert!((6..=20).contains(&repairs), "{repairs} repairs");
        assert_eq!(world.requests_for(&settings, "berlin", &mark).len(), repairs, "and no other call");
        assert_eq!(world.writes_to(&other, "berlin", &mark), [], "the other object was as declared");
        world.resource_says("shop", "Stalled", "True", "Contention").await;
        let writes = world.writes("hub", &mark).len();
        assert!(writes < 12 * repairs, "{writes} writes to the hub for {repairs} repairs");

        // Alice stops: the next repair holds.
        while !says("one")(&alice.live(&settings).await) {
            sleep(SECOND).await;
            assert!(began.elapsed() < Duration::from_secs(3600 + 1900), "it is repaired in the end");
        }
        let repaired = Instant::now();
        world.resource_says("shop", "Drifted", "False", "InSync").await;
        sleep(Duration::from_secs(590) - repaired.elapsed()).await;
        world.resource_says("shop", "Stalled", "True", "Contention").await;
        sleep(Duration::from_secs(15)).await;
        world.resource_says("shop", "Stalled", "False", "Moving").await;
        assert!(repaired.elapsed() < Duration::from_secs(620));
        world.ready("shop").await;
        assert_eq!(world.metric("vidra_contentions{cluster=\"berlin\"}"), 0.0);

        // It is over: the next edit is undone at once, and then nothing is left to do.
        alice.merge(&settings, json!({"data": {"key": "evil once more"}})).await;
        alice.when(&settings, "as declared", says("one")).await;
        world.corrected("shop", "berlin", repairs as i64 + 2).await;
        sleep(SECOND * 5).await;
        world.counted(&["berlin"]).await;
        let quiet = world.mark();
        sleep(Duration::from_secs(3600)).await;
        assert_eq!((world.writes("berlin", &quiet), world.writes("hub", &quiet)), (vec![], vec![]));
        world.end().await;
    });
}

#[test]
fn fifty_objects_that_drift_at_once_on_two_members_are_one_event_each_of_what_was_found_and_what_was_done() {
    scenario(async |world| {
        let members = ["berlin", "tokyo"];
        world.register(&members).await;
        let name = |number: usize| format!("c{number:02}");
        let manifest: String = (0..50).map(|number| config_map(&name(number), "one")).collect();
        world.deliver("shop", &members, &manifest).await;
        world.ready("shop").await;
        let alices = [world.alice("berlin").await, world.alice("tokyo").await];
        for number in 0..50 {
            let at = At::config_map(&world.ns, &name(number));
            alices[number % 2].merge(&at, json!({"data": {"key": "evil"}})).await;
            sleep(SECOND / 50).await;
        }
        for member in members {
            world.corrected("shop", member, 25).await;
        }
        sleep(SECOND * 5).await;
        for (reason, rest) in [("DriftDetected", "; by \"alice-edit\""), ("DriftCorrected", "")] {
            let notes = events(&world, reason).await;
            assert_eq!(notes.len(), 1, "{notes:?}");
            assert!(notes[0].starts_with("50 objects on 2 clusters"), "{notes:?}");
            assert!(notes[0].ends_with(&format!(" and 47 more{rest}")), "{notes:?}");
        }
        let in_sync = |status: &VidraTargetStatus| status.drift == Some(DriftState::InSync);
        for member in members {
            let counted = |what: &str| world.metric(&format!("vidra_drift_{what}"));
            assert_eq!(counted(&format!("corrections_total{{cluster=\"{member}\"}}")), 25.0);
            assert_eq!(
                counted(&format!("detections_total{{cluster=\"{member}\",change=\"Modified\"}}")),
                25.0
            );
            world.target_when("shop", member, "as declared", in_sync).await;
        }
        world.end().await;
    });
}

#[test]
fn targets_that_become_ready_or_unknown_at_once_are_one_event_each_and_one_that_is_not_written_is_counted() {
    scenario(async |world| {
        let members = ["austin", "berlin", "tokyo"];
        world.register(&members).await;
        world.deliver("shop", &members, &config_map("settings", "one")).await;
        world.ready("shop").await;
        sleep(SECOND * 5).await;
        assert_eq!(events(&world, "TargetReady").await, ["3 targets are as declared: austin, berlin, tokyo"]);

        // The hub's API takes no Events for a while.
        let hub = memory(&world, "hub");
        hub.set_fault(Arc::new(|call: &Call| match call.resource == "events" && call.verb == Verb::Create {
            true => Fault::Status(403, "Forbidden"),
            false => Fault::None,
        }));
        let frozen = members.map(|member| world.freeze(member));
        for member in members {
            let unknown = |status: &VidraTargetStatus| status.state == Some(TargetState::Unknown);
            world.target_when("shop", member, "Unknown", unknown).await;
        }
        sleep(SECOND * 5).await;
        assert_eq!(events(&world, "TargetUnknown").await, [""; 0]);
        assert!(world.metric("vidra_events_failed_total") >= 1.0);
        hub.clear_fault();
        drop(frozen);
        world.ready("shop").await;
        sleep(SECOND * 30).await;
        let frozen = members.map(|member| world.freeze(member));
        sleep(SECOND * 60).await;
        let told = events(&world, "TargetUnknown").await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("3 targets: (1) "), "{told:?}");
        drop(frozen);
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn an_idle_hub_and_one_that_is_started_again_count_the_same_and_write_nothing() {
    scenario(async |mut world| {
        let all = ["berlin", "tokyo", "austin"];
        world.register(&all).await;
        let kinds = object(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}}))
            + &config_map("settings", "one");
        world.deliver("shop", &all, &kinds).await;
        // Of rules that are alike the first counts, which is told once.
        let rule =
            json!({"apiVersion": "health.example.com/v1", "kind": "Gadget", "current": "has(metadata.name)"});
        let twice = json!({"targets": [{"clusterNames": ["tokyo"]}], "healthCheckExprs": [rule, rule]});
        world.deliver_with("other", &config_map("other", "one"), twice).await;
        told(&world, "HealthRuleDuplicate", &["spec.healthCheckExprs[1]"]).await;
        // One that was suspended has its informers until a restart.
        let spec = |suspend: bool| json!({"targets": [{"clusterNames": ["austin"]}], "suspend": suspend});
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": format!("{}-reader", world.ns)}});
        world.deliver_with("resting", &object(&role), spec(false)).await;
        for name in ["shop", "other", "resting"] {
            world.ready(name).await;
        }
        world.counted(&all).await;
        world.deliver_with("resting", &object(&role), spec(true)).await;
        world.target_is("resting", "austin", TargetState::Suspended, "Suspended").await;
        sleep(SECOND * 30).await;
        let status = world.member("austin").await.unwrap().status.unwrap();
        assert_eq!(status.targets_ready.as_deref(), Some("1/2"));
        assert_eq!(status.watches.unwrap().total, 2, "of what is not suspended");

        let quiet = world.mark();
        sleep(Duration::from_secs(3 * 3600)).await;
        assert_eq!(world.writes("hub", &quiet), [], "three intervals");
        world.restart_hub().await;
        sleep(Duration::from_secs(3 * 3600)).await;
        assert_eq!(world.writes("hub", &quiet), [], "a restart");
        world.end().await;
    });
}

#[test]
fn a_silent_member_has_no_ready_target_and_keeps_its_other_counts_over_a_restart_too() {
    scenario(async |mut world| {
        world.register(&["austin"]).await;
        let manifest = config_map("settings", "one") + &config_map("more", "one");
        world.deliver("shop", &["austin"], &manifest).await;
        world.ready("shop").await;
        world.counted(&["austin"]).await;
        let austin = world.member_at("austin");
        let counted = async || {
            let status = world.member("austin").await.unwrap().status.unwrap();
            (status.targets, status.targets_ready, status.watches, status.objects)
        };
        let before = counted().await;
        // As its VidraTargets say, so that no two outputs tell two numbers; what they do not say stays.
        let mut silent = before.clone();
        silent.0 = silent.0.map(|targets| MemberTargets { ready: 0, ..targets });
        silent.1 = Some("0/1".to_owned());
        let mark = world.mark();
        let frozen = world.freeze("austin");
        world.target_is("shop", "austin", TargetState::Unknown, "MemberUnreachable").await;
        sleep(SECOND * 60).await;
        assert_eq!(counted().await, silent, "it is silent");
        drop(frozen);
        world.member_says("austin", "Reachable", "True").await;
        sleep(SECOND * 60).await;
        assert_eq!(counted().await, before, "it answers again");
        // Probes have no answer, and then there is one. The counts follow the loss and the return.
        assert_eq!(world.writes_to(&austin, "hub", &mark).len(), 4, "contact lost, contact found");

        let frozen = world.freeze("austin");
        world.member_says("austin", "Reachable", "False").await;
        world.target_is("shop", "austin", TargetState::Unknown, "MemberUnreachable").await;
        sleep(SECOND * 60).await;
        let mark = world.mark();
        world.restart_hub().await;
        sleep(SECOND * 60).await;
        drop(frozen);
        world.member_says("austin", "Reachable", "True").await;
        world.ready("shop").await;
        sleep(SECOND * 60).await;
        let status = world.member("austin").await.unwrap().status.unwrap();
        let after = (status.targets, status.targets_ready, status.watches, status.objects);
        assert_eq!(after, before, "the hub was started again meanwhile");
        let writes = world.writes_to(&austin, "hub", &mark);
        assert_eq!(writes.len(), 2, "contact found, and counted: {writes:?}");
        world.end().await;
    });
}

#[test]
fn without_events_a_change_stays_until_the_interval_ends_and_the_resource_beside_it_does_not_wait() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let targets = json!([{"clusterNames": ["berlin"]}]);
        for (name, on_events) in [("deaf", false), ("alert", true)] {
            let reconcile = json!({"onEvents": on_events, "interval": "1h"});
            let spec = json!({"targets": targets, "reconcile": reconcile});
            world.deliver_with(name, &config_map(name, "one"), spec).await;
            world.ready(name).await;
        }
        let alice = world.alice("berlin").await;
        let (deaf, alert) = (At::config_map(&world.ns, "deaf"), At::config_map(&world.ns, "alert"));
        for at in [&deaf, &alert] {
            alice.merge(at, json!({"data": {"key": "evil"}})).await;
        }
        sleep(SECOND * 10).await;
        assert!(says("one")(&alice.live(&alert).await), "an event");
        sleep(Duration::from_secs(50 * 60)).await;
        assert!(says("evil")(&alice.live(&deaf).await), "50 minutes");
        sleep(Duration::from_secs(20 * 60)).await;
        assert!(says("one")(&alice.live(&deaf).await), "70 minutes");
        world.end().await;
    });
}

#[test]
fn a_revision_that_nobody_has_any_more_is_readable_for_ten_minutes() {
    scenario(async |mut world| {
        world.register(&["berlin", "tokyo"]).await;
        let count = async |world: &testkit::world::World| revisions(world).await.len();
        for value in ["one", "two"] {
            world.deliver("shop", &["berlin", "tokyo"], &config_map("settings", value)).await;
            world.ready("shop").await;
        }
        sleep(SECOND * 590).await;
        assert_eq!(count(&world).await, 2);
        sleep(SECOND * 20).await;
        assert_eq!(count(&world).await, 1, "a few seconds after");

        // What an earlier process left.
        world.deliver("shop", &["berlin", "tokyo"], &config_map("settings", "three")).await;
        world.ready("shop").await;
        world.restart_hub().await;
        sleep(SECOND * 700).await;
        assert_eq!(count(&world).await, 1, "after a restart");

        // A member that does not answer has what it had: that stays.
        let tokyo = world.freeze("tokyo");
        world.resource_says("shop", "Ready", "False", "MembersUnreachable").await;
        world.deliver("shop", &["berlin", "tokyo"], &config_map("settings", "four")).await;
        world.target_when("shop", "berlin", "delivered", |status| status.objects == 1).await;
        sleep(SECOND * 1300).await;
        assert_eq!(count(&world).await, 2, "one of the two is in use on tokyo");
        drop(tokyo);
        world.ready("shop").await;
        sleep(SECOND * 700).await;
        assert_eq!(count(&world).await, 1, "nobody has it any more");
        // The first is declared once more.
        world.deliver("shop", &["berlin", "tokyo"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn who_found_no_room_in_the_hub_is_served_when_others_have_made_some() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        take(&world, json!({"hubMaxBytes": "6Mi"})).await;
        // Each as it is read and as it comes out.
        let two = |name: &str| wide(&format!("{name}-one")) + &wide(&format!("{name}-two"));
        world.deliver("first", &["berlin"], &two("first")).await;
        world.ready("first").await;
        world.deliver("second", &["berlin"], &two("second")).await;
        world.resource_says("second", "Stalled", "True", "HubFull").await;
        sleep(Duration::from_secs(3600)).await;
        world.remove("first").await;
        sleep(SECOND * 301).await;
        world.ready("second").await;
        world.hub.delete(&settings_at(&world)).await;
        world.end().await;
    });
}

#[test]
fn who_was_refused_an_object_for_a_resource_of_another_namespace_has_it_soon_after_that_one_goes() {
    for drops in [false, true] {
        scenario(async |world| {
            world.register(&["berlin"]).await;
            let (alice, at) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
            let other = world.namespace_beside().await;
            let settings = |value: &str| object(&config_map_in(&world.ns, "settings", value));
            let own = object(&config_map_in(&world.ns, "own", "one"));
            world.deliver_from(&other, "first", &(settings("one") + &own)).await;
            alice.when(&at, "delivered", says("one")).await;
            world.deliver("second", &["berlin"], &settings("two")).await;
            world.target_is("second", "berlin", TargetState::Failed, "SharedObjectConflict").await;
            // Until it tries rarely.
            sleep(Duration::from_secs(3600)).await;
            let first = At::new("vidra.dev/v1alpha1", "VidraResource", &other, "first");
            match drops {
                true => world.deliver_from(&other, "first", &own).await,
                false => world.hub.delete(&first).await,
            }
            alice.when(&at, "the second's", says("two")).await;
            world.ready("second").await;
            if drops {
                world.hub.delete(&first).await;
            }
            world.hub.gone(&first).await;
            world.hub.delete(&At::new("v1", "Namespace", "", &other)).await;
            world.end().await;
        });
    }
}

//! Answers that come later than what watches tell: only a server in memory can be made to answer late.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use memkube::{Call, Cluster, Fault, Verb, WatchFault};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::world::{At, SOON, World, wait_for};
use tokio::time::Instant;
use vidra_api::{ChangeKind, TargetState, VidraTargetStatus};

use super::{
    called, first_meets,
    leading::{Process, deleted},
    memory, scenario,
};
use crate::{apply_modes::annotated, config_map, marks, resource_missing::vanishes, says, uid};

#[test]
fn an_answer_that_comes_after_its_object_is_gone_does_not_bring_it_back() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let hub = memory(&world, "hub");
        let writes = |call: &Call| call.resource == "vidratargets" && call.subresource == "status";
        let hook = move |call: &Call| match call.verb == Verb::Update && writes(call) {
            true => Fault::Late(Duration::from_secs(5)),
            false => Fault::None,
        };
        let mark = hub.requests().last().map_or(0, |call| call.index + 1);
        hub.set_fault(Arc::new(hook));
        // The status that says that all of it is gone is answered when the target is gone too.
        world.remove("shop").await;
        wait_for("the late answer", SOON, async || {
            match hub.requests().iter().any(|call| call.index >= mark && writes(call) && call.status == 200) {
                true => Ok(()),
                false => Err("none".into()),
            }
        })
        .await;
        hub.clear_fault();
        // The member can leave: nothing is on it.
        let member = At::new("vidra.dev/v1alpha1", "MemberCluster", "", "berlin");
        world.hub.delete(&member).await;
        world.hub.gone(&member).await;
        world.end().await;
    });
}

#[test]
fn what_a_call_that_was_not_answered_makes_later_is_removed_all_the_same() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (berlin, makes) =
            (memory(&world, "berlin"), |call: &Call| call.verb == Verb::Apply && call.name == "late");
        first_meets(&berlin, Fault::DropLandsLater(Duration::from_secs(7)), makes);
        world.deliver("shop", &["berlin"], &config_map("late", "one")).await;
        called(&berlin, makes).await;
        world.hub.delete(&world.resource_at("shop")).await;
        world.removed("shop").await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        let at = At::config_map(&world.ns, "late");
        assert_eq!(world.alice("berlin").await.get(&at).await, None, "the hub says that all is removed");
        berlin.clear_fault();
        world.end().await;
    });
}

#[test]
fn a_status_keeps_its_distance_from_one_that_took_long_to_be_written() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": "Report"}});
        world.deliver_with("shop", &config_map("settings", "one"), spec).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let hub = memory(&world, "hub");
        let is_status = |call: &Call| {
            call.verb == Verb::Update && call.resource == "vidratargets" && call.subresource == "status"
        };
        let (first, written) = (Arc::new(AtomicBool::new(true)), Arc::<Mutex<Vec<Instant>>>::default());
        let (begun, seen) = (first.clone(), written.clone());
        hub.set_validating_admission(Some(Arc::new(move |call: &Call, _: &Value| {
            if is_status(call) {
                seen.lock().push(Instant::now());
            }
            Ok(())
        })));
        hub.set_fault(Arc::new(move |call: &Call| {
            match is_status(call) && begun.swap(false, Ordering::Relaxed) {
                true => Fault::Delay(Duration::from_secs(3)),
                false => Fault::None,
            }
        }));
        // While the status is under way that tells of the edit, that is over.
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        wait_for("a status under way", SOON, async || match first.load(Ordering::Relaxed) {
            true => Err("none".into()),
            false => Ok(()),
        })
        .await;
        alice.merge(&settings, json!({"data": {"key": "one"}})).await;
        wait_for("another status", SOON, async || match written.lock().len() {
            0 | 1 => Err("none".into()),
            _ => Ok(()),
        })
        .await;
        let written = written.lock().clone();
        let apart = written[1].duration_since(written[0]);
        assert!(apart >= Duration::from_secs(1), "{apart:?} apart");
        hub.clear_fault();
        hub.set_validating_admission(None);
        world.end().await;
    });
}

#[test]
fn what_a_call_that_was_not_answered_makes_again_when_another_try_was_removed_is_removed_too() {
    /// After the object of the second try is deleted.
    const LANDS: Duration = Duration::from_secs(30);
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (berlin, first) = (memory(&world, "berlin"), AtomicBool::new(true));
        berlin.set_fault(Arc::new(move |call: &Call| {
            let makes = call.verb == Verb::Apply && call.name == "late";
            match makes && first.swap(false, Ordering::Relaxed) {
                true => Fault::DropLandsLater(LANDS),
                false => Fault::None,
            }
        }));
        world.deliver("shop", &["berlin"], &config_map("late", "one")).await;
        world.ready("shop").await;
        world.hub.delete(&world.resource_at("shop")).await;
        let (alice, at) = (world.alice("berlin").await, At::config_map(&world.ns, "late"));
        alice.gone(&at).await;
        world.removed("shop").await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(alice.get(&at).await, None, "the hub says that all is removed");
        berlin.clear_fault();
        world.end().await;
    });
}

/// A process sends a create, and ends; it is not wanted any more, and lands when the next process leads.
async fn lands_after_its_process(mut world: World, end: impl AsyncFnOnce(Process)) {
    /// After the next one has looked, and before the server gives the create up.
    const LANDS: Duration = Duration::from_secs(33);
    world.register(&["berlin"]).await;
    world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
    world.ready("shop").await;
    world.stop_hub().await;
    let first = Process::start(&world, "first").await;
    let berlin = memory(&world, "berlin");
    let makes = |call: &Call| call.verb == Verb::Apply && call.name == "late";
    berlin.set_fault(Arc::new(move |call: &Call| match makes(call) {
        true => Fault::LandsLater(LANDS),
        false => Fault::None,
    }));
    let both = config_map("settings", "one") + &config_map("late", "one");
    world.deliver("shop", &["berlin"], &both).await;
    wait_for("the call", SOON, async || match berlin.requests().iter().any(makes) {
        true => Ok(()),
        false => Err("none".into()),
    })
    .await;
    end(first).await;
    let mark = world.mark();
    world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
    let second = Process::start(&world, "second").await;
    let target = world
        .target_when("shop", "berlin", "it says what it waits for", |status| {
            status.removing.as_ref().is_some_and(|going| going.reason == "Settling")
        })
        .await;
    let going = target.status.and_then(|status| status.removing).expect("it says so");
    let message = going.message.unwrap_or_default();
    assert!(message.contains("late is left as it is until 20"), "{message}");
    assert_eq!(deleted(&world, &mark), [] as [String; 0]);
    world.target_when("shop", "berlin", "nothing is to go", |status| status.removing.is_none()).await;
    assert_eq!(deleted(&world, &mark), ["late"]);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(world.inventory("shop", "berlin").await.len(), 1);
    let at = At::config_map(&world.ns, "late");
    assert_eq!(world.alice("berlin").await.get(&at).await, None, "it stands in no inventory");
    world.ready("shop").await;
    second.end().await;
    berlin.clear_fault();
    world.start_hub().await;
    world.end().await;
}

#[test]
fn what_a_killed_process_had_sent_is_removed_by_the_next_one() {
    scenario(async |world| lands_after_its_process(world, Process::kill).await);
}

#[test]
fn what_a_process_that_ended_in_good_order_had_sent_is_removed_by_the_next_one() {
    scenario(async |world| lands_after_its_process(world, Process::end).await);
}

#[test]
fn what_is_left_as_it_is_after_a_kill_is_removed_then_whatever_an_old_word_says() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        // From an outage that is long over.
        let word = serde_json::json!({"metadata": {"annotations": {"vidra.dev/forget": "berlin"}}});
        world.hub.merge(&world.resource_at("shop"), word).await;
        world.stop_hub().await;
        Process::start(&world, "first").await.kill().await;
        world.hub.delete(&world.resource_at("shop")).await;
        let second = Process::start(&world, "second").await;
        world
            .target_when("shop", "berlin", "it says what it waits for", |status| {
                status.reason.as_deref() == Some("Settling")
            })
            .await;
        world.removed("shop").await;
        let at = At::config_map(&world.ns, "settings");
        assert_eq!(
            world.alice("berlin").await.get(&at).await,
            None,
            "the member answers: nothing stays there"
        );
        second.end().await;
        world.start_hub().await;
        world.end().await;
    });
}

#[test]
fn what_is_deleted_while_another_resource_lets_go_of_it_is_not_taken_for_there() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": "Report"}});
        world.deliver_with("first", &config_map("settings", "one"), spec).await;
        world.ready("first").await;
        let own = config_map("second", "one");
        world.deliver("second", &["berlin"], &(config_map("settings", "one") + &own)).await;
        world.ready("second").await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let berlin = memory(&world, "berlin");
        // The call that lets go of it is answered after its end was told.
        berlin.set_fault(Arc::new(|call: &Call| {
            let is_hubs = &*call.user == "vidra-hub" && call.verb == Verb::Apply && !call.dry_run;
            match is_hubs && call.name == "settings" {
                true => Fault::Late(Duration::from_secs(5)),
                false => Fault::None,
            }
        }));
        world.deliver("second", &["berlin"], &own).await;
        let is_left = |live: &Value| !marks(live).iter().any(|mark| mark.ends_with("/second"));
        alice.when(&settings, "let go", is_left).await;
        alice.delete(&settings).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        berlin.clear_fault();
        let missing = |status: &VidraTargetStatus| {
            let mut changes = status.changes.iter();
            changes.any(|one| one.name == "settings" && one.change == ChangeKind::Missing)
        };
        world.target_when("first", "berlin", "told as missing", missing).await;
        world.end().await;
    });
}

#[test]
fn an_inventory_whose_making_was_not_answered_does_not_outlive_its_target() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let makes = |call: &Call| call.verb == Verb::Create && call.resource == "vidrainventories";
        let hub = memory(&world, "hub");
        first_meets(&hub, Fault::DropLandsLater(Duration::from_secs(7)), makes);
        world.deliver("shop", &["berlin"], &config_map("late", "one")).await;
        called(&hub, makes).await;
        world.hub.delete(&world.resource_at("shop")).await;
        world.removed("shop").await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        let inventories = At::new("vidra.dev/v1alpha1", "VidraInventory", &world.ns, "");
        assert_eq!(world.hub.list(&inventories).await, [] as [Value; 0], "nothing would ever take it away");
        assert_eq!(world.alice("berlin").await.get(&At::config_map(&world.ns, "late")).await, None);
        hub.clear_fault();
        world.end().await;
    });
}

#[test]
fn what_a_watch_tells_late_of_an_object_that_was_made_again_makes_nothing_ready() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let job = |image: &str| {
            let declared = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate"}, "spec": {
                "managedBy": "example.com/alice", "template": {"spec": {"restartPolicy": "Never",
                    "containers": [{"name": "app", "image": image}]}}}});
            annotated(declared, &[("on-immutable", "Recreate")])
        };
        let (alice, at) = (world.alice("berlin").await, At::new("batch/v1", "Job", &world.ns, "migrate"));
        world.deliver("shop", &["berlin"], &job("app:1")).await;
        let before = uid(&alice.when(&at, "there", |_| true).await);
        alice.merge_status(&at, json!({"status": {"startTime": "2026-01-01T00:00:00Z"}})).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let told = world.target("shop", "berlin").await.unwrap().status.unwrap();
        assert!(told.state == Some(TargetState::Ready));
        let berlin = memory(&world, "berlin");
        // A change of the old Job is told while its successor is made, its end long after that.
        berlin.set_watch_fault(Some(Arc::new(|call: &Call, event: &str, _: &Value| {
            match (call.resource == "jobs", event) {
                (true, "MODIFIED") => WatchFault::Delay(Duration::from_secs(1)),
                (true, "DELETED") => WatchFault::Delay(Duration::from_secs(10)),
                _ => WatchFault::None,
            }
        })));
        berlin.set_fault(Arc::new(|call: &Call| {
            let is_trial = call.resource == "jobs" && call.verb == Verb::Create && call.dry_run;
            if is_trial { Fault::Delay(Duration::from_secs(3)) } else { Fault::None }
        }));
        alice.merge_status(&at, json!({"status": {"active": 1}})).await;
        world.deliver("shop", &["berlin"], &job("app:2")).await;
        alice.when(&at, "made again", |live| uid(live) != before).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
        let says = (status.state, status.ready_revision);
        assert_eq!(says, (Some(TargetState::Progressing), None), "it has not started");
        berlin.clear_fault();
        berlin.set_watch_fault(None);
        world.end().await;
    });
}

/// Collects what is written with a status of a generation that its object does not have.
fn untrue_generations(hub: &Cluster, resource: &'static str) -> Arc<Mutex<Vec<Value>>> {
    let untrue: Arc<Mutex<Vec<Value>>> = Arc::default();
    let found = untrue.clone();
    hub.set_validating_admission(Some(Arc::new(move |call: &Call, object: &Value| {
        let (told, has) = (&object["status"]["observedGeneration"], &object["metadata"]["generation"]);
        if call.resource == resource && told.as_i64() > has.as_i64() {
            found.lock().push(object.clone());
        }
        Ok(())
    })));
    untrue
}

#[test]
fn what_became_of_a_target_is_not_told_of_the_one_that_was_made_again_in_its_place() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let at = world.target_at("shop", "berlin");
        let before = world.hub.live(&at).await;
        let hub = memory(&world, "hub");
        let untrue = untrue_generations(&hub, "vidratargets");
        let berlin = memory(&world, "berlin");
        berlin.set_fault(Arc::new(|call: &Call| match (call.verb, call.name.as_str()) {
            (Verb::Apply, "settings") => Fault::Late(Duration::from_secs(5)),
            _ => Fault::None,
        }));
        // The target of the second generation is made again while the answer to its apply is on its way.
        world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
        alice.when(&settings, "delivered", says("two")).await;
        world.hub.delete(&at).await;
        world.hub.when(&at, "made again", |now| uid(now) != uid(&before)).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        berlin.clear_fault();
        assert_eq!(*untrue.lock(), [] as [Value; 0], "a status of a generation that it never had");
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn what_became_of_a_resource_is_not_told_of_the_one_that_was_made_again_in_its_place() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let at = world.resource_at("shop");
        let before = world.hub.live(&at).await;
        let hub = memory(&world, "hub");
        let untrue = untrue_generations(&hub, "vidraresources");
        hub.set_fault(Arc::new(|call: &Call| match (call.verb, call.resource.as_str()) {
            (Verb::Create, "secrets") => Fault::Late(Duration::from_secs(5)),
            _ => Fault::None,
        }));
        // The VidraResource of the second generation is made again while the answer to its revision is on its way.
        // What it selects is not there: that is told at once.
        world.deliver("shop", &["berlin", "oslo"], &config_map("settings", "two")).await;
        let secrets = At::new("v1", "Secret", &world.ns, "");
        wait_for("both revisions", SOON, async || match world.hub.list(&secrets).await.len() {
            2.. => Ok(()),
            count => Err(format!("{count} Secrets")),
        })
        .await;
        vanishes(&world, &at, "Orphan").await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        assert_ne!(uid(&world.hub.live(&at).await), uid(&before), "it is another one");
        tokio::time::sleep(Duration::from_secs(10)).await;
        hub.clear_fault();
        assert_eq!(*untrue.lock(), [] as [Value; 0], "a status of a generation that it never had");
        world.ready("shop").await;
        world.end().await;
    });
}

/// What is not repaired is known by its uid alone once it is gone.
#[test]
fn what_somebody_deletes_after_the_process_that_told_of_it_ended_is_only_reported() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let hub = memory(&world, "hub");
        let told = Arc::new(AtomicBool::default());
        let (tells, is_told) = (told.clone(), told.clone());
        hub.set_validating_admission(Some(Arc::new(move |call: &Call, object: &Value| {
            let whole = call.resource == "vidratargets" && object["status"]["revision"].is_string();
            tells.fetch_or(whole, Ordering::Relaxed);
            Ok(())
        })));
        // The process ends behind the status that tells that all is applied.
        hub.set_fault(Arc::new(move |call: &Call| {
            let writes = call.resource == "vidrainventories" && call.verb == Verb::Update;
            if writes && is_told.load(Ordering::Relaxed) { Fault::DropBefore } else { Fault::None }
        }));
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": "Report"},
            "reconcile": {"interval": "1s"}});
        world.deliver_with("shop", &config_map("settings", "one"), spec).await;
        wait_for("it is told", SOON, async || match told.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err("not yet".into()),
        })
        .await;
        world.stop_hub().await;
        hub.clear_fault();
        hub.set_validating_admission(None);
        alice.delete(&settings).await;
        let mark = world.mark();
        world.start_hub().await;
        world.target_is("shop", "berlin", TargetState::Failed, "ObjectsMissing").await;
        world.after_passes(2).await;
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);
        world.end().await;
    });
}

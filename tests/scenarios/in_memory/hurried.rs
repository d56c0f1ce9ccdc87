//! What drifts, or becomes another's, while a repair is under way: only a cluster in memory keeps one call waiting and
//! answers the others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use memkube::{Call, Cluster, Fault, Verb};
use serde_json::{Value, json};
use testkit::world::{At, SOON, wait_for};
use tokio::time::Instant;
use vidra_api::{
    TargetState,
    condition::{READY, find},
};

use super::{memory, scenario};
use crate::{config_map, config_map_in, health::GADGET, marks, object, says};

/// How often the hub has applied it, answered or not.
fn applies(berlin: &Cluster, at: u64, name: &str) -> usize {
    let all = berlin.requests().into_iter();
    all.filter(|call| call.index >= at && call.verb == Verb::Apply && call.name == name).count()
}

#[test]
fn a_repair_that_is_not_answered_holds_up_no_other_of_its_target() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let names = ["first", "second", "third"];
        let manifest: String = names.iter().map(|name| config_map(name, "one")).collect();
        world.deliver("shop", &["berlin"], &manifest).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let alice = world.alice("berlin").await;
        let at = names.map(|name| At::config_map(&world.ns, name));
        let berlin = memory(&world, "berlin");
        let hook = |call: &Call| match call.verb == Verb::Apply && call.name == "first" {
            true => Fault::Hang,
            false => Fault::None,
        };
        let mark = berlin.requests().last().map_or(0, |call| call.index + 1);
        berlin.set_fault(Arc::new(hook));
        let edit = json!({"data": {"key": "evil"}});
        alice.merge(&at[0], edit.clone()).await;
        wait_for("the first repair", SOON, async || match applies(&berlin, mark, "first") {
            0 => Err("none".into()),
            _ => Ok(()),
        })
        .await;
        for at in &at[1..] {
            alice.merge(at, edit.clone()).await;
            alice.when(at, "repaired", says("one")).await;
        }
        assert_eq!(applies(&berlin, mark, "first"), 1, "its first repair is still waited for");
        berlin.clear_fault();
        alice.when(&at[0], "repaired", says("one")).await;
        world.corrected("shop", "berlin", 3).await;
        let changes = world.target("shop", "berlin").await.unwrap().status.unwrap().changes;
        let is_told = |name: &str| changes.iter().any(|one| one.name == name && one.corrected.is_some());
        assert!(names.into_iter().all(is_told), "{changes:?}");
        assert_eq!(["second", "third"].map(|name| applies(&berlin, mark, name)), [1, 1], "each once");
        world.end().await;
    });
}

#[test]
fn a_status_and_an_inventory_that_are_not_answered_hold_up_no_repair() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let manifest: String = ["first", "second"].iter().map(|name| config_map(name, "one")).collect();
        world.deliver("shop", &["berlin"], &manifest).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let alice = world.alice("berlin").await;
        let [first, second] = ["first", "second"].map(|name| At::config_map(&world.ns, name));
        let edit = json!({"data": {"key": "evil"}});
        for resource in ["vidratargets", "vidrainventories"] {
            let hub = memory(&world, "hub");
            let writes = move |call: &Call| call.resource == resource && call.verb == Verb::Update;
            let hook = move |call: &Call| if writes(call) { Fault::Hang } else { Fault::None };
            let mark = hub.requests().last().map_or(0, |call| call.index + 1);
            hub.set_fault(Arc::new(hook));
            // Made again it has another uid, which the inventory is told.
            alice.delete(&first).await;
            wait_for("the write", SOON, async || {
                match hub.requests().iter().any(|call| call.index >= mark && writes(call)) {
                    true => Ok(()),
                    false => Err("none".into()),
                }
            })
            .await;
            alice.when(&first, "made again", says("one")).await;
            let edited = Instant::now();
            alice.merge(&second, edit.clone()).await;
            alice.when(&second, "repaired", says("one")).await;
            assert!(edited.elapsed() < Duration::from_secs(2), "{resource}: before the write was given up");
            hub.clear_fault();
        }
        world.corrected("shop", "berlin", 4).await;
        world.recorded("shop", &["berlin"]).await;
        world.end().await;
    });
}

#[test]
fn an_ignored_field_that_is_edited_while_others_are_taken_back_by_force_keeps_that_edit() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let mut declared = config_map_in("", "settings", "one");
        declared["data"]["other"] = "one".into();
        let ignore = json!([{"target": {"kind": "ConfigMap"}, "paths": [".data.key"]}]);
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"ignore": ignore}});
        world.deliver_with("shop", &object(&declared), spec).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let (alice, at) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let berlin = memory(&world, "berlin");
        let hook = |call: &Call| match call.verb == Verb::Apply && call.name == "settings" {
            true => Fault::Delay(Duration::from_secs(1)),
            false => Fault::None,
        };
        let mark = berlin.requests().last().map_or(0, |call| call.index + 1);
        berlin.set_fault(Arc::new(hook));
        let hidden = json!({"metadata": {"labels": {"vidra.dev/hub": null}}, "data": {"other": "evil"}});
        alice.merge(&at, hidden).await;
        // The first one would make it, the second one takes nothing from alice. The third one does, and was made when the
        // ignored field was the hub's.
        wait_for("the third apply", SOON, async || match applies(&berlin, mark, "settings") {
            3 => Ok(()),
            count => Err(format!("{count} so far")),
        })
        .await;
        alice.merge(&at, json!({"data": {"key": "alice's"}})).await;
        let repaired = alice.when(&at, "repaired", |live| live["data"]["other"] == "one").await;
        assert!(says("alice's")(&repaired), "{repaired}");
        berlin.clear_fault();
        world.corrected("shop", "berlin", 1).await;
        assert!(says("alice's")(&alice.live(&at).await));
        world.end().await;
    });
}

#[test]
fn who_lost_its_entry_takes_no_field_of_another_namespace_that_has_its_own_back_first() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let other = world.namespace_beside().await;
        let deliver = async |manifest: String| world.deliver_from(&other, "bank", &manifest).await;
        let theirs = |value: &str| object(&config_map_in(&world.ns, "settings", value));
        let entries = |live: &Value| marks(live).iter().filter(|mark| mark.starts_with("vidra/")).count();
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        deliver(theirs("one")).await;
        alice.when(&settings, "applied by both", |live| entries(live) == 2).await;
        deliver(theirs("two")).await;
        let target = At::new("vidra.dev/v1alpha1", "VidraTarget", &other, "bank.berlin");
        let refused = |live: &Value| live["status"]["reason"] == "SharedObjectConflict";
        world.hub.when(&target, "refused", refused).await;

        // All entries go, and the bank looks for its own, which takes long. Meanwhile the shop has its own back.
        let suspend = |on: bool| json!({"spec": {"suspend": on}});
        world.hub.merge(&world.resource_at("shop"), suspend(true)).await;
        let rests = |status: &vidra_api::VidraTargetStatus| status.state == Some(TargetState::Suspended);
        world.target_when("shop", "berlin", "suspended", rests).await;
        let berlin = memory(&world, "berlin");
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = looks.clone();
        let slow = move |call: &Call| {
            let is_look = call.verb == Verb::Get && call.name == "settings" && &*call.user == "vidra-hub";
            match is_look && counted.fetch_add(1, Ordering::Relaxed) == 0 {
                true => Fault::Delay(Duration::from_secs(10)),
                false => Fault::None,
            }
        };
        berlin.set_fault(Arc::new(slow));
        alice.merge(&settings, json!({"metadata": {"managedFields": [{}]}})).await;
        wait_for("the bank looks", SOON, async || match looks.load(Ordering::Relaxed) {
            0 => Err("nobody has".into()),
            _ => Ok(()),
        })
        .await;
        world.hub.merge(&world.resource_at("shop"), suspend(false)).await;
        alice.when(&settings, "the shop's again", |live| entries(live) == 1).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let now = alice.live(&settings).await;
        assert!(says("one")(&now) && entries(&now) == 1, "{now}");
        world.hub.when(&target, "refused still", refused).await;
        world.ready("shop").await;
        berlin.clear_fault();

        // Who agrees is an owner again.
        deliver(theirs("one")).await;
        alice.when(&settings, "applied by both again", |live| entries(live) == 2).await;
        world.remove_from(&other, "bank").await;
        world.hub.delete(&At::new("v1", "Namespace", "", &other)).await;
        world.end().await;
    });
}

#[test]
fn what_was_planned_alone_takes_no_field_of_another_namespace_that_joins_meanwhile() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let other = world.namespace_beside().await;
        let entries = |live: &Value| marks(live).iter().filter(|mark| mark.starts_with("vidra/")).count();
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;

        // The bank's first apply arrives late; the shop's next one, which is planned before that, later still.
        let berlin = memory(&world, "berlin");
        let mark = berlin.requests().last().map_or(0, |call| call.index + 1);
        let late = [("/bank", 2), ("/shop", 5)].map(|(who, time)| (who, time, AtomicUsize::new(0)));
        let slow = move |call: &Call| {
            let is_apply = call.verb == Verb::Apply && call.name == "settings" && !call.dry_run;
            match late.iter().find(|(who, ..)| is_apply && call.manager.ends_with(who)) {
                Some((_, time, seen)) if seen.fetch_add(1, Ordering::Relaxed) == 0 => {
                    Fault::Delay(Duration::from_secs(*time))
                }
                _ => Fault::None,
            }
        };
        berlin.set_fault(Arc::new(slow));
        world.deliver_from(&other, "bank", &object(&config_map_in(&world.ns, "settings", "one"))).await;
        let sent = async |count: usize| {
            wait_for("it is sent", SOON, async || match applies(&berlin, mark, "settings") {
                found if found < count => Err("not yet".into()),
                _ => Ok(()),
            })
            .await;
        };
        sent(1).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
        sent(2).await;
        alice.when(&settings, "joined", |live| says("one")(live) && entries(live) == 2).await;
        world.target_is("shop", "berlin", TargetState::Failed, "SharedObjectConflict").await;
        let now = alice.live(&settings).await;
        assert!(says("one")(&now) && entries(&now) == 2, "{now}");
        berlin.clear_fault();

        world.remove_from(&other, "bank").await;
        alice.when(&settings, "as the one that is left says", says("two")).await;
        world.ready("shop").await;
        world.hub.delete(&At::new("v1", "Namespace", "", &other)).await;
        world.end().await;
    });
}

#[test]
fn what_is_well_only_as_somebody_edited_it_while_another_repair_was_under_way_makes_nothing_ready() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let crd = alice.create(GADGET.crd()).await;
        let manifest = config_map("settings", "one") + &object(&GADGET.one("one"));
        world.deliver("shop", &["berlin"], &manifest).await;
        let (settings, gadget) = (At::config_map(&world.ns, "settings"), GADGET.at(&world, "one"));
        alice.when(&gadget, "there", |_| true).await;
        let says_of = |generation: &Value, ready: &str| {
            let condition = json!({"type": "Ready", "status": ready, "reason": "X", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            json!({"observedGeneration": generation, "conditions": [condition]})
        };
        GADGET.set(&world, &alice, "one", says_of(&json!(1), "False")).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        world.recorded("shop", &["berlin"]).await;
        let ready = async || {
            let conditions = world.target("shop", "berlin").await.unwrap().status.unwrap().conditions;
            find(&conditions, READY).cloned().expect("the condition Ready")
        };
        let before = ready().await;
        let berlin = memory(&world, "berlin");
        let mark = berlin.requests().last().map_or(0, |call| call.index + 1);
        berlin.set_fault(Arc::new(|call: &Call| match (call.verb, call.name.as_str()) {
            (Verb::Apply, "settings") => Fault::Delay(Duration::from_secs(3)),
            (Verb::Apply, "one") => Fault::Late(Duration::from_secs(3)),
            _ => Fault::None,
        }));
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        wait_for("the repair", SOON, async || match applies(&berlin, mark, "settings") {
            0 => Err("none".into()),
            _ => Ok(()),
        })
        .await;
        // Once more while the answer to its repair is on its way.
        for _ in 0..2 {
            let edited = alice.merge(&gadget, json!({"spec": {"size": 2}})).await;
            GADGET.set(&world, &alice, "one", says_of(&edited["metadata"]["generation"], "True")).await;
            alice.when(&gadget, "taken back", |live| live["spec"]["size"] == 1).await;
        }
        tokio::time::sleep(Duration::from_secs(8)).await;
        let now = ready().await;
        let turned = (&now.status, &now.last_transition_time);
        assert_eq!(turned, (&before.status, &before.last_transition_time), "as declared it was never well");
        berlin.clear_fault();
        world.end().await;
        alice.delete(&At::of(&crd)).await;
    });
}

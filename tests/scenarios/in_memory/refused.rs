//! Writes of the hub that its own API refuses, as a quota or a policy does: what is refused is told, and nothing else
//! waits for it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use memkube::{Call, Denial, Verb};
use serde_json::{Value, json};
use testkit::world::{At, SOON, World, wait_for};
use vidra_api::TargetState;

use super::scenario;
use crate::{
    config_map, events,
    handing_over::{drop_both, is_the_seconds, to_move},
    says,
};

/// From now on the hub's API answers these calls so; `None`: as it is.
fn refuse(world: &World, answer: impl Fn(&Call, &Value) -> Option<Denial> + Send + Sync + 'static) {
    let hook = move |call: &Call, object: &Value| answer(call, object).map_or(Ok(()), Err);
    let hub = world.bed().memory("hub").expect("this bed is in memory");
    hub.set_validating_admission(Some(Arc::new(hook)));
}

fn refuse_nothing(world: &World) {
    world.bed().memory("hub").expect("this bed is in memory").set_validating_admission(None);
}

fn quota() -> Denial {
    Denial::new("quota.example.com", "exceeded quota: objects, used: 1, limited: 1")
}

fn is_named(object: &Value, name: &str) -> bool {
    object["metadata"]["name"] == name
}

/// Waits until an Event with this reason says all of these words.
async fn told(world: &World, reason: &str, words: &[&str]) {
    wait_for(&format!("an Event {reason} with {words:?}"), SOON, async || {
        let all = events(world, reason).await;
        let fits = |note: &String| words.iter().all(|word| note.contains(word));
        if all.iter().any(fits) { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await;
}

#[test]
fn a_revision_that_the_hubs_api_refuses_is_told_and_a_member_leaves_all_the_same() {
    scenario(async |world| {
        world.register(&["austin", "berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        world.deliver("shop", &["austin", "berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let hub = world.bed().memory("hub").expect("this bed is in memory");
        let hook = |call: &Call, object: &Value| match call.verb == Verb::Create
            && object["type"] == "vidra.dev/revision"
        {
            true => Err(Denial::new("quota.example.com", "exceeded quota: secrets, used: 5, limited: 5")),
            false => Ok(()),
        };
        hub.set_validating_admission(Some(Arc::new(hook)));
        world.deliver("shop", &["austin", "berlin"], &config_map("settings", "two")).await;
        let told = world.resource_says("shop", "Stalled", "True", "RevisionRefused").await;
        let message = format!("{:?}", told.status);
        assert!(message.contains("Forbidden (403)") && message.contains("lift the quota"), "{message}");
        // What was delivered stays, and is repaired; and a member leaves.
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        alice.when(&settings, "repaired", says("one")).await;
        world.hub.delete(&world.member_at("austin")).await;
        world.hub.gone(&world.member_at("austin")).await;

        hub.set_validating_admission(None);
        world.reconcile_now("shop", "1").await;
        alice.when(&settings, "delivered", says("two")).await;
        world.end().await;
    });
}

#[test]
fn a_target_that_the_hubs_api_refuses_is_told_and_holds_up_no_other() {
    scenario(async |world| {
        world.register(&["austin", "berlin", "tokyo"]).await;
        let hub = world.bed().memory("hub").expect("this bed is in memory");
        let hook = |call: &Call, object: &Value| {
            let refused = call.verb == Verb::Create
                && call.resource == "vidratargets"
                && object["metadata"]["name"] == "shop.berlin";
            match refused {
                true => {
                    Err(Denial::new("quota.example.com", "exceeded quota: vidratargets, used: 1, limited: 1"))
                }
                false => Ok(()),
            }
        };
        hub.set_validating_admission(Some(Arc::new(hook)));
        let all = ["austin", "berlin", "tokyo"];
        world.deliver("shop", &all, &config_map("settings", "one")).await;
        let settings = At::config_map(&world.ns, "settings");
        for member in ["austin", "tokyo"] {
            world.alice(member).await.when(&settings, "delivered", says("one")).await;
        }
        let told = world.resource_says("shop", "Ready", "False", "TargetRefused").await;
        let message = format!("{:?}", told.status);
        assert!(message.contains("shop.berlin") && message.contains("exceeded quota"), "{message}");
        assert_eq!(crate::events(&world, "TargetRefused").await.len(), 1);

        hub.set_validating_admission(None);
        world.ready("shop").await;
        world.alice("berlin").await.when(&settings, "delivered", says("one")).await;
        world.end().await;
    });
}

#[test]
fn a_target_that_cannot_be_made_again_for_a_foreign_finalizer_is_told_and_holds_up_no_other() {
    scenario(async |world| {
        let all = ["austin", "berlin", "tokyo"];
        world.register(&all).await;
        let settings = At::config_map(&world.ns, "settings");
        world.deliver("shop", &all, &config_map("settings", "one")).await;
        world.ready("shop").await;
        let target = world.target_at("shop", "austin");
        let keep = json!({"metadata": {"finalizers": ["vidra.dev/teardown", "example.com/keep"]}});
        world.hub.merge(&target, keep).await;
        world.hub.delete(&target).await;
        world.deliver("shop", &all, &config_map("settings", "two")).await;
        for member in ["berlin", "tokyo"] {
            world.alice(member).await.when(&settings, "delivered", says("two")).await;
        }
        let message = format!("{:?}", world.resource_says("shop", "Ready", "False", "TargetRefused").await);
        assert!(message.contains("shop.austin") && message.contains("example.com/keep"), "{message}");

        world.hub.merge(&target, json!({"metadata": {"finalizers": null}})).await;
        world.ready("shop").await;
        world.alice("austin").await.when(&settings, "delivered", says("two")).await;
        world.end().await;
    });
}

#[test]
fn a_refused_change_of_one_target_holds_up_no_other_that_rests_leaves_or_is_taken_away() {
    scenario(async |world| {
        let all = ["austin", "berlin", "tokyo"];
        world.register(&all).await;
        let settings = At::config_map(&world.ns, "settings");
        for name in ["shop", "bank"] {
            world
                .deliver(name, &all, &config_map(if name == "shop" { "settings" } else { name }, "one"))
                .await;
            world.ready(name).await;
        }
        let refuse_austin = || {
            refuse(&world, |call, object| {
                let of_austin = ["shop.austin", "bank.austin"].iter().any(|name| is_named(object, name));
                let is_spec = call.resource == "vidratargets" && call.subresource.is_empty();
                (is_spec && of_austin).then(quota)
            });
        };
        let suspend = |on: bool| json!({"spec": {"suspend": on}});
        refuse_austin();
        world.hub.merge(&world.resource_at("shop"), suspend(true)).await;
        world.target_is("shop", "berlin", TargetState::Suspended, "Suspended").await;
        world.resource_says("shop", "Ready", "False", "TargetRefused").await;
        told(&world, "TargetRefused", &["shop.austin", "exceeded quota"]).await;

        // It rests, and what cannot be read is tended; a member leaves both.
        world.deliver("bank", &all, "kind: [").await;
        world.resource_says("bank", "Stalled", "True", "ManifestInvalid").await;
        for member in ["austin", "tokyo"] {
            world.hub.delete(&world.member_at(member)).await;
        }
        world.hub.gone(&world.member_at("tokyo")).await;
        told(&world, "TargetRefused", &["bank.austin", "exceeded quota"]).await;

        world.hub.delete(&world.resource_at("shop")).await;
        world.alice("berlin").await.gone(&settings).await;
        world.hub.gone(&world.target_at("shop", "berlin")).await;
        world.resource_says("shop", "Ready", "False", "TargetRefused").await;
        refuse_nothing(&world);
        world.removed("shop").await;
        world.hub.gone(&world.member_at("austin")).await;
        // Members that leave keep what they have.
        for member in ["austin", "tokyo"] {
            for name in ["settings", "bank"] {
                world.alice(member).await.delete(&At::config_map(&world.ns, name)).await;
            }
        }
        world.end().await;
    });
}

#[test]
fn an_inventory_or_a_status_that_the_hubs_api_refuses_is_told_on_the_resource() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        refuse(&world, |call, _| (call.resource == "vidrainventories").then(quota));
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "WriteRefused").await;
        assert!(message.contains("exceeded quota") && message.contains("lift the quota"), "{message}");
        world.resource_says("shop", "Stalled", "True", "TargetsFailed").await;
        assert!(alice.get(&settings).await.is_none(), "nothing is made that stands in no inventory");
        refuse_nothing(&world);
        world.ready("shop").await;
        assert_eq!(events(&world, "WriteRefused").await.len(), 1);

        refuse(&world, |call, _| {
            (call.resource == "vidratargets" && call.subresource == "status").then(quota)
        });
        world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
        alice.when(&settings, "delivered", says("two")).await;
        let message = format!("{:?}", world.resource_says("shop", "Stalled", "True", "TargetsFailed").await);
        assert!(message.contains("Forbidden (403)") && message.contains("lift the quota"), "{message}");
        told(&world, "WriteRefused", &["berlin", "Forbidden (403)"]).await;
        refuse_nothing(&world);
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_refused_mark_of_a_resource_is_told() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        refuse(&world, |call, _| {
            let is_mark = call.resource == "vidraresources" && call.subresource.is_empty();
            (is_mark && call.verb == Verb::Apply && call.user.contains("vidra-hub")).then(quota)
        });
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.resource_says("shop", "Stalled", "True", "WriteRefused").await;
        told(&world, "WriteRefused", &["Forbidden (403)", "lift the quota"]).await;
        refuse_nothing(&world);
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_member_whose_membercluster_the_hubs_api_refuses_is_told_on_its_registration() {
    scenario(async |world| {
        refuse(&world, |call, _| (call.resource == "memberclusters").then(quota));
        let kubeconfig = world.kubeconfig("berlin", testkit::world::Who::VidraHub);
        world.register_as("berlin", &kubeconfig, json!({})).await;
        wait_for("an Event on the registration", SOON, async || {
            let at = At::new("events.k8s.io/v1", "Event", &world.settings.namespace, "");
            let all = world.hub.list(&at).await;
            let fits = |event: &Value| {
                let note = event["note"].as_str().unwrap_or_default();
                event["reason"] == "MemberClusterRefused"
                    && event["regarding"]["name"] == "berlin"
                    && note.contains("exceeded quota")
            };
            if all.iter().any(fits) { Ok(()) } else { Err(format!("{all:?}")) }
        })
        .await;
        refuse_nothing(&world);
        world.member_says("berlin", "Ready", "True").await;
        world.end().await;
    });
}

#[test]
fn a_failure_that_passes_is_not_told_and_one_that_stays_is() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let failing = |times: usize| {
            let left = AtomicUsize::new(times);
            refuse(&world, move |call, _| {
                let is_spec = call.resource == "vidratargets" && call.subresource.is_empty();
                let less = |left: usize| left.checked_sub(1);
                let fails = is_spec && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
                let denial = Denial::new("slow.example.com", "failed calling webhook");
                fails.then(|| Denial { code: 500, reason: "InternalError".to_owned(), ..denial })
            });
        };
        failing(2);
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        for reason in ["TargetRefused", "WriteRefused"] {
            assert_eq!(events(&world, reason).await, Vec::<String>::new());
        }
        failing(usize::MAX);
        world.deliver("bank", &["berlin"], &config_map("bank", "one")).await;
        let message = format!("{:?}", world.resource_says("bank", "Ready", "False", "TargetRefused").await);
        assert!(message.contains("failed calling webhook"), "{message}");
        refuse_nothing(&world);
        world.ready("bank").await;
        world.end().await;
    });
}

#[test]
fn what_a_target_that_the_hubs_api_refuses_is_to_have_stays_and_nothing_else_waits_for_it() {
    for code in [403, 500] {
        scenario(async |world| {
            let (alice, _, before) = to_move(&world).await;
            world.deliver("second", &["berlin"], &config_map("second", "one")).await;
            world.ready("second").await;
            let hub = world.bed().memory("hub").expect("this bed is in memory");
            let hook = move |call: &Call, object: &Value| {
                let refused = call.verb != Verb::Delete
                    && call.resource == "vidratargets"
                    && call.subresource.is_empty()
                    && object["metadata"]["name"] == "second.berlin";
                match refused {
                    true => Err(Denial { code, ..Denial::new("policy.example.com", "not now") }),
                    false => Ok(()),
                }
            };
            hub.set_validating_admission(Some(Arc::new(hook)));
            let moved = config_map("second", "one") + &config_map("moved", "two");
            world.deliver("second", &["berlin"], &moved).await;
            drop_both(&world, &alice, &before).await;

            hub.set_validating_admission(None);
            let now = is_the_seconds(&world, &alice, &before).await;
            assert!(says("two")(&now), "{now}");
            world.end().await;
        });
    }
}

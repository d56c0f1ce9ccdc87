//! Writes of the hub that its own API refuses, as a quota or a policy does: what is refused is told, and nothing else
//! waits for it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use memkube::{Call, Denial, Fault, Verb};
use serde_json::{Value, json};
use testkit::world::{At, Mark, SOON, World, wait_for};
use tokio::time::Instant;
use vidra_api::{DriftState, TargetState, VidraTargetStatus};

use super::{memory, scenario};
use crate::{
    config_map, events,
    handing_over::{drop_both, is_the_seconds, to_move},
    says, told,
    uninstalling::{crd, hold},
};

/// From now on the hub's API answers these calls so; `None`: as it is.
fn refuse(world: &World, answer: impl Fn(&Call, &Value) -> Option<Denial> + Send + Sync + 'static) {
    let hook = move |call: &Call, object: &Value| answer(call, object).map_or(Ok(()), Err);
    let hub = memory(world, "hub");
    hub.set_validating_admission(Some(Arc::new(hook)));
}

fn refuse_nothing(world: &World) {
    memory(world, "hub").set_validating_admission(None);
}

fn quota() -> Denial {
    Denial::new("quota.example.com", "exceeded quota: objects, used: 1, limited: 1")
}

fn is_named(object: &Value, name: &str) -> bool {
    object["metadata"]["name"] == name
}

#[test]
fn a_revision_that_the_hubs_api_refuses_is_told_and_a_member_leaves_all_the_same() {
    scenario(async |world| {
        world.register(&["austin", "berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        world.deliver("shop", &["austin", "berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let hub = memory(&world, "hub");
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
fn a_member_leaves_though_the_hubs_api_fails_to_keep_a_new_revision() {
    scenario(async |world| {
        let (both, settings) = (["austin", "berlin"], At::config_map(&world.ns, "settings"));
        world.register(&both).await;
        world.deliver("shop", &both, &config_map("settings", "one")).await;
        world.ready("shop").await;
        let hub = memory(&world, "hub");
        hub.set_fault(Arc::new(|call: &Call| match (call.verb, call.resource.as_str()) {
            (Verb::Create, "secrets") => Fault::Status(500, "InternalError"),
            _ => Fault::None,
        }));
        world.deliver("shop", &both, &config_map("settings", "two")).await;
        world.resource_says("shop", "Stalled", "True", "WriteRefused").await;
        world.hub.delete(&world.member_at("austin")).await;
        world.hub.gone(&world.member_at("austin")).await;

        hub.clear_fault();
        world.reconcile_now("shop", "1").await;
        world.alice("berlin").await.when(&settings, "delivered", says("two")).await;
        world.end().await;
    });
}

#[test]
fn a_target_that_the_hubs_api_refuses_is_told_and_holds_up_no_other() {
    scenario(async |world| {
        world.register(&["austin", "berlin", "tokyo"]).await;
        let hub = memory(&world, "hub");
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
fn a_target_that_is_selected_no_more_goes_though_the_hubs_api_failed_for_a_moment_to_say_so() {
    scenario(async |world| {
        let settings = At::config_map(&world.ns, "settings");
        world.register(&["austin", "berlin"]).await;
        world.deliver("shop", &["austin", "berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let failed = Arc::new(AtomicUsize::new(0));
        let (hub, count) = (memory(&world, "hub"), failed.clone());
        // For longer than the pause before a status, at whose end the hub looks at it once more in any case.
        let until = Instant::now() + Duration::from_secs(2);
        hub.set_fault(Arc::new(move |call: &Call| {
            let is_it = call.verb == Verb::Update
                && call.resource == "vidratargets"
                && call.subresource.is_empty()
                && call.name == "shop.berlin";
            match is_it && Instant::now() < until {
                true => {
                    count.fetch_add(1, Ordering::Relaxed);
                    Fault::Status(500, "InternalError")
                }
                false => Fault::None,
            }
        }));
        world.deliver("shop", &["austin"], &config_map("settings", "one")).await;
        world.alice("berlin").await.gone(&settings).await;
        assert!(failed.load(Ordering::Relaxed) > 0, "no write has failed");
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
fn a_target_that_could_not_be_made_again_still_counts_when_another_is_deselected() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        let settings = At::config_map(&world.ns, "settings");
        world.deliver("shop", &["berlin", "tokyo"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let hub = memory(&world, "hub");
        hub.set_fault(Arc::new(|call: &Call| match (call.verb, call.resource.as_str(), call.dry_run) {
            (Verb::Create, "vidratargets", false) => Fault::Status(500, "InternalError"),
            _ => Fault::None,
        }));
        world.hub.delete(&world.target_at("shop", "tokyo")).await;
        world.hub.gone(&world.target_at("shop", "tokyo")).await;
        world.deliver("shop", &["tokyo"], &config_map("settings", "two")).await;
        world.alice("berlin").await.gone(&settings).await;
        assert_eq!(events(&world, "RemovalHeld").await.len(), 0);

        hub.clear_fault();
        world.alice("tokyo").await.when(&settings, "made again", says("two")).await;
        world.ready("shop").await;
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

/// How often the hub sent the status of shop and of its target since then.
fn statuses(world: &World, since: &Mark) -> [usize; 2] {
    [world.resource_at("shop"), world.target_at("shop", "berlin")].map(|at| {
        let all = world.requests_for(&at, "hub", since).into_iter();
        all.filter(|one| one.verb == "update" && one.resource.ends_with("/status")).count()
    })
}

#[test]
fn a_status_that_is_refused_for_its_lists_is_written_without_them_told_once_and_not_sent_again() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        refuse(&world, |call, object| {
            let lists = |field: &str| object["status"][field].as_array().is_some_and(|list| !list.is_empty());
            let is_long = call.subresource == "status" && ["clusters", "changes"].into_iter().any(lists);
            is_long.then(|| Denial::new("policy.example.com", "no lists"))
        });
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": "Report"}});
        world.deliver_with("shop", &config_map("settings", "one"), spec).await;
        let shop = world.ready("shop").await.status.unwrap();
        assert_eq!((shop.clusters.len(), shop.targets_ready.as_deref()), (0, Some("1/1")));
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        let differs = |status: &VidraTargetStatus| status.drift == Some(DriftState::Drifted);
        let target = world.target_when("shop", "berlin", "it differs", differs).await.status.unwrap();
        assert_eq!((target.drifted, target.changes.len(), target.changes_total), (1, 0, Some(1)));
        world.resource_says("shop", "Drifted", "True", "TargetsDrifted").await;
        for object in ["of this VidraResource", "of VidraTarget shop.berlin"] {
            told(&world, "StatusShortened", &[object, "make the VidraResource smaller", "Forbidden (403)"])
                .await;
        }

        // Hours pass, with looks at it and nothing new to tell.
        let (mark, passes) = (world.mark(), world.passes());
        tokio::time::sleep(Duration::from_secs(5 * 3600)).await;
        world.when_passes(passes + 3).await;
        assert_eq!(statuses(&world, &mark), [0, 0]);
        // A new process tries once.
        let mark = world.mark();
        world.restart_hub().await;
        world.when_passes(1).await;
        tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
        assert_eq!(statuses(&world, &mark), [1, 1]);
        let notes = events(&world, "StatusShortened").await;
        assert_eq!(notes.len(), 4, "of each life one for each: {notes:?}");

        // And so it does for a person who has changed the policy.
        refuse_nothing(&world);
        world.reconcile_now("shop", "1").await;
        let listed = |status: &VidraTargetStatus| status.changes.len() == 1;
        world.target_when("shop", "berlin", "its lists are there", listed).await;
        let has_lists =
            |shop: &Value| shop["status"]["clusters"].as_array().is_some_and(|list| list.len() == 1);
        world.hub.when(&world.resource_at("shop"), "its lists are there", has_lists).await;
        assert_eq!(events(&world, "StatusShortened").await.len(), 4);
        world.end().await;
    });
}

/// As etcd answers where not even a finalizer has room.
#[test]
fn of_a_resource_into_which_nothing_can_be_written_an_event_says_that_it_is_too_large() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        refuse(&world, |call, _| {
            let is_meant = call.resource == "vidraresources" && call.user.contains("vidra-hub");
            let full = Denial::new("etcd", "etcdserver: request is too large");
            is_meant.then(|| Denial { code: 500, reason: String::new(), ..full })
        });
        let large = format!("#{}\n{}", "x".repeat(1 << 19), config_map("settings", "one"));
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bulk"},
            "data": {"key": "x".repeat(3 << 18)}});
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "manifests": [object]});
        world.deliver_with("shop", &large, spec).await;
        told(&world, "ManifestInvalid", &["bytes as JSON", "spec.manifestsFrom"]).await;
        assert!(world.target("shop", "berlin").await.is_none());
        refuse_nothing(&world);
        world.hub.merge(&world.resource_at("shop"), json!({"spec": {"manifests": null}})).await;
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
            let hub = memory(&world, "hub");
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

#[test]
fn what_a_resource_may_declare_stays_while_a_crd_of_the_hub_is_being_deleted() {
    scenario(async |world| {
        let (alice, at, before) = to_move(&world).await;
        world.deliver("second", &["berlin"], &config_map("second", "one")).await;
        world.ready("second").await;
        let broken = config_map("second", "one") + &config_map("moved", "two") + "---\nkind: [\n";
        world.deliver("second", &["berlin"], &broken).await;
        world.resource_says("second", "Stalled", "True", "ManifestInvalid").await;
        drop_both(&world, &alice, &before).await;
        let crd = crd("vidraresources");
        hold(&world, &crd, true).await;
        world.hub.delete(&crd).await;
        for name in ["first", "second"] {
            // As the server does with every object of the kind.
            world.hub.delete(&world.resource_at(name)).await;
            world.resource_says(name, "Stalled", "True", "CRDTerminating").await;
        }
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(alice.live(&at).await, before, "nothing is removed until a person decides");
        let word = json!({"metadata": {"annotations": {"vidra.dev/approve-removal": "orphan"}}});
        world.hub.merge(&crd, word).await;
        for name in ["first", "second"] {
            world.removed(name).await;
        }
        assert_eq!(alice.live(&at).await, before);
        // Both were forgotten there.
        for name in ["first", "second", "moved"] {
            alice.delete(&At::config_map(&world.ns, name)).await;
        }
        world.end().await;
    });
}

/// What is dropped stays for the setting pruneDelay, and in that time a person says so.
#[test]
fn what_is_to_stay_stays_though_the_hubs_api_refuses_to_write_that_into_its_target() {
    for stop in [json!({"prune": false}), json!({"suspend": true})] {
        scenario(async |world| {
            world.register(&["berlin"]).await;
            let (alice, at) = (world.alice("berlin").await, At::config_map(&world.ns, "dropped"));
            let own = config_map("own", "one");
            world.deliver("shop", &["berlin"], &(own.clone() + &config_map("dropped", "one"))).await;
            world.ready("shop").await;
            world.deliver("shop", &["berlin"], &own).await;
            world.resource_says("shop", "Removing", "True", "PruneDelayed").await;
            refuse(&world, |call, _| {
                let is_spec = call.resource == "vidratargets" && call.subresource.is_empty();
                is_spec.then(quota)
            });
            world.hub.merge(&world.resource_at("shop"), json!({"spec": stop})).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert!(alice.get(&at).await.is_some(), "{stop}: it was deleted all the same");
            refuse_nothing(&world);
            world.reconcile_now("shop", "1").await;
            let written =
                |target: &Value| target["spec"]["prune"] == false || target["spec"]["suspend"] == true;
            world.hub.when(&world.target_at("shop", "berlin"), "written", written).await;
            world.hub.merge(&world.resource_at("shop"), json!({"spec": {"suspend": false}})).await;
            match stop["suspend"] == true {
                true => alice.gone(&at).await,
                false => alice.delete(&at).await,
            }
            world.ready("shop").await;
            world.end().await;
        });
    }
}

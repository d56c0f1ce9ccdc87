//! Credentials that are replaced while work is under way, and a member that joins again: neither is told as a loss. Only in
//! memory is a call slow enough to be under way, and each status seen that is written.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Fault, Verb};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::world::{At, SOON, Who, World, wait_for};
use vidra_api::target::DesiredState;

use super::{called, first_meets, memory, scenario};
use crate::{config_map, events};

/// What VidraTargets say from now on: each state with its reason.
fn told(world: &World) -> Arc<Mutex<Vec<(String, String)>>> {
    let told: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let kept = told.clone();
    let hook = move |call: &Call, object: &Value| {
        if call.resource == "vidratargets" && call.subresource == "status" {
            let text = |field: &str| object["status"][field].as_str().unwrap_or_default().to_owned();
            kept.lock().push((text("state"), text("reason")));
        }
        Ok(())
    };
    memory(world, "hub").set_validating_admission(Some(Arc::new(hook)));
    told
}

#[test]
fn a_kubeconfig_that_is_rotated_in_the_middle_of_a_delivery_is_told_as_no_loss() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let slow = |call: &Call| match call.verb == Verb::Apply && call.resource == "configmaps" {
            true => Fault::Delay(Duration::from_secs(5)),
            false => Fault::None,
        };
        memory(&world, "berlin").set_fault(Arc::new(slow));
        let mark = world.mark();
        let told = told(&world);
        let manifest: String = (0..60).map(|number| config_map(&format!("c{number:02}"), "one")).collect();
        world.deliver("shop", &["berlin"], &manifest).await;
        wait_for("the delivery has begun", SOON, async || {
            let all = memory(&world, "berlin").requests();
            match all.iter().any(|call| call.verb == Verb::Apply && call.resource == "configmaps") {
                true => Ok(()),
                false => Err("nothing is applied".into()),
            }
        })
        .await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        world.register_as("berlin", &world.kubeconfig("berlin", Who::Alice), json!({})).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        memory(&world, "berlin").clear_fault();
        world.ready("shop").await;
        let by_alice = world.requests_by(Who::Alice, "berlin", &mark);
        assert!(by_alice.iter().any(|one| one.resource == "configmaps"), "rotated too late: {by_alice:?}");
        let told = told.lock().clone();
        let is_loss = |(state, reason): &&(String, String)| {
            state == "Unknown" || ["NoAnswer", "Withdrawn", "NoCredentials"].contains(&reason.as_str())
        };
        assert_eq!(told.iter().filter(is_loss).count(), 0, "{told:?}");
        assert_eq!(events(&world, "TargetUnknown").await, [""; 0]);
        world.end().await;
    });
}

#[test]
fn what_a_call_that_was_cut_off_by_new_credentials_makes_later_is_removed_all_the_same() {
    lands_after_its_credentials(async |_| {});
}

#[test]
fn what_was_sent_with_credentials_that_are_gone_and_lands_later_is_removed_when_there_are_others() {
    lands_after_its_credentials(async |world| {
        let secret = At::new("v1", "Secret", &world.settings.namespace, "berlin");
        world.hub.delete(&secret).await;
        world
            .target_when("shop", "berlin", "it has no credentials", |status| {
                status.reason.as_deref() == Some("NoCredentials")
            })
            .await;
    });
}

/// A create lands when other credentials than those with which it was sent are there; what happens between them.
fn lands_after_its_credentials(between: impl AsyncFnOnce(&World)) {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (berlin, makes) =
            (memory(&world, "berlin"), |call: &Call| call.verb == Verb::Apply && call.name == "late");
        first_meets(&berlin, Fault::LandsLater(Duration::from_secs(40)), makes);
        world.deliver("shop", &["berlin"], &config_map("late", "one")).await;
        called(&berlin, makes).await;
        world.hub.delete(&world.resource_at("shop")).await;
        wait_for("the target is to go", SOON, async || {
            let target = world.target("shop", "berlin").await.ok_or("there is none")?;
            if target.spec.desired == DesiredState::Absent {
                Ok(())
            } else {
                Err(format!("{:?}", target.spec))
            }
        })
        .await;
        between(&world).await;
        world.register_as("berlin", &world.kubeconfig("berlin", Who::Alice), json!({})).await;
        world.removed("shop").await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        let at = At::config_map(&world.ns, "late");
        assert_eq!(world.alice("berlin").await.get(&at).await, None, "the hub says that all is removed");
        berlin.clear_fault();
        world.end().await;
    });
}

#[test]
fn of_a_member_that_joins_again_nobody_says_that_it_has_no_credentials_before_they_are_read() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "conflicts": {"existing": "Adopt"}});
        world.deliver_with("shop", &config_map("settings", "one"), spec).await;
        world.ready("shop").await;
        let member = world.member_at("berlin");
        world.hub.delete(&member).await;
        world.hub.gone(&member).await;
        world.resource_says("shop", "Ready", "False", "ClusterNotFound").await;

        // Until its own reconcile has come to the credentials takes long.
        let told = told(&world);
        let slow = |call: &Call| match call.resource == "memberclusters"
            && matches!(call.verb, Verb::Apply | Verb::Update | Verb::Patch)
        {
            true => Fault::Delay(Duration::from_secs(2)),
            false => Fault::None,
        };
        memory(&world, "hub").set_fault(Arc::new(slow));
        let again = json!({"metadata": {"annotations": {"vidra.dev/left-at": null}}});
        world.hub.merge(&world.registration("berlin"), again).await;
        world.member_says("berlin", "Ready", "True").await;
        world.ready("shop").await;
        let told = told.lock().clone();
        assert!(!told.is_empty() && told.iter().all(|(_, reason)| reason != "NoCredentials"), "{told:?}");
        world.end().await;
    });
}

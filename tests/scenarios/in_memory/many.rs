//! VidraResources with targets on many members: what is written to all of them takes turns in bounds, and what is told
//! of all of them is told together.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use memkube::{Call, Fault, Verb};
use serde_json::json;
use testkit::world::{At, SOON, World, in_memory_with_members, wait_for};
use vidra_api::TargetState;
use vidra_hub::internal_limits::InternalLimits;

use super::memory;
use crate::{config_map, events};

/// More than are written side by side.
const MEMBERS: [&str; 20] = [
    "edge-00", "edge-01", "edge-02", "edge-03", "edge-04", "edge-05", "edge-06", "edge-07", "edge-08",
    "edge-09", "edge-10", "edge-11", "edge-12", "edge-13", "edge-14", "edge-15", "edge-16", "edge-17",
    "edge-18", "edge-19",
];

/// A world in which a VidraResource is Ready on all members.
fn scenario(scenario: impl AsyncFnOnce(World)) {
    in_memory_with_members(&MEMBERS, async |world| {
        world.register(&MEMBERS).await;
        world.deliver("shop", &MEMBERS, &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.recorded("shop", &MEMBERS).await;
        scenario(world).await;
    });
}

/// A write of the hub to a VidraTarget, that of a status apart.
fn is_spec(call: &Call) -> bool {
    call.user.contains("vidra-hub")
        && call.resource == "vidratargets"
        && call.subresource.is_empty()
        && !matches!(call.verb, Verb::Get | Verb::List | Verb::Watch)
}

#[test]
fn the_targets_of_a_resource_on_many_members_come_to_rest_and_go_side_by_side_in_bounds() {
    scenario(async |world| {
        let hub = memory(&world, "hub");
        let most = Arc::<AtomicUsize>::default();
        let (server, seen) = (hub.clone(), most.clone());
        let slow = move |call: &Call| {
            if !is_spec(call) {
                return Fault::None;
            }
            let under_way = server.requests().iter().filter(|call| is_spec(call) && call.status == 0).count();
            seen.fetch_max(under_way, Ordering::Relaxed);
            Fault::Delay(Duration::from_secs(1))
        };
        hub.set_fault(Arc::new(slow));
        let bound = InternalLimits::default().resource_calls;
        world.hub.merge(&world.resource_at("shop"), json!({"spec": {"suspend": true}})).await;
        for member in MEMBERS {
            world.target_is("shop", member, TargetState::Suspended, "Suspended").await;
        }
        assert_eq!(
            most.swap(0, Ordering::Relaxed),
            bound,
            "writes under way at once while they come to rest"
        );

        world.hub.delete(&world.resource_at("shop")).await;
        world.removed("shop").await;
        assert_eq!(most.load(Ordering::Relaxed), bound, "writes under way at once while they go");
        hub.clear_fault();
        world.end().await;
    });
}

#[test]
fn members_that_are_forgotten_at_once_are_noted_in_one_status_and_told_in_one_event() {
    scenario(async |world| {
        let frozen: Vec<_> = MEMBERS.iter().map(|member| world.freeze(member)).collect();
        let shop = world.resource_at("shop");
        // So that its status can be read when all are gone.
        let keep = json!({"metadata": {"finalizers": ["vidra.dev/teardown", "example.com/keep"]}});
        world.hub.merge(&shop, keep).await;
        world.hub.delete(&shop).await;
        for member in MEMBERS {
            world.target_is("shop", member, TargetState::Terminating, "MemberUnreachable").await;
        }

        let mark = world.mark();
        let forget = json!({"metadata": {"annotations": {"vidra.dev/forget": MEMBERS.join(",")}}});
        world.hub.merge(&shop, forget).await;
        for member in MEMBERS {
            world.hub.gone(&world.target_at("shop", member)).await;
        }
        let left =
            world.resource_says("shop", "Ready", "False", "Terminating").await.status.unwrap().left_behind;
        let statuses = world.writes_to(&shop, "hub", &mark);
        let statuses = statuses.iter().filter(|write| write.resource == "vidraresources/status").count();
        assert!(statuses <= 3, "{statuses} writes of its status for {} members", MEMBERS.len());
        let named: Vec<_> = left.iter().map(|left| (left.cluster.as_str(), left.objects)).collect();
        assert_eq!(named, MEMBERS.map(|member| (member, 1)));
        wait_for("an Event", SOON, async || match events(&world, "LeftBehind").await.len() {
            0 => Err("there is none".to_owned()),
            _ => Ok(()),
        })
        .await;
        let notes = events(&world, "LeftBehind").await;
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].starts_with("20 clusters are forgotten"), "{notes:?}");
        assert!(notes[0].ends_with("edge-09 (1 object) and 10 more"), "{notes:?}");

        world.hub.merge(&shop, json!({"metadata": {"finalizers": null}})).await;
        drop(frozen);
        for member in MEMBERS {
            world.alice(member).await.delete(&At::config_map(&world.ns, "settings")).await;
        }
        world.end().await;
    });
}

#[test]
fn what_is_noted_of_a_forgotten_member_stays_though_the_hubs_api_is_slow() {
    super::scenario(async |world| {
        let settings = At::config_map(&world.ns, "settings");
        world.register(&["austin", "berlin"]).await;
        world.deliver("shop", &["austin", "berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let frozen = world.freeze("austin");
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.target_is("shop", "austin", TargetState::Terminating, "MemberUnreachable").await;

        let hub = memory(&world, "hub");
        hub.set_fault(Arc::new(|call: &Call| match is_spec(call) {
            true => Fault::Delay(Duration::from_secs(2)),
            false => Fault::None,
        }));
        // The same pass has something else to say in the status.
        let asked = json!({"vidra.dev/forget": "austin", "vidra.dev/reconcile-requested-at": "1"});
        world.hub.merge(&world.resource_at("shop"), json!({"metadata": {"annotations": asked}})).await;
        world.hub.gone(&world.target_at("shop", "austin")).await;
        hub.clear_fault();
        let left = world.ready("shop").await.status.unwrap().left_behind;
        assert_eq!(left.iter().map(|left| left.cluster.as_str()).collect::<Vec<_>>(), ["austin"]);

        drop(frozen);
        world.alice("austin").await.delete(&settings).await;
        world.end().await;
    });
}

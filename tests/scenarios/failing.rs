//! What a health rule calls failed: it may recover for a while, and then has failed, over a restart too.

use serde_json::json;
use testkit::world::{At, World};
use vidra_api::{ObjectHealth, TargetState};

use crate::health::{GADGET, in_wave};
use crate::{config_map_in, object, scenario, settings};

/// Gadgets that go Up, or Down, or are on their way.
async fn deliver(world: &World) {
    deliver_sized(world, 1).await;
}

async fn deliver_sized(world: &World, size: i64) {
    let rule = json!({"apiVersion": "health.example.com/v1", "kind": "Gadget", "failed": "status.phase == 'Down'",
        "current": "status.phase == 'Up'", "message": "status.phase"});
    let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "healthCheckExprs": [rule]});
    let mut one = GADGET.one("one");
    one["spec"]["size"] = json!(size);
    let manifest = object(&GADGET.crd()) + &object(&one);
    world.deliver_with("shop", &manifest, spec).await;
}

#[test]
fn what_recovers_soon_writes_nothing_and_what_has_failed_stays_so_over_a_restart() {
    scenario(async |mut world| {
        settings::set(&world, json!({"health.failedAfter": "10m"})).await;
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        deliver(&world).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        let turn = async |world: &World, phase: &str| {
            let seen = world.passes();
            GADGET.set(world, &alice, "one", json!({"phase": phase})).await;
            world.when_passes(seen + 1).await;
        };
        world.counted(&["berlin"]).await;

        // On its way, then failed for a moment, then Ready: that alone is told.
        let target = At::new("vidra.dev/v1alpha1", "VidraTarget", &world.ns, "shop.berlin");
        let mark = world.mark();
        turn(&world, "Down").await;
        assert_eq!(world.writes("hub", &mark), [], "it may recover");
        turn(&world, "Up").await;
        world.ready("shop").await;
        assert_eq!(world.writes_to(&target, "hub", &mark).len(), 1);
        world.counted(&["berlin"]).await;

        let quiet = world.mark();
        turn(&world, "Down").await;
        turn(&world, "Up").await;
        turn(&world, "Down").await;
        assert_eq!(world.writes("hub", &quiet), [], "what recovers writes nothing");

        // After the time it has failed, though nothing comes.
        settings::set(&world, json!({"health.failedAfter": "2s"})).await;
        world.restart_hub().await;
        world.target_is("shop", "berlin", TargetState::Failed, "ObjectFailed").await;
        let status = world.target("shop", "berlin").await.unwrap().status.unwrap_or_default();
        assert_eq!(
            (status.unready[0].health, status.unready[0].note.as_deref()),
            (ObjectHealth::Failed, Some("Down"))
        );

        settings::set(&world, json!({"health.failedAfter": "10m"})).await;
        world.counted(&["berlin"]).await;
        let before = world.target("shop", "berlin").await.unwrap();
        world.restart_hub().await;
        world.when_passes(1).await;
        world.target_is("shop", "berlin", TargetState::Failed, "ObjectFailed").await;
        let now = world.target("shop", "berlin").await.unwrap();
        assert_eq!(
            now.metadata.resource_version, before.metadata.resource_version,
            "it does not recover by that"
        );
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn what_has_failed_while_a_later_wave_waits_stays_so_over_a_restart() {
    scenario(async |mut world| {
        settings::set(&world, json!({"health.failedAfter": "2s"})).await;
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let rule = json!({"apiVersion": "health.example.com/v1", "kind": "Gadget", "failed": "status.phase == 'Down'",
            "current": "status.phase == 'Up'"});
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "healthCheckExprs": [rule]});
        let late = in_wave(config_map_in("", "late", "one"), 1);
        world
            .deliver_with("shop", &(object(&GADGET.crd()) + &object(&GADGET.one("one")) + &late), spec)
            .await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        GADGET.set(&world, &alice, "one", json!({"phase": "Down"})).await;
        world.target_is("shop", "berlin", TargetState::Failed, "ObjectFailed").await;
        settings::set(&world, json!({"health.failedAfter": "10m"})).await;
        world.counted(&["berlin"]).await;

        let before = world.target("shop", "berlin").await.unwrap();
        world.restart_hub().await;
        world.member_says("berlin", "Ready", "True").await;
        world.look("shop", "after the restart", 1).await;
        let now = world.target("shop", "berlin").await.unwrap();
        assert_eq!(now.status.as_ref().and_then(|status| status.state), Some(TargetState::Failed));
        assert_eq!(now.metadata.resource_version, before.metadata.resource_version);
        GADGET.set(&world, &alice, "one", json!({"phase": "Up"})).await;
        world.ready("shop").await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn what_failed_before_it_was_changed_has_not_failed_by_the_change() {
    scenario(async |mut world| {
        settings::set(&world, json!({"health.failedAfter": "2s"})).await;
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        deliver(&world).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        GADGET.set(&world, &alice, "one", json!({"phase": "Down"})).await;
        world.target_is("shop", "berlin", TargetState::Failed, "ObjectFailed").await;
        settings::set(&world, json!({"health.failedAfter": "10m"})).await;

        // Its controller has not seen the change yet, and says what it said.
        deliver_sized(&world, 2).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        world.restart_hub().await;
        world.when_passes(1).await;
        let target = world.target("shop", "berlin").await.unwrap();
        let status = target.status.unwrap_or_default();
        assert_eq!(status.state, Some(TargetState::Progressing));
        assert_eq!(status.revision.as_deref(), Some(&*target.spec.revision));
        GADGET.set(&world, &alice, "one", json!({"phase": "Up"})).await;
        world.ready("shop").await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

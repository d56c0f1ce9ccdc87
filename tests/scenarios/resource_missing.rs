//! A VidraTarget whose VidraResource is gone, as a finalizer that was stripped while the hub was down leaves it: that is no
//! wish. Nothing is written and nothing is deleted until the VidraResource is applied again, or a person says that the
//! objects are to stay without it.

use serde_json::{Value, json};
use testkit::world::{Access, At, World};
use vidra_api::TargetState;

use crate::{config_map, events, marks, says, scenario, uid};

/// Delivered, and then the VidraResource goes without a word to the hub; its garbage collector may have begun with the
/// VidraTarget. What the target says then.
async fn gone(world: &mut World, propagation: &str) -> (Access, Value, String) {
    world.register(&["berlin"]).await;
    let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
    world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
    world.ready("shop").await;
    world.recorded("shop", &["berlin"]).await;
    let live = alice.live(&settings).await;
    world.stop_hub().await;
    let resource = world.resource_at("shop");
    world.hub.delete_with(&resource, json!({"propagationPolicy": propagation})).await;
    world.hub.merge(&resource, json!({"metadata": {"finalizers": null}})).await;
    world.hub.gone(&resource).await;
    world.start_hub().await;
    let message = world.target_is("shop", "berlin", TargetState::Unknown, "ResourceMissing").await;
    (alice, live, message)
}

/// Neither repaired nor deleted, whoever asks.
async fn left_alone(world: &World, alice: &Access, live: &Value) {
    let (settings, mark) = (At::config_map(&world.ns, "settings"), world.mark());
    alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
    world.deliver("marker", &["berlin"], &config_map("marker", "one")).await;
    world.ready("marker").await;
    assert_eq!(world.writes_to(&settings, "berlin", &mark), []);
    let now = alice.live(&settings).await;
    assert!(says("evil")(&now) && uid(&now) == uid(live), "{now}");
    assert_eq!(world.metric("vidra_targets_resource_missing{cluster=\"berlin\"}"), 1.0);
    assert_eq!(events(world, "ResourceMissing").await.len(), 1);
}

#[test]
fn a_target_whose_resource_is_gone_waits_until_that_is_applied_again() {
    scenario(async |mut world| {
        let (alice, live, message) = gone(&mut world, "Background").await;
        assert!(message.contains("Apply it again"), "{message}");
        left_alone(&world, &alice, &live).await;

        let settings = At::config_map(&world.ns, "settings");
        world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
        let now = alice.when(&settings, "kept as declared", says("two")).await;
        assert_eq!(uid(&now), uid(&live));
        world.ready("shop").await;
        assert_eq!(world.metric("vidra_targets_resource_missing{cluster=\"berlin\"}"), 0.0);
        world.remove("shop").await;
        alice.gone(&settings).await;
        world.end().await;
    });
}

#[test]
fn a_target_whose_resource_is_made_again_as_it_was_is_kept_as_declared_again() {
    scenario(async |mut world| {
        let (alice, live, _) = gone(&mut world, "Orphan").await;
        left_alone(&world, &alice, &live).await;
        // A word that nobody needs any more does nothing, now or later.
        let target = world.target_at("shop", "berlin");
        world.stop_hub().await;
        let word = json!({"metadata": {"annotations": {"vidra.dev/approve-removal": "orphan"}}});
        world.hub.merge(&target, word).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.start_hub().await;
        let settings = At::config_map(&world.ns, "settings");
        let now = alice.when(&settings, "kept as declared", says("one")).await;
        assert_eq!(uid(&now), uid(&live));
        world.ready("shop").await;
        let is_spent = |now: &Value| now["metadata"]["annotations"]["vidra.dev/approve-removal"].is_null();
        world.hub.when(&target, "the word is taken off", is_spent).await;
        world.remove("shop").await;
        alice.gone(&settings).await;
        world.end().await;
    });
}

#[test]
fn a_target_whose_resource_is_gone_goes_by_a_persons_word_and_leaves_its_objects() {
    scenario(async |mut world| {
        let (alice, live, message) = gone(&mut world, "Orphan").await;
        let command = format!(
            "kubectl annotate vidratarget shop.berlin -n {} vidra.dev/approve-removal=orphan",
            world.ns
        );
        assert!(message.contains(&command), "{message}");
        left_alone(&world, &alice, &live).await;

        let (target, settings) = (world.target_at("shop", "berlin"), At::config_map(&world.ns, "settings"));
        let word = |word: &str| json!({"metadata": {"annotations": {"vidra.dev/approve-removal": word}}});
        world.hub.merge(&target, word("delete")).await;
        world.deliver("marker", &["berlin"], &config_map("marker", "two")).await;
        world.ready("marker").await;
        assert!(world.target("shop", "berlin").await.is_some(), "another word says nothing");
        world.hub.merge(&target, word("orphan")).await;
        world.hub.gone(&target).await;
        let now = alice.live(&settings).await;
        assert!(marks(&now).is_empty() && says("evil")(&now) && uid(&now) == uid(&live), "{now}");
        let inventories = At::new("vidra.dev/v1alpha1", "VidraInventory", &world.ns, "");
        testkit::world::wait_for("its inventory is gone", testkit::world::SOON, async || {
            let left = world.hub.list(&inventories).await;
            let left: Vec<_> = left.iter().filter(|one| one["spec"]["resource"] == "shop").collect();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        })
        .await;
        alice.delete(&settings).await;
        world.end().await;
    });
}

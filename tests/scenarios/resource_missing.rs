//! A VidraTarget whose VidraResource is gone, as a finalizer that was stripped while the hub was down leaves it: that is no
//! wish. Nothing is written and nothing is deleted until the VidraResource is applied again, or a person says that the
//! objects are to stay without it. A member that leaves waits for that, says so, and is let go by a person's word.

use serde_json::{Value, json};
use testkit::world::{Access, At, World};
use vidra_api::TargetState;

use crate::{config_map, events, marks, says, scenario, uid};

/// An object of the hub goes though its finalizer is not done.
pub async fn vanishes(world: &World, at: &At, propagation: &str) {
    world.hub.delete_with(at, json!({"propagationPolicy": propagation})).await;
    world.hub.merge(at, json!({"metadata": {"finalizers": null}})).await;
    world.hub.gone(at).await;
}

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
    vanishes(world, &world.resource_at("shop"), propagation).await;
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

/// As a hub leaves it that delivers once more before it notices that its store was put back.
#[test]
fn an_inventory_without_a_target_stays_until_its_resource_is_applied_again_and_deleted() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;
        let live = alice.live(&settings).await;
        world.stop_hub().await;
        for at in [world.resource_at("shop"), world.target_at("shop", "berlin")] {
            vanishes(&world, &at, "Orphan").await;
        }
        world.start_hub().await;
        let mark = world.mark();
        world.deliver("marker", &["berlin"], &config_map("marker", "one")).await;
        world.ready("marker").await;
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);
        world.recorded("shop", &["berlin"]).await;

        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        assert_eq!(uid(&alice.live(&settings).await), uid(&live));
        world.remove("shop").await;
        alice.gone(&settings).await;
        world.end().await;
    });
}

#[test]
fn a_target_of_which_nothing_is_left_goes_though_its_resource_is_gone() {
    scenario(async |mut world| {
        let (alice, _, _) = gone(&mut world, "Background").await;
        // As a process leaves it that ended between its last two writes.
        world.stop_hub().await;
        alice.delete(&At::config_map(&world.ns, "settings")).await;
        let inventory = At::new("vidra.dev/v1alpha1", "VidraInventory", &world.ns, "");
        for chunk in world.hub.list(&inventory).await {
            let at = At::new(
                "vidra.dev/v1alpha1",
                "VidraInventory",
                &world.ns,
                chunk["metadata"]["name"].as_str().unwrap(),
            );
            world.hub.merge(&at, json!({"metadata": {"finalizers": null}, "spec": {"entries": []}})).await;
        }
        let target = world.target_at("shop", "berlin");
        let now = world.hub.merge(&target, json!({"spec": {"desired": "Absent"}})).await;
        let torn_down = json!({"type": "TornDown", "status": "True", "reason": "TornDown", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let status = json!({"observedGeneration": now["metadata"]["generation"], "conditions": [torn_down]});
        world.hub.merge_status(&target, json!({"status": status})).await;
        world.start_hub().await;
        world.hub.gone(&target).await;
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

fn annotated(annotation: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {annotation: value}}})
}

/// The member is deleted; what it says that it waits for.
async fn member_waits(world: &World) -> String {
    world.hub.delete(&world.member_at("berlin")).await;
    world.member_says("berlin", "Stalled", "True").await
}

#[test]
fn a_member_that_leaves_says_which_target_has_no_resource_and_goes_by_the_word_on_that() {
    scenario(async |mut world| {
        let (alice, live, _) = gone(&mut world, "Orphan").await;
        let message = member_waits(&world).await;
        let target = format!("kubectl annotate vidratarget shop.berlin -n {} ", world.ns);
        for word in [&*target, "kubectl annotate membercluster berlin vidra.dev/forget=true"] {
            assert!(message.contains(word), "{message}");
        }
        is_waited_for(&world, &alice).await;

        let word = annotated("vidra.dev/approve-removal", "orphan");
        world.hub.merge(&world.target_at("shop", "berlin"), word).await;
        is_let_go(&world, &alice, &live).await;
        world.end().await;
    });
}

#[test]
fn a_member_that_leaves_and_answers_lets_go_of_what_has_no_resource_by_its_own_word() {
    scenario(async |mut world| {
        let (alice, live, _) = gone(&mut world, "Orphan").await;
        world.hub.merge(&world.member_at("berlin"), json!({"spec": {"onLeave": "Delete"}})).await;
        member_waits(&world).await;
        is_waited_for(&world, &alice).await;

        world.hub.merge(&world.member_at("berlin"), annotated("vidra.dev/forget", "true")).await;
        is_let_go(&world, &alice, &live).await;
        world.end().await;
    });
}

/// It is neither repaired nor deleted, and the member stays, while the hub does something else.
async fn is_waited_for(world: &World, alice: &Access) {
    let (settings, mark) = (At::config_map(&world.ns, "settings"), world.mark());
    alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
    world.register(&["tokyo"]).await;
    world.deliver("marker", &["tokyo"], &config_map("marker", "one")).await;
    world.ready("marker").await;
    assert_eq!(world.writes_to(&settings, "berlin", &mark), []);
    assert!(world.member("berlin").await.is_some());
}

/// The member has left and keeps the object, without the hub's marks.
async fn is_let_go(world: &World, alice: &Access, live: &Value) {
    world.hub.gone(&world.member_at("berlin")).await;
    let settings = At::config_map(&world.ns, "settings");
    let now = alice.live(&settings).await;
    assert!(marks(&now).is_empty() && says("evil")(&now) && uid(&now) == uid(live), "{now}");
    alice.delete(&settings).await;
}

#[test]
fn a_silent_member_that_leaves_is_forgotten_by_a_persons_word_though_a_resource_is_missing() {
    scenario(async |mut world| {
        let (alice, live, _) = gone(&mut world, "Orphan").await;
        let frozen = world.freeze("berlin");
        world.member_says("berlin", "Reachable", "False").await;
        member_waits(&world).await;
        world.hub.merge(&world.member_at("berlin"), annotated("vidra.dev/forget", "true")).await;
        world.hub.gone(&world.member_at("berlin")).await;
        testkit::world::wait_for("an Event", testkit::world::SOON, async || {
            let said = events(&world, "LeftBehind").await;
            let is_it = |note: &String| note.contains("berlin is forgotten") && note.contains("settings");
            if said.iter().any(is_it) { Ok(()) } else { Err(format!("{said:?}")) }
        })
        .await;
        assert_eq!(world.inventory("shop", "berlin").await, []);
        drop(frozen);
        let settings = At::config_map(&world.ns, "settings");
        let now = alice.live(&settings).await;
        assert!(says("one")(&now) && uid(&now) == uid(&live) && !marks(&now).is_empty(), "as it was: {now}");
        alice.delete(&settings).await;
        world.end().await;
    });
}

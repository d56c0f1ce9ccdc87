//! Members that are dead, slow to fail, or come back as they were long ago.

use std::time::Duration;

use memkube::Down;
use serde_json::json;
use testkit::sim::{
    World, run,
    world::{Shape, config_map, document, hub_path, resource},
};

use crate::scenarios::ready;

fn state(world: &World, member: &str) -> serde_json::Value {
    world.target("shop", member).unwrap_or_default()["status"]["state"].clone()
}

fn dead(how: Down) {
    run(5, || async {
        let world = World::new(Shape::new(5)).await;
        world.create("hub", &hub_path("vidraresources"), resource("shop", &document("a", "one"))).await;
        world.start_hub();
        world.until("it is delivered", Duration::from_secs(3), || ready(&world, "shop")).await;
        world.settle().await;

        world.cluster("tokyo").set_down(Some(how));
        let unknown = || state(&world, "tokyo") == "Unknown";
        world.until("its target is unknown", Duration::from_secs(40), unknown).await;
        let told = || world.has_condition("shop", "Ready", "False", "MembersUnreachable");
        world.until("the roll-up says so", Duration::from_secs(2), told).await;
        assert_eq!(state(&world, "berlin"), "Ready");

        let shop = format!("{}/shop", hub_path("vidraresources"));
        world.patch("hub", &shop, json!({"spec": {"manifest": document("a", "two")}})).await;
        let changed = |member: &str| world.data(member, "a") == Some(json!({"key": "two"}));
        world.until("the other is changed", Duration::from_secs(2), || changed("berlin")).await;
        world.until("and reported", Duration::from_secs(2), || state(&world, "berlin") == "Ready").await;
        // Nothing that happens in the dead member's time is lost.
        tokio::time::sleep(Duration::from_secs(1800)).await;
        assert!(unknown() && !changed("tokyo"));

        world.cluster("tokyo").set_down(None);
        let healed = || changed("tokyo") && ready(&world, "shop");
        // Probes are at most two minutes and a tenth apart.
        world.until("it heals", Duration::from_secs(140), healed).await;
        world.patch("tokyo", &config_map("a"), json!({"data": {"key": "mine"}})).await;
        world.until("it is watched again", Duration::from_millis(200), || changed("tokyo")).await;
        world.settle().await;
        world.end_hub().await;
        assert_eq!(world.observer.breaches(), [""; 0]);
    });
}

#[test]
fn a_hung_member_is_unknown_and_does_not_delay_the_other() {
    dead(Down::Hang);
}

#[test]
fn a_refusing_member_is_unknown_and_does_not_delay_the_other() {
    dead(Down::Refuse);
}

/// A removal on a dead member waits for it, and the resource with it.
#[test]
fn a_resource_deleted_while_a_member_is_dead_goes_when_it_is_back() {
    run(6, || async {
        let world = World::new(Shape::new(6)).await;
        world.create("hub", &hub_path("vidraresources"), resource("shop", &document("a", "one"))).await;
        world.start_hub();
        world.until("it is delivered", Duration::from_secs(3), || ready(&world, "shop")).await;
        world.cluster("tokyo").set_down(Some(Down::Hang));
        world.delete("hub", &format!("{}/shop", hub_path("vidraresources"))).await;
        let berlin = || world.data("berlin", "a").is_none() && world.target("shop", "berlin").is_none();
        world.until("the living one is free", Duration::from_secs(3), berlin).await;
        tokio::time::sleep(Duration::from_secs(900)).await;
        assert!(world.resource("shop").is_some() && world.data("tokyo", "a").is_some());
        assert_eq!(state(&world, "tokyo"), "Terminating");
        world.cluster("tokyo").set_down(None);
        let gone = || world.resource("shop").is_none() && world.data("tokyo", "a").is_none();
        world.until("the other follows", Duration::from_secs(180), gone).await;
        world.settle().await;
        world.end_hub().await;
        assert_eq!(world.observer.breaches(), [""; 0]);
    });
}

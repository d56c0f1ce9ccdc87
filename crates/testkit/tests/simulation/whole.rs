//! The loop as a user sees it, and that it is quiet when there is nothing to do.

use std::time::Duration;

use serde_json::json;
use testkit::sim::{
    World, run,
    world::{Shape, config_map, document, hub_path, resource},
};

use crate::scenarios::{ready, theirs};

const SOON: Duration = Duration::from_secs(3);

#[test]
fn the_whole_loop_from_delivery_to_removal() {
    run(3, || async {
        let world = World::new(Shape::new(3)).await;
        world.create("hub", &hub_path("vidraresources"), resource("shop", &document("a", "one"))).await;
        world.start_hub();
        world.until("it is delivered", SOON, || ready(&world, "shop")).await;
        let both = |value: &str| ["berlin", "tokyo"].iter().all(|member| is(&world, member, value));
        assert!(both("one"));

        let shop = format!("{}/shop", hub_path("vidraresources"));
        world.patch("hub", &shop, json!({"spec": {"manifest": document("a", "two")}})).await;
        world.until("it is changed", SOON, || both("two") && ready(&world, "shop")).await;

        world.patch("berlin", &config_map("a"), json!({"data": {"key": "mine"}})).await;
        world.until("it is repaired", Duration::from_millis(200), || both("two")).await;
        world.delete("tokyo", &config_map("a")).await;
        world.until("it is made again", Duration::from_millis(200), || both("two")).await;

        world.settle().await;
        world.end_hub().await;
        world.arm(&[]);
        world.start_hub();
        world.settle().await;
        let writes: Vec<_> = world.observer.trace().into_iter().filter(|seen| seen.is_write()).collect();
        assert!(writes.is_empty(), "a restart writes nothing: {}", join(&writes));

        world.end_hub().await;
        world.patch("berlin", &config_map("a"), json!({"data": {"key": "mine"}})).await;
        world.delete("tokyo", &config_map("a")).await;
        world.start_hub();
        world.until("what happened meanwhile is repaired", SOON, || both("two")).await;

        world.delete("hub", &shop).await;
        world.until("it is gone", SOON, || world.resource("shop").is_none()).await;
        assert!(world.data("berlin", "a").is_none() && world.data("tokyo", "a").is_none());
        world.settle().await;
        world.end_hub().await;
        assert_eq!(world.observer.breaches(), [""; 0]);
    });
}

#[test]
fn ten_intervals_in_which_nothing_happens_cost_nothing() {
    run(4, || async {
        let interval = Duration::from_secs(60);
        let world = World::new(Shape { interval, ..Shape::new(4) }).await;
        let two = document("a", "one") + &document("b", "one");
        world.create("hub", &hub_path("vidraresources"), resource("shop", &two)).await;
        world.start_hub();
        world.until("it is delivered", SOON, || ready(&world, "shop")).await;
        world.settle().await;
        world.arm(&[]);
        let before = revisions(&world);
        tokio::time::sleep(interval * 10).await;
        let busy: Vec<_> = world.observer.trace().into_iter().filter(|seen| !seen.is_idle()).collect();
        assert!(busy.is_empty(), "{}", join(&busy));
        assert!(!world.observer.trace().is_empty(), "probes and watches go on");
        assert_eq!(revisions(&world), before);
        // What is not the hub's may change as it likes.
        world.create("berlin", &theirs(), json!({"metadata": {"name": "new"}})).await;
        world.delete("berlin", &format!("{}/new", theirs())).await;
        tokio::time::sleep(interval).await;
        assert!(world.observer.trace().iter().all(|seen| seen.is_idle()));
        world.end_hub().await;
        assert_eq!(world.observer.breaches(), [""; 0]);
    });
}

#[test]
fn watches_that_break_now_and_then_are_soon_begun_again() {
    run(9, || async {
        let world = World::new(Shape::new(9)).await;
        world.create("hub", &hub_path("vidraresources"), resource("shop", &document("a", "one"))).await;
        world.start_hub();
        world.until("it is delivered", SOON, || ready(&world, "shop")).await;
        let shop = format!("{}/shop", hub_path("vidraresources"));
        for (hours, value) in ["two", "three"].into_iter().cycle().take(10).enumerate() {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            for cluster in ["hub", "berlin", "tokyo"] {
                world.cluster(cluster).cut_watches();
            }
            world.patch("hub", &shop, json!({"spec": {"manifest": document("a", value)}})).await;
            let changed = || ["berlin", "tokyo"].iter().all(|member| is(&world, member, value));
            world.until(&format!("it is changed, the {hours}. time"), SOON, changed).await;
            for cluster in ["hub", "berlin", "tokyo"] {
                world.cluster(cluster).cut_watches();
            }
            world.patch("berlin", &config_map("a"), json!({"data": {"key": "mine"}})).await;
            world.until(&format!("it is repaired, the {hours}. time"), SOON, changed).await;
        }
        world.end_hub().await;
        assert_eq!(world.observer.breaches(), [""; 0]);
    });
}

fn is(world: &World, member: &str, value: &str) -> bool {
    world.data(member, "a") == Some(json!({"key": value}))
}

fn revisions(world: &World) -> Vec<u64> {
    ["hub", "berlin", "tokyo"].map(|name| world.cluster(name).revision()).to_vec()
}

fn join<T: ToString>(all: &[T]) -> String {
    all.iter().map(|one| format!("\n  {}", one.to_string())).collect()
}

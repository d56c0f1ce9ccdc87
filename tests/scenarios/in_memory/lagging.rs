//! Watches of the hub's own kinds that lag behind its writes, or writes that lag behind what they follow: what is old does
//! not undo what is new. Only a server in memory can be made to lag.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Cluster, Fault, Verb, WatchFault};
use serde_json::{Value, json};
use testkit::world::{At, World};

use super::scenario;
use crate::{config_map, uid};

fn hub(world: &World) -> Cluster {
    world.bed().memory("hub").expect("this bed is in memory")
}

#[test]
fn an_event_of_a_target_that_is_gone_does_not_delete_what_its_successor_delivered() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let manifest = config_map("settings", "one");
        world.deliver("shop", &["berlin"], &manifest).await;
        world.ready("shop").await;

        let lag = |call: &Call, _: &Value| match call.resource.as_str() {
            "vidratargets" => WatchFault::Silence,
            _ => WatchFault::None,
        };
        hub(&world).set_watch_fault(Some(Arc::new(lag)));
        world.remove("shop").await;
        alice.gone(&settings).await;
        world.deliver("shop", &["berlin"], &manifest).await;
        let made = alice.when(&settings, "made again", |_| true).await;
        world.ready("shop").await;
        world.recorded("shop", &["berlin"]).await;

        // The watch goes on where it stood: it tells that the first target is to go, and a while later that it has gone.
        let mark = world.mark();
        let slow = |call: &Call, event: &Value| match call.resource == "vidratargets"
            && event["type"] == "DELETED"
        {
            true => WatchFault::Silence,
            false => WatchFault::None,
        };
        hub(&world).set_watch_fault(Some(Arc::new(slow)));
        hub(&world).cut_watches();
        tokio::time::sleep(Duration::from_secs(5)).await;
        hub(&world).set_watch_fault(None);
        hub(&world).cut_watches();
        tokio::time::sleep(Duration::from_secs(30)).await;
        let deletes = world.writes("berlin", &mark).into_iter().filter(|one| one.verb == "delete");
        assert_eq!(deletes.collect::<Vec<_>>(), []);
        assert_eq!(alice.get(&settings).await.map(|live| uid(&live)), Some(uid(&made)));
        world.ready("shop").await;
        world.end().await;
    });
}

/// VidraResources with a target on the member that is lost.
const MANY: usize = 50;

#[test]
fn a_member_that_is_registered_again_is_not_emptied_before_its_targets_are_wanted_again() {
    scenario(async |mut world| {
        world.register(&["berlin", "tokyo"]).await;
        let name = |number: usize| format!("r{number:03}");
        for number in 0..MANY {
            world.deliver(&name(number), &["berlin", "tokyo"], &config_map(&name(number), "one")).await;
        }
        for number in 0..MANY {
            world.ready(&name(number)).await;
            world.recorded(&name(number), &["berlin", "tokyo"]).await;
        }
        world.stop_hub().await;
        let member = world.member_at("berlin");
        world.hub.merge(&member, json!({"metadata": {"finalizers": null}})).await;
        world.hub.delete(&member).await;
        world.hub.gone(&member).await;
        let slow = |call: &Call| match call.resource == "vidratargets" && call.verb == Verb::Update {
            true => Fault::Delay(Duration::from_millis(200)),
            false => Fault::None,
        };
        hub(&world).set_fault(Arc::new(slow));

        let mark = world.mark();
        world.start_hub().await;
        world.member_says("berlin", "Ready", "True").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let writes: Vec<_> =
            world.writes("berlin", &mark).into_iter().map(|one| (one.verb, one.name)).collect();
        assert_eq!(writes, [], "all that was delivered there is wanted there");
        hub(&world).clear_fault();
        for number in 0..MANY {
            world.ready(&name(number)).await;
        }
        assert_eq!(world.writes("berlin", &mark), []);
        world.end().await;
    });
}

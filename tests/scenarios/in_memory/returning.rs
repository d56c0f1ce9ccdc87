//! A hub that comes back with much to look at: what somebody changes now is not behind it.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Fault, Verb};
use serde_json::json;
use testkit::world::At;

use super::{memory, scenario};
use crate::{config_map, says};

/// VidraResources with a target each.
const MANY: usize = 200;

#[test]
fn a_change_made_right_after_a_start_is_delivered_before_all_the_rest_is_repaired() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let name = |number: usize| format!("r{number:03}");
        for number in 0..MANY {
            world.deliver(&name(number), &["berlin"], &config_map(&name(number), "one")).await;
        }
        for number in 0..MANY {
            world.ready(&name(number)).await;
        }
        // While the hub is down, every object is changed: each target will have something to do.
        world.stop_hub().await;
        let alice = world.alice("berlin").await;
        let ns = world.ns.clone();
        let at = |number: usize| At::config_map(&ns, &name(number));
        for number in 0..MANY {
            alice.merge(&at(number), json!({"data": {"key": "evil"}})).await;
        }
        let berlin = memory(&world, "berlin");
        berlin.set_fault(Arc::new(|call: &Call| match (&*call.user, call.verb) {
            ("vidra-hub", Verb::Apply) => Fault::Delay(Duration::from_millis(200)),
            _ => Fault::None,
        }));

        let mark = world.mark();
        world.start_hub().await;
        // The last by name: what goes by names comes to it at the end.
        let changed = MANY - 1;
        world.deliver(&name(changed), &["berlin"], &config_map(&name(changed), "two")).await;
        alice.when(&at(changed), "changed", says("two")).await;
        for number in 0..MANY {
            alice.when(&at(number), "as declared", |live| live["data"]["key"] != "evil").await;
        }
        let order: Vec<String> = world.writes("berlin", &mark).into_iter().map(|one| one.name).collect();
        let place = order.iter().position(|one| *one == name(changed)).expect("it was written");
        assert!(order.len() >= MANY, "{} writes", order.len());
        assert!(place < MANY / 4, "the change came after {place} others: {order:?}");
        world.end().await;
    });
}

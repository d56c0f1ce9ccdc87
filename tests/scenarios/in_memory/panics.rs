//! Panics in the middle of the hub's work: who is at fault alone has to wait, and where nobody else could go on, the
//! process ends. A cluster in memory can be told to panic under a call.

use std::sync::Arc;

use memkube::{Call, Fault, Verb};
use testkit::world::At;

use super::scenario;
use crate::{config_map, says};

#[test]
fn a_reconcile_that_panics_keeps_no_other_from_its_work_and_is_tried_again() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, beside) = (world.alice("berlin").await, At::config_map(&world.ns, "beside"));
        let berlin = world.bed().memory("berlin").expect("this bed is in memory");
        let hook = |call: &Call| {
            assert!(call.verb != Verb::Apply || call.name != "poison", "on purpose");
            Fault::None
        };
        berlin.set_fault(Arc::new(hook));
        world.deliver("poison", &["berlin"], &config_map("poison", "one")).await;
        let mark = world.mark();
        for value in ["one", "two", "three"] {
            world.deliver("shop", &["berlin"], &config_map("beside", value)).await;
            world.ready("shop").await;
            assert!(says(value)(&alice.live(&beside).await));
        }
        assert_eq!(world.writes_to(&At::config_map(&world.ns, "poison"), "berlin", &mark), []);
        berlin.clear_fault();
        world.ready("poison").await;
        world.end().await;
    });
}

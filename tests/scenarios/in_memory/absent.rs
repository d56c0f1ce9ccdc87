//! What is wanted only where there is none, and is seen again by a watch that tells of its end in the same moment, or
//! while the hub reads it: only a server in memory can be made to do that.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Cluster, Fault, Verb, WatchFault};
use serde_json::{Value, json};
use testkit::world::{Access, At, SOON, World, wait_for};

use super::{memory, scenario};
use crate::{apply_modes::annotated, config_map_in, says};

/// A ConfigMap that is wanted where there is none is delivered to berlin: somebody there, where it is, and the cluster.
async fn delivered(world: &World) -> (Access, At, Cluster) {
    world.register(&["berlin"]).await;
    let manifest = annotated(config_map_in("", "ours", "one"), &[("apply", "IfAbsent")]);
    world.deliver("shop", &["berlin"], &manifest).await;
    world.ready("shop").await;
    world.recorded("shop", &["berlin"]).await;
    (world.alice("berlin").await, At::config_map(&world.ns, "ours"), memory(world, "berlin"))
}

/// Gives the object the hub's label, or takes it.
async fn label(alice: &Access, at: &At, hub: Option<&str>) {
    alice.merge(at, json!({"metadata": {"labels": {"vidra.dev/hub": hub}}})).await;
}

#[test]
fn an_object_that_is_wanted_where_there_is_none_and_is_seen_again_together_with_its_end_is_made() {
    scenario(async |world| {
        let (alice, at, berlin) = delivered(&world).await;
        label(&alice, &at, None).await;
        wait_for("the inventory says that it is there", SOON, async || {
            match world.inventory("shop", "berlin").await {
                all if all.iter().any(|entry| !entry.settled.is_empty()) => Ok(()),
                all => Err(format!("{all:?}")),
            }
        })
        .await;
        let lag = |call: &Call, _: &str, _: &Value| match call.resource.as_str() {
            "configmaps" => WatchFault::Silence,
            _ => WatchFault::None,
        };
        berlin.set_watch_fault(Some(Arc::new(lag)));
        label(&alice, &at, Some(&world.ns)).await;
        alice.delete(&at).await;
        // The watch goes on where it stood, and tells of both at once.
        berlin.set_watch_fault(None);
        berlin.cut_watches();
        alice.when(&at, "made again", says("one")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn an_object_that_is_wanted_where_there_is_none_and_ends_while_it_is_read_is_made() {
    scenario(async |world| {
        let (alice, at, berlin) = delivered(&world).await;
        let is_read = |call: &Call| (call.verb, &*call.user, &*call.name) == (Verb::Get, "vidra-hub", "ours");
        let late = move |call: &Call| match is_read(call) {
            true => Fault::Late(Duration::from_secs(2)),
            false => Fault::None,
        };
        berlin.set_fault(Arc::new(late));
        let from = berlin.requests().last().map_or(0, |call| call.index + 1);
        label(&alice, &at, None).await;
        wait_for("the read", SOON, async || {
            match berlin.requests().iter().any(|call| call.index >= from && is_read(call)) {
                true => Ok(()),
                false => Err("none".to_owned()),
            }
        })
        .await;
        label(&alice, &at, Some(&world.ns)).await;
        alice.delete(&at).await;
        berlin.clear_fault();
        alice.when(&at, "made again", says("one")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

//! Members whose discovery shows nothing: an API server older than aggregated discovery, or a gateway that drops what the
//! Accept header asks for. No real server of the bed does that.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Cluster, Fault};
use testkit::world::{At, World};
use vidra_api::TargetState;

use super::{memory, scenario};
use crate::{config_map, inventoried};

fn berlin(world: &World) -> Cluster {
    memory(world, "berlin")
}

#[test]
fn a_member_whose_discovery_shows_nothing_is_out_of_reach_and_nothing_is_gone_for_it() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        inventoried(&world, "shop", "berlin", 1).await;
        let settings = At::config_map(&world.ns, "settings");
        let alice = world.alice("berlin").await;
        let live = alice.live(&settings).await;

        let frozen = world.freeze("berlin");
        world.target_is("shop", "berlin", TargetState::Unknown, "MemberUnreachable").await;
        let plain = |call: &Call| match call.path.as_str() {
            "/api" | "/apis" => Fault::Plain,
            _ => Fault::None,
        };
        berlin(&world).set_fault(Arc::new(plain));
        drop(frozen);
        let mark = world.mark();
        world.hub.delete(&world.resource_at("shop")).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        world.member_says("berlin", "Reachable", "False").await;
        world.target_is("shop", "berlin", TargetState::Terminating, "MemberUnreachable").await;
        assert_eq!(world.inventory("shop", "berlin").await.len(), 1);
        assert_eq!(world.writes("berlin", &mark), []);
        assert_eq!(alice.live(&settings).await, live);

        berlin(&world).clear_fault();
        world.removed("shop").await;
        assert_eq!(alice.get(&settings).await, None);
        world.end().await;
    });
}

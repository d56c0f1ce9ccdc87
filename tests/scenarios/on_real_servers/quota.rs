//! Quotas on what the hub keeps in its own cluster, as API servers enforce them: what they refuse is told.

use serde_json::{Value, json};
use testkit::world::{At, World};
use vidra_api::TargetState;

use super::scenario;
use crate::{config_map, events, says};

/// A quota in the hub's namespace of the scenario, in force: its status, by which the server counts, is set by hand, for
/// the bed runs no controller of quotas.
async fn quota(world: &World, name: &str, hard: Value) {
    let used: serde_json::Map<String, Value> =
        hard.as_object().expect("resources").keys().map(|key| (key.clone(), "0".into())).collect();
    let object = json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": world.ns}, "spec": {"hard": hard}});
    world.hub.create(object).await;
    let at = At::new("v1", "ResourceQuota", &world.ns, name);
    world.hub.merge_status(&at, json!({"status": {"hard": hard, "used": used}})).await;
}

async fn lifted(world: &World, name: &str) {
    world.hub.delete(&At::new("v1", "ResourceQuota", &world.ns, name)).await;
}

#[test]
fn a_quota_that_refuses_targets_or_inventories_is_told_and_holds_up_no_other() {
    scenario(async |world| {
        // In force before anything is made: a server hears of a quota a moment late.
        quota(&world, "targets", json!({"count/vidratargets.vidra.dev": "1"})).await;
        quota(&world, "inventories", json!({"count/vidrainventories.vidra.dev": "2"})).await;
        world.register(&["austin", "berlin"]).await;
        world.deliver("shop", &["austin", "berlin"], &config_map("settings", "one")).await;
        let told = world.resource_says("shop", "Ready", "False", "TargetRefused").await;
        let message = format!("{:?}", told.status);
        assert!(message.contains("exceeded quota: targets"), "{message}");
        assert!(message.contains("lift the quota"), "{message}");
        let settings = At::config_map(&world.ns, "settings");
        let mut delivered = 0;
        for member in ["austin", "berlin"] {
            if world.target("shop", member).await.is_some() {
                world.alice(member).await.when(&settings, "delivered", says("one")).await;
                delivered += 1;
            }
        }
        assert_eq!(delivered, 1);
        lifted(&world, "targets").await;
        world.ready("shop").await;
        assert_eq!(events(&world, "TargetRefused").await.len(), 1);

        world.deliver("bank", &["berlin"], &config_map("bank", "one")).await;
        let message = world.target_is("bank", "berlin", TargetState::Failed, "WriteRefused").await;
        assert!(message.contains("exceeded quota: inventories"), "{message}");
        world.resource_says("bank", "Stalled", "True", "TargetsFailed").await;
        let berlin = world.alice("berlin").await;
        assert!(berlin.get(&At::config_map(&world.ns, "bank")).await.is_none());
        lifted(&world, "inventories").await;
        world.ready("bank").await;
        world.end().await;
    });
}

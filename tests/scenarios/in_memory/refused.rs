//! Writes of the hub that its own API refuses, as a quota or a policy does: what is refused is told, and nothing else
//! waits for it.

use std::sync::Arc;

use memkube::{Call, Denial, Verb};
use serde_json::{Value, json};
use testkit::world::At;

use super::scenario;
use crate::{
    config_map,
    moving::{drop_both, is_the_seconds, to_move},
    says,
};

#[test]
fn a_revision_that_the_hubs_api_refuses_is_told_and_a_member_leaves_all_the_same() {
    scenario(async |world| {
        world.register(&["austin", "berlin"]).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        world.deliver("shop", &["austin", "berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let hub = world.bed().memory("hub").expect("this bed is in memory");
        let hook = |call: &Call, object: &Value| match call.verb == Verb::Create
            && object["type"] == "vidra.dev/revision"
        {
            true => Err(Denial::new("quota.example.com", "exceeded quota: secrets, used: 5, limited: 5")),
            false => Ok(()),
        };
        hub.set_validating_admission(Some(Arc::new(hook)));
        world.deliver("shop", &["austin", "berlin"], &config_map("settings", "two")).await;
        let told = world.resource_says("shop", "Stalled", "True", "RevisionRefused").await;
        let message = format!("{:?}", told.status);
        assert!(message.contains("Forbidden (403)") && message.contains("lift the quota"), "{message}");
        // What was delivered stays, and is repaired; and a member leaves.
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;
        alice.when(&settings, "repaired", says("one")).await;
        world.hub.delete(&world.member_at("austin")).await;
        world.hub.gone(&world.member_at("austin")).await;

        hub.set_validating_admission(None);
        world.reconcile_now("shop", "1").await;
        alice.when(&settings, "delivered", says("two")).await;
        world.end().await;
    });
}

#[test]
fn a_target_that_the_hubs_api_refuses_is_told_and_holds_up_no_other() {
    scenario(async |world| {
        world.register(&["austin", "berlin", "tokyo"]).await;
        let hub = world.bed().memory("hub").expect("this bed is in memory");
        let hook = |call: &Call, object: &Value| {
            let refused = call.verb == Verb::Create
                && call.resource == "vidratargets"
                && object["metadata"]["name"] == "shop.berlin";
            match refused {
                true => {
                    Err(Denial::new("quota.example.com", "exceeded quota: vidratargets, used: 1, limited: 1"))
                }
                false => Ok(()),
            }
        };
        hub.set_validating_admission(Some(Arc::new(hook)));
        let all = ["austin", "berlin", "tokyo"];
        world.deliver("shop", &all, &config_map("settings", "one")).await;
        let settings = At::config_map(&world.ns, "settings");
        for member in ["austin", "tokyo"] {
            world.alice(member).await.when(&settings, "delivered", says("one")).await;
        }
        let told = world.resource_says("shop", "Ready", "False", "TargetRefused").await;
        let message = format!("{:?}", told.status);
        assert!(message.contains("shop.berlin") && message.contains("exceeded quota"), "{message}");
        assert_eq!(crate::events(&world, "TargetRefused").await.len(), 1);

        hub.set_validating_admission(None);
        world.ready("shop").await;
        world.alice("berlin").await.when(&settings, "delivered", says("one")).await;
        world.end().await;
    });
}

#[test]
fn what_a_target_that_the_hubs_api_refuses_is_to_have_stays_and_nothing_else_waits_for_it() {
    for code in [403, 500] {
        scenario(async |world| {
            let (alice, _, before) = to_move(&world).await;
            world.deliver("second", &["berlin"], &config_map("second", "one")).await;
            world.ready("second").await;
            let hub = world.bed().memory("hub").expect("this bed is in memory");
            let hook = move |call: &Call, object: &Value| {
                let refused = call.verb != Verb::Delete
                    && call.resource == "vidratargets"
                    && call.subresource.is_empty()
                    && object["metadata"]["name"] == "second.berlin";
                match refused {
                    true => Err(Denial { code, ..Denial::new("policy.example.com", "not now") }),
                    false => Ok(()),
                }
            };
            hub.set_validating_admission(Some(Arc::new(hook)));
            let moved = config_map("second", "one") + &config_map("moved", "two");
            world.deliver("second", &["berlin"], &moved).await;
            drop_both(&world, &alice, &before).await;

            hub.set_validating_admission(None);
            let now = is_the_seconds(&world, &alice, &before).await;
            assert!(says("two")(&now), "{now}");
            world.end().await;
        });
    }
}

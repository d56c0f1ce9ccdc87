//! A webhook that refuses for ever, with codes that a server has another meaning for, what the hub makes, changes and
//! deletes: all twelve at once, while another member is tampered with.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use testkit::{
    refusals::{self, Refusals, WEBHOOK, WORDS},
    world::{At, LONG, World, wait_for},
};
use vidra_api::{TargetState, VidraTargetStatus};

use super::scenario;
use crate::{config_map, says};

/// Seconds, each with an edit on the other member.
const SECONDS: usize = 25;
/// Objects there that take turns, so that none is taken for contention.
const KEPT: usize = 7;
/// Writes of an object in that time, and reads of it.
const MOST: usize = 7;

/// Waits until the server asks the webhook.
async fn is_asked(world: &World) {
    let alice = world.alice("berlin").await;
    wait_for("the webhook is asked", LONG, async || {
        let [name, ..] = refusals::names("create");
        let made = crate::config_map_in(&world.ns, &name, "one");
        match alice.try_create(made).await {
            Err(refused) if refused.to_string().contains(WORDS) => Ok(()),
            Err(refused) => Err(format!("{refused:?}")),
            Ok(_) => {
                alice.delete(&At::config_map(&world.ns, &name)).await;
                Err("it was made".to_owned())
            }
        }
    })
    .await;
}

/// Edits of the other member's objects, one a second, each undone before the next.
async fn edits(world: &World) {
    let alice = world.alice("austin").await;
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    for second in 0..SECONDS {
        seconds.tick().await;
        let at = At::config_map(&world.ns, &format!("kept-{}", second % KEPT));
        alice.merge(&at, json!({"data": {"key": format!("evil {second}")}})).await;
        alice.when(&at, "as declared", says("one")).await;
    }
}

#[test]
fn what_a_webhook_refuses_for_ever_is_tried_a_few_times_and_told_and_others_are_repaired_meanwhile() {
    scenario(async |world| {
        world.register(&["berlin", "austin"]).await;
        let kept: String = (0..KEPT).map(|number| config_map(&format!("kept-{number}"), "one")).collect();
        world.deliver("kept", &["austin"], &kept).await;
        let [created, updated, deleted] = refusals::OPERATIONS.map(refusals::names);
        for name in updated.iter().chain(&deleted) {
            world.deliver(name, &["berlin"], &config_map(name, "one")).await;
        }
        for name in updated.iter().chain(&deleted).map(String::as_str).chain(["kept"]) {
            world.ready(name).await;
        }
        let refusals = Refusals::start().await.expect("a webhook");
        let admin = world.cluster("berlin", testkit::world::Who::Admin).await;
        let configuration = admin.create(refusals.configuration(&world.ns, &world.ns)).await;
        is_asked(&world).await;

        let mark = world.mark();
        for name in created.iter().chain(&updated) {
            world.deliver(name, &["berlin"], &config_map(name, "two")).await;
        }
        for name in &deleted {
            world.hub.delete(&world.resource_at(name)).await;
        }
        edits(&world).await;
        for name in refusals::OPERATIONS.into_iter().flat_map(refusals::names) {
            let all = world.requests_for(&At::config_map(&world.ns, &name), "berlin", &mark);
            let mut counts = BTreeMap::<bool, usize>::new();
            all.iter().for_each(|one| *counts.entry(one.verb == "get").or_default() += 1);
            let [writes, reads] =
                [false, true].map(|is_read| counts.get(&is_read).copied().unwrap_or_default());
            assert!(
                (1..=MOST).contains(&writes) && reads <= MOST,
                "{name}: {writes} writes and {reads} reads"
            );
            let told = |status: &VidraTargetStatus| {
                let message = status.message.as_deref().unwrap_or_default();
                status.state == Some(TargetState::Failed)
                    && message.contains(WEBHOOK)
                    && message.contains(WORDS)
            };
            world.target_when(&name, "berlin", "the webhook's words", told).await;
        }

        for name in &deleted {
            let words = |resource: &Value| {
                let conditions = resource["status"]["conditions"].to_string();
                conditions.contains("Terminating") && conditions.contains(WEBHOOK)
            };
            world.hub.when(&world.resource_at(name), "the webhook's words", words).await;
        }

        admin.delete(&At::of(&configuration)).await;
        for name in created.iter().chain(&updated) {
            world.reconcile_now(name, "1").await;
            world.ready(name).await;
        }
        for name in &deleted {
            world.removed(name).await;
        }
        world.end().await;
    });
}

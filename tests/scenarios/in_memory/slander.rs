//! Members whose API servers give names and messages that no real one lets through: only clusters in memory do. What
//! they say stands in conditions and Events, without what nobody would see.

use std::sync::Arc;

use memkube::{Call, Fault, Verb};
use serde_json::json;
use testkit::world::{Access, SOON, World, wait_for};
use vidra_api::TargetState;
use vidra_core::unseen::is_unseen;

use super::{memory, scenario};
use crate::{config_map, config_map_in, events};

fn is_clean(text: &str) -> bool {
    !text.chars().any(is_unseen)
}

/// The target fails for this reason, and all that is said of it is clean; the target's message.
async fn fails_in_clean_words(world: &World, reason: &str) -> String {
    let told = world.target_is("shop", "berlin", TargetState::Failed, reason).await;
    assert!(is_clean(&told), "{told:?}");
    let resource = world.resource_says("shop", "Ready", "False", "TargetsFailed").await;
    let conditions = resource.status.unwrap_or_default().conditions;
    assert!(conditions.iter().all(|one| is_clean(&one.message)), "{conditions:?}");
    let notes = wait_for(&format!("an Event {reason}"), SOON, async || {
        let notes = events(world, reason).await;
        if notes.is_empty() { Err("none".into()) } else { Ok(notes) }
    })
    .await;
    assert!(notes.iter().all(|note| is_clean(note)), "{notes:?}");
    told
}

#[test]
fn a_member_that_answers_with_escapes_is_told_in_clean_words() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let berlin = memory(&world, "berlin");
        let hook = |call: &Call| match call.verb == Verb::Apply && call.resource == "configmaps" {
            true => Fault::Status(500, "\u{1b}[2J\u{2066}evil\u{2069}"),
            false => Fault::None,
        };
        berlin.set_fault(Arc::new(hook));
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        let told = fails_in_clean_words(&world, "ServerError").await;
        assert!(told.contains("[2J") && told.contains("evil"), "{told:?}");
        berlin.clear_fault();
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn managers_whose_names_turn_text_around_are_named_in_clean_words() {
    // As a query has them, U+202E and U+00AD; the second seems to be another VidraResource's.
    for (manager, reason) in
        [("%E2%80%AEevil%C2%AD", "FieldConflict"), ("vidra/evil/%E2%80%AEteam/shop", "SharedObjectConflict")]
    {
        scenario(async |world| {
            world.register(&["berlin"]).await;
            let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "conflicts": {"fields": "Fail"}});
            world.deliver_with("shop", &config_map("settings", "one"), spec).await;
            world.ready("shop").await;
            let alice = world.alice("berlin").await;
            let evil = Access::new(alice.client.clone(), manager);
            evil.apply(&config_map_in(&world.ns, "settings", "evil"), true).await.unwrap();
            let told = fails_in_clean_words(&world, reason).await;
            assert!(told.contains("evil") && told.contains(".data.key"), "{told:?}");
            world.end().await;
        });
    }
}

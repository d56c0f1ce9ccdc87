//! Somebody undoes each repair: the object is left alone for longer and longer, the other side is named, and the rest
//! is tended as ever. What takes hours is in `clockwork.rs`.

use serde_json::json;
use testkit::world::{Access, At, SOON, World, wait_for};
use vidra_api::{DriftState, TargetState, VidraTargetStatus, condition::STALLED, find};

use crate::{config_map, events, says, scenario};

/// Changes a ConfigMap so many times, each time after it was repaired.
async fn undo(alice: &Access, at: &At, times: usize) {
    for time in 0..times {
        alice.merge(at, json!({"data": {"key": format!("evil {time}")}})).await;
        alice.when(at, "as declared", says("one")).await;
    }
}

fn stalled(status: &VidraTargetStatus) -> bool {
    find(&status.conditions, STALLED)
        .is_some_and(|found| found.status == "True" && found.reason == "Contention")
}

async fn settled_shop(world: &mut World) -> (Access, At, At) {
    world.register(&["berlin"]).await;
    let manifest = config_map("settings", "one") + &config_map("other", "one");
    world.deliver("shop", &["berlin"], &manifest).await;
    world.ready("shop").await;
    let at = |name| At::config_map(&world.ns, name);
    (world.alice("berlin").await, at("settings"), at("other"))
}

#[test]
fn who_undoes_each_repair_is_named_and_everything_else_is_tended() {
    scenario(async |mut world| {
        let (alice, settings, other) = settled_shop(&mut world).await;
        let mark = world.mark();
        undo(&alice, &settings, 5).await;
        alice.merge(&settings, json!({"data": {"key": "evil again"}})).await;
        let told = world.target_is("shop", "berlin", TargetState::Failed, "Contention").await;
        assert!(told.contains("settings was repaired 5 times and \"alice-edit\" changed it back"), "{told}");
        let seen = |status: &VidraTargetStatus| {
            stalled(status) && status.drift == Some(DriftState::Drifted) && status.drifted == 1
        };
        world.target_when("shop", "berlin", "stalled and drifted", seen).await;
        let resource = world.resource_says("shop", "Stalled", "True", "Contention").await;
        let conditions = resource.status.unwrap_or_default().conditions;
        assert_eq!(find(&conditions, STALLED).unwrap().message, format!("berlin: {told}"));
        world.resource_says("shop", "Drifted", "True", "TargetsDrifted").await;
        assert_eq!(world.metric("vidra_contentions{cluster=\"berlin\"}"), 1.0);

        // What happens to it now costs nothing; what happens to others is undone.
        let quiet = world.mark();
        for evil in ["a", "b", "c"] {
            alice.merge(&settings, json!({"data": {"key": evil}})).await;
            undo(&alice, &other, 1).await;
        }
        assert_eq!(world.requests_for(&settings, "berlin", &quiet), []);
        assert_eq!(world.writes_to(&settings, "berlin", &mark).len(), 5);
        assert_eq!(world.writes_to(&other, "berlin", &quiet).len(), 3);
        let notes =
            wait_for("an Event Contention", SOON, async || match events(&world, "Contention").await {
                notes if notes.is_empty() => Err("none".into()),
                notes => Ok(notes),
            })
            .await;
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("settings on berlin") && notes[0].contains("alice-edit"), "{notes:?}");
        world.end().await;
    });
}

#[test]
fn a_person_may_have_a_repair_tried_at_once_and_a_new_declaration_ends_the_fight() {
    scenario(async |mut world| {
        let (alice, settings, _) = settled_shop(&mut world).await;
        undo(&alice, &settings, 5).await;
        alice.merge(&settings, json!({"data": {"key": "evil again"}})).await;
        world.target_is("shop", "berlin", TargetState::Failed, "Contention").await;

        world.reconcile_now("shop", "now").await;
        alice.when(&settings, "as declared", says("one")).await;
        let seen = |status: &VidraTargetStatus| stalled(status) && status.drift == Some(DriftState::InSync);
        let target = world.target_when("shop", "berlin", "repaired, and watched", seen).await;
        assert_eq!(target.status.unwrap_or_default().state, Some(TargetState::Ready));
        world.resource_says("shop", "Drifted", "False", "InSync").await;
        world.resource_says("shop", "Stalled", "True", "Contention").await;
        world.ready("shop").await;

        alice.merge(&settings, json!({"data": {"key": "evil again"}})).await;
        world.target_is("shop", "berlin", TargetState::Failed, "Contention").await;
        world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
        alice.when(&settings, "as declared", says("two")).await;
        world.ready("shop").await;
        world.resource_says("shop", "Stalled", "False", "Moving").await;
        alice.merge(&settings, json!({"data": {"key": "evil again"}})).await;
        alice.when(&settings, "as declared", says("two")).await;
        world.end().await;
    });
}

#[test]
fn an_object_that_somebody_deletes_again_and_again_is_left_gone_for_a_while() {
    scenario(async |mut world| {
        let (alice, settings, other) = settled_shop(&mut world).await;
        for _ in 0..5 {
            alice.delete(&settings).await;
            alice.when(&settings, "made again", says("one")).await;
        }
        alice.delete(&settings).await;
        let told = world.target_is("shop", "berlin", TargetState::Failed, "Contention").await;
        assert!(told.contains("somebody deleted it again"), "{told}");
        let quiet = world.mark();
        undo(&alice, &other, 1).await;
        assert_eq!(world.requests_for(&settings, "berlin", &quiet), []);
        assert_eq!(alice.get(&settings).await, None);
        world.reconcile_now("shop", "now").await;
        alice.when(&settings, "made again", says("one")).await;
        world.end().await;
    });
}

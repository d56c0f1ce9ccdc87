//! Members that hold what nobody should hold: texts meant for a terminal or a browser, very long ones, and objects
//! that bear marks which they were never given. It is told within bounds, and nothing is deleted for it.

use serde_json::{Value, json};
use testkit::world::{Access, At, SOON, wait_for};
use vidra_api::{ChangeKind, DriftState, VidraTargetStatus};
use vidra_core::unseen::is_unseen;

use crate::{config_map, events, object, says, scenario};

/// Clears a screen, and would run in a page that does not escape.
const EVIL: &str = "<script>alert(1)</script>\u{1b}[2J\u{7}\u{202e}";
/// With room for what a server adds to it, within what one takes.
const LONG: usize = 900_000;

fn spec(policy: &str) -> Value {
    json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": policy}})
}

fn is_clean(text: &str) -> bool {
    !text.chars().any(|c| is_unseen(c) && c != '\n')
}

#[test]
fn what_is_evil_or_very_long_in_a_member_is_told_within_bounds_and_harms_nobody() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let manifest = config_map("settings", "one") + &config_map("beside", "one");
        world.deliver_with("shop", &manifest, spec("Report")).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");

        // As a query has it: the name is `<b>bob</b>`.
        let bob = Access::new(alice.client.clone(), "%3Cb%3Ebob%3C%2Fb%3E");
        bob.merge(&settings, json!({"data": {"key": EVIL}})).await;
        bob.merge(&At::config_map(&world.ns, "beside"), json!({"data": {"key": "x".repeat(LONG)}})).await;
        let both = |status: &VidraTargetStatus| status.drifted == 2;
        let status = world.target_when("shop", "berlin", "both edits", both).await.status.unwrap();
        assert_eq!(status.drift, Some(DriftState::Drifted));
        for change in &status.changes {
            assert_eq!(change.change, ChangeKind::Modified);
            let [field] = &change.fields[..] else { panic!("{change:?}") };
            assert_eq!((&*field.path, &*field.manager), (".data.key", "<b>bob</b>"));
            let actual = field.actual.as_deref().unwrap_or_default();
            assert!(actual.len() <= 256, "{} bytes of the value", actual.len());
            assert!(change.name != "settings" || actual.contains("<script>"), "{actual:?}");
        }
        let mut texts =
            status.changes.iter().flat_map(|change| &change.fields).flat_map(|field| &field.actual);
        assert!(texts.all(|text| is_clean(text)), "{status:?}");
        let notes = wait_for("an Event DriftDetected", SOON, async || {
            let notes = events(&world, "DriftDetected").await;
            if notes.is_empty() { Err("none".into()) } else { Ok(notes) }
        })
        .await;
        assert!(notes.iter().all(|note| is_clean(note) && note.len() <= 1024), "{notes:?}");
        assert!(is_clean(&world.metrics()));

        world.deliver_with("shop", &manifest, spec("Correct")).await;
        alice.when(&settings, "as declared", says("one")).await;
        world.ready("shop").await;
        world.remove("shop").await;
        world.end().await;
    });
}

#[test]
fn an_object_that_bears_all_marks_of_another_is_nobodys_to_delete() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver_with("shop", &config_map("settings", "one"), spec("Correct")).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let metadata = alice.live(&At::config_map(&world.ns, "settings")).await["metadata"].clone();
        let forged = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "forged", "namespace": world.ns,
                "labels": metadata["labels"], "annotations": metadata["annotations"],
            },
            "data": {"key": "mine"},
        });
        alice.create(forged.clone()).await;
        world.look("shop", "once", 1).await;
        // Not on another revision, not when it is declared, and not with the VidraResource.
        world.deliver_with("shop", &config_map("other", "one"), spec("Correct")).await;
        alice.gone(&At::config_map(&world.ns, "settings")).await;
        let declared = config_map("other", "one")
            + &object(&json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "forged"}, "data": {"key": "ours"},
            }));
        world.deliver_with("shop", &declared, spec("Correct")).await;
        world.target_is("shop", "berlin", vidra_api::TargetState::Failed, "NotOurs").await;
        world.remove("shop").await;
        assert!(says("mine")(&alice.live(&At::of(&forged)).await));
        alice.delete(&At::of(&forged)).await;
        world.end().await;
    });
}

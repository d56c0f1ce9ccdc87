//! What a VidraResource and the metrics say of drift in the fleet.

use serde_json::json;
use testkit::world::{At, SOON, wait_for};
use vidra_api::{condition::DRIFTED, find};

use crate::{config_map, events, scenario};

#[test]
fn drift_that_stays_is_told_by_condition_event_and_metrics_until_it_is_gone() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        world
            .deliver_with(
                "shop",
                &config_map("settings", "one"),
                json!({"targets": [{"clusterNames": ["berlin", "tokyo"]}], "conflicts": {"fields": "Fail"}}),
            )
            .await;
        world.ready("shop").await;
        world.resource_says("shop", "Drifted", "False", "InSync").await;
        let alice = world.alice("tokyo").await;
        let settings = At::config_map(&world.ns, "settings");
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;

        let resource = world.resource_says("shop", "Drifted", "True", "TargetsDrifted").await;
        let status = resource.status.unwrap_or_default();
        let message = &find(&status.conditions, DRIFTED).unwrap().message;
        assert!(message.starts_with("1 of 2 targets differ from what is declared: tokyo"), "{message}");
        assert_eq!(status.summary.unwrap_or_default().drifted, 1);
        let drifted = |what: &str, cluster: &str| {
            world.metric(&format!("vidra_drifted_{what}{{cluster=\"{cluster}\",policy=\"Correct\"}}"))
        };
        assert_eq!((drifted("targets", "tokyo"), drifted("objects", "tokyo")), (1.0, 1.0));
        assert_eq!((drifted("targets", "berlin"), drifted("objects", "berlin")), (0.0, 0.0));
        let found = "vidra_drift_detections_total{cluster=\"tokyo\",change=\"Modified\"}";
        assert_eq!(world.metric(found), 1.0);
        wait_for("an Event DriftDetected", SOON, async || {
            let notes = events(&world, "DriftDetected").await;
            let told = |note: &String| note.contains("settings on tokyo") && note.contains("alice-edit");
            if notes.iter().any(told) { Ok(()) } else { Err(format!("{notes:?}")) }
        })
        .await;

        // Looked at again, it is no news.
        world.look("shop", "again", 2).await;
        assert_eq!(world.metric(found), 1.0);
        alice.merge(&settings, json!({"data": {"key": "one"}})).await;
        world.resource_says("shop", "Drifted", "False", "InSync").await;
        assert_eq!((drifted("targets", "tokyo"), drifted("objects", "tokyo")), (0.0, 0.0));
        assert_eq!(world.metric("vidra_drift_corrections_total{cluster=\"tokyo\"}"), 0.0);
        world.end().await;
    });
}

#[test]
fn reported_drift_is_told_with_its_object_its_age_and_its_author_and_leaves_ready_alone() {
    scenario(async |mut world| {
        world.register(&["berlin", "tokyo"]).await;
        let spec = json!({"targets": [{"clusterNames": ["berlin", "tokyo"]}], "drift": {"policy": "Report"}});
        world.deliver_with("shop", &config_map("settings", "one"), spec).await;
        world.ready("shop").await;
        let alice = world.alice("tokyo").await;
        let settings = At::config_map(&world.ns, "settings");
        alice.merge(&settings, json!({"data": {"key": "evil"}})).await;

        let resource = world.resource_says("shop", "Drifted", "True", "TargetsDrifted").await;
        let conditions = resource.status.unwrap_or_default().conditions;
        let message = &find(&conditions, DRIFTED).unwrap().message;
        let object = format!("tokyo, ConfigMap {}/settings since ", world.ns);
        assert!(message.contains(&object) && message.ends_with(", by \"alice-edit\""), "{message}");
        world.ready("shop").await;
        let gauge = "vidra_drifted_objects{cluster=\"tokyo\",policy=\"Report\"}";
        let found = "vidra_drift_detections_total{cluster=\"tokyo\",change=\"Modified\"}";
        assert_eq!((world.metric(gauge), world.metric(found)), (1.0, 1.0));
        wait_for("the drift grows old", SOON, async || {
            match world.metric("vidra_drift_oldest_seconds{cluster=\"tokyo\"}") {
                age if age >= 1.0 => Ok(()),
                age => Err(format!("{age}")),
            }
        })
        .await;
        wait_for("an Event DriftDetected", SOON, async || {
            let notes = events(&world, "DriftDetected").await;
            let told = |note: &String| note.contains("settings on tokyo") && note.contains("alice-edit");
            if notes.iter().any(told) { Ok(()) } else { Err(format!("{notes:?}")) }
        })
        .await;

        // To a hub that starts again it is no news.
        world.restart_hub().await;
        world.look("shop", "again", 2).await;
        assert_eq!((world.metric(gauge), world.metric(found)), (1.0, 0.0));
        world.end().await;
    });
}

#[test]
fn a_member_that_does_not_answer_leaves_open_whether_anything_drifted() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        world.deliver("shop", &["berlin", "tokyo"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let frozen = world.freeze("tokyo");
        let resource = world.resource_says("shop", "Drifted", "Unknown", "NotCompared").await;
        let status = resource.status.unwrap_or_default();
        let message = &find(&status.conditions, DRIFTED).unwrap().message;
        assert_eq!(message, "1 of 2 targets are not compared: tokyo");
        drop(frozen);
        world.resource_says("shop", "Drifted", "False", "InSync").await;
        world.end().await;
    });
}

#[test]
fn a_request_to_look_is_answered_with_its_whole_word() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let word = "a-token-of-a-plug-in.".repeat(10);
        world.reconcile_now("shop", &word).await;
        wait_for("the request is handled", SOON, async || {
            let handled = world.ready("shop").await.status.unwrap_or_default().last_handled_reconcile_at;
            if handled.as_ref() == Some(&word) { Ok(()) } else { Err(format!("{handled:?}")) }
        })
        .await;
        world.end().await;
    });
}

#[test]
fn what_was_counted_of_a_member_goes_with_it() {
    scenario(async |world| {
        world.register(&["berlin", "tokyo"]).await;
        world.deliver("shop", &["berlin", "tokyo"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let counted = |cluster: &str| {
            world.metrics().contains(&format!("vidra_api_requests_total{{cluster=\"{cluster}\""))
        };
        assert!(counted("berlin") && counted("tokyo") && counted("hub"));
        let tokyo = world.member_at("tokyo");
        world.hub.delete(&tokyo).await;
        world.hub.gone(&tokyo).await;
        wait_for("the counters of tokyo are gone", SOON, async || match counted("tokyo") {
            true => Err(world.metrics()),
            false => Ok(()),
        })
        .await;
        assert!(counted("berlin") && counted("hub"));
        let open =
            |cluster: &str| world.metrics().contains(&format!("vidra_member_ready{{cluster=\"{cluster}\"}}"));
        assert_eq!((open("berlin"), open("tokyo")), (true, false));
        world.end().await;
    });
}

#[test]
fn members_that_a_selector_matches_and_that_are_closed_to_the_namespace_are_counted_beside_those_that_are_targeted()
 {
    scenario(async |world| {
        world.register(&["austin", "berlin"]).await;
        let closed = json!({"spec": {"allowedNamespaces": ["elsewhere"]}});
        world.hub.merge(&world.member_at("austin"), closed).await;
        let all = json!({"targets": [{"clusterSelector": {}}]});
        world.deliver_with("shop", &config_map("settings", "one"), all).await;
        let status = world.ready("shop").await.status.unwrap_or_default();
        assert_eq!(status.targets_ready.as_deref(), Some("1/1"));
        let message = &find(&status.conditions, "Ready").unwrap().message;
        assert_eq!(message, "1 more that match do not allow the namespace");
        world.end().await;
    });
}

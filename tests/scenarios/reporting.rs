//! Drift that is reported and left as it is: what, where, since when and by whom.

use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use testkit::world::{Access, At, SOON, World, wait_for};
use vidra_api::{
    Change, ChangeKind, DriftState, TargetState, VidraTarget, VidraTargetStatus, labels::OWNER_PREFIX,
};

use crate::{apply_modes::annotated, config_map, config_map_in, events, object, says, scenario};

fn spec(policy: &str) -> Value {
    json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": policy}, "reconcile": {"interval": "1s"}})
}

async fn delivered(world: &World, policy: &str, manifest: &str) -> (Access, At) {
    world.register(&["berlin"]).await;
    world.deliver_with("shop", manifest, spec(policy)).await;
    world.ready("shop").await;
    (world.alice("berlin").await, At::config_map(&world.ns, "settings"))
}

async fn when(world: &World, what: &str, is: impl Fn(&VidraTargetStatus) -> bool) -> VidraTargetStatus {
    world.target_when("shop", "berlin", what, is).await.status.unwrap()
}

/// Waits until these, and no others, are told not to be as delivered.
async fn told(world: &World, changes: &[(&str, ChangeKind)]) -> Vec<Change> {
    let is = |status: &VidraTargetStatus| {
        open(status).map(|one| (one.name.as_str(), one.change)).eq(changes.iter().copied())
    };
    let status = when(world, &format!("{changes:?}"), is).await;
    let drift = if changes.is_empty() { DriftState::InSync } else { DriftState::Drifted };
    assert_eq!((status.drift, status.drifted), (Some(drift), changes.len() as i64), "{status:?}");
    // What is not there is not Ready; other drift leaves that alone.
    let missing = changes.iter().any(|(_, change)| *change == ChangeKind::Missing);
    let state = if missing { TargetState::Failed } else { TargetState::Ready };
    assert_eq!(status.state, Some(state), "{status:?}");
    open(&status).cloned().collect()
}

fn open(status: &VidraTargetStatus) -> impl Iterator<Item = &Change> {
    status.changes.iter().filter(|change| change.corrected.is_none())
}

fn edited(value: &str) -> Value {
    json!({"data": {"key": value}})
}

#[test]
fn an_edit_is_told_with_its_author_and_left_over_intervals_restarts_and_applying_again() {
    scenario(async |mut world| {
        let (alice, settings) = delivered(&world, "Report", &config_map("settings", "one")).await;
        let mark = world.mark();
        alice.merge(&settings, edited("evil")).await;
        let first = told(&world, &[("settings", ChangeKind::Modified)]).await.remove(0);
        let [field] = &first.fields[..] else { panic!("{first:?}") };
        assert_eq!(
            (&*field.path, field.expected.as_deref(), field.actual.as_deref()),
            (".data.key", Some("\"one\""), Some("\"evil\""))
        );
        assert_eq!((&*field.manager, &*field.operation), ("alice-edit", "Update"));
        assert!(
            field
                .not_after
                .as_ref()
                .is_some_and(|time| time.0 <= first.detected_at.0 + jiff::Span::new().seconds(2))
        );

        let detections = "vidra_drift_detections_total{cluster=\"berlin\",change=\"Modified\"}";
        assert_eq!(world.metric(detections), 1.0);
        wait_for("an Event DriftDetected", SOON, async || {
            let notes = events(&world, "DriftDetected").await;
            let is = |note: &String| note.contains("settings on berlin") && note.contains("alice-edit");
            if notes.iter().any(is) { Ok(()) } else { Err(format!("{notes:?}")) }
        })
        .await;
        world.after_passes(3).await;
        assert_eq!(world.metric(detections), 1.0, "it is no news");
        for gauge in ["vidra_drifted_targets", "vidra_drifted_objects"] {
            let gauge = format!("{gauge}{{cluster=\"berlin\",policy=\"Report\"}}");
            assert_eq!(world.metric(&gauge), 1.0, "{gauge}");
        }
        world.resource_says("shop", "Drifted", "True", "TargetsDrifted").await;
        assert_eq!(
            world.requests_for(&settings, "berlin", &mark),
            [],
            "nothing is asked, nothing is written"
        );
        alice.merge(&settings, edited("worse")).await;
        let says_worse = |status: &VidraTargetStatus| {
            open(status)
                .any(|one| one.fields.iter().any(|field| field.actual.as_deref() == Some("\"worse\"")))
        };
        let second = when(&world, "the second edit", says_worse).await;
        assert_eq!(second.changes[0].detected_at, first.detected_at, "still the first detection");

        world.restart_hub().await;
        world.after_passes(2).await;
        world.deliver_with("shop", &config_map("settings", "one"), spec("Report")).await;
        world.look("shop", "again", 1).await;
        let after = told(&world, &[("settings", ChangeKind::Modified)]).await.remove(0);
        assert_eq!(after, second.changes[0], "a restart finds the same");
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);
        assert!(says("worse")(&alice.live(&settings).await));
        world.ready("shop").await;

        alice.merge(&settings, edited("one")).await;
        told(&world, &[]).await;
        // The VidraResource and the MemberCluster have said so too.
        world.after_passes(3).await;
        world.counted(&["berlin"]).await;
        let quiet = world.mark();
        world.after_passes(3).await;
        assert_eq!(
            (world.requests_for(&settings, "berlin", &quiet), world.writes("hub", &quiet)),
            (vec![], vec![])
        );
        world.end().await;
    });
}

#[test]
fn an_edit_that_nobody_can_take_back_is_told_before_and_after_a_restart() {
    scenario(async |mut world| {
        let (alice, settings) = delivered(&world, "Report", &config_map("settings", "one")).await;
        alice.merge(&settings, json!({"immutable": true, "data": {"key": "evil"}})).await;
        let before = told(&world, &[("settings", ChangeKind::Modified)]).await;
        world.restart_hub().await;
        let mark = world.mark();
        world.after_passes(3).await;
        assert_eq!(told(&world, &[("settings", ChangeKind::Modified)]).await, before);
        world.ready("shop").await;
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);
        let quiet = world.mark();
        world.after_passes(3).await;
        assert_eq!(world.requests_for(&settings, "berlin", &quiet), [], "it was asked once");

        world.deliver_with("shop", &config_map("settings", "one"), spec("Correct")).await;
        world.target_is("shop", "berlin", TargetState::Failed, "ImmutableField").await;
        world.end().await;
    });
}

/// Whoever is refused an object has read it all the same.
#[test]
fn a_lost_label_stays_told_while_another_vidraresource_is_refused_the_object() {
    scenario(async |mut world| {
        let (alice, settings) = delivered(&world, "Report", &config_map("settings", "one")).await;
        alice.merge(&settings, json!({"metadata": {"labels": {"vidra.dev/hub": null}}})).await;
        told(&world, &[("settings", ChangeKind::OwnershipLost)]).await;
        world.restart_hub().await;
        world.after_passes(2).await;
        let before = told(&world, &[("settings", ChangeKind::OwnershipLost)]).await;
        world.deliver_with("other", &config_map("settings", "two"), spec("Correct")).await;
        world.target_is("other", "berlin", TargetState::Failed, "SharedObjectConflict").await;
        world.after_passes(3).await;
        assert_eq!(told(&world, &[("settings", ChangeKind::OwnershipLost)]).await, before);

        world.deliver_with("shop", &config_map("settings", "one"), spec("Correct")).await;
        let is_labelled = |live: &Value| live["metadata"]["labels"]["vidra.dev/hub"].is_string();
        alice.when(&settings, "brought back", is_labelled).await;
        told(&world, &[]).await;
        world.end().await;
    });
}

/// With another hub's id as its value, the object reads as that hub's: what proves it delivered is still there.
#[test]
fn a_lost_label_of_what_is_delivered_only_if_absent_stays_told_after_a_restart() {
    scenario(async |mut world| {
        let both = |value: &str| {
            let absent = |name| annotated(config_map_in("", name, value), &[("apply", "IfAbsent")]);
            absent("settings") + &absent("third")
        };
        let manifest = both("one") + &config_map("beside", "one");
        let (alice, settings) = delivered(&world, "Report", &manifest).await;
        for (at, value) in [(&settings, json!("another")), (&At::config_map(&world.ns, "third"), Value::Null)]
        {
            alice.merge(at, json!({"metadata": {"labels": {"vidra.dev/hub": value}}})).await;
        }
        let lost = [("settings", ChangeKind::OwnershipLost), ("third", ChangeKind::OwnershipLost)];
        let since = |changes: Vec<Change>| changes.into_iter().map(|one| one.detected_at).collect::<Vec<_>>();
        let before = since(told(&world, &lost).await);
        // What is declared otherwise is delivered, and these are looked at by that.
        world.stop_hub().await;
        world.deliver_with("shop", &both("two"), spec("Report")).await;
        world.start_hub().await;
        alice.gone(&At::config_map(&world.ns, "beside")).await;
        world.after_passes(2).await;
        assert_eq!(since(told(&world, &lost).await), before);
        let mark = world.mark();
        world.after_passes(2).await;
        assert_eq!(world.requests_for(&settings, "berlin", &mark), []);
        alice.delete(&settings).await;
        world.end().await;
    });
}

#[test]
fn a_deletion_is_told_after_one_look_and_not_undone() {
    scenario(async |mut world| {
        let manifest = config_map("beside", "one") + &config_map("settings", "one");
        let (alice, settings) = delivered(&world, "Report", &manifest).await;
        let mark = world.mark();
        alice.delete(&settings).await;
        let missing = told(&world, &[("settings", ChangeKind::Missing)]).await;
        world.after_passes(3).await;
        let verbs = |mark| world.requests_for(&settings, "berlin", mark).into_iter().map(|one| one.verb);
        assert_eq!(verbs(&mark).collect::<Vec<_>>(), ["get"]);

        world.restart_hub().await;
        let mark = world.mark();
        world.after_passes(3).await;
        assert_eq!(told(&world, &[("settings", ChangeKind::Missing)]).await, missing);
        assert!(world.requests_for(&settings, "berlin", &mark).len() <= 1);
        assert_eq!(alice.get(&settings).await, None);
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);

        // A revision that changes something else leaves it so; one that changes it makes it.
        world.restart_hub().await;
        let beside = config_map("beside", "two");
        world.deliver_with("shop", &(beside.clone() + &config_map("settings", "one")), spec("Report")).await;
        alice.when(&At::config_map(&world.ns, "beside"), "changed", says("two")).await;
        world.resource_says("shop", "Ready", "False", "TargetsFailed").await;
        assert_eq!(alice.get(&settings).await, None);
        world.deliver_with("shop", &(beside + &config_map("settings", "two")), spec("Report")).await;
        alice.when(&settings, "made", says("two")).await;
        told(&world, &[]).await;

        // Nor is it made by a hub that was started again and finds no status.
        alice.delete(&settings).await;
        told(&world, &[("settings", ChangeKind::Missing)]).await;
        world.stop_hub().await;
        let mark = world.mark();
        let targets: Api<VidraTarget> = Api::namespaced(world.hub.client.clone(), &world.ns);
        let erased = Patch::Merge(json!({"status": null}));
        targets.patch_status("shop.berlin", &PatchParams::default(), &erased).await.unwrap();
        world.start_hub().await;
        told(&world, &[("settings", ChangeKind::Missing)]).await;
        assert_eq!(alice.get(&settings).await, None);
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);
        world.end().await;
    });
}

#[test]
fn a_deleted_object_that_is_left_so_makes_its_target_not_ready_unless_it_was_to_be_applied_once() {
    scenario(async |world| {
        let mut once = crate::config_map_in("", "once", "one");
        once["metadata"]["annotations"]["vidra.dev/apply"] = "Once".into();
        let manifest = config_map("settings", "one") + &object(&once);
        let (alice, settings) = delivered(&world, "Report", &manifest).await;
        alice.delete(&At::config_map(&world.ns, "once")).await;
        world.after_passes(3).await;
        world.ready("shop").await;

        alice.delete(&settings).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "ObjectsMissing").await;
        for word in ["settings", "spec.drift.policy", "Report"] {
            assert!(message.contains(word), "{message}");
        }
        let failed = world.resource_says("shop", "Ready", "False", "TargetsFailed").await.status.unwrap();
        assert_eq!(vidra_api::find(&failed.conditions, "Stalled").unwrap().status, "False");
        assert_eq!(failed.targets_ready.as_deref(), Some("0/1"));
        let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
        let unready: Vec<_> = status.unready.iter().map(|one| one.name.as_str()).collect();
        assert_eq!((unready, status.progress), (vec!["settings"], None), "nobody waits for it");

        // Nobody asked for it any more, and then somebody has it made again.
        world.deliver_with("shop", &manifest, spec("Ignore")).await;
        world.ready("shop").await;
        assert_eq!(alice.get(&settings).await, None);
        world.deliver_with("shop", &manifest, spec("Report")).await;
        world.target_is("shop", "berlin", TargetState::Failed, "ObjectsMissing").await;
        world.deliver_with("shop", &manifest, spec("Correct")).await;
        alice.when(&settings, "made again", says("one")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn lost_labels_and_managed_fields_that_were_reset_are_lost_ownership() {
    scenario(async |mut world| {
        let (alice, settings) = delivered(&world, "Report", &config_map("settings", "one")).await;
        let mark = world.mark();
        let made = alice.live(&settings).await;
        let hub = made["metadata"]["labels"]["vidra.dev/hub"].clone();
        let label = |value: &Value| json!({"metadata": {"labels": {"vidra.dev/hub": value}}});

        alice.merge(&settings, label(&Value::Null)).await;
        let lost = told(&world, &[("settings", ChangeKind::OwnershipLost)]).await;
        assert_eq!(lost[0].fields[0].path, ".metadata.labels.vidra.dev/hub", "{lost:?}");
        world.after_passes(2).await;
        assert_eq!(world.requests_for(&settings, "berlin", &mark).len(), 1, "one look");
        world.restart_hub().await;
        world.after_passes(2).await;
        let again = told(&world, &[("settings", ChangeKind::OwnershipLost)]).await;
        assert_eq!(again[0].detected_at, lost[0].detected_at);
        alice.merge(&settings, label(&hub)).await;
        told(&world, &[]).await;

        // Out of sight and changed.
        alice
            .merge(
                &settings,
                json!({"metadata": {"labels": {"vidra.dev/hub": null}}, "data": {"key": "evil"}}),
            )
            .await;
        let hidden = told(&world, &[("settings", ChangeKind::Modified)]).await;
        assert!(hidden[0].fields.iter().any(|field| field.path == ".data.key"), "{hidden:?}");
        let mut back = label(&hub);
        back["data"] = json!({"key": "one"});
        alice.merge(&settings, back).await;
        told(&world, &[]).await;

        alice.merge(&settings, json!({"metadata": {"managedFields": [{}]}})).await;
        let reset = told(&world, &[("settings", ChangeKind::OwnershipLost)]).await;
        assert_eq!(reset[0].fields[0].path, ".metadata.managedFields", "{reset:?}");
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);
        world.end().await;
    });
}

#[test]
fn what_has_lost_its_stamp_and_was_edited_is_left_so_by_a_revision_that_changes_something_else() {
    scenario(async |world| {
        let manifest = config_map("beside", "one") + &config_map("settings", "one");
        let (alice, settings) = delivered(&world, "Report", &manifest).await;
        let made = alice.live(&settings).await;
        let annotations = made["metadata"]["annotations"].as_object().unwrap();
        let stamp = annotations.keys().find(|key| key.starts_with(OWNER_PREFIX)).unwrap();
        let mut evil = edited("evil");
        evil["metadata"] = json!({"annotations": {stamp: null}});
        let mark = world.mark();
        alice.merge(&settings, evil).await;
        told(&world, &[("settings", ChangeKind::Modified)]).await;

        let beside = config_map("beside", "two");
        world.deliver_with("shop", &(beside.clone() + &config_map("settings", "one")), spec("Report")).await;
        alice.when(&At::config_map(&world.ns, "beside"), "changed", says("two")).await;
        world.ready("shop").await;
        world.after_passes(3).await;
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);
        assert!(says("evil")(&alice.live(&settings).await));

        world.deliver_with("shop", &(beside + &config_map("settings", "two")), spec("Report")).await;
        alice.when(&settings, "changed", says("two")).await;
        told(&world, &[]).await;
        world.end().await;
    });
}

#[test]
fn what_is_gone_is_made_again_where_the_input_of_an_override_has_changed_since() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let region = |region: &str| json!({"metadata": {"labels": {"region": region}}});
        world.hub.merge(&world.member_at("berlin"), region("eu")).await;
        let mut spec = spec("Report");
        spec["overrides"] = json!([{"target": {"kind": "ConfigMap", "name": "settings"},
            "set": [{"path": ".data.key", "expression": "cluster.labels['region']"}]}]);
        let manifest = config_map("beside", "one") + &config_map("settings", "one");
        world.deliver_with("shop", &manifest, spec).await;
        world.ready("shop").await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        assert!(says("eu")(&alice.live(&settings).await));

        // While the hub is away, so that nobody has seen as what they were applied.
        world.stop_hub().await;
        alice.delete(&settings).await;
        alice.delete(&At::config_map(&world.ns, "beside")).await;
        world.hub.merge(&world.member_at("berlin"), region("asia")).await;
        let mark = world.mark();
        world.start_hub().await;
        alice.when(&settings, "made with the new label's value", says("asia")).await;
        told(&world, &[("beside", ChangeKind::Missing)]).await;
        world.after_passes(3).await;
        assert_eq!(world.writes("berlin", &mark).len(), 1, "what is declared as before stays gone");
        world.end().await;
    });
}

#[test]
fn what_is_gone_is_made_again_where_another_namespace_was_declared_meanwhile() {
    scenario(async |mut world| {
        let manifest = config_map("settings", "one");
        let within = |namespace: &str| {
            let mut spec = spec("Report");
            spec["targets"][0]["namespace"] = json!(namespace);
            spec["prune"] = json!(false);
            spec
        };
        let (first, second) = (world.ns.clone(), format!("{}-b", world.ns));
        world.register(&["berlin"]).await;
        world.deliver_with("shop", &manifest, within(&first)).await;
        world.ready("shop").await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&first, "settings"));
        alice.live(&settings).await;
        world.deliver_with("shop", &manifest, within(&second)).await;
        alice.when(&At::config_map(&second, "settings"), "made", says("one")).await;
        world.ready("shop").await;

        world.stop_hub().await;
        alice.delete(&settings).await;
        world.start_hub().await;
        world.after_passes(2).await;
        world.deliver_with("shop", &manifest, within(&first)).await;
        alice.when(&settings, "made again", says("one")).await;
        told(&world, &[]).await;
        world.end().await;
    });
}

#[test]
fn a_lost_label_is_told_though_another_resource_leaves_the_object() {
    scenario(async |mut world| {
        let manifest = config_map("settings", "one");
        let (alice, settings) = delivered(&world, "Report", &manifest).await;
        world.deliver("other", &["berlin"], &manifest).await;
        world.ready("other").await;
        world.hub.merge(&world.resource_at("other"), json!({"spec": {"drift": {"policy": "Report"}}})).await;
        let reports = |target: &VidraTarget| target.spec.drift.policy == vidra_api::DriftPolicy::Report;
        wait_for("Report", SOON, async || {
            world
                .target("other", "berlin")
                .await
                .filter(reports)
                .map(|_| ())
                .ok_or_else(|| "another policy".to_owned())
        })
        .await;
        // A hub that has not seen it with the label compares it with nothing.
        world.stop_hub().await;
        alice.merge(&settings, json!({"metadata": {"labels": {"vidra.dev/hub": null}}})).await;
        world.start_hub().await;
        told(&world, &[("settings", ChangeKind::OwnershipLost)]).await;
        world.remove("other").await;
        world.after_passes(3).await;
        told(&world, &[("settings", ChangeKind::OwnershipLost)]).await;
        world.deliver_with("shop", &manifest, spec("Correct")).await;
        told(&world, &[]).await;
        let labels = alice.live(&settings).await["metadata"]["labels"].clone();
        assert!(labels["vidra.dev/hub"].is_string(), "{labels}");
        world.end().await;
    });
}

#[test]
fn an_object_that_only_bears_the_labels_is_extra_and_never_touched() {
    scenario(async |world| {
        let (alice, settings) = delivered(&world, "Correct", &config_map("settings", "one")).await;
        let made = alice.live(&settings).await;
        let copy = At::config_map(&world.ns, "copy");
        let mark = world.mark();
        let planted = alice
            .create(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "alice's"},
                "metadata": {"name": "copy", "namespace": world.ns, "labels": made["metadata"]["labels"]},
            }))
            .await;
        told(&world, &[("copy", ChangeKind::Extra)]).await;
        world.after_passes(2).await;
        assert_eq!((alice.live(&copy).await, world.requests_for(&copy, "berlin", &mark)), (planted, vec![]));
        alice.delete(&copy).await;
        told(&world, &[]).await;
        world.end().await;
    });
}

#[test]
fn a_change_of_policy_acts_at_once_and_what_was_undone_is_told() {
    scenario(async |world| {
        let manifest = config_map("beside", "one") + &config_map("settings", "one");
        let (alice, settings) = delivered(&world, "Report", &manifest).await;
        alice.merge(&settings, edited("evil")).await;
        alice.delete(&At::config_map(&world.ns, "beside")).await;
        let all = [("beside", ChangeKind::Missing), ("settings", ChangeKind::Modified)];
        let found = told(&world, &all).await;

        world.deliver_with("shop", &manifest, spec("Correct")).await;
        alice.when(&settings, "repaired", says("one")).await;
        alice.when(&At::config_map(&world.ns, "beside"), "made again", says("one")).await;
        told(&world, &[]).await;
        world.corrected("shop", "berlin", 2).await;
        let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
        for before in &found {
            let undone = status.changes.iter().find(|one| one.name == before.name).unwrap();
            assert!(undone.corrected.is_some());
            assert_eq!(
                (undone.change, &undone.fields, &undone.detected_at),
                (before.change, &before.fields, &before.detected_at)
            );
        }

        world.deliver_with("shop", &manifest, spec("Report")).await;
        world.look("shop", "report", 1).await;
        let mark = world.mark();
        alice.merge(&settings, edited("evil")).await;
        told(&world, &[("settings", ChangeKind::Modified)]).await;
        world.after_passes(2).await;
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);
        world.end().await;
    });
}

#[test]
fn what_correct_undid_is_told_with_its_evidence() {
    scenario(async |world| {
        let web = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1", "resources": {"limits": {"cpu": "1000m"}}}]},
            }},
        });
        let manifest = config_map("settings", "one") + &object(&web);
        let (alice, settings) = delivered(&world, "Correct", &manifest).await;
        // Else replicas that are scaled are left to who scales them.
        let mut all = spec("Correct");
        all["drift"]["yield"] = "None".into();
        world.deliver_with("shop", &manifest, all).await;
        world.look("shop", "nothing yields", 1).await;
        let undone = async |count: i64, name: &str| {
            world.corrected("shop", "berlin", count).await;
            let status = when(&world, "InSync", |status| status.drift == Some(DriftState::InSync)).await;
            status.changes.into_iter().find(|one| one.name == name && one.corrected.is_some()).unwrap()
        };
        alice.merge(&settings, edited("evil")).await;
        let edit = undone(1, "settings").await;
        assert_eq!((edit.change, &*edit.fields[0].manager), (ChangeKind::Modified, "alice-edit"));
        assert_eq!(edit.fields[0].actual.as_deref(), Some("\"evil\""));

        let at = At::new("apps/v1", "Deployment", &world.ns, "web");
        alice.scale(&at, 3).await;
        let scaled = undone(2, "web").await;
        let [field] = &scaled.fields[..] else { panic!("{scaled:?}") };
        assert_eq!((&*field.path, &*field.operation), (".spec.replicas", "Update/scale"), "{field:?}");
        assert_eq!((field.expected.as_deref(), field.actual.as_deref()), (Some("0"), Some("3")));

        alice.merge(&settings, json!({"metadata": {"labels": {"vidra.dev/hub": null}}})).await;
        world.corrected("shop", "berlin", 3).await;
        let kinds = |status: &VidraTargetStatus, kind| status.changes.iter().any(|one| one.change == kind);
        when(&world, "a lost label", |status| kinds(status, ChangeKind::OwnershipLost)).await;
        alice.delete(&settings).await;
        world.corrected("shop", "berlin", 4).await;
        let last = when(&world, "a deletion", |status| kinds(status, ChangeKind::Missing)).await;
        assert!(last.changes.iter().all(|one| one.corrected.is_some()), "{last:?}");
        world.end().await;
    });
}

#[test]
fn a_new_revision_changes_only_what_it_changes() {
    scenario(async |world| {
        let manifest = |changed: &str| {
            ["changed", "settings"]
                .map(|name| config_map(name, if name == "changed" { changed } else { "one" }))
                .concat()
        };
        let first = manifest("one") + &config_map("dropped", "one");
        let (alice, settings) = delivered(&world, "Report", &first).await;
        let changed = At::config_map(&world.ns, "changed");
        for at in [&settings, &changed] {
            alice.merge(at, edited("evil")).await;
        }
        told(&world, &[("changed", ChangeKind::Modified), ("settings", ChangeKind::Modified)]).await;
        let mark = world.mark();
        world.deliver_with("shop", &(manifest("two") + &config_map("new", "one")), spec("Report")).await;
        alice.when(&changed, "applied whole", says("two")).await;
        alice.when(&At::config_map(&world.ns, "new"), "made", says("one")).await;
        alice.gone(&At::config_map(&world.ns, "dropped")).await;
        told(&world, &[("settings", ChangeKind::Modified)]).await;
        assert_eq!(world.requests_for(&settings, "berlin", &mark), []);
        assert!(says("evil")(&alice.live(&settings).await));
        world.end().await;
    });
}

#[test]
fn under_ignore_nothing_is_compared_told_or_undone() {
    scenario(async |mut world| {
        let manifest = config_map("gone", "one") + &config_map("settings", "one");
        let (alice, settings) = delivered(&world, "Ignore", &manifest).await;
        let mark = world.mark();
        alice.merge(&settings, edited("evil")).await;
        let gone = At::config_map(&world.ns, "gone");
        alice.delete(&gone).await;
        world.after_passes(3).await;
        world.restart_hub().await;
        world.after_passes(3).await;
        let status = when(&world, "Unknown", |status| status.drift == Some(DriftState::Unknown)).await;
        assert_eq!((status.state, status.drifted, status.changes), (Some(TargetState::Ready), 0, vec![]));
        for at in [&settings, &gone] {
            assert_eq!(world.requests_for(at, "berlin", &mark), []);
        }
        world.ready("shop").await;
        world
            .deliver_with(
                "shop",
                &(config_map("gone", "two") + &config_map("settings", "one")),
                spec("Ignore"),
            )
            .await;
        alice.when(&gone, "declared otherwise", says("two")).await;
        assert!(says("evil")(&alice.live(&settings).await));
        world.deliver_with("shop", &config_map("settings", "one"), spec("Report")).await;
        told(&world, &[("settings", ChangeKind::Modified)]).await;
        world.end().await;
    });
}

#[test]
fn a_burst_is_told_within_bounds() {
    scenario(async |world| {
        let names: Vec<String> = (0..105).map(|n| format!("c{n:03}")).collect();
        let manifest: String = names.iter().map(|name| config_map(name, "one")).collect();
        let (alice, _) = delivered(&world, "Report", &manifest).await;
        for name in &names {
            alice.merge(&At::config_map(&world.ns, name), edited(&"<b>\u{1b}".repeat(500))).await;
        }
        let status = when(&world, "all of them", |status| status.drifted == 105).await;
        assert_eq!((status.changes.len(), status.changes_total), (100, Some(105)));
        let size = serde_json::to_vec(&status).unwrap().len();
        assert!(size < 256 * 1024, "{size}");
        let values =
            status.changes.iter().flat_map(|one| &one.fields).filter_map(|field| field.actual.as_deref());
        assert!(values.clone().all(|value| value.starts_with("hmac:")) && values.count() == 100);
        world.end().await;
    });
}

#[test]
fn what_is_edited_and_then_deleted_is_told_twice() {
    scenario(async |world| {
        let (alice, settings) = delivered(&world, "Report", &config_map("settings", "one")).await;
        alice.merge(&settings, edited("evil")).await;
        told(&world, &[("settings", ChangeKind::Modified)]).await;
        alice.delete(&settings).await;
        told(&world, &[("settings", ChangeKind::Missing)]).await;
        for kind in ["Modified", "Missing"] {
            let detections = format!("vidra_drift_detections_total{{cluster=\"berlin\",change=\"{kind}\"}}");
            assert_eq!(world.metric(&detections), 1.0, "{kind}");
        }
        world.end().await;
    });
}

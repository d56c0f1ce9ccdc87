//! Objects that are not simply kept as declared: made where there is none, applied once, made again.

use serde_json::{Value, json};
use testkit::world::{At, SOON, wait_for};
use vidra_api::{DriftState, TargetState};

use crate::{config_map, config_map_in, health::GADGET, object, says, scenario, told, uid};

pub fn annotated(mut declared: Value, annotations: &[(&str, &str)]) -> String {
    for (name, value) in annotations {
        declared["metadata"]["annotations"][format!("vidra.dev/{name}")] = (*value).into();
    }
    object(&declared)
}

/// A ConfigMap that is made again where it changes.
pub fn immutable_settings(value: &str) -> String {
    let mut declared = config_map_in("", "settings", value);
    declared["immutable"] = true.into();
    annotated(declared, &[("on-immutable", "Recreate")])
}

fn job(image: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "app", "image": image}]}}},
    })
}

fn image(job: &Value) -> &Value {
    &job["spec"]["template"]["spec"]["containers"][0]["image"]
}

#[test]
fn an_object_that_is_wanted_where_there_is_none_is_made_and_never_changed() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let (ours, theirs) = (At::config_map(&world.ns, "ours"), At::config_map(&world.ns, "theirs"));
        alice.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.ns}})).await;
        alice.create(config_map_in(&world.ns, "theirs", "alice's")).await;
        let manifest = |value: &str| {
            let absent = |name: &str| annotated(config_map_in("", name, value), &[("apply", "IfAbsent")]);
            absent("ours") + &absent("theirs") + &config_map("plain", value)
        };
        world.deliver("shop", &["berlin"], &manifest("one")).await;
        world.ready("shop").await;
        assert!(says("one")(&alice.live(&ours).await));
        assert!(says("alice's")(&alice.live(&theirs).await));
        assert_eq!(crate::marks(&alice.live(&theirs).await), [""; 0]);

        // Neither an edit is undone, nor another content applied; and nothing is asked again.
        alice.merge(&ours, json!({"data": {"key": "edited"}})).await;
        let mark = world.mark();
        world.deliver("shop", &["berlin"], &manifest("two")).await;
        world.ready("shop").await;
        assert!(says("two")(&alice.live(&At::config_map(&world.ns, "plain")).await));
        assert!(says("edited")(&alice.live(&ours).await));
        assert!(world.writes_to(&ours, "berlin", &mark).is_empty());
        assert!(world.writes_to(&theirs, "berlin", &mark).is_empty());
        let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
        assert_eq!((status.drift, status.objects, status.ready), (Some(DriftState::InSync), 2, 2));

        // Without its label no watch shows it: it is looked at once.
        let mark = world.mark();
        alice.merge(&ours, json!({"metadata": {"labels": {"vidra.dev/hub": null}}})).await;
        wait_for("a look at what is hidden", SOON, async || {
            match world.requests_for(&ours, "berlin", &mark) {
                none if none.is_empty() => Err("no call".to_owned()),
                _ => Ok(()),
            }
        })
        .await;
        world.look("shop", "to the end of that", 1).await;
        assert!(says("edited")(&alice.live(&ours).await));
        let mark = world.mark();
        world.look("shop", "once more", 1).await;
        assert!(world.requests_for(&ours, "berlin", &mark).is_empty());
        alice.merge(&ours, json!({"metadata": {"labels": {"vidra.dev/hub": world.ns}}})).await;

        // There is none any more.
        alice.delete(&ours).await;
        alice.when(&ours, "made again", says("two")).await;

        // It is ours, and goes when it is dropped; theirs stays.
        world.deliver("shop", &["berlin"], &config_map("plain", "two")).await;
        alice.gone(&ours).await;
        world.ready("shop").await;
        assert!(says("alice's")(&alice.live(&theirs).await));
        world.end().await;
    });
}

#[test]
fn an_object_of_somebody_elses_where_one_is_wanted_if_there_is_none_holds_no_wave_back() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        alice.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.ns}})).await;
        alice.create(config_map_in(&world.ns, "theirs", "alice's")).await;
        let first = [("apply", "IfAbsent"), ("wave", "-1")];
        let manifest = annotated(config_map_in("", "theirs", "one"), &first) + &config_map("after", "one");
        world.deliver("shop", &["berlin"], &manifest).await;
        alice.when(&At::config_map(&world.ns, "after"), "made", says("one")).await;
        world.ready("shop").await;
        assert!(says("alice's")(&alice.live(&At::config_map(&world.ns, "theirs")).await));
        world.end().await;
    });
}

#[test]
fn another_resources_object_where_one_is_wanted_if_there_is_none_counts_whatever_its_health() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let theirs = object(&GADGET.crd()) + &object(&GADGET.one("one"));
        world.deliver("other", &["berlin"], &theirs).await;
        alice.when(&GADGET.at(&world, "one"), "there", |_| true).await;
        let down = json!({"conditions": [{"type": "Ready", "status": "False"}]});
        GADGET.set(&world, &alice, "one", down).await;
        world.target_is("other", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        let first = [("apply", "IfAbsent"), ("wave", "-1")];
        let manifest = annotated(GADGET.one("one"), &first) + &config_map("after", "one");
        world.deliver("shop", &["berlin"], &manifest).await;
        alice.when(&At::config_map(&world.ns, "after"), "made", says("one")).await;
        world.ready("shop").await;
        world.target_is("other", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        world.end().await;
        GADGET.clear(&alice).await;
    });
}

#[test]
fn an_object_that_is_applied_once_stays_gone_over_a_restart_until_its_content_changes() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let at = At::new("batch/v1", "Job", &world.ns, "migrate");
        let manifest = |image: &str, value: &str| {
            annotated(job(image), &[("apply", "Once"), ("wave", "-1")]) + &config_map("after", value)
        };
        world.deliver("shop", &["berlin"], &manifest("app:1", "one")).await;
        world.ready("shop").await;
        assert_eq!(image(&alice.live(&at).await), "app:1");

        // As the controller of Jobs does when ttlSecondsAfterFinished is over.
        let mark = world.mark();
        alice.delete_with(&at, json!({"propagationPolicy": "Background"})).await;
        alice.gone(&at).await;
        world.deliver("shop", &["berlin"], &manifest("app:1", "two")).await;
        world.ready("shop").await;
        assert!(says("two")(&alice.live(&At::config_map(&world.ns, "after")).await), "it holds no wave back");
        world.restart_hub().await;
        world.deliver("shop", &["berlin"], &manifest("app:1", "three")).await;
        world.ready("shop").await;
        alice.when(&At::config_map(&world.ns, "after"), "three", says("three")).await;
        assert!(alice.get(&at).await.is_none());
        assert!(world.writes_to(&at, "berlin", &mark).is_empty());
        let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
        assert_eq!((status.drift, status.objects, status.ready), (Some(DriftState::InSync), 2, 2));

        world.deliver("shop", &["berlin"], &manifest("app:2", "three")).await;
        alice.when(&at, "run for its new content", |job| image(job) == "app:2").await;
        world.ready("shop").await;

        // What becomes of it then is nobody's drift.
        let mark = world.mark();
        alice
            .merge(&at, json!({"metadata": {"labels": {"note": "mine"}}, "spec": {"backoffLimit": 3}}))
            .await;
        world.look("shop", "look", 1).await;
        assert!(world.writes_to(&at, "berlin", &mark).is_empty());
        world.end().await;
        alice.gone(&at).await;
    });
}

#[test]
fn an_object_that_is_applied_once_is_made_again_where_it_is_wanted_again_while_it_goes() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (alice, at) = (world.alice("berlin").await, At::config_map(&world.ns, "once"));
        let once = annotated(config_map_in("", "once", "one"), &[("apply", "Once")]);
        let plain = config_map("plain", "one");
        world.deliver("shop", &["berlin"], &(plain.clone() + &once)).await;
        world.ready("shop").await;
        alice.merge(&at, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
        world.deliver("shop", &["berlin"], &plain).await;
        let is_going = |live: &Value| live["metadata"]["deletionTimestamp"].is_string();
        let before = alice.when(&at, "on its way out", is_going).await;
        world.ready("shop").await;
        world.deliver("shop", &["berlin"], &(plain + &once)).await;
        world.look("shop", "wanted again", 1).await;
        alice.merge(&at, json!({"metadata": {"finalizers": null}})).await;
        alice.when(&at, "made again", |live| uid(live) != uid(&before)).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_field_that_cannot_be_changed_is_told_and_on_request_the_object_is_made_again() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let at = At::new("batch/v1", "Job", &world.ns, "migrate");
        world.deliver("shop", &["berlin"], &object(&job("app:1"))).await;
        world.ready("shop").await;
        let before = uid(&alice.live(&at).await);

        world.deliver("shop", &["berlin"], &object(&job("app:2"))).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "ImmutableField").await;
        for word in ["Job.batch", "spec.template", "vidra.dev/on-immutable: Recreate"] {
            assert!(message.contains(word), "{message}");
        }
        assert_eq!(uid(&alice.live(&at).await), before);

        let recreate = [("on-immutable", "Recreate")];
        world.deliver("shop", &["berlin"], &annotated(job("app:2"), &recreate)).await;
        world.ready("shop").await;
        let live = alice.live(&at).await;
        assert_eq!(image(&live), "app:2");
        assert_ne!(uid(&live), before);
        let inventory = world.inventory("shop", "berlin").await;
        assert_eq!(inventory.iter().map(|entry| entry.uid.clone()).collect::<Vec<_>>(), [uid(&live)]);

        // A change that could not be made again either deletes nothing.
        let mut broken = job("app:3");
        broken["spec"]["template"]["spec"]["restartPolicy"] = "Sometimes".into();
        world.deliver("shop", &["berlin"], &annotated(broken, &recreate)).await;
        world.target_is("shop", "berlin", TargetState::Failed, "Invalid").await;
        assert_eq!(uid(&alice.live(&at).await), uid(&live));
        world.end().await;
    });
}

#[test]
fn an_immutable_config_map_is_made_again_though_a_restore_has_emptied_its_managed_fields() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let at = At::config_map(&world.ns, "settings");
        world.deliver("shop", &["berlin"], &immutable_settings("one")).await;
        world.ready("shop").await;
        let before = uid(&alice.live(&at).await);
        world.stop_hub().await;
        alice.merge(&at, json!({"metadata": {"managedFields": [{}]}})).await;
        world.deliver("shop", &["berlin"], &immutable_settings("two")).await;
        world.start_hub().await;
        let live = alice.when(&at, "made again", says("two")).await;
        assert_ne!(uid(&live), before);
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn an_immutable_config_map_is_made_again_and_an_object_that_others_share_is_not() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let at = At::config_map(&world.ns, "settings");
        world.deliver("shop", &["berlin"], &immutable_settings("one")).await;
        world.ready("shop").await;
        world.deliver("shop", &["berlin"], &immutable_settings("two")).await;
        world.ready("shop").await;
        assert!(says("two")(&alice.live(&at).await));
        told(&world, "Recreated", &["settings on berlin was deleted and made again"]).await;

        world.deliver("bank", &["berlin"], &immutable_settings("two")).await;
        world.ready("bank").await;
        let before = uid(&alice.live(&at).await);
        world.deliver("shop", &["berlin"], &immutable_settings("three")).await;
        world
            .target_when("shop", "berlin", "Failed", |status| status.state == Some(TargetState::Failed))
            .await;
        let live = alice.live(&at).await;
        assert_eq!((uid(&live), live["data"]["key"].as_str()), (before.clone(), Some("two")));
        // They agree, and still none of them deletes what the other has.
        world.deliver("bank", &["berlin"], &immutable_settings("three")).await;
        let message = world.target_is("bank", "berlin", TargetState::Failed, "ImmutableField").await;
        assert!(message.contains("not this VidraResource's alone"), "{message}");
        assert_eq!(uid(&alice.live(&at).await), before);
        world.remove("bank").await;
        world.end().await;
    });
}

#[test]
fn what_cannot_be_changed_is_made_again_whatever_its_kind_unless_it_holds_data() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let workload = |kind: &str, app: &str, extra: Value| {
            let mut declared = json!({
                "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"},
                "spec": {"replicas": 0, "selector": {"matchLabels": {"app": app}}, "template": {
                    "metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}},
            });
            for (field, value) in extra.as_object().into_iter().flatten() {
                declared["spec"][field] = value.clone();
            }
            declared
        };
        let service = |extra: Value| {
            let mut declared = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
                "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
            for (field, value) in extra.as_object().into_iter().flatten() {
                declared["spec"][field] = value.clone();
            }
            declared
        };
        let api = "rbac.authorization.k8s.io";
        let binding = |role: &str| {
            json!({"apiVersion": format!("{api}/v1"), "kind": "RoleBinding", "metadata": {"name": "web"},
                "roleRef": {"apiGroup": api, "kind": "Role", "name": role},
                "subjects": [{"apiGroup": api, "kind": "User", "name": "bob"}]})
        };
        let secret = |kind: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"}, "type": kind,
                "stringData": {"key": "one"}})
        };
        let changes = [
            (workload("Deployment", "web", json!({})), workload("Deployment", "shop", json!({}))),
            (
                workload("StatefulSet", "web", json!({"serviceName": "one"})),
                workload("StatefulSet", "web", json!({"serviceName": "two"})),
            ),
            (service(json!({})), service(json!({"clusterIP": "None"}))),
            (binding("reader"), binding("writer")),
            (secret("Opaque"), secret("example.com/other")),
        ];
        let asking = |declared: &Value| annotated(declared.clone(), &[("on-immutable", "Recreate")]);
        let before: String = changes.iter().map(|(before, _)| asking(before)).collect();
        let after: String = changes.iter().map(|(_, after)| asking(after)).collect();
        world.deliver("shop", &["berlin"], &before).await;
        world.ready("shop").await;
        let mut uids = Vec::new();
        for (declared, _) in &changes {
            let mut declared = declared.clone();
            declared["metadata"]["namespace"] = world.ns.as_str().into();
            let at = At::of(&declared);
            uids.push((at.clone(), uid(&alice.live(&at).await)));
        }
        world.deliver("shop", &["berlin"], &after).await;
        world.ready("shop").await;
        for (at, before) in &uids {
            assert_ne!(uid(&alice.live(at).await), *before, "{at}");
        }

        let claim = |mode: &str| {
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
                "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}})
        };
        let at = At::new("v1", "PersistentVolumeClaim", &world.ns, "data");
        world.deliver("data", &["berlin"], &asking(&claim("ReadWriteOnce"))).await;
        let before = uid(&alice.when(&at, "there", |_| true).await);
        world.deliver("data", &["berlin"], &asking(&claim("ReadWriteMany"))).await;
        let message = world.target_is("data", "berlin", TargetState::Failed, "ImmutableField").await;
        assert!(message.contains("its data could go with it") && message.contains("spec"), "{message}");
        assert_eq!(uid(&alice.live(&at).await), before);
        // The claim's protection is lifted by a controller that not every bed has.
        alice.merge(&at, json!({"metadata": {"finalizers": null}})).await;
        world.end().await;
    });
}

#[test]
fn what_somebody_else_made_in_place_of_an_object_and_deleted_is_made_after_a_restart() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let ns = world.ns.clone();
        let at = |name: &str| At::config_map(&ns, name);
        let (both, theirs) = (["report", "correct"], "alice's");
        alice.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.ns}})).await;
        for name in both {
            alice.create(config_map_in(&world.ns, name, theirs)).await;
            let manifest = annotated(config_map_in("", name, "ours"), &[("apply", "IfAbsent")]);
            let policy = if name == "report" { "Report" } else { "Correct" };
            let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "drift": {"policy": policy}});
            world.deliver_with(name, &manifest, spec).await;
            world.ready(name).await;
            assert!(says(theirs)(&alice.live(&at(name)).await));
        }
        // No watch tells of what is not the hub's.
        for name in both {
            alice.delete(&at(name)).await;
        }
        world.restart_hub().await;
        for name in both {
            alice.when(&at(name), "made where there is none", says("ours")).await;
            world.ready(name).await;
        }
        // It is this hub's now.
        alice.delete(&at("report")).await;
        world.target_is("report", "berlin", TargetState::Failed, "ObjectsMissing").await;
        world.end().await;
    });
}

#[test]
fn what_somebody_changed_for_good_is_told_before_and_after_a_restart_and_is_no_match() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let (alice, at) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        alice.merge(&at, json!({"immutable": true, "data": {"key": "evil"}})).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "ImmutableField").await;
        assert!(message.contains("immutable"), "{message}");
        world.restart_hub().await;
        world.look("shop", "restarted", 1).await;
        world.target_is("shop", "berlin", TargetState::Failed, "ImmutableField").await;
        let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
        assert_ne!(status.drift, Some(DriftState::InSync), "{:?}", status.changes);
        assert!(says("evil")(&alice.live(&at).await));
        alice.delete(&at).await;
        world.reconcile_now("shop", "1").await;
        world.ready("shop").await;
        world.end().await;
    });
}

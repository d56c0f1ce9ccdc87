//! Drift is seen whatever the kind, again and again, and repaired.

use serde_json::{Value, json};
use testkit::world::At;

use crate::{config_map, object, says, scenario};

/// An object of the manifest, what alice makes of it, and the path that shows which of the two it is.
struct Case {
    declared: Value,
    tampered: Value,
    path: &'static str,
}

fn cases(ns: &str) -> Vec<Case> {
    let rbac = "rbac.authorization.k8s.io/v1";
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let more = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let subject =
        |name: &str| json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}]);
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"});
    vec![
        Case {
            declared: json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"key": "one"}}),
            tampered: json!({"data": {"key": "evil"}}),
            path: "/data/key",
        },
        Case {
            declared: json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, "stringData": {"key": "one"}}),
            tampered: json!({"data": {"key": "ZXZpbA=="}}),
            path: "/data/key",
        },
        Case {
            declared: json!({"apiVersion": rbac, "kind": "Role", "metadata": {"name": "reader"}, "rules": rules}),
            tampered: json!({"rules": more}),
            path: "/rules",
        },
        Case {
            declared: json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": {"name": "reader"},
                "roleRef": role_ref, "subjects": subject("bob")}),
            tampered: json!({"subjects": subject("alice")}),
            path: "/subjects",
        },
        Case {
            declared: json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": format!("{ns}-reader")}, "rules": rules}),
            tampered: json!({"rules": more}),
            path: "/rules",
        },
        Case {
            declared: json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot",
                "labels": {"tier": "one"}}}),
            tampered: json!({"metadata": {"labels": {"tier": "evil"}}}),
            path: "/metadata/labels/tier",
        },
    ]
}

fn at(ns: &str, declared: &Value) -> At {
    let namespace = if declared["kind"] == "ClusterRole" { "" } else { ns };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    At::new(
        &text(&declared["apiVersion"]),
        &text(&declared["kind"]),
        namespace,
        &text(&declared["metadata"]["name"]),
    )
}

#[test]
fn drift_of_objects_without_a_generation_is_seen_and_repaired_once() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let cases = cases(&world.ns);
        let manifest: String = cases.iter().map(|case| object(&case.declared)).collect();
        world.deliver("shop", &["berlin"], &manifest).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let mark = world.mark();
        for case in &cases {
            let at = at(&world.ns, &case.declared);
            let before = alice.live(&at).await;
            let tampered = alice.merge(&at, case.tampered.clone()).await;
            assert_ne!(tampered.pointer(case.path), before.pointer(case.path), "{at}");
            let is_ours = |live: &Value| live.pointer(case.path) == before.pointer(case.path);
            alice.when(&at, "as declared", is_ours).await;
        }
        world.corrected("shop", "berlin", cases.len() as i64).await;
        for case in &cases {
            assert_eq!(
                world.writes_to(&at(&world.ns, &case.declared), "berlin", &mark).len(),
                1,
                "{}",
                case.declared
            );
        }
        world.end().await;
    });
}

#[test]
fn a_second_drift_right_after_the_first_is_repaired_too() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let manifest = config_map("settings", "one") + &config_map("more", "one");
        world.deliver("shop", &["berlin"], &manifest).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        for evil in ["a", "b", "c"] {
            alice.merge(&settings, json!({"data": {"key": evil}})).await;
            alice.when(&settings, "as declared", says("one")).await;
        }
        // Without a breath between them; and so few of each that it is no fight.
        let more = At::config_map(&world.ns, "more");
        for evil in ["d", "e", "f", "g"] {
            alice.merge(&more, json!({"data": {"key": evil}})).await;
        }
        alice.when(&more, "as declared", says("one")).await;
        alice.delete(&settings).await;
        alice.when(&settings, "made again", says("one")).await;
        alice.delete(&settings).await;
        alice.when(&settings, "made again", says("one")).await;
        world.target_when("shop", "berlin", "InSync", |status| status.drifted == 0).await;
        world.end().await;
    });
}

#[test]
fn a_change_of_labels_and_annotations_alone_is_applied() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let with = |metadata: Value| {
            let mut declared = crate::config_map_in("", "settings", "one");
            declared["metadata"] = metadata;
            object(&declared)
        };
        let alice = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        world
            .deliver("shop", &["berlin"], &with(json!({"name": "settings", "labels": {"tier": "one"}})))
            .await;
        world.ready("shop").await;
        let changes = [
            json!({"name": "settings", "labels": {"tier": "two"}}),
            json!({"name": "settings", "labels": {"tier": "two"}, "annotations": {"note": "one"}}),
            json!({"name": "settings", "annotations": {"note": "two"}}),
            json!({"name": "settings"}),
        ];
        for metadata in changes {
            world.deliver("shop", &["berlin"], &with(metadata.clone())).await;
            world.ready("shop").await;
            let live = alice.live(&settings).await;
            assert_eq!(live["metadata"]["labels"]["tier"], metadata["labels"]["tier"], "{metadata}");
            assert_eq!(
                live["metadata"]["annotations"]["note"], metadata["annotations"]["note"],
                "{metadata}"
            );
        }
        world.end().await;
    });
}

#[test]
fn values_that_the_server_writes_otherwise_and_fields_of_others_are_no_drift() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let web = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "annotations": {}},
            "spec": {
                "replicas": 0, "strategy": {}, "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}, "creationTimestamp": null},
                    "spec": {"volumes": [], "containers": [{"name": "web", "image": "web:1", "env": [],
                        "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}}]},
                },
            },
        });
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"},
            "stringData": {"plain": "one"}, "data": {"empty": null}});
        let mark = world.mark();
        world
            .deliver_with(
                "shop",
                &(object(&web) + &object(&secret)),
                json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": {"interval": "1s"}}),
            )
            .await;
        world.ready("shop").await;
        let ready = world.mark();
        let alice = world.alice("berlin").await;
        let at = At::new("apps/v1", "Deployment", &world.ns, "web");
        alice.merge(&at, json!({"metadata": {"annotations": {"example.com/note": "alice's"}}})).await;
        world.after_passes(4).await;
        for at in [at, At::new("v1", "Secret", &world.ns, "password")] {
            // Before it is ready the namespace is missing at first.
            let writes = world.writes_to(&at, "berlin", &mark).into_iter().filter(|write| write.code < 300);
            assert_eq!(writes.count(), 1, "{at}");
            assert_eq!(world.writes_to(&at, "berlin", &ready), [], "{at}: nor is anything refused");
        }
        world.end().await;
    });
}

//! What the hub rests on and Kubernetes does not document: an apply that only creates, and one that meets
//! only the object with its uid. Shown on the API server itself; no hub is asked.

use serde_json::{Value, json};
use testkit::world::{Access, At, World};

use crate::{config_map_in, scenario, uid};

fn kinds(ns: &str) -> Vec<Value> {
    let group = format!("{ns}.example.com");
    let labels = json!({"app": "web"});
    vec![
        config_map_in(ns, "one", "ours"),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "one", "namespace": ns},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]}}}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "one", "namespace": ns},
            "spec": {"ports": [{"port": 80}]}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("{ns}-one")}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": format!("{ns}-one")},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("ones.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "One", "plural": "ones"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}]}}),
    ]
}

fn with(object: &Value, field: &str, value: &str) -> Value {
    let mut object = object.clone();
    object["metadata"][field] = value.into();
    object
}

/// An answer's code: 200 for any success.
async fn code(access: &Access, object: &Value, force: bool) -> u16 {
    access.apply(object, force).await.map_or_else(|refused| refused.code, |_| 200)
}

async fn members_namespace(world: &World) -> Access {
    let alice = world.alice("berlin").await;
    alice.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.ns}})).await;
    alice
}

#[test]
fn an_apply_with_resource_version_1_creates_and_never_changes_what_is_there() {
    scenario(async |world| {
        let alice = members_namespace(&world).await;
        let other = Access::new(alice.client.clone(), "another-manager");
        for object in kinds(&world.ns) {
            let at = At::of(&object);
            let create_only = with(&object, "resourceVersion", "1");
            assert_eq!(code(&alice, &create_only, true).await, 200, "{at}: absent");
            let made = alice.live(&at).await;
            for (access, force) in [(&alice, false), (&alice, true), (&other, false), (&other, true)] {
                let disjoint = json!({"apiVersion": object["apiVersion"], "kind": object["kind"],
                    "metadata": {"name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"],
                        "resourceVersion": "1", "labels": {"theirs": "yes"}}});
                for body in [&create_only, &disjoint] {
                    assert_eq!(code(access, body, force).await, 409, "{at}: present, force {force}");
                }
            }
            let now = alice.live(&at).await;
            assert_eq!(uid(&now), uid(&made), "{at}");
            assert!(now["metadata"]["labels"]["theirs"].is_null(), "{now}");
            alice.delete(&at).await;
        }
        world.end().await;
    });
}

#[test]
fn an_apply_with_a_uid_meets_that_object_or_none() {
    scenario(async |world| {
        let alice = members_namespace(&world).await;
        let stranger = "00000000-0000-4000-8000-000000000000";
        for object in kinds(&world.ns) {
            let at = At::of(&object);
            let of_stranger = with(&object, "uid", stranger);
            assert_eq!(code(&alice, &of_stranger, true).await, 409, "{at}: absent");
            assert!(alice.get(&at).await.is_none(), "{at}: nothing was made");
            let made = alice.create(object.clone()).await;
            let answer = code(&alice, &of_stranger, true).await;
            assert!(matches!(answer, 409 | 422), "{at}: another is there, {answer}");
            assert_eq!(
                code(&alice, &with(&object, "uid", &uid(&made)), true).await,
                200,
                "{at}: it is there"
            );
            alice.delete(&at).await;
        }
        world.end().await;
    });
}

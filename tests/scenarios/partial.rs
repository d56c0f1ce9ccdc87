//! A document that cannot be delivered: what was delivered beside it is known, and goes with the resource.

use serde_json::json;
use testkit::world::{Access, At, Who, World};
use vidra_api::{ObjectHealth, TargetState};

use crate::{config_map, object, scenario};

/// Lets the limited identity do all that delivering ConfigMaps needs, and see Secrets.
pub async fn allow_config_maps(world: &World, admin: &Access) {
    let name = format!("{}-limited", world.ns);
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "create"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]},
    ]);
    let api = "rbac.authorization.k8s.io/v1";
    admin
        .create(json!({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}))
        .await;
    admin
        .create(json!({
            "apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}],
        }))
        .await;
}

/// The ConfigMaps before and after the failing document are there, known with their uids, and removed with
/// the resource; the failing document is not there.
async fn the_rest_is_known_and_goes(world: &World, name: &str, failing: &At, reason: &str) {
    let admin = world.cluster("berlin", Who::Admin).await;
    let message = world.target_is(name, "berlin", TargetState::Failed, reason).await;
    assert!(message.contains(failing.name_parts().1), "{message}");
    let status = world.target(name, "berlin").await.unwrap().status.unwrap();
    let unready: Vec<_> = status.unready.iter().map(|one| (one.name.as_str(), one.health)).collect();
    assert_eq!(unready, [(failing.name_parts().1, ObjectHealth::NotFound)]);
    let made =
        [At::config_map(&world.ns, "a"), At::config_map(&world.ns, "b"), At::config_map(&world.ns, "z")];
    let inventory = world.inventory(name, "berlin").await;
    for at in &made {
        let live = admin.live(at).await;
        let held = inventory.iter().find(|entry| entry.name == at.name_parts().1);
        let held = held.unwrap_or_else(|| panic!("{at} is not in {inventory:?}"));
        assert_eq!(held.uid, live["metadata"]["uid"].as_str().unwrap(), "{at}");
    }
    assert!(admin.get(failing).await.is_none());
    world.remove(name).await;
    for at in &made {
        admin.gone(at).await;
    }
}

/// Two ConfigMaps, the failing document, and one ConfigMap more.
fn around(failing: &str) -> String {
    config_map("a", "1") + &config_map("b", "1") + failing + &config_map("z", "1")
}

#[test]
fn what_was_applied_beside_a_forbidden_document_is_known_and_goes_with_the_resource() {
    scenario(async |world| {
        let admin = world.cluster("berlin", Who::Admin).await;
        allow_config_maps(&world, &admin).await;
        world.register_as("berlin", &world.kubeconfig("berlin", Who::Limited), json!({})).await;
        world.member_says("berlin", "Ready", "True").await;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "forbidden"}});
        world.deliver("shop", &["berlin"], &around(&object(&secret))).await;
        let at = At::new("v1", "Secret", &world.ns, "forbidden");
        the_rest_is_known_and_goes(&world, "shop", &at, "Forbidden").await;

        // A kind that may not even be seen stops nothing either.
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "unseen"},
            "spec": {"ports": [{"port": 80}]}});
        world.deliver("blind", &["berlin"], &around(&object(&service))).await;
        let message = world.target_is("blind", "berlin", TargetState::Failed, "CannotWatch").await;
        assert!(message.contains("Service"), "{message}");
        admin.live(&At::config_map(&world.ns, "z")).await;
        world.end().await;
    });
}

#[test]
fn what_was_applied_beside_an_invalid_document_is_known_and_goes_with_the_resource() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "invalid"},
            "spec": {"ports": [{"port": 99999}]}});
        world.deliver("shop", &["berlin"], &around(&object(&service))).await;
        let at = At::new("v1", "Service", &world.ns, "invalid");
        the_rest_is_known_and_goes(&world, "shop", &at, "Invalid").await;
        world.end().await;
    });
}

#[test]
fn a_field_that_the_kind_does_not_have_is_refused_and_named() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let odd = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "odd"},
            "spec": {"ports": [{"port": 80}], "colour": "blue"}});
        world.deliver("shop", &["berlin"], &around(&object(&odd))).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "InvalidField").await;
        world.resource_says("shop", "Stalled", "False", "Moving").await;
        assert!(message.contains("colour") && message.contains("odd"), "{message}");
        assert_eq!(world.inventory("shop", "berlin").await.iter().filter(|entry| entry.done).count(), 3);
        world.end().await;
    });
}

#[test]
fn a_custom_resource_follows_its_definition_in_one_manifest() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let group = format!("{}.example.com", world.ns);
        let crd_name = format!("gadgets.{group}");
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": crd_name},
            "spec": {
                "group": group, "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"size": {"type": "integer", "default": 7}}}}}],
            },
        });
        let gadget =
            json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget", "metadata": {"name": "one"}});
        world.deliver("shop", &["berlin"], &(object(&gadget) + &object(&crd))).await;
        world.ready("shop").await;
        let berlin = world.alice("berlin").await;
        let at = At::new(&format!("{group}/v1"), "Gadget", &world.ns, "one");
        assert_eq!(berlin.live(&at).await["size"], 7);

        // The definition stays when the resource goes: others may have made gadgets. Ours goes.
        world.remove("shop").await;
        berlin.gone(&at).await;
        let crd_at = At::new("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", &crd_name);
        let left = berlin.live(&crd_at).await;
        assert_eq!(crate::marks(&left), ["vidra-hub"; 0], "{left}");
        assert!(left["metadata"]["deletionTimestamp"].is_null());
        world.end().await;
        berlin.delete(&crd_at).await;
    });
}

//! What only real servers can show: kubectl, and controllers that memkube does not have.

use serde_json::json;
use testkit::world::{At, LONG, wait_for};

use super::scenario;
use crate::{config_map, gadget, gadgets, marks, object, uid};

#[test]
fn kubectl_waits_until_a_resource_is_ready() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        let (program, kubeconfig) = world.bed().kubectl().expect("kubectl");
        let output = std::process::Command::new(program)
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(["--context=hub", "wait", "--for=condition=Ready", "--timeout=60s", "-n", &world.ns])
            .arg("vidraresource/shop")
            .output()
            .expect("kubectl runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        world.end().await;
    });
}

#[test]
fn endpoint_slices_that_the_controller_manager_made_with_our_labels_are_never_touched() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
        // An EndpointSlice of our own, so that the hub watches the kind.
        let own = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "own"}, "endpoints": [{"addresses": ["10.1.2.3"]}]});
        world
            .deliver_with(
                "shop",
                &(object(&service) + &object(&own)),
                json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": {"interval": "1s"}}),
            )
            .await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let slices = At::new("discovery.k8s.io/v1", "EndpointSlice", &world.ns, "");
        let copied = wait_for("the controller manager makes a slice", LONG, async || {
            let all = alice.list(&slices).await;
            let made = all.iter().find(|slice| slice["metadata"]["name"] != "own").cloned();
            made.ok_or_else(|| format!("{all:?}"))
        })
        .await;
        assert!(marks(&copied).iter().any(|mark| mark == "vidra.dev/hub"), "the labels are copied: {copied}");
        let name = copied["metadata"]["name"].as_str().unwrap();
        let made = At::new("discovery.k8s.io/v1", "EndpointSlice", &world.ns, name);
        let mark = world.mark();
        world.after_passes(3).await;

        // Pruning our own slice and changing the Service leaves the other; so does deletion.
        world.deliver("shop", &["berlin"], &object(&service)).await;
        alice.gone(&At::new("discovery.k8s.io/v1", "EndpointSlice", &world.ns, "own")).await;
        world.ready("shop").await;
        assert_eq!(uid(&alice.live(&made).await), uid(&copied));
        world.remove("shop").await;
        assert_eq!(world.requests_for(&made, "berlin", &mark), []);
        world.end().await;
    });
}

/// A merge patch as text: what comes back is too deep for the client that scenarios use.
async fn patch_text(alice: &testkit::world::Access, path: &str, body: String) {
    let request = http::Request::patch(path).header("content-type", "application/merge-patch+json");
    let request = request.body(body.into_bytes()).unwrap();
    alice.client.request_text(request).await.expect("it is patched");
}

#[test]
fn an_object_that_is_nested_too_deep_is_named_and_holds_no_other_back() {
    scenario(async |world| {
        let alice = world.alice("berlin").await;
        let group = format!("{}.example.com", world.ns);
        let gadget = |name: &str| gadget(&group, name);
        world.register(&["berlin"]).await;
        world
            .deliver("shop", &["berlin"], &(object(&gadgets(&group)) + &gadget("deep") + &gadget("other")))
            .await;
        world.ready("shop").await;

        let path = format!("/apis/{group}/v1/namespaces/{}/gadgets/deep?fieldManager=alice-edit", world.ns);
        let deep = format!("{}1{}", "[".repeat(300), "]".repeat(300));
        patch_text(&alice, &path, format!("{{\"deep\":{deep}}}")).await;
        let message =
            world.target_is("shop", "berlin", vidra_api::TargetState::Failed, "ObjectUnreadable").await;
        assert!(message.contains("deep") && message.contains("left as it is"), "{message}");
        // The other one is kept as declared.
        let other = At::new(&format!("{group}/v1"), "Gadget", &world.ns, "other");
        alice.merge(&other, json!({"spec": {"size": 2}})).await;
        alice.when(&other, "as declared", |live| live["spec"]["size"] == 1).await;

        patch_text(&alice, &path, "{\"deep\":null}".to_owned()).await;
        world.ready("shop").await;
        world.remove("shop").await;
        alice
            .delete(&At::new(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                "",
                &format!("gadgets.{group}"),
            ))
            .await;
        world.end().await;
    });
}

#[test]
fn whoever_scales_what_a_declared_autoscaler_is_for_may_have_its_replicas() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let labels = json!({"app": "web"});
        let deployment = object(&json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}}},
        }));
        let scaler = object(&json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
            "spec": {"minReplicas": 1, "maxReplicas": 5,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        }));
        let alice = world.alice("berlin").await;
        let at = At::new("apps/v1", "Deployment", &world.ns, "web");
        world.deliver("shop", &["berlin"], &deployment).await;
        alice.when(&at, "made", |_| true).await;
        alice.scale_by_hand(&at, 2).await;
        alice.when(&at, "as declared", |live| live["spec"]["replicas"] == 0).await;

        let hpa = At::new("autoscaling/v2", "HorizontalPodAutoscaler", &world.ns, "web");
        world.deliver("shop", &["berlin"], &(deployment + &scaler)).await;
        alice.when(&hpa, "made", |_| true).await;
        world.look("shop", "declared", 1).await;
        let mark = world.mark();
        alice.scale_by_hand(&at, 3).await;
        world.look("shop", "scaled", 1).await;
        assert_eq!(alice.live(&at).await["spec"]["replicas"], 3);
        assert!(
            world.writes_to(&at, "berlin", &mark).iter().all(|one| one.verb != "apply"),
            "it was written"
        );
        world.end().await;
    });
}

//! What is declared on the hub comes to the members that are selected.

use serde_json::{Value, json};
use testkit::world::At;
use vidra_api::TargetState;

use crate::{config_map, says, scenario};

#[test]
fn objects_reach_every_member_that_is_named_or_selected_and_leave_with_the_selection() {
    scenario(async |world| {
        for (name, env) in [("berlin", "prod"), ("tokyo", "prod"), ("austin", "test")] {
            let kubeconfig = world.kubeconfig(name, testkit::world::Who::VidraHub);
            world.register_as(name, &kubeconfig, json!({"env": env})).await;
        }
        let ns = &world.ns;
        let yaml = |more: &str| {
            format!(
                r"
apiVersion: vidra.dev/v1alpha1
kind: VidraResource
metadata: {{name: shop}}
spec:
  manifest: |
    apiVersion: apps/v1
    kind: Deployment
    metadata: {{name: web}}
    spec:
      replicas: 0
      selector: {{matchLabels: {{app: web}}}}
      template:
        metadata: {{labels: {{app: web}}}}
        spec: {{containers: [{{name: web, image: web:1}}]}}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {{name: settings}}
    data: {{key: one}}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {{name: settings, namespace: {ns}-named}}
    data: {{key: named}}
  targets:
  - clusterNames: [austin]
    namespace: {ns}-austin
  - clusterSelector: {{matchLabels: {{env: prod}}}}
{more}"
            )
        };
        world.apply_yaml(&yaml("")).await;
        let resource = world.ready("shop").await;
        let status = resource.status.unwrap();
        assert_eq!(status.targets_ready.as_deref(), Some("3/3"));
        assert_eq!(status.summary.unwrap().objects, 9);

        for (name, namespace) in
            [("berlin", ns.clone()), ("tokyo", ns.clone()), ("austin", format!("{ns}-austin"))]
        {
            let member = world.alice(name).await;
            assert!(says("one")(&member.live(&At::config_map(&namespace, "settings")).await), "{name}");
            assert!(
                says("named")(&member.live(&At::config_map(&format!("{ns}-named"), "settings")).await),
                "{name}"
            );
            let web = member.live(&At::new("apps/v1", "Deployment", &namespace, "web")).await;
            assert_eq!(web["metadata"]["labels"]["vidra.dev/hub"], ns.as_str(), "{name}");
            let made = member.live(&At::new("v1", "Namespace", "", &namespace)).await;
            assert_eq!(
                made["metadata"]["labels"],
                json!({"kubernetes.io/metadata.name": namespace}),
                "{name}"
            );
            assert!(made["metadata"]["annotations"].is_null(), "{made}");
            let target = world.target("shop", name).await.unwrap().status.unwrap();
            assert_eq!(
                (target.state, target.objects, target.ready),
                (Some(TargetState::Ready), 3, 3),
                "{name}"
            );
            assert_eq!(target.revision, status.revision, "{name}");
        }

        // A member that is no longer selected loses the objects, and only that one.
        world.apply_yaml(&yaml("  excludeClusters: [tokyo]\n")).await;
        let tokyo = world.alice("tokyo").await;
        tokyo.gone(&At::config_map(ns, "settings")).await;
        tokyo.gone(&At::new("apps/v1", "Deployment", ns, "web")).await;
        let resource = world.ready("shop").await;
        assert_eq!(resource.status.unwrap().targets_ready.as_deref(), Some("2/2"));
        let berlin = world.alice("berlin").await;
        berlin.live(&At::config_map(ns, "settings")).await;

        // Namespaces that were made for the objects stay: others may have moved in.
        world.remove("shop").await;
        berlin.gone(&At::config_map(ns, "settings")).await;
        for (member, name) in [(&berlin, ns.clone()), (&tokyo, ns.clone()), (&berlin, format!("{ns}-named"))]
        {
            let left = member.live(&At::new("v1", "Namespace", "", &name)).await;
            assert!(left["metadata"]["deletionTimestamp"].is_null(), "{left}");
        }
        world.end().await;
    });
}

#[test]
fn a_manifest_that_cannot_be_read_changes_nothing_and_says_why() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let mark = world.mark();
        for manifest in ["kind: ConfigMap\nmetadata: {name: x", "# nothing\n---\n"] {
            world.deliver("shop", &["berlin"], manifest).await;
            world.resource_says("shop", "Stalled", "True", "ManifestInvalid").await;
        }
        assert_eq!(world.writes("berlin", &mark), []);
        world.deliver("shop", &["berlin"], &config_map("settings", "two")).await;
        world.ready("shop").await;
        assert!(says("two")(&world.alice("berlin").await.live(&At::config_map(&world.ns, "settings")).await));
        world.end().await;
    });
}

#[test]
fn of_a_resource_the_hub_writes_its_status_and_its_finalizer_and_owns_nothing_else() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let resource = world.hub.get(&world.resource_at("shop")).await.expect("it is there");
        assert_eq!(resource["spec"]["manifest"], config_map("settings", "one"));
        let entries = resource["metadata"]["managedFields"].as_array().unwrap();
        let of = |fields: &str| {
            entries
                .iter()
                .filter(|entry| !entry.pointer(fields).is_none_or(Value::is_null))
                .collect::<Vec<_>>()
        };
        let [declared] = of("/fieldsV1/f:spec/f:manifest")[..] else { panic!("one has it: {entries:?}") };
        let [told] = of("/fieldsV1/f:status")[..] else { panic!("one wrote it: {entries:?}") };
        assert_eq!(told["subresource"], "status");
        // Before Kubernetes 1.36 a write of a status owns the metadata that it carries too, though it is not taken.
        if std::env::var_os("VIDRA_TESTBED_RELEASE").is_none() {
            let [marked] = of("/fieldsV1/f:metadata/f:finalizers")[..] else {
                panic!("one put it: {entries:?}")
            };
            assert_eq!(marked["manager"], "vidra-hub");
            let parts = |entry: &Value| entry["fieldsV1"].as_object().map_or(0, |parts| parts.len());
            assert_eq!([marked, told].map(parts), [1, 1], "nothing else: {entries:?}");
            assert_ne!(declared["manager"], marked["manager"]);
        }
        world.end().await;
    });
}

//! The order inside a target: waves wait for health, what is late is named, kinds come before their objects.

use serde_json::{Value, json};
use testkit::world::{Access, At, World};
use vidra_api::{TargetState, VidraTargetStatus};

use crate::{config_map, config_map_in, health::over_a_restart, object, says, scenario};

/// A kind of the scenario's own, whose objects are as healthy as alice says.
struct Gadgets {
    group: String,
}

impl Gadgets {
    fn of(world: &World) -> Self {
        Self { group: format!("{}.example.com", world.ns) }
    }

    fn crd(&self) -> Value {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("gadgets.{}", self.group)},
            "spec": {
                "group": self.group, "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"size": {"type": "integer"}, "status": open}}}}],
            },
        })
    }

    fn one(&self) -> Value {
        let api_version = format!("{}/v1", self.group);
        json!({"apiVersion": api_version, "kind": "Gadget", "metadata": {"name": "one"}, "size": 1})
    }

    fn at(&self, world: &World) -> At {
        At::new(&format!("{}/v1", self.group), "Gadget", &world.ns, "one")
    }

    async fn set_ready(&self, world: &World, alice: &Access, ready: bool) {
        let status = if ready { "True" } else { "False" };
        let ready = json!({"type": "Ready", "status": status, "reason": "Alice", "message": "says so"});
        alice.merge(&self.at(world), json!({"status": {"conditions": [ready]}})).await;
    }

    /// Definitions stay in members; scenarios leave nothing behind.
    async fn clear(&self, alice: &Access) {
        alice.delete(&At::of(&self.crd())).await;
    }
}

fn in_wave(mut declared: Value, wave: i32) -> String {
    declared["metadata"]["annotations"]["vidra.dev/wave"] = wave.to_string().into();
    object(&declared)
}

#[test]
fn a_wave_waits_for_the_health_of_the_one_before_and_repair_goes_on() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (gadgets, alice) = (Gadgets::of(&world), world.alice("berlin").await);
        let map = |name: &str, value: &str, wave| in_wave(config_map_in("", name, value), wave);
        let before = object(&gadgets.crd())
            + &in_wave(gadgets.one(), 1)
            + &map("early", "one", -3)
            + &map("late", "one", 2)
            + &map("steady", "one", 2);
        world.deliver("shop", &["berlin"], &before).await;
        world.ready("shop").await;
        let at = |name: &str| At::config_map(&world.ns, name);
        assert!(
            alice.live(&at("late")).await["metadata"]["annotations"]["vidra.dev/wave"].is_null(),
            "an instruction to the hub is not sent"
        );

        gadgets.set_ready(&world, &alice, false).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        let now = object(&gadgets.crd())
            + &in_wave(gadgets.one(), 1)
            + &map("early", "two", -3)
            + &map("late", "two", 2)
            + &map("steady", "one", 2)
            + &map("new", "two", 7);
        world.deliver("shop", &["berlin"], &now).await;
        let message = world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        for word in ["wave 2", "wave 1", "Gadget", "one"] {
            assert!(message.contains(word), "{message}");
        }
        alice.when(&at("early"), "two", says("two")).await;
        // What is as it was applied is repaired, behind the gate too.
        alice.merge(&at("steady"), json!({"data": {"key": "evil"}})).await;
        alice.when(&at("steady"), "as declared", says("one")).await;
        assert!(says("one")(&alice.live(&at("late")).await));
        assert!(alice.get(&at("new")).await.is_none());

        gadgets.set_ready(&world, &alice, true).await;
        world.ready("shop").await;
        assert!(says("two")(&alice.live(&at("late")).await));
        assert!(says("two")(&alice.live(&at("new")).await));

        // A change of a wave alone is the hub's business.
        let mark = world.mark();
        let swapped = now.replace("\"vidra.dev/wave\":\"7\"", "\"vidra.dev/wave\":\"8\"");
        assert_ne!(swapped, now);
        world.deliver("shop", &["berlin"], &swapped).await;
        world.ready("shop").await;
        assert_eq!(world.writes("berlin", &mark), []);
        let inventory = world.inventory("shop", "berlin").await;
        let wave = inventory.iter().find(|entry| entry.name == "new").map(|entry| entry.wave);
        assert_eq!(wave, Some(8), "{inventory:?}");
        world.end().await;
        gadgets.clear(&alice).await;
    });
}

#[test]
fn a_wave_waits_for_a_deployment_of_the_one_before() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let web = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}},
        });
        let manifest = in_wave(web, -1) + &config_map("after", "one");
        world.deliver("shop", &["berlin"], &manifest).await;
        let alice = world.alice("berlin").await;
        alice.when(&At::config_map(&world.ns, "after"), "there", |_| true).await;
        let web = alice.live(&At::new("apps/v1", "Deployment", &world.ns, "web")).await;
        let conditions = web["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let available = conditions.iter().any(|one| one["type"] == "Available" && one["status"] == "True");
        assert!(available, "{web}");
        world.ready("shop").await;
        world.end().await;
    });
}

fn is_suspended(status: &VidraTargetStatus) -> bool {
    status.state == Some(TargetState::Ready) && (status.suspended, status.unready.len()) == (1, 0)
}

fn is_resumed(status: &VidraTargetStatus) -> bool {
    status.state == Some(TargetState::Ready) && status.suspended == 0
}

#[test]
fn a_suspended_job_is_healthy_and_opens_no_later_wave() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let job = |suspend: bool| {
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate"}, "spec": {
                "suspend": suspend,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "app", "image": "app:1"}]}}}})
        };
        world.deliver("shop", &["berlin"], &object(&job(true))).await;
        world.ready("shop").await;

        let late = At::config_map(&world.ns, "late");
        let manifest = |suspend: bool| object(&job(suspend)) + &in_wave(config_map_in("", "late", "one"), 1);
        world.deliver("shop", &["berlin"], &manifest(true)).await;
        let message = world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForSuspended").await;
        assert!(message.contains("Job.batch") && message.contains("suspended"), "{message}");
        world.look("shop", "1", 1).await;
        let status = world.target("shop", "berlin").await.unwrap().status.unwrap_or_default();
        assert_eq!((status.suspended, status.progress), (1, None), "no time runs out");
        assert_eq!(alice.get(&late).await, None);
        over_a_restart(&mut world, &alice, &["shop"]).await;

        world.deliver("shop", &["berlin"], &manifest(false)).await;
        alice.when(&late, "there", says("one")).await;
        world.ready("shop").await;

        // The same for one that somebody else has suspended, and that the manifest says nothing of.
        let mut queued = job(true);
        queued["metadata"] = json!({"name": "queued", "namespace": world.ns});
        alice.create(queued.clone()).await;
        queued["spec"].as_object_mut().unwrap().remove("suspend");
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "conflicts": {"existing": "Adopt"}});
        world.deliver_with("other", &object(&queued), spec).await;
        world.target_when("other", "berlin", "Ready and suspended", is_suspended).await;
        let at = At::new("batch/v1", "Job", &world.ns, "queued");
        alice.merge(&at, json!({"spec": {"suspend": false}})).await;
        world.target_when("other", "berlin", "Ready and resumed", is_resumed).await;
        world.end().await;
    });
}

#[test]
fn a_wave_that_is_none_is_refused_by_document_and_object() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let mut odd = config_map_in("", "settings", "one");
        odd["metadata"]["annotations"]["vidra.dev/wave"] = "first".into();
        world.deliver("shop", &["berlin"], &(config_map("other", "one") + &object(&odd))).await;
        let resource = world.resource_says("shop", "Stalled", "True", "ManifestInvalid").await;
        let conditions = resource.status.unwrap().conditions;
        let message = &vidra_api::find(&conditions, "Stalled").unwrap().message;
        for word in ["document 2", "ConfigMap settings", "vidra.dev/wave", "-1000 to 1000"] {
            assert!(message.contains(word), "{message}");
        }
        world.end().await;
    });
}

#[test]
fn an_annotation_that_the_hub_does_not_know_is_refused_and_what_was_delivered_is_kept() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        world.ready("shop").await;
        let mut odd = config_map_in("", "settings", "two");
        odd["metadata"]["annotations"]["vidra.dev/wait_for"] = "Nothing".into();
        world.deliver("shop", &["berlin"], &(config_map("other", "one") + &object(&odd))).await;
        let resource = world.resource_says("shop", "Stalled", "True", "ManifestInvalid").await;
        let conditions = resource.status.unwrap().conditions;
        let message = &vidra_api::find(&conditions, "Stalled").unwrap().message;
        for word in
            ["spec.manifest, document 2", "ConfigMap settings", "wait_for", "write vidra.dev/wait-for"]
        {
            assert!(message.contains(word), "{message}");
        }
        // Repaired as it was delivered.
        let (alice, at) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        alice.merge(&at, json!({"data": {"key": "edited"}})).await;
        alice.when(&at, "as delivered", says("one")).await;
        assert!(alice.get(&At::config_map(&world.ns, "other")).await.is_none());

        let other = r#"[{"target": {"name": "settings"}, "mergePatch": {"metadata": {"annotations": {"vidra.dev/waves": "1"}}}}]"#;
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "overrides": serde_json::from_str::<serde_json::Value>(other).unwrap()});
        world.deliver_with("shop", &config_map("settings", "two"), spec).await;
        let resource = world.resource_says("shop", "Stalled", "True", "OverridesInvalid").await;
        let conditions = resource.status.unwrap().conditions;
        let message = &vidra_api::find(&conditions, "Stalled").unwrap().message;
        assert!(
            message.starts_with("spec.overrides[0]: ") && message.contains("write vidra.dev/wave,"),
            "{message}"
        );

        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "overrides": []});
        world.deliver_with("shop", &config_map("settings", "two"), spec).await;
        world.ready("shop").await;
        assert!(says("two")(&alice.live(&at).await));
        world.end().await;
    });
}

#[test]
fn an_object_that_is_late_is_named_after_the_timeout_over_a_restart_and_recovers() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let (gadgets, alice) = (Gadgets::of(&world), world.alice("berlin").await);
        let manifest = object(&gadgets.crd()) + &object(&gadgets.one());
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": {"timeout": "3s"}});
        world.deliver_with("shop", &manifest, spec).await;
        world.ready("shop").await;
        gadgets.set_ready(&world, &alice, false).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "HealthCheckTimeout").await;
        let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
        assert!(status.progress.is_some(), "what is waited for");
        for word in ["Gadget", "one", "(3s)"] {
            assert!(message.contains(word), "{message}");
        }

        // The time is read off the status: a new process neither forgets it nor counts again.
        let at = world.target_at("shop", "berlin");
        let version = |target: Value| target["metadata"]["resourceVersion"].clone();
        let before = version(world.hub.live(&at).await);
        world.restart_hub().await;
        world.look("shop", "look", 1).await;
        assert_eq!(version(world.hub.live(&at).await), before, "nothing is new");

        gadgets.set_ready(&world, &alice, true).await;
        world.ready("shop").await;
        let status = world.target("shop", "berlin").await.unwrap().status.unwrap();
        assert_eq!(status.progress, None);
        world.end().await;
        gadgets.clear(&alice).await;
    });
}

#[test]
fn a_wave_that_is_late_is_named_the_next_one_does_not_start_and_all_goes_on_by_itself() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (gadgets, alice) = (Gadgets::of(&world), world.alice("berlin").await);
        let manifest = |value: &str| {
            object(&gadgets.crd())
                + &in_wave(gadgets.one(), 1)
                + &in_wave(config_map_in("", "behind", value), 2)
        };
        let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "reconcile": {"timeout": "3s"}});
        world.deliver_with("shop", &manifest("one"), spec.clone()).await;
        world.ready("shop").await;
        gadgets.set_ready(&world, &alice, false).await;
        world.target_is("shop", "berlin", TargetState::Progressing, "ObjectsProgressing").await;
        let more = in_wave(config_map_in("", "more", "two"), 3);
        world.deliver_with("shop", &(manifest("two") + &more), spec).await;
        world.target_is("shop", "berlin", TargetState::Waiting, "WaitingForWave").await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "HealthCheckTimeout").await;
        for word in ["wave 2 waits for", "of wave 1", "Gadget", "one", "reconcile.timeout (3s)"] {
            assert!(message.contains(word), "{message}");
        }
        world.resource_says("shop", "Ready", "False", "TargetsFailed").await;
        world.look("shop", "look", 1).await;
        let at = |name: &str| At::config_map(&world.ns, name);
        assert!(says("one")(&alice.live(&at("behind")).await));
        assert!(alice.get(&at("more")).await.is_none());

        gadgets.set_ready(&world, &alice, true).await;
        world.ready("shop").await;
        assert!(says("two")(&alice.live(&at("behind")).await));
        assert!(says("two")(&alice.live(&at("more")).await));
        world.end().await;
        gadgets.clear(&alice).await;
    });
}

#[test]
fn a_kind_that_comes_later_is_named_with_what_to_do_and_delivered_when_it_is_there() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let (gadgets, alice) = (Gadgets::of(&world), world.alice("berlin").await);
        let gadget = object(&gadgets.one());
        world.deliver("shop", &["berlin"], &(config_map("beside", "one") + &gadget)).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "KindUnknown").await;
        for word in ["Gadget", "install its CRD"] {
            assert!(message.contains(word), "{message}");
        }
        alice.live(&At::config_map(&world.ns, "beside")).await;

        // Its definition stands behind it, and waits for it.
        let late = gadget.clone() + &in_wave(gadgets.crd(), 1);
        world.deliver("shop", &["berlin"], &late).await;
        let is_told = |status: &vidra_api::VidraTargetStatus| {
            status.message.as_deref().is_some_and(|message| message.contains("comes in wave 1"))
        };
        world.target_when("shop", "berlin", "told where its CRD is", is_told).await;

        world.deliver("shop", &["berlin"], &gadget).await;
        alice.create(gadgets.crd()).await;
        world.ready("shop").await;
        alice.live(&gadgets.at(&world)).await;
        world.end().await;
        gadgets.clear(&alice).await;
    });
}

#[test]
fn objects_are_removed_wave_by_wave_in_reverse() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let manifest = in_wave(config_map_in("", "a-last", "one"), 1) + &config_map("first", "one");
        world.deliver("shop", &["berlin"], &manifest).await;
        world.ready("shop").await;
        let alice = world.alice("berlin").await;
        let (first, last) = (At::config_map(&world.ns, "first"), At::config_map(&world.ns, "a-last"));
        alice.merge(&last, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
        world.hub.delete(&world.resource_at("shop")).await;
        alice.when(&last, "going", |live| live["metadata"]["deletionTimestamp"].is_string()).await;
        world.target_is("shop", "berlin", TargetState::Terminating, "Removing").await;
        assert!(alice.live(&first).await["metadata"]["deletionTimestamp"].is_null());
        alice.merge(&last, json!({"metadata": {"finalizers": null}})).await;
        world.removed("shop").await;
        alice.gone(&first).await;
        world.end().await;
    });
}

#[test]
fn an_object_that_is_refused_holds_the_next_wave_back_and_the_hub_is_quiet() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        alice.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.ns}})).await;
        let hub = vidra_api::HubId::try_from(world.ns.as_str()).unwrap();
        let owner = vidra_api::OwnerHash::new(&hub, &world.ns, "shop");
        let mut copied = config_map_in(&world.ns, "copied", "alice's");
        copied["metadata"]["labels"] = json!(vidra_api::labels::object_labels(&hub, &owner));
        alice.create(copied).await;
        let manifest = config_map("copied", "one")
            + &config_map("beside", "one")
            + &in_wave(config_map_in("", "behind", "one"), 1);
        world.deliver("shop", &["berlin"], &manifest).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "NotOurs").await;
        assert!(message.contains("copied"), "{message}");
        alice.live(&At::config_map(&world.ns, "beside")).await;
        assert!(alice.get(&At::config_map(&world.ns, "behind")).await.is_none());
        let (mark, passes) = (world.mark(), world.passes());
        world.look("shop", "look", 1).await;
        assert_eq!(world.writes("berlin", &mark), []);
        assert!(world.passes() < passes + 10, "it goes round");
        alice.delete(&At::config_map(&world.ns, "copied")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

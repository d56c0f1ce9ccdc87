//! Objects that others made: taken over where the VidraResource says so, and only then.

use serde_json::{Value, json};
use testkit::world::{Access, At, Who, World};
use vidra_api::{DriftState, TargetState};

use crate::{config_map, config_map_in, marks, object, says, scenario, uid};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn spec(existing: &str, fields: &str) -> Value {
    json!({"targets": [{"clusterNames": ["berlin"]}], "conflicts": {"existing": existing, "fields": fields}})
}

/// A ConfigMap as client-side `kubectl apply` leaves it.
async fn applied_by_kubectl(world: &World, name: &str, data: Value) -> Value {
    let admin = world.cluster("berlin", Who::Admin).await;
    let kubectl = Access::new(admin.client.clone(), "kubectl-client-side-apply");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.ns}});
    let _ = kubectl.try_create(namespace).await;
    let mut object = config_map_in(&world.ns, name, "");
    object["data"] = data;
    object["metadata"]["annotations"] = json!({LAST_APPLIED: object.to_string(), "note": "kept"});
    kubectl.create(object).await
}

fn managers(live: &Value) -> Vec<&str> {
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    entries.iter().map(|entry| entry["manager"].as_str().unwrap()).collect()
}

#[test]
fn what_kubectl_applied_is_adopted_with_its_fields_and_tended_from_then_on() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let before = applied_by_kubectl(&world, "settings", json!({"key": "kubectl's", "old": "x"})).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let before_alice = alice.merge(&settings, json!({"data": {"more": "alice's"}})).await;
        assert_eq!(uid(&before_alice), uid(&before));
        world.deliver_with("shop", &config_map("settings", "ours"), spec("Fail", "Force")).await;
        world.target_is("shop", "berlin", TargetState::Failed, "AlreadyExists").await;

        world.deliver_with("shop", &config_map("settings", "ours"), spec("Adopt", "Force")).await;
        let taken = alice.when(&settings, "as declared", says("ours")).await;
        world.ready("shop").await;
        assert_eq!(uid(&taken), uid(&before));
        // What kubectl applied and the manifest lacks goes, as with kubectl; what alice added is hers.
        assert_eq!(taken["data"], json!({"key": "ours", "more": "alice's"}));
        let annotations = &taken["metadata"]["annotations"];
        assert!(annotations[LAST_APPLIED].is_null(), "{taken}");
        assert!(!managers(&taken).contains(&"kubectl-client-side-apply"), "{taken}");
        let held = world.inventory("shop", "berlin").await;
        assert!(held.len() == 1 && held[0].adopted && held[0].done, "{held:?}");

        // A field that is dropped later goes too, and nothing is written when nothing changed.
        let mut two = config_map_in("", "settings", "ours");
        two["data"]["second"] = "two".into();
        world.deliver_with("shop", &object(&two), spec("Adopt", "Force")).await;
        alice.when(&settings, "both", |live| live["data"]["second"] == "two").await;
        world.deliver_with("shop", &config_map("settings", "ours"), spec("Adopt", "Force")).await;
        alice.when(&settings, "one again", |live| live["data"]["second"].is_null()).await;
        world.ready("shop").await;
        let mark = world.mark();
        world.reconcile_now("shop", "1").await;
        world.deliver("marker", &["berlin"], &config_map("marker", "one")).await;
        world.ready("marker").await;
        assert_eq!(world.writes_to(&settings, "berlin", &mark), []);

        world.remove("shop").await;
        alice.gone(&settings).await;
        world.end().await;
    });
}

#[test]
fn what_is_equal_is_adopted_without_a_change_and_what_differs_is_refused_by_path() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let data = json!({"key": "one", "extra": "kubectl's"});
        let equal = applied_by_kubectl(&world, "equal", data.clone()).await;
        let other = applied_by_kubectl(&world, "other", json!({"key": "kubectl's"})).await;
        let alice = world.alice("berlin").await;
        let secret = alice
            .create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password", "namespace": world.ns},
                "stringData": {"key": "alice's-password"}}))
            .await;
        let declared = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"},
            "stringData": {"key": "our-password"}});
        let manifest = config_map("equal", "one") + &config_map("other", "one");
        world.deliver_with("shop", &manifest, spec("AdoptIfEqual", "Force")).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "ExistingDiffers").await;
        assert!(message.contains("other differs") || message.contains(".data.key"), "{message}");
        assert!(!message.contains("kubectl's"), "no values: {message}");
        let at = |name: &str| At::config_map(&world.ns, name);
        assert_eq!(alice.live(&at("other")).await, other);
        let taken = alice.when(&at("equal"), "ours", |live| !marks(live).is_empty()).await;
        assert_eq!((&taken["data"], uid(&taken)), (&data, uid(&equal)));
        // What kubectl applied beyond what is declared stays kubectl's.
        let kubectls = taken["metadata"]["managedFields"].as_array().unwrap().iter();
        let kubectls: Vec<_> = kubectls.filter(|one| one["manager"] == "kubectl-client-side-apply").collect();
        assert_eq!(kubectls.len(), 1, "{taken}");
        assert_eq!(kubectls[0]["fieldsV1"]["f:data"], json!({".": {}, "f:extra": {}}), "{taken}");

        world.deliver_with("vault", &object(&declared), spec("AdoptIfEqual", "Force")).await;
        let message = world.target_is("vault", "berlin", TargetState::Failed, "ExistingDiffers").await;
        assert!(message.contains(".data.key") && !message.contains("password\""), "{message}");
        for value in ["alice's-password", "our-password", "YWxpY2Un", "b3VyLXBh"] {
            assert!(!message.contains(value), "{message}");
        }
        assert_eq!(alice.live(&At::of(&secret)).await, secret);

        // Made equal, it is taken over too.
        alice.merge(&at("other"), json!({"data": {"key": "one"}})).await;
        world.reconcile_now("shop", "1").await;
        world.ready("shop").await;
        for name in ["shop", "vault"] {
            world.remove(name).await;
        }
        assert_eq!(alice.live(&At::of(&secret)).await, secret);
        world.end().await;
    });
}

#[test]
fn objects_of_a_controller_of_another_hub_or_on_their_way_out_are_never_adopted() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        alice.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.ns}})).await;
        let owner = alice.create(config_map_in(&world.ns, "owner", "alice's")).await;
        let mut controlled = config_map_in(&world.ns, "controlled", "one");
        controlled["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
            "uid": owner["metadata"]["uid"], "controller": true}]);
        let mut theirs = config_map_in(&world.ns, "theirs", "one");
        theirs["metadata"]["labels"] = json!({"vidra.dev/hub": "another"});
        let mut dying = config_map_in(&world.ns, "dying", "one");
        dying["metadata"]["finalizers"] = json!(["example.com/hold"]);
        for (name, before, reason) in
            [("controlled", controlled, "ControlledByOther"), ("theirs", theirs, "OwnedByOtherHub")]
        {
            let before = alice.create(before).await;
            world.deliver_with(name, &config_map(name, "one"), spec("Adopt", "Force")).await;
            world.target_is(name, "berlin", TargetState::Failed, reason).await;
            world.remove(name).await;
            assert_eq!(alice.live(&At::of(&before)).await, before);
        }
        let at = At::of(&alice.create(dying).await);
        alice.delete(&at).await;
        let before = alice.live(&at).await;
        world.deliver_with("dying", &config_map("dying", "two"), spec("Adopt", "Force")).await;
        world
            .target_when("dying", "berlin", "Failed", |status| status.state == Some(TargetState::Failed))
            .await;
        assert_eq!(alice.live(&at).await, before);
        alice.merge(&at, json!({"metadata": {"finalizers": null}})).await;
        alice.when(&at, "made by the hub", says("two")).await;
        world.ready("dying").await;
        world.end().await;
    });
}

#[test]
fn a_field_that_another_holds_is_reported_and_not_taken_where_that_is_declared() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let settings = At::config_map(&world.ns, "settings");
        let manifest = config_map("settings", "one") + &config_map("beside", "one");
        world.deliver_with("shop", &manifest, spec("Fail", "Fail")).await;
        world.ready("shop").await;
        let edited = alice.merge(&settings, json!({"data": {"key": "alice's"}})).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "FieldConflict").await;
        assert!(message.contains("alice-edit") && message.contains(".data.key"), "{message}");
        let target = world.target("shop", "berlin").await.unwrap().status.unwrap();
        assert_eq!((target.drift, target.drifted), (Some(DriftState::Drifted), 1));
        world.resource_says("shop", "Drifted", "True", "TargetsDrifted").await;
        assert_eq!(alice.live(&settings).await, edited);
        // What nobody holds is repaired all the same: it is the holder that is asked for, not the change.
        let beside = At::config_map(&world.ns, "beside");
        alice.delete(&beside).await;
        alice.when(&beside, "made again", says("one")).await;

        // A new revision does not take it either, and whoever puts it back ends the matter.
        let manifest = config_map("settings", "two") + &config_map("beside", "two");
        world.deliver_with("shop", &manifest, spec("Fail", "Fail")).await;
        alice.when(&beside, "the new text", says("two")).await;
        world.target_is("shop", "berlin", TargetState::Failed, "FieldConflict").await;
        assert_eq!(alice.live(&settings).await, edited);
        alice.merge(&settings, json!({"data": {"key": "two"}})).await;
        world.reconcile_now("shop", "1").await;
        world.ready("shop").await;
        alice.merge(&settings, json!({"data": {"key": "alice's"}})).await;
        world.target_is("shop", "berlin", TargetState::Failed, "FieldConflict").await;
        world.deliver_with("shop", &manifest, spec("Fail", "Force")).await;
        alice.when(&settings, "taken back", says("two")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn nothing_is_adopted_against_other_holders_where_fields_are_not_to_be_taken() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        applied_by_kubectl(&world, "settings", json!({"key": "kubectl's"})).await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        let edited = alice.merge(&settings, json!({"data": {"key": "alice's"}})).await;
        world.deliver_with("shop", &config_map("settings", "ours"), spec("Adopt", "Fail")).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "FieldConflict").await;
        assert!(message.contains("alice-edit") && !message.contains("kubectl-client"), "{message}");
        assert_eq!(alice.live(&settings).await, edited);
        // What only kubectl held is taken over.
        alice.delete(&settings).await;
        applied_by_kubectl(&world, "other", json!({"key": "kubectl's"})).await;
        world.deliver_with("other", &config_map("other", "ours"), spec("Adopt", "Fail")).await;
        alice.when(&At::config_map(&world.ns, "other"), "as declared", says("ours")).await;
        world.ready("other").await;
        world.end().await;
    });
}

#[test]
fn after_managed_fields_were_reset_a_dropped_field_still_goes() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let mut two = config_map_in("", "settings", "one");
        two["data"]["second"] = "two".into();
        world.deliver("shop", &["berlin"], &object(&two)).await;
        world.ready("shop").await;
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        alice.merge(&settings, json!({"data": {"more": "alice's"}})).await;
        alice.merge(&settings, json!({"metadata": {"managedFields": [{}]}})).await;
        // Its entry is there again, and what it owns nobody else holds for the time before.
        alice
            .when(&settings, "owned again, by us alone", |live| {
                let all = live["metadata"]["managedFields"].as_array().into_iter().flatten();
                let data = |one: &Value| one["fieldsV1"]["f:data"].clone();
                let mut ours = false;
                let mut shared = false;
                for one in all {
                    let manager = one["manager"].as_str().unwrap_or_default();
                    ours |= manager.starts_with("vidra/") && data(one)["f:second"].is_object();
                    shared |= manager == "before-first-apply" && data(one)["f:second"].is_object();
                }
                ours && !shared
            })
            .await;
        world.deliver("shop", &["berlin"], &config_map("settings", "one")).await;
        let left = alice.when(&settings, "the field is gone", |live| live["data"]["second"].is_null()).await;
        assert_eq!(left["data"], json!({"key": "one", "more": "alice's"}));
        world.ready("shop").await;
        world.end().await;
    });
}

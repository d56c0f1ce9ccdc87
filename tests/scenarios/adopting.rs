//! Objects that others made: taken over where the VidraResource says so, and only then.

use serde_json::{Value, json};
use testkit::world::{Access, At, SOON, Who, World, wait_for};
use vidra_api::{DriftState, TargetState, labels::HUB_LABEL};

use crate::{
    apply_modes::immutable_settings,
    config_map, config_map_in, events, marks, object, says, scenario,
    served::{crd_at, gadget, gadget_at, install},
    told, uid,
};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn spec(existing: &str, fields: &str) -> Value {
    json!({"targets": [{"clusterNames": ["berlin"]}], "conflicts": {"existing": existing, "fields": fields}})
}

/// What berlin has as this field manager leaves it.
async fn left_by(world: &World, manager: &str, operation: &str, object: Value) -> Value {
    let admin = world.cluster("berlin", Who::Admin).await;
    let by = Access::new(admin.client, manager);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.ns}});
    let _ = by.try_create(namespace).await;
    match operation {
        "Apply" => by.apply(&object, false).await.expect("it is nobody's yet"),
        _ => by.create(object).await,
    }
}

/// A ConfigMap with these data in berlin, as this field manager leaves it.
async fn config_map_by(world: &World, (manager, operation): (&str, &str), name: &str, data: Value) -> Value {
    let mut object = config_map_in(&world.ns, name, "");
    object["data"] = data;
    left_by(world, manager, operation, object).await
}

/// A ConfigMap as client-side `kubectl apply` leaves it.
async fn applied_by_kubectl(world: &World, name: &str, data: Value) -> Value {
    let mut object = config_map_in(&world.ns, name, "");
    object["data"] = data;
    object["metadata"]["annotations"] = json!({LAST_APPLIED: object.to_string(), "note": "kept"});
    left_by(world, "kubectl-client-side-apply", "Update", object).await
}

/// The manifest of ConfigMaps with these names and data.
fn all_with<'a>(names: impl IntoIterator<Item = &'a str>, data: &Value) -> String {
    let one = |name| {
        let mut one = config_map_in("", name, "");
        one["data"] = data.clone();
        object(&one)
    };
    names.into_iter().map(one).collect()
}

/// Who brings objects into a cluster before a hub does, and how.
const APPLIERS: [(&str, &str); 15] = [
    ("kubectl", "Apply"),
    ("kubectl", "Update"),
    ("kubectl-client-side-apply", "Update"),
    ("kubectl-last-applied", "Apply"),
    ("kubectl-edit", "Update"),
    ("kubectl-create", "Update"),
    ("kubectl-patch", "Update"),
    ("helm", "Update"),
    ("helm", "Apply"),
    ("argocd-controller", "Update"),
    ("argocd-controller", "Apply"),
    ("kustomize-controller", "Apply"),
    ("kustomize-controller", "Update"),
    ("before-first-apply", "Update"),
    // In the list by its name in takeFrom.
    ("helm-controller", "Update"),
];

fn with_take_from(existing: &str) -> Value {
    let mut spec = spec(existing, "Force");
    spec["conflicts"]["takeFrom"] = json!([{"manager": "helm-controller", "operation": "Update"}]);
    spec
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
        told(&world, "Adopted", &["settings on berlin was there before and was taken over"]).await;

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
fn a_field_of_whoever_applied_an_object_before_goes_when_it_is_dropped_and_what_others_set_stays() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let autoscaler = Access::new(alice.client.clone(), "autoscaler");
        let names: Vec<String> = (0..APPLIERS.len()).map(|number| format!("c{number}")).collect();
        let names = || names.iter().map(String::as_str);
        let at = |name: &str| At::config_map(&world.ns, name);
        for (name, by) in names().zip(APPLIERS) {
            config_map_by(&world, by, name, json!({"key": "theirs", "second": "two", "old": "x"})).await;
            autoscaler.merge(&at(name), json!({"data": {"more": "autoscaler's"}})).await;
        }
        // What the manifest has never had goes at once.
        let both = all_with(names(), &json!({"key": "ours", "second": "two"}));
        world.deliver_with("shop", &both, with_take_from("Adopt")).await;
        for (name, by) in names().zip(APPLIERS) {
            let taken = alice.when(&at(name), "as declared", says("ours")).await;
            let data = json!({"key": "ours", "second": "two", "more": "autoscaler's"});
            assert_eq!(taken["data"], data, "{by:?}");
            let held = managers(&taken);
            assert!(!held.contains(&by.0) && held.contains(&"autoscaler"), "{by:?}: {taken}");
        }
        world.ready("shop").await;

        let one = all_with(names(), &json!({"key": "ours"}));
        world.deliver_with("shop", &one, with_take_from("Adopt")).await;
        for (name, by) in names().zip(APPLIERS) {
            let what = format!("without what was dropped, which {by:?} had set");
            let left = alice.when(&at(name), &what, |live| live["data"]["second"].is_null()).await;
            assert_eq!(left["data"], json!({"key": "ours", "more": "autoscaler's"}), "{by:?}");
        }
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn what_is_equal_is_shared_with_nobody_who_applied_it_before_and_goes_when_it_is_dropped() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let by =
            [("helm", "Update"), ("kubectl", "Apply"), ("helm-controller", "Update"), ("alice", "Update")];
        let names = ["c0", "c1", "c2", "c3"];
        let at = |name: &str| At::config_map(&world.ns, name);
        for (name, by) in names.into_iter().zip(by) {
            config_map_by(&world, by, name, json!({"key": "one", "second": "two", "extra": "theirs"})).await;
        }
        let both = all_with(names, &json!({"key": "one", "second": "two"}));
        world.deliver_with("shop", &both, with_take_from("AdoptIfEqual")).await;
        world.ready("shop").await;
        world
            .deliver_with("shop", &all_with(names, &json!({"key": "two"})), with_take_from("AdoptIfEqual"))
            .await;
        for (name, by) in names.into_iter().zip(by) {
            let left = alice.when(&at(name), "as declared now", says("two")).await;
            let data = match by.0 {
                "alice" => json!({"key": "two", "second": "two", "extra": "theirs"}),
                _ => json!({"key": "two", "extra": "theirs"}),
            };
            assert_eq!(left["data"], data, "{by:?}");
        }
        world.ready("shop").await;
        world.end().await;
    });
}

#[test]
fn a_manager_counts_as_an_earlier_applier_where_it_is_named_and_in_the_operation_that_is_named() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let at = |name: &str| At::config_map(&world.ns, name);
        let data = json!({"key": "theirs", "second": "two"});
        for (name, operation) in [("named", "Update"), ("applied", "Apply"), ("elsewhere", "Update")] {
            config_map_by(&world, ("helm-controller", operation), name, data.clone()).await;
        }
        let one = json!({"key": "ours"});
        let manifest = all_with(["named", "applied"], &one);
        world.deliver_with("shop", &manifest, with_take_from("Adopt")).await;
        world.deliver_with("other", &all_with(["elsewhere"], &one), spec("Adopt", "Force")).await;
        for (name, data) in [
            ("named", json!({"key": "ours"})),
            ("applied", json!({"key": "ours", "second": "two"})),
            ("elsewhere", json!({"key": "ours", "second": "two"})),
        ] {
            let taken = alice.when(&at(name), "as declared", says("ours")).await;
            assert_eq!(taken["data"], data, "{name}");
        }
        world.ready("shop").await;
        world.ready("other").await;
        world.end().await;
    });
}

/// A Gadget that helm has made in the older of two versions; alice, and that apiVersion.
async fn left_in_the_older_version(world: &World) -> (Access, String) {
    let alice = world.alice("berlin").await;
    install(world, &alice, &["v1beta1", "v1"]).await;
    world.register(&["berlin"]).await;
    let older = format!("{}.example.com/v1beta1", world.ns);
    let theirs = json!({"apiVersion": older, "kind": "Gadget", "size": 7,
        "metadata": {"name": "one", "namespace": world.ns}});
    left_by(world, "helm", "Update", theirs).await;
    (alice, older)
}

#[test]
fn what_an_earlier_applier_keeps_in_another_api_version_is_told_with_its_paths() {
    scenario(async |world| {
        let (alice, older) = left_in_the_older_version(&world).await;
        world.deliver_with("shop", &gadget(&world, "v1", 7), spec("Adopt", "Fail")).await;
        alice.when(&gadget_at(&world, "v1"), "ours", |live| !marks(live).is_empty()).await;
        world.ready("shop").await;
        let told = wait_for("an Event AdoptedInPart", SOON, async || {
            let notes = events(&world, "AdoptedInPart").await;
            if notes.is_empty() { Err("none".into()) } else { Ok(notes) }
        })
        .await;
        let keeps = format!("\"helm\" keeps .size in {older}");
        assert!(told.len() == 1 && told[0].contains(&keeps), "{told:?}");
        assert!(told[0].contains("remove them there by hand"), "{told:?}");
        world.remove("shop").await;
        alice.delete(&crd_at(&world)).await;
        world.end().await;
    });
}

#[test]
fn what_is_taken_over_in_the_older_api_version_and_declared_in_the_newer_one_later_is_the_hubs_alone() {
    scenario(async |world| {
        let (alice, _) = left_in_the_older_version(&world).await;
        world.deliver_with("shop", &gadget(&world, "v1beta1", 7), spec("Adopt", "Force")).await;
        let at = gadget_at(&world, "v1");
        alice.when(&at, "ours", |live| !marks(live).is_empty()).await;
        world.ready("shop").await;
        let newer = format!("{}.example.com/v1", world.ns);
        let without = json!({"apiVersion": newer, "kind": "Gadget", "metadata": {"name": "one"}});
        world.deliver_with("shop", &object(&without), spec("Adopt", "Force")).await;
        alice.when(&at, "without what was dropped", |live| live["size"].is_null()).await;
        world.ready("shop").await;
        assert!(events(&world, "AdoptedInPart").await.is_empty());
        world.remove("shop").await;
        alice.delete(&crd_at(&world)).await;
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
        assert!(message.contains("/other exists") && message.contains(" at .data.key;"), "{message}");
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
        world.target_is("dying", "berlin", TargetState::Waiting, "ObjectTerminating").await;
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
        // What only earlier appliers held is taken over.
        alice.delete(&settings).await;
        applied_by_kubectl(&world, "other", json!({"key": "kubectl's"})).await;
        config_map_by(&world, ("helm", "Update"), "release", json!({"key": "helm's"})).await;
        config_map_by(&world, ("kubectl", "Apply"), "applied", json!({"key": "kubectl's"})).await;
        for name in ["other", "release", "applied"] {
            world.deliver_with(name, &config_map(name, "ours"), spec("Adopt", "Fail")).await;
            alice.when(&At::config_map(&world.ns, name), "as declared", says("ours")).await;
            world.ready(name).await;
        }
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

#[test]
fn what_is_to_be_taken_over_and_cannot_be_changed_is_told_so_and_never_deleted() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let mut theirs = config_map_in(&world.ns, "settings", "theirs");
        theirs["immutable"] = true.into();
        theirs["metadata"]["labels"] = json!({HUB_LABEL: world.ns});
        let before = uid(&left_by(&world, "kubectl-create", "Update", theirs).await);
        let (alice, settings) = (world.alice("berlin").await, At::config_map(&world.ns, "settings"));
        // A restore of the member may leave what the hub made so: with its label, and no proof.
        alice.merge(&settings, json!({"metadata": {"managedFields": [{}]}})).await;
        world.deliver_with("shop", &immutable_settings("ours"), spec("Adopt", "Force")).await;
        let message = world.target_is("shop", "berlin", TargetState::Failed, "ImmutableField").await;
        assert!(message.contains("nothing proves that it is the hub's"), "{message}");
        let live = alice.live(&settings).await;
        assert!(uid(&live) == before && says("theirs")(&live), "{live}");

        alice.delete(&settings).await;
        world.reconcile_now("shop", "1").await;
        alice.when(&settings, "made as declared", says("ours")).await;
        world.ready("shop").await;
        world.end().await;
    });
}

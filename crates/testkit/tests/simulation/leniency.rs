//! What is to be left alone, in the two shortest ways to it: drift that is only reported, and a field that is ignored. And what is
//! no drift, for it is the hub's own doing.

use std::{sync::Arc, time::Duration};

use memkube::{Call, Denial, Verb};
use serde_json::{Value, json};
use testkit::sim::{
    World, run,
    world::{Shape, TARGET_NAMESPACE, config_map, config_maps, document, hub_path, resource},
};
use tokio::time::sleep;
use vidra_api::labels::HUB_LABEL;

use crate::scenarios::{has, manifest, ready, shop};

const SOON: Duration = Duration::from_secs(5);
/// Nothing tells, and a look comes within this.
const A_LOOK: Duration = Duration::from_secs(60);
/// What is refused is tried again within this.
const RETRIES_WITHIN: Duration = Duration::from_secs(330);

async fn delivered(world: &World, drift: serde_json::Value) {
    let mut resource = resource("shop", &manifest("one", "one"));
    resource["spec"]["drift"] = drift;
    world.create("hub", &hub_path("vidraresources"), resource).await;
    world.start_hub();
    world.until("it is delivered", SOON, || ready(world, "shop")).await;
    world.settle().await;
}

/// What is wrong after an edit and a deletion that are only to be told: over an interval, and a restart.
pub fn of_reported_drift() -> Vec<String> {
    run(31, || async {
        let world = World::new(Shape::new(31)).await;
        delivered(&world, json!({"policy": "Report"})).await;
        world.patch("tokyo", &config_map("a"), json!({"data": {"key": "mine"}})).await;
        world.delete("tokyo", &config_map("b")).await;
        world.settle().await;
        let told = world.observer.misreports();
        tokio::time::sleep(world.shape.interval * 2).await;
        world.crash_hub().await;
        world.start_hub();
        world.settle().await;
        let mut wrong = world.observer.breaches();
        wrong.extend(told.into_iter().chain(world.observer.misreports()));
        let left = world.data("tokyo", "a") == Some(json!({"key": "mine"}));
        if !left || world.data("tokyo", "b").is_some() {
            wrong.push("what was only to be reported was repaired".to_owned());
        }
        world.end_hub().await;
        wrong
    })
}

#[test]
fn what_is_only_reported_stays_over_intervals_and_restarts() {
    assert_eq!(of_reported_drift(), [""; 0]);
}

/// What is wrong after a revision that changes a field which somebody has, and another beside it.
pub fn of_ignored_field() -> Vec<String> {
    run(32, || async {
        let world = World::new(Shape::new(32)).await;
        let rule = json!({"target": {"kind": "ConfigMap", "name": "a"}, "paths": [".data.key"]});
        delivered(&world, json!({"ignore": [rule]})).await;
        world.patch("tokyo", &config_map("a"), json!({"data": {"key": "mine"}})).await;
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
            "data": {"key": "two", "more": "two"}});
        world.patch("hub", &shop(), json!({"spec": {"manifest": other.to_string()}})).await;
        world.settle().await;
        let mut wrong = world.observer.breaches();
        wrong.extend(world.observer.differs());
        if world.data("tokyo", "a") != Some(json!({"key": "mine", "more": "two"})) {
            wrong.push("an ignored field was written, or the one beside it was not".to_owned());
        }
        world.end_hub().await;
        wrong
    })
}

#[test]
fn an_ignored_field_stays_as_somebody_has_set_it_when_another_is_changed() {
    assert_eq!(of_ignored_field(), [""; 0]);
}

/// A CRD and an object of its kind.
const BOOK: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
 "metadata": {"name": "books.test.io"},
 "spec": {"group": "test.io", "scope": "Namespaced", "names": {"kind": "Book", "plural": "books"},
  "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
   "type": "object", "properties": {"spec": {"type": "object", "properties": {"title": {"type": "string"}}}}}}}]}}
---
{"apiVersion": "test.io/v1", "kind": "Book", "metadata": {"name": "one"}, "spec": {"title": "one"}}
---
"#;

/// Nobody can look for objects of a kind that is not served: the CRD is told, and that its kind is not known.
#[test]
fn of_a_crd_that_is_gone_and_left_so_the_objects_are_not_told_one_by_one() {
    run(33, || async {
        let world = World::new(Shape::new(33)).await;
        delivered(&world, json!({"policy": "Report"})).await;
        let before = world.cluster("tokyo").backup();
        let more = manifest("one", "one") + &document("c", "one") + BOOK;
        world.patch("hub", &shop(), json!({"spec": {"manifest": more}})).await;
        world.until("the kind is delivered", SOON * 2, || ready(&world, "shop")).await;
        world.settle().await;
        world.observer.excuse_unknown("tokyo");
        world.observer.cloud("tokyo", Duration::ZERO);
        world.observer.restore("tokyo", &before);
        tokio::time::sleep(Duration::from_secs(2)).await;
        world.observer.enlighten();
        let reason = || world.reason("shop", "tokyo");
        world.until("its kind is not known", SOON * 6, || reason() == "KindUnknown").await;
        world.settle().await;
        let target = world.target("shop", "tokyo").unwrap_or_default();
        let changes = target["status"]["changes"].as_array().cloned().unwrap_or_default();
        let tells = |kind: &str| changes.iter().any(|one| one["kind"] == kind && one["change"] == "Missing");
        // Of a kind that is served all the same each object is told.
        assert!(tells("CustomResourceDefinition") && tells("ConfigMap"), "{changes:?}");
        assert_eq!(world.observer.misreports(), [""; 0]);
        world.end_hub().await;
    });
}

async fn select(world: &World, members: &[&str]) {
    let targets = json!([{"clusterNames": members, "namespace": TARGET_NAMESPACE}]);
    world.patch("hub", &shop(), json!({"spec": {"targets": targets}})).await;
}

async fn hold(world: &World, finalizers: Value) {
    world.patch("tokyo", &config_map("b"), json!({"metadata": {"finalizers": finalizers}})).await;
}

/// The shop goes from tokyo, and the hub has deleted `b`, which a finalizer holds.
async fn goes(world: &World) {
    hold(world, json!(["test.io/held"])).await;
    select(world, &["berlin"]).await;
    let goes = || {
        let live = world.object("tokyo", "", "configmaps", TARGET_NAMESPACE, "b").unwrap_or_default();
        live["metadata"]["deletionTimestamp"].is_string()
    };
    world.until("it is on its way out", A_LOOK, goes).await;
    // It looks again every two seconds.
    sleep(SOON).await;
}

async fn is_made_again(world: &World) {
    let is_back = || ready(world, "shop") && world.data("tokyo", "b").is_some();
    world.until("it is made again", A_LOOK, is_back).await;
    has(world, "tokyo", "b", "one");
    world.settle().await;
    assert_eq!(world.observer.differs(), [""; 0]);
    // And from then on what becomes of it is left alone again.
    world.delete("tokyo", &config_map("b")).await;
    world.settle().await;
    assert_eq!(world.data("tokyo", "b"), None, "somebody else has deleted it");
    world.end_hub().await;
    assert_eq!(world.observer.breaches(), [""; 0]);
}

/// The shop is delivered with each policy that leaves drift as it is, and the hub makes again what it has deleted in this story.
fn makes_again(seed: u64, story: impl AsyncFn(&World)) {
    for policy in ["Report", "Ignore"] {
        run(seed, || async {
            let world = World::new(Shape::new(seed)).await;
            delivered(&world, json!({"policy": policy})).await;
            story(&world).await;
            is_made_again(&world).await;
        });
    }
}

/// It was seen as it had been applied, so it was left as it was, and so it was when it was gone.
#[test]
fn what_the_hub_has_deleted_is_made_again_where_it_is_wanted_again_before_it_is_gone() {
    makes_again(35, async |world| {
        goes(world).await;
        select(world, &["berlin", "tokyo"]).await;
        let waits = || world.reason("shop", "tokyo") == "ObjectTerminating";
        world.until("its end is waited for", SOON, waits).await;
        hold(world, json!(null)).await;
    });
}

/// The same of what a revision has dropped, and the next one declares again.
#[test]
fn what_was_dropped_is_made_again_where_it_is_declared_again_before_it_is_gone() {
    makes_again(36, async |world| {
        hold(world, json!(["test.io/held"])).await;
        world.patch("hub", &shop(), json!({"spec": {"manifest": document("a", "one")}})).await;
        let removing = || world.target("shop", "tokyo").unwrap_or_default()["status"]["removing"].clone();
        world.until("it is on its way out", A_LOOK, || removing()["reason"] == "Finalizers").await;
        world.patch("hub", &shop(), json!({"spec": {"manifest": manifest("one", "one")}})).await;
        world.until("it is declared again", SOON, || removing().is_null()).await;
        sleep(SOON).await;
        hold(world, json!(null)).await;
    });
}

/// How it was applied nobody could tell once its VidraTarget was lost, so it was left as it was.
#[test]
fn what_the_hub_has_deleted_is_made_again_where_its_target_was_lost_on_its_way_out() {
    makes_again(37, async |world| {
        goes(world).await;
        world.delete("hub", &format!("{}/shop.tokyo", hub_path("vidratargets"))).await;
        // It is gone between two looks of the hub.
        sleep(Duration::from_millis(3500)).await;
        hold(world, json!(null)).await;
        select(world, &["berlin", "tokyo"]).await;
    });
}

/// `b`, which is made again where its value changes.
fn with_fixed(value: &str) -> String {
    let annotations = json!({"vidra.dev/on-immutable": "Recreate"});
    let fixed = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "annotations": annotations},
        "data": {"key": value}, "immutable": true});
    format!("{}{fixed}", document("a", "one"))
}

/// The revision before declares it as it is wanted again, so it was taken for what somebody had deleted.
#[test]
fn what_the_hub_has_deleted_to_make_it_again_and_could_not_make_is_made_under_every_policy() {
    makes_again(38, async |world| {
        let declare = async |value: &str| {
            world.patch("hub", &shop(), json!({"spec": {"manifest": with_fixed(value)}})).await;
        };
        declare("one").await;
        world.settle().await;
        has(world, "tokyo", "b", "one");
        // Only once it is gone: a dry run says that it could be made.
        let refuse = |call: &Call, object: &Value| {
            let makes = call.verb == Verb::Apply && !call.dry_run && object["metadata"]["name"] == "b";
            if makes { Err(Denial::new("policy.test.io", "not now")) } else { Ok(()) }
        };
        world.cluster("tokyo").set_validating_admission(Some(Arc::new(refuse)));
        declare("two").await;
        world.until("it is gone", SOON, || world.data("tokyo", "b").is_none()).await;
        sleep(RETRIES_WITHIN).await;
        let told = world.target("shop", "tokyo").unwrap_or_default()["status"]["changes"].clone();
        assert_eq!(told, Value::Null, "it is no drift, also where it was tried again");
        world.cluster("tokyo").set_validating_admission(None);
        declare("one").await;
    });
}

/// Nothing is pruned while a declared kind is not known, whatever label it has lost.
#[test]
fn what_is_dropped_and_has_lost_its_label_waits_for_a_kind_and_goes_when_that_is_known() {
    run(39, || async {
        let world = World::new(Shape::new(39)).await;
        delivered(&world, json!({"policy": "Report"})).await;
        let declare = async |text: String| {
            world.patch("hub", &shop(), json!({"spec": {"manifest": text}})).await;
        };
        declare(manifest("one", "one") + BOOK).await;
        world.until("the kind is delivered", SOON * 2, || ready(&world, "shop")).await;
        world.settle().await;
        let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/books.test.io";
        world.delete("tokyo", crd).await;
        let unknown = || world.reason("shop", "tokyo") == "KindUnknown";
        world.until("its kind is not known", A_LOOK, unknown).await;
        declare(document("a", "one") + BOOK).await;
        world.settle().await;
        let bare = json!({"metadata": {"labels": {HUB_LABEL: null}}});
        world.patch("tokyo", &config_map("b"), bare).await;
        world.settle().await;
        assert!(unknown() && world.data("tokyo", "b").is_some(), "nothing is pruned");
        assert_eq!(world.observer.differs(), [""; 0]);
        world.patch("hub", &shop(), json!({"spec": {"drift": {"policy": "Correct"}}})).await;
        let is_gone = || ready(&world, "shop") && world.data("tokyo", "b").is_none();
        world.until("it goes", A_LOOK, is_gone).await;
        world.settle().await;
        assert_eq!(world.observer.differs(), [""; 0]);
        world.end_hub().await;
        assert_eq!(world.observer.breaches(), [""; 0]);
    });
}

/// Nobody can tell what of it the hub had deleted: until it is whole, all that is gone is made again, as often as it goes.
#[test]
fn what_is_gone_from_a_target_that_is_wanted_again_is_made_until_that_is_whole_and_left_from_then_on() {
    run(40, || async {
        let world = World::new(Shape::new(40)).await;
        delivered(&world, json!({"policy": "Report"})).await;
        goes(&world).await;
        let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"},
            "data": {"key": "mine"}});
        world.create("tokyo", &config_maps(TARGET_NAMESPACE), theirs).await;
        let more = manifest("one", "one") + &document("c", "one");
        world.patch("hub", &shop(), json!({"spec": {"manifest": more}})).await;
        select(&world, &["berlin", "tokyo"]).await;
        hold(&world, json!(null)).await;
        let is_made =
            || world.reason("shop", "tokyo") == "AlreadyExists" && world.data("tokyo", "b").is_some();
        world.until("it is made again", A_LOOK, is_made).await;
        world.settle().await;
        world.delete("tokyo", &config_map("b")).await;
        world.until("and once more", A_LOOK, || world.data("tokyo", "b").is_some()).await;
        world.delete("tokyo", &config_map("c")).await;
        world.until("it is whole", RETRIES_WITHIN, || ready(&world, "shop")).await;
        world.settle().await;
        world.delete("tokyo", &config_map("b")).await;
        world.settle().await;
        assert_eq!(world.data("tokyo", "b"), None, "somebody else has deleted it");
        world.end_hub().await;
        assert_eq!(world.observer.breaches(), [""; 0]);
    });
}

//! Status feedback: what objects in members say comes back to the hub, and wakes nothing.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testkit::world::{Access, At, World};
use vidra_api::{TargetState, VidraTargetStatus, find};

use crate::{config_map, gadgets, object, scenario, settings, told};

const GROUP: &str = "feedback.example.com";
const INCOMPLETE: &str = "FeedbackIncomplete";

fn gadget(name: &str) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Gadget", "metadata": {"name": name}, "spec": {"size": 3}})
}

fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "loadBalancerClass": "example.com/alice", "ports": [{"port": 80}]}})
}

fn rule(values: &[(&str, &str)]) -> Value {
    let values = values.iter().map(|(name, expression)| json!({"name": name, "expression": expression}));
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Gadget", "values": values.collect::<Vec<_>>()})
}

async fn deliver(world: &World, manifest: &str, rules: Value) {
    let spec = json!({"targets": [{"clusterNames": ["berlin"]}], "statusFeedback": rules});
    world.deliver_with("shop", manifest, spec).await;
}

async fn says(world: &World, alice: &Access, name: &str, status: Value) {
    let at = At::new(&format!("{GROUP}/v1"), "Gadget", &world.ns, name);
    alice.merge(&at, json!({"status": status})).await;
}

/// `Gadget/one primary` to the value, as JSON.
fn values(status: &VidraTargetStatus) -> BTreeMap<String, Value> {
    let objects = status.feedback.iter().flat_map(|feedback| &feedback.objects);
    let all = objects.flat_map(|object| {
        object.values.iter().map(move |value| {
            let mut json = json!(value);
            json.as_object_mut().unwrap().remove("name");
            (format!("{}/{} {}", object.kind, object.name, value.name), json)
        })
    });
    all.collect()
}

/// Waits until the target tells just this.
async fn comes_back(world: &World, wanted: &[(&str, Value)]) -> VidraTargetStatus {
    let wanted: BTreeMap<String, Value> =
        wanted.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let what = format!("{wanted:?}");
    let target = world.target_when("shop", "berlin", &what, |status| {
        values(status) == wanted && status.state == Some(TargetState::Ready)
    });
    target.await.status.unwrap()
}

/// Definitions stay in members; scenarios leave nothing behind.
async fn end(world: World, alice: &Access) {
    world.end().await;
    alice.delete(&At::of(&gadgets(GROUP))).await;
}

#[test]
fn an_address_and_a_field_of_a_custom_kind_come_back_and_a_change_is_written_once_and_wakes_nothing() {
    scenario(async |mut world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let manifest = object(&gadgets(GROUP)) + &object(&gadget("one")) + &object(&service());
        let rules = json!([
            {"apiVersion": "v1", "kind": "Service", "name": "web"},
            rule(&[("primary", "status.primary"), ("size", "spec.size"), ("none", "status.none")]),
        ]);
        deliver(&world, &manifest, rules).await;
        let size = ("Gadget/one size", json!({"integer": 3}));
        comes_back(&world, std::slice::from_ref(&size)).await;
        let at = At::new("v1", "Service", &world.ns, "web");
        let balancer = json!({"ingress": [{"ip": "192.0.2.7"}, {"hostname": "a.example"}]});
        alice.merge_status(&at, json!({"status": {"loadBalancer": balancer}})).await;
        says(&world, &alice, "one", json!({"primary": "one-1"})).await;
        let address = ("Service/web addresses", json!({"text": "192.0.2.7,a.example"}));
        let primary = |name: &str| ("Gadget/one primary", json!({"text": name}));
        comes_back(&world, &[address.clone(), primary("one-1"), size.clone()]).await;
        world.ready("shop").await;

        let mark = world.mark();
        says(&world, &alice, "one", json!({"primary": "one-2"})).await;
        comes_back(&world, &[address.clone(), primary("one-2"), size.clone()]).await;
        world.look("shop", "once more", 1).await;
        assert_eq!(world.writes("berlin", &mark), [], "nothing is applied for it");
        assert_eq!(world.writes_to(&world.target_at("shop", "berlin"), "hub", &mark).len(), 1);

        let mark = world.mark();
        world.restart_hub().await;
        world.member_says("berlin", "Ready", "True").await;
        world.look("shop", "after the restart", 1).await;
        assert_eq!(world.writes_to(&world.target_at("shop", "berlin"), "hub", &mark), []);
        assert_eq!(world.writes("berlin", &mark), []);
        // What a session met before the rules were known is read too.
        says(&world, &alice, "one", json!({"primary": "one-3"})).await;
        comes_back(&world, &[address, primary("one-3"), size]).await;
        end(world, &alice).await;
    });
}

#[test]
fn what_comes_back_goes_on_while_a_removal_is_held_and_something_new_waits_for_it() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let first = object(&gadgets(GROUP)) + &object(&gadget("one"));
        let many: Vec<_> = (0..6).map(|n| config_map(&format!("many-{n}"), "x")).collect();
        let rules = json!([rule(&[("primary", "status.primary")])]);
        deliver(&world, &(first.clone() + &many.concat()), rules.clone()).await;
        world.ready("shop").await;
        deliver(&world, &(first + &object(&gadget("two"))), rules).await;
        world.target_is("shop", "berlin", TargetState::Failed, "RemovalHeld").await;
        says(&world, &alice, "one", json!({"primary": "one-1"})).await;
        let told = BTreeMap::from([("Gadget/one primary".to_owned(), json!({"text": "one-1"}))]);
        world.target_when("shop", "berlin", "the new value", |status| values(status) == told).await;
        end(world, &alice).await;
    });
}

#[test]
fn an_edit_of_the_rules_alone_applies_nothing_and_makes_no_revision() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let manifest = object(&gadgets(GROUP)) + &object(&gadget("one"));
        deliver(&world, &manifest, json!([])).await;
        world.ready("shop").await;
        let before = world.target("shop", "berlin").await.unwrap();
        assert_eq!((&before.spec.status_feedback, values(&before.status.unwrap()).len()), (&None, 0));

        let mark = world.mark();
        deliver(&world, &manifest, json!([rule(&[("size", "spec.size")])])).await;
        comes_back(&world, &[("Gadget/one size", json!({"integer": 3}))]).await;
        deliver(&world, &manifest, json!([rule(&[("twice", "spec.size * 2")])])).await;
        comes_back(&world, &[("Gadget/one twice", json!({"integer": 6}))]).await;
        deliver(&world, &manifest, json!([])).await;
        let after =
            world.target_when("shop", "berlin", "no values", |status| status.feedback.is_none()).await;
        assert_eq!((&after.spec.revision, world.writes("berlin", &mark)), (&before.spec.revision, vec![]));
        end(world, &alice).await;
    });
}

#[test]
fn rules_that_match_nothing_or_cannot_be_used_are_told_and_hold_nothing_up() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let manifest = object(&gadgets(GROUP)) + &object(&gadget("one"));
        let unmatched = json!([rule(&[("size", "spec.size")]), {"apiVersion": "v1", "kind": "Service"}]);
        deliver(&world, &manifest, unmatched).await;
        let resource = world.resource_says("shop", INCOMPLETE, "True", "FeedbackUnmatched").await;
        let message = find(&resource.status.unwrap().conditions, INCOMPLETE).unwrap().message.clone();
        assert!(message.starts_with("spec.statusFeedback[1] matches no object"), "{message}");
        told(&world, "FeedbackUnmatched", &["spec.statusFeedback[1]"]).await;
        world.ready("shop").await;
        comes_back(&world, &[("Gadget/one size", json!({"integer": 3}))]).await;

        deliver(&world, &manifest, json!([rule(&[("size", "spec.size"), ("bad", "status.")])])).await;
        world.resource_says("shop", INCOMPLETE, "True", "FeedbackInvalid").await;
        told(&world, "FeedbackInvalid", &["spec.statusFeedback[0].values[1].expression, column 8"]).await;
        world.ready("shop").await;
        comes_back(&world, &[("Gadget/one size", json!({"integer": 3}))]).await;

        deliver(&world, &manifest, json!([rule(&[("size", "spec.size")])])).await;
        let at = world.resource_at("shop");
        let is_told = |resource: &Value| {
            let conditions = resource["status"]["conditions"].as_array();
            conditions.is_some_and(|all| all.iter().all(|one| one["type"] != INCOMPLETE))
        };
        world.hub.when(&at, "all rules are of use", is_told).await;
        end(world, &alice).await;
    });
}

#[test]
fn a_value_that_is_too_large_is_left_out_and_told_and_nothing_of_a_secret_comes_back() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let manifest = object(&gadgets(GROUP)) + &object(&gadget("one"));
        deliver(&world, &manifest, json!([rule(&[("text", "status.text"), ("size", "spec.size")])])).await;
        let size = ("Gadget/one size", json!({"integer": 3}));
        comes_back(&world, std::slice::from_ref(&size)).await;
        says(&world, &alice, "one", json!({"text": "x".repeat(1025)})).await;
        let target = world.target_when("shop", "berlin", "a value is left out", |status| {
            status.feedback.as_ref().is_some_and(|feedback| feedback.left_out == 1)
        });
        let status = target.await.status.unwrap();
        let message = status.feedback.as_ref().unwrap().message.clone().unwrap();
        assert!(message.starts_with("Gadget one: text is a text of more than 1 KiB"), "{message}");
        assert_eq!(values(&status).len(), 1);
        says(&world, &alice, "one", json!({"text": "small"})).await;
        comes_back(&world, &[("Gadget/one text", json!({"text": "small"})), size]).await;

        let secret = json!([{"apiVersion": "v1", "kind": "Secret", "values": [{"name": "a", "expression": "data.a"}]}]);
        let at = world.resource_at("shop");
        let refused = world.hub.try_merge(&at, json!({"spec": {"statusFeedback": secret}}));
        let refused = format!("{:?}", refused.await.unwrap_err());
        assert!(refused.contains("nothing of a Secret comes back to the hub"), "{refused}");
        end(world, &alice).await;
    });
}

#[test]
fn a_setting_says_how_much_comes_back_to_a_target() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let names = ["a", "b", "c"];
        let data: BTreeMap<_, _> = names.iter().map(|name| (*name, name.repeat(800))).collect();
        let notes =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes"}, "data": data});
        let asked = names.map(|name| json!({"name": name, "expression": format!("data.{name}")}));
        let rules = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "notes", "values": asked}]);
        deliver(&world, &object(&notes), rules).await;
        let all: Vec<_> = data
            .iter()
            .map(|(name, text)| (format!("ConfigMap/notes {name}"), json!({"text": text})))
            .collect();
        let first = |count: usize| all.iter().take(count).map(|(name, text)| (name.as_str(), text.clone()));
        let message = |status: &VidraTargetStatus| {
            let feedback = status.feedback.as_ref();
            feedback.and_then(|told| told.message.clone()).unwrap_or_default()
        };
        let status = comes_back(&world, &first(2).collect::<Vec<_>>()).await;
        assert!(message(&status).contains("raise the setting feedback.targetMaxBytes"), "{status:?}");
        settings::set(&world, json!({"feedback.targetMaxBytes": "4Ki"})).await;
        let status = comes_back(&world, &first(3).collect::<Vec<_>>()).await;
        assert_eq!(message(&status), "");
        assert!(world.metric("vidra_feedback_bytes") > 2400.0);
        settings::set(&world, json!({"feedback.targetMaxBytes": "1Ki"})).await;
        let status = comes_back(&world, &first(1).collect::<Vec<_>>()).await;
        assert_eq!(status.feedback.map(|told| told.left_out), Some(2));
        assert!(world.metric("vidra_feedback_bytes") <= 2048.0, "twice the setting, at most");
        settings::set(&world, json!({})).await;
        comes_back(&world, &first(2).collect::<Vec<_>>()).await;
        world.end().await;
    });
}

#[test]
fn a_target_that_is_unknown_keeps_its_values_with_their_time() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let manifest = object(&gadgets(GROUP)) + &object(&gadget("one"));
        deliver(&world, &manifest, json!([rule(&[("size", "spec.size")])])).await;
        let size = [("Gadget/one size", json!({"integer": 3}))];
        let status = comes_back(&world, &size).await;
        assert_eq!(status.feedback_at, None);
        let frozen = world.freeze("berlin");
        let lost = world
            .target_when("shop", "berlin", "Unknown", |status| status.state == Some(TargetState::Unknown));
        let lost = lost.await.status.unwrap();
        assert_eq!((values(&lost).len(), lost.feedback_at.is_some()), (1, true));
        drop(frozen);
        let back = comes_back(&world, &size).await;
        assert_eq!(back.feedback_at, None);
        end(world, &alice).await;
    });
}

#[test]
fn values_that_are_asked_for_no_more_go_though_the_manifest_cannot_be_read() {
    scenario(async |world| {
        world.register(&["berlin"]).await;
        let alice = world.alice("berlin").await;
        let manifest = object(&gadgets(GROUP)) + &object(&gadget("one"));
        deliver(&world, &manifest, json!([rule(&[("size", "spec.size")])])).await;
        comes_back(&world, &[("Gadget/one size", json!({"integer": 3}))]).await;
        deliver(&world, "a: [", json!([])).await;
        world.target_when("shop", "berlin", "no values", |status| status.feedback.is_none()).await;
        end(world, &alice).await;
    });
}

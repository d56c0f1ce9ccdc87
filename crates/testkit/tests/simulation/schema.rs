//! Changes made from the CRD's schema: each field of a VidraResource's spec is set to something else and back,
//! alone and two at a time. The state after is the state before: nothing is left behind in a member, and no
//! status remembers.
//!
//! A new field must come with its other values: booleans and enums have them in the schema, the rest is in
//! [`others`].

use std::time::Duration;

use serde_json::{Map, Value, json};
use testkit::sim::{
    World, run,
    state::{self, State},
    world::{Shape, TARGET_NAMESPACE, document, hub_path, resource},
};

use crate::scenarios::{manifest, shop};

/// One field of the spec, and another value of it.
#[derive(Clone, Debug)]
struct Change {
    path: String,
    /// A merge patch of the spec.
    there: Value,
    /// The merge patch that takes it back.
    back: Value,
}

/// Other values of fields that the schema alone cannot give, by path.
fn others(path: &str) -> Vec<Value> {
    let namespaced = |name: &str| json!([{"clusterNames": [name], "namespace": TARGET_NAMESPACE}]);
    match path {
        "manifest" => vec![
            json!(manifest("one", "changed")),
            json!(document("a", "one")),
            json!(manifest("one", "one") + &document("c", "one")),
        ],
        "targets" => {
            vec![namespaced("berlin"), json!([{"clusterSelector": {}, "namespace": "elsewhere"}])]
        }
        "excludeClusters" => vec![json!(["tokyo"]), json!(["nowhere"])],
        "reconcile.interval" => vec![json!("1s"), json!("1h")],
        "reconcile.timeout" | "reconcile.retryInterval" => vec![json!("1m")],
        "manifests" => vec![json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inline"}, "data": {"key": "one"},
        }])],
        "healthCheckExprs" => {
            vec![json!([{"apiVersion": "apps/v1", "kind": "Deployment", "current": "has(metadata.name)"}])]
        }
        "statusFeedback" => {
            let values = json!([{"name": "version", "expression": "metadata.generation"}]);
            vec![json!([{"apiVersion": "v1", "kind": "ConfigMap", "values": values}])]
        }
        "readiness.maxUnreachable" => vec![json!(1), json!("50%")],
        "manifestsFrom" => vec![json!([{"configMapRef": {"name": "missing"}}])],
        "conflicts.takeFrom" => vec![json!([{"manager": "terraform", "operation": "Apply"}])],
        "drift.ignore" => {
            vec![json!([{"target": {"kind": "ConfigMap"}, "paths": [".data.key", ".metadata.labels"]}])]
        }
        "overrides" => {
            let target = json!({"kind": "ConfigMap", "name": "a"});
            let set = json!([{"path": ".data.key", "expression": "cluster.name"}]);
            vec![
                json!([{"target": target, "mergePatch": {"data": {"more": "one"}}}]),
                json!([{"target": target, "clusterNames": ["berlin"], "set": set}]),
            ]
        }
        _ => Vec::new(),
    }
}

/// What the spec is set to when nothing is changed.
fn base() -> Value {
    resource("shop", &manifest("one", "one"))["spec"].clone()
}

/// Every change that the schema allows.
fn changes() -> Vec<Change> {
    let crds = vidra_api::crds::all().into_iter();
    let crd = crds.map(|crd| serde_json::to_value(crd).unwrap());
    let crd = crd.into_iter().find(|crd| crd["spec"]["names"]["kind"] == "VidraResource").unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut changes = Vec::new();
    of_fields(schema, "", &mut changes);
    changes
}

fn of_fields(schema: &Value, above: &str, changes: &mut Vec<Change>) {
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        let values = match () {
            () if schema["type"] == "boolean" => {
                vec![json!(!schema["default"].as_bool().unwrap_or(false))]
            }
            () if schema["enum"].is_array() => {
                let all = schema["enum"].as_array().into_iter().flatten();
                all.filter(|one| **one != schema["default"] && !one.is_null()).cloned().collect()
            }
            () => others(&path),
        };
        if values.is_empty() && schema["properties"].is_object() {
            of_fields(schema, &path, changes);
            continue;
        }
        assert!(!values.is_empty(), "spec.{path} has no other value here: add some to `others`");
        let was = path.split('.').fold(base(), |value, name| value[name].clone());
        changes.extend(values.into_iter().map(|value| Change {
            path: path.clone(),
            there: at(&path, value),
            back: at(&path, was.clone()),
        }));
    }
}

/// A patch with this value at a path.
fn at(path: &str, value: Value) -> Value {
    path.rsplit('.').fold(value, |value, name| Value::Object(Map::from_iter([(name.to_owned(), value)])))
}

/// All that is there, but for what the user wrote, where an empty struct may be left, and for the revisions
/// that are kept of what was declared before.
fn kept(world: &World) -> State {
    let mut state = world.state();
    state.retain(|key, object| !key.starts_with("hub/secrets/") || object["type"] != "vidra.dev/revision");
    // Made by the way, and never deleted.
    state.retain(|key, _| !key.ends_with("/namespaces//elsewhere"));
    for object in state.values_mut().filter(|object| object["kind"] == "VidraResource") {
        object["spec"] = Value::Null;
    }
    state
}

async fn apply(world: &World, spec: &Value) {
    world.patch("hub", &shop(), json!({"spec": spec})).await;
    world.settle().await;
}

fn there_and_back(seed: u64, steps: &[&Change]) {
    run(seed, || async {
        let world = World::new(Shape::new(seed)).await;
        world.create("hub", &hub_path("vidraresources"), resource("shop", &manifest("one", "one"))).await;
        world.start_hub();
        world
            .until("it is delivered", Duration::from_secs(90), || crate::scenarios::ready(&world, "shop"))
            .await;
        world.settle().await;
        let before = kept(&world);
        for step in steps {
            apply(&world, &step.there).await;
        }
        for step in steps.iter().rev() {
            apply(&world, &step.back).await;
        }
        // What waits for a retry has had it.
        world
            .until("all is well", Duration::from_secs(330), || crate::scenarios::ready(&world, "shop"))
            .await;
        world.settle().await;
        let paths: Vec<_> = steps.iter().map(|step| (&step.path, &step.there)).collect();
        let differences = state::differences(&before, &kept(&world));
        assert!(differences.is_empty(), "after {paths:?} and back:\n{differences}");
        world.end_hub().await;
        assert_eq!(world.observer.breaches(), [""; 0], "{paths:?}");
    });
}

#[test]
fn every_field_set_and_set_back_leaves_everything_as_it_was() {
    let changes = changes();
    assert!(changes.len() > 10, "{changes:?}");
    for (seed, change) in (100..).zip(&changes) {
        there_and_back(seed, &[change]);
    }
}

#[test]
fn two_fields_set_and_set_back_leave_everything_as_it_was() {
    let changes = changes();
    let mut chance = fastrand::Rng::with_seed(7);
    for seed in 300..340 {
        let (one, other) = (&changes[chance.usize(..changes.len())], &changes[chance.usize(..changes.len())]);
        // Of one field only one value at a time; and what was let go is not the hub's when the cluster comes back.
        let parting = ["deletionPolicy", "targets", "excludeClusters"];
        let lets_go = [one, other].iter().any(|change| change.path == parting[0])
            && [one, other].iter().any(|change| parting[1..].contains(&&*change.path));
        if one.path != other.path && !lets_go {
            there_and_back(seed, &[one, other]);
        }
    }
}

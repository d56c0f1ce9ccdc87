//! Which changes of a live object move its hash, and what they are called.

use serde_json::{Value, json};

use super::objects::*;
use crate::fields::{differing, has_empties, values_hash};

const POD: &str = "/spec/template/spec";

enum Change {
    Put(&'static str, Value),
    Cut(&'static str),
    Swap(&'static str),
}

fn apply(live: &Value, change: &Change) -> Value {
    let mut live = live.clone();
    match change {
        Change::Put(pointer, value) => put(&mut live, &pointer.replace("POD", POD), value.clone()),
        Change::Cut(pointer) => cut(&mut live, &pointer.replace("POD", POD)),
        Change::Swap(pointer) => {
            live.pointer_mut(&pointer.replace("POD", POD)).unwrap().as_array_mut().unwrap().swap(0, 1);
        }
    }
    live
}

/// Each change of the object, and the paths that differ after it; none: no drift.
fn check(case: Case, changes: Vec<(Change, &[&str])>) {
    let set = case.set();
    let declared = Some(&case.declared);
    let before = values_hash(&case.live, &set, declared);
    for (i, (change, paths)) in changes.into_iter().enumerate() {
        let after = apply(&case.live, &change);
        assert_ne!(after, case.live, "change {i} does nothing");
        let found: Vec<String> =
            differing(&case.live, &after, &set, declared).iter().map(ToString::to_string).collect();
        assert_eq!(found, paths, "change {i}");
        assert_eq!(values_hash(&after, &set, declared) == before, paths.is_empty(), "change {i}");
    }
}

use Change::{Cut, Put, Swap};

#[test]
fn a_deployment_drifts_where_its_values_are_ours() {
    check(
        deployment(),
        vec![
            (
                Put("POD/containers/0/image", json!("evil:1")),
                &[r#".spec.template.spec.containers[name="app"].image"#],
            ),
            (
                Put("POD/containers/0/args", json!(["serve", "-v"])),
                &[r#".spec.template.spec.containers[name="app"].args"#],
            ),
            (
                Put("POD/containers/0/env/0/value", json!("9")),
                &[r#".spec.template.spec.containers[name="app"].env[name="Y"].value"#],
            ),
            (Swap("POD/containers/0/env"), &[r#".spec.template.spec.containers[name="app"].env"#]),
            (Cut("POD/containers/0/env/1"), &[r#".spec.template.spec.containers[name="app"].env[name="X"]"#]),
            (Cut("POD/containers/0"), &[r#".spec.template.spec.containers[name="app"]"#]),
            (
                Cut("POD/containers/0/ports"),
                &[r#".spec.template.spec.containers[name="app"].ports[containerPort=80,protocol="TCP"]"#],
            ),
            (Put("POD/nodeSelector/zone", json!("z")), &[".spec.template.spec.nodeSelector"]),
            (Cut("POD/nodeSelector"), &[".spec.template.spec.nodeSelector"]),
            (Cut("POD/volumes/0"), &[r#".spec.template.spec.volumes[name="tmp"]"#]),
            (Cut("/metadata/labels/app"), &[".metadata.labels.app"]),
            (Cut("/metadata/labels/owner.vidra.dev~1abc"), &[".metadata.labels.owner.vidra.dev/abc"]),
            (Put("/metadata/annotations/team", json!("b")), &[".metadata.annotations.team"]),
            (
                Put("/spec", Value::Null),
                &[
                    ".spec.selector",
                    ".spec.template.metadata.labels.app",
                    r#".spec.template.spec.containers[name="app"]"#,
                    ".spec.template.spec.nodeSelector",
                    r#".spec.template.spec.volumes[name="tmp"]"#,
                ],
            ),
        ],
    );
}

#[test]
fn a_deployment_does_not_drift_by_what_is_not_ours() {
    let sidecar = json!({"name": "proxy", "image": "proxy:1"});
    check(
        deployment(),
        vec![
            (Put("/spec/replicas", json!(5)), &[]),
            (Put("/status", json!({"replicas": 5, "readyReplicas": 4})), &[]),
            (Put("POD/containers/-", sidecar.clone()), &[]),
            (
                Put("POD/containers", {
                    let live = deployment().live;
                    let app = live.pointer("/spec/template/spec/containers/0").unwrap();
                    json!([sidecar, app])
                }),
                &[],
            ),
            (Put("POD/containers/0/ports/-", json!({"containerPort": 80, "protocol": "UDP"})), &[]),
            (Put("POD/containers/0/env/-", json!({"name": "Z", "value": "3"})), &[]),
            (Put("POD/volumes/-", json!({"name": "more", "emptyDir": {}})), &[]),
            (Put("POD/tolerations", json!([{"operator": "Exists"}])), &[]),
            (Put("/metadata/annotations/deployment.kubernetes.io~1revision", json!("2")), &[]),
            (Put("/metadata/annotations/owner.vidra.dev~1abc", json!("forged")), &[]),
            (Cut("/metadata/annotations/owner.vidra.dev~1abc"), &[]),
            (Put("/metadata/resourceVersion", json!("8")), &[]),
            // Declared as {}: content under it is not ours.
            (Put("POD/volumes/0/emptyDir", json!({"medium": "Memory"})), &[]),
            (Put("POD/containers/0/resources", json!({"limits": {"cpu": "1"}})), &[]),
        ],
    );
}

#[test]
fn without_what_is_declared_an_empty_leaf_counts_whole() {
    let case = deployment();
    let set = case.set();
    let after = apply(&case.live, &Put("POD/volumes/0/emptyDir", json!({"medium": "Memory"})));
    assert_ne!(values_hash(&case.live, &set, None), values_hash(&after, &set, None));
    assert_eq!(differing(&case.live, &after, &set, None).len(), 1);
}

#[test]
fn a_service_keeps_apart_ports_that_differ_in_protocol_only() {
    check(
        service(),
        vec![
            (
                Put("/spec/ports/0/targetPort", json!(1)),
                &[r#".spec.ports[port=53,protocol="TCP"].targetPort"#],
            ),
            (Put("/spec/ports/1/targetPort", json!(1)), &[]),
            (Put("/spec/ports/1/name", json!("other")), &[r#".spec.ports[port=53,protocol="UDP"].name"#]),
            (Swap("/spec/ports"), &[".spec.ports"]),
            (Cut("/metadata/finalizers/1"), &[r#".metadata.finalizers[="shop/keep"]"#]),
            (Cut("/metadata/finalizers/0"), &[]),
            (Swap("/metadata/finalizers"), &[]),
            (Put("/metadata/finalizers/-", json!("third/one")), &[]),
            (Put("/spec/selector", json!({"app": "evil"})), &[".spec.selector"]),
            (Put("/spec/ports/0/nodePort", json!(30000)), &[]),
        ],
    );
}

#[test]
fn a_config_map_tells_a_missing_key_from_an_empty_one() {
    check(
        config_map(),
        vec![
            (Cut("/data/empty"), &[".data.empty"]),
            (Put("/data/empty", Value::Null), &[".data.empty"]),
            (Put("/data/some.key", json!("w")), &[".data.some.key"]),
            (Put("/data/foreign", json!("x")), &[]),
            (Cut("/data"), &[".data.empty", ".data.some.key"]),
            (Put("/metadata/annotations", json!({"foreign": "x"})), &[]),
        ],
    );
}

#[test]
fn stamps_are_left_out_even_where_annotations_are_owned_whole() {
    let case = config_map();
    let set = case.set();
    let annotated = |annotations| apply(&case.live, &Put("/metadata/annotations", annotations));
    let stamped = annotated(json!({"owner.vidra.dev/abc": "a 1 b"}));
    let restamped = annotated(json!({"owner.vidra.dev/abc": "a 2 c", "owner.vidra.dev/def": "x"}));
    let foreign = annotated(json!({"owner.vidra.dev/abc": "a 1 b", "foreign": "x"}));
    assert_eq!(values_hash(&stamped, &set, None), values_hash(&restamped, &set, None));
    assert_ne!(values_hash(&stamped, &set, None), values_hash(&foreign, &set, None));
}

#[test]
fn a_secret_drifts_with_its_data() {
    check(
        secret(),
        vec![
            (Put("/data/password", json!("b3RoZXI=")), &[".data.password"]),
            (Put("/data/more", json!("b3RoZXI=")), &[]),
        ],
    );
}

#[test]
fn the_rules_of_a_cluster_role_are_one_value() {
    check(
        cluster_role(),
        vec![
            (Put("/rules/0/verbs/-", json!("*")), &[".rules"]),
            (Put("/rules/-", json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})), &[".rules"]),
            (Swap("/rules"), &[".rules"]),
            (Put("/rules", json!([])), &[".rules"]),
            (Put("/aggregationRule", json!({})), &[]),
        ],
    );
}

#[test]
fn an_empty_inside_a_value_owned_whole_is_not_left_out() {
    let live = json!({"spec": {"from": [{"podSelector": {}}]}});
    let set = crate::fields::FieldSet::from_fields_v1(&json!({"f:spec": {"f:from": {}}})).unwrap();
    let narrowed = json!({"spec": {"from": [{"podSelector": {"matchLabels": {"a": "b"}}}]}});
    assert_eq!(differing(&live, &narrowed, &set, Some(&live)).len(), 1);
    assert_ne!(values_hash(&live, &set, Some(&live)), values_hash(&narrowed, &set, Some(&live)));
}

#[test]
fn of_a_self_marker_presence_counts_and_nothing_else() {
    let set = crate::fields::FieldSet::from_fields_v1(&json!({"f:a": {".": {}, "f:b": {}}})).unwrap();
    let hash = |live: Value| values_hash(&live, &set, None);
    assert_eq!(hash(json!({"a": {}})), hash(json!({"a": {"foreign": 1}})));
    assert_ne!(hash(json!({"a": {}})), hash(json!({})));
    assert_ne!(hash(json!({"a": null})), hash(json!({})));
}

#[test]
fn objects_that_differ_in_a_small_way_have_different_hashes() {
    let fields = json!({
        "f:a": {}, "f:b": {},
        "f:set": {r#"v:"x""#: {}, r#"v:"y""#: {}},
        "f:list": {r#"k:{"id":1}"#: {"f:v": {}}, r#"k:{"id":2}"#: {"f:v": {}}},
    });
    let set = crate::fields::FieldSet::from_fields_v1(&fields).unwrap();
    let objects = [
        json!({}),
        json!({"a": 1}),
        json!({"b": 1}),
        json!({"a": "1"}),
        json!({"a": 1.5}),
        json!({"a": true}),
        json!({"a": null}),
        json!({"a": {}}),
        json!({"a": []}),
        json!({"a": ""}),
        json!({"a": ["p\u{15}q", "r"]}),
        json!({"a": ["p", "q\u{15}r"]}),
        json!({"a": {"p": {"q": 1}}}),
        json!({"a": {"p": {}, "q": 1}}),
        json!({"set": ["x"]}),
        json!({"set": ["y"]}),
        json!({"set": ["x", "y"]}),
        json!({"set": ["y", "x"]}),
        json!({"list": [{"id": 1, "v": 1}]}),
        json!({"list": [{"id": 2, "v": 1}]}),
        json!({"list": [{"id": 1}]}),
        json!({"list": [{"id": 1, "v": 1}, {"id": 2, "v": 2}]}),
        json!({"list": [{"id": 2, "v": 2}, {"id": 1, "v": 1}]}),
        json!({"list": [{"id": 2, "v": 1}, {"id": 1, "v": 2}]}),
    ];
    for (i, a) in objects.iter().enumerate() {
        for b in objects.iter().skip(i + 1) {
            assert_ne!(values_hash(a, &set, None), values_hash(b, &set, None), "{a} and {b}");
            assert!(!differing(a, b, &set, None).is_empty(), "{a} and {b}");
        }
    }
}

#[test]
fn a_live_item_that_lacks_a_defaulted_key_is_still_ours() {
    let fields = json!({"f:ports": {r#"k:{"port":80,"protocol":"TCP"}"#: {".": {}, "f:name": {}}}});
    let set = crate::fields::FieldSet::from_fields_v1(&fields).unwrap();
    let (a, b) =
        (json!({"ports": [{"port": 80, "name": "a"}]}), json!({"ports": [{"port": 80, "name": "b"}]}));
    assert_ne!(values_hash(&a, &set, None), values_hash(&b, &set, None));
    assert_eq!(differing(&a, &b, &set, None).len(), 1);
}

#[test]
fn declared_empties_are_found_in_items_declared_in_another_order() {
    let fields = json!({"f:list": {r#"k:{"id":1}"#: {"f:v": {}}, r#"k:{"id":2}"#: {"f:v": {}}}});
    let set = crate::fields::FieldSet::from_fields_v1(&fields).unwrap();
    let declared = json!({"list": [{"id": 2, "v": {}}, {"id": 1, "v": 1}]});
    let live = |one: Value, two: Value| json!({"list": [{"id": 1, "v": one}, {"id": 2, "v": two}]});
    let hash = |live: Value| values_hash(&live, &set, Some(&declared));
    assert_eq!(hash(live(json!(1), json!({}))), hash(live(json!(1), json!({"foreign": 1}))));
    assert_ne!(hash(live(json!(1), json!({}))), hash(live(json!(2), json!({}))));
}

#[test]
fn an_empty_set_owns_nothing() {
    let set = crate::fields::FieldSet::from_fields_v1(&json!({})).unwrap();
    let (a, b) = (json!({"a": 1}), json!({"b": 2}));
    assert_eq!(values_hash(&a, &set, None), values_hash(&b, &set, None));
    assert!(differing(&a, &b, &set, None).is_empty());
}

#[test]
fn empties_are_found_at_any_depth() {
    for (declared, empty) in [
        (json!({"a": {"b": 1}}), false),
        (json!({"a": [1, "", false, 0]}), false),
        (json!({"a": {"b": null}}), true),
        (json!({"a": [{"b": {}}]}), true),
        (json!({"a": [[]]}), true),
        (json!({"a": {}}), true),
    ] {
        assert_eq!(has_empties(&declared), empty, "{declared}");
    }
    let found: Vec<&str> =
        all().iter().filter(|(_, case)| has_empties(&case.declared)).map(|(kind, _)| *kind).collect();
    assert_eq!(found, ["Deployment", "ConfigMap"]);
}

//! What is declared along an entry: whole, after somebody took a part, and with declared empties filled.

use serde_json::{Value, json};

use super::objects::*;
use crate::fields::{FieldSet, missing_leaves, taken_empties};

const FIELDS: &str = "/metadata/managedFields/0/fieldsV1";

fn missing(case: &Case) -> Vec<String> {
    missing_leaves(&case.declared, &case.set()).iter().map(ToString::to_string).collect()
}

#[test]
fn every_declared_leaf_is_owned_after_an_apply() {
    for (kind, case) in all() {
        assert_eq!(missing(&case), Vec::<String>::new(), "{kind}");
    }
}

#[test]
fn guards_and_server_fields_in_the_body_are_never_missing() {
    let mut case = service();
    for (field, value) in [("uid", "u"), ("resourceVersion", "1"), ("generateName", "x")] {
        put(&mut case.declared, &format!("/metadata/{field}"), json!(value));
    }
    assert_eq!(missing(&case), Vec::<String>::new());
}

#[test]
fn what_was_taken_from_the_entry_is_named() {
    let containers = "/f:spec/f:template/f:spec/f:containers";
    let app = format!(r#"{containers}/k:{{"name":"app"}}"#);
    type Row = (fn() -> Case, String, &'static [&'static str]);
    let cases: Vec<Row> = vec![
        (deployment, "/f:metadata/f:labels/f:app".into(), &[".metadata.labels.app"]),
        (deployment, "/f:metadata/f:annotations/f:owner.vidra.dev~1abc".into(), &[]),
        (deployment, format!("{app}/f:image"), &[r#".spec.template.spec.containers[name="app"].image"#]),
        (deployment, format!("{app}/f:args"), &[r#".spec.template.spec.containers[name="app"].args"#]),
        (deployment, format!("{app}/f:resources"), &[]),
        (deployment, format!("{app}/f:ports"), &[r#".spec.template.spec.containers[name="app"].ports"#]),
        (
            deployment,
            format!(r#"{app}/f:env/k:{{"name":"X"}}"#),
            &[r#".spec.template.spec.containers[name="app"].env[name="X"]"#],
        ),
        (deployment, containers.into(), &[".spec.template.spec.containers"]),
        (
            deployment,
            "/f:spec/f:template/f:spec/f:nodeSelector".into(),
            &[".spec.template.spec.nodeSelector.disk"],
        ),
        // The UDP port is another item: it must not stand in for the one that was taken.
        (service, r#"/f:spec/f:ports/k:{"port":53,"protocol":"TCP"}"#.into(), &[".spec.ports[port=53]"]),
        (
            service,
            r#"/f:spec/f:ports/k:{"port":53,"protocol":"TCP"}/f:targetPort"#.into(),
            &[r#".spec.ports[port=53,protocol="TCP"].targetPort"#],
        ),
        (service, "/f:metadata/f:finalizers".into(), &[".metadata.finalizers"]),
        (secret, "/f:data".into(), &[".data.password"]),
        (config_map, "/f:data/f:empty".into(), &[".data.empty"]),
        (config_map, "/f:metadata/f:annotations".into(), &[]),
        (cluster_role, "/f:rules".into(), &[".rules"]),
    ];
    for (case, pointer, expected) in cases {
        let mut case = case();
        cut(&mut case.live, &format!("{FIELDS}{pointer}"));
        assert_eq!(missing(&case), expected, "{pointer}");
    }
}

#[test]
fn a_member_of_a_set_that_was_taken_is_named_by_its_value() {
    let set = FieldSet::from_fields_v1(&json!({"f:metadata": {"f:finalizers": {r#"v:"b""#: {}}}})).unwrap();
    let paths = missing_leaves(&json!({"metadata": {"finalizers": ["a", "b"]}}), &set);
    assert_eq!(paths.iter().map(ToString::to_string).collect::<Vec<_>>(), [r#".metadata.finalizers[="a"]"#]);
}

#[test]
fn labels_owned_whole_have_lost_what_was_in_them() {
    let set = FieldSet::from_fields_v1(&json!({"f:metadata": {"f:labels": {".": {}}}})).unwrap();
    let paths = missing_leaves(&json!({"metadata": {"labels": {"app": "x"}}}), &set);
    assert_eq!(paths.len(), 1);
}

#[test]
fn with_an_empty_entry_everything_declared_is_missing() {
    let set = FieldSet::from_fields_v1(&json!({})).unwrap();
    assert_eq!(missing_leaves(&secret().declared, &set).len(), 3);
}

fn policy(live_spec: Value, ours_fields: Value, theirs: Value) -> Value {
    let mut entries = ours(ours_fields);
    entries.as_array_mut().unwrap().push(
        json!({"manager": "kubectl-edit", "operation": "Update", "time": "2026-01-02T03:04:06Z", "fieldsV1": theirs}),
    );
    json!({"metadata": {"managedFields": entries}, "spec": live_spec})
}

#[test]
fn an_atomic_empty_that_was_filled_is_taken_and_a_granular_one_is_not() {
    let declared = json!({"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}});
    let filled = json!({"podSelector": {"matchLabels": {"a": "b"}}, "policyTypes": ["Ingress"]});
    let still = json!({"f:spec": {"f:podSelector": {}, "f:policyTypes": {}}});
    let lost = json!({"f:spec": {"f:policyTypes": {}}});
    let whole = json!({"f:spec": {"f:podSelector": {}}});
    let part = json!({"f:spec": {"f:podSelector": {".": {}, "f:matchLabels": {}}}});
    for (what, live, taken) in [
        ("narrowed", policy(filled.clone(), lost.clone(), whole.clone()), true),
        ("granular", policy(filled.clone(), lost.clone(), part), false),
        ("co-owned and filled with defaults", policy(filled.clone(), still, whole.clone()), false),
        ("nobody's: defaults", policy(filled, lost.clone(), json!({})), false),
        ("still empty", policy(declared["spec"].clone(), lost, whole), false),
    ] {
        let paths = taken_empties(&live, &declared, OURS);
        assert_eq!(!paths.is_empty(), taken, "{what}");
        assert!(paths.iter().all(|p| p.to_string() == ".spec.podSelector"));
    }
}

#[test]
fn taken_empties_are_found_inside_list_items() {
    let declared = json!({"spec": {"volumes": [{"name": "a", "x": {}}, {"name": "tmp", "x": {}}]}});
    let live = policy(
        json!({"volumes": [{"name": "tmp", "x": {"y": 1}}, {"name": "a", "x": {}}]}),
        json!({"f:spec": {"f:volumes": {r#"k:{"name":"tmp"}"#: {".": {}, "f:name": {}}}}}),
        json!({"f:spec": {"f:volumes": {r#"k:{"name":"tmp"}"#: {"f:x": {}}}}}),
    );
    let paths = taken_empties(&live, &declared, OURS);
    assert_eq!(paths.iter().map(ToString::to_string).collect::<Vec<_>>(), [r#".spec.volumes[name="tmp"].x"#]);
}

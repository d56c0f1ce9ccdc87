//! Reading managedFields: our entry, other hubs, and who holds a path.

use serde_json::json;

use super::objects::*;
use crate::fields::{FieldSet, Path, holders, other_vidra_managers, own_apply_entry, owns_label};

fn live() -> serde_json::Value {
    json!({"metadata": {"managedFields": [
        {"manager": OURS, "operation": "Update", "fieldsV1": {"f:wrong": {}}},
        {"manager": OURS, "operation": "Apply", "subresource": "status", "fieldsV1": {"f:wrong": {}}},
        {"manager": OURS, "operation": "Apply", "time": "2026-01-01T00:00:00Z",
            "fieldsV1": {"f:spec": {"f:paused": {}}, "f:metadata": {"f:labels": {"f:owner.vidra.dev/abc": {}}}}},
        {"manager": "vidra/h2/b/c", "operation": "Apply", "fieldsV1": {"f:spec": {"f:paused": {}}}},
        {"manager": "vidra/h2/b/d", "operation": "Update", "fieldsV1": {}},
        {"manager": "hpa", "operation": "Update", "subresource": "scale", "time": "2026-01-02T00:00:00Z",
            "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        {"manager": "kubectl-edit", "operation": "Update",
            "fieldsV1": {"f:spec": {"f:nodeSelector": {}, "f:containers": {r#"k:{"name":"app"}"#: {"f:image": {}}}}}},
        {"manager": "broken", "operation": "Update", "fieldsV1": {"f:spec": {"k:{": {}}}},
    ]}})
}

#[test]
fn our_entry_is_the_one_applied_to_the_object_itself() {
    let live = live();
    assert!(own_apply_entry(&live, OURS).unwrap().get("f:spec").is_some());
    assert_eq!(own_apply_entry(&live, "kubectl-edit"), None);
    assert_eq!(own_apply_entry(&json!({"metadata": {"managedFields": [{}]}}), OURS), None);
    assert_eq!(own_apply_entry(&json!({}), OURS), None);
}

#[test]
fn other_hubs_count_when_they_applied() {
    assert_eq!(other_vidra_managers(&live(), OURS), ["vidra/h2/b/c"]);
    assert_eq!(other_vidra_managers(&live(), "vidra/h2/b/c"), [OURS]);
}

#[test]
fn a_label_is_proof_when_the_entry_owns_it() {
    let live = live();
    let set = FieldSet::from_fields_v1(own_apply_entry(&live, OURS).unwrap()).unwrap();
    assert!(owns_label(&set, "owner.vidra.dev/abc"));
    assert!(!owns_label(&set, "owner.vidra.dev/def"));
    let whole = FieldSet::from_fields_v1(&json!({"f:metadata": {"f:labels": {}}})).unwrap();
    assert!(!owns_label(&whole, "owner.vidra.dev/abc"));
}

#[test]
fn holders_bear_what_the_entry_says() {
    let live = live();
    let found = holders(&live, &Path::of_fields(["spec", "replicas"]));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].manager, "hpa");
    assert_eq!(found[0].operation, "Update");
    assert_eq!(found[0].subresource.as_deref(), Some("scale"));
    assert_eq!(found[0].time.as_deref(), Some("2026-01-02T00:00:00Z"));
}

#[test]
fn holders_are_found_at_above_and_below_the_path() {
    let live = live();
    for (path, managers) in [
        (vec!["spec", "paused"], vec![OURS, "vidra/h2/b/c"]),
        (vec!["spec", "nodeSelector", "disk"], vec!["kubectl-edit"]),
        (vec!["spec", "containers"], vec!["kubectl-edit"]),
        (vec!["spec", "template"], vec![]),
    ] {
        let found = holders(&live, &Path::of_fields(path.iter().copied()));
        assert_eq!(found.iter().map(|h| h.manager.as_str()).collect::<Vec<_>>(), managers, "{path:?}");
    }
}

#[test]
fn a_field_that_an_entry_no_longer_owns_is_lost_to_another_entry_that_does() {
    let set = |names: &[&str]| {
        let fields: serde_json::Map<_, _> =
            names.iter().map(|name| (format!("f:{name}"), json!({}))).collect();
        FieldSet::from_fields_v1(&json!({"f:data": fields})).unwrap()
    };
    let (was, now) = (set(&["a", "b"]), set(&["b"]));
    // An entry without names owns data as a whole, and with it what lies there.
    for (others, lost) in
        [(&["a"][..], true), (&["a", "c"], true), (&["b"], false), (&["c"], false), (&[], true)]
    {
        assert_eq!(was.is_lost_to(&now, [set(others)].iter()), lost, "{others:?}");
    }
    assert!(!was.is_lost_to(&now, std::iter::empty::<FieldSet>()), "nobody has it");
    assert!(!was.is_lost_to(&was, [set(&["a"])].iter()), "owned by both");
}

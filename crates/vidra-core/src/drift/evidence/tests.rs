//! Evidence from objects as the API server shows them.

use serde_json::json;

use super::*;
use crate::{drift::Redactions, object::Gvk, render::HashKey};

const US: &str = "vidra/h1/team/shop";
const LABEL: &str = "owner.vidra.dev/0123456789abcdef";

fn entry(manager: &str, operation: &str, fields: Value) -> Value {
    json!({"manager": manager, "operation": operation, "time": "2026-01-02T03:04:05Z", "fieldsV1": fields})
}

fn set(fields: Value) -> FieldSet {
    FieldSet::from_fields_v1(&fields).unwrap()
}

fn our_fields(data: Value) -> Value {
    json!({"f:metadata": {"f:labels": {"f:vidra.dev/hub": {}, format!("f:{LABEL}"): {}},
        "f:annotations": {format!("f:{LABEL}"): {}}}, "f:data": data})
}

fn live(data: Value, entries: Value) -> Value {
    json!({"metadata": {"labels": {"vidra.dev/hub": "h1", LABEL: ""}, "managedFields": entries}, "data": data})
}

struct Case<'a> {
    kind: &'a str,
    live: Value,
    declared: Value,
    set: Option<FieldSet>,
    modified: bool,
    redact: &'a str,
}

fn judge(case: &Case<'_>) -> Evidence {
    let key = ObjectKey::new(&Gvk::new("", "v1", case.kind), "shop", "settings");
    let redactions = Redactions::parse(case.redact).unwrap();
    let salt = HashKey::new([7; 32]);
    let suspect = Suspect {
        key: &key,
        live: &case.live,
        declared: &case.declared,
        manager: US,
        hub: "h1",
        owner_label: LABEL,
        set: case.set.as_ref(),
        modified: case.modified,
        told: None,
    };
    evidence(&suspect, Cover { redactions: &redactions, salt: &salt })
}

/// `data.mode` was declared fast; alice has set it, and something else of hers.
fn edited(kind: &str) -> Case<'_> {
    let theirs = json!({"f:data": {"f:mode": {}, "f:more": {}}});
    Case {
        kind,
        live: live(
            json!({"mode": "slow", "cpu": "1", "more": "x"}),
            json!([entry(US, "Apply", our_fields(json!({"f:cpu": {}}))), entry("alice", "Update", theirs)]),
        ),
        declared: json!({"data": {"mode": "fast", "cpu": "1000m"}}),
        set: Some(set(our_fields(json!({"f:mode": {}, "f:cpu": {}})))),
        modified: true,
        redact: "",
    }
}

#[test]
fn an_edit_is_told_by_its_field_its_values_and_who_holds_it() {
    let found = judge(&edited("ConfigMap"));
    assert_eq!(found.change, ChangeKind::Modified);
    let not_after = serde_json::from_value(json!("2026-01-02T03:04:05Z")).unwrap();
    let field = ChangedField {
        path: ".data.mode".into(),
        expected: Some("\"fast\"".into()),
        actual: Some("\"slow\"".into()),
        manager: "alice".into(),
        operation: "Update".into(),
        not_after: Some(not_after),
    };
    assert_eq!(found.fields, [field], "what is spelt otherwise and still ours is no change");
}

#[test]
fn no_value_of_a_secret_or_of_a_field_to_redact_is_told() {
    let mut redacted = edited("ConfigMap");
    redacted.redact = "ConfigMap .data";
    for case in [edited("Secret"), redacted] {
        let found = judge(&case);
        let [field] = &found.fields[..] else { panic!("{found:?}") };
        let (expected, actual) = (field.expected.as_deref().unwrap(), field.actual.as_deref().unwrap());
        assert!(expected.starts_with("hmac:") && actual.starts_with("hmac:") && expected != actual);
        assert!(!format!("{found:?}").contains("slow") && !format!("{found:?}").contains("fast"));
        assert_eq!((&*field.path, &*field.manager), (".data.mode", "alice"));
    }
}

#[test]
fn what_was_removed_is_told_once_and_names_nobody() {
    let containers =
        |names: &[&str]| names.iter().map(|n| json!({"name": n, "image": "i"})).collect::<Vec<_>>();
    let item = json!({".": {}, "f:name": {}, "f:image": {}});
    let ours = |items: &[&str]| {
        let items: serde_json::Map<_, _> =
            items.iter().map(|name| (format!("k:{{\"name\":\"{name}\"}}"), item.clone())).collect();
        json!({"f:spec": {"f:containers": items}})
    };
    let entries = json!([entry(US, "Apply", ours(&["a"]))]);
    let found = judge(&Case {
        kind: "Pod",
        live: json!({"metadata": {"managedFields": entries}, "spec": {"containers": containers(&["a"])}}),
        declared: json!({"spec": {"containers": containers(&["a", "b"])}}),
        set: Some(set(ours(&["a", "b"]))),
        modified: true,
        redact: "",
    });
    let [field] = &found.fields[..] else { panic!("{found:?}") };
    assert_eq!((&*field.path, &*field.manager), (".spec.containers[name=\"b\"]", UNKNOWN));
    assert_eq!(
        (field.actual.as_deref(), field.expected.as_deref()),
        (None, Some(r#"{"image":"i","name":"b"}"#))
    );
}

#[test]
fn another_order_of_a_list_is_told_by_the_list() {
    let ports = |all: [u16; 2]| json!({"spec": {"ports": all.map(|port| json!({"port": port}))}});
    let item = json!({".": {}, "f:port": {}});
    let ours = json!({"f:spec": {"f:ports": {"k:{\"port\":1}": item, "k:{\"port\":2}": item}}});
    let mut live = ports([2, 1]);
    live["metadata"] = json!({"managedFields": [entry(US, "Apply", ours.clone())]});
    let set = Some(set(ours));
    let found =
        judge(&Case { kind: "Service", live, declared: ports([1, 2]), set, modified: true, redact: "" });
    let [field] = &found.fields[..] else { panic!("{found:?}") };
    assert_eq!((&*field.path, &*field.manager, found.change), (".spec.ports", UNKNOWN, ChangeKind::Modified));
}

#[test]
fn equal_values_without_our_label_or_our_entry_are_lost_ownership() {
    let data = json!({"mode": "fast"});
    let all = our_fields(json!({"f:mode": {}}));
    let declared = json!({"data": data});
    // managedFields were reset.
    let reset = Case {
        kind: "ConfigMap",
        live: live(data.clone(), json!([{}])),
        declared: declared.clone(),
        set: Some(set(all.clone())),
        modified: false,
        redact: "",
    };
    let found = judge(&reset);
    assert_eq!(
        (found.change, &*found.fields[0].path),
        (ChangeKind::OwnershipLost, ".metadata.managedFields")
    );
    assert_eq!(judge(&Case { set: None, ..reset }), found, "after a restart too");
    // The owner's label was taken off.
    let mut without = live(data, json!([]));
    without["metadata"]["labels"] = json!({"vidra.dev/hub": "h1"});
    let ours = json!({"f:metadata": {"f:labels": {"f:vidra.dev/hub": {}}}, "f:data": {"f:mode": {}}});
    without["metadata"]["managedFields"] = json!([entry(US, "Apply", ours)]);
    for (set, modified) in [(Some(set(all)), true), (None, false)] {
        let live = without.clone();
        let declared = declared.clone();
        let found = judge(&Case { kind: "ConfigMap", live, declared, set, modified, redact: "" });
        assert_eq!(found.change, ChangeKind::OwnershipLost, "{found:?}");
        let [field] = &found.fields[..] else { panic!("{found:?}") };
        assert_eq!(
            (&*field.path, field.expected.as_deref()),
            (&*format!(".metadata.labels.{LABEL}"), Some("\"\""))
        );
    }
}

#[test]
fn evidence_is_bounded_whatever_a_member_sends() {
    let names: Vec<String> = (0..500).map(|n| format!("k{n:03}{}", "x".repeat(400))).collect();
    let of = |value: &str| {
        names.iter().map(|n| (n.clone(), Value::from(value.repeat(500)))).collect::<serde_json::Map<_, _>>()
    };
    let ours: serde_json::Map<_, _> = names.iter().map(|n| (format!("f:{n}"), json!({}))).collect();
    let mut theirs = entry(&"m\u{1b}".repeat(400), "Update", json!({"f:data": ours}));
    theirs["subresource"] = "s".repeat(400).into();
    let found = judge(&Case {
        kind: "ConfigMap",
        live: live(Value::Object(of("b")), json!([theirs])),
        declared: json!({"data": of("a")}),
        set: Some(set(our_fields(Value::Object(ours)))),
        modified: true,
        redact: "",
    });
    assert_eq!(found.fields.len(), FIELDS_MAX);
    for field in &found.fields {
        let texts =
            [&field.path, &field.manager, field.expected.as_ref().unwrap(), field.actual.as_ref().unwrap()];
        assert!(texts.iter().all(|text| text.len() <= 256 && !text.contains('\u{1b}')), "{field:?}");
        assert!(field.operation.chars().count() <= 63, "{field:?}");
    }
}

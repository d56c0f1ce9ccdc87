//! Overrides that mean harm: within a budget as small as it may be, nothing comes out that was not paid for, that is
//! another object, or that cannot be delivered.

use proptest::{collection::vec, sample::select};

use super::*;

/// Places that are there, that are made on the way, and that are none.
const PLACES: &[&str] = &[
    "",
    "/",
    "/kind",
    "/metadata",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/labels",
    "/metadata/labels/a",
    "/data",
    "/data/key",
    "/data/a",
    "/data/a/a",
    "/data/a/-",
    "/data/a/0",
    "/data/a/1",
    "/spec/template/spec/containers",
    "/spec/template/spec/containers/0",
    "/spec/template/spec/containers/-",
    "/spec/template/spec/containers/01",
    "/spec/template/spec/containers/4294967296",
    "/data/a~1b~0",
    "/status",
];
const PATHS: &[&str] = &[
    ".kind",
    ".data",
    ".data.a",
    ".data.a.b.c",
    ".data[\"app.conf\"]",
    ".data.a[0]",
    ".metadata.labels.x.y/z",
    ".spec.template.spec.containers[name=\"app\"].image",
    ".spec.template.spec.containers[1]",
    ".metadata.annotations",
    ".spec.template.spec.containers[=\"app\"]",
];
const EXPRESSIONS: &[&str] = &["cluster.name", "['a', {'b': [1, 2]}]", "null"];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = select(vec![
        json!(null),
        json!(1),
        json!(""),
        json!([]),
        json!({}),
        json!("x".repeat(500)),
        json!("ConfigMap"),
    ]);
    leaf.prop_recursive(3, 12, 4, |below| {
        let fields = prop::collection::btree_map(
            select(vec!["a", "kind", "metadata", "name", "data"]),
            below.clone(),
            0..4,
        );
        prop_oneof![
            vec(below, 0..4).prop_map(Value::from),
            fields
                .prop_map(|fields| fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

fn any_operation() -> impl Strategy<Value = Value> {
    (
        select(vec!["add", "remove", "replace", "move", "copy", "copy", "test"]),
        select(PLACES),
        select(PLACES),
        any_value(),
    )
        .prop_map(|(op, path, from, value)| match op {
            "move" | "copy" => json!({"op": op, "path": path, "from": from}),
            "remove" => json!({"op": op, "path": path}),
            _ => json!({"op": op, "path": path, "value": value}),
        })
}

fn harmful() -> impl Strategy<Value = Value> {
    let field = (select(PATHS), select(EXPRESSIONS))
        .prop_map(|(path, expression)| json!({"path": path, "expression": expression}));
    prop_oneof![
        3 => vec(any_operation(), 0..4).prop_map(|all| json!({"target": {}, "jsonPatch": all})),
        2 => any_value().prop_map(|patch| json!({"target": {}, "mergePatch": patch})),
        1 => vec(field, 0..3).prop_map(|all| json!({"target": {}, "set": all})),
    ]
}

proptest! {
    #[test]
    fn what_comes_out_was_paid_for_is_the_same_object_and_can_be_delivered(
        declared in vec(harmful(), 1..4),
        memory in 0..30_000usize,
        work in 0..100_000usize,
    ) {
        let declared: Vec<Override> = serde_json::from_value(Value::Array(declared)).unwrap();
        let Ok(overrides) = Overrides::compile(&declared) else { return Ok(()) };
        let none = BTreeMap::new();
        let inputs = overrides.inputs(&Cluster { name: "berlin", labels: &none, values: &none });
        let effective = overrides.effective("berlin", inputs.as_ref());
        let budget = Budget { memory: Room::new(memory), work: Room::new(work) };
        let mut held = 0;
        for object in manifest::parse(MANIFEST).unwrap() {
            let key = ObjectKey::new(&object.gvk, object.namespace.as_deref().unwrap_or_default(), &object.name);
            let mut value = object.value.clone();
            let Ok(true) = overrides.apply(&effective, "berlin", &object.gvk, &key, &mut value, &budget) else { continue };
            held += weight::of(&value);
            prop_assert!(held <= memory && held <= work, "{} of {} and {}", held, memory, work);
            prop_assert!(patch::is_in_bounds(&value));
            let again = manifest::from_value(1, value.clone()).unwrap().remove(0);
            prop_assert_eq!((again.gvk, again.namespace, again.name), (object.gvk, object.namespace, object.name));
            prop_assert_eq!(again.value, value);
        }
    }
}

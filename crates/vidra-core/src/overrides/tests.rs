//! Which objects overrides change, into what, and what is said when they cannot.

mod hostile;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    object::Scope,
    render::{Changes, HashKey, RenderError, Rendered, render, render_with},
};

const MANIFEST: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {key: one, "app.conf": two}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: front, namespace: other}
spec: {replicas: 1, template: {spec: {containers: [{name: app, image: "app:1"}, {name: side, image: side}]}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: other}
"#;

fn overrides(declared: Value) -> Overrides {
    let declared: Vec<Override> = serde_json::from_value(declared).unwrap();
    Overrides::compile(&declared).unwrap()
}

fn invalid(declared: Value) -> String {
    let declared: Vec<Override> = serde_json::from_value(declared).unwrap();
    Overrides::compile(&declared).unwrap_err().to_string()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn scope_of(gvk: &Gvk) -> Option<Scope> {
    Some(if &*gvk.kind == "Namespace" { Scope::Cluster } else { Scope::Namespaced })
}

fn rendered(overrides: &Overrides, name: &str, labels: &[(&str, &str)]) -> Result<Rendered, RenderError> {
    let (labels, values) = (map(labels), map(&[("registry", "r.example")]));
    let inputs = overrides.inputs(&Cluster { name, labels: &labels, values: &values });
    let effective = overrides.effective(name, inputs.as_ref());
    let changes = Changes { overrides, effective: &effective, cluster: name };
    let objects = manifest::parse(MANIFEST).unwrap();
    render_with(&objects, &scope_of, "shop", &HashKey::new([7; 32]), Some(changes))
}

fn plain() -> Rendered {
    render(&manifest::parse(MANIFEST).unwrap(), &scope_of, "shop", &HashKey::new([7; 32])).unwrap()
}

fn body(rendered: &Rendered, kind: &str) -> Value {
    let found = rendered.objects.iter().find(|one| &*one.gvk.kind == kind).unwrap();
    (*found.body).clone()
}

fn changed(declared: Value, name: &str, labels: &[(&str, &str)]) -> Rendered {
    rendered(&overrides(declared), name, labels).unwrap()
}

fn refused(declared: Value) -> String {
    rendered(&overrides(declared), "berlin", &[("region", "eu")]).unwrap_err().to_string()
}

#[test]
fn entries_change_what_they_select_in_their_order() {
    let declared = json!([
        {"clusterNames": ["berlin"], "target": {"kind": "ConfigMap"}, "mergePatch": {"data": {"key": null, "more": "1"}}},
        {"clusterSelector": {"matchLabels": {"region": "eu"}}, "target": {"name": "settings"},
            "jsonPatch": [{"op": "test", "path": "/data/more", "value": "1"}, {"op": "copy", "from": "/data/more", "path": "/data/copied"}]},
        {"target": {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "other", "name": "front"},
            "set": [{"path": ".spec.template.spec.containers[name=\"app\"].image", "expression": "cluster.values.registry + '/app:1'"},
                {"path": ".metadata.labels.example.com/region", "expression": "cluster.labels[?'region'].orValue('none')"}]},
    ]);
    let berlin = changed(declared.clone(), "berlin", &[("region", "eu")]);
    assert_eq!(body(&berlin, "ConfigMap")["data"], json!({"app.conf": "two", "copied": "1", "more": "1"}));
    let deployment = body(&berlin, "Deployment");
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], "r.example/app:1");
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][1]["image"], "side");
    assert_eq!(deployment["metadata"]["labels"], json!({"example.com/region": "eu"}));
    assert_eq!(body(&berlin, "Namespace"), body(&plain(), "Namespace"));

    let tokyo = changed(declared, "tokyo", &[]);
    assert_eq!(body(&tokyo, "ConfigMap"), body(&plain(), "ConfigMap"));
    assert_eq!(body(&tokyo, "Deployment")["metadata"]["labels"], json!({"example.com/region": "none"}));
}

/// So many small ConfigMaps, each changed so for one cluster.
fn bomb(objects: usize, declared: Value) -> String {
    let maps = (0..objects).map(|at| {
        format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: m{at}}}, data: {{key: text of it}}}}\n")
    });
    let objects = manifest::parse(&maps.collect::<Vec<_>>().join("---\n")).unwrap();
    let (overrides, none) = (overrides(declared), BTreeMap::new());
    let berlin = Cluster { name: "berlin", labels: &none, values: &none };
    let inputs = overrides.inputs(&berlin);
    let effective = overrides.effective("berlin", inputs.as_ref());
    let changes = Changes { overrides: &overrides, effective: &effective, cluster: "berlin" };
    let scope_of = |_: &Gvk| Some(Scope::Namespaced);
    render_with(&objects, &scope_of, "shop", &HashKey::new([7; 32]), Some(changes)).unwrap_err().to_string()
}

#[test]
fn what_all_changed_objects_of_a_cluster_take_is_bounded_and_so_is_the_work() {
    // Each copy doubles the object: up to 2 MiB, which one object may have.
    let copies: Vec<_> =
        (0..16).map(|at| json!({"op": "copy", "from": "/data", "path": format!("/data/copy{at}")})).collect();
    let told = bomb(1000, json!([{"target": {}, "jsonPatch": copies}]));
    assert!(told.contains("take more than 192 MiB") && told.contains("cluster berlin"), "{told}");
    assert!(told.contains("change fewer objects, or split the VidraResource"), "{told}");

    // Each entry looks at the whole object.
    let set = json!({"target": {}, "mergePatch": {"data": {"more": "x".repeat(1 << 20)}}});
    let told = bomb(180, Value::from(vec![set; 50]));
    assert!(told.contains("more work than the hub does for one cluster"), "{told}");
}

#[test]
fn only_changed_objects_have_another_hash() {
    let declared = json!([{"target": {"kind": "ConfigMap"}, "mergePatch": {"data": {"key": "new"}}}]);
    let berlin = changed(declared, "berlin", &[]);
    for (one, before) in berlin.objects.iter().zip(&plain().objects) {
        assert_eq!(one.hash == before.hash, &*one.gvk.kind != "ConfigMap", "{}", one.key);
    }
}

#[test]
fn a_target_holds_by_every_field_that_it_gives() {
    let objects = manifest::parse(MANIFEST).unwrap();
    for (target, matches) in [
        (json!({}), true),
        (json!({"group": ""}), true),
        (json!({"group": "batch"}), false),
        (json!({"group": "", "kind": "Deployment"}), false),
        (json!({"version": "v2"}), false),
        (json!({"kind": "ConfigMap", "namespace": "shop"}), true),
        (json!({"kind": "ConfigMap", "namespace": "other"}), false),
        (json!({"kind": "Deployment", "namespace": "other"}), true),
        (json!({"kind": "Deployment", "namespace": "shop"}), false),
        (json!({"name": "settings", "kind": "ConfigMap"}), true),
        (json!({"name": "setting"}), false),
    ] {
        let overrides = overrides(json!([{"target": target, "mergePatch": {}}]));
        let expected: &[usize] = if matches { &[] } else { &[0] };
        assert_eq!(overrides.unmatched(&objects, |namespace| namespace == "shop"), expected, "{target}");
    }
}

#[test]
fn where_objects_may_be_put_is_asked_once_for_an_entry_however_many_there_are() {
    let objects = manifest::parse(MANIFEST).unwrap();
    let many: Vec<_> = std::iter::repeat_n(objects[0].clone(), 10_000).collect();
    let nowhere = json!({"target": {"namespace": "nowhere"}, "mergePatch": {}});
    let nothing = json!({"target": {"kind": "Nope", "name": "nope"}, "mergePatch": {}});
    let overrides = overrides(Value::from([vec![nowhere; 25], vec![nothing; 25]].concat()));
    let asked = std::cell::Cell::new(0);
    let unmatched = overrides.unmatched(&many, |_| {
        asked.set(asked.get() + 1);
        false
    });
    assert_eq!((unmatched.len(), asked.get()), (50, 25));
}

#[test]
fn a_target_holds_what_its_expressions_use_and_nothing_else() {
    let overrides = overrides(json!([
        {"target": {}, "set": [{"path": ".data.a", "expression": "cluster.labels.region"}]},
        {"clusterNames": ["tokyo"], "target": {}, "set": [{"path": ".data.b", "expression": "cluster.labels.zone"}]},
        {"clusterSelector": {"matchLabels": {"env": "prod"}}, "target": {}, "set": [{"path": ".data.c", "expression": "cluster.name + cluster.values.v"}]},
    ]));
    let (labels, values) =
        (map(&[("region", "eu"), ("zone", "a"), ("noise", "x")]), map(&[("v", "1"), ("w", "2")]));
    let inputs = overrides.inputs(&Cluster { name: "berlin", labels: &labels, values: &values }).unwrap();
    assert_eq!(inputs, OverrideInputs { apply: vec![0], labels: map(&[("region", "eu")]), values: map(&[]) });
    // Another cluster with the same inputs shares the objects, unless its name is used.
    let effective = |name: &str, inputs: &OverrideInputs| overrides.effective(name, Some(inputs));
    assert_eq!(effective("berlin", &inputs), effective("paris", &inputs));
    let prod = map(&[("region", "eu"), ("env", "prod")]);
    let inputs = overrides.inputs(&Cluster { name: "berlin", labels: &prod, values: &values }).unwrap();
    assert_eq!((&inputs.apply, &inputs.values), (&vec![0, 2], &map(&[("v", "1")])));
    assert_ne!(effective("berlin", &inputs), effective("paris", &inputs));
    let none = Overrides::compile(&[]).unwrap();
    assert_eq!(none.inputs(&Cluster { name: "berlin", labels: &prod, values: &values }), None);
}

#[test]
fn what_is_wrong_on_every_cluster_is_told_by_its_place() {
    let set = |path: &str, expression: &str| json!([{"target": {}, "set": [{"path": path, "expression": expression}]}]);
    let patch = |operation: Value| json!([{"target": {}, "mergePatch": {}}, {"target": {}, "jsonPatch": [operation]}]);
    for (declared, expected) in [
        (set("data", "1"), "spec.overrides[0].set[0].path: at character 1: a step begins"),
        (set(".data.a", "1 +"), "spec.overrides[0].set[0].expression: this is no expression in CEL"),
        (set(".data.a", "x"), "spec.overrides[0].set[0].expression: there is no variable x"),
        (patch(json!({"op": "add", "path": "/a"})), "spec.overrides[1].jsonPatch[0].value: give value"),
        (
            patch(json!({"op": "add", "path": "a", "value": 1})),
            "spec.overrides[1].jsonPatch[0].path: write a JSON Pointer",
        ),
        (
            patch(json!({"op": "add", "path": "/a~2", "value": 1})),
            "spec.overrides[1].jsonPatch[0].path: write a JSON Pointer",
        ),
        (patch(json!({"op": "move", "path": "/a"})), "spec.overrides[1].jsonPatch[0].from: give from"),
        (json!([{"target": {}}]), "spec.overrides[0]: set exactly one of"),
        (json!([{"target": {}, "set": [], "jsonPatch": []}]), "spec.overrides[0]: set exactly one of"),
        (
            json!([{"clusterNames": [], "clusterSelector": {}, "target": {}, "set": []}]),
            "spec.overrides[0]: set at most one of",
        ),
    ] {
        let error = invalid(declared);
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn an_annotation_that_the_hub_does_not_know_is_found_wherever_it_is_written() {
    let known = json!({"target": {}, "mergePatch": {"metadata": {"annotations": {"vidra.dev/wave": "1"}}}});
    let told = |entry: Value| {
        let all = overrides(json!([known, entry]));
        all.unknown_annotation().map(|invalid| invalid.to_string())
    };
    let add = |path: &str, value: Value| json!({"target": {}, "jsonPatch": [{"op": "add", "path": path, "value": value}]});
    let odd = json!({"vidra.dev/waves": "1"});
    for entry in [
        json!({"target": {}, "mergePatch": {"metadata": {"annotations": odd}}}),
        add("/metadata/annotations/vidra.dev~1waves", json!("1")),
        add("/metadata/annotations", odd.clone()),
        add("/metadata", json!({"annotations": odd})),
        json!({"target": {}, "set": [{"path": ".metadata.annotations[\"vidra.dev/waves\"]", "expression": "'1'"}]}),
        json!({"target": {}, "jsonPatch": [{"op": "copy", "from": "/data/key", "path": "/metadata/annotations/vidra.dev~1waves"}]}),
        json!({"target": {}, "jsonPatch": [{"op": "move", "from": "/data/key", "path": "/metadata/annotations/vidra.dev~1waves"}]}),
    ] {
        let told = told(entry.clone()).unwrap_or_else(|| panic!("{entry}"));
        let words = "spec.overrides[1]: metadata.annotations[\"vidra.dev/waves\"] is no annotation that this version of the hub knows: write vidra.dev/wave,";
        assert!(told.starts_with(words), "{told}");
    }
    for entry in [
        json!({"target": {}, "mergePatch": {"metadata": {"annotations": {"vidra.dev/waves": null}}}}),
        add("/metadata/labels", odd.clone()),
        add("/spec/template/metadata/annotations", odd),
        json!({"target": {}, "set": [{"path": ".metadata.annotations[\"example.com/waves\"]", "expression": "'1'"}]}),
    ] {
        assert_eq!(told(entry.clone()), None, "{entry}");
    }
}

#[test]
fn an_annotation_that_is_not_known_is_found_in_what_overrides_make_of_an_object() {
    let on = |key: &str, value: Value| json!([{"target": {"name": "settings"}, key: value}]);
    let odd = json!({"vidra.dev/waves": "1"});
    for declared in [
        on("set", json!([{"path": ".metadata.annotations", "expression": "{'vidra.dev/' + 'waves': '1'}"}])),
        on(
            "set",
            json!([{"path": ".metadata", "expression": "{'name': 'settings', 'namespace': 'shop', 'annotations': {'vidra.dev/waves': '1'}}"}]),
        ),
        on(
            "jsonPatch",
            json!([{"op": "add", "path": "/odd", "value": odd}, {"op": "copy", "from": "/odd", "path": "/metadata/annotations"}]),
        ),
        on(
            "jsonPatch",
            json!([{"op": "add", "path": "/odd", "value": odd}, {"op": "move", "from": "/odd", "path": "/metadata/annotations"}]),
        ),
    ] {
        let overrides = overrides(declared.clone());
        assert_eq!(overrides.unknown_annotation(), None, "{declared}");
        let unknown = rendered(&overrides, "berlin", &[]).unwrap().unknown;
        assert_eq!(
            unknown.unwrap_or_else(|| panic!("{declared}")).to_string(),
            "spec.overrides: ConfigMap shop/settings on cluster berlin cannot be delivered afterwards: metadata.annotations[\"vidra.dev/waves\"] is no annotation that this version of the hub knows: write vidra.dev/wave, or remove it"
        );
    }
    for declared in [
        on(
            "set",
            json!([{"path": ".metadata.annotations", "expression": "{'vidra.dev/wave': '1', 'a': 'b'}"}]),
        ),
        // Found in the entry: one that is delivered was let in before that was looked at.
        on("mergePatch", json!({"metadata": {"annotations": odd}})),
        // Made, and taken away.
        on(
            "jsonPatch",
            json!([{"op": "add", "path": "/odd", "value": odd}, {"op": "copy", "from": "/odd", "path": "/metadata/annotations"},
                {"op": "remove", "path": "/metadata/annotations"}]),
        ),
    ] {
        assert_eq!(changed(declared.clone(), "berlin", &[]).unknown, None, "{declared}");
    }
}

#[test]
fn what_cannot_be_done_is_told_with_entry_object_and_cluster() {
    let on = |kind: &str, key: &str, value: Value| json!([{"target": {"kind": kind}, key: value}]);
    for (declared, expected) in [
        (
            on(
                "ConfigMap",
                "jsonPatch",
                json!([{"op": "add", "path": "/data/a", "value": "1"}, {"op": "replace", "path": "/spec/replicas", "value": 1}]),
            ),
            "spec.overrides[0].jsonPatch[1]: replace of \"/spec/replicas\" does not apply to ConfigMap shop/settings on cluster berlin: nothing is there to replace; correct path, or use add",
        ),
        (
            on("ConfigMap", "jsonPatch", json!([{"op": "test", "path": "/data/key", "value": "two"}])),
            "spec.overrides[0].jsonPatch[0]: test of \"/data/key\" does not apply to ConfigMap shop/settings on cluster berlin: something else is there",
        ),
        (
            on("ConfigMap", "set", json!([{"path": ".data.gpu", "expression": "cluster.labels.gpu"}])),
            "spec.overrides[0].set[0].expression: on cluster berlin, for ConfigMap shop/settings: cluster.labels has no key \"gpu\"; label MemberCluster berlin, or write",
        ),
        (
            on(
                "Deployment",
                "set",
                json!([{"path": ".spec.template.spec.containers[name=\"ap\"].image", "expression": "'x'"}]),
            ),
            "spec.overrides[0].set[0].path: Deployment.apps other/front on cluster berlin: .spec.template.spec.containers[name=\"ap\"] is not in the list",
        ),
        (
            on("Deployment", "mergePatch", json!({"metadata": {"name": "back"}})),
            "spec.overrides[0]: it changes metadata.name of Deployment.apps other/front",
        ),
        (
            on("Deployment", "mergePatch", json!({"metadata": {"namespace": null}})),
            "spec.overrides[0]: it changes metadata.namespace",
        ),
        (
            on("Namespace", "mergePatch", json!({"metadata": {"namespace": "x"}})),
            "spec.overrides[0]: it changes metadata.namespace of Namespace other",
        ),
        (
            on("ConfigMap", "mergePatch", json!({"apiVersion": "v2"})),
            "spec.overrides[0]: it changes apiVersion",
        ),
        (
            on("ConfigMap", "jsonPatch", json!([{"op": "replace", "path": "", "value": 1}])),
            "spec.overrides[0]: it changes apiVersion",
        ),
        (
            on("ConfigMap", "mergePatch", json!({"metadata": {"generateName": "x-"}})),
            "spec.overrides[0]: ConfigMap shop/settings on cluster berlin cannot be delivered afterwards: metadata.generateName",
        ),
    ] {
        let error = refused(declared);
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn a_patch_that_doubles_an_object_again_and_again_is_stopped() {
    let double = |index: usize| json!({"op": "copy", "from": "/data", "path": format!("/data/k{index}")});
    let operations: Vec<_> = (0..50).map(double).collect();
    let error = refused(json!([{"target": {"kind": "ConfigMap"}, "jsonPatch": operations}]));
    assert!(error.contains("larger than 3 MiB or deeper"), "{error}");
}

#[test]
fn what_only_a_server_writes_is_taken_off() {
    let declared = json!([{"target": {"kind": "ConfigMap"}, "mergePatch": {"status": {"a": 1}, "metadata": {"uid": "u"}}}]);
    assert_eq!(body(&changed(declared, "berlin", &[]), "ConfigMap"), body(&plain(), "ConfigMap"));
}

#[test]
fn an_entry_that_the_revision_lacks_is_refused() {
    let overrides = overrides(json!([]));
    let inputs = OverrideInputs { apply: vec![3], ..OverrideInputs::default() };
    let effective = overrides.effective("berlin", Some(&inputs));
    let object = &manifest::parse(MANIFEST).unwrap()[0];
    let key = ObjectKey::new(&object.gvk, "shop", &object.name);
    let (budget, mut value) = (Budget::default(), object.value.clone());
    let error = overrides.apply(&effective, "berlin", &object.gvk, &key, &mut value, &budget).unwrap_err();
    assert!(error.to_string().starts_with("spec.overrides[3] is not in the revision"), "{error}");
}

fn any_override() -> impl Strategy<Value = Value> {
    let expression = prop_oneof![
        Just("cluster.name"),
        Just("cluster.labels.region"),
        Just("cluster.values.registry + cluster.name"),
        Just("has(cluster.labels.zone) ? 'zoned' : 'plain'"),
        Just("{'b': cluster.name, 'a': ['x', cluster.labels[?'zone'].orValue('none')]}"),
    ];
    let change = prop_oneof![
        expression.prop_map(|text| json!({"set": [{"path": ".data.set", "expression": text}]})),
        "[a-c]{1,2}".prop_map(|text| json!({"mergePatch": {"data": {"merged": text, "key": null}}})),
        "[a-c]{1,2}".prop_map(|text| json!({"jsonPatch": [{"op": "add", "path": "/metadata/annotations", "value": {"a": text}}]})),
    ];
    let cluster = prop_oneof![
        Just(json!({})),
        Just(json!({"clusterNames": ["berlin"]})),
        Just(json!({"clusterSelector": {"matchLabels": {"region": "eu"}}})),
    ];
    let target =
        prop_oneof![Just(json!({})), Just(json!({"kind": "ConfigMap"})), Just(json!({"namespace": "shop"}))];
    (change, cluster, target).prop_map(|(mut change, cluster, target)| {
        change["target"] = target;
        let fields = cluster.as_object().unwrap().clone();
        change.as_object_mut().unwrap().extend(fields);
        change
    })
}

proptest! {
    #[test]
    fn rendering_is_a_function_and_equal_inputs_give_equal_objects(
        declared in prop::collection::vec(any_override(), 0..5),
        region in "eu|us",
        zone in prop::option::of("a|b"),
        noise in "[a-z]{1,3}",
    ) {
        let overrides = overrides(Value::Array(declared));
        let mut labels = vec![("region", region.as_str())];
        labels.extend(zone.as_deref().map(|zone| ("zone", zone)));
        let mut noisy = labels.clone();
        noisy.push(("noise", &noise));
        let first = rendered(&overrides, "berlin", &labels);
        prop_assert_eq!(&first, &rendered(&overrides, "berlin", &labels));
        // What no expression and no selector names changes nothing.
        prop_assert_eq!(&first, &rendered(&overrides, "berlin", &noisy));

        let (values, own) = (map(&[("registry", "r.example")]), map(&labels));
        let effective = |name: &str| {
            let inputs = overrides.inputs(&Cluster { name, labels: &own, values: &values });
            overrides.effective(name, inputs.as_ref())
        };
        if effective("berlin") == effective("paris")
            && let (Ok(first), Ok(other)) = (&first, rendered(&overrides, "paris", &labels))
        {
            prop_assert_eq!(first, &other);
        }
        if effective("berlin") == Effective::default() {
            prop_assert_eq!(first, Ok(plain()));
        }
    }
}

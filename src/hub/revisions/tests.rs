//! What revisions are called, what they keep, and which members share what they render to.

use serde_json::{Value, json};
use vidra_core::object::Scope;

use super::*;

const MANIFEST: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {key: one}}\n---\n\
                        {apiVersion: v1, kind: ConfigMap, metadata: {name: beside}, data: {key: one}}\n";

fn revisions() -> Revisions {
    Revisions::new(HashKey::new([7; 32]), Arc::default(), 1_000_000)
}

fn resource(overrides: Value) -> VidraResource {
    serde_json::from_value(json!({
        "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
        "metadata": {"name": "shop", "namespace": "team", "uid": "u"},
        "spec": {"manifest": MANIFEST, "targets": [], "overrides": overrides},
    }))
    .unwrap()
}

fn by_label() -> Value {
    json!([{"target": {"name": "settings"}, "set": [{"path": ".data.key", "expression": "cluster.labels.region"}]}])
}

fn inputs(region: &str) -> OverrideInputs {
    let labels = BTreeMap::from([("region".to_owned(), region.to_owned())]);
    OverrideInputs { apply: vec![0], labels, values: BTreeMap::new() }
}

#[test]
fn overrides_are_part_of_a_revision_and_without_them_its_name_is_of_the_manifest_alone() {
    let revisions = revisions();
    let (content, plain) = revisions.parse(&resource(json!([])), Vec::new()).unwrap();
    assert_eq!(plain.name, render::revision_of([MANIFEST, "createNamespaces"], &HashKey::new([7; 32])));
    assert!(serde_json::to_value(&content).unwrap().get("overrides").is_none());

    let (content, parsed) = revisions.parse(&resource(by_label()), Vec::new()).unwrap();
    assert_ne!(parsed.name, plain.name);
    let kept: Content = serde_json::from_value(serde_json::to_value(&content).unwrap()).unwrap();
    assert_eq!(kept, content);
    let again = self::revisions().parsed_from(&ResourceKey::new("team", "shop"), &kept).unwrap();
    assert_eq!(again.name, parsed.name);
}

#[test]
fn members_with_equal_inputs_share_what_is_rendered_and_others_share_what_is_equal() {
    let revisions = revisions();
    let (_, parsed) = revisions.parse(&resource(by_label()), Vec::new()).unwrap();
    let key = ResourceKey::new("team", "shop");
    let render = |cluster: &str, inputs: Option<&OverrideInputs>| {
        revisions.render(&key, &parsed, "shop", &|_| Some(Scope::Namespaced), (cluster, inputs)).unwrap()
    };
    let (plain, berlin) = (render("austin", None), render("berlin", Some(&inputs("eu"))));
    assert!(Arc::ptr_eq(&plain, &render("lima", None)));
    assert!(Arc::ptr_eq(&berlin, &render("paris", Some(&inputs("eu")))));
    let tokyo = render("tokyo", Some(&inputs("asia")));
    assert!(!Arc::ptr_eq(&berlin, &tokyo));
    let body = |desired: &Desired, name: &str| {
        let found = desired.objects.values().find(|one| &*one.key.name == name).unwrap();
        found.body.clone()
    };
    assert!(Arc::ptr_eq(&body(&tokyo, "beside"), &body(&plain, "beside")));
    assert_eq!(body(&tokyo, "settings")["data"]["key"], "asia");

    // What no member has any more is let go of when the next one is rendered.
    drop(tokyo);
    let _lima = render("lima", Some(&inputs("south")));
    let held = revisions.rendered.lock().values().map(|held| held.lock().len()).sum::<usize>();
    assert_eq!(held, 3, "the plain one, berlin's and lima's");
}

#[test]
fn what_all_members_together_make_of_a_revision_is_bounded() {
    let mut revisions = revisions();
    let (_, parsed) = revisions.parse(&resource(by_label()), Vec::new()).unwrap();
    let key = ResourceKey::new("team", "shop");
    let regions: Vec<String> = (0..100).map(|at| format!("region-{at}")).collect();
    let render = |revisions: &Revisions, region: &str| {
        let inputs = inputs(region);
        revisions.render(&key, &parsed, "shop", &|_| Some(Scope::Namespaced), (region, Some(&inputs)))
    };
    let first = render(&revisions, &regions[0]).unwrap();
    revisions.rendered_max = 20 * first.own_weight();
    let mut held = Vec::new();
    let refused =
        regions.iter().find_map(|region| render(&revisions, region).map(|one| held.push(one)).err());
    let told = refused.expect("all of them take more than there is").to_string();
    assert!(told.contains("on cluster region-") && told.contains("split the VidraResource"), "{told}");
    assert!(held.len() > 10, "what is held once counts once: {}", held.len());
    // What no member has any more makes room.
    held.clear();
    assert!(render(&revisions, "region-99").is_ok());
}

#[test]
fn an_override_that_is_wrong_is_told_from_a_manifest_that_is() {
    let revisions = revisions();
    let broken = json!([{"target": {}, "set": [{"path": ".data.key", "expression": "1 +"}]}]);
    assert_eq!(
        revisions.parse(&resource(broken), Vec::new()).err().map(|error| error.invalid()),
        Some("OverridesInvalid")
    );
    let mut empty = resource(json!([]));
    empty.spec.manifest = None;
    assert_eq!(
        revisions.parse(&empty, Vec::new()).err().map(|error| error.invalid()),
        Some("ManifestInvalid")
    );
}

fn content(manifest: &str) -> Content {
    Content {
        manifest: manifest.into(),
        manifests: Vec::new(),
        sources: Vec::new(),
        create_namespaces: true,
        overrides: Vec::new(),
    }
}

fn source(name: &str, text: &str) -> Source {
    Source { name: name.into(), text: text.into() }
}

#[test]
fn what_has_only_a_manifest_keeps_the_name_of_its_revision_and_all_else_changes_it() {
    let key = HashKey::new([7; 32]);
    let plain = content("a: 1");
    let revision = |of: &Content| of.revision(&of.inline(&mut Reader::default()).unwrap(), &key);
    assert_eq!(revision(&plain), render::revision_of(["a: 1", "createNamespaces"], &key));
    let object = Raw::from(json!({"kind": "ConfigMap", "x": [1, null]}));
    let all = [
        plain.clone(),
        Content { create_namespaces: false, ..plain.clone() },
        Content { manifests: vec![object.clone()], ..plain.clone() },
        Content { manifests: vec![object.clone(), object.clone()], ..plain.clone() },
        Content { sources: vec![source("a", "b")], ..plain.clone() },
        Content { sources: vec![source("a", "c")], ..plain.clone() },
        Content { manifests: vec![object], sources: vec![source("a", "b")], ..plain.clone() },
        content("a: 2"),
    ];
    let names: std::collections::BTreeSet<_> = all.iter().map(revision).collect();
    assert_eq!(names.len(), all.len());
}

#[test]
fn objects_come_in_the_order_of_the_fields_and_know_their_place() {
    let object = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let all = Content {
        manifest: object("one").to_string(),
        manifests: vec![object("two").into(), object("three").into()],
        sources: vec![source("Secret s, key k", &format!("---\n---\n{}", object("four")))],
        create_namespaces: true,
        overrides: Vec::new(),
    };
    let mut reader = Reader::default();
    let inline = all.inline(&mut reader).unwrap();
    let objects = all.objects(reader, inline).unwrap();
    let found: Vec<_> = objects.iter().map(|one| format!("{}: {}", one.name, one.place)).collect();
    assert_eq!(
        found,
        [
            "one: spec.manifest, document 1 (line 1)",
            "two: spec.manifests, document 1",
            "three: spec.manifests, document 2",
            "four: Secret s, key k, document 2 (line 3)",
        ]
    );
}

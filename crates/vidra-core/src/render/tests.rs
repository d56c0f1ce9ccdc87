//! Where objects go, what is sent for them, and what they are known by.

use proptest::prelude::*;
use serde_json::json;
use vidra_api::names::{HubId, OwnerHash, Revision};

use super::*;
use crate::manifest::parse;

fn key() -> HashKey {
    HashKey::new([7; 32])
}

fn scope_of(gvk: &Gvk) -> Option<Scope> {
    match &*gvk.kind {
        "Unknown" => None,
        "Namespace" | "ClusterRole" | "CustomResourceDefinition" | "APIService" => Some(Scope::Cluster),
        kind if kind.ends_with("WebhookConfiguration") => Some(Scope::Cluster),
        _ => Some(Scope::Namespaced),
    }
}

fn rendered(text: &str) -> Rendered {
    render(&parse(text).unwrap(), &scope_of, "shop", &key()).unwrap()
}

fn one(text: &str) -> Declared {
    let mut rendered = rendered(text);
    assert_eq!(rendered.objects.len(), 1, "{text}");
    rendered.objects.remove(0)
}

#[test]
fn the_namespace_is_filled_in_kept_or_taken_off() {
    let cases = [
        ("kind: ConfigMap\nmetadata: {name: a}", "ConfigMap shop/a", json!("shop")),
        ("kind: ConfigMap\nmetadata: {name: a, namespace: other}", "ConfigMap other/a", json!("other")),
        ("kind: Namespace\nmetadata: {name: a, namespace: other}", "Namespace a", json!(null)),
    ];
    for (text, shown, namespace) in cases {
        let declared = one(&format!("apiVersion: v1\n{text}"));
        assert_eq!(declared.key.to_string(), shown);
        assert_eq!(declared.body["metadata"].get("namespace").cloned().unwrap_or_default(), namespace);
    }
}

#[test]
fn the_same_object_twice_is_refused_by_both_documents() {
    let text = |second: &str| format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\n---\n{second}\n");
    for second in [
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop}",
        "apiVersion: v2\nkind: Pod\nmetadata: {name: a}",
    ] {
        let error = render(&parse(&text(second)).unwrap(), &scope_of, "shop", &key()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "document 1 (line 1) and document 2 (line 5) both declare Pod shop/a: remove one"
        );
    }
    for second in [
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: other}",
        "apiVersion: v1\nkind: Service\nmetadata: {name: a}",
        "apiVersion: other.example/v1\nkind: Pod\nmetadata: {name: a}",
    ] {
        assert_eq!(rendered(&text(second)).objects.len(), 2, "{second}");
    }
    let unknown = "apiVersion: v1\nkind: Unknown\nmetadata: {name: a}\n";
    let twice = parse(&format!("{unknown}---\n{unknown}")).unwrap();
    assert!(render(&twice, &scope_of, "shop", &key()).is_err());
}

#[test]
fn an_object_of_an_unknown_kind_is_set_apart() {
    let rendered = rendered("apiVersion: x.example/v1\nkind: Unknown\nmetadata: {name: a}");
    assert_eq!(rendered.objects, []);
    let gvk = Gvk::new("x.example", "v1", "Unknown");
    assert_eq!(
        rendered.unresolved,
        [Unresolved {
            place: Place { source: None, document: 1, line: Some(1) },
            gvk,
            namespace: "shop".to_owned(),
            name: "a".to_owned(),
            wave: 0
        }]
    );
}

#[test]
fn objects_stand_by_stage_and_then_as_written() {
    let kinds = [
        "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration",
        "apps/v1 Deployment",
        "v1 Secret",
        "apiregistration.k8s.io/v1 APIService",
        "v1 Service",
        "rbac.authorization.k8s.io/v1 RoleBinding",
        "v1 Namespace",
        "v1 ServiceAccount",
        "apiextensions.k8s.io/v1 CustomResourceDefinition",
    ];
    let text: String = kinds
        .iter()
        .filter_map(|gvk| gvk.split_once(' '))
        .map(|(api, kind)| format!("---\napiVersion: {api}\nkind: {kind}\nmetadata: {{name: a}}\n"))
        .collect();
    let order: Vec<_> = rendered(&text).objects.iter().map(|d| (d.stage, d.gvk.kind.to_string())).collect();
    let expected = [
        (Stage::Foundations, "Namespace"),
        (Stage::Foundations, "CustomResourceDefinition"),
        (Stage::Dependencies, "Secret"),
        (Stage::Dependencies, "RoleBinding"),
        (Stage::Dependencies, "ServiceAccount"),
        (Stage::Rest, "Deployment"),
        (Stage::Rest, "Service"),
        (Stage::Admission, "ValidatingWebhookConfiguration"),
        (Stage::Admission, "APIService"),
    ];
    assert_eq!(order, expected.map(|(stage, kind)| (stage, kind.to_owned())));
}

#[test]
fn waves_come_before_stages_and_their_annotations_are_not_sent() {
    let text = |kind: &str, wave: &str| {
        format!(
            "---\napiVersion: v1\nkind: {kind}\nmetadata: {{name: a{wave}, annotations: {{vidra.dev/wave: '{wave}'}}}}\n"
        )
    };
    let all = text("Namespace", "2") + &text("Pod", "-1") + &text("Secret", "-1") + &text("Unknown", "3");
    let rendered = rendered(&all);
    let order: Vec<_> = rendered.objects.iter().map(|d| (d.directives.wave, &*d.gvk.kind)).collect();
    assert_eq!(order, [(-1, "Secret"), (-1, "Pod"), (2, "Namespace")]);
    assert_eq!(rendered.unresolved[0].wave, 3);
    assert!(rendered.objects.iter().all(|declared| declared.body["metadata"]["annotations"].is_null()));
}

#[test]
fn a_body_is_prepared_so_that_applying_it_again_changes_nothing() {
    let hooks = "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration";
    for (what, head, declared, prepared) in [
        (
            "stringData wins over data",
            "apiVersion: v1\nkind: Secret",
            json!({"data": {"a": "b2xk", "n": null, "k": "eA=="}, "stringData": {"a": "new", "e": null}}),
            json!({"data": {"a": "bmV3", "n": "", "k": "eA==", "e": ""}}),
        ),
        (
            "stringData alone",
            "apiVersion: v1\nkind: Secret",
            json!({"stringData": {"a": "x"}, "data": null}),
            json!({"data": {"a": "eA=="}}),
        ),
        (
            "stringData that says nothing",
            "apiVersion: v1\nkind: Secret",
            json!({"stringData": {}}),
            json!({}),
        ),
        (
            "a Secret of another group",
            "apiVersion: x.example/v1\nkind: Secret",
            json!({"stringData": {"a": "x"}}),
            json!({"stringData": {"a": "x"}}),
        ),
        (
            "rules beside aggregationRule",
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole",
            json!({"aggregationRule": {"clusterRoleSelectors": []}, "rules": []}),
            json!({"aggregationRule": {"clusterRoleSelectors": []}}),
        ),
        (
            "rules of their own",
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole",
            json!({"aggregationRule": null, "rules": []}),
            json!({"aggregationRule": null, "rules": []}),
        ),
        (
            "empty bundles of webhooks",
            hooks,
            json!({"webhooks": [{"clientConfig": {"caBundle": "", "url": "u"}}, {"clientConfig": {"caBundle": "Cg=="}},
                                {"clientConfig": {"caBundle": "Zm9v"}}, {}]}),
            json!({"webhooks": [{"clientConfig": {"url": "u"}}, {"clientConfig": {}},
                                {"clientConfig": {"caBundle": "Zm9v"}}, {}]}),
        ),
        (
            "the empty bundle of an aggregated API",
            "apiVersion: apiregistration.k8s.io/v1\nkind: APIService",
            json!({"spec": {"caBundle": "Cg==", "group": "g"}}),
            json!({"spec": {"group": "g"}}),
        ),
        (
            "the empty bundle of a conversion webhook",
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition",
            json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": ""}}}}}),
            json!({"spec": {"conversion": {"webhook": {"clientConfig": {}}}}}),
        ),
    ] {
        let fields: String =
            declared.as_object().unwrap().iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        let mut body = Value::clone(&one(&format!("{head}\nmetadata: {{name: a}}\n{fields}")).body);
        let fields = body.as_object_mut().unwrap();
        for identity in ["apiVersion", "kind", "metadata"] {
            assert!(fields.remove(identity).is_some());
        }
        assert_eq!(body, prepared, "{what}");
    }
}

#[test]
fn string_data_that_is_not_text_is_refused_without_its_value() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {pin: 1234}";
    let error = render(&parse(text).unwrap(), &scope_of, "shop", &key()).unwrap_err();
    let message = "document 1 (line 1): stringData[\"pin\"] of Secret shop/a is not text: put it in quotes";
    assert_eq!(error.to_string(), message);
}

#[test]
fn the_hash_is_of_what_is_declared_and_of_the_key() {
    let base = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {a: eA==}";
    let hash = |text: &str| one(text).hash;
    for same in [
        "kind: Secret\napiVersion: v1\ndata: {a: eA==}\nmetadata: {name: a, namespace: shop}",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: a, annotations: {vidra.dev/wave: '7', vidra.dev/apply: Once}}\ndata: {a: eA==}",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: a, uid: u, labels: {vidra.dev/hub: x, owner.vidra.dev/o: ''}, annotations: {owner.vidra.dev/o: 'a/b 1 c'}}\ndata: {a: eA==}\nstatus: {}",
    ] {
        assert_eq!(hash(same), hash(base), "{same}");
    }
    for other in [
        "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {a: eQ==}",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: x}",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: other}\ndata: {a: eA==}",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: a, labels: {x: z}}\ndata: {a: eA==}",
    ] {
        assert_ne!(hash(other), hash(base), "{other}");
    }
    let objects = parse(base).unwrap();
    let elsewhere = render(&objects, &scope_of, "shop", &HashKey::new([8; 32])).unwrap();
    assert_ne!(elsewhere.objects[0].hash, hash(base));
    assert_eq!(hash(base).to_string().len(), 32);
}

#[test]
fn values_that_look_alike_have_hashes_of_their_own() {
    let values = [
        json!(null),
        json!(""),
        json!([]),
        json!({}),
        json!("1"),
        json!(1),
        json!(1.5),
        json!(true),
        json!("t"),
        json!(["a", "b"]),
        json!(["ab"]),
        json!([["a"], "b"]),
        json!([["a", "b"]]),
        json!({"a": "b"}),
        json!({"ab": ""}),
        json!([{}, {}]),
        json!([[], []]),
    ];
    let hashes: std::collections::BTreeSet<_> = values.iter().map(|v| DeclaredHash::of(v, &key())).collect();
    assert_eq!(hashes.len(), values.len());
}

#[test]
fn a_revision_is_named_after_its_parts_and_where_they_end() {
    let name = revision_of(["a", "bc"], &key());
    assert!(Revision::try_from(name.as_str()).is_ok());
    assert_eq!(name, revision_of(["a", "bc"], &key()));
    for other in [vec!["ab", "c"], vec!["abc"], vec!["bc", "a"], vec!["a", "bc", ""], vec![]] {
        assert_ne!(name, revision_of(other, &key()));
    }
    assert_ne!(name, revision_of(["a", "bc"], &HashKey::new([8; 32])));
    // Computed once with Python's hmac, each part behind its length as 8 bytes.
    assert_eq!(name, KNOWN_REVISION);
    assert_eq!(HashKey::from_slice(&[7; 32]).map(|key| revision_of(["a", "bc"], &key)).as_ref(), Some(&name));
    assert!(HashKey::from_slice(&[7; 31]).is_none());
    assert_eq!(format!("{:?}", key()), "HashKey(redacted)");
}

#[test]
fn what_may_hold_a_secret_does_not_show_it_where_it_is_debugged() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {pin: 5up3r}";
    let encoded = "NXVwM3I=";
    let parsed = parse(text).unwrap();
    let patch: Result<Vec<vidra_api::Override>, _> = serde_json::from_value(
        json!([{"target": {"kind": "Secret"}, "mergePatch": {"stringData": {"pin": "5up3r"}}},
        {"target": {"kind": "Secret"}, "jsonPatch": [{"op": "add", "path": "/stringData/pin", "value": "5up3r"}]},
        {"target": {"kind": "Secret"}, "set": [{"path": ".stringData.pin", "expression": "'5up3r'"}]}]),
    );
    let overrides = Overrides::compile(&patch.unwrap()).unwrap();
    for shown in [format!("{parsed:?}"), format!("{:?}", rendered(text)), format!("{overrides:?}")] {
        assert!(!shown.contains("5up3r") && !shown.contains(encoded), "{shown}");
    }
    assert!(one(text).body.to_string().contains(encoded), "it is there");
}

const KNOWN_REVISION: &str = "37af8314dbcf43a8";

#[test]
fn a_composed_body_bears_our_marks_beside_those_of_the_user() {
    for (metadata, labels, annotations) in [
        ("{name: a}", json!({}), json!({})),
        ("{name: a, labels: null, annotations: null}", json!({}), json!({})),
        ("{name: a, labels: {x: z}, annotations: {p: q}}", json!({"x": "z"}), json!({"p": "q"})),
    ] {
        let declared = one(&format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}"));
        let hub = HubId::try_from("hub1").unwrap();
        let owner = OwnerHash::new(&hub, "team-a", "shop");
        let (name, hash) = ("team-a/shop".to_owned(), declared.hash);
        let stamp = Stamp { owner: name, generation: 7, hash, kept: false, seal: None };
        let body = compose(&declared.body, &hub, &owner, &stamp.sealed(&key(), &declared.key));
        let (mut labels, mut annotations) = (labels, annotations);
        labels["vidra.dev/hub"] = json!("hub1");
        labels[owner.label_key()] = json!("");
        let text = body["metadata"]["annotations"][owner.label_key()].as_str().unwrap();
        let (stamp, seal) = text.rsplit_once(' ').unwrap();
        assert_eq!(stamp, format!("team-a/shop 7 {}", declared.hash));
        assert_eq!(seal.len(), 12);
        annotations[owner.label_key()] = json!(text);
        assert_eq!(body["metadata"]["labels"], labels);
        assert_eq!(body["metadata"]["annotations"], annotations);
        assert_eq!(body["metadata"]["namespace"], "shop");
    }
}

#[test]
fn only_a_stamp_that_the_hub_made_for_this_object_and_that_nobody_changed_is_genuine() {
    let declared = |name: &str| one(&format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}"));
    let (a, b) = (declared("a"), declared("b"));
    let stamp = Stamp { owner: "team-a/shop".into(), generation: 7, hash: a.hash, kept: false, seal: None };
    assert!(!stamp.is_genuine(&key(), &a.key), "as hubs wrote it before");
    let stamp = stamp.sealed(&key(), &a.key);
    assert!(stamp.is_genuine(&key(), &a.key));
    assert!(!stamp.is_genuine(&key(), &b.key), "copied from another object");
    assert!(!stamp.is_genuine(&HashKey::new([9; 32]), &a.key), "another hub's");
    for forged in [
        Stamp { owner: "team-a/other".into(), ..stamp.clone() },
        Stamp { generation: 999_999, ..stamp.clone() },
        Stamp { hash: b.hash, ..stamp.clone() },
        Stamp { kept: true, ..stamp.clone() },
        Stamp { seal: Some("0123456789ab".into()), ..stamp.clone() },
    ] {
        assert!(!forged.is_genuine(&key(), &a.key), "{forged}");
    }
}

#[test]
fn a_stamp_that_says_anything_else_is_none() {
    let hash = "0123456789abcdef0123456789abcdef";
    assert!(!Stamp::parse(&format!("a/b 1 {hash}")).unwrap().kept);
    assert!(Stamp::parse(&format!("a/b 1 {hash} kept")).unwrap().kept);
    assert!(Stamp::parse(&format!("a/b 1 {hash} kept 0123456789ab")).unwrap().kept);
    for text in [
        String::new(),
        format!("a/b {hash}"),
        format!("a/b 1 {hash} "),
        format!("a/b 1 {hash} keep"),
        format!("a/b 1 {hash} kept kept"),
        format!("a/b 1 {hash} 0123456789ab kept"),
        format!("a/b 1 {hash} 0123456789a"),
        format!("a/b 1 {hash} 0123456789AB"),
        format!("a/b  1 {hash}"),
        format!("a 1 {hash}"),
        format!("a/b/c 1 {hash}"),
        format!("/b 1 {hash}"),
        format!("a/b x {hash}"),
        format!("a/b 1 {}", hash.to_uppercase()),
        format!("a/b 1 {}", &hash[1..]),
        format!("a/b 1 +{}", &hash[1..]),
        format!("a/b 99999999999999999999 {hash}"),
    ] {
        assert_eq!(Stamp::parse(&text), None, "{text}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]{1,2}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_stamp_reads_back_as_it_was_written(
        namespace in "[a-z0-9-]{1,63}", name in "[a-z0-9.-]{1,180}", generation: i64, value in any_json(), kept: bool,
    ) {
        let hash = DeclaredHash::of(&value, &key());
        let stamp = Stamp { owner: format!("{namespace}/{name}"), generation, hash, kept, seal: None };
        prop_assert_eq!(Stamp::parse(&stamp.to_string()), Some(stamp.clone()));
        let sealed = stamp.sealed(&key(), &one("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}").key);
        prop_assert_eq!(Stamp::parse(&sealed.to_string()), Some(sealed));
    }

    #[test]
    fn a_stamp_is_read_without_panic(text in ".{0,80}") {
        let _ = Stamp::parse(&text);
    }

    #[test]
    fn equal_values_and_only_those_have_equal_hashes(a in any_json(), b in any_json()) {
        prop_assert_eq!(a == b, DeclaredHash::of(&a, &key()) == DeclaredHash::of(&b, &key()));
    }

    #[test]
    fn render_is_a_function_and_keeps_every_object(
        names in prop::collection::btree_set("[a-z]{1,5}", 0..8), kind in "ConfigMap|Namespace|Secret|Unknown|Pod",
        extra in any_json(),
    ) {
        let objects: Vec<_> = names
            .iter()
            .map(|name| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "data": extra}))
            .enumerate()
            .flat_map(|(index, value)| crate::manifest::from_value(index + 1, value).unwrap())
            .collect();
        let first = render(&objects, &scope_of, "shop", &key()).unwrap();
        prop_assert_eq!(first.objects.len() + first.unresolved.len(), objects.len());
        prop_assert_eq!(&first, &render(&objects, &scope_of, "shop", &key()).unwrap());
        // What was prepared is prepared.
        for declared in &first.objects {
            let again = crate::manifest::from_value(declared.place.document, Value::clone(&declared.body)).unwrap();
            let again = render(&again, &scope_of, "shop", &key()).unwrap();
            prop_assert_eq!(&again.objects[0].body, &declared.body);
        }
    }
}

#[test]
fn what_an_object_is_to_others_is_read_from_what_it_declares() {
    let of = |stage, body: serde_json::Value| Relation::of(stage, &body);
    let kind = |group: &str, kind: &str| (Box::from(group), Box::from(kind));
    let crd = json!({"spec": {"group": "example.com", "names": {"kind": "Gadget", "plural": "gadgets"}}});
    assert_eq!(of(Stage::Foundations, crd.clone()), Relation::Defines(kind("example.com", "Gadget")));
    assert_eq!(of(Stage::Foundations, json!({"spec": {}})), Relation::None, "a Namespace");
    assert_eq!(of(Stage::Rest, crd), Relation::None);
    let hooks = of(
        Stage::Admission,
        json!({"webhooks": [
            {"clientConfig": {"service": {"namespace": "a", "name": "x"}}},
            {"clientConfig": {"url": "https://example.com"}},
            {"clientConfig": {"service": {"namespace": "b", "name": "x"}}},
        ]}),
    );
    assert!(
        hooks.requires_namespace("a") && hooks.requires_namespace("b") && !hooks.requires_namespace("c"),
        "{hooks:?}"
    );
    let api = of(Stage::Admission, json!({"spec": {"service": {"namespace": "c", "name": "x"}}}));
    assert!(api.requires_namespace("c") && !api.requires_namespace("a"), "{api:?}");
    for (api_version, group) in [("example.com/v1", "example.com"), ("v1", "")] {
        let param = json!({"spec": {"paramKind": {"apiVersion": api_version, "kind": "Limit"}}});
        let policy = of(Stage::Admission, param);
        assert!(
            policy.requires_kind(&kind(group, "Limit")) && !policy.requires_kind(&kind(group, "Other")),
            "{policy:?}"
        );
    }
    assert!(!of(Stage::Admission, json!({"spec": {"service": null}})).requires_namespace(""));
}

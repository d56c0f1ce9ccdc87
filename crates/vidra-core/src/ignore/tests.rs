//! Rules against objects: what is exempt, what is unused, what yields; and that applying never changes it.

use proptest::prelude::*;
use serde_json::json;
use vidra_api::IgnoreRule;

use super::*;
use crate::fields::{FieldSet, differing, keeping, masked};

const US: &str = "vidra/h/team/shop";

fn spec(ignore: &[(Value, &[&str])]) -> DriftSpec {
    let rule = |(target, paths): &(Value, &[&str])| IgnoreRule {
        target: serde_json::from_value(target.clone()).unwrap(),
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
    };
    DriftSpec { ignore: ignore.iter().map(rule).collect(), ..DriftSpec::default() }
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "app", "image": "web:1"}]}}}})
}

fn of(spec: &DriftSpec, object: &Value) -> Exemptions {
    let version = object["apiVersion"].as_str().unwrap();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let gvk = Gvk::new(group, version, object["kind"].as_str().unwrap());
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let key = ObjectKey::new(&gvk, text("namespace"), text("name"));
    Rules::compile(spec).unwrap().exemptions([(&gvk, &key, object)], &[], &Arc::default())
}

fn entry(manager: &str, operation: &str, subresource: &str, fields: Value) -> Value {
    let mut entry = json!({"manager": manager, "operation": operation, "fieldsV1": fields});
    if !subresource.is_empty() {
        entry["subresource"] = subresource.into();
    }
    entry
}

fn with_entries(mut object: Value, entries: &[Value]) -> Value {
    object["metadata"]["managedFields"] = entries.into();
    object
}

#[test]
fn rules_name_what_they_match_and_what_they_do_not() {
    let image = r#".spec.template.spec.containers[name="app"].image"#;
    let rows: [(Value, &[&str], Vec<Unused>); 6] = [
        (json!({"kind": "Deployment"}), &[".spec.replicas", image, ".spec.template"], vec![]),
        (json!({"group": "apps", "namespace": "shop", "name": "web"}), &[image], vec![]),
        (json!({"group": ""}), &[".spec.replicas"], vec![Unused { rule: 0, path: None }]),
        (json!({"namespace": "other"}), &[".spec.replicas"], vec![Unused { rule: 0, path: None }]),
        (
            json!({"name": "web"}),
            &[".spec.replica", ".spec.replicas"],
            vec![Unused { rule: 0, path: Some(0) }],
        ),
        (
            json!({"name": "web"}),
            &[r#".spec.template.spec.containers[name="ap"].image"#],
            vec![Unused { rule: 0, path: Some(0) }],
        ),
    ];
    for (target, paths, unused) in rows {
        assert_eq!(of(&spec(&[(target.clone(), paths)]), &deployment()).unused, unused, "{target} {paths:?}");
    }
}

#[test]
fn an_object_of_a_kind_that_nobody_knows_yet_may_be_what_a_rule_means() {
    let unresolved = Unresolved {
        place: crate::manifest::Place { source: None, document: 1, line: None },
        gvk: Gvk::new("example.com", "v1", "Shop"),
        namespace: "shop".into(),
        name: "one".into(),
        wave: 0,
    };
    let rules = |kind: &str| {
        let spec = spec(&[(json!({"kind": kind}), &[".spec.size"])]);
        Rules::compile(&spec)
            .unwrap()
            .exemptions([], std::slice::from_ref(&unresolved), &Arc::default())
            .unused
    };
    assert_eq!(rules("Shop"), []);
    assert_eq!(rules("Shops"), [Unused { rule: 0, path: None }]);
}

#[test]
fn a_path_that_cannot_be_read_or_names_the_object_itself_is_refused_by_its_place() {
    for (path, why) in [
        (".spec[", "in brackets stands"),
        ("spec", "begin the path with '.'"),
        (".metadata", "cannot be ignored"),
        (".metadata.name", "cannot be ignored"),
        (".kind", "cannot be ignored"),
    ] {
        let spec = spec(&[(json!({"kind": "A"}), &[".ok", path])]);
        let error = Rules::compile(&spec).unwrap_err().to_string();
        assert!(error.starts_with(&format!("spec.drift.ignore[0].paths[1] ({path}): ")), "{error}");
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn an_object_of_which_nothing_is_left_alone_is_not_listed() {
    let plain =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    assert_eq!(of(&DriftSpec::default(), &plain), Exemptions::default());
    let none = DriftSpec { yield_to: YieldPolicy::None, ..DriftSpec::default() };
    assert_eq!(of(&none, &deployment()), Exemptions::default());
    assert_eq!(of(&DriftSpec::default(), &deployment()).objects.len(), 1, "replicas may yield");
}

/// Each row: who else holds the replicas, and through what; whether they are left to them.
#[test]
fn replicas_are_left_to_autoscalers_and_to_nobody_who_edits_or_scales_by_hand() {
    let replicas = || json!({"f:spec": {"f:replicas": {}}});
    let ours = entry(US, "Apply", "", json!({"f:metadata": {"f:labels": {"f:a": {}}}}));
    let own = FieldSet::from_fields_v1(&ours["fieldsV1"]).unwrap();
    for (manager, operation, subresource, left) in [
        ("kube-controller-manager", "Update", "scale", true),
        ("k3s", "Update", "scale", true),
        ("kubectl", "Update", "scale", false),
        ("kubectl-scale", "Update", "scale", false),
        ("kube-controller-manager", "Update", "", false),
        ("keda", "Apply", "scale", true),
        ("kubectl-edit", "Update", "", false),
        ("somebody", "Apply", "", false),
        ("vidra/h/team/other", "Apply", "scale", false),
    ] {
        let exempt = of(&DriftSpec::default(), &deployment()).objects.into_values().next().unwrap();
        let mut live = deployment();
        live["spec"]["replicas"] = 7.into();
        let live = with_entries(live, &[ours.clone(), entry(manager, operation, subresource, replicas())]);
        assert_eq!(exempt.yields_now(&live), left, "{manager}");
        assert_eq!(exempt.is_disturbed(&live, &deployment(), &own), !left, "{manager}");
        let sent = exempt.keeping(&deployment(), &live, US);
        assert_eq!(sent["spec"].get("replicas").is_none(), left, "{manager}");
        let equal = with_entries(deployment(), &[entry(manager, operation, subresource, replicas())]);
        assert!(!exempt.is_disturbed(&equal, &deployment(), &own), "{manager}: an equal value is no drift");
    }
}

/// A HorizontalPodAutoscaler for this.
fn autoscaler(target: Value) -> Value {
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"maxReplicas": 5, "scaleTargetRef": target}})
}

#[test]
fn whoever_scales_what_a_declared_autoscaler_is_for_may_have_its_replicas() {
    let (gvk, autoscales) =
        (Gvk::new("apps", "v1", "Deployment"), Gvk::new("autoscaling", "v2", "HorizontalPodAutoscaler"));
    let key = |gvk: &Gvk, namespace: &str, name: &str| ObjectKey::new(gvk, namespace, name);
    let scaled_by = |manager: &str| {
        with_entries(
            deployment(),
            &[entry(manager, "Update", "scale", json!({"f:spec": {"f:replicas": {}}}))],
        )
    };
    let is_left = |(target, namespace): (Value, &str), named: &Arc<Autoscalers>, manager: &str| {
        let (body, hpa) = (deployment(), autoscaler(target));
        let name = body["metadata"]["name"].as_str().unwrap();
        let (web, scaler) = (key(&gvk, "shop", name), key(&autoscales, namespace, "web"));
        let declared = [(&gvk, &web, &body), (&autoscales, &scaler, &hpa)];
        let exemptions = Rules::compile(&DriftSpec::default()).unwrap().exemptions(declared, &[], named);
        exemptions.objects[&web].yields_now(&scaled_by(manager))
    };
    let name = deployment()["metadata"]["name"].clone();
    let target = |version: &str| json!({"apiVersion": version, "kind": "Deployment", "name": name});
    let default = Arc::default();
    for version in ["apps/v1", "apps/v1beta1", ""] {
        assert!(is_left((target(version), "shop"), &default, "acme-scaler"), "{version}");
    }
    assert!(!is_left((target("apps/v1"), "bank"), &default, "acme-scaler"));
    assert!(!is_left((target("acme.example.com/v1"), "shop"), &default, "acme-scaler"));
    let other = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"});
    assert!(!is_left((other.clone(), "shop"), &default, "acme-scaler"));
    let named = Arc::new(Autoscalers::parse("acme-scaler, keda").unwrap());
    assert!(is_left((other.clone(), "shop"), &named, "acme-scaler"));
    assert!(!is_left((other, "shop"), &named, "kube-controller-manager"));
}

#[test]
fn names_of_autoscalers_are_read_and_bounded() {
    assert_eq!(
        Autoscalers::parse("kube-controller-manager\nk3s,kubelite keda keda-operator")
            .map(|all| all.has("k3s")),
        Ok(true)
    );
    assert_eq!(Autoscalers::parse("").map(|none| none.has("k3s")), Ok(false));
    let many: String = (0..51).map(|n| format!("a{n} ")).collect();
    for bad in [many, "x".repeat(129)] {
        assert!(Autoscalers::parse(&bad).unwrap_err().contains("write at most 50 names"));
    }
}

#[test]
fn a_bundle_is_left_to_whoever_injects_it() {
    let hooks = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hooks"}, "webhooks": [
            {"name": "a.example.com", "clientConfig": {"url": "u", "caBundle": "Zm9v"}},
            {"name": "b.example.com", "clientConfig": {"url": "u"}}]});
    let service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.e"}, "spec": {"caBundle": "Zm9v"}});
    let item =
        json!({"f:webhooks": {r#"k:{"name":"a.example.com"}"#: {"f:clientConfig": {"f:caBundle": {}}}}});
    for (object, pointer, fields) in [
        (&hooks, "/webhooks/0/clientConfig/caBundle", item),
        (&service, "/spec/caBundle", json!({"f:spec": {"f:caBundle": {}}})),
    ] {
        let exempt = of(&DriftSpec::default(), object).objects.into_values().next().unwrap();
        let live =
            |manager: &str| with_entries(object.clone(), &[entry(manager, "Update", "", fields.clone())]);
        for (manager, yields) in [
            ("cainjector", true),
            ("kubectl-edit", true),
            ("helm", true),
            ("before-first-apply", false),
            ("kubectl-client-side-apply", false),
        ] {
            assert_eq!(exempt.yields_now(&live(manager)), yields, "{manager} {object}");
        }
        let ours = entry(US, "Apply", "", json!({"f:metadata": {"f:labels": {"f:a": {}}}}));
        let held = with_entries(object.clone(), &[ours, entry("cainjector", "Update", "", fields)]);
        assert_eq!(exempt.keeping(object, &held, US).pointer(pointer), None, "{object}");
    }
}

/// Each row: what is declared, what is live, our entry, what alice holds, the path, what is sent.
#[test]
fn what_is_ours_is_sent_as_it_is_and_what_was_lost_is_left_out() {
    let ours = |fields: Value| Some(fields);
    let rows = [
        // Ours still: the live value, not the declared one.
        (
            json!({"spec": {"replicas": 3, "x": 1}}),
            json!({"spec": {"replicas": 5, "x": 1}}),
            ours(json!({"f:spec": {"f:replicas": {}, "f:x": {}}})),
            json!({}),
            ".spec.replicas",
            json!({"spec": {"replicas": 5, "x": 1}}),
        ),
        // Lost: left out, and what it leaves empty too.
        (
            json!({"a": 1, "spec": {"replicas": 3}}),
            json!({"a": 1, "spec": {"replicas": 5}}),
            ours(json!({"f:a": {}})),
            json!({"f:spec": {"f:replicas": {}}}),
            ".spec.replicas",
            json!({"a": 1}),
        ),
        // Below a prefix each by itself.
        (
            json!({"data": {"a": "1", "b": "1", "new": "1"}}),
            json!({"data": {"a": "1", "b": "2", "theirs": "x"}}),
            ours(json!({"f:data": {"f:a": {}}})),
            json!({"f:data": {"f:b": {}}}),
            ".data",
            json!({"data": {"a": "1"}}),
        ),
        // A list item by its key.
        (
            json!({"c": [{"name": "app", "image": "1"}, {"name": "side", "image": "1"}]}),
            json!({"c": [{"name": "app", "image": "2"}, {"name": "side", "image": "1"}]}),
            ours(json!({"f:c": {r#"k:{"name":"app"}"#: {".": {}, "f:name": {}},
                r#"k:{"name":"side"}"#: {".": {}, "f:name": {}, "f:image": {}}}})),
            json!({"f:c": {r#"k:{"name":"app"}"#: {"f:image": {}}}}),
            r#".c[name="app"].image"#,
            json!({"c": [{"name": "app"}, {"name": "side", "image": "1"}]}),
        ),
        // A whole item: what is ours of it, with its key.
        (
            json!({"c": [{"name": "app", "image": "1", "tty": true}]}),
            json!({"c": [{"name": "app", "image": "2", "tty": false}]}),
            ours(json!({"f:c": {r#"k:{"name":"app"}"#: {".": {}, "f:name": {}, "f:tty": {}}}})),
            json!({"f:c": {r#"k:{"name":"app"}"#: {"f:image": {}}}}),
            ".c",
            json!({"c": [{"name": "app", "tty": false}]}),
        ),
        // An item that is to be made is made whole.
        (
            json!({"c": [{"name": "app", "image": "1"}]}),
            json!({"c": [{"name": "old", "image": "1"}]}),
            ours(json!({"f:c": {r#"k:{"name":"old"}"#: {".": {}, "f:name": {}, "f:image": {}}}})),
            json!({}),
            r#".c[name="app"].image"#,
            json!({"c": [{"name": "app", "image": "1"}]}),
        ),
        // Within a value that alice owns whole: her part in ours.
        (
            json!({"rules": [{"verbs": ["get"], "what": "pods"}]}),
            json!({"rules": [{"verbs": ["*"], "what": "pods"}]}),
            ours(json!({"f:metadata": {"f:labels": {"f:a": {}}}})),
            json!({"f:rules": {}}),
            ".rules[0].verbs",
            json!({"rules": [{"verbs": ["*"], "what": "pods"}]}),
        ),
        // Taken away: it stays away.
        (
            json!({"data": {"a": "1", "b": "1"}}),
            json!({"data": {"b": "1"}}),
            ours(json!({"f:data": {"f:b": {}}})),
            json!({}),
            ".data.a",
            json!({"data": {"b": "1"}}),
        ),
        // No entry of ours at all: the live value, so that it stays when its owner goes.
        (
            json!({"spec": {"replicas": 3, "x": 1}}),
            json!({"spec": {"replicas": 5, "x": 2}}),
            None,
            json!({"f:spec": {"f:replicas": {}, "f:x": {}}}),
            ".spec.replicas",
            json!({"spec": {"replicas": 5, "x": 1}}),
        ),
    ];
    for (declared, live, ours, alices, path, sent) in rows {
        let ours = ours.map(|fields| entry(US, "Apply", "", fields));
        let entries: Vec<Value> = ours.into_iter().chain([entry("alice", "Update", "", alices)]).collect();
        let live = with_entries(live, &entries);
        assert_eq!(keeping(&declared, &live, US, [&path.parse().unwrap()]), sent, "{path} of {declared}");
    }
}

#[test]
fn the_warning_names_the_first_and_counts_the_others() {
    let spec = spec(&[(json!({"kind": "A"}), &[".a"]), (json!({"kind": "B"}), &[".b", ".c"])]);
    let path = |rule, path| Unused { rule, path: Some(path) };
    assert_eq!(complaint(&[], &spec), None);
    let (reason, message) = complaint(&[path(1, 1), path(1, 0)], &spec).unwrap();
    assert_eq!(reason.as_str(), "PathMatchesNothing");
    assert!(message.starts_with("spec.drift.ignore[1].paths[1] (.c) is in no object"), "{message}");
    assert!(message.contains("(1 more like it)"), "{message}");
    let (reason, message) = complaint(&[Unused { rule: 0, path: None }], &spec).unwrap();
    assert_eq!(reason.as_str(), "TargetMatchesNothing");
    assert!(message.contains("the target of spec.drift.ignore[0] matches no object"), "{message}");
}

/// A flat object of maps: which keys are declared, live, ours.
fn case() -> impl Strategy<Value = (Value, Value, Value, Vec<String>)> {
    let map = || prop::collection::btree_map("[a-c]", 0..3i64, 1..4);
    let both = prop::collection::btree_map("[p-r]", map(), 1..3);
    (both.clone(), both, prop::collection::vec(("[p-r]", "[a-c]", any::<bool>()), 0..6)).prop_map(
        |(declared, live, picks)| {
            let (mut own, mut ignored) = (json!({}), Vec::new());
            for (section, key, is_ours) in picks {
                let there = live.get(&section).is_some_and(|map| map.contains_key(&key));
                if is_ours && there {
                    own[format!("f:{section}")][format!("f:{key}")] = json!({});
                } else if !is_ours {
                    ignored.push(format!(".{section}.{key}"));
                }
            }
            (json!(declared), json!(live), own, ignored)
        },
    )
}

/// What a forced apply of `body` makes of `live`: what is sent is set, what was ours and is not sent goes.
fn apply(live: &Value, own: &Value, body: &Value) -> Value {
    let mut after = live.clone();
    for (section, keys) in own.as_object().unwrap() {
        for key in keys.as_object().unwrap().keys() {
            let (section, key) = (&section[2..], &key[2..]);
            if body[section].get(key).is_none() {
                after[section].as_object_mut().unwrap().remove(key);
            }
        }
    }
    for (section, keys) in body.as_object().unwrap() {
        for (key, value) in keys.as_object().unwrap() {
            after[section][key] = value.clone();
        }
    }
    after
}

#[test]
fn only_what_matches_nothing_anywhere_is_told() {
    let (target, path) = (|rule| Unused { rule, path: None }, |rule, at| Unused { rule, path: Some(at) });
    for (one, other, both) in [
        (vec![target(0)], vec![target(0)], vec![target(0)]),
        (vec![target(0)], vec![path(0, 1)], vec![path(0, 1)]),
        (vec![path(0, 1), path(0, 2)], vec![target(0), path(1, 0)], vec![path(0, 1), path(0, 2)]),
        (vec![path(0, 1)], vec![path(0, 2)], vec![]),
        (vec![], vec![target(0)], vec![]),
    ] {
        let common = unused_everywhere([&one[..], &other[..]].into_iter());
        assert_eq!(common, Some(both), "{one:?} {other:?}");
    }
    assert_eq!(unused_everywhere([].into_iter()), None);
}

proptest! {
    #[test]
    fn applying_never_changes_what_is_ignored((declared, live, own, ignored) in case()) {
        let paths: Vec<Path> = ignored.iter().map(|path| path.parse().unwrap()).collect();
        let paths: Vec<Path> = paths.into_iter().filter(|path| path.find(&declared).is_some()).collect();
        let bare = live.clone();
        let with = with_entries(json!({"metadata": {}}), &[entry(US, "Apply", "", own.clone())]);
        let mut live = live;
        live["metadata"] = with["metadata"].clone();
        let body = keeping(&declared, &live, US, &paths);
        let after = apply(&bare, &own, &body);
        for path in &paths {
            let parent = Path::from(path.elements()[..1].to_vec());
            // Where the map itself is made, its keys are too.
            if parent.find(&bare).is_some() {
                prop_assert_eq!(path.find(&bare), path.find(&after), "{} of {}", path, body);
            }
        }
        // And nothing else is exempt: all the rest comes out as declared.
        let rest = masked(&declared, &paths);
        for (section, keys) in rest.as_object().unwrap() {
            for (key, value) in keys.as_object().unwrap() {
                prop_assert_eq!(&after[section][key], value);
            }
        }
    }

    #[test]
    fn what_is_ignored_makes_no_difference(one in 0..5i64, other in 0..5i64) {
        let exempt = of(&spec(&[(json!({"kind": "Deployment"}), &[".spec.replicas"])]), &deployment());
        let exempt = exempt.objects.into_values().next().unwrap();
        let live = |replicas: i64| {
            let mut live = deployment();
            live["spec"]["replicas"] = replicas.into();
            exempt.masked(&live)
        };
        let set = FieldSet::from_fields_v1(&json!({"f:spec": {"f:replicas": {}, "f:template": {}}})).unwrap();
        prop_assert_eq!(differing(&live(one), &live(other), &set, None), []);
    }
}

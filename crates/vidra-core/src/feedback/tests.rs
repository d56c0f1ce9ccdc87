//! Tests of status feedback: rules, values, bounds.

use serde_json::{Value, json};
use vidra_api::{Feedback, FeedbackExpression, FeedbackRule};

use super::*;
use crate::status::Reason;

fn rule(kind: &str, values: &[(&str, &str)]) -> FeedbackRule {
    let one = |(name, expression): &(&str, &str)| FeedbackExpression {
        name: (*name).into(),
        expression: (*expression).into(),
    };
    FeedbackRule {
        api_version: "example.com/v1".into(),
        kind: kind.into(),
        name: None,
        values: values.iter().map(one).collect(),
    }
}

fn known(api_version: &str, kind: &str) -> FeedbackRule {
    FeedbackRule { api_version: api_version.into(), kind: kind.into(), ..FeedbackRule::default() }
}

fn read(written: &[FeedbackRule]) -> Rules {
    let (rules, problems) = Rules::read(written);
    assert_eq!(problems, [] as [String; 0]);
    rules
}

fn key(group: &str, kind: &str, name: &str) -> ObjectKey {
    ObjectKey::new(&crate::object::Gvk::new(group, "v1", kind), "shop", name)
}

/// The values of one object, as JSON without their names; what is left out.
fn values(rules: &Rules, key: &ObjectKey, live: &Value) -> (Value, usize, Option<String>) {
    let Extract { values, left_out, why, .. } = rules.extract(key, &Reading::new(live), 2048);
    let told = values.iter().map(|value| {
        let mut json = json!(value);
        let name = json.as_object_mut().unwrap().remove("name").unwrap();
        (name.as_str().unwrap().to_owned(), json)
    });
    (told.collect(), left_out, why)
}

fn one(expression: &str, live: &Value) -> (Value, usize, Option<String>) {
    values(&read(&[rule("Gadget", &[("v", expression)])]), &key("example.com", "Gadget", "a"), live)
}

#[test]
fn expressions_give_texts_numbers_bools_and_json_and_nothing_where_a_field_is_missing() {
    let live = json!({
        "apiVersion": "example.com/v1", "kind": "Gadget",
        "metadata": {"name": "a", "generation": 7, "uid": "u", "resourceVersion": "9",
            "labels": {"v": "1.2"}, "managedFields": [{"manager": "m"}], "ownerReferences": [{"uid": "o"}],
            "annotations": {"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"}},
        "spec": {"size": 3, "token": "x"},
        "status": {"text": "one\ntwo\u{202e}", "load": 0.5, "large": 1e300, "is": true, "none": null,
            "list": [1, "\u{1b}"], "map": {"b": [1], "a": {}}, "unsigned": u64::MAX},
    });
    for (expression, told) in [
        ("status.text", json!({"text": "one two\u{fffd}"})),
        ("status.load", json!({"number": "0.5"})),
        ("status.large", json!({"number": "1e+300"})),
        ("status.unsigned", json!({"number": "1.8446744073709552e+19"})),
        ("spec.size", json!({"integer": 3})),
        ("spec.size > 2", json!({"boolean": true})),
        ("status.list", json!({"json": r#"[1,"\u001b"]"#})),
        ("status.map", json!({"json": r#"{"a":{},"b":[1]}"#})),
        ("{'x': [status.is]}", json!({"json": r#"{"x":[true]}"#})),
        ("status.?list[?1]", json!({"text": "\u{fffd}"})),
        ("metadata.labels.v", json!({"text": "1.2"})),
        ("metadata.annotations", json!({"json": r#"{"a":"b"}"#})),
        ("metadata.generation", json!({"integer": 7})),
    ] {
        assert_eq!(one(expression, &live), (json!({"v": told}), 0, None), "{expression}");
    }
    for expression in [
        "status.missing",
        "status.none",
        "status.?missing",
        "missing",
        "1 / 0",
        "metadata.uid",
        "metadata.managedFields",
        "metadata.ownerReferences",
        "metadata.resourceVersion",
        "metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']",
    ] {
        assert_eq!(one(expression, &live), (json!({}), 0, None), "{expression}");
    }
    let (told, left_out, why) = one("duration('1h')", &live);
    assert_eq!((told, left_out), (json!({}), 1));
    assert!(why.is_some_and(|why| why.starts_with("v is a timestamp or a duration")));
}

#[test]
fn what_is_too_large_or_too_deep_is_left_out_and_costs_no_more_than_it_may() {
    let nest = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    let live = |value: Value| json!({"status": {"v": value}});
    let doubled = (0..28).fold("[1]".to_owned(), |text, _| format!("{text}.map(a,[a,a])"));
    for (expression, value, told, left_out) in [
        ("status.v", json!("x".repeat(1024)), 1, 0),
        ("status.v", json!("x".repeat(1025)), 0, 1),
        ("status.v", json!("\u{7}".repeat(400)), 0, 1),
        ("status.v", json!("x".repeat(2 << 20)), 0, 1),
        ("status.v", nest(8), 1, 0),
        ("status.v", nest(9), 0, 1),
        ("status.v", nest(100), 0, 1),
        ("status.v", json!(vec!["x".repeat(100); 15]), 1, 0),
        ("status.v", json!(vec!["x".repeat(100); 50]), 0, 1),
        ("status.v", json!(vec![0; 1_000_000]), 0, 1),
        (&doubled, json!(1), 0, 1),
    ] {
        let (values, left, why) = one(expression, &live(value));
        assert_eq!((values.as_object().unwrap().len(), left), (told, left_out), "{expression} {why:?}");
        assert_eq!(why.is_some(), left > 0);
    }
    let many: Vec<_> = (0..10).map(|nth| format!("v{nth}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), "status.v")).collect();
    let rules = read(&[rule("Gadget", &many)]);
    let (values, left, why) =
        values(&rules, &key("example.com", "Gadget", "a"), &live(json!("x".repeat(500))));
    assert_eq!((values.as_object().unwrap().len(), left), (3, 7), "an object has no more than a target");
    assert!(why.is_some_and(|why| why.starts_with("v3 has no room")));
}

#[test]
fn json_has_four_kibibytes_where_its_target_has_room() {
    let rules = read(&[rule("Gadget", &[("v", "status.v")])]);
    let why = |items: usize, room: usize| {
        let live = json!({"status": {"v": vec!["x".repeat(97); items]}});
        rules.extract(&key("example.com", "Gadget", "a"), &Reading::new(&live), room).why
    };
    assert_eq!((why(15, 2048), why(40, 16_384)), (None, None));
    for (items, room, told) in [(20, 2048, "v has no room among"), (42, 16_384, "v is larger than 4 KiB")] {
        assert!(why(items, room).is_some_and(|why| why.starts_with(told)), "{items} {:?}", why(items, room));
    }
}

#[test]
fn a_rule_says_what_it_asks_for_whatever_an_object_has() {
    let rules = read(&[rule("Shop", &[("b", "status.b"), ("a", "status.a")]), known("batch/v1", "Job")]);
    let asked: Vec<_> = rules.all().iter().map(|rule| (&*rule.kind, rule.asks_for())).collect();
    assert_eq!(asked, [("Shop", vec!["b", "a"]), ("Job", vec!["succeeded", "failed", "active"])]);
}

#[test]
fn well_known_values_are_those_of_their_kinds() {
    let ingress =
        json!({"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}, {"hostname": "a.example", "ip": ""}]}});
    let scaled = json!({"spec": {"replicas": 3}, "status": {"updatedReplicas": 2, "readyReplicas": 1}});
    let number = |count: i64| json!({"integer": count});
    let workload =
        json!({"desired": number(3), "updated": number(2), "ready": number(1), "available": number(0)});
    let replicas = json!({"spec": {"replicas": 3}, "status": {"readyReplicas": 1}});
    let static_set = json!({"desired": number(3), "ready": number(1), "available": number(0)});
    for (api_version, kind, live, told) in [
        ("apps/v1", "Deployment", scaled.clone(), workload.clone()),
        ("apps/v1", "StatefulSet", scaled, workload),
        ("apps/v1", "Deployment", json!({"spec": {}}), json!({"desired": number(1)})),
        ("v1", "ReplicationController", replicas.clone(), static_set.clone()),
        ("apps/v1", "ReplicaSet", replicas, static_set),
        (
            "apps/v1",
            "DaemonSet",
            json!({"status": {"desiredNumberScheduled": 4, "numberReady": 3, "numberAvailable": 2}}),
            json!({"desired": number(4), "updated": number(0), "ready": number(3), "available": number(2)}),
        ),
        (
            "batch/v1",
            "Job",
            json!({"status": {"succeeded": 1}}),
            json!({"succeeded": number(1), "failed": number(0), "active": number(0)}),
        ),
        (
            "v1",
            "Service",
            json!({"spec": {"type": "LoadBalancer"}, "status": ingress}),
            json!({"addresses": {"text": "10.0.0.1,a.example"}}),
        ),
        ("v1", "Service", json!({"spec": {"type": "LoadBalancer", "clusterIPs": ["10.1.1.1"]}}), json!({})),
        (
            "v1",
            "Service",
            json!({"spec": {"clusterIPs": ["10.1.1.1", "fd00::1"]}}),
            json!({"addresses": {"text": "10.1.1.1,fd00::1"}}),
        ),
        ("v1", "Service", json!({"spec": {"clusterIPs": ["None"]}}), json!({})),
        (
            "v1",
            "Service",
            json!({"spec": {"type": "ExternalName", "externalName": "a.example"}}),
            json!({"addresses": {"text": "a.example"}}),
        ),
        (
            "networking.k8s.io/v1",
            "Ingress",
            json!({"status": ingress}),
            json!({"addresses": {"text": "10.0.0.1,a.example"}}),
        ),
        (
            "gateway.networking.k8s.io/v1",
            "Gateway",
            json!({"status": {"addresses": [{"value": "10.0.0.2"}]}}),
            json!({"addresses": {"text": "10.0.0.2"}}),
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            json!({"status": {"capacity": {"storage": "5Gi"}}}),
            json!({"capacity": {"text": "5Gi"}}),
        ),
    ] {
        let rules = read(&[known(api_version, kind)]);
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let (values, left_out, _) = values(&rules, &key(group, kind, "a"), &live);
        assert_eq!((values, left_out), (told, 0), "{api_version} {kind} {live}");
    }
}

#[test]
fn hostile_objects_give_nothing_and_stop_nothing() {
    for (api_version, kind) in [("apps/v1", "Deployment"), ("v1", "Service"), ("batch/v1", "Job")] {
        let rules = read(&[known(api_version, kind)]);
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        for live in [
            json!(null),
            json!([]),
            json!({"spec": 1, "status": "x", "metadata": 7}),
            json!({"spec": {"replicas": "many", "type": ["LoadBalancer"], "clusterIPs": {"a": 1}}, "status": []}),
            json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [1, {"ip": 1}, null]}}}),
        ] {
            let (_, left_out, why) = values(&rules, &key(group, kind, "a"), &live);
            assert_eq!((left_out, why), (0, None), "{kind} {live}");
        }
    }
    let hostname = |nth: usize| json!({"hostname": format!("{nth}.a.very.long.name.example.com")});
    let many: Vec<_> = (0..1000).map(hostname).collect();
    let live = json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": many}}});
    let told = values(&read(&[known("v1", "Service")]), &key("", "Service", "a"), &live);
    assert_eq!((told.0, told.1), (json!({}), 1));
}

#[test]
fn what_cannot_be_used_is_told_with_its_place_and_the_rest_is() {
    let secret = known("v1", "Secret");
    let family = FeedbackRule { api_version: "*.example.com".into(), ..rule("Gadget", &[("a", "status.a")]) };
    let (rules, problems) = Rules::read(&[
        rule("Gadget", &[("good", "status.a"), ("bad", "status.")]),
        secret,
        family,
        known("example.com/v1", "Gadget"),
        known("Example/v1", "Gadget"),
    ]);
    let begins = [
        "spec.statusFeedback[0].values[1].expression, column 8",
        "spec.statusFeedback[1]: nothing of a Secret comes back to the hub",
        "spec.statusFeedback[2]: apiVersion \"*.example.com\": name one group",
        "spec.statusFeedback[3]: the hub knows no values of Gadget",
        "spec.statusFeedback[4]: apiVersion \"Example/v1\"",
    ];
    assert_eq!(problems.len(), begins.len(), "{problems:#?}");
    for (told, begin) in problems.iter().zip(begins) {
        assert!(told.starts_with(begin), "{told}");
    }
    let (told, ..) = values(&rules, &key("example.com", "Gadget", "a"), &json!({"status": {"a": 1}}));
    assert_eq!(told, json!({"good": {"integer": 1}}));
    let four = "a.matches('1') && a.matches('2') && a.matches('3') && a.matches('4')";
    let (_, many) = Rules::read(&vec![rule("Gadget", &[("a", four)]); 11]);
    assert!(many.len() == 1 && many[0].contains("[10]") && many[0].contains("40 patterns"), "{many:?}");
    let (reason, message) = complaint(&problems, &[0]).unwrap();
    assert_eq!(reason, Reason::FeedbackInvalid);
    assert!(message.ends_with("; and 4 more"), "{message}");
}

#[test]
fn rules_are_about_declared_objects_and_those_about_none_are_told() {
    let named = FeedbackRule { name: Some("b".into()), ..rule("Gadget", &[("v", "status.v")]) };
    let written = [named, known("v1", "Service"), rule("Widget", &[("v", "status.v")])];
    let rules = read(&written);
    let mut keys: Vec<_> = (0..25).map(|nth| key("", "Service", &format!("s{nth:02}"))).collect();
    keys.extend(["a", "b"].map(|name| key("example.com", "Gadget", name)));
    let matched = rules.matches(keys.iter());
    let names: Vec<_> = matched.objects.iter().map(|key| &*key.name).collect();
    assert_eq!((names.len(), names[0], names[1], names[20], matched.beyond), (21, "b", "s00", "s19", 5));
    let unmatched = rules.without_match(keys.iter().map(|key| (&*key.group, &*key.kind, &*key.name)));
    assert_eq!(unmatched, [2]);
    let (reason, message) = complaint(&[], &unmatched).unwrap();
    assert_eq!(reason, Reason::FeedbackUnmatched);
    assert!(
        message.starts_with("spec.statusFeedback[2] matches no object of the manifest; correct"),
        "{message}"
    );
    assert_eq!(complaint(&[], &[]), None);
    let other = read(&written[..2]);
    assert!(rules.digest().is_some_and(|digest| digest.len() == 12) && rules.digest() != other.digest());
    assert_eq!(read(&[]).digest(), None);
}

#[test]
fn an_object_gives_twenty_values_at_most_and_no_more_expressions_are_tried() {
    let ten = |prefix: &str, expression: &str| {
        let names: Vec<_> = (0..10).map(|nth| format!("{prefix}{nth}")).collect();
        let all: Vec<_> = names.iter().map(|name| (name.as_str(), expression)).collect();
        rule("Deployment", &all)
    };
    let apps = |one: FeedbackRule| FeedbackRule { api_version: "apps/v1".into(), ..one };
    let key = key("apps", "Deployment", "web");
    let live = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 3}, "status": {"replicas": 3, "updatedReplicas": 3, "readyReplicas": 3}});
    let all = [ten("a", "spec.replicas"), ten("b", "spec.replicas"), known("apps/v1", "Deployment")];
    let (told, left_out, why) = values(&read(&all.map(apps)), &key, &live);
    assert_eq!(told.as_object().unwrap().len(), 20, "no more than the API server takes");
    let told = "is beyond the 20 values of one object; ask for fewer in spec.statusFeedback";
    assert!(left_out > 0 && why.unwrap().ends_with(told));

    let last = rule("Deployment", &[("last", "spec.replicas")]);
    let missing = [ten("a", "status.none"), ten("b", "status.none"), last];
    let (told, left_out, _) = values(&read(&missing.map(apps)), &key, &live);
    assert_eq!((told, left_out), (json!({}), 1), "twenty were tried");
}

#[test]
fn of_two_values_of_one_name_the_first_counts() {
    let rules = read(&[rule("Gadget", &[("v", "1")]), rule("Gadget", &[("v", "2"), ("w", "3")])]);
    let (told, left_out, _) = values(&rules, &key("example.com", "Gadget", "a"), &json!({}));
    assert_eq!((told, left_out), (json!({"v": {"integer": 1}, "w": {"integer": 3}}), 0));
}

#[test]
fn a_target_has_two_kibibytes_and_what_is_beyond_is_left_out_counted_and_told() {
    let rules = read(&[rule("Gadget", &[("v", "status.v"), ("w", "1")])]);
    let keys: Vec<_> = (0..5).map(|nth| key("example.com", "Gadget", &format!("g{nth}"))).collect();
    let extracts: Vec<_> = keys
        .iter()
        .map(|key| rules.extract(key, &Reading::new(&json!({"status": {"v": "x".repeat(500)}})), 2048))
        .collect();
    let told = gather(keys.iter().zip(&extracts), (0, 2048));
    assert_eq!((told.objects.len(), told.left_out), (4, 3), "a small one goes in yet");
    let message = told.message.clone().unwrap();
    assert!(message.starts_with("Gadget g3: v has no room among the values of a VidraTarget"), "{message}");
    assert!(json!(told.objects).to_string().len() <= 2048 + 200);
    let few = gather(keys.iter().zip(&extracts).take(1), (3, 2048));
    assert_eq!(
        (few.left_out, few.message.is_some_and(|told| told.contains("set name in more rules"))),
        (3, true)
    );
    assert!(gather(keys.iter().zip(&[Extract::default()]), (0, 2048)).is_empty());
    assert_eq!(gather([].into_iter(), (0, 2048)), Feedback::default());
}

#[test]
fn the_values_of_an_object_cost_at_most_twice_what_one_may() {
    let live = json!({"status": {"list": (0..1000).collect::<Vec<_>>(), "phase": "Up"}});
    let costly = "status.list.filter(x, x >= 0 && x < 900).size()";
    let all: Vec<_> = ["a", "b", "c", "d"]
        .into_iter()
        .map(|name| (name, costly))
        .chain([("phase", "status.phase")])
        .collect();
    let (told, left_out, why) =
        values(&read(&[rule("Gadget", &all)]), &key("example.com", "Gadget", "a"), &live);
    assert_eq!(told["a"], json!({"integer": 900}));
    assert!(told.get("d").is_none() && left_out >= 2, "{told}, {left_out}");
    assert!(why.is_some_and(|why| why.contains("costs too much: with those before it")), "{told}");
}

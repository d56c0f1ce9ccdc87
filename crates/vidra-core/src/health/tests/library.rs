//! Every shipped rule has a source and cases, and every case gets its verdict.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::health::{
    Basis, HealthStatus, facts::Facts, judge, library, rule::Groups, rule::RuleText, rules::Origin,
    rules::RuleSet, rules::Rules,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    project: String,
    rules: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    object: Value,
    health: String,
}

/// The object of a case, with what its rule says of its type where it does not say so itself.
fn object(rule: &Value, given: &Value) -> Value {
    let api_version = rule["apiVersion"].as_str().unwrap_or_default().replace("*.", "example.");
    let has_version = api_version.contains('/') || !api_version.contains('.');
    let api_version = if has_version { api_version } else { format!("{api_version}/v1") };
    let mut object = given.clone();
    for (name, value) in [("apiVersion", json!(api_version)), ("kind", rule["kind"].clone())] {
        if object[name].is_null() {
            object[name] = if value.is_null() { json!("Example") } else { value };
        }
    }
    object
}

/// What a rule says, without its source and its cases.
fn without_proof(rule: &Value) -> RuleText {
    let mut rule = rule.clone();
    rule.as_object_mut().unwrap().retain(|field, _| field != "source" && field != "cases");
    serde_json::from_value(rule).unwrap()
}

/// What is wrong with a rule, its source and its cases.
fn wrong(name: &str, nth: usize, rule: &Value, set: &RuleSet) -> Vec<String> {
    let place = format!("{name}.yaml, rules[{nth}] ({} {})", rule["apiVersion"], rule["kind"]);
    let mut wrong = Vec::new();
    if !rule["source"].as_str().is_some_and(|source| source.starts_with("https://")) {
        wrong.push(format!("{place}: source is missing"));
    }
    let cases = serde_json::from_value::<Vec<Case>>(rule["cases"].clone()).unwrap_or_default();
    if cases.is_empty() {
        wrong.push(format!("{place}: cases are missing, or one is not {{name, object, health}}"));
    }
    let own = without_proof(rule).scope().map(|scope| scope.to_string()).unwrap_or_default();
    let (mut decided, mut proved) = (0, BTreeSet::new());
    for case in &cases {
        let object = object(rule, &case.object);
        let verdict = judge(&object, set, &Facts::default());
        let scope = match verdict.basis {
            Basis::Rule(found) => found.scope.to_string(),
            _ => String::new(),
        };
        decided += usize::from(!scope.is_empty());
        let got = verdict.health.status.to_string();
        if scope == own {
            proved.insert(got.clone());
        }
        if got != case.health {
            let health = verdict.health;
            wrong.push(format!(
                "{place}, case {:?}: {} and not {got} ({}: {}) by {scope:?}",
                case.name, case.health, health.reason, health.message
            ));
        }
    }
    if decided == 0 {
        wrong.push(format!("{place}: no case is decided by a rule"));
    }
    for (written, health) in [("failed", "Failed"), ("suspended", "Suspended"), ("current", "Current")] {
        if rule.get(written).is_some() && !proved.contains(health) {
            wrong.push(format!("{place}: {written} is written, and no case is {health} by it"));
        }
    }
    // A new object has failed at nothing.
    for new in [
        json!({}),
        json!({"status": {}}),
        json!({"status": {"conditions": []}}),
        json!({"status": {"conditions": [{"type": "Other", "status": "False"}]}}),
    ] {
        if judge(&object(rule, &new), set, &Facts::default()).health.status == HealthStatus::Failed {
            wrong.push(format!("{place}: a new object is Failed: {new}"));
        }
    }
    wrong
}

#[test]
fn every_shipped_rule_has_a_source_and_cases_and_every_case_its_verdict() {
    let set = library::rule_set();
    let (mut all, mut texts) = (Vec::new(), Vec::new());
    for (name, text) in library::FILES {
        let file: File = serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{name}.yaml: {error}"));
        assert_eq!(file.project, *name, "a file is named for its project");
        let read = library::entries(name, text);
        let written: Vec<_> = file.rules.iter().map(without_proof).collect();
        let rules: Vec<_> = read.iter().map(|(_, rule)| rule.clone()).collect();
        assert_eq!(rules, written, "{name}.yaml: each rule is read as it is written");
        texts.extend(read);
        all.extend(file.rules.iter().enumerate().flat_map(|(nth, rule)| wrong(name, nth, rule, &set)));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
    let placed = texts.iter().map(|(place, text)| (place.clone(), text));
    let (read, problems) = Rules::read(Origin::Shipped, placed, &Rules::default());
    assert!(problems.is_empty(), "{problems:#?}");
    let rules = library::rules();
    assert!(rules.scopes().eq(read.scopes()), "what each is about is known before it is read");
    assert!(rules.scopes().any(|scope| scope.groups == Groups::One("cert-manager.io".to_owned())));
}

#[test]
fn a_rule_without_a_source_or_cases_and_a_wrong_case_are_told() {
    let rule = json!({"apiVersion": "cert-manager.io/v1", "kind": "Certificate"});
    let told = wrong("x", 0, &rule, &library::rule_set()).join("\n");
    assert!(told.contains("source is missing") && told.contains("cases are missing"), "{told}");
    let case = json!({"name": "new", "object": {}, "health": "Current"});
    let rule =
        json!({"apiVersion": "cert-manager.io", "kind": "Issuer", "source": "https://x", "cases": [case]});
    assert!(wrong("x", 0, &rule, &library::rule_set()).join("\n").contains("Current and not InProgress"));
    let case = json!({"name": "new", "object": {}, "health": "InProgress"});
    let rule = json!({"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "source": "https://x", "cases": [case],
        "failed": "false", "suspended": "false", "current": "false"});
    let told = wrong("x", 0, &rule, &library::rule_set());
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].contains("failed is written, and no case is Failed by it"), "{told:?}");
    let none = RuleSet::new(Arc::default(), Arc::default(), Arc::new(Rules::default()));
    assert!(wrong("x", 0, &rule, &none).join("\n").contains("no case is decided by a rule"));
}

#[test]
fn a_route_with_as_many_parents_as_it_may_have_is_judged_within_the_bound_of_steps() {
    let parents: Vec<_> =
        (0..32).map(|nth| json!({"name": "shop", "sectionName": format!("listener-{nth}")})).collect();
    let condition = |kind| json!({"type": kind, "status": "True", "observedGeneration": 1});
    let conditions: Vec<_> = ["A", "B", "C", "D", "E", "F", "ResolvedRefs", "Accepted"].map(condition).into();
    let answers: Vec<_> =
        parents.iter().rev().map(|parent| json!({"parentRef": parent, "conditions": conditions})).collect();
    let route = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"namespace": "a", "generation": 1}, "spec": {"parentRefs": parents},
        "status": {"parents": answers}});
    let health = judge(&route, &library::rule_set(), &Facts::default()).health;
    assert_eq!(health.status, HealthStatus::Current, "{}", health.message);
}

#[test]
fn a_shipped_rule_is_read_when_an_object_of_its_scope_is_judged_first_and_once() {
    static READ: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    let read = || READ.each_ref().map(|count| count.load(Ordering::Relaxed));
    let rule = |kind: &str, nth: u8| {
        let text = RuleText {
            api_version: "example.com/v1".to_owned(),
            kind: Some(kind.to_owned()),
            current: Some("true".to_owned()),
            ..RuleText::default()
        };
        (text.scope().unwrap(), [nth; 32], move || {
            READ[usize::from(nth)].fetch_add(1, Ordering::Relaxed);
            text
        })
    };
    let rules = Arc::new(Rules::lazy([rule("Gadget", 0), rule("Widget", 1)]));
    let set = RuleSet::new(Arc::default(), Arc::default(), rules.clone());
    let health = |kind| {
        let object = json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "a"}});
        judge(&object, &set, &Facts::default()).health.status
    };
    assert_ne!((rules.digest(), rules.scopes().count()), (String::new(), 0));
    health("Other");
    assert_eq!(read(), [0, 0], "nothing of theirs was judged");
    assert_eq!([health("Widget"), health("Widget")], [HealthStatus::Current; 2]);
    assert_eq!(read(), [0, 1]);
}

#[test]
fn the_digest_of_a_shipped_rule_is_of_what_it_says() {
    let rule = "apiVersion: example.com/v1\n  kind: Gadget\n  source: https://example.com\n  # Why.\n  failed: >-\n    a\n    && b\n  current: c";
    let other = |from: &str, to: &str| {
        assert!(rule.contains(from), "{from}");
        library::hash(&rule.replace(from, to)) != library::hash(rule)
    };
    for (from, to) in
        [("https://example.com", "https://example.org"), ("# Why.", "# Because."), ("  # Why.\n", "")]
    {
        assert!(!other(from, to), "{from}");
    }
    for (from, to) in [
        ("example.com/v1", "example.org/v1"),
        ("kind: Gadget\n", "kind: Widget\n"),
        ("&& b", "|| b"),
        ("current: c", "current: d"),
        ("failed:", "suspended:"),
        ("current: c", "current: c\n  observedGeneration: Ignore"),
    ] {
        assert!(other(from, to), "{from}");
    }
}

//! health: objects of a file with their verdicts.

use std::sync::Arc;
use std::time::Duration;

use insta::assert_snapshot;
use kubectl_vidra::report::health::Report;
use kubectl_vidra::text;
use serde_json::{Value, json};
use vidra_core::health::HealthStatus::{Current, Failed, InProgress, Suspended};
use vidra_core::health::rule::RuleText;
use vidra_core::health::rules::{Origin, RuleSet, Rules};

/// A rule of each origin that a file can have; the digest of shipped ones would change with each of them.
fn rules() -> RuleSet {
    let of = |origin, rules: Value| {
        let rules: Vec<RuleText> = serde_json::from_value(rules).unwrap();
        let (rules, problems) =
            Rules::read(origin, rules.iter().map(|rule| (String::new(), rule)), &Rules::default());
        assert!(problems.is_empty(), "{problems:?}");
        Arc::new(rules)
    };
    let resource = json!([{
        "apiVersion": "example.com/v1", "kind": "Shop", "suspended": "spec.?closed.orValue(false)",
        "failed": "status.phase == 'Broken'", "current": "status.phase == 'Open'", "message": "status.message",
    }]);
    let fleet = json!([{"apiVersion": "*.example.com", "current": "status.ok"}]);
    RuleSet::new(of(Origin::Resource, resource), of(Origin::Fleet, fleet), Arc::default())
}

fn shop(name: &str, fields: Value) -> Value {
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"namespace": "team-a", "name": name},
    });
    for (field, value) in fields.as_object().unwrap() {
        object[field] = value.clone();
    }
    object
}

/// A CRD whose kind has conditions and a column of its state.
fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "machines.other.org"},
        "spec": {"group": "other.org", "names": {"kind": "Machine"}, "versions": [{
            "name": "v1", "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"properties": {"status": {"properties": {"conditions": {}}}}}},
            "additionalPrinterColumns": [{"name": "State", "jsonPath": ".status.state", "type": "string"}],
        }]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    })
}

fn machine(name: &str, status: Value) -> Value {
    json!({"apiVersion": "other.org/v1", "kind": "Machine", "metadata": {"name": name}, "status": status})
}

fn fleet() -> Vec<Value> {
    vec![
        shop("open", json!({"status": {"phase": "Open"}})),
        shop("broken", json!({"status": {"phase": "Broken", "message": "3 of 4 doors\n\u{1b}[31mjam"}})),
        shop("closed", json!({"spec": {"closed": true}})),
        shop("new", json!({})),
        json!({"apiVersion": "sub.example.com/v1", "kind": "Till", "metadata": {"name": "a"}, "status": {"ok": true}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "team-a", "name": "settings"}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "generation": 2}, "status": {"observedGeneration": 1}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gone", "deletionTimestamp": "2026-03-01T12:00:00Z"}}),
        machine("silent", json!(null)),
        machine("well", json!({"state": "Running"})),
        machine("starting", json!({"state": "Starting"})),
        // Behind its objects, and it counts all the same.
        crd(),
    ]
}

#[test]
fn each_object_has_a_verdict_a_reason_and_the_rule_that_decided() {
    let report = Report::of(&fleet(), &rules(), None);
    assert_snapshot!("health", report.text(false));
    assert_snapshot!("health_wide", report.text(true));
    assert_snapshot!("health_json", text::json(&report.value()));
}

#[test]
fn waits_are_over_unless_an_age_is_given() {
    let silent = [crd(), machine("silent", json!(null))];
    let reason = |age: Option<u64>| {
        let value = Report::of(&silent, &rules(), age.map(Duration::from_secs)).value();
        value["objects"][1]["reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(reason(None), "NoStatus");
    assert_eq!(reason(Some(59)), "NoStatusYet");
    assert_eq!(reason(Some(60)), "NoStatus");
}

#[test]
fn an_expression_that_counts_as_not_true_is_told_with_why() {
    let object = shop("open", json!({"status": {"phase": "Open"}}));
    let judged_of = |object: &_, rule: Value, origin| {
        let rule: RuleText = serde_json::from_value(rule).unwrap();
        let (rules, problems) = Rules::read(origin, [(String::new(), &rule)], &Rules::default());
        assert!(problems.is_empty(), "{problems:?}");
        let (rules, none) = (Arc::new(rules), Arc::default());
        let set = match origin {
            Origin::Shipped => RuleSet::new(Arc::clone(&none), none, rules),
            _ => RuleSet::new(Arc::clone(&none), rules, none),
        };
        Report::of(std::slice::from_ref(object), &set, None)
    };
    let judged = |rule: Value, origin| judged_of(&object, rule, origin);
    let notes = |report: &Report| {
        let notes: Vec<_> =
            report.text(false).lines().filter(|line| line.starts_with("Note")).map(str::to_owned).collect();
        notes
    };
    let rule = json!({
        "apiVersion": "example.com/v1", "kind": "Shop", "suspended": "spec.closed", "inProgress": "status.pase == 'Opening'",
        "failed": "status.phase", "current": "status.phase == 'Open'",
    });
    let report = judged(rule.clone(), Origin::Fleet);
    assert_eq!(
        notes(&report),
        [
            "Note: failed of example.com/Shop (fleet) counts as not true for team-a/open: it gives a text, not true or false",
            "Note: inProgress of example.com/Shop (fleet) counts as not true for team-a/open: there is no field pase",
            "Note: suspended of example.com/Shop (fleet) counts as not true for team-a/open: the object has no spec",
        ]
    );
    let told = &report.value()["objects"][0]["undefined"];
    assert_eq!(told[1], json!({"expression": "inProgress", "message": "there is no field pase"}));
    // A name is a member's to say.
    let hostile = shop("a\n\u{1b}[31mNote: b", json!({"status": {"phase": "Open"}}));
    let told = notes(&judged_of(&hostile, rule.clone(), Origin::Fleet));
    assert!(told.len() == 3 && !told.concat().contains('\u{1b}'), "{told:?}");
    // Nobody changes a shipped rule; programs are told of it.
    let shipped = judged(rule, Origin::Shipped);
    assert_eq!(
        (notes(&shipped), shipped.value()["objects"][0]["undefined"].as_array().unwrap().len()),
        (vec![], 3)
    );
    // What is not asked is not told.
    let rule = json!({"apiVersion": "example.com", "kind": "Shop", "failed": "status.phase == 'Open'", "current": "status.pase"});
    assert_eq!(notes(&judged(rule, Origin::Fleet)), [] as [&str; 0]);
}

#[test]
fn what_is_required_holds_for_each_object() {
    let (open, broken) = (json!({"status": {"phase": "Open"}}), json!({"status": {"phase": "Broken"}}));
    let (closed, new) = (json!({"spec": {"closed": true}}), json!({}));
    for (objects, required, is) in [
        (vec![&open, &closed, &new], vec![], true),
        (vec![&open, &broken], vec![], false),
        (vec![&open], vec![Current], true),
        (vec![&open, &new], vec![Current], false),
        (vec![&open, &closed], vec![Current], false),
        (vec![&open, &closed], vec![Current, Suspended], true),
        (vec![&broken], vec![Failed], true),
        (vec![&new, &broken], vec![InProgress], false),
    ] {
        let objects: Vec<_> = objects.into_iter().map(|fields| shop("a", fields.clone())).collect();
        assert_eq!(
            Report::of(&objects, &rules(), None).is_as_required(&required),
            is,
            "{objects:?} {required:?}"
        );
    }
}

#[test]
fn a_reason_says_why_a_kind_without_a_built_in_check_is_as_it_is() {
    let condition = |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status}]});
    let doubled = "x".repeat(10_000);
    let rules: Vec<RuleText> = serde_json::from_value(json!([
        {"apiVersion": "a.org", "current": "status.a", "failed": "status.b", "inProgress": "status.c"},
        {"apiVersion": "b.org", "kind": "A", "current": "status.l.map(x, status.t).join('') == ''"},
        {"apiVersion": "c.org", "kind": "A", "current": "status.("},
    ]))
    .unwrap();
    let (rules, problems) =
        Rules::read(Origin::Fleet, rules.iter().map(|rule| (String::new(), rule)), &Rules::default());
    assert_eq!(problems.len(), 1, "{problems:?}");
    let rules = RuleSet::new(Arc::default(), Arc::new(rules), Arc::default());
    for (group, status, reason) in [
        ("a.org", json!({"a": true}), "Current"),
        ("a.org", json!({"b": true}), "HealthCheckFailed"),
        ("a.org", json!({"c": true}), "HealthCheckInProgress"),
        ("a.org", json!({"a": false}), "HealthCheckNotMet"),
        ("b.org", json!({"l": vec![1; 1000], "t": doubled}), "HealthCheckTooCostly"),
        ("c.org", json!({"a": true}), "HealthRuleInvalid"),
        ("d.org", condition("Ready", "False"), "NotReady"),
        ("d.org", condition("Synced", "Unknown"), "ConditionNotTrue"),
        ("d.org", condition("Degraded", "True"), "ConditionTrue"),
        ("d.org", condition("Stalled", "True"), "Stalled"),
        ("d.org", condition("Reconciling", "True"), "Reconciling"),
        ("d.org", json!({"observedGeneration": 1}), "LatestGenerationNotObserved"),
    ] {
        let object = json!({"apiVersion": format!("{group}/v1"), "kind": "A", "metadata": {"generation": 2}, "status": status});
        let value = Report::of(&[object], &rules, None).value();
        assert_eq!(value["objects"][0]["reason"], reason, "{group} {status}");
    }
    let autoscaler =
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}});
    let reason = |age| {
        Report::of(std::slice::from_ref(&autoscaler), &rules, age).value()["objects"][0]["reason"].clone()
    };
    assert_eq!(reason(None), "NoMetrics");
    assert_eq!(reason(Some(Duration::from_secs(299))), "ScalingNotActive");
}

//! Kinds that no rule knows: conditions, columns, and waits that end.

use std::time::Duration;

use serde_json::{Value, json};

use crate::health::{
    Basis, HealthStatus, facts::Change, facts::Facts, facts::KindFacts, facts::Waits, facts::status_mark,
    facts::unanswered, judge, rules::RuleSet,
};
use HealthStatus::{Current, Failed, InProgress};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Status, reason, and when it ends in seconds.
fn told(live: &Value, facts: &Facts) -> (HealthStatus, &'static str, Option<u64>) {
    let set = RuleSet::default();
    let verdict = judge(live, &set, facts);
    (verdict.health.status, verdict.health.reason, verdict.ends.map(|ends| ends.as_secs()))
}

fn widget(status: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"generation": 2}, "status": status})
}

#[test]
fn the_condition_that_decides_tells_why_in_its_own_words() {
    let (set, facts) = (RuleSet::default(), Facts::default());
    let said = |kind: &str, status: &str, text: &str| {
        let why = json!([{"type": "Synced", "status": "True", "message": "in step"},
            {"type": kind, "status": status, "message": text}]);
        let live = widget(json!({"observedGeneration": 2, "conditions": why}));
        let verdict = judge(&live, &set, &facts);
        assert!(verdict.quotes(), "{kind}");
        (verdict.health.message.clone(), verdict.grounds(&live))
    };
    for (kind, status, text, told) in [
        (
            "Ready",
            "False",
            "no disk in rack 7: ask Ann",
            "The condition Ready is not True: no disk in rack #: ask Ann",
        ),
        ("Degraded", "True", " ", "The condition Degraded is True"),
        ("Stalled", "True", "gave up, token=abc", "The controller reports Stalled: gave up, token=#"),
        (
            "Reconciling",
            "True",
            "step\u{1b}[2J one",
            "The controller reports Reconciling: step\u{fffd}[#J one",
        ),
    ] {
        assert_eq!(said(kind, status, text).0, told);
    }
    let [one, other] = ["no disk", "no host: none"].map(|text| said("Ready", "False", text));
    assert_eq!(one.1, other.1, "a text alone is another");
    assert_ne!(one.1, said("Healthy", "False", "no disk").1);
    assert_ne!(one.1, said("Ready", "True", "no disk").1);
}

#[test]
fn of_a_text_of_megabytes_that_means_no_good_the_first_words_are_told_and_no_secret() {
    let evil = "\u{1b}[2J\u{9b}\u{202e}\r\nBearer abcdef at https://ann:hunter@db.example";
    let filled = |to: usize| format!("{} {evil}", "7".repeat(to));
    // Where what is read of it ends in the middle of the secrets, too.
    let starts = (1950..2060).map(|to| (filled(to), 4 << 10)).chain([(evil.to_owned(), 4 << 20)]);
    for (start, more) in starts {
        let text = format!("{start}{}", "x".repeat(more));
        let live = widget(json!({"conditions": [{"type": "Ready", "status": "False", "message": text}]}));
        let message = judge(&live, &RuleSet::default(), &Facts::default()).health.message;
        let told = message.strip_prefix("The condition Ready is not True").unwrap();
        assert!(told.chars().count() <= 2 + 256, "{told}");
        let is_clean = !told.contains(|c: char| crate::unseen::is_unseen(c));
        assert!(is_clean && !["abc", "ann", "hun"].iter().any(|secret| told.contains(secret)), "{told:?}");
    }
}

#[test]
fn conditions_of_a_closed_table_are_heard() {
    let plain = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let ready = || plain("Ready", "True");
    let mild = |kind: &str, status: &str, severity: &str| json!({"type": kind, "status": status, "severity": severity});
    let of = |kind: &str, status: &str, generation: i64| json!({"type": kind, "status": status, "observedGeneration": generation});
    for (conditions, status, reason) in [
        (vec![ready()], Current, "Current"),
        (vec![plain("Ready", "False")], InProgress, "NotReady"),
        (vec![plain("Ready", "Unknown")], InProgress, "NotReady"),
        (vec![plain("Degraded", "True")], InProgress, "ConditionTrue"),
        (vec![plain("Degraded", "False")], Current, "Current"),
        (vec![plain("ReplicaFailure", "True")], InProgress, "ConditionTrue"),
        (vec![plain("ReleaseFailed", "True")], InProgress, "ConditionTrue"),
        (vec![plain("ReconcileError", "True")], InProgress, "ConditionTrue"),
        (vec![plain("Failed", "True")], InProgress, "ConditionTrue"),
        (vec![plain("Available", "False")], InProgress, "ConditionNotTrue"),
        (vec![plain("Healthy", "Unknown")], InProgress, "ConditionNotTrue"),
        (vec![plain("Succeeded", "Unknown")], InProgress, "ConditionNotTrue"),
        (vec![plain("Synced", "False")], InProgress, "ConditionNotTrue"),
        (vec![plain("Established", "False")], InProgress, "ConditionNotTrue"),
        (vec![plain("Programmed", "False")], InProgress, "ConditionNotTrue"),
        (vec![plain("Accepted", "False")], InProgress, "ConditionNotTrue"),
        (vec![plain("ControlPlaneReady", "False")], InProgress, "ConditionNotTrue"),
        (vec![plain("RemoteAvailable", "False")], InProgress, "ConditionNotTrue"),
        (vec![plain("Accepted", "True"), plain("Programmed", "True")], Current, "Current"),
        (vec![plain("Reconciling", "True"), ready()], InProgress, "Reconciling"),
        (vec![plain("Stalled", "True"), ready()], Failed, "Stalled"),
        // Beside a Ready that is True only exact words, and none that only warns.
        (vec![ready(), plain("Degraded", "True")], InProgress, "ConditionTrue"),
        (vec![ready(), plain("Synced", "False")], InProgress, "ConditionNotTrue"),
        (vec![ready(), plain("ControlPlaneReady", "False")], Current, "Current"),
        (vec![ready(), plain("ReleaseFailed", "True")], Current, "Current"),
        (vec![ready(), mild("Available", "False", "Info")], Current, "Current"),
        (vec![ready(), mild("Available", "False", "Warning")], Current, "Current"),
        (vec![ready(), mild("Available", "False", "Error")], InProgress, "ConditionNotTrue"),
        (vec![mild("Available", "False", "Info")], InProgress, "ConditionNotTrue"),
        // What is no word of the table says nothing, and neither does its opposite.
        (vec![plain("Paused", "True")], Current, "Current"),
        (vec![plain("NotReady", "False")], Current, "Current"),
        (vec![plain("Unavailable", "False")], Current, "Current"),
        (vec![plain("NoError", "True")], Current, "Current"),
        // A condition's own generation.
        (vec![of("Ready", "True", 2)], Current, "Current"),
        (vec![of("Ready", "True", 1)], InProgress, "LatestGenerationNotObserved"),
        (vec![of("Accepted", "True", 1)], InProgress, "LatestGenerationNotObserved"),
        (vec![of("Degraded", "False", 1)], Current, "Current"),
    ] {
        let live = widget(json!({"conditions": conditions}));
        assert_eq!(told(&live, &Facts::default()), (status, reason, None), "{live}");
    }
    // One that has observed the generation as a whole need not say so again.
    let live = widget(json!({"observedGeneration": 2, "conditions": [of("Ready", "True", 1)]}));
    assert_eq!(told(&live, &Facts::default()).0, Current);
    // A type is a controller's text.
    let live = widget(json!({"conditions": [plain("\u{202e}Ready", "False")]}));
    let set = RuleSet::default();
    assert!(!judge(&live, &set, &Facts::default()).health.message.contains('\u{202e}'));
}

#[test]
fn what_has_another_type_or_is_huge_is_taken_for_absent_and_stops_nothing() {
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "9999-12-31T23:59:59Z"});
    let odd = [json!({}), json!(null), json!([]), json!(7), json!("Ready"), json!({"status": "False"})];
    let typed = [json!({"type": 7, "status": ["False"]}), json!({"type": "Degraded", "status": true})];
    let many = odd.into_iter().chain(typed).cycle().take(100_000);
    for generation in [json!(null), json!("2"), json!("x"), json!(2.5), json!(u64::MAX), json!({"a": 2})] {
        let conditions: Vec<_> = many.clone().chain([ready.clone()]).collect();
        let live = widget(json!({"observedGeneration": generation, "conditions": conditions}));
        assert_eq!(told(&live, &Facts::default()).0, Current, "{generation}");
    }
    for generation in [json!(-1), json!(i64::MAX), json!("-9223372036854775808")] {
        let live = widget(json!({"observedGeneration": generation, "conditions": [ready]}));
        assert_eq!(told(&live, &Facts::default()).1, "LatestGenerationNotObserved", "{generation}");
    }
    for status in [json!([]), json!("Ready"), json!(1), json!({"conditions": {"type": "Ready"}})] {
        assert_eq!(told(&widget(status), &Facts::default()).0, Current);
    }
}

#[test]
fn a_column_that_a_crd_prints_speaks_where_no_condition_does() {
    let facts = Facts {
        kind: KindFacts { columns: vec![vec!["status".into(), "state".into()]], ..KindFacts::default() },
        ..Facts::default()
    };
    for (status, health) in [
        (json!({"state": "Running"}), Current),
        (json!({"state": "ready"}), Current),
        (json!({"state": true}), Current),
        (json!({"state": false}), InProgress),
        (json!({"state": "Failed"}), InProgress),
        (json!({"state": "PENDING"}), InProgress),
        (json!({"state": "Frobbing"}), Current),
        (json!({"phase": "Failed"}), Current),
        (json!({"state": "Failed", "conditions": [{"type": "Ready", "status": "True"}]}), Current),
    ] {
        let live = widget(status);
        assert_eq!(told(&live, &facts).0, health, "{live}");
    }
}

#[test]
fn what_a_crd_declares_is_read_from_it() {
    let columns = json!([
        {"name": "State", "type": "string", "jsonPath": ".status.state"},
        {"name": "PHASE", "type": "string", "jsonPath": ".status.phase", "priority": 0},
        {"name": "Status", "type": "string", "jsonPath": ".status.wide", "priority": 1},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"},
        {"name": "Health", "type": "string", "jsonPath": ".spec.health"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    let schema =
        |fields: Value| json!({"openAPIV3Schema": {"properties": {"status": {"properties": fields}}}});
    let crd = json!({"spec": {"versions": [
        {"name": "v1", "schema": schema(json!({"conditions": {}, "state": {}})), "subresources": {"status": {}},
            "additionalPrinterColumns": columns},
        {"name": "v2", "schema": schema(json!({"observedGeneration": {}}))},
    ]}});
    let column = |name: &str| vec!["status".to_owned(), name.to_owned()];
    let first = KindFacts {
        has_status: Some(true),
        declares_conditions: true,
        declares_generation: false,
        columns: vec![column("state"), column("phase")],
    };
    assert_eq!(KindFacts::of_crd(&crd, "v1"), first);
    let second = KindFacts { has_status: Some(false), declares_generation: true, ..KindFacts::default() };
    assert_eq!(KindFacts::of_crd(&crd, "v2"), second);
    assert_eq!(KindFacts::of_crd(&crd, "v3"), KindFacts::default());
    assert_eq!(KindFacts::of_crd(&json!(null), "v1"), KindFacts::default());
}

/// It is kept for each kind, and looked at for each event.
#[test]
fn of_the_columns_of_a_crd_a_small_extract_is_kept() {
    let column = |path: String| json!({"name": "Ready", "jsonPath": path});
    let long = column(format!(".status{}", ".a".repeat(1_000_000)));
    let columns: Vec<_> =
        [long].into_iter().chain((0..10_000).map(|nth| column(format!(".status.c{nth}")))).collect();
    let crd = json!({"spec": {"versions": [{"name": "v1", "additionalPrinterColumns": columns}]}});
    let kept = KindFacts::of_crd(&crd, "v1").columns;
    assert_eq!(kept.len(), 8);
    assert_eq!(kept.first().unwrap(), &["status", "c0"], "one that is too long says nothing");
}

#[test]
fn a_status_that_is_declared_is_waited_for_and_only_so_long() {
    let facts = |declares_conditions, declares_generation, age: u64, was_current| Facts {
        kind: KindFacts { declares_conditions, declares_generation, ..KindFacts::default() },
        age: Some(seconds(age)),
        was_current,
        ..Facts::default()
    };
    let waits = |left| (InProgress, "NoStatusYet", Some(left));
    for (status, facts, wanted) in [
        (json!(null), facts(true, false, 0, false), waits(60)),
        (json!({}), facts(false, true, 59, false), waits(1)),
        (json!({"conditions": []}), facts(true, false, 10, false), waits(50)),
        (json!({"users": 3}), facts(true, false, 10, false), waits(50)),
        (json!(null), facts(true, true, 60, false), (Current, "NoStatus", None)),
        (json!(null), facts(true, true, 10_000, false), (Current, "NoStatus", None)),
        (json!(null), facts(true, true, 0, true), (Current, "NoStatus", None)),
        (json!(null), Facts { age: None, ..facts(true, true, 0, false) }, (Current, "NoStatus", None)),
        (json!(null), facts(false, false, 0, false), (Current, "Current", None)),
        (json!({"observedGeneration": 2}), facts(true, true, 0, false), (Current, "Current", None)),
        (json!({"conditions": [{"type": "Odd"}]}), facts(true, true, 0, false), (Current, "Current", None)),
        (
            json!({"conditions": [{"type": "Ready", "status": "True"}]}),
            facts(true, true, 0, false),
            (Current, "Current", None),
        ),
    ] {
        let live = widget(status);
        assert_eq!(told(&live, &facts), wanted, "{live} {facts:?}");
    }
    let short =
        Facts { waits: Waits { no_status: seconds(5), ..Waits::default() }, ..facts(true, false, 6, false) };
    assert_eq!(told(&widget(json!(null)), &short).1, "NoStatus");
    // One that says nothing is told apart from one that says that it is well.
    let set = RuleSet::default();
    let verdict = judge(&widget(json!(null)), &set, &Facts::default());
    assert!(matches!(verdict.basis, Basis::Nothing));
}

#[test]
fn a_status_from_before_our_change_is_waited_out() {
    let facts = |has_status, ago: u64, status_since| Facts {
        kind: KindFacts { has_status, ..KindFacts::default() },
        change: Some(Change { ago: seconds(ago), status_since }),
        ..Facts::default()
    };
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let stale = |left| (InProgress, "StatusMayBeStale", Some(left));
    let well = (Current, "Current", None);
    for (status, facts, wanted) in [
        (ready.clone(), facts(Some(true), 0, false), stale(10)),
        (ready.clone(), facts(Some(true), 9, false), stale(1)),
        (json!({"phase": "x"}), facts(Some(true), 3, false), stale(7)),
        (ready.clone(), facts(Some(true), 10, false), well),
        (ready.clone(), facts(Some(true), 0, true), well),
        (ready.clone(), facts(Some(false), 0, false), well),
        (ready.clone(), facts(None, 0, false), well),
        (ready, Facts { change: None, ..facts(Some(true), 0, false) }, well),
        (json!({"observedGeneration": 2}), facts(Some(true), 0, false), well),
        (
            json!({"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}]}),
            facts(Some(true), 0, false),
            well,
        ),
        // What reports the generation before it reports nothing of the change.
        (
            json!({"conditions": [{"type": "Ready", "status": "True"},
                {"type": "Reconciled", "status": "True", "observedGeneration": 1}]}),
            facts(Some(true), 0, false),
            stale(10),
        ),
        (
            json!({"conditions": [{"type": "Ready", "status": "False"}]}),
            facts(Some(true), 0, false),
            (InProgress, "NotReady", None),
        ),
    ] {
        let live = widget(status);
        assert_eq!(told(&live, &facts), wanted, "{live} {facts:?}");
    }
}

#[test]
fn managed_fields_tell_whether_a_status_is_newer_than_our_change() {
    let entry = |manager: &str, time: &str, subresource: Option<&str>| json!({"manager": manager, "time": time, "subresource": subresource});
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
    for (entries, changed) in [
        (vec![entry("hub/a", early, None), entry("c", late, Some("status"))], None),
        (vec![entry("hub/a", late, None), entry("c", late, Some("status"))], None),
        (vec![entry("hub/a", late, None), entry("c", early, Some("status"))], Some(late)),
        (vec![entry("hub/a", late, None), entry("hub/b", early, None)], Some(late)),
        (
            vec![
                entry("hub/a", late, None),
                entry("c", early, Some("status")),
                entry("d", late, Some("status")),
            ],
            None,
        ),
        (vec![entry("hub/a", late, None), entry("c", late, Some("scale"))], Some(late)),
        (vec![entry("hub/a", early, None), entry("c", late, None)], Some(early)),
        (vec![entry("other", early, None), entry("c", late, Some("status"))], None),
        (vec![], None),
    ] {
        let live = json!({"metadata": {"managedFields": entries}});
        assert_eq!(unanswered(&live, |manager| manager.starts_with("hub/")), changed, "{live}");
    }
}

#[test]
fn a_status_is_another_when_it_has_changed_or_was_written_again() {
    let live = |time: &str, status: Value| {
        let entry = json!({"manager": "c", "time": time, "subresource": "status"});
        json!({"metadata": {"managedFields": [entry]}, "status": status})
    };
    let mark = status_mark(&live("2026-01-01T00:00:00Z", json!({"phase": "Up"})));
    for (other, is_same) in [
        (live("2026-01-01T00:00:00Z", json!({"phase": "Up"})), true),
        (live("2026-01-01T00:00:01Z", json!({"phase": "Up"})), false),
        (live("2026-01-01T00:00:00Z", json!({"phase": "Down"})), false),
    ] {
        assert_eq!(status_mark(&other) == mark, is_same, "{other}");
    }
}

#[test]
fn what_is_current_and_says_nothing_is_unproven_where_its_kind_could_say_something() {
    let kind = |has_status| KindFacts { has_status, ..KindFacts::default() };
    let of = |api_version: &str, kind: &str, status: Option<Value>| {
        let mut live = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
        status.into_iter().for_each(|status| live["status"] = status);
        live
    };
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    for (live, has_status, expected) in [
        (of("example.com/v1", "Widget", None), Some(true), true),
        (of("example.com/v1", "Widget", Some(json!({"users": 3}))), Some(true), true),
        (of("example.com/v1", "Widget", Some(json!({"users": 3}))), None, true),
        (of("example.com/v1", "Widget", Some(ready)), Some(true), false),
        // It cannot say anything.
        (of("example.com/v1", "Widget", None), Some(false), false),
        (of("example.com/v1", "Widget", None), None, false),
        // Kubernetes' own have nothing to say, or a verdict that is known.
        (of("rbac.authorization.k8s.io/v1", "Role", None), None, false),
        (of("networking.k8s.io/v1", "Ingress", Some(json!({}))), Some(true), false),
        (of("v1", "ConfigMap", None), None, false),
        // It is not Current.
        (
            of(
                "example.com/v1",
                "Widget",
                Some(json!({"conditions": [{"type": "Ready", "status": "False"}]})),
            ),
            Some(true),
            false,
        ),
    ] {
        let facts = Facts { kind: kind(has_status), ..Facts::default() };
        let set = RuleSet::default();
        assert_eq!(judge(&live, &set, &facts).is_unproven(&live, &facts), expected, "{live}");
    }
    let declares = KindFacts { declares_conditions: true, ..kind(Some(true)) };
    for (age, expected) in [(10, false), (60, true)] {
        let facts = Facts { kind: declares.clone(), age: Some(seconds(age)), ..Facts::default() };
        let (live, set) = (of("example.com/v1", "Widget", None), RuleSet::default());
        assert_eq!(
            judge(&live, &set, &facts).is_unproven(&live, &facts),
            expected,
            "waited for, then NoStatus"
        );
    }
}

#[test]
fn a_wait_that_ends_is_over_a_while_later_and_not_begun_again() {
    let kind = KindFacts { has_status: Some(true), declares_conditions: true, ..KindFacts::default() };
    let change = Some(Change { ago: seconds(0), status_since: false });
    let mut facts = Facts { kind, age: Some(seconds(55)), change, ..Facts::default() };
    for wanted in [(InProgress, "NoStatusYet", Some(5)), (InProgress, "StatusMayBeStale", Some(5))] {
        let now = told(&widget(json!(null)), &facts);
        assert_eq!(now, wanted);
        facts = facts.later(seconds(now.2.unwrap()));
    }
    assert_eq!(told(&widget(json!(null)), &facts), (Current, "NoStatus", None));
}

#[test]
fn an_autoscaler_is_never_failed() {
    let facts =
        |age: Option<u64>, was_current| Facts { age: age.map(seconds), was_current, ..Facts::default() };
    let active =
        |status: &str, reason: &str| json!([{"type": "ScalingActive", "status": status, "reason": reason}]);
    let no_metrics = (Current, "NoMetrics", None);
    for (conditions, facts, wanted) in [
        (active("True", "ValidMetricFound"), facts(Some(0), false), (Current, "Current", None)),
        (active("False", "ScalingDisabled"), facts(Some(0), false), (Current, "Current", None)),
        (
            active("False", "FailedGetResourceMetric"),
            facts(Some(0), false),
            (InProgress, "ScalingNotActive", Some(300)),
        ),
        (
            active("False", "FailedGetResourceMetric"),
            facts(Some(299), false),
            (InProgress, "ScalingNotActive", Some(1)),
        ),
        (active("False", "FailedGetResourceMetric"), facts(Some(300), false), no_metrics),
        (active("False", "FailedGetResourceMetric"), facts(Some(0), true), no_metrics),
        (active("False", "FailedGetResourceMetric"), facts(None, false), no_metrics),
        (json!([]), facts(Some(0), false), (InProgress, "ScalingNotActive", Some(300))),
    ] {
        let live = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "status": {"conditions": conditions}});
        assert_eq!(told(&live, &facts), wanted, "{live}");
    }
}

#[test]
fn a_replication_controller_is_judged_as_a_replica_set() {
    for (status, health) in [
        (
            json!({"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}),
            Current,
        ),
        (json!({"replicas": 1, "fullyLabeledReplicas": 1}), InProgress),
        (json!({}), InProgress),
    ] {
        let live = json!({"apiVersion": "v1", "kind": "ReplicationController", "spec": {"replicas": 1}, "status": status});
        assert_eq!(told(&live, &Facts::default()).0, health, "{live}");
    }
}

//! Which rule applies, which problems the others have, and in which order a verdict is made.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::health::{
    Basis, Health, HealthStatus, Subject, facts::Change, facts::Facts, facts::KindFacts, facts::Waits, judge,
    rule::RuleText, rules::Origin, rules::Problem, rules::RuleSet, rules::Rules,
};
use HealthStatus::{Current, Failed, InProgress, Suspended, Terminating, Unknown};

fn text(rule: Value) -> RuleText {
    serde_json::from_value(rule).unwrap()
}

fn read_after(before: &Rules, origin: Origin, rules: &[Value]) -> (Rules, Vec<Problem>) {
    let texts: Vec<_> = rules.iter().map(|rule| text(rule.clone())).collect();
    let texts = texts.iter().enumerate().map(|(nth, text)| (format!("rules[{nth}]"), text));
    Rules::read(origin, texts, before)
}

fn read(origin: Origin, rules: &[Value]) -> (Rules, Vec<Problem>) {
    read_after(&Rules::default(), origin, rules)
}

fn set(resource: &[Value], fleet: &[Value], shipped: &[Value]) -> RuleSet {
    let rules = |origin, rules: &[Value]| Arc::new(read(origin, rules).0);
    RuleSet::new(
        rules(Origin::Resource, resource),
        rules(Origin::Fleet, fleet),
        rules(Origin::Shipped, shipped),
    )
}

/// A rule that tells its name where it applies.
fn rule(api_version: &str, kind: Option<&str>, name: &str) -> Value {
    let mut rule =
        json!({"apiVersion": api_version, "current": "has(status.phase)", "message": format!("'{name}'")});
    if let Some(kind) = kind {
        rule["kind"] = json!(kind);
    }
    rule
}

fn object(api_version: &str, kind: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "status": {"phase": "Up"}})
}

#[test]
fn a_kind_comes_before_a_group_before_a_family_and_then_the_resource_before_the_fleet_before_the_release() {
    let (group, kind) = ("db.example.com/v1", Some("Cluster"));
    let family = |name| rule("*.example.com", None, name);
    let of_group = |name| rule(group, None, name);
    let of_kind = |name| rule(group, kind, name);
    for (resource, fleet, shipped, told) in [
        (vec![of_kind("own")], vec![of_kind("fleet")], vec![of_kind("shipped")], "own"),
        (vec![], vec![of_kind("fleet")], vec![of_kind("shipped")], "fleet"),
        (vec![], vec![], vec![of_kind("shipped")], "shipped"),
        (vec![of_group("group")], vec![family("family")], vec![of_kind("kind")], "kind"),
        (vec![family("family")], vec![], vec![of_group("group")], "group"),
        (vec![family("own")], vec![family("fleet")], vec![family("shipped")], "own"),
        (vec![family("wide")], vec![], vec![rule("*.db.example.com", None, "other")], "wide"),
        (vec![rule("*.com", None, "wide")], vec![], vec![family("narrow")], "narrow"),
        (
            vec![of_group("group")],
            vec![],
            vec![rule("*.example.com", kind, "kind of a family")],
            "kind of a family",
        ),
        (vec![rule("db.example.com", kind, "no version")], vec![], vec![], "no version"),
        (vec![rule("db.example.com/v2beta1", kind, "another version")], vec![], vec![], "another version"),
        (vec![rule("example.com", kind, "another group")], vec![], vec![], ""),
        (vec![rule("*.db.example.com", kind, "a family is what is below")], vec![], vec![], ""),
        (vec![rule(group, Some("Backup"), "another kind")], vec![], vec![], ""),
    ] {
        let set = set(&resource, &fleet, &shipped);
        let live = object(group, "Cluster");
        let verdict = judge(&live, &set, &Facts::default());
        let is_rule = matches!(verdict.basis, Basis::Rule(_));
        assert_eq!(is_rule, !told.is_empty(), "{told}");
        assert!(!is_rule || verdict.health.message == told, "{told}: {}", verdict.health.message);
    }
}

#[test]
fn what_a_rule_calls_current_may_be_of_before_our_change_where_no_generation_is_reported() {
    let rule = |kind: &str| json!({"apiVersion": "a.io", "kind": kind, "current": "status.phase == 'Up'"});
    let mut ignores = rule("Two");
    ignores["observedGeneration"] = "Ignore".into();
    let set = set(&[], &[], &[rule("One"), ignores]);
    let live = |kind: &str, status: &Value| json!({"apiVersion": "a.io/v1", "kind": kind, "metadata": {"generation": 2}, "status": status});
    let up = json!({"phase": "Up"});
    let own = json!({"phase": "Up", "observedGeneration": 2});
    let told =
        json!({"phase": "Up", "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}]});
    let seconds = Duration::from_secs;
    for (kind, status, change, has_status, ends) in [
        ("One", &up, Some((0, false)), Some(true), Some(10)),
        ("One", &up, Some((9, false)), Some(true), Some(1)),
        ("One", &up, Some((10, false)), Some(true), None),
        ("One", &up, Some((0, true)), Some(true), None),
        ("One", &up, None, Some(true), None),
        ("One", &up, Some((0, false)), Some(false), None),
        ("One", &own, Some((0, false)), Some(true), None),
        ("One", &told, Some((0, false)), Some(true), None),
        ("Two", &up, Some((0, false)), Some(true), None),
    ] {
        let change = change.map(|(ago, status_since)| Change { ago: seconds(ago), status_since });
        let kind_facts = KindFacts { has_status, ..KindFacts::default() };
        let facts = Facts { kind: kind_facts, change, ..Facts::default() };
        let live = live(kind, status);
        let verdict = judge(&live, &set, &facts);
        let wanted = if ends.is_some() { InProgress } else { Current };
        assert_eq!((verdict.health.status, verdict.ends), (wanted, ends.map(seconds)), "{live} {facts:?}");
        assert!(matches!(verdict.basis, Basis::Rule(_)));
    }
}

#[test]
fn what_a_rule_calls_failed_has_failed_once_that_has_stood_for_a_while() {
    let rule = json!({"apiVersion": "a.io", "kind": "One", "failed": "status.phase == 'Down'",
        "current": "status.phase == 'Up'", "message": "status.why"});
    let set = set(&[], &[], &[rule]);
    let live = |phase: &str| json!({"apiVersion": "a.io/v1", "kind": "One", "status": {"phase": phase, "why": "words"}});
    let seconds = Duration::from_secs;
    for (failing, was_current, within, status, ends) in [
        (Some(0), false, 30, InProgress, Some(30)),
        (Some(29), false, 30, InProgress, Some(1)),
        (Some(30), false, 30, Failed, None),
        (Some(0), false, 0, Failed, None),
        // Nobody counts.
        (None, false, 30, Failed, None),
        // It is taken from nobody before.
        (Some(10), true, 30, Current, Some(20)),
        (Some(30), true, 30, Failed, None),
    ] {
        let waits = Waits { failed: seconds(within), ..Waits::default() };
        let facts = Facts { failing: failing.map(seconds), was_current, waits, ..Facts::default() };
        let down = live("Down");
        let verdict = judge(&down, &set, &facts);
        assert_eq!((verdict.health.status, verdict.ends), (status, ends.map(seconds)), "{facts:?}");
        assert_eq!((verdict.health.reason, &*verdict.health.message), ("HealthCheckFailed", "words"));
        let later = facts.later(seconds(30));
        assert_eq!(judge(&down, &set, &later).health.status, Failed);
        assert_eq!(judge(&live("Up"), &set, &facts).ends, None);
    }
    let stalled = json!({"apiVersion": "b.io/v1", "kind": "Two", "status": {"conditions": [
        {"type": "Stalled", "status": "True"}]}});
    let facts = Facts { failing: Some(Duration::ZERO), ..Facts::default() };
    assert_eq!(judge(&stalled, &set, &facts).health.status, Failed, "no rule says so");
}

#[test]
fn what_a_rule_says_of_a_status_from_before_our_change_is_no_end() {
    let rule = json!({"apiVersion": "a.io", "kind": "One", "failed": "status.phase == 'Down'",
        "inProgress": "status.phase == 'Busy'", "current": "status.phase == 'Up'"});
    let set = set(&[], &[], &[rule]);
    let kind = KindFacts { has_status: Some(true), ..KindFacts::default() };
    for (phase, generation, ago, reason, after) in [
        ("Down", None, 0, "StatusMayBeStale", Failed),
        ("Down", None, 10, "HealthCheckFailed", Failed),
        ("Up", None, 0, "StatusMayBeStale", Current),
        ("Up", Some(1), 0, "StatusMayBeStale", Current),
        ("Up", Some(2), 0, "Current", Current),
        ("Busy", None, 0, "HealthCheckInProgress", InProgress),
    ] {
        let condition = json!({"type": "Other", "status": "True", "observedGeneration": generation});
        let live = json!({"apiVersion": "a.io/v1", "kind": "One", "metadata": {"generation": 2},
            "status": {"phase": phase, "conditions": [condition]}});
        let change = Some(Change { ago: Duration::from_secs(ago), status_since: false });
        let facts = Facts { kind: kind.clone(), change, failing: Some(Duration::ZERO), ..Facts::default() };
        let reasons = |facts: &Facts| judge(&live, &set, facts).health.reason;
        assert_eq!(reasons(&facts), reason, "{phase} {generation:?} {ago}");
        assert_eq!(judge(&live, &set, &facts.later(Duration::from_secs(30))).health.status, after);
    }
}

#[test]
fn a_rule_that_names_a_kind_is_final_and_one_without_counts_only_for_what_has_what_it_reads() {
    let set = set(
        &[],
        &[],
        &[
            json!({"apiVersion": "a.example.com/v1", "kind": "One", "current": "status.phase == 'Up'"}),
            json!({"apiVersion": "*.example.com", "current": "status.phase == 'Up' || status.?ready.orValue(false)"}),
            json!({"apiVersion": "*.k8s.io", "current": "status.phase == 'Up'"}),
        ],
    );
    let of =
        |kind: &str, status: Value| json!({"apiVersion": "a.example.com/v1", "kind": kind, "status": status});
    for (live, by_rule, status) in [
        (of("One", json!({})), true, InProgress),
        (of("One", json!(null)), true, InProgress),
        (of("One", json!({"phase": "Up"})), true, Current),
        (of("Two", json!(null)), false, Current),
        (of("Two", json!({"users": 3})), false, Current),
        (of("Two", json!({"phase": null})), false, Current),
        (of("Two", json!({"phase": "Down"})), true, InProgress),
        (of("Two", json!({"ready": true})), true, Current),
        (
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "status": {"phase": "Down"}}),
            false,
            Current,
        ),
        (json!({"apiVersion": "x.k8s.io/v1", "kind": "Role", "status": {"phase": "Down"}}), true, InProgress),
    ] {
        let verdict = judge(&live, &set, &Facts::default());
        assert_eq!(
            (verdict.health.status, matches!(verdict.basis, Basis::Rule(_))),
            (status, by_rule),
            "{live}"
        );
    }
}

#[test]
fn the_order_of_a_verdict_is_deletion_suspension_generation_rule_kind() {
    let rules = [
        json!({
            "apiVersion": "example.com", "kind": "App", "suspended": "spec.?paused.orValue(false)",
            "inProgress": "status.phase == 'Busy'", "failed": "status.phase in ['Bad', 'Busy']",
            "current": "status.phase in ['Up', 'Bad']",
        }),
        json!({"apiVersion": "example.com", "kind": "Old", "observedGeneration": "Ignore", "current": "true"}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "current": "status.phase == 'Up'"}),
    ];
    let set = set(&rules, &[], &[]);
    let live = |kind: &str, phase: &str, observed: Value| {
        json!({
            "apiVersion": "example.com/v1", "kind": kind, "metadata": {"generation": 2},
            "status": {"phase": phase, "observedGeneration": observed},
        })
    };
    let with = |mut live: Value, at: &str, value: Value| {
        let (parent, name) = at.split_once('.').unwrap();
        live[parent][name] = value;
        live
    };
    let up = live("App", "Up", json!(2));
    let paused = |live: Value| with(live, "spec.paused", json!(true));
    for (live, status, reason) in [
        (up.clone(), Current, "Current"),
        (live("App", "Busy", json!(2)), InProgress, "HealthCheckInProgress"),
        (live("App", "Bad", json!(2)), Failed, "HealthCheckFailed"),
        (live("App", "Odd", json!(2)), InProgress, "HealthCheckNotMet"),
        (live("App", "Bad", json!(1)), InProgress, "LatestGenerationNotObserved"),
        (live("App", "Up", json!("2")), Current, "Current"),
        (live("App", "Up", json!("1")), InProgress, "LatestGenerationNotObserved"),
        (live("App", "Up", json!("-1")), InProgress, "LatestGenerationNotObserved"),
        (live("App", "Up", json!("6c8f")), Current, "Current"),
        (live("App", "Up", json!(null)), Current, "Current"),
        (paused(live("App", "Bad", json!(1))), Suspended, "Suspended"),
        (
            with(paused(up.clone()), "metadata.deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            Terminating,
            "Terminating",
        ),
        (live("Old", "Bad", json!(1)), Current, "Current"),
        // A rule that names a kind is asked before what is known of it.
        (
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"phase": "Up"}}),
            Current,
            "Current",
        ),
        (
            json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"replicas": 1}}),
            InProgress,
            "LessReplicas",
        ),
        (json!([]), Unknown, "Unreadable"),
    ] {
        let health = judge(&live, &set, &Facts::default()).health;
        assert_eq!((health.status, health.reason), (status, reason), "{live}");
    }
    // Where there is no status subresource, nobody observes a generation.
    let facts =
        |has_status| Facts { kind: KindFacts { has_status, ..KindFacts::default() }, ..Facts::default() };
    for (has_status, status) in [(None, InProgress), (Some(true), InProgress), (Some(false), Failed)] {
        let health = judge(&live("App", "Bad", json!(1)), &set, &facts(has_status)).health;
        assert_eq!(health.status, status, "{has_status:?}");
    }
}

#[test]
fn a_conditions_own_generation_is_asked_only_of_kinds_that_nothing_is_known_of() {
    let rule = json!({"apiVersion": "example.com", "kind": "App",
        "current": "status.conditions.exists(c, c.type == 'Available' && c.status == 'True')"});
    let set = set(&[rule], &[], &[]);
    for (api_version, kind, condition, status) in [
        ("example.com/v1", "App", "Available", Current),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "Established", Current),
        ("apiregistration.k8s.io/v1", "APIService", "Available", Current),
        ("example.com/v1", "Other", "Available", InProgress),
    ] {
        let conditions = json!([{"type": condition, "status": "True", "observedGeneration": 1}]);
        let live = json!({"apiVersion": api_version, "kind": kind, "metadata": {"generation": 2},
            "status": {"conditions": conditions}});
        let health = judge(&live, &set, &Facts::default()).health;
        assert_eq!(health.status, status, "{kind}: {}", health.message);
    }
}

#[test]
fn a_rule_that_is_broken_or_costs_too_much_opens_no_gate_and_fails_nothing() {
    let list = json!({"list": (0..1025).collect::<Vec<_>>(), "phase": "Up"});
    let dear = "status.list.all(x, x >= 0)";
    for (rule, status, reason) in [
        (json!({"current": "status.phase == "}), Unknown, "HealthRuleInvalid"),
        (json!({"failed": "true"}), Unknown, "HealthRuleInvalid"),
        (json!({"current": dear}), Unknown, "HealthCheckTooCostly"),
        (json!({"current": "true", "failed": format!("{dear} || true")}), Unknown, "HealthCheckTooCostly"),
        (json!({"current": "true", "suspended": dear}), Unknown, "HealthCheckTooCostly"),
        (json!({"current": "true", "message": format!("string({dear})")}), Unknown, "HealthCheckTooCostly"),
        // What decided before it is not asked.
        (json!({"current": dear, "failed": "true"}), Failed, "HealthCheckFailed"),
    ] {
        let mut rule = rule;
        rule["apiVersion"] = json!("example.com");
        rule["kind"] = json!("App");
        let live = json!({"apiVersion": "example.com/v1", "kind": "App", "status": list});
        // It is not another rule's turn.
        let set = set(&[rule.clone()], &[], &[json!({"apiVersion": "example.com", "current": "true"})]);
        let health = judge(&live, &set, &Facts::default()).health;
        assert_eq!((health.status, health.reason), (status, reason), "{rule}");
        assert!(!health.message.is_empty());
    }
    let set = set(&[json!({"apiVersion": "example.com", "current": "("})], &[], &[]);
    assert_eq!(
        judge(&object("example.com/v1", "App"), &set, &Facts::default()).health.reason,
        "HealthRuleInvalid"
    );
}

#[test]
fn the_words_of_a_rule_are_told_without_what_moves() {
    let set = set(
        &[json!({"apiVersion": "example.com", "kind": "App", "current": "false", "message": "status.why"})],
        &[],
        &[],
    );
    let told = |why: Value| {
        let live = json!({"apiVersion": "example.com/v1", "kind": "App", "status": {"why": why}});
        judge(&live, &set, &Facts::default()).health.message
    };
    assert_eq!(told(json!("3 of 4 are up")), "# of # are up");
    assert_eq!(told(json!("3 of 4 are up")), told(json!("2 of 4 are up")));
    for none in [json!(null), json!(""), json!(7)] {
        assert_eq!(told(none), "No expression of the kind's health rule is true");
    }
    for status in [json!(null), json!({})] {
        let live = json!({"apiVersion": "example.com/v1", "kind": "App", "status": status});
        let Health { reason, message, .. } = judge(&live, &set, &Facts::default()).health;
        let says = "It has no status yet; see whether its controller runs in the member";
        assert_eq!((reason, message.as_str()), ("NoStatusYet", says));
    }
}

#[test]
fn a_rule_of_which_nothing_is_true_says_what_current_lacks() {
    let told = |current: &str| {
        let rule =
            json!({"apiVersion": "example.com", "kind": "App", "current": current, "failed": "status.gone"});
        let live =
            json!({"apiVersion": "example.com/v1", "kind": "App", "status": {"ready": 3, "conditions": []}});
        judge(&live, &set(&[rule], &[], &[]), &Facts::default()).health.message
    };
    for (current, lack) in [
        ("status.ready == 4", ""),
        ("status.phase == 'Ready'", "; current: there is no field phase"),
        ("status.ready < '4'", "; current: a number and a text are not compared"),
        ("string(status.ready)", "; current: it gives a text, not true or false"),
        ("status.conditions.all(c, c.status == 'True')", "; current: all has nothing to ask"),
    ] {
        assert_eq!(told(current), format!("No expression of the kind's health rule is true{lack}"));
    }
}

#[test]
fn what_is_wrong_with_rules_is_told_with_place_and_remedy() {
    let of = |rules: &[Value]| read(Origin::Resource, rules).1;
    for (rule, told) in [
        (json!({"apiVersion": "", "current": "true"}), "apiVersion is missing; write a group"),
        (json!({"apiVersion": "a.b/c", "current": "true"}), "write a group and a version"),
        (json!({"apiVersion": "/v1", "current": "true"}), "write a group and a version"),
        (json!({"apiVersion": "*.", "current": "true"}), "this is no group"),
        (json!({"apiVersion": "A.b", "current": "true"}), "this is no group"),
        (json!({"apiVersion": "a.*.b", "current": "true"}), "this is no group"),
        (json!({"apiVersion": "a.b", "kind": "x/y", "current": "true"}), "this is no kind"),
        (json!({"apiVersion": "v1", "current": "true"}), "name a kind"),
        (json!({"apiVersion": "apps/v1", "current": "true"}), "name a kind"),
        (json!({"apiVersion": "a.b/v1", "kind": "X"}), "health rule a.b/X: current is missing"),
        (
            json!({"apiVersion": "*.a.b", "kind": "X", "current": "true", "failed": "status.x = 1"}),
            "health rule *.a.b/X, failed, column 10: = assigns nothing here; compare with ==",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "current": "("}),
            "health rule core/Pod, current, column 2",
        ),
    ] {
        let [Problem::Invalid { place, error }] =
            &of(&[json!({"apiVersion": "x.y", "current": "true"}), rule.clone()])[..]
        else {
            panic!("{rule}")
        };
        assert_eq!(place, "rules[1]");
        assert!(error.to_string().contains(told), "{rule}: {error}");
    }
    for unknown in [
        json!({"apiVersion": "a.b", "currrent": "true"}),
        json!({"apiVersion": "a.b", "observedGeneration": "Ask"}),
    ] {
        assert!(serde_json::from_value::<RuleText>(unknown).is_err());
    }
}

#[test]
fn of_two_alike_the_first_counts_and_the_other_is_told() {
    let rules = [
        rule("a.b/v1", Some("X"), "first"),
        rule("a.b", Some("Y"), "other"),
        rule("a.b/v2", Some("X"), "second"),
    ];
    let (_, problems) = read(Origin::Fleet, &rules);
    let [Problem::Duplicate { place, first, scope }] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!(
        (place.as_str(), first.as_str(), scope.to_string().as_str()),
        ("rules[2]", "rules[0]", "a.b/X")
    );
    let set = set(&[], &rules, &[]);
    assert_eq!(judge(&object("a.b/v1", "X"), &set, &Facts::default()).health.message, "first");
}

#[test]
fn a_resource_has_twenty_rules_and_a_fleet_five_hundred() {
    for (origin, most) in [(Origin::Resource, 20), (Origin::Fleet, 500)] {
        let rules: Vec<_> = (0..=most).map(|nth| rule("a.b", Some(&format!("K{nth}")), "x")).collect();
        let (all, problems) = read(origin, &rules[..most]);
        assert_eq!((all.scopes().count(), problems.len()), (most, 0));
        let (all, problems) = read(origin, &rules);
        assert_eq!(all.scopes().count(), most);
        let place = format!("rules[{most}]");
        assert_eq!(problems, [Problem::TooMany { place, most }]);
    }
}

#[test]
fn the_patterns_of_a_resource_are_forty_in_all_and_those_of_the_fleet_are_not_counted() {
    let four = "a.matches('1') && a.matches('2') && a.matches('3') && a.matches('4')";
    let judging = |nth: usize| {
        let mut rule = rule("a.b", Some(&format!("K{nth}")), "x");
        rule["current"] = json!(four);
        rule
    };
    let rules: Vec<_> = (0..11).map(judging).collect();
    let (all, problems) = read(Origin::Resource, &rules);
    let [Problem::Invalid { place, error }] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!((place.as_str(), all.scopes().count()), ("rules[10]", 11));
    assert!(error.to_string().contains("more than 40 patterns"), "{error}");
    assert_eq!(read(Origin::Fleet, &rules).1, []);
}

#[test]
fn patterns_for_which_there_is_no_room_are_not_compiled_without_end() {
    let four = "a.matches('1') && a.matches('2') && a.matches('3') && a.matches('4')";
    let mut rules: Vec<_> = (0..20).map(|nth| rule("a.b", Some(&format!("K{nth}")), "x")).collect();
    for rule in &mut rules {
        for field in ["inProgress", "failed", "current"] {
            rule[field] = json!(four);
        }
    }
    // Whoever compiles it says that it is no pattern.
    rules[19]["current"] = json!("a.matches('(')");
    let (_, problems) = read(Origin::Resource, &rules);
    let told: Vec<_> = problems.iter().map(|problem| format!("{problem:?}")).collect();
    assert_eq!(told.len(), 17);
    assert!(told.iter().all(|told| told.contains("more than 40 patterns")), "{told:#?}");
}

#[test]
fn a_digest_tells_whether_anything_could_be_judged_otherwise() {
    let base = rule("a.b/v1", Some("X"), "x");
    let digest = |resource: &[Value], fleet: &[Value]| set(resource, fleet, &[]).digest();
    let same = digest(std::slice::from_ref(&base), &[]);
    assert_eq!(same.len(), 12);
    assert_eq!(same, digest(&[rule("a.b/v2", Some("X"), "x")], &[]), "versions do not count");
    let mut other = base.clone();
    other["failed"] = json!("false");
    let mut ignores = base.clone();
    ignores["observedGeneration"] = json!("Ignore");
    let mut moved = base.clone();
    moved["inProgress"] = moved["current"].clone();
    let all = [
        same,
        digest(&[], std::slice::from_ref(&base)),
        digest(&[], &[]),
        digest(&[other], &[]),
        digest(&[ignores], &[]),
        digest(&[moved], &[]),
        digest(&[rule("*.a.b", Some("X"), "x")], &[]),
        digest(&[rule("a.b/v1", None, "x")], &[]),
    ];
    let mut once = all.to_vec();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), all.len(), "{all:?}");
}

/// A set of the fleet's rules alone.
fn of_fleet(rules: &Arc<Rules>) -> RuleSet {
    RuleSet::new(Arc::default(), rules.clone(), Arc::default())
}

#[test]
fn a_rule_that_cannot_be_used_any_more_is_as_it_was_and_one_that_never_could_opens_no_gate() {
    let fleet = |before: &Rules, rule: Value| {
        let (rules, problems) = read_after(before, Origin::Fleet, &[rule]);
        (Arc::new(rules), problems)
    };
    let status = |rules: &Arc<Rules>| {
        judge(&object("example.com/v1", "Gadget"), &of_fleet(rules), &Facts::default()).health.status
    };
    let none = Rules::default();
    let good = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "current": "status.phase == 'Up'"});
    let (first, problems) = fleet(&none, good);
    assert_eq!((status(&first), problems.len()), (Current, 0));
    for bad in [
        json!({"apiVersion": "example.com/v1", "kind": "Gadget", "current": "status."}),
        json!({"apiVersion": "example.com/v1", "kind": "Gadget"}),
    ] {
        let (kept, problems) = fleet(&first, bad.clone());
        assert!(matches!(&problems[..], [Problem::Invalid { .. }]), "{bad}: {problems:?}");
        assert_eq!((status(&kept), kept.digest()), (Current, first.digest()), "{bad}");
        let (broken, _) = fleet(&none, bad.clone());
        assert_eq!(status(&broken), Unknown, "{bad}");
        assert_ne!(broken.digest(), first.digest(), "{bad}");
    }
    // One that does not say what it is about may be the one that was there.
    let rules = |before: &Rules, rules: &[Value]| {
        let (read, problems) = read_after(before, Origin::Resource, rules);
        (read.scopes().map(ToString::to_string).collect::<Vec<_>>(), problems.len(), read)
    };
    let (gadget, other) =
        (rule("example.com/v1", Some("Gadget"), "a"), rule("example.com/v1", Some("Shop"), "b"));
    let scopeless = rule("Example.com/v1", Some("Gadget"), "a");
    let (_, _, before) = rules(&none, &[gadget.clone(), other.clone()]);
    let (kept, problems, after) = rules(&before, &[scopeless.clone(), other.clone()]);
    assert_eq!((kept, problems), (vec!["example.com/Gadget".to_owned(), "example.com/Shop".to_owned()], 1));
    assert_eq!(rules(&after, &[scopeless.clone(), other.clone()]).0.len(), 2, "while it stays malformed");
    assert_eq!(
        rules(&after, std::slice::from_ref(&other)).0,
        ["example.com/Shop"],
        "then what is not written is gone"
    );
    assert_eq!(rules(&none, &[scopeless.clone(), other]).0, ["example.com/Shop"]);
    // However often that is done, there are no more than may be written.
    let twenty =
        |tens: usize| (0..19).map(move |nth| rule("example.com/v1", Some(&format!("K{tens}{nth}")), "a"));
    let all = |tens| [scopeless.clone()].into_iter().chain(twenty(tens)).collect::<Vec<_>>();
    let last = (1..4).fold(Rules::default(), |before, tens| rules(&before, &all(tens)).2);
    assert_eq!(last.scopes().count(), 20);
    // What says nothing of what it is about gates nothing, and is told.
    let (rules, problems) =
        Rules::read(Origin::Fleet, [("rules[0]".to_owned(), &RuleText::default())], &none);
    assert!(rules.is_empty() && problems.len() == 1, "{problems:?}");
}

#[test]
fn a_fingerprint_stays_while_the_rule_of_a_kind_says_the_same() {
    let two = |phase: &str| {
        let one =
            json!({"apiVersion": "a.io", "kind": "One", "current": format!("status.phase == '{phase}'")});
        Arc::new(read(Origin::Fleet, &[one, json!({"apiVersion": "b.io", "current": "true"})]).0)
    };
    let (before, same, after) = (two("Up"), two("Up"), two("On"));
    assert_eq!(same.digest(), before.digest());
    let print = |rules: &Arc<Rules>, group, kind| of_fleet(rules).fingerprint(group, kind);
    assert_ne!(print(&before, "a.io", "One"), print(&after, "a.io", "One"));
    assert_eq!(print(&before, "b.io", "Any"), print(&after, "b.io", "Any"));
    assert_eq!(print(&after, "c.io", "Any"), 0);
}

#[test]
fn a_rule_is_evaluated_once_for_all_facts_that_an_object_is_judged_by_and_within_one_bound() {
    let list = json!({"list": (0..1000).collect::<Vec<_>>()});
    let live = json!({"apiVersion": "example.com/v1", "kind": "App", "status": list});
    let dear = "status.list.all(x, x >= 0 && x < 1000)";
    let rule = |suspended: &str| {
        json!({"apiVersion": "example.com", "kind": "App", "suspended": suspended,
            "failed": dear, "current": "true"})
    };
    let (once, not) = (rule("false"), rule(&format!("!{dear}")));
    for rule in [&once, &not] {
        let rules = set(std::slice::from_ref(rule), &[], &[]);
        let subject = Subject::new(&live, &rules);
        let (known, later) = (Facts { was_current: true, ..Facts::default() }, Facts::default());
        for facts in [&Facts::default(), &known, &later, &later] {
            let (shared, alone) = (subject.judge(facts), judge(&live, &rules, facts));
            assert_eq!(shared.health, alone.health, "{rule}");
            assert_eq!(alone.health.reason, "HealthCheckFailed", "{rule}");
        }
    }
    // What stops it and what judges it share the bound.
    let mut thrice = not;
    thrice["failed"] = json!(format!("!{dear}"));
    thrice["current"] = json!(dear);
    let health = judge(&live, &set(&[thrice], &[], &[]), &Facts::default()).health;
    assert_eq!((health.status, health.reason), (Unknown, "HealthCheckTooCostly"));
}

#[test]
fn what_is_kept_of_a_broken_rule_is_of_the_list_that_has_that_now() {
    let text = |value: Value| serde_json::from_value::<RuleText>(value).unwrap();
    let read = |before: &Rules, list: &str, rule: Value| {
        Rules::read(Origin::Fleet, [(format!("{list}[0]"), &text(rule))], before).0
    };
    let gadget =
        |current: &str| json!({"apiVersion": "example.com/v1", "kind": "Gadget", "current": current});
    let first = read(&Rules::default(), "a", gadget("true"));
    let moved = read(&first, "b", gadget("broken("));
    let scopeless = json!({"apiVersion": "Example.com/v1", "kind": "Gadget", "current": "true"});
    assert_eq!(read(&moved, "b", scopeless.clone()).scopes().count(), 1);
    assert_eq!(read(&moved, "a", scopeless).scopes().count(), 0);
}

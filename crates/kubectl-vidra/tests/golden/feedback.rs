//! status --values and --by.

use insta::assert_snapshot;
use kubectl_vidra::report::feedback::{by, values};
use serde_json::{Value, json};
use vidra_api::{FeedbackRule, VidraTarget};

use crate::fleet::{now, target, well};

fn object(kind: &str, values: Value) -> Value {
    let group = if kind == "Service" { "" } else { "apps" };
    json!({"group": group, "kind": kind, "namespace": "shop", "name": "web", "values": values})
}

fn told(cluster: &str, objects: Value) -> VidraTarget {
    let mut status = well();
    status["feedback"] = json!({"objects": objects});
    target(cluster, status)
}

fn fleet() -> Vec<VidraTarget> {
    let deployment = |ready: i64, load: Value, version: &str| {
        object(
            "Deployment",
            json!([
                {"name": "ready", "integer": ready}, load, {"name": "version", "text": version}, {"name": "paused", "boolean": false},
            ]),
        )
    };
    let load = |load: &str| json!({"name": "load", "number": load});
    let service = |address: &str| object("Service", json!([{"name": "addresses", "text": address}]));
    let mut lost = told("cairo", json!([deployment(3, load("0.5"), "1.1"), service("10.0.0.3")]));
    lost.status.as_mut().unwrap().feedback_at =
        serde_json::from_value(json!("2026-03-01T11:30:00Z")).unwrap();
    let hostile = "\u{1b}[31mred\u{202e}".to_owned() + &"x".repeat(100);
    let mut crowded = told("tokyo", json!([deployment(2, json!({"name": "load", "integer": 2}), &hostile)]));
    let feedback = crowded.status.as_mut().unwrap().feedback.as_mut().unwrap();
    (feedback.left_out, feedback.message) =
        (2, Some("Service web: addresses is a text of more than 1 KiB; give a part of it".into()));
    vec![
        told("berlin", json!([deployment(1, load("1.25"), "1.2"), service("10.0.0.1,10.0.0.2")])),
        told("austin", json!([deployment(2, load("0.25"), "1.2")])),
        lost,
        target("delhi", well()),
        target("paris", json!(null)),
        crowded,
    ]
}

#[test]
fn values_stand_in_a_table_by_cluster_with_sums_and_with_how_old_they_are() {
    let shown = values(&[], &fleet(), now());
    assert_snapshot!("status_values", shown);
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
    assert_snapshot!("status_values_none", values(&[], &[target("berlin", well())], now()));
}

#[test]
fn what_a_rule_asks_for_and_no_cluster_has_is_shown_as_none() {
    let rules: Vec<FeedbackRule> = serde_json::from_value(json!([
        {"apiVersion": "apps/v1", "kind": "Deployment", "values": [
            {"name": "colour", "expression": "status.colour"}, {"name": "ready", "expression": "status.readyReplicas"}]},
        {"apiVersion": "batch/v1", "kind": "Job", "name": "backup"},
        {"apiVersion": "example.com/v1", "kind": "Shop", "values": [{"name": "open", "expression": "status.open"}]},
    ]))
    .unwrap();
    let shown = values(&rules, &fleet(), now());
    let row = shown.lines().find(|line| line.starts_with("berlin") && line.contains("1.25")).unwrap();
    assert_eq!(row.split_whitespace().nth(1), Some("-"), "{shown}");
    assert_snapshot!("status_values_asked", shown);
    assert_snapshot!("status_values_asked_none", values(&rules, &[target("berlin", well())], now()));
    assert_snapshot!("status_by_asked", by(&rules, &fleet(), "colour", now()).unwrap());
    assert!(by(&rules, &fleet(), "active", now()).unwrap().starts_with("Job.batch backup: active: none\n"));
    let known = by(&rules, &fleet(), "size", now()).unwrap_err();
    assert!(
        known.ends_with("active, addresses, colour, failed, load, open, paused, ready, succeeded, version"),
        "{known}"
    );
}

#[test]
fn clusters_are_grouped_by_what_a_value_is_on_them() {
    assert_snapshot!("status_by", by(&[], &fleet(), "version", now()).unwrap());
    assert_snapshot!("status_by_unknown", by(&[], &fleet(), "colour", now()).unwrap_err());
}

//! drift, status, clusters.

use insta::assert_snapshot;
use kubectl_vidra::report::drift::Report;
use kubectl_vidra::report::{clusters, status};
use kubectl_vidra::text;
use serde_json::json;
use vidra_api::{MemberTargets, VidraTarget};

use crate::fleet::{drifted, member, now, resource, says, scaled, target, target_of, well};

/// 100 members; on every other one the same edit, at different times.
fn tampered() -> Vec<VidraTarget> {
    (0..100)
        .map(|number| {
            let detected = format!("2026-03-01T11:{:02}:00Z", 10 + number / 4);
            let status = if number % 2 == 0 { drifted(json!([scaled(&detected)])) } else { well() };
            target(&format!("member-{number:02}"), status)
        })
        .collect()
}

#[test]
fn the_same_edit_on_fifty_members_is_one_line() {
    let report = Report::of(&tampered(), false);
    assert_eq!(report.groups.len(), 1);
    assert_eq!(report.groups[0].cluster_count, 50);
    assert!(report.has_drift());
    assert_snapshot!("drift_of_fifty", report.text(false, false, now()));
    assert_snapshot!("drift_of_fifty_wide", report.text(true, false, now()));
}

fn mixed() -> Vec<VidraTarget> {
    let object = |kind: &str, name: &str, change: &str, fields| {
        json!({"version": "v1", "kind": kind, "namespace": "shop", "name": name, "change": change,
            "detectedAt": "2026-03-01T11:00:00Z", "fields": fields})
    };
    let field = |path: &str, expected, actual, manager: &str| json!({"path": path, "expected": expected, "actual": actual, "manager": manager, "operation": "Update"});
    let mut undone = scaled("2026-03-01T11:30:00Z");
    undone["corrected"] = json!("2026-03-01T11:30:01Z");
    let hostile = "\"\u{1b}[31m<b>red</b>\u{7}\n\u{202e}\u{9b}1m\"";
    let two = json!([
        field(".data.colour", json!("\"red\""), json!(hostile), "kubectl\u{1b}[2J"),
        field(".data.size", json!("\"1\""), json!(null), "unknown"),
    ]);
    let mut crowded = drifted(json!([object("ConfigMap", "settings", "Modified", two)]));
    crowded["changesTotal"] = json!(140);
    let mut lost = drifted(json!([scaled("2026-03-01T09:00:00Z")]));
    lost["drift"] = json!("Unknown");
    lost["state"] = json!("Unknown");
    let mut unnamed = well();
    unnamed["drift"] = json!("Drifted");
    unnamed["drifted"] = json!(2);
    let mut leaving = target("paris", drifted(json!([scaled("2026-03-01T09:00:00Z")])));
    leaving.spec.desired = vidra_api::DesiredState::Absent;
    vec![
        target("austin", drifted(json!([object("Secret", "a", "Missing", json!([])), undone]))),
        target("berlin", crowded),
        target("cairo", lost),
        target("delhi", json!(null)),
        target_of("crds", "berlin", unnamed),
        target_of(
            "crds",
            "cairo",
            drifted(json!([
                object("Service", "x", "Extra", json!([])),
                object("Service", "y", "OwnershipLost", json!([])),
            ])),
        ),
        target("tokyo", well()),
        leaving,
    ]
}

#[test]
fn all_kinds_of_drift_are_told_escaped_and_what_is_unknown_is_counted() {
    let report = Report::of(&mixed(), true);
    assert_snapshot!("drift_mixed", report.text(false, true, now()));
    assert_snapshot!("drift_mixed_wide", report.text(true, true, now()));
    let value = serde_json::to_value(&report).unwrap();
    assert_snapshot!("drift_mixed_json", text::json(&value));
    assert_snapshot!("drift_mixed_yaml", text::yaml(&value));
    for shown in [report.text(true, true, now()), text::json(&value), text::yaml(&value)] {
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
        assert!(!shown.contains('\u{202e}'), "{shown:?}");
    }
    let without = Report::of(&mixed(), false);
    assert_eq!(without.groups.len() + 1, report.groups.len());
}

#[test]
fn no_drift_is_said_with_how_many_were_looked_at_and_of_how_many_nobody_knows() {
    let one = [target("tokyo", well())];
    assert_eq!(Report::of(&one, false).text(false, false, now()), "No drift. 1 target looked at.\n");
    let mut lost = well();
    lost["drift"] = json!("Unknown");
    let two = [target("tokyo", well()), target("cairo", lost), target("delhi", json!(null))];
    let report = Report::of(&two, false);
    assert!(!report.has_drift());
    assert_snapshot!("drift_none_and_unknown", report.text(false, false, now()));
}

#[test]
fn a_target_that_had_drifted_when_last_seen_counts_as_drift() {
    let mut lost = drifted(json!([scaled("2026-03-01T11:50:00Z")]));
    lost["drift"] = json!("Unknown");
    let all = [target("cairo", lost.clone()), target("delhi", json!(null))];
    let report = Report::of(&all, false);
    assert!(report.has_drift() && report.groups.is_empty());
    assert_snapshot!("drift_last_seen", report.text(false, false, now()));
    lost["changes"] = json!([]);
    lost["drifted"] = json!(0);
    assert!(!Report::of(&[target("cairo", lost)], false).has_drift(), "in sync when last seen");
}

#[test]
fn a_tree_shows_what_is_not_well_and_counts_the_rest() {
    let mut failed = drifted(json!([scaled("2026-03-01T11:50:00Z")]));
    failed["state"] = json!("Failed");
    failed["reason"] = json!("Forbidden");
    failed["message"] = json!("deployments.apps is forbidden\n\u{1b}[31m");
    let mut waits = well();
    waits["state"] = json!("Progressing");
    waits["reason"] = json!("ObjectsProgressing");
    waits["revision"] = json!("99");
    waits["progress"] = json!({"revision": "aa", "wave": 1, "since": "2026-03-01T11:58:00Z"});
    waits["message"] = json!("Deployment.apps shop/web: 1 of 3 replicas");
    let mut lost = well();
    lost["state"] = json!("Unknown");
    lost["reason"] = json!("MemberUnreachable");
    lost["drift"] = json!("Unknown");
    let targets = [
        target("austin", well()),
        target("berlin", failed),
        target("cairo", waits),
        target("delhi", lost),
        target("tokyo", well()),
        target("zurich", drifted(json!([scaled("2026-03-01T11:50:00Z")]))),
        target_of("gone", "tokyo", well()),
    ];
    let shop =
        resource("shop", json!({"targets": []}), says("False", "TargetsFailed", "berlin: Forbidden", "3/6"));
    let crds = resource("crds", json!({"targets": []}), says("True", "Ready", "", "0/0"));
    let fresh = resource("fresh", json!({"targets": []}), json!(null));
    let resources = [crds, fresh, shop.clone()];
    assert_snapshot!("status_all", status::text(&resources, &targets, false, now()));
    assert_snapshot!("status_one", status::text(&[shop], &targets[..6], true, now()));
}

#[test]
fn a_tree_names_each_object_that_is_not_well_and_counts_those_that_are_not_listed() {
    let one = |kind: &str, name: &str, health: &str| json!({"group": "apps", "kind": kind, "namespace": "shop", "name": name, "health": health});
    let mut failed = one("Deployment", "web", "Failed");
    failed["note"] = json!("The rollout exceeded its progress deadline");
    let mut hostile = one("Deployment", "api", "InProgress");
    hostile["note"] = json!("Fewer\n\u{1b}[31m\u{202e}");
    let namespace = json!({"kind": "Namespace", "name": "shop", "health": "Terminating"});
    let mut late = drifted(json!([scaled("2026-03-01T11:50:00Z")]));
    late["state"] = json!("Failed");
    late["reason"] = json!("ObjectFailed");
    late["objects"] = json!(12);
    late["unready"] = json!([failed, hostile, namespace, one("StatefulSet", "db", "NotFound")]);
    late["unreadyTotal"] = json!(9);
    late["changesTotal"] = json!(3);
    let mut two = well();
    two["state"] = json!("Progressing");
    two["reason"] = json!("ObjectsProgressing");
    two["ready"] = json!(1);
    two["unready"] = json!([one("Deployment", "api", "InProgress"), one("Deployment", "web", "Unknown")]);
    let targets = [target("berlin", late), target("cairo", two), target("tokyo", well())];
    let shop = resource("shop", json!({"targets": []}), says("False", "TargetsFailed", "berlin", "1/3"));
    let tree = status::text(&[shop], &targets, false, now());
    assert!(tree.chars().all(|c| c == '\n' || !c.is_control()) && !tree.contains('\u{202e}'), "{tree:?}");
    assert_snapshot!("status_unready", tree);

    // Nothing waits for its health, and the VidraResource is Ready without one of its members.
    let mut ready = well();
    ready["ready"] = json!(2);
    ready["unready"] = json!([one("Deployment", "web", "Failed")]);
    let mut lost = well();
    lost["state"] = json!("Unknown");
    lost["reason"] = json!("MemberUnreachable");
    let targets = [target("berlin", ready), target("cairo", lost), target("tokyo", well())];
    let without = "1 of 3 targets cannot be reached, and spec.readiness.maxUnreachable allows 1: cairo";
    let shop = resource("shop", json!({"targets": []}), says("True", "Ready", without, "2/3"));
    assert_snapshot!("status_ready_without", status::text(&[shop], &targets, false, now()));
}

#[test]
fn a_tree_says_what_is_gone_what_still_goes_and_counts_as_the_hub_does() {
    let mut gone = well();
    gone["state"] = json!("Failed");
    gone["reason"] = json!("ObjectsMissing");
    gone["unready"] = json!([{"kind": "ConfigMap", "namespace": "shop", "name": "a", "health": "NotFound",
        "note": "It was delivered and is gone"}]);
    let mut pruning = well();
    pruning["removing"] = json!({"objects": 2, "reason": "Finalizers", "message": "waiting until ConfigMap shop/old is gone\u{1b}[31m"});
    let mut behind = well();
    behind["revision"] = json!("99");
    let mut earlier = target("oslo", well());
    earlier.metadata.generation = Some(2);
    let mut leaving = target("zurich", well());
    leaving.spec.desired = vidra_api::DesiredState::Absent;
    let status = leaving.status.as_mut().unwrap();
    status.state = Some(vidra_api::TargetState::Terminating);
    (status.reason, status.message) = (Some("NoCredentials".into()), Some("the hub has none".into()));
    // How many of them are healthy is nothing that anybody waits for.
    (status.objects, status.ready) = (400, 0);
    let targets = [
        target("austin", well()),
        target("berlin", gone),
        target("cairo", pruning),
        target("delhi", behind),
        earlier,
        leaving,
    ];
    let shop = resource("shop", json!({"targets": []}), says("False", "TargetsFailed", "berlin", "1/5"));
    assert_snapshot!("status_going", status::text(std::slice::from_ref(&shop), &targets, false, now()));
}

#[test]
fn a_command_to_copy_stands_whole_below_the_tree_and_so_does_each_warning() {
    let mut held = well();
    held["state"] = json!("Failed");
    held["reason"] = json!("RemovalHeld");
    held["message"] = json!(crate::fleet::held("shop"));
    let mut guarded = well();
    guarded["state"] = json!("Failed");
    guarded["reason"] = json!("HubRestored");
    guarded["message"] = json!(
        "30 objects on cairo were applied from later declarations than this hub has: it seems to be restored from an older backup, and nothing is written there. Apply the later VidraResources, or confirm that this hub's state is the right one: kubectl annotate membercluster cairo --overwrite vidra.dev/confirm=restore"
    );
    let targets = [target("austin", held.clone()), target("berlin", held), target("cairo", guarded)];
    let first = format!("3 of 3 targets failed: austin: {}", crate::fleet::held("shop"));
    let mut status = says("False", "TargetsFailed", &first, "0/3");
    let conditions = status["conditions"].as_array_mut().unwrap();
    for (kind, reason, message) in [
        (
            "IgnoreUnmatched",
            "PathMatchesNothing",
            "spec.drift.ignore[0].paths[0] matches nothing on any member",
        ),
        (
            "FeedbackIncomplete",
            "FeedbackUnmatched",
            "spec.statusFeedback[1] matches no declared object\u{1b}[31m",
        ),
    ] {
        conditions.push(json!({"type": kind, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": "2026-03-01T11:57:00Z"}));
    }
    let shop = resource("shop", json!({"targets": []}), status);
    let tree = status::text(&[shop], &targets, false, now());
    for whole in ["approve-removal=5f0a1b2c3d", "membercluster cairo --overwrite vidra.dev/confirm=restore"] {
        assert!(
            tree.lines().any(|line| line.starts_with("    kubectl annotate ") && line.ends_with(whole)),
            "{tree}"
        );
        assert_eq!(tree.matches(whole).count(), 1, "{tree}");
    }
    assert_snapshot!("status_commands", tree);
}

#[test]
fn a_tree_says_how_many_objects_are_suspended_and_of_how_many_nothing_proves_that_they_are_well() {
    let mut rests = well();
    rests["suspended"] = json!(2);
    let mut unproven = well();
    unproven["unproven"] = json!({"objects": 1, "first": [{"kind": "Shop", "name": "a"}]});
    let mut both = drifted(json!([scaled("2026-03-01T11:50:00Z")]));
    both["suspended"] = json!(1);
    both["unproven"] = json!({"objects": 2});
    let targets =
        [target("austin", rests), target("berlin", unproven), target("cairo", both), target("tokyo", well())];
    let shop = resource("shop", json!({"targets": []}), says("True", "Ready", "", "4/4"));
    let tree = status::text(&[shop], &targets, true, now());
    for told in
        ["3/3 objects (2 suspended)", "3/3 objects (1 unproven)", "3/3 objects (1 suspended, 2 unproven)"]
    {
        assert!(tree.contains(told), "{tree}");
    }
    assert_snapshot!("status_counts", tree);
}

#[test]
fn targets_of_which_the_same_is_told_stand_together() {
    let stuck = |since: &str, message: &str| {
        let mut status = drifted(json!([scaled(since)]));
        status["state"] = json!("Failed");
        status["reason"] = json!("KindUnknown");
        status["message"] = json!(message);
        status["since"] = json!(since);
        status
    };
    let mut targets: Vec<_> = (10..22)
        .map(|number| {
            let since = format!("2026-03-01T11:{}:00Z", 30 + number);
            target(&format!("c{number}"), stuck(&since, "the member does not know Widget"))
        })
        .collect();
    targets.push(target("c15x", stuck("2026-03-01T11:50:00Z", "the member does not know Gadget")));
    targets.push(target("tokyo", well()));
    let shop = resource("shop", json!({"targets": []}), says("False", "TargetsFailed", "c10", "1/14"));
    assert_snapshot!("status_alike", status::text(std::slice::from_ref(&shop), &targets, false, now()));
    let all = status::text(&[shop], &targets, true, now());
    assert!((10..22).all(|number| all.contains(&format!("c{number}"))), "{all}");
}

#[test]
fn members_are_listed_with_what_is_delivered_to_them() {
    let mut lost = member("cairo", "test");
    let status = lost.status.as_mut().unwrap();
    status.last_contact_time = Some(serde_json::from_value(json!("2026-03-01T11:00:00Z")).unwrap());
    for condition in &mut status.conditions {
        condition.status = "False".to_owned();
        condition.reason = "AnotherCluster".to_owned();
        condition.message = "another cluster answers (kube-system uid 81d0, joined with 3f9c); nothing is written. If it is meant to replace the old one: kubectl annotate membercluster cairo --overwrite vidra.dev/confirm=81d0".to_owned();
    }
    let mut fresh = member("delhi", "test");
    fresh.status = None;
    fresh.spec.suspend = true;
    status.targets = Some(MemberTargets { total: 1, failed: 1, ..MemberTargets::default() });
    let mut berlin = member("berlin", "prod");
    let counts = MemberTargets { total: 2, ready: 2, drifted: 1, failed: 0, terminating: 1 };
    berlin.status.as_mut().unwrap().targets = Some(counts);
    let members = [member("tokyo", "prod"), lost, berlin, fresh];
    assert_snapshot!("clusters", clusters::text(&members, false, now()));
    assert_snapshot!("clusters_wide", clusters::text(&members, true, now()));
    // Its Secret is gone: it answered before.
    let mut bare = member("tokyo", "prod");
    for one in &mut bare.status.as_mut().unwrap().conditions {
        one.status = if one.type_ == "Ready" { "False" } else { "Unknown" }.to_owned();
    }
    let shown = clusters::text(&[bare], false, now());
    assert!(shown.contains("unknown") && !shown.contains("never"), "{shown}");
    assert_snapshot!("clusters_none", clusters::text(&[], false, now()));
}

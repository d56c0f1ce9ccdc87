//! One table for each rule: what is added to a healthy or empty object, and the verdict.

mod custom;
mod library;
mod rules;

use serde_json::{Value, json};

use super::{Health, HealthStatus, facts::Facts, judge, rules::RuleSet};
use HealthStatus::{Current, Failed, InProgress, Suspended, Terminating, Unknown};

fn merge(base: &mut Value, patch: &Value) {
    match (base, patch) {
        (Value::Object(base), Value::Object(patch)) => {
            for (name, value) in patch {
                if value.is_null() {
                    base.remove(name);
                } else {
                    merge(base.entry(name.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (base, patch) => *base = patch.clone(),
    }
}

/// Without rules and facts.
fn assess(live: &Value) -> Health {
    judge(live, &RuleSet::default(), &Facts::default()).health
}

/// Checks each patch (RFC 7396) of the base.
fn check(base: Value, cases: &[(Value, HealthStatus, &str)]) {
    for (patch, status, reason) in cases {
        let mut live = base.clone();
        merge(&mut live, patch);
        let health = assess(&live);
        assert_eq!((health.status, health.reason), (*status, *reason), "{live}");
        assert!(!health.message.is_empty() && !health.message.contains(|c: char| c.is_ascii_digit()));
    }
}

fn conditions(list: &[(&str, &str, &str)]) -> Value {
    list.iter().map(|(t, s, r)| json!({"type": t, "status": s, "reason": r, "message": "3 of 4"})).collect()
}

#[test]
fn a_custom_resource_is_judged_by_its_generation_and_conditions() {
    let with = |c: &[(&str, &str, &str)]| json!({"status": {"conditions": conditions(c)}});
    check(
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "generation": 2}}),
        &[
            (json!({}), Current, "Current"),
            (json!({"status": {"observedGeneration": 2}}), Current, "Current"),
            (json!({"status": {"observedGeneration": 1}}), InProgress, "LatestGenerationNotObserved"),
            (json!({"status": {"observedGeneration": "odd"}}), Current, "Current"),
            (json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), Terminating, "Terminating"),
            (with(&[("Reconciling", "True", "X")]), InProgress, "Reconciling"),
            (with(&[("Reconciling", "False", "X")]), Current, "Current"),
            (with(&[("Stalled", "True", "X"), ("Ready", "False", "X")]), Failed, "Stalled"),
            (with(&[("Reconciling", "True", "X"), ("Stalled", "True", "X")]), InProgress, "Reconciling"),
            (with(&[("Ready", "False", "X")]), InProgress, "NotReady"),
            (with(&[("Ready", "Unknown", "X")]), InProgress, "NotReady"),
            (with(&[("Ready", "True", "X")]), Current, "Current"),
            (json!({"status": {"conditions": "odd"}}), Current, "Current"),
            (json!({"status": "odd"}), Current, "Current"),
        ],
    );
}

#[test]
fn what_is_no_object_is_unknown() {
    assert_eq!(assess(&json!([])).status, Unknown);
}

#[test]
fn deletion_comes_before_everything_else() {
    let live = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "status": {"observedGeneration": 1},
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "generation": 2},
    });
    assert_eq!(assess(&live).status, Terminating);
}

fn rolled_out() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": 1},
        "spec": {"replicas": 4, "progressDeadlineSeconds": 600},
        "status": {
            "observedGeneration": 1, "replicas": 4, "updatedReplicas": 4, "readyReplicas": 4,
            "availableReplicas": 4,
            "conditions": conditions(&[
                ("Progressing", "True", "NewReplicaSetAvailable"), ("Available", "True", "X")]),
        },
    })
}

#[test]
fn a_deployment_is_current_when_its_replicas_and_conditions_say_so() {
    let with = |c: &[(&str, &str, &str)]| json!({"status": {"conditions": conditions(c)}});
    let available = ("Available", "True", "X");
    check(
        rolled_out(),
        &[
            (json!({}), Current, "Current"),
            (json!({"metadata": {"generation": 2}}), InProgress, "LatestGenerationNotObserved"),
            (json!({"status": null}), InProgress, "LessReplicas"),
            (json!({"status": {"replicas": 3}}), InProgress, "LessReplicas"),
            (json!({"status": {"updatedReplicas": 3}}), InProgress, "LessUpdated"),
            (json!({"status": {"replicas": 5}}), InProgress, "ExtraPods"),
            (json!({"status": {"availableReplicas": 3}}), InProgress, "LessAvailable"),
            (json!({"status": {"readyReplicas": 3}}), InProgress, "LessReady"),
            (
                with(&[("Progressing", "True", "ReplicaSetUpdated"), available]),
                InProgress,
                "ReplicaSetNotAvailable",
            ),
            (
                with(&[("Progressing", "True", "NewReplicaSetAvailable")]),
                InProgress,
                "DeploymentNotAvailable",
            ),
            (
                with(&[("Progressing", "False", "ProgressDeadlineExceeded"), available]),
                Failed,
                "ProgressDeadlineExceeded",
            ),
            (
                json!({"spec": {"replicas": 0}, "status": {"replicas": null, "updatedReplicas": null,
            "readyReplicas": null, "availableReplicas": null}}),
                Current,
                "Current",
            ),
        ],
    );
}

#[test]
fn a_deployment_without_a_deadline_needs_no_progressing_condition() {
    let status = json!({"conditions": conditions(&[("Available", "True", "X")])});
    check(
        rolled_out(),
        &[
            (json!({"spec": {"progressDeadlineSeconds": null}, "status": status}), Current, "Current"),
            (json!({"spec": {"progressDeadlineSeconds": i32::MAX}, "status": status}), Current, "Current"),
            (json!({"status": status}), InProgress, "ReplicaSetNotAvailable"),
        ],
    );
}

#[test]
fn a_paused_deployment_is_current_when_its_pods_are_as_declared() {
    let paused = json!({"conditions": conditions(&[
        ("Progressing", "Unknown", "DeploymentPaused"), ("Available", "True", "X")])});
    let mut base = rolled_out();
    merge(&mut base, &json!({"spec": {"paused": true}, "status": paused}));
    check(
        base,
        &[
            (json!({}), Current, "Current"),
            (json!({"status": {"updatedReplicas": null}}), InProgress, "Paused"),
            (json!({"status": {"availableReplicas": 3}}), InProgress, "LessAvailable"),
        ],
    );
}

#[test]
fn a_stateful_set_is_current_when_its_revision_is() {
    let base = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"replicas": 4},
        "status": {"replicas": 4, "readyReplicas": 4, "currentReplicas": 4, "updatedReplicas": 4,
            "currentRevision": "a", "updateRevision": "a"},
    });
    let partition = |n: i64| json!({"updateStrategy": {"rollingUpdate": {"partition": n}}});
    check(
        base,
        &[
            (json!({}), Current, "Current"),
            (json!({"status": {"replicas": 3}}), InProgress, "LessReplicas"),
            (json!({"status": {"readyReplicas": 3}}), InProgress, "LessReady"),
            (json!({"status": {"replicas": 5}}), InProgress, "ExtraPods"),
            (json!({"status": {"currentReplicas": 3}}), InProgress, "LessCurrent"),
            (json!({"status": {"updateRevision": "b"}}), InProgress, "RevisionMismatch"),
            (
                json!({"spec": partition(2), "status": {"updatedReplicas": 2, "currentReplicas": 2,
            "updateRevision": "b"}}),
                Current,
                "Current",
            ),
            (json!({"spec": partition(2), "status": {"updatedReplicas": 1}}), InProgress, "PartitionRollout"),
            (json!({"spec": partition(0), "status": {"updatedReplicas": 3}}), InProgress, "PartitionRollout"),
            (json!({"spec": partition(9), "status": {"updatedReplicas": null}}), Current, "Current"),
            (json!({"spec": {"updateStrategy": {"type": "OnDelete"}}, "status": null}), Current, "Current"),
            (json!({"spec": {"replicas": null}, "status": null}), InProgress, "LessReplicas"),
        ],
    );
}

#[test]
fn a_daemon_set_is_current_when_every_pod_is() {
    let base = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"generation": 1},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 4, "currentNumberScheduled": 4,
            "updatedNumberScheduled": 4, "numberAvailable": 4, "numberReady": 4},
    });
    check(
        base,
        &[
            (json!({}), Current, "Current"),
            (json!({"metadata": null}), InProgress, "NoGeneration"),
            (json!({"status": {"observedGeneration": null}}), InProgress, "NoObservedGeneration"),
            (json!({"status": {"desiredNumberScheduled": null}}), InProgress, "NoDesiredNumber"),
            (json!({"status": {"currentNumberScheduled": 3}}), InProgress, "LessCurrent"),
            (json!({"status": {"updatedNumberScheduled": 3}}), InProgress, "LessUpdated"),
            (json!({"status": {"numberAvailable": 3}}), InProgress, "LessAvailable"),
            (json!({"status": {"numberReady": 3}}), InProgress, "LessReady"),
            (json!({"status": {"desiredNumberScheduled": 0}}), Current, "Current"),
            (
                json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}, "status": {"updatedNumberScheduled": 1}}),
                InProgress,
                "LessUpdated",
            ),
            (
                json!({"spec": {"updateStrategy": {"type": "OnDelete"}}, "status": {"updatedNumberScheduled": 1}}),
                Current,
                "Current",
            ),
            (
                json!({"spec": {"updateStrategy": {"type": "OnDelete"}}, "status": {"numberAvailable": 3}}),
                InProgress,
                "LessAvailable",
            ),
        ],
    );
}

#[test]
fn a_replica_set_is_current_when_its_pods_are_available() {
    let base = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"replicas": 4},
        "status": {"replicas": 4, "fullyLabeledReplicas": 4, "availableReplicas": 4, "readyReplicas": 4},
    });
    let failure = conditions(&[("ReplicaFailure", "True", "FailedCreate")]);
    check(
        base,
        &[
            (json!({}), Current, "Current"),
            (json!({"status": {"conditions": failure}}), InProgress, "ReplicaFailure"),
            (json!({"status": {"fullyLabeledReplicas": 3}}), InProgress, "LessLabelled"),
            (json!({"status": {"availableReplicas": 3}}), InProgress, "LessAvailable"),
            (json!({"status": {"readyReplicas": 3}}), InProgress, "LessReady"),
            (json!({"status": {"replicas": 5}}), InProgress, "ExtraPods"),
        ],
    );
}

#[test]
fn the_older_group_of_workloads_is_judged_by_the_same_rules() {
    for kind in ["Deployment", "ReplicaSet"] {
        check(
            json!({"apiVersion": "extensions/v1beta1", "kind": kind, "spec": {"replicas": 1}}),
            &[(
                json!({"status": {"fullyLabeledReplicas": 1}}),
                InProgress,
                match kind {
                    "Deployment" => "LessReplicas",
                    _ => "LessAvailable",
                },
            )],
        );
    }
    let daemon_set = json!({"apiVersion": "extensions/v1beta1", "kind": "DaemonSet"});
    check(daemon_set, &[(json!({}), InProgress, "NoGeneration")]);
}

#[test]
fn workloads_that_want_nothing_are_current() {
    let none = json!({"replicas": 0});
    for (kind, patch) in [
        ("ReplicaSet", json!({})),
        ("StatefulSet", json!({})),
        ("StatefulSet", json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})),
    ] {
        check(json!({"apiVersion": "apps/v1", "kind": kind, "spec": none}), &[(patch, Current, "Current")]);
    }
}

#[test]
fn a_stateful_set_that_was_not_observed_is_not_judged_by_its_old_counts() {
    check(
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"generation": 2}, "spec": {"replicas": 1},
            "status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "currentReplicas": 1}}),
        &[
            (json!({}), InProgress, "LatestGenerationNotObserved"),
            (json!({"status": {"observedGeneration": 2}}), Current, "Current"),
        ],
    );
}

#[test]
fn a_pod_follows_its_phase() {
    let phase = |phase: &str, c: Value| json!({"status": {"phase": phase, "conditions": c}});
    let waiting = |reason: &str| {
        json!({"status": {"phase": "Running", "containerStatuses": [
            {"name": "ok", "state": {"running": {}}}, {"name": "app", "state": {"waiting": {"reason": reason}}}]}})
    };
    check(
        json!({"apiVersion": "v1", "kind": "Pod"}),
        &[
            (json!({}), InProgress, "PodNotObserved"),
            (phase("Succeeded", json!([])), Current, "Current"),
            (phase("Failed", json!([])), Failed, "PodFailed"),
            (phase("Running", conditions(&[("Ready", "True", "")])), Current, "Current"),
            (phase("Running", conditions(&[("Ready", "False", "")])), InProgress, "PodRunningNotReady"),
            (waiting("CrashLoopBackOff"), Failed, "ContainerCrashLooping"),
            (waiting("ContainerCreating"), InProgress, "PodRunningNotReady"),
            (phase("Pending", json!([])), InProgress, "PodPending"),
            (
                phase("Pending", conditions(&[("PodScheduled", "False", "Unschedulable")])),
                InProgress,
                "PodNotScheduled",
            ),
            (phase("Pending", conditions(&[("PodScheduled", "True", "")])), InProgress, "PodPending"),
            (phase("Odd", json!([])), Unknown, "UnknownPhase"),
        ],
    );
}

#[test]
fn a_job_is_current_once_it_runs_and_failed_when_it_says_so() {
    let with = |c: &[(&str, &str, &str)]| json!({"status": {"conditions": conditions(c)}});
    check(
        json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"completions": 3}}),
        &[
            (json!({}), InProgress, "JobNotStarted"),
            (json!({"status": {"startTime": "2026-01-01T00:00:00Z", "active": 1}}), Current, "Current"),
            (with(&[("Complete", "True", "")]), Current, "Current"),
            (with(&[("Complete", "False", "")]), InProgress, "JobNotStarted"),
            (with(&[("Failed", "True", "BackoffLimitExceeded")]), Failed, "JobFailed"),
            (
                json!({"spec": {"suspend": true}, "status": {"conditions": conditions(&[("Suspended", "True", "X")])}}),
                Suspended,
                "Suspended",
            ),
            // Resumed, and the controller has not said so yet.
            (with(&[("Suspended", "True", "JobSuspended")]), InProgress, "JobNotStarted"),
            (json!({"spec": {"suspend": true}}), InProgress, "JobNotStarted"),
            (with(&[("FailureTarget", "True", "BackoffLimitExceeded")]), InProgress, "JobNotStarted"),
        ],
    );
}

#[test]
fn what_is_suspended_is_well_and_opens_no_wave() {
    for (health, is_well, opens) in [
        (Current, true, true),
        (Suspended, true, false),
        (InProgress, false, false),
        (Failed, false, false),
        (Terminating, false, false),
        (Unknown, false, false),
    ] {
        assert_eq!((health.is_well(), health.opens()), (is_well, opens), "{health}");
    }
    let cron =
        |suspend: Value| json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"suspend": suspend}});
    for (suspend, is_suspended) in [(json!(true), true), (json!(false), false), (json!(null), false)] {
        let health = assess(&cron(suspend));
        assert_eq!(
            (health.status, health.is_suspended()),
            (Current, is_suspended),
            "nothing waits for its end"
        );
    }
}

#[test]
fn a_claim_is_current_when_it_is_bound() {
    check(
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim"}),
        &[
            (json!({"status": {"phase": "Bound"}}), Current, "Current"),
            (json!({"status": {"phase": "Pending"}}), InProgress, "NotBound"),
            (json!({"status": {"phase": "Lost"}}), InProgress, "NotBound"),
            (json!({}), InProgress, "NotBound"),
        ],
    );
}

#[test]
fn a_load_balancer_waits_for_its_cluster_ip() {
    check(
        json!({"apiVersion": "v1", "kind": "Service", "spec": {}}),
        &[
            (json!({}), Current, "Current"),
            (json!({"spec": {"type": "LoadBalancer"}}), InProgress, "NoIPAssigned"),
            (json!({"spec": {"type": "LoadBalancer", "clusterIP": ""}}), InProgress, "NoIPAssigned"),
            (json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1"}}), Current, "Current"),
        ],
    );
}

#[test]
fn a_namespace_is_current_when_it_is_active() {
    check(
        json!({"apiVersion": "v1", "kind": "Namespace"}),
        &[
            (json!({"status": {"phase": "Active"}}), Current, "Current"),
            (json!({"status": {"phase": "Terminating"}}), Terminating, "Terminating"),
            (json!({}), InProgress, "NotActive"),
        ],
    );
}

#[test]
fn a_crd_is_current_when_it_is_established() {
    let with = |c: &[(&str, &str, &str)]| json!({"status": {"conditions": conditions(c)}});
    let accepted = ("NamesAccepted", "True", "NoConflicts");
    check(
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}),
        &[
            (json!({}), InProgress, "Installing"),
            (with(&[accepted]), InProgress, "Installing"),
            (with(&[accepted, ("Established", "False", "Installing")]), InProgress, "Installing"),
            (with(&[accepted, ("Established", "False", "NotAccepted")]), Failed, "NotEstablished"),
            (with(&[accepted, ("Established", "True", "InitialNamesAccepted")]), Current, "Current"),
            (
                with(&[("Established", "True", "X"), ("NamesAccepted", "False", "ListKindConflict")]),
                Failed,
                "NamesNotAccepted",
            ),
        ],
    );
}

#[test]
fn an_api_service_is_current_when_it_is_available() {
    let with = |status: &str| json!({"status": {"conditions": conditions(&[("Available", status, "X")])}});
    check(
        json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}),
        &[
            (with("True"), Current, "Current"),
            (with("False"), InProgress, "NotAvailable"),
            (json!({}), InProgress, "NotAvailable"),
        ],
    );
}

#[test]
fn kinds_without_a_state_are_current() {
    for (api_version, kind) in [
        ("v1", "ConfigMap"),
        ("v1", "Secret"),
        ("batch/v1", "CronJob"),
        ("policy/v1", "PodDisruptionBudget"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("networking.k8s.io/v1", "Ingress"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("storage.k8s.io/v1", "StorageClass"),
        ("v1", "ServiceAccount"),
    ] {
        check(json!({"apiVersion": api_version, "kind": kind}), &[(json!({}), Current, "Current")]);
    }
}

#[test]
fn the_same_kind_in_another_group_is_another_kind() {
    check(
        json!({"apiVersion": "serving.example.com/v1", "kind": "Service", "spec": {"type": "LoadBalancer"}}),
        &[(json!({}), Current, "Current")],
    );
}

#[test]
fn a_disruption_budget_waits_for_its_generation() {
    check(
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"generation": 2}}),
        &[
            (json!({"status": {"observedGeneration": 1}}), InProgress, "LatestGenerationNotObserved"),
            (json!({"status": {"observedGeneration": 2}}), Current, "Current"),
        ],
    );
}

#[test]
fn the_message_stays_while_counts_move() {
    let with = |ready: i64| {
        let mut live = rolled_out();
        merge(&mut live, &json!({"status": {"replicas": ready, "availableReplicas": ready}}));
        assess(&live)
    };
    assert_eq!(with(1), with(2));
    assert_ne!(with(3), with(4));
}

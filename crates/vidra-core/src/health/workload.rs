//! Kinds that run pods, such as Deployment and StatefulSet. Rules and their order: cli-utils, pkg/kstatus/status/core.go.

use serde_json::Value;

use super::Health;
use super::read::{condition, count, flag, has_condition, number, text};

const FEWER: &str = "There are fewer replicas than wanted";
const FEWER_READY: &str = "Fewer replicas are ready than wanted";
const FEWER_AVAILABLE: &str = "Fewer replicas are available than wanted";
const FEWER_UPDATED: &str = "Fewer replicas are updated than wanted";
const EXTRA: &str = "More replicas than wanted wait to be removed";

/// Controllers take an absent replica count for one.
fn wanted(live: &Value) -> i64 {
    number(live, "/spec/replicas").unwrap_or(1)
}

pub(super) fn deployment(live: &Value) -> Health {
    let paused = flag(live, "/spec/paused");
    let progressing = condition(live, "Progressing");
    if progressing.is_some_and(|c| c.reason == "ProgressDeadlineExceeded") {
        return Health::failed("ProgressDeadlineExceeded", "The rollout exceeded its progress deadline");
    }
    // Without a deadline (absent, or the largest int32) the controller sets no condition Progressing; while a rollout
    // is paused that condition says DeploymentPaused and nothing about the pods.
    let deadline = number(live, "/spec/progressDeadlineSeconds").is_some_and(|s| s != i64::from(i32::MAX));
    let rolled_out = !deadline
        || paused
        || progressing.is_some_and(|c| c.status == "True" && c.reason == "NewReplicaSetAvailable");
    let (wanted, replicas, updated) = (wanted(live), count(live, "replicas"), count(live, "updatedReplicas"));
    if wanted > replicas {
        Health::in_progress("LessReplicas", FEWER)
    } else if wanted > updated && paused {
        Health::in_progress("Paused", "The rollout is paused before all replicas are updated")
    } else if wanted > updated {
        Health::in_progress("LessUpdated", FEWER_UPDATED)
    } else if replicas > wanted {
        Health::in_progress("ExtraPods", EXTRA)
    } else if updated > count(live, "availableReplicas") {
        Health::in_progress("LessAvailable", FEWER_AVAILABLE)
    } else if wanted > count(live, "readyReplicas") {
        Health::in_progress("LessReady", FEWER_READY)
    } else if !rolled_out {
        Health::in_progress("ReplicaSetNotAvailable", "The new ReplicaSet is not available")
    } else if !has_condition(live, "Available", "True") {
        Health::in_progress("DeploymentNotAvailable", "The condition Available is not True")
    } else {
        Health::current("The Deployment is available")
    }
}

/// The controller of StatefulSets sets no conditions, so failure cannot be seen.
pub(super) fn stateful_set(live: &Value) -> Health {
    if text(live, "/spec/updateStrategy/type") == Some("OnDelete") {
        return Health::current("The StatefulSet is updated by deleting its pods");
    }
    let (wanted, replicas, updated) = (wanted(live), count(live, "replicas"), count(live, "updatedReplicas"));
    if wanted > replicas {
        return Health::in_progress("LessReplicas", FEWER);
    }
    if wanted > count(live, "readyReplicas") {
        return Health::in_progress("LessReady", FEWER_READY);
    }
    if replicas > wanted {
        return Health::in_progress("ExtraPods", EXTRA);
    }
    if let Some(partition) = number(live, "/spec/updateStrategy/rollingUpdate/partition") {
        return if updated < wanted.saturating_sub(partition) {
            Health::in_progress(
                "PartitionRollout",
                "Fewer replicas above the partition are updated than wanted",
            )
        } else {
            Health::current("The replicas above the partition are updated")
        };
    }
    if wanted > count(live, "currentReplicas") {
        Health::in_progress("LessCurrent", "Fewer replicas are of the current revision than wanted")
    } else if text(live, "/status/currentRevision") != text(live, "/status/updateRevision") {
        Health::in_progress("RevisionMismatch", "The updated revision is not the current one yet")
    } else {
        Health::current("All replicas are scheduled as wanted")
    }
}

pub(super) fn daemon_set(live: &Value) -> Health {
    // The controller always sets both, so that their absence means that it has not acted yet.
    if number(live, "/metadata/generation").is_none() {
        return Health::in_progress("NoGeneration", "metadata.generation is not set");
    }
    if number(live, "/status/observedGeneration").is_none() {
        return Health::in_progress("NoObservedGeneration", "status.observedGeneration is not set");
    }
    let Some(wanted) = number(live, "/status/desiredNumberScheduled") else {
        return Health::in_progress("NoDesiredNumber", "status.desiredNumberScheduled is not set");
    };
    // Beyond kstatus, and as it does for StatefulSets: whoever updates by deleting pods does so in his own time.
    let by_hand = text(live, "/spec/updateStrategy/type") == Some("OnDelete");
    if wanted > count(live, "currentNumberScheduled") {
        Health::in_progress("LessCurrent", "Fewer pods are scheduled than wanted")
    } else if !by_hand && wanted > count(live, "updatedNumberScheduled") {
        Health::in_progress("LessUpdated", "Fewer pods are updated than wanted")
    } else if wanted > count(live, "numberAvailable") {
        Health::in_progress("LessAvailable", "Fewer pods are available than wanted")
    } else if wanted > count(live, "numberReady") {
        Health::in_progress("LessReady", "Fewer pods are ready than wanted")
    } else {
        Health::current("All pods are scheduled as wanted")
    }
}

/// ReplicaSets, and ReplicationControllers, which say the same.
pub(super) fn replica_set(live: &Value) -> Health {
    let wanted = wanted(live);
    if has_condition(live, "ReplicaFailure", "True") {
        Health::in_progress("ReplicaFailure", "The controller could not create or delete a pod")
    } else if wanted > count(live, "fullyLabeledReplicas") {
        Health::in_progress("LessLabelled", "Fewer replicas bear the template's labels than wanted")
    } else if wanted > count(live, "availableReplicas") {
        Health::in_progress("LessAvailable", FEWER_AVAILABLE)
    } else if wanted > count(live, "readyReplicas") {
        Health::in_progress("LessReady", FEWER_READY)
    } else if count(live, "replicas") > wanted {
        Health::in_progress("ExtraPods", EXTRA)
    } else {
        Health::current("The replicas are available")
    }
}

pub(super) fn pod(live: &Value) -> Health {
    match text(live, "/status/phase") {
        Some("Succeeded") => Health::current("The pod has completed"),
        // Current in kstatus, which asks the owner; one that is declared has none that would make another.
        Some("Failed") => Health::failed("PodFailed", "The pod has completed, but not successfully"),
        Some("Running") if has_condition(live, "Ready", "True") => Health::current("The pod is ready"),
        Some("Running") if crash_looping(live) => {
            Health::failed("ContainerCrashLooping", "A container crashes again and again")
        }
        Some("Running") => Health::in_progress("PodRunningNotReady", "The pod is running and not ready"),
        Some("Pending") => match condition(live, "PodScheduled") {
            // kstatus calls this Failed after 15 s of the wall clock; there is none here.
            Some(c) if c.status == "False" && c.reason == "Unschedulable" => {
                Health::in_progress("PodNotScheduled", "No node has been found for the pod")
            }
            _ => Health::in_progress("PodPending", "The pod is pending"),
        },
        None => Health::in_progress("PodNotObserved", "The pod has no phase yet"),
        Some(_) => Health::unknown("UnknownPhase", "The pod's phase is not known"),
    }
}

fn crash_looping(live: &Value) -> bool {
    let statuses = live.pointer("/status/containerStatuses").and_then(Value::as_array);
    statuses.into_iter().flatten().any(|s| text(s, "/state/waiting/reason") == Some("CrashLoopBackOff"))
}

/// A Job that has begun is Current: it may run for days, and nobody should wait for it.
pub(super) fn job(live: &Value) -> Health {
    if has_condition(live, "Failed", "True") {
        Health::failed("JobFailed", "The Job has failed")
    } else if has_condition(live, "Complete", "True") {
        Health::current("The Job has completed")
    } else if has_condition(live, "Suspended", "True") && flag(live, "/spec/suspend") {
        Health::suspended("The Job is suspended")
    } else if text(live, "/status/startTime").is_none() {
        Health::in_progress("JobNotStarted", "The Job has not started")
    } else {
        Health::current("The Job is running")
    }
}

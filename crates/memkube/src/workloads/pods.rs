//! The statuses of what runs once: a Job, and a Pod by itself.

use serde_json::{Value, json};

use super::conditions;
use super::status::{Phase, number, put};

pub(super) fn job(object: &Value, status: &mut Value, phase: &Phase, now: &str) {
    let spec = &object["spec"];
    let wanted = spec["completions"].as_u64().unwrap_or(1);
    let width = spec["parallelism"].as_u64().unwrap_or(1).min(wanted);
    let set = |status: &mut Value, kind: &str, reason: &str, message: &str| {
        conditions::set(status, kind, "True", reason, message, json!({"lastProbeTime": now}), now);
    };
    status["uncountedTerminatedPods"] = json!({});
    status["terminating"] = json!(0);
    status["ready"] = json!(0);
    if spec["suspend"] == true {
        return set(status, "Suspended", "JobSuspended", "Job suspended");
    }
    if conditions::has(status, "Suspended", "True") {
        let probed = json!({"lastProbeTime": now});
        conditions::set(status, "Suspended", "False", "JobResumed", "Job resumed", probed, now);
    }
    if status["startTime"].is_null() {
        status["startTime"] = json!(now);
    }
    let (active, succeeded) = match phase {
        Phase::Done => (0, wanted),
        Phase::Half => (width.min(wanted - wanted / 2), wanted / 2),
        Phase::Failed(_) => (0, number(&status["succeeded"])),
        _ => (width, 0),
    };
    put(status, &[("active", active), ("succeeded", succeeded)]);
    status["ready"] = json!(if *phase == Phase::Half { active } else { 0 });
    match phase {
        Phase::Done => {
            let message = "Reached expected number of succeeded pods";
            set(status, "SuccessCriteriaMet", "CompletionsReached", message);
            set(status, "Complete", "CompletionsReached", message);
            status["completionTime"] = json!(now);
        }
        Phase::Failed(reason) => {
            let message = match reason.as_str() {
                "BackoffLimitExceeded" => "Job has reached the specified backoff limit",
                "DeadlineExceeded" => "Job was active longer than specified deadline",
                _ => "",
            };
            status["failed"] = json!(spec["backoffLimit"].as_u64().unwrap_or(6) + 1);
            set(status, "FailureTarget", reason, message);
            set(status, "Failed", reason, message);
        }
        _ => {}
    }
}

pub(super) fn pod(object: &Value, status: &mut Value, phase: &Phase, now: &str) {
    let set = |status: &mut Value, kind: &str, is: &str, reason: &str| {
        conditions::set(status, kind, is, reason, "", json!({"lastProbeTime": null}), now);
    };
    set(status, "PodScheduled", "True", "");
    match phase {
        Phase::Done => {
            status["phase"] = json!("Running");
            for kind in ["PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"] {
                set(status, kind, "True", "");
            }
            status["startTime"] = json!(now);
            let containers = object["spec"]["containers"].as_array().into_iter().flatten();
            let running = containers.map(|container| {
                json!({
                    "name": container["name"], "image": container["image"], "imageID": container["image"],
                    "ready": true, "started": true, "restartCount": 0, "lastState": {},
                    "state": {"running": {"startedAt": now}},
                })
            });
            status["containerStatuses"] = running.collect();
        }
        Phase::Failed(reason) => {
            status["phase"] = json!("Failed");
            status["reason"] = json!(reason);
            for kind in ["ContainersReady", "Ready"] {
                set(status, kind, "False", "PodFailed");
            }
        }
        _ => {
            status["phase"] = json!("Pending");
            for kind in ["ContainersReady", "Ready"] {
                set(status, kind, "False", "ContainersNotReady");
            }
        }
    }
}

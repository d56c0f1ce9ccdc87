//! The statuses of workloads on their way, as the controllers of Kubernetes 1.36 write them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::conditions;
use crate::store::{Resource, rfc3339};
use crate::write::set;

/// A kind whose status moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    Deployment,
    StatefulSet,
    DaemonSet,
    ReplicaSet,
    Job,
    Pod,
    Claim,
    Service,
    Ingress,
}

const KINDS: [(&str, &str, Workload); 9] = [
    ("apps", "deployments", Workload::Deployment),
    ("apps", "statefulsets", Workload::StatefulSet),
    ("apps", "daemonsets", Workload::DaemonSet),
    ("apps", "replicasets", Workload::ReplicaSet),
    ("batch", "jobs", Workload::Job),
    ("", "pods", Workload::Pod),
    ("", "persistentvolumeclaims", Workload::Claim),
    ("", "services", Workload::Service),
    ("networking.k8s.io", "ingresses", Workload::Ingress),
];

impl Workload {
    pub fn of(resource: &Resource) -> Option<Self> {
        let mut all = KINDS.iter();
        all.find(|(group, plural, _)| *group == resource.group && *plural == resource.plural)
            .map(|known| known.2)
    }

    pub fn resources() -> impl Iterator<Item = Resource> {
        KINDS.iter().map(|(group, plural, _)| Resource::new(group, plural))
    }

    /// Does anything happen to this object?
    pub fn concerns(self, object: &Value) -> bool {
        self != Workload::Service || object["spec"]["type"] == "LoadBalancer"
    }

    /// Observed, and no further: paused or suspended.
    pub fn is_held(self, object: &Value) -> bool {
        match self {
            Workload::Deployment => object["spec"]["paused"] == true,
            Workload::Job => object["spec"]["suspend"] == true,
            _ => false,
        }
    }

    /// Is it at its end already?
    pub fn settled(self, object: &Value) -> bool {
        let status = &object["status"];
        let observed = status["observedGeneration"] == object["metadata"]["generation"];
        let wanted = |ready: &str| number(&status[ready]) >= desired(object);
        match self {
            Workload::Deployment => {
                observed
                    && wanted("availableReplicas")
                    && wanted("updatedReplicas")
                    && number(&status["replicas"]) == desired(object)
            }
            Workload::StatefulSet | Workload::ReplicaSet => observed && wanted("readyReplicas"),
            Workload::DaemonSet => observed && status["numberReady"] == status["desiredNumberScheduled"],
            Workload::Job => {
                conditions::has(status, "Complete", "True") || conditions::has(status, "Failed", "True")
            }
            Workload::Pod => !matches!(status["phase"].as_str(), None | Some("Pending")),
            Workload::Claim => status["phase"] == "Bound",
            Workload::Service | Workload::Ingress => status["loadBalancer"]["ingress"].is_array(),
        }
    }
}

/// How far a workload is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Observed,
    Half,
    Done,
    /// A Deployment's progress deadline is exceeded.
    TimedOut,
    Failed(String),
}

/// Where a run started.
pub(super) struct Base {
    /// There is a new template: pods are replaced.
    rolls: bool,
    /// The template's hash as names bear it.
    hash: String,
    /// Of `deployment.kubernetes.io/revision`.
    revision: u64,
    replicas: u64,
    available: u64,
    /// What a StatefulSet was at before.
    current: Value,
    nodes: u64,
}

const REVISION: &str = "deployment.kubernetes.io/revision";

impl Base {
    pub fn read(workload: Workload, object: &Value, rolls: bool, template: u64, nodes: usize) -> Self {
        let status = &object["status"];
        let last: Option<u64> =
            object["metadata"]["annotations"][REVISION].as_str().and_then(|text| text.parse().ok());
        let revision = match last {
            None => 1,
            Some(last) => last + u64::from(rolls),
        };
        let (replicas, available) = match workload {
            Workload::DaemonSet => ("currentNumberScheduled", "numberReady"),
            Workload::ReplicaSet | Workload::StatefulSet => ("replicas", "readyReplicas"),
            _ => ("replicas", "availableReplicas"),
        };
        Base {
            rolls,
            hash: format!("{:08x}", template as u32),
            revision,
            replicas: number(&status[replicas]),
            available: number(&status[available]),
            current: status["currentRevision"].clone(),
            nodes: nodes.max(1) as u64,
        }
    }

    /// Pods in all, those of the present template, and those that are ready.
    fn counts(&self, wanted: u64, phase: &Phase) -> (u64, u64, u64) {
        let (half, quarter) = (wanted.div_ceil(2), wanted.div_ceil(4));
        let kept = self.available.min(wanted);
        let replaced = self.rolls && self.available > 0;
        match phase {
            Phase::Done => (wanted, wanted, wanted),
            Phase::Half if replaced => (wanted + quarter, half.max(quarter), kept.max(half)),
            Phase::Half => (wanted, wanted, kept.max(half)),
            _ if replaced => (self.replicas.max(wanted) + quarter, quarter, self.available),
            _ => (wanted, wanted, kept),
        }
    }
}

/// What is written to the object itself: a claim is bound to its volume.
pub(super) fn bind(workload: Workload, object: &mut Value, phase: &Phase) {
    if workload == Workload::Claim && *phase == Phase::Done {
        let volume = format!("pvc-{}", object["metadata"]["uid"].as_str().unwrap_or_default());
        if object["spec"]["volumeName"].is_null() {
            object["spec"]["volumeName"] = json!(volume);
        }
        for name in ["pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"] {
            object["metadata"]["annotations"][name] = json!("yes");
        }
    }
}

/// The status of a phase.
pub(super) fn advance(workload: Workload, object: &mut Value, base: &Base, phase: &Phase, now: Timestamp) {
    let now = rfc3339(now);
    let mut status = match object["status"].take() {
        Value::Null => json!({}),
        status => status,
    };
    if !matches!(workload, Workload::Job | Workload::Claim | Workload::Service | Workload::Ingress) {
        status["observedGeneration"] = object["metadata"]["generation"].clone();
    }
    match workload {
        Workload::Deployment => {
            object["metadata"]["annotations"][REVISION] = json!(base.revision.to_string());
            deployment(object, &mut status, base, phase, &now);
        }
        Workload::ReplicaSet => {
            let (all, _, ready) = base.counts(desired(object), phase);
            for field in ["replicas", "fullyLabeledReplicas"] {
                status[field] = json!(all);
            }
            put(&mut status, &[("readyReplicas", ready), ("availableReplicas", ready)]);
            if let Phase::Failed(reason) = phase {
                conditions::set(&mut status, "ReplicaFailure", "True", reason, "", Value::Null, &now);
            }
        }
        Workload::StatefulSet => stateful(object, &mut status, base, phase),
        Workload::DaemonSet => {
            let (_, updated, ready) = base.counts(base.nodes, phase);
            let ready = ready.min(base.nodes);
            status["currentNumberScheduled"] = json!(base.nodes);
            status["desiredNumberScheduled"] = json!(base.nodes);
            status["numberMisscheduled"] = json!(0);
            status["numberReady"] = json!(ready);
            let more = [("updatedNumberScheduled", updated), ("numberAvailable", ready)];
            put(&mut status, &more);
            put(&mut status, &[("numberUnavailable", base.nodes - ready)]);
        }
        Workload::Job => job(object, &mut status, phase, &now),
        Workload::Pod => pod(object, &mut status, phase, &now),
        Workload::Claim => match phase {
            Phase::Done => {
                status["phase"] = json!("Bound");
                status["accessModes"] = object["spec"]["accessModes"].clone();
                status["capacity"] = object["spec"]["resources"]["requests"].clone();
            }
            Phase::Failed(_) => status["phase"] = json!("Lost"),
            _ => status["phase"] = json!("Pending"),
        },
        Workload::Service | Workload::Ingress if *phase == Phase::Done => {
            let name = object["metadata"]["name"].to_string() + &object["metadata"]["namespace"].to_string();
            // From the addresses for documentation (RFC 5737).
            let mut ingress = json!({"ip": format!("192.0.2.{}", super::hash(&name) % 254 + 1)});
            if workload == Workload::Service {
                ingress["ipMode"] = json!("VIP");
            }
            status["loadBalancer"] = json!({"ingress": [ingress]});
        }
        Workload::Service | Workload::Ingress => {}
    }
    object["status"] = status;
}

fn deployment(object: &Value, status: &mut Value, base: &Base, phase: &Phase, now: &str) {
    let wanted = desired(object);
    let (all, updated, ready) = base.counts(wanted, phase);
    put(status, &[("replicas", all), ("updatedReplicas", updated), ("readyReplicas", ready)]);
    put(status, &[("availableReplicas", ready), ("unavailableReplicas", all.saturating_sub(ready))]);
    let set = |status: &mut Value, kind: &str, is: &str, reason: &str, message: &str| {
        conditions::set(status, kind, is, reason, message, json!({"lastUpdateTime": now}), now);
    };
    if object["spec"]["paused"] == true {
        return set(status, "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused");
    }
    if ready >= wanted.saturating_sub(may_lack(object, wanted)) {
        let message = "Deployment has minimum availability.";
        set(status, "Available", "True", "MinimumReplicasAvailable", message);
    } else {
        let message = "Deployment does not have minimum availability.";
        set(status, "Available", "False", "MinimumReplicasUnavailable", message);
    }
    let of =
        format!("ReplicaSet \"{}-{}\"", object["metadata"]["name"].as_str().unwrap_or_default(), base.hash);
    if *phase == Phase::Observed {
        conditions::remove(status, "ReplicaFailure");
    }
    if !base.rolls && conditions::has(status, "Progressing", "True") && !matches!(phase, Phase::Failed(_)) {
        // A mere change of scale is no rollout.
        return;
    }
    let late = || format!("{of} has timed out progressing.");
    match phase {
        Phase::Observed => {
            let message = of.replacen("ReplicaSet", "Created new replica set", 1);
            set(status, "Progressing", "True", "NewReplicaSetCreated", &message);
        }
        Phase::Half => {
            set(status, "Progressing", "True", "ReplicaSetUpdated", &format!("{of} is progressing."));
        }
        Phase::Done => {
            let message = format!("{of} has successfully progressed.");
            set(status, "Progressing", "True", "NewReplicaSetAvailable", &message);
        }
        Phase::TimedOut => set(status, "Progressing", "False", LATE, &late()),
        Phase::Failed(reason) if reason == LATE => set(status, "Progressing", "False", LATE, &late()),
        Phase::Failed(reason) => set(status, "ReplicaFailure", "True", reason, ""),
    }
}

const LATE: &str = "ProgressDeadlineExceeded";

/// How many pods may be unavailable: `maxUnavailable`, rounded down.
fn may_lack(object: &Value, wanted: u64) -> u64 {
    let rolling = &object["spec"]["strategy"]["rollingUpdate"];
    let count = |value: &Value, up: bool| match value {
        Value::String(text) => {
            let share = text.trim_end_matches('%').parse::<u64>().unwrap_or_default() * wanted;
            if up { share.div_ceil(100) } else { share / 100 }
        }
        value => number(value),
    };
    match (count(&rolling["maxUnavailable"], false), count(&rolling["maxSurge"], true)) {
        (0, 0) if rolling.is_object() => 1.min(wanted),
        (lack, _) => lack.min(wanted),
    }
}

fn stateful(object: &Value, status: &mut Value, base: &Base, phase: &Phase) {
    let wanted = desired(object);
    let (_, updated, ready) = base.counts(wanted, phase);
    let update = format!("{}-{}", object["metadata"]["name"].as_str().unwrap_or_default(), base.hash);
    let whole = *phase == Phase::Done || base.current.is_null() || !base.rolls;
    status["replicas"] = json!(wanted);
    put(status, &[("readyReplicas", ready.min(wanted)), ("updatedReplicas", updated.min(wanted))]);
    put(status, &[("currentReplicas", if whole { wanted } else { wanted.saturating_sub(updated) })]);
    status["availableReplicas"] = json!(ready.min(wanted));
    status["currentRevision"] = if whole { json!(update) } else { base.current.clone() };
    status["updateRevision"] = json!(update);
    status["collisionCount"] = json!(0);
}

fn job(object: &Value, status: &mut Value, phase: &Phase, now: &str) {
    let spec = &object["spec"];
    let wanted = spec["completions"].as_u64().unwrap_or(1);
    let width = spec["parallelism"].as_u64().unwrap_or(1).min(wanted);
    let set = |status: &mut Value, kind: &str, reason: &str, message: &str| {
        conditions::set(status, kind, "True", reason, message, json!({"lastProbeTime": now}), now);
    };
    if spec["suspend"] == true {
        return set(status, "Suspended", "JobSuspended", "Job suspended");
    }
    if status["startTime"].is_null() {
        status["startTime"] = json!(now);
    }
    status["uncountedTerminatedPods"] = json!({});
    status["terminating"] = json!(0);
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

fn pod(object: &Value, status: &mut Value, phase: &Phase, now: &str) {
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

fn desired(object: &Value) -> u64 {
    object["spec"]["replicas"].as_u64().unwrap_or(1)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// Writes counts; those that are zero are left out, as Go's encoder has it.
fn put(status: &mut Value, counts: &[(&str, u64)]) {
    for (field, count) in counts {
        set(status, field, if *count == 0 { Value::Null } else { json!(count) });
    }
}

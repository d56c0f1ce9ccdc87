//! The statuses of workloads on their way, as the controllers of Kubernetes 1.36 write them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{conditions, pods};
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

    /// Does anything happen to this object? Not where its spec says that another controller cares for it.
    pub fn concerns(self, object: &Value) -> bool {
        let spec = &object["spec"];
        match self {
            Workload::Service => spec["type"] == "LoadBalancer" && spec.get("loadBalancerClass").is_none(),
            Workload::Job => spec.get("managedBy").is_none_or(|name| name == "kubernetes.io/job-controller"),
            _ => true,
        }
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
    /// A Deployment's new ReplicaSet is made, and no count is known yet.
    Created,
    /// A Deployment's generation is observed, while the counts are still those from before.
    Noted,
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
    updated: u64,
    available: u64,
    /// What a StatefulSet was at before.
    current: Value,
    nodes: u64,
}

const REVISION: &str = "deployment.kubernetes.io/revision";

impl Base {
    /// `renewed`: the template is another than that of the last run. It is not known after a restart.
    pub fn read(
        workload: Workload,
        object: &Value,
        renewed: Option<bool>,
        template: u64,
        nodes: usize,
    ) -> Self {
        let status = &object["status"];
        let last = object["metadata"]["annotations"][REVISION].as_str();
        let last: Option<u64> = last.and_then(|text| text.parse().ok());
        let available = match workload {
            Workload::DaemonSet => "numberReady",
            Workload::Deployment => "availableReplicas",
            _ => "readyReplicas",
        };
        let rolls = match workload {
            // A ReplicaSet keeps its pods under a new template.
            Workload::ReplicaSet => false,
            Workload::Deployment => {
                renewed == Some(true) || !conditions::is(status, "Progressing", "NewReplicaSetAvailable")
            }
            _ => renewed.unwrap_or(true),
        };
        Base {
            rolls,
            hash: format!("{:08x}", template as u32),
            revision: last.map_or(1, |last| last + u64::from(renewed == Some(true))),
            replicas: number(&status["replicas"]),
            updated: number(&status["updatedReplicas"]),
            available: number(&status[available]),
            current: status["currentRevision"].clone(),
            nodes: nodes.max(1) as u64,
        }
    }

    /// Does a Deployment get a new ReplicaSet?
    pub fn creates(&self, workload: Workload, renewed: Option<bool>) -> bool {
        workload == Workload::Deployment && (renewed == Some(true) || self.revision == 1 && self.rolls)
    }

    /// Pods in all, those of the present template, and those that are ready. A new template replaces pods,
    /// `more` beyond those that are wanted and `less` of them unavailable at a time.
    fn counts(&self, wanted: u64, (more, less): (u64, u64), phase: &Phase) -> (u64, u64, u64) {
        let half = wanted.div_ceil(2);
        let kept = self.available.min(wanted);
        let replaced = self.rolls && self.available > 0;
        let (first, left) = ((more + less).min(wanted), kept.saturating_sub(less));
        match phase {
            Phase::Done => (wanted, wanted, wanted),
            Phase::Noted if replaced => (self.replicas + more, more, self.available),
            Phase::Noted => (self.replicas, self.updated, self.available),
            Phase::Half if replaced => (wanted + more, first.max(half), left.max(half)),
            Phase::Half => (wanted, wanted, kept.max(half)),
            _ if replaced => (wanted + more, first, left),
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
    if *phase == Phase::Created {
        object["metadata"]["annotations"][REVISION] = json!(base.revision.to_string());
        rollout(object, &mut status, base, phase, &now);
        object["status"] = status;
        return;
    }
    if !matches!(workload, Workload::Job | Workload::Claim | Workload::Service | Workload::Ingress) {
        status["observedGeneration"] = object["metadata"]["generation"].clone();
    }
    match workload {
        Workload::Deployment => {
            if !workload.is_held(object) {
                object["metadata"]["annotations"][REVISION] = json!(base.revision.to_string());
            }
            deployment(object, &mut status, base, phase, &now);
        }
        Workload::ReplicaSet => {
            let (all, _, ready) = base.counts(desired(object), (0, 0), phase);
            for field in ["replicas", "fullyLabeledReplicas"] {
                status[field] = json!(all);
            }
            status["terminatingReplicas"] = json!(0);
            put(&mut status, &[("readyReplicas", ready), ("availableReplicas", ready)]);
            if let Phase::Failed(reason) = phase {
                conditions::set(&mut status, "ReplicaFailure", "True", reason, "", Value::Null, &now);
            }
        }
        Workload::StatefulSet => stateful(object, &mut status, base, phase),
        Workload::DaemonSet => {
            let (_, updated, ready) = base.counts(base.nodes, (0, 1), phase);
            let ready = ready.min(base.nodes);
            status["currentNumberScheduled"] = json!(base.nodes);
            status["desiredNumberScheduled"] = json!(base.nodes);
            status["numberMisscheduled"] = json!(0);
            status["numberReady"] = json!(ready);
            let more = [("updatedNumberScheduled", updated), ("numberAvailable", ready)];
            put(&mut status, &more);
            put(&mut status, &[("numberUnavailable", base.nodes - ready)]);
        }
        Workload::Job => pods::job(object, &mut status, phase, &now),
        Workload::Pod => pods::pod(object, &mut status, phase, &now),
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
    let (more, less) = at_a_time(object, wanted);
    let paused = object["spec"]["paused"] == true;
    let phase = if paused { &Phase::Noted } else { phase };
    let (all, updated, ready) = base.counts(wanted, (if paused { 0 } else { more }, less), phase);
    put(status, &[("replicas", all), ("updatedReplicas", updated), ("readyReplicas", ready)]);
    let lacking = match phase {
        Phase::Noted if base.replicas == 0 && !paused => wanted,
        Phase::Noted => 0,
        _ => all.saturating_sub(ready),
    };
    put(status, &[("availableReplicas", ready), ("unavailableReplicas", lacking)]);
    status["terminatingReplicas"] = json!(0);
    let (is, reason, message) = if ready >= wanted.saturating_sub(less) {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    conditions::set(status, "Available", is, reason, message, json!({"lastUpdateTime": now}), now);
    rollout(object, status, base, phase, now);
}

/// The condition Progressing, and ReplicaFailure.
fn rollout(object: &Value, status: &mut Value, base: &Base, phase: &Phase, now: &str) {
    let set = |status: &mut Value, kind: &str, is: &str, reason: &str, message: &str| {
        conditions::set(status, kind, is, reason, message, json!({"lastUpdateTime": now}), now);
    };
    if object["spec"]["paused"] == true {
        return set(status, "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused");
    }
    if *phase == Phase::Observed {
        conditions::remove(status, "ReplicaFailure");
    }
    if !base.rolls && conditions::has(status, "Progressing", "True") && !matches!(phase, Phase::Failed(_)) {
        // A mere change of scale is no rollout.
        return;
    }
    let name = format!("\"{}-{}\"", object["metadata"]["name"].as_str().unwrap_or_default(), base.hash);
    let late = format!("ReplicaSet {name} has timed out progressing.");
    match phase {
        Phase::Created | Phase::Noted => {
            let message = format!("Created new replica set {name}");
            set(status, "Progressing", "True", "NewReplicaSetCreated", &message);
        }
        Phase::Observed | Phase::Half => {
            // Each progress moves the time of its update.
            conditions::touch(status, "Progressing");
            let message = format!("ReplicaSet {name} is progressing.");
            set(status, "Progressing", "True", "ReplicaSetUpdated", &message);
        }
        Phase::Done => {
            let message = format!("ReplicaSet {name} has successfully progressed.");
            set(status, "Progressing", "True", "NewReplicaSetAvailable", &message);
        }
        Phase::TimedOut => set(status, "Progressing", "False", LATE, &late),
        Phase::Failed(reason) if reason == LATE => set(status, "Progressing", "False", LATE, &late),
        Phase::Failed(reason) => set(status, "ReplicaFailure", "True", reason, ""),
    }
}

const LATE: &str = "ProgressDeadlineExceeded";

/// How many pods may be there beyond those wanted, and how many may be unavailable: `maxSurge`, rounded up,
/// and `maxUnavailable`, rounded down.
fn at_a_time(object: &Value, wanted: u64) -> (u64, u64) {
    let rolling = &object["spec"]["strategy"]["rollingUpdate"];
    if !rolling.is_object() {
        // Recreate: the old ones go first.
        return (0, wanted);
    }
    let count = |value: &Value, up: bool| match value {
        Value::String(text) => {
            let share = text.trim_end_matches('%').parse::<u64>().unwrap_or_default() * wanted;
            if up { share.div_ceil(100) } else { share / 100 }
        }
        value => number(value),
    };
    match (count(&rolling["maxSurge"], true), count(&rolling["maxUnavailable"], false)) {
        (0, 0) => (0, 1.min(wanted)),
        (more, less) => (more, less.min(wanted)),
    }
}

fn stateful(object: &Value, status: &mut Value, base: &Base, phase: &Phase) {
    let wanted = desired(object);
    let (_, updated, ready) = base.counts(wanted, (0, 1), phase);
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

fn desired(object: &Value) -> u64 {
    object["spec"]["replicas"].as_u64().unwrap_or(1)
}

pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// Writes counts; those that are zero are left out, as Go's encoder has it.
pub(super) fn put(status: &mut Value, counts: &[(&str, u64)]) {
    for (field, count) in counts {
        set(status, field, if *count == 0 { Value::Null } else { json!(count) });
    }
}

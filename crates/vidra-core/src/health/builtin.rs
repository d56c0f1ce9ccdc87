//! Built-in kinds that run nothing. From kstatus: claims, Services, CRDs; in its manner: Namespaces, APIServices.

use serde_json::Value;

use super::Health;
use super::read::{condition, flag, has_condition, text};
use super::workload;

/// Groups whose kinds Kubernetes brings: no rule without a kind counts there.
const GROUPS: [&str; 9] = [
    "",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "autoscaling",
    "batch",
    "extensions",
    "policy",
    "rbac.authorization.k8s.io",
];

pub(super) fn has_group(group: &str) -> bool {
    GROUPS.contains(&group)
}

pub(super) fn is_autoscaler(group: &str, kind: &str) -> bool {
    (group, kind) == ("autoscaling", "HorizontalPodAutoscaler")
}

/// The verdict of a kind that is known here.
pub(super) fn judge(live: &Value, group: &str, kind: &str) -> Option<Health> {
    Some(match (group, kind) {
        ("apps" | "extensions", "Deployment") => workload::deployment(live),
        ("apps", "StatefulSet") => workload::stateful_set(live),
        ("apps" | "extensions", "DaemonSet") => workload::daemon_set(live),
        ("apps" | "extensions", "ReplicaSet") | ("", "ReplicationController") => workload::replica_set(live),
        ("", "Pod") => workload::pod(live),
        ("batch", "Job") => workload::job(live),
        ("", "PersistentVolumeClaim") => volume_claim(live),
        ("", "Service") => service(live),
        ("", "Namespace") => namespace(live),
        ("policy", "PodDisruptionBudget") => Health::current("The allowed disruptions are computed"),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd(live),
        ("apiregistration.k8s.io", "APIService") => api_service(live),
        // It has no end that a wave could wait for.
        ("batch", "CronJob") if flag(live, "/spec/suspend") => {
            Health::of(super::HealthStatus::Current, super::SUSPENDED, "The CronJob is suspended")
        }
        ("", "ConfigMap" | "Secret") | ("batch", "CronJob") => {
            Health::current("Objects of this kind are always current")
        }
        _ => return None,
    })
}

fn volume_claim(live: &Value) -> Health {
    match text(live, "/status/phase") {
        Some("Bound") => Health::current("The claim is bound"),
        _ => Health::in_progress("NotBound", "The claim is not bound"),
    }
}

/// As in kstatus a load balancer counts once it has its cluster IP: whether an address from outside ever comes is
/// the business of a provider that may not exist.
fn service(live: &Value) -> Health {
    let balanced = text(live, "/spec/type") == Some("LoadBalancer");
    if balanced && text(live, "/spec/clusterIP").is_none() {
        return Health::in_progress("NoIPAssigned", "The LoadBalancer Service has no cluster IP");
    }
    Health::current("The Service is ready")
}

fn namespace(live: &Value) -> Health {
    match text(live, "/status/phase") {
        Some("Active") => Health::current("The Namespace is active"),
        Some("Terminating") => {
            Health::of(super::HealthStatus::Terminating, "Terminating", "The Namespace is being deleted")
        }
        _ => Health::in_progress("NotActive", "The Namespace is not active yet"),
    }
}

fn crd(live: &Value) -> Health {
    if has_condition(live, "NamesAccepted", "False") {
        return Health::failed("NamesNotAccepted", "The CRD's names conflict with those of another");
    }
    match condition(live, "Established") {
        Some(c) if c.status == "True" => Health::current("The CRD is established"),
        Some(c) if c.status == "False" && c.reason != "Installing" => {
            Health::failed("NotEstablished", "The CRD could not be established")
        }
        _ => Health::in_progress("Installing", "The CRD is being installed"),
    }
}

/// Never Failed: its backend may come later, and the API server tells no difference.
fn api_service(live: &Value) -> Health {
    if has_condition(live, "Available", "True") {
        Health::current("The APIService is available")
    } else {
        Health::in_progress("NotAvailable", "The backend of the APIService does not answer")
    }
}

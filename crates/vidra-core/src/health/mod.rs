//! Whether a live object is what it is meant to be: the rules of kstatus (kubernetes-sigs/cli-utils, pkg/kstatus),
//! and rules of the same kind for Namespaces and APIServices, which kstatus leaves out.
//!
//! A pure function of the object. What differs from kstatus: there is no clock, so a pod that cannot be scheduled stays
//! InProgress here (reconcile.timeout makes its target Failed); a DaemonSet that is updated by deleting pods need not be
//! updated, and a paused Deployment not rolled out; a suspended Job is
//! Suspended, which is Current only where it is declared so; and no reason or message carries a count or a controller's text, so that what is written once
//! into a status does not change with every pod that starts. Not here: health checks that users declare.

mod builtin;
mod read;
mod workload;

#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

use crate::mutants::{self, Mutant};
use read::{condition, number, text};

/// How far an object is from what it is meant to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthStatus {
    /// It is as declared and does its work.
    Current,
    /// It is stopped, and goes on when somebody says so: see [`HealthStatus::declared`].
    Suspended,
    /// On the way, as far as one can see.
    InProgress,
    /// It will not get there without somebody's help.
    Failed,
    /// It is being deleted.
    Terminating,
    /// The object says something that is not understood.
    Unknown,
}

impl fmt::Display for HealthStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HealthStatus::Current => "Current",
            HealthStatus::Suspended => "Suspended",
            HealthStatus::InProgress => "InProgress",
            HealthStatus::Failed => "Failed",
            HealthStatus::Terminating => "Terminating",
            HealthStatus::Unknown => "Unknown",
        })
    }
}

impl HealthStatus {
    /// How an object is that was declared as `body`: one that is suspended by its declaration is Current, though no later
    /// wave may count on its work; one that somebody else has suspended has yet to do it.
    pub fn declared(self, body: &Value) -> Self {
        match self {
            Self::Suspended if body["spec"]["suspend"] == true || mutants::is(Mutant::SuspendedIsWell) => {
                Self::Current
            }
            Self::Suspended => Self::InProgress,
            other => other,
        }
    }
}

/// The health of one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Health {
    /// The verdict.
    pub status: HealthStatus,
    /// One word in CamelCase for it.
    pub reason: &'static str,
    /// One sentence for people: stable, without counts, and nothing that the member's objects wrote.
    pub message: String,
}

impl Health {
    fn of(status: HealthStatus, reason: &'static str, message: &str) -> Health {
        Health { status, reason, message: message.to_owned() }
    }

    fn current(message: &str) -> Health {
        Health::of(HealthStatus::Current, "Current", message)
    }

    fn in_progress(reason: &'static str, message: &str) -> Health {
        Health::of(HealthStatus::InProgress, reason, message)
    }

    fn suspended(message: &str) -> Health {
        Health::of(HealthStatus::Suspended, "Suspended", message)
    }

    fn failed(reason: &'static str, message: &str) -> Health {
        Health::of(HealthStatus::Failed, reason, message)
    }

    fn unknown(reason: &'static str, message: &str) -> Health {
        Health::of(HealthStatus::Unknown, reason, message)
    }
}

/// Judges a live object. The first rule that speaks decides: deletion, the observed generation, the conditions
/// Reconciling and Stalled, the rule of its kind, the condition Ready of kinds without a rule; else it is Current.
pub fn assess(live: &Value) -> Health {
    if !live.is_object() {
        return Health::unknown("Unreadable", "The object is not a JSON object");
    }
    if let Some(health) = generic(live) {
        return health;
    }
    let api_version = text(live, "/apiVersion").unwrap_or_default();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let kind = text(live, "/kind").unwrap_or_default();
    match (group, kind) {
        ("apps" | "extensions", "Deployment") => workload::deployment(live),
        ("apps", "StatefulSet") => workload::stateful_set(live),
        ("apps" | "extensions", "DaemonSet") => workload::daemon_set(live),
        ("apps" | "extensions", "ReplicaSet") => workload::replica_set(live),
        ("", "Pod") => workload::pod(live),
        ("batch", "Job") => workload::job(live),
        ("", "PersistentVolumeClaim") => builtin::volume_claim(live),
        ("", "Service") => builtin::service(live),
        ("", "Namespace") => builtin::namespace(live),
        ("policy", "PodDisruptionBudget") => Health::current("The allowed disruptions are computed"),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => builtin::crd(live),
        ("apiregistration.k8s.io", "APIService") => builtin::api_service(live),
        ("", "ConfigMap" | "Secret") | ("batch", "CronJob") => {
            Health::current("Objects of this kind are always current")
        }
        _ => ready(live),
    }
}

/// What holds for every kind.
fn generic(live: &Value) -> Option<Health> {
    if text(live, "/metadata/deletionTimestamp").is_some() {
        return Some(Health::of(
            HealthStatus::Terminating,
            "Terminating",
            "The object is being deleted and waits for its finalizers",
        ));
    }
    // Kinds without a generation, or whose controller does not report one, are judged by what else they say.
    if let (Some(wanted), Some(observed)) =
        (number(live, "/metadata/generation"), number(live, "/status/observedGeneration"))
        && wanted != observed
    {
        return Some(Health::in_progress(
            "LatestGenerationNotObserved",
            "The controller has not observed the latest generation",
        ));
    }
    read::conditions(live).find_map(|c| match (c.kind, c.status) {
        ("Reconciling", "True") => {
            Some(Health::in_progress("Reconciling", "The controller reports Reconciling"))
        }
        ("Stalled", "True") => Some(Health::failed("Stalled", "The controller reports Stalled")),
        _ => None,
    })
}

/// For kinds that no rule knows: the condition Ready, where there is one.
fn ready(live: &Value) -> Health {
    match condition(live, "Ready") {
        Some(c) if c.status != "True" => Health::in_progress("NotReady", "The condition Ready is not True"),
        Some(_) => Health::current("The condition Ready is True"),
        None => Health::current("The object is current"),
    }
}

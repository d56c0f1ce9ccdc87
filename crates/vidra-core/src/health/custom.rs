//! Kinds that no rule knows: a closed table of conditions, the column that their CRD prints, and a bounded wait for a
//! status that is declared and not there, or may be older than our last change.
//!
//! Nothing here is Failed: controllers that try again report an error first, and the deadline decides. Stalled is judged
//! before.

use serde_json::Value;

use super::read::{self, Condition, condition};
use super::{Basis, Health, HealthStatus, Verdict, expression, facts::Facts};
use crate::mutants::{self, Mutant};

/// Types that must not be True. Degraded: OpenShift's and the Prometheus operator's kinds. ReplicaFailure: workloads
/// made after Kubernetes' own, such as OpenShift's DeploymentConfig.
const BAD: [&str; 2] = ["Degraded", "ReplicaFailure"];
/// Their endings, where no Ready is True: ReleaseFailed of the Operator SDK; ReconcileError of Red Hat's operators.
const BAD_ENDINGS: [&str; 2] = ["Failed", "Error"];
/// Types that must be True. Ready: nearly all. Available: OpenShift, Open Cluster Management. Healthy: Crossplane's
/// packages. Succeeded: Tekton. Synced: Crossplane, Sealed Secrets. Established: Crossplane's definitions. Programmed,
/// Accepted: Gateway API.
const GOOD: [&str; 8] =
    ["Ready", "Available", "Healthy", "Succeeded", "Synced", "Established", "Programmed", "Accepted"];
/// Their endings, where no Ready is True: ControlPlaneReady of Cluster API, ConfigurationsReady of Knative;
/// RemoteAvailable and the like.
const GOOD_ENDINGS: [&str; 2] = ["Ready", "Available"];

/// Values of such a column that say that an object works, in lower case.
const WELL: [&str; 14] = [
    "active",
    "available",
    "bound",
    "complete",
    "completed",
    "deployed",
    "established",
    "healthy",
    "online",
    "ready",
    "running",
    "succeeded",
    "synced",
    "true",
];
/// Values that say that it does not, or not yet.
const UNWELL: [&str; 22] = [
    "creating",
    "degraded",
    "deploying",
    "error",
    "failed",
    "false",
    "initializing",
    "installing",
    "notready",
    "offline",
    "pending",
    "progressing",
    "provisioning",
    "reconciling",
    "starting",
    "terminating",
    "unavailable",
    "unhealthy",
    "unknown",
    "updating",
    "upgrading",
    "waiting",
];

pub(super) fn judge<'r>(live: &Value, facts: &Facts) -> Verdict<'r> {
    let verdict = conditions(live).or_else(|| column(live, facts)).unwrap_or_else(|| silent(live, facts));
    match verdict.health.status {
        HealthStatus::Current => stale(live, facts).unwrap_or(verdict),
        _ => verdict,
    }
}

/// What a condition means for the object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Good,
    Bad,
}

/// The meaning of a type; beside a Ready that is True only exact words count.
fn word(kind: &str, is_exact: bool) -> Option<Word> {
    // NotReady and its like say the opposite.
    let ends = |endings: &[&str]| {
        let mut stems = endings.iter().filter_map(|ending| kind.strip_suffix(ending));
        !is_exact && stems.any(|stem| !stem.ends_with("Not") && !stem.ends_with("No"))
    };
    if BAD.contains(&kind) || ends(&BAD_ENDINGS) {
        return Some(Word::Bad);
    }
    (GOOD.contains(&kind) || ends(&GOOD_ENDINGS)).then_some(Word::Good)
}

/// What the conditions say; None where none is of the table.
fn conditions<'r>(live: &Value) -> Option<Verdict<'r>> {
    // One that tells the generation of its whole status has observed it; a condition need not change then.
    let tells = live.pointer("/status/observedGeneration").is_some();
    let wanted = read::number(live, "/metadata/generation").filter(|_| !tells);
    let is_old = |c: &Condition<'_>| wanted.zip(c.generation).is_some_and(|(wanted, seen)| wanted != seen);
    let is_ready = condition(live, "Ready").is_some_and(|c| c.status == "True" && !is_old(&c));
    let mild = |c: &Condition<'_>| is_ready && matches!(c.severity, "Info" | "Warning");
    let mut is_known = false;
    // Ready first: it is what a person looks for.
    let (first, others): (Vec<_>, Vec<_>) = read::conditions(live).partition(|c| c.kind == "Ready");
    for c in first.into_iter().chain(others).filter(|c| !mild(c)) {
        let Some(word) = word(c.kind, is_ready) else { continue };
        is_known = true;
        let (reason, says) = match word {
            Word::Bad if c.status == "True" => ("ConditionTrue", "is True"),
            Word::Good if c.status != "True" && c.kind == "Ready" => ("NotReady", "is not True"),
            Word::Good if c.status != "True" => ("ConditionNotTrue", "is not True"),
            Word::Good if is_old(&c) => ("LatestGenerationNotObserved", "is of an earlier generation"),
            _ => continue,
        };
        let says = format!("The condition {} {says}", crate::unseen::shown(c.kind, 64));
        return Some(Basis::Conditions.gives(Health::in_progress(reason, &c.tell(&says))));
    }
    let message = match is_ready {
        true => "The condition Ready is True",
        false => "Its conditions say that it works",
    };
    is_known.then(|| Basis::Conditions.gives(Health::current(message)))
}

/// What the column says that its CRD prints, where its value is in a closed list.
fn column<'r>(live: &Value, facts: &Facts) -> Option<Verdict<'r>> {
    facts.kind.columns.iter().find_map(|path| {
        let value = match expression::field(live, path)? {
            Value::Bool(truth) => truth.to_string(),
            value => value.as_str()?.to_owned(),
        };
        let word = value.to_ascii_lowercase();
        let health = if WELL.contains(&word.as_str()) {
            Health::current("The field that its CRD prints says that it works")
        } else if UNWELL.contains(&word.as_str()) {
            // A word of the list above, and a path of a CRD.
            Health::in_progress("NotReady", &format!("It says {}: {value}", path.join(".")))
        } else {
            return None;
        };
        Some(Basis::Column.gives(health))
    })
}

/// One that says nothing: waited for, where its kind declares that it will, and only so long.
fn silent<'r>(live: &Value, facts: &Facts) -> Verdict<'r> {
    let has_conditions = read::conditions(live).next().is_some();
    let has_generation = live.pointer("/status/observedGeneration").is_some();
    let has_column = facts.kind.columns.iter().any(|path| expression::field(live, path).is_some());
    let (conditions, generation) = (facts.kind.declares_conditions, facts.kind.declares_generation);
    let is_there = conditions && has_conditions || generation && has_generation || has_column;
    if is_there || !conditions && !generation && facts.kind.columns.is_empty() {
        return Basis::Nothing.gives(Health::current("The object is current"));
    }
    let left = facts.age.and_then(|age| facts.waits.no_status.checked_sub(age));
    let is_awaited = !facts.was_current && !mutants::is(Mutant::NoStatusIsWell);
    match left.filter(|left| !left.is_zero() && is_awaited) {
        Some(left) => {
            let health = Health::in_progress("NoStatusYet", "Its kind has a status, and it has none yet");
            Verdict { ends: Some(left), ..Basis::Nothing.gives(health) }
        }
        None => {
            let message = "Its kind has a status, and it has none";
            Basis::Nothing.gives(Health::of(HealthStatus::Current, "NoStatus", message))
        }
    }
}

/// Of an object whose status does not report our last change's generation: whether it may be from before that change.
pub(super) fn stale<'r>(live: &Value, facts: &Facts) -> Option<Verdict<'r>> {
    let is_old = read::conditions_behind(live).is_some() && !mutants::is(Mutant::OldGenerationReports);
    let reports = live.pointer("/status/observedGeneration").is_some()
        || read::conditions(live).any(|c| c.generation.is_some()) && !is_old;
    let change =
        facts.change.filter(|change| !change.status_since && !mutants::is(Mutant::OldStatusIsNew))?;
    let left = facts.waits.stale_status.checked_sub(change.ago).filter(|left| !left.is_zero())?;
    (!reports && facts.kind.has_status == Some(true)).then(|| {
        let health = Health::in_progress("StatusMayBeStale", "Its status may be from before the last change");
        Verdict { ends: Some(left), ..Basis::Nothing.gives(health) }
    })
}

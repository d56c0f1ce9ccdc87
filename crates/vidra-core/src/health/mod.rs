//! Whether a live object is what it is meant to be: the rules of kstatus (kubernetes-sigs/cli-utils, pkg/kstatus),
//! and rules of the same kind for Namespaces and APIServices, which kstatus leaves out.
//!
//! A pure function of the object. What differs from kstatus: there is no clock, so a pod that cannot be scheduled stays
//! InProgress here (reconcile.timeout makes its target Failed); a DaemonSet that is updated by deleting pods need not be
//! updated, and a paused Deployment not rolled out; a suspended Job is
//! Suspended: its target may be Ready, and no later wave goes on; a Pod that ended badly is Failed, since it was declared
//! and not made by an owner who makes another; and no reason or message carries a count, so that what is written once into
//! a status does not change with every pod that starts.
//!
//! Other kinds are judged by health rules, in CEL: a VidraResource's, the fleet's, and those that the hub ships; and
//! where there is none by the conditions that many projects use, and by what their CRD declares.

mod autoscaler;
mod builtin;
pub mod cause;
mod custom;
pub(crate) mod expression;
pub mod facts;
pub mod fleet;
pub mod library;
mod message;
pub mod own;
mod read;
pub mod rule;
pub mod rules;
mod subject;
mod workload;

#[cfg(test)]
mod tests;

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use serde_json::Value;

use crate::mutants::{self, Mutant};
use facts::Facts;
use read::{number, text};
use rules::{Match, RuleSet};
pub use subject::Subject;

/// How far an object is from what it is meant to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthStatus {
    /// It is as declared and does its work.
    Current,
    /// It is stopped, and goes on when somebody says so.
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
    /// Its target may be Ready.
    pub fn is_well(self) -> bool {
        matches!(self, Self::Current | Self::Suspended)
    }

    /// What waits for it goes on: what is suspended has yet to do its work.
    pub fn opens(self) -> bool {
        self == Self::Current || self == Self::Suspended && mutants::is(Mutant::SuspendedOpens)
    }
}

/// The reason of what is stopped.
const SUSPENDED: &str = "Suspended";

/// The health of one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Health {
    /// The verdict.
    pub status: HealthStatus,
    /// One word in CamelCase for it.
    pub reason: &'static str,
    /// One sentence for people: stable, without counts, and of what the member's objects wrote only what a rule's
    /// `message` gives and the text of the condition that decides, cut so that they are stable and short.
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
        Health::of(HealthStatus::Suspended, SUSPENDED, message)
    }

    /// It is stopped, whether or not anything waits for it.
    pub fn is_suspended(&self) -> bool {
        self.reason == SUSPENDED
    }

    fn failed(reason: &'static str, message: &str) -> Health {
        Health::of(HealthStatus::Failed, reason, message)
    }

    fn unknown(reason: &'static str, message: &str) -> Health {
        Health::of(HealthStatus::Unknown, reason, message)
    }
}

/// It has got what `vidra.dev/wait-for` may ask for beside health: an address, or its end.
pub fn is_done(live: &Value) -> bool {
    let has_any =
        |pointer| live.pointer(pointer).and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    match text(live, "/kind") {
        Some("Job") => read::has_condition(live, "Complete", "True"),
        Some("Service" | "Ingress") => has_any("/status/loadBalancer/ingress"),
        Some("Gateway") => has_any("/status/addresses"),
        _ => true,
    }
}

/// A verdict, and what it rests on.
#[derive(Debug)]
pub struct Verdict<'r> {
    /// How the object is.
    pub health: Health,
    /// What said so.
    pub basis: Basis<'r>,
    /// When it ends, from now, if nothing changes before: it is only waited so long.
    pub ends: Option<Duration>,
}

impl Verdict<'_> {
    /// It is Current and nothing shows it, though its kind could: no rule is about it, and it has no condition that is
    /// known.
    pub fn is_unproven(&self, live: &Value, facts: &Facts) -> bool {
        let api_version = text(live, "/apiVersion").unwrap_or_default();
        let is_custom = api_version.split_once('/').is_some_and(|(group, _)| facts::may_be_custom(group));
        let has_status = facts.kind.has_status == Some(true) || live.get("status").is_some();
        let is_silent = matches!(self.basis, Basis::Nothing) && self.health.status == HealthStatus::Current;
        is_silent && is_custom && has_status
    }

    /// It may repeat what the object says.
    pub fn quotes(&self) -> bool {
        matches!(self.basis, Basis::Rule(Match { rule: Ok(_), .. }) | Basis::Conditions)
    }

    /// Equal for as long as a message that is kept holds: the verdict, its reason, the rule, and type, status and reason
    /// of each condition. The text of an object is none of it: one that moves by itself is not to be written each time.
    pub fn grounds(&self, live: &Value) -> u32 {
        let mut hash = DefaultHasher::new();
        (self.health.status as u8, self.health.reason).hash(&mut hash);
        match &self.basis {
            Basis::Rule(Match { rule: Ok(_), hash: rule, .. }) => {
                rule.hash(&mut hash);
                read::conditions(live).for_each(|c| (c.kind, c.status, c.reason).hash(&mut hash));
            }
            // Behind it stands the condition's own text.
            Basis::Conditions => self.health.message.split(": ").next().hash(&mut hash),
            _ => self.health.message.hash(&mut hash),
        }
        // Half of it is enough to tell two apart.
        (hash.finish() >> 32) as u32
    }
}

/// What a verdict rests on.
#[derive(Clone, Copy, Debug)]
pub enum Basis<'r> {
    /// What holds for every kind: that it is being deleted, or not observed yet.
    Object,
    /// A health rule.
    Rule(Match<'r>),
    /// What is known of a kind that Kubernetes brings.
    Builtin,
    /// Its conditions.
    Conditions,
    /// The column that its CRD prints.
    Column,
    /// Nothing that it says: it is Current without evidence, or has yet to say something.
    Nothing,
}

impl<'r> Basis<'r> {
    fn gives(self, health: Health) -> Verdict<'r> {
        Verdict { health, basis: self, ends: None }
    }
}

/// Judges a live object, see [`Subject::judge`].
pub fn judge<'r>(live: &Value, rules: &'r RuleSet, facts: &Facts) -> Verdict<'r> {
    Subject::new(live, rules).judge(facts)
}

impl<'r> Subject<'_, 'r> {
    /// The first that speaks decides: deletion, `suspended` of the rule that applies, the observed generation, that rule,
    /// the conditions Reconciling and Stalled, what is known of its kind, and for other kinds conditions and what their CRD
    /// declares.
    pub fn judge(&self, facts: &Facts) -> Verdict<'r> {
        let (live, found, rule) = (self.live(), self.found, self.rule());
        if !live.is_object() {
            return Basis::Object.gives(Health::unknown("Unreadable", "The object is not a JSON object"));
        }
        if text(live, "/metadata/deletionTimestamp").is_some() {
            return Basis::Object.gives(Health::of(
                HealthStatus::Terminating,
                "Terminating",
                "The object is being deleted and waits for its finalizers",
            ));
        }
        if let (Some(found), Some(health)) = (found, rule.and_then(|rule| self.suspension(rule))) {
            return Basis::Rule(found).gives(health);
        }
        let asks = facts.kind.has_status != Some(false);
        if asks && !rule.is_some_and(|rule| rule.ignores_generation) && is_behind(live) {
            return Basis::Object.gives(Health::in_progress(
                "LatestGenerationNotObserved",
                "The controller has not observed the latest generation",
            ));
        }
        match found {
            Some(found) => self.judge_by(found, facts),
            None => self.judge_by_kind(facts),
        }
    }

    fn judge_by(&self, found: Match<'r>, facts: &Facts) -> Verdict<'r> {
        let basis = Basis::Rule(found);
        match found.rule {
            Ok(rule) => {
                let verdict = basis.gives(self.says(rule));
                // What has failed may have done so before it was repaired.
                let is_end = match verdict.health.status {
                    HealthStatus::Current => true,
                    HealthStatus::Failed => !mutants::is(Mutant::OldFailureStands),
                    _ => false,
                };
                let is_asked = is_end && !rule.ignores_generation;
                match custom::stale(self.live(), facts).filter(|_| is_asked) {
                    Some(stale) => Verdict { basis, ..stale },
                    None => lasting(verdict, facts),
                }
            }
            Err(error) => {
                basis.gives(Health::unknown("HealthRuleInvalid", &format!("It cannot be judged: {error}")))
            }
        }
    }

    fn judge_by_kind(&self, facts: &Facts) -> Verdict<'r> {
        let (live, (group, kind)) = (self.live(), self.gk);
        if let Some(health) = progress(live) {
            return Basis::Conditions.gives(health);
        }
        match builtin::judge(live, group, kind) {
            Some(health) => Basis::Builtin.gives(health),
            None if builtin::is_autoscaler(group, kind) => autoscaler::judge(live, facts),
            None => custom::judge(live, facts),
        }
    }
}

/// What a rule calls failed has failed once that has stood for a while: many controllers recover at their next try. Until
/// then it is on its way; and for whom it was Current, it still is.
fn lasting<'r>(verdict: Verdict<'r>, facts: &Facts) -> Verdict<'r> {
    let left = facts.failing.and_then(|stood| facts.waits.failed.checked_sub(stood));
    let left = left.filter(|left| !left.is_zero() && !mutants::is(Mutant::FailedAtOnce));
    match left {
        Some(left) if verdict.health.status == HealthStatus::Failed => {
            let status = if facts.was_current { HealthStatus::Current } else { HealthStatus::InProgress };
            Verdict { health: Health { status, ..verdict.health }, ends: Some(left), ..verdict }
        }
        _ => verdict,
    }
}

/// Whether the controller has yet to observe the latest generation. Kinds without a generation, or whose controller
/// does not report one, are judged by what else they say.
fn is_behind(live: &Value) -> bool {
    let wanted = number(live, "/metadata/generation");
    let observed = read::generation(live.pointer("/status/observedGeneration"));
    let is_other = wanted.zip(observed).is_some_and(|(wanted, observed)| wanted != observed);
    is_other && !mutants::is(Mutant::OldGenerationIsWell)
}

fn progress(live: &Value) -> Option<Health> {
    read::conditions(live).find_map(|c| match (c.kind, c.status) {
        ("Reconciling", "True") => {
            Some(Health::in_progress("Reconciling", &c.tell("The controller reports Reconciling")))
        }
        ("Stalled", "True") => Some(Health::failed("Stalled", &c.tell("The controller reports Stalled"))),
        _ => None,
    })
}

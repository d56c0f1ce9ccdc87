//! One health rule: which objects it is about, and the expressions that judge them. Names, roots and order are those of
//! Flux' health check expressions; `suspended`, `message` and `observedGeneration` are ours.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::{
    Health, HealthStatus, builtin,
    expression::{self, Expression, Stop, View},
    message, read,
};

/// A rule as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleText {
    /// A group, with or without a version, which does not count; or a family of groups, such as `*.crossplane.io`.
    pub api_version: String,
    /// Left out for the whole group, or family.
    pub kind: Option<String>,
    /// True of an object that is on its way; asked before `failed`.
    pub in_progress: Option<String>,
    /// True of an object that needs help; asked before `current`.
    pub failed: Option<String>,
    /// True of an object that works.
    pub current: Option<String>,
    /// True of an object that somebody has stopped; asked before all else, the observed generation too.
    pub suspended: Option<String>,
    /// The text that tells why.
    pub message: Option<String>,
    /// Whether an old status.observedGeneration is no matter.
    pub observed_generation: Option<ObservedGeneration>,
    /// Why it cannot be read, where that is known before it is compiled.
    #[serde(skip)]
    pub fault: Option<String>,
}

/// What becomes of status.observedGeneration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum ObservedGeneration {
    /// It is not asked.
    Ignore,
}

impl From<&vidra_api::HealthCheckExpr> for RuleText {
    fn from(written: &vidra_api::HealthCheckExpr) -> Self {
        Self {
            api_version: written.api_version.clone(),
            kind: written.kind.clone(),
            in_progress: written.in_progress.clone(),
            failed: written.failed.clone(),
            current: Some(written.current.clone()),
            suspended: written.suspended.clone(),
            message: written.message.clone(),
            observed_generation: written.observed_generation.map(|_| ObservedGeneration::Ignore),
            fault: None,
        }
    }
}

/// Groups that rules are about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Groups {
    /// The group of this name; "" is the core group.
    One(String),
    /// All groups below a domain: `crossplane.io` for `*.crossplane.io`.
    Family(String),
}

/// What a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope {
    /// In which groups.
    pub groups: Groups,
    /// Of which kind; None for all that have what its expressions read.
    pub kind: Option<String>,
}

/// A scope borrowed, in the order of scopes: whether it is a family, the group or domain, and the kind.
pub(super) type ScopeKey<'a> = (bool, &'a str, Option<&'a str>);

impl Scope {
    pub(super) fn key(&self) -> ScopeKey<'_> {
        let (is_family, name) = match &self.groups {
            Groups::One(group) => (false, group),
            Groups::Family(domain) => (true, domain),
        };
        (is_family, name, self.kind.as_deref())
    }

    /// Whether it is about this kind.
    pub(super) fn covers(&self, group: &str, kind: &str) -> bool {
        let is_within = |domain: &str| group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
        let is_in_groups = match &self.groups {
            Groups::One(one) => one == group,
            Groups::Family(domain) => is_within(domain),
        };
        is_in_groups && self.kind.as_deref().is_none_or(|own| own == kind)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.as_deref().unwrap_or("*");
        match &self.groups {
            Groups::One(group) if group.is_empty() => write!(f, "core/{kind}"),
            Groups::One(group) => write!(f, "{group}/{kind}"),
            Groups::Family(domain) => write!(f, "*.{domain}/{kind}"),
        }
    }
}

/// Why a rule cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// It does not say what it is about.
    #[error("health rule for {api_version:?}: {what}")]
    Scope {
        /// As it is written.
        api_version: String,
        /// What is wrong, and what to write.
        what: String,
    },
    /// An expression cannot be read.
    #[error("health rule {scope}, {field}, {what}")]
    Expression {
        /// The rule.
        scope: Scope,
        /// The field of the expression.
        field: &'static str,
        /// Where in it, what is wrong, and what to write.
        what: String,
    },
    /// It cannot be used as a whole: its fields are not those of a rule, or there is no room for its patterns.
    #[error("health rule {scope}: {what}")]
    Unreadable {
        /// The rule.
        scope: Scope,
        /// What is wrong, and what to write.
        what: String,
    },
    /// It lacks the one expression that each rule has.
    #[error(
        "health rule {scope}: current is missing; write the expression that is true of an object that works"
    )]
    NoCurrent {
        /// The rule.
        scope: Scope,
    },
}

/// What holds until what cannot be used is corrected.
pub(super) const UNTIL_THEN: &str = "until then its last version that could be used counts; without one, its objects are Unknown and open no wave";

impl RuleError {
    /// What holds until the rule is corrected.
    pub(super) fn meanwhile(&self) -> &'static str {
        match self {
            Self::Scope { .. } => {
                "until then the earlier rules of its list count, and this one judges nothing"
            }
            _ => UNTIL_THEN,
        }
    }
}

/// A rule, read and checked.
#[derive(Debug)]
pub struct Rule {
    suspended: Option<Expression>,
    /// In the order in which they are asked.
    verdicts: Vec<(HealthStatus, Expression)>,
    message: Option<Expression>,
    /// Whether an old status.observedGeneration is no matter.
    pub(super) ignores_generation: bool,
}

impl RuleText {
    /// What it is about.
    pub fn scope(&self) -> Result<Scope, RuleError> {
        let unfit =
            |what: &str| RuleError::Scope { api_version: self.api_version.clone(), what: what.to_owned() };
        let group = match self.api_version.split_once('/') {
            Some((group, version)) if !group.is_empty() && is_version(version) => group,
            Some(_) => return Err(unfit("write a group and a version, as in cert-manager.io/v1")),
            None if is_version(&self.api_version) => "",
            None if self.api_version.is_empty() => return Err(unfit("apiVersion is missing; write a group")),
            None => &self.api_version,
        };
        let (domain, is_family) = match group.strip_prefix("*.") {
            Some(domain) => (domain, true),
            None => (group, false),
        };
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
        if !domain.chars().all(is_name) || is_family && domain.is_empty() {
            return Err(unfit(
                "this is no group; write one as in cert-manager.io, a family as in *.crossplane.io",
            ));
        }
        let kind = self.kind.as_deref();
        if kind.is_some_and(|kind| kind.is_empty() || !kind.chars().all(|c| c.is_ascii_alphanumeric())) {
            return Err(unfit(
                "this is no kind; write one as in Certificate, or leave it out for the whole group",
            ));
        }
        if kind.is_none() && !is_family && builtin::has_group(group) {
            return Err(unfit("rules without a kind do not count for what Kubernetes brings; name a kind"));
        }
        let groups = match is_family {
            true => Groups::Family(domain.to_owned()),
            false => Groups::One(domain.to_owned()),
        };
        Ok(Scope { groups, kind: kind.map(str::to_owned) })
    }

    /// Its expressions in the order of the reference, with the names of their fields.
    pub(super) fn expressions(&self) -> [(&'static str, Option<&str>); 5] {
        [
            ("suspended", self.suspended.as_deref()),
            ("inProgress", self.in_progress.as_deref()),
            ("failed", self.failed.as_deref()),
            ("current", self.current.as_deref()),
            ("message", self.message.as_deref()),
        ]
    }
}

/// `v1`, `v2beta3`.
fn is_version(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.strip_prefix('v').is_some_and(|rest| {
        let parts = rest.split_once("alpha").or_else(|| rest.split_once("beta"));
        parts.map_or(digits(rest), |(major, minor)| digits(major) && digits(minor))
    })
}

impl Rule {
    /// Reads the expressions of a rule with this scope.
    pub fn compile(text: &RuleText, scope: &Scope) -> Result<Rule, RuleError> {
        let mut rule = Rule {
            suspended: None,
            verdicts: Vec::new(),
            message: None,
            ignores_generation: text.observed_generation == Some(ObservedGeneration::Ignore),
        };
        if let Some(what) = &text.fault {
            return Err(RuleError::Unreadable { scope: scope.clone(), what: what.clone() });
        }
        if text.current.is_none() {
            return Err(RuleError::NoCurrent { scope: scope.clone() });
        }
        for (field, text) in text.expressions() {
            let Some(text) = text else { continue };
            let unfit = |fault: expression::Fault| RuleError::Expression {
                scope: scope.clone(),
                field,
                what: fault.describe(text),
            };
            let read = Expression::compile(text).map_err(unfit)?;
            match field {
                "suspended" => rule.suspended = Some(read),
                "message" => rule.message = Some(read),
                "inProgress" => rule.verdicts.push((HealthStatus::InProgress, read)),
                "failed" => rule.verdicts.push((HealthStatus::Failed, read)),
                _ => rule.verdicts.push((HealthStatus::Current, read)),
            }
        }
        Ok(rule)
    }

    /// How many patterns its expressions have.
    pub(super) fn patterns(&self) -> usize {
        self.judging().chain(&self.suspended).chain(&self.message).map(Expression::patterns).sum()
    }

    fn judging(&self) -> impl Iterator<Item = &Expression> {
        self.verdicts.iter().map(|(_, expression)| expression)
    }

    /// Whether an object's status has what one of its expressions reads: it counts for the others of its group only then.
    pub(super) fn reads(&self, live: &Value) -> bool {
        let mut paths = self.judging().chain(&self.suspended).flat_map(Expression::paths);
        paths.any(|path| {
            path.first().is_some_and(|root| root == "status") && expression::field(live, path).is_some()
        })
    }

    /// Whether somebody has stopped the object.
    pub(super) fn suspension(&self, view: &View<'_>) -> Option<Health> {
        let suspended = self.suspended.as_ref()?;
        match suspended.truth(view) {
            Ok(true) => Some(self.phrase(Health::suspended("The object is suspended"), view)),
            Ok(false) | Err(Stop::Undefined(_)) => None,
            Err(Stop::Costly(why)) => Some(too_costly(why)),
        }
    }

    /// What the first expression that is true says; InProgress where none is.
    pub(super) fn judge(&self, live: &Value, view: &View<'_>) -> Health {
        let mut lack = String::new();
        for (status, expression) in &self.verdicts {
            match expression.truth(view) {
                Ok(true) => return self.phrase(verdict(*status), view),
                Err(Stop::Undefined(why)) if *status == HealthStatus::Current => {
                    lack = format!("; current: {why}");
                }
                Ok(false) | Err(Stop::Undefined(_)) => {}
                Err(Stop::Costly(why)) => return too_costly(why),
            }
        }
        let is_silent = live.get("status").and_then(Value::as_object).is_none_or(|status| status.is_empty());
        // With a reason of its own, so that the first status is told at once: a text alone is not.
        let (reason, says) = match is_silent && self.reads_status() {
            true => (
                "NoStatusYet",
                "It has no status yet; see whether its controller runs in the member".to_owned(),
            ),
            false => ("HealthCheckNotMet", format!("No expression of the kind's health rule is true{lack}")),
        };
        let health = self.phrase(Health::in_progress(reason, &says), view);
        match read::conditions_behind(live) {
            Some((told, declared)) => {
                let behind = format!("its conditions are of generation {told}, and {declared} is declared");
                Health { message: format!("{}; {behind}", health.message), ..health }
            }
            None => health,
        }
    }

    fn reads_status(&self) -> bool {
        let mut paths = self.judging().chain(&self.message).flat_map(Expression::paths);
        paths.any(|path| path.first().is_some_and(|root| root == "status"))
    }

    /// Those of its expressions that were asked and came to nothing, each with its field and why: one that reads what is not
    /// there, or gives neither true nor false, counts as not true.
    pub(super) fn undefined(&self, view: &View<'_>) -> Vec<(&'static str, String)> {
        let suspended = self.suspended.iter().map(|expression| ("suspended", expression));
        let verdicts = self.verdicts.iter().map(|(status, expression)| (field_of(*status), expression));
        let mut undefined = Vec::new();
        for (field, expression) in suspended.chain(verdicts) {
            match expression.truth(view) {
                Ok(false) => {}
                Err(Stop::Undefined(why)) => undefined.push((field, why)),
                Ok(true) | Err(Stop::Costly(_)) => break,
            }
        }
        undefined
    }

    /// With the rule's own words, where it has some.
    fn phrase(&self, health: Health, view: &View<'_>) -> Health {
        match self.message.as_ref().map(|expression| expression.text(view)) {
            Some(Err(Stop::Costly(why))) => too_costly(why),
            Some(Ok(text)) if !text.trim().is_empty() => Health { message: message::stable(&text), ..health },
            _ => health,
        }
    }
}

/// The field of the expression that gives this verdict.
fn field_of(status: HealthStatus) -> &'static str {
    match status {
        HealthStatus::InProgress => "inProgress",
        HealthStatus::Failed => "failed",
        _ => "current",
    }
}

fn verdict(status: HealthStatus) -> Health {
    match status {
        HealthStatus::Failed => {
            Health::failed("HealthCheckFailed", "The kind's health rule says that the object has failed")
        }
        HealthStatus::Current => Health::current("The kind's health rule says that the object is current"),
        _ => Health::in_progress(
            "HealthCheckInProgress",
            "The kind's health rule says that the object is on its way",
        ),
    }
}

fn too_costly(why: &str) -> Health {
    let message = format!("The kind's health rule costs too much: {why}; make its expressions simpler");
    Health::unknown("HealthCheckTooCostly", &message)
}

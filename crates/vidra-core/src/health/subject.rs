//! A live object beside the health rule that is about it. The rule's expressions are evaluated once and within one bound,
//! for however many facts a verdict is asked.

use std::cell::OnceCell;

use serde_json::Value;

use super::{
    Health,
    expression::View,
    read::text,
    rule::Rule,
    rules::{Match, Origin, RuleSet},
};
use crate::mutants::{self, Mutant};

/// An object that is judged.
#[derive(Debug)]
pub struct Subject<'l, 'r> {
    live: &'l Value,
    /// What the rule may read of it.
    read: &'l Value,
    /// Its group and its kind.
    pub(super) gk: (&'l str, &'l str),
    /// The rule that is about it.
    pub(super) found: Option<Match<'r>>,
    view: View<'l>,
    suspension: OnceCell<Option<Health>>,
    says: OnceCell<Health>,
}

impl<'l, 'r> Subject<'l, 'r> {
    /// Nothing is evaluated yet.
    pub fn new(live: &'l Value, rules: &'r RuleSet) -> Self {
        Self::hiding(live, None, rules)
    }

    /// Nothing is evaluated yet. `rest`: what rules of a VidraResource may read of it, where that is not all. What the hub
    /// itself knows, and what the fleet's rules say, is of all of it, as it is for everybody.
    pub fn hiding(live: &'l Value, rest: Option<&'l Value>, rules: &'r RuleSet) -> Self {
        let api_version = text(live, "/apiVersion").unwrap_or_default();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let kind = text(live, "/kind").unwrap_or_default();
        let live = rest.filter(|_| mutants::is(Mutant::AllBlind)).unwrap_or(live);
        let is_own = || rules.find(group, kind).is_some_and(|found| found.origin == Origin::Resource);
        let read = rest.filter(|_| is_own()).unwrap_or(live);
        let found = rules.applies(read, group, kind);
        let (suspension, says) = (OnceCell::new(), OnceCell::new());
        Self { live, read, gk: (group, kind), found, view: View::new(read), suspension, says }
    }

    /// The steps that its rule's expressions have taken.
    pub fn steps(&self) -> usize {
        self.view.steps()
    }

    /// What is judged.
    pub fn live(&self) -> &'l Value {
        self.live
    }

    /// The rule, where one is about it that can be used.
    pub(super) fn rule(&self) -> Option<&'r Rule> {
        self.found.and_then(|found| found.rule.ok())
    }

    /// That somebody has stopped it, by the rule.
    pub(super) fn suspension(&self, rule: &Rule) -> Option<Health> {
        let evaluate = || rule.suspension(&self.view);
        if mutants::is(Mutant::EvaluatesForEachFact) {
            return evaluate();
        }
        self.suspension.get_or_init(evaluate).clone()
    }

    /// Of the rule that is about it the expressions that counted as not true because they read what is not there, or gave
    /// neither true nor false: for each its field and why, in the order in which they are asked.
    pub fn undefined(&self) -> Vec<(&'static str, String)> {
        // What the verdict took is not taken from this.
        self.rule().map(|rule| rule.undefined(&View::new(self.read))).unwrap_or_default()
    }

    /// How it is by the rule.
    pub(super) fn says(&self, rule: &Rule) -> Health {
        let evaluate = || rule.judge(self.read, &self.view);
        if mutants::is(Mutant::EvaluatesForEachFact) {
            return evaluate();
        }
        self.says.get_or_init(evaluate).clone()
    }
}

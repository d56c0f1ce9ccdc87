//! One live object, judged by the health rules that its owners have of their own: each rule once, and of one namespace at
//! most four. Any number of VidraResources may declare an object, and all wait while it is judged.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::Value;
use vidra_api::names::OwnerHash;
use vidra_core::{
    health::{Subject, rules::RuleSet},
    mutants::{self, Mutant},
    object::ObjectKey,
};

use super::{
    assessment::Assessment,
    facts::Circumstances,
    owners::{Owner, Owners},
    view::View,
};

/// Most different rules of VidraResources of one namespace by which an object is judged; those of the oldest count.
const RULES_MAX: usize = 4;
/// Most older owners that are looked at for one owner, of all its objects together.
const LOOKS_MOST: usize = 100_000;

/// The note of an object that is not judged by an owner's rules.
const TOO_MANY: &str = "Four other health rules of older VidraResources of this namespace judge it already; give all that \
                        declare it the same rule";

/// Judges an object, as its owners may see it: a verdict tells a tenant what his rule asks for. `hide` gives it without what
/// he may not know, where there is such. Returns for whom the verdict is news. `before`: see
/// [`super::own_health::OwnHealth::set`].
pub(super) fn judge(
    owners: &mut Owners,
    key: &ObjectKey,
    live: &Value,
    (views, hide): (&[View], impl Fn(&ObjectKey, &Value) -> Option<Value>),
    by: (&RuleSet, &Circumstances),
    before: (Option<&Assessment>, bool),
) -> BTreeSet<OwnerHash> {
    let (judges, mut news) = judges(owners, key, views);
    if judges.is_empty() {
        return news;
    }
    let rest = hide(key, live).filter(|_| !mutants::is(Mutant::RulesSeeAll));
    // By namespace: whoever finds a rule with the hash of another's would judge that one's object.
    let mut verdicts = BTreeMap::<_, BTreeMap<u64, Assessment>>::new();
    let mut steps = 0;
    // What is being deleted asks no rule.
    let ends = !live["metadata"]["deletionTimestamp"].is_null() && !mutants::is(Mutant::RefusedHidesEnd);
    for (hash, says) in judges {
        let Some(owner) = owners.get_mut(&hash) else { continue };
        let Some(own) = owner.health.as_mut() else { continue };
        let known = verdicts.entry(owner.target.namespace.clone()).or_default();
        let is_full = known.len() >= RULES_MAX && !ends && !mutants::is(Mutant::EachOwnRuleJudges);
        // It may be another rule than the owner knows of: the fleet's change meanwhile.
        let rules = by.0.with(own.rules().clone());
        let rule = rules.fingerprint(&key.group, &key.kind);
        let (says, verdict) = match known.get(&rule) {
            Some(verdict) => (Some(says), verdict.clone()),
            None if is_full => (None, Assessment::refused(live, TOO_MANY, by.1.now)),
            None => {
                let subject = Subject::hiding(live, rest.as_ref(), &rules);
                let assess = || Assessment::of_subject(&subject, by.1);
                let verdict = known.entry(rule).or_insert_with(assess).clone();
                steps += subject.steps();
                (Some(says), verdict)
            }
        };
        if own.set(key, (says, verdict), before) {
            news.insert(hash);
        }
    }
    owners.steps += steps;
    news
}

/// Whether an owner's rule would be asked about objects now: of those of its namespace that declare one, fewer are older than
/// count, or one of these has the same rule.
pub(super) struct Room<'o> {
    owner: &'o Owner,
    /// Those of its namespace that have rules of their own, the oldest first.
    older: Vec<&'o Owner>,
    /// How many more of these may be looked at, for all waits meanwhile: what is not looked at counts as room, and whoever
    /// judges decides.
    looks: Cell<usize>,
}

impl<'o> Room<'o> {
    /// Of an owner that is known.
    pub(super) fn of(owners: &'o Owners, owner: &'o Owner) -> Self {
        let older = owners.older(owner).into_iter().map(|(_, other)| other);
        let older = older.filter(|other| other.health.is_some()).collect();
        Self { owner, older, looks: Cell::new(LOOKS_MOST) }
    }

    pub(super) fn is_for(&self, key: &ObjectKey) -> bool {
        let rule = |owner: &Owner| owner.health.as_ref().and_then(|own| own.says(key));
        let own = rule(self.owner);
        let mut rules = BTreeSet::new();
        for other in &self.older {
            let Some(looks) = self.looks.get().checked_sub(1) else { return true };
            self.looks.set(looks);
            let Some(theirs) = rule(other).filter(|_| other.declared(key).is_some()) else { continue };
            rules.insert(theirs);
            if Some(theirs) == own {
                return true;
            }
            if rules.len() >= RULES_MAX {
                return false;
            }
        }
        true
    }
}

/// The owners whose own rules are about an object that they declare, the oldest first, with what their rule says; and
/// those for whom it is news that theirs are not.
fn judges(
    owners: &mut Owners,
    key: &ObjectKey,
    views: &[View],
) -> (Vec<(OwnerHash, u64)>, BTreeSet<OwnerHash>) {
    let (mut judges, mut news) = (Vec::new(), BTreeSet::new());
    for view in views {
        let Some(owner) = owners.get_mut(&view.owner) else { continue };
        let is_declared = owner.desired.objects.contains_key(key);
        let Some(own) = owner.health.as_mut() else { continue };
        match own.says(key).filter(|_| is_declared) {
            Some(says) => judges.push((view.owner.clone(), says)),
            None if own.forget(key) => {
                news.insert(view.owner.clone());
            }
            None => {}
        }
    }
    judges.sort_by(|(a, _), (b, _)| owners.rank(a).cmp(&owners.rank(b)));
    (judges, news)
}

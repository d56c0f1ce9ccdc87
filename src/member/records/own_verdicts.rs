//! One live object, judged by the health rules that its owners have of their own: each rule once, and of one namespace at
//! most four. Any number of VidraResources may declare an object, and all wait while it is judged.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vidra_api::names::OwnerHash;
use vidra_core::{
    health::rules::RuleSet,
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
    let rest = hide(key, live);
    let live = rest.as_ref().filter(|_| !mutants::is(Mutant::RulesSeeAll)).unwrap_or(live);
    // By namespace: whoever finds a rule with the hash of another's would judge that one's object.
    let mut verdicts = BTreeMap::<_, BTreeMap<u64, Assessment>>::new();
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
                let assess = || Assessment::of(live, &rules, by.1);
                (Some(says), known.entry(rule).or_insert_with(assess).clone())
            }
        };
        if own.set(key, (says, verdict), before) {
            news.insert(hash);
        }
    }
    news
}

/// An owner's rule would be asked about an object now: of those of its namespace that declare it, fewer are older than count,
/// or one of these has the same rule.
pub(super) fn has_room(owners: &Owners, key: &ObjectKey, hash: &OwnerHash) -> bool {
    let Some(owner) = owners.get(hash) else { return false };
    let is_before =
        |other: &Owner| other.target.namespace == owner.target.namespace && other.rank() < owner.rank();
    let rule = |owner: &Owner| owner.health.as_ref().and_then(|own| own.says(key));
    let before = owners.declaring(key).filter(|(_, other)| is_before(other));
    let rules: BTreeSet<u64> = before.filter_map(|(_, other)| rule(other)).collect();
    rules.len() < RULES_MAX || rule(owner).is_some_and(|own| rules.contains(&own))
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

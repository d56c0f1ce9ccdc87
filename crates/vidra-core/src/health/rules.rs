//! All rules that a VidraResource's objects are judged by, and which of them is the one for a kind.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, LazyLock},
};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::builtin;
use super::expression::PATTERNS_MAX;
use super::rule::{Rule, RuleError, RuleText, Scope, ScopeKey};
use crate::mutants::{self, Mutant};

/// Whoever wrote a rule; the first counts before the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A VidraResource, for its own objects.
    Resource,
    /// A ConfigMap of the hub's namespace, for all.
    Fleet,
    /// The hub's release.
    Shipped,
}

impl Origin {
    /// How many rules of it are read.
    pub(super) const fn most(self) -> usize {
        match self {
            Origin::Resource => 20,
            Origin::Fleet => 500,
            Origin::Shipped => usize::MAX,
        }
    }

    fn pattern_room(self) -> PatternRoom {
        match self {
            Origin::Resource => PatternRoom::of_resource(),
            Origin::Fleet | Origin::Shipped => PatternRoom { kept: usize::MAX, compiled: usize::MAX },
        }
    }
}

/// For how many patterns of expressions there is room: each is kept in memory, compiled, and takes long to compile.
pub(crate) struct PatternRoom {
    kept: usize,
    /// Those too that are thrown away.
    compiled: usize,
}

const NO_PATTERN_ROOM: &str =
    "with those before it there are more than 40 patterns of matches; compare texts, or join patterns with |";

impl PatternRoom {
    /// A VidraResource's, for its rules; and once more for its feedback.
    pub(crate) fn of_resource() -> Self {
        Self { kept: 40, compiled: 160 }
    }

    /// Takes what expressions may need to be compiled.
    ///
    /// # Errors
    /// There is not so much; says what to write.
    pub(crate) fn compile<'t>(&mut self, texts: impl Iterator<Item = &'t str>) -> Result<(), &'static str> {
        let patterns: usize = texts.map(|text| text.matches("matches").take(PATTERNS_MAX).count()).sum();
        if !mutants::is(Mutant::RoomAfterCompile) {
            self.compiled = self.compiled.checked_sub(patterns).ok_or(NO_PATTERN_ROOM)?;
        }
        Ok(())
    }

    /// Takes the room of so many, or none.
    ///
    /// # Errors
    /// There is not so much; says what to write.
    pub(crate) fn take(&mut self, patterns: usize) -> Result<(), &'static str> {
        self.kept = self.kept.checked_sub(patterns).ok_or(NO_PATTERN_ROOM)?;
        Ok(())
    }
}

/// Something to tell whoever wrote a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It is like one before it, which counts: HealthRuleDuplicate.
    Duplicate {
        /// Where it stands.
        place: String,
        /// Where the one stands that counts.
        first: String,
        /// What both are about.
        scope: Scope,
    },
    /// It cannot be used: HealthRuleInvalid.
    Invalid {
        /// Where it stands.
        place: String,
        /// Why, and what to write.
        error: RuleError,
    },
    /// There are more rules than this many, and those from this one on are not read.
    TooMany {
        /// Where the first stands that is not read.
        place: String,
        /// How many there may be.
        most: usize,
    },
}

/// A rule, or that it cannot be used: its objects are Unknown then, and no gate opens for them.
#[derive(Clone)]
struct Entry {
    place: String,
    rule: Arc<LazyRule>,
    /// Of what it says.
    hash: [u8; 32],
}

type ReadRule = Result<Rule, RuleError>;
type LazyRule = LazyLock<ReadRule, Box<dyn FnOnce() -> ReadRule + Send>>;

impl Entry {
    fn new(place: String, hash: [u8; 32], read: impl FnOnce() -> ReadRule + Send + 'static) -> Self {
        Self { place, rule: Arc::new(LazyLock::new(Box::new(read))), hash }
    }

    fn rule(&self) -> Result<&Rule, &RuleError> {
        LazyLock::force(&self.rule).as_ref()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("place", &self.place).field("rule", &self.rule).finish_non_exhaustive()
    }
}

/// The rules of one origin.
#[derive(Debug, Default)]
pub struct Rules {
    /// In the order of their scopes: each event of a member looks some up, and makes no scope for it.
    by_scope: Vec<(Scope, Entry)>,
    digest: [u8; 32],
}

impl Rules {
    /// Reads rules, each with where it stands, in the order in which they count; tells what is wrong with them. One that
    /// cannot be used is as it was `before`, where it could be then.
    pub fn read<'t>(
        origin: Origin,
        texts: impl IntoIterator<Item = (String, &'t RuleText)>,
        before: &Rules,
    ) -> (Rules, Vec<Problem>) {
        let (mut by_scope, mut problems) = (BTreeMap::<Scope, Entry>::new(), Vec::new());
        let (mut room, mut unplaced) = (origin.pattern_room(), BTreeSet::new());
        for (nth, (place, text)) in texts.into_iter().enumerate() {
            if nth == origin.most() {
                problems.push(Problem::TooMany { place, most: origin.most() });
                break;
            }
            let scope = match text.scope() {
                Ok(scope) => scope,
                Err(error) => {
                    unplaced.insert(list_of(&place).to_owned());
                    problems.push(Problem::Invalid { place, error });
                    continue;
                }
            };
            if let Some(first) = by_scope.get(&scope) {
                problems.push(Problem::Duplicate { place, first: first.place.clone(), scope });
                continue;
            }
            let unfit = |what: &str| RuleError::Unreadable { scope: scope.clone(), what: what.to_owned() };
            let read =
                room.compile(text.expressions().into_iter().filter_map(|(_, text)| text)).map_err(unfit);
            let read = read.and_then(|()| Rule::compile(text, &scope));
            let read = read.and_then(|rule| room.take(rule.patterns()).map(|()| rule).map_err(unfit));
            let entry = match read {
                Ok(rule) => Entry::new(place, hash_of(&scope, text), || Ok(rule)),
                Err(error) => {
                    problems.push(Problem::Invalid { place: place.clone(), error: error.clone() });
                    if mutants::is(Mutant::BrokenRuleIsNone) {
                        continue;
                    }
                    let known = before.get(scope.key()).map(|(_, known)| known);
                    let hash = hash_of_broken(&scope, text, &error);
                    let fits =
                        |known: &&Entry| known.rule().is_ok_and(|rule| room.take(rule.patterns()).is_ok());
                    let entry = match known.filter(fits) {
                        Some(known) => known.clone(),
                        None => Entry::new(String::new(), hash, || Err(error)),
                    };
                    Entry { place, ..entry }
                }
            };
            by_scope.insert(scope, entry);
        }
        keep(&mut by_scope, before, &unplaced, (origin.most(), room));
        (Self::of(by_scope), problems)
    }

    /// Rules of which each is read when an object of its scope is judged first: what each is about, a hash of what it says,
    /// and how its text is read.
    pub(super) fn lazy<R>(rules: impl IntoIterator<Item = (Scope, [u8; 32], R)>) -> Rules
    where
        R: FnOnce() -> RuleText + Send + 'static,
    {
        let entry = |(scope, hash, text): (Scope, _, R)| {
            let about = scope.clone();
            (scope, Entry::new(String::new(), hash, move || Rule::compile(&text(), &about)))
        };
        Self::of(rules.into_iter().map(entry).collect())
    }

    fn of(by_scope: BTreeMap<Scope, Entry>) -> Rules {
        let mut rules = Rules { by_scope: by_scope.into_iter().collect(), digest: Default::default() };
        if !rules.is_empty() {
            let mut hash = Sha256::new();
            rules.by_scope.iter().for_each(|(_, entry)| hash.update(entry.hash));
            rules.digest = hash.finalize().into();
        }
        rules
    }

    fn get(&self, key: ScopeKey<'_>) -> Option<&(Scope, Entry)> {
        let at = self.by_scope.binary_search_by(|(scope, _)| scope.key().cmp(&key)).ok()?;
        self.by_scope.get(at)
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.by_scope.is_empty()
    }

    /// 12 hex digits over what they say.
    pub fn digest(&self) -> String {
        short(&self.digest)
    }

    /// The digest as a VidraTarget's spec has it; `None`: there is none.
    pub fn own_digest(&self) -> Option<String> {
        (!self.is_empty()).then(|| self.digest())
    }

    /// What rules are about that these have and those `before` have not, that these lack, or that say something else here.
    pub fn changed_from<'r>(&'r self, before: &'r Rules) -> BTreeSet<&'r Scope> {
        let other = |from: &'r Rules, than: &'r Rules| {
            let says = |scope: &Scope| than.get(scope.key()).map(|(_, entry)| entry.hash);
            from.by_scope.iter().filter(move |(scope, entry)| says(scope) != Some(entry.hash))
        };
        other(self, before).chain(other(before, self)).map(|(scope, _)| scope).collect()
    }

    /// One of them is about this kind, whether or not it is the one that counts.
    pub fn cover(&self, group: &str, kind: &str) -> bool {
        self.by_scope.iter().any(|(scope, _)| scope.covers(group, kind))
    }

    /// What its rules are about.
    pub fn scopes(&self) -> impl Iterator<Item = &Scope> {
        self.by_scope.iter().map(|(scope, _)| scope)
    }
}

/// 12 hex digits of a hash.
pub(crate) fn short(hash: &[u8]) -> String {
    hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Keeps what these lists had before and do not write any more: it may be the rule of which they do not say what it is about.
fn keep(
    by_scope: &mut BTreeMap<Scope, Entry>,
    before: &Rules,
    lists: &BTreeSet<String>,
    (most, mut room): (usize, PatternRoom),
) {
    if mutants::is(Mutant::ScopelessForgets) {
        return;
    }
    for (scope, known) in before.by_scope.iter().filter(|(_, known)| lists.contains(list_of(&known.place))) {
        let patterns = known.rule().map_or(0, Rule::patterns);
        if by_scope.len() < most && !by_scope.contains_key(scope) && room.take(patterns).is_ok() {
            by_scope.insert(scope.clone(), known.clone());
        }
    }
}

/// The list of a place in it: `rules` of `rules[3]`.
fn list_of(place: &str) -> &str {
    place.rsplit_once('[').map_or(place, |(list, _)| list)
}

/// The hash of what a rule says, each part with its length before it.
fn hash_of(scope: &Scope, text: &RuleText) -> [u8; 32] {
    let mut hash = Sha256::new();
    let generation = text.observed_generation.map(|_| "Ignore");
    let expressions = text.expressions().map(|(_, text)| text);
    let scope = scope.to_string();
    let fault = text.fault.as_deref().map(Some);
    for part in [Some(scope.as_str()), generation].into_iter().chain(expressions).chain(fault) {
        let length = part.map_or(u64::MAX, |part| u64::try_from(part.len()).unwrap_or(u64::MAX));
        hash.update(length.to_be_bytes());
        hash.update(part.unwrap_or_default());
    }
    hash.finalize().into()
}

/// The hash of a rule that cannot be used, which may be for what stands before it: one with the same text is another, if it
/// can.
fn hash_of_broken(scope: &Scope, text: &RuleText, error: &RuleError) -> [u8; 32] {
    let hash = hash_of(scope, text);
    if mutants::is(Mutant::BrokenRuleIsEqual) {
        return hash;
    }
    Sha256::new().chain_update(hash).chain_update(error.to_string()).finalize().into()
}

/// 2^64 by the golden ratio: a count times this is spread over all bits, so that it and one hash are hardly another hash.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The rules of all origins.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    /// In the order in which they count, which is that of [`Origin`].
    origins: [Arc<Rules>; 3],
    changes: Arc<Changes>,
}

/// How often the rules of a scope have changed since a process began: what is as it was before was something else between.
#[derive(Clone, Debug, Default)]
struct Changes {
    by_scope: BTreeMap<Scope, u64>,
    /// Of all scopes.
    of_all: u64,
}

/// More scopes than that are not told apart.
const CHANGES_MAX: usize = 10_000;

/// The rule that applies to an object.
#[derive(Clone, Copy, Debug)]
pub struct Match<'r> {
    /// What it is about.
    pub scope: &'r Scope,
    /// Whose it is.
    pub origin: Origin,
    /// The rule, or why it cannot be used.
    pub rule: Result<&'r Rule, &'r RuleError>,
    /// Of what it says.
    pub hash: u64,
}

impl RuleSet {
    /// Those of a VidraResource, of the fleet, and of the release.
    pub fn new(resource: Arc<Rules>, fleet: Arc<Rules>, shipped: Arc<Rules>) -> RuleSet {
        RuleSet { origins: [resource, fleet, shipped], changes: Arc::default() }
    }

    /// These rules with a VidraResource's own before them.
    #[must_use]
    pub fn with(&self, resource: Arc<Rules>) -> RuleSet {
        let [_, fleet, shipped] = self.origins.clone();
        RuleSet { origins: [resource, fleet, shipped], changes: self.changes.clone() }
    }

    /// These rules where they come after another, of which the rules of these scopes were others.
    #[must_use]
    pub fn after<'s>(self, before: &RuleSet, changed: impl IntoIterator<Item = &'s Scope>) -> RuleSet {
        let mut changes = Changes::clone(&before.changes);
        for scope in changed {
            *changes.by_scope.entry(scope.clone()).or_default() += 1;
        }
        if changes.by_scope.len() > CHANGES_MAX {
            changes = Changes { by_scope: BTreeMap::new(), of_all: changes.of_all + 1 };
        }
        RuleSet { changes: Arc::new(changes), ..self }
    }

    /// 12 hex digits over all of them: what a verdict was made under.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        self.origins.iter().for_each(|rules| hash.update(rules.digest));
        short(&hash.finalize())
    }

    /// Equal while objects of this kind are judged by the same rule, and never again after they were judged by another.
    pub fn fingerprint(&self, group: &str, kind: &str) -> u64 {
        let Changes { by_scope, of_all } = &*self.changes;
        let about = by_scope.iter().filter(|(scope, _)| scope.covers(group, kind));
        let changes: u64 = about.map(|(_, count)| count).sum();
        let says = self.find(group, kind).map_or(0, |found| found.hash);
        says.wrapping_add((changes + of_all).wrapping_mul(SPREAD))
    }

    /// What the rule of a kind is about.
    pub fn scope(&self, group: &str, kind: &str) -> Option<&Scope> {
        self.find(group, kind).map(|found| found.scope)
    }

    /// The rule of a kind: one that names it before one of its group before one of a family, over all origins; of two
    /// families the narrower.
    pub(super) fn find(&self, group: &str, kind: &str) -> Option<Match<'_>> {
        let families = group.match_indices('.').filter_map(|(at, _)| group.get(at + 1..));
        let groups = std::iter::once((false, group)).chain(families.map(|domain| (true, domain)));
        let keys_of = |kind| groups.clone().map(move |(is_family, name)| (is_family, name, kind));
        let mut keys = [Some(kind), None].into_iter().flat_map(keys_of);
        let [resource, fleet, shipped] = &self.origins;
        let (own, all) = ((Origin::Resource, resource), (Origin::Fleet, fleet));
        let (first, second) = if mutants::is(Mutant::FleetRulesFirst) { (all, own) } else { (own, all) };
        let origins = [first, second, (Origin::Shipped, shipped)];
        keys.find_map(|key| {
            origins.iter().find_map(|(origin, rules)| {
                let (scope, entry) = rules.get(key)?;
                let hash = u64::from_be_bytes(*entry.hash.first_chunk()?);
                Some(Match { scope, origin: *origin, rule: entry.rule(), hash })
            })
        })
    }

    /// The rule that counts for an object, if one does.
    pub(super) fn applies(&self, live: &Value, group: &str, kind: &str) -> Option<Match<'_>> {
        let found = self.find(group, kind)?;
        if found.scope.kind.is_some() {
            return Some(found);
        }
        // One for a whole group knows only what has what it reads.
        let reads = found.rule.map_or(true, |rule| rule.reads(live));
        (reads && !builtin::has_group(group)).then_some(found)
    }
}

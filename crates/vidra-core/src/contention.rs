//! Contention: an object that is repaired again and again because somebody changes it back again and again. Repairs
//! are counted; after a few of the same kind the object is left alone for a while, each time longer, and the other
//! side is named. The rest of its target is tended as ever.
//!
//! What is the same kind: the same object, as it is declared now, and the same [`Cause`]. Nothing here knows the
//! time: it is handed in, twice, for deciding by a clock that only goes on, and for telling people.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use vidra_api::{ChangeKind, ChangedField};
use xxhash_rust::xxh3::Xxh3;

use crate::{
    drift::{Evidence, managers},
    object::ObjectKey,
    render::DeclaredHash,
};

mod words;

pub use words::Told;

/// So many repairs of the same kind within [`WINDOW`] are contention.
pub const IDENTICAL: usize = 5;
/// Contention is over when its object has been as declared for so long; repairs that are older do not count.
pub const WINDOW: Duration = Duration::from_secs(600);
/// How long the object is left alone first; each time twice as long.
pub const FIRST_PAUSE: Duration = Duration::from_secs(60);
/// It is left alone no longer than this.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(1800);
/// So many that undo the repairs of one object are told apart; what others did counts as somebody's.
const OPPONENTS: usize = 8;
/// So many causes are told apart for one object. Whoever invents more is in contention over all of them together.
const CAUSES: usize = 8;

/// What was otherwise about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It was gone, or our label was taken from it.
    Missing,
    /// Our marks were off it, or our entry in managedFields was gone.
    Marks,
    /// Values differed: a number that is the same for the same paths, as far as evidence tells them.
    Values(u64),
    /// Something differed that was not seen happening.
    Unseen,
}

/// What a reconcile found about an object that is not as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is otherwise.
    pub cause: Cause,
    /// The field managers that did it, as messages may show them. Empty: the server names nobody.
    pub by: Vec<String>,
}

impl Finding {
    /// What the evidence against an object says.
    pub fn of(evidence: &Evidence) -> Self {
        let cause = match evidence.change {
            ChangeKind::Missing => Cause::Missing,
            ChangeKind::Modified => Cause::Values(paths(&evidence.fields)),
            ChangeKind::OwnershipLost | ChangeKind::Extra => Cause::Marks,
        };
        Self { cause, by: managers(&evidence.fields) }
    }
}

/// Equal for equal paths, whatever their values.
fn paths(fields: &[ChangedField]) -> u64 {
    let mut hash = Xxh3::new();
    for field in fields {
        hash.update(field.path.as_bytes());
        hash.update(&[0]);
    }
    hash.digest()
}

/// Now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Since any fixed moment, by a clock that is never set back.
    pub elapsed: Duration,
    /// For people.
    pub wall: Timestamp,
}

/// What is remembered of the repairs of one target's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contentions {
    objects: BTreeMap<ObjectKey, ObjectRepairs>,
    /// The last word of a person that asked to try at once.
    asked: Option<String>,
}

/// One object that was repaired lately.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ObjectRepairs {
    /// The hash of what was declared.
    declared: DeclaredHash,
    /// When it was repaired, and what was undone by that, by cause; of each the last few.
    repairs: BTreeMap<Cause, VecDeque<(Duration, Opponent)>>,
    /// When it was last repaired, or seen not to be as declared.
    trouble: Duration,
    /// It was not as declared when it was looked at last.
    drifted: bool,
    contention: Option<Contention>,
}

/// Who did it, and how; with each repair one is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Opponent {
    /// Field managers. Empty: nobody knows.
    by: Vec<String>,
    /// It was gone; otherwise something about it was changed.
    deleted: bool,
}

impl Opponent {
    fn of(finding: &Finding) -> Self {
        Self { by: finding.by.clone(), deleted: finding.cause == Cause::Missing }
    }
}

/// what a reconcile has to know of the contentions of its target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Review {
    /// These are left alone now.
    pub left_alone: BTreeSet<ObjectKey>,
    /// Their contention begins now: they were repaired often enough, and are not as declared again.
    pub begun: Vec<ObjectKey>,
}

/// An object in contention, as far as repairs of it tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contention {
    /// How many times the object was repaired.
    pub repairs: u32,
    /// Whose work was undone by that, how often each.
    opponents: BTreeMap<Opponent, u32>,
    /// Whose work was seen last.
    last: Opponent,
    /// When it was repaired last.
    pub repaired: Timestamp,
    /// It is left alone until then.
    pub until: Timestamp,
    pause: Duration,
    over: Duration,
    /// The object was found changed back after it was repaired often enough. Before that it is none.
    begun: bool,
}

impl Contentions {
    /// Takes what a reconcile found: `declared` gives the hash of what is declared now, `found` is all that is not as
    /// declared. Forgets what is over or declared otherwise.
    pub fn review(
        &mut self,
        declared: impl Fn(&ObjectKey) -> Option<DeclaredHash>,
        found: &BTreeMap<ObjectKey, Finding>,
        now: Now,
    ) -> Review {
        let mut review = Review::default();
        self.objects.retain(|key, object| {
            if declared(key) != Some(object.declared) {
                return false;
            }
            let finding = found.get(key);
            object.drifted = finding.is_some();
            match finding {
                Some(finding) if object.seen(finding, now) => review.begun.push(key.clone()),
                Some(_) => {}
                None if now.elapsed.saturating_sub(object.trouble) >= WINDOW => return false,
                None => {}
            }
            if object.drifted && object.is_paused(now) {
                review.left_alone.insert(key.clone());
            }
            true
        });
        if self.objects.is_empty() {
            self.asked = None;
        }
        review
    }

    /// An object was repaired.
    pub fn repaired(&mut self, key: &ObjectKey, declared: DeclaredHash, finding: &Finding, now: Now) {
        let object = self.objects.entry(key.clone()).or_insert_with(|| ObjectRepairs::new(declared));
        if object.declared != declared {
            *object = ObjectRepairs::new(declared);
        }
        object.repaired(finding, now);
    }

    /// A person asks to try at once; the same word counts once.
    pub fn ask(&mut self, word: &str) {
        if self.objects.is_empty() || self.asked.as_deref() == Some(word) {
            return;
        }
        self.asked = Some(word.to_owned());
        for contention in self.objects.values_mut().filter_map(|object| object.contention.as_mut()) {
            contention.over = Duration::ZERO;
        }
    }

    /// How long until there is something to do about contention without anything happening before.
    pub fn next_look(&self, now: Now) -> Option<Duration> {
        let of = |object: &ObjectRepairs| {
            let contention = object.contention()?;
            let at = if object.drifted { contention.over } else { object.trouble + WINDOW };
            at.checked_sub(now.elapsed).filter(|wait| !wait.is_zero())
        };
        self.objects.values().filter_map(of).min()
    }

    /// The contentions, and whether their object is not as declared now.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Contention, bool)> {
        self.objects.iter().filter_map(|(key, object)| Some((key, object.contention()?, object.drifted)))
    }

    /// The field managers that undid the repairs of an object, each once.
    pub fn by(&self, key: &ObjectKey) -> Vec<String> {
        let contention = self.objects.get(key).and_then(ObjectRepairs::contention);
        let named = contention
            .into_iter()
            .flat_map(|contention| contention.opponents.keys().flat_map(|opponent| opponent.by.clone()));
        named.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

impl ObjectRepairs {
    fn new(declared: DeclaredHash) -> Self {
        Self { declared, repairs: BTreeMap::new(), trouble: Duration::ZERO, drifted: false, contention: None }
    }

    fn is_paused(&self, now: Now) -> bool {
        self.contention.as_ref().is_some_and(|contention| now.elapsed < contention.over)
    }

    fn contention(&self) -> Option<&Contention> {
        self.contention.as_ref().filter(|contention| contention.begun)
    }

    /// True: with this the contention begins.
    fn seen(&mut self, finding: &Finding, now: Now) -> bool {
        self.trouble = now.elapsed;
        let Some(contention) = &mut self.contention else { return false };
        contention.last = Opponent::of(finding);
        !std::mem::replace(&mut contention.begun, true)
    }

    fn repaired(&mut self, finding: &Finding, now: Now) {
        self.trouble = now.elapsed;
        self.drifted = false;
        let opponent = Opponent::of(finding);
        if let Some(contention) = &mut self.contention {
            contention.last = opponent.clone();
            contention.count(opponent);
            contention.repairs = contention.repairs.saturating_add(1);
            contention.rest((contention.pause * 2).min(LONGEST_PAUSE), now);
            return;
        }
        let known = self.repairs.contains_key(&finding.cause) || self.repairs.len() < CAUSES;
        let cause = if known { finding.cause } else { Cause::Unseen };
        let times = self.repairs.entry(cause).or_default();
        times.push_back((now.elapsed, opponent.clone()));
        while times.len() > IDENTICAL {
            times.pop_front();
        }
        let first = times.front().map_or(Duration::ZERO, |(at, _)| *at);
        if times.len() < IDENTICAL || now.elapsed.saturating_sub(first) > WINDOW {
            return;
        }
        let counted = std::mem::take(times);
        let mut contention = Contention {
            repairs: IDENTICAL as u32,
            opponents: BTreeMap::new(),
            last: opponent,
            repaired: now.wall,
            until: now.wall,
            pause: Duration::ZERO,
            over: now.elapsed,
            begun: false,
        };
        counted.into_iter().for_each(|(_, opponent)| contention.count(opponent));
        contention.rest(FIRST_PAUSE, now);
        self.contention = Some(contention);
        self.repairs.clear();
    }
}

impl Contention {
    fn count(&mut self, opponent: Opponent) {
        let known = self.opponents.contains_key(&opponent) || self.opponents.len() < OPPONENTS;
        let opponent = if known { opponent } else { Opponent { by: Vec::new(), ..opponent } };
        let times = self.opponents.entry(opponent).or_default();
        *times = times.saturating_add(1);
    }

    /// Repaired now: left alone for a while.
    fn rest(&mut self, pause: Duration, now: Now) {
        self.pause = pause;
        self.over = now.elapsed + pause;
        self.repaired = now.wall;
        self.until = now.wall.checked_add(pause).unwrap_or(now.wall);
    }
}

#[cfg(test)]
mod tests;

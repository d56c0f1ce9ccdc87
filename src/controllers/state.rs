//! What the loops remember between reconciles; lost with the process, and nothing is wrong then.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;
use vidra_api::{Change, ChangeKind, DriftSpec};
use vidra_core::{
    contention::Contentions,
    ignore::Unused,
    mutants::{self, Mutant},
    object::ObjectKey,
    status::{KindCount, by_kind},
};

use super::{
    approvals::KnownApprovals,
    member_cluster::counts::Settling,
    own_rules,
    revoke::Approved,
    status_fallback::Whole,
    status_throttle::{Due, StatusChange, StatusThrottle},
    value_turns::ValueTurns,
    vidra_resource::{KeptRevision, RevisionUse},
    vidra_target::{Causes, Undeclared},
    write_refusal::Failures,
};
use crate::workqueue::{Key, ResourceKey, TargetKey};

/// The most repairs that are remembered until a status tells them.
const CORRECTIONS_MAX: usize = 20;

/// What the loops remember between reconciles; in memory only.
#[derive(Default)]
pub struct ControllerState {
    keys: BTreeMap<Key, KeyMemory>,
    value_turns: ValueTurns,
    targets: BTreeMap<TargetKey, TargetMemory>,
    resources: BTreeMap<ResourceKey, ResourceMemory>,
    members: BTreeMap<String, MemberMemory>,
    /// Since when this process counts time.
    pub(super) origin: Option<Instant>,
    /// Which cluster answers under a MemberCluster's name, by its uid.
    pub(super) claims: BTreeMap<String, String>,
}

/// What is remembered alike of all that has a key.
#[derive(Default, PartialEq)]
pub(super) struct KeyMemory {
    pub(super) throttle: StatusThrottle,
    pub(super) failures: Failures,
    pub(super) approvals: KnownApprovals,
    pub(super) whole: Whole,
}

/// What is remembered of a VidraTarget.
#[derive(Default, PartialEq)]
pub(super) struct TargetMemory {
    /// How many repairs no status tells yet.
    pub(super) corrections: i64,
    /// The newest of them.
    pub(super) newest_corrections: Vec<Change>,
    /// This process made it, and it has no status yet.
    pub(super) made: bool,
    /// It was met without a status, and is of others' making: what was delivered for it is not known.
    pub(super) untold: bool,
    /// Repairs of late, and those who undo them.
    pub(super) contentions: Contentions,
    /// What was found not to be as declared, was told, and is not repaired.
    pub(super) drifting: BTreeSet<(ObjectKey, ChangeKind)>,
    /// What of the ignored paths matched nothing in it, and of which rules that was said; `None`: none are ignored.
    pub(super) unused: Option<(DriftSpec, Vec<Unused>)>,
    /// Of which kinds its objects are that count as healthy though nothing shows it.
    unproven: Vec<KindCount>,
    /// Why workloads of it have failed.
    pub(super) causes: Causes,
    /// What it does not declare any more and still has.
    pub(super) undeclared: Undeclared,
    /// When it last looked for what others have made in place of what it declares.
    pub(super) revisited: Option<Instant>,
    /// When its objects were listed last, because its own health rules had not judged them.
    pub(super) judged: Option<Instant>,
    /// The hub's API refuses writes for it, and how that is told.
    pub(super) refused: Option<String>,
    /// Until when a part of its inventory may still come, whose making was not answered.
    pub(super) chunk_lands: Option<Instant>,
    /// A person has asked that it is looked at.
    look: Look,
    /// Its status is to say something else than it does, and waits for its distance to the one before.
    pub(super) status_waits: bool,
}

/// How far a look is that a person has asked for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Look {
    /// None was asked for, or its status tells what came of it.
    #[default]
    Over,
    /// No reconcile has begun since.
    Asked,
    /// A reconcile has begun since.
    Begun,
    /// It has found something, and its status tells that or is about to.
    Told,
}

/// What is remembered of a VidraResource.
#[derive(Default)]
pub(super) struct ResourceMemory {
    /// What is known to be kept of what it declares.
    pub(super) kept_revision: Option<KeptRevision>,
    /// The rules that it has of its own.
    pub(super) own_rules: own_rules::Memory,
    /// Which of its revisions are in use, and since when others are not.
    pub(super) revision_use: RevisionUse,
    /// Its loop has looked at it, or has tried to and could not: what `Catalog::arrivals` was when it began.
    pub(super) tried: Option<u64>,
    /// The request to reconcile that was passed on to its targets last.
    pub(super) request: Option<String>,
}

/// What is remembered of a MemberCluster.
#[derive(Default)]
pub(super) struct MemberMemory {
    /// The cluster loop has looked at its credentials since the start.
    pub(super) judged: bool,
    /// What a person has approved that its onRevoke takes.
    pub(super) revoking: Option<Approved>,
    /// How the counts of its status settle.
    pub(super) counts: Settling,
}

impl MemberMemory {
    /// The cluster loop has looked at its credentials; whether that is news.
    pub(super) fn note_judged(&mut self) -> bool {
        !std::mem::replace(&mut self.judged, true)
    }
}

impl TargetMemory {
    /// A reconcile begins.
    pub(super) fn begin_look(&mut self) {
        if self.look != Look::Over {
            self.look = Look::Begun;
        }
    }

    /// It has found something to tell: one that ends before that, as while it waits for a list, is no look.
    pub(super) fn note_found(&mut self) {
        if self.look == Look::Begun {
            self.look = Look::Told;
        }
    }

    /// It has ended, and what it found is written where that is news. Whether a look ends with it that was asked for.
    pub(super) fn end_look(&mut self) -> bool {
        let is_untold = self.look == Look::Begun && mutants::is(Mutant::LooksUntold);
        let is_over = (self.look == Look::Told || is_untold) && !self.status_waits;
        if is_over {
            self.look = Look::Over;
        }
        is_over
    }

    /// Somebody waits for a look at it.
    pub(super) fn owes_look(&self) -> bool {
        self.look != Look::Over
    }

    /// Repairs that the next status tells.
    pub(super) fn note_corrections(&mut self, corrections: &[Change]) {
        self.corrections += corrections.len() as i64;
        self.newest_corrections.extend_from_slice(corrections);
        self.newest_corrections.drain(..self.newest_corrections.len().saturating_sub(CORRECTIONS_MAX));
    }

    /// A status shows all of them, and counts this many.
    pub(super) fn forget_corrections(&mut self, counted: i64) {
        self.newest_corrections.clear();
        self.corrections = (self.corrections - counted).max(0);
    }

    /// Nothing is kept as declared of it any more.
    pub(super) fn forget_drift(&mut self) {
        (self.contentions, self.drifting) = Default::default();
    }
}

impl ControllerState {
    /// When a status of this key is written that has this to tell.
    pub(super) fn status_due(&mut self, key: &Key, change: StatusChange, now: Instant) -> Due {
        let mut turns = std::mem::take(&mut self.value_turns);
        let due = self.change(key, |state| state.throttle.due(change, now, &key.namespace(), &mut turns));
        self.value_turns = turns;
        due
    }

    /// The values of this key's status change all the time, and are written rarely.
    pub(super) fn has_busy_values(&self, key: &Key, now: Instant) -> bool {
        self.of(key).is_some_and(|state| state.throttle.has_busy_values(now))
    }

    /// What is remembered of a VidraTarget, if anything is.
    pub(super) fn target(&self, key: &TargetKey) -> Option<&TargetMemory> {
        self.targets.get(key)
    }

    /// Changes what is remembered of a VidraTarget; where nothing is left of it, there is no entry.
    pub(super) fn change_target<T>(
        &mut self,
        key: &TargetKey,
        change: impl FnOnce(&mut TargetMemory) -> T,
    ) -> T {
        change_entry(&mut self.targets, key, change)
    }

    /// What is remembered of a VidraResource, if anything is.
    pub(super) fn resource(&self, key: &ResourceKey) -> Option<&ResourceMemory> {
        self.resources.get(key)
    }

    /// What is remembered of a VidraResource, to change it.
    pub(super) fn resource_mut(&mut self, key: &ResourceKey) -> &mut ResourceMemory {
        self.resources.entry(key.clone()).or_default()
    }

    /// What is remembered of a MemberCluster, if anything is.
    pub(super) fn member(&self, name: &str) -> Option<&MemberMemory> {
        self.members.get(name)
    }

    /// What is remembered of a MemberCluster, to change it.
    pub(super) fn member_mut(&mut self, name: &str) -> &mut MemberMemory {
        self.members.entry(name.to_owned()).or_default()
    }

    /// What is remembered of a key, if anything is.
    pub(super) fn of(&self, key: &Key) -> Option<&KeyMemory> {
        self.keys.get(key)
    }

    /// Changes what is remembered of a key; where nothing is left of it, there is no entry.
    pub(super) fn change<T>(&mut self, key: &Key, change: impl FnOnce(&mut KeyMemory) -> T) -> T {
        change_entry(&mut self.keys, key, change)
    }

    /// A VidraResource is gone: what was remembered of it goes too, and of targets that were never made.
    pub(super) fn forget_resource(&mut self, key: &ResourceKey) {
        self.resources.remove(key);
        let first =
            TargetKey { namespace: key.namespace.clone(), resource: key.name.clone(), cluster: "".into() };
        let of_targets = self.targets.range(first..).map(|(target, _)| target);
        let is_of = |target: &&TargetKey| target.namespace == key.namespace && target.resource == key.name;
        for target in of_targets.take_while(is_of).cloned().collect::<Vec<_>>() {
            self.change_target(&target, |state| state.made = false);
        }
        self.keys.remove(&Key::Resource(key.clone()));
    }

    /// A MemberCluster is gone: the same of it. One that joins under its name is judged by its own credentials.
    pub(super) fn forget_member(&mut self, name: &str) {
        self.members.remove(name);
        self.keys.remove(&Key::Cluster(name.into()));
    }

    /// A VidraTarget is gone: forgets it, but keeps `made` where this process has made another one of its name.
    pub(super) fn forget_target(&mut self, key: &TargetKey, is_another_there: bool) {
        let made = self.targets.remove(key).is_some_and(|state| state.made);
        self.change_target(key, |state| state.made = made && is_another_there);
        self.keys.remove(&Key::Target(key.clone()));
    }

    /// A person asks that repairs which wait for somebody to stop undoing them are tried at once; and a status that was
    /// not taken whole is tried once more.
    pub(super) fn ask_again(&mut self, key: &TargetKey, word: &str) {
        self.change_target(key, |state| {
            state.look = Look::Asked;
            state.contentions.ask(word);
        });
        self.change(&Key::Target(key.clone()), |state| state.whole = Whole::default());
    }

    /// How many objects somebody changes back again and again, by cluster.
    pub(super) fn contentions(&self) -> BTreeMap<String, i64> {
        let mut counts = BTreeMap::new();
        for (key, state) in self.targets.iter().filter(|(_, state)| !state.contentions.is_empty()) {
            *counts.entry(key.cluster.to_string()).or_default() += state.contentions.iter().count() as i64;
        }
        counts
    }

    /// Notes of which kinds a target's objects are that count as healthy though nothing shows it.
    pub(super) fn note_unproven(&mut self, key: &TargetKey, kinds: &[KindCount]) {
        if self.target(key).map_or(&[][..], |state| &state.unproven) != kinds {
            self.change_target(key, |state| state.unproven = kinds.to_vec());
        }
    }

    /// How many objects count as healthy though nothing shows it, by kind.
    pub(super) fn unproven(&self) -> BTreeMap<String, i64> {
        by_kind(self.targets.values().flat_map(|state| &state.unproven))
    }

    /// How many entries there are, for tests.
    pub(super) fn entries(&self) -> [(&'static str, usize); 15] {
        let targets =
            |has: fn(&TargetMemory) -> bool| self.targets.values().filter(|state| has(state)).count();
        [
            ("keys with a status, failures or approvals", self.keys.len()),
            ("corrections", targets(|state| state.corrections > 0)),
            ("targets that were made", targets(|state| state.made)),
            ("targets of others", targets(|state| state.untold)),
            ("contentions", targets(|state| !state.contentions.is_empty())),
            ("targets that drift", targets(|state| !state.drifting.is_empty())),
            ("targets that were repaired", targets(|state| !state.newest_corrections.is_empty())),
            ("resources that are remembered", self.resources.len()),
            ("members that are remembered", self.members.len()),
            ("unused paths", targets(|state| state.unused.is_some())),
            ("identities", self.claims.len()),
            ("targets with undeclared objects", targets(|state| !state.undeclared.is_empty())),
            ("revisited targets", targets(|state| state.revisited.is_some())),
            ("refused targets", targets(|state| state.refused.is_some())),
            ("targets with unproven objects", targets(|state| !state.unproven.is_empty())),
        ]
    }
}

/// Changes an entry; one in which nothing is remembered goes.
fn change_entry<K: Clone + Ord, S: Default + PartialEq, T>(
    all: &mut BTreeMap<K, S>,
    key: &K,
    change: impl FnOnce(&mut S) -> T,
) -> T {
    let state = all.entry(key.clone()).or_default();
    let answer = change(state);
    if *state == S::default() {
        all.remove(key);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_was_asked_for_ends_with_a_reconcile_that_found_something() {
        let mut target = TargetMemory { look: Look::Asked, ..TargetMemory::default() };
        // It waits for a list, and ends.
        target.begin_look();
        assert!(!target.end_look() && target.owes_look());
        // It has found something, and its status waits for its turn.
        target.begin_look();
        target.note_found();
        target.status_waits = true;
        assert!(!target.end_look() && target.owes_look());
        target.begin_look();
        target.note_found();
        target.status_waits = false;
        assert!(target.end_look() && !target.owes_look());
        assert!(target == TargetMemory::default());
    }

    #[test]
    fn nothing_is_remembered_of_resources_and_members_that_are_gone() {
        let mut state = ControllerState::default();
        let resource = |nth: usize| ResourceKey::new("team", &format!("shop-{nth}"));
        let other = TargetKey::new("team", "shop", "berlin");
        state.change_target(&other, |target| target.made = true);
        for nth in 0..10_000 {
            // Made known to be made, and refused.
            for cluster in ["berlin", "tokyo"] {
                let target = TargetKey::new("team", &format!("shop-{nth}"), cluster);
                state.change_target(&target, |target| target.made = true);
            }
            state.resource_mut(&resource(nth)).tried = Some(0);
            state.member_mut(&format!("member-{nth}")).judged = true;
            let member = Key::Cluster(format!("member-{nth}").as_str().into());
            for key in [Key::Resource(resource(nth)), member] {
                state.status_due(&key, StatusChange::Transient, Instant::now());
            }
        }
        assert_eq!(state.keys.len(), 20_000);
        for nth in 0..10_000 {
            state.forget_resource(&resource(nth));
            state.forget_member(&format!("member-{nth}"));
        }
        assert_eq!(state.targets.keys().collect::<Vec<_>>(), [&other]);
        assert_eq!((state.resources.len(), state.members.len(), state.keys.len()), (0, 0, 0));
    }
}

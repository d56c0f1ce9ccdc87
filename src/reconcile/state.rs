//! What the loops remember between passes; lost with the process, and nothing is wrong then.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;
use vidra_api::{Change, ChangeKind, DriftSpec};
use vidra_core::{fights::Fights, ignore::Unused, object::ObjectKey};

use super::{
    approvals::KnownApprovals,
    cluster::counts::Settling,
    lean::Whole,
    resource::{KeptRevision, Outdated},
    revoke::Approved,
    status_throttle::StatusThrottle,
    vidra_target::Undeclared,
    write_refusal::Failures,
};
use crate::queue::{Key, ResourceKey, TargetKey};

/// The most repairs that are remembered until a status tells them.
const MENDED_MOST: usize = 20;

/// See the module.
#[derive(Default)]
pub struct ControllerState {
    keys: BTreeMap<Key, KeyState>,
    resources: BTreeMap<ResourceKey, ResourceState>,
    members: BTreeMap<String, MemberState>,
    pub(super) corrections: BTreeMap<TargetKey, i64>,
    /// VidraTargets that this process made, until they have a status.
    pub(super) made: BTreeSet<TargetKey>,
    /// VidraTargets of others' making that were met without a status: what was delivered for them is not known.
    pub(super) untold: BTreeSet<TargetKey>,
    /// Repairs of late, and those who undo them.
    pub(super) fights: BTreeMap<TargetKey, Fights>,
    /// What was found not to be as declared, was told, and is not repaired.
    pub(super) drifting: BTreeMap<TargetKey, BTreeSet<(ObjectKey, ChangeKind)>>,
    /// Since when this process counts time.
    pub(super) origin: Option<Instant>,
    /// What was repaired since the status that was written last; the newest.
    pub(super) mended: BTreeMap<TargetKey, Vec<Change>>,
    /// What of the ignored paths matched nothing in a target, and of which rules that was said.
    pub(super) unused: BTreeMap<TargetKey, (DriftSpec, Vec<Unused>)>,
    /// Which cluster answers under a MemberCluster's name, by its uid.
    pub(super) claims: BTreeMap<String, String>,
    /// What targets do not declare any more and still have.
    pub(super) undeclared: BTreeMap<TargetKey, Undeclared>,
    /// When targets last looked for what others have made in place of what they declare.
    pub(super) revisited: BTreeMap<TargetKey, Instant>,
    /// Targets for which the hub's API refuses writes, and how that is told.
    pub(super) refused: BTreeMap<TargetKey, String>,
}

/// What is remembered alike of all that has a key.
#[derive(Default, PartialEq)]
pub(super) struct KeyState {
    pub(super) throttle: StatusThrottle,
    pub(super) failures: Failures,
    pub(super) approvals: KnownApprovals,
    pub(super) whole: Whole,
}

/// What is remembered of a VidraResource.
#[derive(Default)]
pub(super) struct ResourceState {
    /// What is known to be kept of what it declares.
    pub(super) kept_revision: Option<KeptRevision>,
    /// Those of its revisions that nobody has any more.
    pub(super) outdated: Outdated,
    /// Its loop has looked at it, or has tried to and could not: what `Catalog::arrivals` was when it began.
    pub(super) tried: Option<u64>,
}

/// What is remembered of a MemberCluster.
#[derive(Default)]
pub(super) struct MemberState {
    /// The cluster loop has looked at its credentials since the start.
    pub(super) judged: bool,
    /// What a person has approved that its onRevoke takes.
    pub(super) revoking: Option<Approved>,
    /// How the counts of its status settle.
    pub(super) counts: Settling,
}

impl MemberState {
    /// The cluster loop has looked at its credentials; whether that is news.
    pub(super) fn judge(&mut self) -> bool {
        !std::mem::replace(&mut self.judged, true)
    }
}

impl ControllerState {
    /// What is remembered of a VidraResource, if anything is.
    pub(super) fn resource(&self, key: &ResourceKey) -> Option<&ResourceState> {
        self.resources.get(key)
    }

    /// The same, to change it.
    pub(super) fn resource_mut(&mut self, key: &ResourceKey) -> &mut ResourceState {
        self.resources.entry(key.clone()).or_default()
    }

    /// What is remembered of a MemberCluster, if anything is.
    pub(super) fn member(&self, name: &str) -> Option<&MemberState> {
        self.members.get(name)
    }

    /// The same, to change it.
    pub(super) fn member_mut(&mut self, name: &str) -> &mut MemberState {
        self.members.entry(name.to_owned()).or_default()
    }

    /// What is remembered of a key, if anything is.
    pub(super) fn of(&self, key: &Key) -> Option<&KeyState> {
        self.keys.get(key)
    }

    /// Changes what is remembered of a key; where nothing is left of it, there is no entry.
    pub(super) fn change<T>(&mut self, key: &Key, change: impl FnOnce(&mut KeyState) -> T) -> T {
        let state = self.keys.entry(key.clone()).or_default();
        let answer = change(state);
        if *state == KeyState::default() {
            self.keys.remove(key);
        }
        answer
    }

    /// A VidraResource is gone: what was remembered of it goes too, and of targets that were never made.
    pub(super) fn forget_resource(&mut self, key: &ResourceKey) {
        self.resources.remove(key);
        let first =
            TargetKey { namespace: key.namespace.clone(), resource: key.name.clone(), cluster: "".into() };
        let is_of = |made: &&TargetKey| made.namespace == key.namespace && made.resource == key.name;
        let made: Vec<_> = self.made.range(first..).take_while(is_of).cloned().collect();
        for target in &made {
            self.made.remove(target);
        }
        self.keys.remove(&Key::Resource(key.clone()));
    }

    /// A MemberCluster is gone: the same of it. One that joins under its name is judged by its own credentials.
    pub(super) fn forget_member(&mut self, name: &str) {
        self.members.remove(name);
        self.keys.remove(&Key::Cluster(name.into()));
    }

    /// A VidraTarget is gone: the same of it, but for that this process made one of its name.
    pub(super) fn forget_target(&mut self, key: &TargetKey) {
        self.forget_drift(key);
        self.corrections.remove(key);
        self.untold.remove(key);
        self.unused.remove(key);
        self.mended.remove(key);
        self.undeclared.remove(key);
        self.revisited.remove(key);
        self.refused.remove(key);
        self.keys.remove(&Key::Target(key.clone()));
    }

    /// Nothing is kept as declared of this target any more.
    pub(super) fn forget_drift(&mut self, key: &TargetKey) {
        self.fights.remove(key);
        self.drifting.remove(key);
    }

    /// A person asks that repairs which wait for somebody to stop undoing them are tried at once; and a status that was
    /// not taken whole is tried once more.
    pub(super) fn ask_again(&mut self, key: &TargetKey, word: &str) {
        if let Some(fights) = self.fights.get_mut(key) {
            fights.ask(word);
        }
        self.change(&Key::Target(key.clone()), |state| state.whole = Whole::default());
    }

    /// How many objects somebody changes back again and again, by cluster.
    pub(super) fn contentions(&self) -> BTreeMap<String, i64> {
        let mut counts = BTreeMap::new();
        for (key, fights) in &self.fights {
            *counts.entry(key.cluster.to_string()).or_default() += fights.contentions().count() as i64;
        }
        counts
    }

    /// A target tells what of the ignored paths matches nothing in it; `None`: none are ignored. Whether that is
    /// news.
    pub(super) fn note_unused(&mut self, key: &TargetKey, unused: Option<(DriftSpec, Vec<Unused>)>) -> bool {
        match unused {
            None => self.unused.remove(key).is_some(),
            Some(unused) if self.unused.get(key) == Some(&unused) => false,
            Some(unused) => {
                self.unused.insert(key.clone(), unused);
                true
            }
        }
    }

    /// Repairs that the next status tells.
    pub(super) fn note_mended(&mut self, key: &TargetKey, mended: &[Change]) {
        if mended.is_empty() {
            return;
        }
        let all = self.mended.entry(key.clone()).or_default();
        all.extend_from_slice(mended);
        all.drain(..all.len().saturating_sub(MENDED_MOST));
    }

    /// How many entries there are, for tests.
    pub(super) fn entries(&self) -> [(&'static str, usize); 14] {
        [
            ("keys with a status, failures or approvals", self.keys.len()),
            ("corrections", self.corrections.len()),
            ("targets that were made", self.made.len()),
            ("targets of others", self.untold.len()),
            ("contentions", self.fights.len()),
            ("targets that drift", self.drifting.len()),
            ("targets that were repaired", self.mended.len()),
            ("resources that are remembered", self.resources.len()),
            ("members that are remembered", self.members.len()),
            ("unused paths", self.unused.len()),
            ("identities", self.claims.len()),
            ("targets with undeclared objects", self.undeclared.len()),
            ("revisited targets", self.revisited.len()),
            ("refused targets", self.refused.len()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_remembered_of_resources_and_members_that_are_gone() {
        let mut state = ControllerState::default();
        let resource = |nth: usize| ResourceKey::new("team", &format!("shop-{nth}"));
        let other = TargetKey::new("team", "shop", "berlin");
        state.made.insert(other.clone());
        for nth in 0..10_000 {
            // Made known to be made, and refused.
            for cluster in ["berlin", "tokyo"] {
                state.made.insert(TargetKey::new("team", &format!("shop-{nth}"), cluster));
            }
            state.resource_mut(&resource(nth)).tried = Some(0);
            state.member_mut(&format!("member-{nth}")).judged = true;
            let member = Key::Cluster(format!("member-{nth}").as_str().into());
            for key in [Key::Resource(resource(nth)), member] {
                state.change(&key, |state| state.throttle.can_wait());
            }
        }
        assert_eq!(state.keys.len(), 20_000);
        for nth in 0..10_000 {
            state.forget_resource(&resource(nth));
            state.forget_member(&format!("member-{nth}"));
        }
        assert_eq!(state.made, BTreeSet::from([other]));
        assert_eq!((state.resources.len(), state.members.len(), state.keys.len()), (0, 0, 0));
    }
}

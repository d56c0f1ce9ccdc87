//! The informers counted, for the MemberCluster's status.

use std::{collections::BTreeMap, sync::Arc};

use vidra_api::{MemberWatches, TargetState, VidraTarget};

use super::{Informers, State};
use crate::queue::TargetKey;

impl Informers {
    /// A target was looked at, and has the informers that it needs.
    pub fn looked(&self, target: &TargetKey) {
        let mut state = self.state.lock();
        if !state.looked.contains(target) {
            state.looked.insert(target.clone());
            drop(state);
            self.queue.recount(&self.cluster);
        }
    }

    /// How many entries there are, by what they are of; for tests, which look that what is gone leaves none.
    pub fn entries(&self) -> [(&'static str, usize); 4] {
        let state = self.state.lock();
        [
            ("informers", state.running.len()),
            ("targets with informers", state.looked.len()),
            ("places that rest", state.rests.len()),
            ("places listed once", state.once.len()),
        ]
    }

    /// A target is gone.
    pub fn forget(&self, target: &TargetKey) {
        self.state.lock().looked.remove(target);
    }

    /// Counts what these targets need, those apart that are suspended: they may have informers from before, and
    /// have none after a restart. `None`: some were not looked at yet, or a first list is under way.
    pub fn watches(&self, targets: &BTreeMap<TargetKey, Arc<VidraTarget>>) -> Option<MemberWatches> {
        let state = self.state.lock();
        if !targets.keys().all(|target| state.looked.contains(target)) {
            return None;
        }
        let is_awake = |target: &TargetKey| {
            let status = targets.get(target).and_then(|target| target.status.as_ref());
            status.and_then(|status| status.state) != Some(TargetState::Suspended)
        };
        let mut counts = MemberWatches::default();
        for informer in state.running.values().filter(|one| one.users.iter().any(is_awake)) {
            counts.total += 1;
            match informer.state {
                State::Syncing => return None,
                State::Synced => counts.synced += 1,
                State::Denied(_) => counts.denied += 1,
                State::Failing(_) => {}
            }
        }
        Some(counts)
    }
}

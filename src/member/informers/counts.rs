//! The informers counted, for the MemberCluster's status.

use std::{collections::BTreeMap, sync::Arc};

use vidra_api::{MemberWatches, TargetState, VidraTarget};

use super::{State, registry::Informer};
use crate::workqueue::TargetKey;

/// Counts those that these targets need, those apart that are suspended: they may have informers from before, and
/// have none after a restart. `None`: a first list is under way.
pub(super) fn count<'a>(
    running: impl Iterator<Item = &'a Informer>,
    targets: &BTreeMap<TargetKey, Arc<VidraTarget>>,
) -> Option<MemberWatches> {
    let is_awake = |target: &TargetKey| {
        let status = targets.get(target).and_then(|target| target.status.as_ref());
        status.and_then(|status| status.state) != Some(TargetState::Suspended)
    };
    let mut counts = MemberWatches::default();
    for informer in running.filter(|one| one.users.iter().any(is_awake)) {
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

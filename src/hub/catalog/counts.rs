//! What of the catalog a member's status and the metrics count.

use std::{collections::BTreeMap, sync::Arc};

use vidra_api::VidraTarget;

use super::Catalog;
use crate::queue::TargetKey;

impl Catalog {
    /// The VidraTargets on a cluster.
    pub fn fleet_on(&self, cluster: &str) -> BTreeMap<TargetKey, Arc<VidraTarget>> {
        let inner = self.inner.read();
        let keys = inner.by_cluster.get(cluster).into_iter().flatten();
        keys.filter_map(|key| Some((key.clone(), inner.targets.get(key)?.clone()))).collect()
    }

    /// How many targets are in each state, for metrics.
    pub fn target_states(&self) -> BTreeMap<String, i64> {
        let mut counts = BTreeMap::new();
        for target in self.inner.read().targets.values() {
            let state = target.status.as_ref().and_then(|status| status.state);
            let state = state.map_or_else(|| "New".to_owned(), |state| format!("{state:?}"));
            *counts.entry(state).or_default() += 1;
        }
        counts
    }
}

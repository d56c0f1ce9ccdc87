//! What of the catalog a member's status counts.

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
}

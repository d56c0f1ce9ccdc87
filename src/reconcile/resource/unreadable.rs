//! What of a VidraResource's targets is there and cannot be read: it is neither made over nor counted as gone.

use vidra_api::TargetState;
use vidra_core::status::{Problem, TargetView};

use super::Pass;
use crate::{
    hub::{catalog::Listed, events::Severity},
    reconcile::unreadable::{self, HUB_TOO_OLD},
};

impl Pass<'_> {
    /// Its VidraTarget for this cluster is there and cannot be read.
    pub(super) fn is_target_unread(&self, cluster: &str) -> bool {
        let name = self.target_key(cluster).target_name();
        self.hub.catalog.is_unread(Listed::Targets, &self.key.namespace, &name)
    }

    /// Some VidraTarget of it is there and cannot be read.
    pub(super) fn is_any_target_unread(&self) -> bool {
        !self.hub.catalog.unread_targets_of(self.key).is_empty()
    }

    /// The MemberCluster is there and cannot be read.
    pub(super) fn is_member_unread(&self, cluster: &str) -> bool {
        self.hub.catalog.is_unread(Listed::Members, "", cluster)
    }

    /// The first VidraTarget of it, or else MemberCluster of one, that cannot be read, in words.
    pub(super) fn unread(&self) -> Option<Problem> {
        let of_target =
            |cluster: &str| unreadable::told(&format!("VidraTarget {}", self.target_key(cluster)));
        let target = self.hub.catalog.unread_targets_of(self.key).first().map(|cluster| of_target(cluster));
        let member = || {
            let mut clusters = self.hub.catalog.targets_of(self.key).into_keys();
            let cluster = clusters.find(|cluster| self.is_member_unread(cluster))?;
            Some(unreadable::told(&format!("MemberCluster {cluster}")))
        };
        Some(self.too_old(target.or_else(member)?))
    }

    /// The same of a MemberCluster that is named, and of which there is no target.
    pub(super) fn unread_member(&self, cluster: &str) -> Option<Problem> {
        let is_unread = self.is_member_unread(cluster);
        is_unread.then(|| self.too_old(unreadable::told(&format!("MemberCluster {cluster}"))))
    }

    fn too_old(&self, message: String) -> Problem {
        self.hub.events.say(self.resource, Severity::Warning, HUB_TOO_OLD, &message);
        Problem { reason: HUB_TOO_OLD, message, stalled: true }
    }

    /// The targets that cannot be read, as the roll-up counts them.
    pub(super) fn unread_views(&self) -> Vec<TargetView> {
        let view = |cluster: &str| TargetView {
            cluster: cluster.to_owned(),
            state: Some(TargetState::Unknown),
            drift: None,
            reason: Some(HUB_TOO_OLD.to_owned()),
            message: Some(unreadable::told(&format!("VidraTarget {}", self.target_key(cluster)))),
            revision: None,
            since: None,
            leaving: false,
            stalled: None,
            first_drift: None,
            going: None,
            objects: 0,
        };
        self.hub.catalog.unread_targets_of(self.key).iter().map(|cluster| view(cluster)).collect()
    }
}

//! A hub that was restored from an older backup, or rebuilt from an older commit, holds its writes until a person
//! says that what it declares is meant.

use kube::ResourceExt;
use vidra_api::{
    labels::{CONFIRM, CONFIRM_RESTORE},
    target::Desired as Wish,
};
use vidra_core::{
    mutants::{self, Mutant},
    status::Delivery,
};

use super::Pass;
use crate::{
    hub::events::Severity,
    member::{records::Generations, session::Session},
    queue::{Key, Priority, TargetKey},
};

/// So many objects from later declarations in one member may be an accident: somebody's own copy of a stamp.
const FEW: usize = 5;

impl Pass<'_> {
    /// The highest generation of the VidraResource that the hub knows of. After a hub was built anew from the
    /// same declarations generations begin at 1, and what was found in the member is known once all agreed.
    pub(super) fn known_generation(&self) -> i64 {
        let agreed = self.target.status.as_ref().and_then(|status| status.applied_generation);
        self.target.spec.generation.max(agreed.unwrap_or_default())
    }

    /// Why nothing is written to the member, if the hub is behind it.
    pub(super) fn restored(&self, session: &Session, found: &Generations) -> Option<Delivery> {
        let cluster = &self.key.cluster;
        self.note_first_look(session);
        let (before, total) = session.later.note(self.key, found.later);
        if before > FEW && total <= FEW {
            self.hub.wake_targets(cluster);
        }
        if before > 0 && total == 0 {
            // It takes a person's word off again.
            self.hub.queue.add(Key::Cluster(cluster.clone()), Priority::Resync);
        }
        let member = self.hub.catalog.member(cluster)?;
        let confirmed = member.annotations().get(CONFIRM).is_some_and(|word| word == CONFIRM_RESTORE);
        if confirmed {
            return None;
        }
        if found.later > 0
            && !mutants::is(Mutant::WritesBeforeLooks)
            && let Some(awaited) = self.unlooked(session)
        {
            let later = found.later;
            let message = format!(
                "{later} objects were applied from a later declaration than this hub has; before they are written, all that the hub has on {cluster} is looked at, and {awaited} is not yet"
            );
            return Some(Delivery::Waiting { reason: "LooksFirst", message });
        }
        if total <= FEW {
            return None;
        }
        let example = found.example.as_ref().map_or_else(String::new, |(key, generation)| {
            format!(" (here {key}, at generation {generation} of the VidraResource)")
        });
        let message = format!(
            "{total} objects on {cluster} were applied from later declarations than this hub has{example}: it seems to be restored \
             from an older backup, and nothing is written there. Apply the later VidraResources, or annotate the \
             MemberCluster: {CONFIRM}={CONFIRM_RESTORE}"
        );
        self.hub.events.say(member.as_ref(), Severity::Warning, "HubRestored", &message);
        Some(Delivery::Failed { reason: "HubRestored", message, stalled: true })
    }

    /// This target was looked at, or cannot be: others that wait for all looks may go on.
    pub(super) fn note_first_look(&self, session: &Session) {
        if session.later.note_looked(self.key) && session.later.any() && self.unlooked(session).is_none() {
            self.hub.wake_targets(&self.key.cluster);
        }
    }

    /// A target of the member that is to be kept there and has not been looked at in this session.
    fn unlooked(&self, session: &Session) -> Option<TargetKey> {
        let fleet = self.hub.catalog.fleet_on(&self.key.cluster);
        let kept = fleet.iter().filter(|(_, target)| {
            target.spec.desired == Wish::Present
                && !target.spec.suspend
                && target.metadata.deletion_timestamp.is_none()
        });
        session.later.awaited(kept.map(|(key, _)| key)).cloned()
    }
}

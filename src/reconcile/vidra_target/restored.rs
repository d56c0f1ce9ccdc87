//! A hub that was restored from an older backup, or rebuilt from an older commit, holds its writes until a person
//! says that what it declares is meant.

use kube::ResourceExt;
use vidra_api::{
    VidraTarget,
    labels::{CONFIRM, CONFIRM_RESTORE},
    target::Desired as Wish,
};
use vidra_core::{
    mutants::{self, Mutant},
    status::{Delivery, LOOKS_FIRST},
};

use super::Pass;
use crate::{
    hub::events::Severity,
    member::{records::Generations, session::Session},
    queue::{Key, Priority, TargetKey},
    reconcile::owners::is_selected,
};

/// So many objects from later declarations in one member may be an accident: somebody's own copy of a stamp.
const FEW: usize = 5;

impl Pass<'_> {
    /// The highest generation of the VidraResource that the hub knows of. After a hub was built again from the
    /// same declarations generations begin at 1, and what was found in the member is known once all agreed.
    pub(super) fn known_generation(&self) -> i64 {
        let agreed = self.target.status.as_ref().and_then(|status| status.applied_generation);
        self.target.spec.generation.max(agreed.unwrap_or_default())
    }

    /// Why nothing is written to the member, if the hub is behind it.
    pub(super) fn restored(&self, session: &Session, found: &Generations) -> Option<Delivery> {
        let total = self.note_later(session, found);
        let example = found.example.as_ref().map_or_else(String::new, |(key, generation)| {
            format!(" (here {key}, at generation {generation} of the VidraResource)")
        });
        self.behind(session, found.later > 0, total, &example)
    }

    /// Notes what the target has found, and wakes who goes by that; returns what all on the member have found.
    pub(super) fn note_later(&self, session: &Session, found: &Generations) -> usize {
        let cluster = &self.key.cluster;
        let (before, total) = session.later.note(self.key, found.later);
        if before > FEW && total <= FEW {
            self.hub.wake_targets(cluster);
        }
        if before > 0 && total == 0 {
            // It takes a person's word off again.
            self.hub.queue.add(Key::Cluster(cluster.clone()), Priority::Resync);
        }
        total
    }

    /// The same of a target that goes: what those found that stay says how old its wish may be.
    pub(super) fn goes_behind(&self, session: &Session) -> Option<Delivery> {
        if mutants::is(Mutant::LeavesBehind) {
            return None;
        }
        match self.behind(session, false, session.later.of_others(self.key), "")? {
            Delivery::Waiting { reason, message } => {
                session.later.wait(self.key, false);
                Some(Delivery::TearingDown { reason, message })
            }
            held => Some(held),
        }
    }

    /// `total`: objects on the member from later declarations; `found`: some of them are this target's.
    fn behind(&self, session: &Session, found: bool, total: usize, example: &str) -> Option<Delivery> {
        let cluster = &self.key.cluster;
        let member = self.hub.catalog.member(cluster)?;
        let confirmed = member.annotations().get(CONFIRM).is_some_and(|word| word == CONFIRM_RESTORE);
        if confirmed {
            return None;
        }
        let awaited = match found || !session.later.is_complete() {
            true => self.looked(session),
            false => None,
        };
        if let Some(awaited) = awaited.filter(|_| !mutants::is(Mutant::WritesBeforeLooks)) {
            // What other namespaces have is nobody's business here.
            let awaited = match awaited.namespace == self.key.namespace {
                true => awaited.to_string(),
                false => "a VidraTarget of another namespace".to_owned(),
            };
            let message = format!(
                "before anything is written there, all that the hub has on {cluster} is looked at, and {awaited} is not yet"
            );
            return Some(Delivery::Waiting { reason: LOOKS_FIRST, message });
        }
        if total <= FEW {
            return None;
        }
        let so = format!("on {cluster} were applied from later declarations than this hub has");
        let what = format!(
            "it seems to be restored from an older backup, and nothing is written there. Apply the later VidraResources, or \
             take this hub's state for the right one: kubectl annotate membercluster {cluster} --overwrite \
             {CONFIRM}={CONFIRM_RESTORE}"
        );
        // The same words whichever target says so.
        self.hub.events.say(
            member.as_ref(),
            Severity::Warning,
            "HubRestored",
            &format!("more than {FEW} objects {so}: {what}"),
        );
        let message = format!("{total} objects {so}{example}: {what}");
        Some(Delivery::Failed { reason: "HubRestored", message, stalled: true })
    }

    /// This target was looked at, or cannot be.
    pub(super) fn note_first_look(&self, session: &Session) {
        if session.later.note_looked(self.key) {
            self.looked(session);
        }
    }

    /// The same where nobody knows what is wanted there.
    pub(super) fn cannot_look(&self) {
        if let Some(session) = self.hub.session(&self.key.cluster) {
            self.note_first_look(&session);
        }
    }

    /// What is still to be looked at; after the last look those go on that wait for it.
    fn looked(&self, session: &Session) -> Option<TargetKey> {
        let awaited = self.unlooked(session);
        if awaited.is_none() {
            for (key, is_new) in session.later.complete() {
                // What somebody changes is not to wait behind repairs.
                let priority = if is_new { Priority::User } else { Priority::Resync };
                self.hub.queue.add(Key::Target(key), priority);
            }
        }
        awaited
    }

    /// What is to be kept on the member and has not been looked at in this session: a target, or one that is still to
    /// be made, for a restore may bring back VidraResources alone.
    fn unlooked(&self, session: &Session) -> Option<TargetKey> {
        let is_awaited = |key: &TargetKey, target: &VidraTarget| {
            target.spec.desired == Wish::Present
                && !target.spec.suspend
                && target.metadata.deletion_timestamp.is_none()
                && !session.later.has_looked(key)
        };
        self.hub.catalog.first_on(&self.key.cluster, is_awaited).or_else(|| self.unmade())
    }

    /// Its VidraResource has not been looked at since the member came.
    fn unmade(&self) -> Option<TargetKey> {
        let mut unmade = self.hub.catalog.unmade_on(&self.key.cluster);
        let since = self.hub.catalog.arrival(&self.key.cluster);
        let memo = self.hub.memo.lock();
        unmade.retain(|key| {
            memo.resource(&key.resource_key()).and_then(|one| one.tried).is_none_or(|tried| tried < since)
        });
        drop(memo);
        unmade.into_iter().find(|key| is_selected(&self.hub.catalog, key))
    }
}

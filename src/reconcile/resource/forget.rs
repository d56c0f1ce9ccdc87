//! Ending the wait for a member that does not answer, by a person's word or, where nothing is to be deleted there,
//! after a while: what stays behind there is written down first.

use std::time::Duration;

use kube::ResourceExt;
use vidra_api::{
    LeftBehind, VidraTarget, clip,
    condition::READY,
    find,
    labels::FORGET,
    member::OnLeave,
    resource::CLUSTERS_MAX,
    target::{Desired as Wish, MESSAGE_MAX},
};
use vidra_core::{
    mutants::{self, Mutant},
    status::{PRUNE_DELAYED, is_torn_down},
};

use super::Pass;
use crate::{
    hub::{events::Severity, inventory},
    member::{error::CallError, session::State},
    queue::Key,
    reconcile::{
        RETRY_MOST,
        cluster::{recorded, twins},
    },
};

/// A member that leaves, and whose objects are only to be let go, is given up after so long without contact.
const PATIENCE: Duration = Duration::from_secs(600);
/// So many objects are named.
const NAMED: usize = 10;

impl Pass<'_> {
    /// Whether a target that is on its way out is not waited for any more. It was tried first: a member that answers
    /// is cleaned up, whatever an old annotation says.
    pub(super) fn is_given_up(&self, cluster: &str, target: &VidraTarget) -> bool {
        let status = target.status.clone().unwrap_or_default();
        let generation = target.metadata.generation.unwrap_or_default();
        if self.has_lost_its_cluster(cluster) {
            return true;
        }
        let tried = matches!(target.spec.desired, Wish::Absent | Wish::Orphaned)
            && status.observed_generation == Some(generation)
            && !is_torn_down(&status, generation)
            && status.reason.as_deref() != Some(PRUNE_DELAYED);
        tried
            && (self.a_person_gives_up(cluster)
                || self.patience_ends_in(cluster, target) == Some(Duration::ZERO))
    }

    /// Its member leaves, and is refused because its cluster is a member under an older name: that one has the objects.
    pub(super) fn has_lost_its_cluster(&self, cluster: &str) -> bool {
        if mutants::is(Mutant::TwinsTakeAway) {
            return false;
        }
        let Some(session) = self.hub.session(cluster) else { return false };
        let State::Refused(who, _) = session.state() else { return false };
        let Some(member) = self.hub.catalog.member(cluster) else { return false };
        // Where another cluster answers than the one that joined, its own has the objects.
        let is_its_own = recorded(&member).is_none_or(|own| own == who.uid);
        let (older, _) = twins(self.hub, &member, &who.uid);
        member.metadata.deletion_timestamp.is_some() && is_its_own && !older.is_empty()
    }

    pub(super) fn a_person_gives_up(&self, cluster: &str) -> bool {
        let names_it = |all: &String| all.split(',').any(|one| one.trim() == cluster);
        let by_member = || {
            self.hub.catalog.member(cluster).is_some_and(|member| {
                member.metadata.deletion_timestamp.is_some()
                    && member.annotations().get(FORGET).is_some_and(|value| value == "true")
            })
        };
        self.resource.annotations().get(FORGET).is_some_and(names_it) || by_member()
    }

    /// How long until a target is given up by itself: its member is leaving, its objects are only to be let go, and
    /// the hub cannot work there. `None`: it is not.
    fn patience_ends_in(&self, cluster: &str, target: &VidraTarget) -> Option<Duration> {
        let member = self.hub.catalog.member(cluster)?;
        let deleted = member.metadata.deletion_timestamp.as_ref()?;
        if member.spec.on_leave != OnLeave::Orphan || target.spec.desired != Wish::Orphaned {
            return None;
        }
        let is_known = match self.hub.session(cluster) {
            Some(session) => match session.state() {
                State::Open(_) => return None,
                State::Connecting | State::Asking(_) => false,
                State::Refused(..) | State::Down { .. } => true,
            },
            None => self.hub.memo.lock().judged.contains(cluster),
        };
        if !is_known {
            return Some(RETRY_MOST);
        }
        // Kept in the status: a new process does not count again.
        let status = member.status.clone().unwrap_or_default();
        let lost = find(&status.conditions, READY).filter(|ready| ready.status != "True");
        let now = self.hub.clock.time();
        let since = lost.map_or(&now, |ready| &ready.last_transition_time).max(deleted);
        let silent = Duration::try_from(now.0.duration_since(since.0)).unwrap_or_default();
        Some(PATIENCE.saturating_sub(silent))
    }

    /// When to look again for a target that is given up by itself.
    pub(super) fn soonest_given_up(&self) -> Option<Duration> {
        let targets = self.hub.catalog.targets_of(self.key);
        targets.iter().filter_map(|(cluster, target)| self.patience_ends_in(cluster, target)).min()
    }

    /// Writes into the VidraResource's status what stays in the member; false: it is not its turn yet.
    pub(super) async fn note_left_behind(&self, cluster: &str) -> Result<bool, CallError> {
        let held = inventory::joined(&self.hub.catalog.inventory(&self.target_key(cluster)));
        let names: Vec<String> = held.keys().take(NAMED).map(ToString::to_string).collect();
        let more = match held.len() - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let left = LeftBehind {
            cluster: cluster.to_owned(),
            objects: held.len() as i64,
            names: clip(&format!("{}{more}", names.join(", ")), MESSAGE_MAX),
            at: self.hub.clock.time(),
        };
        let latest = self.hub.catalog.resource(self.key);
        let resource = latest.as_deref().unwrap_or(self.resource);
        let mut status = resource.status.clone().unwrap_or_default();
        let same = |known: &LeftBehind| LeftBehind { at: left.at.clone(), ..known.clone() } == left;
        if status.left_behind.iter().any(same) {
            return Ok(true);
        }
        if !self.hub.status_is_due(&Key::Resource(self.key.clone()), false) {
            return Ok(false);
        }
        let why = if self.a_person_gives_up(cluster) {
            String::new()
        } else if self.has_lost_its_cluster(cluster) {
            ", for its cluster is a member under an older name".to_owned()
        } else {
            format!(", for it has not answered for {} minutes", PATIENCE.as_secs() / 60)
        };
        let note =
            format!("{cluster} is forgotten{why}; {} objects stay there: {}", left.objects, left.names);
        status.left_behind.retain(|known| known.cluster != left.cluster);
        status.left_behind.push(left);
        let spare = status.left_behind.len().saturating_sub(CLUSTERS_MAX);
        status.left_behind.drain(..spare);
        self.hub.api.resource_status(resource, status).await?;
        self.hub.events.say(self.resource, Severity::Warning, "LeftBehind", &note);
        Ok(true)
    }
}

//! Ending the wait for members that do not answer, by a person's word or, where nothing is to be deleted there,
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
    status::{LOOKS_FIRST, PRUNE_DELAYED, SETTLING, is_torn_down},
};

use super::{Pass, Written};
use crate::{
    base::error::CallError,
    hub::{events::Severity, inventory},
    member::session::State,
    queue::{Key, TargetKey},
    reconcile::{
        Hub, RETRY_MOST,
        affirm::is_given_up,
        cluster::{meant, twins},
        lean,
    },
};

/// A member that leaves, and whose objects are only to be let go, is given up after so long without contact.
const PATIENCE: Duration = Duration::from_secs(600);
/// So many objects are named, and so many clusters in an Event.
const NAMED: usize = 10;

impl Pass<'_> {
    /// Whether a target that is on its way out is not waited for any more. It was tried first: a member that answers
    /// is cleaned up, whatever an old annotation says.
    pub(super) fn is_given_up(&self, cluster: &str, target: &VidraTarget) -> bool {
        if self.has_lost_its_cluster(cluster) {
            return true;
        }
        is_tried(target)
            && (self.a_person_gives_up(cluster)
                || self.patience_ends_in(cluster, target) == Some(Duration::ZERO))
    }

    /// How long until a target is given up by itself: its objects are only to be let go.
    fn patience_ends_in(&self, cluster: &str, target: &VidraTarget) -> Option<Duration> {
        (target.spec.desired == Wish::Orphaned).then(|| patience_ends_in(self.hub, cluster)).flatten()
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
        let is_its_own = meant(self.hub, &member).is_none_or(|own| *own == *who.uid);
        let (older, _) = twins(self.hub, &member, &who.uid);
        member.metadata.deletion_timestamp.is_some() && is_its_own && !older.is_empty()
    }

    pub(super) fn a_person_gives_up(&self, cluster: &str) -> bool {
        let names_it = |all: &String| all.split(',').any(|one| one.trim() == cluster);
        self.resource.annotations().get(FORGET).is_some_and(names_it) || is_given_up(self.hub, cluster)
    }

    /// When to look again for a target that is given up by itself.
    pub(super) fn soonest_given_up(&self) -> Option<Duration> {
        let targets = self.hub.catalog.targets_of(self.key);
        targets.iter().filter_map(|(cluster, target)| self.patience_ends_in(cluster, target)).min()
    }

    /// Tells these targets that nobody waits for them any more, once the VidraResource's status says what stays in their
    /// members: as many at a time as a status has room for.
    pub(super) async fn forget(&self, targets: &[(String, VidraTarget)]) -> Written {
        let mut written = Written::new();
        for targets in targets.chunks(CLUSTERS_MAX) {
            let left: Vec<_> = targets.iter().map(|(cluster, _)| self.left_behind(cluster)).collect();
            match self.note(left).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    let first = targets.first().map(|(cluster, _)| (cluster.clone(), Err(error)));
                    written.extend(first);
                    break;
                }
            }
            let writes = targets.iter().map(|(cluster, next)| async move {
                (cluster.clone(), self.hub.api.replace_target(next).await)
            });
            written.extend(self.side_by_side(writes.collect()).await);
        }
        written
    }

    fn left_behind(&self, cluster: &str) -> LeftBehind {
        left_behind(self.hub, &self.target_key(cluster))
    }

    /// Writes into the VidraResource's status what stays in members; false: it is not its turn yet, and the key comes again.
    async fn note(&self, left: Vec<LeftBehind>) -> Result<bool, CallError> {
        let latest = self.hub.catalog.resource(self.key);
        let resource = latest.as_deref().unwrap_or(self.resource);
        let key = Key::Resource(self.key.clone());
        let mut status = lean::told(self.hub, &key, resource.status.as_ref()).unwrap_or_default();
        let is_noted = |left: &LeftBehind| {
            let same = |known: &LeftBehind| LeftBehind { at: left.at.clone(), ..known.clone() } == *left;
            status.left_behind.iter().any(same)
        };
        if left.iter().all(is_noted) {
            return Ok(true);
        }
        if !self.hub.status_is_due(&key, false) {
            return Ok(false);
        }
        let message = self.told_of(&left);
        status.left_behind.retain(|known| left.iter().all(|left| left.cluster != known.cluster));
        status.left_behind.extend(left);
        let spare = status.left_behind.len().saturating_sub(CLUSTERS_MAX);
        status.left_behind.drain(..spare);
        self.write_status(resource, status).await?;
        self.hub.events.say(self.resource, Severity::Warning, "LeftBehind", &message);
        Ok(true)
    }

    /// In words.
    fn told_of(&self, left: &[LeftBehind]) -> String {
        if let [one] = left {
            return told_of(one, &self.why_forgotten(&one.cluster));
        }
        let each = |left: &LeftBehind| {
            format!("{}{} ({} objects)", left.cluster, self.why_forgotten(&left.cluster), left.objects)
        };
        let named: Vec<String> = left.iter().take(NAMED).map(each).collect();
        format!(
            "{} clusters are forgotten, and their objects stay there (see status.leftBehind): {}{}",
            left.len(),
            named.join(", "),
            and_more(left.len(), &named),
        )
    }

    fn why_forgotten(&self, cluster: &str) -> String {
        if self.a_person_gives_up(cluster) {
            String::new()
        } else if self.has_lost_its_cluster(cluster) {
            ", for its cluster is a member under an older name".to_owned()
        } else {
            out_of_patience()
        }
    }
}

/// How long until all that a MemberCluster has is given up by itself: it is leaving, nothing is to be deleted there, and
/// the hub cannot work there. `None`: it is not.
fn patience_ends_in(hub: &Hub, cluster: &str) -> Option<Duration> {
    let member = hub.catalog.member(cluster)?;
    let deleted = member.metadata.deletion_timestamp.as_ref()?;
    if member.spec.on_leave != OnLeave::Orphan {
        return None;
    }
    let is_known = match hub.session(cluster) {
        Some(session) => match session.state() {
            State::Open(_) => return None,
            State::Connecting | State::Asking(_) => false,
            State::Refused(..) | State::Down { .. } => true,
        },
        None => hub.state.lock().member(cluster).is_some_and(|member| member.judged),
    };
    if !is_known {
        return Some(RETRY_MOST);
    }
    // Kept in the status: a new process does not count again.
    let status = member.status.clone().unwrap_or_default();
    let lost = find(&status.conditions, READY).filter(|ready| ready.status != "True");
    let now = hub.clock.time();
    let since = lost.map_or(&now, |ready| &ready.last_transition_time).max(deleted);
    let silent = Duration::try_from(now.0.duration_since(since.0)).unwrap_or_default();
    Some(PATIENCE.saturating_sub(silent))
}

/// Of a target without its VidraResource, on a member that leaves: whether it is not waited for any more, and what is told
/// of it then. Nothing of it is to be deleted, so ten minutes end the wait whether or not a person has said a word.
pub(super) fn given_up_without(hub: &Hub, key: &TargetKey, target: &VidraTarget) -> Option<String> {
    let by_word = target.spec.desired == Wish::Orphaned && is_given_up(hub, &key.cluster) && is_tried(target);
    let by_itself = || patience_ends_in(hub, &key.cluster) == Some(Duration::ZERO);
    if mutants::is(Mutant::MissingHoldsLeaving) || !(by_word || by_itself()) {
        return None;
    }
    let why = if by_word { String::new() } else { out_of_patience() };
    Some(told_of(&left_behind(hub, key), &why))
}

/// It is on its way out, and its member was asked.
fn is_tried(target: &VidraTarget) -> bool {
    let status = target.status.clone().unwrap_or_default();
    let generation = target.metadata.generation.unwrap_or_default();
    matches!(target.spec.desired, Wish::Absent | Wish::Orphaned)
        && status.observed_generation == Some(generation)
        && !is_torn_down(&status, generation)
        && status.reason.as_deref() != Some(PRUNE_DELAYED)
        && (!matches!(status.reason.as_deref(), Some(SETTLING | LOOKS_FIRST))
            || mutants::is(Mutant::TooEarlyIsTried))
}

/// What stays in a member.
fn left_behind(hub: &Hub, key: &TargetKey) -> LeftBehind {
    let held = inventory::joined(&hub.catalog.inventory(key));
    let names: Vec<String> = held.keys().take(NAMED).map(ToString::to_string).collect();
    LeftBehind {
        cluster: key.cluster.to_string(),
        objects: held.len() as i64,
        names: clip(&format!("{}{}", names.join(", "), and_more(held.len(), &names)), MESSAGE_MAX),
        at: hub.clock.time(),
    }
}

/// In words.
fn told_of(left: &LeftBehind, why: &str) -> String {
    let LeftBehind { cluster, objects, names, .. } = left;
    format!("{cluster} is forgotten{why}; {objects} objects stay there: {names}")
}

fn out_of_patience() -> String {
    format!(", for it has not answered for {} minutes", PATIENCE.as_secs() / 60)
}

/// What follows the names of the first, where there are more.
fn and_more(all: usize, named: &[String]) -> String {
    match all - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

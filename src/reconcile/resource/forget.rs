//! Ending the wait for a member that does not answer: what stays behind there is written down first.

use vidra_api::{
    LeftBehind, VidraTarget, clip,
    labels::FORGET,
    resource::CLUSTERS_MAX,
    target::{Desired as Wish, MESSAGE_MAX},
};
use vidra_core::status::is_torn_down;

use super::Pass;
use crate::{
    hub::{events::Severity, inventory},
    member::error::CallError,
    queue::Key,
};

/// So many objects are named.
const NAMED: usize = 10;

impl Pass<'_> {
    /// Whether a person gave up a target that is on its way out. It was tried first: a member that answers is cleaned
    /// up, whatever an old annotation says.
    pub(super) fn is_given_up(&self, cluster: &str, target: &VidraTarget) -> bool {
        let status = target.status.clone().unwrap_or_default();
        let generation = target.metadata.generation.unwrap_or_default();
        let tried = matches!(target.spec.desired, Wish::Absent | Wish::Orphaned)
            && status.observed_generation == Some(generation)
            && !is_torn_down(&status, generation);
        let names_it = |all: &String| all.split(',').any(|one| one.trim() == cluster);
        let by_member = || {
            self.hub.catalog.member(cluster).is_some_and(|member| {
                let annotations = member.metadata.annotations.as_ref();
                member.metadata.deletion_timestamp.is_some()
                    && annotations.and_then(|all| all.get(FORGET)).is_some_and(|value| value == "true")
            })
        };
        let annotations = self.resource.metadata.annotations.as_ref();
        tried && (annotations.and_then(|all| all.get(FORGET)).is_some_and(names_it) || by_member())
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
        let note = format!("{cluster} is forgotten; {} objects stay there: {}", left.objects, left.names);
        status.left_behind.retain(|known| known.cluster != left.cluster);
        status.left_behind.push(left);
        let spare = status.left_behind.len().saturating_sub(CLUSTERS_MAX);
        status.left_behind.drain(..spare);
        self.hub.api.resource_status(resource, status).await?;
        self.hub.events.say(self.resource, Severity::Warning, "LeftBehind", &note);
        Ok(true)
    }
}

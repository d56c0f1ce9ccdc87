//! What the resource loop tells: the roll-up of the targets, and complaints about the selection.

use std::collections::BTreeSet;

use vidra_api::{
    TargetState, VidraTarget,
    condition::{READY, STALLED},
    find,
    target::Desired as Wish,
};
use vidra_core::{
    select::Selection,
    status::{Problem, ResourceFacts, Stall, TargetView, first_drift, going, resource_status},
};

use super::Pass;
use crate::{
    hub::{events::Severity, revisions::Parsed},
    member::error::CallError,
    queue::{Key, Verdict},
    reconcile::{RETRY_MOST, refused::WRITE_REFUSED},
};

impl Pass<'_> {
    /// What a user should know of a selection that was acted on.
    pub(super) fn complaint(&self, revision: &Parsed, selection: &Selection) -> Option<Problem> {
        let (reason, message) = if let Some((place, name)) = self.unknown_cluster(revision, selection) {
            let message = format!(
                "{place} names the cluster {name:?}, and there is no such MemberCluster; register it, or correct or remove the name"
            );
            ("ClusterNotFound", message)
        } else if let Some(name) = selection.forbidden.first() {
            let message = format!(
                "the cluster {name:?} does not allow the namespace {:?}; add it to the MemberCluster's spec.allowedNamespaces",
                self.key.namespace
            );
            ("NamespaceNotAllowed", message)
        } else if selection.targets.is_empty() {
            let closed = match selection.closed.len() {
                0 => String::new(),
                count => format!(" ({count} that match do not allow the namespace {:?})", self.key.namespace),
            };
            let message = match self.resource.spec.targets.is_empty() {
                true => "spec.targets is empty; name clusters there, or select them by labels".to_owned(),
                false => format!(
                    "no member cluster matches spec.targets{closed}; see `kubectl get memberclusters --show-labels`"
                ),
            };
            ("NoTargets", message)
        } else {
            return None;
        };
        self.hub.events.say(self.resource, Severity::Warning, reason, &message);
        Some(Problem { reason, message, stalled: false })
    }

    /// A name of a cluster that no member bears, and where it stands: of the places that may hold one, the first.
    fn unknown_cluster(&self, revision: &Parsed, selection: &Selection) -> Option<(String, String)> {
        let found = |place: &str, names: &BTreeSet<String>| {
            names.first().map(|name| (place.to_owned(), name.clone()))
        };
        let of_override = || {
            let members = self.hub.catalog.members();
            let members = members.iter().filter_map(|member| member.metadata.name.as_deref()).collect();
            let (index, name) = revision.overrides.unknown_cluster(&members)?;
            Some((format!("spec.overrides[{index}].clusterNames"), name.to_owned()))
        };
        found("spec.targets", &selection.unknown)
            .or_else(|| found("spec.excludeClusters", &selection.unknown_excluded))
            .or_else(of_override)
    }

    /// Overrides that change nothing, most likely by mistake.
    pub(super) fn unmatched(&self, revision: &Parsed, selection: &Selection) -> Option<Problem> {
        let namespaces = selection.targets.values().cloned().collect();
        let unmatched = revision.overrides.unmatched(&revision.objects, &namespaces);
        let first = unmatched.first()?;
        let more = match unmatched.len() {
            1 => String::new(),
            count => format!(", nor do those of {} more", count - 1),
        };
        let message = format!(
            "the target of spec.overrides[{first}] matches no object of the manifest{more}; correct its target, or remove the entry"
        );
        let reason = "OverrideMatchesNothing";
        self.hub.events.say(self.resource, Severity::Warning, reason, &message);
        Some(Problem { reason, message, stalled: false })
    }

    /// How many members match and do not allow the namespace, beside those where something of it rests.
    fn closed(&self, targets: &[TargetView]) -> usize {
        let rests = |cluster: &String| targets.iter().any(|target| target.cluster == *cluster);
        self.select().closed.iter().filter(|cluster| !rests(cluster)).count()
    }

    fn refused_of(&self, cluster: &str) -> Option<String> {
        self.hub.memo.lock().refused.get(&self.target_key(cluster)).cloned()
    }

    /// Writes the status that follows from the targets'.
    pub(super) async fn report(
        &self,
        revision: Option<&str>,
        problem: Option<Problem>,
        handled: Option<String>,
    ) -> Result<Verdict, CallError> {
        let targets: Vec<_> = self
            .hub
            .catalog
            .targets_of(self.key)
            .iter()
            .map(|(cluster, target)| view(cluster, target, self.refused_of(cluster)))
            .collect();
        let before = self.resource.status.clone().unwrap_or_default();
        let facts = ResourceFacts {
            generation: self.resource.metadata.generation.unwrap_or_default(),
            revision: revision.or(before.revision.as_deref()),
            problem,
            deleting: self.resource.metadata.deletion_timestamp.is_some(),
            suspended: self.resource.spec.suspend,
            targets: &targets,
            closed: revision.map_or(0, |_| self.closed(&targets)),
            handled,
            now: self.hub.clock.time(),
        };
        let mut status = resource_status(&before, &facts);
        self.warn(&mut status);
        let passing = find(&status.conditions, READY)
            .is_some_and(|ready| matches!(&*ready.reason, "Progressing" | "TargetsWaiting"));
        if self.resource.status.as_ref() != Some(&status)
            && self.hub.status_is_due(&Key::Resource(self.key.clone()), passing)
        {
            // The newest is written to: an answer that was folded meanwhile would be refused.
            let held = self.hub.catalog.resource(self.key);
            self.hub.api.resource_status(held.as_deref().unwrap_or(self.resource), status).await?;
        }
        // Nothing tells of a person's word on a CRD.
        let waiting = (facts.deleting || self.is_undecided()).then_some(RETRY_MOST);
        Ok(Verdict::Done(waiting.into_iter().chain(self.soonest_given_up()).min()))
    }
}

/// `refused`: writes for it are, among them perhaps that of its own status.
fn view(cluster: &str, target: &VidraTarget, refused: Option<String>) -> TargetView {
    let told = told(cluster, target);
    let Some(message) = refused else { return told };
    TargetView {
        state: Some(TargetState::Failed),
        stalled: Some(Stall { reason: WRITE_REFUSED.to_owned(), message: message.clone() }),
        reason: Some(WRITE_REFUSED.to_owned()),
        message: Some(message),
        ..told
    }
}

fn told(cluster: &str, target: &VidraTarget) -> TargetView {
    let status = target.status.clone().unwrap_or_default();
    // A status of an earlier spec says nothing of this one.
    let current = status.observed_generation == target.metadata.generation;
    TargetView {
        cluster: cluster.to_owned(),
        state: status.state.filter(|_| current),
        drift: status.drift,
        stalled: find(&status.conditions, STALLED)
            .filter(|stalled| current && stalled.status == "True")
            .map(|stalled| Stall { reason: stalled.reason.clone(), message: stalled.message.clone() }),
        first_drift: first_drift(&status.changes),
        going: going(target),
        reason: status.reason.filter(|_| current),
        message: status.message.filter(|_| current),
        revision: status.revision,
        since: status.since,
        leaving: target.spec.desired != Wish::Present,
        objects: status.objects,
    }
}

//! What the resource loop tells: the roll-up of the targets, and complaints about the selection.

use std::collections::BTreeSet;

use vidra_api::{
    TargetState, VidraResource, VidraResourceStatus, VidraTarget,
    condition::{READY, STALLED},
    find,
    target::Desired as Wish,
};
use vidra_core::{
    select::{self, Selection},
    status::{Problem, ResourceFacts, Stall, TargetView, first_drift, going, resource_status},
};

use super::Pass;
use crate::{
    base::error::CallError,
    hub::{events::Severity, revisions::Parsed},
    queue::{Key, Verdict},
    reconcile::{RETRY_MOST, lean, write_refusal::WRITE_REFUSED},
};

impl Pass<'_> {
    /// What a user should know of a selection that was acted on.
    pub(super) fn complaint(&self, revision: &Parsed, selection: &Selection) -> Option<Problem> {
        if let Some(unread) = self.unread() {
            return Some(unread);
        }
        let unknown = self.unknown_cluster(revision);
        if let Some(unread) = unknown.as_ref().and_then(|(_, name)| self.unread_member(name)) {
            return Some(unread);
        }
        let (reason, message) = if let Some((place, name)) = unknown {
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
    fn unknown_cluster(&self, revision: &Parsed) -> Option<(String, String)> {
        let members = self.hub.catalog.members();
        let members = members.iter().filter_map(|member| member.metadata.name.as_deref()).collect();
        let spec = &self.resource.spec;
        let of_targets = select::unknown(select::named(&spec.targets), &members).min();
        let of_targets = of_targets.map(|name| ("spec.targets".to_owned(), name.to_owned()));
        let of_excluded = || {
            let name = select::unknown(spec.exclude_clusters.iter(), &members).min()?;
            Some(("spec.excludeClusters".to_owned(), name.to_owned()))
        };
        let of_override = || {
            let (index, name) = revision.overrides.unknown_cluster(&members)?;
            Some((format!("spec.overrides[{index}].clusterNames"), name.to_owned()))
        };
        of_targets.or_else(of_excluded).or_else(of_override)
    }

    /// Overrides that change nothing, most likely by mistake.
    pub(super) fn unmatched(&self, revision: &Parsed, selection: &Selection) -> Option<Problem> {
        let namespaces: BTreeSet<&str> = selection.targets.values().map(String::as_str).collect();
        let may_be_in = |namespace: &str| namespaces.contains(namespace);
        let unmatched = revision.overrides.unmatched(&revision.objects, may_be_in);
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
        self.hub.state.lock().target(&self.target_key(cluster)).and_then(|state| state.refused.clone())
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
            .chain(self.unread_views())
            .collect();
        // The newest is written to: an answer that was folded meanwhile would be refused, and what this pass has noted in the
        // status stays.
        let latest = self.hub.catalog.resource(self.key);
        let resource = latest.as_deref().unwrap_or(self.resource);
        let queue_key = Key::Resource(self.key.clone());
        let told = lean::told(self.hub, &queue_key, resource.status.as_ref());
        let none = VidraResourceStatus::default();
        let before = told.as_ref().unwrap_or(&none);
        let facts = ResourceFacts {
            generation: self.resource.metadata.generation.unwrap_or_default(),
            revision: revision.or(before.revision.as_deref()),
            problem: problem.or_else(|| self.unread()),
            deleting: self.resource.metadata.deletion_timestamp.is_some(),
            suspended: self.resource.spec.suspend,
            targets: &targets,
            closed: revision.map_or(0, |_| self.closed(&targets)),
            handled,
            now: self.hub.clock.time(),
        };
        let mut status = resource_status(before, &facts);
        self.warn(&mut status);
        let passing = find(&status.conditions, READY)
            .is_some_and(|ready| matches!(&*ready.reason, "Progressing" | "TargetsWaiting"));
        if told.as_ref() != Some(&status) && self.hub.status_is_due(&queue_key, passing) {
            self.write_status(resource, status).await?;
        }
        // Nothing tells of a person's word on a CRD.
        let waiting = (facts.deleting || self.is_undecided()).then_some(RETRY_MOST);
        Ok(Verdict::Done(waiting.into_iter().chain(self.soonest_given_up()).min()))
    }

    /// Writes a status, without its lists where the whole is not taken.
    pub(super) async fn write_status(
        &self,
        resource: &VidraResource,
        status: VidraResourceStatus,
    ) -> Result<(), CallError> {
        let put = |status| self.hub.api.resource_status(resource, status);
        let key = Key::Resource(self.key.clone());
        if let Some(error) = lean::put(self.hub, &key, resource.status.as_ref(), status, put).await? {
            let message = lean::shortened("this VidraResource", self.key, &error);
            self.hub.events.say(self.resource, Severity::Warning, lean::STATUS_SHORTENED, &message);
        }
        Ok(())
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

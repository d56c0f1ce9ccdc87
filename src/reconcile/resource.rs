//! The resource loop: from a VidraResource to its revision and its VidraTargets, and from their statuses
//! back to the VidraResource's.
//!
//! It alone writes VidraTargets' metadata and spec. A VidraTarget that was deleted while it is wanted is
//! let go and made again; its inventories stay valid.

mod approve;
mod ending;
mod forget;
mod ignored;
mod leaving;
mod outdated;
mod report;
mod revision;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::{StreamExt, stream};
use kube::ResourceExt;
use tokio::sync::OnceCell;
use vidra_api::{
    OverrideInputs, VidraResource, VidraTarget, VidraTargetSpec,
    labels::{APPROVE_REMOVAL, FINALIZER, HUB_LABEL, RECONCILE_REQUESTED_AT},
    names::OwnerHash,
    resource::REQUEST_MAX,
    target::Desired as Wish,
};
use vidra_core::{
    guard::{self, Removal},
    mutants::{self, Mutant},
    overrides::Cluster,
    select::{self, Selection},
    status::Problem,
};

pub(super) use self::outdated::Outdated;

use super::{Hub, RETRY_MOST, RETRY_RARELY, affirm::selectable, after_hub_error};
use crate::{
    hub::{
        ending::Ending,
        events::Severity,
        revisions::{Parsed, RevisionError},
        state::{marks, says_whose},
    },
    member::error::{CallError, Class},
    queue::{Key, Priority, ResourceKey, TargetKey, Verdict},
};

/// One pass.
pub async fn reconcile(hub: &Hub, key: &ResourceKey) -> Verdict {
    let Some(resource) = hub.catalog.resource(key) else {
        collect_orphans(hub, key).await;
        hub.revisions.keep(key, &BTreeSet::new());
        hub.forget_resource(key);
        return Verdict::Done(None);
    };
    match (Pass { hub, key, resource: &resource, ending: OnceCell::new() }).run().await {
        Ok(verdict) => {
            let generation = resource.metadata.generation.unwrap_or_default();
            hub.memo.lock().looked.insert(key.clone(), generation);
            verdict
        }
        Err(error) => {
            hub.memo.lock().tried.insert(key.clone());
            after_hub_error(&Key::Resource(key.clone()), &error)
        }
    }
}

async fn collect_orphans(hub: &Hub, key: &ResourceKey) {
    if mutants::is(Mutant::DeleteOnFailedList) {
        for target in hub.catalog.targets_of(key).into_values() {
            let spec = VidraTargetSpec { desired: Wish::Absent, ..target.spec.clone() };
            let _ = hub.api.replace_target(&VidraTarget { spec, ..(*target).clone() }).await;
        }
    }
}

struct Pass<'a> {
    hub: &'a Hub,
    key: &'a ResourceKey,
    resource: &'a VidraResource,
    /// See [`Pass::ending`].
    ending: OnceCell<Ending>,
}

type Targets = BTreeMap<String, Arc<VidraTarget>>;

impl Pass<'_> {
    async fn run(&self) -> Result<Verdict, CallError> {
        if self.resource.metadata.deletion_timestamp.is_some() {
            return self.take_away().await;
        }
        let handled = self.heed_request();
        if self.resource.spec.suspend {
            if !self.mark().await? {
                return Ok(Verdict::Done(None));
            }
            self.suspend_targets().await?;
            self.let_leave().await?;
            let verdict = self.report(None, None, handled).await?;
            self.drop_outdated(None).await?;
            return Ok(verdict);
        }
        // The revision is owned by the VidraResource and needs no mark on it; the targets do.
        let (marked, revision) = tokio::join!(self.mark(), self.revision());
        if !marked? {
            return Ok(Verdict::Done(None));
        }
        match revision? {
            // Nothing that was delivered is touched for a manifest that cannot be read.
            Err(error) => {
                let message = error.to_string();
                let reason = error.invalid();
                self.hub.events.say(self.resource, Severity::Warning, reason, &message);
                let problem = Problem { reason, message, stalled: true };
                self.tend().await?;
                let verdict = self.report(None, Some(problem), handled).await?;
                self.drop_outdated(None).await?;
                // Nothing tells when a right was given, or others have made room.
                Ok(match error {
                    RevisionError::NamespaceFull { .. } => Verdict::Retry(RETRY_RARELY),
                    error if error.is_forbidden() => Verdict::Retry(RETRY_MOST),
                    _ => verdict,
                })
            }
            Ok(parsed) => {
                let selection = self.select();
                let mut refused = None;
                let before = self.hub.catalog.targets_of(self.key);
                let guarded = self.guard(&selection).and_then(|word| self.misread().map_or(Ok(word), Err));
                let problem = match guarded {
                    Err(held) => {
                        self.let_leave().await?;
                        Some(held)
                    }
                    Ok(approved) => {
                        refused = self.deliver(&parsed, &selection, approved.as_deref()).await?;
                        let complaint = || self.complaint(&parsed, &selection);
                        let others = || self.undecided().or_else(complaint);
                        let others = || others().or_else(|| self.unmatched(&parsed, &selection));
                        refused.clone().or_else(others)
                    }
                };
                if refused.is_none() {
                    self.use_up_approvals(&before).await?;
                }
                let verdict = self.report(Some(&parsed.name), problem, handled).await?;
                self.drop_outdated(Some(&parsed.name)).await?;
                // Nothing tells when the hub's API takes it.
                Ok(if refused.is_some() { Verdict::Retry(RETRY_MOST) } else { verdict })
            }
        }
    }

    /// Puts our finalizer on it. Returns whether it is still there, and is to stay.
    async fn mark(&self) -> Result<bool, CallError> {
        let is_marked = |resource: &VidraResource| resource.finalizers().iter().any(|one| one == FINALIZER);
        if is_marked(self.resource) {
            return Ok(true);
        }
        self.hub.api.mark_resource(self.resource).await?;
        Ok(self.hub.catalog.resource(self.key).is_some_and(|now| {
            let same = now.metadata.uid == self.resource.metadata.uid;
            same && is_marked(&now) && now.metadata.deletion_timestamp.is_none()
        }))
    }

    /// A request to reconcile now, by annotation: every target looks again.
    fn heed_request(&self) -> Option<String> {
        let asked = vidra_api::clip(self.resource.annotations().get(RECONCILE_REQUESTED_AT)?, REQUEST_MAX);
        let handled =
            self.resource.status.as_ref().and_then(|status| status.last_handled_reconcile_at.as_ref());
        if handled != Some(&asked) {
            for cluster in self.hub.catalog.targets_of(self.key).keys() {
                let key = self.target_key(cluster);
                self.hub.ask_again(&key, &asked);
                self.hub.queue.add(Key::Target(key), Priority::User);
            }
        }
        Some(asked)
    }

    fn uid(&self) -> String {
        self.resource.uid().unwrap_or_default()
    }

    fn select(&self) -> Selection {
        let members = self.hub.catalog.members();
        let views: Vec<_> = members.iter().map(|member| selectable(member)).collect();
        let spec = &self.resource.spec;
        select::select(&self.key.namespace, &spec.targets, &spec.exclude_clusters, &views)
    }

    /// Holds a removal that is more likely a mistake. A member that a person deletes leaves by that person's word; one
    /// whose MemberCluster is not there has not left.
    fn guard(&self, selection: &Selection) -> Result<Option<String>, Problem> {
        let targets = self.hub.catalog.targets_of(self.key);
        let stays = |cluster: &str| !self.is_leaving(cluster);
        let (mut existing, mut leaving, mut underway) =
            (guard::Targets::new(), guard::Targets::new(), guard::Targets::new());
        for (cluster, target) in &targets {
            let (name, uid) = (cluster.clone(), target.uid().unwrap_or_default());
            let (exists, goes) = (
                target.spec.desired == Wish::Present && stays(cluster),
                !selection.targets.contains_key(cluster),
            );
            match (exists, goes) {
                (true, true) => {
                    leaving.insert(name.clone(), uid.clone());
                    existing.insert(name, uid);
                }
                (true, false) => drop(existing.insert(name, uid)),
                (false, true) => drop(underway.insert(name, uid)),
                (false, false) => {}
            }
        }
        // What was broken off goes on though its word has been taken off the VidraResource.
        let mut approvals = self.approvals();
        let gone = underway.keys().filter_map(|cluster| targets[cluster].spec.approved_removal.as_deref());
        approvals.extend(gone);
        let share = self.hub.tuning.now().removal_guard;
        let (hash, why) = match guard::targets(&self.uid(), &existing, &leaving, &underway, share, &approvals)
        {
            Removal::Allowed => return Ok(None),
            Removal::Approved(hash) => return Ok(Some(hash)),
            Removal::Held { hash, why } => (hash, why),
        };
        let names: Vec<_> = leaving.keys().take(10).map(String::as_str).collect();
        let more = leaving.len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!(
            "held: {why} ({}{more}), and nothing was changed. If this is meant, annotate: {APPROVE_REMOVAL}={hash}",
            names.join(", "),
        );
        self.hub.events.say(self.resource, Severity::Warning, "RemovalHeld", &message);
        Err(Problem { reason: "RemovalHeld", message, stalled: true })
    }

    /// Brings the VidraTargets to what is selected, each whatever becomes of the others. What the hub's API refuses for
    /// good, in words.
    async fn deliver(
        &self,
        revision: &Parsed,
        selection: &Selection,
        approved: Option<&str>,
    ) -> Result<Option<Problem>, CallError> {
        let existing = self.hub.catalog.targets_of(self.key);
        let placed = selection.targets.iter().map(|(cluster, namespace)| {
            let held = existing.get(cluster);
            let spec = self.spec(cluster, namespace, revision, held.map(|held| &held.spec));
            let place = self.place(cluster, held, spec);
            async move { (cluster, place.await) }
        });
        let placed: Vec<_> = placed.collect();
        let placed: Vec<_> = stream::iter(placed).buffered(self.hub.knobs.resource_calls).collect().await;
        self.write_foreign_statuses(&existing, &revision.name).await;
        let left = self.leave_unselected(&existing, selection, approved).await;
        self.refused(placed.into_iter().chain(left))
    }

    /// What of these writes is refused for good: a quota, or a policy. Others are tried again.
    fn refused<'t>(
        &self,
        written: impl Iterator<Item = (&'t String, Result<(), CallError>)>,
    ) -> Result<Option<Problem>, CallError> {
        let failed: Vec<_> =
            written.filter_map(|(cluster, written)| Some((cluster, written.err()?))).collect();
        let (refused, other): (Vec<_>, Vec<_>) =
            failed.into_iter().partition(|(_, error)| error.class == Class::Forbidden || error.is_invalid());
        let Some((cluster, error)) = refused.first() else {
            return other.into_iter().next().map_or(Ok(None), |(_, error)| Err(error));
        };
        let more = match refused.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let message = format!(
            "the hub's API refuses to write VidraTarget {}{more}: {error}; lift the quota or change the policy that refuses it",
            self.target_key(cluster).target_name(),
        );
        self.hub.events.say(self.resource, Severity::Warning, "TargetRefused", &message);
        Ok(Some(Problem { reason: "TargetRefused", message, stalled: true }))
    }

    async fn place(
        &self,
        cluster: &str,
        target: Option<&Arc<VidraTarget>>,
        spec: VidraTargetSpec,
    ) -> Result<(), CallError> {
        match target {
            None => {
                // Known before its first pass.
                self.hub.memo.lock().made.insert(self.target_key(cluster));
                self.create(cluster, spec).await
            }
            Some(target) => self.update(cluster, target, spec).await,
        }
    }

    /// What needs no readable manifest: targets deleted by hand come back, torn-down ones go, and a
    /// member that leaves is let go.
    async fn tend(&self) -> Result<(), CallError> {
        let existing = self.hub.catalog.targets_of(self.key);
        for (cluster, target) in &existing {
            if target.spec.desired == Wish::Present && !self.is_leaving(cluster) {
                self.update(cluster, target, target.spec.clone()).await?;
            } else {
                self.send_away(cluster, target, None).await?;
            }
        }
        Ok(())
    }

    /// What is asked of a member itself, and what is under way already: neither waits for what holds the VidraResource.
    async fn let_leave(&self) -> Result<(), CallError> {
        for (cluster, target) in &self.hub.catalog.targets_of(self.key) {
            if target.spec.desired != Wish::Present || self.is_leaving(cluster) {
                self.send_away(cluster, target, None).await?;
            }
        }
        Ok(())
    }

    async fn leave_unselected<'t>(
        &self,
        existing: &'t Targets,
        selection: &Selection,
        approved: Option<&str>,
    ) -> Vec<(&'t String, Result<(), CallError>)> {
        let mut unselected: Vec<_> =
            existing.iter().filter(|(cluster, _)| !selection.targets.contains_key(*cluster)).collect();
        // First those that are yet to be told: an approval is known by all that it lets go.
        unselected.sort_by_key(|(_, target)| target.spec.desired != Wish::Present);
        let mut written = Vec::new();
        for (cluster, target) in unselected {
            written.push((cluster, self.send_away(cluster, target, approved).await));
        }
        written
    }

    /// A person has deleted its MemberCluster.
    fn is_leaving(&self, cluster: &str) -> bool {
        self.hub.catalog.member(cluster).is_some_and(|member| member.metadata.deletion_timestamp.is_some())
    }

    /// What the overrides of a revision use of a member.
    fn inputs(&self, cluster: &str, revision: &Parsed) -> Option<OverrideInputs> {
        let member = self.hub.catalog.member(cluster)?;
        revision.overrides.inputs(&Cluster {
            name: cluster,
            labels: member.labels(),
            values: &member.spec.values,
        })
    }

    fn spec(
        &self,
        cluster: &str,
        namespace: &str,
        revision: &Parsed,
        held: Option<&VidraTargetSpec>,
    ) -> VidraTargetSpec {
        let spec = &self.resource.spec;
        VidraTargetSpec {
            resource: self.key.name.to_string(),
            cluster: cluster.to_owned(),
            revision: revision.name.clone(),
            desired: Wish::Present,
            namespace: namespace.to_owned(),
            overrides: self.inputs(cluster, revision),
            drift: spec.drift.clone(),
            prune: spec.prune,
            deletion_policy: spec.deletion_policy,
            namespace_and_crd_deletion: spec.namespace_and_crd_deletion,
            conflicts: spec.conflicts,
            approved_removal: self.approved(&revision.name, namespace, held),
            reconcile: spec.reconcile.clone().unwrap_or_default(),
            suspend: false,
            generation: self.resource.metadata.generation.unwrap_or_default(),
        }
    }

    async fn create(&self, cluster: &str, spec: VidraTargetSpec) -> Result<(), CallError> {
        let mut target = VidraTarget::new(&self.target_key(cluster).target_name(), spec);
        target.metadata.namespace = Some(self.key.namespace.to_string());
        target.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        target.metadata.owner_references = self.owner_reference();
        target.metadata.labels = Some(marks(&self.hub.identity.hub));
        self.hub.api.create_target(&target).await
    }

    /// Writes a VidraTarget's spec where it differs. The generation alone is no difference: it goes along
    /// with the next one, so that an edit of who is targeted writes nothing to those who stay.
    async fn update(
        &self,
        cluster: &str,
        target: &VidraTarget,
        spec: VidraTargetSpec,
    ) -> Result<(), CallError> {
        if target.metadata.deletion_timestamp.is_some() {
            // It ends with its namespace, and so will the VidraResource: the teardown needs it then.
            if !self.hub.api.could_remake(target).await? {
                return Ok(());
            }
            // Nobody's wish: it goes, and comes back. Its inventories stay.
            self.hub.events.say(
                self.resource,
                Severity::Warning,
                "TargetRestored",
                &format!("VidraTarget {} was deleted by hand; it is made again", target.name_any()),
            );
            self.hub.api.remove_target(&self.target_key(cluster), target).await?;
            return self.create(cluster, spec).await;
        }
        // The target loop writes statuses meanwhile: the newest is written to.
        let latest = self.hub.catalog.target(&self.target_key(cluster));
        let target = latest.as_deref().unwrap_or(target);
        let same = VidraTargetSpec { generation: target.spec.generation, ..spec.clone() } == target.spec;
        let marked = target.finalizers().iter().any(|one| one == FINALIZER);
        let hub = &self.hub.identity.hub;
        let labelled = says_whose(target.labels(), hub);
        if !labelled && target.labels().contains_key(HUB_LABEL) && !mutants::is(Mutant::TakesAnyState) {
            // Another hub's: the watch that shows it ends the process.
            return Ok(());
        }
        if same && marked && labelled && target.metadata.owner_references == self.owner_reference() {
            return Ok(());
        }
        let mut next = VidraTarget { spec, ..target.clone() };
        if !marked {
            next.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
        }
        next.metadata.labels.get_or_insert_default().extend(marks(hub));
        next.metadata.owner_references = self.owner_reference();
        self.hub.api.replace_target(&next).await
    }

    async fn suspend_targets(&self) -> Result<(), CallError> {
        for (cluster, target) in &self.hub.catalog.targets_of(self.key) {
            if target.spec.desired == Wish::Present && !self.is_leaving(cluster) {
                let spec = VidraTargetSpec { suspend: true, ..target.spec.clone() };
                self.update(cluster, target, spec).await?;
            }
        }
        Ok(())
    }

    async fn write_foreign_statuses(&self, before: &Targets, revision: &str) {
        if !mutants::is(Mutant::SecondStatusWriter) {
            return;
        }
        for (cluster, target) in self.hub.catalog.targets_of(self.key) {
            if before.get(&cluster).is_some_and(|before| before.spec.revision != revision) {
                let mut status = target.status.clone().unwrap_or_default();
                status.state = Some(vidra_api::TargetState::Progressing);
                let _ = self.hub.api.target_status(&target, status).await;
            }
        }
    }

    fn owner(&self) -> OwnerHash {
        OwnerHash::new(&self.hub.identity.hub, &self.key.namespace, &self.key.name)
    }

    fn owner_reference(&self) -> Option<Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>> {
        use kube::Resource;
        self.resource.controller_owner_ref(&()).map(|reference| vec![reference])
    }

    fn target_key(&self, cluster: &str) -> TargetKey {
        TargetKey {
            namespace: self.key.namespace.clone(),
            resource: self.key.name.clone(),
            cluster: cluster.into(),
        }
    }
}

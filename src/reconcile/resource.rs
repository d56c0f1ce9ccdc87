//! The resource loop: from a VidraResource to its revision and its VidraTargets, and from their statuses
//! back to the VidraResource's.
//!
//! It alone writes VidraTargets' metadata and spec. A VidraTarget that was deleted while it is wanted is
//! let go and made again; its inventories stay valid.

mod approval;
mod crd_deletion;
mod ignore_rules;
mod left_behind;
mod orphans;
mod revision;
mod revision_gc;
mod status;
mod teardown;
mod unreadable;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use kube::ResourceExt;
use tokio::sync::OnceCell;
use vidra_api::{
    MemberCluster, OverrideInputs, VidraResource, VidraTarget, VidraTargetSpec,
    labels::{APPROVE_REMOVAL, FINALIZER, HUB_LABEL, RECONCILE_REQUESTED_AT},
    names::OwnerHash,
    resource::REQUEST_MAX,
    target::Desired as Wish,
};
use vidra_core::{
    guard::{self, Removal},
    mutants::{self, Mutant},
    overrides::Cluster,
    restraint::restrained,
    select::Selection,
    status::{Problem, is_torn_down},
};

pub(super) use self::{revision::KeptRevision, revision_gc::Outdated};

use self::teardown::Step;
use super::{
    Hub, RETRY_MOST, RETRY_RARELY, affirm, after_hub_error, revoke,
    write_refusal::{WRITE_REFUSED, advised, ends_well, fails_often, is_refusal, refusal},
};
use crate::{
    base::error::{CallError, Class},
    hub::{
        catalog::Lack,
        crd_deletion::Ending,
        events::Severity,
        revisions::{Parsed, RevisionError},
        state::{marks, says_whose},
    },
    queue::{Key, Priority, ResourceKey, TargetKey, Verdict},
};

/// One pass.
pub async fn reconcile(hub: &Hub, key: &ResourceKey) -> Verdict {
    let resource = match hub.catalog.find_resource(key) {
        Ok(resource) => resource,
        // Its targets tell it.
        Err(Lack::Unread) => return Verdict::Done(None),
        Err(Lack::Missing) => {
            hub.revisions.keep(key, &BTreeSet::new());
            if let Some(again) = orphans::let_go(hub, key).await {
                return again;
            }
            hub.state.lock().forget_resource(key);
            hub.queue.forget(&Key::Resource(key.clone()));
            return Verdict::Done(None);
        }
    };
    let pass = Pass { hub, key, resource: &resource, ending: OnceCell::new() };
    // Who comes meanwhile may not have been seen.
    let arrivals = hub.catalog.arrivals();
    let passed = pass.run().await;
    hub.state.lock().resource_mut(key).tried = Some(arrivals);
    match passed {
        Ok(Verdict::Done(_)) if !ends_well(hub, &Key::Resource(key.clone())) => Verdict::Retry(RETRY_MOST),
        Ok(verdict) => verdict,
        Err(error) => pass.failed(&error).await,
    }
}

/// A VidraTarget that is to be made again cannot be while it is on its way out.
fn still_there(target: &VidraTarget, error: CallError) -> CallError {
    let foreign = target.finalizers().iter().find(|one| *one != FINALIZER);
    match foreign.filter(|_| error.class == Class::Conflict) {
        Some(finalizer) => CallError {
            message: format!(
                "{}: it was deleted and waits for the finalizer {finalizer}; take that off if nobody else does",
                error.message
            ),
            ..error
        },
        None => error,
    }
}

/// The command that approves a removal.
pub(super) fn approval(key: &ResourceKey, hash: &str) -> String {
    let ResourceKey { namespace, name } = key;
    format!("kubectl annotate vidraresource {name} -n {namespace} --overwrite {APPROVE_REMOVAL}={hash}")
}

struct Pass<'a> {
    hub: &'a Hub,
    key: &'a ResourceKey,
    resource: &'a VidraResource,
    /// See [`Pass::ending`].
    ending: OnceCell<Ending>,
}

type Targets = BTreeMap<String, Arc<VidraTarget>>;
/// What became of writing VidraTargets, by cluster.
type Written = Vec<(String, Result<(), CallError>)>;

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
            let refused = self.refused(self.tend().await)?;
            return self.tell(None, refused.clone(), handled, refused.map(|_| RETRY_MOST)).await;
        }
        // The revision is owned by the VidraResource and needs no mark on it; the targets do.
        let (marked, revision) = match tokio::join!(self.mark(), self.revision()) {
            (Ok(marked), Ok(revision)) => (marked, revision),
            // Perhaps there is no room for the mark either, and without a target it is not needed.
            (Err(_), Ok(Err(error)))
                if error.is_inline_too_large() && self.hub.catalog.targets_of(self.key).is_empty() =>
            {
                (true, Err(error))
            }
            (Err(error), _) | (_, Err(error)) => {
                // What of this fails is tried again with the rest.
                let _ = self.refused(self.tend().await);
                return Err(error);
            }
        };
        if !marked {
            return Ok(Verdict::Done(None));
        }
        match revision {
            Err(error) => self.rest_on_invalid(error, handled).await,
            Ok(parsed) => self.roll_out(&parsed, handled).await,
        }
    }

    /// Nothing that was delivered is touched for a manifest that cannot be read.
    async fn rest_on_invalid(
        &self,
        error: RevisionError,
        handled: Option<String>,
    ) -> Result<Verdict, CallError> {
        let message = self.with_rest(error.to_string());
        let reason = error.invalid();
        self.hub.events.say(self.resource, Severity::Warning, reason, &message);
        let problem = Problem { reason, message, stalled: true };
        let refused = self.refused(self.tend().await)?;
        // Nothing tells when a right was given, or others have made room.
        let again = match error {
            error if error.is_full() => Some(RETRY_RARELY),
            error => (error.is_forbidden() || refused.is_some()).then_some(RETRY_MOST),
        };
        self.tell(None, Some(problem), handled, again).await
    }

    /// Brings the VidraTargets to a revision, unless it is held.
    async fn roll_out(&self, parsed: &Parsed, handled: Option<String>) -> Result<Verdict, CallError> {
        let selection = self.select();
        let refused;
        let before = self.hub.catalog.targets_of(self.key);
        let guarded = self.guard(&selection).and_then(|word| self.misread().map_or(Ok(word), Err));
        let problem = match guarded {
            Err(held) => {
                let held = Problem { message: self.with_rest(held.message), ..held };
                match self.refused(self.tend().await) {
                    Ok(word) => refused = word,
                    Err(error) => {
                        self.tell(Some(&parsed.name), Some(held), handled, None).await?;
                        return Err(error);
                    }
                }
                Some(held)
            }
            Ok(approved) => {
                refused = self.deliver(parsed, &selection, approved.as_deref()).await?;
                let complaint = || self.complaint(parsed, &selection);
                let others = || self.undecided().or_else(complaint);
                let others = || others().or_else(|| self.unmatched(parsed, &selection));
                refused.clone().or_else(others)
            }
        };
        if refused.is_none() {
            self.use_up_approvals(&before).await?;
        }
        // Nothing tells when the hub's API takes it.
        self.tell(Some(&parsed.name), problem, handled, refused.map(|_| RETRY_MOST)).await
    }

    /// Writes the status; what nobody has any more goes after that. `again`: nothing tells when to try again, so it is after this.
    async fn tell(
        &self,
        revision: Option<&str>,
        problem: Option<Problem>,
        handled: Option<String>,
        again: Option<Duration>,
    ) -> Result<Verdict, CallError> {
        let verdict = self.report(revision, problem, handled).await?;
        if let Err(error) = self.drop_outdated(revision).await {
            // That is no matter of the status.
            if is_refusal(&error) {
                self.say_refused(&advised(&error));
            }
            return Ok(after_hub_error(&Key::Resource(self.key.clone()), &error));
        }
        Ok(again.map_or(verdict, Verdict::Retry))
    }

    /// A word more on what holds it, where targets rest though it does not any more.
    fn with_rest(&self, mut message: String) -> String {
        if self.hub.catalog.targets_of(self.key).values().any(|target| target.spec.suspend) {
            message.push_str("; what was suspended stays so until then");
        }
        message
    }

    fn say_refused(&self, told: &str) -> String {
        let message = format!("the hub's API refuses a write for this VidraResource: {told}");
        tracing::warn!(key = %Key::Resource(self.key.clone()), %message, "told");
        self.hub.events.say(self.resource, Severity::Warning, WRITE_REFUSED, &message);
        message
    }

    /// A write failed without which the pass could not go on.
    async fn failed(&self, error: &CallError) -> Verdict {
        let key = Key::Resource(self.key.clone());
        if let Some(told) = refusal(self.hub, &key, error) {
            let problem = Problem { reason: WRITE_REFUSED, message: self.say_refused(&told), stalled: true };
            // The Event stands alone where the status is what is refused.
            if let Err(error) = self.report(None, Some(problem), None).await {
                tracing::info!(%key, %error, "its status could not be written either");
            }
        }
        after_hub_error(&key, error)
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
                self.hub.state.lock().ask_again(&key, &asked);
                self.hub.queue.add(Key::Target(key), Priority::User);
            }
        }
        Some(asked)
    }

    fn uid(&self) -> String {
        self.resource.uid().unwrap_or_default()
    }

    fn select(&self) -> Selection {
        affirm::select(self.hub, self.resource, &self.hub.catalog.members())
    }

    /// Holds a removal that is more likely a mistake. A member that a person deletes leaves by that person's word; one
    /// whose MemberCluster is not there has not left; and what one does not allow any more is not given up here.
    fn guard(&self, selection: &Selection) -> Result<Option<String>, Problem> {
        let targets = self.hub.catalog.targets_of(self.key);
        let stays = |cluster: &str| !self.is_leaving(cluster);
        // What selects a member that cannot be read is not known; and what came to nothing is no loss.
        let counts = |cluster: &str, target: &VidraTarget| {
            !selection.is_barred(cluster)
                && !self.is_member_unread(cluster)
                && !self.came_to_nothing(cluster, target)
        };
        let targets: Targets =
            targets.into_iter().filter(|(cluster, target)| counts(cluster, target)).collect();
        let (mut existing, mut leaving, mut underway) =
            (guard::Targets::new(), guard::Targets::new(), guard::Targets::new());
        for (cluster, target) in &targets {
            let (name, uid) = (cluster.clone(), target.removal_id());
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
        let remade = leaving.keys().find(|cluster| self.is_remade(&targets[*cluster]));
        let remade = remade.map(String::as_str);
        let decided = guard::targets(&self.uid(), &existing, &leaving, &underway, remade, share, &approvals);
        let (hash, why) = match decided {
            Removal::Allowed => return Ok(None),
            Removal::Approved(hash) => return Ok(Some(hash)),
            Removal::Held { hash, why } => (hash, why),
        };
        let names: Vec<_> = leaving.keys().take(10).map(String::as_str).collect();
        let more = leaving.len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!(
            "held: {why} ({}{more}), and nothing new is delivered. If this is meant: {}",
            names.join(", "),
            approval(self.key, &hash),
        );
        self.hub.events.say(self.resource, Severity::Warning, "RemovalHeld", &message);
        Err(Problem { reason: "RemovalHeld", message, stalled: true })
    }

    /// Its MemberCluster is another one than when it was delivered to.
    fn is_remade(&self, target: &VidraTarget) -> bool {
        let now = self.hub.catalog.member(&target.spec.cluster).and_then(|member| member.uid());
        target.spec.member_uid.is_some() && now.is_some() && now != target.spec.member_uid
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
            async move { (cluster.clone(), place.await) }
        });
        let mut written: Written = self.side_by_side(placed.collect()).await;
        self.write_foreign_statuses(&existing, &revision.name).await;
        written.extend(self.leave_unselected(&existing, selection, approved).await);
        self.refused(written)
    }

    /// Has a bounded number of these under way at once, each whatever becomes of the others; what comes of them, in their
    /// order.
    async fn side_by_side<T>(&self, writes: Vec<impl Future<Output = T>>) -> Vec<T> {
        stream::iter(writes).buffered(self.hub.knobs.resource_calls).collect().await
    }

    /// What of these writes is refused, by a quota or a policy, or fails again and again. Others are tried again.
    fn refused(&self, written: Written) -> Result<Option<Problem>, CallError> {
        let often = fails_often(self.hub, &Key::Resource(self.key.clone()));
        let is_told =
            |error: &CallError| (is_refusal(error) || often) && !mutants::is(Mutant::RefusalEndsPass);
        let failed = written.into_iter().filter_map(|(cluster, written)| Some((cluster, written.err()?)));
        let (refused, other): (Vec<_>, Vec<_>) = failed.partition(|(_, error)| is_told(error));
        let Some((cluster, error)) = refused.first() else {
            return other.into_iter().next().map_or(Ok(None), |(_, error)| Err(error));
        };
        let more = match refused.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let message = format!(
            "the hub's API refuses to write VidraTarget {}{more}: {}",
            self.target_key(cluster).target_name(),
            advised(error),
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
            // Not made over.
            None if self.is_target_unread(cluster) => Ok(()),
            // It was selected when the pass began, and many are made in turn.
            None if !self.is_still_there(cluster, &spec) => Ok(()),
            None => self.make(cluster, spec).await,
            Some(target) => self.update(cluster, target, spec).await,
        }
    }

    /// Makes a VidraTarget for which nothing was ever delivered.
    async fn make(&self, cluster: &str, spec: VidraTargetSpec) -> Result<(), CallError> {
        let (key, state) = (self.target_key(cluster), &self.hub.state);
        // Known before its first pass.
        state.lock().change_target(&key, |state| state.made = true);
        let made = self.create(cluster, spec).await;
        state.lock().change_target(&key, |state| match &made {
            // Meanwhile one of that name may have been forgotten, which had gone before.
            Ok(()) => (state.made, state.untold) = (true, false),
            // It may be there, and be another's.
            Err(error) => state.made &= error.is_unsure(),
        });
        made
    }

    /// The member for which this was made is there, and does not leave: nobody would take a target off it that is made now.
    fn is_still_there(&self, cluster: &str, spec: &VidraTargetSpec) -> bool {
        let is_it = |member: &MemberCluster| {
            member.metadata.deletion_timestamp.is_none() && member.uid() == spec.member_uid
        };
        mutants::is(Mutant::MadeForGone) || self.hub.catalog.member(cluster).is_some_and(|now| is_it(&now))
    }

    /// What waits for nothing that holds the VidraResource: targets deleted by hand come back, torn-down ones go, a member
    /// that leaves is let go, and what restrains the hub acts.
    async fn tend(&self) -> Written {
        let targets = self.hub.catalog.targets_of(self.key).into_iter();
        let steps = targets.map(|(cluster, target)| async move {
            let going =
                || self.is_going(&cluster, &target).filter(|_| !mutants::is(Mutant::RestHoldsLeaving));
            let step = match going() {
                Some(approved) => self.send_away(&cluster, &target, approved.as_deref()).await,
                None => self.restrain(&cluster, &target).await.map(|()| Step::Done),
            };
            (cluster, step)
        });
        self.end(steps.collect()).await
    }

    /// The revision that it has stays, with what of the policies restrains it.
    async fn restrain(&self, cluster: &str, target: &VidraTarget) -> Result<(), CallError> {
        let spec = match target.spec.desired {
            Wish::Present if !mutants::is(Mutant::PoliciesWait) => {
                restrained(&target.spec, &self.resource.spec)
            }
            _ => target.spec.clone(),
        };
        // One that goes and is not selected is not made again, and without it the guard would not know of the loss.
        let goes = target.metadata.deletion_timestamp.is_some();
        if goes && !self.select().targets.contains_key(cluster) && !mutants::is(Mutant::GuardForgets) {
            return match target.finalizers().iter().any(|one| one == FINALIZER) {
                true => self.write(cluster, target, spec).await,
                // It ends as soon as others let it, and takes no finalizer any more.
                false => Ok(()),
            };
        }
        self.update(cluster, target, spec).await
    }

    async fn leave_unselected(
        &self,
        existing: &Targets,
        selection: &Selection,
        approved: Option<&str>,
    ) -> Written {
        let unselected = existing.iter().filter(|(cluster, _)| !selection.targets.contains_key(*cluster));
        let is_untold = |(_, target): &(&String, &Arc<VidraTarget>)| target.spec.desired == Wish::Present;
        let (untold, underway): (Vec<_>, Vec<_>) = unselected.partition(is_untold);
        let mut written = Written::new();
        // First all that are yet to be told: an approval is known by those that it lets go.
        for targets in [untold, underway] {
            let steps = targets.into_iter().map(|(cluster, target)| async move {
                let step = match selection.is_barred(cluster) {
                    true => self.withdraw(cluster, target).await,
                    false => self.send_away(cluster, target, approved).await,
                };
                (cluster.clone(), step)
            });
            written.extend(self.end(steps.collect()).await);
        }
        written
    }

    /// Whether a target goes whatever becomes of the VidraResource: by what is under way or asked of the member itself;
    /// and the word that approved it where it needed one.
    fn is_going(&self, cluster: &str, target: &VidraTarget) -> Option<Option<String>> {
        let key = self.target_key(cluster);
        let generation = target.metadata.generation.unwrap_or_default();
        let is_over = target.spec.desired == Wish::Forgotten
            || is_torn_down(&target.status.clone().unwrap_or_default(), generation);
        if self.is_leaving(cluster) || (target.spec.desired != Wish::Present && is_over) {
            return Some(None);
        }
        // What is under way where the namespace is not allowed goes by the member's onRevoke, as it is now.
        match target.spec.desired != Wish::Present && !revoke::is_revoked(self.hub, &key) {
            true => Some(None),
            false => revoke::taken(self.hub, &key, target),
        }
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
            member_uid: self.hub.catalog.member(cluster).and_then(|member| member.uid()),
            revision: revision.name.clone(),
            desired: Wish::Present,
            namespace: namespace.to_owned(),
            overrides: self.inputs(cluster, revision),
            drift: spec.drift.clone(),
            prune: spec.prune,
            namespace_and_crd_deletion: spec.namespace_and_crd_deletion,
            conflicts: spec.conflicts.clone(),
            approved_removal: self.approved(&revision.name, namespace, held),
            recalls: held.map_or(0, VidraTargetSpec::recalled),
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
            // Ours stays on it until it can be made again at once: the guard counts it as long as it is there.
            if target.finalizers().iter().any(|one| one != FINALIZER) && !mutants::is(Mutant::GuardForgets) {
                let message = format!("VidraTarget {}", target.name_any());
                return Err(still_there(target, CallError { class: Class::Conflict, message }));
            }
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
            let is_empty = self.has_nothing_there(cluster, target);
            self.hub.api.remove_target(&self.target_key(cluster), target).await?;
            let made = match is_empty {
                true => self.make(cluster, spec).await,
                false => self.create(cluster, spec).await,
            };
            return made.map_err(|error| still_there(target, error));
        }
        self.write(cluster, target, spec).await
    }

    /// The same of one that is not made again.
    async fn write(
        &self,
        cluster: &str,
        target: &VidraTarget,
        spec: VidraTargetSpec,
    ) -> Result<(), CallError> {
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
        // A person's word for the time without the VidraResource.
        let spoken = target.annotations().contains_key(APPROVE_REMOVAL);
        let owned = target.metadata.owner_references == self.owner_reference();
        if same && marked && labelled && owned && !spoken {
            return Ok(());
        }
        let mut next = VidraTarget { spec, ..target.clone() };
        if spoken {
            next.metadata.annotations.get_or_insert_default().remove(APPROVE_REMOVAL);
        }
        if !marked {
            next.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
        }
        next.metadata.labels.get_or_insert_default().extend(marks(hub));
        next.metadata.owner_references = self.owner_reference();
        self.hub.api.replace_target(&next).await?;
        if !owned {
            // It may have waited for its VidraResource, and its spec is what it was.
            self.hub.queue.add(Key::Target(self.target_key(cluster)), Priority::User);
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

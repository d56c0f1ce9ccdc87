//! How targets end: each is turned to what becomes of its objects, and goes when the member is free of it.

use kube::ResourceExt;
use vidra_api::{
    ContainerDeletion, VidraTarget, VidraTargetSpec, labels::FINALIZER, target::Desired as Wish,
};
use vidra_core::{
    mutants::{self, Mutant},
    status::{Problem, is_torn_down},
};

use super::{Pass, Written};
use crate::{
    base::error::CallError,
    hub::{catalog::Lack, crd_deletion::Ending},
    queue::{TargetKey, Verdict},
    reconcile::{RETRY_MOST, affirm, revoke, vidra_target::may_have_delivered},
};

/// How far a target has come on its way out.
pub(super) enum Step {
    /// As far as it can now.
    Done,
    /// It is not waited for any more: this is to be written once a status says what stays in its member.
    Forget(Box<VidraTarget>),
}

/// It was to go, and the member is free of it.
fn has_left(target: &VidraTarget) -> bool {
    let generation = target.metadata.generation.unwrap_or_default();
    target.spec.desired != Wish::Present
        && target.status.as_ref().is_some_and(|status| is_torn_down(status, generation))
}

impl Pass<'_> {
    /// The VidraResource is deleted: its targets go first, then its finalizer.
    pub(super) async fn take_away(&self) -> Result<Verdict, CallError> {
        let targets = self.hub.catalog.targets_of(self.key).into_iter();
        let steps = targets.map(|(cluster, target)| async move {
            let step = self.send_away(&cluster, &target, None).await;
            (cluster, step)
        });
        let written = self.end(steps.collect()).await;
        if let Some(refused) = self.refused(written)? {
            self.report(None, Some(refused), None).await?;
            return Ok(Verdict::Retry(RETRY_MOST));
        }
        // One that cannot be read is there all the same.
        if !self.hub.catalog.targets_of(self.key).is_empty() || self.is_any_target_unread() {
            return self.report(None, self.undecided(), None).await;
        }
        if self.resource.finalizers().iter().any(|one| one == FINALIZER) {
            self.hub.api.release_resource(self.resource).await?;
        }
        let Some(other) = self.resource.finalizers().iter().find(|one| *one != FINALIZER) else {
            return Ok(Verdict::Done(None));
        };
        let message = format!("the hub is done with it; it waits for the finalizer {other}");
        self.report(None, Some(Problem { reason: "Terminating", message, stalled: false }), None).await
    }

    /// Takes these steps side by side, and tells those targets that are to be forgotten.
    pub(super) async fn end(
        &self,
        steps: Vec<impl Future<Output = (String, Result<Step, CallError>)>>,
    ) -> Written {
        let (mut written, mut forgotten) = (Written::new(), Vec::new());
        for (cluster, step) in self.side_by_side(steps).await {
            match step {
                Ok(Step::Done) => written.push((cluster, Ok(()))),
                Ok(Step::Forget(next)) => forgotten.push((cluster, *next)),
                Err(error) => written.push((cluster, Err(error))),
            }
        }
        written.extend(self.forget(&forgotten).await);
        written
    }

    /// Turns a target to Absent or Orphaned, by the word that approved it where it needed one, and removes it once the
    /// member is free of it.
    pub(super) async fn send_away(
        &self,
        cluster: &str,
        target: &VidraTarget,
        approved: Option<&str>,
    ) -> Result<Step, CallError> {
        let key = self.target_key(cluster);
        let latest = self.hub.catalog.target(&key);
        let target = latest.as_deref().unwrap_or(target);
        if has_left(target) || self.came_to_nothing(cluster, target) {
            return self.hub.api.remove_target(&key, target).await.map(|()| Step::Done);
        }
        let missing = match self.hub.catalog.find_member(cluster) {
            Err(Lack::Unread) => return Ok(Step::Done),
            found => found.is_err(),
        };
        let turned = |desired| {
            let approved_removal =
                approved.map(str::to_owned).or_else(|| target.spec.approved_removal.clone());
            let namespace_and_crd_deletion = self.namespace_and_crd_deletion(&key, target);
            let spec = VidraTargetSpec {
                desired,
                suspend: false,
                approved_removal,
                namespace_and_crd_deletion,
                ..target.spec.clone()
            };
            VidraTarget { spec, ..target.clone() }
        };
        let forgotten = || Step::Forget(Box::new(turned(Wish::Forgotten)));
        let desired = match target.spec.desired {
            Wish::Forgotten => return Ok(Step::Done),
            Wish::Present => match self.ending(cluster).await? {
                Ending::Held(_) => return Ok(Step::Done),
                Ending::Orphan => Wish::Forgotten,
                // A MemberCluster that is not there is no wish to leave.
                Ending::No | Ending::Unseen(_) if missing || self.has_lost_its_cluster(cluster) => {
                    let meant = !missing || self.a_person_gives_up(cluster);
                    return Ok(if meant { forgotten() } else { Step::Done });
                }
                Ending::No | Ending::Unseen(_) => self.parting(cluster),
            },
            _ if self.is_given_up(cluster, target) => return Ok(forgotten()),
            _ if missing => return Ok(Step::Done),
            _ => self.parting(cluster),
        };
        let next = turned(desired);
        let approved_removal = target.spec.approved_removal.clone();
        if (VidraTargetSpec { approved_removal, ..next.spec.clone() }) == target.spec {
            return Ok(Step::Done);
        }
        self.hub.api.replace_target(&next).await.map(|()| Step::Done)
    }

    /// What becomes of the Namespaces and CRDs of a target that goes: what its VidraResource asks for now, for what goes
    /// waits for no manifest.
    fn namespace_and_crd_deletion(&self, key: &TargetKey, target: &VidraTarget) -> ContainerDeletion {
        let written = target.spec.namespace_and_crd_deletion;
        let now = self.resource.spec.namespace_and_crd_deletion;
        match mutants::is(Mutant::GoesByOldPolicy) {
            true => written,
            // Whose namespace is not allowed there any more has no say in it but to keep.
            false if revoke::is_revoked(self.hub, key) => written.min(now),
            false => now,
        }
    }

    /// Its MemberCluster has gone, while the VidraTarget was being made mostly, and nothing was ever delivered there: it is
    /// no wish to leave, and there is nothing to leave.
    pub(super) fn came_to_nothing(&self, cluster: &str, target: &VidraTarget) -> bool {
        target.spec.desired == Wish::Present
            && matches!(self.hub.catalog.find_member(cluster), Err(Lack::Missing))
            && self.has_nothing_there(cluster, target)
            && !mutants::is(Mutant::NothingWaits)
    }

    /// Nothing was ever delivered for it.
    pub(super) fn has_nothing_there(&self, cluster: &str, target: &VidraTarget) -> bool {
        let (key, catalog) = (self.target_key(cluster), &self.hub.catalog);
        let status = target.status.as_ref();
        // One that was restored without its status says nothing of what it has.
        let is_told = status.is_some_and(|status| status.observed_generation.is_some())
            || self.hub.state.lock().target(&key).is_some_and(|state| state.made);
        is_told
            && !may_have_delivered(self.hub, &key, target)
            && catalog.inventory(&key).is_empty()
            && catalog.unread_inventory(&key).is_none()
    }

    /// A target on a member that does not allow the namespace goes by the member's onRevoke; else it stays as it is, and
    /// what was decided of it while it was allowed waits.
    pub(super) async fn withdraw(&self, cluster: &str, target: &VidraTarget) -> Result<Step, CallError> {
        let spec = &target.spec;
        if has_left(target) || spec.desired == Wish::Forgotten {
            return self.send_away(cluster, target, None).await;
        }
        if let Some(approved) = revoke::taken(self.hub, &self.target_key(cluster), target) {
            return self.send_away(cluster, target, approved.as_deref()).await;
        }
        // A word for its removal says nothing of its objects.
        let approved_removal = spec.approved_removal.clone().filter(|_| spec.desired == Wish::Present);
        let (desired, recalls) = (Wish::Present, spec.recalled());
        let spec = VidraTargetSpec { desired, recalls, suspend: false, approved_removal, ..spec.clone() };
        self.update(cluster, target, spec).await.map(|()| Step::Done)
    }

    /// How a target ends.
    fn parting(&self, cluster: &str) -> Wish {
        let of_member = self.hub.catalog.member(cluster).and_then(|member| {
            let selection = affirm::select(self.hub, self.resource, std::slice::from_ref(&member));
            affirm::parting(self.resource, &member, &selection)
        });
        of_member.unwrap_or_else(|| affirm::by_policy(self.resource))
    }
}

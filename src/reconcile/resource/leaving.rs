//! How targets end: each is turned to what becomes of its objects, and goes when the member is free of it.

use kube::ResourceExt;
use vidra_api::{VidraTarget, VidraTargetSpec, labels::FINALIZER, target::Desired as Wish};
use vidra_core::status::{Problem, is_torn_down};

use super::{Pass, Written};
use crate::{
    hub::ending::Ending,
    member::error::CallError,
    queue::Verdict,
    reconcile::{RETRY_MOST, affirm, revoke},
};

impl Pass<'_> {
    /// The VidraResource is deleted: its targets go first, then its finalizer.
    pub(super) async fn take_away(&self) -> Result<Verdict, CallError> {
        let mut written = Written::new();
        for (cluster, target) in self.hub.catalog.targets_of(self.key) {
            let sent = self.send_away(&cluster, &target, None).await;
            written.push((cluster, sent));
        }
        if let Some(refused) = self.refused(written)? {
            self.report(None, Some(refused), None).await?;
            return Ok(Verdict::Retry(RETRY_MOST));
        }
        if !self.hub.catalog.targets_of(self.key).is_empty() {
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

    /// Turns a target to Absent or Orphaned, by the word that approved it where it needed one, and removes it once the
    /// member is free of it.
    pub(super) async fn send_away(
        &self,
        cluster: &str,
        target: &VidraTarget,
        approved: Option<&str>,
    ) -> Result<(), CallError> {
        let key = self.target_key(cluster);
        let latest = self.hub.catalog.target(&key);
        let target = latest.as_deref().unwrap_or(target);
        if target.spec.desired != Wish::Present
            && is_torn_down(
                &target.status.clone().unwrap_or_default(),
                target.metadata.generation.unwrap_or_default(),
            )
        {
            return self.hub.api.remove_target(&key, target).await;
        }
        let missing = self.hub.catalog.member(cluster).is_none();
        let desired = match target.spec.desired {
            Wish::Forgotten => return Ok(()),
            Wish::Present => match self.ending(cluster).await? {
                Ending::Held(_) => return Ok(()),
                Ending::Orphan => Wish::Forgotten,
                // A MemberCluster that is not there is no wish to leave.
                Ending::No | Ending::Unseen(_) if missing || self.has_lost_its_cluster(cluster) => {
                    let meant = !missing || self.a_person_gives_up(cluster);
                    if !meant || !self.note_left_behind(cluster).await? {
                        return Ok(());
                    }
                    Wish::Forgotten
                }
                Ending::No | Ending::Unseen(_) => self.parting(cluster),
            },
            _ if self.is_given_up(cluster, target) => {
                if !self.note_left_behind(cluster).await? {
                    return Ok(());
                }
                Wish::Forgotten
            }
            _ if missing => return Ok(()),
            _ => self.parting(cluster),
        };
        if target.spec.desired == desired && !target.spec.suspend {
            return Ok(());
        }
        let approved_removal = approved.map(str::to_owned).or_else(|| target.spec.approved_removal.clone());
        let spec = VidraTargetSpec { desired, suspend: false, approved_removal, ..target.spec.clone() };
        self.hub.api.replace_target(&VidraTarget { spec, ..target.clone() }).await
    }

    /// A target on a member that does not allow the namespace goes by the member's onRevoke; else it stays as it is, and
    /// what was decided of it while it was allowed waits.
    pub(super) async fn withdraw(&self, cluster: &str, target: &VidraTarget) -> Result<(), CallError> {
        let spec = &target.spec;
        let status = target.status.clone().unwrap_or_default();
        let is_gone = spec.desired != Wish::Present
            && is_torn_down(&status, target.metadata.generation.unwrap_or_default());
        if is_gone || spec.desired == Wish::Forgotten {
            return self.send_away(cluster, target, None).await;
        }
        if let Some(approved) = revoke::taken(self.hub, &self.target_key(cluster), target) {
            return self.send_away(cluster, target, approved.as_deref()).await;
        }
        // A word for its removal says nothing of its objects.
        let approved_removal = spec.approved_removal.clone().filter(|_| spec.desired == Wish::Present);
        let (desired, recalls) = (Wish::Present, spec.recalled());
        let spec = VidraTargetSpec { desired, recalls, suspend: false, approved_removal, ..spec.clone() };
        self.update(cluster, target, spec).await
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

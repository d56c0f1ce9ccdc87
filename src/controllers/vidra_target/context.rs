//! What all steps of a reconcile share: the hub, whose target it is, and how its VidraTarget wants it kept.

use std::{sync::Arc, time::Duration};

use kube::ResourceExt;
use vidra_api::{
    ContainerDeletion, DriftPolicy, DriftState, ExistingPolicy, FieldPolicy, MemberCluster,
    VidraResourceSpec, VidraTarget,
    labels::TAKE_OVER_FROM,
    names::{OwnerHash, field_manager},
    target::DesiredState,
};
use vidra_core::{
    mutants::{self, Mutant},
    object::ObjectKey,
    owner::Owner,
    plan::Policy,
};

use super::requeue::{Requeue, Retry};
use crate::{
    base::{backoff::jittered, withdrawal::Withdrawn},
    config::clamped_duration,
    controllers::{
        Hub, RETRY_MOST, RETRY_RARELY,
        confirmation::{Confirmation, confirm},
        member_cluster::intended_uid,
    },
    desired::Desired,
    hub::inventory,
    member::{apply::Executor, fence::Fence, session::Session},
    workqueue::{TargetKey, Verdict},
};

/// How long applied objects may take to become healthy, where nobody says otherwise.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Read by every step, changed by none.
pub(super) struct Context<'a> {
    pub(super) hub: &'a Hub,
    pub(super) key: &'a TargetKey,
    /// As it was when the reconcile began.
    pub(super) target: &'a VidraTarget,
}

/// Suspended; a member that leaves is not, for its objects go by its owner's wish.
pub(super) fn is_at_rest(member: &MemberCluster) -> bool {
    member.spec.suspend && member.metadata.deletion_timestamp.is_none()
}

impl Context<'_> {
    /// Leave to work on the member for as long as what this reconcile goes by stands.
    pub(super) fn fence<'s>(&'s self, session: &'s Session) -> Fence<'s> {
        let began = self.restraints();
        let stands = move || {
            let Self { hub, key, target } = self;
            if !hub.leads() {
                return Err(Withdrawn::Lease);
            }
            let now = hub.catalog.target(key).filter(|now| {
                now.metadata.generation == target.metadata.generation && now.uid() == target.uid()
            });
            let now = now.ok_or(Withdrawn::Target)?;
            if hub.catalog.member(&key.cluster).is_some_and(|member| is_at_rest(&member))
                || self.is_suspended()
            {
                return Err(Withdrawn::Suspended);
            }
            if self.restraints() != began {
                return Err(Withdrawn::Target);
            }
            match confirm(hub, key, &now.spec) {
                Confirmation::Confirmed => Ok(()),
                _ => Err(Withdrawn::Unwanted),
            }
        };
        Fence::new(|| session.epoch(), stands)
    }

    /// Performs effects for this target, and knows what is written of its inventory. `is_claimed`: whether another
    /// VidraResource may declare an object, as it is known when that is asked.
    pub(super) fn executor<'s>(
        &'s self,
        session: &'s Session,
        owner: &'s Owner,
        desired: &'s Desired,
        fence: &'s Fence<'s>,
        is_claimed: impl Fn(&ObjectKey) -> bool + Send + Sync + 's,
    ) -> Executor<'s> {
        let is_recorded = move |object: &ObjectKey, uid: &str| {
            inventory::has_uid(&self.hub.catalog.inventory(self.key), object, uid)
        };
        Executor::new(session, owner, desired, fence, is_recorded, is_claimed)
    }

    /// The owner label's hash of a target of this hub.
    pub(super) fn owner_hash(&self, target: &TargetKey) -> OwnerHash {
        OwnerHash::new(&self.hub.identity.hub, &target.namespace, &target.resource)
    }

    pub(super) fn owner(&self, create_namespaces: bool) -> Owner {
        let hub = &self.hub.identity.hub;
        let (namespace, resource) = (&*self.key.namespace, &*self.key.resource);
        let member = self.hub.catalog.member(&self.key.cluster);
        let resource_now = self.hub.catalog.resource(&self.key.resource_key());
        let made =
            resource_now.and_then(|now| now.metadata.creation_timestamp.as_ref().map(|at| at.0.as_second()));
        Owner {
            hub: hub.clone(),
            hash: self.owner_hash(self.key),
            manager: field_manager(hub, namespace, resource),
            name: format!("{namespace}/{resource}"),
            generation: self.target.spec.generation,
            since: made.unwrap_or_default(),
            leaves: self.target.spec.desired != DesiredState::Present,
            create_namespaces,
            conflicts: self.target.spec.conflicts.clone(),
            take_over_from: member.and_then(|member| member.annotations().get(TAKE_OVER_FROM).cloned()),
        }
    }

    pub(super) fn policy(&self) -> Policy {
        let spec = &self.target.spec;
        let drift = spec.drift.policy;
        let drift = match mutants::is(Mutant::ReportRepairs)
            && self.target.status.as_ref().and_then(|status| status.drift) == Some(DriftState::Drifted)
        {
            true => DriftPolicy::Correct,
            false => drift,
        };
        Policy {
            adopt: spec.conflicts.existing != ExistingPolicy::Fail,
            force: spec.conflicts.fields == FieldPolicy::Force,
            when_empty: spec.namespace_and_crd_deletion == ContainerDeletion::WhenEmpty
                && !self.is_to_retain(),
            drift,
        }
    }

    /// What its VidraResource says now, also where that is not written into the VidraTarget yet.
    fn resource_says(&self, says: impl FnOnce(&VidraResourceSpec) -> bool) -> bool {
        let resource = self.hub.catalog.resource(&self.key.resource_key());
        resource.is_some_and(|now| says(&now.spec)) && !mutants::is(Mutant::RestraintsWritten)
    }

    /// The VidraResource has Namespaces and CRDs kept.
    fn is_to_retain(&self) -> bool {
        self.resource_says(|spec| spec.namespace_and_crd_deletion == ContainerDeletion::Retain)
    }

    /// What is not declared any more is deleted.
    pub(super) fn prunes(&self) -> bool {
        self.target.spec.prune && !self.resource_says(|spec| !spec.prune)
    }

    /// It is to be there, and is left as it is.
    pub(super) fn is_suspended(&self) -> bool {
        let spec = &self.target.spec;
        spec.desired == DesiredState::Present && (spec.suspend || self.resource_says(|spec| spec.suspend))
    }

    /// What keeps removals back.
    fn restraints(&self) -> (bool, bool) {
        (self.prunes(), self.is_to_retain())
    }

    pub(super) fn follows_events(&self) -> bool {
        self.target.spec.reconcile.on_events.unwrap_or(self.hub.tuning.now().on_events)
    }

    /// How long applied objects may take to become healthy.
    pub(super) fn timeout(&self) -> Duration {
        clamped_duration(self.target.spec.reconcile.timeout.as_deref()).unwrap_or(TIMEOUT)
    }

    pub(super) fn interval(&self) -> Duration {
        let own = clamped_duration(self.target.spec.reconcile.interval.as_deref());
        jittered(own.unwrap_or(self.hub.tuning.now().interval), self.hub.rng.as_ref())
    }

    /// The queue's verdict for this requeue: failures use the VidraResource's `retryInterval`, else the settings' pauses.
    pub(super) fn verdict(&self, requeue: Requeue) -> Verdict {
        let class = match requeue {
            Requeue::OnChange => return Verdict::Done(None),
            Requeue::AtOnce => return Verdict::Done(Some(Duration::ZERO)),
            Requeue::After(time) => return Verdict::Done(Some(time)),
            Requeue::Backstop => return Verdict::Done(Some(RETRY_RARELY)),
            Requeue::Retry(class) => class,
        };
        let settings = self.hub.tuning.now();
        match (clamped_duration(self.target.spec.reconcile.retry_interval.as_deref()), class) {
            (Some(own), _) => Verdict::Backoff(own),
            (None, _) if !settings.retry => Verdict::Done(Some(self.interval())),
            (None, Retry::Soon) => Verdict::Backoff(RETRY_MOST.min(settings.retry_max)),
            (None, Retry::Rarely) => Verdict::Backoff(settings.retry_max),
        }
    }

    /// Which cluster the target's member is.
    pub(super) fn cluster_uid(&self) -> Option<Arc<str>> {
        self.hub.catalog.member(&self.key.cluster).and_then(|member| intended_uid(self.hub, &member))
    }
}

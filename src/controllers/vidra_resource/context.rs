//! What all steps of a reconcile share: the hub, the VidraResource, and what is named after it.

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use tokio::sync::OnceCell;
use vidra_api::{
    VidraResource, VidraResourceStatus, VidraTarget, find, labels::FINALIZER, names::OwnerHash, set_condition,
};
use vidra_core::status::{Problem, Reason};

use crate::{
    base::error::CallError,
    controllers::Hub,
    hub::{crd_deletion::Ending, events::Severity},
    workqueue::{Key, ResourceKey, TargetKey},
};

/// VidraTargets of one VidraResource, by cluster.
pub(super) type Targets = BTreeMap<String, Arc<VidraTarget>>;
/// What became of writing VidraTargets, by cluster.
pub(super) type Written = Vec<(String, Result<(), CallError>)>;

/// Read by every step, changed by none.
pub(super) struct Context<'a> {
    pub(super) hub: &'a Hub,
    pub(super) key: &'a ResourceKey,
    /// As it was when the reconcile began.
    pub(super) resource: &'a VidraResource,
    /// Whether the whole kind is being deleted, once this reconcile has asked.
    pub(super) ending: OnceCell<Ending>,
}

impl Context<'_> {
    pub(super) fn is_deleted(&self) -> bool {
        self.resource.metadata.deletion_timestamp.is_some()
    }

    pub(super) fn uid(&self) -> String {
        self.resource.uid().unwrap_or_default()
    }

    /// The target's MemberCluster is another one than when it was delivered to.
    pub(super) fn is_remade(&self, target: &VidraTarget) -> bool {
        let now = self.hub.catalog.member(&target.spec.cluster).and_then(|member| member.uid());
        target.spec.member_uid.is_some() && now.is_some() && now != target.spec.member_uid
    }

    pub(super) fn generation(&self) -> i64 {
        self.resource.metadata.generation.unwrap_or_default()
    }

    pub(super) fn owner(&self) -> OwnerHash {
        OwnerHash::new(&self.hub.identity.hub, &self.key.namespace, &self.key.name)
    }

    pub(super) fn owner_reference(&self) -> Option<Vec<OwnerReference>> {
        self.resource.controller_owner_ref(&()).map(|reference| vec![reference])
    }

    pub(super) fn queue_key(&self) -> Key {
        Key::Resource(self.key.clone())
    }

    pub(super) fn target_key(&self, cluster: &str) -> TargetKey {
        TargetKey {
            namespace: self.key.namespace.clone(),
            resource: self.key.name.clone(),
            cluster: cluster.into(),
        }
    }

    /// Its VidraTargets as they are now.
    pub(super) fn targets(&self) -> Targets {
        self.hub.catalog.targets_of(self.key)
    }

    /// Says it in an Event, too.
    pub(super) fn say(&self, problem: &Problem) {
        self.warn(problem.reason, &problem.message);
    }

    pub(super) fn warn(&self, reason: Reason, message: &str) {
        self.hub.events.say(self.resource, Severity::Warning, reason, message);
    }

    /// Puts a complaint under a condition of its own, or takes that out again where there is none; reason and message, where
    /// the condition did not say so before.
    pub(super) fn put_complaint(
        &self,
        status: &mut VidraResourceStatus,
        condition: &str,
        complaint: Option<(Reason, String)>,
    ) -> Option<(Reason, String)> {
        let Some((reason, message)) = complaint else {
            status.conditions.retain(|one| one.type_ != condition);
            return None;
        };
        let is_news = find(&status.conditions, condition).is_none_or(|known| known.message != message);
        let generation = self.resource.metadata.generation;
        let (conditions, now) = (&mut status.conditions, self.hub.clock.time());
        set_condition(conditions, condition, true, reason.as_str(), &message, generation, now);
        is_news.then_some((reason, message))
    }

    /// Has a bounded number of these under way at once, each whatever becomes of the others; what comes of them, in their
    /// order.
    pub(super) async fn side_by_side<T>(&self, calls: Vec<impl Future<Output = T>>) -> Vec<T> {
        stream::iter(calls).buffered(self.hub.limits.resource_calls).collect().await
    }
}

/// Our finalizer is on it.
pub(super) fn has_finalizer(object: &impl ResourceExt) -> bool {
    object.finalizers().iter().any(|one| one == FINALIZER)
}

/// The first finalizer on it that is not ours.
pub(super) fn foreign_finalizer(object: &impl ResourceExt) -> Option<&String> {
    object.finalizers().iter().find(|one| *one != FINALIZER)
}

//! Whether what a VidraTarget asks for is what its VidraResource and its MemberCluster ask for. The VidraTarget is
//! written by one process and acted on by another, perhaps much later, or after a restore that brought back some objects
//! and not others: nothing is removed for a wish that nobody has now. Decided from what this process has seen itself,
//! without a call.

use kube::ResourceExt;
use vidra_api::{MemberCluster, VidraResource, VidraTargetSpec, target::Desired as Wish};
use vidra_core::{
    mutants::{self, Mutant},
    select::{self, Member},
};

use super::Hub;
use crate::queue::TargetKey;

/// What came of looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Affirmed {
    /// It is wanted.
    Yes,
    /// It is not, and the resource loop is going to say what is.
    NotYet,
    /// Its MemberCluster does not allow the namespace any more, and what becomes of that is not decided.
    NotAllowed,
    /// Its VidraResource is not there: nobody can say what is wanted.
    ResourceMissing,
    /// Its MemberCluster is not there, which is no wish to leave: that is deleting it, and it stays until it has left.
    MemberMissing,
}

/// A MemberCluster as far as it decides who targets it.
pub(super) fn selectable(member: &MemberCluster) -> Member<'_> {
    Member {
        name: member.metadata.name.as_deref().unwrap_or_default(),
        labels: member.labels(),
        allowed_namespaces: member.spec.allowed_namespaces.as_deref(),
        leaving: member.metadata.deletion_timestamp.is_some(),
    }
}

/// The VidraResource, of this namespace, targets the member.
pub(super) fn selects(resource: &VidraResource, namespace: &str, member: &MemberCluster) -> bool {
    let (targets, excluded) = (&resource.spec.targets, &resource.spec.exclude_clusters);
    !select::select(namespace, targets, excluded, &[selectable(member)]).targets.is_empty()
}

/// Looks at what a VidraTarget's spec asks for.
pub(super) fn affirm(hub: &Hub, key: &TargetKey, spec: &VidraTargetSpec) -> Affirmed {
    if spec.desired == Wish::Forgotten {
        // A person's word, and no member is asked.
        return Affirmed::Yes;
    }
    let Some(resource) = hub.catalog.resource(&key.resource_key()) else {
        return match mutants::is(Mutant::DeleteOnFailedList) {
            true => Affirmed::Yes,
            false => Affirmed::ResourceMissing,
        };
    };
    let Some(member) = hub.catalog.member(&key.cluster) else {
        return match mutants::is(Mutant::MissingMemberAffirms) {
            true => Affirmed::Yes,
            false => Affirmed::MemberMissing,
        };
    };
    let view = selectable(&member);
    let is_yes = match spec.desired {
        Wish::Present if !view.allows(&key.namespace) => return Affirmed::NotAllowed,
        Wish::Present => true,
        _ if resource.metadata.deletion_timestamp.is_some() || view.leaving => true,
        _ => !selects(&resource, &key.namespace, &member),
    };
    if is_yes { Affirmed::Yes } else { Affirmed::NotYet }
}

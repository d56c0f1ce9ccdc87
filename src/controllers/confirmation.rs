//! Whether what a VidraTarget asks for is what its VidraResource and its MemberCluster ask for. The VidraTarget is
//! written by one process and acted on by another, perhaps much later, or after a restore that brought back some objects
//! and not others: nothing is removed for a wish that nobody has now. Decided from what this process has seen itself,
//! without a call.

use std::sync::Arc;

use kube::ResourceExt;
use vidra_api::{
    DeletionPolicy, MemberCluster, VidraResource, VidraTarget, VidraTargetSpec,
    labels::{APPROVE_ORPHANING, APPROVE_REMOVAL, FORGET},
    member::{OnLeave, OnRevoke},
    target::DesiredState,
};
use vidra_core::{
    mutants::{self, Mutant},
    select::{self, Member, Selection},
};

use super::Hub;
use crate::{config::dynamic_settings::DynamicSettings, hub::catalog::Lack, workqueue::TargetKey};

/// Whether what a VidraTarget asks for is still wanted; if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confirmation {
    /// It is wanted.
    Confirmed,
    /// It is not, and the resource loop is going to say what is, once the VidraResource can be delivered.
    NotYet,
    /// Its MemberCluster does not allow the namespace any more: it is left as it is.
    NotAllowed,
    /// Its VidraResource is not there: nobody can say what is wanted.
    ResourceMissing,
    /// Its MemberCluster is not there, which is no wish to leave: that is deleting it, and it stays until it has left.
    MemberMissing,
    /// Its VidraResource is there and cannot be read, so nobody here knows what is wanted.
    ResourceUnread,
    /// Its MemberCluster is there and cannot be read.
    MemberUnread,
}

/// A MemberCluster as far as it decides who targets it.
fn selectable<'a>(member: &'a MemberCluster, settings: &'a DynamicSettings) -> Member<'a> {
    let own = member.spec.allowed_namespaces.as_deref();
    Member {
        name: member.metadata.name.as_deref().unwrap_or_default(),
        labels: member.labels(),
        allowed_namespaces: own.or(settings.default_allowed_namespaces.as_deref()),
        leaving: member.metadata.deletion_timestamp.is_some(),
    }
}

/// Which of these members a VidraResource targets.
pub(super) fn select(hub: &Hub, resource: &VidraResource, members: &[Arc<MemberCluster>]) -> Selection {
    let (settings, spec) = (hub.tuning.now(), &resource.spec);
    let views: Vec<_> = members.iter().map(|member| selectable(member, &settings)).collect();
    let namespace = resource.metadata.namespace.as_deref().unwrap_or_default();
    select::select(namespace, &spec.targets, &spec.exclude_clusters, &views)
}

/// A person says that what a VidraTarget has is to stay without its VidraResource, where that is not there: of this one,
/// or of all on a member that leaves.
pub(super) fn may_be_orphaned(hub: &Hub, target: &VidraTarget) -> bool {
    mutants::is(Mutant::OrphansUnasked)
        || target.annotations().get(APPROVE_REMOVAL).is_some_and(|word| word == APPROVE_ORPHANING)
        || (is_given_up(hub, &target.spec.cluster) && !mutants::is(Mutant::MissingHoldsLeaving))
}

/// The command by which a person says so of one.
pub(super) fn orphaning_command(key: &TargetKey) -> String {
    format!(
        "kubectl annotate vidratarget {} -n {} {APPROVE_REMOVAL}={APPROVE_ORPHANING}",
        key.target_name(),
        key.namespace,
    )
}

/// A person has deleted the MemberCluster and says that what it has may stay behind.
pub(super) fn is_given_up(hub: &Hub, cluster: &str) -> bool {
    hub.catalog.member(cluster).is_some_and(|member| {
        member.metadata.deletion_timestamp.is_some()
            && member.annotations().get(FORGET).is_some_and(|value| value == "true")
    })
}

/// The namespace in the member that a VidraResource delivers to; `None`: it does not target the member.
pub(super) fn destination(
    hub: &Hub,
    resource: &VidraResource,
    member: &Arc<MemberCluster>,
) -> Option<String> {
    select(hub, resource, std::slice::from_ref(member)).targets.into_values().next()
}

/// How a target ends, as its VidraResource and its MemberCluster have it now: where the member leaves, or does not allow the
/// namespace any more, by its own policy. `None`: it stays. `selection`: of the VidraResource, of this member.
pub(super) fn removal(
    resource: &VidraResource,
    member: &MemberCluster,
    selection: &Selection,
) -> Option<DesiredState> {
    if member.metadata.deletion_timestamp.is_some() {
        return Some(match member.spec.on_leave {
            OnLeave::Orphan => DesiredState::Orphaned,
            OnLeave::Delete => DesiredState::Absent,
        });
    }
    if resource.metadata.deletion_timestamp.is_none() && selection.is_barred(&member.name_any()) {
        return end_on_revoke(member);
    }
    Some(by_policy(resource))
}

/// What a MemberCluster asks for where it does not allow a namespace; `None`: that it stays. What the setting took away
/// stays.
pub(super) fn end_on_revoke(member: &MemberCluster) -> Option<DesiredState> {
    if mutants::is(Mutant::RevokedGoes) {
        return Some(DesiredState::Absent);
    }
    member.spec.allowed_namespaces.as_ref()?;
    match member.spec.on_revoke {
        OnRevoke::Keep => None,
        OnRevoke::Orphan => Some(DesiredState::Orphaned),
        OnRevoke::Delete => Some(DesiredState::Absent),
    }
}

/// How a target ends that no member has a say in.
pub(super) fn by_policy(resource: &VidraResource) -> DesiredState {
    match resource.spec.deletion_policy {
        DeletionPolicy::Delete => DesiredState::Absent,
        DeletionPolicy::Orphan => DesiredState::Orphaned,
    }
}

/// A person has deleted the MemberCluster, which is still there.
pub(super) fn is_leaving(hub: &Hub, cluster: &str) -> bool {
    hub.catalog.member(cluster).is_some_and(|member| member.metadata.deletion_timestamp.is_some())
}

/// Compares what a VidraTarget's spec asks for with its VidraResource and its MemberCluster as they are now.
pub(super) fn confirm(hub: &Hub, key: &TargetKey, spec: &VidraTargetSpec) -> Confirmation {
    if spec.desired == DesiredState::Forgotten {
        // A person's word, and no member is asked.
        return Confirmation::Confirmed;
    }
    let without_member = |lack| match lack {
        Lack::Unread => Confirmation::MemberUnread,
        Lack::Missing => Confirmation::MemberMissing,
    };
    let member = hub.catalog.find_member(&key.cluster);
    let resource = match hub.catalog.find_resource(&key.resource_key()) {
        Ok(resource) => resource,
        Err(Lack::Unread) => return Confirmation::ResourceUnread,
        Err(Lack::Missing) => {
            let is_orphaned = || hub.catalog.target(key).is_some_and(|target| may_be_orphaned(hub, &target));
            return match spec.desired {
                _ if mutants::is(Mutant::DeleteOnFailedList) => Confirmation::Confirmed,
                DesiredState::Orphaned if is_orphaned() => {
                    member.map_or_else(without_member, |_| Confirmation::Confirmed)
                }
                _ => Confirmation::ResourceMissing,
            };
        }
    };
    let member = match member {
        Ok(member) => member,
        Err(_) if mutants::is(Mutant::MissingMemberConfirms) => return Confirmation::Confirmed,
        Err(lack) => return without_member(lack),
    };
    let settings = hub.tuning.now();
    let view = selectable(&member, &settings);
    let is_yes = match spec.desired {
        DesiredState::Present if !view.allows(&key.namespace) => return Confirmation::NotAllowed,
        DesiredState::Present => true,
        end => {
            let selection = select(hub, &resource, std::slice::from_ref(&member));
            let goes = resource.metadata.deletion_timestamp.is_some()
                || view.leaving
                || selection.is_barred(&key.cluster)
                || !selection.targets.contains_key(&*key.cluster);
            goes && (removal(&resource, &member, &selection) == Some(end) || mutants::is(Mutant::WishForEver))
        }
    };
    if is_yes { Confirmation::Confirmed } else { Confirmation::NotYet }
}

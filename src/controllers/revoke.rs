//! What becomes of what is on a member that does not allow its namespace any more. Whoever declares it has not taken it
//! back, so it stays as it is, unless the MemberCluster's onRevoke says otherwise. One edit there may empty a member, so
//! that is guarded over all that is on it.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use vidra_api::{
    ConditionStatus, MemberCluster, MemberClusterStatus, VidraTarget,
    condition::STALLED,
    labels::{APPROVE_REMOVAL, FORGET},
    set_condition,
    target::DesiredState,
};
use vidra_core::{
    first_of::first_of,
    guard::{self, Removal, Targets},
    mutants::{self, Mutant},
    select::Selection,
    status::Reason,
};

use super::{
    Hub, approvals,
    confirmation::{self, may_be_orphaned, orphaning_command},
    unreadable,
};
use crate::{
    base::error::CallError,
    hub::{catalog::Lack, events::Severity},
    workqueue::{Key, TargetKey},
};

/// So many targets are named.
const NAMED: usize = 10;

/// A removal that a person has approved, while it is told to one VidraResource after the other.
pub(super) struct Approved {
    /// Uid and generation of the MemberCluster: another edit is another removal.
    of: (Option<String>, Option<i64>),
    hash: String,
    uids: BTreeSet<String>,
}

/// Whether a target is wanted by its VidraResource where the MemberCluster does not allow the namespace.
pub(super) fn is_revoked(hub: &Hub, key: &TargetKey) -> bool {
    selection(hub, key).is_some_and(|selection| selection.is_barred(&key.cluster))
}

/// What its VidraResource, where that is there and stays, selects of its member.
fn selection(hub: &Hub, key: &TargetKey) -> Option<Selection> {
    let (resource, member) = (hub.catalog.resource(&key.resource_key())?, hub.catalog.member(&key.cluster)?);
    let stays = resource.metadata.deletion_timestamp.is_none();
    stays.then(|| confirmation::select(hub, &resource, &[member]))
}

/// Whether a target goes by its member's onRevoke: with the word that approved it where it needed one.
pub(super) fn taken(hub: &Hub, key: &TargetKey, target: &VidraTarget) -> Option<Option<String>> {
    let member = hub.catalog.member(&key.cluster)?;
    let end = confirmation::end_on_revoke(&member)?;
    if !is_revoked(hub, key) {
        return None;
    }
    let goes = target.spec.desired != DesiredState::Present && mutants::is(Mutant::AnyWishUnderWay);
    if target.spec.desired == end || goes || mutants::is(Mutant::RevokedGoes) {
        // It is under way.
        return Some(None);
    }
    let losses = Losses::of(hub, &member);
    if !losses.leaving.contains_key(&name_of(key)) {
        return None;
    }
    match losses.decide(hub, &member) {
        Removal::Allowed => Some(None),
        Removal::Approved(hash) => Some(Some(hash)),
        Removal::Held { .. } => None,
    }
}

fn name_of(key: &TargetKey) -> String {
    format!("{}/{}", key.namespace, key.resource)
}

/// The targets of a member, by name and uid, as the guard has them.
struct Losses {
    existing: Targets,
    leaving: Targets,
    underway: Targets,
    /// Words that those under way bear.
    words: BTreeSet<String>,
}

impl Losses {
    fn of(hub: &Hub, member: &MemberCluster) -> Self {
        let (existing, leaving, underway) = (Targets::new(), Targets::new(), Targets::new());
        let mut losses = Self { existing, leaving, underway, words: BTreeSet::new() };
        let end = confirmation::end_on_revoke(member);
        for (key, target) in hub.catalog.fleet_on(&member.name_any()) {
            let (name, uid) = (name_of(&key), target.removal_id());
            let selection = selection(hub, &key);
            let goes = selection.as_ref().is_some_and(|selection| selection.is_barred(&key.cluster));
            // What was orphaned by another word than holds now is asked about again.
            let is_other =
                goes && Some(target.spec.desired) != end && target.spec.desired != DesiredState::Forgotten;
            if target.spec.desired == DesiredState::Present || is_other {
                if goes {
                    losses.leaving.insert(name.clone(), uid.clone());
                }
                // One that its VidraResource is letting go is none of those that stay.
                let stays = selection.is_some_and(|selection| selection.targets.contains_key(&*key.cluster));
                if goes || stays || mutants::is(Mutant::LeaversStay) {
                    losses.existing.insert(name, uid);
                }
            } else if goes {
                losses.words.extend(target.spec.approved_removal.clone());
                losses.underway.insert(name, uid);
            }
        }
        losses
    }

    fn decide(&self, hub: &Hub, member: &MemberCluster) -> Removal {
        let name = member.name_any();
        let of = (member.uid(), member.metadata.generation);
        let uids: BTreeSet<String> = self.leaving.values().cloned().collect();
        if let Some(known) = hub.state.lock().member(&name).and_then(|one| one.revoking.as_ref())
            && known.of == of
            && !uids.is_empty()
            && uids.is_subset(&known.uids)
        {
            return Removal::Approved(known.hash.clone());
        }
        let annotation = member.annotations().get(APPROVE_REMOVAL).map(String::as_str);
        let mut words = approvals::valid(hub, &Key::Cluster(name.as_str().into()), annotation);
        words.extend(self.words.iter().map(String::as_str));
        // Whoever approves that objects are orphaned has not approved that they are deleted.
        let of_end = format!("{} {:?}", member.uid().unwrap_or_default(), member.spec.on_revoke);
        let share = hub.tuning.now().removal_guard;
        let decided =
            guard::targets(&of_end, &self.existing, &self.leaving, &self.underway, None, share, &words);
        if let Removal::Approved(hash) = &decided {
            // Those that are told first may be gone before others are told.
            let approved = Approved { of, hash: hash.clone(), uids };
            hub.state.lock().member_mut(&name).revoking = Some(approved);
        }
        decided
    }

    /// What is held, and what lets it go.
    fn held(&self, member: &MemberCluster, hash: &str) -> String {
        format!(
            "held: spec.onRevoke {:?} would take {} of {} targets ({}), more than the removal guard allows, and the hub leaves them as they are. If this is meant: kubectl annotate membercluster {} --overwrite {APPROVE_REMOVAL}={hash}",
            member.spec.on_revoke,
            self.leaving.len(),
            self.existing.len(),
            first_of(self.leaving.keys(), NAMED),
            member.name_any(),
        )
    }
}

/// With the condition Stalled set, and an Event, or without: a removal by onRevoke is held, or a MemberCluster that leaves cannot go.
pub(super) fn with_stalled(
    hub: &Hub,
    member: &MemberCluster,
    mut status: MemberClusterStatus,
) -> MemberClusterStatus {
    let losses = confirmation::end_on_revoke(member).map(|_| Losses::of(hub, member));
    let held = losses.and_then(|losses| match losses.decide(hub, member) {
        Removal::Held { hash, .. } => Some((Reason::RemovalHeld, losses.held(member, &hash))),
        Removal::Allowed | Removal::Approved(_) => None,
    });
    let leaves = member.metadata.deletion_timestamp.is_some();
    let unread = || {
        let target = hub.catalog.unread_target_on(&member.name_any()).filter(|_| leaves)?;
        Some((Reason::HubTooOld, unreadable::message(&format!("VidraTarget {target}"))))
    };
    let without = || {
        let fleet = if leaves { hub.catalog.fleet_on(&member.name_any()) } else { BTreeMap::new() };
        let mut waits = fleet.iter().filter(|(_, target)| !may_be_orphaned(hub, target));
        let (key, _) = waits.find(|(key, _)| is_without_resource(hub, key))?;
        Some((Reason::ResourceMissing, waits_for(key)))
    };
    let without = || without().filter(|_| !mutants::is(Mutant::MissingHoldsLeaving));
    match held.or_else(unread).or_else(without) {
        Some((reason, message)) => {
            hub.events.say(member, Severity::Warning, reason, &message);
            let (is, generation, now) = (ConditionStatus::True, member.metadata.generation, hub.clock.time());
            set_condition(&mut status.conditions, STALLED, is, reason.as_str(), &message, generation, now);
        }
        None => status.conditions.retain(|condition| condition.type_ != STALLED),
    }
    status
}

/// The VidraResource of a target is not there.
pub(super) fn is_without_resource(hub: &Hub, key: &TargetKey) -> bool {
    matches!(hub.catalog.find_resource(&key.resource_key()), Err(Lack::Missing))
}

/// What a MemberCluster that leaves waits for, where a VidraTarget has no VidraResource.
fn waits_for(key: &TargetKey) -> String {
    let TargetKey { namespace, resource, cluster } = key;
    format!(
        "VidraTarget {key} exists and VidraResource {namespace}/{resource} does not. That is no wish to delete: the MemberCluster stays until that target has gone. Apply the VidraResource again, or keep what it delivered without it: {}. To keep all that such targets have there: kubectl annotate membercluster {cluster} {FORGET}=true",
        orphaning_command(key),
    )
}

/// Takes off a MemberCluster the approval that its VidraTargets have taken over. What approves nothing is told once.
pub(super) async fn use_up_approvals(hub: &Hub, name: &str) -> Result<(), CallError> {
    let key = Key::Cluster(name.into());
    let Some(member) = hub.catalog.member(name) else { return Ok(()) };
    let Some(annotation) = member.annotations().get(APPROVE_REMOVAL) else {
        approvals::idle(hub, &key, None);
        return Ok(());
    };
    let losses = confirmation::end_on_revoke(&member).map(|_| Losses::of(hub, &member));
    if losses.is_some_and(|losses| matches!(losses.decide(hub, &member), Removal::Approved(_))) {
        // It is yet to be told to some.
        return Ok(());
    }
    let fleet = hub.catalog.fleet_on(name);
    // Those that bore it may be gone.
    let told = {
        let state = hub.state.lock();
        state.member(name).and_then(|one| one.revoking.as_ref()).map(|known| known.hash.clone())
    };
    let in_use = fleet.values().filter_map(|target| target.spec.approved_removal.as_deref());
    let in_use = in_use.chain(told.as_deref()).collect();
    if let Some(used) = approvals::to_use_up(hub, &key, annotation, &in_use) {
        hub.api.reannotate_member(&member, APPROVE_REMOVAL, used.rest.clone()).await?;
        approvals::note_used(hub, &key, used);
        return Ok(());
    }
    if let Some(message) = approvals::idle(hub, &key, Some(annotation)) {
        hub.events.say(member.as_ref(), Severity::Warning, Reason::ApprovalIgnored, &message);
    }
    Ok(())
}

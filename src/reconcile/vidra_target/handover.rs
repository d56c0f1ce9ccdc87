//! Objects that a target does not declare any more: what another VidraResource declares is handed over to it, and what
//! nobody declares stays for a moment, for whoever is to take it over may be looked at next.

use std::{collections::BTreeMap, time::Duration};

use kube::ResourceExt;
use tokio::time::Instant;
use vidra_api::{DriftPolicy, RemovingObjects, names::OwnerHash, target::Desired as Wish};
use vidra_core::{
    object::ObjectKey,
    plan::{Handover, Plan},
    status::{Delivery, HANDING_OVER, PRUNE_DELAYED},
};

use super::Pass;
use crate::{
    hub::inventory,
    member::{
        claims::Claim,
        session::{Session, State},
    },
    queue::{Key, Priority, ResourceKey, TargetKey},
    reconcile::revoke,
};

/// What waits for others is looked at again after this; mostly an event of the object comes first.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// The same while it is not known what others declare.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// Since when this process has seen that objects of a target are not declared.
pub(in crate::reconcile) type Undeclared = BTreeMap<ObjectKey, Instant>;

impl Pass<'_> {
    /// Tells the member's other targets what this one declares there.
    pub(super) fn claim(&self, claim: Claim) {
        if let Some(session) = self.hub.session(&self.key.cluster) {
            session.claims.note(self.key, &self.target.spec.revision, claim);
        }
    }

    /// It declares nothing there any more.
    pub(super) fn disclaim(&self) {
        if let Some(session) = self.hub.session(&self.key.cluster) {
            session.claims.forget(self.key);
        }
    }

    /// A suspended target declares what it declared.
    pub(super) async fn claim_at_rest(&self) {
        let Some(session) = self.hub.session(&self.key.cluster) else { return };
        if session.claims.is_noted(self.key, &self.target.spec.revision) {
            return;
        }
        let claim = match session.state() {
            State::Open(_) => self.desired(&session).await.map(|(desired, _)| Claim::Objects(desired)),
            _ => return,
        };
        self.claim(claim.unwrap_or(Claim::Unknown));
    }

    /// What of these objects, which are declared no more, is not to be removed now, or is another one's.
    pub(super) fn handovers<'k>(
        &self,
        session: &Session,
        gone: impl Iterator<Item = &'k ObjectKey>,
    ) -> BTreeMap<ObjectKey, Handover> {
        let mut gone = gone.peekable();
        let member = self.hub.catalog.member(&self.key.cluster);
        let leaves = member.is_some_and(|member| member.metadata.deletion_timestamp.is_some());
        // Where a member leaves nobody takes anything over.
        if gone.peek().is_none() || leaves {
            self.hub.memo.lock().undeclared.remove(self.key);
            return BTreeMap::new();
        }
        let (own, unknown) = (self.owner_of(self.key), self.unknown(session));
        let delay = self.prune_delay();
        let (now, mut since) = (Instant::now(), Undeclared::new());
        let before = self.hub.memo.lock().undeclared.remove(self.key).unwrap_or_default();
        let mut handovers = BTreeMap::new();
        let mut again: Option<Duration> = None;
        let mut look_again = |wait: Duration| again = Some(again.map_or(wait, |held| held.min(wait)));
        for key in gone {
            let seen = before.get(key).copied();
            since.insert(key.clone(), seen.unwrap_or(now));
            let rest = delay.saturating_sub(now.duration_since(seen.unwrap_or(now)));
            let holds = |other: &TargetKey| inventory::has(&self.hub.catalog.inventory(other), key);
            let mut claimants = session.claims.claimants(self.key, key, holds);
            claimants.retain(|other| self.is_kept(other));
            let has_it = |other: &TargetKey| session.records.is_applied_for(key, &self.owner_of(other));
            let is_declared = !claimants.is_empty();
            let handover = match claimants.iter().find(|other| self.will_apply(other)) {
                _ if claimants.iter().any(has_it) => Handover::Done,
                // Whoever applies it, it does not go with this one.
                _ if is_declared && session.records.is_shared(key, &own) => Handover::Done,
                None if is_declared => Handover::Unclaimed,
                Some(other) => {
                    look_again(LOOK_AGAIN);
                    let name = other.resource.as_ref().into();
                    if seen.is_none() {
                        // It was refused, maybe, while this one declared the object.
                        self.hub.queue.add(Key::Target(other.clone()), Priority::Resync);
                    }
                    Handover::Awaited(name)
                }
                None => match &unknown {
                    Some(other) => {
                        look_again(ASK_AGAIN);
                        Handover::Unknown(other.clone())
                    }
                    None if rest.is_zero() => continue,
                    None => {
                        look_again(rest);
                        Handover::Delayed
                    }
                },
            };
            handovers.insert(key.clone(), handover);
        }
        self.hub.memo.lock().undeclared.insert(self.key.clone(), since);
        if let Some(wait) = again {
            self.hub.queue.add_after(Key::Target(self.key.clone()), wait);
        }
        handovers
    }

    /// Its revision is not applied yet, or what it lacks is made again; and it may be written there.
    fn will_apply(&self, other: &TargetKey) -> bool {
        !revoke::is_revoked(self.hub, other)
            && self.hub.catalog.target(other).is_some_and(|target| {
                let applied = target.status.as_ref().and_then(|status| status.revision.as_deref());
                target.spec.drift.policy == DriftPolicy::Correct || applied != Some(&*target.spec.revision)
            })
    }

    /// It is to be there.
    fn is_kept(&self, other: &TargetKey) -> bool {
        self.hub.catalog.target(other).is_some_and(|target| target.spec.desired == Wish::Present)
    }

    /// A VidraResource of the namespace of which is not known what it declares on this member in its newest generation.
    fn unknown(&self, session: &Session) -> Option<Box<str>> {
        let looked = |resource: &vidra_api::VidraResource| {
            let key = ResourceKey { namespace: self.key.namespace.clone(), name: resource.name_any().into() };
            self.hub.memo.lock().looked.get(&key) == Some(&resource.metadata.generation.unwrap_or_default())
        };
        let fleet = self.hub.catalog.fleet_on(&self.key.cluster);
        let mut silent = fleet.iter().filter(|(key, target)| {
            key.namespace == self.key.namespace
                && key.resource != self.key.resource
                && target.spec.desired == Wish::Present
                && target.metadata.deletion_timestamp.is_none()
                && !session.claims.is_noted(key, &target.spec.revision)
        });
        let resources = self.hub.catalog.resources_in(&self.key.namespace);
        let new = resources.iter().find(|resource| !looked(resource));
        let new = new.map(|resource| resource.name_any().into());
        new.or_else(|| silent.next().map(|(key, _)| (*key.resource).into()))
    }

    /// None where a person deletes the VidraResource.
    fn prune_delay(&self) -> Duration {
        let resource = self.hub.catalog.resource(&self.key.resource_key());
        match resource.is_some_and(|resource| resource.metadata.deletion_timestamp.is_some()) {
            true => Duration::ZERO,
            false => self.hub.tuning.now().prune_delay,
        }
    }

    fn owner_of(&self, target: &TargetKey) -> OwnerHash {
        OwnerHash::new(&self.hub.identity.hub, &target.namespace, &target.resource)
    }

    /// What a target that goes says while some of its objects stay.
    pub(super) fn stays(&self, plan: &Plan) -> Option<Delivery> {
        let (reason, message) = why_kept(plan)?;
        Some(Delivery::TearingDown { reason, message })
    }
}

/// What stays for now of what a plan would remove, and why.
pub(super) fn kept(plan: &Plan) -> Option<RemovingObjects> {
    let (reason, message) = why_kept(plan)?;
    let objects = i64::try_from(plan.stays.len()).unwrap_or(i64::MAX);
    Some(RemovingObjects { objects, reason: reason.to_owned(), message: Some(message) })
}

/// Why something stays for now: the reason, and the first object in words.
fn why_kept(plan: &Plan) -> Option<(&'static str, String)> {
    // What waits for others is told first: it may need a person.
    let (key, handover) = plan.stays.iter().rev().max_by_key(|(_, handover)| (*handover).clone())?;
    Some(match handover {
        Handover::Awaited(other) => (
            HANDING_OVER,
            format!("{key} stays until VidraResource {other}, which declares it, has applied it"),
        ),
        Handover::Unknown(other) => (
            HANDING_OVER,
            format!("{key} stays until the hub knows whether VidraResource {other} declares it here"),
        ),
        Handover::Delayed | Handover::Done | Handover::Unclaimed => (
            PRUNE_DELAYED,
            format!("{key} stays for the setting pruneDelay: another VidraResource may take it over"),
        ),
    })
}

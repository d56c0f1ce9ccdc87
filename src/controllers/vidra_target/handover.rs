//! Objects that a target does not declare any more: what another VidraResource declares is handed over to it, and what
//! nobody declares stays for a moment, for whoever is to take it over may be looked at next.

use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

use kube::ResourceExt;
use parking_lot::Mutex;
use tokio::time::Instant;
use vidra_api::{DriftPolicy, Raw, RemovingObjects, VidraResource, VidraTarget, target::DesiredState};
use vidra_core::{
    manifest::Words,
    mutants::{self, Mutant},
    object::ObjectKey,
    plan::{Handover, Inventory, Plan},
    status::{Delivery, Reason},
};

use super::{
    context::Context,
    render::desired_state,
    requeue::{Requeue, Retry},
};
use crate::{
    controllers::{
        confirmation::{destination, is_leaving},
        revoke,
    },
    hub::{inventory, revisions::Parsed},
    member::{
        claims::Claim,
        session::{Session, State},
    },
    workqueue::{Key, Priority, TargetKey},
};

/// What waits for others is looked at again after this; mostly an event of the object comes first.
const HANDOVER_RECHECK: Duration = Duration::from_secs(10);

/// While objects are removed, what others declare is looked at again after this.
const CLAIMS_RECHECK: Duration = Duration::from_millis(250);

/// Since when this process has seen that objects of a target are not declared.
#[derive(Debug, Default, PartialEq)]
pub(in crate::controllers) struct Undeclared {
    /// By which revision, in which namespace.
    by: (String, String),
    /// When it was looked last.
    looked: Option<Instant>,
    since: BTreeMap<ObjectKey, Instant>,
}

impl Undeclared {
    pub(in crate::controllers) fn is_empty(&self) -> bool {
        self.since.is_empty()
    }

    /// Since when an object is not declared. Where the delay had run out at the last look and something else held the
    /// object, it begins again with another declaration: it is for whoever takes the object over in the same apply.
    fn since(&self, by: &(String, String), key: &ObjectKey, delay: Duration) -> Option<Instant> {
        let since = self.since.get(key).copied()?;
        let was_due = self.looked.is_some_and(|looked| looked.duration_since(since) >= delay);
        (self.by == *by || !was_due).then_some(since)
    }
}

/// Tells the member's other targets what this one declares there.
pub(super) fn claim(ctx: &Context<'_>, claim: Claim) {
    if let Some(session) = ctx.hub.session(&ctx.key.cluster) {
        session.claims.note(ctx.key, &ctx.target.spec, claim);
    }
}

/// It declares nothing there any more.
pub(super) fn disclaim(ctx: &Context<'_>) {
    if let Some(session) = ctx.hub.session(&ctx.key.cluster) {
        session.claims.forget(ctx.key);
    }
}

/// A suspended target declares what it declared.
pub(super) async fn claim_at_rest(ctx: &Context<'_>) {
    let Some(session) = ctx.hub.session(&ctx.key.cluster) else { return };
    if session.claims.is_noted(ctx.key, &ctx.target.spec) {
        return;
    }
    let declared = match session.state() {
        State::Open(_) => desired_state(ctx, &session).await,
        _ => return,
    };
    let Ok((desired, _)) = declared else { return claim(ctx, Claim::Unknown) };
    if is_present(ctx.target) {
        // Whoever takes over an object has to know that this one does not declare it any more.
        let (owner, tuning) = (ctx.owner(false), ctx.hub.tuning.now());
        let exemptions = desired.exemptions(&ctx.target.spec.drift, &tuning.autoscalers).unwrap_or_default();
        session.records.declare(owner.hash, owner.since, ctx.key.clone(), desired.clone(), exemptions);
    }
    claim(ctx, Claim::Objects(desired));
}

/// What of these objects, which are declared no more, is not to be removed now, or is another one's. Remembers since when
/// each is not declared, and requeues the target for when it may be removed, and whoever is to take it over.
pub(super) fn classify_undeclared<'k>(
    ctx: &Context<'_>,
    session: &Session,
    gone: impl Iterator<Item = &'k ObjectKey>,
) -> BTreeMap<ObjectKey, Handover> {
    let mut gone = gone.peekable();
    if gone.peek().is_none() || hands_nothing_over(ctx) {
        ctx.hub.state.lock().change_target(ctx.key, |state| state.undeclared = Undeclared::default());
        return BTreeMap::new();
    }
    let unknown = unknown_declarations(ctx, session);
    let delay = prune_delay(ctx);
    let spec = &ctx.target.spec;
    let (now, by) = (Instant::now(), (spec.revision.clone(), spec.namespace.clone()));
    let mut since = BTreeMap::new();
    let before = ctx.hub.state.lock().change_target(ctx.key, |state| mem::take(&mut state.undeclared));
    let mut handovers = BTreeMap::new();
    let mut again: Option<Duration> = None;
    for key in gone {
        let seen = before.since(&by, key, delay);
        since.insert(key.clone(), seen.unwrap_or(now));
        let rest = delay.saturating_sub(now.duration_since(seen.unwrap_or(now)));
        let handover = match handover(ctx, session, key, &unknown) {
            Some(handover) => handover,
            None if rest.is_zero() => continue,
            None => Handover::Delayed,
        };
        let wait = match handover.why() {
            Handover::Awaited(other) => {
                if seen.is_none() {
                    // It was refused, maybe, while this one declared the object.
                    ctx.hub.queue.add(Key::Target(target_of(ctx, other)), Priority::Resync);
                }
                Some(HANDOVER_RECHECK)
            }
            Handover::Delayed => Some(rest),
            _ => None,
        };
        again = again.into_iter().chain(wait).min();
        handovers.insert(key.clone(), handover);
    }
    let undeclared = Undeclared { by, looked: Some(now), since };
    ctx.hub.state.lock().change_target(ctx.key, |state| state.undeclared = undeclared);
    if let Some(wait) = again {
        ctx.hub.queue.add_after(Key::Target(ctx.key.clone()), wait);
    }
    handovers
}

/// Where a member leaves nobody takes anything over.
fn hands_nothing_over(ctx: &Context<'_>) -> bool {
    is_leaving(ctx.hub, &ctx.key.cluster) || mutants::is(Mutant::NothingHandedOver)
}

/// Whether another VidraResource declares an object, or may, asked while a target's objects are removed: what the plan
/// found may be long ago.
pub(super) fn claims_now<'a>(
    ctx: &'a Context<'a>,
    session: &'a Session,
) -> impl Fn(&ObjectKey) -> bool + Send + Sync + 'a {
    let known: Mutex<Option<(Instant, UnknownDeclarations)>> = Mutex::default();
    move |key| {
        if hands_nothing_over(ctx) {
            return false;
        }
        let (now, mut known) = (Instant::now(), known.lock());
        known.take_if(|(at, _)| now.duration_since(*at) >= CLAIMS_RECHECK);
        let (_, unknown) = known.get_or_insert_with(|| (now, unknown_declarations(ctx, session)));
        claim_of(ctx, session, key, unknown).is_some()
    }
}

/// Who else declares the object; `None`: nobody.
fn handover(
    ctx: &Context<'_>,
    session: &Session,
    key: &ObjectKey,
    unknown: &UnknownDeclarations,
) -> Option<Handover> {
    let why = claim_of(ctx, session, key, unknown)?;
    let waits = matches!(why, Handover::Awaited(_) | Handover::Unknown(_));
    // It is gone, or nobody watches its kind.
    let is_unseen = waits && session.records.uid(key).is_none();
    Some(if is_unseen { Handover::Unseen(Box::new(why)) } else { why })
}

fn claim_of(
    ctx: &Context<'_>,
    session: &Session,
    key: &ObjectKey,
    unknown: &UnknownDeclarations,
) -> Option<Handover> {
    let holds = |other: &TargetKey| inventory::has(&ctx.hub.catalog.inventory(other), key);
    let mut claimants = session.claims.claimants(ctx.key, key, holds);
    claimants.retain(|other| is_wanted(ctx, other));
    if claimants.is_empty() {
        return unknown.may_declare(key).map(|other| Handover::Unknown(other.into()));
    }
    let records = &session.records;
    // Whoever applies it, it does not go with this one.
    if claimants.iter().any(|other| records.is_applied_for(key, &ctx.owner_hash(other)))
        || records.is_shared(key, &ctx.owner_hash(ctx.key))
    {
        return Some(Handover::Done);
    }
    Some(match claimants.iter().find(|other| will_apply(ctx, other)) {
        None => Handover::Unclaimed,
        Some(other) => Handover::Awaited((*other.resource).into()),
    })
}

/// It has not applied its revision yet, or repairs drift; and it may be written there.
fn will_apply(ctx: &Context<'_>, other: &TargetKey) -> bool {
    !revoke::is_revoked(ctx.hub, other)
        && ctx
            .hub
            .catalog
            .target(other)
            .is_some_and(|target| target.spec.drift.policy == DriftPolicy::Correct || !target.is_delivered())
}

/// Its object is to be there.
fn is_wanted(ctx: &Context<'_>, other: &TargetKey) -> bool {
    ctx.hub.catalog.target(other).is_some_and(|target| target.spec.desired == DesiredState::Present)
}

/// The VidraResources of the namespace of which is not known what they declare on this member now.
fn unknown_declarations(ctx: &Context<'_>, session: &Session) -> UnknownDeclarations {
    let fleet = ctx.hub.catalog.fleet_on(&ctx.key.cluster);
    let mut untold = fleet.iter().filter(|(key, target)| {
        key.namespace == ctx.key.namespace
            && key.resource != ctx.key.resource
            && is_present(target)
            && !session.claims.is_noted(key, &target.spec)
    });
    let untold = untold.next().map(|(key, _)| key.resource.clone());
    let untold = untold.or_else(|| ctx.hub.catalog.unread_owner(ctx.key)).map(|name| (*name).into());
    let Some(member) = ctx.hub.catalog.member(&ctx.key.cluster) else {
        return UnknownDeclarations { untold, pending: Vec::new() };
    };
    let leaves = ctx.target.spec.desired != DesiredState::Present;
    let resources = ctx.hub.catalog.resources_in(&ctx.key.namespace);
    let pending = resources.iter().filter_map(|resource| {
        let key = target_of(ctx, &resource.name_any());
        // A target that goes was asked whether it is wanted.
        if (leaves && key == *ctx.key) || is_going(ctx, resource, &key) {
            return None;
        }
        let namespace = destination(ctx.hub, resource, &member)?;
        let revision = ctx.hub.revision_of(&key.resource_key(), resource);
        let has = |revision: &str| {
            let target = ctx.hub.catalog.target(&key).filter(|target| is_present(target));
            // A change of the selection alone makes no other revision, and may be held as well.
            target.is_some_and(|target| {
                *target.spec.revision == *revision
                    && target.spec.namespace == namespace
                    && session.claims.is_known(&key, &target.spec)
            })
        };
        (!revision.as_deref().is_some_and(has)).then(|| {
            ((*key.resource).into(), possible_declaration(ctx, &key, resource, revision.as_deref(), has))
        })
    });
    UnknownDeclarations { untold, pending: pending.collect() }
}

/// It is deleted, and that is a wish: of one that goes with its whole kind the target stays until a person decides.
fn is_going(ctx: &Context<'_>, resource: &VidraResource, key: &TargetKey) -> bool {
    let stays = || ctx.hub.catalog.target(key).is_some_and(|one| one.spec.desired == DesiredState::Present);
    resource.metadata.deletion_timestamp.is_some() && !stays()
}

/// What a VidraResource may declare whose targets do not have its newest declaration. `has`: its target there has a
/// revision.
fn possible_declaration(
    ctx: &Context<'_>,
    key: &TargetKey,
    resource: &VidraResource,
    revision: Option<&str>,
    has: impl Fn(&str) -> bool,
) -> PossibleDeclaration {
    let (spec, owner) = (&resource.spec, key.resource_key());
    if let Some(parsed) = revision.and_then(|name| ctx.hub.revisions.known(&owner, name)) {
        return PossibleDeclaration::Objects(parsed);
    }
    // Of one that is suspended nobody reads the sources.
    if !spec.manifests_from.is_empty() && !spec.suspend {
        return PossibleDeclaration::Anything;
    }
    let inline = spec.manifests.iter().map(Raw::text);
    let words = Words::of(spec.manifest.as_deref().into_iter().chain(inline));
    // What makes no manifest takes nothing back of the one before it, which may be held.
    let last = ctx.hub.last_revision(&owner, resource);
    let held = last.filter(|last| !spec.suspend && !has(last) && !mutants::is(Mutant::HeldDeclaresNothing));
    let Some(held) = held else { return PossibleDeclaration::Words(words, None) };
    match ctx.hub.revisions.known(&owner, &held) {
        Some(parsed) => PossibleDeclaration::Words(words, Some(parsed)),
        None => PossibleDeclaration::Anything,
    }
}

/// Another VidraResource's target on the same member.
fn target_of(ctx: &Context<'_>, resource: &str) -> TargetKey {
    TargetKey { resource: resource.into(), ..ctx.key.clone() }
}

/// How long an object stays that nobody declares: no time where a person deletes the VidraResource.
fn prune_delay(ctx: &Context<'_>) -> Duration {
    let resource = ctx.hub.catalog.resource(&ctx.key.resource_key());
    match resource.is_some_and(|resource| is_going(ctx, &resource, ctx.key)) {
        true => Duration::ZERO,
        false => ctx.hub.tuning.now().prune_delay,
    }
}

/// It is to be there, and nobody has deleted it.
fn is_present(target: &VidraTarget) -> bool {
    target.spec.desired == DesiredState::Present && target.metadata.deletion_timestamp.is_none()
}

/// The VidraResources of a namespace of which is not known what they declare on a member now.
struct UnknownDeclarations {
    /// The first whose target has not told what it declares.
    untold: Option<Box<str>>,
    /// Those whose targets do not have their newest declarations, for whatever reason.
    pending: Vec<(Box<str>, PossibleDeclaration)>,
}

/// What a VidraResource may declare.
enum PossibleDeclaration {
    /// Objects of these kinds and names.
    Objects(Arc<Parsed>),
    /// Objects whose kinds and names stand in its texts, which make no manifest, and those of the revision that was read
    /// last, where its target does not have that.
    Words(Words, Option<Arc<Parsed>>),
    /// Its sources are not read.
    Anything,
}

impl UnknownDeclarations {
    /// One that may declare the object.
    fn may_declare(&self, key: &ObjectKey) -> Option<&str> {
        if mutants::is(Mutant::UnrenderedDeclaresNothing) {
            return self.untold.as_deref();
        }
        let may = self.pending.iter().find(|(_, possible)| possible.may_declare(key));
        may.map(|(name, _)| &**name).or(self.untold.as_deref())
    }
}

impl PossibleDeclaration {
    fn may_declare(&self, key: &ObjectKey) -> bool {
        let declares = |parsed: &Parsed| {
            parsed.objects.iter().any(|one| {
                (&*one.gvk.group, &*one.gvk.kind, &*one.name) == (&*key.group, &*key.kind, &*key.name)
            })
        };
        match self {
            Self::Objects(parsed) => declares(parsed),
            Self::Words(words, last) => words.may_declare(key) || last.as_deref().is_some_and(declares),
            Self::Anything => true,
        }
    }
}

/// When to look again while it is not known what others declare: nothing tells.
pub(super) fn asks_again(plan: &Plan) -> Option<Requeue> {
    until_known(plan.stays.values())
}

/// When to look again for a plan that the removal guard holds. Its `stays` is empty while it waits, so its `drops` are
/// asked; and nothing of it is done, so what it waits for does not come.
pub(super) fn asks_again_while_held(plan: &Plan) -> Option<Requeue> {
    until_known(plan.drops.values().flatten())
}

fn until_known<'p>(mut handovers: impl Iterator<Item = &'p Handover>) -> Option<Requeue> {
    let is_unknown = |handover: &Handover| matches!(handover.why(), Handover::Unknown(_));
    handovers.any(is_unknown).then_some(Requeue::Retry(Retry::Soon))
}

/// What the status of a target that is torn down says while some of its objects stay.
pub(super) fn teardown_delivery(plan: &Plan, inventory: &Inventory) -> Option<Delivery> {
    let (reason, message) = retention(retained(plan, inventory))?;
    Some(Delivery::TearingDown { reason, message })
}

/// What stays for now of what a plan would remove, and why.
pub(super) fn removing_objects(plan: &Plan, inventory: &Inventory) -> Option<RemovingObjects> {
    let (reason, message) = retention(retained(plan, inventory))?;
    let objects = i64::try_from(retained(plan, inventory).count()).unwrap_or(i64::MAX);
    Some(RemovingObjects { objects, reason: reason.to_string(), message: Some(message) })
}

/// What stays for now, after a live read too.
pub(super) fn retained<'p>(
    plan: &'p Plan,
    inventory: &Inventory,
) -> impl Iterator<Item = (&'p ObjectKey, &'p Handover)> {
    plan.stays.iter().filter(|(key, _)| inventory.contains_key(*key))
}

/// Why something stays for now: the reason, and the first object in words.
pub(super) fn retention<'p>(
    stays: impl Iterator<Item = (&'p ObjectKey, &'p Handover)>,
) -> Option<(Reason, String)> {
    // What waits for others is told first: it may need a person.
    let stays = stays.map(|(key, handover)| (key, handover.why()));
    let (key, handover) = stays.max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0)))?;
    Some(match handover {
        Handover::Awaited(other) => (
            Reason::HandingOver,
            format!(
                "{key} stays until VidraResource {other}, which declares it, has applied it: see its VidraTarget if it does not"
            ),
        ),
        Handover::Unknown(other) => (
            Reason::HandingOver,
            format!(
                "{key} stays until the hub knows whether VidraResource {other} declares it here: its newest declaration is not delivered, see there why not"
            ),
        ),
        _ => (
            Reason::PruneDelayed,
            format!("{key} stays for the setting pruneDelay: another VidraResource may take it over"),
        ),
    })
}

//! The last step: the VidraTarget's status, coalesced, and its Events.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;
use vidra_api::{
    Change, DriftPolicy, RemovingObjects, TargetState, UnreadyObject, VidraTarget, VidraTargetStatus,
    target::DesiredState,
};
use vidra_core::{
    directives::{ApplyMode, WaitFor},
    health::HealthStatus,
    mutants::{self, Mutant},
    object::ObjectKey,
    plan::Inventory,
    status::{
        Awaited, Delivery, Reason, TargetFacts, Unproven, Unready, left, target_status, tells_other_words,
        tells_the_same,
    },
    uid::Uid,
};

use super::{
    cause::{self, explained, is_covered},
    contention::contention,
    context::Context,
    drift::{DriftReport, redact},
    events::{gather_one, say},
    feedback,
    inventory::{InventoryChange, SettledObjects},
    own_health::digest_of_all,
    requeue::Requeue,
};
use crate::{
    base::error::CallError,
    controllers::{log_ready, status_fallback, status_throttle::StatusChange},
    desired::Desired,
    hub::{
        events::{self, One, Saying, Severity},
        inventory::Chunks,
    },
    member::{records::WITHHELD, session::Session},
    workqueue::Key,
};

/// What is told of an object that is well, and not as declared.
const EDITED: &str = "It was edited in the member, and the hub corrects it next";

/// What a reconcile came to.
pub(super) struct Status {
    pub(super) delivery: Delivery,
    /// Repairs of drift, with what was otherwise.
    pub(super) corrections: Vec<Change>,
    pub(super) drift: DriftReport,
    /// Objects that are not declared any more and still exist.
    pub(super) removing: Option<RemovingObjects>,
    /// All of the target was compared with the member.
    pub(super) compared: bool,
    /// All of the target was seen: what is not recorded is not there.
    pub(super) seen: bool,
    /// The highest generation of the VidraResource among the live objects.
    pub(super) applied_generation: i64,
    /// What is waited for, if nothing but health keeps the revision from going on.
    pub(super) awaited: Option<Awaited>,
}

impl Status {
    /// Of a target at which nothing was compared.
    pub(super) fn of(delivery: Delivery) -> Self {
        Self {
            delivery,
            corrections: Vec::new(),
            drift: DriftReport::default(),
            removing: None,
            compared: false,
            seen: false,
            applied_generation: 0,
            awaited: None,
        }
    }
}

/// Writes the status of a reconcile that left the inventory as it was, as [`publish_with_inventory`] does.
pub(super) async fn publish(
    ctx: &Context<'_>,
    status: Status,
    of: (&Desired, Option<&Session>),
) -> Result<Option<Duration>, CallError> {
    publish_with_inventory(ctx, status, of, &InventoryChange::default()).await
}

/// Writes the status, if it is new and may be written now. Returns when its delivery is late, if it is to come to that.
pub(super) async fn publish_with_inventory(
    ctx: &Context<'_>,
    status: Status,
    (desired, session): (&Desired, Option<&Session>),
    inventory: &InventoryChange,
) -> Result<Option<Duration>, CallError> {
    let queue_key = Key::Target(ctx.key.clone());
    count_corrections(ctx, &status.corrections);
    mark_observed(ctx, &status.delivery);
    // The newest: an answer may have been folded since the reconcile began.
    let target = ctx.hub.catalog.target(ctx.key);
    let target = target.as_deref().unwrap_or(ctx.target);
    // It was made again meanwhile, and is reconciled by itself: what became of its predecessor says nothing of it.
    if target.metadata.uid != ctx.target.metadata.uid && !mutants::is(Mutant::SuccessorTold) {
        return Ok(None);
    }
    let told = status_fallback::last_written(ctx.hub, &queue_key, target.status.as_ref());
    let none = VidraTargetStatus::default();
    let before = told.as_ref().unwrap_or(&none);
    let known = Known::of(ctx, desired, inventory);
    let healths = look_at_health(ctx, &status, (desired, session), &known, before);
    let facts = facts(ctx, status, (desired, session), (&known, healths), before);
    let mut status = target_status(before, &facts);
    cover(ctx, session, &mut status);
    let late_in = status.progress.as_ref().and_then(|progress| left(progress, facts.timeout, &facts.now));
    // Where it has no rules of its own, and all is well, they go along with what else there is to tell.
    let judged_by = || session.and_then(|session| digest_of_all(ctx, session));
    let tells = ctx.target.spec.health_rules.is_some() || !status.unready.is_empty();
    let own = tells.then(judged_by).flatten();
    let rules_are_news = own.is_some() && own != status.health_rules;
    let change = change(told.as_ref(), &status, rules_are_news, || is_followed(ctx));
    let is_due = ctx.hub.write_now_or_requeue(&queue_key, change);
    let waits = !is_due && change.is_of_target();
    ctx.hub.state.lock().change_target(ctx.key, |state| {
        state.note_found();
        state.status_waits = waits;
    });
    // Until it is written, further changes of the values do not requeue the target; nor do they where no event is followed.
    // Values that seem to rest do: it is to be told that they rest.
    if !matches!(change, StatusChange::Nothing | StatusChange::ValuesStable) && !is_due
        || !ctx.follows_events()
    {
        feedback::hold(ctx, session);
    }
    if is_due {
        log_ready(Some(&before.conditions), &status.conditions);
        tell(ctx, before, &status);
        status.health_rules = own.or_else(judged_by).or(status.health_rules.take());
        if status.feedback.is_some() && ctx.hub.state.lock().has_busy_values(&queue_key, Instant::now()) {
            // They change faster than they are written: this says how old the written ones are.
            status.feedback_at.get_or_insert(facts.now);
        }
        write_status(ctx, target, status).await?;
        ctx.hub.state.lock().change_target(ctx.key, |state| {
            state.made = false;
            state.forget_corrections(facts.corrected);
        });
    }
    Ok(late_in.filter(|left| !left.is_zero()))
}

/// Takes out what must not be written.
fn cover(ctx: &Context<'_>, session: Option<&Session>, status: &mut VidraTargetStatus) {
    redact(ctx, &mut status.changes);
    feedback::redact(ctx, &mut status.feedback);
    if session.is_none() {
        withhold(ctx, &mut status.unready);
    }
}

/// Takes out what objects said, and what must not be written now: nobody can look at them again.
fn withhold(ctx: &Context<'_>, unready: &mut [UnreadyObject]) {
    let redact = &ctx.hub.tuning.now().redact;
    let is_covered =
        |one: &UnreadyObject| is_covered(ctx, &one.group, &one.kind) && !mutants::is(Mutant::CauseStays);
    let protected =
        unready.iter_mut().filter(|one| redact.protects(&one.group, &one.kind) || is_covered(one));
    let quoted = protected.filter(|one| one.note.is_some() && !mutants::is(Mutant::SaidStays));
    quoted.for_each(|one| one.note = Some(WITHHELD.to_owned()));
}

/// Another reconcile comes at once.
fn is_followed(ctx: &Context<'_>) -> bool {
    ctx.hub.queue.arrivals(&Key::Target(ctx.key.clone())) > 0
}

/// A reconcile follows at once that repairs what has drifted, and the target is not Ready yet: what is well only as it was
/// edited does not make it so.
fn is_repaired_first(ctx: &Context<'_>, before: &VidraTargetStatus) -> bool {
    let is_ready = before.state == Some(TargetState::Ready)
        && before.revision.as_deref() == Some(&*ctx.target.spec.revision);
    ctx.target.spec.drift.policy == DriftPolicy::Correct
        && !is_ready
        && is_followed(ctx)
        && !mutants::is(Mutant::ReadyAsEdited)
}

/// What there is to tell, beside what was `told`. `follows`: another reconcile comes at once.
fn change(
    told: Option<&VidraTargetStatus>,
    now: &VidraTargetStatus,
    rules_are_news: bool,
    follows: impl FnOnce() -> bool,
) -> StatusChange {
    if told == Some(now) && !rules_are_news {
        return StatusChange::Nothing;
    }
    let none = VidraTargetStatus::default();
    let before = told.unwrap_or(&none);
    let is_as_told =
        before.feedback_at.is_some() && now.feedback_at.is_none() && before.feedback == now.feedback;
    // A delivery's end waits for nobody.
    let is_end = (before.state, &before.revision) != (now.state, &now.revision);
    match tells_the_same(Some(before), Some(now)) || tells_other_words(before, now) {
        true if !rules_are_news && is_as_told => StatusChange::ValuesStable,
        true if !rules_are_news => StatusChange::Values,
        _ if !is_end && follows() => StatusChange::Followed,
        _ => StatusChange::Durable,
    }
}

/// Tells this of a target at which nothing was looked, and requeues it as one that was told.
pub(super) async fn publish_unseen(ctx: &Context<'_>, delivery: Delivery) -> Result<Requeue, CallError> {
    let late_in = publish(ctx, Status::of(delivery), (&Desired::default(), None)).await?;
    Ok(Requeue::at_interval(ctx.interval(), late_in))
}

/// What the status is made from. `before`: what it says now.
fn facts<'a>(
    ctx: &Context<'a>,
    status: Status,
    (desired, session): (&Desired, Option<&Session>),
    (known, healths): (&Known<'_>, Healths),
    before: &VidraTargetStatus,
) -> TargetFacts<'a> {
    let Healths { ready, suspended, unproven, unready, .. } = healths;
    let leaving = ctx.target.spec.desired != DesiredState::Present;
    // What is known to be there, not what is wanted.
    let objects = known.inventory.known(&known.chunks) as i64;
    // Locked here: within the literal below a lock would be held until its end.
    let contention = contention(ctx);
    let corrections = ctx
        .hub
        .state
        .lock()
        .target(ctx.key)
        .map(|state| (state.newest_corrections.clone(), state.corrections));
    let (corrections, corrected) = corrections.unwrap_or_default();
    TargetFacts {
        generation: ctx.target.metadata.generation.unwrap_or_default(),
        revision: &ctx.target.spec.revision,
        namespace: &ctx.target.spec.namespace,
        overrides: ctx.target.spec.overrides.as_ref(),
        recalls: ctx.target.spec.recalls,
        leaving,
        delivery: status.delivery,
        objects,
        ready,
        suspended,
        unproven,
        found: (ctx.target.spec.drift.policy != DriftPolicy::Ignore).then_some(status.drift.changes),
        corrections,
        changes_max: ctx.hub.limits.changes,
        contention,
        unready,
        // While something cannot be seen, what was known stands.
        removing: if status.compared { status.removing } else { before.removing.clone() },
        corrected,
        feedback: feedback::values(ctx, session, (before, status.seen)),
        compared: status.compared,
        unserved: !desired.unresolved.is_empty(),
        applied_generation: status.applied_generation.max(ctx.target.spec.generation),
        awaited: status.awaited,
        timeout: ctx.timeout(),
        now: ctx.hub.clock.time(),
    }
}

/// Writes a status, without its lists where the whole is not taken.
async fn write_status(
    ctx: &Context<'_>,
    target: &VidraTarget,
    status: VidraTargetStatus,
) -> Result<(), CallError> {
    let put = |status| ctx.hub.api.target_status(target, status);
    let key = Key::Target(ctx.key.clone());
    if let Some(error) = status_fallback::put(ctx.hub, &key, target.status.as_ref(), status, put).await? {
        let object = format!("VidraTarget {}", ctx.key.target_name());
        let message = status_fallback::shortened(&object, &ctx.key.resource_key(), &error);
        say(ctx, Severity::Warning, Reason::StatusShortened, &message);
    }
    Ok(())
}

/// How the target's objects are.
#[derive(Default)]
struct Healths {
    /// How many are healthy.
    ready: i64,
    /// How many of these are suspended.
    suspended: i64,
    /// Those of them of which nothing shows it; `None`: that is not known of all yet.
    unproven: Option<Unproven>,
    /// Declared ones that are not healthy.
    unready: Unready,
    /// When the first of these verdicts ends by itself.
    ends: Option<Duration>,
}

/// How many of the target's objects are healthy, and which declared ones are not.
fn summarize_health(
    ctx: &Context<'_>,
    session: &Session,
    desired: &Desired,
    known: &Known<'_>,
    (status, is_repaired_first): (&Status, bool),
) -> Healths {
    let (owner, settled) = (ctx.owner_hash(ctx.key), &known.settled);
    let Healths { mut ready, mut suspended, mut unready, .. } = Healths::default();
    let (mut unproven, mut not_ours) = (Some(Unproven::default()), BTreeMap::new());
    let wait_for =
        |key| desired.objects.get(key).map_or(WaitFor::Health, |declared| declared.directives.wait_for);
    let causes = cause::known(ctx);
    let mut ends: Option<Duration> = None;
    session.records.healths(&owner, desired.objects.keys(), |key, seen| match seen {
        _ if status.drift.gone.contains(key) => unready.add_left(key),
        // Somebody else's, where one is wanted only if there is none: how it is is their matter.
        Some(seen)
            if !seen.proof && settled.all.contains(key) && is_applied(desired, key, ApplyMode::IfAbsent) =>
        {
            drop(not_ours.insert(key.clone(), seen.uid.clone()));
        }
        Some(seen) => {
            ends = ends.into_iter().chain(seen.ends).min();
            unproven = unproven.take().filter(|_| seen.unproven.is_some());
            match seen.health.is_well() {
                true if is_repaired_first
                    && seen.has_drifted
                    && is_applied(desired, key, ApplyMode::Always) =>
                {
                    unready.add(key, HealthStatus::InProgress, Some(EDITED), wait_for(key));
                }
                true if seen.proof => {
                    ready += 1;
                    suspended += i64::from(seen.suspended);
                    if let Some(unproven) = unproven.as_mut().filter(|_| seen.unproven == Some(true)) {
                        unproven.add(key);
                    }
                }
                true => drop(not_ours.insert(key.clone(), seen.uid.clone())),
                false => {
                    let note = explained(&causes, key, (seen.health, seen.note));
                    unready.add(key, seen.health, note.as_deref(), wait_for(key));
                }
            }
        }
        None if settled.all.contains(key) => ready += i64::from(settled.known.contains(key)),
        // What was not looked for may be there all the same.
        None if status.drift.left.contains(key) || !status.compared => {}
        None => unready.add_missing(key),
    });
    ready += still_held(&not_ours, |special| known.part(special));
    Healths { ready, suspended, unproven, unready, ends }
}

/// How the target's objects are; none of them where there is no session. Notes what comes of that.
fn look_at_health(
    ctx: &Context<'_>,
    status: &Status,
    (desired, session): (&Desired, Option<&Session>),
    known: &Known<'_>,
    before: &VidraTargetStatus,
) -> Healths {
    let Some(session) = session else { return Healths::default() };
    let is_repaired_first = is_repaired_first(ctx, before);
    let healths = summarize_health(ctx, session, desired, known, (status, is_repaired_first));
    note_health(ctx, &healths);
    healths
}

/// Remembers of which kinds nothing shows how they are, and requeues the target for when the first verdict ends by itself.
fn note_health(ctx: &Context<'_>, healths: &Healths) {
    if let Some(unproven) = &healths.unproven {
        ctx.hub.state.lock().note_unproven(ctx.key, unproven.kinds());
    }
    // Nothing else tells when what is waited for does not come.
    if let Some(ends) = healths.ends.filter(|_| !mutants::is(Mutant::VerdictsNeverEnd)) {
        ctx.hub.queue.add_after(Key::Target(ctx.key.clone()), ends);
    }
}

/// The target's inventory as it will be, and what of it is settled.
struct Known<'a> {
    chunks: Chunks,
    inventory: &'a InventoryChange,
    settled: SettledObjects,
}

impl<'a> Known<'a> {
    fn of(ctx: &Context<'_>, desired: &Desired, inventory: &'a InventoryChange) -> Self {
        let chunks = ctx.hub.catalog.inventory(ctx.key);
        let settled = SettledObjects::of(&desired.wants, |special| inventory.part(&chunks, special));
        Self { chunks, inventory, settled }
    }

    /// The part that is asked for.
    fn part(&self, wanted: &dyn Fn(&ObjectKey) -> bool) -> Inventory {
        self.inventory.part(&self.chunks, wanted)
    }
}

/// How many of these are the target's by their uid; somebody else's object in the place of one is not.
fn still_held(
    uids: &BTreeMap<ObjectKey, Uid>,
    known: impl Fn(&dyn Fn(&ObjectKey) -> bool) -> Inventory,
) -> i64 {
    if uids.is_empty() {
        return 0;
    }
    let held = known(&|key| uids.contains_key(key));
    held.iter().filter(|(key, held)| uids.get(key) == Some(&held.uid)).count() as i64
}

fn is_applied(desired: &Desired, key: &ObjectKey, mode: ApplyMode) -> bool {
    desired.objects.get(key).is_some_and(|one| one.directives.apply == mode)
}

/// What it needs of the member is known from here on.
fn mark_observed(ctx: &Context<'_>, delivery: &Delivery) {
    if !matches!(delivery, Delivery::Unreachable { .. })
        && let Some(session) = ctx.hub.session(&ctx.key.cluster)
    {
        session.informers.looked(ctx.key);
    }
}

/// They are told with the next status.
pub(super) fn count_corrections(ctx: &Context<'_>, corrections: &[Change]) {
    if corrections.is_empty() {
        return;
    }
    tracing::info!(objects = corrections.len(), "the hub corrected drift");
    ctx.hub.state.lock().change_target(ctx.key, |state| state.note_corrections(corrections));
}

fn tell(ctx: &Context<'_>, before: &VidraTargetStatus, now: &VidraTargetStatus) {
    if before.state == now.state {
        return;
    }
    let saying = match (now.state, Reason::of(now)) {
        (Some(TargetState::Ready), _) => events::READY,
        (Some(TargetState::Unknown), _) => Saying::amiss(Reason::TargetUnknown),
        (Some(TargetState::Failed), Some(reason @ (Reason::HealthCheckTimeout | Reason::ObjectFailed))) => {
            Saying::amiss(reason)
        }
        _ => return,
    };
    let message = now.message.as_deref().unwrap_or_default();
    gather_one(ctx, saying, One { cluster: &ctx.key.cluster, object: "", by: &[], message });
}

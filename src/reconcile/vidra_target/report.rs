//! What a pass tells: the VidraTarget's status, coalesced, and Events.

use std::collections::BTreeMap;

use vidra_api::{
    DriftPolicy, TargetState, VidraTarget, VidraTargetStatus, names::OwnerHash, target::Desired as Wish,
};
use vidra_core::{
    health::HealthStatus,
    object::ObjectKey,
    plan::Inventory,
    status::{Delivery, HEALTH_CHECK_TIMEOUT, TargetFacts, Unready, is_torn_down, left, target_status},
};

use super::{
    context::Context,
    drifting::redact,
    events::{gather_one, say},
    fights::contention,
    outcome::Settled,
    result::Report,
};
use crate::{
    base::error::CallError,
    desired::Desired,
    hub::{
        events::{self, One, Saying, Severity},
        inventory,
    },
    member::{records::Seen, session::Session},
    queue::{Key, Verdict},
    reconcile::lean,
};

/// Writes the status, if it says something new and may be written now.
pub(super) async fn conclude(
    ctx: &Context<'_>,
    delivery: Delivery,
    desired: &Desired,
    session: Option<&Session>,
    report: &Report,
) -> Result<Verdict, CallError> {
    let queue_key = Key::Target(ctx.key.clone());
    count_corrections(ctx, report);
    note_looked(ctx, &delivery);
    // The newest: an answer may have been folded since the pass began.
    let target = ctx.hub.catalog.target(ctx.key);
    let target = target.as_deref().unwrap_or(ctx.target);
    let told = lean::told(ctx.hub, &queue_key, target.status.as_ref());
    let none = VidraTargetStatus::default();
    let before = told.as_ref().unwrap_or(&none);
    let facts = facts(ctx, delivery, desired, session, report, before);
    let mut status = target_status(before, &facts);
    redact(ctx, &mut status.changes);
    let late_in = status.progress.as_ref().and_then(|progress| left(progress, facts.timeout, &facts.now));
    // Where more has arrived another pass comes at once, and may have more to tell. A delivery's end waits for nobody.
    let is_end = (before.state, &before.revision) != (status.state, &status.revision);
    let waits =
        || !is_end && ctx.hub.queue.arrivals(&queue_key) > 0 && ctx.hub.can_wait(&queue_key).is_some();
    if told.as_ref() != Some(&status) && !waits() && ctx.hub.status_is_due(&queue_key, false) {
        tell(ctx, before, &status);
        write_status(ctx, target, status).await?;
        ctx.hub.memo.lock().made.remove(ctx.key);
        forget_corrections(ctx, facts.corrected);
    }
    // When it is late, nothing else tells.
    let interval = ctx.interval();
    let late_in = late_in.filter(|left| !left.is_zero());
    Ok(Verdict::Done(Some(late_in.map_or(interval, |left| left.min(interval)))))
}

/// Tells this of a target at which nothing was looked.
pub(super) async fn conclude_unseen(ctx: &Context<'_>, delivery: Delivery) -> Result<Verdict, CallError> {
    conclude(ctx, delivery, &Desired::default(), None, &Report::default()).await
}

/// What the status is made from. `before`: what it says now.
fn facts<'a>(
    ctx: &Context<'a>,
    delivery: Delivery,
    desired: &Desired,
    session: Option<&Session>,
    report: &Report,
    before: &VidraTargetStatus,
) -> TargetFacts<'a> {
    let chunks = ctx.hub.catalog.inventory(ctx.key);
    let unwritten = report.unwritten.as_ref();
    let known = |special: &dyn Fn(&ObjectKey) -> bool| match unwritten {
        Some(inventory) => inventory::chosen(inventory, special),
        None => inventory::part(&chunks, special),
    };
    let settled = Settled::of(&desired.wants, known);
    let (ready, unready) = session
        .map_or_else(Default::default, |session| healths(ctx, session, desired, &settled, report, known));
    let leaving = ctx.target.spec.desired != Wish::Present;
    // What is known to be there, not what is wanted.
    let objects = unwritten.map_or_else(|| inventory::known(&chunks), inventory::identified) as i64;
    // Locked here: within the literal below a lock would be held until its end.
    let contention = contention(ctx);
    let undone = ctx.hub.memo.lock().mended.get(ctx.key).cloned().unwrap_or_default();
    let corrected = ctx.hub.memo.lock().corrections.get(ctx.key).copied().unwrap_or(0);
    TargetFacts {
        generation: ctx.target.metadata.generation.unwrap_or_default(),
        revision: &ctx.target.spec.revision,
        namespace: &ctx.target.spec.namespace,
        overrides: ctx.target.spec.overrides.as_ref(),
        recalls: ctx.target.spec.recalls,
        leaving,
        delivery,
        objects,
        ready,
        found: (ctx.target.spec.drift.policy != DriftPolicy::Ignore).then(|| report.found.clone()),
        undone,
        changes_max: ctx.hub.knobs.changes,
        contention,
        unready,
        // While something cannot be seen, what was known stands.
        removing: if report.compared { report.removing.clone() } else { before.removing.clone() },
        corrected,
        compared: report.compared,
        unserved: !desired.unresolved.is_empty(),
        applied_generation: report.applied_generation.max(ctx.target.spec.generation),
        awaited: report.awaited,
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
    if let Some(error) = lean::put(ctx.hub, &key, target.status.as_ref(), status, put).await? {
        let object = format!("VidraTarget {}", ctx.key.target_name());
        let message = lean::shortened(&object, &ctx.key.resource_key(), &error);
        say(ctx, Severity::Warning, lean::STATUS_SHORTENED, &message);
    }
    Ok(())
}

/// How many of the target's objects are healthy, and which declared ones are not. `known` gives a part of the inventory.
fn healths(
    ctx: &Context<'_>,
    session: &Session,
    desired: &Desired,
    settled: &Settled,
    report: &Report,
    known: impl Fn(&dyn Fn(&ObjectKey) -> bool) -> Inventory,
) -> (i64, Unready) {
    let owner = OwnerHash::new(&ctx.hub.identity.hub, &ctx.key.namespace, &ctx.key.resource);
    let (mut ready, mut unready, mut unproved) = (0, Unready::default(), BTreeMap::new());
    let declared = |key: &ObjectKey| desired.objects.get(key).map(|declared| &declared.body);
    session.records.healths(&owner, desired.objects.keys(), |key, seen| match seen {
        _ if report.gone.contains(key) => unready.add_left(key),
        Some(Seen { health, note, uid, proof }) => {
            match declared(key).map_or(health, |body| health.declared(body)) {
                HealthStatus::Current if proof => ready += 1,
                HealthStatus::Current => drop(unproved.insert(key.clone(), uid.clone())),
                health => unready.add(key, health, note),
            }
        }
        None if settled.all.contains(key) => ready += i64::from(settled.known.contains(key)),
        // What was not looked for may be there all the same.
        None if report.left.contains(key) || !report.compared => {}
        None => unready.add_missing(key),
    });
    // Somebody else's object in its place is none of the target's.
    if !unproved.is_empty() {
        let held = known(&|key| unproved.contains_key(key));
        ready += held.iter().filter(|(key, held)| unproved.get(key) == Some(&held.uid)).count() as i64;
    }
    (ready, unready)
}

/// What it needs of the member is known from here on.
fn note_looked(ctx: &Context<'_>, delivery: &Delivery) {
    if !matches!(delivery, Delivery::Unreachable { .. })
        && let Some(session) = ctx.hub.session(&ctx.key.cluster)
    {
        session.informers.looked(ctx.key);
    }
}

/// They are told with the next status.
pub(super) fn count_corrections(ctx: &Context<'_>, report: &Report) {
    if report.corrected > 0 {
        *ctx.hub.memo.lock().corrections.entry(ctx.key.clone()).or_default() += report.corrected;
    }
    ctx.hub.memo.lock().note_mended(ctx.key, &report.mended);
}

fn forget_corrections(ctx: &Context<'_>, written: i64) {
    let mut memo = ctx.hub.memo.lock();
    memo.mended.remove(ctx.key);
    if let Some(count) = memo.corrections.get_mut(ctx.key) {
        *count -= written;
        if *count <= 0 {
            memo.corrections.remove(ctx.key);
        }
    }
}

fn tell(ctx: &Context<'_>, before: &VidraTargetStatus, now: &VidraTargetStatus) {
    if before.state == now.state {
        return;
    }
    let saying = match now.state {
        Some(TargetState::Ready) => events::READY,
        Some(TargetState::Unknown) => Saying::amiss("TargetUnknown"),
        Some(TargetState::Failed) if now.reason.as_deref() == Some(HEALTH_CHECK_TIMEOUT) => {
            Saying::amiss(HEALTH_CHECK_TIMEOUT)
        }
        _ => return,
    };
    let message = now.message.as_deref().unwrap_or_default();
    gather_one(ctx, saying, One { cluster: &ctx.key.cluster, object: "", by: &[], message });
}

pub(super) fn is_done(target: &VidraTarget) -> bool {
    let generation = target.metadata.generation.unwrap_or_default();
    target.status.as_ref().is_some_and(|status| is_torn_down(status, generation))
}

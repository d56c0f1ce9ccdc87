//! The removal guard for objects: a revision that would delete most of a target's objects is not acted on until a
//! person has approved it.

use kube::ResourceExt;
use vidra_api::clip;
use vidra_core::{
    first_of::more,
    guard,
    object::ObjectKey,
    plan::{Handover, Held, Inventory, Plan},
    status::{Delivery, Reason},
};

use super::{context::Context, events::say, handover::retention};
use crate::{controllers::approvals::command, desired::Desired, hub::events::Severity};

/// Characters of their names: what approves comes behind them, and is not to be cut off.
const NAMES_MAX: usize = 400;
/// This many objects are named.
const NAMED: usize = 10;

/// Why nothing is done now; `None`: go on. A manifest that is meant to be empty says so itself. `inventory`: with what
/// the member proves to be there.
pub(super) fn guard_removal(
    ctx: &Context<'_>,
    desired: &Desired,
    plan: &Plan,
    inventory: &Inventory,
) -> Option<Delivery> {
    let spec = &ctx.target.spec;
    let dropped = plan.drops.len();
    // What was intended and never made is none of them.
    let is_one = |(key, held): &(&ObjectKey, &Held)| !held.uid.is_empty() || !desired.declares(key);
    let objects = inventory.iter().filter(is_one).count();
    let meant = desired.objects.is_empty() && desired.unresolved.is_empty();
    let share = ctx.hub.tuning.now().object_removal_guard;
    if spec.approved_removal.is_some() || meant || !guard::holds_objects(objects, dropped, share) {
        return None;
    }
    let resource = ctx.hub.catalog.resource(&ctx.key.resource_key());
    let uid = resource.and_then(|resource| resource.uid()).unwrap_or_default();
    let hash =
        guard::objects_hash(&uid, spec.generation, &spec.revision, &spec.namespace, spec.approved_drops);
    let is_told = tells_held(ctx, &hash);
    let open = plan.drops.iter().filter_map(|(key, stays)| Some((key, stays.as_ref()?)));
    let open = open.filter(|(_, stays)| !is_told || matches!(stays.why(), Handover::Awaited(_)));
    // What another VidraResource takes over is no loss; nothing is changed before that is known.
    if let Some((reason, why)) = retention(open) {
        let message = format!(
            "the revision drops {dropped} of {objects} objects, and nothing is changed before it is known whether others take them over: {why}"
        );
        return Some(Delivery::Waiting { reason, message });
    }
    let names: Vec<String> = plan.drops.keys().take(NAMED).map(ToString::to_string).collect();
    let more = more(dropped - names.len(), |more| format!(" and {more} more"));
    let message = format!(
        "held: the revision would delete {dropped} of {objects} objects ({}{more}), and the hub applies none of it. If this is meant: {}",
        clip(&names.join(", "), NAMES_MAX),
        command(&ctx.key.resource_key(), &hash),
    );
    say(ctx, Severity::Warning, Reason::RemovalHeld, &format!("{}: {message}", ctx.key.cluster));
    Some(Delivery::Failed { reason: Reason::RemovalHeld, message, stalled: true })
}

/// Its status says that this very change is held: the process before this one has waited for who takes over.
fn tells_held(ctx: &Context<'_>, hash: &str) -> bool {
    ctx.target.status.as_ref().is_some_and(|status| {
        Reason::of(status) == Some(Reason::RemovalHeld)
            && status.message.as_deref().is_some_and(|message| message.ends_with(hash))
    })
}

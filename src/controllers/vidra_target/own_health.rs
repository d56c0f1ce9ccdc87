//! The health rules that a VidraResource has of its own: whose they are, and objects that they have not judged yet; and
//! what else is to be known before objects are judged.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use vidra_api::names::OwnerHash;
use vidra_core::{health::rules::Rules, owner::Owner};

use super::{context::Context, visibility::needs};
use crate::{
    controllers::own_rules::{delivered, own_health},
    desired::Desired,
    member::{fence::Fence, kind_facts, session::Session},
    workqueue::Key,
};

/// The pause before objects are listed, or CRDs read, once more.
const LIST_PAUSE: Duration = Duration::from_secs(30);

/// Hands over the rules of a target that is known, whatever becomes of it now: where it is left as it is, or cannot be
/// rendered, what changes meanwhile is judged by them, or a wave that was to wait would open by older ones once it goes on.
pub(super) fn install_rules(ctx: &Context<'_>) {
    if let Some(session) = ctx.hub.session(&ctx.key.cluster) {
        install_rules_in(ctx, &session, &ctx.owner_hash(ctx.key));
    }
}

/// Hands over the rules of a target in a session that is at hand.
pub(super) fn install_rules_in(ctx: &Context<'_>, session: &Session, owner: &OwnerHash) {
    session.records.set_health_rules(owner, rules(ctx, session, owner));
}

/// The rules that the target is to be judged by.
fn rules(ctx: &Context<'_>, session: &Session, owner: &OwnerHash) -> Arc<Rules> {
    let wanted = ctx.target.spec.health_rules.as_ref();
    let now = own_health(ctx.hub, &ctx.key.resource_key()).map(|own| own.rules.clone()).unwrap_or_default();
    delivered(now, || session.records.own_rules(owner), |rules| rules.own_digest().as_ref() == wanted)
}

/// Has the objects listed that the target's own rules have not judged, or of which what it asks back was not read, by its
/// owner label. Where that was done a moment ago, or fails, what was known stands until the next reconcile.
pub(super) async fn list_unjudged(
    ctx: &Context<'_>,
    session: &Arc<Session>,
    owner: &Owner,
    desired: &Desired,
) {
    let mut unjudged = session.records.unjudged(&owner.hash);
    unjudged.extend(session.records.kinds_without_feedback(&owner.hash));
    if unjudged.is_empty() {
        return;
    }
    let last = ctx.hub.state.lock().target(ctx.key).and_then(|state| state.judged);
    let rest = last.map_or(Duration::ZERO, |last| LIST_PAUSE.saturating_sub(last.elapsed()));
    if !rest.is_zero() {
        ctx.hub.queue.add_after(Key::Target(ctx.key.clone()), rest);
        return;
    }
    ctx.hub.state.lock().change_target(ctx.key, |state| state.judged = Some(Instant::now()));
    let mut needs = needs(desired, &session.kinds());
    needs.retain(|gvk, _| unjudged.contains(gvk));
    for place in session.informers.places(&needs) {
        let Some(need) = needs.get(&place.gvk) else { continue };
        if let Err(error) = session.informers.list_owned(&place, &need.resource, &owner.hash).await {
            tracing::info!(%place, %error, "the hub cannot list objects, so health or values of some are not complete; it tries again in 30 s");
            ctx.hub.queue.add_after(Key::Target(ctx.key.clone()), LIST_PAUSE);
            return;
        }
    }
}

/// Has the CRDs read on which verdicts about declared objects depend. Where that fails, what was known stands until the
/// next reconcile.
pub(super) async fn read_kinds(ctx: &Context<'_>, session: &Session, desired: &Desired, fence: &Fence<'_>) {
    let unread = session.records.unread();
    if unread.is_empty() {
        return;
    }
    let mut needs = needs(desired, &session.kinds());
    needs.retain(|gvk, _| unread.contains(gvk));
    if needs.is_empty() {
        return;
    }
    if let Err(error) = kind_facts::read_kinds(session, fence, &needs).await {
        tracing::info!(key = %ctx.key, %error, "the hub cannot read CRDs, so some kinds are judged without what they declare; it tries again in 30 s");
        ctx.hub.queue.add_after(Key::Target(ctx.key.clone()), LIST_PAUSE);
    }
}

/// The digest of all rules by which the target is judged; `None`: they have not judged all of it yet.
pub(super) fn digest_of_all(ctx: &Context<'_>, session: &Session) -> Option<String> {
    let owner = ctx.owner_hash(ctx.key);
    let records = &session.records;
    let is_judged = records.unjudged(&owner).is_empty() && session.informers.are_judged(ctx.key);
    is_judged.then(|| ctx.hub.health.now().with(records.own_rules(&owner)).digest())
}

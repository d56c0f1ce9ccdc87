//! What of the member is to be seen for a target, and what cannot be.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use vidra_core::{
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey},
    plan::Want,
    status::{Delivery, Reason},
};

use super::{
    context::Context,
    requeue::{Requeue, Retry},
};
use crate::{
    base::error::{CallError, Class},
    desired::Desired,
    member::{
        informers::{Need, Place, State},
        kinds::Kinds,
        session::Session,
    },
};

/// Why objects cannot be seen.
pub(super) struct Obstruction {
    /// In words.
    pub(super) why: String,
    /// It may pass by itself.
    pub(super) passes: bool,
}

/// What cannot be seen: nothing is planned for it.
#[derive(Default)]
pub(super) struct Blind {
    /// Kinds, everywhere or in a namespace.
    pub(super) places: BTreeMap<Place, Obstruction>,
    /// Objects that are there and cannot be read, and why.
    pub(super) objects: BTreeMap<ObjectKey, String>,
}

impl Blind {
    /// Nothing is hidden.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty() && self.objects.is_empty()
    }

    /// Is this object hidden?
    pub(super) fn hides(&self, key: &ObjectKey, gvk: &Gvk) -> bool {
        let place = |namespace: &Arc<str>| Place { gvk: gvk.clone(), namespace: namespace.clone() };
        !self.is_empty()
            && (self.objects.contains_key(key)
                || self.places.contains_key(&Place::everywhere(gvk))
                || self.places.contains_key(&place(&key.namespace)))
    }

    /// Those of the wants that are not hidden.
    pub(super) fn seen(&self, wants: &BTreeMap<ObjectKey, Want>) -> BTreeMap<ObjectKey, Want> {
        let seen = wants.iter().filter(|(key, want)| !self.hides(key, &want.gvk));
        seen.map(|(key, want)| (key.clone(), want.clone())).collect()
    }

    /// Some of it may be seen later, and nothing tells when.
    pub(super) fn passes(&self) -> bool {
        self.places.values().any(|unseen| unseen.passes)
    }
}

/// What is to be seen of the member for what is declared.
pub(super) fn needs(desired: &Desired, kinds: &Kinds) -> BTreeMap<Gvk, Need> {
    let mut needs = BTreeMap::new();
    let mut last = None;
    for (key, want) in &desired.wants {
        // They stand together, by the order of their keys.
        if last.replace((&want.gvk, &key.namespace)) == Some((&want.gvk, &key.namespace)) {
            continue;
        }
        if let Some((resource, scope)) = kinds.get(&want.gvk) {
            let need = || Need { resource: resource.clone(), scope: *scope, namespaces: BTreeSet::new() };
            let need = needs.entry(want.gvk.clone()).or_insert_with(need);
            if !need.namespaces.contains(&key.namespace) {
                need.namespaces.insert(key.namespace.clone());
            }
        }
    }
    needs
}

/// Asks for the informers that this target needs; what it cannot see all the same.
///
/// # Errors
/// The reconcile ends here: some have not listed yet, and will say so; or what the member serves has changed.
pub(super) async fn require_informers(
    ctx: &Context<'_>,
    session: &Arc<Session>,
    desired: &Desired,
) -> Result<Blind, Requeue> {
    let needs = needs(desired, &session.kinds());
    let informers = &session.informers;
    let states = if ctx.follows_events() {
        informers.require(ctx.key, &needs)
    } else {
        informers.release(ctx.key);
        let unwatched = || State::Failing("not watched".into());
        informers.places(&needs).into_iter().map(|place| (place, unwatched())).collect()
    };
    if states.values().any(|state| *state == State::Syncing) {
        return Err(Requeue::OnChange);
    }
    let (mut blind, mut has_seen) = (Blind::default(), false);
    for (place, state) in states {
        match state {
            // Its watch may have ended: until the next list no connection breaks.
            State::Synced => has_seen |= !mutants::is(Mutant::SyncedUnconfirmed),
            State::Syncing => {}
            State::Denied(why) => {
                blind.places.insert(place, Obstruction { why, passes: false });
            }
            // Where no watch tells, one list does.
            State::Failing(_) => {
                let Some(need) = needs.get(&place.gvk) else { continue };
                let failed = informers.list_now(&place, need).await;
                // By a list that failed nothing is planned.
                has_seen |= !failed.contains_key(&place);
                for (place, error) in failed {
                    if error.class == Class::NotServed && is_served_no_more(session, &place.gvk).await {
                        return Err(Requeue::AtOnce);
                    }
                    let passes = error.class == Class::NotServed || error.is_transient();
                    blind.places.insert(place, Obstruction { passes, why: error.message });
                }
            }
        }
    }
    // What was seen may be another cluster's than the one that answers now.
    if has_seen
        && session.is_blind()
        && let Err(error) = session.confirm(&ctx.fence(session)).await
    {
        return Err(after_unconfirmed(ctx, session, &error));
    }
    blind.objects = informers.unread(desired.wants.keys());
    Ok(blind)
}

/// When to look again where it is not known who has answered.
fn after_unconfirmed(ctx: &Context<'_>, session: &Session, error: &CallError) -> Requeue {
    match error.class {
        Class::Withdrawn if session.is_sure_for(ctx.key) => Requeue::AtOnce,
        Class::Withdrawn => Requeue::OnChange,
        _ => {
            // It does not say who it is: the probe finds that out, and tells it of the member.
            if !error.is_transient() {
                session.raise_doubt();
            }
            Requeue::Retry(Retry::Soon)
        }
    }
}

/// The member does not know the kind any more: from now on that is known.
async fn is_served_no_more(session: &Session, gvk: &Gvk) -> bool {
    session.rediscover().await.is_ok_and(|kinds| kinds.get(gvk).is_none() && !kinds.is_stale(gvk))
}

/// Did effects fail as they do for a member that serves a kind no more? It says so with a page, as a gateway would.
fn may_lack_a_kind(delivery: Option<&Delivery>) -> bool {
    use Reason::{Conflict, NotServed, ServerError};
    matches!(delivery, Some(Delivery::Failed { reason: NotServed | Conflict | ServerError, .. }))
}

/// Where no informer tells any more what the member serves, the next try goes by what it serves now.
pub(super) async fn look_for_kinds(session: &Session, delivery: Option<&Delivery>) {
    if may_lack_a_kind(delivery) {
        session.rediscover().await.ok();
    }
}

/// Effects failed for the member serves a kind no more: nothing else would tell, for a watch may go on.
pub(super) async fn lost_a_kind(session: &Session, desired: &Desired, delivery: Option<&Delivery>) -> bool {
    if !may_lack_a_kind(delivery) {
        return false;
    }
    let Ok(kinds) = session.rediscover().await else { return false };
    let is_lost = |gvk: &Gvk| kinds.get(gvk).is_none() && !kinds.is_stale(gvk);
    desired.wants.values().any(|want| is_lost(&want.gvk))
}

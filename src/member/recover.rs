//! Finds what a target has in a member when its inventory was lost: every kind that can be listed, by owner
//! label. A label proves nothing: what we have not applied is passed over, and whatever is done with the rest is proved then.

use vidra_api::labels::owner_selector;
use vidra_core::{
    mutants::{self, Mutant},
    object::ObjectKey,
    owner::Owner,
    plan::{Held, Inventory},
};

use super::{
    session::{Readiness, Session},
    token::Token,
};
use crate::base::error::{CallError, Class};

/// Complete, or an error: a kind that cannot be listed may hide objects.
pub async fn find_own(session: &Session, owner: &Owner, token: &Token<'_>) -> Result<Inventory, CallError> {
    // Its discovery would not show what it does not serve yet.
    if session.readiness(token).await? == Readiness::NotReady && !mutants::is(Mutant::FoundWhileStarting) {
        let message = "the member's API server is not ready".to_owned();
        return Err(CallError { class: Class::Server, message });
    }
    let kinds = session.discover().await?;
    if let Some(stale) = kinds.stale.first() {
        let message = format!("the member cannot say now what {stale} serves");
        return Err(CallError { class: Class::Server, message });
    }
    let selector = owner_selector(&owner.hub, &owner.hash);
    let mut inventory = Inventory::new();
    for (gvk, resource) in kinds.deliverable() {
        for found in session.list(token, resource, None, &selector).await? {
            if found.name.is_empty() {
                tracing::warn!(kind = %gvk, "an object with the hub's labels has no name that it can read");
                continue;
            }
            let key = ObjectKey::new(gvk, &found.namespace, &found.name);
            if !found.may_be_applied_by(&owner.manager) {
                tracing::info!(
                    object = %key,
                    "the hub leaves an object alone: it has the hub's labels, and only an Apply entry of the hub could prove it the hub's own"
                );
                continue;
            }
            // Its removal may wait for long, and its Apply entry be gone by then: so its uid is written down.
            let uid = found.uid_applied_by(&owner.manager);
            inventory.entry(key).or_insert_with(|| Held { uid, ..Held::intended(&gvk.version) });
        }
    }
    // What is not there is forgotten: it must be the cluster that is meant that has said so.
    session.confirm(token).await?;
    Ok(inventory)
}

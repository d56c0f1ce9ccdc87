//! Finds what a target has in a member when its inventory was lost: every kind that can be listed, by owner
//! label. A label proves nothing: what we have not applied is passed over, and whatever is done with the rest is proved
//! then.

use std::{collections::BTreeMap, sync::Arc};

use vidra_api::labels::owner_selector;
use vidra_core::{
    mutants::{self, Mutant},
    object::ObjectKey,
    owner::Owner,
    render::Stamp,
    uid::Uid,
};

use super::{
    fence::Fence,
    metadata_list,
    session::{Readiness, Session},
};
use crate::base::error::{CallError, Class};

/// An object that was found.
#[derive(Debug)]
pub struct Found {
    /// The version of its kind.
    pub version: Arc<str>,
    /// Its uid, where an Apply entry surely proves it the owner's; else empty.
    pub uid: Uid,
    /// The generation of the VidraResource that it was applied from; `None`: nothing says it that is of this hub.
    pub generation: Option<i64>,
    /// It is being deleted: by this hub, for all that is known, for the inventory that told so is lost.
    pub going: bool,
}

/// Complete, or an error: a kind that cannot be listed may hide objects.
pub async fn find_own(
    session: &Session,
    owner: &Owner,
    fence: &Fence<'_>,
) -> Result<BTreeMap<ObjectKey, Found>, CallError> {
    // Its discovery would not show what it does not serve yet.
    if session.readiness(fence).await? == Readiness::NotReady && !mutants::is(Mutant::FoundWhileStarting) {
        let message = "the member's API server is not ready".to_owned();
        return Err(CallError { class: Class::Server, message });
    }
    let kinds = session.discover().await?;
    if let Some(stale) = kinds.stale.first() {
        let message = format!("the member cannot say now what {stale} serves");
        return Err(CallError { class: Class::Server, message });
    }
    let selector = owner_selector(&owner.hub, &owner.hash);
    let mut all = BTreeMap::new();
    for (gvk, resource) in kinds.deliverable() {
        for found in metadata_list::list(session, fence, resource, None, &selector).await? {
            if found.name.is_empty() {
                tracing::warn!(kind = %gvk, "an object with the hub's labels has no name that it can read");
                continue;
            }
            let key = ObjectKey::new(gvk, &found.namespace, &found.name);
            if !found.may_have_been_applied_by(&owner.manager) {
                tracing::info!(
                    object = %key,
                    "the hub leaves an object alone: it has the hub's labels, and only an Apply entry of the hub could prove it the hub's own"
                );
                continue;
            }
            // Its removal may wait for long, and its Apply entry be gone by then: so its uid is written down.
            let uid = found.uid_applied_by(&owner.manager);
            let stamp = found.stamp(&owner.hash.label_key()).and_then(Stamp::parse);
            let stamp = stamp.filter(|stamp| stamp.is_genuine(session.salt(), &key));
            let generation = stamp.map(|stamp| stamp.generation);
            let going = found.is_terminating() && !uid.is_empty() && !mutants::is(Mutant::FoundStays);
            all.entry(key).or_insert_with(|| Found { version: gvk.version.clone(), uid, generation, going });
        }
    }
    // What is not there is forgotten: it must be the cluster that is meant that has said so.
    session.confirm(fence).await?;
    Ok(all)
}

//! Finds what a target has in a member when its inventory was lost: every kind that can be listed, by owner
//! label. A label proves nothing; whatever is done with what is found is proved then.

use kube::{Api, api::ListParams};
use vidra_api::labels::HUB_LABEL;
use vidra_core::{
    drift::{About, Does},
    object::ObjectKey,
    plan::Held,
};

use super::{
    error::{CallError, Class},
    live::Live,
    owner::Owner,
    session::Session,
    token::Token,
};
use crate::hub::inventory::Inventory;

/// Complete, or an error: a kind that cannot be listed may hide objects.
pub async fn find_own(session: &Session, owner: &Owner, token: &Token<'_>) -> Result<Inventory, CallError> {
    let kinds = session.rediscover().await?;
    if let Some(stale) = kinds.stale.first() {
        let message = format!("the member cannot say now what {stale} serves");
        return Err(CallError { class: Class::Server, message });
    }
    let selector = format!("{HUB_LABEL}={},{}", owner.hub, owner.hash.label_key());
    let mut inventory = Inventory::new();
    for (gvk, resource) in kinds.deliverable() {
        let api: Api<Live> = Api::all_with(session.client.clone(), resource);
        let mut params = ListParams::default().labels(&selector).limit(session.knobs().page);
        loop {
            let about = About { group: &gvk.group, kind: &gvk.kind, does: Does::Reads };
            let page = session.call(token, "list", about, api.list_metadata(&params)).await?;
            for found in page.items {
                let (namespace, name) = (found.metadata.namespace, found.metadata.name);
                let key = ObjectKey::new(gvk, &namespace.unwrap_or_default(), &name.unwrap_or_default());
                // Without uid: only our own Apply entry will prove it ours.
                inventory.entry(key).or_insert_with(|| Held::intended(&gvk.version));
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
    }
    Ok(inventory)
}

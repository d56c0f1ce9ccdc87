//! An object that is wanted only where there is none of its name: what is there stays as it is.

use vidra_api::labels::HUB_LABEL;
use vidra_core::render::Declared;

use super::{Actor, Outcome, Step};
use crate::member::{
    error::{CallError, Class},
    owner::{Standing, standing},
    records::Source,
};

impl Actor<'_> {
    /// The name is taken. Ours, it is taken into the inventory; anybody else's is theirs.
    pub(super) async fn leave_present(&self, declared: &Declared) -> Step {
        let live = self.read(&declared.key, &declared.gvk).await?;
        let Some(live) = live.filter(|live| !live.is_terminating()) else {
            let message = "the object of this name is going; trying again".to_owned();
            return Err(CallError { class: Class::Conflict, message });
        };
        match standing(&live.json, self.owner) {
            // Without our label no watch shows it, and asking again and again would tell no more.
            Standing::Ours if live.json["metadata"]["labels"][HUB_LABEL] == *self.owner.hub.as_ref() => {
                let uid = live.uid().to_owned();
                self.fold(&declared.gvk, live, Source::Read);
                Ok(Outcome::Applied { uid, corrected: false })
            }
            Standing::Ours
            | Standing::Shared
            | Standing::OtherHub(_)
            | Standing::Controlled
            | Standing::Foreign => Ok(Outcome::Present),
        }
    }
}

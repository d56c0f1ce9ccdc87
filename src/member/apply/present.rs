//! An object that is wanted only where there is none of its name: what is there stays as it is.

use vidra_api::labels::HUB_LABEL;
use vidra_core::render::Declared;

use super::{Executor, Outcome, Step, create::is_taken};
use crate::{
    base::error::{CallError, Class},
    member::{
        owner::{Standing, standing},
        records::Source,
    },
};

impl Executor<'_> {
    /// Made if nothing bears its name. Ours, it is taken into the inventory; anybody else's is theirs.
    pub(super) async fn make_where_absent(&self, declared: &Declared) -> Step {
        let Some(live) = self.read(&declared.key, &declared.gvk).await? else {
            return match self.create_only(declared).await {
                Ok(uid) => Ok(Outcome::Applied { uid, corrected: false }),
                Err(error) if is_taken(&error) => {
                    let message = "the object of this name comes and goes; trying again".to_owned();
                    Err(CallError { class: Class::Conflict, message })
                }
                Err(error) => Err(error),
            };
        };
        if live.is_terminating() {
            return Ok(Outcome::InTheWay);
        }
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

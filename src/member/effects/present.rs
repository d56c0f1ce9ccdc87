//! An object that is wanted only where there is none of its name: what is there stays as it is.

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
            Standing::Ours => {
                let uid = live.uid().to_owned();
                self.fold(&declared.gvk, live, Source::Read);
                Ok(Outcome::Applied { uid, corrected: false })
            }
            Standing::Shared | Standing::OtherHub(_) | Standing::Controlled | Standing::Foreign => {
                Ok(Outcome::Present)
            }
        }
    }
}

//! Applying to objects of which something is left alone: what is sent depends on what is live, so it is sent for
//! exactly the resourceVersion that was seen.

use std::{borrow::Cow, sync::Arc};

use serde_json::Value;
use vidra_core::{
    ignore::{Spared, Sparing},
    plan::Why,
    render::{self, Declared, Stamp},
};

use super::{Executor, Outcome, Step};
use crate::{
    base::error::{CallError, Class},
    member::live::Live,
};

/// So many times in one pass an object may change between its read and its apply.
const TRIES: usize = 5;

impl Executor<'_> {
    pub(super) fn sparing(&self) -> Arc<Sparing> {
        self.session.records.sparing(&self.owner.hash)
    }

    /// Applies to the object with this uid, leaving alone what is to be. Where something is left alone only while
    /// somebody holds it, and nobody does as far as is known, no read is needed: the resourceVersion says whether it
    /// is still so.
    pub(super) async fn apply_sparing(
        &self,
        declared: &Declared,
        spared: &Spared,
        uid: &str,
        why: Why,
        force: bool,
    ) -> Step {
        let seen = match spared.ignores() {
            true => None,
            false => self.session.records.unyielded(&self.owner.hash, &declared.key, uid),
        };
        if let Some(version) = seen {
            let mut body = self.body(declared);
            body["metadata"]["uid"] = uid.into();
            body["metadata"]["resourceVersion"] = version.into();
            match self.send(declared, &body, force).await {
                Ok(uid) => return Ok(Outcome::Applied { uid, corrected: why.is_drift() }),
                Err(error) if matches!(error.class, Class::Conflict | Class::FieldConflict(_)) => {}
                Err(error) => return self.not_applied(declared, uid, why, force, error).await,
            }
        }
        for _ in 0..TRIES {
            let live = self.read(&declared.key, &declared.gvk).await?;
            let Some(live) = live.filter(|live| live.uid() == uid) else {
                let message = "the object is gone or was replaced; trying again".to_owned();
                let gone = CallError { class: Class::Conflict, message };
                return self.not_applied(declared, uid, why, force, gone).await;
            };
            match self.send(declared, &self.body_for(declared, &live), force).await {
                Ok(uid) => return Ok(Outcome::Applied { uid, corrected: why.is_drift() }),
                Err(error) if error.class == Class::Conflict => {}
                Err(error) => return self.not_applied(declared, uid, why, force, error).await,
            }
        }
        let message = "the object changes again and again meanwhile; trying again".to_owned();
        Err(CallError { class: Class::Conflict, message })
    }

    /// The body to apply to exactly this live object.
    pub(super) fn body_for(&self, declared: &Declared, live: &Live) -> Value {
        let mut body = self.marked(declared, &self.plain_for(declared, &live.json));
        body["metadata"]["uid"] = live.uid().into();
        body["metadata"]["resourceVersion"] = live.resource_version().into();
        body
    }

    /// What is declared, leaving alone what is to be in this live object; without our marks.
    pub(super) fn plain_for(&self, declared: &Declared, live: &Value) -> Arc<Value> {
        match self.sparing().objects.get(&declared.key) {
            Some(spared) => Arc::new(spared.keeping(&declared.body, live, &self.owner.manager)),
            None => Arc::clone(&declared.body),
        }
    }

    /// Puts our marks on what [`Executor::plain_for`] gave.
    pub(super) fn marked(&self, declared: &Declared, plain: &Value) -> Value {
        let owner = self.owner;
        let sparing = self.sparing();
        let kept = sparing.objects.get(&declared.key).is_some_and(|one| one.is_kept(plain, &declared.body));
        let (name, generation) = (owner.name.clone(), owner.generation);
        let stamp = Stamp { owner: name, generation, hash: declared.hash, kept, seal: None };
        let stamp = stamp.sealed(self.session.salt(), &declared.key);
        render::compose_kept(plain, &owner.hub, &owner.hash, &stamp)
    }

    /// `value` without what is left alone in this live object.
    pub(super) fn compared<'v>(&self, declared: &Declared, value: &'v Value, live: &Value) -> Cow<'v, Value> {
        match self.sparing().objects.get(&declared.key) {
            Some(spared) => Cow::Owned(spared.compared(value, live)),
            None => Cow::Borrowed(value),
        }
    }
}

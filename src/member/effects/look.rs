//! Looks that write nothing: what became of an object that is not seen, and whether one that was not compared yet is
//! as it was left.

use serde_json::Value;
use vidra_api::labels::HUB_LABEL;
use vidra_core::{fields, plan::Drift, render::Declared};

use super::{Actor, Outcome, Patch, PatchParams, Step};
use crate::member::{
    error::{CallError, Class},
    records::{Flight, Source},
};

/// An object is read and compared so often while another owner changes it in between.
pub(super) const LOOKS: usize = 3;

impl Actor<'_> {
    /// One read, and where that does not tell one dry run; the answer is kept in the records.
    pub(super) async fn look(&self, declared: &Declared, uid: &str) -> Step {
        // Until what is read is compared: a baseline from it must not hide a later change.
        let _flight = Flight::begin(self.session, &declared.key);
        let records = &self.session.records;
        for _ in 0..LOOKS {
            let live = self.read(&declared.key, &declared.gvk).await?;
            let Some(live) = live.filter(|live| live.uid() == uid) else {
                let targets = records.tell_gone(&declared.key, uid);
                self.session.wake(targets, Some(&self.owner.hash));
                return Ok(Outcome::Seen);
            };
            if live.json["metadata"]["labels"][HUB_LABEL] != *self.owner.hub.as_ref() {
                records.tell_hidden(&declared.gvk, live);
                return Ok(Outcome::Seen);
            }
            let json = live.json.clone();
            self.fold(&declared.gvk, live, Source::Read);
            let view = records.view(&self.owner.hash, &declared.key, self.desired);
            if view.is_none_or(|view| !view.proof || view.drift != Drift::Unsure)
                || self.is_as_left(declared, uid, &json).await?.is_some()
            {
                return Ok(Outcome::Seen);
            }
        }
        Err(changed_meanwhile())
    }

    /// Whether an apply would change a value of what was read. Either way it is known from then on what an apply
    /// would leave. `None`: the object was changed meanwhile.
    pub(super) async fn is_as_left(
        &self,
        declared: &Declared,
        uid: &str,
        live: &Value,
    ) -> Result<Option<bool>, CallError> {
        let mut body = self.marked(declared, &self.plain_for(declared, live));
        body["metadata"]["uid"] = uid.into();
        let params = PatchParams { dry_run: true, ..self.params(true) };
        let api = self.api(&declared.key, self.resource(&declared.gvk)?);
        let (about, patch) = (self.changing(&declared.key), Patch::Apply(&body));
        let would = self
            .session
            .call(self.token, "verify", about, api.patch(&declared.key.name, &params, &patch))
            .await?;
        let entry = fields::own_apply_entry(&would.json, &self.owner.manager);
        let Some(set) = entry.and_then(|entry| fields::FieldSet::from_fields_v1(entry).ok()) else {
            return Ok(Some(false));
        };
        let values = |json: &Value| {
            let compared = self.compared(declared, json, live);
            fields::values_hash(&compared, &set, Some(&declared.body))
        };
        let same = values(&would.json) == values(live);
        let (records, owner, key) = (&self.session.records, &self.owner.hash, &declared.key);
        let is_newest = match same {
            true => records.rebase(owner, key, live, set, &declared.body),
            false => records.differs(owner, key, live, &would.json, set, declared),
        };
        Ok(is_newest.then_some(same))
    }
}

/// Others, who apply the object too, were faster each time.
pub(super) fn changed_meanwhile() -> CallError {
    let message = "the object was changed each time that it was looked at; trying again".to_owned();
    CallError { class: Class::Conflict, message }
}

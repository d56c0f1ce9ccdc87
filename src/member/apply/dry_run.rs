//! Looks that write nothing: what became of an object that is not seen, and whether one that was not compared yet is
//! as it was left.

use serde_json::Value;
use vidra_api::labels::HUB_LABEL;
use vidra_core::{fields, plan::Drift, render::Declared};

use super::{Executor, Outcome, Patch, PatchParams, Step};
use crate::{
    base::error::{CallError, Class},
    member::{flight::Flight, owner::other_owners_of, records::Source},
};

/// An object is read and compared so often while another owner changes it in between.
pub(super) const LOOKS: usize = 3;

/// What an apply would do to what was read.
pub(super) enum Would {
    /// Nothing.
    Nothing,
    /// The values stay, and some of them that only another VidraResource holds now would be this one's too: else they go with
    /// that one.
    Own,
    /// Values change.
    Change,
}

impl Executor<'_> {
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
                || self.would(declared, uid, &json).await?.is_some()
            {
                return Ok(Outcome::Seen);
            }
        }
        Err(changed_meanwhile())
    }

    /// What an apply would do to what was read, which is known from then on. `None`: the object was changed meanwhile.
    pub(super) async fn would(
        &self,
        declared: &Declared,
        uid: &str,
        live: &Value,
    ) -> Result<Option<Would>, CallError> {
        let mut body = self.marked(declared, &self.plain_for(declared, live));
        body["metadata"]["uid"] = uid.into();
        let params = PatchParams { dry_run: true, ..self.params(true) };
        let api = self.api(&declared.key, self.resource(&declared.gvk)?);
        let (about, patch) = (self.changing(&declared.key), Patch::Apply(&body));
        let would = self
            .session
            .call(self.token, "verify", about, api.patch(&declared.key.name, &params, &patch))
            .await?;
        let owned = |json, manager: &str| {
            let entry = fields::own_apply_entry(json, manager);
            entry.and_then(|entry| fields::FieldSet::from_fields_v1(entry).ok())
        };
        let manager = &self.owner.manager;
        let Some(set) = owned(&would.json, manager) else { return Ok(Some(Would::Change)) };
        let others = other_owners_of(live, self.owner).into_iter().filter_map(|other| owned(live, other));
        let is_lost = owned(live, manager).is_some_and(|now| set.is_lost_to(&now, others));
        let values = |json: &Value| {
            let compared = self.compared(declared, json, live);
            fields::values_hash(&compared, &set, Some(&declared.body))
        };
        let same = values(&would.json) == values(live);
        let (records, owner, key) = (&self.session.records, &self.owner.hash, &declared.key);
        let is_newest = match same {
            true => records.rebase(owner, key, live, (set, is_lost), &declared.body),
            false => records.differs(owner, key, live, &would.json, set, declared),
        };
        Ok(is_newest.then_some(match (same, is_lost) {
            (false, _) => Would::Change,
            (true, true) => Would::Own,
            (true, false) => Would::Nothing,
        }))
    }
}

/// Others, who apply the object too, were faster each time.
pub(super) fn changed_meanwhile() -> CallError {
    let message = "the object was changed each time that it was looked at; trying again".to_owned();
    CallError { class: Class::Conflict, message }
}

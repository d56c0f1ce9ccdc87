//! Deleting and releasing: only after a live read that proves the object ours.

use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy},
};
use serde_json::{Value, json};
use vidra_api::labels::{FORGET, HUB_LABEL, PRUNE};
use vidra_core::{
    fields,
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey},
    plan::Effect,
    unseen,
};

use super::{Executor, LABEL_MAX, Outcome, Step, namespace_contents::Contents};
use crate::{
    base::error::{CallError, Class},
    member::{
        live::Live,
        owner::{Standing, other_owners_of, standing},
        records::Source,
    },
};

/// How an object goes out of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parting {
    Delete,
    /// Deleted if nothing is in it, else let go.
    DeleteEmpty,
    /// Let go: it stays as it is, without our marks.
    Release,
    /// Left to another VidraResource that applies it.
    Withdraw,
    /// The same, or as it is; while no other one applies it, it stays.
    Yield {
        as_is: bool,
    },
}

/// How a delete ended.
pub(super) enum Deletion {
    /// The object is gone.
    Done,
    /// It goes when its finalizers have run.
    Going,
    /// It was gone before.
    WasGone,
}

impl Executor<'_> {
    /// Deletes or releases, after a live read that proves the object ours.
    pub(super) async fn remove(&self, effect: &Effect, uid: &str, parting: Parting) -> Step {
        let key = &effect.key;
        // What is not there may be made after this look, and what was removed may be made again.
        if let Some(rest) = self.session.former_land_in() {
            return Ok(Outcome::TooEarly { rest });
        }
        let Some((gvk, resource)) = self.address(&effect.gvk).await? else {
            return Ok(match self.session.is_gone_for_good(&effect.gvk) {
                true => Outcome::Gone,
                false => Outcome::Unsettled {
                    why: format!(
                        "the member does not serve {} now; if it goes on so for a minute, its objects are taken for gone",
                        effect.gvk
                    ),
                },
            });
        };
        let api = self.api(key, resource);
        let Some(live) = self.get(&api, key).await? else {
            self.forget_record(key, uid);
            return Ok(self.missed(key));
        };
        let held = !uid.is_empty() && live.uid() == uid;
        let ours = match standing(&live.json, self.owner) {
            Standing::OtherHub(hub) if held && self.owner.leaves => return Ok(self.held_elsewhere(key, &hub)),
            Standing::Controlled | Standing::OtherHub(_) => false,
            Standing::Ours => true,
            Standing::Shared | Standing::Foreign if held && !self.is_traced(&live) => {
                return Ok(Outcome::Unproven);
            }
            Standing::Shared | Standing::Foreign => held,
        };
        if !ours {
            tracing::info!(cluster = %self.session.cluster, object = %key, "left alone: it is not provably ours");
            return Ok(self.missed(key));
        }
        self.part(&api, &gvk, key, live, parting).await
    }

    /// The inventory has it, and another hub's label is on it: this hub has lost its identity, or was overtaken.
    fn held_elsewhere(&self, key: &ObjectKey, hub: &str) -> Outcome {
        let (hub, cluster) = (unseen::shown(hub, LABEL_MAX), &self.session.cluster);
        Outcome::Refused {
            reason: "OwnedByOtherHub",
            message: format!(
                "{key} belongs to the hub {hub:?} and is not deleted; restore this hub's identity, or annotate the VidraResource to leave what is there: {FORGET}={cluster}"
            ),
        }
    }

    /// Deletes or releases what was read and is ours.
    async fn part(&self, api: &Api<Live>, gvk: &Gvk, key: &ObjectKey, live: Live, parting: Parting) -> Step {
        let others = self.has_other_owners(&live);
        // A person's word, on the live object: it stays, whatever is declared.
        let kept = live.json["metadata"]["annotations"][PRUNE] == "disabled";
        let kept = kept && !mutants::is(Mutant::PruneKept);
        if matches!(parting, Parting::Yield { .. }) && !others {
            return Ok(Outcome::Present);
        }
        if matches!(parting, Parting::Release | Parting::Yield { as_is: true }) {
            return self.release(api, gvk, key, &live, others).await;
        }
        if kept && !others {
            tracing::info!(cluster = %self.session.cluster, object = %key, "released and not deleted: it is annotated {PRUNE}: disabled");
            return self.release(api, gvk, key, &live, others).await;
        }
        // Those who keep it keep it from being deleted; what this one alone declared goes, that annotation too.
        if others {
            return self.withdraw(api, gvk, key, live).await;
        }
        if parting == Parting::Withdraw {
            self.fold_seen(gvk, key, live);
            let why = "the VidraResource that took it over has released it; looking again".to_owned();
            return Ok(Outcome::Unsettled { why });
        }
        if live.is_terminating() {
            self.fold_seen(gvk, key, live);
            return Ok(Outcome::Removing);
        }
        if parting == Parting::DeleteEmpty {
            match self.contents(&live).await? {
                Contents::None => {}
                Contents::Going(what) => {
                    tracing::debug!(cluster = %self.session.cluster, object = %key, %what, "not empty yet");
                    return Ok(Outcome::Removing);
                }
                Contents::Foreign(why) => {
                    tracing::info!(cluster = %self.session.cluster, object = %key, %why, "released and not deleted");
                    return self.release(api, gvk, key, &live, others).await;
                }
            }
        }
        match self.delete_exactly(api, key, &live).await? {
            Deletion::Going => Ok(Outcome::Removing),
            Deletion::Done => {
                self.forget_record(key, live.uid());
                Ok(self.gone_or_landing(key))
            }
            Deletion::WasGone => Ok(self.missed(key)),
        }
    }

    /// It is not there any more, was deleted just now, or is somebody else's. A call of before that makes it, and was not
    /// answered, finds its name free once it is: until that cannot land any more the inventory alone tells that what it makes
    /// is to go.
    fn gone_or_landing(&self, key: &ObjectKey) -> Outcome {
        match self.session.may_land(&self.owner.hash, key) {
            true => Outcome::Unsettled {
                why: "a call that makes it was not answered, and it may still come".to_owned(),
            },
            false => Outcome::Gone,
        }
    }

    /// The same, as a read alone says.
    fn missed(&self, key: &ObjectKey) -> Outcome {
        self.missed.lock().insert(key.clone());
        self.gone_or_landing(key)
    }

    /// What only reads have said to be gone is so if the cluster that is meant still answers after them: where no watch is
    /// open no connection breaks when another one comes to be behind the address.
    pub async fn confirm_gone(&self, done: &mut [(Effect, Outcome)]) {
        let missed = std::mem::take(&mut *self.missed.lock());
        if missed.is_empty() {
            return;
        }
        let Err(error) = self.session.confirm(self.token).await else { return };
        for (effect, outcome) in done {
            if matches!(outcome, Outcome::Gone) && missed.contains(&effect.key) {
                *outcome = Outcome::Failed(error.clone());
            }
        }
    }

    /// Deletes exactly the object that was read, in the background. The one way in which a member's object is deleted.
    pub(super) async fn delete_exactly(
        &self,
        api: &Api<Live>,
        key: &ObjectKey,
        live: &Live,
    ) -> Result<Deletion, CallError> {
        let preconditions = Preconditions {
            uid: Some(live.uid().to_owned()),
            resource_version: Some(live.resource_version().to_owned()),
        };
        let preconditions = match mutants::is(Mutant::NoUidPrecondition) {
            true => Preconditions { uid: None, resource_version: None },
            false => preconditions,
        };
        let params = DeleteParams {
            preconditions: Some(preconditions),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match self
            .session
            .call(self.token, "delete", self.changing(key), api.delete(&key.name, &params))
            .await
        {
            Ok(answer) if answer.as_ref().left().is_some_and(Live::is_terminating) => Ok(Deletion::Going),
            Ok(answer) if answer.as_ref().right().is_some_and(|status| !status.is_success()) => {
                let message = "it answers that it deletes, and that it does not".to_owned();
                Err(CallError { class: Class::Server, message })
            }
            Ok(_) => Ok(Deletion::Done),
            Err(error) => self.must_be_gone(api, key, error).await.map(|()| Deletion::WasGone),
        }
    }

    /// What becomes of an object whose change the member refused with this error.
    async fn gone_or(&self, api: &Api<Live>, key: &ObjectKey, error: CallError) -> Step {
        self.must_be_gone(api, key, error).await.map(|()| self.missed(key))
    }

    /// The error, unless it says that the object is gone and a read agrees: a webhook may say so too, of an object that it
    /// does not know yet, and none is asked about a read.
    async fn must_be_gone(
        &self,
        api: &Api<Live>,
        key: &ObjectKey,
        error: CallError,
    ) -> Result<(), CallError> {
        match self.is_gone(&error, key) && self.get(api, key).await?.is_none() {
            true => Ok(()),
            false => Err(error),
        }
    }

    /// Withdraws from an object that another VidraResource keeps: an apply of nothing but the identity takes our marks
    /// and what we alone declared, and leaves what both declared. Where the others do not hold what the object must
    /// have, the server refuses that, and only our marks go.
    async fn withdraw(&self, api: &Api<Live>, gvk: &Gvk, key: &ObjectKey, live: Live) -> Step {
        if fields::own_apply_entry(&live.json, &self.owner.manager).is_none() {
            return self.release(api, gvk, key, &live, true).await;
        }
        let mut body = json!({"apiVersion": gvk.api_version(), "kind": &*gvk.kind, "metadata": {
            "name": &*key.name, "uid": live.uid(), "resourceVersion": live.resource_version(),
        }});
        if !key.namespace.is_empty() {
            body["metadata"]["namespace"] = (&*key.namespace).into();
        }
        let (params, patch, about) = (self.params(false), Patch::Apply(&body), self.changing(key));
        match self.session.call(self.token, "release", about, api.patch(&key.name, &params, &patch)).await {
            Ok(answer) if self.is_marked(&answer) => self.release(api, gvk, key, &answer, true).await,
            Ok(answer) => {
                self.leave_to_others(gvk, answer);
                Ok(Outcome::Gone)
            }
            Err(error) if error.is_invalid() => self.release(api, gvk, key, &live, true).await,
            Err(error) => self.gone_or(api, key, error).await,
        }
    }

    /// What others keep: without the hub's label no watch shows it to them, and they are told that it is hidden.
    fn leave_to_others(&self, gvk: &Gvk, live: Live) {
        let is_seen = live.json["metadata"]["labels"][HUB_LABEL] == *self.owner.hub.as_ref();
        if is_seen || mutants::is(Mutant::HiddenIsSeen) {
            return self.fold(gvk, live, Source::Read);
        }
        let targets = self.session.records.tell_hidden(gvk, live);
        self.session.wake(targets, Some(&self.owner.hash));
    }

    /// Another VidraResource of this hub applies it too, one that the hub knows.
    pub(super) fn has_other_owners(&self, live: &Live) -> bool {
        other_owners_of(&live.json, self.owner).into_iter().any(|manager| self.session.is_owner(manager))
    }

    /// Something on the object itself says that it is this owner's: an entry of an inventory alone may be anybody's.
    fn is_traced(&self, live: &Live) -> bool {
        let entries = live.json["metadata"]["managedFields"].as_array().into_iter().flatten();
        let mut managers = entries.map(|entry| &entry["manager"]);
        self.is_marked(live)
            || managers.any(|manager| *manager == *self.owner.manager)
            || mutants::is(Mutant::UntracedDeleted)
    }

    fn is_marked(&self, live: &Live) -> bool {
        let label = self.owner.hash.label_key();
        ["labels", "annotations"].iter().any(|field| !live.json["metadata"][field][&label].is_null())
    }

    /// Takes our marks off and leaves everything else; the hub's label stays while another of its resources
    /// applies the object.
    async fn release(&self, api: &Api<Live>, gvk: &Gvk, key: &ObjectKey, live: &Live, others: bool) -> Step {
        let label = self.owner.hash.label_key();
        let metadata = &live.json["metadata"];
        let entries = metadata["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default();
        let rest: Vec<&Value> =
            entries.iter().filter(|entry| entry["manager"] != *self.owner.manager).collect();
        let mut labels = json!({ &label: null });
        if !others {
            labels[HUB_LABEL] = Value::Null;
        }
        let body = json!({"metadata": {
            "uid": live.uid(),
            "resourceVersion": live.resource_version(),
            "labels": labels,
            "annotations": { &label: null },
            "managedFields": if rest.is_empty() { json!([{}]) } else { json!(rest) },
        }});
        let params = PatchParams { field_manager: Some("vidra-hub".into()), ..PatchParams::default() };
        let (about, patch) = (self.changing(key), Patch::Merge(&body));
        match self.session.call(self.token, "release", about, api.patch(&key.name, &params, &patch)).await {
            Ok(live) if others => {
                self.leave_to_others(gvk, live);
                Ok(Outcome::Gone)
            }
            Ok(live) => {
                self.forget_record(key, live.uid());
                Ok(Outcome::Gone)
            }
            Err(error) => self.gone_or(api, key, error).await,
        }
    }
}

//! Deleting and releasing: only after a live read that proves the object ours.

use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy},
};
use serde_json::{Value, json};
use vidra_api::labels::HUB_LABEL;
use vidra_core::{
    object::{Gvk, ObjectKey},
    plan::Effect,
};

use super::{Actor, Outcome, Step};
use crate::member::{
    error::Class,
    live::Live,
    owner::{Standing, other_owners, standing},
    records::Source,
};

impl Actor<'_> {
    /// Deletes or releases, after a live read that proves the object ours.
    pub(super) async fn remove(&self, effect: &Effect, uid: &str, delete: bool) -> Step {
        let key = &effect.key;
        let Some((gvk, resource)) = self.address(&effect.gvk).await? else {
            return Ok(Outcome::Gone);
        };
        let api = self.api(key, resource);
        let Some(live) = self.get(&api, &key.name).await? else {
            self.forget_record(key, uid);
            return Ok(Outcome::Gone);
        };
        let ours = match standing(&live.json, self.owner) {
            Standing::Controlled | Standing::OtherHub(_) => false,
            Standing::Ours => true,
            Standing::Shared | Standing::Foreign => !uid.is_empty() && live.uid() == uid,
        };
        if !ours {
            tracing::info!(cluster = %self.session.cluster, object = %key, "left alone: it is not provably ours");
            return Ok(Outcome::Gone);
        }
        let others = other_owners(&live.json, self.owner);
        if !delete || others {
            return self.release(&api, &gvk, key, &live, others).await;
        }
        if live.is_terminating() {
            self.fold(&gvk, live, Source::Read);
            return Ok(Outcome::Removing);
        }
        let preconditions = Preconditions {
            uid: Some(live.uid().to_owned()),
            resource_version: Some(live.resource_version().to_owned()),
        };
        #[cfg(vidra_mutants)]
        let preconditions = match crate::mutants::is(crate::mutants::Mutant::NoUidPrecondition) {
            true => Preconditions { uid: None, resource_version: None },
            false => preconditions,
        };
        let params = DeleteParams {
            preconditions: Some(preconditions),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match self.session.call("delete", api.delete(&key.name, &params)).await {
            Ok(answer) if answer.as_ref().left().is_some_and(Live::is_terminating) => Ok(Outcome::Removing),
            Ok(_) => {
                self.forget_record(key, live.uid());
                Ok(Outcome::Gone)
            }
            Err(error) if error.class == Class::NotFound => Ok(Outcome::Gone),
            Err(error) => Err(error),
        }
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
        match self.session.call("release", api.patch(&key.name, &params, &Patch::Merge(&body))).await {
            Ok(live) if others => {
                self.fold(gvk, live, Source::Read);
                Ok(Outcome::Gone)
            }
            Ok(live) => {
                self.forget_record(key, live.uid());
                Ok(Outcome::Gone)
            }
            Err(error) if error.class == Class::NotFound => Ok(Outcome::Gone),
            Err(error) => Err(error),
        }
    }
}

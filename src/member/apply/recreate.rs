//! A change that the API server refuses because a field cannot be changed on a live object: told, or, where
//! the manifest asks for it, made by deleting the object and making it again.
//!
//! Which refusals are of that kind no code or cause of the answer says (a Job's template is "invalid", a
//! StatefulSet's field "forbidden"). So the server is asked by a dry run whether it would create the object:
//! it answers that the name is taken when nothing but the live object is in the way, and refuses it again when
//! the object itself is at fault. Nothing is deleted that could not be made again.

use kube::{
    api::PostParams,
    core::{ApiResource, Status},
};
use serde_json::Value;
use vidra_api::labels::PRUNE;
use vidra_core::{
    directives::OnImmutable,
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey},
    render::Declared,
};

use super::{Executor, Outcome, Step, delete::Deletion};
use crate::{
    base::error::{CallError, Class, Named},
    member::{
        live::Live,
        owner::{Standing, standing},
    },
};

impl Executor<'_> {
    /// An apply to the object with this uid was refused for these fields.
    pub(super) async fn change_immutable(
        &self,
        declared: &Declared,
        uid: &str,
        fields: &str,
        refused: CallError,
        was: Was,
    ) -> Step {
        let key = &declared.key;
        let Some(live) = self.read(key, &declared.gvk).await?.filter(|live| live.uid() == uid) else {
            // A uid that differs is refused in the same way.
            let message = "the object was replaced; trying again".to_owned();
            return Err(CallError { class: Class::Conflict, message });
        };
        if !self.could_be_made(declared).await? {
            return Err(refused);
        }
        let refuse = |what: &str| {
            let message = format!(
                "{key} cannot be brought to what is declared: {fields} cannot be changed on a live object ({}); {what}",
                refused.message
            );
            Ok(Outcome::Refused { reason: "ImmutableField", message })
        };
        if was == Was::Unproved {
            return refuse(
                "nothing proves that it is the hub's, so it is not deleted to be made again: delete it in the member, or declare what it has",
            );
        }
        if let Some(why) = must_stay(&declared.gvk, &live.json) {
            return refuse(&format!(
                "it is never deleted to be made again, for {why}: put the old value back, or replace it by hand"
            ));
        }
        if declared.directives.on_immutable == OnImmutable::Fail {
            return refuse(
                "put the old value back, or annotate it in the manifest with vidra.dev/on-immutable: Recreate, which deletes it and makes it again",
            );
        }
        let ours = match standing(&live.json, self.owner) {
            Standing::Ours => !self.has_other_owners(&live),
            // Known by its uid; but what another one had is let go, and nobody's of ours.
            Standing::Foreign if was == Was::Ours => {
                // It may have been planned by an entry that is gone since then. The pass that saw that entry writes the uid
                // down at its end; else it is not ours.
                if !self.is_recorded(key, live.uid()) && !mutants::is(Mutant::UnrecordedRecreated) {
                    let message =
                        "it lost the hub's entry in its managedFields a moment ago; trying again".to_owned();
                    return Err(CallError { class: Class::Conflict, message });
                }
                true
            }
            Standing::Foreign | Standing::Shared | Standing::OtherHub(_) | Standing::Controlled => false,
        };
        if !ours {
            return refuse("it is not this VidraResource's alone, so it is not deleted to be made again");
        }
        self.recreate(declared, live, fields).await
    }

    /// Would the server create the object, if there were none of its name?
    async fn could_be_made(&self, declared: &Declared) -> Result<bool, CallError> {
        let (resource, scope) = self.resource(&declared.gvk)?;
        let api = self.api(&declared.key, (resource.clone(), scope));
        let params = PostParams { dry_run: true, field_manager: Some(self.owner.manager.clone()) };
        let body = Live::from(self.body(declared));
        let asked = async {
            match api.create(&params, &body).await {
                Ok(_) => Ok(true),
                Err(kube::Error::Api(status)) if is_taken(&status, &resource, &declared.key) => Ok(true),
                Err(error) => Err(error),
            }
        };
        match self.session.call(self.token, "verify", self.changing(&declared.key), asked).await {
            Ok(could) => Ok(could),
            Err(error) if error.is_transient() => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Deletes exactly the object that was read, and makes it again. The inventory holds its key throughout: after
    /// a crash in between it is missing, and is made.
    async fn recreate(&self, declared: &Declared, live: Live, fields: &str) -> Step {
        let key = &declared.key;
        if live.is_terminating() {
            self.fold_seen(&declared.gvk, key, live);
            return Ok(Outcome::Leaving);
        }
        if let Some(rest) = self.session.former_land_in() {
            return Ok(Outcome::TooEarly { rest });
        }
        let api = self.api(key, self.resource(&declared.gvk)?);
        tracing::info!(cluster = %self.session.cluster, object = %key, fields, "deleted to be made again");
        if let Deletion::Going = self.delete_exactly(&api, key, &live).await? {
            return Ok(Outcome::Leaving);
        }
        self.forget_record(key, live.uid());
        match self.create(declared, false).await? {
            Outcome::Applied { uid, .. } => Ok(Outcome::Recreated { uid, fields: fields.to_owned() }),
            other => Ok(other),
        }
    }
}

/// Whose an object was when it was applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Was {
    /// Proved to be this VidraResource's.
    Ours,
    /// Another VidraResource's, which this one joined.
    Shared,
    /// Nothing proves that it is this hub's: it was to be taken over.
    Unproved,
}

/// The server's own word that nothing but the live object is in the way. A webhook may answer 409 as well, and would refuse
/// the object again when the live one is gone.
fn is_taken(status: &Status, resource: &ApiResource, key: &ObjectKey) -> bool {
    let named = status.details.as_ref().map(Named::of);
    let names = named.is_some_and(|named| named.is(&resource.group, &resource.plural, &key.name));
    status.code == 409 && (status.reason == "AlreadyExists" && names || mutants::is(Mutant::AnyConflict))
}

/// Why an object is not deleted, whatever the manifest says.
fn must_stay(gvk: &Gvk, live: &Value) -> Option<&'static str> {
    if live["metadata"]["annotations"][PRUNE] == "disabled" {
        return Some("it is annotated vidra.dev/prune: disabled");
    }
    match (&*gvk.group, &*gvk.kind) {
        ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            Some("what others have put into it would go with it")
        }
        ("", "PersistentVolumeClaim" | "PersistentVolume") => Some("its data could go with it"),
        ("apps", "StatefulSet")
            if live["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete" =>
        {
            Some("its claims, and their data, would go with it (persistentVolumeClaimRetentionPolicy)")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_holds_data_or_objects_of_others_stays() {
        let keeps = json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain"}}});
        let drops = json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}});
        let cases = [
            (Gvk::new("", "v1", "Namespace"), json!({}), true),
            (Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), json!({}), true),
            (Gvk::new("", "v1", "PersistentVolumeClaim"), json!({}), true),
            (Gvk::new("", "v1", "PersistentVolume"), json!({}), true),
            (Gvk::new("apps", "v1", "StatefulSet"), keeps, false),
            (Gvk::new("apps", "v1", "StatefulSet"), drops, true),
            (Gvk::new("batch", "v1", "Job"), json!({}), false),
            (Gvk::new("example.com", "v1", "Namespace"), json!({}), false),
            (Gvk::new("batch", "v1", "Job"), json!({"metadata": {"annotations": {PRUNE: "disabled"}}}), true),
        ];
        for (gvk, live, stays) in cases {
            assert_eq!(must_stay(&gvk, &live).is_some(), stays, "{gvk}");
        }
    }
}

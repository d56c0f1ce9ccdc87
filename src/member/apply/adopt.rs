//! Taking over objects that others made, as `conflicts.existing` says; and what an earlier applier left in an
//! object's managedFields.
//!
//! The entry that is to be ours is written first, in one patch that is guarded by the resourceVersion, and then the
//! object is applied. Until that apply it has no label of ours, so it is nobody's of ours: a hub that dies in between
//! begins again.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use vidra_api::{ExistingPolicy, FieldPolicy};
use vidra_core::{
    fields::{self, Apart, Earlier},
    mutants::{self, Mutant},
    object::ObjectKey,
    render::Declared,
    unseen,
};

use super::{
    Executor, Outcome, Step,
    conflict::{MANAGER_MAX, MANAGERS, some},
};
use crate::{
    base::error::{CallError, Class},
    member::live::Live,
};

/// What client-side `kubectl apply` keeps; it would be of yesterday from now on.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Longest apiVersion that is told of an entry: a group is a DNS subdomain, a version a DNS label.
const API_VERSION_MAX: usize = 253 + 1 + 63;

impl Executor<'_> {
    /// A foreign object bears the name.
    pub(super) async fn meet(&self, declared: &Declared, live: Live) -> Step {
        let api_version = declared.gvk.api_version();
        let (manager, earlier) = (&self.owner.manager, self.earlier(&api_version));
        let existing = self.owner.conflicts.existing;
        let existing = match mutants::is(Mutant::AdoptUnasked) {
            true => ExistingPolicy::Adopt,
            false => existing,
        };
        match existing {
            ExistingPolicy::Fail => Ok(Outcome::Refused {
                reason: "AlreadyExists",
                message: format!(
                    "{} exists and was not made by the hub; delete it in the member, drop it from the manifest, or set conflicts.existing to take it over",
                    declared.key
                ),
            }),
            ExistingPolicy::AdoptIfEqual => {
                let would = self.rehearse(declared, &live, true).await?;
                let ours = fields::own_apply_entry(&would.json, manager);
                if let Some(paths) = ours.and_then(|ours| differing(&live, &would, ours, &declared.body)) {
                    return Ok(differs(&declared.key, &self.some_paths(&declared.key, &paths)));
                }
                let entries = ours.and_then(|ours| {
                    fields::parted(&live.json, manager, &earlier, ours)
                        .or_else(|| fields::claimed(&live.json, manager, &api_version, ours))
                });
                self.take_over(declared, live, entries, json!({})).await
            }
            ExistingPolicy::Adopt => {
                let moved = fields::absorbed(&live.json, manager, &earlier);
                if self.owner.conflicts.fields == FieldPolicy::Fail
                    && let Some(refused) = self.others_hold(declared, &live, moved.as_ref()).await?
                {
                    return Ok(refused);
                }
                let entries = self.claim(declared, &live).await?.or(moved);
                self.take_over(declared, live, entries, json!({})).await
            }
        }
    }

    /// From whom fields move to this hub with an object that is declared in this apiVersion.
    pub(super) fn earlier<'b>(&'b self, api_version: &'b str) -> Earlier<'b> {
        Earlier { api_version, named: &self.owner.conflicts.take_from }
    }

    /// Whether somebody holds what is declared otherwise, once the managedFields are as they are to become (`moved`;
    /// `None`: as they are).
    pub(super) async fn others_hold(
        &self,
        declared: &Declared,
        live: &Live,
        moved: Option<&Value>,
    ) -> Result<Option<Outcome>, CallError> {
        match self.rehearse(declared, live, false).await {
            Ok(_) => Ok(None),
            Err(error) => match &error.class {
                Class::FieldConflict(contested) => {
                    let entries = moved.unwrap_or(&live.json["metadata"]["managedFields"]);
                    let then = json!({"metadata": {"managedFields": entries}});
                    let holders = fields::contenders(&then, &self.owner.manager, contested);
                    Ok((!holders.is_empty()).then(|| self.contested(&declared.key, &holders, contested)))
                }
                _ => Err(error),
            },
        }
    }

    /// What earlier appliers keep of an object that is taken over, and what to do, in a sentence.
    fn apart(&self, declared: &Declared, live: &Live) -> Option<String> {
        let key = &declared.key;
        let keeps = |one: &Apart| {
            let manager = unseen::shown(&one.manager, MANAGER_MAX);
            let api_version = unseen::shown(&one.api_version, API_VERSION_MAX);
            let fields = match one.paths.is_empty() {
                true => "what it set".to_owned(),
                false => self.some_paths(key, &one.paths),
            };
            format!("{manager:?} keeps {fields} in {api_version}")
        };
        let apart = self.earlier(&declared.gvk.api_version()).apart(&live.json);
        let named: Vec<String> = apart.iter().map(keeps).collect();
        (!named.is_empty()).then(|| {
            format!(
                "{key} was taken over, but {}, and not in the declared apiVersion: what you drop of these fields stays \
                 in the member; remove it there by hand",
                some(&named, MANAGERS)
            )
        })
    }

    /// Makes `live`, and no other object, ours: first its managedFields become `entries`, and `change` is done to its
    /// metadata.
    pub(super) async fn take_over(
        &self,
        declared: &Declared,
        live: Live,
        entries: Option<Value>,
        mut change: Value,
    ) -> Step {
        let apart = self.apart(declared, &live);
        if let Some(entries) = entries {
            change["managedFields"] = entries;
        }
        if !live.json["metadata"]["annotations"][LAST_APPLIED].is_null() {
            change["annotations"][LAST_APPLIED] = Value::Null;
        }
        let live = match change.as_object().is_some_and(|change| change.is_empty()) {
            true => live,
            false => self.rewrite(declared, &live, change).await?,
        };
        let body = self.body_for(declared, &live);
        let force = self.owner.conflicts.fields == FieldPolicy::Force;
        let uid = match self.send(declared, &body, force).await {
            Err(CallError { class: Class::FieldConflict(contested), .. }) => {
                let holders = fields::contenders(&live.json, &self.owner.manager, &contested);
                return Ok(self.contested(&declared.key, &holders, &contested));
            }
            sent => sent?,
        };
        tracing::info!(cluster = %self.session.cluster, object = %declared.key, "taken over");
        Ok(Outcome::Adopted { uid, apart })
    }

    /// Changes metadata of exactly the object that was read.
    async fn rewrite(
        &self,
        declared: &Declared,
        live: &Live,
        mut metadata: Value,
    ) -> Result<Live, CallError> {
        metadata["uid"] = live.uid().into();
        metadata["resourceVersion"] = live.resource_version().into();
        let api = self.api(&declared.key, self.resource(&declared.gvk)?);
        let params = PatchParams { field_manager: Some("vidra-hub".into()), ..PatchParams::default() };
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let about = self.changing(&declared.key);
        self.session.call(self.token, "adopt", about, api.patch(&declared.key.name, &params, &patch)).await
    }

    /// Before an apply to an object of ours whose managedFields were reset: else the server would make up an entry
    /// for the time before, which holds everything for ever.
    pub(super) async fn reclaim(&self, declared: &Declared, uid: &str) -> Result<(), CallError> {
        let Some(live) = self.read(&declared.key, &declared.gvk).await?.filter(|live| live.uid() == uid)
        else {
            return Ok(());
        };
        if let Some(entries) = self.claim(declared, &live).await? {
            self.rewrite(declared, &live, json!({"managedFields": entries})).await?;
        }
        Ok(())
    }

    /// The managedFields of an object that has none, with what is declared as ours.
    pub(super) async fn claim(&self, declared: &Declared, live: &Live) -> Result<Option<Value>, CallError> {
        if !fields::has_no_entries(&live.json) {
            return Ok(None);
        }
        let (manager, api_version) = (&self.owner.manager, declared.gvk.api_version());
        let would = self.rehearse(declared, live, true).await?;
        let ours = fields::own_apply_entry(&would.json, manager);
        Ok(ours.and_then(|ours| fields::claimed(&live.json, manager, &api_version, ours)))
    }

    /// What an apply of what is declared, without our marks, would leave of exactly this object. Nothing is written.
    pub(super) async fn rehearse(
        &self,
        declared: &Declared,
        live: &Live,
        force: bool,
    ) -> Result<Live, CallError> {
        let mut body = Value::clone(&self.plain_for(declared, &live.json));
        body["metadata"]["uid"] = live.uid().into();
        body["metadata"]["resourceVersion"] = live.resource_version().into();
        let params = PatchParams { dry_run: true, ..self.params(force) };
        let api = self.api(&declared.key, self.resource(&declared.gvk)?);
        let (about, patch) = (self.changing(&declared.key), Patch::Apply(&body));
        self.session.call(self.token, "verify", about, api.patch(&declared.key.name, &params, &patch)).await
    }
}

/// The paths of which an apply would change the value. `None`: none.
fn differing(live: &Live, would: &Live, ours: &Value, declared: &Value) -> Option<Vec<String>> {
    let set = fields::FieldSet::from_fields_v1(ours).ok()?;
    let paths = fields::differing(&live.json, &would.json, &set, Some(declared));
    (!paths.is_empty()).then(|| paths.iter().map(ToString::to_string).collect())
}

fn differs(key: &ObjectKey, paths: &str) -> Outcome {
    Outcome::Refused {
        reason: "ExistingDiffers",
        message: format!(
            "{key} exists, was not made by the hub, and differs from what is declared at {paths}; make them equal, or set conflicts.existing to Adopt"
        ),
    }
}

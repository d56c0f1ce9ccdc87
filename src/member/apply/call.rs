//! The calls to a member's API server about one object, and how their answers are taken.

use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy, ValidationDirective},
    core::ApiResource,
};
use serde_json::Value;
use vidra_api::labels::FIELD_MANAGER;
use vidra_core::{
    apply::{Answer, Failure, FailureKind},
    drift::{About, Does},
    mutants::{self, Mutant},
    object::{Gvk, ObjectKey, Scope},
    render::Declared,
    uid::Uid,
};

use super::{Executor, cache};
use crate::{
    base::error::{CallError, Class},
    member::{call_guard::CallGuard, kinds::Kinds, live::Live, records::Source},
};

/// How a delete ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deletion {
    /// The object is gone.
    Done,
    /// It goes when its finalizers have run.
    Going,
    /// It was gone before.
    WasGone,
}

/// The answer of a call, as the next step takes it.
pub(super) fn answer_of<T>(
    result: Result<T, CallError>,
    answer: impl FnOnce(T) -> Answer<CallError>,
) -> Answer<CallError> {
    result.map_or_else(|error| Answer::Failed(failure(error)), answer)
}

fn failure(error: CallError) -> Failure<CallError> {
    let kind = match &error.class {
        Class::FieldConflict(fields) => FailureKind::FieldConflict(fields.clone()),
        Class::Conflict => FailureKind::Conflict,
        Class::NotFound(_) | Class::NotServed => FailureKind::NotFound,
        Class::Namespace { terminating: false } => FailureKind::NamespaceMissing,
        Class::InvalidFields(fields) => FailureKind::InvalidFields(fields.clone()),
        _ if error.is_invalid() => FailureKind::Invalid,
        _ => FailureKind::Other,
    };
    Failure { kind, is_transient: error.is_transient(), error }
}

/// Applies; the answer is ingested, and only then what arrived meanwhile. Returns the object's uid.
pub(super) async fn apply(
    executor: &Executor<'_>,
    declared: &Declared,
    body: &Value,
    force: bool,
) -> Result<Uid, CallError> {
    let _guard = CallGuard::begin(executor.session, &declared.key);
    let (params, patch) = (apply_params(executor, force), Patch::Apply(body));
    let live = patch_declared(executor, declared, "apply", &params, &patch)
        .await
        .map_err(|error| error.making_in(&declared.key.namespace))?;
    let uid = Uid::from(live.uid());
    cache::ingest(executor, &declared.gvk, live, Source::Answer(&executor.owner.hash));
    Ok(uid)
}

/// Changes metadata of an object that is not ours yet.
pub(super) async fn rewrite(
    executor: &Executor<'_>,
    declared: &Declared,
    patch: &Value,
) -> Result<Live, CallError> {
    patch_declared(executor, declared, "adopt", &hub_params(), &Patch::Merge(patch)).await
}

/// Patches a declared object; `verb` is what the call counts as.
pub(super) async fn patch_declared(
    executor: &Executor<'_>,
    declared: &Declared,
    verb: &'static str,
    params: &PatchParams,
    patch: &Patch<&Value>,
) -> Result<Live, CallError> {
    let key = &declared.key;
    let api = api(executor, key, resource(executor, &declared.gvk)?);
    self::patch(executor, &api, key, verb, params, patch).await
}

/// Patches an object; `verb` is what the call counts as.
pub(super) async fn patch(
    executor: &Executor<'_>,
    api: &Api<Live>,
    key: &ObjectKey,
    verb: &'static str,
    params: &PatchParams,
    patch: &Patch<&Value>,
) -> Result<Live, CallError> {
    let call = api.patch(&key.name, params, patch);
    executor.session.call(executor.fence, verb, changing(executor, key), call).await
}

pub(super) async fn read(
    executor: &Executor<'_>,
    key: &ObjectKey,
    gvk: &Gvk,
) -> Result<Option<Live>, CallError> {
    get(executor, &api(executor, key, resource(executor, gvk)?), key).await
}

pub(super) async fn get(
    executor: &Executor<'_>,
    api: &Api<Live>,
    key: &ObjectKey,
) -> Result<Option<Live>, CallError> {
    let about = reading(&key.group, &key.kind);
    match executor.session.call(executor.fence, "get", about, api.get(&key.name)).await {
        Ok(live) => Ok(Some(live)),
        Err(error) if is_gone(executor, &error, key) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes exactly the declared object that was read.
pub(super) async fn delete(
    executor: &Executor<'_>,
    declared: &Declared,
    live: &Live,
) -> Result<Deletion, CallError> {
    let key = &declared.key;
    delete_exactly(executor, &api(executor, key, resource(executor, &declared.gvk)?), key, live).await
}

/// Deletes exactly the object that was read, in the background. The one way in which a member's object is deleted.
pub(super) async fn delete_exactly(
    executor: &Executor<'_>,
    api: &Api<Live>,
    key: &ObjectKey,
    live: &Live,
) -> Result<Deletion, CallError> {
    let preconditions = Preconditions {
        uid: Some(live.uid().to_owned()),
        resource_version: (!mutants::is(Mutant::DeletesByUid)).then(|| live.resource_version().to_owned()),
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
    let call = api.delete(&key.name, &params);
    match executor.session.call(executor.fence, "delete", changing(executor, key), call).await {
        Ok(answer) if answer.as_ref().left().is_some_and(Live::is_terminating) => Ok(Deletion::Going),
        Ok(answer) if answer.as_ref().right().is_some_and(|status| !status.is_success()) => {
            let message =
                "the API server answered the delete with success and with a failed Status".to_owned();
            Err(CallError { class: Class::Server, message })
        }
        Ok(_) => Ok(Deletion::Done),
        Err(error) => must_be_gone(executor, api, key, error).await.map(|()| Deletion::WasGone),
    }
}

/// The error, unless it says that the object is gone and a read agrees: a webhook may say so too, of an object that it
/// does not know yet, and none is asked about a read.
pub(super) async fn must_be_gone(
    executor: &Executor<'_>,
    api: &Api<Live>,
    key: &ObjectKey,
    error: CallError,
) -> Result<(), CallError> {
    match is_gone(executor, &error, key) && get(executor, api, key).await?.is_none() {
        true => Ok(()),
        false => Err(error),
    }
}

/// The member says that this very object is not there.
fn is_gone(executor: &Executor<'_>, error: &CallError, key: &ObjectKey) -> bool {
    let (kinds, any_version) = (executor.session.kinds(), Gvk::new(&key.group, "", &key.kind));
    let found = kinds.any_version(&any_version);
    found.is_some_and(|(_, (resource, _))| error.is_gone(&resource.group, &resource.plural, &key.name))
}

/// Of a patch by the hub itself, and not for an owner.
pub(super) fn hub_params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() }
}

/// Server-side apply by the owner's field manager.
pub(super) fn apply_params(executor: &Executor<'_>, force: bool) -> PatchParams {
    PatchParams {
        force,
        field_manager: Some(executor.owner.manager.clone()),
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    }
}

/// Of a call that changes the object.
pub(super) fn changing<'b>(executor: &'b Executor<'_>, key: &'b ObjectKey) -> About<'b> {
    let declared = executor.desired.objects.get(key).map(|declared| &*declared.body);
    About { group: &key.group, kind: &key.kind, does: Does::Writes(declared) }
}

/// Of a call that reads objects of a kind.
pub(super) fn reading<'b>(group: &'b str, kind: &'b str) -> About<'b> {
    About { group, kind, does: Does::Reads }
}

pub(super) fn resource(executor: &Executor<'_>, gvk: &Gvk) -> Result<(ApiResource, Scope), CallError> {
    let unknown =
        || CallError { class: Class::NotServed, message: format!("the member does not serve {gvk}") };
    executor.session.kinds().get(gvk).cloned().ok_or_else(unknown)
}

/// Where an inventory entry's kind is served now. `None`: discovery was complete and it is not served,
/// so its objects are gone with it.
pub(super) async fn address(
    executor: &Executor<'_>,
    gvk: &Gvk,
) -> Result<Option<(Gvk, (ApiResource, Scope))>, CallError> {
    let find = |kinds: &Kinds| match kinds.get(gvk) {
        Some(found) => Some((gvk.clone(), found.clone())),
        None => kinds.any_version(gvk).map(|(gvk, found)| (gvk, found.clone())),
    };
    if let Some(found) = find(&executor.session.kinds()) {
        return Ok(Some(found));
    }
    let kinds = executor.session.rediscover().await?;
    match find(&kinds) {
        Some(found) => Ok(Some(found)),
        None if kinds.is_stale(gvk) => Err(CallError {
            class: Class::Server,
            message: format!("the member cannot say now whether it serves {gvk}"),
        }),
        None => Ok(None),
    }
}

pub(super) fn api(
    executor: &Executor<'_>,
    key: &ObjectKey,
    (resource, scope): (ApiResource, Scope),
) -> Api<Live> {
    let client = executor.session.client.clone();
    match scope {
        Scope::Cluster => Api::all_with(client, &resource),
        Scope::Namespaced => Api::namespaced_with(client, &key.namespace, &resource),
    }
}

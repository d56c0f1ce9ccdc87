//! Creating objects, in a namespace that is created where it may be.

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::PostParams};
use serde_json::Value;
use tokio::time::Instant;
use vidra_core::{
    object::{Gvk, ObjectKey},
    render::Declared,
    uid::Uid,
};

use super::{Executor, call};
use crate::base::error::{CallError, Class};

/// Applies a body that the server refuses when something bears the name; once more when its namespace was missing and is
/// created. Returns the new uid.
pub(super) async fn create(
    executor: &Executor<'_>,
    declared: &Declared,
    body: &Value,
) -> Result<Uid, CallError> {
    let sent = Instant::now();
    let answer = match call::apply(executor, declared, body, false).await {
        Err(error) if error.class == (Class::Namespace { terminating: false }) => {
            match create_namespace(executor, &declared.key.namespace, sent).await? {
                true => call::apply(executor, declared, body, false).await,
                // It is not missing: a webhook says so.
                false => Err(error),
            }
        }
        answer => answer,
    };
    // What the end of the session cut off may have been sent, and may land while the next session is at work. That
    // one makes it only where there is none, for the inventory has had it since before it was sent; and takes it for
    // gone only when nothing can land any more: it has the same notes, and this reconcile holds the target until this one is
    // written.
    let is_cut = |error: &CallError| error.class == Class::Withdrawn && executor.session.has_ended();
    if answer.as_ref().is_err_and(|error| error.is_unsure() || is_cut(error)) {
        executor.session.note_late_create(&executor.owner.hash, &declared.key);
    }
    answer
}

/// Plain, unlabelled, outside the inventory: it is not ours and is never deleted. False: it was there when the call was
/// `sent` that found it missing.
async fn create_namespace(executor: &Executor<'_>, name: &str, sent: Instant) -> Result<bool, CallError> {
    let missing = |message: String| CallError { class: Class::Namespace { terminating: false }, message };
    if !executor.owner.create_namespaces {
        return Err(missing(format!(
            "namespace {name:?} is missing; create it in the member, or set createNamespaces: true"
        )));
    }
    // Its own apply failed or is under way: made here, it would be somebody else's for ever.
    let declared = ObjectKey::new(&Gvk::new("", "v1", "Namespace"), "", name);
    if executor.desired.objects.contains_key(&declared) {
        return Err(missing(format!("namespace {name:?} is declared and is not there yet; trying again")));
    }
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    let api: Api<Namespace> = Api::all(executor.session.client.clone());
    let about = call::changing(executor, &declared);
    let create = async {
        let parameters = PostParams::default();
        let call = api.create(&parameters, &namespace);
        match executor.session.call(executor.fence, "create", about, call).await {
            Ok(_) => Ok(true),
            Err(error) if error.class == Class::Conflict => Ok(false),
            Err(error) if error.class == Class::Forbidden => Err(missing(format!(
                "namespace {name:?} is missing and the hub may not create it; create it in the member: {error}"
            ))),
            Err(error) => Err(error),
        }
    };
    executor.session.namespaces.make(name, sent, create).await
}

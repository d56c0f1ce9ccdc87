//! Whether a Namespace or a CustomResourceDefinition is empty: a complete listing of what could lie in it. Deleting
//! one takes whatever is in it along, and no precondition guards against that.

use kube::{
    Resource,
    api::GetParams,
    core::{ApiResource, Request},
};
use vidra_core::{
    mutants::{self, Mutant},
    object::{Gvk, Scope},
};

use super::{Executor, call::reading};
use crate::{
    base::error::{CallError, Class},
    member::{
        kinds::Kinds,
        live::Live,
        metadata_list::{self, PartialMetadata},
        session::Readiness,
    },
};

/// Namespaces that a cluster cannot do without.
const SYSTEM: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// What lies in an object.
pub(super) enum Contents {
    /// Nothing, but what the server makes by itself.
    None,
    /// Only what is being deleted, or will be with what it belongs to; one of it.
    Going(String),
    /// Something that would be lost, or nobody can tell; what or why.
    Foreign(String),
}

/// Lists what lies in a live Namespace or CustomResourceDefinition. A kind that cannot be listed may hide
/// objects: then it is not empty. Errors: no answer, or none of a group, so nobody knows.
pub(super) async fn contents(executor: &Executor<'_>, live: &Live) -> Result<Contents, CallError> {
    if let Some(why) = unready(executor).await? {
        return Ok(why);
    }
    let kinds = executor.session.discover().await?;
    // Mostly that passes; and what is released stays for good.
    if let Some(stale) = kinds.stale.first() {
        let message = format!(
            "the member cannot say now what {stale} serves, so nobody knows what is in it; see kubectl get apiservices in the member"
        );
        return match mutants::is(Mutant::StaleLetsGo) {
            true => Ok(Contents::Foreign(message)),
            false => Err(CallError { class: Class::Server, message }),
        };
    }
    if live.json["kind"] == "CustomResourceDefinition" {
        return of_kind(executor, live, &kinds).await;
    }
    let name = live.meta_text("name");
    if SYSTEM.contains(&name) {
        return Ok(Contents::Foreign("the cluster needs it".to_owned()));
    }
    let mut going = None;
    for (gvk, resource) in kinds.namespaced_content() {
        if is_made_by_the_server(gvk, "") {
            continue;
        }
        let items = match list(executor, resource, Some(name)).await? {
            Ok(items) => items,
            Err(why) => return Ok(Contents::Foreign(why)),
        };
        for item in items {
            let what = format!("{} {}", gvk.kind, item.name);
            if is_made_by_the_server(gvk, &item.name) {
                continue;
            }
            let goes = item.is_terminating() || belongs(&item, &kinds);
            match goes || !is_there(executor, gvk, resource, &item).await? {
                true => going = Some(what),
                false => return Ok(Contents::Foreign(what)),
            }
        }
    }
    Ok(going.map_or(Contents::None, Contents::Going))
}

/// A server that has just started does not serve yet what may lie there: what that means, if it is not ready.
async fn unready(executor: &Executor<'_>) -> Result<Option<Contents>, CallError> {
    Ok(match executor.session.readiness(executor.fence).await? {
        Readiness::Ready => None,
        Readiness::Untold => Some(Contents::Foreign(
            "the member does not tell at /readyz whether it serves all that it will".to_owned(),
        )),
        Readiness::NotReady => Some(Contents::Going("the member's API server is not ready".to_owned())),
    })
}

async fn of_kind(executor: &Executor<'_>, crd: &Live, kinds: &Kinds) -> Result<Contents, CallError> {
    let (group, kind) = (&crd.json["spec"]["group"], &crd.json["spec"]["names"]["kind"]);
    let gvk = Gvk::new(group.as_str().unwrap_or_default(), "", kind.as_str().unwrap_or_default());
    let Some((gvk, (resource, _))) = kinds.any_version(&gvk) else {
        return Ok(Contents::Foreign(
            "no version of it is served, so its objects cannot be listed".to_owned(),
        ));
    };
    let items = match list(executor, resource, None).await? {
        Ok(items) => items,
        Err(why) => return Ok(Contents::Foreign(why)),
    };
    let mut going = None;
    for item in items {
        let what = format!("{} {}", gvk.kind, item.name);
        match item.is_terminating() || !is_there(executor, &gvk, resource, &item).await? {
            true => going = Some(what),
            false => return Ok(Contents::Foreign(what)),
        }
    }
    Ok(going.map_or(Contents::None, Contents::Going))
}

/// A list may be of a moment ago. What it shows, and is gone, is only being forgotten. Read as the list is: what
/// else it holds may be of any depth.
async fn is_there(
    executor: &Executor<'_>,
    gvk: &Gvk,
    resource: &ApiResource,
    item: &PartialMetadata,
) -> Result<bool, CallError> {
    if item.name.is_empty() {
        return Ok(true);
    }
    let within = Some(&*item.namespace).filter(|namespace| !namespace.is_empty());
    let request = Request::new(Live::url_path(resource, within)).get(&item.name, &GetParams::default());
    let request = request.map_err(|error| CallError { class: Class::Invalid, message: error.to_string() })?;
    let asked = executor.session.client.request_text(request);
    match executor.session.call(executor.fence, "get", reading(&gvk.group, &gvk.kind), asked).await {
        Ok(text) => Ok(!PartialMetadata::read(&text).is_terminating()),
        Err(error) if error.is_gone(&resource.group, &resource.plural, &item.name) => Ok(false),
        Err(error) if error.is_transient() => Err(error),
        Err(_) => Ok(true),
    }
}

/// All objects of a kind, in one namespace or in all; or why nobody can tell.
async fn list(
    executor: &Executor<'_>,
    resource: &ApiResource,
    namespace: Option<&str>,
) -> Result<Result<Vec<PartialMetadata>, String>, CallError> {
    match metadata_list::list(executor.session, executor.fence, resource, namespace, "").await {
        Ok(all) => Ok(Ok(all)),
        Err(error) if error.is_transient() => Err(error),
        Err(error) => Ok(Err(format!("{} cannot be listed: {error}", resource.kind))),
    }
}

/// What is in every namespace, or comes and goes with something else: worth nothing by itself. With an empty name:
/// whether the whole kind is such. Endpoints belong to a Service, without a reference to it.
fn is_made_by_the_server(gvk: &Gvk, name: &str) -> bool {
    match (&*gvk.group, &*gvk.kind) {
        ("" | "events.k8s.io", "Event") | ("", "Endpoints") => true,
        ("", "ServiceAccount") => name == "default",
        ("", "ConfigMap") => name == "kube-root-ca.crt",
        _ => false,
    }
}

/// It is garbage once its owner is gone, and its owner lies in the same namespace: if it is still there, it is listed
/// and judged itself.
fn belongs(item: &PartialMetadata, kinds: &Kinds) -> bool {
    item.owner_references().iter().any(|owner| {
        let gvk = Gvk::from_api_version(&owner.api_version, &owner.kind);
        let known = gvk.and_then(|gvk| kinds.any_version(&gvk).map(|(_, (_, scope))| *scope));
        known == Some(Scope::Namespaced) || known.is_some() && mutants::is(Mutant::ClusterOwnerGoes)
    })
}

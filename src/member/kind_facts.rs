//! What the CRDs of a member declare of the kinds whose objects say nothing that is known: each is read once a session, one
//! at a time, and of it a small extract is kept.

use std::{collections::BTreeMap, sync::Arc};

use kube::{Api, core::ApiResource};
use vidra_core::{
    drift::{About, Does},
    health::facts::KindFacts,
    object::Gvk,
};

use super::{fence::Fence, informers::Need, live::Live, session::Session};
use crate::base::error::{CallError, Class};

/// Reads what the CRDs of these kinds declare, and has their objects judged again that were judged without.
///
/// # Errors
/// A call failed that may do better later, the first of them. A CRD that is missing or may not be read declares nothing,
/// and so does one whose reading fails for longer than [`MemberFacts::gives_up`] waits.
///
/// [`MemberFacts::gives_up`]: super::records::MemberFacts::gives_up
pub async fn read_kinds(
    session: &Session,
    fence: &Fence<'_>,
    needs: &BTreeMap<Gvk, Need>,
) -> Result<(), CallError> {
    let mut failure = None;
    for gvk in session.records.unread() {
        let Some(need) = needs.get(&gvk) else { continue };
        match read_kind(session, fence, &gvk, need).await {
            Err(error) if error.class == Class::Withdrawn => return Err(error),
            Err(error) if !session.records.facts.gives_up(&gvk) => {
                failure.get_or_insert(error);
            }
            Ok(()) | Err(_) => session.records.set_read(&gvk),
        }
    }
    failure.map_or(Ok(()), Err)
}

async fn read_kind(session: &Session, fence: &Fence<'_>, gvk: &Gvk, need: &Need) -> Result<(), CallError> {
    let Session { records, informers, .. } = session;
    let declared = {
        let _turn = session.reads.lock().await;
        // Others may have read it meanwhile.
        match records.facts.declared(gvk) {
            Some(declared) => declared,
            None => {
                let declared = read(session, fence, gvk, &need.resource).await?;
                records.facts.set_declared(gvk.clone(), declared.clone());
                declared
            }
        }
    };
    if declared.declares_conditions || declared.declares_generation || !declared.columns.is_empty() {
        for place in informers.places(&BTreeMap::from([(gvk.clone(), need.clone())])) {
            informers.list_again(&place, &need.resource).await?;
        }
    }
    Ok(())
}

async fn read(
    session: &Session,
    fence: &Fence<'_>,
    gvk: &Gvk,
    resource: &ApiResource,
) -> Result<Arc<KindFacts>, CallError> {
    let kind = "CustomResourceDefinition";
    let crds = ApiResource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        kind: kind.to_owned(),
        plural: "customresourcedefinitions".to_owned(),
    };
    let about = About { group: &crds.group, kind, does: Does::Reads };
    let api: Api<Live> = Api::all_with(session.client.clone(), &crds);
    let name = format!("{}.{}", resource.plural, resource.group);
    let declared = match session.call(fence, "get", about, api.get(&name)).await {
        Ok(crd) => KindFacts::of_crd(&crd.json, &gvk.version),
        // Any other answer, as of a gateway or to credentials that do not count for a moment, says nothing of it.
        Err(error) if error.class != Class::Forbidden && !error.is_gone(&crds.group, &crds.plural, &name) => {
            return Err(error);
        }
        Err(error) => {
            tracing::debug!(cluster = %session.cluster, kind = %gvk, %error, "what its CRD declares cannot be read");
            KindFacts::default()
        }
    };
    Ok(session.interned().kinds.share(declared))
}

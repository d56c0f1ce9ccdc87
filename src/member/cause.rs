//! Why a workload has failed: asked of the member by at most three calls, one workload at a time.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    Api,
    api::ListParams,
    core::{ApiResource, Selector},
};
use serde_json::Value;
use vidra_core::{
    drift::{About, Does},
    health::cause::{Between, between, of_pods, owned},
    object::ObjectKey,
};

use super::{live::Live, session::Session, token::Token};
use crate::base::error::CallError;

/// So many objects of a list are looked at.
const LOOKED_AT: u32 = 20;

/// What the Pods of a workload tell of why it has failed; `None`: nothing, or it is no workload.
///
/// # Errors
/// A call failed; also where the hub may not read Pods there.
pub async fn cause(
    session: &Session,
    token: &Token<'_>,
    key: &ObjectKey,
) -> Result<Option<String>, CallError> {
    let Some(between) = between(&key.group, &key.kind) else { return Ok(None) };
    let _turn = session.reads.lock().await;
    let workload = api(session, &key.group, &key.kind, &key.namespace);
    let about = About { group: &key.group, kind: &key.kind, does: Does::Reads };
    let live = session.call(token, "get", about, workload.get(&key.name)).await?.json;
    let Some(labels) = selector(&live) else { return Ok(None) };
    let list = async |group: &str, kind: &str| {
        let about = About { group, kind, does: Does::Reads };
        let params = ListParams::default().labels(&labels).limit(LOOKED_AT);
        let api = api(session, group, kind, &key.namespace);
        let listed = session.call(token, "list", about, api.list(&params)).await?;
        Ok::<Vec<Value>, CallError>(listed.items.into_iter().map(|item| item.json).collect())
    };
    let mut owners = BTreeSet::from([uid(&live)]);
    if between == Between::ReplicaSets {
        let sets = list("apps", "ReplicaSet").await?;
        owners = owned(&sets, &owners).map(uid).collect();
    }
    let pods = list("", "Pod").await?;
    Ok(of_pods(owned(&pods, &owners)))
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

/// By which labels a workload selects; `None`: by none that can be read, and not all.
fn selector(live: &Value) -> Option<String> {
    let selector: LabelSelector = serde_json::from_value(live["spec"]["selector"].clone()).ok()?;
    let text = Selector::try_from(selector).ok()?.to_string();
    (!text.is_empty()).then_some(text)
}

fn api(session: &Session, group: &str, kind: &str, namespace: &str) -> Api<Live> {
    let api_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
    let (group, version, kind) = (group.to_owned(), "v1".to_owned(), kind.to_owned());
    let plural = format!("{}s", kind.to_lowercase());
    Api::namespaced_with(
        session.client.clone(),
        namespace,
        &ApiResource { group, version, api_version, kind, plural },
    )
}

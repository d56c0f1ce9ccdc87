//! Why a workload has failed: asked of the member by two calls, three of a Deployment.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    Api,
    core::{ApiResource, Selector},
};
use serde_json::Value;
use vidra_core::{
    drift::{About, Does},
    health::cause::{Between, SetRevision, between, complaint},
    object::ObjectKey,
    owner::is_controlled_by,
};

use super::{fence::Fence, live::Live, metadata_list, session::Session};
use crate::base::error::CallError;

/// So many objects of a list are looked at.
const LOOKED_AT: u32 = 50;

/// What the Pods of the workload with this uid tell of why it has failed: of several the plainest. `None`: nothing, or it
/// is another one, or no workload.
///
/// # Errors
/// A call failed; also where the hub may not read Pods there.
pub async fn cause(
    session: &Session,
    fence: &Fence<'_>,
    (key, uid): (&ObjectKey, &str),
) -> Result<Option<String>, CallError> {
    let Some(between) = between(&key.group, &key.kind) else { return Ok(None) };
    let (resource, about) =
        (resource(&key.group, &key.kind), About { group: &key.group, kind: &key.kind, does: Does::Reads });
    let workload = Api::<Live>::namespaced_with(session.client.clone(), &key.namespace, &resource);
    let live = session.call(fence, "get", about, workload.get(&key.name)).await?;
    let Some(mut labels) = selector(&live.json).filter(|_| live.uid() == uid) else { return Ok(None) };
    let mut owner = uid.to_owned();
    if between == Between::ReplicaSets {
        let mut newest = None;
        let mut take = |set: &Value| newest = SetRevision::read(set).max(newest.take());
        look(session, fence, ("apps", "ReplicaSet"), (&key.namespace, &labels, &owner), &mut take).await?;
        let Some(newest) = newest else { return Ok(None) };
        labels.push_str(&format!(",pod-template-hash={}", newest.hash));
        owner = newest.uid;
    }
    let mut plainest = None;
    let mut take = |pod: &Value| plainest = plainest.take().into_iter().chain(complaint(pod)).min();
    look(session, fence, ("", "Pod"), (&key.namespace, &labels, &owner), &mut take).await?;
    Ok(plainest.map(|found| found.text))
}

/// Hands over the first objects that bear these labels and that `owner` controls. One at a time: a member may send large
/// ones.
async fn look(
    session: &Session,
    fence: &Fence<'_>,
    (group, kind): (&str, &str),
    (namespace, labels, owner): (&str, &str, &str),
    take: &mut (dyn FnMut(&Value) + Send),
) -> Result<(), CallError> {
    let mut left = LOOKED_AT;
    let mut each = |text: &str| {
        if let Ok(live) = serde_json::from_str::<Live>(text)
            && is_controlled_by(&live.json, owner)
        {
            take(&live.json);
        }
        left -= 1;
        left > 0
    };
    // Of a ReplicaSet its metadata tell all.
    let listed = (&resource(group, kind), kind != "Pod");
    metadata_list::list_each(session, fence, listed, (Some(namespace), labels), LOOKED_AT, &mut each).await?;
    Ok(())
}

/// By which labels a workload selects; `None`: by none that can be read, and not all.
fn selector(live: &Value) -> Option<String> {
    let selector: LabelSelector = serde_json::from_value(live["spec"]["selector"].clone()).ok()?;
    let text = Selector::try_from(selector).ok()?.to_string();
    (!text.is_empty()).then_some(text)
}

fn resource(group: &str, kind: &str) -> ApiResource {
    let api_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
    ApiResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
    }
}

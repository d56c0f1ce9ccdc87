//! What `join` looks at and writes on the hub: the registration Secret, and the MemberCluster that comes of it.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use vidra_api::condition::READY;
use vidra_api::labels::{ALLOWED_NAMESPACES, LEFT_AT, REGISTRATION_LABEL};
use vidra_api::{KubeconfigSecretRef, MemberCluster, find};

use super::diff::MANAGER;
use crate::arguments::JoinFlags;
use crate::cluster::Cluster;
use crate::error::{Failure, JOINING};
use crate::output::Progress;
use crate::text::brief;

const PAUSE: Duration = Duration::from_millis(500);

/// Where the registration goes, and what it has already.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The Secret.
    pub secret: KubeconfigSecretRef,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The namespaces that it allows.
    pub allowed: Option<String>,
    /// It is there already.
    pub exists: bool,
    /// So is the MemberCluster.
    pub is_member: bool,
    /// The member has left, so the Secret makes no MemberCluster: since when.
    pub left: Option<String>,
}

/// Looks whether the member may be registered under this name: nothing else has the Secret's name, no other
/// cluster the member's, and the cluster no other name.
///
/// # Errors
/// It may not, or that cannot be seen.
pub async fn check(hub: &Cluster, namespace: &str, name: &str, uid: &str) -> Result<Registration, Failure> {
    let members: Vec<MemberCluster> = hub.list(&Api::all(hub.client.clone()), "").await?;
    let mut secret = KubeconfigSecretRef {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        key: "kubeconfig".to_owned(),
    };
    let mut is_member = false;
    for member in members {
        let known = member.status.as_ref().and_then(|status| status.uid.as_deref());
        let called = member.metadata.name.clone().unwrap_or_default();
        if called == name {
            if let Some(other) = known.filter(|known| *known != uid) {
                return Err(Failure::Input(format!(
                    "the member {name} is another cluster: its kube-system has uid {}, this one's {uid}; choose another name, or the right --member-context",
                    brief(other, 128)
                )));
            }
            if member.metadata.deletion_timestamp.is_some() {
                return Err(Failure::Input(format!(
                    "the member {name} is leaving; join again when its MemberCluster is gone"
                )));
            }
            is_member = true;
            secret = member.spec.kubeconfig_secret_ref.unwrap_or(secret);
        } else if known == Some(uid) {
            return Err(Failure::Input(format!(
                "this cluster is the member {} already; join it under that name",
                brief(&called, 80)
            )));
        }
    }
    let api = secrets(hub, &secret.namespace);
    let found = hub.find(&api, &secret.name, JOINING).await?;
    let labels = found.as_ref().and_then(|found| found.metadata.labels.clone()).unwrap_or_default();
    if found.is_some() && labels.get(REGISTRATION_LABEL).map(String::as_str) != Some(name) {
        return Err(Failure::Input(format!(
            "the Secret {}/{} is there and does not register {name}; delete it, or choose another name",
            secret.namespace, secret.name
        )));
    }
    let same = ListParams::default().labels(&format!("{REGISTRATION_LABEL}={name}"));
    let action = format!("list Secrets in namespace {}", secret.namespace);
    let others = api.list_metadata(&same).await.map_err(|error| hub.doing(&action, JOINING).failed(error))?;
    let mut names = others.items.into_iter().filter_map(|other| other.metadata.name);
    if let Some(other) = names.find(|other| *other != secret.name) {
        return Err(Failure::Input(format!(
            "the Secret {}/{other} registers {name} already; change or delete that one",
            secret.namespace
        )));
    }
    let marks = found.as_ref().and_then(|found| found.metadata.annotations.as_ref());
    // A MemberCluster that is there uses the Secret all the same.
    let left = marks.and_then(|marks| marks.get(LEFT_AT)).filter(|_| !is_member);
    let left = left.map(|at| brief(at, 64));
    let allowed = marks.and_then(|marks| marks.get(ALLOWED_NAMESPACES)).cloned();
    Ok(Registration { left, secret, labels, allowed, exists: found.is_some(), is_member })
}

fn secrets(hub: &Cluster, namespace: &str) -> Api<Secret> {
    Api::namespaced(hub.client.clone(), namespace)
}

/// Writes the Secret, without the mark of a member that has left. Labels that it has stay, for without them the hub would
/// take the member out of selections; and so does what it allows.
///
/// # Errors
/// The hub refuses it.
pub async fn write(
    hub: &Cluster,
    registration: &Registration,
    name: &str,
    flags: &JoinFlags,
    kubeconfig: &str,
) -> Result<(), Failure> {
    let KubeconfigSecretRef { namespace, name: called, key } = &registration.secret;
    let mut all = registration.labels.clone();
    all.extend(flags.labels.iter().cloned());
    all.insert(REGISTRATION_LABEL.to_owned(), name.to_owned());
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": called, "namespace": namespace, "labels": all},
        "stringData": {key.as_str(): kubeconfig},
    });
    let asked = flags.allowed_namespaces.as_ref();
    let asked = asked.map(|names| names.iter().map(String::as_str).collect::<Vec<_>>().join(","));
    if let Some(allowed) = asked.or_else(|| registration.allowed.clone()) {
        secret["metadata"]["annotations"] = json!({ALLOWED_NAMESPACES: allowed});
    }
    let api = secrets(hub, namespace);
    let action = format!("apply the Secret {namespace}/{called}");
    let params = PatchParams::apply(MANAGER).force();
    let applied = api.patch_metadata(called, &params, &Patch::Apply(&secret)).await;
    applied.map_err(|error| hub.doing(&action, JOINING).failed(error))?;
    if registration.left.is_none() {
        return Ok(());
    }
    let unmarked = json!({"metadata": {"annotations": {LEFT_AT: null}}});
    let action = format!("take {LEFT_AT} off the Secret {namespace}/{called}");
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let unmarked = api.patch_metadata(called, &params, &Patch::Merge(&unmarked)).await;
    unmarked.map(drop).map_err(|error| hub.doing(&action, JOINING).failed(error))
}

/// Waits until the hub can deliver to it; what is wrong where it cannot in time.
///
/// # Errors
/// The MemberCluster cannot be read.
pub async fn wait(
    hub: &Cluster,
    name: &str,
    within: Duration,
    progress: &Progress,
) -> Result<Result<(), String>, Failure> {
    let api: Api<MemberCluster> = Api::all(hub.client.clone());
    let mut said = "the hub has made no MemberCluster yet".to_owned();
    let wait = async {
        loop {
            if let Some(member) = hub.find(&api, name, JOINING).await? {
                let conditions = member.status.unwrap_or_default().conditions;
                match find(&conditions, READY) {
                    Some(ready) if ready.status == "True" => return Ok(()),
                    Some(ready) => said = brief(&format!("{}: {}", ready.reason, ready.message), 600),
                    None => said = "the hub has not looked at it yet".to_owned(),
                }
            }
            progress.wait_for(&format!("{name}: {said}"));
            tokio::time::sleep(PAUSE).await;
        }
    };
    match tokio::time::timeout(within, wait).await {
        Ok(done) => done.map(Ok),
        Err(_) => Ok(Err(said)),
    }
}

//! `kubectl vidra diff`.

use std::path::Path;

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::Value;
use vidra_api::{MemberCluster, VidraResource, VidraTarget};
use vidra_core::manifest;

use crate::arguments::DiffFlags;
use crate::cluster::{Cluster, Place};
use crate::error::{EDITING, Failure, READING};
use crate::output::print;
use crate::report::diff::{self, Question};
use crate::report::pending;
use crate::{DONE, Ended, OTHERWISE};

/// The field manager of what this plug-in writes.
pub const MANAGER: &str = "kubectl-vidra";

/// Says what the hub would do now, or with what a file declares.
///
/// # Errors
/// What is needed cannot be read, or the file is refused.
pub async fn run(place: &Place, flags: &DiffFlags) -> Ended {
    let declared = flags.file.as_deref().map(read).transpose()?;
    let mut hub = Cluster::hub(place).await?;
    let Some(declared) = declared else { return of_the_hub(&hub, flags).await };
    let members: Vec<MemberCluster> = hub.list(&Api::all(hub.client.clone()), "").await?;
    let file = flags.file.as_deref().map(|file| file.display().to_string()).unwrap_or_default();
    let default = hub.namespace.clone();
    let mut differs = false;
    for then in declared {
        hub.namespace = then.read.metadata.namespace.clone().unwrap_or_else(|| default.clone());
        differs |= of_a_file(&hub, &then, &members, &file, flags).await?;
    }
    Ok(if differs { OTHERWISE } else { DONE })
}

async fn of_the_hub(hub: &Cluster, flags: &DiffFlags) -> Ended {
    let name = flags.name.as_deref().unwrap_or_default();
    let resource = super::status::resource(hub, name).await?;
    let members: Option<Vec<MemberCluster>> = match hub.list(&Api::all(hub.client.clone()), "").await {
        Ok(members) => Some(members),
        Err(Failure::Forbidden { .. }) => None,
        Err(failure) => return Err(failure),
    };
    let targets: Vec<VidraTarget> = hub.list(&hub.api(false), &format!("spec.resource={name}")).await?;
    check_cluster(hub, flags, &targets).await?;
    let answer =
        pending::pending(&resource, &targets, members.as_deref(), flags.cluster.as_deref(), crate::now());
    print(&format!("VidraResource {}/{name}\n{}", hub.namespace, answer.text))?;
    Ok(if answer.differs { OTHERWISE } else { DONE })
}

async fn of_a_file(
    hub: &Cluster,
    Written { read: then, raw }: &Written,
    members: &[MemberCluster],
    file: &str,
    flags: &DiffFlags,
) -> Result<bool, Failure> {
    let name = then.metadata.name.as_deref().unwrap_or_default();
    let note = dry_run(hub, name, raw).await?;
    let now: Option<VidraResource> = hub.find(&hub.api(false), name, READING).await?;
    let targets: Vec<VidraTarget> = hub.list(&hub.api(false), &format!("spec.resource={name}")).await?;
    check_cluster(hub, flags, &targets).await?;
    let has = super::sources::read(hub, &then.spec).await?;
    let had = match &now {
        Some(now) if now.spec.manifests_from != then.spec.manifests_from => {
            super::sources::read(hub, &now.spec).await?
        }
        _ => has.clone(),
    };
    let question = Question {
        now: now.as_ref(),
        then,
        sources: (&had, &has),
        namespace: &hub.namespace,
        file,
        members,
        targets: &targets,
        cluster: flags.cluster.as_deref(),
    };
    let answer = diff::diff(&question)
        .map_err(|why| Failure::Input(format!("{file}: VidraResource {name}: {why}")))?;
    print(&format!("VidraResource {}/{name}\n{}{note}", hub.namespace, answer.text))?;
    Ok(answer.differs)
}

/// That the cluster which is asked for is a member, or that there is a target on it.
async fn check_cluster(hub: &Cluster, flags: &DiffFlags, targets: &[VidraTarget]) -> Result<(), Failure> {
    match flags.cluster.as_deref() {
        Some(asked) if !targets.iter().any(|target| target.spec.cluster == asked) => {
            hub.check_place(true, Some(asked)).await
        }
        _ => Ok(()),
    }
}

/// Has the hub's API check it as if it were applied; what is said where the user has no right to that.
async fn dry_run(hub: &Cluster, name: &str, raw: &Value) -> Result<String, Failure> {
    let api: Api<VidraResource> = hub.api(false);
    let mut raw = raw.clone();
    raw["metadata"]["namespace"] = Value::from(hub.namespace.as_str());
    let params = PatchParams::apply(MANAGER).force().dry_run().validation_strict();
    let action = format!("check VidraResource {name} by a dry run");
    match api.patch(name, &params, &Patch::Apply(&raw)).await {
        Ok(_) => Ok(String::new()),
        Err(error) => match hub.doing(&action, EDITING).failed(error) {
            Failure::Forbidden { .. } => {
                Ok("The hub's API has not checked it: you have no right to apply VidraResources, not even in a dry run.\n".to_owned())
            }
            failure => Err(failure),
        },
    }
}

/// A VidraResource of a file.
struct Written {
    read: VidraResource,
    /// As it stands there: what this plug-in does not know is for the hub's API to judge.
    raw: Value,
}

fn read(file: &Path) -> Result<Vec<Written>, Failure> {
    let (name, text) = (file.display(), super::file::text(file)?);
    let objects = manifest::parse(&text).map_err(|error| Failure::Input(format!("{name}: {error}")))?;
    if objects.is_empty() {
        return Err(Failure::Input(format!("{name} holds no object; name a file with a VidraResource")));
    }
    let mut resources = Vec::new();
    for object in objects {
        if (&*object.gvk.group, &*object.gvk.kind) != (vidra_api::GROUP, "VidraResource") {
            let what = format!("{} {}", object.gvk.kind, object.name);
            return Err(Failure::Input(format!(
                "{name} holds {what}; only VidraResources can be compared here, for the rest use kubectl diff"
            )));
        }
        let resource = serde_json::from_value(object.value.clone());
        let resource = resource
            .map_err(|error| Failure::Input(format!("{name}: VidraResource {}: {error}", object.name)))?;
        resources.push(Written { read: resource, raw: object.value });
    }
    Ok(resources)
}

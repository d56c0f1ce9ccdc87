//! Why a workload has failed, as the Pods that it owns tell: what to ask for, and what of the answers is told.

use serde_json::Value;

use super::{message::stable, read::text};
use crate::unseen;

/// What lies between a workload and its Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// It owns them itself.
    Nothing,
    /// ReplicaSets, which it owns.
    ReplicaSets,
}

/// What a kind's Pods are asked through; `None`: it is no workload of Kubernetes.
pub fn between(group: &str, kind: &str) -> Option<Between> {
    match (group, kind) {
        ("apps", "Deployment") => Some(Between::ReplicaSets),
        ("apps", "StatefulSet" | "DaemonSet" | "ReplicaSet") | ("batch", "Job") => Some(Between::Nothing),
        _ => None,
    }
}

/// Which revision of a Deployment a ReplicaSet is of, as far as it tells which Pods are of the newest template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SetRevision {
    /// The Deployment counts them up.
    revision: u64,
    /// Its uid.
    pub uid: String,
    /// By which its Pods are told from those of others.
    pub hash: String,
}

impl SetRevision {
    /// Reads a ReplicaSet; `None`: no Deployment's controller has made it.
    pub fn read(set: &Value) -> Option<Self> {
        let metadata = &set["metadata"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Self {
            revision: metadata["annotations"]["deployment.kubernetes.io/revision"].as_str()?.parse().ok()?,
            uid: text(&metadata["uid"])?,
            hash: text(&metadata["labels"]["pod-template-hash"])?,
        })
    }
}

/// What is wrong with a Pod: the plainer is less.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Complaint {
    rank: u8,
    /// In one line, short and without secrets.
    pub text: String,
}

/// What a status shows of a name or an image.
const NAME_MAX: usize = 128;
/// What a container waits for in the course of things.
const PASSING: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// A Secret or a ConfigMap is missing, or a key of it.
const MISCONFIGURED: &str = "CreateContainerConfigError";
const IMAGES: [&str; 4] = ["ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"];

/// Containers of a Pod that are looked at.
const CONTAINERS_MOST: usize = 100;

/// What is wrong with a Pod.
pub fn complaint(pod: &Value) -> Option<Complaint> {
    let containers = ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .flat_map(|list| pod["status"][list].as_array().into_iter().flatten().take(CONTAINERS_MOST));
    let of_containers = containers.filter_map(|container| of_container(pod, container)).min();
    let (rank, text) = of_containers.or_else(|| unscheduled(pod)).or_else(|| ended(pod))?;
    Some(Complaint { rank, text })
}

fn of_container(pod: &Value, status: &Value) -> Option<(u8, String)> {
    let name = shown(text(status, "/name")?);
    let waits = text(status, "/state/waiting/reason").filter(|reason| !PASSING.contains(reason));
    let exit = |state: &str| {
        let ended = &status[state]["terminated"];
        let code = ended["exitCode"].as_i64().filter(|code| *code != 0)?;
        let reason =
            ended["reason"].as_str().map_or_else(String::new, |reason| format!(" ({})", shown(reason)));
        Some(format!("container {name} ended with exit code {code}{reason}"))
    };
    let Some(reason) = waits else {
        return exit("state").map(|text| (2, text));
    };
    if IMAGES.contains(&reason) {
        return Some((
            0,
            format!("{reason}: container {name}, image {}", image(pod, text(status, "/name")?)),
        ));
    }
    // Of others the message may repeat what the container is called with.
    let message = text(status, "/state/waiting/message").filter(|_| reason == MISCONFIGURED);
    let why = match (exit("lastState"), message) {
        (Some(ended), _) => ended,
        (None, Some(message)) => format!("container {name}: {}", stable(message)),
        (None, None) => format!("container {name}"),
    };
    Some((1, format!("{}: {why}", shown(reason))))
}

/// As the Pod asks for it: the status names what was found.
fn image(pod: &Value, container: &str) -> String {
    let of = |list: &str| pod["spec"][list].as_array().into_iter().flatten();
    let mut all = of("initContainers").chain(of("containers"));
    let image = all.find(|one| one["name"] == container).and_then(|one| one["image"].as_str());
    match image.unwrap_or("unknown") {
        // It is none, and may have a password in it.
        url if url.contains("://") => stable(url),
        image => shown(image),
    }
}

fn unscheduled(pod: &Value) -> Option<(u8, String)> {
    let mut all = pod["status"]["conditions"].as_array().into_iter().flatten();
    let found = all.find(|one| one["type"] == "PodScheduled" && one["status"] == "False")?;
    Some((
        3,
        format!(
            "{}: {}",
            shown(text(found, "/reason")?),
            stable(text(found, "/message").unwrap_or_default())
        ),
    ))
}

fn ended(pod: &Value) -> Option<(u8, String)> {
    let reason = text(pod, "/status/reason").filter(|_| pod["status"]["phase"] == "Failed")?;
    Some((4, format!("{}: {}", shown(reason), stable(text(pod, "/status/message").unwrap_or_default()))))
}

fn shown(text: &str) -> String {
    unseen::shown(text, NAME_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(container: &Value) -> Value {
        json!({"spec": {"containers": [{"name": "app", "image": "shop:v9"}]},
            "status": {"phase": "Pending", "containerStatuses": [container]}})
    }

    #[test]
    fn a_pod_tells_what_keeps_it_from_running_and_nothing_of_what_is_on_its_way() {
        let waits = |reason: &str, message: &str| {
            pod(&json!({"name": "app", "state": {"waiting": {"reason": reason, "message": message}}}))
        };
        let ended = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        let unscheduled = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/3 nodes are available"}]}});
        let rows = [
            (waits("ImagePullBackOff", "Back-off"), Some("ImagePullBackOff: container app, image shop:v9")),
            (waits("ContainerCreating", ""), None),
            (
                waits("RunContainerError", "exec: hunter2: not found"),
                Some("RunContainerError: container app"),
            ),
            (
                waits("CreateContainerConfigError", "secret \"db\" not found, token=abc"),
                Some("CreateContainerConfigError: container app: secret \"db\" not found, token=#"),
            ),
            (
                pod(
                    &json!({"name": "app", "lastState": ended, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}),
                ),
                Some("CrashLoopBackOff: container app ended with exit code 137 (OOMKilled)"),
            ),
            (
                pod(&json!({"name": "app", "state": ended})),
                Some("container app ended with exit code 137 (OOMKilled)"),
            ),
            (pod(&json!({"name": "app", "state": {"terminated": {"exitCode": 0}}})), None),
            (pod(&json!({"name": "app", "state": {"running": {}}})), None),
            (unscheduled, Some("Unschedulable: #/# nodes are available")),
            (
                json!({"status": {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}}),
                Some("Evicted: low on memory"),
            ),
            (json!({}), None),
            (json!({"status": {"containerStatuses": "none"}}), None),
        ];
        for (pod, told) in rows {
            assert_eq!(complaint(&pod).map(|found| found.text).as_deref(), told, "{pod}");
        }
    }

    #[test]
    fn an_image_that_is_a_url_is_told_without_its_password() {
        let status = json!({"name": "app", "state": {"waiting": {"reason": "InvalidImageName"}}});
        let mut pod = pod(&status);
        pod["spec"]["containers"][0]["image"] = json!("https://me:hunter2@registry.example/shop");
        let told = "InvalidImageName: container app, image https://registry.example/shop";
        assert_eq!(complaint(&pod).unwrap().text, told);
    }

    #[test]
    fn the_plainer_complaint_is_less() {
        let image = pod(&json!({"name": "app", "state": {"waiting": {"reason": "ErrImagePull"}}}));
        let exits = pod(&json!({"name": "app", "state": {"terminated": {"exitCode": 1}}}));
        assert!(complaint(&image) < complaint(&exits));
    }

    #[test]
    fn only_its_controller_owns_an_object_and_the_newest_replica_set_is_the_greatest() {
        let of = |uid: &str, controller: bool| json!({"metadata": {"ownerReferences": [{"uid": uid, "controller": controller}]}});
        let owned = |object: &Value| crate::owner::is_controlled_by(object, "a");
        assert!(owned(&of("a", true)) && !owned(&of("b", true)) && !owned(&of("a", false)));
        let set = |revision: &str, uid: &str| {
            SetRevision::read(&json!({"metadata": {"uid": uid, "labels": {"pod-template-hash": uid},
                "annotations": {"deployment.kubernetes.io/revision": revision}}}))
        };
        assert!(set("10", "a") > set("9", "b"));
        assert_eq!(set("newest", "c"), None);
    }
}

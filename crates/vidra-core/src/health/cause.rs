//! Why a workload has failed, as the Pods that it owns tell: what to ask for, and what of the answers is told.

use std::collections::BTreeSet;

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

/// Those of these objects that one of `owners` controls, by uid.
pub fn owned<'o>(objects: &'o [Value], owners: &BTreeSet<String>) -> impl Iterator<Item = &'o Value> {
    objects.iter().filter(|object| {
        let mut all = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        all.any(|owner| {
            owner["controller"] == true && owner["uid"].as_str().is_some_and(|uid| owners.contains(uid))
        })
    })
}

/// What a status shows of a name or an image.
const NAME_MAX: usize = 128;
/// What a container waits for in the course of things.
const PASSING: [&str; 2] = ["ContainerCreating", "PodInitializing"];
const IMAGES: [&str; 4] = ["ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"];

/// What is wrong with these Pods, in one line: of several the plainest, which the order of the list does not change. Texts of
/// the member are short and without secrets.
pub fn of_pods<'p>(pods: impl Iterator<Item = &'p Value>) -> Option<String> {
    pods.filter_map(of_pod).min().map(|(_, text)| text)
}

/// With a rank: the lower says more.
fn of_pod(pod: &Value) -> Option<(u8, String)> {
    let containers = ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
    let of_containers = containers.filter_map(|container| of_container(pod, container)).min();
    of_containers.or_else(|| unscheduled(pod)).or_else(|| ended(pod))
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
    let why = match exit("lastState") {
        Some(ended) => ended,
        None => match text(status, "/state/waiting/message") {
            Some(message) => format!("container {name}: {}", stable(message)),
            None => format!("container {name}"),
        },
    };
    Some((1, format!("{}: {why}", shown(reason))))
}

/// As the Pod asks for it: the status names what was found.
fn image(pod: &Value, container: &str) -> String {
    let of = |list: &str| pod["spec"][list].as_array().into_iter().flatten();
    let mut all = of("initContainers").chain(of("containers"));
    let image = all.find(|one| one["name"] == container).and_then(|one| one["image"].as_str());
    shown(image.unwrap_or("unknown"))
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
            assert_eq!(of_pods([&pod].into_iter()).as_deref(), told, "{pod}");
        }
    }

    #[test]
    fn of_several_pods_the_plainest_is_told_in_whatever_order_they_come() {
        let image = pod(&json!({"name": "app", "state": {"waiting": {"reason": "ErrImagePull"}}}));
        let exits = pod(&json!({"name": "app", "state": {"terminated": {"exitCode": 1}}}));
        let told = Some("ErrImagePull: container app, image shop:v9".to_owned());
        assert_eq!(of_pods([&image, &exits].into_iter()), told);
        assert_eq!(of_pods([&exits, &image].into_iter()), told);
    }

    #[test]
    fn only_what_one_of_the_owners_controls_is_its() {
        let of = |uid: &str, controller: bool| json!({"metadata": {"ownerReferences": [{"uid": uid, "controller": controller}]}});
        let objects = [of("a", true), of("b", true), of("a", false), json!({"metadata": {}})];
        let owners = BTreeSet::from(["a".to_owned()]);
        assert_eq!(owned(&objects, &owners).collect::<Vec<_>>(), [&objects[0]]);
    }
}

//! What is shown of a Pod: how many of its containers are ready, and the one word for how it is.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::cells::text;

pub(super) fn cell(which: &str, pod: &Value, now: Timestamp) -> Option<Value> {
    Some(match which {
        "ready" => {
            let all = list(&pod["spec"]["containers"]).len()
                + list(&pod["spec"]["initContainers"]).iter().filter(|one| lasts(one)).count();
            json!(format!("{}/{all}", Seen::of(pod).ready))
        }
        "status" => json!(Seen::of(pod).word),
        "restarts" => {
            let Seen { restarts, last, .. } = Seen::of(pod);
            let ago = age::since(&json!(last), now).filter(|_| restarts > 0);
            json!(ago.map_or_else(|| restarts.to_string(), |ago| format!("{restarts} ({ago} ago)")))
        }
        "gates" => gates(pod),
        _ => return None,
    })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// An init container that goes on running beside the others.
fn lasts(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn holds(pod: &Value, condition: &str) -> bool {
    list(&pod["status"]["conditions"]).iter().any(|one| one["type"] == condition && one["status"] == "True")
}

fn gates(pod: &Value) -> Value {
    let gates = list(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return json!("<none>");
    }
    let open =
        gates.iter().filter(|gate| gate["conditionType"].as_str().is_some_and(|name| holds(pod, name)));
    json!(format!("{}/{}", open.count(), gates.len()))
}

/// What the statuses of containers come to.
#[derive(Default)]
struct Seen {
    word: String,
    ready: usize,
    restarts: i64,
    /// When a container ended last.
    last: String,
}

impl Seen {
    fn of(pod: &Value) -> Self {
        let status = &pod["status"];
        let mut seen = Seen { word: text(&status["phase"]), ..Seen::default() };
        if let Some(reason) = status["reason"].as_str().filter(|reason| !reason.is_empty()) {
            seen.word = reason.to_owned();
        }
        if list(&status["conditions"])
            .iter()
            .any(|one| one["type"] == "PodScheduled" && one["reason"] == "SchedulingGated")
        {
            seen.word = "SchedulingGated".to_owned();
        }
        if !seen.initializing(pod) || holds(pod, "Initialized") {
            seen.running(pod);
        }
        let over = matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"));
        match pod["metadata"]["deletionTimestamp"] {
            Value::Null => {}
            _ if status["reason"] == "NodeLost" => seen.word = "Unknown".to_owned(),
            _ if !over => seen.word = "Terminating".to_owned(),
            _ => {}
        }
        seen
    }

    fn count(&mut self, container: &Value) {
        self.restarts += container["restartCount"].as_i64().unwrap_or_default();
        let ended = text(&container["lastState"]["terminated"]["finishedAt"]);
        if self.last < ended {
            self.last = ended;
        }
    }

    /// Goes through the init containers up to one that is not done.
    fn initializing(&mut self, pod: &Value) -> bool {
        let specs = list(&pod["spec"]["initContainers"]);
        let lasting = |name: &Value| specs.iter().any(|one| one["name"] == *name && lasts(one));
        for (number, container) in list(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
            self.count(container);
            let (terminated, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
            if terminated["exitCode"] == 0 {
                continue;
            }
            if lasting(&container["name"]) && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            self.word = match waiting["reason"].as_str() {
                _ if terminated.is_object() => format!("Init:{}", ended(terminated)),
                Some(reason) if !reason.is_empty() && reason != "PodInitializing" => format!("Init:{reason}"),
                _ => format!("Init:{number}/{}", specs.len()),
            };
            return true;
        }
        false
    }

    fn running(&mut self, pod: &Value) {
        let specs = list(&pod["spec"]["initContainers"]);
        let lasting = |one: &&Value| specs.iter().any(|spec| spec["name"] == one["name"] && lasts(spec));
        (self.restarts, self.last) = (0, String::new());
        list(&pod["status"]["initContainerStatuses"]).iter().filter(lasting).for_each(|one| self.count(one));
        let (mut runs, mut failed) = (false, String::new());
        for container in list(&pod["status"]["containerStatuses"]).iter().rev() {
            self.count(container);
            let state = &container["state"];
            let waiting = text(&state["waiting"]["reason"]);
            if !waiting.is_empty() {
                self.word = waiting;
            } else if state["terminated"].is_object() {
                self.word = ended(&state["terminated"]);
                if state["terminated"]["exitCode"] != 0 {
                    failed.clone_from(&self.word);
                }
            } else if container["ready"] == true && state["running"].is_object() {
                runs = true;
                self.ready += 1;
            }
        }
        if self.word == "Completed" {
            self.word = match runs {
                true if holds(pod, "Ready") => "Running".to_owned(),
                _ if !failed.is_empty() => failed,
                true => "NotReady".to_owned(),
                false => "Completed".to_owned(),
            };
        }
    }
}

/// Why a container ended.
fn ended(terminated: &Value) -> String {
    let number = |field: &str| terminated[field].as_i64().unwrap_or_default();
    match terminated["reason"].as_str() {
        Some(reason) if !reason.is_empty() => reason.to_owned(),
        _ if number("signal") != 0 => format!("Signal:{}", number("signal")),
        _ => format!("ExitCode:{}", number("exitCode")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_says_how_a_pod_is() {
        let container = |state: Value, ready: bool| json!([{"name": "c", "ready": ready, "state": state}]);
        let table = [
            (json!({"phase": "Pending"}), "Pending"),
            (json!({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
            (
                json!({"phase": "Running", "containerStatuses": container(json!({"running": {}}), true)}),
                "Running",
            ),
            (
                json!({"phase": "Pending", "containerStatuses":
                    container(json!({"waiting": {"reason": "ImagePullBackOff"}}), false)}),
                "ImagePullBackOff",
            ),
            (
                json!({"phase": "Failed", "containerStatuses":
                    container(json!({"terminated": {"exitCode": 3}}), false)}),
                "ExitCode:3",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses":
                    container(json!({"terminated": {"exitCode": 1, "reason": "Error"}}), false)}),
                "Init:Error",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": container(json!({"running": {}}), false)}),
                "Init:0/1",
            ),
        ];
        for (status, wanted) in table {
            let spec = json!({"containers": [{"name": "c"}], "initContainers": [{"name": "c"}]});
            assert_eq!(Seen::of(&json!({"spec": spec, "status": status})).word, wanted, "{status}");
        }
        let leaving = json!({"metadata": {"deletionTimestamp": "T"}, "status": {"phase": "Running"}});
        assert_eq!(Seen::of(&leaving).word, "Terminating");
    }
}

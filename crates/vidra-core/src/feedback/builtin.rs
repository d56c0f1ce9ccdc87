//! What is well known of kinds that many deliver. Sources: the API reference of Kubernetes (apps/v1, batch/v1, v1,
//! networking.k8s.io/v1), and of the Gateway API (gateway.networking.k8s.io/v1).

use serde_json::Value;

/// Kinds with values of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    /// It updates its pods.
    Deployment,
    /// It has no more than their number.
    ReplicaSet,
    DaemonSet,
    Job,
    Service,
    Ingress,
    Gateway,
    Claim,
}

impl Builtin {
    pub(super) fn of(group: &str, kind: &str) -> Option<Builtin> {
        Some(match (group, kind) {
            ("apps", "Deployment" | "StatefulSet") => Builtin::Deployment,
            ("apps", "ReplicaSet") | ("", "ReplicationController") => Builtin::ReplicaSet,
            ("apps", "DaemonSet") => Builtin::DaemonSet,
            ("batch", "Job") => Builtin::Job,
            ("", "Service") => Builtin::Service,
            ("networking.k8s.io", "Ingress") => Builtin::Ingress,
            ("gateway.networking.k8s.io", "Gateway") => Builtin::Gateway,
            ("", "PersistentVolumeClaim") => Builtin::Claim,
            _ => return None,
        })
    }

    /// What it says of a live object; what the object does not say is left out.
    pub(super) fn values(self, live: &Value) -> Vec<(&'static str, Option<Value>)> {
        let status = &live["status"];
        // Controllers leave zeros out.
        let count = |field: &str| {
            let count = status[field].as_i64().unwrap_or(0);
            status.is_object().then(|| Value::from(count))
        };
        let desired = Some(Value::from(live["spec"]["replicas"].as_i64().unwrap_or(1)));
        let addresses = |all: Vec<&str>| vec![("addresses", (!all.is_empty()).then(|| all.join(",").into()))];
        match self {
            Builtin::Deployment => vec![
                ("desired", desired),
                ("updated", count("updatedReplicas")),
                ("ready", count("readyReplicas")),
                ("available", count("availableReplicas")),
            ],
            Builtin::ReplicaSet => vec![
                ("desired", desired),
                ("ready", count("readyReplicas")),
                ("available", count("availableReplicas")),
            ],
            Builtin::DaemonSet => vec![
                ("desired", count("desiredNumberScheduled")),
                ("updated", count("updatedNumberScheduled")),
                ("ready", count("numberReady")),
                ("available", count("numberAvailable")),
            ],
            Builtin::Job => {
                vec![
                    ("succeeded", count("succeeded")),
                    ("failed", count("failed")),
                    ("active", count("active")),
                ]
            }
            Builtin::Service => addresses(service(live)),
            Builtin::Ingress => addresses(balancer(live)),
            Builtin::Gateway => addresses(texts(&status["addresses"], &["value"])),
            Builtin::Claim => vec![("capacity", status["capacity"]["storage"].as_str().map(Value::from))],
        }
    }
}

/// Where a Service is reached: from outside where it is meant to be, else in its cluster.
fn service(live: &Value) -> Vec<&str> {
    let spec = &live["spec"];
    match spec["type"].as_str() {
        Some("LoadBalancer") => balancer(live),
        Some("ExternalName") => spec["externalName"].as_str().into_iter().collect(),
        _ => {
            let all = spec["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
            all.filter(|address| *address != "None").collect()
        }
    }
}

fn balancer(live: &Value) -> Vec<&str> {
    texts(&live["status"]["loadBalancer"]["ingress"], &["ip", "hostname"])
}

/// Of each item of a list the first of these fields that is a text.
fn texts<'l>(list: &'l Value, fields: &[&str]) -> Vec<&'l str> {
    let items = list.as_array().into_iter().flatten();
    let text = |item: &'l Value| {
        fields.iter().find_map(|field| item[*field].as_str().filter(|text| !text.is_empty()))
    };
    items.filter_map(text).collect()
}

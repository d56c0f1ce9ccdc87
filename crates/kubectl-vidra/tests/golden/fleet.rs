//! Objects of a hub, by hand.

use jiff::Timestamp;
use serde_json::{Value, json};
use vidra_api::{MemberCluster, VidraResource, VidraTarget};

/// The time of all reports.
pub fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

/// A target `shop.<cluster>` of team-a with this status, of revision aa.
pub fn target(cluster: &str, status: Value) -> VidraTarget {
    target_of("shop", cluster, status)
}

/// A target of another VidraResource.
pub fn target_of(resource: &str, cluster: &str, status: Value) -> VidraTarget {
    serde_json::from_value(json!({
        "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraTarget",
        "metadata": {"name": format!("{resource}.{cluster}"), "namespace": "team-a"},
        "spec": {"resource": resource, "cluster": cluster, "revision": "aa", "desired": "Present", "namespace": "shop", "generation": 1},
        "status": status,
    }))
    .unwrap()
}

/// A status of a target that is well.
pub fn well() -> Value {
    json!({
        "state": "Ready", "reason": "Ready", "drift": "InSync", "revision": "aa", "objects": 3, "ready": 3,
        "since": "2026-03-01T10:00:00Z",
    })
}

/// A status with these changes.
pub fn drifted(changes: Value) -> Value {
    let count = changes.as_array().map_or(0, Vec::len);
    let mut status = well();
    status["drift"] = json!("Drifted");
    status["drifted"] = json!(count);
    status["changes"] = changes;
    status
}

/// Somebody set the replicas of the shop's Deployment.
pub fn scaled(detected: &str) -> Value {
    json!({
        "group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop", "name": "web",
        "change": "Modified", "detectedAt": detected,
        "fields": [{"path": ".spec.replicas", "expected": "3", "actual": "5", "manager": "kubectl-edit",
            "operation": "Update", "notAfter": detected}],
    })
}

/// A VidraResource with this spec.
pub fn resource(name: &str, spec: Value, status: Value) -> VidraResource {
    serde_json::from_value(json!({
        "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
        "metadata": {"name": name, "namespace": "team-a", "generation": 4},
        "spec": spec, "status": status,
    }))
    .unwrap()
}

/// A status of a VidraResource with this Ready condition.
pub fn says(status: &str, reason: &str, message: &str, ready: &str) -> Value {
    json!({
        "observedGeneration": 4, "revision": "aa", "targetsReady": ready,
        "conditions": [{"type": "Ready", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-03-01T11:57:00Z"}],
    })
}

/// What a removal guard says, at its longest.
pub fn held(resource: &str) -> String {
    let clusters: Vec<_> = (0..10).map(|nth| format!("a-cluster-with-a-long-name-{nth:02}")).collect();
    format!(
        "held: it would take the VidraResource off 12 of 14 clusters, more than 20 % ({} and 2 more), and nothing new is delivered. If this is meant: kubectl annotate vidraresource {resource} -n team-a --overwrite vidra.dev/approve-removal=5f0a1b2c3d",
        clusters.join(", ")
    )
}

/// A member with these labels.
pub fn member(name: &str, env: &str) -> MemberCluster {
    serde_json::from_value(json!({
        "apiVersion": "vidra.dev/v1alpha1", "kind": "MemberCluster",
        "metadata": {"name": name, "labels": {"env": env}, "creationTimestamp": "2026-02-01T12:00:00Z"},
        "spec": {},
        "status": {
            "version": "v1.36.3",
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-02-01T12:00:00Z"},
                {"type": "Reachable", "status": "True", "reason": "Answers", "message": "", "lastTransitionTime": "2026-02-01T12:00:00Z"},
            ],
        },
    }))
    .unwrap()
}

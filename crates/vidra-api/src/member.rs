//! MemberCluster: a cluster that the hub delivers to.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

fn kubeconfig_key() -> String {
    "kubeconfig".to_owned()
}

/// How the hub reaches a member, and who may use it.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "vidra.dev",
    version = "v1alpha1",
    kind = "MemberCluster",
    status = "MemberClusterStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "mc",
    category = "vidra",
    doc = "A cluster that the hub delivers to. Deleting it is leaving: see spec.onLeave.",
    validation = Rule::new("size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message("choose a metadata.name of at most 63 lower-case letters, digits and '-', beginning and ending with a letter or digit; it may have no dot, because VidraTargets are named <resource>.<cluster>"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#, description = "Whether the hub can deliver to it."),
    printcolumn(name = "Targets", type_ = "string", json_path = ".status.targetsReady", description = "VidraTargets on it that are ready, of all."),
    printcolumn(name = "Drifted", type_ = "integer", json_path = ".status.targets.drifted", description = "VidraTargets on it that differ from what is declared."),
    printcolumn(name = "Objects", type_ = "integer", json_path = ".status.objects", description = "Objects that the hub delivered to it."),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version", description = "The version of its API server."),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#, description = "Why it is ready or not."),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Watches", type_ = "integer", json_path = ".status.watches.total", priority = 1, description = "Watches that the hub needs there."),
    printcolumn(name = "Denied", type_ = "integer", json_path = ".status.watches.denied", priority = 1, description = "Watches that the member forbids."),
    printcolumn(name = "Message", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].message"#, priority = 1, description = "Why it is ready or not, in a sentence.")
)]
#[serde(rename_all = "camelCase")]
pub struct MemberClusterSpec {
    /// The Secret that holds the member's kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret_ref: Option<KubeconfigSecretRef>,
    /// Whether the hub leaves the member alone: nothing is applied, repaired or deleted there. Deleting the MemberCluster
    /// acts all the same, by onLeave.
    #[serde(default)]
    pub suspend: bool,
    /// The namespaces of the hub whose VidraResources may go to this member. Unset: those of the setting
    /// defaultAllowedNamespaces, which are all unless it says otherwise. An empty list: none. What is there
    /// from others stays as it is: see onRevoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::namespaces")]
    pub allowed_namespaces: Option<Vec<String>>,
    /// Texts that overrides may use as cluster.values, such as URLs, which labels cannot hold. Not for
    /// secrets: whoever may read MemberClusters or VidraTargets can read them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::values")]
    pub values: BTreeMap<String, String>,
    /// What becomes of the objects in the member when this MemberCluster is deleted. Orphan leaves them
    /// there without our labels, Delete removes them first.
    #[serde(default)]
    pub on_leave: OnLeave,
    /// What becomes of what is in the member where allowedNamespaces does not name its namespace any more. Keep leaves it
    /// as it is, Orphan without our labels, and Delete removes it. What takes more than the setting removalGuard of
    /// the member's targets waits for the annotation vidra.dev/approve-removal.
    #[serde(default)]
    pub on_revoke: OnRevoke,
}

/// A key of a Secret of the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeconfigSecretRef {
    /// The Secret's namespace.
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: String,
    /// The Secret's name.
    #[schemars(schema_with = "schema::secret_name")]
    pub name: String,
    /// The key that holds the kubeconfig.
    #[serde(default = "kubeconfig_key")]
    #[schemars(schema_with = "schema::secret_key")]
    pub key: String,
}

/// What becomes of delivered objects when a member leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum OnLeave {
    /// They stay, without our labels.
    #[default]
    Orphan,
    /// They are deleted first.
    Delete,
}

/// What becomes of delivered objects when their namespace is not allowed any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum OnRevoke {
    /// They stay as they are, and so does their VidraTarget.
    #[default]
    Keep,
    /// They stay, without our labels.
    Orphan,
    /// They are deleted.
    Delete,
}

/// How a member fares. None is left out of the JSON, so a status is written whole (PUT or apply),
/// never as a merge patch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(description = "How it fares.")]
pub struct MemberClusterStatus {
    /// The metadata.generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, Reachable, CredentialsValid and IdentityConfirmed; Stalled while a removal by spec.onRevoke is held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The uid of the member's namespace kube-system: which cluster it is, whatever it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::CLUSTER_UID_MAX))]
    pub uid: Option<String>,
    /// The version of its API server, as it said when contact was found, or at most about ten minutes ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
    /// When it was noticed that the member answers no more. Unset: it answers, be it only to refuse the credentials, or there
    /// are none to ask it with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_contact_time: Option<Time>,
    /// Targets that are ready, of all, for people: 2/3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub targets_ready: Option<String>,
    /// The VidraTargets on it, counted. All counts are written a moment after they have changed. Unset: not counted
    /// yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<MemberTargets>,
    /// What the hub watches there, counted: a watch for each kind that is delivered, or one for each kind and
    /// namespace where the member does not let the hub see all. Without contact it stays what it was. Unset: not
    /// counted yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watches: Option<MemberWatches>,
    /// How many objects the hub delivered to it, as its VidraTargets tell; one that two of them share counts for
    /// each. Unset: not counted yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub objects: Option<i64>,
}

/// VidraTargets counted. Those that are neither ready nor failed are on their way, wait, are suspended or cannot be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberTargets {
    /// All that are to stay.
    #[schemars(range(min = 0))]
    pub total: i32,
    /// Those that have their revision, applied and healthy.
    #[schemars(range(min = 0))]
    pub ready: i32,
    /// Those that differ from what is declared, in whatever state.
    #[schemars(range(min = 0))]
    pub drifted: i32,
    /// Those where something was refused or is broken.
    #[schemars(range(min = 0))]
    pub failed: i32,
    /// Those that are on their way out; not counted in total.
    #[schemars(range(min = 0))]
    pub terminating: i32,
}

/// Watches counted. Those that are neither synced nor denied fail and are tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemberWatches {
    /// All that targets need which are not suspended.
    #[schemars(range(min = 0))]
    pub total: i32,
    /// Those that have listed all and are followed.
    #[schemars(range(min = 0))]
    pub synced: i32,
    /// Those that the member forbids: grant list and watch there.
    #[schemars(range(min = 0))]
    pub denied: i32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_empty_spec_reads_as_the_default() {
        let spec: MemberClusterSpec = serde_json::from_value(json!({})).unwrap();
        assert_eq!(spec, MemberClusterSpec::default());
        assert_eq!(spec.on_leave, OnLeave::Orphan);
        assert_eq!(spec.allowed_namespaces, None);
    }

    #[test]
    fn a_secret_reference_without_key_means_the_key_kubeconfig() {
        let reference: KubeconfigSecretRef =
            serde_json::from_value(json!({"namespace": "vidra", "name": "berlin"})).unwrap();
        assert_eq!(reference.key, "kubeconfig");
    }

    #[test]
    fn a_full_object_survives_the_way_through_json() {
        let full = json!({
            "apiVersion": "vidra.dev/v1alpha1", "kind": "MemberCluster", "metadata": {"name": "berlin"},
            "spec": {
                "kubeconfigSecretRef": {"namespace": "vidra", "name": "berlin", "key": "value"},
                "suspend": true, "allowedNamespaces": ["team-a"], "onLeave": "Delete",
                "onRevoke": "Orphan",
                "values": {"registry": "https://eu.registry.example"},
            },
            "status": {
                "observedGeneration": 1, "uid": "u", "version": "v1.36.3",
                "lastContactTime": "2026-01-02T03:04:05Z", "targetsReady": "2/4",
                "targets": {"total": 4, "ready": 2, "drifted": 1, "failed": 1, "terminating": 0},
                "watches": {"total": 3, "synced": 2, "denied": 1}, "objects": 12,
            },
        });
        let read: MemberCluster = serde_json::from_value(full.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), full);
    }
}

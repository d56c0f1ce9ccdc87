//! VidraResource: what a user asks for, and what came of it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conflicts::{Conflicts, ContainerDeletion};
use crate::drift::DriftSpec;
use crate::feedback::{FEEDBACK_RULES_MAX, FeedbackRule};
use crate::health::{HEALTH_RULES_MAX, HealthCheckExpr};
use crate::overrides::{OVERRIDES_MAX, Override};
use crate::raw::Raw;
use crate::readiness::Readiness;
use crate::schema;
use crate::selector::LabelSelector;
use crate::sources::{self, ManifestSource};
use crate::target::{DriftState, MESSAGE_MAX, TargetState};

/// Longest manifest in characters. An object in etcd may have 1.5 MiB, and the rest of it needs room.
pub const MANIFEST_MAX: usize = 1 << 20;
/// Most entries in `status.clusters`.
pub const CLUSTERS_MAX: usize = 50;
/// Longest value of `vidra.dev/reconcile-requested-at` that is shown whole, in characters.
pub const REQUEST_MAX: usize = 256;

pub(crate) fn yes() -> bool {
    true
}

/// What to deliver, and to which members.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "vidra.dev",
    version = "v1alpha1",
    kind = "VidraResource",
    namespaced,
    status = "VidraResourceStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "vr",
    category = "vidra",
    doc = "Objects to deliver to member clusters, and how they fare there.",
    validation = Rule::new("size(self.metadata.name) <= 180").message("choose a metadata.name of at most 180 characters: the hub adds the cluster's name to it to name the VidraTargets"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#, description = "Whether every target has this revision, applied and healthy."),
    printcolumn(name = "Targets", type_ = "string", json_path = ".status.targetsReady", description = "Targets that are ready, of all."),
    printcolumn(name = "Revision", type_ = "string", json_path = ".status.revision", description = "The revision that targets are to have."),
    printcolumn(name = "Removing", type_ = "string", json_path = r#".status.conditions[?(@.type=="Removing")].reason"#, priority = 1, description = "Why something that is to go is still there; Nothing: all is gone. kubectl vidra status tells what and where."),
    printcolumn(name = "Message", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].message"#, priority = 1, description = "Why it is ready or not."),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct VidraResourceSpec {
    /// The objects to deliver: YAML with any number of documents, or JSON. What the same text means
    /// to kubectl, it means here. At most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MANIFEST_MAX))]
    pub manifest: Option<String>,
    /// More objects to deliver, written out here; at most 1000. They come after those of manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "sources::manifests")]
    pub manifests: Vec<Raw>,
    /// ConfigMaps and Secrets of this namespace whose keys hold more objects to deliver, in the form of manifest;
    /// at most 16 MiB in all, unpacked. They come last, in this order. What cannot be read is no wish: then
    /// nothing that was delivered is changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = sources::SOURCES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub manifests_from: Vec<ManifestSource>,
    /// Which members get the objects, joined by OR. The first entry that matches a cluster names its
    /// namespace there. An empty list is no member at all.
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub targets: Vec<TargetSelector>,
    /// Members that get nothing, whatever targets says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::cluster_names")]
    pub exclude_clusters: Vec<String>,
    /// Changes to the objects for some clusters, in this order, each to what the ones before it made. They
    /// cannot change apiVersion, kind, metadata.name and metadata.namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = OVERRIDES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub overrides: Vec<Override>,
    /// Whether namespaces that the objects need and the member lacks are made. They are never deleted.
    #[serde(default = "yes")]
    pub create_namespaces: bool,
    /// When the members are compared with what is declared. Unset: the hub's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconcile: Option<ReconcileSpec>,
    /// How drift is dealt with: what a member has otherwise than it was delivered.
    #[serde(default)]
    pub drift: DriftSpec,
    /// Whether an object dropped from the manifest is deleted in the members.
    #[serde(default = "yes")]
    pub prune: bool,
    /// What becomes of the objects in a member when this VidraResource is deleted or the cluster is no
    /// longer selected. Delete removes them, Orphan leaves them there without our labels.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// What becomes of declared Namespaces and CustomResourceDefinitions when they are to be deleted: deleting
    /// one takes what others put into it. Retain leaves them there without our labels, WhenEmpty deletes
    /// them when every kind could be listed and nothing is in them.
    #[serde(default, rename = "namespaceAndCRDDeletion")]
    pub namespace_and_crd_deletion: ContainerDeletion,
    /// What to do where others made an object, or hold a field of it, already.
    #[serde(default)]
    pub conflicts: Conflicts,
    /// How the objects are judged, before the hub's own health rules, each in CEL. A change of nothing but these
    /// makes no revision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = HEALTH_RULES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub health_check_exprs: Vec<HealthCheckExpr>,
    /// Which fields of declared objects come back from the members, into status.feedback of the VidraTargets. A change
    /// of nothing but these makes no revision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = FEEDBACK_RULES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub status_feedback: Vec<FeedbackRule>,
    /// When it is Ready though not each of its targets is. Unset: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness: Option<Readiness>,
    /// Whether a manifest without any object is meant, and deletes what was delivered. Else it is an error.
    #[serde(default)]
    pub allow_empty: bool,
    /// Whether the hub leaves the members alone: nothing is applied, repaired or pruned. Deleting the VidraResource acts
    /// all the same: to keep the objects, set deletionPolicy: Orphan first.
    #[serde(default)]
    pub suspend: bool,
}

impl Default for VidraResourceSpec {
    /// What the API server makes of a spec that sets nothing but `targets: []`.
    fn default() -> Self {
        Self {
            manifest: None,
            manifests: Vec::new(),
            manifests_from: Vec::new(),
            targets: Vec::new(),
            exclude_clusters: Vec::new(),
            overrides: Vec::new(),
            create_namespaces: true,
            reconcile: None,
            drift: DriftSpec::default(),
            prune: true,
            deletion_policy: DeletionPolicy::default(),
            namespace_and_crd_deletion: ContainerDeletion::default(),
            conflicts: Conflicts::default(),
            health_check_exprs: Vec::new(),
            status_feedback: Vec::new(),
            readiness: None,
            allow_empty: false,
            suspend: false,
        }
    }
}

/// Some members, by name or by label, and the namespace to use there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rule(
    "has(self.clusterNames) != has(self.clusterSelector)",
    "set exactly one of clusterNames and clusterSelector; clusterSelector: {} selects every cluster",
)))]
pub struct TargetSelector {
    /// Members by name, at most 400; an empty list is none. Set this or clusterSelector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::target_cluster_names")]
    pub cluster_names: Option<Vec<String>>,
    /// Members by the labels of their MemberCluster; an empty selector is every member. Set this or
    /// clusterNames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<LabelSelector>,
    /// The namespace in the member of namespaced objects that name none. Default: the namespace of
    /// this VidraResource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: Option<String>,
}

/// When members are compared with what is declared. Unset fields: the hub's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReconcileSpec {
    /// How often, as a duration such as 30s, 10m or 1h30m; one second or more, at most 720h (30 days).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::interval")]
    pub interval: Option<String>,
    /// Whether also at once when a member reports a change. The interval runs either way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_events: Option<bool>,
    /// How long applied objects may take to become healthy, as a duration such as 30s, 10m or 1h30m;
    /// one second or more. After it the target is Failed, and names the object that is late; it
    /// recovers by itself. Default: 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::interval")]
    pub timeout: Option<String>,
    /// The longest pause between two tries of a delivery that failed, as a duration such as 30s. The first
    /// pauses are shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::interval")]
    pub retry_interval: Option<String>,
}

/// What becomes of delivered objects that are no longer wanted in a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// They are deleted.
    #[default]
    Delete,
    /// They stay, without our labels.
    Orphan,
}

/// What came of a VidraResource. None is left out of the JSON, so a status is written whole (PUT or
/// apply), never as a merge patch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(description = "What came of it.")]
pub struct VidraResourceStatus {
    /// The metadata.generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The revision that targets are to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::REVISION_MAX))]
    pub revision: Option<String>,
    /// The value of the annotation vidra.dev/reconcile-requested-at that was last acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = REQUEST_MAX))]
    pub last_handled_reconcile_at: Option<String>,
    /// Targets that are ready, of all, for people: 2/3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub targets_ready: Option<String>,
    /// How many targets are in which state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// Ready, Reconciling, Stalled, Drifted and Removing; IgnoreUnmatched while a rule of spec.drift.ignore matches nothing;
    /// FeedbackIncomplete while one of spec.statusFeedback matches nothing or cannot be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The targets that fare worst, worst first; at most 50. All of them: kubectl get vidratargets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = CLUSTERS_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub clusters: Vec<ClusterSummary>,
    /// Members that were forgotten with objects in them, newest last; at most 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = CLUSTERS_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub left_behind: Vec<LeftBehind>,
}

/// What stays in a member that was forgotten.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftBehind {
    /// The member cluster.
    #[schemars(length(max = schema::LABEL_MAX))]
    pub cluster: String,
    /// How many objects stay there.
    pub objects: i64,
    /// Some of them, by name.
    #[schemars(length(max = MESSAGE_MAX))]
    pub names: String,
    /// When it was forgotten.
    #[schemars(schema_with = "schema::time")]
    pub at: Time,
}

/// Targets counted by state. Those that are on their way out count in `terminating` and not in `targets`; `drifted`
/// counts across all of them, the others add up to `targets`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Summary {
    /// All targets that are to stay.
    pub targets: i32,
    /// Targets that have the revision, applied and healthy.
    pub ready: i32,
    /// Targets that are being applied or are not healthy yet.
    pub progressing: i32,
    /// Targets where something was refused or is broken.
    pub failed: i32,
    /// Targets that differ from what is declared, in whatever state.
    pub drifted: i32,
    /// Targets whose member cannot be reached.
    pub unknown: i32,
    /// Targets that are suspended.
    pub suspended: i32,
    /// Targets that wait for something else.
    pub waiting: i32,
    /// Targets whose objects are being removed; not counted in targets.
    pub terminating: i32,
    /// Objects in all members together.
    pub objects: i64,
}

/// One target in short.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSummary {
    /// The member cluster.
    #[schemars(length(max = schema::LABEL_MAX))]
    pub name: String,
    /// How delivery goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TargetState>,
    /// Whether the member still has what was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftState>,
    /// Why, in one CamelCase word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::REASON_MAX))]
    pub reason: Option<String>,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MESSAGE_MAX))]
    pub message: Option<String>,
    /// The revision that the member has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::REVISION_MAX))]
    pub revision: Option<String>,
    /// Since when it is in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub since: Option<Time>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_spec_with_targets_only_reads_as_the_default() {
        let spec: VidraResourceSpec = serde_json::from_value(json!({"targets": []})).unwrap();
        assert_eq!(spec, VidraResourceSpec::default());
        assert!(spec.create_namespaces && spec.prune && !spec.suspend);
        assert_eq!(spec.deletion_policy, DeletionPolicy::Delete);
    }

    #[test]
    fn a_spec_without_targets_is_refused() {
        let error = serde_json::from_value::<VidraResourceSpec>(json!({"manifest": ""})).unwrap_err();
        assert!(error.to_string().contains("targets"), "{error}");
    }

    #[test]
    fn a_full_object_survives_the_way_through_json() {
        let feedback = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
                    "values": [{"name": "version", "expression": "metadata.labels.version"}]}]);
        let full = json!({
            "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
            "metadata": {"name": "shop", "namespace": "team-a"},
            "spec": {
                "manifest": "kind: ConfigMap\n",
                "manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}],
                "manifestsFrom": [
                    {"configMapRef": {"name": "shop-crds", "keys": ["crds.yaml.gz"]}},
                    {"secretRef": {"name": "shop-secrets"}},
                ],
                "targets": [
                    {"clusterNames": ["berlin"], "namespace": "shop"},
                    {"clusterSelector": {}},
                    {"clusterSelector": {"matchLabels": {"env": "prod"}}},
                ],
                "excludeClusters": ["paris"],
                "overrides": [{"target": {"kind": "ConfigMap"}, "mergePatch": {"data": {"key": "value"}}}],
                "createNamespaces": false,
                "reconcile": {"interval": "10m", "onEvents": true, "timeout": "5m", "retryInterval": "30s"},
                "drift": {"policy": "Report", "ignore": [{"target": {"group": "apps", "kind": "Deployment"},
                    "paths": [".spec.replicas"]}], "yield": "None"},
                "prune": false,
                "deletionPolicy": "Orphan",
                "namespaceAndCRDDeletion": "WhenEmpty",
                "conflicts": {"existing": "AdoptIfEqual", "fields": "Fail"},
                "healthCheckExprs": [{"apiVersion": "example.com/v1", "kind": "Gadget", "inProgress": "false",
                    "failed": "status.phase == 'Down'", "current": "true", "suspended": "spec.stop",
                    "message": "status.text", "observedGeneration": "Ignore"}],
                "statusFeedback": feedback,
                "readiness": {"maxUnreachable": "5%"},
                "allowEmpty": true,
                "suspend": true,
            },
            "status": {
                "observedGeneration": 3, "revision": "00ff", "lastHandledReconcileAt": "now", "targetsReady": "2/3",
                "summary": {"targets": 3, "ready": 2, "progressing": 0, "failed": 1, "drifted": 1, "unknown": 0,
                    "suspended": 0, "waiting": 0, "terminating": 0, "objects": 40},
                "conditions": [{"type": "Ready", "status": "False", "reason": "Failed", "message": "",
                    "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 3}],
                "clusters": [{"name": "berlin", "state": "Failed", "drift": "Drifted", "reason": "Denied",
                    "message": "no", "revision": "00ff", "since": "2026-01-02T03:04:05Z"}],
                "leftBehind": [{"cluster": "paris", "objects": 2, "names": "ConfigMap shop/a",
                    "at": "2026-01-02T03:04:05Z"}],
            },
        });
        let read: VidraResource = serde_json::from_value(full.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), full);
    }

    #[test]
    fn every_cluster_and_no_cluster_are_told_apart() {
        let every: TargetSelector = serde_json::from_value(json!({"clusterSelector": {}})).unwrap();
        let none: TargetSelector = serde_json::from_value(json!({"clusterNames": []})).unwrap();
        assert_eq!(every.cluster_selector, Some(LabelSelector::default()));
        assert_eq!(none.cluster_names, Some(Vec::new()));
        assert_eq!(serde_json::to_value(&every).unwrap(), json!({"clusterSelector": {}}));
        assert_eq!(serde_json::to_value(&none).unwrap(), json!({"clusterNames": []}));
    }
}

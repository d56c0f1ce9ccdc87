//! VidraTarget: one VidraResource on one member. The hub writes it, users read it; all of them
//! together are the fleet report.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conflicts::{Conflicts, ContainerDeletion};
use crate::drift::{self, Change, DriftSpec};
use crate::feedback::Feedback;
use crate::overrides::OverrideInputs;
use crate::resource::{ReconcileSpec, yes};
use crate::schema;

/// Longest `status.message` in characters; see [`crate::clip`].
pub const MESSAGE_MAX: usize = 1024;

/// Most entries in `status.unready`.
pub const UNREADY_MAX: usize = 10;
/// Most objects that are named of those that count as healthy unproven.
pub const UNPROVEN_MAX: usize = 3;
/// Longest note of one in characters.
pub const NOTE_MAX: usize = 256;
/// Longest namespace, kind and value of a label, in characters.
pub const LABEL_MAX: usize = schema::LABEL_MAX;
/// Longest name of an object, and longest group, in characters.
pub const SUBDOMAIN_MAX: usize = schema::SUBDOMAIN_MAX;

/// What one member is to have of one VidraResource.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "vidra.dev",
    version = "v1alpha1",
    kind = "VidraTarget",
    namespaced,
    status = "VidraTargetStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "vt",
    category = "vidra",
    doc = "How one VidraResource fares on one member cluster. The hub writes it, users read it.",
    validation = Rule::new("self.metadata.name == self.spec.resource + '.' + self.spec.cluster").message("make a VidraResource instead: VidraTargets are written by the hub only, each named <resource>.<cluster> after its spec"),
    selectable = ".spec.cluster",
    selectable = ".spec.resource",
    selectable = ".status.state",
    selectable = ".status.drift",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.cluster", description = "The member cluster."),
    printcolumn(name = "Resource", type_ = "string", json_path = ".spec.resource", description = "The VidraResource."),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state", description = "How delivery goes."),
    printcolumn(name = "Drift", type_ = "string", json_path = ".status.drift", description = "Whether the member still has what was delivered."),
    printcolumn(name = "Objects", type_ = "integer", json_path = ".status.objects", description = "Objects in the member."),
    printcolumn(name = "Since", type_ = "date", json_path = ".status.since", description = "Since when it is in this state."),
    printcolumn(name = "Revision", type_ = "string", json_path = ".status.revision", priority = 1, description = "The revision that the member has."),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1, description = "Why it is in this state.")
)]
#[serde(rename_all = "camelCase")]
pub struct VidraTargetSpec {
    /// The VidraResource, in the same namespace.
    #[schemars(length(max = schema::RESOURCE_NAME_MAX))]
    pub resource: String,
    /// The member cluster.
    #[schemars(length(max = schema::LABEL_MAX))]
    pub cluster: String,
    /// The uid of the MemberCluster that it is delivered to. Of one that was made again nobody knows what selected it
    /// before: where it is not selected any more, the removal guard asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::LABEL_MAX))]
    pub member_uid: Option<String>,
    /// The revision that the member is to have.
    #[schemars(length(max = schema::REVISION_MAX))]
    pub revision: String,
    /// Present: the objects are to be there. Absent: they are to be deleted. Orphaned: they are to stay,
    /// without our labels. Forgotten: they stay as they are, and the member is not asked.
    pub desired: DesiredState,
    /// The namespace in the member of namespaced objects that name none.
    #[schemars(length(max = schema::LABEL_MAX))]
    pub namespace: String,
    /// What the revision's overrides use of the cluster. Unset: none of them is for this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrides: Option<OverrideInputs>,
    /// How drift is dealt with: what the member has otherwise than it was delivered.
    #[serde(default)]
    pub drift: DriftSpec,
    /// Whether an object that the revision no longer has is deleted.
    #[serde(default = "yes")]
    pub prune: bool,
    /// What becomes of declared Namespaces and CustomResourceDefinitions that are to be deleted.
    #[serde(default, rename = "namespaceAndCRDDeletion")]
    pub namespace_and_crd_deletion: ContainerDeletion,
    /// What to do where others made an object, or hold a field of it, already.
    #[serde(default)]
    pub conflicts: Conflicts,
    /// The hash of the removal that a person has approved, taken from the annotation vidra.dev/approve-removal of the
    /// VidraResource: that the revision drops most of the objects or, where they are not wanted Present, that the target
    /// goes. The latter may be an approval of the MemberCluster, for its onRevoke. It stands until the revision or the
    /// namespace changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::LABEL_MAX))]
    pub approved_removal: Option<String>,
    /// How often it was to go and was wanted again. An approval of its removal is for one of these times.
    #[serde(default, skip_serializing_if = "is_never")]
    #[schemars(range(min = 0))]
    pub recalls: i32,
    /// How often most of the objects were dropped by an approval and another revision, or namespace, was declared since,
    /// as of when this revision was declared: on the VidraTarget of the VidraResource where that was most often. An
    /// approval of what the revision drops is for one of these times.
    #[serde(default, skip_serializing_if = "is_never")]
    #[schemars(range(min = 0))]
    pub approved_drops: i32,
    /// The digest of the VidraResource's own health rules, spec.healthCheckExprs. Unset: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::LABEL_MAX))]
    pub health_rules: Option<String>,
    /// The digest of the VidraResource's spec.statusFeedback. Unset: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::LABEL_MAX))]
    pub status_feedback: Option<String>,
    /// When the member is compared with what is declared. Unset fields: the hub's settings.
    #[serde(default)]
    pub reconcile: ReconcileSpec,
    /// Whether the member is left alone.
    #[serde(default)]
    pub suspend: bool,
    /// The metadata.generation of the VidraResource that this spec was made from.
    pub generation: i64,
}

fn is_never(times: &i32) -> bool {
    *times == 0
}

fn is_zero(count: &i64) -> bool {
    *count == 0
}

impl VidraTargetSpec {
    /// How often it was to go and was wanted again, once it is wanted.
    pub fn recalled(&self) -> i32 {
        self.recalls.saturating_add(i32::from(self.desired != DesiredState::Present))
    }
}

impl VidraTarget {
    /// Just what it asks for was applied whole: this revision, in this namespace, with these inputs.
    pub fn is_delivered(&self) -> bool {
        let (spec, status) = (&self.spec, self.status.as_ref());
        status.is_some_and(|status| {
            status.revision.as_ref() == Some(&spec.revision)
                && status.namespace.as_ref().is_none_or(|namespace| {
                    (namespace, &status.overrides, status.recalls)
                        == (&spec.namespace, &spec.overrides, spec.recalls)
                })
        })
    }

    /// What an approval of its removal names: this target, this time.
    pub fn removal_id(&self) -> String {
        let uid = self.metadata.uid.as_deref().unwrap_or_default();
        match self.spec.recalls {
            0 => uid.to_owned(),
            times => format!("{uid} {times}"),
        }
    }
}

impl Default for VidraTargetSpec {
    /// Present, with the defaults of a VidraResource, for nobody: `resource`, `cluster`, `revision`
    /// and `namespace` are empty.
    fn default() -> Self {
        Self {
            resource: String::new(),
            cluster: String::new(),
            member_uid: None,
            revision: String::new(),
            desired: DesiredState::default(),
            namespace: String::new(),
            overrides: None,
            drift: DriftSpec::default(),
            prune: true,
            namespace_and_crd_deletion: ContainerDeletion::default(),
            conflicts: Conflicts::default(),
            approved_removal: None,
            recalls: 0,
            approved_drops: 0,
            health_rules: None,
            status_feedback: None,
            reconcile: ReconcileSpec::default(),
            suspend: false,
            generation: 0,
        }
    }
}

/// What a member is to have. Teardown needs Absent or Orphaned; a deletionTimestamp is no wish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum DesiredState {
    /// The objects are to be there.
    #[default]
    Present,
    /// The objects are to be deleted.
    Absent,
    /// The objects are to stay, without our labels.
    Orphaned,
    /// The objects stay as they are: the member is not asked any more.
    Forgotten,
}

/// How delivery to one member goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum TargetState {
    /// The revision is there, applied and healthy.
    Ready,
    /// It is being applied, or is not healthy yet.
    Progressing,
    /// Something was refused or is broken.
    Failed,
    /// Something else has to happen first.
    Waiting,
    /// A person has stopped it, or its member does not allow the namespace any more.
    Suspended,
    /// The objects are being removed.
    Terminating,
    /// The member cannot be reached, so nobody knows. A word of a newer version is read as this.
    #[serde(other)]
    Unknown,
}

/// Whether a member still has what was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum DriftState {
    /// It has.
    InSync,
    /// Some object differs or is missing.
    Drifted,
    /// Nobody knows. A word of a newer version is read as this.
    #[serde(other)]
    Unknown,
}

/// What came of a VidraTarget. None is left out of the JSON, so a status is written whole (PUT or
/// apply), never as a merge patch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(description = "How it fares there.")]
pub struct VidraTargetStatus {
    /// The metadata.generation of this VidraTarget that the status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How delivery goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TargetState>,
    /// Whether the member still has what was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftState>,
    /// The state in conditions, for kubectl wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The revision that the member has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::REVISION_MAX))]
    pub revision: Option<String>,
    /// The revision with which the target was Ready last. Unset: it is Ready now, its objects have failed since, a part of
    /// another revision may be there, or it never was Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::REVISION_MAX))]
    pub ready_revision: Option<String>,
    /// The spec.namespace with which that revision was applied whole. Unset: a version wrote this that did not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::LABEL_MAX))]
    pub namespace: Option<String>,
    /// The spec.overrides with which that revision was applied whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overrides: Option<OverrideInputs>,
    /// The spec.recalls with which that revision was applied whole: what has gone by the hub's own hand since is news again.
    #[serde(default, skip_serializing_if = "is_never")]
    #[schemars(range(min = 0))]
    pub recalls: i32,
    /// The highest metadata.generation of the VidraResource at which the objects were applied, as of when all
    /// were as declared. An object from a later one shows that the hub was restored from an older backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_generation: Option<i64>,
    /// Objects of this target in the member.
    #[serde(default)]
    pub objects: i64,
    /// Objects that are healthy.
    #[serde(default)]
    pub ready: i64,
    /// Of these, suspended: they do their work when somebody resumes them.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub suspended: i64,
    /// Objects that count as healthy though nothing that they say shows it. Unset: there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unproven: Option<UnprovenObjects>,
    /// Declared objects that are not healthy, first those that have failed, last those that are not there yet; at
    /// most 10 entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = UNREADY_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub unready: Vec<UnreadyObject>,
    /// How many entries unready would have without its bound. Unset: all are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unready_total: Option<i64>,
    /// The digest of all health rules by which the objects were judged when this was written: the VidraResource's, the
    /// fleet's, and those that the hub ships.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::LABEL_MAX))]
    pub health_rules: Option<String>,
    /// What spec.statusFeedback of the VidraResource asks for, as the member had it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<Feedback>,
    /// When feedback was current last, while the hub cannot look or writes it rarely. Unset: it is current.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub feedback_at: Option<Time>,
    /// Objects that are no longer declared and are still there. Unset: there are none. Where the target is to go, all
    /// of its objects are, and state, reason and message tell of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removing: Option<RemovingObjects>,
    /// Objects that differ from what is declared, or are missing.
    #[serde(default)]
    pub drifted: i64,
    /// What differs, first the worst, and what was undone last; at most 100 entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "drift::known_changes")]
    #[schemars(length(max = drift::CHANGES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub changes: Vec<Change>,
    /// How many entries changes would have without its bound. Unset: all are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes_total: Option<i64>,
    /// Repairs made here so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrections: Option<Corrections>,
    /// What was applied and is not healthy yet, and since when it is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Why it is in this state, in one CamelCase word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::REASON_MAX))]
    pub reason: Option<String>,
    /// Why it is in this state, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MESSAGE_MAX))]
    pub message: Option<String>,
    /// When the state last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub since: Option<Time>,
}

/// Objects that count as healthy though nothing shows it: no health rule is about their kind, and they have no condition
/// that the hub knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnprovenObjects {
    /// How many.
    #[schemars(range(min = 0))]
    pub objects: i64,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = UNPROVEN_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub first: Vec<UnprovenObject>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnprovenObject {
    /// The object's API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = schema::SUBDOMAIN_MAX))]
    pub group: String,
    /// Its kind.
    #[schemars(length(max = schema::LABEL_MAX))]
    pub kind: String,
    /// Its namespace; empty where its kind lives in none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = schema::LABEL_MAX))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(max = schema::SUBDOMAIN_MAX))]
    pub name: String,
}

/// One declared object that is not healthy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnreadyObject {
    /// The object's API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = schema::SUBDOMAIN_MAX))]
    pub group: String,
    /// Its kind.
    #[schemars(length(max = schema::LABEL_MAX))]
    pub kind: String,
    /// Its namespace; empty where its kind lives in none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = schema::LABEL_MAX))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(max = schema::SUBDOMAIN_MAX))]
    pub name: String,
    /// How it is.
    pub health: ObjectHealth,
    /// Why, in the hub's words. Unset: the health says it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = NOTE_MAX))]
    pub note: Option<String>,
}

/// Objects that are no longer declared and are still there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemovingObjects {
    /// How many.
    #[schemars(range(min = 0))]
    pub objects: i64,
    /// Why they are still there, in one CamelCase word.
    #[schemars(length(max = schema::REASON_MAX))]
    pub reason: String,
    /// Why, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MESSAGE_MAX))]
    pub message: Option<String>,
}

/// How an object is that is not healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ObjectHealth {
    /// It will not get healthy by itself.
    Failed,
    /// It is on the way, as far as one can see.
    InProgress,
    /// It is being deleted.
    Terminating,
    /// It does not exist: it is yet to be created, or, where the note says so, it was deleted and stays deleted.
    // As hubs of schema 2 and before write it; the schema takes both, see `RENAMED` in crds.rs.
    #[serde(alias = "NotThere")]
    NotFound,
    /// It says something that is not understood. A word of a newer version is read as this.
    #[serde(other)]
    Unknown,
}

/// A part of a revision that was applied and is waited for. reconcile.timeout runs from `since`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The revision.
    #[schemars(length(max = schema::REVISION_MAX))]
    pub revision: String,
    /// The wave up to which it was applied.
    #[serde(default)]
    #[schemars(range(min = -1000, max = 1000))]
    pub wave: i32,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub since: Option<Time>,
}

/// Repairs made in a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Corrections {
    /// How many.
    #[serde(default)]
    pub count: i64,
    /// When the last one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last: Option<Time>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_full_object_survives_the_way_through_json() {
        let feedback = json!({"objects": [{"group": "apps", "kind": "Deployment", "namespace": "shop", "name": "web",
                    "values": [{"name": "version", "text": "1.2"}, {"name": "ready", "integer": 3},
                        {"name": "load", "number": "0.5"}, {"name": "paused", "boolean": false},
                        {"name": "ports", "json": "[80]"}]}], "leftOut": 1, "message": "too large"});
        let mut full = json!({
            "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraTarget",
            "metadata": {"name": "shop.berlin", "namespace": "team-a"},
            "spec": {
                "resource": "shop", "cluster": "berlin", "revision": "00ff", "desired": "Orphaned",
                "namespace": "shop", "overrides": {"apply": [1], "labels": {"region": "eu"}},
                "drift": {"policy": "Report",
                    "ignore": [{"target": {"namespace": "a", "name": "b"}, "paths": [".spec"]}],
                    "yield": "Standard"}, "prune": false,
                "namespaceAndCRDDeletion": "WhenEmpty",
                "conflicts": {"existing": "Adopt", "fields": "Fail",
                    "takeFrom": [{"manager": "helm-controller", "operation": "Apply"}]},
                "approvedRemoval": "0123456789", "healthRules": "0123456789ab",
                "reconcile": {"interval": "10m"}, "suspend": true, "generation": 7,
            },
            "status": {
                "observedGeneration": 2, "state": "Waiting", "drift": "InSync", "revision": "00ff",
                "namespace": "shop", "overrides": {"apply": [1], "labels": {"region": "eu"}}, "recalls": 1, "appliedGeneration": 7,
                "objects": 12, "ready": 11, "drifted": 1,
                "unready": [{"group": "apps", "kind": "Deployment", "namespace": "shop", "name": "web",
                    "health": "InProgress", "note": "waits"}],
                "unreadyTotal": 11, "healthRules": "ba9876543210",
                "removing": {"objects": 2, "reason": "Finalizers", "message": "waits"},
                "changes": [{
                    "group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop", "name": "web",
                    "change": "Modified", "detectedAt": "2026-01-02T03:04:05Z", "corrected": "2026-01-02T03:04:06Z",
                    "fields": [{"path": ".spec.replicas", "expected": "3", "actual": "5", "manager": "kubectl-edit",
                        "operation": "Update", "notAfter": "2026-01-02T03:04:05Z"}],
                }],
                "changesTotal": 120,
                "corrections": {"count": 4, "last": "2026-01-02T03:04:05Z"},
                "progress": {"revision": "00ff", "wave": 1, "since": "2026-01-02T03:04:05Z"},
                "reason": "Gate", "message": "waits", "since": "2026-01-02T03:04:05Z",
            },
        });
        full["spec"]["statusFeedback"] = "ab0123456789".into();
        full["status"]["feedback"] = feedback;
        full["status"]["suspended"] = 1.into();
        full["status"]["readyRevision"] = "00fe".into();
        let one = json!({"group": "example.com", "kind": "Widget", "namespace": "shop", "name": "a"});
        full["status"]["unproven"] = json!({"objects": 4, "first": [one]});
        full["status"]["feedbackAt"] = "2026-01-02T03:04:05Z".into();
        let read: VidraTarget = serde_json::from_value(full.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), full);
    }

    #[test]
    fn a_spec_without_desired_is_refused_rather_than_guessed() {
        let mut spec = serde_json::to_value(VidraTargetSpec::default()).unwrap();
        spec.as_object_mut().unwrap().remove("desired");
        let error = serde_json::from_value::<VidraTargetSpec>(spec).unwrap_err();
        assert!(error.to_string().contains("desired"), "{error}");
    }

    #[test]
    fn words_of_a_newer_version_in_a_status_are_read_as_unknown_and_its_changes_are_left_out() {
        let change = |kind: &str| json!({"version": "v1", "kind": "ConfigMap", "name": "a", "change": kind, "detectedAt": "2026-01-02T03:04:05Z"});
        let mut later = change("Modified");
        later["detectedAt"] = json!({"form": 2});
        let status = json!({
            "state": "Canary", "drift": "Healing", "objects": 3,
            "unready": [{"kind": "ConfigMap", "name": "a", "health": "Feverish"}],
            "changes": [change("Renamed"), change("Extra"), later],
        });
        let read: VidraTargetStatus = serde_json::from_value(status).unwrap();
        assert_eq!((read.state, read.drift), (Some(TargetState::Unknown), Some(DriftState::Unknown)));
        assert_eq!((read.unready[0].health, read.objects), (ObjectHealth::Unknown, 3));
        let kinds: Vec<_> = read.changes.iter().map(|change| change.change).collect();
        assert_eq!(kinds, [crate::ChangeKind::Extra], "what is not known cannot be written again");
        // As the schema names it.
        assert_eq!(serde_json::to_value(TargetState::Unknown).unwrap(), json!("Unknown"));
    }

    #[test]
    fn a_word_of_an_older_version_in_a_status_is_read_as_what_it_is_called_now() {
        let old = json!({"unready": [{"kind": "ConfigMap", "name": "a", "health": "NotThere"}]});
        let read: VidraTargetStatus = serde_json::from_value(old).unwrap();
        assert_eq!(read.unready[0].health, ObjectHealth::NotFound);
        assert_eq!(serde_json::to_value(&read).unwrap()["unready"][0]["health"], "NotFound");
    }

    #[test]
    fn a_word_of_a_newer_version_in_a_spec_is_refused() {
        let mut spec = serde_json::to_value(VidraTargetSpec::default()).unwrap();
        spec["drift"]["policy"] = json!("Later");
        serde_json::from_value::<VidraTargetSpec>(spec).unwrap_err();
    }

    #[test]
    fn an_empty_status_reads_as_the_default() {
        assert_eq!(
            serde_json::from_value::<VidraTargetStatus>(json!({})).unwrap(),
            VidraTargetStatus::default()
        );
    }
}

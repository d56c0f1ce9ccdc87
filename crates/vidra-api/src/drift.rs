//! Drift: what a member has otherwise than it was delivered, and what the hub does about it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};

use crate::schema;

/// Most entries of `spec.drift.ignore`.
pub const IGNORES_MAX: usize = 32;
/// Most paths of one: 32 entries of 16 paths use three fifths of what the rule for a path may cost.
pub const IGNORED_PATHS_MAX: usize = 16;
/// Most entries in `status.changes` of a VidraTarget.
pub const CHANGES_MAX: usize = 100;
/// Most fields in one entry.
pub const FIELDS_MAX: usize = 20;
/// Longest path or value of a field in bytes; a longer value is a digest.
pub const FIELD_VALUE_MAX: usize = 256;

/// How drift is dealt with: what a member has otherwise than it was delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DriftSpec {
    /// What the hub does about drift. Correct undoes and reports it. Report leaves it as it is and reports it;
    /// what a new revision changes is applied all the same. Ignore neither looks for it nor undoes it.
    pub policy: DriftPolicy,
    /// Fields that are delivered when their object is made and then left to whoever changes them. What differs
    /// there is no drift, and no later apply puts it back. A path that matches nothing is told by the condition
    /// IgnoreUnmatched of the VidraResource.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = IGNORES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub ignore: Vec<IgnoreRule>,
    /// Which fields are left to their controllers while these hold them. Standard leaves replicas that were set
    /// through the scale subresource, as autoscalers do, and caBundle of webhooks, conversions and APIServices
    /// that somebody else has set. None leaves nothing. The rules of aggregated ClusterRoles are never delivered.
    #[serde(rename = "yield")]
    pub yield_to: YieldPolicy,
}

/// Fields of some objects that are left alone once they are there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IgnoreRule {
    /// Which objects: those for which every field given here holds.
    pub target: IgnoreTarget,
    /// The fields, each with all that is below it, at most 16.
    #[schemars(schema_with = "schema::ignored_paths")]
    pub paths: Vec<String>,
}

/// Objects, by what they are called. A field that is not given holds for every object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rule(
    "has(self.group) || has(self.kind) || has(self.namespace) || has(self.name)",
    "give at least one of group, kind, namespace and name",
)))]
pub struct IgnoreTarget {
    /// The API group; an empty text is the core group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::SUBDOMAIN_MAX))]
    pub group: Option<String>,
    /// The kind, such as Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::LABEL_MAX))]
    pub kind: Option<String>,
    /// The namespace in the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::LABEL_MAX))]
    pub namespace: Option<String>,
    /// The name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::SUBDOMAIN_MAX))]
    pub name: Option<String>,
}

/// What is left to controllers that are known to own it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum YieldPolicy {
    /// Replicas set through the scale subresource, and caBundle set by somebody else.
    #[default]
    Standard,
    /// Nothing.
    None,
}

/// What the hub does about drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum DriftPolicy {
    /// It is undone, and reported.
    #[default]
    Correct,
    /// It is reported and left as it is. What a new revision changes is applied all the same.
    Report,
    /// It is neither looked for nor undone.
    Ignore,
}

/// One object that is not as it was delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The object's API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = schema::SUBDOMAIN_MAX))]
    pub group: String,
    /// Its version.
    #[schemars(length(max = schema::LABEL_MAX))]
    pub version: String,
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
    /// What is otherwise.
    pub change: ChangeKind,
    /// When the hub first saw it.
    #[schemars(schema_with = "schema::time")]
    pub detected_at: Time,
    /// When the hub undid it. Unset: it is still so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub corrected: Option<Time>,
    /// The fields, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = FIELDS_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub fields: Vec<ChangedField>,
}

/// Those changes of a status that this version knows; of a newer one's it could write none again.
pub(crate) fn known_changes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Change>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Entry {
        Known(Box<Change>),
        Newer(IgnoredAny),
    }
    let known = |entry| match entry {
        Entry::Known(change) => Some(*change),
        Entry::Newer(IgnoredAny) => None,
    };
    Ok(Vec::<Entry>::deserialize(from)?.into_iter().filter_map(known).collect())
}

/// What is otherwise about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ChangeKind {
    /// Values that were delivered are others now.
    Modified,
    /// It is gone.
    Missing,
    /// Its values are as delivered, and the hub's marks or its entry in managedFields are not there.
    OwnershipLost,
    /// It bears the hub's labels, and the hub never made it.
    Extra,
}

/// One field that is otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedField {
    /// Its path, as the API server writes paths in conflicts.
    #[schemars(length(max = FIELD_VALUE_MAX))]
    pub path: String,
    /// What was delivered, as JSON; a digest where it is secret or long. Unset: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = FIELD_VALUE_MAX))]
    pub expected: Option<String>,
    /// What is there, as JSON; a digest where it is secret or long. Unset: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = FIELD_VALUE_MAX))]
    pub actual: Option<String>,
    /// The field manager that holds it; clients choose this name themselves. "unknown": the server names nobody.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = FIELD_VALUE_MAX))]
    pub manager: String,
    /// How: Apply or Update, and through which subresource, such as Update/scale.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = schema::LABEL_MAX))]
    pub operation: String,
    /// When that manager last wrote: the change is no younger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub not_after: Option<Time>,
}

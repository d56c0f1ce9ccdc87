//! Overrides: what of a VidraResource's objects differs from cluster to cluster, and what of a cluster a
//! VidraTarget keeps for them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use crate::raw::Raw;
use crate::schema;
use crate::selector::LabelSelector;

/// Most entries of `spec.overrides`, of a `jsonPatch` and of a `set`.
pub const OVERRIDES_MAX: usize = 50;
/// Longest expression, in characters. It has no loops, so its length bounds what it may cost.
pub const EXPRESSION_MAX: usize = 1024;
/// Most labels, and most values, of a cluster that the expressions of one VidraResource use.
pub const INPUTS_MAX: usize = 64;

/// A change to some of the objects on some of the clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = json!([
    {
        "rule": "!has(self.clusterNames) || !has(self.clusterSelector)",
        "message": "set at most one of clusterNames and clusterSelector; with neither, the entry is for every cluster",
    },
    {
        "rule": "[has(self.jsonPatch), has(self.mergePatch), has(self.set)].exists_one(given, given)",
        "message": "set exactly one of jsonPatch, mergePatch and set; write several entries for several changes",
    },
])))]
pub struct Override {
    /// The clusters by name, at most 100. Set this, or clusterSelector, or neither: then it is for every
    /// cluster that gets the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::override_cluster_names")]
    pub cluster_names: Option<Vec<String>>,
    /// The clusters by the labels of their MemberCluster. Set this, or clusterNames, or neither: then it is
    /// for every cluster that gets the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<LabelSelector>,
    /// Which objects are changed: those for which every field given here holds.
    pub target: OverrideTarget,
    /// Changes them by a JSON Patch, RFC 6902. Nothing is changed when one operation does not apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = OVERRIDES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub json_patch: Option<Vec<JsonPatchOperation>>,
    /// Changes them by a JSON Merge Patch, RFC 7386: null removes a field, a list is replaced whole. Use
    /// kubectl apply --server-side where it holds null, or kubectl loses the null at the next change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_object")]
    pub merge_patch: Option<Raw>,
    /// Sets fields to what expressions give for the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = OVERRIDES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub set: Option<Vec<SetField>>,
}

/// Objects, by what they are called. A field that is not given holds for every object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideTarget {
    /// The API group; an empty text is the core group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::SUBDOMAIN_MAX))]
    pub group: Option<String>,
    /// The version within the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::LABEL_MAX))]
    pub version: Option<String>,
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

/// One operation of a JSON Patch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rule(
    "has(self.from) == (self.op in ['move', 'copy'])",
    "give from to move and to copy, and to no other op",
)))]
pub struct JsonPatchOperation {
    /// What is done: add, remove, replace, move, copy or test.
    pub op: PatchOp,
    /// Where, as a JSON Pointer: /spec/replicas; `/` in a name is written ~1, `~` is written ~0.
    #[schemars(schema_with = "schema::pointer")]
    pub path: String,
    /// Whence, as a JSON Pointer; for move and copy only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::pointer")]
    pub from: Option<String>,
    /// What is added, put in place or expected; for add, replace and test.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::anything")]
    pub value: Option<Raw>,
}

/// A null that is written is a value, not the lack of one.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Raw>, D::Error> {
    Raw::deserialize(from).map(Some)
}

/// What an operation of a JSON Patch does. Source: RFC 6902, section 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PatchOp {
    /// Adds a field, or an item to a list.
    #[default]
    Add,
    /// Removes what is there.
    Remove,
    /// Replaces what is there.
    Replace,
    /// Moves what is at `from`.
    Move,
    /// Copies what is at `from`.
    Copy,
    /// Refuses the object when something else is there.
    Test,
}

/// A field and the expression that gives its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetField {
    /// The field, written as the API server writes it in conflicts:
    /// .spec.template.spec.containers[name="app"].image. Items of lists must be in the manifest, fields
    /// that are missing are made. A name that holds a dot is written in brackets: .data["app.conf"].
    #[schemars(schema_with = "schema::field_path")]
    pub path: String,
    /// An expression in CEL over cluster.name, cluster.labels and cluster.values (of the MemberCluster),
    /// such as cluster.labels['region'] or 'region' in cluster.labels ? cluster.labels['region'] : 'eu'.
    #[schemars(length(min = 1, max = EXPRESSION_MAX))]
    pub expression: String,
}

/// What the overrides that are for a cluster use of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideInputs {
    /// Which of the revision's overrides are for this cluster; 0 is the first.
    #[schemars(length(max = OVERRIDES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub apply: Vec<i32>,
    /// Those labels of the MemberCluster that their expressions name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::inputs")]
    pub labels: BTreeMap<String, String>,
    /// Those values of the MemberCluster that their expressions name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::inputs")]
    pub values: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_survives_the_way_through_json() {
        for full in [
            json!({"clusterNames": ["berlin"], "target": {"group": "", "kind": "ConfigMap"},
                "jsonPatch": [{"op": "add", "path": "/data/a~1b", "value": null},
                    {"op": "copy", "from": "/data", "path": "/other"}]}),
            json!({"clusterSelector": {}, "target": {}, "mergePatch": {"data": {"key": null}}}),
            json!({"target": {"name": "shop"}, "set": [{"path": ".data.key", "expression": "cluster.name"}]}),
        ] {
            let read: Override = serde_json::from_value(full.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), full);
        }
    }

    #[test]
    fn a_null_that_is_written_is_told_from_a_value_that_is_not() {
        let read = |text: &str| serde_json::from_str::<JsonPatchOperation>(text).unwrap().value;
        assert_eq!(
            read(r#"{"op": "add", "path": "/a", "value": null}"#),
            Some(Raw::from(serde_json::Value::Null))
        );
        assert_eq!(read(r#"{"op": "remove", "path": "/a"}"#), None);
    }
}

//! VidraInventory: which objects a target has in its member. State apart from status, so that a
//! restore that drops statuses loses nothing that matters.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Most entries in one chunk.
pub const ENTRIES_MAX: usize = 500;

// Serde hands fields over by reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(value: &bool) -> bool {
    !*value
}

// Serde hands fields over by reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(value: &i32) -> bool {
    *value == 0
}

/// A chunk of the objects that one target has in its member, in apply order.
#[allow(clippy::duplicated_attributes, reason = "every column is a string")]
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "vidra.dev",
    version = "v1alpha1",
    kind = "VidraInventory",
    plural = "vidrainventories",
    namespaced,
    derive = "PartialEq",
    derive = "Default",
    shortname = "vi",
    doc = "The objects that a VidraTarget has in its member cluster. The hub keeps it for itself: without it the hub no longer knows what to remove.",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.cluster",
        description = "The member cluster."
    ),
    printcolumn(
        name = "Resource",
        type_ = "string",
        json_path = ".spec.resource",
        description = "The VidraResource."
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct VidraInventorySpec {
    /// The VidraResource, in the same namespace.
    #[schemars(length(max = schema::RESOURCE_NAME_MAX))]
    pub resource: String,
    /// The member cluster.
    #[schemars(length(max = schema::LABEL_MAX))]
    pub cluster: String,
    /// Which chunk this is; the chunks of a target joined by number are its objects in apply order.
    #[schemars(range(min = 0, max = 99_999_999))]
    pub chunk: i32,
    /// The objects, in apply order; at most 500.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = ENTRIES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub entries: Vec<InventoryEntry>,
}

/// One object in the member. What is empty or false is left out of the JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InventoryEntry {
    /// The API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = schema::SUBDOMAIN_MAX))]
    pub group: String,
    /// The version that it was applied in.
    #[schemars(length(max = schema::LABEL_MAX))]
    pub version: String,
    /// The kind.
    #[schemars(length(max = schema::LABEL_MAX))]
    pub kind: String,
    /// The namespace in the member; empty for what is cluster-scoped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = schema::LABEL_MAX))]
    pub namespace: String,
    /// The name. RBAC names may be longer than the 253 characters of others.
    #[schemars(length(max = 1024))]
    pub name: String,
    /// The uid in the member; empty until it is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub uid: String,
    /// Whether the object was there before us.
    #[serde(default, skip_serializing_if = "is_false")]
    pub adopted: bool,
    /// Whether the object is known to be there; else it is only intended.
    #[serde(default, skip_serializing_if = "is_false")]
    pub done: bool,
    /// The wave in which it was applied; they are removed in reverse.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = -1000, max = 1000))]
    pub wave: i32,
    /// The hash of what was declared when nothing more was to be done for it: of an object with
    /// vidra.dev/apply Once that was applied, or with IfAbsent that somebody else had made.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub settled: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_empty_or_false_is_left_out_and_read_back() {
        let entry = InventoryEntry {
            version: "v1".into(),
            kind: "Node".into(),
            name: "n".into(),
            ..Default::default()
        };
        let value = serde_json::to_value(&entry).unwrap();
        assert_eq!(value, json!({"version": "v1", "kind": "Node", "name": "n"}));
        assert_eq!(serde_json::from_value::<InventoryEntry>(value).unwrap(), entry);
    }

    #[test]
    fn a_full_object_survives_the_way_through_json() {
        let full = json!({
            "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraInventory",
            "metadata": {"name": "shop.berlin.0", "namespace": "team-a"},
            "spec": {"resource": "shop", "cluster": "berlin", "chunk": 0, "entries": [
                {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop", "name": "web",
                 "uid": "0a1b", "adopted": true, "done": true, "wave": -1, "settled": "00ff"},
            ]},
        });
        let read: VidraInventory = serde_json::from_value(full.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), full);
    }
}

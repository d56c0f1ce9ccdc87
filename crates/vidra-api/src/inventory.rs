//! VidraInventory: which objects a target has in its member. State apart from status, so that a
//! restore that drops statuses loses nothing that matters.

mod text;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use crate::schema;

/// Most entries in one chunk.
pub const ENTRIES_MAX: usize = 500;
/// The form of inventories that this version writes, and the newest that it reads.
pub const FORMAT: i32 = 1;
/// Chunks of one target at most: a million objects.
const CHUNKS_MAX: usize = 2000;

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
    /// The uid of that cluster's Namespace kube-system, as it was when this was written: which cluster the objects are in,
    /// whatever it is called. Unset: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::CLUSTER_UID_MAX))]
    pub cluster_uid: Option<String>,
    /// The form of this chunk. Unset: 1. A vidra-hub that knows no form as high neither deletes by it nor writes it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known_format")]
    #[schemars(range(min = 1))]
    pub format: Option<i32>,
    /// Which chunk this is; the chunks of a target joined by number are its objects in apply order.
    #[schemars(range(min = 0, max = 99_999_999))]
    pub chunk: i32,
    /// The numbers of all chunks of the target, in the first of them, where they are several or the first is not 0; in the
    /// others the number of the first. One that is named here and is not there is lost; one that is there and is not named
    /// is believed, and so are chunks of which none names another, as an earlier version wrote them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = CHUNKS_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub chunks: Vec<i32>,
    /// The objects, in apply order; at most 500. Each is
    /// `group/version/kind/namespace/name/state/uid`, where the state is `intended` or `done`, then what else is
    /// known of it: `adopted`, `wave=N`, `settled=HASH`, with commas between.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = ENTRIES_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub entries: Vec<InventoryEntry>,
}

/// What was added in a later form would be lost with the next write: it is not read at all.
fn known_format<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i32>, D::Error> {
    match Option::<i32>::deserialize(from)? {
        Some(format) if format > FORMAT => Err(D::Error::custom(format!(
            "the format {format} is newer than {FORMAT}, the newest that is known"
        ))),
        format => Ok(format),
    }
}

/// One object in the member. In JSON it is one string: an API server takes a fifth of the CPU for 200 strings that it
/// takes for 200 objects of six fields (docs/decisions/0018-inventory-entries-are-strings.md).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct InventoryEntry {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version that it was applied in.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The namespace in the member; empty for what is cluster-scoped.
    pub namespace: String,
    /// The name. RBAC names may be longer than the 253 characters of others.
    pub name: String,
    /// The uid in the member; empty until it is known.
    pub uid: String,
    /// Whether the object was there before us.
    pub adopted: bool,
    /// Whether the object is known to be there, and to stay; else it is only intended or, where the uid is known, on its way out:
    /// it was to be deleted.
    pub done: bool,
    /// The wave in which it was applied; they are removed in reverse. From -1000 to 1000.
    pub wave: i32,
    /// The hash of what was declared when nothing more was to be done for it: of an object with
    /// vidra.dev/apply Once that was applied, or with IfAbsent that somebody else had made.
    pub settled: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_full_object_survives_the_way_through_json() {
        let full = json!({
            "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraInventory",
            "metadata": {"name": "shop.berlin.0", "namespace": "team-a"},
            "spec": {"resource": "shop", "cluster": "berlin", "clusterUid": "u", "format": 1, "chunk": 0, "entries": [
                "apps/v1/Deployment/shop/web/done,adopted,wave=-1,settled=00ff/0a1b",
                "/v1/Node//n/intended/",
            ]},
        });
        let read: VidraInventory = serde_json::from_value(full.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), full);
    }

    #[test]
    fn an_inventory_without_a_format_is_of_the_first_and_one_of_a_newer_is_not_read() {
        let spec = json!({"resource": "shop", "cluster": "berlin", "chunk": 0});
        let read = |spec: &serde_json::Value| serde_json::from_value::<VidraInventorySpec>(spec.clone());
        assert_eq!(read(&spec).unwrap().format, None);
        assert_eq!(serde_json::to_value(read(&spec).unwrap()).unwrap(), spec, "nothing is added to it");
        for (format, is_read) in [(1, true), (FORMAT, true), (FORMAT + 1, false), (i32::MAX, false)] {
            let mut spec = spec.clone();
            spec["format"] = json!(format);
            assert_eq!(read(&spec).is_ok(), is_read, "{format}");
        }
    }
}

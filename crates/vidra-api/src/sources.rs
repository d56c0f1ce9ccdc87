//! Where a VidraResource's objects come from besides `spec.manifest`: written out in it, and in ConfigMaps and
//! Secrets beside it.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::schema;

/// Most objects in `spec.manifests`.
pub const MANIFESTS_MAX: usize = 1000;
/// Most entries in `spec.manifestsFrom`.
pub const SOURCES_MAX: usize = 32;
/// Most keys that one entry names.
pub const KEYS_MAX: usize = 128;

/// Some keys of a ConfigMap or of a Secret, each of which holds a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rule(
    "has(self.configMapRef) != has(self.secretRef)",
    "set exactly one of configMapRef and secretRef; for both, write two entries",
)))]
pub struct ManifestSource {
    /// Keys of a ConfigMap. A key of binaryData may be packed with gzip or zstd. Set this or secretRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapKeys>,
    /// Keys of a Secret, which may be packed with gzip or zstd. Set this or configMapRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretKeys>,
}

/// A ConfigMap in the namespace of the VidraResource, and which of its keys hold manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapKeys {
    /// The ConfigMap's name.
    #[schemars(schema_with = "schema::config_map_name")]
    pub name: String,
    /// The keys to read, in this order. Default: all keys, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::source_keys")]
    pub keys: Option<Vec<String>>,
}

/// A Secret in the namespace of the VidraResource, and which of its keys hold manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeys {
    /// The Secret's name.
    #[schemars(schema_with = "schema::secret_name")]
    pub name: String,
    /// The keys to read, in this order. Default: all keys, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::source_keys")]
    pub keys: Option<Vec<String>>,
}

/// Objects as they are written, of whatever kind.
pub(crate) fn manifests(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": MANIFESTS_MAX,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "description": "A Kubernetes object, or a List of them.",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {
                "apiVersion": { "type": "string", "maxLength": 316, "description": "Group and version, as in apps/v1." },
                "kind": { "type": "string", "maxLength": 63, "description": "The kind, as in Deployment." },
            },
            "x-kubernetes-validations": schema::rule(
                "has(self.apiVersion) && size(self.apiVersion) > 0 && has(self.kind) && size(self.kind) > 0",
                "write a whole Kubernetes object: apiVersion, kind, metadata.name and the rest of it",
            ),
        },
    })
}

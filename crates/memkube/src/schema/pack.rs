//! The packed file: built-in kinds' types, the discovery documents, and the OpenAPI documents as served.
//!
//! Two zstd frames with their lengths before them: the first is read when a cluster is made, the second only
//! when somebody asks for `/openapi/v3`. `cargo run -p memkube --bin schemas` writes it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Reader, TypeId, Types};

/// Made by the binary `schemas`.
static PACKED: &[u8] = include_bytes!("../../schemas/builtin.bin");

/// What OpenAPI does not say.
static DEFAULTS: &str = include_str!("../../schemas/defaults.json");

/// Where the components of metadata are.
pub const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const METADATA: [&str; 5] = ["ObjectMeta", "ManagedFieldsEntry", "OwnerReference", "Time", "FieldsV1"];

/// What is known of the built-in kinds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Bundle {
    /// All types.
    pub types: Types,
    /// The type of each kind by `GROUP/VERSION/KIND`, `/v1/ConfigMap` in the core group.
    pub kinds: BTreeMap<String, TypeId>,
    /// The OpenAPI components that metadata is made of.
    pub metadata: BTreeMap<String, Value>,
    /// `/api` and `/apis`, aggregated, as served.
    pub discovery: [Value; 2],
}

/// What can be wrong with what is packed or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// Compression failed.
    #[error("compress the schemas: {0}; try again")]
    Compress(#[from] std::io::Error),
    /// A document is not JSON of the expected shape.
    #[error("read {document}: {cause}; fetch it again from the server")]
    Document {
        /// Its name.
        document: String,
        /// What the reader said.
        cause: serde_json::Error,
    },
    /// The file is cut.
    #[error("unpack the schemas: the file is too short; make it again")]
    Short,
}

impl Bundle {
    /// Reads the types of all kinds in OpenAPI v3 documents, by their paths.
    pub fn read(documents: &BTreeMap<String, Value>, discovery: [Value; 2]) -> Self {
        let mut components = BTreeMap::new();
        for document in documents.values() {
            let schemas = document["components"]["schemas"].as_object().into_iter().flatten();
            components.extend(schemas.map(|(name, schema)| (name.clone(), schema.clone())));
        }
        let defaults = serde_json::from_str(DEFAULTS).unwrap_or_default();
        let mut reader = Reader::new(&components, Types::new()).defaults(defaults);
        let mut kinds = BTreeMap::new();
        for (name, schema) in &components {
            let gvks = schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten();
            // Options and lists of common machinery bear the kinds of all groups; none is stored.
            let gvks: Vec<_> = gvks.collect();
            let [gvk] = gvks.as_slice() else { continue };
            let text = |field: &str| gvk[field].as_str().unwrap_or_default();
            let key = format!("{}/{}/{}", text("group"), text("version"), text("kind"));
            kinds.insert(key, reader.named(name, None));
        }
        let metadata = METADATA.into_iter().filter_map(|name| {
            let name = format!("{META}.{name}");
            let mut schema = components.get(&name)?.clone();
            drop_descriptions(&mut schema);
            Some((name, schema))
        });
        let metadata = metadata.collect();
        Bundle { types: reader.finish(), kinds, metadata, discovery }
    }

    /// The type of a kind.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<TypeId> {
        self.kinds.get(&format!("{group}/{version}/{kind}")).copied()
    }
}

fn drop_descriptions(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| key != "description" || !value.is_string());
            map.iter_mut().for_each(|(_, value)| drop_descriptions(value));
        }
        Value::Array(list) => list.iter_mut().for_each(drop_descriptions),
        _ => {}
    }
}

/// The file's content, from OpenAPI v3 documents by path (`api/v1`, `apis/apps/v1`) and both aggregated
/// discovery documents.
pub fn pack(documents: &BTreeMap<String, Value>, discovery: [Value; 2]) -> Result<Vec<u8>, PackError> {
    let bundle = Bundle::read(documents, discovery);
    let encode = |document: &str, value: Result<Vec<u8>, serde_json::Error>| {
        let document = document.to_owned();
        value.map_err(|cause| PackError::Document { document, cause })
    };
    let first = zstd::encode_all(encode("the types", serde_json::to_vec(&bundle))?.as_slice(), 19)?;
    let served = encode("the documents", serde_json::to_vec(documents))?;
    let mut second = zstd::Encoder::new(Vec::new(), 19)?;
    // The documents repeat each other over megabytes.
    second.long_distance_matching(true)?;
    second.window_log(23)?;
    std::io::Write::write_all(&mut second, &served)?;
    let second = second.finish()?;
    let length = u32::try_from(first.len()).map_err(|_| PackError::Short)?;
    Ok([length.to_le_bytes().as_slice(), &first, &second].concat())
}

fn unpack(packed: &[u8], second: bool) -> Result<Vec<u8>, PackError> {
    let (length, rest) = packed.split_first_chunk::<4>().ok_or(PackError::Short)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (one, two) = rest.split_at_checked(length).ok_or(PackError::Short)?;
    Ok(zstd::decode_all(if second { two } else { one })?)
}

/// The built-in kinds; read once in a process. An unreadable file gives none, which a test would see.
pub fn builtin() -> &'static Bundle {
    static BUNDLE: LazyLock<Bundle> = LazyLock::new(|| {
        let text = unpack(PACKED, false).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    });
    &BUNDLE
}

/// The OpenAPI v3 documents by path, as the real server has them. Read again at each call: 6 MB of text.
pub fn documents() -> BTreeMap<String, Box<serde_json::value::RawValue>> {
    let text = unpack(PACKED, true).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

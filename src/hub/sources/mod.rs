//! Sources: the ConfigMaps and Secrets that `spec.manifestsFrom` names. Read here, when a VidraResource is
//! reconciled and one of them may have changed; `index` knows whether, told by `watch`. Their contents are not
//! kept: what they said is in the revision.

pub mod index;
pub mod watch;

use std::{collections::BTreeMap, fmt};

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
};
use kube::{Api, ResourceExt};
use serde::{Deserialize, Serialize};
use vidra_api::{ManifestSource, VidraResource};
use vidra_core::{
    first_of::first_of,
    manifest::{
        MAX_TEXT,
        unpack::{UnpackError, unpack},
    },
    status::Reason,
};

use super::api::HubApi;
use crate::base::error::{CallError, Class};
use index::Version;

/// How many names of keys a message lists.
const KEYS_SHOWN: usize = 10;

/// What kind of object holds manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

impl SourceKind {
    fn says_gone(self, error: &CallError, name: &str) -> bool {
        match self {
            Self::ConfigMap => error.is_gone_of::<ConfigMap>(name),
            Self::Secret => error.is_gone_of::<Secret>(name),
        }
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        })
    }
}

/// A text that was read from a source.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Where it stood, in words: `ConfigMap shop-crds, key crds.yaml.gz`.
    pub name: String,
    /// What stood there, unpacked.
    pub text: String,
}

/// Without the text, which may be of a Secret.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({}, {} bytes)", self.name, self.text.len())
    }
}

/// An entry of `spec.manifestsFrom`, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    number: usize,
    kind: SourceKind,
    name: String,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spec.manifestsFrom[{}]: the {} {:?}", self.number, self.kind, self.name)
    }
}

/// Why a source gives no manifest. Nothing of its contents is in the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// There is no such object.
    #[error(
        "{entry} is not in the namespace {namespace:?}: make it, or take the entry out; until then nothing that was delivered is changed"
    )]
    NotFound {
        /// Which.
        entry: Entry,
        /// The namespace of the VidraResource.
        namespace: String,
    },
    /// It lacks a key.
    #[error(
        "{entry} has no key {key:?} (it has {has}): add the key, or correct keys; until then nothing that was delivered is changed"
    )]
    KeyNotFound {
        /// Which.
        entry: Entry,
        /// The key.
        key: String,
        /// Some of the keys that it has.
        has: String,
    },
    /// It has no key at all.
    #[error(
        "{entry} holds no key: add one, or take the entry out; until then nothing that was delivered is changed"
    )]
    NoKeys {
        /// Which.
        entry: Entry,
    },
    /// A key's value is no text that can be read.
    #[error("{entry}, key {key:?}: {why}")]
    Unreadable {
        /// Which.
        entry: Entry,
        /// The key.
        key: String,
        /// Why.
        why: UnpackError,
    },
    /// The hub may not read it.
    #[error("{entry} cannot be read ({why}): grant the hub get, list and watch on it")]
    Forbidden {
        /// Which.
        entry: Entry,
        /// What the API server says.
        why: String,
    },
    /// The entry names nothing.
    #[error("spec.manifestsFrom[{number}]: set exactly one of configMapRef and secretRef")]
    NoReference {
        /// Its index.
        number: usize,
    },
}

impl SourceError {
    /// As the condition of the VidraResource names it.
    pub fn reason(&self) -> Reason {
        match self {
            Self::NotFound { .. } | Self::KeyNotFound { .. } | Self::NoKeys { .. } => Reason::SourceNotFound,
            Self::Unreadable { .. } | Self::NoReference { .. } => Reason::SourceInvalid,
            Self::Forbidden { .. } => Reason::SourceForbidden,
        }
    }
}

/// What the sources of a VidraResource said, and in which version each was.
#[derive(Debug, Default)]
pub struct Read {
    /// The texts, in their order.
    pub texts: Vec<Source>,
    /// The versions of the objects, in their order.
    pub versions: Vec<Version>,
}

/// The kind, the name and the keys that an entry asks for; no keys: all.
fn reference(source: &ManifestSource) -> Option<(SourceKind, &str, Option<&[String]>)> {
    match (&source.config_map_ref, &source.secret_ref) {
        (Some(one), None) => Some((SourceKind::ConfigMap, &one.name, one.keys.as_deref())),
        (None, Some(one)) => Some((SourceKind::Secret, &one.name, one.keys.as_deref())),
        _ => None,
    }
}

/// Reads the sources of a VidraResource, one call for each.
///
/// # Errors
/// Outer: a call failed, and says nothing of the source. Inner: a source is not as it is meant to be.
pub async fn read(api: &HubApi, resource: &VidraResource) -> Result<Result<Read, SourceError>, CallError> {
    let namespace = resource.namespace().unwrap_or_default();
    let mut left = MAX_TEXT.saturating_sub(resource.spec.manifest.as_deref().map_or(0, str::len));
    let mut found = Read::default();
    for (number, source) in resource.spec.manifests_from.iter().enumerate() {
        let Some((kind, name, keys)) = reference(source) else {
            return Ok(Err(SourceError::NoReference { number }));
        };
        let entry = Entry { number, kind, name: name.to_owned() };
        let held = match get(api, kind, &namespace, name).await {
            Ok(held) => held,
            Err(error) if kind.says_gone(&error, name) => {
                return Ok(Err(SourceError::NotFound { entry, namespace }));
            }
            Err(error) if error.class == Class::Forbidden => {
                return Ok(Err(SourceError::Forbidden { entry, why: error.message }));
            }
            Err(error) => return Err(error),
        };
        if let Err(error) = take(&entry, held.values, keys, &mut left, &mut found.texts) {
            return Ok(Err(error));
        }
        found.versions.push(held.version);
    }
    Ok(Ok(found))
}

/// An object that holds manifests.
struct Held {
    version: Version,
    values: BTreeMap<String, Value>,
}

/// The value of a key. Only bytes may be packed.
enum Value {
    Text(String),
    Bytes(Vec<u8>),
}

async fn get(api: &HubApi, kind: SourceKind, namespace: &str, name: &str) -> Result<Held, CallError> {
    let bytes = |(key, ByteString(value))| (key, Value::Bytes(value));
    match kind {
        SourceKind::ConfigMap => {
            let all: Api<ConfigMap> = Api::namespaced(api.client.clone(), namespace);
            let held = api.call("get", all.get(name)).await?;
            let texts = held.data.unwrap_or_default().into_iter().map(|(key, text)| (key, Value::Text(text)));
            let values = texts.chain(held.binary_data.unwrap_or_default().into_iter().map(bytes)).collect();
            Ok(Held { version: Version::of(&held.metadata), values })
        }
        SourceKind::Secret => {
            let all: Api<Secret> = Api::namespaced(api.client.clone(), namespace);
            let held = api.call("get", all.get(name)).await?;
            let values = held.data.unwrap_or_default().into_iter().map(bytes).collect();
            Ok(Held { version: Version::of(&held.metadata), values })
        }
    }
}

/// Takes the wanted keys out of what an object holds; `left` is what may still be read, in bytes.
fn take(
    entry: &Entry,
    mut values: BTreeMap<String, Value>,
    keys: Option<&[String]>,
    left: &mut usize,
    texts: &mut Vec<Source>,
) -> Result<(), SourceError> {
    let all: Vec<String> = values.keys().cloned().collect();
    if all.is_empty() {
        return Err(SourceError::NoKeys { entry: entry.clone() });
    }
    for key in keys.unwrap_or(&all) {
        let Some(value) = values.remove(key) else {
            let has = first_of(all.iter(), KEYS_SHOWN);
            return Err(SourceError::KeyNotFound { entry: entry.clone(), key: key.clone(), has });
        };
        let text = match value {
            Value::Text(text) if text.len() > *left => Err(UnpackError::TooLarge { most: *left }),
            Value::Text(text) => Ok(text),
            Value::Bytes(bytes) => unpack(&bytes, *left),
        };
        let text = text.map_err(|why| {
            let (entry, key) = (entry.clone(), key.clone());
            SourceError::Unreadable { entry, key, why }
        })?;
        *left -= text.len();
        texts.push(Source { name: format!("{} {}, key {key}", entry.kind, entry.name), text });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(
        values: Vec<(&str, Value)>,
        keys: Option<&[&str]>,
        mut left: usize,
    ) -> Result<Vec<String>, String> {
        let entry = Entry { number: 1, kind: SourceKind::Secret, name: "shop".into() };
        let values = values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let keys: Option<Vec<String>> = keys.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect());
        let mut texts = Vec::new();
        take(&entry, values, keys.as_deref(), &mut left, &mut texts).map_err(|error| error.to_string())?;
        Ok(texts.into_iter().map(|text| format!("{}: {}", text.name, text.text)).collect())
    }

    fn some() -> Vec<(&'static str, Value)> {
        vec![
            ("b", Value::Bytes(zstd::encode_all(&b"two"[..], 3).unwrap())),
            ("a", Value::Text("one".into())),
            ("c", Value::Bytes(b"three".to_vec())),
        ]
    }

    #[test]
    fn all_keys_are_read_by_name_or_those_that_are_named_as_they_are_listed() {
        let all = ["Secret shop, key a: one", "Secret shop, key b: two", "Secret shop, key c: three"];
        assert_eq!(taken(some(), None, 100).unwrap(), all);
        assert_eq!(taken(some(), Some(&["c", "a"]), 100).unwrap(), [all[2], all[0]]);
        assert_eq!(taken(some(), None, 11).unwrap().len(), 3, "unpacked they are 11 bytes");
    }

    #[test]
    fn a_refusal_names_the_entry_the_key_and_what_to_do() {
        let refused = |values, keys: Option<&[&str]>, left| taken(values, keys, left).unwrap_err();
        assert_eq!(
            refused(some(), Some(&["a", "z"]), 100),
            "spec.manifestsFrom[1]: the Secret \"shop\" has no key \"z\" (it has a, b, c): add the key, or correct keys; until then nothing that was delivered is changed"
        );
        assert_eq!(
            refused(some(), None, 10),
            "spec.manifestsFrom[1]: the Secret \"shop\", key \"c\": it unpacks to more than the 4 bytes that may still be read: split it over several VidraResources"
        );
        assert!(refused(Vec::new(), None, 10).contains("holds no key"));
        let twice = refused(some(), Some(&["a", "a"]), 100);
        assert!(twice.contains("has no key \"a\""), "{twice}");
    }
}

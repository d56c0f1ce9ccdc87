//! What `spec.manifestsFrom` names, read with the user's own rights.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use vidra_api::{ManifestSource, VidraResourceSpec};
use vidra_core::manifest::{MAX_TEXT, unpack::unpack};

use crate::cluster::Cluster;
use crate::error::Failure;
use crate::report::declared::Sources;
use crate::text::brief;

/// Longest reason in a line.
const WHY_MAX: usize = 200;
/// What to ask for.
const READING_SOURCES: &str = "get on it in its namespace";

/// Reads all sources of a spec, in the hub's namespace that commands look in. One that cannot be read is a line.
///
/// # Errors
/// The hub does not answer, or does not accept the credentials.
pub async fn read(hub: &Cluster, spec: &VidraResourceSpec) -> Result<Sources, Failure> {
    let mut left = MAX_TEXT.saturating_sub(spec.manifest.as_deref().map_or(0, str::len));
    let mut sources = Sources::default();
    for (number, source) in spec.manifests_from.iter().enumerate() {
        let Some((kind, name, keys)) = reference(source) else { continue };
        let said = match held(hub, kind, name).await {
            Ok(values) => take(values, keys, &mut left).map(|texts| {
                let named = |(key, text)| (format!("{kind} {name}, key {key}"), text);
                sources.texts.extend(texts.into_iter().map(named));
            }),
            Err(Unread::Why(why)) => Err(why),
            Err(Unread::Failure(failure)) => return Err(failure),
        };
        if let Err(why) = said {
            sources.unread.push(format!(
                "spec.manifestsFrom[{number}], {kind} {name}, is not compared: {}",
                brief(&why, WHY_MAX)
            ));
        }
    }
    Ok(sources)
}

fn reference(source: &ManifestSource) -> Option<(&'static str, &str, Option<&[String]>)> {
    match (&source.config_map_ref, &source.secret_ref) {
        (Some(one), None) => Some(("ConfigMap", &one.name, one.keys.as_deref())),
        (None, Some(one)) => Some(("Secret", &one.name, one.keys.as_deref())),
        _ => None,
    }
}

/// Why an object gives nothing.
enum Unread {
    /// This one does not, and others may.
    Why(String),
    /// Nothing can be read.
    Failure(Failure),
}

/// The value of a key. Only bytes may be packed.
enum Value {
    Text(String),
    Bytes(Vec<u8>),
}

async fn held(hub: &Cluster, kind: &str, name: &str) -> Result<BTreeMap<String, Value>, Unread> {
    let bytes = |(key, ByteString(value))| (key, Value::Bytes(value));
    let read = match kind {
        "ConfigMap" => {
            let found: Option<ConfigMap> =
                hub.find(&hub.api(false), name, READING_SOURCES).await.map_err(unread)?;
            found.map(|found| {
                let texts = found.data.unwrap_or_default().into_iter();
                let texts = texts.map(|(key, text)| (key, Value::Text(text)));
                texts.chain(found.binary_data.unwrap_or_default().into_iter().map(bytes)).collect()
            })
        }
        _ => {
            let found: Option<Secret> =
                hub.find(&hub.api(false), name, READING_SOURCES).await.map_err(unread)?;
            found.map(|found| found.data.unwrap_or_default().into_iter().map(bytes).collect())
        }
    };
    read.ok_or_else(|| Unread::Why(format!("it is not in the namespace {}", hub.namespace)))
}

fn unread(failure: Failure) -> Unread {
    match failure {
        Failure::Forbidden { .. } | Failure::Refused { .. } => Unread::Why(failure.to_string()),
        failure => Unread::Failure(failure),
    }
}

/// The wanted keys as texts; `left` is what may still be read, in bytes, as the hub counts it.
fn take(
    mut values: BTreeMap<String, Value>,
    keys: Option<&[String]>,
    left: &mut usize,
) -> Result<Vec<(String, String)>, String> {
    let all: Vec<String> = values.keys().cloned().collect();
    if all.is_empty() {
        return Err("it holds no key".to_owned());
    }
    let mut texts = Vec::new();
    let mut rest = *left;
    for key in keys.unwrap_or(&all) {
        let text = match values.remove(key) {
            None => return Err(format!("it has no key {key}")),
            Some(Value::Text(text)) if text.len() <= rest => text,
            Some(Value::Text(_)) => return Err(format!("key {key} is more than the hub would read")),
            Some(Value::Bytes(bytes)) => unpack(&bytes, rest).map_err(|why| format!("key {key}: {why}"))?,
        };
        rest -= text.len();
        texts.push((key.clone(), text));
    }
    *left = rest;
    Ok(texts)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn some() -> BTreeMap<String, Value> {
        let values = [("b", Value::Bytes(b"two".to_vec())), ("a", Value::Text("one".to_owned()))];
        values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    #[test]
    fn keys_are_read_by_name_or_as_they_are_listed_and_within_what_the_hub_reads() {
        let taken = |keys: Option<&[&str]>, mut left: usize| {
            let keys: Option<Vec<String>> =
                keys.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect());
            let texts = take(some(), keys.as_deref(), &mut left)?;
            Ok::<_, String>((texts.into_iter().map(|(_, text)| text).collect::<Vec<_>>(), left))
        };
        assert_eq!(taken(None, 10).unwrap(), (vec!["one".to_owned(), "two".to_owned()], 4));
        assert_eq!(taken(Some(&["b"]), 10).unwrap(), (vec!["two".to_owned()], 7));
        assert_eq!(taken(Some(&["z"]), 10).unwrap_err(), "it has no key z");
        assert!(taken(None, 5).unwrap_err().starts_with("key b: "));
        assert_eq!(take(BTreeMap::new(), None, &mut 1).unwrap_err(), "it holds no key");
    }
}

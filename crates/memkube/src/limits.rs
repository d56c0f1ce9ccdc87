//! How large things may be.

use base64::Engine;
use serde_json::Value;

use super::Cluster;
use super::failure::Failure;
use super::kinds::Kind;
use super::validate::Wrong;

/// Bytes of a request's body.
pub(super) const REQUEST: usize = 3 * 1024 * 1024;
/// Bytes of an object in etcd. The real server counts its own encoding; here it is that of JSON.
const STORED: usize = 1536 * 1024;
/// Bytes of all values of a ConfigMap or a Secret.
const VALUES: usize = 1024 * 1024;
/// Bytes of all annotations.
const ANNOTATIONS: usize = 256 * 1024;

impl Cluster {
    /// Lets objects and requests be as large as they like, or no more: as a server does that keeps its objects
    /// elsewhere than in etcd. What the values of ConfigMaps and Secrets and annotations may be stays.
    pub fn set_any_size(&self, on: bool) {
        self.inner.store.lock().any_size = on;
    }
}

pub(super) fn request(body: &[u8]) -> Result<(), Failure> {
    if body.len() <= REQUEST {
        return Ok(());
    }
    let message = format!("Request entity too large: limit is {REQUEST}");
    Err(Failure::new(413, "RequestEntityTooLarge", message))
}

pub(super) fn stored(object: &Value) -> Result<(), Failure> {
    if weight(object) <= STORED {
        return Ok(());
    }
    Err(Failure::new(500, "", "etcdserver: request is too large"))
}

/// About the length of an object's JSON, without writing it.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(list) => 2 + list.iter().map(|item| weight(item) + 1).sum::<usize>(),
        Value::Object(map) => 2 + map.iter().map(|(key, value)| key.len() + 4 + weight(value)).sum::<usize>(),
    }
}

/// Annotations beyond what an object may have.
pub(super) fn annotations(object: &Value) -> Option<Wrong> {
    let all = object["metadata"]["annotations"].as_object().into_iter().flatten();
    let total: usize = all.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    let why = format!("Too long: may not be more than {ANNOTATIONS} bytes");
    (total > ANNOTATIONS).then(|| ("metadata.annotations".to_owned(), "FieldValueTooLong", why))
}

/// What a ConfigMap or a Secret holds beyond what it may.
pub(super) fn values(kind: &Kind, object: &Value) -> Option<Wrong> {
    let secret = kind.kind == "Secret";
    let length = |field: &str, encoded: bool| -> usize {
        let values = object[field].as_object().into_iter().flatten();
        let texts = values.filter_map(|(_, value)| value.as_str());
        texts
            .map(|text| match encoded {
                true => {
                    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
                    bytes.map_or(text.len(), |bytes| bytes.len())
                }
                false => text.len(),
            })
            .sum()
    };
    let total = length("data", secret) + length("binaryData", true);
    let field = if secret { "data" } else { "" };
    let why = format!("Too long: may not be more than {VALUES} bytes");
    (total > VALUES).then(|| (field.to_owned(), "FieldValueTooLong", why))
}

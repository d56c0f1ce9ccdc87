//! What marks an object in a member as ours: labels for informers to select by, and a readable annotation
//! that tells what was applied.

use std::fmt;

use serde_json::{Map, Value};
use vidra_api::labels::{HUB_LABEL, OWNER_PREFIX, object_labels};
use vidra_api::names::{HubId, OwnerHash};

use super::{Declared, DeclaredHash};

/// What the annotation of an owner says: who applied, at which generation, and what.
/// Written `team-a/shop 7 3f9c…`, with ` kept` behind it where live values were sent that are not as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The VidraResource, as `namespace/name`.
    pub owner: String,
    /// The VidraResource's generation at the apply.
    pub generation: i64,
    /// The hash of the object as it was declared.
    pub hash: DeclaredHash,
    /// Something that was left alone was sent with its live value, and not as it was declared: that our entry owns
    /// it does not tell that it is as declared.
    pub kept: bool,
}

/// What is written behind a stamp of such an apply.
const KEPT: &str = "kept";

impl Stamp {
    /// Reads what [`fmt::Display`] writes; None when it is anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (owner, generation, hash) = (words.next()?, words.next()?, words.next()?);
        let (namespace, name) = owner.split_once('/')?;
        let kept = match words.next() {
            None => false,
            Some(KEPT) => true,
            Some(_) => return None,
        };
        if words.next().is_some() || namespace.is_empty() || name.is_empty() || name.contains('/') {
            return None;
        }
        let stamp = Self {
            owner: owner.to_owned(),
            generation: generation.parse().ok()?,
            hash: DeclaredHash::parse(hash)?,
            kept,
        };
        Some(stamp)
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.owner, self.generation, self.hash)?;
        if self.kept { write!(f, " {KEPT}") } else { Ok(()) }
    }
}

/// The body to apply: the prepared object with our labels and annotation on it.
///
/// `owner_name` is the owner's `namespace/name`; `generation` its generation now.
pub fn compose(
    declared: &Declared,
    hub: &HubId,
    owner: &OwnerHash,
    owner_name: &str,
    generation: i64,
) -> Value {
    let stamp = Stamp { owner: owner_name.to_owned(), generation, hash: declared.hash, kept: false };
    compose_kept(&declared.body, hub, owner, &stamp)
}

/// As [`compose`], for what is sent in place of the prepared object.
pub fn compose_kept(sent: &Value, hub: &HubId, owner: &OwnerHash, stamp: &Stamp) -> Value {
    let mut body = sent.clone();
    if let Some(metadata) = body.as_object_mut().and_then(|fields| mapping(fields, "metadata")) {
        if let Some(labels) = mapping(metadata, "labels") {
            labels
                .extend(object_labels(hub, owner).into_iter().map(|(key, value)| (key, Value::from(value))));
        }
        if let Some(annotations) = mapping(metadata, "annotations") {
            annotations.insert(owner.label_key(), Value::String(stamp.to_string()));
        }
    }
    body
}

/// Takes our own marks off an object, as they stand on one that was read from a member.
pub(super) fn unmark(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for field in ["labels", "annotations"] {
        let Some(Value::Object(entries)) = metadata.get_mut(field) else { continue };
        let before = entries.len();
        entries.retain(|key, _| key != HUB_LABEL && !key.starts_with(OWNER_PREFIX));
        if entries.is_empty() && before > 0 {
            metadata.remove(field);
        }
    }
}

/// A mapping within a mapping, made when it is absent or anything else.
fn mapping<'a>(fields: &'a mut Map<String, Value>, field: &str) -> Option<&'a mut Map<String, Value>> {
    let value = fields.entry(field).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

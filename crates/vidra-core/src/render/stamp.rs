//! What marks an object in a member as ours: labels for informers to select by, and a readable annotation
//! that tells what was applied.

use std::fmt;

use serde_json::{Map, Value};
use vidra_api::labels::{HUB_LABEL, OWNER_PREFIX, object_labels};
use vidra_api::names::{HubId, OwnerHash};

use super::{DeclaredHash, HashKey};
use crate::object::ObjectKey;

/// What the annotation of an owner says: who applied, at which generation, and what; and the seal of the hub, or whoever
/// may write to the object could tell a generation that the hub does not have yet.
/// Written `team-a/shop 7 3f9c… 81d0…`, with `kept` before the seal where live values were sent that are not as declared.
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
    /// What [`Stamp::sealed`] put there: 12 hex digits.
    pub seal: Option<String>,
}

/// What is written behind a stamp of such an apply.
const KEPT: &str = "kept";
const SEAL_DIGITS: usize = 12;

impl Stamp {
    /// Reads what [`fmt::Display`] writes; None when it is anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (owner, generation, hash) = (words.next()?, words.next()?, words.next()?);
        let (namespace, name) = owner.split_once('/')?;
        let mut words = words.peekable();
        let kept = words.next_if_eq(&KEPT).is_some();
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let seal = words.next_if(|word| word.len() == SEAL_DIGITS && word.bytes().all(is_hex));
        if words.next().is_some() || namespace.is_empty() || name.is_empty() || name.contains('/') {
            return None;
        }
        let stamp = Self {
            owner: owner.to_owned(),
            generation: generation.parse().ok()?,
            hash: DeclaredHash::parse(hash)?,
            kept,
            seal: seal.map(str::to_owned),
        };
        Some(stamp)
    }

    /// With the seal of whoever knows the key, for this object.
    pub fn sealed(self, key: &HashKey, object: &ObjectKey) -> Self {
        let seal = Some(self.made(key, object));
        Self { seal, ..self }
    }

    /// It was sealed with this key, for this object, as it stands there.
    pub fn is_genuine(&self, key: &HashKey, object: &ObjectKey) -> bool {
        self.seal.as_ref().is_some_and(|seal| *seal == self.made(key, object))
    }

    fn made(&self, key: &HashKey, object: &ObjectKey) -> String {
        let (generation, hash) = (self.generation.to_string(), self.hash.to_string());
        let kept = if self.kept { KEPT } else { "" };
        let parts = [
            &self.owner,
            &*object.group,
            &object.kind,
            &object.namespace,
            &object.name,
            &generation,
            &hash,
            kept,
        ];
        key.digest(b"stamp", parts)
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.owner, self.generation, self.hash)?;
        let kept = if self.kept { Some(KEPT) } else { None };
        kept.into_iter().chain(self.seal.as_deref()).try_for_each(|word| write!(f, " {word}"))
    }
}

/// The body to apply: what is sent of a prepared object, with our labels and annotation on it.
pub fn compose(sent: &Value, hub: &HubId, owner: &OwnerHash, stamp: &Stamp) -> Value {
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

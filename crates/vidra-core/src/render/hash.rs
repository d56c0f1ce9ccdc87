//! Names made from contents: the hash of a declared object and the name of a revision. Both are HMACs under
//! a secret key, or else whoever can read them could guess at the contents of a Secret and check the guess.

use std::fmt;

use hmac::digest::Key;
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::Sha256;

type HmacSha256 = Hmac<Sha256>;

/// The key of all hashes of one hub, 32 secret bytes.
#[derive(Clone)]
pub struct HashKey([u8; 32]);

impl HashKey {
    /// Takes the bytes as they are; they should be random.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Takes exactly 32 bytes.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// 12 hex digits over parts, in their order, for one purpose.
    pub fn digest<P: AsRef<[u8]>>(&self, purpose: &[u8], parts: impl IntoIterator<Item = P>) -> String {
        let mut mac = self.start(purpose);
        parts.into_iter().for_each(|bytes| part(&mut mac, bytes.as_ref()));
        mac.finalize().into_bytes().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    }

    /// An HMAC for one purpose: what is made for one never equals what is made for another.
    fn start(&self, purpose: &[u8]) -> HmacSha256 {
        // HMAC pads a short key with zeros to its block of 64 bytes; done here, no length can be wrong.
        let mut block = Key::<HmacSha256>::default();
        for (to, from) in block.iter_mut().zip(self.0) {
            *to = from;
        }
        let mut mac = <HmacSha256 as Mac>::new(&block);
        part(&mut mac, purpose);
        mac
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey(redacted)")
    }
}

/// A part with its length before it, so that "ab", "c" is not "a", "bc".
fn part(mac: &mut HmacSha256, bytes: &[u8]) {
    mac.update(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
    mac.update(bytes);
}

/// The hash of an object as it was declared: HMAC-SHA256, the first half of it. Shown as 32 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct DeclaredHash([u8; 16]);

impl DeclaredHash {
    /// Hashes a value, whatever the order of its fields.
    pub fn of(value: &Value, key: &HashKey) -> Self {
        let mut mac = key.start(b"declared object");
        canonical(value, &mut mac);
        let mut hash = [0; 16];
        for (to, from) in hash.iter_mut().zip(mac.finalize().into_bytes()) {
            *to = from;
        }
        Self(hash)
    }

    /// Reads 32 small hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 32 || !text.as_bytes().iter().all(is_hex) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(|number| Self(number.to_be_bytes()))
    }
}

impl fmt::Display for DeclaredHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl From<DeclaredHash> for String {
    fn from(hash: DeclaredHash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for DeclaredHash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("a hash of a declared object is 32 small hex digits")
    }
}

/// The name of a revision: 16 hex digits over its parts, in their order.
pub fn revision_of<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>, key: &HashKey) -> String {
    let mut mac = key.start(b"revision");
    for bytes in parts {
        part(&mut mac, bytes.as_ref());
    }
    mac.finalize().into_bytes().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Feeds a value so that equal values feed the same bytes: fields by name, and each thing with its type and
/// its length.
fn canonical(value: &Value, mac: &mut HmacSha256) {
    match value {
        Value::Null => mac.update(b"0"),
        Value::Bool(value) => mac.update(if *value { b"t" } else { b"f" }),
        Value::Number(number) => {
            mac.update(b"n");
            part(mac, number.to_string().as_bytes());
        }
        Value::String(text) => {
            mac.update(b"s");
            part(mac, text.as_bytes());
        }
        Value::Array(items) => {
            mac.update(b"[");
            items.iter().for_each(|item| canonical(item, mac));
            mac.update(b"]");
        }
        Value::Object(fields) => {
            // Sorted here too: serde_json keeps the order of writing when any crate asks it to.
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            mac.update(b"{");
            for (name, value) in fields {
                part(mac, name.as_bytes());
                canonical(value, mac);
            }
            mac.update(b"}");
        }
    }
}

//! Validated names, and the names of everything that the hub makes. Parsed once, where they enter.
//!
//! A cluster's name has no dot and a VidraResource's may: so in a joined name the cluster is what
//! follows the last dot, and two different pairs never share a name.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::labels::OWNER_PREFIX;
use crate::schema::{LABEL_MAX, REVISION_MAX};

/// Longest field manager that the API server takes, in bytes.
/// Source: k8s.io/apimachinery/pkg/apis/meta/v1/validation, FieldManagerMaxLength.
const FIELD_MANAGER_MAX: usize = 128;
/// Hex digits in an owner hash.
const OWNER_HASH_LEN: usize = 32;

/// Why a text is no valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A cluster's name was read.
    #[error(
        "\"{text}\" cannot name a cluster: use at most 63 lower-case letters, digits and '-', beginning and \
         ending with a letter or digit"
    )]
    ParseClusterName {
        /// What was read, cut to 80 characters.
        text: String,
    },
    /// A hub id was read.
    #[error(
        "\"{text}\" cannot be a hub id: use at most 63 lower-case letters, digits and '-', beginning and \
         ending with a letter or digit"
    )]
    ParseHubId {
        /// What was read, cut to 80 characters.
        text: String,
    },
    /// A revision was read.
    #[error("\"{text}\" is not a revision: expected 1 to 64 lower-case hex digits")]
    ParseRevision {
        /// What was read, cut to 80 characters.
        text: String,
    },
}

fn is_dns_label(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    (1..=LABEL_MAX).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_revision(text: &str) -> bool {
    (1..=REVISION_MAX).contains(&text.len()) && is_hex(text)
}

/// What every name here can do: it is shared text, cheap to clone, that compares as text.
macro_rules! shared_text {
    ($name:ident) => {
        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }
    };
}

/// A name that is parsed: `TryFrom` text, or an error that shows the text.
macro_rules! parsed_text {
    ($name:ident, $valid:path, $error:ident) => {
        shared_text!($name);
        impl TryFrom<&str> for $name {
            type Error = NameError;
            fn try_from(text: &str) -> Result<Self, NameError> {
                if $valid(text) {
                    Ok(Self(Arc::from(text)))
                } else {
                    Err(NameError::$error { text: crate::clip(text, 80) })
                }
            }
        }
        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::try_from(text.as_str())
            }
        }
        impl FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::try_from(text)
            }
        }
    };
}

/// The name of a member cluster: a DNS label, so without a dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(Arc<str>);
parsed_text!(ClusterName, is_dns_label, ParseClusterName);

/// The id of a hub: a DNS label, so a valid label value and without a slash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HubId(Arc<str>);
parsed_text!(HubId, is_dns_label, ParseHubId);

/// The name of a revision: 1 to 64 lower-case hex digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(Arc<str>);
parsed_text!(Revision, is_revision, ParseRevision);

/// Stands for one VidraResource of one hub where a name must be short: 32 lower-case hex digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerHash([u8; OWNER_HASH_LEN / 2]);

impl OwnerHash {
    /// The first 16 bytes, in hex, of a SHA-256 over hub id, namespace and name, each after its
    /// length in bytes (8 bytes, big-endian), so that no two triples read the same.
    #[must_use]
    pub fn new(hub: &HubId, namespace: &str, name: &str) -> Self {
        let mut hasher = Sha256::new();
        for part in [hub.as_str(), namespace, name] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
        let mut hash = [0; OWNER_HASH_LEN / 2];
        for (to, from) in hash.iter_mut().zip(hasher.finalize()) {
            *to = from;
        }
        Self(hash)
    }

    /// The key of the label and annotation that this owner puts on an object.
    #[must_use]
    pub fn label_key(&self) -> String {
        format!("{OWNER_PREFIX}{self}")
    }

    /// The owner that a label's key names; None for any other key.
    #[must_use]
    pub fn from_label_key(key: &str) -> Option<Self> {
        let hash = key.strip_prefix(OWNER_PREFIX)?;
        let digits = (hash.len() == OWNER_HASH_LEN && is_hex(hash)).then_some(hash)?;
        u128::from_str_radix(digits, 16).ok().map(|number| Self(number.to_be_bytes()))
    }
}

impl fmt::Display for OwnerHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The field manager under which a VidraResource is applied: `vidra/<hub id>/<namespace>/<name>`, or
/// `vidra/<hub id>/<owner hash>` where that is longer than the API server takes.
#[must_use]
pub fn field_manager(hub: &HubId, namespace: &str, name: &str) -> String {
    let readable = format!("vidra/{hub}/{namespace}/{name}");
    if readable.len() <= FIELD_MANAGER_MAX {
        return readable;
    }
    format!("vidra/{hub}/{}", OwnerHash::new(hub, namespace, name))
}

/// The name of the VidraTarget of a VidraResource on a cluster: `<resource>.<cluster>`.
#[must_use]
pub fn target_name(resource: &str, cluster: &str) -> String {
    format!("{resource}.{cluster}")
}

/// The name of a chunk of a target's inventory: `<resource>.<cluster>.<chunk>`.
#[must_use]
pub fn inventory_name(resource: &str, cluster: &str, chunk: i32) -> String {
    format!("{resource}.{cluster}.{chunk}")
}

/// The name of the Secret that holds a revision: `<resource>.<revision>`.
#[must_use]
pub fn revision_secret_name(resource: &str, revision: &str) -> String {
    format!("{resource}.{revision}")
}

/// The name of a further Secret of a revision that one cannot hold: `<resource>.<revision>.<part>`, from 1.
#[must_use]
pub fn revision_part_name(resource: &str, revision: &str, part: usize) -> String {
    format!("{resource}.{revision}.{part}")
}

/// The revision that a Secret of this name keeps for a VidraResource, or a part of it.
#[must_use]
pub fn revision_in_secret_name<'a>(resource: &str, name: &'a str) -> Option<&'a str> {
    name.strip_prefix(resource)?.strip_prefix('.')?.split('.').next()
}

#[cfg(test)]
mod tests;

//! Why a manifest is refused. The messages name the document, the object and the field, and say how to fix
//! it; they never quote a value of the object, which may be a Secret.

use std::{fmt, sync::Arc};

use thiserror::Error;

use super::{MAX_INLINE, MAX_OBJECTS, MAX_TEXT};
use crate::annotations::Unknown;

/// Where something that is to be delivered stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What holds the text, in words, such as `spec.manifest`; None when there is only one text.
    pub source: Option<Arc<str>>,
    /// The number of the document, 1 for the first.
    pub document: usize,
    /// The line of the text, 1 for the first; None when the object was not given as text.
    pub line: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = &self.source {
            write!(f, "{source}, ")?;
        }
        write!(f, "document {}", self.document)?;
        match self.line {
            Some(line) => write!(f, " (line {line})"),
            None => Ok(()),
        }
    }
}

/// Why a manifest is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ManifestError {
    /// The texts are longer than [`MAX_TEXT`].
    #[error("the manifest is {bytes} bytes, more than the {MAX_TEXT} that are read: split it over several")]
    TooLarge {
        /// The length of all texts up to the one that was too much.
        bytes: usize,
    },
    /// The VidraResource itself is larger than [`MAX_INLINE`].
    #[error(
        "spec is {bytes} bytes as JSON, more than the {MAX_INLINE} that may stand in a VidraResource: put manifests into ConfigMaps or Secrets of its namespace, and name these in spec.manifestsFrom"
    )]
    InlineTooLarge {
        /// The length of its spec as JSON.
        bytes: usize,
    },
    /// It declares more than [`MAX_OBJECTS`].
    #[error("the manifest declares more than {MAX_OBJECTS} objects: split it over several")]
    TooMany,
    /// It declares no object, and nobody said that it is to.
    #[error(
        "the manifest holds no object; write one, set allowEmpty: true to remove what was delivered, or delete the VidraResource"
    )]
    Empty,
    /// A document is neither YAML nor JSON.
    #[error("{place}: {reason}")]
    Syntax {
        /// Where.
        place: Place,
        /// What is wrong there.
        reason: String,
    },
    /// A document, or an item of a list, is not a mapping.
    #[error("{place}: {object} is {found}, where a Kubernetes object, a mapping, is expected")]
    NotAnObject {
        /// Where the document begins.
        place: Place,
        /// What was looked at, in words.
        object: String,
        /// What it is instead.
        found: &'static str,
    },
    /// An object lacks a field that it must have.
    #[error("{place}: {object} has no {field}: add it")]
    Missing {
        /// Where the document begins.
        place: Place,
        /// The object, in words.
        object: String,
        /// The path of the field.
        field: &'static str,
    },
    /// A field is of another type than Kubernetes gives it.
    #[error("{place}: {field} of {object} is {found}, where {expected} is expected{}", quote_hint(.found))]
    WrongType {
        /// Where the document begins.
        place: Place,
        /// The object, in words.
        object: String,
        /// The path of the field.
        field: String,
        /// What it must be.
        expected: &'static str,
        /// What it is instead.
        found: &'static str,
    },
    /// A field that is known to Kubernetes but cannot be delivered.
    #[error("{place}: {field} of {object} {why}")]
    Refused {
        /// Where the document begins.
        place: Place,
        /// The object, in words.
        object: String,
        /// The path of the field.
        field: &'static str,
        /// What is wrong with it and how to fix it.
        why: &'static str,
    },
    /// An annotation of the hub's own that it does not know.
    #[error("{place}: metadata.annotations[\"{}\"] of {object} {unknown}", .unknown.key())]
    UnknownAnnotation {
        /// Where the document begins.
        place: Place,
        /// The object, in words.
        object: String,
        /// The annotation.
        unknown: Unknown,
    },
}

fn quote_hint(found: &str) -> &'static str {
    if matches!(found, "a number" | "a boolean") { ": put it in quotes" } else { "" }
}

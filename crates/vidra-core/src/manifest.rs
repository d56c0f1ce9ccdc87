//! What a user wrote, as objects: multi-document YAML or JSON, meaning here what the same text means to
//! kubectl, from one text or several. Where objects go and what is sent for them is not decided here but in
//! `render`.

mod check;
mod error;
mod inline;
mod mention;
mod otherwise;
mod split;
#[cfg(test)]
mod tests;
pub(crate) mod tree;
pub mod unpack;

use std::{fmt, sync::Arc};

use serde_json::Value;

pub use error::{ManifestError, Place};
pub use inline::check_inline;
pub use mention::Words;

use crate::object::Gvk;
use split::{Chunk, is_blank};
use tree::{Budget, Fault};

/// The most text that is read, all sources together and unpacked, in bytes: 16 MiB, several times the largest
/// public manifests.
pub const MAX_TEXT: usize = 16 * 1024 * 1024;
/// The most that may stand in a VidraResource itself, its spec as JSON, in bytes: 1.25 MiB. etcd keeps objects of up to 1.5
/// MiB, and its status and metadata need room; a manifest of the 1 MiB that the CRD takes fits, its line ends escaped.
pub const MAX_INLINE: usize = 5 << 18;
/// The most objects that may be declared together.
pub const MAX_OBJECTS: usize = 10_000;
/// The most memory that the objects may take together, aliases followed, in bytes; as `weight` has it.
pub const MAX_VALUES: usize = 192 << 20;

/// One object of a manifest.
#[derive(Clone, PartialEq)]
pub struct ManifestObject {
    /// The document that it stands in, and where that begins; empty documents count.
    pub place: Place,
    /// Its group, version and kind.
    pub gvk: Gvk,
    /// The namespace that it names, if it names one.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
    /// All of it, without what only a server writes.
    pub value: Value,
}

/// Without its value, which may be a Secret.
impl fmt::Debug for ManifestObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = f.debug_struct("ManifestObject");
        told.field("place", &self.place).field("gvk", &self.gvk);
        told.field("namespace", &self.namespace).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Reads one text, as [`Reader::read_text`] does.
///
/// # Errors
/// The first thing that cannot be read or delivered, by document, line and object.
pub fn parse(text: &str) -> Result<Vec<ManifestObject>, ManifestError> {
    let mut reader = Reader::default();
    reader.read_text(None, text)?;
    Ok(reader.finish())
}

/// Reads any number of texts and objects within one budget; their objects come out in the order of reading.
pub struct Reader {
    text: usize,
    budget: Budget,
    objects: Vec<ManifestObject>,
}

impl Default for Reader {
    fn default() -> Self {
        Self { text: 0, budget: Budget::new(MAX_VALUES), objects: Vec::new() }
    }
}

impl Reader {
    /// Reads all objects of a text, in its order; `source` names the text in messages.
    ///
    /// `kind: List` and typed lists are flattened; empty and comment-only documents are skipped. Dropped is what
    /// only a server writes: `status`, and of `metadata` uid, resourceVersion, managedFields, creationTimestamp,
    /// generation, selfLink, deletionTimestamp and deletionGracePeriodSeconds.
    ///
    /// # Errors
    /// The first thing that cannot be read or delivered, by source, document, line and object.
    pub fn read_text(&mut self, source: Option<&Arc<str>>, text: &str) -> Result<(), ManifestError> {
        let Self { text: length, budget, objects } = self;
        *length += text.len();
        each_document(source, text, *length, budget, &mut |value, place| {
            check::add_objects(value, place, objects)
        })
    }

    /// Reads one object that was not given as text, as those of `spec.manifests`; `document` is the number that
    /// it goes by in messages. A list gives several, as in a text.
    ///
    /// # Errors
    /// What of it cannot be delivered.
    pub fn read_value(
        &mut self,
        source: Option<&Arc<str>>,
        document: usize,
        value: Value,
    ) -> Result<(), ManifestError> {
        let place = Place { source: source.cloned(), document, line: None };
        check::add_objects(value, place, &mut self.objects)
    }

    /// Reads one value that is kept as JSON text, as those of `spec.manifests` and of patches, without looking at what
    /// it is.
    ///
    /// # Errors
    /// It is too deep, or holds too much, or a key twice; by source and document.
    pub fn value(
        &mut self,
        source: Option<&Arc<str>>,
        document: usize,
        text: &str,
    ) -> Result<Value, ManifestError> {
        self.text += text.len();
        if self.text > MAX_TEXT {
            return Err(ManifestError::TooLarge { bytes: self.text });
        }
        value(text, &self.budget).map_err(|reason| {
            let place = Place { source: source.cloned(), document, line: None };
            ManifestError::Syntax { place, reason }
        })
    }

    /// All that was read.
    pub fn finish(self) -> Vec<ManifestObject> {
        self.objects
    }
}

/// Hands over each document of a text that holds something; `length` is that of all texts that were read.
fn each_document(
    source: Option<&Arc<str>>,
    text: &str,
    length: usize,
    budget: &Budget,
    take: &mut dyn FnMut(Value, Place) -> Result<(), ManifestError>,
) -> Result<(), ManifestError> {
    if length > MAX_TEXT {
        return Err(ManifestError::TooLarge { bytes: length });
    }
    let place = |document, line| Place { source: source.cloned(), document, line };
    let chunks = split::split(text).map_err(|bad| ManifestError::Syntax {
        place: place(bad.document, Some(bad.line)),
        reason: "a line that starts with `---` holds more than a comment: indent it, or put the rest below"
            .to_owned(),
    })?;
    // Several JSON documents may stand in one chunk; each moves the numbers of those behind it.
    let mut extra = 0;
    for chunk in chunks.iter().filter(|chunk| !is_blank(chunk.text)) {
        let first = chunk.document + extra;
        let values = read(chunk, budget).map_err(|(read, fault)| {
            let line = fault.line.map(|line| chunk.line + line - 1).or(Some(chunk.line));
            ManifestError::Syntax { place: place(first + read, line), reason: fault.reason }
        })?;
        extra += values.len().saturating_sub(1);
        let line = (values.len() == 1).then(|| chunk.line + leading_blank_lines(chunk.text));
        for (index, value) in values.into_iter().enumerate() {
            if !value.is_null() {
                take(value, place(first + index, line))?;
            }
        }
    }
    Ok(())
}

/// The documents of a text as they are, `status` and all else that only a server writes among it, each with where it
/// begins; those that hold nothing are left out. `source` names the text in messages.
///
/// # Errors
/// The first that cannot be read, by source, document and line.
pub fn documents(source: &str, text: &str) -> Result<Vec<(Place, Value)>, ManifestError> {
    let mut all = Vec::new();
    let budget = Budget::new(MAX_VALUES);
    each_document(Some(&Arc::from(source)), text, text.len(), &budget, &mut |value, place| {
        all.push((place, value));
        Ok(())
    })?;
    Ok(all)
}

/// The objects of such a document as they are: lists are flattened, and each object has apiVersion and kind.
///
/// # Errors
/// What of it is no object.
pub fn live_objects(place: Place, document: Value) -> Result<Vec<Value>, ManifestError> {
    check::live_objects(document, place)
}

/// One value of JSON, and no more.
pub(crate) fn value(text: &str, budget: &Budget) -> Result<Value, String> {
    match tree::read_json(text, budget) {
        (_, Some(fault)) => Err(fault.reason),
        (mut values, None) if values.len() == 1 => Ok(values.remove(0)),
        _ => Err("it is not one JSON value".to_owned()),
    }
}

/// Checks one object that was not given as text; see [`Reader::read_value`].
///
/// # Errors
/// What of it cannot be delivered.
pub fn from_value(document: usize, value: Value) -> Result<Vec<ManifestObject>, ManifestError> {
    let mut reader = Reader::default();
    reader.read_value(None, document, value)?;
    Ok(reader.finish())
}

/// The values in a chunk: one of YAML, or any number of JSON. An error comes with how many were read before.
fn read(chunk: &Chunk<'_>, budget: &Budget) -> Result<Vec<Value>, (usize, Fault)> {
    let looks_like_json = chunk.text.trim_start().starts_with('{');
    if !looks_like_json {
        if let Some(line) = split::ends_before_it_begins(chunk.text) {
            let reason = "a document ends (`...`) before it has begun: remove the line".to_owned();
            return Err((0, Fault { line: Some(line), reason }));
        }
        return read_yaml(chunk.text, budget).map_err(|fault| (0, fault));
    }
    match tree::read_json(chunk.text, budget) {
        (values, None) => Ok(values),
        // As kubectl does: it may still be YAML in braces, or be followed by a comment; if it is not, the first
        // message is the better one.
        (values, Some(fault)) if values.len() <= 1 => {
            read_yaml(chunk.text, budget).map_err(|_| (values.len(), fault))
        }
        (values, Some(fault)) => Err((values.len(), fault)),
    }
}

fn read_yaml(text: &str, budget: &Budget) -> Result<Vec<Value>, Fault> {
    let value = tree::read_yaml(text, budget)?;
    otherwise::check(text)?;
    Ok(vec![value])
}

fn leading_blank_lines(text: &str) -> usize {
    text.lines().take_while(|line| is_blank(line)).count()
}

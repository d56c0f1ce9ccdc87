//! Reads one document of YAML or JSON into a JSON value that means what it means to kubectl.
//!
//! kubectl turns YAML into JSON (sigs.k8s.io/yaml over go-yaml v2) and reads that. Our parser agrees with it
//! on what is text, number, boolean and null, legacy octal numbers switched on, but for these, mended here:
//! - Keys are text in JSON. go-yaml first reads them as values, so `on:` becomes the key `true` and `0x10:`
//!   the key `16`.
//! - Go writes the float 1.0 as `1` and 1e3 as `1000`, and whoever reads that JSON reads an integer. So a
//!   number without a fraction is an integer here, when it fits 64 bits, and an integer beyond is a float.
//! - A merge key `<<` overrides what stands before it in its mapping, as in go-yaml; by YAML's rule it would not.
//! - A key that stands twice is refused, in JSON too, where kubectl silently takes the last one.
//!
//! What it still reads otherwise is refused in `otherwise`; so are tags that Kubernetes has no use for, and numbers
//! beyond what a float holds (`12e4567`, as a commit may be called). tests/manifests lists and holds all differences.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::options::AliasLimits;

use crate::weight::{self, Room};

/// The deepest nesting that is read; what real objects need, CRD schemas included, is below 50.
const MAX_DEPTH: usize = 96;
const TWICE: &str = "a key stands twice in one mapping";
const TOO_MUCH: &str = "it takes too much memory, or is nested more than 96 levels deep (127 in JSON), or grows too large when its aliases are followed";
const TOO_DEEP: &str = "it is nested more than 127 levels deep";
const NO_MAPPING: &str = "the value of a merge key `<<` is no mapping";
const NOT_FINITE: &str = "a number is larger than any float, or none: put it in quotes if it is text";

/// Why a document could not be read. It never quotes the document, which may hold secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The line within the text that was given, 1 for the first; None when it is not known.
    pub(crate) line: Option<usize>,
    /// What is wrong there.
    pub(crate) reason: String,
}

/// How much may still be read. It is shared by all documents of a text, so that many small alias bombs cost no less
/// than a big one.
pub(crate) struct Budget {
    room: Room,
    reason: Cell<Option<&'static str>>,
}

impl Budget {
    /// A budget of this many bytes of values in memory.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { room: Room::new(bytes), reason: Cell::new(None) }
    }

    fn spend<E: serde::de::Error>(&self, bytes: usize) -> Result<(), E> {
        match self.room.take(weight::NODE + bytes) {
            true => Ok(()),
            false => Err(self.refuse(TOO_MUCH)),
        }
    }

    /// Remembers the reason apart from the error: the parser's own messages may quote the document.
    fn refuse<E: serde::de::Error>(&self, reason: &'static str) -> E {
        self.reason.set(Some(reason));
        E::custom(reason)
    }
}

/// Reads the one YAML document in `text`. An empty one is null.
pub(crate) fn read_yaml(text: &str, budget: &Budget) -> Result<Value, Fault> {
    let limits = serde_saphyr::budget! {
        max_depth: MAX_DEPTH,
        flow_nesting_limit: MAX_DEPTH,
        max_events: 8_000_000,
        max_nodes: 4_000_000,
        max_documents: 2,
    };
    let mut aliases = AliasLimits::default();
    aliases.max_replay_stack_depth = 32;
    aliases.max_total_replayed_events = 200_000;
    let options = serde_saphyr::options! {
        budget: limits,
        alias_limits: aliases,
        legacy_octal_numbers: true,
        merge_keys: serde_saphyr::MergeKeyPolicy::AsOrdinary,
        reject_unsupported_tags: true,
        with_snippet: false,
        emit_comments: false,
    };
    budget.reason.set(None);
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |yaml| {
        Tree { budget, merges: true }.deserialize(yaml)
    });
    read.map_err(|error| yaml_fault(&error, budget))
}

/// Reads all the JSON values that stand one after the other in `text`. With an error come the values that
/// were read before it.
pub(crate) fn read_json(text: &str, budget: &Budget) -> (Vec<Value>, Option<Fault>) {
    let mut json = serde_json::Deserializer::from_str(text);
    let mut values = Vec::new();
    budget.reason.set(None);
    while json.end().is_err() {
        match (Tree { budget, merges: false }).deserialize(&mut json) {
            Ok(value) => values.push(value),
            Err(error) => return (values, Some(json_fault(&error, budget))),
        }
    }
    (values, None)
}

fn yaml_fault(error: &serde_saphyr::Error, budget: &Budget) -> Fault {
    let error = error.without_snippet();
    let line = error.location().and_then(|l| usize::try_from(l.line()).ok()).filter(|line| *line > 0);
    let reason = budget.reason.get().unwrap_or_else(|| yaml_reason(error));
    Fault { line, reason: reason.to_owned() }
}

/// The parser's error in words of ours. Only the scanner's own messages are passed on, which are fixed
/// sentences; all others may quote a scalar.
fn yaml_reason(error: &serde_saphyr::Error) -> &str {
    use serde_saphyr::Error;
    match error {
        Error::AliasError { error, .. } => yaml_reason(error),
        Error::ExternalMessage { msg, .. } => msg,
        Error::DuplicateMappingKey { .. } => TWICE,
        Error::MultipleDocuments { .. } => "a second document begins without a line `---` of its own",
        Error::Eof { .. } => "the text ends too early",
        Error::UnknownAnchor { .. } => "an alias has no anchor",
        Error::NonFiniteFloat { .. } => NOT_FINITE,
        Error::InvalidScalar { .. } => "a value does not fit its tag",
        Error::RecursiveReferencesRequireWeakTypes { .. } => "an alias contains itself",
        Error::UnsupportedTag { .. } => "a tag is none that Kubernetes has a use for: remove it",
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => TOO_MUCH,
        _ => "it is not valid YAML",
    }
}

fn json_fault(error: &serde_json::Error, budget: &Budget) -> Fault {
    use serde_json::error::Category;
    let reason = budget.reason.get().unwrap_or(match error.classify() {
        Category::Eof => "the text ends too early",
        // That is all of its words; others may quote the text.
        _ if error.to_string().starts_with("recursion limit exceeded") => TOO_DEEP,
        _ => "it is not valid JSON",
    });
    Fault { line: Some(error.line()).filter(|line| *line > 0), reason: reason.to_owned() }
}

/// Builds a value, spending the budget.
#[derive(Clone, Copy)]
struct Tree<'b> {
    budget: &'b Budget,
    /// Whether `<<` merges, as it does in YAML.
    merges: bool,
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        self.budget.spend(0)?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        self.budget.spend(0)?;
        Ok(Value::from(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            // Kubernetes knows 64-bit signed integers only; kubectl makes a float of what is larger.
            #[expect(clippy::cast_precision_loss)]
            Err(_) => self.visit_f64(value as f64),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        self.budget.spend(0)?;
        // Rust and Go both write the shortest digits that read back as the same float, padded with zeros.
        if value.fract() == 0.0
            && value.abs() < 1e21
            && let Ok(integer) = format!("{value}").parse::<i64>()
        {
            return Ok(Value::from(integer));
        }
        match Number::from_f64(value) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(self.budget.refuse(NOT_FINITE)),
        }
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E: serde::de::Error>(self, value: String) -> Result<Value, E> {
        self.budget.spend(value.len())?;
        Ok(Value::String(value))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        self.budget.spend(0)?;
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        self.budget.spend(weight::ITEMS)?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        self.budget.spend(0)?;
        let mut fields = Mapping::default();
        while let Some(key) = map.next_key_seed(Key { budget: self.budget, taken: &fields })? {
            self.budget.spend(weight::entry(fields.fields.len()))?;
            let value = map.next_value_seed(self)?;
            if !self.merges || key != "<<" {
                fields.set(key, value);
            } else if !fields.merge(value) {
                return Err(self.budget.refuse(NO_MAPPING));
            }
        }
        Ok(Value::Object(fields.fields))
    }
}

/// A mapping so far.
#[derive(Default)]
struct Mapping {
    fields: Map<String, Value>,
    /// Keys that only merges have set: they may be written once more.
    merged: BTreeSet<String>,
}

impl Mapping {
    fn has_written(&self, key: &str) -> bool {
        self.fields.contains_key(key) && !self.merged.contains(key)
    }

    fn set(&mut self, key: String, value: Value) {
        self.merged.remove(&key);
        self.fields.insert(key, value);
    }

    /// Merges a mapping, or a list of them of which the first has precedence. False: it is neither.
    fn merge(&mut self, value: Value) -> bool {
        match value {
            Value::Object(fields) => self.add(fields),
            Value::Array(items) => {
                for item in items.into_iter().rev() {
                    let Value::Object(fields) = item else { return false };
                    self.add(fields);
                }
            }
            _ => return false,
        }
        true
    }

    fn add(&mut self, fields: Map<String, Value>) {
        for (key, value) in fields {
            if !self.has_written(&key) {
                self.merged.insert(key.clone());
            }
            self.fields.insert(key, value);
        }
    }
}

/// Reads the key of a mapping as sigs.k8s.io/yaml does: as a value first, then as that value's text.
struct Key<'b> {
    budget: &'b Budget,
    /// The mapping so far. It is looked at here, so that the error is told to be where the key is.
    taken: &'b Mapping,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Key<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_bool<E: serde::de::Error>(self, key: bool) -> Result<String, E> {
        self.visit_string(key.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, key: i64) -> Result<String, E> {
        self.visit_string(key.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, key: u64) -> Result<String, E> {
        match i64::try_from(key) {
            Ok(key) => self.visit_i64(key),
            Err(_) => Err(self.budget.refuse("a key is a number beyond 64 bits: quote it")),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, key: f64) -> Result<String, E> {
        self.visit_string(go_float_key(key))
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<String, E> {
        self.visit_string(key.to_owned())
    }

    fn visit_string<E: serde::de::Error>(self, key: String) -> Result<String, E> {
        self.budget.spend(key.len())?;
        if self.taken.has_written(&key) { Err(self.budget.refuse(TWICE)) } else { Ok(key) }
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<String, E> {
        Err(self.budget.refuse("a key is null: quote it"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<String, A::Error> {
        Err(self.budget.refuse("a key is a list: quote it, or close its brackets"))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<String, A::Error> {
        Err(self.budget.refuse("a key is a mapping: quote it, or close its braces"))
    }
}

/// What Go's `strconv.FormatFloat(key, 'g', -1, 32)` writes, which is how sigs.k8s.io/yaml spells a key that
/// is a float: `1.10` becomes `1.1`, and `1500000.0` becomes `1.5e+06`.
#[expect(clippy::cast_possible_truncation)]
fn go_float_key(key: f64) -> String {
    let key = key as f32;
    let scientific = format!("{key:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.abs())
    } else {
        format!("{key}")
    }
}

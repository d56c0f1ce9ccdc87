//! What JSON takes in memory, in bytes. A value may take eighty times its text, for `{"a":0}` is a map of its own: so
//! what others send, and what comes of what they declare, is bounded by memory and not by text.
//!
//! The figures are those of a 64-bit machine, and never too small.

use std::{cell::Cell, fmt};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::mutants::{self, Mutant};

/// A value, with what the allocator and a growing list add to it.
pub const NODE: usize = 64;
/// A leaf of a map: room for 11 entries.
const LEAF: usize = 640;
/// A leaf that was split holds at least so many entries.
const SPLIT: usize = 6;
/// What the first item adds to a list besides itself: room for three more.
pub const ITEMS: usize = 64;
/// The most that one object of a member may take: an API server stores 1.5 MiB of text, and takes 3.
pub const OBJECT_MAX: usize = 64 << 20;

/// What the entry with this index adds to a map, besides its key's text and its value.
pub fn entry(index: usize) -> usize {
    if index.is_multiple_of(SPLIT) { LEAF } else { 0 }
}

/// What a value takes.
pub fn of(value: &Value) -> usize {
    NODE + match value {
        Value::String(text) => text.len(),
        Value::Array(items) if items.is_empty() => 0,
        Value::Array(items) => ITEMS + items.iter().map(of).sum::<usize>(),
        Value::Object(fields) => {
            let entries = fields.iter().enumerate();
            entries.map(|(index, (key, value))| entry(index) + key.len() + of(value)).sum()
        }
        _ => 0,
    }
}

/// How much may still be taken, in bytes.
#[derive(Debug)]
pub struct Room(Cell<usize>);

impl Room {
    /// Room for this many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Cell::new(bytes))
    }

    /// Takes some of it. False: there is not as much, and none is left.
    #[must_use]
    pub fn take(&self, bytes: usize) -> bool {
        let left = self.0.get().checked_sub(bytes);
        self.0.set(left.unwrap_or(0));
        left.is_some()
    }
}

/// JSON of at most [`OBJECT_MAX`] bytes; what takes more is not read to its end.
#[derive(Debug)]
pub struct Bounded(pub Value);

impl<'de> Deserialize<'de> for Bounded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let room = Room::new(OBJECT_MAX);
        Reading(&room).deserialize(deserializer).map(Bounded)
    }
}

#[derive(Clone, Copy)]
struct Reading<'r>(&'r Room);

impl Reading<'_> {
    fn take<E: Error>(self, bytes: usize) -> Result<(), E> {
        match self.0.take(bytes) || mutants::is(Mutant::UnboundedValue) {
            true => Ok(()),
            false => Err(E::custom("it takes too much memory")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Reading<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.take(NODE)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reading<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.visit_string(value.to_owned())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        self.take(value.len())?;
        Ok(Value::String(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self)? {
            if items.is_empty() {
                self.take(ITEMS)?;
            }
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            self.take(entry(fields.len()) + key.len())?;
            fields.insert(key, map.next_value_seed(self)?);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1000..1000).prop_map(|at| Value::from(f64::from(at) / 8.0)),
            "[a-z]{0,20}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 20, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
                prop::collection::btree_map("[a-z]{0,4}", inner, 0..20)
                    .prop_map(|map| Value::from(map.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_read_within_bounds_is_what_was_written(value in any_value()) {
            let read: Bounded = serde_json::from_str(&value.to_string()).unwrap();
            prop_assert_eq!(read.0, value);
        }
    }

    #[test]
    fn what_takes_more_than_its_text_shows_is_not_read() {
        let maps = |count: usize| format!("[{}]", vec![r#"{"a":0}"#; count].join(","));
        assert!(serde_json::from_str::<Bounded>(&maps(80_000)).is_ok(), "640 KB of text");
        assert!(serde_json::from_str::<Bounded>(&maps(100_000)).is_err(), "800 KB of text");
        let numbers = |count: usize| format!("[{}]", vec!["0"; count].join(","));
        assert!(serde_json::from_str::<Bounded>(&numbers(900_000)).is_ok());
        assert!(serde_json::from_str::<Bounded>(&numbers(1_100_000)).is_err());
    }

    #[test]
    fn a_value_weighs_what_its_parts_weigh() {
        assert_eq!(of(&json!("abc")), NODE + 3);
        assert_eq!(of(&json!([0, null])), 3 * NODE + ITEMS);
        assert_eq!(of(&json!({"ab": true})), 2 * NODE + 640 + 2);
        let twelve: Map<_, _> = (0..12).map(|at| (format!("{at:02}"), json!(0))).collect();
        assert_eq!(of(&Value::from(twelve)), 13 * NODE + 2 * 640 + 24);
    }
}

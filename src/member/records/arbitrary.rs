//! The fold takes whatever a member sends, and goes on.

use serde_json::{Map, Number, Value, json};

use super::tests::{applied, desired, gvk, key, live, owner};
use super::*;
use crate::member::live::Live;

/// Chance, from a seed.
struct Chance(fastrand::Rng);

impl Chance {
    fn text(&mut self) -> String {
        let odd = [
            "",
            "a",
            "vidra/h1/team/shop",
            "Apply",
            "owner.vidra.dev/x",
            "\u{0}\u{1b}<b>",
            "f:data",
            "k:{\"name\":\"a\"}",
            ".",
        ];
        match self.0.u8(..16) {
            0 => "x".repeat(5000),
            nth => odd[usize::from(nth) % odd.len()].to_owned(),
        }
    }

    fn value(&mut self, depth: u8) -> Value {
        match self.0.u8(..if depth == 0 { 5 } else { 8 }) {
            0 => Value::Null,
            1 => Value::Bool(self.0.bool()),
            2 => Value::Number(Number::from(self.0.i64(..))),
            3 => json!(self.0.f64()),
            4 => Value::String(self.text()),
            5 => (0..self.0.u8(..4)).map(|_| self.value(depth - 1)).collect(),
            _ => Value::Object(
                (0..self.0.u8(..4)).map(|_| (self.text(), self.value(depth - 1))).collect::<Map<_, _>>(),
            ),
        }
    }

    /// Puts something else somewhere into a value.
    fn disturb(&mut self, value: &mut Value) {
        let place = match value {
            Value::Object(map) if !map.is_empty() && self.0.u8(..8) > 0 => {
                let nth = self.0.usize(..map.len());
                map.values_mut().nth(nth)
            }
            Value::Array(list) if !list.is_empty() && self.0.u8(..8) > 0 => {
                let nth = self.0.usize(..list.len());
                list.get_mut(nth)
            }
            _ => None,
        };
        match place {
            Some(place) => self.disturb(place),
            None => *value = self.value(3),
        }
    }
}

#[test]
fn whatever_an_object_looks_like_it_is_folded_without_a_panic() {
    let mut chance = Chance(fastrand::Rng::with_seed(7));
    let records = applied();
    for version in 11..6000 {
        let mut object = live(version, "fast", version % 2 == 0).json;
        if version % 7 == 0 {
            object = chance.value(4);
        }
        for _ in 0..chance.0.u8(..4) {
            chance.disturb(&mut object);
        }
        let source = match version % 3 {
            0 => Source::Watch,
            1 => Source::List(records.mark()),
            _ => Source::Read,
        };
        records.fold(&gvk(), Live::from(object), source);
        records.view(&owner(), &key(), &desired());
    }
    // And what is whole is read as ever.
    records.fold(&gvk(), live(9999, "fast", true), Source::Answer(&owner()));
    assert!(records.version(&key()) == Some(9999));
}

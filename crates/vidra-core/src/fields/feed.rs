//! Canonical bytes of JSON into xxh3, without allocating.

use serde_json::{Map, Value};
use xxhash_rust::xxh3::Xxh3;

use super::element::Element;
use super::literal::{Canonical, Literal, canonical};

/// Tags before values, so that no two different sequences make the same bytes.
mod tags {
    pub(super) const NULL: u8 = 0x10;
    pub(super) const FALSE: u8 = 0x11;
    pub(super) const TRUE: u8 = 0x12;
    pub(super) const INT: u8 = 0x13;
    pub(super) const FLOAT: u8 = 0x14;
    pub(super) const STRING: u8 = 0x15;
    pub(super) const LIST: u8 = 0x16;
    pub(super) const MAP: u8 = 0x17;
    pub(super) const FIELD: u8 = 0x20;
    pub(super) const KEY: u8 = 0x21;
    pub(super) const MEMBER: u8 = 0x22;
    pub(super) const INDEX: u8 = 0x23;
}

/// An xxh3 state that takes tagged, length-prefixed content. Numbers are little endian.
#[derive(Default)]
pub(super) struct Feed(Xxh3);

impl Feed {
    pub(super) fn tag(&mut self, tag: u8) {
        self.0.update(&[tag]);
    }

    pub(super) fn length(&mut self, length: usize) {
        self.0.update(&(length as u64).to_le_bytes());
    }

    pub(super) fn finish(&self) -> u64 {
        self.0.digest()
    }

    fn text(&mut self, text: &str) {
        self.length(text.len());
        self.0.update(text.as_bytes());
    }

    fn int(&mut self, number: i64) {
        self.tag(tags::INT);
        self.0.update(&number.to_le_bytes());
    }

    fn float(&mut self, bits: u64) {
        self.tag(tags::FLOAT);
        self.0.update(&bits.to_le_bytes());
    }

    /// A value, canonical: keys sorted, whole floats as integers.
    pub(super) fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.tag(tags::NULL),
            Value::Bool(false) => self.tag(tags::FALSE),
            Value::Bool(true) => self.tag(tags::TRUE),
            Value::Number(n) => match canonical(n) {
                Canonical::Int(i) => self.int(i),
                Canonical::Float(f) => self.float(f.to_bits()),
            },
            Value::String(s) => {
                self.tag(tags::STRING);
                self.text(s);
            }
            Value::Array(items) => {
                self.tag(tags::LIST);
                self.length(items.len());
                items.iter().for_each(|item| self.value(item));
            }
            Value::Object(map) => self.map_without(map, |_| false),
        }
    }

    /// A map without the keys that `left_out` names.
    pub(super) fn map_without(&mut self, map: &Map<String, Value>, left_out: impl Fn(&str) -> bool) {
        self.tag(tags::MAP);
        self.length(map.keys().filter(|key| !left_out(key)).count());
        // serde_json keeps its maps sorted unless some crate in the build asks for preserve_order.
        if map.keys().is_sorted() {
            self.entries(map.iter(), left_out);
        } else {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            self.entries(entries.into_iter(), left_out);
        }
    }

    fn entries<'a>(
        &mut self,
        entries: impl Iterator<Item = (&'a String, &'a Value)>,
        left_out: impl Fn(&str) -> bool,
    ) {
        for (key, value) in entries.filter(|(key, _)| !left_out(key)) {
            self.text(key);
            self.value(value);
        }
    }

    pub(super) fn element(&mut self, element: &Element) {
        match element {
            Element::Field(name) => {
                self.tag(tags::FIELD);
                self.text(name);
            }
            Element::Key(pairs) => {
                self.tag(tags::KEY);
                self.pairs(pairs);
            }
            Element::Member(literal) => {
                self.tag(tags::MEMBER);
                self.literal(literal);
            }
            Element::Index(i) => {
                self.tag(tags::INDEX);
                self.int(i64::from(*i));
            }
        }
    }

    fn pairs(&mut self, pairs: &[(Box<str>, Literal)]) {
        self.length(pairs.len());
        for (name, literal) in pairs {
            self.text(name);
            self.literal(literal);
        }
    }

    fn literal(&mut self, literal: &Literal) {
        match literal {
            Literal::Null => self.tag(tags::NULL),
            Literal::Bool(b) => self.tag(if *b { tags::TRUE } else { tags::FALSE }),
            Literal::Int(i) => self.int(*i),
            Literal::Float(r) => self.float(r.bits()),
            Literal::Str(s) => {
                self.tag(tags::STRING);
                self.text(s);
            }
            Literal::List(items) => {
                self.tag(tags::LIST);
                self.length(items.len());
                items.iter().for_each(|item| self.literal(item));
            }
            Literal::Map(pairs) => {
                self.tag(tags::MAP);
                self.pairs(pairs);
            }
        }
    }
}

/// A hash of an entry's fieldsV1 as it is written, without reading it into a set and without allocating: equal
/// hashes, equal sets, so that a set already interned is found without parsing. Different ones promise nothing: an
/// API server could spell the same set in another way.
pub fn raw_fingerprint(fields_v1: &Value) -> u64 {
    let mut feed = Feed::default();
    feed.value(fields_v1);
    feed.finish()
}

//! Values of expressions: parts of the object, lent, and what is made of them. A copy of one is cheap.

use std::{cmp::Ordering, collections::BTreeMap, ops::Deref, rc::Rc};

use serde_json::Value as Json;

/// One value.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Text<'a>),
    /// A list or map of the object.
    Lent(&'a Json),
    List(Rc<Vec<Value<'a>>>),
    Map(Rc<BTreeMap<Rc<str>, Value<'a>>>),
    Optional(Option<Rc<Value<'a>>>),
    /// Nanoseconds since 1970.
    Time(i128),
    /// Nanoseconds.
    Span(i128),
}

/// A text of the object or the expression, or one that was made.
#[derive(Clone, Debug)]
pub(super) enum Text<'a> {
    Lent(&'a str),
    Made(Rc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Lent(text) => text,
            Text::Made(text) => text,
        }
    }
}

impl Text<'_> {
    /// Copied, unless it was made.
    pub(super) fn shared(self) -> Rc<str> {
        match self {
            Text::Lent(text) => text.into(),
            Text::Made(text) => text,
        }
    }
}

impl<'a> Value<'a> {
    pub(super) fn of_json(json: &'a Json) -> Value<'a> {
        match json {
            Json::Null => Value::Null,
            Json::Bool(truth) => Value::Bool(*truth),
            Json::Number(number) => match number.as_i64() {
                Some(number) => Value::Int(number),
                None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::Text(Text::Lent(text)),
            Json::Array(_) | Json::Object(_) => Value::Lent(json),
        }
    }

    pub(super) fn some(value: Value<'a>) -> Value<'a> {
        Value::Optional(Some(Rc::new(value)))
    }

    pub(super) fn count(count: usize) -> Value<'a> {
        Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// What it is, for messages; never what it holds.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a bool",
            Value::Int(_) | Value::Double(_) => "a number",
            Value::Text(_) => "a text",
            Value::Lent(Json::Array(_)) | Value::List(_) => "a list",
            Value::Lent(_) | Value::Map(_) => "a map",
            Value::Optional(_) => "an optional",
            Value::Time(_) => "a timestamp",
            Value::Span(_) => "a duration",
        }
    }

    /// The item of a map.
    pub(super) fn get(&self, key: &str) -> Option<Value<'a>> {
        match self {
            Value::Lent(json) => json.get(key).map(Value::of_json),
            Value::Map(map) => map.get(key).cloned(),
            _ => None,
        }
    }

    /// The item of a list.
    pub(super) fn at(&self, index: i64) -> Option<Value<'a>> {
        let index = usize::try_from(index).ok()?;
        match self {
            Value::Lent(json) => json.get(index).map(Value::of_json),
            Value::List(list) => list.get(index).cloned(),
            _ => None,
        }
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self, Value::Lent(Json::Object(_)) | Value::Map(_))
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self, Value::Lent(Json::Array(_)) | Value::List(_))
    }

    /// The items of a list, the keys of a map.
    pub(super) fn items(&self) -> Option<Vec<Value<'a>>> {
        Some(match self {
            Value::Lent(Json::Array(items)) => items.iter().map(Value::of_json).collect(),
            Value::Lent(Json::Object(map)) => map.keys().map(|key| Value::Text(Text::Lent(key))).collect(),
            Value::List(items) => items.to_vec(),
            Value::Map(map) => map.keys().map(|key| Value::Text(Text::Made(key.clone()))).collect(),
            _ => return None,
        })
    }

    /// Characters of a text, items of a list, entries of a map.
    pub(super) fn size(&self) -> Option<i64> {
        let size = match self {
            Value::Text(text) => text.chars().count(),
            Value::Lent(Json::Array(items)) => items.len(),
            Value::Lent(Json::Object(map)) => map.len(),
            Value::List(items) => items.len(),
            Value::Map(map) => map.len(),
            _ => return None,
        };
        i64::try_from(size).ok()
    }

    /// Bytes of a text, for what reading it costs.
    pub(super) fn text_length(&self) -> usize {
        if let Value::Text(text) = self { text.len() } else { 0 }
    }

    pub(super) fn is_zero(&self) -> bool {
        match self {
            Value::Null | Value::Bool(false) | Value::Int(0) | Value::Optional(None) => true,
            Value::Double(number) => *number == 0.0,
            Value::Text(text) => text.is_empty(),
            other => other.size() == Some(0),
        }
    }

    /// Which comes first, where that is to be said.
    pub(super) fn order(&self, other: &Value<'_>) -> Option<Ordering> {
        match (self, other) {
            (Value::Int(one), Value::Int(other)) => Some(one.cmp(other)),
            (Value::Int(one), Value::Double(other)) => (*one as f64).partial_cmp(other),
            (Value::Double(one), Value::Int(other)) => one.partial_cmp(&(*other as f64)),
            (Value::Double(one), Value::Double(other)) => one.partial_cmp(other),
            (Value::Text(one), Value::Text(other)) => Some((**one).cmp(&**other)),
            (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
            (Value::Time(one), Value::Time(other)) | (Value::Span(one), Value::Span(other)) => {
                Some(one.cmp(other))
            }
            _ => None,
        }
    }
}

//! Objects of built-in kinds as the real server's Go types hold them: what is not declared goes, wrong types
//! are refused, structs are always there, zeros that are not stored go, quantities are canonical, and what
//! the defaults' table says is filled in.

use base64::Engine;
use serde_json::{Map as Object, Value, json};

use super::quantity;
use super::schema::{Field, Form, List, Map, Scalar, Types};
use super::smd::Typed;

/// What reading an object found beside the object.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Fields that are not declared, as dotted paths.
    pub unknown: Vec<String>,
    /// The first value of a wrong type: its path and what is wrong.
    pub wrong: Option<(String, String)>,
    /// There are empty lists that are stored as null. Until then they are lists: who wrote them owns them.
    pub emptied: bool,
}

/// Gives an object the form in which it is stored. With `defaults` the server's are filled in.
pub(super) fn normal(typed: Typed<'_>, object: &Value, defaults: bool) -> (Value, Report) {
    let mut shaper = Shaper { defaults, stored: false, report: Report::default(), path: String::new() };
    let shaped = shaper.value(typed, object).unwrap_or_else(|| json!({}));
    (shaped, shaper.report)
}

/// The form in which empty lists are null where the real server has them so.
pub(super) fn stored(typed: Typed<'_>, object: &Value) -> Value {
    let mut shaper = Shaper { defaults: false, stored: true, report: Report::default(), path: String::new() };
    shaper.value(typed, object).unwrap_or_else(|| json!({}))
}

struct Shaper {
    defaults: bool,
    stored: bool,
    report: Report,
    path: String,
}

impl Shaper {
    fn below<T>(&mut self, step: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        if !step.starts_with('[') && length > 0 {
            self.path.push('.');
        }
        self.path.push_str(step);
        let done = work(self);
        self.path.truncate(length);
        done
    }

    fn refuse(&mut self, value: &Value, wanted: &str) {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let why = format!("cannot unmarshal {kind} into a field of type {wanted}");
        self.report.wrong.get_or_insert((self.path.clone(), why));
    }

    /// `None` for null, and for what cannot be read.
    fn value(&mut self, typed: Typed<'_>, value: &Value) -> Option<Value> {
        if value.is_null() {
            return None;
        }
        let types = typed.types;
        match types.atom(typed.of).fitting(value) {
            Form::None => None,
            Form::Scalar(scalar) => self.scalar(scalar, value),
            Form::List(list) => match value {
                Value::Array(items) => Some(self.items(typed, list, items)),
                other => {
                    self.refuse(other, "list");
                    None
                }
            },
            Form::Map(map) => match value {
                Value::Object(entries) => Some(Value::Object(self.entries(typed, map, entries))),
                other => {
                    self.refuse(other, "map");
                    None
                }
            },
        }
    }

    fn items(&mut self, typed: Typed<'_>, list: &List, items: &[Value]) -> Value {
        let inner = Typed { of: list.items, ..typed };
        let shaped = items.iter().enumerate().map(|(index, item)| {
            let shaped = self.below(&format!("[{index}]"), |shaper| shaper.value(inner, item));
            shaped.unwrap_or_else(|| zero(inner))
        });
        Value::Array(shaped.collect())
    }

    fn entries(
        &mut self,
        typed: Typed<'_>,
        map: &Map,
        entries: &Object<String, Value>,
    ) -> Object<String, Value> {
        let mut shaped = Object::new();
        for (key, value) in entries {
            let (of, field) = match (map.fields.get(key.as_str()), map.values) {
                (Some(field), _) => (field.of, Some(field)),
                (None, Some(of)) => (of, None),
                (None, None) => {
                    let path = &self.path;
                    let dot = if path.is_empty() { "" } else { "." };
                    self.report.unknown.push(format!("{path}{dot}{key}"));
                    continue;
                }
            };
            let inner = Typed { of, ..typed };
            let value = self.below(key, |shaper| shaper.value(inner, value));
            let required = map.required.iter().any(|name| **name == **key);
            match (value, field) {
                (Some(Value::Array(list)), Some(field))
                    if list.is_empty() && (required || field.writes_null) =>
                {
                    self.report.emptied = true;
                    if !self.stored {
                        shaped.insert(key.clone(), json!([]));
                    }
                }
                (Some(value), Some(field)) if !required && is_omitted(inner, key, field, &value) => {}
                (Some(value), _) => {
                    shaped.insert(key.clone(), value);
                }
                // A null in a map is an entry with the zero value; in a struct it is no value.
                (None, None) => {
                    shaped.insert(key.clone(), zero(inner));
                }
                (None, Some(_)) => {}
            }
        }
        for (name, field) in &map.fields {
            if shaped.contains_key(&**name) {
                continue;
            }
            let inner = Typed { of: field.of, ..typed };
            let given = field.server.as_ref().filter(|_| self.defaults);
            let is_struct = field.default.as_ref().is_some_and(|default| *default == json!({}));
            let required = map.required.iter().any(|required| required == name);
            let filled = match (given, &field.default) {
                (Some(given), _) => self.value(inner, given),
                (None, _) if is_struct => self.value(inner, &json!({})),
                (None, Some(zero)) if required || *zero == json!(0) || *zero == json!(false) => {
                    Some(zero.clone())
                }
                (None, None) if field.writes_null || (required && !is_text(inner)) => Some(Value::Null),
                (None, _) => None,
            };
            if let Some(filled) = filled {
                shaped.insert(name.to_string(), filled);
            }
        }
        shaped
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value) -> Option<Value> {
        let (fits, wanted) = match scalar {
            Scalar::String => (value.is_string(), "string"),
            Scalar::Bytes => {
                let text = value.as_str();
                let readable =
                    text.is_some_and(|text| base64::engine::general_purpose::STANDARD.decode(text).is_ok());
                (readable, "bytes in base64")
            }
            Scalar::Time => {
                let text = value.as_str();
                (text.is_some_and(|text| text.parse::<jiff::Timestamp>().is_ok()), "time")
            }
            Scalar::Integer => (value.is_i64() || value.is_u64(), "integer"),
            Scalar::Number => (value.is_number(), "number"),
            Scalar::Boolean => (value.is_boolean(), "bool"),
            Scalar::IntOrString => (value.is_string() || value.is_i64(), "int or string"),
            Scalar::Quantity => {
                let canonical = quantity::canonical(value);
                if canonical.is_some() {
                    return canonical.map(Value::String);
                }
                (false, "quantity")
            }
            Scalar::Any => (true, ""),
        };
        if !fits {
            self.refuse(value, wanted);
            return None;
        }
        Some(value.clone())
    }
}

/// Optional texts that are kept when they are empty: pointers in Go.
const POINTERS: [&str; 4] =
    ["storageClassName", "ingressClassName", "appProtocol", "volumeAttributesClassName"];

/// What Go's encoder leaves out of an optional field. Structs are never left out.
fn is_omitted(typed: Typed<'_>, name: &str, field: &Field, value: &Value) -> bool {
    match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => {
            // A struct without fields is read as a map of anything.
            let of = typed.types.atom(typed.of).map.as_ref();
            let is_map = of.is_some_and(|map| map.fields.is_empty() && map.values != Some(Types::DEDUCED));
            map.is_empty() && is_map
        }
        Value::String(text) => text.is_empty() && field.server.is_none() && !POINTERS.contains(&name),
        Value::Bool(false) => field.omits_zero,
        Value::Number(number) => field.omits_zero && number.as_i64() == Some(0),
        _ => false,
    }
}

fn is_text(typed: Typed<'_>) -> bool {
    typed.types.atom(typed.of).scalar == Some(Scalar::String)
}

/// The zero value of a type.
fn zero(typed: Typed<'_>) -> Value {
    match typed.types.atom(typed.of).first() {
        Form::Scalar(Scalar::Integer | Scalar::Number) => json!(0),
        Form::Scalar(Scalar::Boolean) => json!(false),
        Form::Scalar(Scalar::Quantity) => json!("0"),
        Form::Scalar(Scalar::Any) | Form::None => Value::Null,
        Form::Scalar(_) => json!(""),
        Form::List(_) => json!([]),
        Form::Map(_) => json!({}),
    }
}

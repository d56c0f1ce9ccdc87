//! A document against its type: is it well formed, and which fields does it declare?

use std::collections::BTreeSet;

use serde_json::{Map as Object, Value};

use super::element::{Element, Path};
use super::set::Set;
use crate::schema::{Form, Items, List, Map, Scalar, TypeId, Types};

/// A type and the types that it refers to.
#[derive(Clone, Copy, Debug)]
pub struct Typed<'a> {
    /// Where the type is looked up.
    pub types: &'a Types,
    /// The type of the document.
    pub of: TypeId,
}

impl<'a> Typed<'a> {
    pub(super) fn at(self, of: TypeId) -> Self {
        Typed { of, ..self }
    }

    pub(super) fn form(self, value: &Value) -> Form<'a> {
        self.types.atom(self.of).fitting(value)
    }
}

/// The type of an entry: that of the declared field, or of the map's values.
pub(super) fn entry_type(map: &Map, key: &str) -> Option<TypeId> {
    map.fields.get(key).map(|field| field.of).or(map.values)
}

/// The element that names an item of a list that is no atomic one, or why it has none.
pub fn list_element(types: &Types, list: &List, item: &Value) -> Result<Element, String> {
    match &list.relation {
        Items::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        Items::Set => match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
            scalar => Ok(Element::value(scalar)),
        },
        Items::Map(keys) => {
            let Some(item) = item.as_object() else {
                let what = if item.is_null() { "a null element" } else { "non-map elements" };
                return Err(format!("associative list with keys may not have {what}"));
            };
            let fields = types.atom(list.items).map.as_ref().map(|map| &map.fields);
            let default = |key: &str| fields.and_then(|fields| fields.get(key)?.default.clone());
            let found = keys.iter().filter_map(|key| {
                let value = item.get(key).cloned().or_else(|| default(key))?;
                Some((key.clone(), value))
            });
            let found: Object<String, Value> = found.collect();
            if found.is_empty() {
                return Err(format!(
                    "associative list with keys has an element that omits all key fields {keys:?} \
                     (and doesn't have default values for any key fields)"
                ));
            }
            Ok(Element::key(found))
        }
    }
}

/// Is there a name for an item? [`list_element`] makes it, or says why there is none.
fn is_named(types: &Types, list: &List, item: &Value) -> bool {
    match &list.relation {
        Items::Atomic => false,
        Items::Set => !(item.is_object() || item.is_array() || item.is_null()),
        Items::Map(keys) => {
            let fields = types.atom(list.items).map.as_ref().map(|map| &map.fields);
            let has_default =
                |key: &str| fields.and_then(|fields| fields.get(key)?.default.as_ref()).is_some();
            item.as_object()
                .is_some_and(|item| keys.iter().any(|key| item.contains_key(key) || has_default(key)))
        }
    }
}

/// All that is wrong with a document: path and reason. Duplicates in map lists and sets are wrong unless
/// they are allowed, as they are in what is stored.
pub fn validate(typed: Typed<'_>, value: &Value, duplicates: bool) -> Result<(), Vec<String>> {
    let mut check = Check { types: typed.types, duplicates, wrong: Vec::new(), path: Vec::new() };
    check.value(typed, value);
    if check.wrong.is_empty() { Ok(()) } else { Err(check.wrong) }
}

struct Check<'v> {
    types: &'v Types,
    duplicates: bool,
    wrong: Vec<String>,
    path: Vec<Step<'v>>,
}

/// One step down. It is printed only where something is wrong: each write is checked, and few are refused.
enum Step<'v> {
    Field(&'v str),
    Place(usize),
    Item(&'v List, &'v Value),
}

impl Step<'_> {
    fn printed(&self, types: &Types) -> String {
        match self {
            Step::Field(name) => format!(".{name}"),
            Step::Place(index) => format!("[{index}]"),
            // Nothing goes into an item without a name.
            Step::Item(list, item) => {
                list_element(types, list, item).map_or_else(|why| why, |element| element.to_string())
            }
        }
    }
}

impl<'v> Check<'v> {
    fn refuse(&mut self, why: &str) {
        let path: String = self.path.iter().map(|step| step.printed(self.types)).collect();
        self.wrong.push(if path.is_empty() { why.to_owned() } else { format!("{path}: {why}") });
    }

    fn below(&mut self, step: Step<'v>, check: impl FnOnce(&mut Self)) {
        self.path.push(step);
        check(self);
        self.path.pop();
    }

    fn value(&mut self, typed: Typed<'v>, value: &'v Value) {
        match typed.form(value) {
            Form::None => self.refuse("schema error: invalid atom"),
            Form::Scalar(scalar) => {
                if let Err(why) = scalar_fits(scalar, value) {
                    self.refuse(&why);
                }
            }
            Form::List(list) => match value {
                Value::Null => {}
                Value::Array(items) => self.items(typed, list, items),
                other => self.refuse(&format!("expected list, got {}", printed(other))),
            },
            Form::Map(map) => match value {
                Value::Null => {}
                Value::Object(entries) => self.entries(typed, map, entries),
                other => self.refuse(&format!("expected map, got {}", printed(other))),
            },
        }
    }

    fn items(&mut self, typed: Typed<'v>, list: &'v List, items: &'v [Value]) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let step = if list.relation == Items::Atomic {
                Step::Place(index)
            } else {
                // Where duplicates are allowed a name only has to be there.
                if !(self.duplicates && is_named(typed.types, list, item)) {
                    match list_element(typed.types, list, item) {
                        Err(why) => return self.refuse(&format!("element {index}: {why}")),
                        Ok(element) => {
                            if seen.contains(&element) && !self.duplicates {
                                self.refuse(&format!("duplicate entries for key {element}"));
                            }
                            seen.insert(element);
                        }
                    }
                }
                Step::Item(list, item)
            };
            self.below(step, |check| check.value(typed.at(list.items), item));
        }
    }

    fn entries(&mut self, typed: Typed<'v>, map: &'v Map, entries: &'v Object<String, Value>) {
        for (key, value) in entries {
            self.below(Step::Field(key), |check| match entry_type(map, key) {
                None => check.refuse("field not declared in schema"),
                Some(of) => check.value(typed.at(of), value),
            });
        }
    }
}

/// As Go prints a value in these messages.
fn printed(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => value.to_string(),
        other => format!("&{{{}}}", other.as_str().map_or_else(|| other.to_string(), str::to_owned)),
    }
}

fn scalar_fits(scalar: Scalar, value: &Value) -> Result<(), String> {
    let fits = match scalar {
        _ if value.is_null() => true,
        Scalar::Integer | Scalar::Number => value.is_number(),
        Scalar::String | Scalar::Bytes => value.is_string(),
        Scalar::Boolean => value.is_boolean(),
        Scalar::Time | Scalar::IntOrString | Scalar::Quantity | Scalar::Any => {
            !value.is_array() && !value.is_object()
        }
    };
    let wanted = match scalar {
        Scalar::Integer | Scalar::Number => "numeric (int or float)",
        Scalar::String | Scalar::Bytes => "string",
        Scalar::Boolean => "boolean",
        _ => "any scalar",
    };
    if fits { Ok(()) } else { Err(format!("expected {wanted}, got {}", printed(value))) }
}

/// What an apply of this document owns: its leaves, items, empties and nulls.
pub fn fields(typed: Typed<'_>, value: &Value) -> Set {
    let mut set = Set::default();
    collect(typed, value, &mut Path::new(), &mut set);
    set
}

fn collect(typed: Typed<'_>, value: &Value, path: &mut Path, set: &mut Set) {
    match typed.form(value) {
        Form::None => {}
        Form::Scalar(_) => set.insert(path),
        Form::List(list) if list.relation == Items::Atomic => set.insert(path),
        Form::List(list) => {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            // One that taking fields out has left without a name still holds its place.
            let named: Vec<_> = items
                .iter()
                .map(|item| {
                    let element = list_element(typed.types, list, item);
                    (element.unwrap_or_else(|_| Element::nameless()), item)
                })
                .collect();
            for (element, item) in &named {
                let twice = named.iter().filter(|(other, _)| other == element).count() > 1;
                path.push(element.clone());
                if !twice {
                    collect(typed.at(list.items), item, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        Form::Map(map) if map.atomic => set.insert(path),
        Form::Map(map) => {
            for (key, value) in value.as_object().into_iter().flatten() {
                path.push(Element::field(key));
                if let Some(of) = entry_type(map, key) {
                    collect(typed.at(of), value, path, set);
                }
                let empty = value.is_null() || value.as_object().is_some_and(Object::is_empty);
                if empty || !map.fields.contains_key(key.as_str()) {
                    set.insert(path);
                }
                path.pop();
            }
        }
    }
}

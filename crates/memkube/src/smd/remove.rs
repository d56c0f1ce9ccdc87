//! Taking fields out of a document.

use serde_json::{Map as Object, Value};

use super::element::Element;
use super::set::Set;
use super::typed::{Typed, entry_type, list_element};
use crate::schema::{Form, Items};

/// The document without the members of the set. What is emptied by that becomes null: an emptied map or
/// list that is no declared field itself is a member of the set where it is to go.
pub fn remove(typed: Typed<'_>, value: &Value, gone: &Set) -> Value {
    match (typed.form(value), value) {
        (Form::Scalar(_) | Form::None, value) => value.clone(),
        (Form::List(list), Value::Array(items)) if list.relation != Items::Atomic && !items.is_empty() => {
            let left = items.iter().filter_map(|item| {
                let Ok(element) = list_element(typed.types, list, item) else { return Some(item.clone()) };
                inner(typed.at(list.items), &element, item, gone)
            });
            let left: Vec<_> = left.collect();
            if left.is_empty() { Value::Null } else { Value::Array(left) }
        }
        (Form::Map(map), Value::Object(entries)) if !map.atomic && !entries.is_empty() => {
            let left = entries.iter().filter_map(|(key, value)| {
                let of = entry_type(map, key).unwrap_or(crate::schema::Types::DEDUCED);
                Some((key.clone(), inner(typed.at(of), &Element::field(key), value, gone)?))
            });
            let left: Object<_, _> = left.collect();
            if left.is_empty() { Value::Null } else { Value::Object(left) }
        }
        // Something below an atomic or an empty one is to go: nothing of it is left.
        _ => Value::Null,
    }
}

fn inner(typed: Typed<'_>, element: &Element, value: &Value, gone: &Set) -> Option<Value> {
    if gone.has(element) {
        return None;
    }
    Some(match gone.below(element) {
        Some(below) => remove(typed, value, below),
        None => value.clone(),
    })
}

//! Laying an applied document over the live one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map as Object, Value};

use super::element::Element;
use super::typed::{Typed, entry_type, list_element};
use crate::schema::{Form, Items, List, Map};

/// The live document with the applied one laid over it: maps and map lists merge, all else is replaced.
/// An empty map list declared over items, or null over a map, changes nothing: taking away is done by
/// [`remove`](super::remove).
pub fn merge(typed: Typed<'_>, live: &Value, applied: &Value) -> Value {
    values(typed, Some(live), Some(applied)).unwrap_or(Value::Null)
}

fn values(typed: Typed<'_>, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let kept = || applied.or(live).cloned();
    match typed.form(applied.or(live)?) {
        Form::None => None,
        Form::Scalar(_) => kept(),
        Form::List(list) => {
            let (before, after) = (list_of(live), list_of(applied));
            if list.relation == Items::Atomic || (before.is_empty() && after.is_empty()) {
                return kept();
            }
            let merged = items(typed, list, before, after);
            (!merged.is_empty()).then_some(Value::Array(merged))
        }
        Form::Map(map) => {
            let map_of = |value: Option<&'_ Value>| {
                value.and_then(Value::as_object).is_some_and(|map| !map.is_empty())
            };
            if map.atomic || (!map_of(live) && !map_of(applied)) {
                return kept();
            }
            let merged =
                entries(typed, map, live.and_then(Value::as_object), applied.and_then(Value::as_object));
            (!merged.is_empty()).then_some(Value::Object(merged))
        }
    }
}

fn list_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn entries(
    typed: Typed<'_>,
    map: &Map,
    live: Option<&Object<String, Value>>,
    applied: Option<&Object<String, Value>>,
) -> Object<String, Value> {
    let mut merged = Object::new();
    let only_applied =
        applied.into_iter().flatten().filter(|(key, _)| live.is_none_or(|live| !live.contains_key(*key)));
    for key in live.into_iter().flat_map(|live| live.keys()).chain(only_applied.map(|(key, _)| key)) {
        let (before, after) = (live.and_then(|live| live.get(key)), applied.and_then(|all| all.get(key)));
        let value = match (entry_type(map, key), before, after) {
            // Stored content of an older schema stays where nothing is said about it.
            (None, before, _) => before.cloned(),
            (_, Some(before), None) => Some(before.clone()),
            (Some(of), before, after) => values(typed.at(of), before, after),
        };
        if let Some(value) = value {
            merged.insert(key.clone(), value);
        }
    }
    merged
}

/// Items of both lists: those of the applied one in its order, those that only the live one has stay
/// before the item that follows them there.
fn items(typed: Typed<'_>, list: &List, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let name = |item: &Value| list_element(typed.types, list, item).ok();
    let mut left: VecDeque<(Element, &Value)> =
        live.iter().filter_map(|item| Some((name(item)?, item))).collect();
    let mut right: VecDeque<(Element, &Value)> =
        applied.iter().filter_map(|item| Some((name(item)?, item))).collect();
    let wanted: BTreeSet<Element> = right.iter().map(|(element, _)| element.clone()).collect();
    let mut known: BTreeMap<Element, &Value> = BTreeMap::new();
    for (element, item) in &left {
        // Of a duplicate nothing is merged.
        known.entry(element.clone()).and_modify(|item| *item = &Value::Null).or_insert(item);
    }
    let mut shared: VecDeque<Element> =
        right.iter().filter(|(element, _)| known.contains_key(element)).map(|(e, _)| e.clone()).collect();
    let mut next = shared.pop_front();
    let mut merged = BTreeSet::new();
    let mut out = Vec::new();
    let inner = typed.at(list.items);
    let merge_item = |element: &Element, item: &Value| values(inner, known.get(element).copied(), Some(item));

    while !left.is_empty() || !right.is_empty() {
        if let (Some((one, _)), Some((other, item))) = (left.front(), right.front()) {
            if one == other {
                out.extend(merge_item(other, item));
                merged.insert(other.clone());
                left.pop_front();
                right.pop_front();
                next = shared.pop_front();
                continue;
            }
            if wanted.contains(one) && next.as_ref().is_some_and(|next| next != one) {
                // Its turn comes later, where the applied list has it.
                left.pop_front();
                continue;
            }
        }
        if let Some((one, item)) = left.front() {
            if !wanted.contains(one) {
                out.extend(values(inner, Some(item), None));
                left.pop_front();
                continue;
            }
            if merged.contains(one) {
                left.pop_front();
            }
        }
        if let Some((element, item)) = right.pop_front() {
            out.extend(merge_item(&element, item));
            if next.as_ref() == Some(&element) {
                next = shared.pop_front();
            }
            merged.insert(element);
        }
    }
    out
}

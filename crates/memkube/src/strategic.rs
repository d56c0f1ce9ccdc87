//! Strategic merge patch, by the rules of apimachinery's strategicpatch: lists merge by the key or as the
//! sets that the schema says, and directives (`$patch`, `$retainKeys`, `$setElementOrder/…`,
//! `$deleteFromPrimitiveList/…`) say the rest.

use serde_json::{Map, Value};

use super::schema::{Field, Patch, Types};
use super::smd::Typed;

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// Changes an object as a patch says. The error says what is wrong with the patch.
pub(super) fn patch(typed: Typed<'_>, object: &mut Value, patch: &Value) -> Result<(), String> {
    match patch.as_object() {
        Some(patch) => map(typed, object, patch),
        None => Err("the patch is not a JSON object".to_owned()),
    }
}

fn map(typed: Typed<'_>, live: &mut Value, patch: &Map<String, Value>) -> Result<(), String> {
    match patch.get(DIRECTIVE).and_then(Value::as_str) {
        None | Some("merge") => {}
        Some("replace") => {
            let rest = patch.iter().filter(|(key, _)| *key != DIRECTIVE);
            *live = Value::Object(rest.map(|(key, value)| (key.clone(), value.clone())).collect());
            return Ok(());
        }
        Some("delete") => {
            *live = Value::Object(Map::new());
            return Ok(());
        }
        Some(other) => return Err(format!("unknown {DIRECTIVE} {other:?}")),
    }
    if !live.is_object() {
        *live = Value::Object(Map::new());
    }
    let Some(entries) = live.as_object_mut() else { return Ok(()) };
    if let Some(retained) = patch.get(RETAIN).and_then(Value::as_array) {
        entries.retain(|key, _| retained.iter().any(|one| one == key));
    }
    let ordered = patch.keys().any(|key| key.starts_with(ORDER));
    let before = if ordered { entries.clone() } else { Map::new() };
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        if value.is_null() {
            entries.remove(key);
            continue;
        }
        let (below, how) = field(typed, key);
        match value {
            Value::Object(value) => map(below, entries.entry(key.clone()).or_insert(Value::Null), value)?,
            Value::Array(value) if how.merge => {
                let live = entries.entry(key.clone()).or_insert(Value::Null);
                list(below, live, value, how.key.as_deref())?;
            }
            other => {
                entries.insert(key.clone(), other.clone());
            }
        }
    }
    for (key, value) in patch {
        let Some(value) = value.as_array() else { continue };
        if let Some(key) = key.strip_prefix(DELETE_FROM) {
            if let Some(list) = entries.get_mut(key).and_then(Value::as_array_mut) {
                list.retain(|item| !value.contains(item));
            }
        } else if let Some(key) = key.strip_prefix(ORDER) {
            let (_, how) = field(typed, key);
            if let Some(list) = entries.get_mut(key).and_then(Value::as_array_mut) {
                let live = before.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                order(list, live, value, how.key.as_deref());
            }
        }
    }
    Ok(())
}

/// The type of a map's field and how its patches are read.
fn field<'t>(typed: Typed<'t>, name: &str) -> (Typed<'t>, Patch) {
    let types = typed.types;
    let Some(map) = types.atom(typed.of).map.as_ref() else {
        return (Typed { types, of: Types::DEDUCED }, Patch::default());
    };
    match map.fields.get(name) {
        Some(Field { of, patch, .. }) => (Typed { types, of: *of }, patch.clone().unwrap_or_default()),
        None => (Typed { types, of: map.values.unwrap_or(Types::DEDUCED) }, Patch::default()),
    }
}

fn list(typed: Typed<'_>, live: &mut Value, patch: &[Value], key: Option<&str>) -> Result<(), String> {
    if !live.is_array() {
        *live = Value::Array(Vec::new());
    }
    let Some(items) = live.as_array_mut() else { return Ok(()) };
    let before = items.clone();
    let Some(key) = key else {
        for value in patch {
            if !items.contains(value) {
                items.push(value.clone());
            }
        }
        order(items, &before, patch, None);
        return Ok(());
    };
    let types = typed.types;
    let of = match types.atom(typed.of).list.as_ref() {
        Some(list) => list.items,
        None => Types::DEDUCED,
    };
    let says = |item: &Value, what: &str| item[DIRECTIVE] == what;
    if patch.iter().any(|item| says(item, "replace")) {
        *items = patch.iter().filter(|item| !says(item, "replace")).cloned().collect();
        return Ok(());
    }
    for value in patch {
        let named = &value[key];
        if named.is_null() {
            return Err(format!("map: {value} does not contain declared merge key: {key}"));
        }
        if says(value, "delete") {
            items.retain(|item| item[key] != *named);
            continue;
        }
        let Some(changes) = value.as_object() else { continue };
        match items.iter_mut().find(|item| item[key] == *named) {
            Some(item) => map(Typed { types, of }, item, changes)?,
            None => {
                let mut item = Value::Object(Map::new());
                map(Typed { types, of }, &mut item, changes)?;
                items.push(item);
            }
        }
    }
    order(items, &before, patch, Some(key));
    Ok(())
}

/// Puts the items that are named into the order given. The others keep that of the live list; each stands
/// before the first named one that it stood before there.
fn order(list: &mut Vec<Value>, live: &[Value], wanted: &[Value], key: Option<&str>) {
    let place = |item: &Value, all: &[Value]| {
        all.iter().position(|one| match key {
            Some(key) => one[key] == item[key],
            None => one == item,
        })
    };
    let (mut named, mut others): (Vec<_>, Vec<_>) =
        list.drain(..).partition(|item| place(item, wanted).is_some());
    named.sort_by_key(|item| place(item, wanted));
    others.sort_by_key(|item| place(item, live));
    let mut others = others.into_iter().peekable();
    for item in named {
        let at = place(&item, live);
        while let Some(other) =
            others.next_if(|other| at.is_some_and(|at| place(other, live).is_some_and(|other| other < at)))
        {
            list.push(other);
        }
        list.push(item);
    }
    list.extend(others);
}

//! What is declared, made so that applying it leaves alone what stands at some paths of a live object.
//!
//! Of such a path, what our entry still owns is sent with its live value: left out, the API server would remove it,
//! or put its default there (replicas: 1). What our entry has lost is left out: it stays with who holds it. Within a
//! value that somebody owns whole there is nothing to leave out, so the live part is sent there.
//!
//! Exact for the live object that it was made for, and no other: send its resourceVersion along.

use serde_json::{Map, Value};

use super::borrow::find_mut;
use super::declared::is_empty;
use super::element::{Element, Path};
use super::entries::{own_apply_set, sets_of_others};
use super::mask::position;
use super::set::{FieldSet, Node};

/// `declared` as `manager` is to apply it to `live`, so that nothing changes at `paths`.
///
/// A path whose parent is missing in `live` stays as declared: there is nothing to leave alone, and what is made
/// again is made whole. Where `manager` has no entry at all, live values are sent, so that they stay when their
/// present owner goes.
pub fn keeping<'a>(
    declared: &Value,
    live: &Value,
    manager: &str,
    paths: impl IntoIterator<Item = &'a Path>,
) -> Value {
    let own = own_apply_set(live, manager);
    let others = sets_of_others(live, manager);
    let others: Vec<&Node> = others.iter().map(FieldSet::root).filter(|root| !root.is_leaf()).collect();
    let own = match &own {
        None => Own::NoEntry,
        Some(set) if set.is_empty() => Own::Lost,
        Some(set) => Own::Node(set.root()),
    };
    let mut body = declared.clone();
    for path in paths {
        keep(&mut body, live, own, &others, path.elements(), &[]);
    }
    body
}

/// What our entry says of a value.
#[derive(Clone, Copy)]
enum Own<'a> {
    /// There is no entry of ours.
    NoEntry,
    /// Ours, or something under it is.
    Node(&'a Node),
    /// Not ours, or no more.
    Lost,
}

impl<'a> Own<'a> {
    fn below(self, element: &Element) -> Own<'a> {
        match self {
            Own::NoEntry => Own::NoEntry,
            Own::Node(node) => node.find(element).map_or(Own::Lost, Own::Node),
            Own::Lost => Own::Lost,
        }
    }

    fn is_leaf(self) -> bool {
        matches!(self, Own::Node(node) if node.is_leaf())
    }
}

/// Goes down to the path, within `body`. `keys` are those of the item that `body` is. Returns whether nothing is left
/// of `body`, so that it is to be left out too.
fn keep(
    body: &mut Value,
    live: &Value,
    own: Own<'_>,
    others: &[&Node],
    path: &[Element],
    keys: &[Element],
) -> bool {
    let Some((element, below)) = path.split_first() else { return false };
    let whole = own.is_leaf() || others.iter().any(|node| node.is_leaf());
    let (live_below, own_below) = (element.find(live), own.below(element));
    let others_below: Vec<&Node> = match whole {
        // Whatever is in a value that is owned whole is so too.
        true => others.to_vec(),
        false => others.iter().filter_map(|node| node.find(element)).collect(),
    };
    let own_below = if whole { own } else { own_below };
    let Some(declared) = find_mut(element, body) else { return false };
    let gone = if below.is_empty() {
        let kept = match (live_below, own_below) {
            (None, _) => None,
            (Some(live), _) if whole => Some(live.clone()),
            (Some(live), Own::NoEntry) => known(declared, live, &others_below),
            (Some(live), Own::Node(node)) => owned(declared, live, node),
            (Some(_), Own::Lost) => None,
        };
        match kept {
            Some(kept) => {
                *declared = kept;
                false
            }
            // What an item is known by stays as long as the item does.
            None => !keys.contains(element),
        }
    } else {
        let Some(live) = live_below else { return false };
        let keys = match element {
            Element::Key(pairs) => pairs.iter().map(|(name, _)| Element::Field(name.clone())).collect(),
            _ => Vec::new(),
        };
        keep(declared, live, own_below, &others_below, below, &keys)
    };
    if !gone {
        return false;
    }
    remove(body, element);
    is_empty(body)
}

/// What of a declared value our entry still owns, with the live values.
fn owned(declared: &Value, live: &Value, own: &Node) -> Option<Value> {
    if own.is_leaf() {
        return Some(live.clone());
    }
    match (declared, live) {
        (Value::Object(declared), Value::Object(live)) => {
            let field = |(name, declared): (&String, &Value)| {
                let node = own.field(name)?;
                let value = match is_empty(declared) {
                    // What others put under it is theirs.
                    true => declared.clone(),
                    false => owned(declared, live.get(name)?, node)?,
                };
                Some((name.clone(), value))
            };
            let kept: Map<String, Value> = declared.iter().filter_map(field).collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        (Value::Array(declared), Value::Array(items)) => {
            let item = |(index, declared): (usize, &Value)| {
                let (element, node) = own.items().get(own.item_of(index, declared)?)?;
                let live = items.get(position(element, items)?)?;
                let mut kept = owned(declared, live, node).or_else(|| node.owned.then(Value::default))?;
                if let Element::Key(pairs) = element {
                    kept = if kept.is_object() { kept } else { Value::Object(Map::new()) };
                    for (name, _) in pairs {
                        if let Some(value) = declared.get(name.as_ref()) {
                            kept[name.as_ref()] = value.clone();
                        }
                    }
                }
                (!kept.is_null()).then_some(kept)
            };
            let kept: Vec<Value> = declared.iter().enumerate().filter_map(item).collect();
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        _ => None,
    }
}

/// What of a declared value can be sent with live values when our entry says nothing: single values, and what another
/// manager owns whole. Which items of a list mean the same, nobody tells.
fn known(declared: &Value, live: &Value, others: &[&Node]) -> Option<Value> {
    if others.iter().any(|node| node.is_leaf()) {
        return Some(live.clone());
    }
    match (declared, live) {
        (Value::Object(declared), Value::Object(live)) => {
            let field = |(name, declared): (&String, &Value)| {
                let below: Vec<&Node> = others.iter().filter_map(|node| node.field(name)).collect();
                Some((name.clone(), known(declared, live.get(name)?, &below)?))
            };
            let kept: Map<String, Value> = declared.iter().filter_map(field).collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        (Value::Array(_) | Value::Object(_), _) | (_, Value::Array(_) | Value::Object(_)) => None,
        (_, live) => Some(live.clone()),
    }
}

fn remove(value: &mut Value, element: &Element) {
    match (element, value) {
        (Element::Field(name), Value::Object(map)) => {
            map.remove(name.as_ref());
        }
        (element, Value::Array(items)) => {
            if let Some(at) = position(element, items) {
                items.remove(at);
            }
        }
        _ => {}
    }
}

//! Declared empties that somebody filled: the drift that a values hash cannot see.
//!
//! A path declared {} or [] is left out of [`super::values_hash`], because foreign content under a granular one
//! (`annotations: {}`) is not drift. But where the schema makes it atomic, filling it replaces a value of ours:
//! `podSelector: {}` of a NetworkPolicy narrowed, `rules: []` of a ClusterRole widened; and an apply heals it. The
//! entries tell the two apart: an atomic value is owned whole by who filled it, of a granular one they own parts.

use serde_json::Value;

use super::declared::{has_empties, is_empty};
use super::element::{Element, Match, Path};
use super::entries::{own_apply_set, sets_of_others};
use super::set::{FieldSet, Node};

/// The paths declared {} or [] that live has content at, that `manager` does not own any more, and that another
/// manager owns whole while nobody owns a part; sorted.
///
/// Reads every entry of the object: worth asking only when our entry has changed (see [`super::raw_fingerprint`])
/// and [`has_empties`] of `declared` is true.
pub fn taken_empties(live: &Value, declared: &Value, manager: &str) -> Vec<Path> {
    if !has_empties(declared) {
        return Vec::new();
    }
    let ours = own_apply_set(live, manager);
    let others = sets_of_others(live, manager);
    let roots: Vec<&Node> = others.iter().map(FieldSet::root).filter(|root| !root.is_leaf()).collect();
    let mut walk = Walk { path: Path::default(), taken: Vec::new() };
    walk.value(
        declared,
        Some(live),
        ours.as_ref().map(FieldSet::root).filter(|root| !root.is_leaf()),
        &roots,
    );
    walk.taken.sort();
    walk.taken
}

struct Walk {
    path: Path,
    taken: Vec<Path>,
}

impl Walk {
    fn value(&mut self, declared: &Value, live: Option<&Value>, ours: Option<&Node>, others: &[&Node]) {
        let filled = live.is_some_and(|l| !is_empty(l));
        if !filled || others.is_empty() {
            return;
        }
        match declared {
            Value::Object(map) if !map.is_empty() => {
                for (name, value) in map {
                    self.step(Element::Field(name.as_str().into()), value, live, ours, others);
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    let named = others.iter().flat_map(|node| node.items());
                    let element = named.map(|(e, _)| e).find(|e| e.names(index, item) != Match::No);
                    if let Some(element) = element {
                        self.step(element.clone(), item, live, ours, others);
                    }
                }
            }
            Value::Object(_) | Value::Array(_) => {
                let parts = others.iter().any(|node| !node.is_leaf());
                if ours.is_none_or(|node| !node.owned) && !parts {
                    self.taken.push(self.path.clone());
                }
            }
            _ => {}
        }
    }

    fn step(
        &mut self,
        element: Element,
        declared: &Value,
        live: Option<&Value>,
        ours: Option<&Node>,
        others: &[&Node],
    ) {
        let live = live.and_then(|l| element.find(l));
        let ours = ours.and_then(|node| node.child(&element));
        let others: Vec<&Node> = others.iter().filter_map(|node| node.child(&element)).collect();
        self.path.push(element);
        self.value(declared, live, ours, &others);
        self.path.pop();
    }
}

//! What is declared, walked along an entry: which of it is ours, and what of it is empty.

use serde_json::Value;

use super::element::{Element, Match, Path};
use super::hash::Place;
use super::set::{FieldSet, Node};

/// Whether a value is null, {} or []: an apply owns such a leaf whole or not at all, and what stands under it in the
/// live object is not ours.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Whether `declared` holds null, {} or [] anywhere below it: if not, [`super::values_hash`] needs no `declared`.
pub fn has_empties(declared: &Value) -> bool {
    match declared {
        Value::Array(items) => items.iter().any(|item| is_empty(item) || has_empties(item)),
        Value::Object(map) => map.values().any(|value| is_empty(value) || has_empties(value)),
        _ => false,
    }
}

/// Fields that the API server strips from every entry (apimachinery, managedfields/internal/stripmeta.go).
const UNOWNED_METADATA: [&str; 11] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generateName",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Metadata that is never owned whole in any kind: an entry that says so has kept the self marker and lost the rest.
const GRANULAR_METADATA: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];

/// The paths of `declared` that the entry does not own, sorted. Empty: every value of ours is as we left it, for any
/// change of one takes it from the entry.
///
/// Left out, for they are never owned: apiVersion, kind and the server's metadata, our stamps, and what is declared
/// as null, {} or []. A list item is found by the keys that it bears; those with a default may be absent. A missing
/// map is reported by its leaves, a missing list or list item by its own path.
///
/// For entries as an apply leaves them, which mark no maps with ".". In one that was moved in from an Update (adoption)
/// a map that lost everything looks owned whole: apply before asking.
pub fn missing_leaves(declared: &Value, set: &FieldSet) -> Vec<Path> {
    let mut walk = Walk { path: Path::default(), missing: Vec::new() };
    if let Value::Object(map) = declared {
        for (name, value) in map {
            if name != "apiVersion" && name != "kind" {
                walk.field(name, value, Some(set.root()), Place::Object);
            }
        }
    }
    walk.missing.sort();
    walk.missing
}

struct Walk {
    path: Path,
    missing: Vec<Path>,
}

impl Walk {
    fn field(&mut self, name: &str, value: &Value, parent: Option<&Node>, above: Place) {
        let place = above.below(name);
        let unowned = above == Place::Metadata && UNOWNED_METADATA.contains(&name);
        if unowned || place == Place::Stamp || is_empty(value) {
            return;
        }
        let granular = above == Place::Metadata && GRANULAR_METADATA.contains(&name);
        let node = parent.and_then(|p| p.field(name)).filter(|n| !(granular && n.is_leaf()));
        self.path.push(Element::Field(name.into()));
        self.value(value, node, place);
        self.path.pop();
    }

    fn value(&mut self, value: &Value, node: Option<&Node>, place: Place) {
        if is_empty(value) || node.is_some_and(Node::is_leaf) {
            return;
        }
        match (value, node) {
            (Value::Object(map), _) => {
                map.iter().for_each(|(name, value)| self.field(name, value, node, place));
            }
            (Value::Array(items), Some(node)) => {
                for (index, item) in items.iter().enumerate().filter(|(_, item)| !is_empty(item)) {
                    self.item(index, item, items, node);
                }
            }
            (_, Some(node)) if node.owned => {}
            _ => self.missing.push(self.path.clone()),
        }
    }

    fn item(&mut self, index: usize, item: &Value, all: &[Value], list: &Node) {
        let mut first: Option<(&Element, &Node)> = None;
        for (element, child) in list.items() {
            match element.names(index, item) {
                Match::Whole => return self.below(element, item, child),
                // A neighbour that bears all the keys has the better claim.
                Match::Partial if !claimed(element, all) => first = first.or(Some((element, child))),
                Match::Partial | Match::No => {}
            }
        }
        match first {
            Some((element, child)) => self.below(element, item, child),
            None => {
                self.path.push(spell(index, item, list));
                self.missing.push(self.path.clone());
                self.path.pop();
            }
        }
    }

    fn below(&mut self, element: &Element, item: &Value, child: &Node) {
        self.path.push(element.clone());
        self.value(item, Some(child), Place::Elsewhere);
        self.path.pop();
    }
}

fn claimed(element: &Element, items: &[Value]) -> bool {
    items.iter().enumerate().any(|(index, item)| element.names(index, item) == Match::Whole)
}

/// The element of an item that the entry does not know: by the keys that its neighbours there have, as a member
/// where they are members, else by its index.
fn spell(index: usize, item: &Value, list: &Node) -> Element {
    for (element, _) in list.items() {
        match element {
            Element::Key(pairs) => {
                let borne =
                    pairs.iter().filter_map(|(name, _)| Some((name.as_ref(), item.get(name.as_ref())?)));
                match Element::keyed(borne) {
                    Element::Key(pairs) if pairs.is_empty() => {}
                    element => return element,
                }
            }
            Element::Member(_) => return Element::Member(item.into()),
            Element::Field(_) | Element::Index(_) => {}
        }
    }
    Element::Index(u32::try_from(index).unwrap_or(u32::MAX))
}

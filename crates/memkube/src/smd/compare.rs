//! The difference of two documents of one type, down to the fields that can be owned.

use std::collections::BTreeMap;

use serde_json::Value;

use super::element::{Element, Path};
use super::set::Set;
use super::typed::{Typed, entry_type, list_element};
use crate::schema::{Form, Items, List, Map};

/// Which fields the right document has more, otherwise, or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Only on the right.
    pub added: Set,
    /// On both sides with other values.
    pub modified: Set,
    /// Only on the left.
    pub removed: Set,
}

impl Comparison {
    /// Is there no difference?
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// The same for only those fields that the filter leaves.
    #[must_use]
    pub fn filtered(&self, filter: impl Fn(&Set) -> Set) -> Self {
        Comparison {
            added: filter(&self.added),
            modified: filter(&self.modified),
            removed: filter(&self.removed),
        }
    }
}

/// Compares two documents.
pub fn compare(typed: Typed<'_>, left: &Value, right: &Value) -> Comparison {
    let mut walk = Walk { path: Path::new(), found: Comparison::default() };
    if left != right {
        walk.values(typed, Some(left), Some(right));
    }
    walk.found
}

struct Walk {
    path: Path,
    found: Comparison,
}

impl Walk {
    fn values(&mut self, typed: Typed<'_>, left: Option<&Value>, right: Option<&Value>) {
        let leaf = match (left, right) {
            (None, None) => return,
            (Some(left), None) => self.form(typed, typed.form(left), Some(left), None),
            (None, Some(right)) => self.form(typed, typed.form(right), None, Some(right)),
            (Some(one), Some(other)) => {
                let (before, after) = (typed.form(one), typed.form(other));
                if before != after {
                    self.form(typed, before, left, right);
                }
                self.form(typed, after, left, right)
            }
        };
        if !leaf {
            match (left, right) {
                (None, _) => self.found.added.insert(&self.path),
                (_, None) => self.found.removed.insert(&self.path),
                _ => {}
            }
        }
    }

    /// True when it was looked at as one thing.
    fn form(
        &mut self,
        typed: Typed<'_>,
        form: Form<'_>,
        left: Option<&Value>,
        right: Option<&Value>,
    ) -> bool {
        match form {
            Form::None => return false,
            Form::Scalar(_) => self.leaf(left, right),
            Form::List(list) => {
                let (before, after) = (items(left), items(right));
                if list.relation == Items::Atomic || (before.is_empty() && after.is_empty()) {
                    self.leaf(left, right);
                } else {
                    self.items(typed, list, before, after);
                    return false;
                }
            }
            Form::Map(map) => {
                let empty =
                    |value: Option<&Value>| value.and_then(Value::as_object).is_none_or(|m| m.is_empty());
                if map.atomic || (empty(left) && empty(right)) {
                    self.leaf(left, right);
                } else {
                    self.entries(typed, map, left, right);
                    return false;
                }
            }
        }
        true
    }

    fn leaf(&mut self, left: Option<&Value>, right: Option<&Value>) {
        match (left, right) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (left, right) if left != right => self.found.modified.insert(&self.path),
            _ => {}
        }
    }

    fn at(&mut self, element: Element, walk: impl FnOnce(&mut Self)) {
        self.path.push(element);
        walk(self);
        self.path.pop();
    }

    fn entries(&mut self, typed: Typed<'_>, map: &Map, left: Option<&Value>, right: Option<&Value>) {
        let (left, right) = (left.and_then(Value::as_object), right.and_then(Value::as_object));
        let mut keys: Vec<_> = left.into_iter().chain(right).flat_map(|map| map.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let Some(of) = entry_type(map, key) else { continue };
            let (left, right) = (left.and_then(|map| map.get(key)), right.and_then(|map| map.get(key)));
            // Below what is the same nothing differs. Mostly that is nearly all, and its steps need no names.
            if left == right {
                continue;
            }
            self.at(Element::field(key), |walk| walk.values(typed.at(of), left, right));
        }
    }

    /// Items that are there several times under one key are compared as one thing.
    fn items(&mut self, typed: Typed<'_>, list: &List, left: &[Value], right: &[Value]) {
        let (left, right) = (index(typed, list, left), index(typed, list, right));
        let inner = typed.at(list.items);
        let elements = left.keys().chain(right.keys().filter(|element| !left.contains_key(element)));
        for element in elements {
            let one = left.get(element).map(Vec::as_slice).unwrap_or_default();
            let other = right.get(element).map(Vec::as_slice).unwrap_or_default();
            if one == other {
                continue;
            }
            self.at(element.clone(), |walk| match (one.len(), other.len()) {
                (0 | 1, 0 | 1) => walk.values(inner, one.first().copied(), other.first().copied()),
                (2.., 2..) => walk.found.modified.insert(&walk.path),
                (2.., _) => {
                    walk.values(inner, None, other.first().copied());
                    walk.found.removed.insert(&walk.path);
                }
                (_, 2..) => {
                    walk.values(inner, one.first().copied(), None);
                    walk.found.added.insert(&walk.path);
                }
            });
        }
    }
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn index<'v>(typed: Typed<'_>, list: &List, items: &'v [Value]) -> BTreeMap<Element, Vec<&'v Value>> {
    let mut index: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for item in items {
        if let Ok(element) = list_element(typed.types, list, item) {
            index.entry(element).or_default().push(item);
        }
    }
    index
}

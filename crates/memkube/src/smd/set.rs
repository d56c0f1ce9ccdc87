//! Sets of paths, as a tree: what managedFields hold for each manager.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::{Element, Path};
use crate::schema::{TypeId, Types};

/// A set of paths into an object. A path may be a member and have members below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// Each is a member or has one below it, so that nothing has to go down to see whether there is one.
    nodes: BTreeMap<Element, Node>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    member: bool,
    below: Set,
}

impl Set {
    /// Does it hold no path at all?
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a path. The empty path is no member of any set.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        // Most steps are there already: their names are not copied.
        if let Some(node) = self.nodes.get_mut(first) {
            return node.insert(rest);
        }
        let mut node = Node::default();
        node.insert(rest);
        self.nodes.insert(first.clone(), node);
    }

    /// Is this very element, at the top, a member?
    pub fn has(&self, element: &Element) -> bool {
        self.nodes.get(element).is_some_and(|node| node.member)
    }

    /// Is the path a member?
    pub fn contains(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [only] => self.has(only),
            [first, rest @ ..] => self.nodes.get(first).is_some_and(|node| node.below.contains(rest)),
        }
    }

    /// What is held below an element; `None` where there is nothing.
    pub fn below(&self, element: &Element) -> Option<&Set> {
        self.nodes.get(element).map(|node| &node.below).filter(|below| !below.is_empty())
    }

    /// The paths of both.
    #[must_use]
    pub fn union(&self, other: &Set) -> Set {
        let mut all = self.clone();
        all.extend(other);
        all
    }

    /// Adds the paths of another set.
    pub fn extend(&mut self, other: &Set) {
        for (element, node) in &other.nodes {
            let own = self.nodes.entry(element.clone()).or_default();
            own.member |= node.member;
            own.below.extend(&node.below);
        }
    }

    /// The paths that are in both.
    #[must_use]
    pub fn intersection(&self, other: &Set) -> Set {
        let both = self.nodes.iter().filter_map(|(element, node)| {
            let of = other.nodes.get(element)?;
            let node = Node { member: node.member && of.member, below: node.below.intersection(&of.below) };
            node.is_any().then(|| (element.clone(), node))
        });
        Set { nodes: both.collect() }
    }

    /// The paths that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Set) -> Set {
        let left = self.nodes.iter().filter_map(|(element, node)| {
            let node = match other.nodes.get(element) {
                None => node.clone(),
                Some(of) => {
                    Node { member: node.member && !of.member, below: node.below.difference(&of.below) }
                }
            };
            node.is_any().then(|| (element.clone(), node))
        });
        Set { nodes: left.collect() }
    }

    /// The paths that are neither in the other nor below one of its members.
    #[must_use]
    pub fn recursive_difference(&self, other: &Set) -> Set {
        let left = self.nodes.iter().filter_map(|(element, node)| {
            let node = match other.nodes.get(element) {
                None => node.clone(),
                Some(of) if of.member => return None,
                Some(of) => Node { member: node.member, below: node.below.recursive_difference(&of.below) },
            };
            node.is_any().then(|| (element.clone(), node))
        });
        Set { nodes: left.collect() }
    }

    /// Each top element anew: whether it is a member, and what is below it.
    #[must_use]
    pub(super) fn map(&self, anew: impl Fn(&Element, bool, &Set) -> (bool, Set)) -> Set {
        let nodes = self.nodes.iter().filter_map(|(element, node)| {
            let (member, below) = anew(element, node.member, &node.below);
            let node = Node { member, below };
            node.is_any().then(|| (element.clone(), node))
        });
        Set { nodes: nodes.collect() }
    }

    /// With each declared field that has members below it a member too.
    #[must_use]
    pub fn with_named_fields(&self, types: &Types, of: TypeId) -> Set {
        let atom = types.atom(of);
        let nodes = self.nodes.iter().map(|(element, node)| {
            let map = atom.map.as_ref();
            let field = map.zip(element.name()).and_then(|(map, name)| map.fields.get(name));
            let inner = match (field, map, &atom.list) {
                (Some(field), ..) => field.of,
                (None, Some(map), _) if element.name().is_some() => map.values.unwrap_or(Types::NOTHING),
                (None, _, Some(list)) if element.is_key() => list.items,
                _ => Types::NOTHING,
            };
            let member = node.member || (field.is_some() && !node.below.is_empty());
            (element.clone(), Node { member, below: node.below.with_named_fields(types, inner) })
        });
        Set { nodes: nodes.collect() }
    }

    /// All members: those of a level before what lies deeper.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Path::new(), &mut paths);
        paths
    }

    fn collect(&self, above: &mut Path, paths: &mut Vec<Path>) {
        for (element, _) in self.nodes.iter().filter(|(_, node)| node.member) {
            above.push(element.clone());
            paths.push(above.clone());
            above.pop();
        }
        for (element, node) in &self.nodes {
            above.push(element.clone());
            node.below.collect(above, paths);
            above.pop();
        }
    }

    /// To fieldsV1: nested maps; "." where a member has others below it.
    pub fn encode(&self) -> Value {
        let mut map = Map::new();
        for (element, node) in &self.nodes {
            let mut below = node.below.encode();
            if let Some(inner) = below.as_object_mut().filter(|inner| node.member && !inner.is_empty()) {
                let rest = std::mem::take(inner);
                inner.insert(".".to_owned(), Value::Object(Map::new()));
                inner.extend(rest);
            }
            map.insert(element.as_str().to_owned(), below);
        }
        Value::Object(map)
    }

    /// From fieldsV1. Elements of an unknown kind are left out; `None` where the shape is wrong.
    pub fn decode(fields: &Value) -> Option<Set> {
        let mut set = Set::default();
        for (key, value) in fields.as_object()? {
            if key == "." {
                continue;
            }
            let Some(element) = Element::parse(key) else { continue };
            let inner = value.as_object()?;
            let member = inner.is_empty() || inner.contains_key(".");
            let node = Node { member, below: Set::decode(value)? };
            if node.is_any() {
                set.nodes.insert(element, node);
            }
        }
        Some(set)
    }
}

impl Node {
    fn insert(&mut self, rest: &[Element]) {
        match rest {
            [] => self.member = true,
            rest => self.below.insert(rest),
        }
    }

    fn is_any(&self) -> bool {
        self.member || !self.below.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn set(fields: Value) -> Set {
        Set::decode(&fields).expect("fieldsV1")
    }

    #[test]
    fn fields_survive_encoding() {
        let table = [
            json!({"f:data": {"f:a": {}, "f:b": {}}}),
            json!({"f:data": {".": {}, "f:a": {}}}),
            json!({"f:spec": {"f:items": {"k:{\"name\":\"x\"}": {".": {}, "f:v": {}}, "v:1": {}}}}),
        ];
        for fields in table {
            assert_eq!(set(fields.clone()).encode(), fields);
        }
        assert_eq!(Set::decode(&json!({"f:a": 1})), None);
        assert_eq!(Set::decode(&json!([])), None);
    }

    #[test]
    fn a_recursive_difference_takes_what_lies_below_too() {
        let all = set(json!({"f:status": {".": {}, "f:a": {}}, "f:spec": {"f:b": {}}}));
        let status = set(json!({"f:status": {}}));
        assert_eq!(all.recursive_difference(&status).encode(), json!({"f:spec": {"f:b": {}}}));
        assert_eq!(all.difference(&status).encode(), json!({"f:spec": {"f:b": {}}, "f:status": {"f:a": {}}}));
    }

    fn any_set() -> impl Strategy<Value = Set> {
        let path = prop::collection::vec(prop::sample::select(vec!["f:a", "f:b", "v:1", "i:2"]), 1..4);
        prop::collection::vec(path, 0..8).prop_map(|paths| {
            let mut set = Set::default();
            for path in paths {
                set.insert(&path.into_iter().filter_map(Element::parse).collect::<Path>());
            }
            set
        })
    }

    proptest! {
        #[test]
        fn operations_agree_with_membership(a in any_set(), b in any_set()) {
            let all = a.union(&b);
            for path in all.paths() {
                let (in_a, in_b) = (a.contains(&path), b.contains(&path));
                prop_assert_eq!(a.intersection(&b).contains(&path), in_a && in_b);
                prop_assert_eq!(a.difference(&b).contains(&path), in_a && !in_b);
                prop_assert!(in_a || in_b);
            }
            prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)).paths(), a.paths());
            prop_assert_eq!(Set::decode(&a.encode()), Some(a));
        }
    }
}

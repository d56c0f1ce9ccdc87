//! A managedFields entry in memory: an immutable tree of path elements, shared by every object that has the same one.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::FieldsError;
use super::element::{Element, Match, Path};
use super::feed::Feed;
use super::literal::Literal;

/// The fields that one manager owns.
///
/// Equal sets have equal content, so a set can be interned behind an Arc. The order is total and depends on the
/// content only; it compares the fingerprints first and is meant for maps, not for reading.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldSet {
    fingerprint: u64,
    root: Node,
}

/// A node of the tree. Without children it is a leaf: the value there is owned whole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node {
    /// Sorted by element, each element once.
    pub(super) children: Box<[(Element, Node)]>,
    /// The path itself is owned: always so in a leaf; above children it is fieldsV1's ".".
    pub(super) owned: bool,
    /// All items have one form (the same key names, or members, or indexes), so that they can be searched by value.
    uniform: bool,
}

/// A node while it is read: merges elements that differ in spelling only.
#[derive(Default)]
struct Builder {
    owned: bool,
    children: BTreeMap<Element, Builder>,
}

impl FieldSet {
    /// Reads the `fieldsV1` of a managedFields entry. Kinds of elements that are not known are left out, as the API
    /// server does. Errors: a part that is not an object, an element that does not parse.
    pub fn from_fields_v1(fields_v1: &Value) -> Result<FieldSet, FieldsError> {
        let mut path = Path::default();
        let Value::Object(map) = fields_v1 else {
            return Err(FieldsError::ReadNode { at: path });
        };
        let mut builder = Builder::default();
        builder.read(map, &mut path)?;
        let mut root = builder.freeze();
        // The object itself is nobody's: an empty entry owns nothing.
        root.owned = false;
        let mut feed = Feed::default();
        root.feed(&mut feed);
        Ok(FieldSet { fingerprint: feed.finish(), root })
    }

    /// xxh3 of the canonical content: equal for equal sets, whatever the order or spelling of their source.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Whether nothing is owned.
    pub fn is_empty(&self) -> bool {
        self.root.children.is_empty()
    }

    /// Every owned path, sorted.
    pub fn paths(&self) -> Vec<Path> {
        self.minus(None)
    }

    /// The paths owned here and not in `other`, sorted: what an entry has lost.
    pub fn lost_in(&self, other: &FieldSet) -> Vec<Path> {
        self.minus(Some(&other.root))
    }

    /// Whether something that is owned here, and no more in what the entry has become, is owned by one of these: it would
    /// go with that one.
    pub fn is_lost_to(&self, now: &FieldSet, others: impl Iterator<Item = impl Borrow<FieldSet>>) -> bool {
        // Asked at each event; most objects have one owner, or the entry is as it was.
        let mut others = others.peekable();
        if others.peek().is_none() || self == now {
            return false;
        }
        let lost = self.lost_in(now);
        others.any(|other| lost.iter().any(|path| other.borrow().holds(path)))
    }

    fn minus(&self, other: Option<&Node>) -> Vec<Path> {
        let mut out = Vec::new();
        self.root.minus(other, &mut Path::default(), &mut out);
        out
    }

    /// Whether the entry holds the path: it owns it, or something under it, or a value whole in which it lies. A key
    /// of the path may lack keys that have a default.
    pub fn holds(&self, path: &Path) -> bool {
        let mut node = &self.root;
        for element in path.elements() {
            match node.find(element) {
                Some(child) if child.children.is_empty() => return true,
                Some(child) => node = child,
                None => return false,
            }
        }
        !node.children.is_empty()
    }

    pub(super) fn root(&self) -> &Node {
        &self.root
    }
}

impl Builder {
    fn read(&mut self, map: &Map<String, Value>, path: &mut Path) -> Result<(), FieldsError> {
        for (raw, below) in map {
            if raw == "." {
                self.owned = true;
                continue;
            }
            let element = Element::parse(raw).map_err(|why| FieldsError::ReadElement {
                at: path.clone(),
                kind: raw.split(':').next().unwrap_or_default().chars().take(16).collect(),
                why,
            })?;
            let Some(element) = element else { continue };
            path.push(element.clone());
            let Value::Object(below) = below else {
                return Err(FieldsError::ReadNode { at: path.clone() });
            };
            self.children.entry(element).or_default().read(below, path)?;
            path.pop();
        }
        Ok(())
    }

    fn freeze(self) -> Node {
        let owned = self.owned || self.children.is_empty();
        let children: Box<[(Element, Node)]> =
            self.children.into_iter().map(|(element, child)| (element, child.freeze())).collect();
        let mut items = children.iter().filter(|(e, _)| !matches!(e, Element::Field(_))).map(|(e, _)| e);
        let uniform = items.next().is_none_or(|first| items.all(|e| same_form(first, e)));
        Node { children, owned, uniform }
    }
}

impl Node {
    /// Whether the value here is owned whole.
    pub(super) fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }

    /// The child under exactly this element.
    pub(super) fn child(&self, element: &Element) -> Option<&Node> {
        let at = self.children.binary_search_by(|(e, _)| e.cmp(element)).ok()?;
        self.children.get(at).map(|(_, node)| node)
    }

    /// The child for a field name, without making an element.
    pub(super) fn field(&self, name: &str) -> Option<&Node> {
        let at = self
            .children
            .binary_search_by(|(e, _)| match e {
                Element::Field(n) => n.as_ref().cmp(name),
                _ => Ordering::Greater,
            })
            .ok()?;
        self.children.get(at).map(|(_, node)| node)
    }

    /// The child under this element, or the first one whose keys contain those of a partial key.
    pub(super) fn find(&self, element: &Element) -> Option<&Node> {
        if let Some(child) = self.child(element) {
            return Some(child);
        }
        let Element::Key(wanted) = element else { return None };
        self.children.iter().find_map(|(e, node)| match e {
            Element::Key(pairs) if wanted.iter().all(|w| pairs.contains(w)) => Some(node),
            _ => None,
        })
    }

    /// The children that name list items: those behind the fields.
    pub(super) fn items(&self) -> &[(Element, Node)] {
        let at = self.children.partition_point(|(e, _)| matches!(e, Element::Field(_)));
        self.children.get(at..).unwrap_or_default()
    }

    /// Which of [`Node::items`] a live list item is: its position there. `None`: a foreign item.
    pub(super) fn item_of(&self, index: usize, item: &Value) -> Option<usize> {
        let items = self.items();
        if !self.uniform {
            let whole = |(e, _): &(Element, Node)| e.names(index, item) == Match::Whole;
            return items.iter().position(whole).or_else(|| partial(items, index, item));
        }
        let mut lacks_key = false;
        let found = items.binary_search_by(|(e, _)| match e {
            Element::Field(_) => Ordering::Less,
            Element::Key(pairs) => compare_keys(pairs, item).unwrap_or_else(|| {
                lacks_key = true;
                Ordering::Less
            }),
            Element::Member(literal) => literal.cmp_value(item),
            Element::Index(i) => u64::from(*i).cmp(&(index as u64)),
        });
        if lacks_key { partial(items, index, item) } else { found.ok() }
    }

    fn minus(&self, other: Option<&Node>, path: &mut Path, out: &mut Vec<Path>) {
        if self.owned && !other.is_some_and(|o| o.owned) {
            out.push(path.clone());
        }
        for (element, child) in &self.children {
            path.push(element.clone());
            child.minus(other.and_then(|o| o.child(element)), path, out);
            path.pop();
        }
    }

    fn feed(&self, feed: &mut Feed) {
        feed.tag(u8::from(self.owned));
        feed.length(self.children.len());
        for (element, child) in &self.children {
            feed.element(element);
            child.feed(feed);
        }
    }
}

/// Whether two elements can be searched in one list.
fn same_form(a: &Element, b: &Element) -> bool {
    match (a, b) {
        (Element::Key(a), Element::Key(b)) => a.iter().map(|p| &p.0).eq(b.iter().map(|p| &p.0)),
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

/// How the keys compare with those of an item. `None`: the item lacks one.
fn compare_keys(pairs: &[(Box<str>, Literal)], item: &Value) -> Option<Ordering> {
    for (name, literal) in pairs {
        let order = literal.cmp_value(item.get(name.as_ref())?);
        if order != Ordering::Equal {
            return Some(order);
        }
    }
    Some(Ordering::Equal)
}

fn partial(items: &[(Element, Node)], index: usize, item: &Value) -> Option<usize> {
    items.iter().position(|(e, _)| e.names(index, item) == Match::Partial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(value: Value) -> FieldSet {
        FieldSet::from_fields_v1(&value).unwrap()
    }

    #[test]
    fn spelling_and_order_do_not_matter() {
        let a = set(json!({"f:p": {r#"k:{"port":80,"protocol":"TCP"}"#: {".": {}, "f:port": {}}}}));
        let b = set(json!({"f:p": {r#"k:{ "protocol": "TCP", "port": 80.0 }"#: {"f:port": {}, ".": {}}}}));
        assert_eq!(a, b);
        assert_eq!(a.fingerprint(), b.fingerprint());
    }

    #[test]
    fn a_lone_self_marker_is_a_leaf() {
        assert_eq!(set(json!({"f:a": {".": {}}})), set(json!({"f:a": {}})));
    }

    #[test]
    fn a_self_marker_beside_children_makes_another_set() {
        let with = set(json!({"f:a": {".": {}, "f:b": {}}}));
        let without = set(json!({"f:a": {"f:b": {}}}));
        assert_ne!(with.fingerprint(), without.fingerprint());
        assert_eq!(with.lost_in(&without), vec![Path::of_fields(["a"])]);
    }

    #[test]
    fn where_a_field_stands_is_part_of_the_fingerprint() {
        let sets = [
            json!({"f:a": {"f:b": {}}, "f:c": {}}),
            json!({"f:a": {"f:b": {}, "f:c": {}}}),
            json!({"f:a": {"f:b": {"f:c": {}}}}),
            json!({"f:a": {}, "f:b": {}, "f:c": {}}),
            json!({"f:a": {"v:1": {}}}),
            json!({"f:a": {"v:\"1\"": {}}}),
            json!({"f:a": {"i:1": {}}}),
            json!({"f:a": {"f:1": {}}}),
            json!({}),
        ];
        for (i, a) in sets.iter().enumerate() {
            for b in sets.iter().skip(i + 1) {
                assert_ne!(set(a.clone()).fingerprint(), set(b.clone()).fingerprint(), "{a} and {b}");
            }
        }
    }

    #[test]
    fn broken_entries_name_the_place_and_the_kind() {
        let error = FieldSet::from_fields_v1(&json!({"f:spec": {"k:{": {}}})).unwrap_err();
        assert!(error.to_string().contains("kind \"k\" under .spec"), "{error}");
        let error = FieldSet::from_fields_v1(&json!({"f:spec": {"f:x": 1}})).unwrap_err();
        assert!(error.to_string().contains("at .spec.x"), "{error}");
        assert!(FieldSet::from_fields_v1(&json!([])).is_err());
        assert!(FieldSet::from_fields_v1(&json!({"f:a": {"z:later": {}}})).is_ok());
    }

    #[test]
    fn paths_come_sorted_and_without_what_is_only_passed_through() {
        let s = set(json!({"f:spec": {"f:b": {}, "f:a": {r#"v:"y""#: {}, r#"v:"x""#: {}}}}));
        let texts: Vec<String> = s.paths().iter().map(Path::to_string).collect();
        assert_eq!(texts, [".spec.a[=\"x\"]", ".spec.a[=\"y\"]", ".spec.b"]);
    }

    #[test]
    fn a_set_holds_what_is_at_above_and_whole_around_a_path() {
        let s = set(json!({"f:spec": {
            "f:nodeSelector": {},
            "f:ports": {r#"k:{"port":80,"protocol":"TCP"}"#: {".": {}, "f:port": {}}},
        }}));
        assert!(s.holds(&Path::of_fields(["spec", "nodeSelector"])));
        assert!(s.holds(&Path::of_fields(["spec", "nodeSelector", "disk"])));
        assert!(s.holds(&Path::of_fields(["spec", "ports"])));
        assert!(!s.holds(&Path::of_fields(["spec", "replicas"])));
        let short = Element::parse(r#"k:{"port":80}"#).unwrap().unwrap();
        let ports =
            |e: Element| Path::from(vec![Element::Field("spec".into()), Element::Field("ports".into()), e]);
        assert!(s.holds(&ports(short)));
        assert!(!s.holds(&ports(Element::parse(r#"k:{"port":81}"#).unwrap().unwrap())));
        assert!(!set(json!({})).holds(&Path::default()));
    }
}

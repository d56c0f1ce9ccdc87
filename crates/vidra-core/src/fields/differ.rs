//! Which values of ours differ between two live objects: what a hash has seen, with names.

use serde_json::Value;

use super::declared::is_empty;
use super::element::{Element, Path};
use super::hash::{Place, leaf_hash, presence};
use super::set::{FieldSet, Node};

/// The owned paths whose values differ between `a` and `b`, sorted; with the same exclusions as
/// [`super::values_hash`], and empty exactly when those hashes are equal. An item that one of them lacks is named by
/// its own path, a list with our items in another order by the list's.
pub fn differing(a: &Value, b: &Value, set: &FieldSet, declared: Option<&Value>) -> Vec<Path> {
    let mut walk = Walk { path: Path::default(), differing: Vec::new() };
    if !set.is_empty() {
        walk.node(set.root(), Some(a), Some(b), declared, Place::Object);
    }
    walk.differing.sort();
    walk.differing.dedup();
    walk.differing
}

struct Walk {
    path: Path,
    differing: Vec<Path>,
}

impl Walk {
    fn node(
        &mut self,
        node: &Node,
        a: Option<&Value>,
        b: Option<&Value>,
        declared: Option<&Value>,
        place: Place,
    ) {
        if place == Place::Stamp || declared.is_some_and(is_empty) {
            return;
        }
        if node.is_leaf() {
            if leaf_hash(a, place) != leaf_hash(b, place) {
                self.differing.push(self.path.clone());
            }
            return;
        }
        if node.owned && presence(a) != presence(b) {
            self.differing.push(self.path.clone());
        }
        for (element, child) in &node.children {
            let Element::Field(name) = element else { break };
            self.path.push(element.clone());
            self.node(
                child,
                a.and_then(|v| v.get(name.as_ref())),
                b.and_then(|v| v.get(name.as_ref())),
                declared.and_then(|v| v.get(name.as_ref())),
                place.below(name),
            );
            self.path.pop();
        }
        if !node.items().is_empty() {
            self.items(node, a, b, declared);
        }
    }

    fn items(&mut self, list: &Node, a: Option<&Value>, b: Option<&Value>, declared: Option<&Value>) {
        let (ours_a, ours_b) = (ours(list, a, declared), ours(list, b, declared));
        let mut same_items = true;
        for (at, (element, child)) in list.items().iter().enumerate() {
            let of = |items: &[(usize, &Value)]| items.iter().filter(|i| i.0 == at).count();
            if of(&ours_a) != of(&ours_b) {
                self.path.push(element.clone());
                self.differing.push(self.path.clone());
                self.path.pop();
                same_items = false;
                continue;
            }
            if matches!(element, Element::Member(_)) {
                continue;
            }
            let pairs = ours_a.iter().filter(|i| i.0 == at).zip(ours_b.iter().filter(|i| i.0 == at));
            for ((_, a), (_, b)) in pairs {
                self.path.push(element.clone());
                let wanted = declared.and_then(|d| element.find(d));
                self.node(child, Some(*a), Some(*b), wanted, Place::Elsewhere);
                self.path.pop();
            }
        }
        let order = |items: &[(usize, &Value)]| items.iter().map(|i| i.0).collect::<Vec<_>>();
        if same_items && order(&ours_a) != order(&ours_b) {
            self.differing.push(self.path.clone());
        }
    }
}

/// Our items in live order, each with its position in the set.
fn ours<'a>(list: &Node, live: Option<&'a Value>, declared: Option<&Value>) -> Vec<(usize, &'a Value)> {
    let Some(Value::Array(values)) = live else { return Vec::new() };
    let item = |(index, value): (usize, &'a Value)| {
        let at = list.item_of(index, value)?;
        let (element, _) = list.items().get(at)?;
        let empty = declared.and_then(|d| element.find(d)).is_some_and(is_empty);
        (!empty).then_some((at, value))
    };
    values.iter().enumerate().filter_map(item).collect()
}

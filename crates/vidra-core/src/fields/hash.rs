//! The hash of the live values over a field set: the whole of drift detection in one number.

use serde_json::Value;

use super::STAMP_PREFIX;
use super::declared::is_empty;
use super::element::Element;
use super::feed::Feed;
use super::set::{FieldSet, Node};

const MISSING: u8 = 0x01;
const PRESENT: u8 = 0x02;
const PRESENT_NULL: u8 = 0x03;
const VALUE: u8 = 0x04;
const ITEM: u8 = 0x05;
const END_OF_ITEMS: u8 = 0x06;

/// The hash of the live values that `set` owns; comparable between objects of the same `set` and `declared` only.
///
/// - A leaf counts with its whole value. A missing one differs from null.
/// - Items of lists are found by their keys or value and count in live order: ours in another order is another hash;
///   foreign items, wherever they stand, change nothing.
/// - Of a path above others that is owned itself (".") its presence counts, nothing else.
/// - Left out: what `declared` (the body that we send) declares as {}, [] or null, for what stands under it is not
///   ours and no apply removes it; and annotations under [`STAMP_PREFIX`]. Inside a value owned whole nothing is
///   left out. Where [`super::has_empties`] is false, pass no `declared`: the answer is the same and cheaper.
pub fn values_hash(live: &Value, set: &FieldSet, declared: Option<&Value>) -> u64 {
    let mut feed = Feed::default();
    // An empty set is no leaf: it owns nothing.
    if !set.is_empty() {
        node_at(&mut feed, set.root(), Some(live), declared, Place::Object);
    }
    feed.finish()
}

/// The one leaf, as [`values_hash`] would see it.
pub(super) fn leaf_hash(live: Option<&Value>, place: Place) -> u64 {
    let mut feed = Feed::default();
    leaf(&mut feed, live, place);
    feed.finish()
}

/// Where a walk stands, as far as our stamps are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Object,
    Metadata,
    Annotations,
    /// A stamp of ours.
    Stamp,
    Elsewhere,
}

impl Place {
    pub(super) fn below(self, name: &str) -> Place {
        match (self, name) {
            (Place::Object, "metadata") => Place::Metadata,
            (Place::Metadata, "annotations") => Place::Annotations,
            (Place::Annotations, name) if name.starts_with(STAMP_PREFIX) => Place::Stamp,
            _ => Place::Elsewhere,
        }
    }
}

fn node_at(feed: &mut Feed, node: &Node, live: Option<&Value>, declared: Option<&Value>, place: Place) {
    if place == Place::Stamp || declared.is_some_and(is_empty) {
        return;
    }
    if node.is_leaf() {
        return leaf(feed, live, place);
    }
    if node.owned {
        feed.tag(presence(live));
    }
    for (element, child) in &node.children {
        let Element::Field(name) = element else { break };
        let value = live.and_then(|l| l.get(name.as_ref()));
        let wanted = declared.and_then(|d| d.get(name.as_ref()));
        node_at(feed, child, value, wanted, place.below(name));
    }
    if !node.items().is_empty() {
        items(feed, node, live, declared);
    }
}

pub(super) fn presence(live: Option<&Value>) -> u8 {
    match live {
        None => MISSING,
        Some(Value::Null) => PRESENT_NULL,
        Some(_) => PRESENT,
    }
}

fn leaf(feed: &mut Feed, live: Option<&Value>, place: Place) {
    match live {
        None => feed.tag(MISSING),
        Some(Value::Object(map)) if place == Place::Annotations => {
            feed.tag(VALUE);
            feed.map_without(map, |key| key.starts_with(STAMP_PREFIX));
        }
        Some(value) => {
            feed.tag(VALUE);
            feed.value(value);
        }
    }
}

/// Our items in live order. One that is missing leaves no trace, which is a trace: the others bear their positions
/// in the set.
fn items(feed: &mut Feed, list: &Node, live: Option<&Value>, declared: Option<&Value>) {
    if let Some(Value::Array(values)) = live {
        let mut ours = 0;
        for (index, value) in values.iter().enumerate() {
            let Some(at) = list.item_of(index, value) else { continue };
            let Some((element, child)) = list.items().get(at) else { continue };
            // Our items mostly stand as they were declared: a search of the whole list is the exception.
            let wanted = declared.and_then(|d| element.find_near(d, ours));
            ours += 1;
            if wanted.is_some_and(is_empty) {
                continue;
            }
            feed.tag(ITEM);
            feed.length(at);
            // The value of a member is in its element.
            if !matches!(element, Element::Member(_)) {
                node_at(feed, child, Some(value), wanted, Place::Elsewhere);
            }
        }
    }
    feed.tag(END_OF_ITEMS);
}

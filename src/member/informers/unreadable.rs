//! Objects that a member shows and nobody can read: each is named, and hides no other. What was known of it stays:
//! nothing is decided about it until it can be read again.

use std::collections::{BTreeMap, BTreeSet};

use vidra_core::object::ObjectKey;

use super::places::Place;

/// So many are remembered; more are only counted and logged.
const MOST: usize = 1000;

/// See the module: where each is, and why it cannot be read.
#[derive(Default)]
pub(super) struct Unreadable {
    objects: BTreeMap<ObjectKey, (Place, &'static str)>,
}

impl Unreadable {
    /// Those of these, and why.
    pub(super) fn of<'a>(&self, keys: impl Iterator<Item = &'a ObjectKey>) -> BTreeMap<ObjectKey, String> {
        if self.objects.is_empty() {
            return BTreeMap::new();
        }
        keys.filter_map(|key| Some((key.clone(), self.objects.get(key)?.1.to_owned()))).collect()
    }

    /// Nobody follows these places any more.
    pub(super) fn forget(&mut self, ended: &BTreeSet<Place>) {
        self.objects.retain(|_, (place, _)| !ended.contains(place));
    }

    /// A list has shown which objects of a place cannot be read. Those of which that is news.
    pub(super) fn set(&mut self, place: &Place, shown: BTreeMap<ObjectKey, &'static str>) -> Vec<ObjectKey> {
        let mut news = Vec::new();
        self.objects.retain(|key, (of, _)| {
            let stays = of != place || shown.contains_key(key);
            if !stays {
                news.push(key.clone());
            }
            stays
        });
        for (key, why) in shown {
            if self.add(place, key.clone(), why) {
                news.push(key);
            }
        }
        news
    }

    /// A watch has shown one more; whether that is news.
    pub(super) fn add(&mut self, place: &Place, key: ObjectKey, why: &'static str) -> bool {
        let known = self.objects.get(&key).is_some_and(|(_, known)| *known == why);
        if known || self.objects.len() >= MOST {
            return false;
        }
        self.objects.insert(key, (place.clone(), why));
        true
    }

    /// An object was read, or is gone; whether that is news.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> bool {
        self.objects.remove(key).is_some()
    }
}

//! Objects that a member shows and nobody can read: each is named, and hides no other. What was known of it stays:
//! nothing is decided about it until it can be read again.

use std::collections::{BTreeMap, BTreeSet};

use vidra_core::object::ObjectKey;

use super::{Informers, Place};
use crate::queue::TargetKey;

/// So many are remembered; more are only counted and logged.
const MOST: usize = 1000;

/// See the module.
#[derive(Default)]
pub(super) struct Unread {
    objects: BTreeMap<ObjectKey, (Place, &'static str)>,
}

impl Unread {
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

    fn add(&mut self, place: &Place, key: ObjectKey, why: &'static str) -> bool {
        let known = self.objects.get(&key).is_some_and(|(_, known)| *known == why);
        if known || self.objects.len() >= MOST {
            return false;
        }
        self.objects.insert(key, (place.clone(), why));
        true
    }
}

impl Informers {
    /// A list has shown which objects of a place cannot be read. The targets for which that is news.
    pub(super) fn set_broken(
        &self,
        place: &Place,
        broken: BTreeMap<ObjectKey, &'static str>,
    ) -> Vec<TargetKey> {
        let mut news = Vec::new();
        {
            let mut state = self.state.lock();
            let unread = &mut state.broken;
            unread.objects.retain(|key, (of, _)| {
                let stays = of != place || broken.contains_key(key);
                if !stays {
                    news.push(key.clone());
                }
                stays
            });
            for (key, why) in broken {
                if unread.add(place, key.clone(), why) {
                    news.push(key);
                }
            }
        }
        news.iter().flat_map(|key| self.records.wanting(key)).collect()
    }

    /// A watch has shown one more.
    pub(super) fn add_broken(&self, place: &Place, key: ObjectKey, why: &'static str) -> Vec<TargetKey> {
        let is_news = self.state.lock().broken.add(place, key.clone(), why);
        if is_news { self.records.wanting(&key) } else { Vec::new() }
    }

    /// An object was read, or is gone. The targets for which that is news.
    pub(super) fn is_read(&self, key: &ObjectKey) -> Vec<TargetKey> {
        let mut state = self.state.lock();
        if state.broken.objects.is_empty() || state.broken.objects.remove(key).is_none() {
            return Vec::new();
        }
        drop(state);
        self.records.wanting(key)
    }
}

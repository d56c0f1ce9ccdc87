//! Looking things up in one map by the keys of another, one after the other, in their order: it costs a step for each
//! where a search would compare a key with a dozen others.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, btree_map},
    iter::Peekable,
};

/// A map that is read in step with another, in the order of keys.
pub struct MergeLookup<'a, K, V>(Peekable<btree_map::Iter<'a, K, V>>);

impl<'a, K: Ord, V> MergeLookup<'a, K, V> {
    /// Begins before the first entry.
    pub fn new(map: &'a BTreeMap<K, V>) -> Self {
        Self(map.iter().peekable())
    }

    /// What stands under this key, which is not below any that was asked for before.
    pub fn get(&mut self, key: &K) -> Option<&'a V> {
        loop {
            let (next, value) = self.0.peek()?;
            match (*next).cmp(key) {
                Ordering::Less => self.0.next(),
                Ordering::Equal => return Some(value),
                Ordering::Greater => return None,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_search_finds(
            map: BTreeMap<u8, u8>, mut keys in proptest::collection::vec(any::<u8>(), 0..20)
        ) {
            keys.sort_unstable();
            let mut beside = MergeLookup::new(&map);
            for key in keys {
                prop_assert_eq!(beside.get(&key), map.get(&key));
            }
        }
    }
}

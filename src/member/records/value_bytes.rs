//! The memory that values which come back from members take, of all members together, and each namespace's part of it.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use vidra_core::mutants::{self, Mutant};

/// Bytes that the values of all members take, in the process.
#[derive(Clone, Debug, Default)]
pub struct ValueBytes(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// By namespace of the hub; none where nothing is taken.
    each: BTreeMap<Arc<str>, usize>,
}

impl Taken {
    /// What all take, and what a namespace does, with these bytes in place of those `before`.
    fn with(&self, namespace: &str, bytes: usize, before: usize) -> (usize, usize) {
        let own = self.each.get(namespace).copied().unwrap_or_default();
        (self.all.saturating_sub(before) + bytes, own.saturating_sub(before) + bytes)
    }
}

impl ValueBytes {
    /// What all take.
    pub fn all(&self) -> usize {
        self.0.lock().all
    }
}

/// What an owner's values take of them; given back when it is dropped.
pub(super) struct Share {
    all: ValueBytes,
    namespace: Arc<str>,
    bytes: usize,
}

impl Share {
    pub(super) fn of(all: &ValueBytes, namespace: &Arc<str>) -> Self {
        Self { all: all.clone(), namespace: namespace.clone(), bytes: 0 }
    }

    pub(super) fn set(&mut self, bytes: usize) {
        let mut taken = self.all.0.lock();
        let (all, own) = taken.with(&self.namespace, bytes, self.bytes);
        taken.all = all;
        match own {
            0 => drop(taken.each.remove(&self.namespace)),
            own => drop(taken.each.insert(self.namespace.clone(), own)),
        }
        self.bytes = bytes;
    }

    /// These bytes have room in place of those `before`: what does not grow stays. A namespace takes no more than is free
    /// then, so that there is room for one that comes later, however many have come.
    pub(super) fn has_room(&self, bytes: usize, before: usize, most: usize) -> bool {
        let (all, own) = self.all.0.lock().with(&self.namespace, bytes, before);
        let is_fair = all + own <= most || mutants::is(Mutant::ValuesOfOneNamespace);
        bytes <= before || all <= most && is_fair || mutants::is(Mutant::ValuesFillTheHub)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1000;

    /// What a namespace gets that asks for more and more, ten bytes at a time.
    fn fill(share: &mut Share) -> usize {
        while share.has_room(share.bytes + 10, share.bytes, MOST) {
            share.set(share.bytes + 10);
        }
        share.bytes
    }

    #[test]
    fn a_namespace_takes_no_more_than_it_leaves_and_the_next_one_finds_room() {
        let all = ValueBytes::default();
        let of = |namespace: &str| Share::of(&all, &namespace.into());
        let mut first = of("a");
        assert_eq!(fill(&mut first), 500);
        let mut more = of("a");
        assert_eq!(fill(&mut more), 0, "another owner in the same namespace gets it no more");
        let (mut second, mut third) = (of("b"), of("c"));
        assert_eq!((fill(&mut second), fill(&mut third)), (250, 120));
        // It has more than its part by now, and keeps that so long as it does not grow.
        assert!(first.has_room(500, 500, MOST) && !first.has_room(501, 500, MOST));
        drop(first);
        assert_eq!((fill(&mut second), all.all()), (440, 560));
        drop((more, second, third));
        assert_eq!((all.all(), all.0.lock().each.len()), (0, 0));
    }
}

//! One copy of what many have alike: the same objects are on every member, with the same fields, and stand in as many
//! inventories. Shared by all that one hub keeps; what nobody holds any more goes.

use std::{borrow::Borrow, collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use vidra_core::{
    fields::FieldSet,
    health::facts::KindFacts,
    object::{KeyParts, ObjectKey},
    render::DeclaredHash,
};

/// Fewer are not looked through for those that nobody holds.
const FEW: usize = 1024;

/// What a hub keeps one copy of.
#[derive(Default)]
pub struct Interned {
    keys: Interner<ObjectKey>,
    texts: Interner<Arc<str>>,
    /// What our entries own: it depends on what is declared and on the schema only.
    pub sets: Interner<Arc<FieldSet>>,
    /// What objects were applied from: the declaration, and the VidraResource's generation then.
    pub applied: Interner<Arc<(DeclaredHash, i64)>>,
    /// What kinds declare: mostly the same everywhere.
    pub kinds: Interner<Arc<KindFacts>>,
}

impl Interned {
    /// The one copy of a text.
    pub fn text(&self, text: &str) -> Arc<str> {
        self.texts.share(Arc::from(text))
    }

    /// The one copy of a key. Keys share what they have in common, which makes comparing them cheap.
    pub fn key(&self, key: ObjectKey) -> ObjectKey {
        self.keys.share_as(key, |key| {
            let shared = |text: &Arc<str>| self.texts.share(text.clone());
            let (group, kind, namespace) = (shared(&key.group), shared(&key.kind), shared(&key.namespace));
            KeyParts { group, kind, namespace, name: key.name.clone() }.into()
        })
    }
}

/// A pointer to something that is not changed.
pub trait Shared: Clone + Ord {
    /// Clones of it are held elsewhere.
    fn is_shared(&self) -> bool;
}

impl Shared for ObjectKey {
    fn is_shared(&self) -> bool {
        ObjectKey::is_shared(self)
    }
}

impl<T: Ord + ?Sized> Shared for Arc<T> {
    fn is_shared(&self) -> bool {
        Arc::strong_count(self) > 1
    }
}

/// The copies of one kind.
pub struct Interner<T>(Mutex<Copies<T>>);

struct Copies<T> {
    all: BTreeSet<T>,
    /// So many, and those that nobody holds are dropped.
    swept_at: usize,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self(Mutex::new(Copies { all: BTreeSet::new(), swept_at: FEW }))
    }
}

impl<T: Shared> Interner<T> {
    /// The one copy of this.
    pub fn share<Q: Ord>(&self, one: Q) -> T
    where
        T: Borrow<Q> + From<Q>,
    {
        self.share_as(one, T::from)
    }

    /// The one copy of this, which is made so where there is none.
    fn share_as<Q: Ord>(&self, one: Q, make: impl FnOnce(Q) -> T) -> T
    where
        T: Borrow<Q>,
    {
        let mut copies = self.0.lock();
        if let Some(held) = copies.all.get(&one) {
            return held.clone();
        }
        if copies.all.len() >= copies.swept_at {
            copies.all.retain(T::is_shared);
            copies.swept_at = (copies.all.len() * 2).max(FEW);
        }
        let copy = make(one);
        copies.all.insert(copy.clone());
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_things_are_one_copy_and_go_when_nobody_holds_them() {
        let texts: Interner<Arc<String>> = Interner::default();
        let kept: Vec<_> = (0..10).map(|nth| texts.share(nth.to_string())).collect();
        assert!(Arc::ptr_eq(&kept[3], &texts.share("3".to_owned())));
        for nth in 0..100 * FEW {
            texts.share(format!("passing {nth}"));
        }
        assert!(texts.0.lock().all.len() <= FEW);
        assert!(Arc::ptr_eq(&kept[3], &texts.share("3".to_owned())));
    }
}

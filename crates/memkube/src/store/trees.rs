//! Objects as they read, kept beside their JSON: what is used again and again is not read each time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde_json::Value;

use super::object::Stored;
use crate::Cluster;

/// What one stored object reads as, while that is kept.
#[derive(Default)]
pub(super) struct Leaf {
    tree: Mutex<Option<Arc<Value>>>,
    /// Somebody has asked for it since it was last looked at whether somebody does.
    used: AtomicBool,
}

impl Leaf {
    pub fn get(&self) -> Option<Arc<Value>> {
        let tree = self.tree.lock().clone();
        if tree.is_some() {
            self.used.store(true, Ordering::Relaxed);
        }
        tree
    }
}

/// The objects that a store keeps so: a number of those that were used last.
#[derive(Default)]
pub(in crate::store) struct Trees {
    most: usize,
    /// In the order in which they came, or were last seen to be in use.
    ring: Mutex<VecDeque<Stored>>,
}

impl Trees {
    /// Keeps what an object reads as.
    pub fn keep(&self, stored: &Stored, tree: &Arc<Value>) {
        if self.most == 0 {
            return;
        }
        if stored.leaf().tree.lock().replace(tree.clone()).is_some() {
            return;
        }
        let mut ring = self.ring.lock();
        ring.push_back(stored.clone());
        self.shrink(&mut ring);
    }

    /// Each that is in use gets another round.
    fn shrink(&self, ring: &mut VecDeque<Stored>) {
        while ring.len() > self.most {
            let Some(first) = ring.pop_front() else { return };
            if first.leaf().used.swap(false, Ordering::Relaxed) && self.most > 0 {
                ring.push_back(first);
            } else {
                *first.leaf().tree.lock() = None;
            }
        }
    }
}

impl Cluster {
    /// Keeps so many of the stored objects, those used last, as trees of values too: a call, a watch or a test
    /// that looks at one of them does not read its JSON again. Each costs some five times its JSON. From the
    /// start none is kept so.
    pub fn keep_read(&self, most: usize) {
        let mut store = self.inner.store.lock();
        store.trees.most = most;
        let trees = &store.trees;
        trees.shrink(&mut trees.ring.lock());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{Place, Resource, Store};

    /// A store that keeps two trees, with so many objects in it.
    fn store(objects: usize) -> Store {
        let mut store = Store::new(7);
        store.trees.most = 2;
        for number in 0..objects {
            let name = number.to_string();
            let object = json!({"metadata": {"name": name}, "data": {"number": number, "half": 0.5}});
            store.write(&maps(), &Place::new("", &name), Some(object));
        }
        store
    }

    fn maps() -> Resource {
        Resource::new("", "configmaps")
    }

    fn kept(store: &Store) -> Vec<String> {
        let table = store.table(&maps()).into_iter().flatten();
        let kept = table.filter(|(_, stored)| stored.leaf().tree.lock().is_some());
        kept.map(|(place, _)| place.name.clone()).collect()
    }

    fn get(store: &Store, name: &str) -> Value {
        store.get(&maps(), &Place::new("", name)).unwrap_or_default().into_value()
    }

    #[test]
    fn objects_read_alike_whether_kept_or_not() {
        let store = store(4);
        assert_eq!(kept(&store), ["2", "3"]);
        for number in 0..4 {
            let wanted = json!({
                "metadata": {"name": number.to_string(), "resourceVersion": (number + 2).to_string()},
                "data": {"number": number, "half": 0.5},
            });
            assert_eq!(get(&store, &number.to_string()), wanted);
        }
    }

    #[test]
    fn what_is_read_is_kept_and_what_is_in_use_stays() {
        let mut store = store(3);
        assert_eq!(kept(&store), ["1", "2"]);
        get(&store, "1");
        get(&store, "0");
        assert_eq!(kept(&store), ["0", "1"]);
        store.trees.most = 0;
        store.trees.shrink(&mut store.trees.ring.lock());
        assert_eq!(kept(&store), [""; 0]);
        get(&store, "0");
        assert_eq!(kept(&store), [""; 0]);
    }
}

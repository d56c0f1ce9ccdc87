//! One version of an object: as it is kept, and as it is handed around.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::trees::Leaf;
use crate::deep;

/// An object as it is kept: compact JSON that the table and the history share. Read as a tree of values it
/// would be five times as large: a cluster has that too only where it is told to, and of those used last.
#[derive(Clone)]
pub(crate) struct Stored(Arc<Parts>);

struct Parts {
    json: Bytes,
    /// The uids of its owners.
    owners: Box<[Box<str>]>,
    leaf: Leaf,
}

impl Stored {
    pub(super) fn of(object: &Value) -> Self {
        // A Value's keys are texts: writing it cannot fail.
        let json = serde_json::to_vec(object).unwrap_or_default().into_boxed_slice();
        let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let owners = owners.filter_map(|owner| owner["uid"].as_str().map(Into::into)).collect();
        Stored(Arc::new(Parts { json: json.into(), owners, leaf: Leaf::default() }))
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = &str> {
        self.0.owners.iter().map(|uid| &**uid)
    }

    pub(super) fn leaf(&self) -> &Leaf {
        &self.0.leaf
    }

    /// The object beside the store: who can asks [`Store::read`](super::Store::read).
    pub fn read(&self) -> Arc<Value> {
        self.tree(|_| {})
    }

    /// The object; where it has to be read for that, this is told.
    pub(super) fn object(&self, read: impl FnOnce(&Arc<Value>)) -> Object {
        self.with(self.tree(read))
    }

    /// The object, where its values are at hand.
    pub(super) fn with(&self, tree: Arc<Value>) -> Object {
        Object { tree, json: Some(self.0.json.clone()) }
    }

    fn tree(&self, read: impl FnOnce(&Arc<Value>)) -> Arc<Value> {
        self.0.leaf.get().unwrap_or_else(|| {
            let tree = Arc::new(deep::read(&self.0.json).unwrap_or_default());
            read(&tree);
            tree
        })
    }
}

/// An object, and its JSON where that is written already. Both are shared with what is stored.
#[derive(Clone, Default)]
pub(crate) struct Object {
    tree: Arc<Value>,
    json: Option<Bytes>,
}

impl Object {
    /// As compact JSON.
    pub fn json(&self) -> Bytes {
        self.json.clone().unwrap_or_else(|| self.tree.to_string().into())
    }

    /// To be changed, or to be kept beside the store.
    pub fn into_value(self) -> Value {
        Arc::unwrap_or_clone(self.tree)
    }
}

impl Deref for Object {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.tree
    }
}

impl From<Value> for Object {
    fn from(object: Value) -> Self {
        Object { tree: Arc::new(object), json: None }
    }
}

//! Who wrote what: a test is told of each call after its effect, with the changes that the call made.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::Cluster;
use super::fault::Call;
use super::store::{Change, Stored};

/// One change that a call made, in the order of the history.
pub struct Changed {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural resource name.
    pub plural: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    old: Side,
    new: Side,
}

/// An object as it is stored, and as it reads once somebody asks.
struct Side(Option<Stored>, OnceLock<Option<Arc<Value>>>);

impl Side {
    fn of(stored: &Option<Stored>) -> Self {
        Self(stored.clone(), OnceLock::new())
    }

    fn known(object: Option<Value>) -> Self {
        Self(None, OnceLock::from(object.map(Arc::new)))
    }

    fn read(&self) -> Option<Arc<Value>> {
        self.1.get_or_init(|| self.0.as_ref().map(Stored::read)).clone()
    }
}

impl Changed {
    /// A change that no call has made, such as that of an object in a store that was put back.
    pub fn beside(group: &str, plural: &str, before: Option<Value>, after: Option<Value>) -> Self {
        let text = |field: &str| {
            let of = before.as_ref().or(after.as_ref()).map(|object| &object["metadata"][field]);
            of.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (namespace, name) = (text("namespace"), text("name"));
        let (old, new) = (Side::known(before), Side::known(after));
        Changed { group: group.to_owned(), plural: plural.to_owned(), namespace, name, old, new }
    }

    /// The object before; `None` when it was made.
    pub fn before(&self) -> Option<Arc<Value>> {
        self.old.read()
    }

    /// The object after; `None` when it is gone.
    pub fn after(&self) -> Option<Arc<Value>> {
        self.new.read()
    }
}

impl From<&Change> for Changed {
    fn from(change: &Change) -> Self {
        Changed {
            group: change.resource.group.clone(),
            plural: change.resource.plural.clone(),
            namespace: change.place.namespace.clone(),
            name: change.place.name.clone(),
            old: Side::of(&change.old),
            new: Side::of(&change.new),
        }
    }
}

/// Told of each call that was served, before its caller learns of it: the call with its status, and what it
/// changed. It may use the cluster. Calls that had no effect because of a fault are not told.
pub type Witness = Arc<dyn Fn(&Call, &[Changed]) + Send + Sync>;

impl Cluster {
    /// Tells this witness of each call from now on; with `None` nobody any more.
    pub fn set_witness(&self, witness: Option<Witness>) {
        self.inner.front.lock().witness = witness;
    }
}

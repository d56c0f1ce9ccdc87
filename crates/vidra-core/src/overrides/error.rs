//! Why overrides are refused. Messages name the entry, the object, the cluster and what to do; they never
//! quote a value of an object, which may be a Secret.

use thiserror::Error;

use crate::object::ObjectKey;

/// An entry of `spec.overrides` that can be used on no cluster.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {why}")]
pub struct InvalidOverride {
    /// Where it stands, such as `spec.overrides[0].set[1].expression`.
    pub place: String,
    /// What is wrong, and how to mend it.
    pub why: String,
}

/// Why an override could not be done to one object on one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OverrideError {
    /// An operation of a JSON Patch does not apply.
    #[error("{place}: {op} of {path:?} does not apply to {object} on cluster {cluster}: {why}")]
    Patch {
        /// Where the operation stands.
        place: String,
        /// The operation.
        op: &'static str,
        /// Its path.
        path: String,
        /// The object.
        object: ObjectKey,
        /// The cluster.
        cluster: String,
        /// What is wrong, and how to mend it.
        why: &'static str,
    },
    /// An expression gives no value for the cluster.
    #[error("{place}: on cluster {cluster}, for {object}: {why}")]
    Evaluate {
        /// Where the expression stands.
        place: String,
        /// The object.
        object: ObjectKey,
        /// The cluster.
        cluster: String,
        /// What is wrong, and how to mend it.
        why: String,
    },
    /// A field could not be set.
    #[error("{place}: {object} on cluster {cluster}: {at} {why}")]
    Set {
        /// Where the path stands.
        place: String,
        /// The object.
        object: ObjectKey,
        /// The cluster.
        cluster: String,
        /// How far down the path could be followed.
        at: String,
        /// What is wrong there, and how to mend it.
        why: &'static str,
    },
    /// What came out is larger or deeper than any API server takes.
    #[error(
        "{place}: {object} on cluster {cluster} becomes larger than 3 MiB or deeper than 100 levels; make it smaller"
    )]
    TooLarge {
        /// Where the entry stands.
        place: String,
        /// The object.
        object: ObjectKey,
        /// The cluster.
        cluster: String,
    },
    /// What came out is another object.
    #[error(
        "{place}: it changes {field} of {object} on cluster {cluster}; overrides keep apiVersion, kind, metadata.name and metadata.namespace, so declare another object in the manifest instead"
    )]
    Renamed {
        /// Where the entry stands.
        place: String,
        /// The field.
        field: &'static str,
        /// The object.
        object: ObjectKey,
        /// The cluster.
        cluster: String,
    },
    /// What came out cannot be delivered.
    #[error("{place}: {object} on cluster {cluster} cannot be delivered afterwards: {why}")]
    Undeliverable {
        /// Where the entry stands.
        place: String,
        /// The object.
        object: ObjectKey,
        /// The cluster.
        cluster: String,
        /// What is wrong, and how to mend it.
        why: String,
    },
    /// The VidraTarget names an entry that its revision does not have.
    #[error(
        "spec.overrides[{index}] is not in the revision that VidraTarget of cluster {cluster} names; leave VidraTargets to the hub, which corrects this one at the next change"
    )]
    Unknown {
        /// The entry.
        index: i32,
        /// The cluster.
        cluster: String,
    },
}

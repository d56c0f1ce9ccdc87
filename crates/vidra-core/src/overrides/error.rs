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
    /// What is wrong, and how to fix it.
    pub why: String,
}

/// What an override was being done to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Where the entry stands, such as `spec.overrides[0]`.
    pub place: String,
    /// The object.
    pub object: ObjectKey,
    /// The cluster.
    pub cluster: String,
}

/// Why an override could not be done to one object on one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OverrideError {
    /// An operation of a JSON Patch does not apply.
    #[error(
        "{}.jsonPatch[{index}]: {op} of {path:?} does not apply to {} on cluster {}: {why}",
        .of.place, .of.object, .of.cluster
    )]
    Patch {
        /// To what.
        of: Box<Subject>,
        /// Which operation; 0 is the first.
        index: usize,
        /// The operation.
        op: &'static str,
        /// Its path.
        path: String,
        /// What is wrong, and how to fix it.
        why: &'static str,
    },
    /// An expression gives no value for the cluster.
    #[error("{}.set[{index}].expression: on cluster {}, for {}: {why}", .of.place, .of.cluster, .of.object)]
    Evaluate {
        /// To what.
        of: Box<Subject>,
        /// Which field; 0 is the first.
        index: usize,
        /// What is wrong, and how to fix it.
        why: String,
    },
    /// A field could not be set.
    #[error("{}.set[{index}].path: {} on cluster {}: {at} {why}", .of.place, .of.object, .of.cluster)]
    Set {
        /// To what.
        of: Box<Subject>,
        /// Which field; 0 is the first.
        index: usize,
        /// How far down the path could be followed.
        at: String,
        /// What is wrong there, and how to fix it.
        why: &'static str,
    },
    /// What came out is larger or deeper than any API server takes.
    #[error(
        "{}: {} on cluster {} becomes larger than 3 MiB or deeper than 100 levels; make it smaller",
        .of.place, .of.object, .of.cluster
    )]
    TooLarge {
        /// To what.
        of: Box<Subject>,
    },
    /// Too much is changed on one cluster.
    #[error(
        "{}: the objects that overrides change on cluster {} (here {}) take more than 192 MiB in memory, or more work than the hub does for one cluster; change fewer objects, or split the VidraResource",
        .of.place, .of.cluster, .of.object
    )]
    TooMuch {
        /// To what.
        of: Box<Subject>,
    },
    /// What came out is another object.
    #[error(
        "{}: it changes {field} of {} on cluster {}; overrides keep apiVersion, kind, metadata.name and metadata.namespace, so declare another object in the manifest instead",
        .of.place, .of.object, .of.cluster
    )]
    Renamed {
        /// To what.
        of: Box<Subject>,
        /// The field.
        field: &'static str,
    },
    /// What came out cannot be delivered.
    #[error("{}: {} on cluster {} cannot be delivered afterwards: {why}", .of.place, .of.object, .of.cluster)]
    Undeliverable {
        /// To what.
        of: Box<Subject>,
        /// What is wrong, and how to fix it.
        why: String,
    },
    /// The VidraTarget names an entry that its revision does not have.
    #[error(
        "spec.overrides[{index}] is not in the revision that the VidraTarget of cluster {cluster} names; leave VidraTargets to the hub, which corrects this one at the next change"
    )]
    Unknown {
        /// The entry.
        index: i32,
        /// The cluster.
        cluster: String,
    },
}

impl OverrideError {
    /// This error of another cluster, for which what came out is the same.
    #[must_use]
    pub fn on(mut self, cluster: &str) -> Self {
        if let Self::Undeliverable { of, .. } = &mut self {
            cluster.clone_into(&mut of.cluster);
        }
        self
    }
}

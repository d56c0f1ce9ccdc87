//! The API of Vidra Hub, group `vidra.dev`, version `v1alpha1`: the types behind the CRDs, the
//! labels and annotations, and the names of everything that the hub makes. No I/O, no decisions.
//!
//! What makes an object valid lives in its schema (bounds, defaults, CEL rules), so that the API
//! server refuses a bad object at `kubectl apply`; the types here only carry what passed.

pub mod condition;
pub mod conflicts;
pub mod crds;
pub mod drift;
pub mod feedback;
pub mod health;
pub mod inventory;
pub mod labels;
pub mod member;
pub mod names;
pub mod overrides;
pub mod policy;
pub mod raw;
pub mod readiness;
pub mod resource;
pub mod rights;
mod schema;
pub mod selector;
pub mod sources;
pub mod target;

pub use condition::{ConditionStatus, clip, find, set_condition};
pub use conflicts::{Conflicts, ContainerDeletion, ExistingPolicy, FieldPolicy, ManagerOperation, TakeFrom};
pub use drift::{
    Change, ChangeKind, ChangedField, DriftPolicy, DriftSpec, IgnoreRule, IgnoreTarget, YieldPolicy,
};
pub use feedback::{Feedback, FeedbackExpression, FeedbackObject, FeedbackRule, FeedbackValue};
pub use health::HealthCheckExpr;
pub use inventory::{InventoryEntry, VidraInventory, VidraInventorySpec};
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
pub use member::{
    KubeconfigSecretRef, MemberCluster, MemberClusterSpec, MemberClusterStatus, MemberTargets, MemberWatches,
    OnLeave, OnRevoke,
};
pub use names::{ClusterName, HubId, NameError, OwnerHash, Revision};
pub use overrides::{JsonPatchOperation, Override, OverrideInputs, OverrideTarget, PatchOp, SetField};
pub use raw::Raw;
pub use readiness::{MaxUnreachable, Readiness};
pub use resource::{
    ClusterSummary, DeletionPolicy, LeftBehind, ReconcileSpec, Summary, TargetSelector, VidraResource,
    VidraResourceSpec, VidraResourceStatus,
};
pub use selector::{LabelSelector, LabelSelectorRequirement, SelectorOperator};
pub use sources::{ConfigMapKeys, ManifestSource, SecretKeys};
pub use target::{
    Corrections, DesiredState, DriftState, ObjectHealth, Progress, RemovingObjects, TargetState,
    UnprovenObject, UnprovenObjects, UnreadyObject, VidraTarget, VidraTargetSpec, VidraTargetStatus,
};

/// The API group of every kind here.
pub const GROUP: &str = "vidra.dev";
/// The one served version.
pub const VERSION: &str = "v1alpha1";

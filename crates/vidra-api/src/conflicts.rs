//! What others have made or hold already, and how far a VidraResource may go with it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Most entries of `spec.conflicts.takeFrom`.
pub const TAKE_FROM_MAX: usize = 10;
/// Longest name of a field manager in characters, as API servers have it.
pub const MANAGER_MAX: usize = 128;

/// What is done where others were first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conflicts {
    /// An object that is there already and that the hub did not make. Fail leaves it alone and says so,
    /// AdoptIfEqual takes it over when its values are those that are declared, Adopt takes it over and makes
    /// it so. Objects of another hub, of a controller in the member, and those being deleted are never taken.
    pub existing: ExistingPolicy,
    /// A field that another manager holds with another value. Force takes it, Fail leaves it and says who
    /// holds it, also when the object has drifted.
    pub fields: FieldPolicy,
    /// More field managers that applied the objects before the hub did. When an object is taken over, what
    /// they set is the hub's from then on, as with kubectl, Helm, Argo CD and Flux: what the manifest lacks
    /// of it, or drops later, goes. At most 10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = TAKE_FROM_MAX), extend("x-kubernetes-list-type" = "atomic"))]
    pub take_from: Vec<TakeFrom>,
}

/// A field manager, as an entry of metadata.managedFields names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakeFrom {
    /// The manager's name, as the object's metadata.managedFields has it, such as helm-controller.
    #[schemars(length(min = 1, max = MANAGER_MAX), extend("x-kubernetes-validations" = schema::rule(
        "!self.startsWith('vidra/')",
        "give the name of a field manager that is no Vidra hub's: objects of another hub are taken over by the annotation vidra.dev/take-over-from of the MemberCluster",
    )))]
    pub manager: String,
    /// How it wrote, as managedFields has it: Apply for a server-side apply, Update for anything else.
    pub operation: ManagerOperation,
}

/// How a field manager wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ManagerOperation {
    /// By server-side apply.
    Apply,
    /// In any other way.
    Update,
}

impl ManagerOperation {
    /// As managedFields has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What is done with an object that others made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ExistingPolicy {
    /// It is left alone, and the target fails.
    #[default]
    Fail,
    /// It is taken over when that changes no value of it.
    AdoptIfEqual,
    /// It is taken over and made as declared.
    Adopt,
}

/// What is done with a field that another manager holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum FieldPolicy {
    /// It is left alone, and the target fails.
    Fail,
    /// It is taken.
    #[default]
    Force,
}

/// What becomes of declared Namespaces and CustomResourceDefinitions that are no longer wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ContainerDeletion {
    /// They stay, without our labels.
    #[default]
    Retain,
    /// They are deleted once nothing is in them; else they stay, without our labels.
    WhenEmpty,
}

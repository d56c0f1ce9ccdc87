//! What others have made or hold already, and how far a VidraResource may go with it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is done where others were first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conflicts {
    /// An object that is there already and that the hub did not make. Fail leaves it alone and says so,
    /// AdoptIfEqual takes it over when its values are those that are declared, Adopt takes it over and makes
    /// it so. Objects of another hub, of a controller in the member, and those being deleted are never taken.
    pub existing: ExistingPolicy,
    /// A field that another manager holds with another value. Force takes it, Fail leaves it and says who
    /// holds it, also when the object has drifted.
    pub fields: FieldPolicy,
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

//! What a VidraResource allows a plan to do beyond what is proved its own.

use vidra_api::DriftPolicy;

/// What a plan may do with what others made or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Objects that others made may be taken over, after a live read.
    pub adopt: bool,
    /// Fields that other managers hold are taken from them; never those of another VidraResource.
    pub force: bool,
    /// Declared Namespaces and CustomResourceDefinitions are deleted when nothing is in them.
    pub when_empty: bool,
    /// What is done about an object that is not as it was left.
    pub drift: DriftPolicy,
}

impl Default for Policy {
    /// As the API's defaults.
    fn default() -> Self {
        Self { adopt: false, force: true, when_empty: false, drift: DriftPolicy::Correct }
    }
}

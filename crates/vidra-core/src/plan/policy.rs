//! What a VidraResource allows a plan to do beyond what is proved its own.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Objects that others made may be taken over, after a live read.
    pub adopt: bool,
    /// Fields that other managers hold are taken from them; never those of another VidraResource.
    pub force: bool,
    /// Declared Namespaces and CustomResourceDefinitions are deleted when nothing is in them.
    pub when_empty: bool,
}

impl Default for Policy {
    /// As the API's defaults.
    fn default() -> Self {
        Self { adopt: false, force: true, when_empty: false }
    }
}

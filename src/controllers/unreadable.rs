//! What is told where an object of the hub is there and this version cannot read it: nothing is done for it, and nobody
//! is advised to do without it.

/// The words for an object, by its kind and name.
pub(super) fn message(what: &str) -> String {
    format!(
        "this vidra-hub cannot read {what}, which is there: nothing is written and nothing is deleted for it. Run the vidra-hub that wrote it, or repair it by hand"
    )
}

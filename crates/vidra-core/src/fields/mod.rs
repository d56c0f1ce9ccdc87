//! What we own in a live object, and whether its values still are as we left them.
//!
//! The API server writes down, for each manager, which fields it set (`metadata.managedFields`). Our Apply entry
//! is read into a [`FieldSet`]; every other question of this module is asked along such a set:
//!
//! ```text
//! live object ── own_apply_entry ──> fieldsV1 ── FieldSet::from_fields_v1 ──> FieldSet
//!     ├── values_hash(live, set, declared)   did a value of ours change?        (no allocation)
//!     ├── differing(a, b, set, declared)     which ones?
//!     ├── missing_leaves(declared, set)      what is declared and no longer ours?
//!     ├── taken_empties(live, declared, ..)  which declared {} or [] did another manager fill as a whole?
//!     ├── holders(live, path)                who holds a path?
//!     ├── entry_sets(live)                   who holds what?
//!     ├── absorbed(..), parted(..)           what earlier appliers own becomes ours; inherited(..): another hub's
//!     ├── Earlier                            who these are, and what of theirs stays
//!     ├── with_live_values(..)               the same value in the live spelling
//!     ├── masked(value, paths)               without what is left alone
//!     └── keeping(declared, live, ..)        what is declared, leaving alone what is live
//! ```
//!
//! Objects are plain JSON. No schema is needed: an entry says itself which lists are keyed, which are sets, and which
//! values are owned whole. Not here: what to do about a difference, and anything that is kept between two calls.

mod borrow;
mod declared;
mod differ;
mod earlier;
mod element;
mod entries;
mod feed;
mod hash;
mod keep;
mod literal;
mod mask;
mod moves;
mod set;
mod taken;
mod text;

#[cfg(test)]
mod tests;

pub use borrow::with_live_values;
pub use declared::{has_empties, missing_leaves};
pub use differ::differing;
pub use earlier::{Earlier, OtherVersion};
pub use element::{Element, Path};
pub use entries::{
    Holder, contenders, entry_sets, held_paths, holders, is_held, other_vidra_managers, own_apply_entry,
    own_apply_set, owns_label,
};
pub use feed::raw_fingerprint;
pub use hash::values_hash;
pub use keep::keeping;
pub use literal::{Literal, Real};
pub use mask::{masked, put};
pub use moves::{absorbed, claimed, has_no_entries, inherited, is_of_hub, parted};
pub use set::FieldSet;
pub use taken::taken_empties;
pub use text::PathError;

/// The annotations that carry our own stamps: changing them is never drift of values.
pub const STAMP_PREFIX: &str = "owner.vidra.dev/";

/// What every field manager of a Vidra hub begins with.
pub const MANAGER_PREFIX: &str = "vidra/";

/// Why a managedFields entry could not be read. No message carries a value of the object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// An entry, or a part of it, is no JSON object.
    #[error(
        "managedFields: the entry at {at} is not an object; reset managedFields of this object or apply it again"
    )]
    ReadNode {
        /// The path above which the entry could be read.
        at: Path,
    },
    /// A path element has a known kind (f, k, v, i) and content that does not parse.
    #[error(
        "managedFields: an element of kind {kind:?} under {at} cannot be read ({why}); reset managedFields of this \
         object or apply it again"
    )]
    ReadElement {
        /// The path under which the element stands.
        at: Path,
        /// Its kind as written: f, k, v or i, or the whole text when it has no kind.
        kind: String,
        /// What the parser said.
        why: String,
    },
}

//! Structured merge and diff, by the rules of sigs.k8s.io/structured-merge-diff: which fields a document
//! declares, how it is laid over another, what differs, and what is left when fields are taken away.
//! Pure: values in, values out.

mod compare;
mod element;
mod merge;
mod reconcile;
mod remove;
mod set;
mod typed;

pub use compare::{Comparison, compare};
pub use element::{Element, Path, display};
pub use merge::merge;
pub use reconcile::reconcile;
pub use remove::remove;
pub use set::Set;
pub use typed::{Typed, fields, list_element, validate};

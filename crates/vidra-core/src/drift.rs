//! Drift with names: what about a live object is otherwise than it was delivered, and who holds it now.
//!
//! Whether an object has drifted is decided in the hub's src/member/records/baseline.rs (`differs`).
//!
//! [`evidence`] is made by the fold that sees drift, from the event itself, and is all that is kept of it: what is
//! secret is a digest before it is kept anywhere.

mod evidence;
mod managers;
mod redact;
mod value;
mod withheld;

pub use evidence::{Evidence, Suspect, UNKNOWN, evidence};
pub use managers::managers;
pub use redact::{BadRule, Cover, RULES_MAX, Redactions};
pub use withheld::{About, Does, Refusal};

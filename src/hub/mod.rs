//! The hub's own API: what is declared there (the catalog), and everything that is written there.

pub mod api;
pub mod catalog;
pub mod crd_deletion;
pub mod crd_version;
pub mod events;
pub mod identity;
pub mod inventory;
pub mod registration;
pub mod revisions;
pub mod sources;
pub mod state_ownership;
pub mod watch;

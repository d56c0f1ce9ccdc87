//! The commands: calls, and nothing that could be a function.

pub mod check;
pub mod clusters;
pub mod diff;
pub mod drift;
pub mod file;
pub mod health;
pub mod join;
pub mod live;
pub mod member;
pub mod reconcile;
pub mod registration;
pub mod sources;
pub mod status;

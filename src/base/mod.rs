//! What every other folder may use and what knows none of them: failed calls, pauses, supervised tasks, the seams to time
//! and chance, one copy of what is alike, permits for calls, versions as numbers.

pub mod backoff;
pub mod env;
pub mod error;
pub mod interner;
pub mod limiter;
pub mod resource_version;
pub mod supervise;
pub mod withdrawal;

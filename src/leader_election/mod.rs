//! One process leads at a time: the Lease, the thread that keeps it, and the writes that it leaves to the next one.

pub mod keeper;
pub mod late_writes;
pub mod lease;

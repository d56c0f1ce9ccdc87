//! Benches: what the hub costs, on real API servers, the hub a process of its own as it is released.
//!
//! ```text
//! bin/bench -> calls | hubstate -> Fleet (testbed, hub process, as administrator)
//!                              -> ledger (the API servers' own record of requests)
//!                              -> Report (a table for people, JSON for programs)
//! ```

mod calls;
mod etcd;
mod fleet;
mod hubstate;
mod ledger;
mod machine;
mod process;
mod report;

pub use calls::calls;
pub use hubstate::{Size, hubstate};
pub use report::Report;

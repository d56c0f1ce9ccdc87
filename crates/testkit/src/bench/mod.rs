//! Benches: what the hub costs, the hub a process of its own as it is released; on real API servers, but for
//! `health`, `memory` and `scale`, whose clusters are in memory.
//!
//! ```text
//! bin/bench -> apply | calls | heal | health | hubstate | isolation | memory | quiet | restart | scale | standby -> Fleet (testbed, hub process, as administrator)
//!                              -> ledger (the API servers' own record of requests)
//!                              -> Report (a table for people, JSON for programs)
//! ```

mod apply;
mod attacked;
mod calls;
mod etcd;
mod feedback;
mod fleet;
mod floor;
mod heal;
mod health;
mod hostile;
mod hubstate;
mod isolation;
mod ledger;
mod machine;
mod memkube;
mod memory;
mod process;
mod report;
mod scale;
mod standby;
mod steady;
mod tenants;
mod watched;

pub use apply::apply;
pub use calls::calls;
pub use fleet::Judge;
pub use heal::heal;
pub use health::health;
pub use hubstate::{Size, hubstate};
pub use isolation::{Isolation, isolation};
pub use memory::memory;
pub use report::Report;
pub use scale::{Scale, scale};
pub use standby::standby;
pub use steady::{quiet, restart};

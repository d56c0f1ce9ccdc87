//! What scenarios are written against: a hub and its members, whichever bed they come from.
//!
//! ```text
//! scenario -> World (one scenario's turn: its namespaces, its hub, what it registered)
//!               |-> Access: objects of a cluster as one identity, plain JSON
//!               |-> Bed: clusters, identities, faults, the servers' own record of requests
//!               +-> wait_for: a condition, a deadline, the last observation
//! ```
//! Nothing here sleeps for a fixed time: a scenario waits for what it wants to see, and shows that nothing
//! happened by what the servers recorded until a later event.

mod access;
mod bed;
mod hub;
mod logs;
mod members;
mod memory;
mod metric;
mod real;
mod record;
mod resources;
mod rights;
mod wait;

pub use access::{Access, At, Refused};
pub use bed::{Bed, Who};
pub use hub::World;
pub use logs::Logs;
pub use members::{Frozen, two_contexts};
pub use memory::{in_memory, in_memory_with_members};
pub use real::on_real_servers;
pub use record::Mark;
pub use wait::{LONG, SOON, wait_for};

use futures::future::LocalBoxFuture;

/// A scenario whose type is forgotten, so that what runs scenarios is compiled once and not for each of them.
type Boxed<'a> = Box<dyn FnOnce(World) -> LocalBoxFuture<'a, ()> + 'a>;

fn boxed<'a>(scenario: impl AsyncFnOnce(World) + 'a) -> Boxed<'a> {
    Box::new(|world| Box::pin(async { scenario(world).await }))
}

/// Runs a scenario on the bed that `VIDRA_BED` names: `testbed`, or, where it is not set, in memory.
pub fn scenario(scenario: impl AsyncFnOnce(World)) {
    let scenario = boxed(scenario);
    match std::env::var("VIDRA_BED").as_deref() {
        Ok("testbed") => real::run(scenario),
        Ok("memory") | Err(_) => memory::run(scenario),
        Ok(other) => panic!("VIDRA_BED is {other:?}; it takes memory or testbed"),
    }
}

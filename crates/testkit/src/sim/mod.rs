//! The simulation: the whole hub in process over in-memory clusters, on tokio's paused clock, a function of
//! its seed. Hours pass in milliseconds, and a hub can be stopped before or after any of its calls.
//!
//! ```text
//! crash (scenario x call) -> World (clusters, users) -> Life (app::run as its own user)
//!                               \-> Observer (each call: counted, delayed, cut off) <-/
//!                               |       \-> Judge (what must hold) -> Index (what is there) -> Declared (what is to be)
//!                               \-> state (what is stored, without uids and times)
//! ```
//!
//! A crash cuts a hub's life off from all clusters at one call: nothing that it sends from then on has an
//! effect or an answer. The next life calls under another user's name. To the clusters that is a process
//! that died.

pub mod crash;
pub mod declared;
pub mod doc;
pub mod health;
pub mod index;
pub mod judge;
pub mod kinds;
pub mod life;
pub mod marks;
pub mod observer;
pub mod seams;
pub mod sparing;
pub mod state;
mod strike;
pub mod trouble;
pub mod vary;
pub mod world;

pub use crash::{Moment, Run, Scenario};
pub use observer::Observer;
pub use trouble::{Crash, Effect, Lost, Stale, Trouble};
pub use world::{Shape, World};

/// Runs to its end what `make` makes, on one thread, on the paused clock, with all chance from this seed.
pub fn run<F: Future>(seed: u64, make: impl FnOnce() -> F) -> F::Output {
    // kube's back-off draws from the thread's generator.
    fastrand::seed(seed);
    doc::forget();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async { make().await })
}

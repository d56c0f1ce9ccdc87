//! Turns for what takes long to compute, off the threads that everything else runs on: parsing, packing, rendering. In a
//! namespace one goes after the other, so that whoever declares much waits for itself; of all namespaces a few go side
//! by side, in the order in which they asked.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{OwnedMutexGuard, Semaphore, SemaphorePermit},
};
use vidra_core::mutants::{self, Mutant};

/// Computations side by side, of all namespaces.
const SIDE_BY_SIDE: usize = 2;

/// Turns for long computations, one at a time for a namespace.
pub(super) struct Turns {
    all: Semaphore,
    /// Of namespaces that have a turn or wait for one.
    namespaces: Mutex<BTreeMap<Box<str>, Arc<tokio::sync::Mutex<()>>>>,
}

impl Default for Turns {
    fn default() -> Self {
        Self { all: Semaphore::new(SIDE_BY_SIDE), namespaces: Mutex::default() }
    }
}

/// Leave to compute.
pub(super) struct Turn<'t> {
    _of_all: Option<SemaphorePermit<'t>>,
    _of_namespace: OwnedMutexGuard<()>,
}

impl Turns {
    /// The next turn of a namespace.
    pub(super) async fn of(&self, namespace: &str) -> Turn<'_> {
        let turn = {
            let mut namespaces = self.namespaces.lock();
            namespaces.retain(|_, turn| Arc::strong_count(turn) > 1);
            namespaces.entry(namespace.into()).or_default().clone()
        };
        let of_namespace = turn.lock_owned().await;
        // Never fails: nobody closes it.
        Turn { _of_all: self.all.acquire().await.ok(), _of_namespace: of_namespace }
    }
}

impl Turn<'_> {
    /// Computes. What else this thread has to do goes on in another one, where there may be others: on a paused clock
    /// all happens in one, in its order.
    pub(super) fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::CurrentThread => work(),
            _ if mutants::is(Mutant::BlocksThreads) => work(),
            _ => tokio::task::block_in_place(work),
        }
    }
}

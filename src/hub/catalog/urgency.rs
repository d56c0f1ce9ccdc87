//! How urgent it is that something is seen for the first time. While the hub starts, all that there is looks as if it
//! had just been made; what somebody changes then is not to wait behind it.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::workqueue::Priority;

/// Whether all was listed once; what is seen before that is not urgent.
#[derive(Debug, Default)]
pub(super) struct Urgency {
    /// All has been listed once.
    listed: AtomicBool,
}

impl Urgency {
    /// A change, or what is new.
    pub(super) fn of_change(&self) -> Priority {
        match self.listed.load(Ordering::Relaxed) {
            true => Priority::User,
            false => Priority::Resync,
        }
    }

    /// All has been listed once: from now on what is new was made by somebody.
    pub(super) fn all_listed(&self) {
        self.listed.store(true, Ordering::Relaxed);
    }
}

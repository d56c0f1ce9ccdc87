//! Bounds that change how much is done at once or kept in one place, and never what comes of it. They are no settings:
//! the simulation makes them small, so that second pages, second chunks and lists that are cut come in small worlds too.

use vidra_api::{drift::CHANGES_MAX, inventory::ENTRIES_MAX};

/// Bounds that no setting changes. Each is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InternalLimits {
    /// Objects in a page of a list.
    pub page: u32,
    /// Entries in a VidraInventory; at most [`ENTRIES_MAX`].
    pub inventory_entries: usize,
    /// Bytes of a revision in one Secret, which holds 1 MiB; the rest is room for its metadata.
    pub revision_part: usize,
    /// Calls of one target's reconcile side by side.
    pub target_calls: usize,
    /// VidraTargets of one VidraResource that are written side by side.
    pub resource_calls: usize,
    /// Calls to the hub's API under way at once, those of all keys in work together; watches, Events and the Lease are
    /// not among them.
    pub hub_calls: usize,
    /// Entries of a VidraTarget's `status.changes`; at most [`CHANGES_MAX`].
    pub changes: usize,
}

impl Default for InternalLimits {
    fn default() -> Self {
        Self {
            page: 500,
            inventory_entries: ENTRIES_MAX,
            revision_part: 1_000_000,
            target_calls: 32,
            resource_calls: 16,
            hub_calls: 64,
            changes: CHANGES_MAX,
        }
    }
}

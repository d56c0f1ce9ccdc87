//! Evidence of drift as it is kept: as long as there is room for it. Nothing in it is secret.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use vidra_api::{ChangeKind, ChangedField};
use vidra_core::drift::Evidence;

/// Evidence of one member: what comes beyond is told without its fields.
const BYTES_MOST: usize = 8 << 20;

/// Evidence of drift, and the room that it takes.
pub(super) struct Trace {
    pub(super) evidence: Evidence,
    bytes: usize,
    room: Arc<AtomicUsize>,
}

impl Trace {
    /// `room`: the bytes that all of the member's have.
    pub(super) fn new(mut evidence: Evidence, room: &Arc<AtomicUsize>) -> Box<Self> {
        let of = |field: &ChangedField| {
            let values =
                [&field.expected, &field.actual].into_iter().flatten().map(String::len).sum::<usize>();
            size_of::<ChangedField>()
                + field.path.len()
                + field.manager.len()
                + field.operation.len()
                + values
        };
        let mut bytes: usize = evidence.fields.iter().map(of).sum();
        if room.load(Ordering::Relaxed) + bytes > BYTES_MOST {
            evidence.fields = Vec::new();
            bytes = 0;
        }
        room.fetch_add(bytes, Ordering::Relaxed);
        Box::new(Self { evidence, bytes, room: room.clone() })
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.room.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Evidence that names no field.
pub(super) fn bare(change: ChangeKind) -> Evidence {
    Evidence { change, fields: Vec::new() }
}

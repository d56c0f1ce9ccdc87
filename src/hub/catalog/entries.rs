//! How many entries the catalog holds, for tests: they look that what is gone leaves none.

use super::Catalog;

impl Catalog {
    /// By what they are of.
    pub fn entries(&self) -> [(&'static str, usize); 9] {
        let inner = self.inner.read();
        [
            ("resources", inner.resources.len()),
            ("targets", inner.targets.len()),
            ("by cluster", inner.by_cluster.len()),
            ("inventories", inner.inventories.len()),
            ("inventories by cluster", inner.inventoried.len()),
            ("members", inner.members.len()),
            ("arrivals", inner.arrived.len()),
            ("registrations", inner.registrations.len()),
            ("unread", inner.unread.len()),
        ]
    }
}

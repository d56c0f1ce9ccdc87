//! How many entries the process holds, for tests: they look that what is gone leaves none.

use super::Hub;
use crate::metrics::Entries;

/// All of them; those of sessions together.
pub fn read(hub: &Hub) -> Entries {
    let mut all: Entries = hub.state.lock().entries().into();
    all.extend(hub.catalog.entries());
    all.extend(hub.queue.entries());
    all.extend(hub.revisions.entries());
    all.insert("clusters that are counted", hub.metrics.clusters().count());
    let sessions = hub.sessions.lock().clone();
    all.insert("sessions", sessions.len());
    all.insert("members with late creates", hub.late_creates.count());
    for session in sessions.values() {
        let own = session.records.entries().into_iter().chain(session.informers.entries());
        for (name, count) in own.chain([("claims", session.claims.count())]) {
            *all.entry(name).or_default() += count;
        }
    }
    all
}

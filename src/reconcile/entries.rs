//! How many entries the process holds, for tests: they look that what is gone leaves none.

use super::{Hub, Memo};
use crate::metrics::Entries;

impl Hub {
    /// All of them; those of sessions together.
    pub fn entries(&self) -> Entries {
        let mut all: Entries = self.memo.lock().entries().into();
        all.extend(self.catalog.entries());
        all.extend(self.queue.entries());
        all.extend(self.revisions.entries());
        all.insert("clusters that are counted", self.metrics.clusters().len());
        let sessions = self.sessions.lock().clone();
        all.insert("sessions", sessions.len());
        all.insert("members where a call may land", self.landings.count());
        for session in sessions.values() {
            let own = session.records.entries().into_iter().chain(session.informers.entries());
            for (name, count) in own.chain([("claims", session.claims.len())]) {
                *all.entry(name).or_default() += count;
            }
        }
        all
    }
}

impl Memo {
    fn entries(&self) -> [(&'static str, usize); 25] {
        [
            ("statuses that were written", self.status_written.len()),
            ("corrections", self.corrections.len()),
            ("targets that were made", self.made.len()),
            ("targets of others", self.untold.len()),
            ("contentions", self.fights.len()),
            ("targets that drift", self.drifting.len()),
            ("targets that were repaired", self.mended.len()),
            ("judged members", self.judged.len()),
            ("kept revisions", self.kept_revision.len()),
            ("resources with outdated revisions", self.outdated.len()),
            ("unused paths", self.unused.len()),
            ("identities", self.claims.len()),
            ("targets with undeclared objects", self.undeclared.len()),
            ("revisited targets", self.revisited.len()),
            ("resources that were tried", self.tried.len()),
            ("used approvals", self.used_approvals.len()),
            ("idle approvals", self.idle_approvals.len()),
            ("revoking members", self.revoking.len()),
            ("counts that settle", self.counts.len()),
            ("statuses that settle", self.settling.len()),
            ("writes that failed", self.failures.len()),
            ("statuses that are deferred", self.deferred.len()),
            ("refused targets", self.refused.len()),
            ("resources whose status is shortened", self.whole_resources.len()),
            ("targets whose status is shortened", self.whole_targets.len()),
        ]
    }
}

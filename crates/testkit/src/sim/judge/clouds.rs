//! When the hub may not know what is so, by cluster: a fault at one cluster excuses nothing that is about another.
//!
//! What is declared the hub reads from its own cluster alone. What is in a member it reads there, and writes what it
//! knows of it on the hub, so there a fault of either counts.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;
use vidra_hub::wire::follow::WATCH_MOST;

/// The cluster of which all that the hub does depends.
pub const HUB: &str = "hub";

/// An event that noise delays is later by less than this.
pub const LATE_MOST: Duration = Duration::from_secs(8);

/// Times in which faults may hide something, by cluster.
#[derive(Default)]
pub struct Clouds {
    /// Since when, and until when, by cluster. Two that meet are one.
    faults: BTreeMap<String, (Instant, Instant)>,
    /// Until when a watch may lag, by cluster.
    lags: BTreeMap<String, Instant>,
}

impl Clouds {
    /// From `since` on the hub may go by what was so then, until `until`.
    pub fn add(&mut self, cluster: &str, (since, until): (Instant, Instant), now: Instant) {
        let cloud = self.faults.entry(cluster.to_owned()).or_insert((since, until));
        *cloud = match *cloud {
            (from, before) if before >= now => (from.min(since), before.max(until)),
            _ => (since, until),
        };
    }

    /// Since when what was so in this cluster may count, at this instant.
    pub fn since(&self, cluster: &str, at: Instant) -> Option<Instant> {
        self.faults.get(cluster).filter(|(_, until)| *until >= at).map(|(since, _)| *since)
    }

    /// An event of a watch of this cluster is late. So is all that follows it in this watch, until that ends.
    pub fn hold_up(&mut self, cluster: &str, now: Instant) {
        self.lags.insert(cluster.to_owned(), now + WATCH_MOST);
    }

    /// By how much what a watch of this cluster shows may be late at this instant.
    pub fn lag(&self, cluster: &str, at: Instant) -> Duration {
        let lags = self.lags.get(cluster).is_some_and(|until| *until >= at);
        if lags { LATE_MOST } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clouds_that_meet_are_one_and_each_cluster_has_its_own() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut clouds = Clouds::default();
        clouds.add("berlin", (at(10), at(20)), at(10));
        assert_eq!([clouds.since("berlin", at(20)), clouds.since("berlin", at(21))], [Some(at(10)), None]);
        assert_eq!(clouds.since("tokyo", at(15)), None);
        clouds.add("berlin", (at(15), at(30)), at(15));
        assert_eq!(clouds.since("berlin", at(30)), Some(at(10)));
        clouds.add("berlin", (at(40), at(50)), at(40));
        assert_eq!(clouds.since("berlin", at(45)), Some(at(40)), "what is over is no excuse any more");
    }

    #[test]
    fn a_watch_of_which_an_event_is_late_lags_until_it_ends() {
        let (mut clouds, start) = (Clouds::default(), Instant::now());
        clouds.hold_up("berlin", start);
        let lags = |cluster, after| clouds.lag(cluster, start + after);
        assert_eq!([lags("berlin", WATCH_MOST), lags("tokyo", WATCH_MOST)], [LATE_MOST, Duration::ZERO]);
        assert_eq!(lags("berlin", WATCH_MOST + Duration::from_secs(1)), Duration::ZERO);
    }
}

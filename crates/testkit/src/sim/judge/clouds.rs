//! When the hub may not know what is so, by cluster: a fault at one cluster excuses nothing that is about another.
//!
//! What is declared the hub reads from its own cluster alone. What is in a member it reads there, and writes what it
//! knows of it on the hub, so there a fault of either counts.

use std::collections::BTreeMap;

use tokio::time::Instant;

/// The cluster of which all that the hub does depends.
pub const HUB: &str = "hub";

/// Since when, and until when, by cluster. Two that meet are one.
#[derive(Default)]
pub struct Clouds(BTreeMap<String, (Instant, Instant)>);

impl Clouds {
    /// From `since` on the hub may go by what was so then, until `until`.
    pub fn add(&mut self, cluster: &str, (since, until): (Instant, Instant), now: Instant) {
        let cloud = self.0.entry(cluster.to_owned()).or_insert((since, until));
        *cloud = match *cloud {
            (from, before) if before >= now => (from.min(since), before.max(until)),
            _ => (since, until),
        };
    }

    /// Since when what was so in this cluster may count, at this instant.
    pub fn since(&self, cluster: &str, at: Instant) -> Option<Instant> {
        self.0.get(cluster).filter(|(_, until)| *until >= at).map(|(since, _)| *since)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
}

//! Counters by cluster: calls, and what a member showed that is not to be trusted. Those of a member go when the
//! member goes.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::drift::counter;

/// The cluster that is no member.
const HUB: &str = "hub";

/// The counters of all clusters. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ClusterMetrics {
    clusters: Arc<Mutex<BTreeMap<String, ClusterCounters>>>,
}

/// The counters of one cluster. Cheap to clone. What is counted here once the cluster was forgotten, nobody sees: so
/// a call that ends late brings nothing back.
#[derive(Clone, Debug, Default)]
pub struct ClusterCounters {
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    /// By verb and outcome.
    calls: BTreeMap<(&'static str, &'static str), u64>,
    /// By kind and fault.
    faults: BTreeMap<(String, &'static str), u64>,
}

impl ClusterMetrics {
    /// The hub's own.
    pub fn hub(&self) -> ClusterCounters {
        self.of(HUB)
    }

    /// Those of a cluster; they go on where it had some.
    pub fn of(&self, cluster: &str) -> ClusterCounters {
        self.clusters.lock().entry(cluster.to_owned()).or_default().clone()
    }

    /// The member is gone.
    pub fn forget(&self, cluster: &str) {
        // A member of that name shares them with the hub.
        if cluster != HUB {
            self.clusters.lock().remove(cluster);
        }
    }
}

impl ClusterCounters {
    /// A call ended.
    pub fn called(&self, verb: &'static str, outcome: &'static str) {
        *self.counts.lock().calls.entry((verb, outcome)).or_default() += 1;
    }

    /// A watch or a list of a kind showed something that is not to be trusted.
    pub fn distrusted(&self, kind: String, fault: &'static str) {
        *self.counts.lock().faults.entry((kind, fault)).or_default() += 1;
    }
}

impl Collector for ClusterMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (mut calls, mut faults) = (Vec::new(), Vec::new());
        for (cluster, counters) in &*self.clusters.lock() {
            let cluster = || ("cluster", cluster.clone());
            let counts = counters.counts.lock();
            calls.extend(counts.calls.iter().map(|((verb, outcome), count)| {
                (vec![cluster(), ("verb", (*verb).to_owned()), ("outcome", (*outcome).to_owned())], *count)
            }));
            faults.extend(counts.faults.iter().map(|((kind, fault), count)| {
                (vec![cluster(), ("kind", kind.clone()), ("fault", (*fault).to_owned())], *count)
            }));
        }
        counter(&mut encoder, "vidra_calls", "Calls by cluster, verb and outcome", calls.into_iter())?;
        let help = "What members showed that is not to be trusted, by cluster, kind and fault";
        counter(&mut encoder, "vidra_watch_faults", help, faults.into_iter())
    }
}

#[cfg(test)]
mod tests {
    use crate::serve::metrics::Metrics;

    #[test]
    fn what_is_counted_of_a_member_goes_with_it_and_a_late_call_brings_nothing_back() {
        let metrics = Metrics::default();
        let clusters = metrics.clusters();
        let (berlin, tokyo) = (clusters.of("berlin"), clusters.of("tokyo"));
        clusters.hub().called("get", "ok");
        for one in [&berlin, &tokyo] {
            one.called("apply", "ok");
            one.called("apply", "ok");
            one.distrusted("v1/ConfigMap".to_owned(), "lost");
        }
        let berlins = "vidra_calls_total{cluster=\"berlin\",verb=\"apply\",outcome=\"ok\"} 2\n";
        let tokyos = "vidra_watch_faults_total{cluster=\"tokyo\",kind=\"v1/ConfigMap\",fault=\"lost\"} 1\n";
        let text = metrics.render();
        assert!(text.contains(berlins) && text.contains(tokyos), "{text}");

        clusters.forget("tokyo");
        clusters.forget("hub");
        tokyo.called("apply", "NoAnswer");
        let text = metrics.render();
        assert!(text.contains(berlins) && !text.contains("tokyo"), "{text}");
        assert!(
            text.contains("vidra_calls_total{cluster=\"hub\",verb=\"get\",outcome=\"ok\"} 1\n"),
            "{text}"
        );

        // One of that name begins again; new credentials do not.
        clusters.of("tokyo").called("apply", "ok");
        clusters.of("tokyo").called("apply", "ok");
        let text = metrics.render();
        assert!(text.contains("{cluster=\"tokyo\",verb=\"apply\",outcome=\"ok\"} 2\n"), "{text}");
    }
}

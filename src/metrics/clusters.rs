//! Counters by cluster: calls, what a member showed that is not to be trusted, and drift. Those of a member go when the
//! member goes.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::counter::ConstCounter,
};
use vidra_api::ChangeKind;

/// The cluster that is no member.
const HUB: &str = "hub";

/// The counters of all clusters. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ClusterMetrics {
    clusters: Arc<Mutex<BTreeMap<String, ClusterCounters>>>,
}

/// The counters of one cluster. Cheap to clone. What is counted here once the cluster was forgotten, nobody sees: so
/// what ends late brings nothing back.
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
    /// Objects found not to be as declared, by how.
    detections: BTreeMap<ChangeKind, u64>,
    /// Objects of which drift was undone.
    corrections: u64,
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

    /// How many clusters have some.
    pub fn count(&self) -> usize {
        self.clusters.lock().len()
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

    /// Drift of one object was found.
    pub fn drift_detected(&self, change: ChangeKind) {
        *self.counts.lock().detections.entry(change).or_default() += 1;
    }

    /// Drift of so many objects was undone.
    pub fn drift_corrected(&self, objects: i64) {
        let mut counts = self.counts.lock();
        counts.corrections = counts.corrections.saturating_add(u64::try_from(objects).unwrap_or(0));
    }
}

impl Collector for ClusterMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (mut calls, mut faults) = (Vec::new(), Vec::new());
        let (mut detections, mut corrections) = (Vec::new(), Vec::new());
        for (cluster, counters) in &*self.clusters.lock() {
            let cluster = || ("cluster", cluster.clone());
            let counts = counters.counts.lock();
            calls.extend(counts.calls.iter().map(|((verb, outcome), count)| {
                (vec![cluster(), ("verb", (*verb).to_owned()), ("outcome", (*outcome).to_owned())], *count)
            }));
            faults.extend(counts.faults.iter().map(|((kind, fault), count)| {
                (vec![cluster(), ("kind", kind.clone()), ("fault", (*fault).to_owned())], *count)
            }));
            detections.extend(
                counts
                    .detections
                    .iter()
                    .map(|(change, count)| (vec![cluster(), ("change", format!("{change:?}"))], *count)),
            );
            corrections.extend((counts.corrections > 0).then(|| (vec![cluster()], counts.corrections)));
        }
        counter(&mut encoder, "vidra_api_requests", "Calls by cluster, verb and outcome", calls.into_iter())?;
        let help = "What members showed that is not to be trusted, by cluster, kind and fault";
        counter(&mut encoder, "vidra_watch_faults", help, faults.into_iter())?;
        let help = "Objects found not to be as declared";
        counter(&mut encoder, "vidra_drift_detections", help, detections.into_iter())?;
        let help = "Objects whose drift was corrected";
        counter(&mut encoder, "vidra_drift_corrections", help, corrections.into_iter())
    }
}

pub(super) type Labels = Vec<(&'static str, String)>;

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (Labels, u64)>,
) -> Result<(), std::fmt::Error> {
    let kind = ConstCounter::<u64>::new(0).metric_type();
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in values {
        ConstCounter::<u64>::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use vidra_api::ChangeKind;

    use crate::metrics::Metrics;

    #[test]
    fn what_is_counted_of_a_member_goes_with_it_and_what_ends_late_brings_nothing_back() {
        let metrics = Metrics::default();
        let clusters = metrics.clusters();
        let (berlin, tokyo) = (clusters.of("berlin"), clusters.of("tokyo"));
        clusters.hub().called("get", "ok");
        for one in [&berlin, &tokyo] {
            one.called("apply", "ok");
            one.called("apply", "ok");
            one.distrusted("v1/ConfigMap".to_owned(), "lost");
            one.drift_detected(ChangeKind::Missing);
            one.drift_detected(ChangeKind::Missing);
            one.drift_corrected(2);
            one.drift_corrected(0);
        }
        let berlins = "vidra_api_requests_total{cluster=\"berlin\",verb=\"apply\",outcome=\"ok\"} 2\n";
        let tokyos = "vidra_watch_faults_total{cluster=\"tokyo\",kind=\"v1/ConfigMap\",fault=\"lost\"} 1\n";
        let detected = "vidra_drift_detections_total{cluster=\"berlin\",change=\"Missing\"} 2\n";
        let corrected = "vidra_drift_corrections_total{cluster=\"berlin\"} 2\n";
        let text = metrics.render();
        assert!(text.contains(berlins) && text.contains(tokyos), "{text}");
        assert!(text.contains(detected) && text.contains(corrected), "{text}");

        clusters.forget("tokyo");
        clusters.forget("hub");
        // A call, and a reconcile that found drift and undid it.
        tokyo.called("apply", "NoAnswer");
        tokyo.drift_detected(ChangeKind::Modified);
        tokyo.drift_corrected(1);
        let text = metrics.render();
        assert!(text.contains(berlins) && text.contains(corrected) && !text.contains("tokyo"), "{text}");
        assert!(
            text.contains("vidra_api_requests_total{cluster=\"hub\",verb=\"get\",outcome=\"ok\"} 1\n"),
            "{text}"
        );

        // One of that name begins again; new credentials do not.
        clusters.of("tokyo").called("apply", "ok");
        clusters.of("tokyo").called("apply", "ok");
        let text = metrics.render();
        assert!(text.contains("{cluster=\"tokyo\",verb=\"apply\",outcome=\"ok\"} 2\n"), "{text}");
    }
}

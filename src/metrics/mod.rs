//! Counters and gauges, under the field's usual names where there are any.

mod clusters;
mod drift;
mod gauges;

use std::{collections::BTreeMap, sync::Arc};

use prometheus_client::{metrics::gauge::Gauge, registry::Registry};

use self::gauges::{Reader, Reads};
pub use self::{
    clusters::{ClusterCounters, ClusterMetrics},
    drift::DriftGauges,
    gauges::{MemberGauges, Observed},
};

use crate::{base::supervise::Fallen, workqueue::QueueMetrics};

/// Entries that the process holds, by what they are of.
pub type Entries = BTreeMap<&'static str, usize>;

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of the process. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    clusters: ClusterMetrics,
    queue: QueueMetrics,
    leader: Gauge,
    hub: Reader,
    fallen: Fallen,
}

impl Default for Metrics {
    fn default() -> Self {
        let clusters = ClusterMetrics::default();
        let queue = QueueMetrics::default();
        let hub = Reader::default();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(clusters.clone()));
        queue.register(&mut registry);
        // Of a process that waits for the Lease, too: there is no hub then.
        let leader = Gauge::default();
        registry.register("vidra_leader", "1 in the process that holds the Lease", leader.clone());
        registry.register_collector(Box::new(hub.clone()));
        let (registry, fallen) = (Arc::new(registry), Fallen::default());
        Self { registry, clusters, queue, leader, hub, fallen }
    }
}

impl Metrics {
    /// The queue's part.
    pub fn queue(&self) -> QueueMetrics {
        self.queue.clone()
    }

    /// The counters of clusters.
    pub fn clusters(&self) -> &ClusterMetrics {
        &self.clusters
    }

    /// The tasks that should run and do not.
    pub fn fallen(&self) -> &Fallen {
        &self.fallen
    }

    /// The process holds the Lease.
    pub fn leads(&self) {
        self.leader.set(1);
    }

    /// From now on gauges are read from a hub, and entries counted, by these; they give `None` when it is gone.
    pub fn observe(
        &self,
        gauges: impl Fn() -> Option<Observed> + Send + Sync + 'static,
        entries: impl Fn() -> Option<Entries> + Send + Sync + 'static,
    ) {
        self.hub.set(Some(Reads { gauges: Box::new(gauges), entries: Box::new(entries) }));
    }

    /// The hub has ended.
    pub fn forget(&self) {
        self.hub.set(None);
        self.fallen.forget();
    }

    /// How many entries the hub holds, by what they are of; for tests.
    pub fn entries(&self) -> Entries {
        self.hub.entries().unwrap_or_default()
    }

    /// In the OpenMetrics text format.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing into a String fails only for want of memory.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_the_lease_says_0_and_who_holds_it_1() {
        let metrics = Metrics::default();
        assert!(metrics.render().contains("vidra_leader 0"), "{}", metrics.render());
        metrics.leads();
        assert!(metrics.render().contains("vidra_leader 1"), "{}", metrics.render());
    }

    #[test]
    fn keys_that_are_made_ready_and_those_whose_work_failed_are_counted_by_their_loop() {
        let metrics = Metrics::default();
        let queue = metrics.queue();
        queue.added("target");
        queue.added("target");
        queue.retried("target");
        let text = metrics.render();
        assert!(text.contains("workqueue_adds_total{name=\"target\"} 2"), "{text}");
        assert!(text.contains("workqueue_retries_total{name=\"target\"} 1"), "{text}");
    }
}

//! Counters and gauges, under the field's usual names where there are any.

mod clusters;
mod drift;

use std::sync::{Arc, Weak};

use kube::ResourceExt;
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use tokio::time::Instant;

pub use self::clusters::{ClusterCounters, ClusterMetrics};

use crate::{
    base::supervise::Fallen,
    queue::{Key, Verdict},
    reconcile::{Hub, entries::Entries},
};

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct QueueLabels {
    name: String,
}

/// Counters of the queue.
#[derive(Clone, Debug, Default)]
pub struct QueueMetrics {
    adds: Family<QueueLabels, Counter>,
    retries: Family<QueueLabels, Counter>,
}

impl QueueMetrics {
    /// A key became ready.
    pub fn added(&self, name: &str) {
        self.adds.get_or_create(&QueueLabels { name: name.to_owned() }).inc();
    }

    /// A key's work failed and will be tried again.
    pub fn retried(&self, name: &str) {
        self.retries.get_or_create(&QueueLabels { name: name.to_owned() }).inc();
    }
}

/// All metrics of the process. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    clusters: ClusterMetrics,
    queue: QueueMetrics,
    work: Family<QueueLabels, Histogram>,
    leader: Gauge,
    hub: Arc<Mutex<Weak<Hub>>>,
    fallen: Fallen,
}

impl Default for Metrics {
    fn default() -> Self {
        let clusters = ClusterMetrics::default();
        let queue = QueueMetrics::default();
        let work: Family<QueueLabels, Histogram> =
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 4.0, 9)));
        let hub = Arc::new(Mutex::new(Weak::new()));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(clusters.clone()));
        registry.register("workqueue_adds", "Keys made ready", queue.adds.clone());
        registry.register("workqueue_retries", "Keys whose work failed", queue.retries.clone());
        registry.register("workqueue_work_duration_seconds", "Time of one key's work", work.clone());
        // Of a process that waits for the Lease, too: there is no hub then.
        let leader = Gauge::default();
        registry.register("vidra_leader", "1 in the process that holds the Lease", leader.clone());
        registry.register_collector(Box::new(State { hub: hub.clone() }));
        let (registry, fallen) = (Arc::new(registry), Fallen::default());
        Self { registry, clusters, queue, work, leader, hub, fallen }
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

    /// Times one key's work.
    pub async fn timed(&self, key: &Key, work: impl Future<Output = Verdict>) -> Verdict {
        let start = Instant::now();
        let verdict = work.await;
        let labels = QueueLabels { name: key.loop_name().to_owned() };
        self.work.get_or_create(&labels).observe(start.elapsed().as_secs_f64());
        verdict
    }

    /// From now on gauges are read from this hub.
    pub fn observe(&self, hub: &Arc<Hub>) {
        *self.hub.lock() = Arc::downgrade(hub);
    }

    /// The hub has ended.
    pub fn forget(&self) {
        *self.hub.lock() = Weak::new();
        self.fallen.forget();
    }

    /// How many entries the hub holds, by what they are of; for tests.
    pub fn entries(&self) -> Entries {
        self.hub.lock().upgrade().map(|hub| hub.entries()).unwrap_or_default()
    }

    /// In the OpenMetrics text format.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing into a String fails only for want of memory.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

/// Gauges, read when asked for.
struct State {
    hub: Arc<Mutex<Weak<Hub>>>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("State")
    }
}

impl Collector for State {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(hub) = self.hub.lock().upgrade() else { return Ok(()) };
        drift::encode(&hub, &mut encoder)?;
        let (dropped, failed) = (hub.events.dropped(), hub.events.failed());
        for (name, help, count) in [
            ("vidra_events_dropped", "Events not written: too many waited in their namespace", dropped),
            ("vidra_events_failed", "Events not written: the server refused them or did not answer", failed),
        ] {
            let count = ConstCounter::new(count);
            count.encode(encoder.encode_descriptor(name, help, None, count.metric_type())?)?;
        }
        let mut gauge = |name: &str, help: &str, values: Vec<(Vec<(String, String)>, i64)>| {
            let first = ConstGauge::<i64>::new(0);
            let mut family = encoder.encode_descriptor(name, help, None, first.metric_type())?;
            for (labels, value) in values {
                let one = ConstGauge::<i64>::new(value);
                one.encode(family.encode_family(&labels)?)?;
            }
            Ok::<_, std::fmt::Error>(())
        };
        let label = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        gauge("workqueue_depth", "Keys ready", vec![(vec![], hub.queue.depth() as i64)])?;
        let states = hub.catalog.target_states();
        let states = states.iter().map(|(state, count)| (label("state", state), *count)).collect();
        gauge("vidra_targets", "Targets by state", states)?;
        let unread = hub.catalog.unread_counts().into_iter();
        let unread = unread.map(|(kind, count)| (label("kind", kind), count)).collect();
        gauge("vidra_unreadable", "Objects of the hub that this version cannot read", unread)?;
        let sessions = hub.sessions.lock().clone();
        let of = |read: &dyn Fn(&crate::member::session::Session) -> i64| -> Vec<_> {
            sessions.iter().map(|(name, session)| (label("cluster", name), read(session))).collect()
        };
        gauge("vidra_informers", "Informers by cluster", of(&|session| session.informers.counts().0 as i64))?;
        gauge(
            "vidra_informers_synced",
            "Synced informers by cluster",
            of(&|session| session.informers.counts().1 as i64),
        )?;
        gauge("vidra_objects", "Recorded objects by cluster", of(&|session| session.records.len() as i64))?;
        // Of each MemberCluster, whether or not it has credentials.
        let is_open = |name: &str| sessions.get(name).is_some_and(|session| session.is_open());
        let members = hub.catalog.known_members().into_iter().map(|member| member.name_any());
        let open = members.map(|name| (label("cluster", &name), i64::from(is_open(&name)))).collect();
        gauge("vidra_member_open", "1 when the member may be worked with", open)
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

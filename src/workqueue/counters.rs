//! Counters of the queue, and how long the work on its keys takes, by loop.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use tokio::time::Instant;

use super::{Key, Verdict};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct QueueLabels {
    name: String,
}

/// Counters of the queue.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    adds: Family<QueueLabels, Counter>,
    retries: Family<QueueLabels, Counter>,
    work: Family<QueueLabels, Histogram>,
}

impl Default for QueueMetrics {
    fn default() -> Self {
        let work: Family<QueueLabels, Histogram> =
            Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 4.0, 9)));
        Self { adds: Family::default(), retries: Family::default(), work }
    }
}

impl QueueMetrics {
    /// Shows them there.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("workqueue_adds", "Keys made ready", self.adds.clone());
        registry.register("workqueue_retries", "Keys whose work failed", self.retries.clone());
        registry.register("workqueue_work_duration_seconds", "Time of one key's work", self.work.clone());
    }

    /// A key became ready.
    pub fn added(&self, name: &str) {
        self.adds.get_or_create(&QueueLabels { name: name.to_owned() }).inc();
    }

    /// A key's work failed and will be tried again.
    pub fn retried(&self, name: &str) {
        self.retries.get_or_create(&QueueLabels { name: name.to_owned() }).inc();
    }

    /// Times one key's work.
    pub async fn timed(&self, key: &Key, work: impl Future<Output = Verdict>) -> Verdict {
        let start = Instant::now();
        let verdict = work.await;
        let labels = QueueLabels { name: key.loop_name().to_owned() };
        self.work.get_or_create(&labels).observe(start.elapsed().as_secs_f64());
        verdict
    }
}

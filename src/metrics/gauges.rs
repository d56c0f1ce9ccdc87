//! Gauges of the hub, read when they are asked for, by what its wiring registers.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

use super::{
    Entries,
    drift::{self, DriftGauges},
};

/// What is read of a hub.
pub struct Observed {
    /// The fleet's drift.
    pub drift: DriftGauges,
    /// Events that were not written, for too many waited.
    pub events_dropped: u64,
    /// Events that were not written, for the server did not take them.
    pub events_failed: u64,
    /// Bytes that the values which come back from members take.
    pub feedback_bytes: usize,
    /// The fleet's health rules: those in use, and what of them cannot be used.
    pub health_rules: (usize, usize),
    /// Objects that were judged otherwise though they had not changed.
    pub health_turned: u64,
    /// Objects that count as healthy though nothing shows it, by kind.
    pub unproven: BTreeMap<String, i64>,
    /// Keys that are ready.
    pub depth: usize,
    /// How many targets are in each state.
    pub states: BTreeMap<String, i64>,
    /// How many objects of the hub cannot be read, by kind.
    pub unreadable: Vec<(&'static str, i64)>,
    /// Members that have a session.
    pub sessions: BTreeMap<String, MemberGauges>,
    /// Each MemberCluster, whether or not it has credentials, and whether it may be worked with.
    pub members: Vec<(String, bool)>,
}

/// What is read of a member's session.
#[derive(Clone, Copy, Debug)]
pub struct MemberGauges {
    /// Its informers.
    pub informers: i64,
    /// Those of them that have listed.
    pub synced: i64,
    /// Its objects that are recorded.
    pub objects: i64,
}

/// How a hub is read; `None`: it is gone.
pub(super) struct Reads {
    pub(super) gauges: Box<dyn Fn() -> Option<Observed> + Send + Sync>,
    pub(super) entries: Box<dyn Fn() -> Option<Entries> + Send + Sync>,
}

/// The reads of the hub that runs now, if one does. Clones are of the same one.
#[derive(Clone, Default)]
pub(super) struct Reader(Arc<Mutex<Option<Arc<Reads>>>>);

impl Reader {
    pub(super) fn set(&self, reads: Option<Reads>) {
        *self.0.lock() = reads.map(Arc::new);
    }

    pub(super) fn entries(&self) -> Option<Entries> {
        let reads = self.0.lock().clone();
        (reads?.entries)()
    }

    fn gauges(&self) -> Option<Observed> {
        let reads = self.0.lock().clone();
        (reads?.gauges)()
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reader")
    }
}

impl Collector for Reader {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(hub) = self.gauges() else { return Ok(()) };
        drift::encode(&hub.drift, &mut encoder)?;
        let (dropped, failed) = (hub.events_dropped, hub.events_failed);
        for (name, help, count) in [
            ("vidra_events_dropped", "Events not written: too many waited in their namespace", dropped),
            ("vidra_events_failed", "Events not written: the server refused them or did not answer", failed),
            (
                "vidra_health_turned",
                "Objects judged otherwise because health rules changed",
                hub.health_turned,
            ),
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
        gauge("workqueue_depth", "Keys ready", vec![(vec![], hub.depth as i64)])?;
        let bytes = vec![(vec![], hub.feedback_bytes as i64)];
        gauge("vidra_feedback_bytes", "Memory that values which come back from members take", bytes)?;
        let (used, unusable) = hub.health_rules;
        let rules = [("InUse", used), ("Unusable", unusable)];
        let rules = rules.map(|(state, count)| (label("state", state), count as i64)).into();
        gauge("vidra_health_rules", "Health rules of the fleet by state", rules)?;
        let unproven = hub.unproven.iter().map(|(kind, count)| (label("kind", kind), *count)).collect();
        gauge("vidra_unproven_objects", "Objects that count as healthy though nothing shows it", unproven)?;
        let states = hub.states.iter().map(|(state, count)| (label("state", state), *count)).collect();
        gauge("vidra_targets", "Targets by state", states)?;
        let unread = hub.unreadable.into_iter();
        let unread = unread.map(|(kind, count)| (label("kind", kind), count)).collect();
        gauge("vidra_unreadable", "Objects of the hub that this version cannot read", unread)?;
        let of = |read: fn(&MemberGauges) -> i64| -> Vec<_> {
            hub.sessions.iter().map(|(name, member)| (label("cluster", name), read(member))).collect()
        };
        gauge("vidra_informers", "Informers by cluster", of(|member| member.informers))?;
        gauge("vidra_informers_synced", "Synced informers by cluster", of(|member| member.synced))?;
        gauge("vidra_objects", "Recorded objects by cluster", of(|member| member.objects))?;
        let members = hub.members.iter();
        let open = members.map(|(name, is_open)| (label("cluster", name), i64::from(*is_open))).collect();
        gauge("vidra_member_ready", "1 when the hub can work with the member", open)
    }
}

//! What gauges show of the hub, read off it when they are asked for.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::{Hub, revoke::is_without_resource};
use crate::{
    member::session::Session,
    metrics::{DriftGauges, MemberGauges, Observed},
    workqueue::TargetKey,
};

/// All of it.
pub fn read(hub: &Hub) -> Observed {
    let targets = hub.catalog.every_target();
    let missing = missing(targets.keys(), hub);
    let now = hub.clock.now();
    let (contentions, unproven) = {
        let state = hub.state.lock();
        (state.contentions(), state.unproven())
    };
    let (events_dropped, events_failed) = (hub.events.dropped(), hub.events.failed());
    let (depth, states) = (hub.queue.depth(), hub.catalog.target_states());
    let unreadable = hub.catalog.unread_counts();
    let sessions = hub.sessions.lock().clone();
    let is_open = |name: &str| sessions.get(name).is_some_and(|session| session.is_open());
    let members = hub.catalog.known_members().into_iter().map(|member| member.name_any());
    Observed {
        drift: DriftGauges { targets, missing, now, contentions },
        events_dropped,
        events_failed,
        health_rules: hub.health.counts(),
        feedback_bytes: hub.value_bytes.all(),
        health_turned: hub.health.turned(),
        unproven,
        depth,
        states,
        unreadable,
        sessions: sessions.iter().map(|(name, session)| (name.clone(), of(session))).collect(),
        members: members.map(|name| (name.clone(), is_open(&name))).collect(),
    }
}

fn of(session: &Session) -> MemberGauges {
    let (informers, synced) = session.informers.counts();
    MemberGauges { informers: informers as i64, synced: synced as i64, objects: session.records.len() as i64 }
}

/// How many targets wait for their VidraResource, by cluster.
fn missing<'a>(targets: impl Iterator<Item = &'a TargetKey>, hub: &Hub) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for key in targets.filter(|key| is_without_resource(hub, key)) {
        *counts.entry(key.cluster.to_string()).or_default() += 1;
    }
    counts
}

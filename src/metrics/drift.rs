//! What of the fleet is not as declared: gauges read off the VidraTargets' statuses when asked for.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::gauge::ConstGauge,
};
use vidra_api::{DriftState, VidraTarget};

use super::clusters::Labels;
use crate::workqueue::TargetKey;

/// What they are read from.
pub struct DriftGauges {
    /// Every VidraTarget.
    pub targets: BTreeMap<TargetKey, Arc<VidraTarget>>,
    /// How many targets wait for their VidraResource, by cluster.
    pub missing: BTreeMap<String, i64>,
    /// Wall time.
    pub now: Timestamp,
    /// How many objects somebody changes back again and again, by cluster.
    pub contentions: BTreeMap<String, i64>,
}

/// Writes them.
pub(super) fn encode(read: &DriftGauges, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
    gauge(
        encoder,
        "vidra_targets_resource_missing",
        "Targets whose VidraResource is not there",
        read.missing.iter().map(|(cluster, count)| (vec![("cluster", cluster.clone())], *count)),
    )?;
    let fleet = Fleet::of(read.targets.iter().map(|(key, target)| (key, target.as_ref())));
    let by_policy = |count: fn(&Group) -> i64| {
        fleet.groups.iter().map(move |((cluster, policy), group)| {
            (vec![("cluster", cluster.clone()), ("policy", policy.clone())], count(group))
        })
    };
    gauge(
        encoder,
        "vidra_drifted_targets",
        "Targets that are not as declared",
        by_policy(|one| one.targets),
    )?;
    gauge(
        encoder,
        "vidra_drifted_objects",
        "Objects that are not as declared",
        by_policy(|one| one.objects),
    )?;
    let now = read.now;
    let ages = fleet.oldest.iter().map(|(cluster, since)| {
        (vec![("cluster", cluster.clone())], now.as_second().saturating_sub(since.as_second()).max(0))
    });
    gauge(encoder, "vidra_drift_oldest_seconds", "Age of the oldest drift that is not undone", ages)?;
    let contentions =
        read.contentions.iter().map(|(cluster, count)| (vec![("cluster", cluster.clone())], *count));
    gauge(encoder, "vidra_contentions", "Objects that somebody changes back after each repair", contentions)
}

/// The targets of one member under one policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Group {
    targets: i64,
    objects: i64,
}

/// What all targets say.
#[derive(Debug, Default)]
struct Fleet {
    /// By cluster and policy.
    groups: BTreeMap<(String, String), Group>,
    /// Since when the oldest of what is not corrected was there, by cluster.
    oldest: BTreeMap<String, Timestamp>,
}

impl Fleet {
    fn of<'a>(targets: impl Iterator<Item = (&'a TargetKey, &'a VidraTarget)>) -> Self {
        let mut fleet = Self::default();
        for (key, target) in targets {
            let cluster = key.cluster.to_string();
            let group = fleet.groups.entry((cluster.clone(), policy(target))).or_default();
            let Some(status) = target.status.as_ref().filter(|one| one.drift == Some(DriftState::Drifted))
            else {
                continue;
            };
            group.targets += 1;
            group.objects += status.drifted;
            let open = status.changes.iter().filter(|change| change.corrected.is_none());
            if let Some(first) = open.map(|change| change.detected_at.0).min() {
                let oldest = fleet.oldest.entry(cluster).or_insert(first);
                *oldest = first.min(*oldest);
            }
        }
        fleet
    }
}

/// What is done about drift of a target.
fn policy(target: &VidraTarget) -> String {
    format!("{:?}", target.spec.drift.policy)
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (Labels, i64)>,
) -> Result<(), std::fmt::Error> {
    let kind = ConstGauge::<i64>::new(0).metric_type();
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in values {
        ConstGauge::<i64>::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use vidra_api::{Change, ChangeKind, VidraTargetSpec, VidraTargetStatus};

    fn change(detected: i64, corrected: bool) -> Change {
        let at = |second| Time(Timestamp::from_second(second).unwrap());
        Change {
            group: String::new(),
            version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: "shop".into(),
            name: "settings".into(),
            change: ChangeKind::Modified,
            detected_at: at(detected),
            corrected: corrected.then(|| at(detected + 1)),
            fields: Vec::new(),
        }
    }

    fn target(
        cluster: &str,
        drift: DriftState,
        drifted: i64,
        changes: Vec<Change>,
    ) -> (TargetKey, VidraTarget) {
        let mut target = VidraTarget::new("shop", VidraTargetSpec::default());
        target.status =
            Some(VidraTargetStatus { drift: Some(drift), drifted, changes, ..VidraTargetStatus::default() });
        (TargetKey::new("team-a", "shop", cluster), target)
    }

    #[test]
    fn drift_is_added_up_by_member_and_the_oldest_that_is_open_counts() {
        let all = [
            target(
                "berlin",
                DriftState::Drifted,
                3,
                vec![change(50, true), change(200, false), change(100, false)],
            ),
            target("berlin", DriftState::Drifted, 1, vec![change(150, false)]),
            target("tokyo", DriftState::InSync, 0, vec![change(10, true)]),
            target("austin", DriftState::Unknown, 7, vec![change(5, false)]),
        ];
        let fleet = Fleet::of(all.iter().map(|(key, target)| (key, target)));
        let group = |cluster: &str| fleet.groups[&(cluster.to_owned(), "Correct".to_owned())];
        assert_eq!(group("berlin"), Group { targets: 2, objects: 4 });
        assert_eq!((group("tokyo"), group("austin")), (Group::default(), Group::default()));
        let oldest: Vec<_> =
            fleet.oldest.iter().map(|(name, since)| (name.as_str(), since.as_second())).collect();
        assert_eq!(oldest, [("berlin", 100)]);
    }
}

//! The fleet's drift: what differs, grouped by identical change.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use vidra_api::{Change, ChangedField, DesiredState, DriftState, Time, VidraTarget};

use super::change;
use crate::table::table;
use crate::text::{age, age_or_dash, clean, count, instant, names, some_of};

/// What differs, on which clusters.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Identical changes, the most frequent first.
    pub groups: Vec<Group>,
    /// How many targets were looked at.
    pub targets: usize,
    /// Targets of which nobody knows, as `namespace/name`.
    pub unknown: Vec<String>,
    /// Those of them that differed when they were last seen.
    pub last_seen_drifted: Vec<String>,
    /// Changes that their VidraTargets have no room for.
    pub not_listed: i64,
}

/// The same change on some clusters.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// The VidraResource's namespace.
    pub namespace: String,
    /// The VidraResource.
    pub resource: String,
    /// The change, with the times of the first one seen. None: the hub counted drifted objects and named none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// The clusters, by name.
    pub clusters: Vec<String>,
    /// How many they are.
    pub cluster_count: usize,
    /// When the hub first saw it anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// When the manager last wrote, anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Time>,
    /// When the hub last corrected it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrected: Option<Time>,
}

impl Report {
    /// Groups the changes of these targets; `corrected`: also what was corrected.
    pub fn of(targets: &[VidraTarget], corrected: bool) -> Self {
        let mut report = Self::default();
        let mut groups: BTreeMap<String, (Group, BTreeSet<String>)> = BTreeMap::new();
        for target in targets {
            report.take(target, corrected, &mut groups);
        }
        let named = groups.into_values().map(|(mut group, clusters)| {
            group.clusters = clusters.into_iter().collect();
            group.cluster_count = group.clusters.len();
            group
        });
        report.groups = named.collect();
        // Stable: what remains equal stays in the order of its content.
        report.groups.sort_by_key(|group| {
            (group.corrected.is_some(), Reverse(group.cluster_count), group.since.clone())
        });
        report
    }

    /// Whether something differs now, or did when it was last seen and nobody has seen it since.
    pub fn has_drift(&self) -> bool {
        self.not_listed > 0
            || !self.last_seen_drifted.is_empty()
            || self.groups.iter().any(|group| group.corrected.is_none())
    }

    fn take(
        &mut self,
        target: &VidraTarget,
        corrected: bool,
        groups: &mut BTreeMap<String, (Group, BTreeSet<String>)>,
    ) {
        let status = target.status.clone().unwrap_or_default();
        // What is on its way out is no drift.
        if target.spec.desired != DesiredState::Present {
            return;
        }
        self.targets += 1;
        let namespace = target.metadata.namespace.clone().unwrap_or_default();
        let known = matches!(status.drift, Some(DriftState::InSync | DriftState::Drifted));
        let open = status.changes.iter().filter(|change| change.corrected.is_none()).count();
        if !known {
            let name = format!("{namespace}/{}", target.metadata.name.as_deref().unwrap_or_default());
            if open > 0 || status.drifted > 0 {
                self.last_seen_drifted.push(name.clone());
            }
            self.unknown.push(name);
        } else if let Some(total) = status.changes_total {
            self.not_listed +=
                total.saturating_sub(i64::try_from(status.changes.len()).unwrap_or(total)).max(0);
        }
        let blank = |change: Option<Change>| Group {
            namespace: namespace.clone(),
            resource: target.spec.resource.clone(),
            change,
            clusters: Vec::new(),
            cluster_count: 0,
            since: None,
            not_after: None,
            corrected: None,
        };
        for change in &status.changes {
            let wanted = if change.corrected.is_some() { corrected } else { known };
            if !wanted {
                continue;
            }
            let key = key(&namespace, &target.spec.resource, Some(change));
            let (group, clusters) =
                groups.entry(key).or_insert_with(|| (blank(Some(change.clone())), BTreeSet::new()));
            clusters.insert(target.spec.cluster.clone());
            group.meet(change);
        }
        if status.drift == Some(DriftState::Drifted) && open == 0 {
            let key = key(&namespace, &target.spec.resource, None);
            let (group, clusters) = groups.entry(key).or_insert_with(|| (blank(None), BTreeSet::new()));
            clusters.insert(target.spec.cluster.clone());
            group.since = earlier(group.since.take(), status.since);
        }
    }

    /// For people.
    pub fn text(&self, wide: bool, corrected: bool, now: Timestamp) -> String {
        let mut text = String::new();
        if self.groups.is_empty() {
            let (looked, unknown) = (self.targets - self.unknown.len(), self.unknown.len());
            let among = count(looked, "target");
            match (looked, unknown) {
                (_, 0) => text.push_str(&format!("No drift. {among} looked at.\n")),
                // The line on these says all.
                (0, _) => {}
                _ => text.push_str(&format!("No drift seen: {among} looked at, {unknown} not.\n")),
            }
        } else {
            text.push_str(&self.rows(wide, corrected, now));
        }
        if self.not_listed > 0 {
            let more = format!("{} more, which VidraTargets have no room to list.\n", self.not_listed);
            text.push_str(&more);
        }
        if !self.unknown.is_empty() {
            let (many, some) = (count(self.unknown.len(), "target"), clean(&names(&self.unknown, wide)));
            text.push_str(&format!("Nobody knows of {many} whether there is drift: {some}\n"));
        }
        if !self.last_seen_drifted.is_empty() {
            let (many, some) = (self.last_seen_drifted.len(), clean(&names(&self.last_seen_drifted, wide)));
            text.push_str(&format!("Of these, {many} had drifted when last seen: {some}\n"));
        }
        text
    }

    fn rows(&self, wide: bool, corrected: bool, now: Timestamp) -> String {
        let mut header = vec!["WHAT", "CLUSTERS", "SINCE", "BY", "RESOURCE"];
        if wide {
            header.push("NOT AFTER");
        }
        if corrected {
            header.push("CORRECTED");
        }
        let rows = self.groups.iter().map(|group| {
            let since = group.since.as_ref().map(|since| {
                if wide { format!("{} ({})", instant(since), age(since, now)) } else { age(since, now) }
            });
            let change = group.change.as_ref();
            let mut row = vec![
                change.map_or_else(
                    || "objects that the hub does not name".to_owned(),
                    |change| change::what(change, wide),
                ),
                some_of(&group.clusters, wide),
                since.unwrap_or_default(),
                change.map(change::by).unwrap_or_default(),
                format!("{}/{}", group.namespace, group.resource),
            ];
            if wide {
                row.push(group.not_after.as_ref().map(instant).unwrap_or_default());
            }
            if corrected {
                row.push(age_or_dash(group.corrected.as_ref(), now));
            }
            row
        });
        table(&header, rows)
    }
}

impl Group {
    fn meet(&mut self, change: &Change) {
        self.since = earlier(self.since.take(), Some(change.detected_at.clone()));
        self.corrected = self.corrected.take().max(change.corrected.clone());
        let times = change.fields.iter().filter_map(|field| field.not_after.clone());
        self.not_after = times.chain(self.not_after.take()).max();
        if let Some(shown) = &mut self.change {
            shown.detected_at = shown.detected_at.clone().min(change.detected_at.clone());
        }
    }
}

fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// What makes changes identical: everything but the times and the cluster.
fn key(namespace: &str, resource: &str, change: Option<&Change>) -> String {
    let timeless = change.map(|change| {
        let fields: Vec<_> =
            change.fields.iter().map(|field| ChangedField { not_after: None, ..field.clone() }).collect();
        let corrected = change.corrected.is_some();
        let Change { group, version, kind, namespace, name, change, .. } = change;
        (corrected, (group, version, kind, namespace, name, change), fields)
    });
    serde_json::to_string(&(namespace, resource, timeless)).unwrap_or_default()
}

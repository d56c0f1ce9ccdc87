//! What a verdict depends on beside the object: what its kind declares, how old it is, and what the hub did to it last.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use serde_json::Value;

use super::{builtin, read::text};

/// Facts about one object. The default says that nothing is declared and no wait is open.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// What its kind declares.
    pub kind: KindFacts,
    /// How old it is by the member's own time; None where that is not known, and then nothing is waited for.
    pub age: Option<Duration>,
    /// Whether it was Current before at this revision: what waits for a first status takes nothing back.
    pub was_current: bool,
    /// The last change of ours that raised its generation.
    pub change: Option<Change>,
    /// How long a rule has called it failed; None where nobody counts, and then it has failed at once.
    pub failing: Option<Duration>,
    /// How long is waited.
    pub waits: Waits,
}

impl Facts {
    /// These facts, where nothing happens for a while.
    #[must_use]
    pub fn later(&self, by: Duration) -> Facts {
        let change = self.change.map(|change| Change { ago: change.ago.saturating_add(by), ..change });
        let [age, failing] = [self.age, self.failing].map(|time| time.map(|time| time.saturating_add(by)));
        Facts { age, change, failing, ..self.clone() }
    }
}

/// What a kind declares: a small extract of discovery and its CRD.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindFacts {
    /// Whether discovery shows its status subresource; None where that was not asked.
    pub has_status: Option<bool>,
    /// Whether its schema has status.conditions.
    pub declares_conditions: bool,
    /// Whether its schema has status.observedGeneration.
    pub declares_generation: bool,
    /// The fields that its columns named Ready, Status, State, Phase or Health print.
    pub columns: Vec<Vec<String>>,
}

/// A change of ours that raised an object's generation.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// How long ago.
    pub ago: Duration,
    /// Whether a status was written since: its [`status_mark`] is another, or it is not [`unanswered`].
    pub status_since: bool,
}

/// How long is waited for what may never come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// For a first status, of the object's age.
    pub no_status: Duration,
    /// For a status after a change of ours.
    pub stale_status: Duration,
    /// For a HorizontalPodAutoscaler's first metrics, of its age.
    pub no_metrics: Duration,
    /// For what a rule calls failed to recover.
    pub failed: Duration,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits {
            no_status: Duration::from_secs(60),
            stale_status: Duration::from_secs(10),
            no_metrics: Duration::from_secs(300),
            failed: Duration::from_secs(30),
        }
    }
}

/// Most columns of a kind that are read.
const COLUMNS_MOST: usize = 8;
/// Longest path of a column, in bytes; deeper and longer ones say nothing.
const PATH_MOST: usize = 256;

/// Columns that say how an object is.
const COLUMNS: [&str; 5] = ["Ready", "Status", "State", "Phase", "Health"];

impl KindFacts {
    /// What a CRD declares for one of its versions; what is not there is not declared.
    pub fn of_crd(crd: &Value, version: &str) -> KindFacts {
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
        let Some(version) = versions.into_iter().flatten().find(|one| one["name"] == version) else {
            return KindFacts::default();
        };
        let status = version.pointer("/schema/openAPIV3Schema/properties/status/properties");
        let declares = |name: &str| status.is_some_and(|fields| fields.get(name).is_some());
        let columns = version["additionalPrinterColumns"].as_array().into_iter().flatten();
        let columns = columns.filter(|column| {
            let is_named = COLUMNS
                .iter()
                .any(|name| text(column, "/name").is_some_and(|n| n.eq_ignore_ascii_case(name)));
            is_named && column["priority"].as_i64().unwrap_or(0) == 0
        });
        KindFacts {
            has_status: Some(version.pointer("/subresources/status").is_some()),
            declares_conditions: declares("conditions"),
            declares_generation: declares("observedGeneration"),
            columns: columns
                .filter_map(|column| plain_path(text(column, "/jsonPath")?))
                .take(COLUMNS_MOST)
                .collect(),
        }
    }
}

/// `.status.phase`; None for what filters or indexes.
fn plain_path(path: &str) -> Option<Vec<String>> {
    if path.len() > PATH_MOST {
        return None;
    }
    let names: Vec<_> = path.strip_prefix('.')?.split('.').map(str::to_owned).collect();
    let is_name =
        |name: &String| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (names.iter().all(is_name) && names.first().is_some_and(|root| root == "status")).then_some(names)
}

/// Groups of Kubernetes' own beside those of the kinds that [`super::judge`] knows: no CRD defines their kinds, and what
/// their statuses say is of others.
const KUBERNETES: [&str; 7] = [
    "admissionregistration.k8s.io",
    "certificates.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "resource.k8s.io",
    "storage.k8s.io",
];

/// Whether kinds of a group may be custom ones, which a CRD defines.
pub fn may_be_custom(group: &str) -> bool {
    group.contains('.') && !builtin::has_group(group) && !KUBERNETES.contains(&group)
}

/// When managers of ours changed an object last, where managedFields show no status that is not older. Times are in whole
/// seconds of UTC, as the API server writes them, so that texts compare as times do.
pub fn unanswered(live: &Value, is_ours: impl Fn(&str) -> bool) -> Option<&str> {
    let ours = entries(live).filter(|entry| {
        entry["subresource"].as_str().is_none_or(str::is_empty)
            && entry["manager"].as_str().is_some_and(&is_ours)
    });
    let last = ours.filter_map(|entry| text(entry, "/time")).max();
    last.filter(|last| status_time(live).is_none_or(|status| status < *last))
}

/// Another one when the status has changed, or was written again.
pub fn status_mark(live: &Value) -> u64 {
    let mut hash = DefaultHasher::new();
    (live.get("status"), status_time(live)).hash(&mut hash);
    hash.finish()
}

fn status_time(live: &Value) -> Option<&str> {
    let status = entries(live).filter(|entry| entry["subresource"] == "status");
    status.filter_map(|entry| text(entry, "/time")).max()
}

fn entries(live: &Value) -> impl Iterator<Item = &Value> {
    live.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten()
}

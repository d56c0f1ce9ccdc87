//! What a verdict depends on beside the object: what its kind declares, how old it is, and what the hub did to it last.

use std::time::Duration;

use serde_json::Value;

use super::read::text;

/// Facts about one object, for kinds that no rule knows. The default says that nothing is declared and no wait is open.
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
    /// How long is waited.
    pub waits: Waits,
}

/// What a kind declares: a small extract of discovery and its CRD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Whether the status has changed since, or [`status_since`] says that it was written.
    pub status_since: bool,
}

/// How long is waited for what may never come.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// For a first status, of the object's age.
    pub no_status: Duration,
    /// For a status after a change of ours.
    pub stale_status: Duration,
    /// For a HorizontalPodAutoscaler's first metrics, of its age.
    pub no_metrics: Duration,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits {
            no_status: Duration::from_secs(60),
            stale_status: Duration::from_secs(10),
            no_metrics: Duration::from_secs(300),
        }
    }
}

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
            columns: columns.filter_map(|column| plain_path(text(column, "/jsonPath")?)).collect(),
        }
    }
}

/// `.status.phase`; None for what filters or indexes.
fn plain_path(path: &str) -> Option<Vec<String>> {
    let names: Vec<_> = path.strip_prefix('.')?.split('.').map(str::to_owned).collect();
    let is_name =
        |name: &String| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (names.iter().all(is_name) && names.first().is_some_and(|root| root == "status")).then_some(names)
}

/// Whether managedFields show a status that is not older than the manager's own last change. Times are in whole
/// seconds of UTC, as the API server writes them, so that texts compare as times do.
pub fn status_since(live: &Value, manager: &str) -> bool {
    let entries = || live.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    let time = |entry| text(entry, "/time");
    let ours = entries().filter(|entry| entry["manager"] == manager && entry["subresource"].is_null());
    let status = entries().filter(|entry| entry["subresource"] == "status");
    match (ours.filter_map(time).max(), status.filter_map(time).max()) {
        (Some(ours), Some(status)) => status >= ours,
        _ => false,
    }
}

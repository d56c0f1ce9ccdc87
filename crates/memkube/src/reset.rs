//! Which fields a write does not change, by kind and subresource: what the strategies of the real server's
//! registry reset. They are not booked to the writer either.

use serde_json::Value;

use super::kinds::Kind;
use super::smd::{Element, Set};

/// The part of the object below one path.
pub(super) type Path = &'static [&'static str];

const SPEC: Path = &["spec"];
const STATUS: Path = &["status"];
const METADATA: Path = &["metadata"];

/// Groups whose status writes leave all metadata alone.
const STRICT_GROUPS: [&str; 9] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// The paths that a write of a kind through `status`, or through no subresource (""), leaves as they are.
pub(super) fn paths(kind: &Kind, subresource: &str) -> &'static [Path] {
    let named = (kind.group.as_str(), kind.plural.as_str());
    match (subresource, named) {
        ("status", _) if !kind.is_builtin() => &[METADATA, SPEC],
        ("status", ("apps", "deployments")) => &[SPEC, &["metadata", "labels"]],
        ("status", ("", "pods")) => {
            &[SPEC, &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]
        }
        ("status", ("networking.k8s.io", "servicecidrs")) => &[METADATA, SPEC],
        ("status", ("certificates.k8s.io", "certificatesigningrequests")) => {
            &[SPEC, &["status", "conditions"]]
        }
        ("status", (group, _)) if STRICT_GROUPS.contains(&group) => &[METADATA, SPEC],
        ("status", _) => &[SPEC],
        ("", ("certificates.k8s.io", "certificatesigningrequests")) => &[SPEC, STATUS],
        ("", _) if kind.status_subresource => &[STATUS],
        _ => &[],
    }
}

/// The same as a set of fields.
pub(super) fn set(kind: &Kind, subresource: &str) -> Set {
    let mut set = Set::default();
    for path in paths(kind, subresource) {
        set.insert(&path.iter().map(|name| Element::field(name)).collect::<Vec<_>>());
    }
    set
}

/// Gives `new` what `live` has of the metadata's fields that a status write leaves alone. Bookkeeping is not
/// among them: it belongs to the server.
pub(super) fn keep_metadata(kind: &Kind, live: &Value, new: &mut Value) {
    for path in paths(kind, "status") {
        let fields: &[&str] = match path {
            ["metadata"] => &["labels", "annotations", "finalizers", "ownerReferences"],
            ["metadata", fields @ ..] => fields,
            _ => continue,
        };
        for field in fields {
            super::write::set(&mut new["metadata"], field, live["metadata"][field].clone());
        }
    }
}

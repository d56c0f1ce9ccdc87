//! What differs by kind in how the real server stores it, as the strategies of its registry say: which fields
//! a write does not change (they are not booked to the writer either), which kinds a PUT creates, which
//! deletions answer with the object.

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

/// Kinds that a PUT makes where there is none of the name.
const CREATED_BY_PUT: [(&str, &str); 11] = [
    ("", "endpoints"),
    ("", "events"),
    ("", "limitranges"),
    ("", "services"),
    ("coordination.k8s.io", "leasecandidates"),
    ("coordination.k8s.io", "leases"),
    ("node.k8s.io", "runtimeclasses"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
];

/// Kinds whose deletion answers with the object instead of a Status.
const ANSWERED: [(&str, &str); 17] = [
    ("", "namespaces"),
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "pods"),
    ("", "podtemplates"),
    ("", "resourcequotas"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceclaimtemplates"),
    ("resource.k8s.io", "resourceslices"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "volumeattributesclasses"),
];

/// Kinds that a PUT does not replace without a resourceVersion, beside custom ones and the groups below.
const GUARDED: [(&str, &str); 8] = [
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    ("node.k8s.io", "runtimeclasses"),
    ("policy", "poddisruptionbudgets"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "csistoragecapacities"),
    ("storage.k8s.io", "volumeattachments"),
];
const GUARDED_GROUPS: [&str; 2] = ["admissionregistration.k8s.io", "coordination.k8s.io"];

fn named(kind: &Kind) -> (&str, &str) {
    (kind.group.as_str(), kind.plural.as_str())
}

/// Does a PUT make it where there is none?
pub(super) fn is_created_by_put(kind: &Kind) -> bool {
    CREATED_BY_PUT.contains(&named(kind))
}

/// Does its deletion answer with the object?
pub(super) fn is_answered(kind: &Kind) -> bool {
    ANSWERED.contains(&named(kind))
}

/// Must a PUT say the resourceVersion that it replaces?
pub(super) fn is_guarded(kind: &Kind) -> bool {
    kind.is_custom() || GUARDED.contains(&named(kind)) || GUARDED_GROUPS.contains(&kind.group.as_str())
}

//! The order in which the objects of one target are applied; they are removed in reverse.

use serde::{Deserialize, Serialize};

use crate::object::Gvk;

/// When an object's turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stage {
    /// Namespaces and CustomResourceDefinitions: without them nothing else can be made.
    Foundations,
    /// What others refer to: accounts, rights, configuration, storage, classes, limits.
    Dependencies,
    /// Everything else.
    Rest,
    /// What stands in the way of other requests while its backend is not there: webhooks, admission
    /// policies, aggregated APIs.
    Admission,
}

impl Stage {
    /// The stage of a kind, by group and kind; a kind that is not known is `Rest`.
    pub fn of(gvk: &Gvk) -> Self {
        match (&*gvk.group, &*gvk.kind) {
            ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition") => Self::Foundations,
            ("admissionregistration.k8s.io" | "apiregistration.k8s.io", _) => Self::Admission,
            (
                "",
                "ServiceAccount"
                | "ConfigMap"
                | "Secret"
                | "PersistentVolume"
                | "PersistentVolumeClaim"
                | "LimitRange"
                | "ResourceQuota",
            )
            | ("rbac.authorization.k8s.io", _)
            | (
                "storage.k8s.io",
                "StorageClass" | "CSIDriver" | "CSIStorageCapacity" | "VolumeAttributesClass",
            )
            | ("scheduling.k8s.io", "PriorityClass")
            | ("node.k8s.io", "RuntimeClass")
            | ("networking.k8s.io", "IngressClass" | "NetworkPolicy")
            | ("resource.k8s.io", "DeviceClass") => Self::Dependencies,
            _ => Self::Rest,
        }
    }
}

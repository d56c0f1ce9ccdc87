//! The kinds that a cluster serves: built in, registered by a test, or declared by a CRD.

use serde_json::Value;

/// One served version of a kind. Versions of one group and plural share their objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: String,
    /// Version, such as `v1`.
    pub version: String,
    /// Kind, such as `ConfigMap`.
    pub kind: String,
    /// Resource name in URLs, such as `configmaps`.
    pub plural: String,
    /// Its objects live in namespaces.
    pub namespaced: bool,
    /// Status is written by the `status` subresource only.
    pub status_subresource: bool,
}

impl Kind {
    /// A kind by its apiVersion (`v1`, `apps/v1`), kind, plural, and whether it has namespaces and status.
    pub fn new(
        api_version: &str,
        kind: &str,
        plural: &str,
        namespaced: bool,
        status_subresource: bool,
    ) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let (group, version) = (group.to_owned(), version.to_owned());
        Kind { group, version, kind: kind.into(), plural: plural.into(), namespaced, status_subresource }
    }

    /// `apps/v1`, or `v1` in the core group.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// As error messages name it: `deployments.apps`, `configmaps`.
    pub(super) fn qualified(&self) -> String {
        match self.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// The real server counts generations for workloads, CRDs and custom resources, not for these groups.
    pub(super) fn has_generation(&self) -> bool {
        const WITHOUT: [&str; 4] = ["", "events.k8s.io", "coordination.k8s.io", "rbac.authorization.k8s.io"];
        !WITHOUT.contains(&self.group.as_str())
    }

    /// Groups with a dot that Kubernetes does not reserve belong to CRDs.
    pub(super) fn is_custom(&self) -> bool {
        self.group.contains('.') && !self.group.ends_with(".k8s.io")
    }

    pub(super) fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.plural == "namespaces"
    }

    pub(super) fn is_crd(&self) -> bool {
        self.group == CRD_GROUP && self.plural == CRD_PLURAL
    }
}

pub(super) const CRD_GROUP: &str = "apiextensions.k8s.io";
pub(super) const CRD_PLURAL: &str = "customresourcedefinitions";

pub(super) fn built_in() -> Vec<Kind> {
    vec![
        Kind::new("v1", "Namespace", "namespaces", false, true),
        Kind::new("v1", "ConfigMap", "configmaps", true, false),
        Kind::new("v1", "Secret", "secrets", true, false),
        Kind::new("v1", "ServiceAccount", "serviceaccounts", true, false),
        Kind::new("v1", "Service", "services", true, true),
        Kind::new("v1", "Event", "events", true, false),
        Kind::new("events.k8s.io/v1", "Event", "events", true, false),
        Kind::new("coordination.k8s.io/v1", "Lease", "leases", true, false),
        Kind::new("apps/v1", "Deployment", "deployments", true, true),
        Kind::new("apiextensions.k8s.io/v1", "CustomResourceDefinition", CRD_PLURAL, false, true),
    ]
}

/// The kinds that a CustomResourceDefinition serves, in its order of versions.
pub(super) fn of_crd(crd: &Value) -> Vec<Kind> {
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let served =
        spec["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true);
    served
        .map(|version| Kind {
            group: text(&spec["group"]),
            version: text(&version["name"]),
            kind: text(&spec["names"]["kind"]),
            plural: text(&spec["names"]["plural"]),
            namespaced: spec["scope"] == "Namespaced",
            status_subresource: version["subresources"]["status"].is_object(),
        })
        .collect()
}

//! The kinds that scenarios deliver.

/// Group, plural, kind, and whether they have no namespace.
pub const DELIVERED: [(&str, &str, &str, bool); 12] = [
    ("", "configmaps", "ConfigMap", false),
    ("", "secrets", "Secret", false),
    ("", "services", "Service", false),
    ("apps", "deployments", "Deployment", false),
    ("apps", "statefulsets", "StatefulSet", false),
    ("batch", "jobs", "Job", false),
    ("test.io", "books", "Book", false),
    (super::health::GROUP, "gadgets", "Gadget", false),
    (super::health::GROUP, "widgets", "Widget", false),
    ("", "namespaces", "Namespace", true),
    ("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", true),
    ("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", true),
];

/// The kind of a plural name.
pub fn kind_of(group: &str, plural: &str) -> Option<&'static str> {
    DELIVERED.iter().find(|kind| (kind.0, kind.1) == (group, plural)).map(|kind| kind.2)
}

/// The plural name of a kind.
pub fn plural_of(kind: &str) -> &'static str {
    DELIVERED.iter().find(|known| known.2 == kind).map_or("", |known| known.1)
}

/// Has this kind no namespaces?
pub fn is_cluster_scoped(kind: &str) -> bool {
    DELIVERED.iter().any(|known| known.2 == kind && known.3)
}

//! The roles that the real server makes at its start, as far as they are for everybody.

use serde_json::{Value, json};

use super::rules::API;
use crate::Cluster;
use crate::store::{Place, Resource};
use crate::write::{Validation, Write};

/// Makes the roles and bindings that are not there.
pub(super) fn roles(cluster: &Cluster) {
    let inner = &cluster.inner;
    let mut store = inner.store.lock();
    for (plural, name, mut body) in objects() {
        let Some(kind) = store.kind(API, "v1", plural).cloned() else { continue };
        if store.has(&Resource::new(API, plural), &Place::new("", name)) {
            continue;
        }
        body["metadata"] = json!({
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        });
        let write = Write {
            kind,
            place: Place::default(),
            subresource: String::new(),
            manager: "kube-apiserver".to_owned(),
            dry_run: false,
            validation: Validation::Ignore,
            exact: false,
            now: (inner.clock)(),
            gate: None,
        };
        // Well-formed, and not there yet: it is not refused.
        let _ = store.create(write, body);
    }
    drop(store);
    inner.wake.notify_waiters();
}

fn objects() -> Vec<(&'static str, &'static str, Value)> {
    const AUTHENTICATED: &str = "system:authenticated";
    let everything = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]);
    let reviews = json!([
        {
            "apiGroups": ["authorization.k8s.io"], "verbs": ["create"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        },
        {"apiGroups": ["authentication.k8s.io"], "verbs": ["create"], "resources": ["selfsubjectreviews"]},
    ]);
    let public = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    let documents =
        ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"].into_iter().chain(public);
    let paths = |all: Vec<&str>| json!([{"nonResourceURLs": all, "verbs": ["get"]}]);
    let roles = [
        ("cluster-admin", everything, vec!["system:masters"]),
        ("system:basic-user", reviews, vec![AUTHENTICATED]),
        ("system:discovery", paths(documents.collect()), vec![AUTHENTICATED]),
        ("system:public-info-viewer", paths(public.to_vec()), vec![AUTHENTICATED, "system:unauthenticated"]),
    ];
    let made = roles.into_iter().flat_map(|(name, rules, groups)| {
        let subjects: Vec<_> =
            groups.iter().map(|group| json!({"kind": "Group", "name": group, "apiGroup": API})).collect();
        let role = json!({"kind": "ClusterRole", "name": name, "apiGroup": API});
        [
            ("clusterroles", name, json!({"rules": rules})),
            ("clusterrolebindings", name, json!({"roleRef": role, "subjects": subjects})),
        ]
    });
    made.collect()
}

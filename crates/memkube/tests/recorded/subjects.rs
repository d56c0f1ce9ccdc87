//! The kinds of the generated sequences: whole bodies, patches and statuses of each.

use serde_json::{Value, json};

/// A kind that sequences are made of.
pub struct Subject {
    /// `v1`, `apps/v1`.
    pub api_version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
    /// Bodies to create, replace and apply with, beside metadata; all are valid.
    pub bodies: Vec<Value>,
    /// Merge patches of them; a strategic merge patch reads them its own way.
    pub patches: Vec<Value>,
    /// Statuses; none where there is no such subresource.
    pub statuses: Vec<Value>,
    pub scale: bool,
}

/// The group of the CRDs that all sequences share.
pub const GROUP: &str = "recorded.memkube.dev";
/// The groups whose objects are compared whole: what is projected to the owned fields is all else.
pub const WHOLE: [&str; 2] = ["rbac.authorization.k8s.io/v1", "recorded.memkube.dev/v1"];

impl Subject {
    /// Is its whole body compared?
    pub fn is_whole(api_version: &str, kind: &str) -> bool {
        matches!(kind, "ConfigMap" | "Secret") || WHOLE.contains(&api_version)
    }

    /// The path of its objects; `{ns}` for the namespace.
    pub fn path(&self) -> String {
        let root = if self.api_version.contains('/') { "/apis" } else { "/api" };
        let namespace = if self.namespaced { "/namespaces/{ns}" } else { "" };
        format!("{root}/{}{namespace}/{}", self.api_version, self.plural)
    }
}

fn subject(
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
    bodies: Value,
    patches: Value,
) -> Subject {
    let list = |value: Value| value.as_array().cloned().unwrap_or_default();
    Subject {
        api_version,
        kind,
        plural,
        namespaced,
        bodies: list(bodies),
        patches: list(patches),
        statuses: Vec::new(),
        scale: false,
    }
}

impl Subject {
    fn status(mut self, statuses: Value) -> Self {
        self.statuses = statuses.as_array().cloned().unwrap_or_default();
        self
    }

    fn scaled(mut self) -> Self {
        self.scale = true;
        self
    }
}

/// All of them. Those before the others are drawn more often.
pub fn subjects() -> Vec<Subject> {
    [plain(), rbac(), custom(), workloads(), others()].into_iter().flatten().collect()
}

fn plain() -> Vec<Subject> {
    vec![
        subject(
            "v1",
            "ConfigMap",
            "configmaps",
            true,
            json!([
                {"data": {"a": "1"}}, {"data": {"a": "2", "b": "1"}}, {"data": {"b": "2", "c": ""}}, {},
                {"data": {"a": "1"}, "binaryData": {"x": "YQ=="}}, {"data": {"c": "1"}, "immutable": false},
            ]),
            json!([
                {"data": {"a": "3"}}, {"data": {"b": null}}, {"data": null}, {"data": {"c": "1", "a": null}},
                {"binaryData": {"x": "Yg=="}}, {"immutable": true}, {"data": {"a": {"x": 1}}},
            ]),
        ),
        subject(
            "v1",
            "Secret",
            "secrets",
            true,
            json!([
                {"data": {"a": "YQ=="}}, {"stringData": {"a": "x", "b": "y"}}, {"data": {"b": "Yg=="}, "type": "Opaque"},
                {"data": {"a": "YQ==", "c": ""}, "stringData": {"c": "z"}}, {"type": "example.dev/x"}, {},
            ]),
            json!([
                {"data": {"a": "Yw=="}}, {"stringData": {"b": "n"}}, {"data": {"a": null}}, {"data": {"a": "?"}},
                {"type": "example.dev/y"}, {"immutable": true},
            ]),
        ),
        subject(
            "v1",
            "ServiceAccount",
            "serviceaccounts",
            true,
            json!([
                {}, {"secrets": [{"name": "a"}]}, {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]},
                {"automountServiceAccountToken": false, "secrets": [{"name": "b"}]},
            ]),
            json!([
                {"secrets": [{"name": "c"}]}, {"imagePullSecrets": null}, {"automountServiceAccountToken": true},
                {"secrets": [{"name": "a", "$patch": "delete"}]}, {"secrets": []},
            ]),
        ),
    ]
}

fn rbac() -> Vec<Subject> {
    let rules = || {
        json!([
            {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}, {"rules": []}, {},
            {"rules": [{"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]}, {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["get", "list"]}]},
            {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]},
        ])
    };
    let patches = || {
        json!([
            {"rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]}, {"rules": null},
            {"rules": [{"apiGroups": [""], "resources": ["pods"]}]}, {"rules": "x"},
        ])
    };
    let binding = |kind: &str| {
        let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "r"});
        json!([
            {"roleRef": reference, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"}]},
            {"roleRef": reference, "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "{ns}"}]},
            {"roleRef": reference},
            {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "other"}},
        ])
    };
    let rebind = || {
        json!([
            {"subjects": [{"kind": "Group", "name": "g", "apiGroup": "rbac.authorization.k8s.io"}]}, {"subjects": null},
            {"roleRef": {"name": "z"}}, {"subjects": [{"kind": "ServiceAccount", "name": "s"}]},
        ])
    };
    let group = "rbac.authorization.k8s.io/v1";
    vec![
        subject(group, "Role", "roles", true, rules(), patches()),
        subject(group, "ClusterRole", "clusterroles", false, rules(), patches()),
        subject(group, "RoleBinding", "rolebindings", true, binding("Role"), rebind()),
        subject(group, "ClusterRoleBinding", "clusterrolebindings", false, binding("ClusterRole"), rebind()),
    ]
}

fn custom() -> Vec<Subject> {
    let bodies = || {
        json!([
            {"spec": {"replicas": 1, "items": [{"name": "a", "value": "1"}]}},
            {"spec": {"items": [{"name": "a"}, {"name": "b", "value": "2"}], "tags": ["x"]}},
            {"spec": {"ports": [{"port": 1}, {"port": 1, "protocol": "UDP"}], "whole": {"a": "1"}}},
            {"spec": {"replicas": 3, "tags": ["y", "x"], "mode": "b", "open": {"any": [1, {"x": null}]}}},
            {"spec": {"plain": [{"name": "a"}], "mode": "a", "map": {"k": "v"}}}, {"spec": {}}, {},
        ])
    };
    let patches = || {
        json!([
            {"spec": {"replicas": 2}}, {"spec": {"items": [{"name": "c"}]}}, {"spec": {"tags": null}},
            {"spec": {"mode": "z"}}, {"spec": {"open": {"any": null, "more": 1}}}, {"spec": null},
            {"spec": {"replicas": "x"}}, {"spec": {"map": {"k": null, "l": "w"}}}, {"spec": {"whole": {"b": "2"}}},
            {"spec": {"items": [{"name": "d"}, {"name": "d"}]}}, {"spec": {"unknown": 1}},
        ])
    };
    let statuses = || {
        json!([
            {"phase": "Ready", "replicas": 1}, {"conditions": [{"type": "Ready", "status": "True"}]}, {},
            {"phase": "Lost", "selector": "a=b", "conditions": [{"type": "Ready", "status": "False"}, {"type": "B", "status": "True"}]},
        ])
    };
    let group = "recorded.memkube.dev/v1";
    vec![
        subject(group, "Widget", "widgets", true, bodies(), patches()).status(statuses()).scaled(),
        subject(group, "Gadget", "gadgets", false, bodies(), patches()).status(statuses()).scaled(),
    ]
}

/// The CRDs of the custom subjects.
pub fn crds() -> Vec<Value> {
    let text = || json!({"type": "string"});
    let item =
        json!({"type": "object", "required": ["name"], "properties": {"name": text(), "value": text()}});
    let port = json!({"type": "object", "required": ["port"], "properties":
        {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}});
    let condition =
        json!({"type": "object", "required": ["type"], "properties": {"type": text(), "status": text()}});
    let keyed = |items: Value, keys: &[&str]| json!({"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys});
    let spec = json!({"type": "object", "properties": {
        "replicas": {"type": "integer", "minimum": 0, "maximum": 10}, "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "items": keyed(item.clone(), &["name"]), "ports": keyed(port, &["port", "protocol"]),
        "tags": {"type": "array", "items": text(), "x-kubernetes-list-type": "set"},
        "plain": {"type": "array", "items": item},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text()},
        "map": {"type": "object", "additionalProperties": text()},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let status = json!({"type": "object", "properties": {"phase": text(), "replicas": {"type": "integer"},
        "selector": text(), "conditions": keyed(condition, &["type"])}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}}});
    let crd = |plural: &str, kind: &str, scope: &str| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{GROUP}")},
            "spec": {"group": GROUP, "scope": scope, "versions": [version],
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")}}})
    };
    vec![crd("widgets", "Widget", "Namespaced"), crd("gadgets", "Gadget", "Cluster")]
}

fn workloads() -> Vec<Subject> {
    let pod = |image: &str, more: Value| {
        let mut container = json!({"name": "c", "image": image});
        if let (Some(map), Some(more)) = (container.as_object_mut(), more.as_object()) {
            map.extend(more.clone());
        }
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}})
    };
    let env = json!({"env": [{"name": "E", "value": "1"}], "ports": [{"containerPort": 80}]});
    let selector = json!({"matchLabels": {"a": "b"}});
    let spec = |replicas: u32, template: Value| json!({"spec": {"replicas": replicas, "selector": selector, "template": template}});
    let bodies = json!([
        spec(1, pod("x", json!({}))), spec(2, pod("y", env)), {"spec": {"selector": selector, "template": pod("x", json!({"args": ["a"]}))}},
        spec(0, pod("x", json!({"resources": {"limits": {"cpu": "1000m"}}}))),
    ]);
    let patches = json!([
        {"spec": {"replicas": 3}}, {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "z"}]}}}},
        {"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "w"}]}}}}, {"spec": {"replicas": null}},
        {"spec": {"selector": {"matchLabels": {"a": "c"}}}}, {"spec": {"template": {"metadata": {"labels": {"x": "y"}}}}},
        {"spec": {"replicas": -1}}, {"spec": {"template": {"spec": {"containers": []}}}},
        {"spec": {"template": {"spec": {"containers": [{"name": "c", "$patch": "delete"}]}}}},
    ]);
    let statuses = json!([
        {"replicas": 1, "observedGeneration": 1}, {"replicas": 1, "readyReplicas": 1, "conditions": [{"type": "A", "status": "True"}]},
        {}, {"replicas": 2, "conditions": [{"type": "A", "status": "False"}, {"type": "B", "status": "True"}]},
    ]);
    let stateful = |bodies: &Value| {
        let mut bodies = bodies.clone();
        for body in bodies.as_array_mut().into_iter().flatten() {
            body["spec"]["serviceName"] = json!("s");
        }
        bodies
    };
    vec![
        subject("apps/v1", "Deployment", "deployments", true, bodies.clone(), patches.clone())
            .status(statuses.clone())
            .scaled(),
        subject("apps/v1", "ReplicaSet", "replicasets", true, bodies.clone(), patches.clone())
            .status(statuses.clone())
            .scaled(),
        subject("apps/v1", "StatefulSet", "statefulsets", true, stateful(&bodies), patches)
            .status(statuses)
            .scaled(),
    ]
}

fn others() -> Vec<Subject> {
    let volume = |size: &str| json!({"spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}});
    vec![
        subject(
            "v1",
            "Service",
            "services",
            true,
            json!([
                {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}, {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
                {"spec": {"ports": [{"name": "x", "port": 80}, {"name": "y", "port": 80, "protocol": "UDP"}]}},
                {"spec": {"type": "ExternalName", "externalName": "x.y"}},
            ]),
            json!([
                {"spec": {"ports": [{"port": 81}]}}, {"spec": {"selector": {"c": "d", "a": null}}}, {"spec": {"ports": null}},
                {"spec": {"sessionAffinity": "ClientIP"}}, {"spec": {"ports": [{"port": 80, "targetPort": "z"}]}}, {"spec": {"type": "What"}},
            ]),
        )
        .status(json!([{"loadBalancer": {"ingress": [{"ip": "10.1.1.1"}]}}, {}, {"conditions": [
            {"type": "A", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}])),
        subject(
            "v1",
            "PersistentVolume",
            "persistentvolumes",
            false,
            json!([volume("1Gi"), volume("1024Mi"), volume("2Gi")]),
            json!([
                {"spec": {"capacity": {"storage": "3Gi"}}}, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
                {"spec": {"accessModes": []}}, {"spec": {"claimRef": {"name": "c", "namespace": "n"}}},
            ]),
        )
        .status(json!([{"phase": "Available"}, {"phase": "Failed", "reason": "R"}, {}])),
        subject(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            "priorityclasses",
            false,
            json!([{"value": 5}, {"value": 5, "description": "d"}, {"value": 5, "preemptionPolicy": "Never"}, {"value": 6}]),
            json!([{"description": "e"}, {"description": null}, {"value": 7}, {"globalDefault": "x"}]),
        ),
        subject(
            "storage.k8s.io/v1",
            "StorageClass",
            "storageclasses",
            false,
            json!([{"provisioner": "p"}, {"provisioner": "p", "parameters": {"a": "b"}}, {"provisioner": "p", "allowVolumeExpansion": true}]),
            json!([{"allowVolumeExpansion": false}, {"provisioner": "q"}, {"parameters": {"c": "d"}}]),
        ),
        subject(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "networkpolicies",
            true,
            json!([
                {"spec": {"podSelector": {}}}, {"spec": {"podSelector": {"matchLabels": {"a": "b"}}, "ingress": [{"ports": [{"port": 80}]}]}},
                {"spec": {"podSelector": {}, "egress": [{"to": [{"namespaceSelector": {}}]}], "policyTypes": ["Egress"]}},
            ]),
            json!([
                {"spec": {"ingress": [{"from": [{"podSelector": {}}]}]}}, {"spec": {"ingress": null}},
                {"spec": {"podSelector": {"matchLabels": {"c": "d"}}}}, {"spec": {"policyTypes": ["What"]}},
            ]),
        ),
        subject(
            "networking.k8s.io/v1",
            "Ingress",
            "ingresses",
            true,
            json!([
                {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
                {"spec": {"rules": [{"host": "x.y", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"name": "w"}}}}]}}]}},
            ]),
            json!([{"spec": {"ingressClassName": "k"}}, {"spec": {"defaultBackend": null}}, {"spec": {"rules": []}}]),
        )
        .status(json!([{"loadBalancer": {"ingress": [{"ip": "10.1.1.1"}]}}, {}])),
        subject(
            "policy/v1",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            true,
            json!([
                {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}, {"spec": {"maxUnavailable": "10%"}},
                {"spec": {"minAvailable": "50%", "selector": {}}},
            ]),
            json!([{"spec": {"minAvailable": 2}}, {"spec": {"selector": {"matchLabels": {"c": "d"}}}}, {"spec": {"maxUnavailable": 1}}]),
        )
        .status(json!([
            {"currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0, "expectedPods": 1},
            {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0},
        ])),
    ]
}

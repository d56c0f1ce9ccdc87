//! Objects as an API server answers them, with the entry that our apply made.

use serde_json::{Value, json};

use crate::fields::FieldSet;

pub(super) const OURS: &str = "vidra/h1/team-a/shop";

/// What is declared, the live object, and our fieldsV1.
pub(super) struct Case {
    pub(super) declared: Value,
    pub(super) live: Value,
}

impl Case {
    pub(super) fn set(&self) -> FieldSet {
        let entry = crate::fields::own_apply_entry(&self.live, OURS).unwrap();
        FieldSet::from_fields_v1(entry).unwrap()
    }
}

pub(super) fn ours(fields: Value) -> Value {
    json!([{"manager": OURS, "operation": "Apply", "apiVersion": "v1", "time": "2026-01-02T03:04:05Z",
        "fieldsType": "FieldsV1", "fieldsV1": fields}])
}

pub(super) fn deployment() -> Case {
    let fields = json!({
        "f:metadata": {
            "f:annotations": {"f:owner.vidra.dev/abc": {}, "f:team": {}},
            "f:labels": {"f:app": {}, "f:owner.vidra.dev/abc": {}, "f:vidra.dev/hub": {}},
        },
        "f:spec": {
            "f:selector": {},
            "f:template": {
                "f:metadata": {"f:labels": {"f:app": {}}},
                "f:spec": {
                    "f:containers": {
                        r#"k:{"name":"app"}"#: {
                            ".": {}, "f:name": {}, "f:image": {}, "f:args": {}, "f:resources": {},
                            "f:ports": {r#"k:{"containerPort":80,"protocol":"TCP"}"#: {".": {}, "f:containerPort": {}}},
                            "f:env": {
                                r#"k:{"name":"X"}"#: {".": {}, "f:name": {}, "f:value": {}},
                                r#"k:{"name":"Y"}"#: {".": {}, "f:name": {}, "f:value": {}},
                            },
                        },
                    },
                    "f:nodeSelector": {},
                    "f:volumes": {r#"k:{"name":"tmp"}"#: {".": {}, "f:name": {}, "f:emptyDir": {}}},
                },
            },
        },
    });
    Case {
        declared: json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "shop", "namespace": "team-a",
                "labels": {"app": "shop", "owner.vidra.dev/abc": "", "vidra.dev/hub": "h1"},
                "annotations": {"team": "a", "owner.vidra.dev/abc": "team-a/shop 1 aa"},
            },
            "spec": {
                "selector": {"matchLabels": {"app": "shop"}},
                "template": {
                    "metadata": {"labels": {"app": "shop"}},
                    "spec": {
                        "containers": [{
                            "name": "app", "image": "shop:1", "args": ["-v", "serve"], "resources": {},
                            "ports": [{"containerPort": 80}],
                            "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}],
                        }],
                        "nodeSelector": {"disk": "ssd"},
                        "volumes": [{"name": "tmp", "emptyDir": {}}],
                        "tolerations": [],
                    },
                },
            },
        }),
        live: json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "shop", "namespace": "team-a", "uid": "u1", "resourceVersion": "7", "generation": 1,
                "labels": {"app": "shop", "owner.vidra.dev/abc": "", "vidra.dev/hub": "h1"},
                "annotations": {"team": "a", "owner.vidra.dev/abc": "team-a/shop 1 aa",
                    "deployment.kubernetes.io/revision": "1"},
                "managedFields": ours(fields),
            },
            "spec": {
                "replicas": 1, "revisionHistoryLimit": 10,
                "selector": {"matchLabels": {"app": "shop"}},
                "template": {
                    "metadata": {"labels": {"app": "shop"}},
                    "spec": {
                        "containers": [{
                            "name": "app", "image": "shop:1", "args": ["-v", "serve"], "resources": {},
                            "imagePullPolicy": "IfNotPresent",
                            "ports": [{"containerPort": 80, "protocol": "TCP"}],
                            "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}],
                        }],
                        "nodeSelector": {"disk": "ssd"},
                        "volumes": [{"name": "tmp", "emptyDir": {}}],
                        "restartPolicy": "Always",
                    },
                },
            },
            "status": {"replicas": 1},
        }),
    }
}

pub(super) fn service() -> Case {
    let fields = json!({
        "f:metadata": {"f:finalizers": {r#"v:"shop/keep""#: {}}, "f:labels": {"f:owner.vidra.dev/abc": {}}},
        "f:spec": {
            "f:ports": {
                r#"k:{"port":53,"protocol":"TCP"}"#: {".": {}, "f:name": {}, "f:port": {}, "f:targetPort": {}},
                r#"k:{"port":53,"protocol":"UDP"}"#: {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}},
            },
            "f:selector": {},
        },
    });
    Case {
        declared: json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "dns", "namespace": "team-a", "finalizers": ["shop/keep"],
                "labels": {"owner.vidra.dev/abc": ""}},
            "spec": {
                "ports": [
                    {"name": "dns", "port": 53, "targetPort": 5353},
                    {"name": "dns-udp", "port": 53, "protocol": "UDP"},
                ],
                "selector": {"app": "dns"},
            },
        }),
        live: json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "dns", "namespace": "team-a", "uid": "u2",
                "finalizers": ["other/one", "shop/keep"],
                "labels": {"owner.vidra.dev/abc": ""}, "managedFields": ours(fields)},
            "spec": {
                "clusterIP": "10.0.0.1", "type": "ClusterIP",
                "ports": [
                    {"name": "dns", "port": 53, "protocol": "TCP", "targetPort": 5353},
                    {"name": "dns-udp", "port": 53, "protocol": "UDP", "targetPort": 53},
                ],
                "selector": {"app": "dns"},
            },
        }),
    }
}

pub(super) fn config_map() -> Case {
    let fields = json!({
        "f:data": {"f:some.key": {}, "f:empty": {}},
        "f:metadata": {"f:annotations": {}, "f:labels": {"f:owner.vidra.dev/abc": {}}},
    });
    Case {
        declared: json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"some.key": "v", "empty": ""},
            "metadata": {"name": "c", "namespace": "team-a", "annotations": {},
                "labels": {"owner.vidra.dev/abc": ""}},
        }),
        live: json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"some.key": "v", "empty": ""},
            "metadata": {"name": "c", "namespace": "team-a", "labels": {"owner.vidra.dev/abc": ""},
                "managedFields": ours(fields)},
        }),
    }
}

pub(super) fn secret() -> Case {
    let fields = json!({
        "f:data": {"f:password": {}}, "f:type": {},
        "f:metadata": {"f:labels": {"f:owner.vidra.dev/abc": {}}},
    });
    let body = json!({
        "apiVersion": "v1", "kind": "Secret", "data": {"password": "aHVudGVyMg=="}, "type": "Opaque",
        "metadata": {"name": "s", "namespace": "team-a", "labels": {"owner.vidra.dev/abc": ""}},
    });
    let mut live = body.clone();
    live["metadata"]["managedFields"] = ours(fields);
    Case { declared: body, live }
}

pub(super) fn cluster_role() -> Case {
    let fields = json!({"f:metadata": {"f:labels": {"f:owner.vidra.dev/abc": {}}}, "f:rules": {}});
    let body = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "r", "labels": {"owner.vidra.dev/abc": ""}},
        "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ],
    });
    let mut live = body.clone();
    live["metadata"]["managedFields"] = ours(fields);
    Case { declared: body, live }
}

pub(super) fn all() -> Vec<(&'static str, Case)> {
    vec![
        ("Deployment", deployment()),
        ("Service", service()),
        ("ConfigMap", config_map()),
        ("Secret", secret()),
        ("ClusterRole", cluster_role()),
    ]
}

/// Sets the value at a JSON pointer; its parent must exist. A pointer that ends in "-" appends to a list.
pub(super) fn put(object: &mut Value, pointer: &str, value: Value) {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    match object.pointer_mut(parent).unwrap() {
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => items[last.parse::<usize>().unwrap()] = value,
        Value::Object(map) => {
            map.insert(last.replace("~1", "/"), value);
        }
        other => panic!("{pointer} leads through {other}"),
    }
}

pub(super) fn cut(object: &mut Value, pointer: &str) {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    match object.pointer_mut(parent).unwrap() {
        Value::Array(items) => drop(items.remove(last.parse::<usize>().unwrap())),
        Value::Object(map) => assert!(map.remove(&last.replace("~1", "/")).is_some(), "{pointer}"),
        other => panic!("{pointer} leads through {other}"),
    }
}

//! What a walk's VidraResources declare, and where its objects are.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Value, json};
use testkit::sim::world::{TARGET_NAMESPACE, document, resource};

use super::rig;

/// What may be declared, by a name for it.
pub const SLOTS: [&str; 15] =
    ["a", "b", "d", "s", "key", "web", "app", "own", "role", "book", "keep", "once", "absent", "db", "job"];
/// With what value.
pub const VALUES: [&str; 3] = ["one", "two", "three"];
/// More than a walk asks for, each of them once.
pub static UNIQUE: LazyLock<Vec<String>> = LazyLock::new(|| (0..200).map(|at| format!("v{at}")).collect());

const CRD: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
 "metadata": {"name": "books.test.io"},
 "spec": {"group": "test.io", "scope": "Namespaced", "names": {"kind": "Book", "plural": "books"},
  "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
   "type": "object", "properties": {"spec": {"type": "object", "properties": {"title": {"type": "string"}}}}}}}]}}"#;

/// The CRD of books, as anybody would make it.
pub fn crd() -> Value {
    serde_json::from_str(CRD).expect("a CRD is JSON")
}

/// What a VidraResource declares: values by slot.
pub type Docs = BTreeMap<&'static str, &'static str>;

/// The manifest of what is declared.
pub fn manifest(docs: &Docs) -> String {
    docs.iter().map(|(slot, value)| text(slot, value)).collect()
}

fn text(slot: &str, value: &str) -> String {
    let one = |value: Value| format!("{value}\n---\n");
    match slot {
        "key" => one(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"},
            "data": {"key": k8s_openapi::ByteString(value.as_bytes().to_vec())},
        })),
        "web" => one(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": value}, "ports": [{"port": 80}]},
        })),
        "app" => one(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "app"}}, "template": {
                "metadata": {"labels": {"app": "app"}},
                "spec": {"containers": [{"name": "app", "image": format!("app:{value}")}]},
            }},
        })),
        "db" => one(json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
            "spec": {"replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "db", "image": format!("db:{value}")}]},
            }},
        })),
        // Its template cannot be changed, and it is made again.
        "job" => one(json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "job", "annotations": {"vidra.dev/on-immutable": "Recreate"}},
            "spec": {"parallelism": 1, "completions": 1, "template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "job", "image": format!("job:{value}")}],
            }}},
        })),
        "own" => {
            let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "own"}});
            let within = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "in", "namespace": "own"},
                "data": {"key": value},
            });
            one(own) + &one(within)
        }
        "role" => one(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"},
            "rules": [{"apiGroups": [""], "resources": [value], "verbs": ["get"]}],
        })),
        "book" => {
            let book = json!({
                "apiVersion": "test.io/v1", "kind": "Book", "metadata": {"name": "one"},
                "spec": {"title": value},
            });
            format!("{CRD}\n---\n") + &one(book)
        }
        // Its wave comes with its value.
        "b" => {
            let wave = VALUES.iter().position(|one| *one == value).map_or(0, |at| at as i32 - 1);
            one(asking("b", value, json!({"vidra.dev/wave": wave.to_string()})))
        }
        "d" => {
            let mut object = asking("d", value, json!({"vidra.dev/on-immutable": "Recreate"}));
            object["immutable"] = json!(true);
            one(object)
        }
        "keep" => one(asking("keep", value, json!({"vidra.dev/prune": "disabled"}))),
        "once" => one(asking("once", value, json!({"vidra.dev/apply": "Once"}))),
        "absent" => one(asking("absent", value, json!({"vidra.dev/apply": "IfAbsent"}))),
        plain => rig::object(plain, value).map_or_else(|| document(plain, value), one),
    }
}

/// A ConfigMap that asks something of the hub.
pub(super) fn asking(name: &str, value: &str, annotations: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "annotations": annotations},
        "data": {"key": value},
    })
}

/// Where a slot's object is, and a change of it that is not what anybody declares.
pub fn place(slot: &str) -> (String, Value) {
    let here = |rest: &str| format!("/api/v1/namespaces/{TARGET_NAMESPACE}/{rest}");
    match slot {
        "key" => (here("secrets/key"), json!({"data": {"key": "bWluZQ=="}})),
        "web" => (here("services/web"), json!({"spec": {"selector": {"app": "mine"}}})),
        "app" => (
            format!("/apis/apps/v1/namespaces/{TARGET_NAMESPACE}/deployments/app"),
            json!({"spec": {"replicas": 5}}),
        ),
        "db" => (
            format!("/apis/apps/v1/namespaces/{TARGET_NAMESPACE}/statefulsets/db"),
            json!({"spec": {"replicas": 5}}),
        ),
        // That it rests nobody declares, and nobody but people takes back.
        "job" => (
            format!("/apis/batch/v1/namespaces/{TARGET_NAMESPACE}/jobs/job"),
            json!({"spec": {"parallelism": 5, "suspend": true}}),
        ),
        "own" => ("/api/v1/namespaces/own/configmaps/in".to_owned(), json!({"data": {"key": "mine"}})),
        "role" => (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/reader".to_owned(),
            json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}),
        ),
        "book" => (
            format!("/apis/test.io/v1/namespaces/{TARGET_NAMESPACE}/books/one"),
            json!({"spec": {"title": "mine"}}),
        ),
        plain => (here(&format!("configmaps/{plain}")), json!({"data": {"key": "mine", "more": "mine"}})),
    }
}

/// A VidraResource that declares this.
pub fn declaring(name: &str, docs: &Docs) -> Value {
    resource(name, &manifest(docs))
}

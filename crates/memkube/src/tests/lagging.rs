//! Controllers that lag: the collector, that of namespaces, that of CRDs, and discovery.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::*;
use crate::{Down, Lag};

const SECOND: Duration = Duration::from_secs(1);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/acme.dev/v1/namespaces/default/widgets";

fn lagging(lag: Lag) -> Cluster {
    let cluster = cluster();
    cluster.set_lag(lag);
    cluster
}

async fn post(cluster: &Cluster, path: &str, body: Value) -> (u16, Value) {
    raw(cluster, "POST", path, "application/json", body).await
}

async fn get(cluster: &Cluster, path: &str) -> (u16, Value) {
    raw(cluster, "GET", path, "", json!(null)).await
}

async fn delete(cluster: &Cluster, path: &str, policy: &str) {
    let options = json!({"propagationPolicy": policy});
    let (code, answer) = raw(cluster, "DELETE", path, "application/json", options).await;
    assert_eq!(code, 200, "{answer}");
}

async fn merge(cluster: &Cluster, path: &str, patch: Value) {
    let (code, answer) = raw(cluster, "PATCH", path, "application/merge-patch+json", patch).await;
    assert_eq!(code, 200, "{answer}");
}

/// The names of all ConfigMaps of the namespace default.
fn names(cluster: &Cluster) -> Vec<String> {
    let all = cluster.objects("", "configmaps");
    all.iter().map(|one| one["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A chain of owners: a owns b, b owns c.
async fn chain(cluster: &Cluster) {
    let mut owners = Vec::new();
    for name in ["a", "b", "c"] {
        let body = json!({"metadata": {"name": name, "ownerReferences": owners}});
        let (code, made) = post(cluster, MAPS, body).await;
        assert_eq!(code, 201, "{made}");
        owners = vec![json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": made["metadata"]["uid"],
            "blockOwnerDeletion": true,
        })];
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_owner_leaves_goes_step_by_step_when_the_collector_lags() {
    let cluster = lagging(Lag { garbage: 10 * SECOND, ..Lag::default() });
    chain(&cluster).await;
    sleep(20 * SECOND).await;
    delete(&cluster, &format!("{MAPS}/a"), "Background").await;
    assert_eq!(names(&cluster), ["b", "c"]);
    sleep(9 * SECOND).await;
    assert_eq!(names(&cluster), ["b", "c"]);
    sleep(2 * SECOND).await;
    assert_eq!(names(&cluster), ["c"]);
    sleep(10 * SECOND).await;
    assert_eq!(names(&cluster), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_goes_last_or_leaves_orphans_waits_for_a_collector_that_lags() {
    for (policy, left) in [("Foreground", vec![]), ("Orphan", vec!["b", "c"])] {
        let cluster = lagging(Lag { garbage: 10 * SECOND, ..Lag::default() });
        chain(&cluster).await;
        sleep(20 * SECOND).await;
        delete(&cluster, &format!("{MAPS}/a"), policy).await;
        sleep(5 * SECOND).await;
        assert_eq!(names(&cluster), ["a", "b", "c"], "{policy}");
        sleep(100 * SECOND).await;
        assert_eq!(names(&cluster), left, "{policy}");
        if policy == "Orphan" {
            let b = cluster.object("", "configmaps", "default", "b").expect("it stays");
            assert!(b["metadata"]["ownerReferences"].is_null(), "{b}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_cannot_reach_its_server_does_nothing() {
    let cluster = lagging(Lag { garbage: 10 * SECOND, ..Lag::default() });
    chain(&cluster).await;
    sleep(20 * SECOND).await;
    delete(&cluster, &format!("{MAPS}/a"), "Background").await;
    cluster.set_down(Some(Down::Refuse));
    sleep(100 * SECOND).await;
    assert_eq!(names(&cluster), ["b", "c"]);
    cluster.set_down(None);
    sleep(SECOND).await;
    assert_eq!(names(&cluster), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_terminating_with_all_that_is_in_it_until_its_controller_comes() {
    let cluster = lagging(Lag { namespaces: 10 * SECOND, ..Lag::default() });
    post(&cluster, "/api/v1/namespaces", json!({"metadata": {"name": "shop"}})).await;
    let maps = "/api/v1/namespaces/shop/configmaps";
    post(&cluster, maps, json!({"metadata": {"name": "plain"}})).await;
    post(&cluster, maps, json!({"metadata": {"name": "held", "finalizers": ["x.dev/f"]}})).await;
    delete(&cluster, "/api/v1/namespaces/shop", "Background").await;
    sleep(5 * SECOND).await;
    let (_, namespace) = get(&cluster, "/api/v1/namespaces/shop").await;
    assert_eq!(namespace["status"]["phase"], "Terminating");
    assert_eq!(get(&cluster, &format!("{maps}/plain")).await.0, 200, "not yet");
    assert_eq!(post(&cluster, maps, json!({"metadata": {"name": "new"}})).await.0, 403);
    sleep(6 * SECOND).await;
    assert_eq!(get(&cluster, &format!("{maps}/plain")).await.0, 404);
    let (_, held) = get(&cluster, &format!("{maps}/held")).await;
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    sleep(100 * SECOND).await;
    assert_eq!(get(&cluster, "/api/v1/namespaces/shop").await.0, 200, "a finalizer in it holds it");
    merge(&cluster, &format!("{maps}/held"), json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(get(&cluster, &format!("{maps}/held")).await.0, 404);
    assert_eq!(get(&cluster, "/api/v1/namespaces/shop").await.0, 200, "empty, and still there");
    sleep(11 * SECOND).await;
    assert_eq!(get(&cluster, "/api/v1/namespaces/shop").await.0, 404);
}

fn widget_crd() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "metadata": {"name": "widgets.acme.dev"},
        "spec": {
            "group": "acme.dev", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": open}}],
        },
    })
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "acme.dev/v1", "kind": "Widget", "metadata": {"name": name}})
}

async fn is_discovered(cluster: &Cluster) -> bool {
    get(cluster, "/apis").await.1.to_string().contains("acme.dev")
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_served_and_then_discovered_some_time_after_its_crd_is_made() {
    let lag = Lag {
        establishing: 5 * SECOND,
        storage: 2 * SECOND,
        discovery: 10 * SECOND,
        crds: 10 * SECOND,
        ..Lag::default()
    };
    let cluster = lagging(lag);
    assert_eq!(post(&cluster, CRDS, widget_crd()).await.0, 201);
    let crd = format!("{CRDS}/widgets.acme.dev");
    sleep(4 * SECOND).await;
    merge(&cluster, &crd, json!({"metadata": {"labels": {"a": "b"}}})).await;
    let (_, young) = get(&cluster, &crd).await;
    assert_eq!(young["status"]["conditions"], json!(null));
    let unknown = (404, json!("404 page not found\n"));
    assert_eq!(get(&cluster, WIDGETS).await, unknown);
    assert_eq!(post(&cluster, WIDGETS, widget("a")).await, unknown);
    sleep(2 * SECOND).await;
    assert_eq!(get(&cluster, &crd).await.1["status"]["conditions"][1]["type"], "Established");
    let (code, status) = get(&cluster, WIDGETS).await;
    assert_eq!((code, status["message"].as_str()), (429, Some("storage is (re)initializing")));
    assert_eq!(post(&cluster, WIDGETS, widget("a")).await.0, 201, "a write does not mind");
    sleep(2 * SECOND).await;
    assert_eq!(get(&cluster, WIDGETS).await.0, 200);
    assert!(!is_discovered(&cluster).await, "served, and not yet shown");
    assert_eq!(get(&cluster, "/apis/acme.dev/v1").await.0, 404);
    sleep(8 * SECOND).await;
    assert!(is_discovered(&cluster).await);

    delete(&cluster, &crd, "Background").await;
    sleep(5 * SECOND).await;
    assert_eq!(get(&cluster, &format!("{WIDGETS}/a")).await.0, 200, "not yet");
    let (code, status) = post(&cluster, WIDGETS, widget("b")).await;
    assert_eq!((code, status["reason"].as_str()), (403, Some("Forbidden")), "{status}");
    sleep(20 * SECOND).await;
    assert_eq!((get(&cluster, WIDGETS).await, get(&cluster, &crd).await.0), (unknown, 404));
    assert!(is_discovered(&cluster).await, "still shown");
    sleep(10 * SECOND).await;
    assert!(!is_discovered(&cluster).await);
}

#[tokio::test(start_paused = true)]
async fn controllers_of_a_restored_cluster_take_up_what_the_backup_left_them() {
    let cluster = lagging(Lag {
        establishing: 5 * SECOND,
        namespaces: 5 * SECOND,
        garbage: 5 * SECOND,
        ..Lag::default()
    });
    chain(&cluster).await;
    post(&cluster, CRDS, widget_crd()).await;
    post(&cluster, "/api/v1/namespaces", json!({"metadata": {"name": "shop"}})).await;
    delete(&cluster, "/api/v1/namespaces/shop", "Background").await;
    delete(&cluster, &format!("{MAPS}/a"), "Background").await;
    let backup = cluster.backup();
    sleep(60 * SECOND).await;
    cluster.restore(&backup);
    assert_eq!(names(&cluster), ["b", "c"]);
    assert_eq!(get(&cluster, WIDGETS).await.0, 404);
    assert_eq!(get(&cluster, "/api/v1/namespaces/shop").await.0, 200);
    sleep(60 * SECOND).await;
    assert_eq!(names(&cluster), [""; 0]);
    assert_eq!(get(&cluster, WIDGETS).await.0, 200);
    assert_eq!(get(&cluster, "/api/v1/namespaces/shop").await.0, 404);
}

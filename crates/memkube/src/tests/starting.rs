//! A server that has just started or was restored, revisions that are not there yet, and a watch cache that
//! is not kept to the dot.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::api::{GetParams, ListParams, WatchEvent, WatchParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::*;
use crate::{Startup, WatchCache};

const SECOND: Duration = Duration::from_secs(1);
const WIDGETS: &str = "/apis/acme.dev/v1/namespaces/default/widgets";

async fn get(cluster: &Cluster, path: &str) -> (u16, Value) {
    raw(cluster, "GET", path, "", json!(null)).await
}

async fn with_widgets() -> Cluster {
    let cluster = cluster();
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({
        "metadata": {"name": "widgets.acme.dev"},
        "spec": {
            "group": "acme.dev", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": open}}],
        },
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(raw(&cluster, "POST", crds, "application/json", crd).await.0, 201);
    cluster
}

/// Does aggregated discovery show this group?
async fn shows(cluster: &Cluster, group: &str) -> bool {
    use http_body_util::BodyExt;
    use tower::ServiceExt;
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let request = http::Request::get("/apis").header("accept", accept).body(kube::client::Body::empty());
    let response = cluster.service().oneshot(request.expect("a request")).await.expect("an answer");
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    String::from_utf8_lossy(&body).contains(&format!("\"{group}\""))
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_just_started_answers_before_it_knows_its_crds() {
    for not_found in [false, true] {
        let cluster = with_widgets().await;
        assert_eq!(get(&cluster, "/readyz").await.0, 200);
        cluster.restart(Startup { crds: 5 * SECOND, health: 8 * SECOND, not_found, ..Startup::default() });
        assert!(shows(&cluster, "apps").await && !shows(&cluster, "acme.dev").await);
        let (_, plain) = get(&cluster, "/apis").await;
        assert_eq!(plain["groups"][0]["name"], "apiregistration.k8s.io");
        assert_eq!(plain["groups"].as_array().map(Vec::len), Some(1));
        for path in [WIDGETS, "/apis/acme.dev", "/apis/acme.dev/v1", "/apis/nothing.dev/v1/things"] {
            let (code, status) = get(&cluster, path).await;
            match not_found {
                true => assert_eq!((code, status), (404, json!("404 page not found\n"))),
                false => {
                    assert_eq!((code, &status["reason"]), (503, &json!("ServiceUnavailable")), "{path}");
                    assert_eq!(status["details"]["retryAfterSeconds"], 5);
                }
            }
        }
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.acme.dev";
        assert_eq!(get(&cluster, crds).await.0, 200, "what is stored is stored");
        assert_eq!((get(&cluster, "/readyz").await.0, get(&cluster, "/livez").await.0), (500, 500));
        sleep(6 * SECOND).await;
        assert!(shows(&cluster, "acme.dev").await);
        assert_eq!((get(&cluster, WIDGETS).await.0, get(&cluster, "/readyz").await.0), (200, 500));
        sleep(3 * SECOND).await;
        assert_eq!(get(&cluster, "/readyz").await.0, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_just_started_allows_nothing_to_whom_rbac_governs() {
    let cluster = cluster();
    cluster.authorize_with_rbac(["admin"]);
    let maps = "/api/v1/namespaces/default/configmaps";
    let binding = json!({
        "metadata": {"name": "all"}, "subjects": [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"},
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(raw_as(&cluster, "admin", "POST", bindings, "application/json", binding).await.0, 201);
    let list = async |user: &str| raw_as(&cluster, user, "GET", maps, "", json!(null)).await.0;
    assert_eq!(list("alice").await, 200);
    cluster.restart(Startup { rights: SECOND, ..Startup::default() });
    assert_eq!((list("alice").await, list("admin").await), (403, 200));
    sleep(2 * SECOND).await;
    assert_eq!(list("alice").await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_restart_breaks_watches_and_does_not_know_what_they_missed() {
    let cluster = cluster();
    let api = config_maps(&cluster);
    let before = cluster.revision().to_string();
    let params = WatchParams::default().timeout(60);
    let mut open = api.watch(&params, &before).await.expect("a watch").boxed();
    let made = create(&cluster, &config_map("a", json!({}))).await;
    assert!(matches!(open.try_next().await, Ok(Some(WatchEvent::Added(_)))));
    cluster.restart(Startup::default());
    assert!(open.try_next().await.is_err());
    let mut old = api.watch(&params, &before).await.expect("a watch").boxed();
    let Some(WatchEvent::Error(status)) = old.try_next().await.expect("an event") else {
        panic!("expected ERROR");
    };
    assert_eq!(status.code, 410);
    let version = made.metadata.resource_version.expect("a version");
    let mut newest = api.watch(&params, &version).await.expect("a watch").boxed();
    create(&cluster, &config_map("b", json!({}))).await;
    assert!(matches!(newest.try_next().await, Ok(Some(WatchEvent::Added(_)))));
}

#[tokio::test(start_paused = true)]
async fn a_read_of_a_revision_that_is_not_there_yet_waits_three_seconds_for_it() {
    let cluster = cluster();
    let api = config_maps(&cluster);
    create(&cluster, &config_map("a", json!({}))).await;
    let next = (cluster.revision() + 1).to_string();
    let list = ListParams::default().at(&next).matching(kube::api::VersionMatch::NotOlderThan);
    let began = Instant::now();
    let status = refusal(api.list(&list).await);
    assert_eq!((status.code, status.reason.as_str(), began.elapsed()), (504, "Timeout", 3 * SECOND));
    assert_eq!(status.details.expect("details").retry_after_seconds, 1);
    assert_eq!(refusal(api.get_with("a", &GetParams::at(&next)).await).code, 504);
    let path = format!("/api/v1/namespaces/default/configmaps?limit=1&continue={next}/default/a");
    assert_eq!(get(&cluster, &path).await.0, 504);
    let streaming = WatchParams::default().initial_events().timeout(60);
    let mut events = api.watch(&streaming, &next).await.expect("a watch").boxed();
    assert!(matches!(events.try_next().await, Ok(Some(WatchEvent::Error(status))) if status.code == 504));
    assert_eq!(began.elapsed(), 12 * SECOND);

    let later = async {
        sleep(SECOND).await;
        create(&cluster, &config_map("b", json!({}))).await;
    };
    let began = Instant::now();
    let (found, ()) = tokio::join!(api.list(&list), later);
    assert_eq!((found.expect("a list").items.len(), began.elapsed()), (2, SECOND));
}

#[tokio::test(start_paused = true)]
async fn pages_of_before_a_restore_expire() {
    let cluster = cluster();
    let api = config_maps(&cluster);
    for name in ["a", "b"] {
        create(&cluster, &config_map(name, json!({}))).await;
    }
    let page = api.list(&ListParams::default().limit(1)).await.expect("a page");
    let old = page.metadata.continue_.expect("there is more");
    create(&cluster, &config_map("c", json!({}))).await;
    let backup = cluster.backup();
    create(&cluster, &config_map("d", json!({}))).await;
    let page = api.list(&ListParams::default().limit(1)).await.expect("a page");
    let new = page.metadata.continue_.expect("there is more");
    cluster.restore(&backup);
    for (token, code) in [(old, 410), (new, 504)] {
        assert_eq!(
            refusal(api.list(&ListParams::default().limit(1).continue_token(&token)).await).code,
            code
        );
    }
}

#[tokio::test(start_paused = true)]
async fn history_can_end_by_its_age() {
    let cluster = cluster();
    cluster.set_watch_cache(WatchCache { history: Some(300 * SECOND), jitter: None });
    let start = cluster.revision().to_string();
    create(&cluster, &config_map("a", json!({}))).await;
    let version = cluster.revision().to_string();
    let api = config_maps(&cluster);
    let params = WatchParams::default().timeout(10);
    sleep(299 * SECOND).await;
    let mut events = api.watch(&params, &start).await.expect("a watch").boxed();
    assert!(matches!(events.try_next().await, Ok(Some(WatchEvent::Added(_)))));
    sleep(2 * SECOND).await;
    for (from, expired) in [(start, true), (version, false)] {
        let mut events = api.watch(&params, &from).await.expect("a watch").boxed();
        let event = events.try_next().await.expect("an event");
        assert_eq!(matches!(event, Some(WatchEvent::Error(status)) if status.code == 410), expired);
    }
}

#[tokio::test(start_paused = true)]
async fn bookmarks_can_come_late_by_chance() {
    let times = async |seed| {
        let cluster = cluster();
        cluster.set_watch_cache(WatchCache { history: None, jitter: Some((2 * SECOND, seed)) });
        let params = WatchParams::default().timeout(290);
        let start = cluster.revision().to_string();
        let mut events = config_maps(&cluster).watch(&params, &start).await.expect("a watch").boxed();
        let (began, mut times) = (Instant::now(), Vec::new());
        while let Some(event) = events.try_next().await.expect("an event") {
            assert!(matches!(event, WatchEvent::Bookmark(_)));
            times.push(began.elapsed());
        }
        times
    };
    let first = times(1).await;
    assert_eq!((first.len(), first[4]), (5, 288 * SECOND), "one before the end");
    let mut last = Duration::ZERO;
    for time in &first[..4] {
        assert!((60 * SECOND..=62 * SECOND).contains(&(*time - last)), "{first:?}");
        last = *time;
    }
    assert_eq!(first, times(1).await, "of the seed");
    assert_ne!(first, times(2).await);
}

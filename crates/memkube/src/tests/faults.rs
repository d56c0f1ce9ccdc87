//! Faults, outages, the record of calls, and that a run is a function of its seed.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use kube::api::{ListParams, Patch, PatchParams, WatchParams};
use kube::runtime::watcher;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::*;
use crate::{Call, Down, Fault, Verb};

fn fault_on(cluster: &Cluster, verb: Verb, fault: Fault) {
    cluster.set_fault(Arc::new(move |call| if call.verb == verb { fault.clone() } else { Fault::None }));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_has_its_effect_only_when_dropped_after() {
    for (fault, exists) in [(Fault::DropBefore, false), (Fault::DropAfter, true)] {
        let cluster = cluster();
        fault_on(&cluster, Verb::Create, fault);
        let made = config_maps(&cluster).create(&PostParams::default(), &config_map("a", json!({}))).await;
        assert!(matches!(made, Err(kube::Error::Service(_))), "{made:?}");
        assert_eq!(cluster.object("", "configmaps", "default", "a").is_some(), exists);
        assert_eq!(cluster.requests()[0].status, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_can_be_refused_delayed_or_left_without_an_answer() {
    let cluster = cluster();
    let api = config_maps(&cluster);
    fault_on(&cluster, Verb::Get, Fault::Status(429, "TooManyRequests"));
    let status = refusal(api.get("a").await);
    assert_eq!((status.code, status.reason.as_str()), (429, "TooManyRequests"));
    fault_on(&cluster, Verb::Get, Fault::Delay(Duration::from_secs(3)));
    let began = Instant::now();
    assert_eq!(refusal(api.get("a").await).code, 404);
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    fault_on(&cluster, Verb::Create, Fault::Late(Duration::from_secs(3)));
    let (began, params, late) = (Instant::now(), PostParams::default(), config_map("late", json!({})));
    let made = timeout(Duration::from_secs(2), api.create(&params, &late)).await;
    assert!(made.is_err() && cluster.object("", "configmaps", "default", "late").is_some());
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    fault_on(&cluster, Verb::Get, Fault::Hang);
    assert!(timeout(Duration::from_secs(3600), api.get("a")).await.is_err());
    cluster.clear_fault();
    assert_eq!(refusal(api.get("a").await).code, 404);
}

/// The answer to a create under a fault.
async fn response_under(cluster: &Cluster, fault: Fault) -> http::Response<kube::client::Body> {
    fault_on(cluster, Verb::Create, fault);
    let request = http::Request::post("/api/v1/namespaces/default/configmaps");
    let body = kube::client::Body::from(json!({"metadata": {"name": "a"}}).to_string().into_bytes());
    cluster.client().send(request.body(body).expect("a request")).await.expect("an answer")
}

/// Of that answer: code, content type, `Retry-After`, body.
async fn answer_under(cluster: &Cluster, fault: Fault) -> (u16, String, String, String) {
    let response = response_under(cluster, fault).await;
    let header = |name: &str| {
        let value = response.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let (code, kind, wait) = (response.status().as_u16(), header("content-type"), header("retry-after"));
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (code, kind, wait, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test(start_paused = true)]
async fn a_proxy_answers_a_page_and_nothing_is_done() {
    let cluster = cluster();
    let (code, kind, wait, body) = answer_under(&cluster, Fault::Html(502)).await;
    assert_eq!((code, kind.as_str(), wait.as_str()), (502, "text/html", ""));
    assert!(body.starts_with("<html>") && body.contains("502 Bad Gateway"), "{body}");
    assert_eq!(cluster.object("", "configmaps", "default", "a"), None);
    assert_eq!(cluster.requests()[0].status, 502);
    let (code, kind, _, body) = answer_under(&cluster, Fault::Page(404, "404 page not found\n")).await;
    assert_eq!(
        (code, kind.as_str(), body.as_str()),
        (404, "text/plain; charset=utf-8", "404 page not found\n")
    );
    assert_eq!(cluster.object("", "configmaps", "default", "a"), None);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_found_may_be_something_that_nobody_asked_about() {
    let cluster = cluster();
    let (code, _, _, body) = answer_under(&cluster, Fault::NotFound("endpoints", "web")).await;
    let status: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((code, &status["reason"]), (404, &json!("NotFound")));
    assert_eq!(status["details"], json!({"name": "web", "kind": "endpoints"}));
    assert_eq!(cluster.object("", "configmaps", "default", "a"), None);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_drops_what_is_accepted_leaves_plain_documents_of_discovery() {
    let cluster = cluster();
    let shown = async || {
        let request = http::Request::get("/apis").header("accept", crate::discovery::AGGREGATED);
        let answer = cluster.client().request_text(request.body(Vec::new()).expect("a request")).await;
        let answer: Value = serde_json::from_str(&answer.expect("an answer")).expect("JSON");
        answer["kind"].clone()
    };
    assert_eq!(shown().await, "APIGroupDiscoveryList");
    fault_on(&cluster, Verb::Get, Fault::Plain);
    assert_eq!(shown().await, "APIGroupList");
}

/// `tooManyRequests` in k8s.io/apiserver/pkg/server/filters.
#[tokio::test(start_paused = true)]
async fn a_server_with_too_much_to_do_answers_a_line_and_how_long_to_wait() {
    let cluster = cluster();
    let (code, kind, wait, body) = answer_under(&cluster, Fault::TooMany(7)).await;
    assert_eq!((code, kind.as_str(), wait.as_str()), (429, "text/plain; charset=utf-8", "7"));
    assert_eq!(body, "Too many requests, please try again later.\n");
    assert_eq!(cluster.object("", "configmaps", "default", "a"), None);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_says_bears_its_marks_and_what_a_proxy_says_does_not() {
    for (fault, is_servers, is_flow_control) in [
        (Fault::None, true, false),
        (Fault::Status(429, "TooManyRequests"), true, false),
        (Fault::TooMany(7), true, true),
        (Fault::Html(429), false, false),
        (Fault::Json(429), false, false),
        (Fault::Page(429, "no"), false, false),
    ] {
        let response = response_under(&cluster(), fault.clone()).await;
        let bears = |name: &str| response.headers().contains_key(name);
        assert_eq!(bears("audit-id"), is_servers, "{fault:?}");
        assert_eq!(bears("x-kubernetes-pf-flowschema-uid"), is_flow_control, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_may_come_although_the_write_is_done() {
    for (code, reason) in [(500, "InternalError"), (504, "Timeout")] {
        let cluster = cluster();
        let (found, _, _, body) = answer_under(&cluster, Fault::StatusAfter(code, reason)).await;
        assert!(found == code && body.contains(reason), "{found} {body}");
        assert!(cluster.object("", "configmaps", "default", "a").is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusing_cluster_breaks_watches_and_a_hung_one_goes_on_later() {
    let cluster = cluster();
    let api = config_maps(&cluster);
    let start = cluster.revision().to_string();
    let params = WatchParams::default().timeout(250);
    let mut events = api.watch(&params, &start).await.expect("a watch").boxed();

    cluster.set_down(Some(Down::Hang));
    let waiting = timeout(Duration::from_secs(90), events.try_next()).await;
    assert!(waiting.is_err(), "no bookmark either");
    let calling = api.clone();
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(async move { calling.create(&PostParams::default(), &config_map("a", json!({}))).await });
    tokio::task::yield_now().await;
    assert_eq!(cluster.object("", "configmaps", "default", "a"), None);
    cluster.set_down(None);
    calls.join_next().await.expect("a task").expect("joined").expect("created");
    assert!(matches!(events.try_next().await, Ok(Some(_))));

    cluster.set_down(Some(Down::Refuse));
    let read = timeout(Duration::from_secs(1), async {
        while events.try_next().await?.is_some() {}
        Ok::<(), kube::Error>(())
    });
    assert!(read.await.expect("at once").is_err(), "the watch breaks");
    assert!(matches!(api.get("a").await, Err(kube::Error::Service(_))));
    cluster.set_down(None);
    api.get("a").await.expect("it is back");
}

#[tokio::test(start_paused = true)]
async fn calls_are_recorded_by_user_and_seen_by_the_hook_in_order() {
    let cluster = cluster();
    let seen: Arc<Mutex<Vec<u64>>> = Arc::default();
    let hook = seen.clone();
    cluster.set_fault(Arc::new(move |call: &Call| {
        hook.lock().push(call.index);
        Fault::None
    }));
    create(&cluster, &config_map("a", json!({}))).await;
    cluster.clear_requests();
    let other: Api<ConfigMap> = Api::namespaced(cluster.client_as("other"), "default");
    other.get("a").await.expect("read");
    let calls = cluster.requests();
    assert_eq!(calls.len(), 1);
    let Call { index, user, verb, resource, namespace, name, status, .. } = &calls[0];
    assert_eq!((*index, &**user, *verb), (1, "other", Verb::Get));
    assert_eq!(
        (resource.as_str(), namespace.as_str(), name.as_str(), *status),
        ("configmaps", "default", "a", 200)
    );
    assert_eq!(*seen.lock(), [0, 1]);
}

/// A run with concurrent writers, a watcher and faults: its trace, and all that is stored at the end.
fn run(seed: u64) -> (Vec<String>, Vec<Value>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let start = "2026-01-01T00:00:00Z".parse().expect("a time");
        let cluster = Cluster::new("one", Options { clock: tokio_clock(start), uids: seed });
        let chance = Mutex::new(fastrand::Rng::with_seed(seed));
        cluster.set_fault(Arc::new(move |_| match chance.lock().u8(..8) {
            0 => Fault::DropBefore,
            1 => Fault::DropAfter,
            2 => Fault::Delay(Duration::from_millis(40)),
            _ => Fault::None,
        }));
        fastrand::seed(seed);
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..4u64 {
            let api: Api<ConfigMap> = Api::namespaced(cluster.client_as(&format!("writer-{n}")), "default");
            tasks.spawn(async move {
                for round in 0..10 {
                    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {n.to_string(): round.to_string()}});
                    let _ = api.patch("a", &PatchParams::apply(&format!("m{n}")), &Patch::Apply(body)).await;
                    let _ = api.list(&ListParams::default()).await;
                    tokio::time::sleep(Duration::from_millis(10 * n)).await;
                }
            });
        }
        let watching = config_maps(&cluster);
        tasks.spawn(async move {
            let events = watcher::watcher(watching, watcher::Config::default());
            let _ = timeout(Duration::from_secs(300), events.for_each(|_| async {})).await;
        });
        while tasks.join_next().await.is_some() {}
        let trace = cluster.requests().iter().map(Call::to_string).collect();
        (trace, cluster.objects("", "configmaps"))
    })
}

#[test]
fn two_runs_of_a_seed_are_the_same() {
    let (trace, stored) = run(1);
    assert!(trace.len() > 80, "{}", trace.len());
    assert_eq!((trace.clone(), stored), run(1));
    assert_ne!(trace, run(2).0);
}

#[tokio::test(start_paused = true)]
async fn half_a_body_is_an_error_to_the_reader_though_the_write_was_done() {
    let cluster = cluster();
    let api = config_maps(&cluster);
    fault_on(&cluster, Verb::Create, Fault::HalfBody);
    let made = api.create(&PostParams::default(), &config_map("a", json!({"k": "v"}))).await;
    assert!(!matches!(made, Ok(_) | Err(kube::Error::Api(_))), "{made:?}");
    assert!(cluster.object("", "configmaps", "default", "a").is_some());
    fault_on(&cluster, Verb::Get, Fault::HalfBody);
    let read = api.get("a").await;
    assert!(!matches!(read, Ok(_) | Err(kube::Error::Api(_))), "{read:?}");
    fault_on(&cluster, Verb::List, Fault::HalfBody);
    assert!(api.list(&ListParams::default()).await.is_err());
    cluster.clear_fault();
    assert_eq!(api.list(&ListParams::default()).await.expect("whole").items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_and_an_expired_token_look_as_on_the_real_server_and_do_nothing() {
    let cluster = cluster();
    let api = config_maps(&cluster);
    create(&cluster, &config_map("a", json!({}))).await;
    let before = cluster.revision();
    fault_on(&cluster, Verb::Patch, Fault::Conflict);
    let patch = Patch::Merge(json!({"data": {"k": "v"}}));
    let status = refusal(api.patch("a", &PatchParams::default(), &patch).await);
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert!(
        status.message.starts_with("Operation cannot be fulfilled on configmaps \"a\": "),
        "{}",
        status.message
    );
    let details = status.details.expect("details");
    assert_eq!((details.name.as_str(), details.kind.as_str()), ("a", "configmaps"));
    fault_on(&cluster, Verb::Patch, Fault::Unauthorized);
    let status = refusal(api.patch("a", &PatchParams::default(), &patch).await);
    assert_eq!(
        (status.code, status.reason.as_str(), status.message.as_str()),
        (401, "Unauthorized", "Unauthorized")
    );
    assert_eq!(cluster.revision(), before);
}

#[tokio::test(start_paused = true)]
async fn a_restored_cluster_goes_on_from_its_backup_with_numbers_given_before() {
    let cluster = cluster();
    let api = config_maps(&cluster);
    let kept = create(&cluster, &config_map("kept", json!({"k": "old"}))).await;
    let backup = cluster.backup();
    assert_eq!(backup.revision(), cluster.revision());
    let patch = Patch::Merge(json!({"data": {"k": "new"}}));
    api.patch("kept", &PatchParams::default(), &patch).await.expect("patched");
    let lost = create(&cluster, &config_map("lost", json!({}))).await;
    let later = lost.metadata.resource_version.clone().expect("a version");
    let params = WatchParams::default().timeout(250);
    let mut open = api.watch(&params, &later).await.expect("a watch").boxed();
    cluster.restore(&backup);
    assert!(open.try_next().await.is_err(), "open watches break");
    assert_eq!(api.get("kept").await.expect("it is there"), kept);
    assert_eq!(refusal(api.get("lost").await).code, 404);
    let newer = ListParams::default().at(&later).matching(kube::api::VersionMatch::NotOlderThan);
    assert_eq!(refusal(api.list(&newer).await).code, 504);
    let again = create(&cluster, &config_map("lost", json!({}))).await;
    assert_ne!(again.metadata.uid, lost.metadata.uid);
    assert_eq!(cluster.revision(), backup.revision() + 1, "numbers are given again");
    let mut quiet = api.watch(&params, &later).await.expect("a watch").boxed();
    assert!(quiet.try_next().await.expect("the end").is_none(), "no event, no error, no bookmark");
    let before = (backup.revision() - 1).to_string();
    let mut old = api.watch(&params, &before).await.expect("a watch").boxed();
    let Some(kube::api::WatchEvent::Error(status)) = old.try_next().await.expect("an event") else {
        panic!("expected ERROR");
    };
    assert_eq!(status.code, 410);
}

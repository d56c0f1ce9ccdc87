//! Watches: kube's watcher over them, selectors, bookmarks, compaction.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::api::{DeleteParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::runtime::watcher::{self, Event};
use serde_json::json;

use super::*;

fn name(object: &ConfigMap) -> &str {
    object.metadata.name.as_deref().unwrap_or_default()
}

pub(super) fn short(event: &Event<ConfigMap>) -> String {
    match event {
        Event::Init => "init".into(),
        Event::InitApply(object) => format!("init {}", name(object)),
        Event::InitDone => "done".into(),
        Event::Apply(object) => format!("apply {}", name(object)),
        Event::Delete(object) => format!("delete {}", name(object)),
    }
}

pub(super) async fn take(
    stream: &mut (impl StreamExt<Item = watcher::Result<Event<ConfigMap>>> + Unpin),
    n: usize,
) -> Vec<String> {
    let mut seen = Vec::new();
    let all = async {
        while seen.len() < n {
            match stream.next().await {
                Some(Ok(event)) => seen.push(short(&event)),
                Some(Err(_)) => seen.push("error".into()),
                None => break,
            }
        }
    };
    // Fewer events than expected must end the test: on a paused clock a watcher goes on for ever.
    let _ = tokio::time::timeout(Duration::from_secs(3600), all).await;
    seen
}

pub(super) async fn label(cluster: &Cluster, name: &str, labels: Value) -> ConfigMap {
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    config_maps(cluster).patch(name, &PatchParams::default(), &patch).await.expect("labelled")
}

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_what_is_there_and_then_each_change() {
    for streaming in [false, true] {
        let cluster = cluster();
        create(&cluster, &config_map("a", json!({}))).await;
        let config = watcher::Config::default();
        let config = if streaming { config.streaming_lists() } else { config };
        let mut stream = Box::pin(watcher::watcher(config_maps(&cluster), config));
        assert_eq!(take(&mut stream, 3).await, ["init", "init a", "done"]);
        create(&cluster, &config_map("b", json!({}))).await;
        label(&cluster, "a", json!({"x": "y"})).await;
        config_maps(&cluster).delete("b", &DeleteParams::default()).await.expect("deleted");
        assert_eq!(take(&mut stream, 3).await, ["apply b", "apply a", "delete b"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_selector_is_sent_as_it_was_under_the_new_revision() {
    let cluster = cluster();
    create(&cluster, &labelled("a", json!({"app": "shop"}))).await;
    let params = WatchParams::default().labels("app=shop").timeout(30);
    let start = cluster.revision().to_string();
    let mut events = config_maps(&cluster).watch(&params, &start).await.expect("a watch").boxed();
    let left = label(&cluster, "a", json!({"app": null, "z": "1"})).await;
    let Some(WatchEvent::Deleted(old)) = events.try_next().await.expect("an event") else {
        panic!("expected DELETED");
    };
    assert_eq!(json!(old.metadata.labels), json!({"app": "shop"}));
    assert_eq!(old.metadata.resource_version, left.metadata.resource_version);
    label(&cluster, "a", json!({"app": "shop"})).await;
    assert!(matches!(events.try_next().await.expect("an event"), Some(WatchEvent::Added(_))));
    assert!(events.try_next().await.expect("the end").is_none(), "timeoutSeconds ends it");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_relists_after_its_revision_was_compacted() {
    let cluster = cluster();
    create(&cluster, &config_map("a", json!({}))).await;
    let mut stream = Box::pin(watcher::watcher(config_maps(&cluster), watcher::Config::default()));
    take(&mut stream, 3).await;
    create(&cluster, &config_map("c", json!({}))).await;
    assert_eq!(take(&mut stream, 1).await, ["apply c"], "the watch is open");
    cluster.cut_watches();
    config_maps(&cluster).delete("a", &DeleteParams::default()).await.expect("deleted");
    create(&cluster, &config_map("b", json!({}))).await;
    cluster.compact();
    let seen = take(&mut stream, 6).await;
    assert_eq!(seen, ["error", "error", "init", "init b", "init c", "done"], "cut, 410, relist");
}

#[tokio::test(start_paused = true)]
async fn an_old_revision_gets_410_and_a_future_one_silence() {
    let cluster = cluster();
    create(&cluster, &config_map("a", json!({}))).await;
    cluster.compact();
    let params = WatchParams::default().timeout(200);
    let api = config_maps(&cluster);
    let mut old = api.watch(&params, "2").await.expect("a watch").boxed();
    let Some(WatchEvent::Error(status)) = old.try_next().await.expect("an event") else {
        panic!("expected ERROR");
    };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    let mut future = api.watch(&params, "1000").await.expect("a watch").boxed();
    create(&cluster, &config_map("b", json!({}))).await;
    assert!(future.try_next().await.expect("the end").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_gets_a_bookmark_every_minute_that_moves_on() {
    let cluster = cluster();
    let params = WatchParams::default().timeout(150);
    let start = cluster.revision();
    let mut events = config_maps(&cluster).watch(&params, &start.to_string()).await.expect("a watch").boxed();
    let elsewhere: Api<ConfigMap> = Api::namespaced(cluster.client(), "kube-system");
    elsewhere.create(&PostParams::default(), &config_map("x", json!({}))).await.expect("created");
    let began = tokio::time::Instant::now();
    for minute in 1..=2u64 {
        let Some(WatchEvent::Bookmark(mark)) = events.try_next().await.expect("an event") else {
            panic!("expected BOOKMARK");
        };
        assert_eq!(mark.metadata.resource_version, (start + 1).to_string());
        assert_eq!(began.elapsed(), Duration::from_secs(60 * minute));
    }
    assert!(events.try_next().await.expect("the end").is_none());
}

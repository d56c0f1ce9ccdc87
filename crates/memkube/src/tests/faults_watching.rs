//! Faults of watches, seen through kube's watcher: broken, silent, lossy, expired and old ones.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::api::{DeleteParams, GetParams, ListParams, VersionMatch, WatchEvent, WatchParams};
use kube::runtime::watcher::{Config, watcher};
use serde_json::json;

use super::watching::{label, take};
use super::*;
use crate::{Call, Fault, Verb, WatchFault};

/// A hook for events of a type about an object; an empty name stands for all.
fn on_event(cluster: &Cluster, kind: &'static str, name: &'static str, fault: WatchFault) {
    cluster.set_watch_fault(Some(Arc::new(move |call: &Call, event: &str, object: &Value| {
        assert_eq!(call.verb, Verb::Watch);
        let hit = event == kind && (name.is_empty() || object["metadata"]["name"] == name);
        if hit { fault } else { WatchFault::None }
    })));
}

fn fault_on_watches(cluster: &Cluster, fault: Fault) {
    cluster
        .set_fault(Arc::new(move |call| if call.verb == Verb::Watch { fault.clone() } else { Fault::None }));
}

async fn delete(cluster: &Cluster, name: &str) {
    config_maps(cluster).delete(name, &DeleteParams::default()).await.expect("deleted");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_within_an_event_goes_on_behind_the_last_whole_one() {
    let cluster = cluster();
    let mut stream = Box::pin(watcher(config_maps(&cluster), Config::default()));
    assert_eq!(take(&mut stream, 2).await, ["init", "done"]);
    on_event(&cluster, "ADDED", "b", WatchFault::Half);
    create(&cluster, &config_map("a", json!({}))).await;
    create(&cluster, &config_map("b", json!({}))).await;
    assert_eq!(take(&mut stream, 2).await, ["apply a", "error"]);
    cluster.set_watch_fault(None);
    assert_eq!(take(&mut stream, 1).await, ["apply b"]);

    fault_on_watches(&cluster, Fault::HalfBody);
    let start = cluster.revision().to_string();
    let api = config_maps(&cluster);
    let mut events = api.watch(&WatchParams::default().timeout(30), &start).await.expect("a watch").boxed();
    create(&cluster, &config_map("c", json!({}))).await;
    assert!(events.try_next().await.is_err(), "half an event is none");
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_says_nothing_and_does_not_end_until_it_is_cut() {
    let cluster = cluster();
    fault_on_watches(&cluster, Fault::Silent);
    let mut stream = Box::pin(watcher(config_maps(&cluster), Config::default().timeout(0)));
    assert_eq!(take(&mut stream, 2).await, ["init", "done"]);
    create(&cluster, &config_map("a", json!({}))).await;
    assert_eq!(take(&mut stream, 1).await, [""; 0], "an hour long");
    cluster.clear_fault();
    cluster.cut_watches();
    assert_eq!(take(&mut stream, 2).await, ["error", "apply a"]);
    // One that is open falls silent with an event.
    on_event(&cluster, "ADDED", "b", WatchFault::Silence);
    create(&cluster, &config_map("b", json!({}))).await;
    delete(&cluster, "a").await;
    assert_eq!(take(&mut stream, 1).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_delete_leaves_a_ghost_until_the_next_list() {
    let cluster = cluster();
    create(&cluster, &config_map("a", json!({}))).await;
    create(&cluster, &config_map("b", json!({}))).await;
    let mut stream = Box::pin(watcher(config_maps(&cluster), Config::default()));
    assert_eq!(take(&mut stream, 4).await, ["init", "init a", "init b", "done"]);
    on_event(&cluster, "DELETED", "a", WatchFault::Lose);
    delete(&cluster, "a").await;
    label(&cluster, "b", json!({"x": "y"})).await;
    assert_eq!(take(&mut stream, 1).await, ["apply b"], "nothing tells of the loss");
    cluster.set_watch_fault(None);
    cluster.cut_watches();
    label(&cluster, "b", json!({"x": "z"})).await;
    assert_eq!(take(&mut stream, 2).await, ["error", "apply b"], "nor does a new watch");
    cluster.expire_watches();
    assert_eq!(take(&mut stream, 4).await, ["error", "init", "init b", "done"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_comes_and_goes_in_lost_events_was_never_there() {
    let cluster = cluster();
    let mut stream = Box::pin(watcher(config_maps(&cluster), Config::default()));
    assert_eq!(take(&mut stream, 2).await, ["init", "done"]);
    cluster.set_watch_fault(Some(Arc::new(
        |_: &Call, _: &str, object: &Value| match object["metadata"]["name"].as_str() {
            Some("brief") => WatchFault::Lose,
            _ => WatchFault::None,
        },
    )));
    create(&cluster, &config_map("brief", json!({}))).await;
    delete(&cluster, "brief").await;
    create(&cluster, &config_map("later", json!({}))).await;
    assert_eq!(take(&mut stream, 1).await, ["apply later"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_expires_in_the_middle_makes_the_watcher_list_again() {
    let cluster = cluster();
    let mut stream = Box::pin(watcher(config_maps(&cluster), Config::default()));
    assert_eq!(take(&mut stream, 2).await, ["init", "done"]);
    on_event(&cluster, "ADDED", "b", WatchFault::Expire);
    create(&cluster, &config_map("a", json!({}))).await;
    create(&cluster, &config_map("b", json!({}))).await;
    let seen = take(&mut stream, 6).await;
    assert_eq!(seen, ["apply a", "error", "init", "init a", "init b", "done"]);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_can_be_sent_at_once_and_lost() {
    let cluster = cluster();
    let api = config_maps(&cluster);
    let start = cluster.revision().to_string();
    let mut events = api.watch(&WatchParams::default().timeout(250), &start).await.expect("a watch").boxed();
    let mut plain = WatchParams::default().timeout(250);
    plain.bookmarks = false;
    let mut without = api.watch(&plain, &start).await.expect("a watch").boxed();
    let elsewhere: Api<ConfigMap> = Api::namespaced(cluster.client(), "kube-system");
    elsewhere.create(&PostParams::default(), &config_map("x", json!({}))).await.expect("created");
    let began = tokio::time::Instant::now();
    cluster.bookmark_watches();
    let Some(WatchEvent::Bookmark(mark)) = events.try_next().await.expect("an event") else {
        panic!("expected BOOKMARK");
    };
    assert_eq!(mark.metadata.resource_version, cluster.revision().to_string());
    assert_eq!(began.elapsed(), Duration::ZERO);
    on_event(&cluster, "BOOKMARK", "", WatchFault::Lose);
    assert!(events.try_next().await.expect("the end").is_none(), "no other one comes");
    assert_eq!(began.elapsed(), Duration::from_secs(250));
    assert!(without.try_next().await.expect("the end").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stands_still_shows_watchers_an_older_state_and_writers_the_present() {
    let cluster = cluster();
    create(&cluster, &config_map("old", json!({"k": "1"}))).await;
    create(&cluster, &config_map("gone", json!({}))).await;
    let view = cluster.revision();
    delete(&cluster, "gone").await;
    let current = label(&cluster, "old", json!({"x": "y"})).await;
    create(&cluster, &config_map("new", json!({}))).await;
    cluster.set_fault(Arc::new(move |_| Fault::Stale(view)));
    let api = config_maps(&cluster);
    let names = async |params: &ListParams| {
        let list = api.list(params).await.expect("a list");
        let names: Vec<_> = list.items.iter().filter_map(|item| item.metadata.name.clone()).collect();
        (names.join(" "), list.metadata.resource_version.unwrap_or_default())
    };
    let any = ListParams::default().at("0").matching(VersionMatch::NotOlderThan);
    assert_eq!(names(&any).await, ("gone old".to_owned(), view.to_string()));
    assert_eq!(names(&ListParams::default()).await, ("new old".to_owned(), cluster.revision().to_string()));
    let later = any.clone().at(&cluster.revision().to_string());
    assert_eq!(refusal(api.list(&later).await).code, 504);
    let old = api.get_with("old", &GetParams::at("0")).await.expect("read");
    assert_eq!((old.metadata.labels, old.metadata.resource_version.is_some()), (None, true));
    assert_eq!(api.get("old").await.expect("read"), current);

    // With a page size kube asks for the latest state all the same. A timeout of 0 leaves kube's own out.
    let config = Config { page_size: None, ..Config::default().any_semantic().timeout(0) };
    let mut stream = Box::pin(watcher(config_maps(&cluster), config));
    assert_eq!(take(&mut stream, 4).await, ["init", "init gone", "init old", "done"]);
    let waiting = tokio::time::timeout(Duration::from_secs(100), stream.next()).await;
    assert!(waiting.is_err(), "the view stands still");
    cluster.clear_fault();
    cluster.cut_watches();
    let seen = take(&mut stream, 4).await;
    assert_eq!(seen, ["error", "delete gone", "apply old", "apply new"], "it catches up");

    // A watcher that was up to date meets the older server: silence, not the past once more.
    cluster.set_fault(Arc::new(move |_| Fault::Stale(view)));
    cluster.cut_watches();
    create(&cluster, &config_map("newer", json!({}))).await;
    assert_eq!(take(&mut stream, 2).await, ["error"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_behind_a_split_store_shows_everybody_the_past() {
    let cluster = cluster();
    let api = config_maps(&cluster);
    create(&cluster, &config_map("a", json!({"k": "1"}))).await;
    let view = cluster.revision();
    delete(&cluster, "a").await;
    cluster.set_fault(Arc::new(move |_| Fault::StaleReads(view)));
    assert!(api.get("a").await.is_ok());
    assert_eq!(api.list(&ListParams::default()).await.expect("a list").items.len(), 1);
    let streaming = Config::default().streaming_lists();
    let mut stream = Box::pin(watcher(config_maps(&cluster), streaming));
    assert_eq!(take(&mut stream, 3).await, ["init", "init a", "done"]);
    assert_eq!(refusal(api.delete("a", &DeleteParams::default()).await).code, 404, "writes meet the present");
    cluster.compact();
    assert_eq!(refusal(api.get("a").await).code, 410, "there is no way back");
}

//! What comes late: answers, events, and writes that land when nobody waits for them any more.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::api::{DeleteParams, ListParams, WatchEvent, WatchParams};
use kube::runtime::watcher::{Config, watcher};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::watching::take;
use super::*;
use crate::{Call, Changed, Down, Fault, Verb, WatchFault};

const SECOND: Duration = Duration::from_secs(1);

fn fault_on(cluster: &Cluster, verb: Verb, fault: Fault) {
    cluster.set_fault(Arc::new(move |call| if call.verb == verb { fault.clone() } else { Fault::None }));
}

fn is_there(cluster: &Cluster, name: &str) -> bool {
    cluster.object("", "configmaps", "default", name).is_some()
}

/// The codes that a witness was told of.
fn landed(cluster: &Cluster) -> Arc<Mutex<Vec<u16>>> {
    let codes: Arc<Mutex<Vec<u16>>> = Arc::default();
    let told = codes.clone();
    cluster.set_witness(Some(Arc::new(move |call: &Call, _: &[Changed]| told.lock().push(call.status))));
    codes
}

#[tokio::test(start_paused = true)]
async fn a_write_that_its_caller_gave_up_lands_later_on_the_state_of_then() {
    let cluster = cluster();
    let api = config_maps(&cluster);
    let old = create(&cluster, &config_map("old", json!({"k": "1"}))).await;
    let codes = landed(&cluster);
    cluster.set_fault(Arc::new(|call: &Call| match call.verb {
        Verb::Create | Verb::Update if &*call.user == "tester" => Fault::LandsLater(30 * SECOND),
        _ => Fault::None,
    }));
    let (params, new) = (PostParams::default(), config_map("new", json!({})));
    assert!(timeout(2 * SECOND, api.create(&params, &new)).await.is_err());
    assert!(timeout(2 * SECOND, api.replace("old", &params, &old)).await.is_err());
    assert!(!is_there(&cluster, "new"));
    let path = "/api/v1/namespaces/default/configmaps/old";
    let patch = json!({"data": {"k": "2"}});
    raw(&cluster, "PATCH", path, "application/merge-patch+json", patch).await;
    sleep(30 * SECOND).await;
    assert!(is_there(&cluster, "new"));
    assert_eq!(*codes.lock(), [200, 201, 409], "what was read before is no longer so");
    let statuses: Vec<_> = cluster.requests().iter().map(|call| call.status).collect();
    assert_eq!(statuses, [201, 0, 0, 200], "nobody heard the answers");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_what_lands_later_gets_the_answer() {
    let cluster = cluster();
    fault_on(&cluster, Verb::Create, Fault::LandsLater(30 * SECOND));
    let began = Instant::now();
    create(&cluster, &config_map("a", json!({}))).await;
    assert_eq!((began.elapsed(), cluster.requests()[0].status), (30 * SECOND, 201));
}

#[tokio::test(start_paused = true)]
async fn a_first_request_may_land_after_the_second() {
    let cluster = cluster();
    let codes = landed(&cluster);
    let api = config_maps(&cluster);
    fault_on(&cluster, Verb::Delete, Fault::DropLandsLater(5 * SECOND));
    create(&cluster, &config_map("a", json!({}))).await;
    let first = api.delete("a", &DeleteParams::default()).await;
    assert!(matches!(first, Err(kube::Error::Service(_))), "{first:?}");
    assert!(is_there(&cluster, "a"), "nothing yet");
    cluster.clear_fault();
    api.delete("a", &DeleteParams::default()).await.expect("deleted");
    let again = create(&cluster, &config_map("a", json!({}))).await;
    assert!(again.metadata.uid.is_some());
    sleep(6 * SECOND).await;
    assert!(!is_there(&cluster, "a"), "the one that was made again");
    assert_eq!(*codes.lock(), [201, 200, 201, 200]);
}

#[tokio::test(start_paused = true)]
async fn a_write_lands_though_its_caller_is_long_dead_but_not_when_the_cluster_is() {
    let alive = cluster();
    fault_on(&alive, Verb::Create, Fault::LandsLater(3600 * SECOND));
    let api = config_maps(&alive);
    let mut life = tokio::task::JoinSet::new();
    life.spawn(async move { api.create(&PostParams::default(), &config_map("a", json!({}))).await });
    sleep(SECOND).await;
    life.shutdown().await;
    sleep(3600 * SECOND).await;
    assert!(is_there(&alive, "a"));

    let (dropped, held) = (cluster(), Arc::new(()));
    let cluster = Arc::downgrade(&held);
    dropped.set_fault(Arc::new(move |_| {
        let _ = &held;
        Fault::DropLandsLater(SECOND)
    }));
    let made = config_maps(&dropped).create(&PostParams::default(), &config_map("a", json!({}))).await;
    assert!(made.is_err() && cluster.upgrade().is_some());
    drop(dropped);
    // The client's own task lets go of it.
    sleep(SECOND / 10).await;
    assert!(cluster.upgrade().is_none(), "what is on its way does not keep it");
    sleep(2 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_server_finds_what_was_given_up_in_its_queue_unless_it_is_started_again() {
    for (next, found) in [(None, true), (Some(Down::Refuse), false)] {
        let cluster = cluster();
        let api = config_maps(&cluster);
        cluster.set_down(Some(Down::Queue));
        let (params, new) = (PostParams::default(), config_map("a", json!({})));
        assert!(timeout(2 * SECOND, api.create(&params, &new)).await.is_err());
        sleep(100 * SECOND).await;
        assert!(!is_there(&cluster, "a"));
        cluster.set_down(next);
        sleep(SECOND).await;
        cluster.set_down(None);
        sleep(SECOND).await;
        assert_eq!(is_there(&cluster, "a"), found, "{next:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_tells_of_the_state_at_its_beginning_whatever_the_verb() {
    let cluster = cluster();
    let api = config_maps(&cluster);
    create(&cluster, &config_map("a", json!({}))).await;
    cluster.set_fault(Arc::new(|call: &Call| match &*call.user {
        "tester" => Fault::Late(5 * SECOND),
        _ => Fault::None,
    }));
    let other: Api<ConfigMap> = Api::namespaced(cluster.client_as("other"), "default");
    let create_b = async {
        sleep(SECOND).await;
        other.create(&PostParams::default(), &config_map("b", json!({}))).await.expect("created");
    };
    let all = ListParams::default();
    let (list, ()) = tokio::join!(api.list(&all), create_b);
    assert_eq!(list.expect("a list").items.len(), 1, "of before");

    let began = Instant::now();
    let delete_a = async {
        sleep(SECOND).await;
        other.delete("a", &DeleteParams::default()).await.expect("deleted");
    };
    let params = WatchParams::default().timeout(60);
    let (events, ()) = tokio::join!(api.watch(&params, "0"), delete_a);
    assert_eq!(began.elapsed(), 5 * SECOND);
    let mut events = events.expect("a watch").boxed();
    let mut seen = Vec::new();
    while let Some(event) = events.try_next().await.expect("an event") {
        seen.push(match event {
            WatchEvent::Added(one) => format!("added {}", one.metadata.name.unwrap_or_default()),
            WatchEvent::Deleted(one) => format!("deleted {}", one.metadata.name.unwrap_or_default()),
            other => format!("{other:?}").chars().take(8).collect(),
        });
        if seen.len() == 3 {
            break;
        }
    }
    assert_eq!(seen, ["added a", "added b", "deleted a"]);
}

#[tokio::test(start_paused = true)]
async fn no_late_answer_comes_over_a_connection_that_broke_in_the_meantime() {
    let cluster = cluster();
    fault_on(&cluster, Verb::Create, Fault::Late(5 * SECOND));
    let restart = async {
        sleep(SECOND).await;
        cluster.set_down(Some(Down::Refuse));
        cluster.set_down(None);
    };
    let (api, params, new) = (config_maps(&cluster), PostParams::default(), config_map("a", json!({})));
    let (made, ()) = tokio::join!(api.create(&params, &new), restart);
    assert!(matches!(made, Err(kube::Error::Service(_))), "{made:?}");
    assert!(is_there(&cluster, "a"));
}

/// Delays what `tester` is shown of an object.
fn delay(cluster: &Cluster, name: &'static str, time: Duration) {
    cluster.set_watch_fault(Some(Arc::new(move |call: &Call, _: &str, object: &Value| {
        let hit = &*call.user == "tester" && object["metadata"]["name"] == name;
        if hit { WatchFault::Delay(time) } else { WatchFault::None }
    })));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_event_holds_up_its_own_watch_and_no_other() {
    let cluster = cluster();
    delay(&cluster, "b", 10 * SECOND);
    let mut slow = Box::pin(watcher(config_maps(&cluster), Config::default()));
    let other: Api<ConfigMap> = Api::namespaced(cluster.client_as("other"), "default");
    let mut quick = Box::pin(watcher(other, Config::default()));
    assert_eq!(take(&mut slow, 2).await, ["init", "done"]);
    assert_eq!(take(&mut quick, 2).await, ["init", "done"]);
    let began = Instant::now();
    let mut times = Vec::new();
    for name in ["a", "b", "c"] {
        create(&cluster, &config_map(name, json!({}))).await;
    }
    assert_eq!(take(&mut quick, 3).await, ["apply a", "apply b", "apply c"]);
    assert_eq!(began.elapsed(), Duration::ZERO, "answers and other watches are there at once");
    for expected in ["apply a", "apply b", "apply c"] {
        assert_eq!(take(&mut slow, 1).await, [expected]);
        times.push(began.elapsed().as_secs());
    }
    assert_eq!(times, [0, 10, 10], "in order");
    create(&cluster, &config_map("d", json!({}))).await;
    assert_eq!(take(&mut slow, 1).await, ["apply d"]);
    assert_eq!(began.elapsed(), 20 * SECOND, "it stays behind");

    // A watch that breaks has forgotten what it held back; the next one begins at once.
    create(&cluster, &config_map("e", json!({}))).await;
    assert!(timeout(SECOND, slow.next()).await.is_err());
    let began = Instant::now();
    cluster.cut_watches();
    assert_eq!(take(&mut slow, 2).await, ["error", "apply e"]);
    assert!(began.elapsed() < 5 * SECOND, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_ends_a_watch_comes_behind_what_it_holds_back() {
    for (fault, expected) in [
        (WatchFault::Half, vec!["apply slow", "error"]),
        (WatchFault::Expire, vec!["apply slow", "error", "init", "init end", "init slow", "done"]),
        (WatchFault::Silence, vec!["apply slow"]),
    ] {
        let cluster = cluster();
        let mut stream = Box::pin(watcher(config_maps(&cluster), Config::default().timeout(0)));
        assert_eq!(take(&mut stream, 2).await, ["init", "done"]);
        cluster.set_watch_fault(Some(Arc::new(move |_: &Call, _: &str, object: &Value| {
            match object["metadata"]["name"].as_str() {
                Some("slow") => WatchFault::Delay(10 * SECOND),
                Some("end") => fault,
                _ => WatchFault::None,
            }
        })));
        create(&cluster, &config_map("slow", json!({}))).await;
        create(&cluster, &config_map("end", json!({}))).await;
        let began = Instant::now();
        assert_eq!(take(&mut stream, 1).await, expected[..1], "{fault:?}");
        assert_eq!(began.elapsed(), 10 * SECOND);
        let rest = timeout(SECOND * 60, take(&mut stream, expected.len() - 1)).await;
        assert_eq!(rest.unwrap_or_default(), expected[1..], "{fault:?}");
        if fault == WatchFault::Silence {
            assert!(timeout(SECOND * 3600, stream.next()).await.is_err());
        }
    }
}

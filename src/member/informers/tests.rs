//! Informers of a member that is made up: large pages, objects that nobody can read.

use std::sync::atomic::AtomicUsize;

use http_body_util::Full;
use kube::client::Body;
use serde_json::{Value, json};
use vidra_core::kubeconfig::Allow;

use super::*;
use crate::{
    queue::Limits,
    seams::{SeededRng, SystemClock},
    settings::Settings,
};

fn gvk() -> Gvk {
    Gvk::new("", "v1", "ConfigMap")
}

fn deps(said: Arc<Mutex<Vec<String>>>) -> SessionDeps {
    let settings = Settings {
        namespace: "vidra-system".to_owned(),
        hub_id: None,
        interval: Duration::from_secs(600),
        on_events: true,
        allow: Allow::default(),
    };
    let (metrics, rng) = (Metrics::default(), Arc::new(SeededRng::new(1)));
    let (queue, _) = Queue::new(Limits::default(), rng.clone(), metrics.queue());
    SessionDeps {
        hub: HubId::try_from("h1").unwrap(),
        queue,
        clock: Arc::new(SystemClock),
        rng,
        metrics,
        calls: Shared::default(),
        tuning: Arc::new(Tuning::new(&settings)),
        wake_targets: Arc::new(|_| {}),
        warn: Arc::new(move |_, reason, note| said.lock().push(format!("{reason}: {note}"))),
    }
}

fn item(name: &str, value: &Value) -> String {
    json!({"metadata": {"name": name, "namespace": "team", "uid": format!("u-{name}"), "resourceVersion": "7",
        "labels": {"vidra.dev/hub": "h1"}}, "data": {"key": value}})
    .to_string()
}

/// What `limit` asks for.
fn limit(uri: &http::Uri) -> usize {
    let query = uri.query().unwrap_or_default();
    let limit = query.split('&').find_map(|pair| pair.strip_prefix("limit="));
    limit.and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX)
}

/// A member that shows these objects, page by page, and watches that are silent.
fn member(items: Vec<String>, calls: Arc<AtomicUsize>) -> Client {
    let items = Arc::new(items);
    let answer = move |request: http::Request<Body>| {
        let (items, calls) = (items.clone(), calls.clone());
        async move {
            let uri = request.uri();
            if uri.query().is_some_and(|query| query.contains("watch=true")) {
                return std::future::pending().await;
            }
            calls.fetch_add(1, Ordering::Relaxed);
            let query = uri.query().unwrap_or_default();
            let from = query.split('&').find_map(|pair| pair.strip_prefix("continue="));
            let from: usize = from.and_then(|from| from.parse().ok()).unwrap_or(0);
            let to = from.saturating_add(limit(uri)).min(items.len());
            let next = if to < items.len() { to.to_string() } else { String::new() };
            let body = format!(
                "{{\"metadata\":{{\"resourceVersion\":\"9\",\"continue\":\"{next}\"}},\"items\":[{}]}}",
                items[from..to].join(",")
            );
            Ok::<_, http::Error>(http::Response::new(Full::from(body)))
        }
    };
    Client::new(tower::service_fn(move |request| Box::pin(answer(request))), "default")
}

/// Informers of a member once they have listed it.
async fn listed(items: Vec<String>) -> (Arc<Informers>, Vec<String>, usize) {
    let (said, calls) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let deps = deps(said.clone());
    let records = Arc::new(Records::new(deps.hub.clone()));
    let client = member(items, calls.clone());
    let informers =
        Informers::new("berlin".into(), client, records, &deps, TaskTracker::new(), CancellationToken::new());
    let resource = ApiResource {
        group: String::new(),
        version: "v1".into(),
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
    };
    let need = Need { resource, scope: Scope::Namespaced, namespaces: BTreeSet::from(["team".into()]) };
    let needs = BTreeMap::from([(gvk(), need)]);
    let target = TargetKey::new("team", "shop", "berlin");
    loop {
        let states = informers.require(&target, &needs);
        match &states[&Place::everywhere(&gvk())] {
            State::Synced => break,
            State::Syncing => tokio::time::sleep(Duration::from_millis(1)).await,
            other => panic!("{other:?}"),
        }
    }
    informers.stop.cancel();
    let said = said.lock().clone();
    (informers, said, calls.load(Ordering::Relaxed))
}

#[tokio::test]
async fn pages_that_are_too_large_are_asked_for_smaller() {
    let large = json!("x".repeat(2 << 20));
    let items: Vec<_> = (0..12).map(|nth| item(&format!("n{nth}"), &large)).collect();
    let (informers, said, calls) = listed(items).await;
    assert_eq!(informers.records.len(), 12);
    assert_eq!(said, [""; 0]);
    // 500, 100, then 20 do not fit; of 4 there are 3.
    assert_eq!(calls, 3 + 3);
}

#[tokio::test]
async fn objects_that_cannot_be_read_hide_no_other_and_are_named() {
    let deep =
        item("deep", &json!("HERE")).replace("\"HERE\"", &format!("{}{}", "[".repeat(500), "]".repeat(500)));
    let nameless = item("x", &json!("one")).replace("\"x\"", "7");
    let foreign = item("foreign", &json!("one")).replace("h1", "h2");
    let items = vec![item("a", &json!("one")), deep, nameless, foreign, item("b", &json!("one"))];
    let (informers, said, _) = listed(items).await;
    assert_eq!(informers.records.len(), 2);
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].contains("ConfigMap team/deep") && said[0].contains("too deep"), "{said:?}");
    let key = |name: &str| ObjectKey::new(&gvk(), "team", name);
    let keys = [key("a"), key("deep")];
    let unread = informers.unread(keys.iter());
    assert_eq!(unread.keys().collect::<Vec<_>>(), [&keys[1]]);
    // It is read, or gone.
    informers.is_read(&keys[1]);
    assert!(informers.unread(keys.iter()).is_empty());
}

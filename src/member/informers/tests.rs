//! Informers of a member that is made up: large pages, objects that nobody can read.

mod floods;
mod sizes;
mod turns;

use std::{
    sync::atomic::{AtomicBool, AtomicUsize},
    time::Duration,
};

use http_body_util::{Full, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::{Value, json};
use vidra_api::{MemberWatches, TargetState, VidraTarget, VidraTargetSpec, VidraTargetStatus};
use vidra_core::{kubeconfig::Allow, render::HashKey};

use super::*;
use crate::{
    base::{
        env::{SeededRng, SystemClock},
        limiter::Shared,
    },
    config::Settings,
    internal_limits::InternalLimits,
    member::records::Secrecy,
    metrics::Metrics,
    workqueue::Limits,
};

/// A list that shows nothing.
const EMPTY: &str = r#"{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":null}"#;

pub(super) fn gvk() -> Gvk {
    Gvk::new("", "v1", "ConfigMap")
}

pub(super) fn resource() -> ApiResource {
    ApiResource {
        group: String::new(),
        version: "v1".into(),
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
    }
}

/// As a hub has it that nobody has tuned.
pub(super) fn tuning() -> Arc<Tuning> {
    Arc::new(Tuning::new(&Settings {
        namespace: "vidra-system".to_owned(),
        hub_id: None,
        inherit: Default::default(),
        interval: Duration::from_secs(600),
        on_events: true,
        allow: Allow::default(),
        memory_limit: None,
    }))
}

fn deps(said: Arc<Mutex<Vec<String>>>) -> SessionDeps {
    let (metrics, rng) = (Metrics::default(), Arc::new(SeededRng::new(1)));
    let (queue, _) = Queue::new(Limits::default(), rng.clone(), metrics.queue());
    SessionDeps {
        is_owner: Arc::new(|_, _| false),
        hub: HubId::try_from("h1").unwrap(),
        salt: HashKey::new([7; 32]),
        queue,
        clock: Arc::new(SystemClock),
        rng,
        metrics,
        calls: Shared::default(),
        limits: InternalLimits::default(),
        interned: Arc::default(),
        value_bytes: Default::default(),
        tuning: tuning(),
        health: Arc::default(),
        wake_targets: Arc::new(|_| {}),
        warn: Arc::new(move |_, reason, note| said.lock().push(format!("{reason}: {note}"))),
        late_creates: Arc::default(),
        late: None,
    }
}

fn item(name: &str, value: &Value) -> String {
    json!({"metadata": {"name": name, "namespace": "team", "uid": format!("u-{name}"), "resourceVersion": "7",
        "labels": {"vidra.dev/hub": "h1"}}, "data": {"key": value}})
    .to_string()
}

/// An object without its content.
fn bare(item: &str) -> String {
    let object: Value = serde_json::from_str(item).unwrap();
    json!({"kind": "PartialObjectMetadata", "metadata": object["metadata"]}).to_string()
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
            let accepted = request.headers().get("accept").and_then(|kinds| kinds.to_str().ok());
            let shown = match accepted.is_some_and(|kinds| kinds.contains("as=PartialObjectMetadataList")) {
                true => items[from..to].iter().map(|item| bare(item)).collect::<Vec<_>>().join(","),
                false => items[from..to].join(","),
            };
            let body = format!(
                "{{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"9\",\"continue\":\"{next}\"}},\"items\":[{shown}]}}"
            );
            Ok::<_, http::Error>(http::Response::new(Full::from(body)))
        }
    };
    Client::new(tower::service_fn(move |request| Box::pin(answer(request))), "default")
}

/// A member that allows lists in these namespaces, and in all of them once that is switched on. Its watches say each
/// minute how far they are, and end when they should.
fn guarded(allowed: &'static [&'static str], everywhere: Arc<AtomicBool>) -> Client {
    let answer = move |request: http::Request<Body>| {
        let everywhere = everywhere.clone();
        async move {
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            let may = everywhere.load(Ordering::Relaxed)
                || allowed.iter().any(|namespace| path.contains(&format!("/namespaces/{namespace}/")));
            let (code, body) = match may {
                false => {
                    (403, json!({"status": "Failure", "code": 403, "message": "you may not"}).to_string())
                }
                true => (200, EMPTY.to_owned()),
            };
            let is_watch = may && query.contains("watch=true");
            let frames = futures::stream::unfold(0, move |minute| {
                let body = body.clone();
                async move {
                    if !is_watch {
                        let frame = Frame::data(bytes::Bytes::from(body));
                        return (minute == 0).then_some((Ok::<_, std::io::Error>(frame), 1));
                    }
                    tokio::time::sleep(Duration::from_secs(60)).await;
                    let bookmark =
                        "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n";
                    (minute < 3).then_some((Ok(Frame::data(bytes::Bytes::from(bookmark))), minute + 1))
                }
            });
            let response = http::Response::builder().status(code);
            response.body(StreamBody::new(Box::pin(frames)))
        }
    };
    Client::new(tower::service_fn(move |request| Box::pin(answer(request))), "default")
}

fn place(namespace: &str) -> Place {
    Place { gvk: gvk(), namespace: namespace.into() }
}

fn needs(namespaces: &[&str]) -> BTreeMap<Gvk, Need> {
    let namespaces = namespaces.iter().map(|namespace| Arc::from(*namespace)).collect();
    BTreeMap::from([(gvk(), Need { resource: resource(), scope: Scope::Namespaced, namespaces })])
}

/// Asks until nothing is under way any more.
async fn settled(
    informers: &Arc<Informers>,
    target: &TargetKey,
    needs: &BTreeMap<Gvk, Need>,
) -> BTreeMap<Place, State> {
    loop {
        let states = informers.require(target, needs);
        if !states.values().any(|state| *state == State::Syncing) {
            return states;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn informers(client: Client, said: Arc<Mutex<Vec<String>>>) -> Arc<Informers> {
    sharing(client, said, Shared::default())
}

/// The informers of one of several members that share these turns.
fn sharing(client: Client, said: Arc<Mutex<Vec<String>>>, calls: Shared) -> Arc<Informers> {
    let deps = SessionDeps { calls, ..deps(said) };
    let records = Arc::new(Records::new(
        deps.hub.clone(),
        Secrecy { salt: deps.salt.clone(), tuning: deps.tuning.clone() },
        deps.health.clone(),
        deps.interned.clone(),
    ));
    Informers::new(
        "berlin".into(),
        client,
        records,
        &deps,
        TaskTracker::new(),
        (CancellationToken::new(), Arc::default(), Arc::default()),
    )
}

#[tokio::test(start_paused = true)]
async fn where_all_namespaces_are_forbidden_each_in_use_has_an_informer_counted_by_its_users() {
    let everywhere = Arc::new(AtomicBool::new(false));
    let informers = informers(guarded(&["a", "b"], everywhere.clone()), Arc::default());
    let (one, two) = (TargetKey::new("t", "one", "berlin"), TargetKey::new("t", "two", "berlin"));
    let states = settled(&informers, &one, &needs(&["a", "c"])).await;
    assert_eq!(states[&place("a")], State::Synced);
    assert!(matches!(&states[&place("c")], State::Denied(why) if why.contains("you may not")), "{states:?}");
    assert!(!states.contains_key(&place("")));
    settled(&informers, &two, &needs(&["a", "b"])).await;
    assert_eq!(informers.counts(), (3, 2));
    // Each ends with its last user.
    informers.require(&one, &needs(&["b"]));
    assert_eq!(informers.counts().0, 2);
    informers.release(&two);
    assert_eq!(informers.counts(), (1, 1));

    // Rights that come are found with the next verification, and after contact was lost.
    everywhere.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    let states = settled(&informers, &one, &needs(&["b"])).await;
    assert_eq!(states, BTreeMap::from([(place(""), State::Synced)]));
    assert_eq!(informers.counts(), (1, 1));
    everywhere.store(false, Ordering::Relaxed);
    informers.restart();
    let states = settled(&informers, &one, &needs(&["b"])).await;
    assert_eq!(states, BTreeMap::from([(place("b"), State::Synced)]));
    everywhere.store(true, Ordering::Relaxed);
    informers.restart();
    let states = settled(&informers, &one, &needs(&["b"])).await;
    assert_eq!(states, BTreeMap::from([(place(""), State::Synced)]));
    informers.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn what_is_known_of_a_place_goes_with_its_last_user() {
    let informers = informers(guarded(&["a", "b"], Arc::default()), Arc::default());
    let one = TargetKey::new("t", "one", "berlin");
    let key = |namespace: &str, nth: usize| ObjectKey::new(&gvk(), namespace, &format!("n{nth}"));
    settled(&informers, &one, &needs(&["a"])).await;
    // A member's users can make any number of objects that nobody can read.
    for nth in 0..10_000 {
        informers.add_unreadable(&place("a"), key("a", nth), "too deep");
    }
    settled(&informers, &one, &needs(&["b"])).await;
    informers.add_unreadable(&place("b"), key("b", 0), "too deep");
    let unread = informers.unread([key("a", 0), key("b", 0)].iter());
    assert_eq!(unread.keys().collect::<Vec<_>>(), [&key("b", 0)], "those of before take no room");
    informers.restart();
    assert_eq!(informers.unread([key("b", 0)].iter()).len(), 0, "all is listed again");
    settled(&informers, &one, &needs(&["b"])).await;
    assert!(informers.is_confined(&gvk()));
    informers.release(&one);
    assert!(!informers.is_confined(&gvk()));
    assert_eq!(informers.counts(), (0, 0));
    informers.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn watches_are_counted_when_all_targets_were_looked_at_and_nothing_is_listed_for_the_first_time() {
    let informers = informers(guarded(&["a"], Arc::default()), Arc::default());
    let (one, two) = (TargetKey::new("t", "one", "berlin"), TargetKey::new("t", "two", "berlin"));
    let fleet = |second: TargetState| {
        let of = |state| {
            let mut target = VidraTarget::new("", VidraTargetSpec::default());
            target.status = Some(VidraTargetStatus { state: Some(state), ..VidraTargetStatus::default() });
            Arc::new(target)
        };
        BTreeMap::from([(one.clone(), of(TargetState::Ready)), (two.clone(), of(second))])
    };
    let counted = |total, synced, denied| Some(MemberWatches { total, synced, denied });
    let ready = fleet(TargetState::Ready);
    settled(&informers, &one, &needs(&["a"])).await;
    informers.looked(&one);
    assert_eq!(informers.watches(&ready), None, "one was not looked at");
    settled(&informers, &two, &needs(&["a", "b"])).await;
    informers.looked(&two);
    assert_eq!(informers.watches(&ready), counted(2, 1, 1));
    assert_eq!(informers.watches(&fleet(TargetState::Suspended)), counted(1, 1, 0));
    informers.restart();
    assert_eq!(informers.watches(&ready), None, "all is listed again");
    informers.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn without_watches_too_a_list_goes_by_namespaces_where_it_must() {
    let informers = informers(guarded(&["a"], Arc::default()), Arc::default());
    let needs = needs(&["a", "b"]);
    let failed = informers.list_now(&place(""), &needs[&gvk()]).await;
    assert_eq!(failed.keys().collect::<Vec<_>>(), [&place("b")]);
    assert_eq!(informers.places(&needs), BTreeSet::from([place("a"), place("b")]));
}

/// Informers of a member once they have listed it.
async fn listed(items: Vec<String>) -> (Arc<Informers>, Vec<String>, usize) {
    let (said, calls) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let informers = informers(member(items, calls.clone()), said.clone());
    let needs = needs(&["team"]);
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
    informers.set_readable(&keys[1]);
    assert!(informers.unread(keys.iter()).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_watches_takes_little_memory() {
    let informers = informers(member(Vec::new(), Arc::default()), Arc::default());
    let run = Arc::new(Run {
        registry: informers.clone(),
        place: place(""),
        reader: informers.reader(&place(""), &resource()),
        scope: Scope::Namespaced,
        id: 1,
        named: Default::default(),
        in_line: Default::default(),
    });
    let size = size_of_val(&run.follow());
    assert!(size <= 2048, "{size} bytes for as long as it runs");
}

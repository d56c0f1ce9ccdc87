//! Members whose watches send without a pause.

use futures::StreamExt;

use super::{super::rests::rest_after, *};

/// Objects that a flood is made of are so large.
const SIZE: usize = 64 << 10;
/// Twice what a member may send at once. A watch that was not ended then falls silent, so that the clock goes on.
const TOO_MANY: usize = (256 << 20) / SIZE;

/// A member that lists nothing and whose watches send changes of one object, as fast as they are read; it counts them.
fn flood(sent: Arc<AtomicUsize>) -> Client {
    let answer = move |request: http::Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let sent = sent.clone();
        let events = futures::stream::unfold((), move |()| {
            let sent = sent.clone();
            async move {
                // As a socket does that has always more to read.
                tokio::task::consume_budget().await;
                if !is_watch {
                    return None;
                }
                if sent.load(Ordering::Relaxed) >= TOO_MANY {
                    return std::future::pending().await;
                }
                let version = sent.fetch_add(1, Ordering::Relaxed) + 10;
                let object = item("settings", &json!("x".repeat(SIZE)));
                let object = object
                    .replace("\"resourceVersion\":\"7\"", &format!("\"resourceVersion\":\"{version}\""));
                Some((format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n"), ()))
            }
        });
        let list = (!is_watch).then(|| EMPTY.to_owned());
        let frames = futures::stream::iter(list).chain(events);
        let frames = frames.map(|text| Ok::<_, std::io::Error>(Frame::data(bytes::Bytes::from(text))));
        async move { Ok::<_, http::Error>(http::Response::new(StreamBody::new(Box::pin(frames)))) }
    };
    Client::new(tower::service_fn(move |request| Box::pin(answer(request))), "default")
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_floods_is_ended_and_told_and_other_members_are_served() {
    let (said, sent) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let hostile = informers(flood(sent.clone()), said.clone());
    let target = TargetKey::new("team", "shop", "berlin");
    settled(&hostile, &target, &needs(&["team"])).await;
    let is_told = || {
        said.lock()
            .iter()
            .any(|one: &String| one.starts_with("WatchFloods: ") && one.contains("v1 ConfigMap"))
    };
    while !is_told() {
        assert!(sent.load(Ordering::Relaxed) < TOO_MANY, "the watch of a member that floods does not end");
        tokio::task::yield_now().await;
    }
    // Half a minute later it has sent what is read of it in that time, and no more; and others were listed meanwhile.
    let (before, began) = (sent.load(Ordering::Relaxed), Instant::now());
    let healthy = informers(guarded(&["team"], Arc::default()), Arc::default());
    let states = settled(&healthy, &target, &needs(&["team"])).await;
    assert_eq!(states[&place("team")], State::Synced);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    tokio::time::sleep(Duration::from_secs(30)).await;
    let bytes = (sent.load(Ordering::Relaxed) - before) * SIZE;
    assert!(bytes <= 128 << 20, "{bytes} bytes in half a minute");
    assert!(bytes > 0, "the watch is begun again");
    assert_eq!(hostile.records.len(), 1, "what it sent was read");
    hostile.stop.cancel();
    healthy.stop.cancel();
}

/// A member whose lists show objects that nobody can read, page after page; it counts the pages.
fn endless(asked: Arc<AtomicUsize>) -> Client {
    let answer = move |_: http::Request<Body>| {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        let page = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "9", "continue": number.to_string()},
            "items": vec![json!({}); 500]});
        async move { Ok::<_, http::Error>(http::Response::new(Body::from(page.to_string().into_bytes()))) }
    };
    Client::new(tower::service_fn(move |request| Box::pin(answer(request))), "default")
}

#[test]
fn a_list_that_took_long_and_did_not_end_costs_little_of_its_rest() {
    for (took, rests) in [(0, 60), (1, 60), (2, 60), (10, 300), (60, 1800), (120, 3600), (86_400, 3600)] {
        assert_eq!(rest_after(Duration::from_secs(took)), Duration::from_secs(rests), "{took} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_shows_objects_without_end_is_given_up_told_and_begun_again_after_a_minute() {
    let (said, asked) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let hostile = informers(endless(asked.clone()), said.clone());
    let target = TargetKey::new("team", "shop", "berlin");
    let states = settled(&hostile, &target, &needs(&["team"])).await;
    assert!(states.values().all(|state| matches!(state, State::Failing(_))), "{states:?}");
    assert!(said.lock().iter().any(|one: &String| one.starts_with("ListEndless: ")), "{:?}", said.lock());
    let first = asked.load(Ordering::Relaxed);
    assert!(first <= 30, "{first} pages were read");
    // Whoever asks.
    let failed = hostile.list_now(&place(""), &needs(&["team"])[&gvk()]).await;
    assert_eq!(failed.len(), 1, "{failed:?}");
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(asked.load(Ordering::Relaxed), first, "it is begun again too soon");
    tokio::time::sleep(Duration::from_secs(40)).await;
    let second = asked.load(Ordering::Relaxed);
    assert!((first + 1..=2 * first).contains(&second), "{first}, then {second}");
    hostile.stop.cancel();
}

/// A member that opens every watch and ends it at once, in good order or with its connection.
fn opening(is_cut: bool) -> Client {
    let answer = move |request: http::Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let list = EMPTY;
        let first = if is_watch { "" } else { list };
        let broken = (is_watch && is_cut).then(|| Err(std::io::Error::other("the connection broke")));
        let frames = [Ok(Frame::data(bytes::Bytes::from_static(first.as_bytes())))].into_iter().chain(broken);
        let body = StreamBody::new(futures::stream::iter(frames));
        async move { Ok::<_, http::Error>(http::Response::new(body)) }
    };
    Client::new(tower::service_fn(move |request| Box::pin(answer(request))), "default")
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_opens_and_never_lasts_is_no_watch_after_a_minute() {
    for is_cut in [false, true] {
        let hostile = informers(opening(is_cut), Arc::default());
        let (target, needs) = (TargetKey::new("team", "shop", "berlin"), needs(&["team"]));
        settled(&hostile, &target, &needs).await;
        tokio::time::sleep(Duration::from_secs(180)).await;
        for _ in 0..20 {
            let states = hostile.require(&target, &needs);
            assert!(states.values().all(|state| matches!(state, State::Failing(_))), "{is_cut}: {states:?}");
            tokio::time::sleep(Duration::from_secs(7)).await;
        }
        hostile.stop.cancel();
    }
}

/// A member whose every watch shows one change and then says that its position is too old, or something that nobody can
/// read; it counts the lists.
fn expiring(last: &'static str, lists: Arc<AtomicUsize>) -> Client {
    let answer = move |request: http::Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let text = match is_watch {
            false => {
                lists.fetch_add(1, Ordering::Relaxed);
                EMPTY.to_owned()
            }
            true => {
                format!("{{\"type\":\"ADDED\",\"object\":{}}}\n{last}\n", item("settings", &json!("one")))
            }
        };
        async move { Ok::<_, http::Error>(http::Response::new(Body::from(text.into_bytes()))) }
    };
    Client::new(tower::service_fn(move |request| Box::pin(answer(request))), "default")
}

#[tokio::test(start_paused = true)]
async fn lists_for_which_watches_ask_come_later_and_later_whatever_is_told_between() {
    let gone = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","metadata":{},"code":410,"reason":"Expired","message":"too old"}}"#;
    for last in [gone, "{"] {
        let lists = Arc::new(AtomicUsize::new(0));
        let hostile = informers(expiring(last, lists.clone()), Arc::default());
        let target = TargetKey::new("team", "shop", "berlin");
        settled(&hostile, &target, &needs(&["team"])).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        let listed = lists.load(Ordering::Relaxed);
        assert!((4..=20).contains(&listed), "{listed} lists in ten minutes after {last}");
        hostile.stop.cancel();
    }
}

/// A member that answers nothing; it counts what it is asked.
fn hung(asked: Arc<AtomicUsize>) -> Client {
    let answer = move |_: http::Request<Body>| {
        asked.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<Result<http::Response<Body>, http::Error>>()
    };
    Client::new(tower::service_fn(move |request| Box::pin(answer(request))), "default")
}

#[tokio::test(start_paused = true)]
async fn a_list_that_failed_late_is_not_waited_for_by_the_next_one_and_is_asked_for_again_after_an_outage() {
    let asked = Arc::new(AtomicUsize::new(0));
    let hostile = informers(hung(asked.clone()), Arc::default());
    let list = async || hostile.list_now(&place(""), &needs(&["team"])[&gvk()]).await;
    let began = Instant::now();
    assert_eq!(list().await.len(), 1);
    assert_eq!((began.elapsed().as_secs(), asked.load(Ordering::Relaxed)), (60, 1), "a page");
    for _ in 0..20 {
        assert_eq!(list().await.len(), 1);
    }
    assert_eq!((began.elapsed().as_secs(), asked.load(Ordering::Relaxed)), (60, 1), "told at once");
    hostile.restart();
    assert_eq!(list().await.len(), 1);
    assert_eq!(asked.load(Ordering::Relaxed), 2, "contact was lost and found");
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_behind_a_list_that_fails_late_does_not_begin_it_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let hostile = informers(hung(asked.clone()), Arc::default());
    let list = async |after: u64| {
        tokio::time::sleep(Duration::from_secs(after)).await;
        hostile.list_now(&place(""), &needs(&["team"])[&gvk()]).await.len()
    };
    let began = Instant::now();
    assert_eq!(tokio::join!(list(0), list(1), list(2)), (1, 1, 1));
    assert_eq!((began.elapsed().as_secs(), asked.load(Ordering::Relaxed)), (60, 1), "a page");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_a_reconcile_waits_for_ends_with_its_session_and_after_the_time_of_a_sync() {
    // Each page is late by a little less than is waited for, and leads on.
    let slow = move |_: http::Request<Body>| async move {
        tokio::time::sleep(Duration::from_secs(59)).await;
        let next = format!("{:?}", Instant::now());
        let page = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "9", "continue": next},
            "items": [serde_json::from_str::<Value>(&item("settings", &json!("one"))).unwrap()]});
        Ok::<_, http::Error>(http::Response::new(Body::from(page.to_string().into_bytes())))
    };
    let client = Client::new(tower::service_fn(move |request| Box::pin(slow(request))), "default");
    let hostile = informers(client, Arc::default());
    let began = Instant::now();
    let needs = needs(&["team"]);
    let place = place("");
    let listing = hostile.list_now(&place, &needs[&gvk()]);
    let failed = tokio::time::timeout(Duration::from_secs(600), listing).await.expect("it ends");
    assert!(failed.values().all(|error| error.message.contains("cacheSyncTimeout")), "{failed:?}");
    assert_eq!(began.elapsed().as_secs(), 120);

    hostile.restart();
    let stop = hostile.stop.clone();
    let listing = hostile.list_now(&place, &needs[&gvk()]);
    let (failed, ()) = tokio::join!(listing, async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    });
    assert!(failed.values().all(|error| error.class == crate::base::error::Class::Withdrawn), "{failed:?}");
    assert_eq!(began.elapsed().as_secs(), 121);
}

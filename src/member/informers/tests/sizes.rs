//! Objects that are large, and too large.

use super::*;

/// An object with a value of so many MiB.
fn large(name: &str, mib: usize) -> String {
    item(name, &json!("x".repeat(mib << 20)))
}

fn small(count: usize, prefix: &str) -> Vec<String> {
    (0..count).map(|nth| item(&format!("{prefix}{nth}"), &json!("one"))).collect()
}

#[tokio::test]
async fn an_object_of_ten_megabytes_is_read_with_the_small_ones_around_it() {
    let items = [small(30, "a"), vec![large("large", 10)], small(30, "b")].concat();
    let (informers, said, calls) = listed(items).await;
    assert_eq!(informers.records.len(), 61);
    assert_eq!(said, [""; 0]);
    assert_eq!(calls, 1, "one page holds it");
}

#[tokio::test]
async fn an_object_that_is_too_large_for_any_page_is_named_and_hides_no_other() {
    let items = [small(40, "a"), vec![large("huge", 17), large("vast", 20)], small(40, "b")].concat();
    let (informers, said, calls) = listed(items).await;
    assert_eq!(informers.records.len(), 80, "all but these");
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("ConfigMap team/huge") && said[0].contains("larger than 16 MiB"), "{said:?}");
    let key = |name: &str| ObjectKey::new(&gvk(), "team", name);
    let keys = [key("a0"), key("huge"), key("vast"), key("b0")];
    let unread = informers.unread(keys.iter());
    assert_eq!(unread.keys().collect::<Vec<_>>(), [&keys[1], &keys[2]]);
    assert!(calls < 40, "{calls}: not one request for each object");
}

#[tokio::test]
async fn an_object_that_is_known_and_becomes_too_large_is_not_thought_gone() {
    let now = Arc::new(Mutex::new(vec![item("settings", &json!("one")), item("other", &json!("one"))]));
    let informers = informers(changing(now.clone()), Arc::default());
    let (all, resource, key) =
        (Place::everywhere(&gvk()), resource(), ObjectKey::new(&gvk(), "team", "settings"));
    informers.list_once(&all, &resource).await.unwrap();
    assert_eq!(informers.records.len(), 2);
    now.lock()[0] = large("settings", 17);
    informers.list_once(&all, &resource).await.unwrap();
    assert_eq!(informers.records.len(), 2, "what was known stays");
    assert_eq!(informers.unread([&key].into_iter()).len(), 1);
    // It is small again, and nothing is left of that.
    now.lock()[0] = item("settings", &json!("two"));
    informers.list_once(&all, &resource).await.unwrap();
    assert!(informers.unread([&key].into_iter()).is_empty());
}

#[tokio::test]
async fn pages_grow_again_behind_large_neighbours() {
    let neighbours = (0..4).map(|nth| large(&format!("large{nth}"), 10)).collect();
    let items = [neighbours, small(2000, "a")].concat();
    let (informers, said, calls) = listed(items).await;
    assert_eq!(informers.records.len(), 2004);
    assert_eq!(said, [""; 0]);
    // 500, 100, 20 and 4 are too many; one by one four times; then 1, 5, 25, 125, and 500 four times.
    assert_eq!(calls, 4 + 4 + 4 + 4);
}

/// A member that shows what this holds now.
fn changing(now: Arc<Mutex<Vec<String>>>) -> Client {
    let answer = move |request: http::Request<Body>| {
        let items = now.lock().clone();
        async move {
            let client = member(items, Arc::default());
            client.send(request).await.map_err(|error| std::io::Error::other(error.to_string()))
        }
    };
    Client::new(tower::service_fn(move |request| Box::pin(answer(request))), "default")
}

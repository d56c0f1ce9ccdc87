//! Who looks again at which change, and when nothing can have changed.

use serde_json::json;

use super::*;
use crate::{
    base::env::SeededRng,
    workqueue::{Limits, QueueMetrics, Verdict},
};

fn index() -> (Arc<Queue>, SourceIndex) {
    let (queue, _timer) = Queue::new(Limits::default(), Arc::new(SeededRng::new(1)), QueueMetrics::default());
    (queue.clone(), SourceIndex::new(queue))
}

fn user(name: &str) -> ResourceKey {
    ResourceKey::new("team", name)
}

/// A VidraResource that reads these ConfigMaps.
fn reads(names: &[&str]) -> VidraResource {
    let from: Vec<_> = names.iter().map(|name| json!({"configMapRef": {"name": name}})).collect();
    let spec = serde_json::from_value(json!({"targets": [], "manifestsFrom": from})).unwrap();
    VidraResource::new("any", spec)
}

fn scope() -> Scope {
    Scope { kind: SourceKind::ConfigMap, namespace: "team".into() }
}

fn source(name: &str) -> SourceKey {
    SourceKey { scope: scope(), name: name.into() }
}

fn version(number: u32) -> Version {
    Version { uid: "u".into(), resource_version: number.to_string() }
}

fn reading(versions: &[u32]) -> Reading {
    let versions = versions.iter().map(|number| version(*number)).collect();
    Reading { uid: Some("u".into()), generation: 1, versions, revision: "00ff".into() }
}

/// A VidraResource in this generation; what it reads is asked of nobody here.
fn at(generation: i64) -> VidraResource {
    let mut resource = reads(&[]);
    (resource.metadata.uid, resource.metadata.generation) = (Some("u".into()), Some(generation));
    resource
}

async fn woken(queue: &Queue) -> Vec<String> {
    let mut keys = Vec::new();
    while queue.depth() > 0 {
        let key = queue.next().await.key;
        queue.done(&key, Verdict::Done(None));
        keys.push(key.to_string());
    }
    keys
}

#[tokio::test(start_paused = true)]
async fn a_change_wakes_those_who_read_another_version_and_nobody_else() {
    let (queue, index) = index();
    index.declare(&user("one"), &reads(&["a", "b"]));
    index.declare(&user("two"), &reads(&["b"]));
    index.remember(&user("one"), reading(&[1, 5]));
    index.remember(&user("two"), reading(&[6]));
    index.noticed(&source("b"), Some(version(6)));
    let keys = woken(&queue).await;
    assert_eq!(keys.len(), 1, "{keys:?}");
    assert!(keys[0].contains("one"), "{keys:?}");
    index.noticed(&source("b"), Some(version(6)));
    index.noticed(&source("c"), Some(version(7)));
    assert_eq!(woken(&queue).await.len(), 0, "told twice, and a source of nobody");
    index.noticed(&source("b"), None);
    assert_eq!(woken(&queue).await.len(), 2, "its deletion concerns both");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_unchanged_before_a_list_has_shown_every_source_as_it_was_read() {
    let (queue, index) = index();
    let one = user("one");
    index.declare(&one, &reads(&["a", "b"]));
    index.remember(&one, reading(&[1, 2]));
    assert_eq!((index.follows(&one), index.unchanged(&one, &at(1))), (false, None));
    index.listing(&scope());
    index.noticed(&source("a"), Some(version(1)));
    index.noticed(&source("b"), Some(version(2)));
    assert_eq!(index.unchanged(&one, &at(1)), None);
    index.end_list(&scope(), &["a".to_owned(), "b".to_owned()].into());
    assert_eq!((index.follows(&one), index.unchanged(&one, &at(1))), (true, Some("00ff".into())));
    assert_eq!(index.unchanged(&one, &at(2)), None, "another generation");
    let another = VidraResource { metadata: kube::api::ObjectMeta { uid: None, ..at(1).metadata }, ..at(1) };
    assert_eq!(index.unchanged(&one, &another), None, "another one of its name");
    assert_eq!(woken(&queue).await.len(), 0);

    // A list that does not show a source says that it is gone.
    index.listing(&scope());
    index.end_list(&scope(), &["a".to_owned()].into());
    assert_eq!(index.unchanged(&one, &at(1)), None);
    assert_eq!(woken(&queue).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_comes_into_use_later_is_known_by_its_reading() {
    let (queue, index) = index();
    index.declare(&user("one"), &reads(&["a"]));
    index.end_list(&scope(), &["a".to_owned()].into());
    let two = user("two");
    index.declare(&two, &reads(&["late"]));
    index.remember(&two, reading(&[9]));
    assert_eq!(index.unchanged(&two, &at(1)), Some("00ff".into()));
    index.noticed(&source("late"), Some(version(10)));
    assert_eq!(woken(&queue).await.len(), 1);
    assert_eq!(index.unchanged(&two, &at(1)), None);
    assert_eq!(index.last(&two, &at(1)), None, "somebody has changed it");
    index.remember(&two, reading(&[10]));
    index.listing(&scope());
    assert_eq!(index.last(&two, &at(1)), Some("00ff".into()), "as far as anybody knows");
    index.forget_reading(&two);
    assert_eq!(index.last(&two, &at(1)), None, "it is read again");
}

#[test]
fn a_namespace_is_watched_as_long_as_anybody_reads_in_it() {
    let (_queue, index) = index();
    let mut wanted = index.wanted();
    index.declare(&user("one"), &reads(&["a"]));
    index.declare(&user("two"), &reads(&["b"]));
    assert_eq!(*wanted.borrow_and_update(), [scope()].into());
    index.forget(&user("one"));
    assert!(!wanted.has_changed().unwrap());
    index.declare(&user("two"), &reads(&[]));
    assert_eq!(*wanted.borrow_and_update(), BTreeSet::new());
}

#[test]
fn what_is_read_for_a_resource_that_has_gone_meanwhile_is_not_remembered() {
    let (_, index) = index();
    for nth in 0..10_000 {
        let user = user(&format!("shop-{nth}"));
        index.declare(&user, &reads(&["a"]));
        index.remember(&user, reading(&[1]));
        index.forget(&user);
        index.remember(&user, reading(&[1]));
    }
    let inner = index.inner.read();
    let sizes = [inner.of.len(), inner.users.len(), inner.seen.len(), inner.readings.len()];
    assert_eq!(sizes, [0; 4], "of, users, seen, readings");
}

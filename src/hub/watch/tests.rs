//! Objects of the hub that this version cannot read.

use serde_json::{Value, json};

use super::*;
use crate::{
    base::env::SeededRng,
    config::Settings,
    hub::catalog::Lack,
    metrics::Metrics,
    workqueue::{Limits, Queue, TargetKey},
};

fn catalog() -> Catalog {
    let (queue, _timer) =
        Queue::new(Limits::default(), Arc::new(SeededRng::new(1)), Metrics::default().queue());
    Catalog::new(queue)
}

fn chunk(index: i32, version: &str) -> Value {
    json!({
        "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraInventory",
        "metadata": {
            "name": format!("shop.berlin.{index}"), "namespace": "team", "uid": format!("u{index}"),
            "resourceVersion": version,
        },
        "spec": {"resource": "shop", "cluster": "berlin", "chunk": index, "entries": []},
    })
}

fn text(text: &str) -> Object<'_> {
    Object { text, is_cut: false }
}

#[test]
fn one_that_cannot_be_read_is_kept_as_it_was_known_and_named() {
    let (catalog, kind) = (catalog(), Listed::Inventories);
    let key = TargetKey::new("team", "shop", "berlin");
    let known = chunk(0, "5").to_string();
    let name = ("team".to_owned(), "shop.berlin.0".to_owned());
    assert_eq!(fold_present::<VidraInventory>(&catalog, kind, text(&known), |_| false), Some(name.clone()));
    assert_eq!((catalog.inventory(&key).len(), catalog.unread_inventory(&key)), (1, None));

    let mut newer = chunk(0, "6");
    newer["spec"]["entries"] = json!({"form": 2});
    let newer = newer.to_string();
    let mut seen = BTreeSet::new();
    for object in [text(&newer), Object { text: &known, is_cut: true }] {
        seen.extend(fold_present::<VidraInventory>(&catalog, kind, object, |_| false));
        catalog.end_list(kind, None, &seen, 9);
        assert_eq!(catalog.inventory(&key).len(), 1, "what was known holds");
        assert_eq!(catalog.unread_inventory(&key).as_deref(), Some("shop.berlin.0"));
    }
    for other in [TargetKey::new("team", "shop", "tokyo"), TargetKey::new("other", "shop", "berlin")] {
        assert_eq!(catalog.unread_inventory(&other), None);
    }

    fold_gone::<VidraInventory>(&catalog, kind, text(&newer));
    assert_eq!((catalog.inventory(&key).len(), catalog.unread_inventory(&key)), (0, None));
}

#[test]
fn one_that_is_not_listed_any_more_is_not_named_any_more() {
    let (catalog, kind) = (catalog(), Listed::Inventories);
    let key = TargetKey::new("team", "shop", "berlin");
    fold_present::<VidraInventory>(
        &catalog,
        kind,
        Object { text: &chunk(3, "6").to_string(), is_cut: true },
        |_| false,
    );
    assert_eq!(catalog.unread_inventory(&key).as_deref(), Some("shop.berlin.3"));
    catalog.end_list(kind, None, &BTreeSet::new(), 9);
    assert_eq!(catalog.unread_inventory(&key), None);
}

#[test]
fn what_was_known_of_one_that_cannot_be_read_any_more_is_neither_shown_nor_missing() {
    let (catalog, kind) = (catalog(), Listed::Resources);
    let key = ResourceKey::new("team", "shop");
    let declared = |policy: &str, version: &str| {
        let object = json!({
            "apiVersion": "vidra.dev/v1alpha1", "kind": "VidraResource",
            "metadata": {"name": "shop", "namespace": "team", "uid": "u", "resourceVersion": version},
            "spec": {"targets": [], "deletionPolicy": policy},
        });
        object.to_string()
    };
    let shown = |policy: &str, version: &str| {
        fold_present::<VidraResource>(&catalog, kind, text(&declared(policy, version)), |_| false);
        catalog.find_resource(&key).map(|held| held.resource_version())
    };
    assert_eq!(shown("Delete", "5"), Ok(Some("5".to_owned())));
    assert_eq!(shown("Later", "6"), Err(Lack::Unread));
    assert_eq!((catalog.resource(&key), catalog.resources_in("team").len()), (None, 1), "it is there");
    assert_eq!(shown("Orphan", "7"), Ok(Some("7".to_owned())));
    assert_eq!(shown("Later", "8"), Err(Lack::Unread));
    fold_gone::<VidraResource>(&catalog, kind, text(&declared("Later", "9")));
    assert_eq!(catalog.find_resource(&key), Err(Lack::Missing));
}

fn startup() -> Startup {
    let settings = Settings {
        namespace: "vidra-system".into(),
        hub_id: None,
        inherit: Default::default(),
        interval: Duration::from_secs(600),
        on_events: true,
        allow: Default::default(),
        memory_limit: None,
    };
    let stop = Arc::new(Stop::new(Default::default(), Default::default()));
    Startup {
        tuning: Arc::new(Tuning::new(&settings)),
        stop,
        hub: HubId::try_from("this").unwrap(),
        page: 500,
    }
}

/// What a watch did not tell, for it could not be opened for a while, an answer of the hub's own calls has told.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_older_than_what_was_answered_before_it_ends_the_process() {
    for (listed, restored) in [("300", false), ("299", true)] {
        let catalog = catalog();
        let mut answered = chunk(0, "300");
        answered["metadata"]["name"] = json!("shop.berlin.0");
        catalog.fold_inventory(serde_json::from_value(answered.clone()).unwrap(), Via::Answer);
        let list = json!({"kind": "VidraInventoryList", "apiVersion": "vidra.dev/v1alpha1", "items": [answered],
            "metadata": {"resourceVersion": listed}});
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let body = kube::client::Body::from(list.to_string().into_bytes());
            async move {
                if is_watch {
                    std::future::pending::<()>().await;
                }
                Ok::<_, tower::BoxError>(http::Response::new(body))
            }
        });
        let (startup, rng) = (startup(), SeededRng::new(1));
        let sink = Sink { catalog: &catalog, rng: &rng, startup: &startup, done: watch::Sender::default() };
        let client = Client::new(service, "default");
        let follows = follow::<VidraInventory>(&client, 500, Scope::all(Listed::Inventories), &sink);
        let _ = tokio::time::timeout(Duration::from_secs(5), follows).await;
        let why = startup.stop.why();
        assert_eq!(matches!(why, Some(Halt::Restored { .. })), restored, "{why:?}");
        assert_eq!(sink.done.borrow().contains(&Listed::Inventories), !restored);
    }
}

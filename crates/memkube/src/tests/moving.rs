//! Addresses that lead to another cluster than before.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::api::WatchParams;
use serde_json::json;

use super::*;
use crate::{Address, Fault};

fn at(address: &Address) -> Api<ConfigMap> {
    Api::namespaced(address.client_as("tester"), "default")
}

#[tokio::test(start_paused = true)]
async fn an_address_that_leads_elsewhere_breaks_what_came_its_way_and_nothing_else() {
    let (old, new) = (cluster(), Cluster::new("two", Options { clock: clock(), uids: 8 }));
    create(&old, &config_map("a", json!({"whose": "old"}))).await;
    create(&new, &config_map("a", json!({"whose": "new"}))).await;
    let (address, other) = (Address::new(old.clone()), Address::new(old.clone()));
    let params = WatchParams::default().timeout(60);
    let mut through = at(&address).watch(&params, "0").await.expect("a watch").boxed();
    let mut beside = at(&other).watch(&params, "0").await.expect("a watch").boxed();
    assert!(through.try_next().await.expect("an event").is_some());
    assert!(beside.try_next().await.expect("an event").is_some());

    old.set_fault(std::sync::Arc::new(|_| Fault::Late(Duration::from_secs(5))));
    let (api, name) = (at(&address), "b".to_owned());
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(async move { api.create(&PostParams::default(), &config_map(&name, json!({}))).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    address.redirect(new.clone());
    assert!(through.try_next().await.is_err(), "the watch breaks");
    let made = calls.join_next().await.expect("a task").expect("joined");
    assert!(matches!(made, Err(kube::Error::Service(_))), "{made:?}");
    assert!(old.object("", "configmaps", "default", "b").is_some(), "it was done");
    assert_eq!(at(&address).get("a").await.expect("read").data.expect("data")["whose"], "new");
    old.clear_fault();
    assert!(beside.try_next().await.expect("an event").is_some(), "b, by the other way");

    other.redirect(new);
    assert_eq!(
        at(&other).get("a").await.expect("read").data.expect("data")["whose"],
        "new",
        "both lead to one"
    );
    let uid = |cluster: &Cluster| {
        cluster.object("", "namespaces", "", "kube-system").map(|one| one["metadata"]["uid"].clone())
    };
    assert_ne!(uid(&old), uid(&address.cluster()));
}

fn clock() -> crate::Clock {
    tokio_clock("2026-01-01T00:00:00Z".parse().expect("a time"))
}

//! What the catalog keeps when what it was about is gone: nothing.

use futures::FutureExt;
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use serde_json::{Value, json};
use vidra_api::{MemberClusterSpec, VidraInventory, VidraInventorySpec, VidraTargetSpec};

use super::*;
use crate::{
    base::env::SeededRng,
    workqueue::{Key, Limits, QueueMetrics, Verdict},
};

fn catalog() -> Catalog {
    let (queue, _timer) = Queue::new(Limits::default(), Arc::new(SeededRng::new(1)), QueueMetrics::default());
    Catalog::new(queue)
}

fn placed<K: Resource>(mut object: K, namespace: Option<&str>, version: u64) -> K {
    object.meta_mut().namespace = namespace.map(str::to_owned);
    object.meta_mut().resource_version = Some(version.to_string());
    object
}

fn target(key: &TargetKey, version: u64) -> VidraTarget {
    let (resource, cluster) = (key.resource.to_string(), key.cluster.to_string());
    let spec = VidraTargetSpec { resource, cluster, ..VidraTargetSpec::default() };
    placed(VidraTarget::new(&key.target_name(), spec), Some(&key.namespace), version)
}

fn read<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

#[test]
fn nothing_is_kept_of_what_was_folded_and_dropped() {
    let catalog = catalog();
    let nothing = catalog.entries().map(|(name, _)| (name, 0));
    for number in 0..10_000 {
        let version = 10 * number + 1;
        let (cluster, name) = (format!("member-{number}"), format!("shop-{number}"));
        let key = TargetKey::new("team", &name, &cluster);

        catalog.fold_target(target(&key, version), Via::Answer);
        let spec = VidraInventorySpec {
            resource: name.clone(),
            cluster: cluster.clone(),
            ..VidraInventorySpec::default()
        };
        let chunk = format!("{}.0", key.target_name());
        let inventory = placed(VidraInventory::new(&chunk, spec), Some("team"), version);
        catalog.fold_inventory(inventory, Via::Watch);
        let member = MemberCluster::new(&cluster, MemberClusterSpec::default());
        catalog.fold_member(placed(member, None, version), Via::Watch);
        let secret: Secret = read(json!({"metadata": {"name": cluster, "namespace": "vidra-system",
            "resourceVersion": version.to_string(), "labels": {"vidra.dev/member-cluster": cluster}}}));
        catalog.fold_registration(secret.into(), Via::Watch);
        let unreadable = ("team".to_owned(), name.clone());
        catalog.set_unreadable(Listed::Resources, &unreadable);
        catalog.set_readable(Listed::Resources, &unreadable);
        let kept = catalog.entries().into_iter().filter(|(_, size)| *size == 1);
        assert_eq!(kept.count(), 7, "{:?}", catalog.entries());

        let gone = version + 1;
        catalog.note_removal(Listed::Targets, "team", &key.target_name(), version);
        catalog.drop_target(&key, gone);
        catalog.drop_inventory(&key, &chunk, gone);
        catalog.drop_member(&cluster, gone);
        catalog.drop_registration("vidra-system", &cluster, gone);
        catalog.advance_floor(Listed::Targets, None, gone);
        assert_eq!(catalog.entries(), nothing, "{number}");
    }
}

#[test]
fn a_part_that_cannot_be_read_is_found_beside_those_of_resources_with_longer_names() {
    let catalog = catalog();
    for name in ["shop.berlin.0.0", "shop.berlin.1", "shop.berliner.0"] {
        catalog.set_unreadable(Listed::Inventories, &("team".to_owned(), name.to_owned()));
    }
    let unread =
        |resource: &str, cluster: &str| catalog.unread_inventory(&TargetKey::new("team", resource, cluster));
    assert_eq!(unread("shop", "berlin").as_deref(), Some("shop.berlin.1"));
    assert_eq!(unread("shop.berlin", "0").as_deref(), Some("shop.berlin.0.0"));
    assert_eq!(unread("shop", "tokyo"), None);
}

#[test]
fn where_a_members_objects_are_is_what_its_inventories_say_that_hold_any() {
    let catalog = catalog();
    let fold = |resource: &str, cluster: &str, uid: Option<&str>, entries: &[&str]| {
        let name = format!("{resource}.{cluster}.0");
        let spec = json!({"resource": resource, "cluster": cluster, "clusterUid": uid, "chunk": 0, "entries": entries});
        let inventory = read(json!({"metadata": {"name": name}, "spec": spec}));
        catalog.fold_inventory(placed(inventory, Some("team"), 7), Via::Watch);
    };
    let one = ["/v1/ConfigMap/shop/one/done/u"];
    fold("shop", "berlin", Some("a"), &one);
    fold("other", "berlin", Some("a"), &one);
    fold("older", "berlin", None, &one);
    fold("emptied", "berlin", Some("b"), &[]);
    fold("shop", "tokyo", Some("c"), &one);
    assert_eq!(catalog.delivered_to("berlin"), BTreeSet::from(["a".into()]));
    for resource in ["shop", "other", "older", "emptied"] {
        let key = TargetKey::new("team", resource, "berlin");
        catalog.drop_inventory(&key, &format!("{resource}.berlin.0"), 8);
    }
    assert_eq!(catalog.delivered_to("berlin"), BTreeSet::new());
    assert_eq!(catalog.delivered_to("tokyo"), BTreeSet::from(["c".into()]));
}

#[test]
fn values_alone_and_what_nobody_acts_on_wake_no_vidra_resource_and_another_state_does() {
    let (queue, _timer) = Queue::new(Limits::default(), Arc::new(SeededRng::new(1)), QueueMetrics::default());
    let (catalog, key) = (Catalog::new(queue.clone()), TargetKey::new("team", "shop", "berlin"));
    let mut version = 0;
    let mut woken = |status: Value| {
        version += 1;
        let told = VidraTarget { status: read(status), ..target(&key, version) };
        catalog.fold_target(told, Via::Watch);
        let turns = std::iter::from_fn(|| queue.next().now_or_never());
        let keys: Vec<_> = turns.map(|turn| turn.key).collect();
        keys.iter().for_each(|key| queue.done(key, Verdict::Done(None)));
        keys.contains(&Key::Resource(key.resource_key()))
    };
    let ready = json!({"state": "Ready"});
    assert!(woken(ready.clone()), "it is new");
    let one = json!({"apiVersion": "v1", "kind": "Service", "name": "web"});
    for (field, value) in [
        ("feedback", json!({"objects": [], "leftOut": 2})),
        ("feedbackAt", json!("2026-01-01T00:00:00Z")),
        ("unproven", json!({"objects": 1, "first": [one]})),
    ] {
        let mut status = ready.clone();
        status[field] = value;
        assert!(!woken(status.clone()), "{field}");
        status["state"] = "Failed".into();
        assert!(woken(status), "{field} beside another state");
        assert!(woken(ready.clone()));
    }
}

#[test]
fn a_write_that_was_not_answered_and_is_seen_wakes_its_writers_once() {
    let (queue, _timer) = Queue::new(Limits::default(), Arc::new(SeededRng::new(1)), QueueMetrics::default());
    let (catalog, of_target) = (Catalog::new(queue.clone()), TargetKey::new("team", "shop", "berlin"));
    let of_resource = of_target.resource_key();
    let fold = |version: u64, via: Via| {
        let (status, count) = (json!({"state": "Ready", "objects": 1}), json!({"objects": version}));
        let told = VidraTarget { status: read(status), ..target(&of_target, version) };
        catalog.fold_target(told, via);
        let resource =
            VidraResource { status: read(json!({})), ..VidraResource::new("shop", Default::default()) };
        catalog.fold_resource(placed(resource, Some("team"), version), via);
        let member = MemberCluster::new("berlin", MemberClusterSpec::default());
        catalog.fold_member(placed(MemberCluster { status: read(count), ..member }, None, version), via);
        let turns = std::iter::from_fn(|| queue.next().now_or_never());
        let keys: BTreeSet<_> = turns.map(|turn| turn.key).collect();
        keys.iter().for_each(|key| queue.done(key, Verdict::Done(None)));
        keys
    };
    let all = BTreeSet::from([
        Key::Target(of_target.clone()),
        Key::Resource(of_resource),
        Key::Cluster("berlin".into()),
    ]);
    let doubt = || all.iter().for_each(|key| catalog.note_unanswered(key.clone()));
    doubt();
    fold(1, Via::Watch);
    assert_eq!(fold(2, Via::Watch), BTreeSet::new(), "nothing that they go by has changed");
    doubt();
    assert_eq!(fold(3, Via::Watch), all);
    assert_eq!(fold(4, Via::Watch), BTreeSet::new(), "once");
    doubt();
    assert_eq!(fold(5, Via::Answer), BTreeSet::new(), "it is answered");
    assert_eq!(fold(6, Via::Watch), BTreeSet::new());
}

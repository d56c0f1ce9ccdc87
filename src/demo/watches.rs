//! Watches the hub's objects and the members' as anybody could, and tells what changes.

use std::{collections::BTreeMap, sync::Arc};

use futures::StreamExt;
use kube::{
    ResourceExt,
    api::DynamicObject,
    core::GroupVersionKind,
    runtime::watcher::{self, Event},
};
use memkube::Cluster;
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    fleet::{Fleet, api},
    teller::Teller,
};

/// The kinds of the shop.
const KINDS: [(&str, &str, &str); 5] = [
    ("", "v1", "ServiceAccount"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "Secret"),
    ("", "v1", "Service"),
    ("apps", "v1", "Deployment"),
];

/// What was told of each object last: by cluster, kind and name, its resourceVersion.
#[derive(Default)]
pub struct Told(Mutex<BTreeMap<(String, String, String), String>>);

impl Told {
    /// Whether all that happened to this object of a cluster was told.
    pub fn is_up_to(&self, cluster: &Cluster, object: &Value) -> bool {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = (cluster.name().to_owned(), text(&object["kind"]), text(&object["metadata"]["name"]));
        self.0.lock().get(&key).is_some_and(|version| object["metadata"]["resourceVersion"] == **version)
    }

    fn note(&self, cluster: &Cluster, kind: &str, object: &DynamicObject) {
        let key = (cluster.name().to_owned(), kind.to_owned(), object.name_any());
        self.0.lock().insert(key, object.resource_version().unwrap_or_default());
    }
}

/// Tells of the hub's objects, and of the members' in this namespace.
pub fn follow(fleet: &Fleet, teller: &Arc<Teller>, namespace: &'static str) -> Arc<Told> {
    let told = Arc::<Told>::default();
    for kind in ["MemberCluster", "VidraTarget", "VidraResource"] {
        let gvk = GroupVersionKind::gvk(vidra_api::GROUP, vidra_api::VERSION, kind);
        fleet.beside(watch(fleet.hub.clone(), gvk, None, (teller.clone(), told.clone()), tell_hub));
    }
    for member in &fleet.members {
        for (group, version, kind) in KINDS {
            let gvk = GroupVersionKind::gvk(group, version, kind);
            let tellers = (teller.clone(), told.clone());
            fleet.beside(watch(member.clone(), gvk, Some(namespace), tellers, tell_member));
        }
    }
    told
}

/// What is told of a change, given the object before it and after it.
type Tell = fn(kind: &str, before: Option<&DynamicObject>, after: Option<&DynamicObject>) -> Option<String>;

async fn watch(
    cluster: Cluster,
    gvk: GroupVersionKind,
    namespace: Option<&'static str>,
    (teller, told): (Arc<Teller>, Arc<Told>),
    tell: Tell,
) {
    let objects = api(&cluster.client_as("alice"), &gvk, namespace);
    let mut events = watcher::watcher(objects, watcher::Config::default()).boxed();
    let mut known: BTreeMap<String, DynamicObject> = BTreeMap::new();
    while let Some(event) = events.next().await {
        let (before, after) = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                (known.insert(object.name_any(), object.clone()), Some(object))
            }
            Ok(Event::Delete(object)) => (known.remove(&object.name_any()).or(Some(object)), None),
            Ok(Event::Init | Event::InitDone) | Err(_) => continue,
        };
        if let Some(said) = tell(&gvk.kind, before.as_ref(), after.as_ref()) {
            teller.tell(cluster.name(), &said);
        }
        if let Some(object) = &after {
            told.note(&cluster, &gvk.kind, object);
        }
    }
}

fn tell_member(kind: &str, before: Option<&DynamicObject>, after: Option<&DynamicObject>) -> Option<String> {
    let Some(after) = after else {
        return Some(format!("- {kind} {} is deleted", before?.name_any()));
    };
    let who = after.managed_fields().iter().max_by_key(|entry| entry.time.clone());
    let who = who.and_then(|entry| entry.manager.clone()).unwrap_or_default();
    let Some(before) = before.filter(|before| before.uid() == after.uid()) else {
        return is_ours(after).then(|| format!("+ {kind} {} is made", after.name_any()));
    };
    if kind == "Deployment" && before.data["spec"] == after.data["spec"] {
        let ready = |object: &DynamicObject| object.data["status"]["readyReplicas"].as_u64().unwrap_or(0);
        let moved = ready(before) != ready(after);
        let wanted = &after.data["spec"]["replicas"];
        return moved.then(|| format!("  {kind} {}: {}/{wanted} ready", after.name_any(), ready(after)));
    }
    Some(format!("~ {kind} {} is changed by {who}", after.name_any()))
}

fn is_ours(object: &DynamicObject) -> bool {
    object.labels().contains_key(vidra_api::labels::HUB_LABEL)
}

fn tell_hub(kind: &str, before: Option<&DynamicObject>, after: Option<&DynamicObject>) -> Option<String> {
    let Some(after) = after else {
        return Some(format!("- {kind} {} is gone", before?.name_any()));
    };
    let now = summary(kind, &after.data["status"])?;
    let same = before.and_then(|before| summary(kind, &before.data["status"])).is_some_and(|was| was == now);
    (!same).then(|| format!("{kind} {}: {now}", after.name_any()))
}

/// A status in a few words.
fn summary(kind: &str, status: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if kind == "VidraTarget" {
        let state = status["state"].as_str()?;
        let repairs = status["corrections"]["count"].as_u64().unwrap_or(0);
        let repaired = if repairs == 0 { String::new() } else { format!(", corrected {repairs} times") };
        return Some(format!("{state}, {}{repaired}", text(&status["drift"])));
    }
    let conditions = status["conditions"].as_array()?;
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
    if kind == "VidraResource" {
        return Some(format!("{} ready, {}", text(&status["targetsReady"]), text(&ready["reason"])));
    }
    Some(text(&ready["reason"]))
}

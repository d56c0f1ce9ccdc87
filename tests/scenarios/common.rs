//! Objects that scenarios deliver, and what they read of them.

use serde_json::{Value, json};
use testkit::world::{At, SOON, World, wait_for};
use vidra_api::find;

/// The manifest of a ConfigMap.
pub fn config_map(name: &str, value: &str) -> String {
    object(&config_map_in("", name, value))
}

/// A ConfigMap.
pub fn config_map_in(namespace: &str, name: &str, value: &str) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value},
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

/// Makes a MemberCluster without a registration Secret: the hub cannot tell which cluster it is.
pub async fn member_without_credentials(world: &World, name: &str) {
    let member = json!({"apiVersion": "vidra.dev/v1alpha1", "kind": "MemberCluster", "spec": {},
        "metadata": {"name": name}});
    world.hub.create(member).await;
    world.member_says(name, "CredentialsValid", "False").await;
}

/// One document of a manifest.
pub fn object(object: &Value) -> String {
    format!("---\n{object}\n")
}

/// The CRD of gadgets, which may hold anything.
pub fn gadgets(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

/// The manifest of a gadget.
pub fn gadget(group: &str, name: &str) -> String {
    object(&json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget",
        "metadata": {"name": name}, "spec": {"size": 1}}))
}

/// What a ConfigMap of [`config_map`] says.
pub fn says<'a>(value: &'a str) -> impl Fn(&Value) -> bool + 'a {
    move |object| object["data"]["key"] == value
}

pub fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().expect("a live object has a uid").to_owned()
}

/// Its marks of any hub: labels, annotations, managers.
pub fn marks(object: &Value) -> Vec<String> {
    let metadata = &object["metadata"];
    let keys = ["labels", "annotations"].into_iter().flat_map(|field| metadata[field].as_object()).flatten();
    let keys = keys.map(|(key, _)| key.clone()).filter(|key| key.contains("vidra.dev/"));
    let entries = metadata["managedFields"].as_array().into_iter().flatten();
    let managers =
        entries.filter_map(|entry| entry["manager"].as_str()).filter(|name| name.starts_with("vidra"));
    keys.chain(managers.map(str::to_owned)).collect()
}

/// Waits until the inventory has the uids of this number of objects: they stand there a moment after Ready.
pub async fn inventoried(world: &World, name: &str, cluster: &str, objects: usize) {
    wait_for("the inventory has all uids", SOON, async || {
        let entries = world.inventory(name, cluster).await;
        let known = entries.iter().filter(|entry| entry.done).count();
        if known == objects { Ok(()) } else { Err(format!("{entries:?}")) }
    })
    .await;
}

/// What Events with this reason say in the scenario's namespace of the hub.
pub async fn events(world: &World, reason: &str) -> Vec<String> {
    let all = world.hub.list(&At::new("events.k8s.io/v1", "Event", &world.ns, "")).await;
    let of_reason = all.iter().filter(|event| event["reason"] == reason);
    of_reason.map(|event| event["note"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Waits until an Event with this reason in the scenario's namespace of the hub says all of these words.
pub async fn told(world: &World, reason: &str, words: &[&str]) {
    wait_for(&format!("an Event {reason} with {words:?}"), SOON, async || {
        let all = events(world, reason).await;
        let fits = |note: &String| words.iter().all(|word| note.contains(word));
        if all.iter().any(fits) { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await;
}

/// Waits until an Event with this reason is told of an object of the hub's cluster.
pub async fn told_of(world: &World, about: &Value, reason: &str) {
    let namespace = about["metadata"]["namespace"].as_str().unwrap_or("default");
    wait_for(&format!("an Event {reason}"), SOON, async || {
        let all = world.hub.list(&At::new("events.k8s.io/v1", "Event", namespace, "")).await;
        let is = |event: &Value| event["reason"] == reason && event["regarding"]["uid"] == uid(about);
        if all.iter().any(is) { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await;
}

/// Waits until a condition of a MemberCluster has this status, which is for this reason; its message.
pub async fn member_says_why(
    world: &World,
    name: &str,
    condition: &str,
    (status, reason): (&str, &str),
) -> String {
    let message = world.member_says(name, condition, status).await;
    let conditions = world.member(name).await.and_then(|member| member.status).unwrap_or_default().conditions;
    assert_eq!(find(&conditions, condition).map(|found| &*found.reason), Some(reason), "{message}");
    message
}

/// The Secrets that keep revisions in the scenario's namespace.
pub async fn revisions(world: &World) -> Vec<Value> {
    let all = world.hub.list(&At::new("v1", "Secret", &world.ns, "")).await;
    all.into_iter().filter(|secret| secret["type"] == "vidra.dev/revision").collect()
}

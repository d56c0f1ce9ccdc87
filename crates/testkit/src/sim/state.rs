//! What the clusters hold, in a form that can be compared between runs: without uids, resourceVersions,
//! times, and what a crash may honestly lose (counts of repairs, the generation noted beside an apply).

use std::{collections::BTreeMap, fmt::Write};

use serde_json::{Value, json};
use vidra_api::labels::OWNER_PREFIX;

use super::{
    kinds::{DELIVERED, plural_of},
    observer::Clusters,
};

/// By `cluster/plural/namespace/name`.
pub type State = BTreeMap<String, Value>;

/// Kinds of the hub's cluster that are compared.
const HUB_KINDS: [(&str, &str); 5] = [
    (vidra_api::GROUP, "vidraresources"),
    (vidra_api::GROUP, "vidratargets"),
    (vidra_api::GROUP, "vidrainventories"),
    (vidra_api::GROUP, "memberclusters"),
    ("", "secrets"),
];

/// Fields that differ between runs that are alike.
const TRANSIENT: [&str; 15] = [
    "appliedGeneration",
    "memberUid",
    "recalls",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "time",
    "lastTransitionTime",
    "since",
    "corrections",
    "detectedAt",
    "notAfter",
    "lastContactTime",
    "vidra.dev/left-at",
];

/// What is stored now.
pub fn of(clusters: &Clusters) -> State {
    let mut state = State::new();
    for (group, plural) in HUB_KINDS {
        take(&mut state, clusters, group, plural);
    }
    for (name, member) in &clusters.members {
        for (group, plural, ..) in DELIVERED {
            for object in member.objects(group, plural) {
                state.insert(key(name, plural, &object), member_object(object));
            }
        }
    }
    state
}

/// The inventories alone.
pub fn inventories(clusters: &Clusters) -> State {
    let mut state = State::new();
    take(&mut state, clusters, vidra_api::GROUP, "vidrainventories");
    state
}

/// Takes in what the hub's cluster has of a kind.
fn take(state: &mut State, clusters: &Clusters, group: &str, plural: &str) {
    for object in clusters.hub.objects(group, plural) {
        let (key, object) = (key("hub", plural, &object), hub_object(clusters, plural, object));
        match key.rsplit_once('.').filter(|_| plural == "vidrainventories") {
            Some((whole, _)) => join(state.entry(whole.to_owned()).or_default(), object),
            None => drop(state.insert(key, object)),
        }
    }
}

/// Which entry is in which chunk of an inventory depends on what came before.
fn join(whole: &mut Value, mut chunk: Value) {
    for (part, field) in [("spec", "chunk"), ("spec", "chunks"), ("metadata", "name")] {
        chunk[part].as_object_mut().map(|part| part.remove(field));
    }
    let entries = chunk["spec"]["entries"].take();
    let mut all = whole["spec"]["entries"].as_array().cloned().unwrap_or_default();
    all.extend(entries.as_array().cloned().unwrap_or_default());
    all.sort_by_key(Value::to_string);
    chunk["spec"]["entries"] = Value::Array(all);
    *whole = chunk;
}

/// The differences of two states, for people; empty when there are none.
pub fn differences(wanted: &State, found: &State) -> String {
    let mut text = String::new();
    let keys: std::collections::BTreeSet<_> = wanted.keys().chain(found.keys()).collect();
    for key in keys {
        match (wanted.get(key), found.get(key)) {
            (Some(wanted), Some(found)) => compare(key, wanted, found, &mut text),
            (Some(_), None) => drop(writeln!(text, "  {key}: missing")),
            (None, Some(found)) => drop(writeln!(text, "  {key}: should not be there: {found}")),
            (None, None) => {}
        }
    }
    text
}

fn compare(path: &str, wanted: &Value, found: &Value, text: &mut String) {
    match (wanted, found) {
        _ if wanted == found => {}
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let (a, b) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
                compare(&format!("{path} .{key}"), a, b, text);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{path} [{index}]"), a, b, text);
            }
        }
        _ => drop(writeln!(text, "  {path}: wanted {wanted}, found {found}")),
    }
}

fn key(cluster: &str, plural: &str, object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    format!("{cluster}/{plural}/{}/{}", text("namespace"), text("name"))
}

fn hub_object(clusters: &Clusters, plural: &str, mut object: Value) -> Value {
    if plural == "vidrainventories" {
        uids_as_facts(clusters, &mut object);
    }
    // The generation that a status speaks of counts as seen or not seen.
    let generation = object["metadata"]["generation"].clone();
    let observed = |holder: &mut Value| {
        if let Some(observed) = holder.get_mut("observedGeneration") {
            *observed = json!(*observed == generation);
        }
    };
    if let Some(status) = object.get_mut("status") {
        observed(status);
        status["conditions"].as_array_mut().into_iter().flatten().for_each(observed);
    }
    for left in object["status"]["leftBehind"].as_array_mut().into_iter().flatten() {
        left["at"] = json!("set");
    }
    if let Some(changes) = object["status"]["changes"].as_array_mut() {
        // What was repaired is told as the counts of repairs are.
        changes.retain(|change| change["corrected"].is_null());
    }
    // Where the list is cut, what is repaired leaves less room for the rest.
    if object["status"]["changes"] == json!([]) || !object["status"]["changesTotal"].is_null() {
        object["status"].as_object_mut().map(|status| status.remove("changesTotal"));
        object["status"].as_object_mut().map(|status| status.remove("changes"));
    }
    if plural == "memberclusters" && object["status"]["uid"].is_string() {
        object["status"]["joined"] = json!(true);
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    without_transients(&mut object);
    without_times(&mut object["status"]);
    object
}

/// Messages name times, as `2026-01-02T03:04:05Z`.
fn without_times(value: &mut Value) {
    const FORM: &[u8] = b"0000-00-00T00:00:00Z";
    let is_time = |bytes: &[u8]| {
        let alike =
            |(form, byte): (&u8, &u8)| if *form == b'0' { byte.is_ascii_digit() } else { form == byte };
        FORM.iter().zip(bytes).all(alike)
    };
    match value {
        Value::Object(map) => map.values_mut().for_each(without_times),
        Value::Array(list) => list.iter_mut().for_each(without_times),
        Value::String(text) => {
            while let Some(at) = text.as_bytes().windows(FORM.len()).position(is_time) {
                text.replace_range(at..at + FORM.len(), "(a time)");
            }
        }
        _ => {}
    }
}

/// An entry's uid is that of the live object, another one, or none.
fn uids_as_facts(clusters: &Clusters, inventory: &mut Value) {
    let cluster = inventory["spec"]["cluster"].as_str().unwrap_or_default().to_owned();
    let member = clusters.members.get(&cluster);
    for entry in inventory["spec"]["entries"].as_array_mut().into_iter().flatten() {
        let parts: Vec<_> = entry.as_str().unwrap_or_default().splitn(7, '/').collect();
        let [group, version, kind, namespace, name, state, uid] = parts[..] else { continue };
        let live = member.and_then(|member| member.object(group, plural_of(kind), namespace, name));
        let fact = match (uid, live) {
            ("", _) => "none",
            (uid, Some(live)) if live["metadata"]["uid"] == uid => "the live object's",
            (_, Some(_)) => "another object's",
            (_, None) => "of an object that is gone",
        };
        // Noted from the answer of the call that took it over: a hub that dies in that moment does not know it.
        let state = state.replace(",adopted", "");
        let object = [group, version, kind, namespace, name].join("/");
        *entry = json!({"object": object, "state": state, "identity": fact});
    }
}

fn member_object(mut object: Value) -> Value {
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        for (_, stamp) in annotations.iter_mut().filter(|(key, _)| key.starts_with(OWNER_PREFIX)) {
            // Owner, generation, hash.
            let words: Vec<_> = stamp.as_str().unwrap_or_default().split(' ').collect();
            *stamp = json!([words.first(), words.get(2)]);
        }
    }
    if let Some(entries) = object["metadata"]["managedFields"].as_array_mut() {
        entries.sort_by_key(|entry| (entry["manager"].to_string(), entry["operation"].to_string()));
    }
    without_transients(&mut object);
    object
}

fn without_transients(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !TRANSIENT.contains(&key.as_str()));
            if let Some(time) = map.get_mut("deletionTimestamp") {
                *time = json!("set");
            }
            map.values_mut().for_each(without_transients);
        }
        Value::Array(list) => list.iter_mut().for_each(without_transients),
        _ => {}
    }
}

//! Discovery documents, plain and aggregated (`apidiscovery.k8s.io/v2`).

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use serde_json::{Value, json};

use super::kinds::{self, Kind};

/// The media type of an aggregated document.
pub(super) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Does the `Accept` header take an aggregated document?
pub(super) fn wants_aggregated(accept: &str) -> bool {
    let mut types = accept.split(',').map(|one| one.split(';').map(str::trim).collect::<Vec<_>>());
    types.any(|one| one.contains(&"g=apidiscovery.k8s.io") && one.contains(&"v=v2"))
}

/// `/api` or `/apis` in one document; `core` chooses. `stale` are the groups and versions of broken
/// APIServices. That of a cluster with the built-in kinds alone is written once in a process.
pub(super) fn aggregated(kinds: &[Arc<Kind>], stale: &[(String, String)], core: bool) -> Bytes {
    static BUILT_IN: LazyLock<[Bytes; 2]> = LazyLock::new(|| {
        let kinds = kinds::built_in();
        [false, true].map(|core| document(kinds, &[], core).to_string().into())
    });
    let built_in = kinds::built_in();
    let same = kinds.len() == built_in.len() && kinds.iter().zip(built_in).all(|(a, b)| Arc::ptr_eq(a, b));
    if same && stale.is_empty() {
        return BUILT_IN[usize::from(core)].clone();
    }
    document(kinds, stale, core).to_string().into()
}

fn document(kinds: &[Arc<Kind>], stale: &[(String, String)], core: bool) -> Value {
    let mut items: Vec<_> = groups(kinds)
        .into_iter()
        .filter(|group| group.is_empty() == core)
        .map(|group| {
            let versions: Vec<_> = versions(kinds, group)
                .into_iter()
                .map(|version| {
                    let resources: Vec<_> =
                        served(kinds, group, version).map(|kind| kind.entry.clone()).collect();
                    json!({"version": version, "freshness": "Current", "resources": resources})
                })
                .collect();
            json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    for (group, version) in stale.iter().filter(|_| !core) {
        let name = version.as_str();
        let version = json!({"version": name, "freshness": "Stale", "resources": []});
        match items.iter_mut().find(|item| item["metadata"]["name"] == group.as_str()) {
            Some(item) => {
                let Some(versions) = item["versions"].as_array_mut() else { continue };
                // What was known of one that no longer answers is still shown.
                match versions.iter_mut().find(|known| known["version"] == name) {
                    Some(known) => known["freshness"] = json!("Stale"),
                    None => versions.push(version),
                }
            }
            None => items
                .push(json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": [version]})),
        }
    }
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

/// Plain `/api`.
pub(super) fn core_versions(kinds: &[Arc<Kind>]) -> Value {
    json!({"kind": "APIVersions", "versions": versions(kinds, ""), "serverAddressByClientCIDRs": []})
}

/// Plain `/apis`; the groups of broken APIServices are listed too.
pub(super) fn group_list(kinds: &[Arc<Kind>], stale: &[(String, String)]) -> Value {
    let broken = stale.iter().map(|(group, _)| group.as_str());
    let named = distinct(groups(kinds).into_iter().chain(broken));
    let named = named.into_iter().filter(|group| !group.is_empty());
    let groups: Vec<_> = named.filter_map(|name| group(kinds, stale, name)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Plain `/apis/GROUP`.
pub(super) fn group(kinds: &[Arc<Kind>], stale: &[(String, String)], group: &str) -> Option<Value> {
    let of = |version: &str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let broken = stale.iter().filter(|(of, _)| of == group).map(|(_, version)| version.as_str());
    let versions = distinct(versions(kinds, group).into_iter().chain(broken));
    let versions: Vec<_> = versions.into_iter().map(of).collect();
    let preferred = versions.first()?;
    Some(json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": group,
        "versions": versions,
        "preferredVersion": preferred,
    }))
}

/// Plain `/api/v1` and `/apis/GROUP/VERSION`.
pub(super) fn resources(kinds: &[Arc<Kind>], group: &str, version: &str) -> Option<Value> {
    let mut api_version = None;
    let mut list = Vec::new();
    for kind in served(kinds, group, version) {
        api_version = Some(kind.api_version());
        let mut resource = entry(kind, &kind.plural, &kind.entry);
        resource["singularName"] = kind.entry["singularResource"].clone();
        for field in ["shortNames", "categories"] {
            if !kind.entry[field].is_null() {
                resource[field] = kind.entry[field].clone();
            }
        }
        list.push(resource);
        for subresource in kind.entry["subresources"].as_array().into_iter().flatten() {
            let name = subresource["subresource"].as_str().unwrap_or_default();
            list.push(entry(kind, &format!("{}/{name}", kind.plural), subresource));
        }
    }
    let api_version = api_version?;
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version,
        "resources": list,
    }))
}

/// A line of a plain document, from that of the aggregated one.
fn entry(kind: &Kind, name: &str, aggregated: &Value) -> Value {
    let response = &aggregated["responseKind"];
    let mut line = json!({
        "name": name,
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": response["kind"],
        "verbs": aggregated["verbs"],
    });
    if response["group"] != kind.group.as_str() || response["version"] != kind.version.as_str() {
        line["group"] = response["group"].clone();
        line["version"] = response["version"].clone();
    }
    line
}

fn groups(kinds: &[Arc<Kind>]) -> Vec<&str> {
    distinct(kinds.iter().map(|kind| kind.group.as_str()))
}

/// In order of preference: that of registration.
fn versions<'a>(kinds: &'a [Arc<Kind>], group: &str) -> Vec<&'a str> {
    distinct(kinds.iter().filter(|kind| kind.group == group).map(|kind| kind.version.as_str()))
}

fn served<'a>(kinds: &'a [Arc<Kind>], group: &str, version: &str) -> impl Iterator<Item = &'a Arc<Kind>> {
    kinds.iter().filter(move |kind| kind.group == group && kind.version == version)
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    names.fold(Vec::new(), |mut seen, name| {
        if !seen.contains(&name) {
            seen.push(name);
        }
        seen
    })
}

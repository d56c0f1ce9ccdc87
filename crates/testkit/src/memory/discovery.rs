//! Discovery documents, plain and aggregated (`apidiscovery.k8s.io/v2`).

use serde_json::{Value, json};

use super::kinds::Kind;

/// The media type of an aggregated document.
pub(super) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];
const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Does the `Accept` header take an aggregated document?
pub(super) fn wants_aggregated(accept: &str) -> bool {
    let mut types = accept.split(',').map(|one| one.split(';').map(str::trim).collect::<Vec<_>>());
    types.any(|one| one.contains(&"g=apidiscovery.k8s.io") && one.contains(&"v=v2"))
}

/// `/api` or `/apis` in one document; `core` chooses.
pub(super) fn aggregated(kinds: &[Kind], core: bool) -> Value {
    let items: Vec<_> = groups(kinds)
        .into_iter()
        .filter(|group| group.is_empty() == core)
        .map(|group| {
            let versions: Vec<_> = versions(kinds, group)
                .into_iter()
                .map(|version| {
                    let resources: Vec<_> = served(kinds, group, version).map(aggregated_resource).collect();
                    json!({"version": version, "freshness": "Current", "resources": resources})
                })
                .collect();
            json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn aggregated_resource(kind: &Kind) -> Value {
    let response = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    let mut resource = json!({
        "resource": kind.plural,
        "responseKind": response,
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.kind.to_lowercase(),
        "verbs": VERBS,
    });
    if kind.status_subresource {
        resource["subresources"] =
            json!([{"subresource": "status", "responseKind": response, "verbs": STATUS_VERBS}]);
    }
    resource
}

/// Plain `/api`.
pub(super) fn core_versions(kinds: &[Kind]) -> Value {
    json!({"kind": "APIVersions", "versions": versions(kinds, ""), "serverAddressByClientCIDRs": []})
}

/// Plain `/apis`.
pub(super) fn group_list(kinds: &[Kind]) -> Value {
    let named = groups(kinds).into_iter().filter(|group| !group.is_empty());
    let groups: Vec<_> = named.filter_map(|name| group(kinds, name)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Plain `/apis/GROUP`.
pub(super) fn group(kinds: &[Kind], group: &str) -> Option<Value> {
    let of = |version: &str| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let versions: Vec<_> = versions(kinds, group).into_iter().map(of).collect();
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
pub(super) fn resources(kinds: &[Kind], group: &str, version: &str) -> Option<Value> {
    let mut api_version = None;
    let mut list = Vec::new();
    for kind in served(kinds, group, version) {
        api_version = Some(kind.api_version());
        let entry = |name: String, singular: String, verbs: &[&str]| {
            json!({
                "name": name,
                "singularName": singular,
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": verbs,
            })
        };
        list.push(entry(kind.plural.clone(), kind.kind.to_lowercase(), &VERBS));
        if kind.status_subresource {
            list.push(entry(format!("{}/status", kind.plural), String::new(), &STATUS_VERBS));
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

fn groups(kinds: &[Kind]) -> Vec<&str> {
    distinct(kinds.iter().map(|kind| kind.group.as_str()))
}

/// In order of preference: that of registration.
fn versions<'a>(kinds: &'a [Kind], group: &str) -> Vec<&'a str> {
    distinct(kinds.iter().filter(|kind| kind.group == group).map(|kind| kind.version.as_str()))
}

fn served<'a>(kinds: &'a [Kind], group: &str, version: &str) -> impl Iterator<Item = &'a Kind> {
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

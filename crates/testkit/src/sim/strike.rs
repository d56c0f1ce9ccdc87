//! Somebody who is always a moment faster: just before a write of the hub arrives at a member, the object is
//! another one, or gone, or edited.

use futures::FutureExt;
use memkube::{Call, Cluster, Verb};
use serde_json::{Value, json};
use tower::Service;

/// Strikes at one in six of the writes that could be hit; `guard` is told of what was made.
pub fn strike(cluster: &Cluster, call: &Call, chance: &mut fastrand::Rng) -> Option<Value> {
    let writes = matches!(call.verb, Verb::Apply | Verb::Patch | Verb::Delete);
    if !writes || call.dry_run || call.resource != "configmaps" || chance.u8(..6) > 0 {
        return None;
    }
    let place = || cluster.object("", "configmaps", &call.namespace, &call.name);
    match chance.u8(..4) {
        0 | 1 => {
            ask(cluster, "DELETE", &call.path, &json!({}));
            let collection = call.path.rsplit_once('/').map_or("", |(collection, _)| collection);
            let body = json!({"metadata": {"name": call.name}, "data": {"whose": "theirs"}});
            if place().is_some() || !ask(cluster, "POST", collection, &body) {
                return None;
            }
            return place();
        }
        2 => {
            ask(cluster, "PATCH", &call.path, &json!({"data": {"key": "struck"}}));
        }
        _ => {
            ask(cluster, "DELETE", &call.path, &json!({}));
        }
    };
    None
}

/// A person's request, done at once: a call that no fault holds up waits for nothing. Was it taken?
pub fn ask(cluster: &Cluster, method: &str, path: &str, body: &Value) -> bool {
    let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let uri = if method == "DELETE" { path.to_owned() } else { format!("{path}?fieldManager=alice") };
    let request = http::Request::builder().method(method).uri(uri).header("content-type", content);
    let Ok(request) = request.body(http_body_util::Full::from(body.to_string())) else { return false };
    let answer = cluster.service_as("alice").call(request).now_or_never();
    answer.and_then(Result::ok).is_some_and(|answer| answer.status().is_success())
}

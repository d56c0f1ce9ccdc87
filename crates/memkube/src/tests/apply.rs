//! Server-side apply: ownership, conflicts, and the create-only form.

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::*;

async fn apply(cluster: &Cluster, manager: &str, body: Value) -> kube::Result<ConfigMap> {
    send(cluster, PatchParams::apply(manager), body).await
}

async fn send(cluster: &Cluster, params: PatchParams, mut body: Value) -> kube::Result<ConfigMap> {
    body["apiVersion"] = json!("v1");
    body["kind"] = json!("ConfigMap");
    body["metadata"]["name"] = json!("a");
    config_maps(cluster).patch("a", &params, &Patch::Apply(body)).await
}

/// (manager, operation, fieldsV1) of each entry, as stored.
fn owners(cluster: &Cluster) -> Vec<(String, String, Value)> {
    let object = cluster.object("", "configmaps", "default", "a").expect("stored");
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    entries
        .iter()
        .map(|entry| (text(&entry["manager"]), text(&entry["operation"]), entry["fieldsV1"].clone()))
        .collect()
}

fn owner(manager: &str, operation: &str, fields: Value) -> (String, String, Value) {
    (manager.into(), operation.into(), fields)
}

#[tokio::test(start_paused = true)]
async fn an_apply_creates_and_owns_its_leaves_and_again_changes_nothing() {
    let cluster = cluster();
    let body = json!({"metadata": {"labels": {"app": "x"}, "annotations": {}}, "data": {"k": "1"}});
    let first = apply(&cluster, "m", body.clone()).await.expect("created");
    let fields =
        json!({"f:data": {"f:k": {}}, "f:metadata": {"f:annotations": {}, "f:labels": {"f:app": {}}}});
    assert_eq!(owners(&cluster), [owner("m", "Apply", fields)]);
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    let again = apply(&cluster, "m", body).await.expect("applied");
    assert_eq!(again, first);
    let codes: Vec<_> = cluster.requests().iter().map(|call| (call.verb.to_string(), call.status)).collect();
    assert_eq!(codes, [("apply".to_owned(), 201), ("apply".to_owned(), 200)]);
}

#[tokio::test(start_paused = true)]
async fn another_value_conflicts_until_forced_and_an_equal_one_is_shared() {
    let cluster = cluster();
    apply(&cluster, "m", json!({"data": {"k": "1", "l": "1"}})).await.expect("created");
    let status = refusal(apply(&cluster, "n", json!({"data": {"k": "2"}})).await);
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"m\": .data.k");
    let causes = status.details.expect("details").causes;
    assert_eq!((causes[0].reason.as_str(), causes[0].field.as_str()), ("FieldManagerConflict", ".data.k"));

    apply(&cluster, "n", json!({"data": {"k": "1"}})).await.expect("shared");
    let k = json!({"f:data": {"f:k": {}}});
    let both = json!({"f:data": {"f:k": {}, "f:l": {}}});
    let mut shared = owners(&cluster);
    shared.sort_by_key(|entry| entry.0.clone());
    assert_eq!(shared, [owner("m", "Apply", both), owner("n", "Apply", k.clone())]);

    let forced = PatchParams::apply("n").force();
    let taken = send(&cluster, forced, json!({"data": {"k": "2"}})).await.expect("forced");
    assert_eq!(json!(taken.data), json!({"k": "2", "l": "1"}));
    let l = json!({"f:data": {"f:l": {}}});
    assert_eq!(owners(&cluster), [owner("m", "Apply", l), owner("n", "Apply", k)]);
}

#[tokio::test(start_paused = true)]
async fn dropped_fields_go_unless_somebody_else_owns_them() {
    let cluster = cluster();
    apply(&cluster, "m", json!({"data": {"k": "1", "l": "1"}, "binaryData": {"b": "AA=="}}))
        .await
        .expect("created");
    apply(&cluster, "n", json!({"data": {"k": "1"}})).await.expect("shared");
    let left = apply(&cluster, "m", json!({"metadata": {"labels": {"a": "b"}}})).await.expect("dropped");
    assert_eq!(json!(left.data), json!({"k": "1"}));
    assert_eq!(left.binary_data, None);
}

#[tokio::test(start_paused = true)]
async fn an_edit_takes_the_changed_leaves_and_its_conflict_says_the_version() {
    let cluster = cluster();
    apply(&cluster, "m", json!({"data": {"k": "1", "l": "1"}})).await.expect("created");
    let edit = Patch::Merge(json!({"data": {"k": "2", "n": "3"}}));
    config_maps(&cluster).patch("a", &PatchParams::default(), &edit).await.expect("edited");
    let l = json!({"f:data": {"f:l": {}}});
    let edited = json!({"f:data": {"f:k": {}, "f:n": {}}});
    assert_eq!(owners(&cluster), [owner("m", "Apply", l.clone()), owner("unknown", "Update", edited)]);
    let status = refusal(apply(&cluster, "m", json!({"data": {"k": "1", "l": "1"}})).await);
    assert_eq!(status.details.expect("details").causes[0].message, "conflict with \"unknown\" using v1");
    // An edit under the applier's own name is another manager too.
    let edit = Patch::Merge(json!({"data": {"l": "2"}}));
    let params = PatchParams { field_manager: Some("m".into()), ..PatchParams::default() };
    config_maps(&cluster).patch("a", &params, &edit).await.expect("edited");
    assert!(owners(&cluster).iter().any(|entry| *entry == owner("m", "Update", l.clone())));
    assert!(!owners(&cluster).iter().any(|(manager, operation, _)| manager == "m" && operation == "Apply"));
}

#[tokio::test(start_paused = true)]
async fn an_apply_with_resource_version_1_creates_only() {
    let cluster = cluster();
    let body = json!({"metadata": {"resourceVersion": "1"}, "data": {"k": "1"}});
    apply(&cluster, "m", body.clone()).await.expect("created");
    assert_eq!(cluster.requests()[0].status, 201);
    for params in [PatchParams::apply("n"), PatchParams::apply("n").force(), PatchParams::apply("m")] {
        let status = refusal(send(&cluster, params, body.clone()).await);
        assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    }
    apply(&cluster, "m", json!({"metadata": {"resourceVersion": "0"}, "data": {"k": "2"}}))
        .await
        .expect("\"0\" is none");
}

#[tokio::test(start_paused = true)]
async fn an_apply_with_a_uid_never_creates_and_never_meets_another_object() {
    let cluster = cluster();
    let body = |uid: &str| json!({"metadata": {"uid": uid}, "data": {"k": "2"}});
    assert_eq!(refusal(apply(&cluster, "m", body("u")).await).code, 409);
    let made = apply(&cluster, "m", json!({"data": {"k": "1"}})).await.expect("created");
    assert_eq!(refusal(apply(&cluster, "m", body("u")).await).code, 422);
    let uid = made.metadata.uid.expect("a uid");
    assert_eq!(json!(apply(&cluster, "m", body(&uid)).await.expect("applied").data), json!({"k": "2"}));
}

#[tokio::test(start_paused = true)]
async fn an_apply_to_a_missing_namespace_names_it_in_a_dry_run_too() {
    let cluster = cluster();
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), "nowhere");
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    for params in [PatchParams::apply("m"), PatchParams::apply("m").dry_run()] {
        let status = refusal(api.patch("a", &params, &Patch::Apply(&body)).await);
        assert_eq!((status.code, status.details.expect("details").kind.as_str()), (404, "namespaces"));
    }
}

#[tokio::test(start_paused = true)]
async fn reset_entries_stay_gone_until_an_apply_meets_before_first_apply() {
    let cluster = cluster();
    apply(&cluster, "m", json!({"data": {"k": "1"}})).await.expect("created");
    let reset = Patch::Merge(json!({"metadata": {"managedFields": [{}]}}));
    config_maps(&cluster).patch("a", &PatchParams::default(), &reset).await.expect("reset");
    let edit = Patch::Merge(json!({"data": {"l": "1"}}));
    config_maps(&cluster).patch("a", &PatchParams::default(), &edit).await.expect("edited");
    assert_eq!(owners(&cluster), []);
    apply(&cluster, "m", json!({"data": {"k": "1"}})).await.expect("healed");
    let all = json!({"f:data": {".": {}, "f:k": {}, "f:l": {}}});
    let k = json!({"f:data": {"f:k": {}}});
    assert_eq!(owners(&cluster), [owner("m", "Apply", k), owner("before-first-apply", "Update", all)]);
}

#[tokio::test(start_paused = true)]
async fn one_json_patch_moves_an_update_entry_into_an_apply_entry() {
    let cluster = cluster();
    let params = PostParams { field_manager: Some("old".into()), ..PostParams::default() };
    config_maps(&cluster).create(&params, &config_map("a", json!({"k": "1"}))).await.expect("created");
    let patch = json!([
        {"op": "test", "path": "/metadata/managedFields/0/manager", "value": "old"},
        {"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "m"},
        {"op": "replace", "path": "/metadata/managedFields/0/operation", "value": "Apply"},
    ]);
    let path = "/api/v1/namespaces/default/configmaps/a";
    let (code, _) = raw(&cluster, "PATCH", path, "application/json-patch+json", patch).await;
    assert_eq!(code, 200);
    assert_eq!(owners(&cluster), [owner("m", "Apply", json!({"f:data": {".": {}, "f:k": {}}}))]);
    let left = apply(&cluster, "m", json!({"metadata": {"labels": {"a": "b"}}})).await.expect("dropped");
    assert_eq!(left.data, None);
}

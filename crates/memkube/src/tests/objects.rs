//! Creating, reading, changing and deleting.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_created_object_gets_its_server_fields_and_a_second_create_conflicts() {
    let cluster = cluster();
    let made = create(&cluster, &config_map("a", json!({"k": "v"}))).await;
    assert!(made.metadata.uid.is_some_and(|uid| uid.len() == 36));
    assert_eq!(made.metadata.resource_version, Some(cluster.revision().to_string()));
    assert_eq!(made.metadata.generation, None);
    assert_eq!(json!(made.metadata.creation_timestamp), json!("2026-01-01T00:00:00Z"));
    let status =
        refusal(config_maps(&cluster).create(&PostParams::default(), &config_map("a", json!({}))).await);
    assert_eq!((status.code, status.reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(status.message, "configmaps \"a\" already exists");
}

#[tokio::test(start_paused = true)]
async fn absent_objects_and_namespaces_are_named_in_404() {
    let cluster = cluster();
    let status = refusal(config_maps(&cluster).get("a").await);
    assert_eq!((status.code, status.message.as_str()), (404, "configmaps \"a\" not found"));
    let elsewhere: Api<ConfigMap> = Api::namespaced(cluster.client(), "nowhere");
    let status = refusal(elsewhere.create(&PostParams::default(), &config_map("a", json!({}))).await);
    let details = status.details.expect("details");
    assert_eq!((status.code, details.kind.as_str(), details.name.as_str()), (404, "namespaces", "nowhere"));
    let (code, answer) = raw(&cluster, "GET", "/apis/none.dev/v1/things", "", json!(null)).await;
    assert_eq!((code, answer), (404, json!("404 page not found\n")));
}

#[tokio::test(start_paused = true)]
async fn a_put_with_an_old_resource_version_conflicts_and_an_identical_put_changes_nothing() {
    let cluster = cluster();
    let api = config_maps(&cluster);
    let first = create(&cluster, &config_map("a", json!({"k": "1"}))).await;
    let same = api.replace("a", &PostParams::default(), &first).await.expect("the same");
    assert_eq!(same, first);
    let mut second = first.clone();
    second.data = Some([("k".to_owned(), "2".to_owned())].into());
    let second = api.replace("a", &PostParams::default(), &second).await.expect("replaced");
    assert_ne!(second.metadata.resource_version, first.metadata.resource_version);
    assert_eq!(second.metadata.uid, first.metadata.uid);
    let status = refusal(api.replace("a", &PostParams::default(), &first).await);
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
}

#[tokio::test(start_paused = true)]
async fn merge_and_json_patches_change_what_they_say() {
    let cluster = cluster();
    let api = config_maps(&cluster);
    create(&cluster, &config_map("a", json!({"k": "1", "l": "2"}))).await;
    let patch = Patch::Merge(json!({"data": {"k": null, "m": "3"}}));
    let merged = api.patch("a", &PatchParams::default(), &patch).await.expect("merged");
    assert_eq!(json!(merged.data), json!({"l": "2", "m": "3"}));
    let json_patch = |value: &str| -> json_patch::Patch {
        from(json!([
            {"op": "test", "path": "/data/l", "value": value},
            {"op": "replace", "path": "/data/m", "value": "4"},
        ]))
    };
    let mut code = Vec::new();
    for value in ["other", "2"] {
        let body = json!(json_patch(value));
        let path = "/api/v1/namespaces/default/configmaps/a";
        code.push(raw(&cluster, "PATCH", path, "application/json-patch+json", body).await.0);
    }
    assert_eq!(code, [422, 200]);
    assert_eq!(json!(api.get("a").await.expect("read").data), json!({"l": "2", "m": "4"}));
}

#[tokio::test(start_paused = true)]
async fn a_guarded_delete_needs_the_live_uid_and_resource_version() {
    let cluster = cluster();
    let api = config_maps(&cluster);
    let made = create(&cluster, &config_map("a", json!({}))).await;
    let guard = |uid: &str, version: &str| {
        DeleteParams::background()
            .preconditions(Preconditions { uid: Some(uid.into()), resource_version: Some(version.into()) })
    };
    let uid = made.metadata.uid.expect("uid");
    let version = made.metadata.resource_version.expect("version");
    for (uid, version) in [("other", version.as_str()), (uid.as_str(), "1")] {
        let status = refusal(api.delete("a", &guard(uid, version)).await);
        assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    }
    let gone = api.delete("a", &guard(&uid, &version)).await.expect("deleted");
    assert_eq!(gone.right().expect("a Status").details.expect("details").uid, uid);
    assert_eq!(refusal(api.get("a").await).code, 404);
}

#[tokio::test(start_paused = true)]
async fn an_object_with_finalizers_goes_when_the_last_one_is_removed() {
    let cluster = cluster();
    let api = config_maps(&cluster);
    create(&cluster, &from(json!({"metadata": {"name": "a", "finalizers": ["x.dev/f"]}}))).await;
    let left = api.delete("a", &DeleteParams::default()).await.expect("marked").left().expect("the object");
    assert!(left.metadata.deletion_timestamp.is_some());
    let add = Patch::Merge(json!({"metadata": {"finalizers": ["x.dev/f", "x.dev/g"]}}));
    assert_eq!(refusal(api.patch("a", &PatchParams::default(), &add).await).code, 422);
    assert!(api.get_opt("a").await.expect("read").is_some());
    let remove = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("a", &PatchParams::default(), &remove).await.expect("removed");
    assert_eq!(api.get_opt("a").await.expect("read"), None);
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_takes_nothing_new_and_goes_after_its_content() {
    let cluster = cluster();
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let inside: Api<ConfigMap> = Api::namespaced(cluster.client(), "shop");
    let name = json!({"metadata": {"name": "shop"}});
    namespaces.create(&PostParams::default(), &from(name)).await.expect("created");
    let held = from(json!({"metadata": {"name": "held", "finalizers": ["x.dev/f"]}}));
    inside.create(&PostParams::default(), &held).await.expect("created");
    inside.create(&PostParams::default(), &config_map("free", json!({}))).await.expect("created");
    namespaces.delete("shop", &DeleteParams::default()).await.expect("marked");
    assert_eq!(inside.get_opt("free").await.expect("read"), None);
    let status = refusal(inside.create(&PostParams::default(), &config_map("new", json!({}))).await);
    assert_eq!(
        (status.code, status.details.expect("details").causes[0].reason.as_str()),
        (403, "NamespaceTerminating")
    );
    let remove = Patch::Merge(json!({"metadata": {"finalizers": []}}));
    inside.patch("held", &PatchParams::default(), &remove).await.expect("removed");
    assert_eq!(namespaces.get_opt("shop").await.expect("read"), None);
}

#[tokio::test(start_paused = true)]
async fn pages_show_one_revision_and_an_old_token_expires() {
    let cluster = cluster();
    let api = config_maps(&cluster);
    for name in ["a", "b", "c", "d", "e"] {
        create(&cluster, &config_map(name, json!({}))).await;
    }
    let first = api.list(&ListParams::default().limit(2)).await.expect("a page");
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    let token = first.metadata.continue_.expect("a token");
    api.delete("c", &DeleteParams::default()).await.expect("deleted");
    create(&cluster, &config_map("bb", json!({}))).await;
    let rest = api.list(&ListParams::default().continue_token(&token)).await.expect("the rest");
    let names: Vec<_> = rest.items.into_iter().filter_map(|item| item.metadata.name).collect();
    assert_eq!(names, ["c", "d", "e"]);
    assert_eq!(rest.metadata.resource_version, first.metadata.resource_version);
    cluster.compact();
    let status = refusal(api.list(&ListParams::default().continue_token(&token)).await);
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
}

#[tokio::test(start_paused = true)]
async fn lists_obey_selectors_and_refuse_a_revision_from_the_future() {
    let cluster = cluster();
    create(&cluster, &labelled("a", json!({"app": "shop"}))).await;
    create(&cluster, &labelled("b", json!({"app": "bank"}))).await;
    let api = config_maps(&cluster);
    let found = api.list(&ListParams::default().labels("app in (shop)")).await.expect("a list");
    assert_eq!(found.items.len(), 1);
    let found = api.list(&ListParams::default().fields("metadata.name=b")).await.expect("a list");
    assert_eq!(found.items[0].metadata.name.as_deref(), Some("b"));
    let status = refusal(api.list(&ListParams::default().at("9999")).await);
    assert_eq!(
        (status.code, status.details.expect("details").causes[0].reason.as_str()),
        (504, "ResourceVersionTooLarge")
    );
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_answers_as_if_and_stores_nothing() {
    let cluster = cluster();
    let before = cluster.revision();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let made = config_maps(&cluster).create(&dry, &config_map("a", json!({}))).await.expect("answered");
    assert!(made.metadata.uid.is_some());
    assert_eq!(cluster.object("", "configmaps", "default", "a"), None);
    create(&cluster, &config_map("b", json!({}))).await;
    let gone = DeleteParams { dry_run: true, ..DeleteParams::default() };
    config_maps(&cluster).delete("b", &gone).await.expect("answered");
    assert!(cluster.object("", "configmaps", "default", "b").is_some());
    assert_eq!(cluster.revision(), before + 1);
}

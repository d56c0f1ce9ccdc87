//! Discovery, registered kinds, CRDs and the status subresource.

use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Discovery, Scope};
use serde_json::json;

use super::*;
use crate::Kind;

fn widget_crd() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.acme.dev"},
        "spec": {
            "group": "acme.dev",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": schema},
                {"name": "v1alpha1", "served": false, "storage": false, "schema": schema},
            ],
        },
    })
}

async fn widgets(cluster: &Cluster) -> Api<DynamicObject> {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, crd) = raw(cluster, "POST", path, "application/json", widget_crd()).await;
    assert_eq!((code, &crd["status"]["conditions"]), (201, &Value::Null));
    let path = format!("{path}/widgets.acme.dev");
    let (_, crd) = raw(cluster, "GET", &path, "", json!(null)).await;
    assert_eq!(crd["status"]["conditions"][1]["type"], "Established");
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("acme.dev", "v1", "Widget"));
    Api::namespaced_with(cluster.client(), "default", &resource)
}

#[tokio::test(start_paused = true)]
async fn both_kinds_of_discovery_agree_and_show_what_a_crd_serves() {
    let cluster = cluster();
    widgets(&cluster).await;
    cluster.register(Kind::new("plain.dev/v1", "Thing", "things", false, false));
    let plain = Discovery::new(cluster.client()).run().await.expect("discovered");
    cluster.clear_requests();
    let aggregated = Discovery::new(cluster.client()).run_aggregated().await.expect("discovered");
    assert_eq!(cluster.requests().len(), 2);
    let mut all = Vec::new();
    for discovery in [&plain, &aggregated] {
        let mut found: Vec<_> = discovery
            .groups()
            .flat_map(|group| group.recommended_resources())
            .map(|(resource, caps)| (resource.api_version, resource.plural, caps.scope == Scope::Namespaced))
            .collect();
        found.sort();
        let expect = [
            ("acme.dev/v1", "widgets", true),
            ("apps/v1", "deployments", true),
            ("rbac.authorization.k8s.io/v1", "clusterroles", false),
            ("plain.dev/v1", "things", false),
            ("v1", "configmaps", true),
            ("v1", "namespaces", false),
        ];
        for (version, plural, namespaced) in expect {
            assert!(found.contains(&(version.into(), plural.into(), namespaced)), "{plural} in {found:?}");
        }
        all.push(found);
    }
    assert_eq!(all[0], all[1]);
    assert_eq!(cluster.client().apiserver_version().await.expect("a version").minor, "36");
}

#[tokio::test(start_paused = true)]
async fn status_is_written_by_its_subresource_only_and_generation_counts_the_rest() {
    let cluster = cluster();
    let api = widgets(&cluster).await;
    let apply = |body: Value| {
        let mut body = body;
        body["apiVersion"] = json!("acme.dev/v1");
        body["kind"] = json!("Widget");
        body["metadata"] = json!({"name": "w"});
        Patch::Apply(body)
    };
    let params = PatchParams::apply("m");
    let body = json!({"spec": {"size": 1}, "status": {"ready": true}});
    let made = api.patch("w", &params, &apply(body)).await.expect("created");
    assert_eq!((made.metadata.generation, &made.data["status"]), (Some(1), &Value::Null));
    let body = json!({"spec": {"size": 9}, "status": {"ready": true}});
    let ready = api.patch_status("w", &params, &apply(body)).await.expect("applied");
    assert_eq!((&ready.data["spec"]["size"], &ready.data["status"]["ready"]), (&json!(1), &json!(true)));
    assert_eq!(ready.metadata.generation, Some(1));
    let entries = json!(ready.metadata.managed_fields);
    let status = entries.as_array().expect("entries").iter().find(|entry| entry["subresource"] == "status");
    assert_eq!(status.expect("an entry")["fieldsV1"], json!({"f:status": {"f:ready": {}}}));
    let bigger = api.patch("w", &params, &apply(json!({"spec": {"size": 2}}))).await.expect("applied");
    assert_eq!((bigger.metadata.generation, &bigger.data["status"]["ready"]), (Some(2), &json!(true)));
    let merge = Patch::Merge(json!({"status": {"ready": false}, "spec": {"size": 7}}));
    let merged = api.patch_status("w", &PatchParams::default(), &merge).await.expect("merged");
    assert_eq!((&merged.data["spec"]["size"], &merged.data["status"]["ready"]), (&json!(2), &json!(false)));
    let mut put = merged.clone();
    put.data["status"] = json!({"ready": true});
    let put = api.replace_status("w", &PostParams::default(), &put).await.expect("replaced");
    assert_eq!(put.data["status"], json!({"ready": true}));
    assert_eq!(refusal(api.replace_status("w", &PostParams::default(), &merged).await).code, 409);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_crd_takes_its_instances_and_its_endpoint_with_it() {
    let cluster = cluster();
    let api = widgets(&cluster).await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("acme.dev", "v1", "Widget"));
    let widget = DynamicObject::new("w", &resource);
    api.create(&PostParams::default(), &widget).await.expect("created");
    let crd = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    let crds: Api<DynamicObject> = Api::all_with(cluster.client(), &crd);
    crds.delete("widgets.acme.dev", &DeleteParams::default()).await.expect("deleted");
    assert_eq!(cluster.objects("acme.dev", "widgets"), Vec::<Value>::new());
    let (code, _) = raw(&cluster, "GET", "/apis/acme.dev/v1/widgets", "", json!(null)).await;
    assert_eq!(code, 404);
}

#[tokio::test(start_paused = true)]
async fn malformed_requests_are_refused_not_served() {
    let cluster = cluster();
    create(&cluster, &config_map("a", json!({}))).await;
    let one = "/api/v1/namespaces/default/configmaps/a";
    let all = "/api/v1/namespaces/default/configmaps";
    let apply = "application/apply-patch+yaml";
    let other = json!({"metadata": {"name": "b"}});
    let table = [
        ("POST", all, "application/json", json!([]), 400),
        ("POST", all, "application/json", json!({"metadata": {"name": "b", "labels": {"a": 1}}}), 400),
        ("POST", all, "application/json", json!({"kind": "Secret", "metadata": {"name": "b"}}), 400),
        ("PUT", one, "application/json", other.clone(), 400),
        ("PATCH", one, "application/strategic-merge-patch+json", json!([]), 400),
        ("PATCH", one, "application/xml", json!({}), 415),
        ("PATCH", one, "application/json-patch+json", json!({}), 400),
        ("PATCH", one, apply, json!({}), 422),
        ("PATCH", &format!("{one}?fieldManager=m"), apply, other, 400),
        ("PATCH", &format!("{one}?force=true"), "application/merge-patch+json", json!({}), 422),
        ("GET", &format!("{all}?labelSelector=a%20b"), "", json!(null), 400),
        ("GET", &format!("{all}?continue=x"), "", json!(null), 400),
        ("DELETE", "/api/v1/namespaces", "", json!(null), 405),
        ("DELETE", "/api/v1/configmaps", "", json!(null), 405),
        ("GET", &format!("{one}/status"), "", json!(null), 404),
        ("GET", "/api/v1/configmaps/a", "", json!(null), 404),
    ];
    let before = cluster.revision();
    for (method, path, content_type, body, expected) in table {
        let (code, answer) = raw(&cluster, method, path, content_type, body.clone()).await;
        assert_eq!(code, expected, "{method} {path} {body}: {answer}");
    }
    assert_eq!(cluster.revision(), before);
}

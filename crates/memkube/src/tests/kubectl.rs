//! What kubectl needs beside the plain verbs: YAML, strategic merge patch, tables, OpenAPI, reviews.

use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;

use super::*;

/// A request with a text body and an `Accept` header.
async fn send(cluster: &Cluster, method: &str, path: &str, types: [&str; 2], body: &str) -> (u16, Value) {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", types[0])
        .header("accept", types[1])
        .body(kube::client::Body::from(body.as_bytes().to_vec()))
        .expect("a request");
    let response = cluster.service().oneshot(request).await.expect("an answer");
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))))
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

#[tokio::test(start_paused = true)]
async fn bodies_may_be_yaml_where_their_type_says_so() {
    let cluster = cluster();
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  mode: '0644'\n  k: |\n    two\n    lines\n";
    let path = "/api/v1/namespaces/default/configmaps";
    let (code, made) = send(&cluster, "POST", path, ["application/yaml", ""], yaml).await;
    assert_eq!((code, &made["data"]), (201, &json!({"mode": "0644", "k": "two\nlines\n"})), "{made}");
    let path = format!("{path}/a?fieldManager=m&force=true");
    let applied = yaml.replace("two", "three");
    let (code, live) = send(&cluster, "PATCH", &path, ["application/apply-patch+yaml", ""], &applied).await;
    assert_eq!((code, &live["data"]["k"]), (200, &json!("three\nlines\n")), "{live}");
    for (kind, body) in [("application/json", yaml), ("application/yaml", "a: [b")] {
        let path = "/api/v1/namespaces/default/configmaps";
        assert_eq!(send(&cluster, "POST", path, [kind, ""], body).await.0, 400, "{kind}");
    }
}

fn deployment() -> Value {
    let env = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
    let container = json!({"name": "c", "image": "x:1", "env": env});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "finalizers": ["x.dev/f"]},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    })
}

#[tokio::test(start_paused = true)]
async fn tables_have_the_columns_of_the_kind_and_a_row_for_each_object() {
    let cluster = cluster();
    create(&cluster, &config_map("a", json!({"k": "1", "l": "2"}))).await;
    tokio::time::sleep(std::time::Duration::from_secs(150)).await;
    raw(&cluster, "POST", "/apis/apps/v1/namespaces/default/deployments", "application/json", deployment())
        .await;
    let crd = json!({
        "metadata": {"name": "things.acme.dev"},
        "spec": {
            "group": "acme.dev", "scope": "Cluster", "names": {"kind": "Thing", "plural": "things"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
            }],
        },
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    raw(&cluster, "POST", crds, "application/json", crd).await;
    let thing =
        json!({"apiVersion": "acme.dev/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"size": 3}});
    raw(&cluster, "POST", "/apis/acme.dev/v1/things", "application/json", thing).await;
    let here = "/api/v1/namespaces/default";
    let table = [
        (format!("{here}/configmaps"), json!(["a", 2, "2m30s"])),
        (format!("{here}/configmaps/a"), json!(["a", 2, "2m30s"])),
        ("/api/v1/namespaces/default".to_owned(), json!(["default", "Active", "2m30s"])),
        (
            "/apis/apps/v1/namespaces/default/deployments".to_owned(),
            json!(["d", "0/2", 0, 0, "0s", "c", "x:1", "a=b"]),
        ),
        ("/apis/acme.dev/v1/things".to_owned(), json!(["t", 3, "0s"])),
        (crds.to_owned(), json!(["things.acme.dev", "2026-01-01T00:02:30Z"])),
    ];
    for (path, cells) in table {
        let (code, found) = send(&cluster, "GET", &path, ["", TABLE], "").await;
        assert_eq!(
            (code, &found["kind"], &found["rows"][0]["cells"]),
            (200, &json!("Table"), &cells),
            "{path}"
        );
        let columns = found["columnDefinitions"].as_array().map_or(0, Vec::len);
        assert_eq!(columns, cells.as_array().map_or(0, Vec::len), "{path}");
        assert_eq!(found["rows"][0]["object"]["metadata"]["name"], cells[0], "{path}");
    }
    let path = format!("{here}/configmaps?watch=1&timeoutSeconds=1");
    let (_, event) = send(&cluster, "GET", &path, ["", TABLE], "").await;
    assert_eq!(event["object"]["rows"][0]["cells"], json!(["a", 2, "2m30s"]), "{event}");
}

#[tokio::test(start_paused = true)]
async fn open_api_documents_are_listed_and_served_for_built_in_and_custom_kinds() {
    let cluster = cluster();
    let crd = json!({
        "metadata": {"name": "things.acme.dev"},
        "spec": {
            "group": "acme.dev", "scope": "Cluster", "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "string", "description": "What it is."}},
            }}}],
        },
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    raw(&cluster, "POST", crds, "application/json", crd).await;
    let (_, index) = raw(&cluster, "GET", "/openapi/v3", "", json!(null)).await;
    let table = [
        ("api/v1", "io.k8s.api.core.v1.ConfigMap"),
        ("apis/apps/v1", "io.k8s.api.apps.v1.Deployment"),
        ("apis/acme.dev/v1", "dev.acme.v1.Thing"),
    ];
    for (path, schema) in table {
        let address = index["paths"][path]["serverRelativeURL"].as_str().expect(path);
        let (code, document) = raw(&cluster, "GET", address, "", json!(null)).await;
        let gvk = &document["components"]["schemas"][schema]["x-kubernetes-group-version-kind"][0]["kind"];
        assert_eq!((code, gvk.as_str()), (200, schema.rsplit('.').next()), "{path}");
    }
    assert_eq!(raw(&cluster, "GET", "/openapi/v3/apis/none.dev/v1", "", json!(null)).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn reviews_of_rights_allow_everything_and_store_nothing() {
    let cluster = cluster();
    let before = cluster.revision();
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({"spec": {"resourceAttributes": {"verb": "delete", "resource": "pods"}}});
    let (code, answer) = raw(&cluster, "POST", path, "application/json", review.clone()).await;
    assert_eq!((code, &answer["status"]["allowed"], &answer["spec"]), (201, &json!(true), &review["spec"]));
    assert_eq!(raw(&cluster, "GET", path, "", json!(null)).await.0, 405);
    assert_eq!(cluster.revision(), before);
}

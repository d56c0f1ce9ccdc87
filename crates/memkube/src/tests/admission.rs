//! Admission hooks, and groups whose server does not answer.

use std::sync::Arc;

use kube::api::{DeleteParams, Patch, PatchParams};
use kube::discovery::Discovery;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::{Call, Denial, Verb};

#[tokio::test(start_paused = true)]
async fn what_a_mutating_hook_adds_is_owned_by_nobody_and_survives_the_next_apply() {
    let cluster = cluster();
    cluster.set_mutating_admission(Some(Arc::new(|call: &Call, object: &mut Value| {
        if call.resource == "configmaps" {
            object["data"]["injected"] = json!("yes");
        }
    })));
    let api = config_maps(&cluster);
    let apply = |data: Value| {
        Patch::Apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}),
        )
    };
    let params = PatchParams::apply("m");
    for data in [json!({"x": "1"}), json!({"x": "2"}), json!({"y": "1"})] {
        let made = api.patch("a", &params, &apply(data.clone())).await.expect("applied");
        let mut expected = data.clone();
        expected["injected"] = json!("yes");
        assert_eq!(json!(made.data), expected);
        let fields = json!(made.metadata.managed_fields)[0]["fieldsV1"]["f:data"].clone();
        let declared: serde_json::Map<_, _> =
            data.as_object().expect("data").keys().map(|key| (format!("f:{key}"), json!({}))).collect();
        assert_eq!(fields, Value::Object(declared));
    }
    let before = cluster.revision();
    api.patch("a", &params, &apply(json!({"y": "1"}))).await.expect("applied");
    assert_eq!(cluster.revision(), before, "the same apply changes nothing");
    let made = create(&cluster, &config_map("b", json!({"injected": "no"}))).await;
    assert_eq!(json!(made.data), json!({"injected": "yes"}));
    assert_eq!(
        json!(made.metadata.managed_fields)[0]["fieldsV1"]["f:data"],
        json!({".": {}, "f:injected": {}})
    );
    cluster.set_mutating_admission(None);
    assert_eq!(create(&cluster, &config_map("c", json!({}))).await.data, None);
}

#[tokio::test(start_paused = true)]
async fn what_a_mutating_hook_leaves_is_brought_into_its_stored_form_and_checked() {
    let cluster = cluster();
    cluster.set_mutating_admission(Some(Arc::new(|_: &Call, object: &mut Value| {
        object["metadata"]["annotations"]["seen"] = json!("yes");
        object["spec"]["ports"] = json!([{"port": 80}, {"port": 80}]);
    })));
    let path = "/api/v1/namespaces/default/services";
    let body = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}]}});
    let (code, status) = raw(&cluster, "POST", path, "application/json", body.clone()).await;
    assert_eq!(code, 422, "{status}");
    cluster.set_mutating_admission(Some(Arc::new(|_: &Call, object: &mut Value| {
        object["spec"]["ports"] = json!([{"port": 80}]);
    })));
    let (code, service) = raw(&cluster, "POST", path, "application/json", body).await;
    assert_eq!(
        (code, &service["spec"]["ports"]),
        (201, &json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]))
    );
}

#[tokio::test(start_paused = true)]
async fn a_validating_hook_sees_each_write_and_refuses_as_a_webhook_does() {
    let cluster = cluster();
    create(&cluster, &config_map("kept", json!({"a": "1"}))).await;
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = seen.clone();
    cluster.set_validating_admission(Some(Arc::new(move |call: &Call, object: &Value| {
        notes.lock().push(format!(
            "{} {}",
            call.verb,
            object["metadata"]["name"].as_str().unwrap_or_default()
        ));
        match object["data"]["a"].as_str() {
            Some("bad") => Err(Denial::new("policy.example.org", "no bad data")),
            _ if call.verb == Verb::Delete => {
                let details = json!({"kind": "ledgers", "name": "main"});
                Err(Denial { code: 0, details, ..Denial::new("policy.example.org", "") })
            }
            _ => Ok(()),
        }
    })));
    let api = config_maps(&cluster);
    let merge = |value: &str| Patch::Merge(json!({"data": {"a": value}}));
    let status = refusal(api.patch("kept", &PatchParams::default(), &merge("bad")).await);
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    assert_eq!(status.message, "admission webhook \"policy.example.org\" denied the request: no bad data");
    let status = refusal(api.create(&PostParams::default(), &config_map("new", json!({"a": "bad"}))).await);
    assert_eq!(status.code, 403);
    api.patch("kept", &PatchParams::default(), &merge("1"))
        .await
        .expect("no change, asked about all the same");
    let dry = PatchParams::default().dry_run();
    assert_eq!(refusal(api.patch("kept", &dry, &merge("bad")).await).code, 403);
    let status = refusal(api.delete("kept", &DeleteParams::default()).await);
    assert_eq!(
        (status.code, status.message.as_str()),
        (400, "admission webhook \"policy.example.org\" denied the request: Forbidden")
    );
    let details = status.details.expect("what the webhook says of what it is about");
    assert_eq!((details.kind.as_str(), details.name.as_str()), ("ledgers", "main"));
    assert_eq!(*seen.lock(), ["patch kept", "create new", "patch kept", "patch kept", "delete kept"]);
    assert!(cluster.object("", "configmaps", "default", "kept").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_unavailable_answers_503_is_stale_and_holds_namespaces() {
    let cluster = cluster();
    cluster.register(crate::Kind::new("metrics.example.org/v1", "Metric", "metrics", true, false));
    let get = |path: &'static str| raw(&cluster, "GET", path, "", json!(null));
    assert_eq!(get("/apis/metrics.example.org/v1/metrics").await.0, 200);
    cluster.set_group_available("metrics.example.org", false);
    assert_eq!(get("/apis/metrics.example.org/v1/metrics").await.0, 503);
    assert_eq!(get("/apis/metrics.example.org/v1").await.0, 503);
    let (_, groups) = get("/apis").await;
    let named = |group: &Value| group["name"] == "metrics.example.org";
    assert!(groups["groups"].as_array().expect("groups").iter().any(named), "plain discovery still lists it");
    assert!(Discovery::new(cluster.client()).run().await.is_err(), "and then fails");
    let service = json!({
        "metadata": {"name": "v1.lost.dev"},
        "spec": {
            "group": "lost.dev", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
            "service": {"name": "x", "namespace": "default"},
        },
    });
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    assert_eq!(raw(&cluster, "POST", path, "application/json", service.clone()).await.0, 201);
    let (_, group) = get("/apis/lost.dev").await;
    assert_eq!(group["preferredVersion"]["groupVersion"], "lost.dev/v1");
    assert_eq!(get("/apis/lost.dev/v1/things").await.0, 503);
    raw(&cluster, "DELETE", &format!("{path}/v1.lost.dev"), "application/json", json!({})).await;
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let request = http::Request::get("/apis").header("accept", accept).body(Vec::new()).expect("a request");
    let text = cluster.client().request_text(request).await.expect("a document");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let items = document["items"].as_array().expect("items");
    let group =
        items.iter().find(|item| item["metadata"]["name"] == "metrics.example.org").expect("the group");
    assert_eq!(group["versions"][0]["freshness"], "Stale");
    assert_eq!(group["versions"][0]["resources"][0]["resource"], "metrics", "what was known is still shown");

    let mut service = service;
    service["metadata"]["name"] = json!("v1.metrics.example.org");
    service["spec"]["group"] = json!("metrics.example.org");
    assert_eq!(raw(&cluster, "POST", path, "application/json", service).await.0, 201);
    let reason = || {
        let service = cluster.object("apiregistration.k8s.io", "apiservices", "", "v1.metrics.example.org");
        service.expect("an APIService")["status"]["conditions"][0]["reason"].clone()
    };
    assert_eq!(reason(), "FailedDiscoveryCheck");

    raw(&cluster, "POST", "/api/v1/namespaces", "application/json", json!({"metadata": {"name": "n"}})).await;
    raw(&cluster, "DELETE", "/api/v1/namespaces/n", "application/json", json!({})).await;
    assert!(cluster.object("", "namespaces", "", "n").is_some(), "it waits");
    cluster.set_group_available("metrics.example.org", true);
    assert_eq!(cluster.object("", "namespaces", "", "n"), None);
    assert_eq!(reason(), "Passed");
    assert_eq!(get("/apis/metrics.example.org/v1/metrics").await.0, 200);
}

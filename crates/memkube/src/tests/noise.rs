//! Requests put together by chance: whatever comes is answered, and nothing panics.

use super::*;

const PATHS: [&str; 14] = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps/a",
    "/api/v1/namespaces/default",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/deployments/a",
    "/apis/apps/v1/namespaces/default/deployments/a/scale",
    "/apis/apps/v1/namespaces/default/deployments/a/status",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/apps",
    "/api",
    "/openapi/v2",
    "/openapi/v3/api/v1/x",
    "//x//%ff/../api/v1/namespaces/%00",
];
const QUERIES: [&str; 12] = [
    "",
    "fieldManager=m&force=true",
    "labelSelector=a in (b,(c),!d%3E1",
    "fieldSelector=metadata.name=,=",
    "limit=1&continue=1/default/a",
    "limit=-9&continue=///",
    "resourceVersion=18446744073709551615",
    "watch=1&timeoutSeconds=0&resourceVersion=99",
    "dryRun=All&fieldValidation=Strict",
    "propagationPolicy=Foreground&gracePeriodSeconds=-1",
    "watch=0&resourceVersionMatch=Exact&resourceVersion=1",
    "%ff=%00&&==",
];
const TYPES: [&str; 8] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
];
const BODIES: [&str; 12] = [
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}"#,
    r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"x"}]}}}}"#,
    r#"{"metadata":{"name":"t.x.dev"},"spec":{"group":"x.dev","scope":"Cluster","names":{"kind":"T","plural":"t"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#,
    r#"{"spec":{"replicas":-5}}"#,
    r#"{"metadata":{"finalizers":[7],"ownerReferences":[{}],"managedFields":[{"manager":7,"fieldsV1":7}]}}"#,
    r#"[{"op":"add","path":"/metadata/labels/~1~0","value":{}},{"op":"move","from":"/a","path":"/a/b"}]"#,
    r#"{"spec":{"template":{"spec":{"containers":[{"$patch":"delete","name":"c"},{"$setElementOrder/x":7}]}}}}"#,
    r#"{"kind":"DeleteOptions","preconditions":{"uid":7},"propagationPolicy":7}"#,
    "k8s\0\n\x0f\n\x02v1\x12\x09ConfigMap\x12\x05\n\x03\n\x01a",
    "a: &a [*a]\n---\n- b",
    "[[[[[[[[[[[[[[[[[[[[[[",
    "",
];

#[tokio::test(start_paused = true)]
async fn whatever_is_asked_is_answered_and_nothing_panics() {
    use http_body_util::BodyExt;
    use tower::ServiceExt;
    let cluster = cluster();
    cluster.set_recording(false);
    let mut chance = fastrand::Rng::with_seed(11);
    let mut codes = std::collections::BTreeSet::new();
    for _ in 0..6000 {
        let mut pick = |all: &[&'static str]| all[chance.usize(..all.len())];
        let (path, query) = (pick(&PATHS), pick(&QUERIES).replace(' ', "%20"));
        let method = pick(&["GET", "POST", "PUT", "PATCH", "DELETE", "BREW"]);
        let (kind, accept, body) = (pick(&TYPES), pick(&TYPES), pick(&BODIES));
        let mut body = body.as_bytes().to_vec();
        if chance.bool() && !body.is_empty() {
            let at = chance.usize(..body.len());
            body[at] = chance.u8(..);
        }
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{path}?{query}"))
            .header("content-type", kind)
            .header("accept", accept)
            .body(kube::client::Body::from(body))
            .expect("a request");
        let response = cluster.service().oneshot(request).await.expect("an answer");
        codes.insert(response.status().as_u16());
        // A watch ends by itself: its timeout is on the paused clock.
        response.into_body().collect().await.expect("a body");
    }
    for code in [200, 201, 400, 404, 405, 415, 422] {
        assert!(codes.contains(&code), "no {code} among {codes:?}: the pieces do not fit together any more");
    }
}

//! RBAC: what users may do, how they are refused, and what reviews say of it.

use serde_json::json;

use super::*;

const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A cluster that looks at rights, with what `admin` makes in it: path and body of each.
async fn ruled(objects: &[(&str, Value)]) -> Cluster {
    let cluster = cluster();
    cluster.authorize_with_rbac(["admin"]);
    for (path, body) in objects {
        let (code, answer) =
            raw_as(&cluster, "admin", "POST", &format!("{RBAC}/{path}"), JSON, body.clone()).await;
        assert_eq!(code, 201, "{path}: {answer}");
    }
    cluster
}

fn role(name: &str, rules: Value) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, kind: &str, role: &str, subject: Value) -> Value {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role});
    json!({"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "name": name})
}

async fn code(cluster: &Cluster, user: &str, method: &str, path: &str, body: Value) -> u16 {
    let kind = if method == "PATCH" { APPLY } else { JSON };
    raw_as(cluster, user, method, path, kind, body).await.0
}

#[tokio::test(start_paused = true)]
async fn rights_are_looked_at_only_when_asked_for_and_superusers_have_all() {
    let cluster = cluster();
    assert_eq!(code(&cluster, "bob", "GET", MAPS, json!(null)).await, 200);
    cluster.authorize_with_rbac(["admin", "vidra-hub"]);
    assert_eq!(code(&cluster, "bob", "GET", MAPS, json!(null)).await, 403);
    assert_eq!(code(&cluster, "vidra-hub", "GET", MAPS, json!(null)).await, 200);
    cluster.put_in_groups("carol", ["system:masters"]);
    assert_eq!(code(&cluster, "carol", "GET", MAPS, json!(null)).await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_has_the_shape_of_the_real_servers() {
    let cluster = ruled(&[]).await;
    let get = |path: &'static str| raw_as(&cluster, "bob", "GET", path, "", json!(null));
    let (code, status) = get("/api/v1/namespaces/default/configmaps/a").await;
    assert_eq!(code, 403);
    assert_eq!(
        status,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403,
            "reason": "Forbidden", "details": {"name": "a", "kind": "configmaps"},
            "message": "configmaps \"a\" is forbidden: User \"bob\" cannot get resource \"configmaps\" in API \
                        group \"\" in the namespace \"default\"",
        })
    );
    let (_, status) = get("/apis/apps/v1/deployments").await;
    assert_eq!(
        status["message"],
        "deployments.apps is forbidden: User \"bob\" cannot list resource \"deployments\" in API group \
         \"apps\" at the cluster scope"
    );
    assert_eq!(status["details"], json!({"group": "apps", "kind": "deployments"}));
    let (_, status) = raw(&cluster, "GET", "/apis", "", json!(null)).await;
    assert_eq!(status["message"], "forbidden: User \"system:anonymous\" cannot get path \"/apis\"");
    // Discovery is for all that are known, and what is not served is forbidden, not missing.
    assert_eq!(get("/apis").await.0, 200);
    assert_eq!(get("/apis/apps/v1").await.0, 200);
    assert_eq!(raw(&cluster, "GET", "/version", "", json!(null)).await.0, 200);
    assert_eq!(get("/apis/none.dev/v1/things").await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn each_verb_and_subresource_is_a_right_of_its_own() {
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]},
        {"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get", "list", "delete"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
    ]);
    let cluster = ruled(&[
        ("namespaces/default/roles", role("some", rules)),
        ("namespaces/default/rolebindings", binding("some", "Role", "some", user("bob"))),
    ])
    .await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let table = [
        ("GET", MAPS.to_owned(), 200),
        ("GET", format!("{MAPS}?watch=1&timeoutSeconds=1"), 403),
        ("DELETE", MAPS.to_owned(), 403),
        ("POST", MAPS.to_owned(), 403),
        ("GET", "/api/v1/configmaps".to_owned(), 403),
        ("GET", "/api/v1/namespaces/kube-system/configmaps".to_owned(), 403),
        ("GET", "/apis/apps/v1/namespaces/default/deployments/a".to_owned(), 403),
        ("GET", "/apis/apps/v1/namespaces/default/deployments/a/scale".to_owned(), 404),
        ("GET", format!("{secrets}/mine"), 404),
        ("GET", format!("{secrets}/yours"), 403),
        ("GET", secrets.to_owned(), 403),
        ("GET", format!("{secrets}?fieldSelector=metadata.name%3Dmine"), 200),
        ("DELETE", format!("{secrets}?fieldSelector=metadata.name%3Dmine"), 403),
        ("GET", "/api/v1/namespaces/default".to_owned(), 200),
        ("GET", "/api/v1/namespaces/kube-system".to_owned(), 403),
    ];
    for (method, path, expected) in table {
        assert_eq!(code(&cluster, "bob", method, &path, json!({})).await, expected, "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_creates_needs_the_right_to_create_too() {
    let rules = |verbs: Value| json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
    let cluster = ruled(&[
        ("clusterroles", role("patches", rules(json!(["patch"])))),
        ("clusterroles", role("creates", rules(json!(["create"])))),
        ("clusterrolebindings", binding("patches", "ClusterRole", "patches", user("bob"))),
    ])
    .await;
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let one = format!("{MAPS}/a?fieldManager=m");
    let (code, status) = raw_as(&cluster, "bob", "PATCH", &one, APPLY, body.clone()).await;
    assert_eq!(code, 403);
    let message = status["message"].as_str().expect("a message");
    assert!(message.contains("\"a\" is forbidden: User \"bob\" cannot create resource"), "{message}");
    let path = format!("{RBAC}/namespaces/default/rolebindings");
    let creates = binding("creates", "ClusterRole", "creates", user("bob"));
    assert_eq!(self::code(&cluster, "admin", "POST", &path, creates).await, 201);
    assert_eq!(self::code(&cluster, "bob", "PATCH", &one, body.clone()).await, 201);
    // The new right is taken away with its binding, and an object that is there needs no create.
    assert_eq!(self::code(&cluster, "admin", "DELETE", &format!("{path}/creates"), json!({})).await, 200);
    assert_eq!(self::code(&cluster, "bob", "PATCH", &one, body).await, 200);
    assert_eq!(self::code(&cluster, "bob", "POST", MAPS, json!({"metadata": {"name": "b"}})).await, 403);
}

#[tokio::test(start_paused = true)]
async fn groups_and_service_accounts_have_what_is_bound_to_them() {
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let group = |name: &str| json!({"kind": "Group", "name": name});
    let account = json!({"kind": "ServiceAccount", "name": "robot", "namespace": "kube-system"});
    let cases = [
        (account, "system:serviceaccount:kube-system:robot", "system:serviceaccount:default:robot"),
        (
            group("system:serviceaccounts:default"),
            "system:serviceaccount:default:x",
            "system:serviceaccount:y:x",
        ),
        (group("system:authenticated"), "bob", "anonymous"),
        (group("devs"), "dora", "bob"),
        (user("bob"), "bob", "system:serviceaccount:default:bob"),
    ];
    for (subject, may, may_not) in cases {
        let cluster = ruled(&[
            ("clusterroles", role("all", all.clone())),
            ("clusterrolebindings", binding("all", "ClusterRole", "all", subject.clone())),
        ])
        .await;
        cluster.put_in_groups("dora", ["devs"]);
        assert_eq!(code(&cluster, may, "GET", MAPS, json!(null)).await, 200, "{subject}");
        assert_eq!(code(&cluster, may_not, "GET", MAPS, json!(null)).await, 403, "{subject}");
    }
}

#[tokio::test(start_paused = true)]
async fn reviews_say_what_the_rules_say() {
    let rules = json!([{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]}]);
    let cluster = ruled(&[
        ("namespaces/default/roles", role("reads", rules)),
        ("namespaces/default/rolebindings", binding("reads", "Role", "reads", user("bob"))),
        ("clusterrolebindings", binding("lost", "ClusterRole", "lost", user("bob"))),
    ])
    .await;
    let reviews = "/apis/authorization.k8s.io/v1";
    let attributes = |namespace: &str| json!({"group": "apps", "resource": "deployments", "verb": "get", "namespace": namespace});
    let ask = async |asker: &str, kind: &str, spec: Value| {
        let body = json!({"spec": spec});
        raw_as(&cluster, asker, "POST", &format!("{reviews}/{kind}"), JSON, body).await
    };
    let own = async |namespace: &str| {
        let spec = json!({"resourceAttributes": attributes(namespace)});
        ask("bob", "selfsubjectaccessreviews", spec).await.1["status"].clone()
    };
    let reason = "RBAC: allowed by RoleBinding \"reads/default\" of Role \"reads\" to User \"bob\"";
    assert_eq!(own("default").await, json!({"allowed": true, "reason": reason}));
    let lost = "RBAC: clusterrole.rbac.authorization.k8s.io \"lost\" not found";
    assert_eq!(own("").await, json!({"allowed": false, "reason": lost}));
    let spec = json!({"user": "bob", "resourceAttributes": attributes("default")});
    assert_eq!(ask("bob", "subjectaccessreviews", spec.clone()).await.0, 403);
    assert_eq!(ask("admin", "subjectaccessreviews", spec).await.1["status"]["allowed"], true);
    let spec = json!({"user": "eve", "groups": ["system:masters"], "nonResourceAttributes": {"path": "/x", "verb": "get"}});
    assert_eq!(ask("admin", "subjectaccessreviews", spec).await.1["status"], json!({"allowed": true}));
    assert_eq!(ask("admin", "subjectaccessreviews", json!({"user": "bob"})).await.0, 422);
    let (code, answer) = ask("bob", "selfsubjectrulesreviews", json!({"namespace": "default"})).await;
    let listed = answer["status"]["resourceRules"].as_array().expect("rules");
    let found = json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]});
    assert!(code == 201 && listed.contains(&found), "{answer}");
}

//! What RBAC allows and how it refuses, on both beds: each user is impersonated by the bed's own.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::bed::memkube_with_rights;
use crate::{At, config, everywhere_from};

const RBAC: &str = "apis/rbac.authorization.k8s.io/v1";
const APPLY: &str = "application/apply-patch+yaml";

impl At {
    /// A user of this namespace alone.
    fn user(&self, name: &str) -> String {
        format!("{name}-{}", self.namespace)
    }

    /// Gives a user a Role of these rules.
    async fn grant(&self, user: &str, rules: Value) -> Result<()> {
        self.create(&format!("{RBAC}/roles"), &json!({"metadata": {"name": user}, "rules": rules})).await?;
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user});
        let subject = json!({"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"});
        let body = json!({"metadata": {"name": user}, "roleRef": role, "subjects": [subject]});
        self.create(&format!("{RBAC}/rolebindings"), &body).await?;
        Ok(())
    }

    /// Asks until the authorizer has seen the rules; gives code and answer of the last time.
    async fn ask(&self, user: &str, method: &str, path: &str, body: &Value, wanted: u16) -> Result<Value> {
        let kind = if method == "PATCH" { APPLY } else { "application/json" };
        let mut last = (0, Value::Null);
        for _ in 0..100 {
            last = self.bed.call_as(user, method, path, kind, body).await?;
            if last.0 == wanted {
                return Ok(last.1);
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        anyhow::bail!("{user} {method} {path}: expected {wanted}, got {last:?}")
    }
}

#[test]
fn a_refusal_names_user_verb_resource_and_place() -> Result<()> {
    everywhere_from(memkube_with_rights, |at| async move {
        let user = at.user("bob");
        let ns = &at.namespace;
        let table = [
            (
                at.path("configmaps", "a"),
                format!(
                    "configmaps \"a\" is forbidden: User {user:?} cannot get resource \"configmaps\" in API group \"\" in the namespace {ns:?}"
                ),
                json!({"name": "a", "kind": "configmaps"}),
            ),
            (
                "/apis/apps/v1/deployments?watch=1".to_owned(),
                format!(
                    "deployments.apps is forbidden: User {user:?} cannot watch resource \"deployments\" in API group \"apps\" at the cluster scope"
                ),
                json!({"group": "apps", "kind": "deployments"}),
            ),
            (
                at.path("apis/apps/v1/deployments", "a/status"),
                format!(
                    "deployments.apps \"a\" is forbidden: User {user:?} cannot get resource \"deployments/status\" in API group \"apps\" in the namespace {ns:?}"
                ),
                json!({"name": "a", "group": "apps", "kind": "deployments"}),
            ),
            (
                format!("/api/v1/namespaces/{ns}"),
                format!(
                    "namespaces {ns:?} is forbidden: User {user:?} cannot get resource \"namespaces\" in API group \"\" in the namespace {ns:?}"
                ),
                json!({"name": ns, "kind": "namespaces"}),
            ),
            (
                "/metrics".to_owned(),
                format!("forbidden: User {user:?} cannot get path \"/metrics\""),
                json!({}),
            ),
        ];
        for (path, message, details) in table {
            let status = at.ask(&user, "GET", &path, &Value::Null, 403).await?;
            ensure!(status["message"] == message, "{status}");
            ensure!(status["reason"] == "Forbidden" && status["details"] == details, "{status}");
        }
        at.ask(&user, "GET", "/apis/apps/v1", &Value::Null, 200).await?;
        at.ask("system:anonymous", "GET", "/apis", &Value::Null, 403).await?;
        at.ask("system:anonymous", "GET", "/version", &Value::Null, 200).await?;
        Ok(())
    })
}

#[test]
fn an_apply_of_an_absent_object_needs_create_and_patch() -> Result<()> {
    everywhere_from(memkube_with_rights, |at| async move {
        let (user, one) = (at.user("bob"), at.path("configmaps", "a?fieldManager=m"));
        let rules =
            |verbs: &[&str]| json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
        at.grant(&user, rules(&["patch", "get"])).await?;
        at.ask(&user, "GET", &at.path("configmaps", "a"), &Value::Null, 404).await?;
        let body = config(json!({"k": "1"}));
        let status = at.ask(&user, "PATCH", &one, &body, 403).await?;
        let message = format!(
            "configmaps \"a\" is forbidden: User {user:?} cannot create resource \"configmaps\" in API group \"\" in the namespace {:?}",
            at.namespace
        );
        ensure!(status["message"] == message, "{status}");
        let dry = format!("{one}&dryRun=All");
        at.ask(&user, "PATCH", &dry, &body, 403).await?;
        let mut named = rules(&["create"]);
        named[0]["resourceNames"] = json!(["a"]);
        let other = at.user("eve");
        at.grant(&other, json!([named[0], rules(&["patch"])[0]])).await?;
        at.ask(&other, "PATCH", &one, &body, 201).await?;
        at.ask(&user, "PATCH", &one, &body, 200).await?;
        let mut post = body.clone();
        post["metadata"]["name"] = json!("b");
        at.ask(&other, "POST", at.path("configmaps", "").trim_end_matches('/'), &post, 403).await?;
        Ok(())
    })
}

#[test]
fn names_subresources_and_wildcards_count_as_the_authorizer_has_them() -> Result<()> {
    everywhere_from(memkube_with_rights, |at| async move {
        let user = at.user("bob");
        at.grant(
            &user,
            json!([
                {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get", "list", "watch", "deletecollection"]},
                {"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["*"]},
                {"apiGroups": ["batch"], "resources": ["*"], "verbs": ["list"]},
                {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
            ]),
        )
        .await?;
        let secrets = at.path("secrets", "");
        let secrets = secrets.trim_end_matches('/');
        let table = [
            ("GET", at.path("secrets", "mine"), 404),
            ("GET", at.path("secrets", "yours"), 403),
            ("GET", secrets.to_owned(), 403),
            ("GET", format!("{secrets}?fieldSelector=metadata.name%3Dmine"), 200),
            ("GET", format!("{secrets}?fieldSelector=metadata.name%3Dyours"), 403),
            // A deletion of a collection has no name, whatever it selects.
            ("DELETE", format!("{secrets}?fieldSelector=metadata.name%3Dmine"), 403),
            ("DELETE", secrets.to_owned(), 403),
            ("GET", at.path("apis/apps/v1/deployments", "a/scale"), 404),
            ("GET", at.path("apis/apps/v1/deployments", "a"), 403),
            ("GET", at.path("apis/batch/v1/jobs", "").trim_end_matches('/').to_owned(), 200),
            ("GET", at.path("apis/batch/v1/jobs", "a"), 403),
            ("GET", "/apis/batch/v1/jobs".to_owned(), 403),
            ("GET", format!("/api/v1/namespaces/{}", at.namespace), 200),
            ("GET", "/api/v1/namespaces/default".to_owned(), 403),
            ("GET", "/api/v1/namespaces".to_owned(), 403),
        ];
        for (method, path, expected) in table {
            at.ask(&user, method, &path, &Value::Null, expected).await?;
        }
        Ok(())
    })
}

#[test]
fn reviews_answer_from_the_rules() -> Result<()> {
    everywhere_from(memkube_with_rights, |at| async move {
        let user = at.user("bob");
        let rule = json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]});
        at.grant(&user, json!([rule])).await?;
        let attributes = |verb: &str| json!({"group": "apps", "resource": "deployments", "verb": verb, "namespace": at.namespace});
        let reviews = "/apis/authorization.k8s.io/v1";
        let own = format!("{reviews}/selfsubjectaccessreviews");
        let mut status = Value::Null;
        for _ in 0..100 {
            let body = json!({"spec": {"resourceAttributes": attributes("get")}});
            status = at.ask(&user, "POST", &own, &body, 201).await?["status"].clone();
            if status["allowed"] == true {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let reason = format!(
            "RBAC: allowed by RoleBinding {:?} of Role {user:?} to User {user:?}",
            format!("{user}/{}", at.namespace)
        );
        ensure!(status == json!({"allowed": true, "reason": reason}), "{status}");
        let body = json!({"spec": {"resourceAttributes": attributes("list")}});
        let answer = at.ask(&user, "POST", &own, &body, 201).await?;
        ensure!(answer["status"] == json!({"allowed": false}), "{answer}");
        let body = json!({"spec": {"user": user, "resourceAttributes": attributes("get")}});
        let others = format!("{reviews}/subjectaccessreviews");
        at.ask(&user, "POST", &others, &body, 403).await?;
        let (code, answer) = at.bed.call("POST", &others, "application/json", body.to_string()).await?;
        ensure!(code == 201 && answer["status"]["allowed"] == true, "{answer}");
        let none = json!({"spec": {"user": user}}).to_string();
        let (code, answer) = at.bed.call("POST", &others, "application/json", none).await?;
        ensure!(code == 422, "{answer}");
        let body = json!({"spec": {"namespace": at.namespace}});
        let answer = at.ask(&user, "POST", &format!("{reviews}/selfsubjectrulesreviews"), &body, 201).await?;
        let listed = answer["status"]["resourceRules"].as_array().cloned().unwrap_or_default();
        ensure!(listed.contains(&rule), "{answer}");
        let answer = at
            .ask(&user, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({}), 201)
            .await?;
        let info = &answer["status"]["userInfo"];
        ensure!(info["username"] == user && info["groups"] == json!(["system:authenticated"]), "{answer}");
        let none = json!({"spec": {}});
        at.ask(&user, "POST", &format!("{reviews}/selfsubjectrulesreviews"), &none, 400).await?;
        Ok(())
    })
}

#[test]
fn who_may_not_impersonate_is_told_whom() -> Result<()> {
    everywhere_from(memkube_with_rights, |at| async move {
        // The bed's own user may; what it may not be asked twice is seen from a review.
        let user = at.user("bob");
        let attributes = json!({"resource": "users", "verb": "impersonate", "name": "alice"});
        let body = json!({"spec": {"resourceAttributes": attributes}});
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let answer = at.ask(&user, "POST", path, &body, 201).await?;
        ensure!(answer["status"] == json!({"allowed": false}), "{answer}");
        let account = format!("system:serviceaccount:{}:robot", at.namespace);
        let group = format!("system:serviceaccounts:{}", at.namespace);
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "all"});
        let subject = json!({"kind": "Group", "name": group, "apiGroup": "rbac.authorization.k8s.io"});
        let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        at.create(&format!("{RBAC}/roles"), &json!({"metadata": {"name": "all"}, "rules": rules})).await?;
        let binding = json!({"metadata": {"name": "all"}, "roleRef": role, "subjects": [subject]});
        at.create(&format!("{RBAC}/rolebindings"), &binding).await?;
        at.ask(&account, "GET", &at.path("configmaps", "a"), &Value::Null, 404).await?;
        at.ask(&user, "GET", &at.path("configmaps", "a"), &Value::Null, 403).await?;
        Ok(())
    })
}

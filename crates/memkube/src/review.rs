//! Reviews of rights (`authorization.k8s.io`), answered from the rules of RBAC where they are looked at, else
//! everybody may do everything, and of who one is (`SelfSubjectReview`). Nothing is stored.

use std::sync::Arc;

use serde_json::{Value, json};

use super::failure::Failure;
use super::fault::Verb;
use super::handle::Answer;
use super::kinds::Kind;
use super::rights::{Attributes, Authority, Caller};
use super::store::Store;

/// The group of the reviews of rights.
const GROUP: &str = "authorization.k8s.io";

pub(super) fn is_one(kind: &Kind) -> bool {
    kind.group == GROUP || (kind.group == "authentication.k8s.io" && kind.kind == "SelfSubjectReview")
}

pub(super) fn answer(
    store: &mut Store,
    rights: Option<&(Caller, Arc<Authority>)>,
    user: &str,
    kind: &Kind,
    body: &Value,
    verb: Verb,
) -> Result<Answer, Failure> {
    if verb != Verb::Create {
        return Err(Failure::method_not_allowed());
    }
    if !body.is_object() {
        return Err(Failure::bad_request("the body of the request is not a JSON object"));
    }
    let spec = &body["spec"];
    let status = match (kind.kind.as_str(), rights) {
        ("SelfSubjectReview", rights) => {
            let caller = match rights {
                Some((caller, _)) => caller.clone(),
                None => Authority::default().caller(user),
            };
            let Caller { user, groups, .. } = caller;
            let status = json!({"userInfo": {"username": user, "groups": groups}});
            return Ok(Answer::Json(201, answered(kind, &Value::Null, &status)));
        }
        ("SelfSubjectRulesReview", None) => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        ("SelfSubjectRulesReview", Some((caller, _))) => {
            let namespace = spec["namespace"].as_str().unwrap_or_default();
            if namespace.is_empty() {
                return Err(Failure::bad_request("no namespace on request"));
            }
            let (objects, paths) = store.rights().rules(caller, namespace);
            json!({"resourceRules": objects, "nonResourceRules": paths, "incomplete": false})
        }
        (_, None) => json!({"allowed": true}),
        (_, Some((caller, authority))) => {
            let given = [&spec["resourceAttributes"], &spec["nonResourceAttributes"]];
            if given.iter().filter(|one| one.is_object()).count() != 1 {
                let why = "Invalid value: exactly one of nonResourceAttributes or resourceAttributes must be specified";
                return Err(Failure::invalid(&kind.kind, GROUP, "", "spec.resourceAttributes", why));
            }
            let other = (kind.kind != "SelfSubjectAccessReview").then(|| {
                let groups = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
                authority.named(spec["user"].as_str().unwrap_or_default(), groups)
            });
            verdict(store, other.as_ref().unwrap_or(caller), &Attributes::read(spec))
        }
    };
    Ok(Answer::Json(201, answered(kind, spec, &status)))
}

fn answered(kind: &Kind, spec: &Value, status: &Value) -> Value {
    let mut answer = json!({
        "kind": kind.kind, "apiVersion": kind.api_version(), "metadata": {"creationTimestamp": null},
        "status": status,
    });
    if !spec.is_null() {
        answer["spec"] = spec.clone();
    }
    answer
}

fn verdict(store: &mut Store, caller: &Caller, attributes: &Attributes) -> Value {
    let (allowed, reason) = match store.rights().check(caller, attributes) {
        Ok(reason) => (true, reason),
        Err(reason) => (false, reason),
    };
    let mut status = json!({"allowed": allowed});
    if !reason.is_empty() {
        status["reason"] = json!(reason);
    }
    status
}

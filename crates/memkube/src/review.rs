//! Reviews of rights (`authorization.k8s.io`): everybody may do everything, and nothing is stored.

use serde_json::{Value, json};

use super::failure::Failure;
use super::fault::Verb;
use super::handle::Answer;
use super::kinds::Kind;

/// The group of the reviews.
pub(super) const GROUP: &str = "authorization.k8s.io";

pub(super) fn answer(kind: &Kind, verb: Verb, body: &Value) -> Result<Answer, Failure> {
    if verb != Verb::Create {
        return Err(Failure::method_not_allowed());
    }
    if !body.is_object() {
        return Err(Failure::bad_request("the body of the request is not a JSON object"));
    }
    let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    let status = match kind.kind.as_str() {
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [all],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        _ => json!({"allowed": true}),
    };
    Ok(Answer::Json(
        201,
        json!({
            "kind": kind.kind, "apiVersion": kind.api_version(), "metadata": {"creationTimestamp": null},
            "spec": body["spec"], "status": status,
        }),
    ))
}

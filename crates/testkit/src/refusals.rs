//! A webhook that real API servers ask, on loopback: it refuses for ever what is done to ConfigMaps whose names say so,
//! with codes that a server itself has another meaning for. `create-409` is never made, `update-404` never changed,
//! `delete-500` never deleted.

use std::io;

use bytes::Bytes;
use futures::stream;
use http::{Request, Response, header};
use k8s_openapi::ByteString;
use memkube::listen::{Front, ListenError};
use serde_json::{Value, json};

/// What it says of each refusal.
pub const WORDS: &str = "ledger \"main\" is not to be had";
/// What it is called.
pub const WEBHOOK: &str = "ledgers.example.com";
/// What may be refused.
pub const OPERATIONS: [&str; 3] = ["create", "update", "delete"];
/// The names that it is asked about.
const NAMES: &str = "request.name.matches('^(create|update|delete)-[0-9]+$')";
const CODES: [(u16, &str); 4] = [(404, "NotFound"), (409, "Conflict"), (410, "Gone"), (500, "InternalError")];

/// A webhook that refuses what is done to ConfigMaps of some names. It ends with it.
pub struct Refusals {
    front: Front,
}

impl Refusals {
    /// Starts it.
    ///
    /// # Errors
    /// Nothing can be listened on.
    pub async fn start() -> Result<Self, ListenError> {
        let answer = |request: Request<Bytes>| async move {
            let review: Value = serde_json::from_slice(request.body()).map_err(io::Error::other)?;
            let text = Bytes::from(judge(&review).to_string());
            let answer = Response::builder().header(header::CONTENT_TYPE, "application/json");
            answer.body(stream::iter([Ok(text)])).map_err(io::Error::other)
        };
        Ok(Self { front: Front::start("refusals", answer).await? })
    }

    /// Has a cluster ask it about the ConfigMaps of one namespace.
    pub fn configuration(&self, name: &str, namespace: &str) -> Value {
        let ca = ByteString(self.front.ca.clone().into_bytes());
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [{
                "name": WEBHOOK, "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": format!("https://{}/", self.front.address), "caBundle": ca},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                // It is not asked about others, which are so no slower.
                "matchConditions": [{"name": "name", "expression": NAMES}],
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                    "operations": ["CREATE", "UPDATE", "DELETE"]}],
            }],
        })
    }
}

/// The names that one of these operations is refused of.
pub fn names(operation: &str) -> [String; 4] {
    CODES.map(|(code, _)| format!("{operation}-{code}"))
}

fn judge(review: &Value) -> Value {
    let request = &review["request"];
    let name = request["name"].as_str().unwrap_or_default();
    let operation = request["operation"].as_str().unwrap_or_default().to_lowercase();
    let refused = CODES.iter().find(|(code, _)| name == format!("{operation}-{code}"));
    let mut response = json!({"uid": request["uid"], "allowed": refused.is_none()});
    if let Some((code, reason)) = refused {
        response["status"] = json!({"code": code, "reason": reason, "message": WORDS});
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_name_says_is_refused_and_nothing_else() {
        let answer = |name: &str, operation: &str| {
            let review = json!({"request": {"uid": "1", "name": name, "operation": operation}});
            let response = judge(&review)["response"].clone();
            (response["allowed"] == true, response["status"]["code"].as_u64())
        };
        for (name, operation) in
            [("create-409", "CREATE"), ("update-404", "UPDATE"), ("delete-500", "DELETE")]
        {
            let code = name.split('-').nth(1).and_then(|code| code.parse().ok());
            assert_eq!(answer(name, operation), (false, code), "{name}");
        }
        for (name, operation) in [("update-404", "CREATE"), ("other", "DELETE"), ("create-403", "CREATE")] {
            assert_eq!(answer(name, operation), (true, None), "{name}");
        }
    }
}

//! Refusals, as the `metav1.Status` objects of the real server: code, reason, message and details.

use serde_json::{Value, json};

use super::kinds::Kind;

/// A refusal, not yet an HTTP answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failure {
    pub code: u16,
    pub reason: String,
    pub message: String,
    pub details: Value,
}

impl Failure {
    /// An empty reason is left out of the answer.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Failure { code, reason: reason.into(), message: message.into(), details: Value::Null }
    }

    fn about(code: u16, reason: &str, kind: &Kind, name: &str, message: String) -> Self {
        let mut details = json!({"name": name, "kind": kind.plural});
        if !kind.group.is_empty() {
            details["group"] = json!(kind.group);
        }
        Failure { details, ..Failure::new(code, reason, message) }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Failure::new(400, "BadRequest", message)
    }

    /// What a user may not do; `message` says it. An empty resource stands for a path.
    pub fn forbidden(group: &str, resource: &str, name: &str, message: &str) -> Self {
        let qualified = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let message = match (resource, name) {
            ("", _) => format!("forbidden: {message}"),
            (_, "") => format!("{qualified} is forbidden: {message}"),
            (_, name) => format!("{qualified} {name:?} is forbidden: {message}"),
        };
        let all = [("name", name), ("group", group), ("kind", resource)];
        let details = all.into_iter().filter(|(_, value)| !value.is_empty());
        let details = details.map(|(field, value)| (field.to_owned(), json!(value))).collect();
        Failure { details, ..Failure::new(403, "Forbidden", message) }
    }

    pub fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {name:?} not found", kind.qualified());
        Failure::about(404, "NotFound", kind, name, message)
    }

    /// The same for an object of the core group of which only the address is known.
    pub fn not_found_at(plural: &str, name: &str) -> Self {
        Failure::not_found(&Kind::new("v1", "", plural, false, false), name)
    }

    pub fn no_namespace(name: &str) -> Self {
        Failure::not_found(&Kind::new("v1", "Namespace", "namespaces", false, true), name)
    }

    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", kind.qualified());
        Failure::about(409, "AlreadyExists", kind, name, message)
    }

    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.qualified());
        Failure::about(409, "Conflict", kind, name, message)
    }

    pub fn modified(kind: &Kind, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Failure::conflict(kind, name, why)
    }

    /// The same for an object of which only the address is known.
    pub fn modified_at(group: &str, plural: &str, name: &str) -> Self {
        let api_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
        Failure::modified(&Kind::new(&api_version, "", plural, false, false), name)
    }

    /// A caller whose credentials are no longer good.
    pub fn unauthorized() -> Self {
        Failure::new(401, "Unauthorized", "Unauthorized")
    }

    pub fn precondition(kind: &Kind, name: &str, field: &str, wanted: &str, found: &str) -> Self {
        let why = format!(
            "Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
        );
        Failure::conflict(kind, name, &why)
    }

    /// A 422; `why` opens with the kind of the error, as in `Required value: is required`.
    pub fn invalid(kind: &str, group: &str, name: &str, field: &str, why: &str) -> Self {
        let dotted = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message = format!("{dotted} {name:?} is invalid: {field}: {why}");
        let reason = match why.split(':').next() {
            Some("Required value") => "FieldValueRequired",
            Some("Forbidden") => "FieldValueForbidden",
            Some("Unsupported value") => "FieldValueNotSupported",
            Some("Too long") => "FieldValueTooLong",
            Some("Duplicate value") => "FieldValueDuplicate",
            _ => "FieldValueInvalid",
        };
        let causes = json!([{"reason": reason, "message": why, "field": field}]);
        let details = json!({"name": name, "group": group, "kind": kind, "causes": causes});
        Failure { details, ..Failure::new(422, "Invalid", message) }
    }

    /// A 422 for several fields: (field, reason, message) of each.
    pub fn invalid_fields(
        kind: &str,
        group: &str,
        name: &str,
        wrong: &[(String, &'static str, String)],
    ) -> Self {
        let dotted = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let lines: Vec<_> = wrong.iter().map(|(field, _, why)| format!("{field}: {why}")).collect();
        let all = if let [one] = lines.as_slice() { one.clone() } else { format!("[{}]", lines.join(", ")) };
        let cause = |(field, reason, why): &(String, &'static str, String)| json!({"reason": reason, "message": why, "field": field});
        let causes: Vec<_> = wrong.iter().map(cause).collect();
        let details = json!({"name": name, "group": group, "kind": kind, "causes": causes});
        Failure { details, ..Failure::new(422, "Invalid", format!("{dotted} {name:?} is invalid: {all}")) }
    }

    /// Creating in a namespace that is being deleted.
    pub fn terminating(kind: &Kind, name: &str, namespace: &str) -> Self {
        let message = format!(
            "{} {name:?} is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
            kind.qualified()
        );
        let mut failure = Failure::about(403, "Forbidden", kind, name, message);
        failure.details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        failure
    }

    /// Creating an object whose CRD is being deleted.
    pub fn ending(kind: &Kind, name: &str) -> Self {
        let why = "create not allowed while custom resource definition is terminating";
        let message = format!("{} {name:?} is forbidden: {why}", kind.qualified());
        Failure::about(403, "Forbidden", kind, name, message)
    }

    /// A list of a kind that is served since a moment.
    pub fn initializing() -> Self {
        let message = "storage is (re)initializing";
        let details = json!({"retryAfterSeconds": 1});
        Failure { details, ..Failure::new(429, "TooManyRequests", message) }
    }

    /// A path that a server which has just started does not know yet.
    pub fn starting() -> Self {
        let message =
            "the request has been made before all known HTTP paths have been installed, please try again";
        let details = json!({"retryAfterSeconds": 5});
        Failure { details, ..Failure::new(503, "ServiceUnavailable", message) }
    }

    /// An apply that meets other managers' values: (path, manager as printed), in order.
    pub fn apply_conflict(conflicts: &[(String, String)]) -> Self {
        let message = match conflicts {
            [(path, manager)] => format!("Apply failed with 1 conflict: conflict with {manager}: {path}"),
            all => {
                let mut managers: Vec<_> = all.iter().map(|(_, manager)| manager).collect();
                managers.sort();
                managers.dedup();
                let lines = managers.into_iter().flat_map(|manager| {
                    let paths = all.iter().filter(move |(_, of)| of == manager);
                    std::iter::once(format!("conflicts with {manager}:"))
                        .chain(paths.map(|(path, _)| format!("- {path}")))
                });
                format!("Apply failed with {} conflicts: {}", all.len(), lines.collect::<Vec<_>>().join("\n"))
            }
        };
        let causes: Vec<_> = conflicts
            .iter()
            .map(|(path, manager)| {
                json!({
                    "reason": "FieldManagerConflict",
                    "message": format!("conflict with {manager}"),
                    "field": path,
                })
            })
            .collect();
        Failure { details: json!({"causes": causes}), ..Failure::new(409, "Conflict", message) }
    }

    /// A watch or a page that needs history which is gone.
    pub fn expired(message: impl Into<String>) -> Self {
        Failure::new(410, "Expired", message)
    }

    /// A list that wants a state newer than there is.
    pub fn too_large(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let causes = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
        let details = json!({"causes": causes, "retryAfterSeconds": 1});
        Failure { details, ..Failure::new(504, "Timeout", message) }
    }

    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Failure::new(405, "MethodNotAllowed", message)
    }

    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}
